//! Key of a Thread: its namespace and name.

use std::fmt;

use codebutler_crds::Thread;
use kube::ResourceExt as _;

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ThreadKey {
    pub namespace: String,
    pub name: String,
}

impl From<&Thread> for ThreadKey {
    fn from(thread: &Thread) -> Self {
        Self { namespace: thread.namespace().unwrap_or_default(), name: thread.name_any() }
    }
}

impl fmt::Display for ThreadKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}
