//! Events of Kubernetes objects.

use serde::Serialize;

/// An event to record on an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EventNotice {
    /// True if it is a warning.
    pub warning: bool,
    pub reason: &'static str,
    pub note: String,
}

impl EventNotice {
    /// Makes a notice of something that went as it should.
    pub fn normal(reason: &'static str, note: impl Into<String>) -> Self {
        Self { warning: false, reason, note: note.into() }
    }

    /// Makes a notice of something that went wrong.
    pub fn warning(reason: &'static str, note: impl Into<String>) -> Self {
        Self { warning: true, reason, note: note.into() }
    }
}
