//! Identity by which messages of ours are found again in Slack.

use codebutler_crds::Thread;
use kube::ResourceExt as _;
use serde_json::Value;

/// Identity by which a message of ours is found again. Words of one kind can't pass for those of another, nor
/// words that are asked about for others.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct MessageIdentity {
    role: String,
    pub kind: String,
    key: String,
    digest: Option<String>,
}

impl MessageIdentity {
    /// Identity of a message that people can't say yes to.
    pub(crate) fn of(role: &str, kind: &str, key: &str) -> Self {
        Self { role: role.to_owned(), kind: kind.to_owned(), key: key.to_owned(), digest: None }
    }

    /// Identity of a message that people can say yes to: these words and no others.
    pub(super) fn with_digest(self, digest: Option<String>) -> Self {
        Self { digest, ..self }
    }

    /// Identity of a file; its name has the key in it.
    pub(super) fn file(name: &str) -> Self {
        Self::of("", "file", name)
    }

    pub(super) fn read(payload: &Value) -> Self {
        let text = |name: &str| payload[name].as_str().unwrap_or_default();
        let digest = payload["digest"].as_str().map(str::to_owned);
        Self::of(text("role"), text("kind"), text("key")).with_digest(digest)
    }
}

/// True if a message's metadata speaks of exactly this Thread.
pub(crate) fn speaks_of(payload: &Value, thread: &Thread) -> bool {
    let uid = payload["uid"].as_str();
    payload["thread"] == thread.name_any()
        && uid.is_none_or(|uid| thread.uid().as_deref() == Some(uid))
}
