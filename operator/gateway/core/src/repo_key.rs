//! Key of a Repo: its namespace and name.

use codebutler_crds::Repo;
use kube::ResourceExt as _;

/// Namespace and name of a Repo.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RepoKey {
    pub namespace: String,
    pub name: String,
}

impl From<&Repo> for RepoKey {
    fn from(repo: &Repo) -> Self {
        Self { namespace: repo.namespace().unwrap_or_default(), name: repo.name_any() }
    }
}
