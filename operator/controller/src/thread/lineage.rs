//! Checks that a Thread's parent is valid: of the same Repo, or with a part that is built in this one, existing, and
//! not too far up. Asked until the first role has begun; what becomes of a parent later is none of its children's
//! business.

use codebutler_crds::Thread;
use kube::ResourceExt as _;
use serde::Serialize;

use crate::health::{HealthLevel, ObjectHealth};

/// Threads that may stand above each other, with the lowest one.
const DEPTH: usize = 3;

/// Result of checking the Threads above a Thread.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) enum ThreadLineage {
    /// The lineage is valid.
    #[default]
    Sound,
    /// This parent does not exist.
    Missing(String),
    /// This parent belongs to another Repo.
    Elsewhere(String),
    /// The Thread is among its own ancestors, or these are too many.
    TooDeep,
}

impl ThreadLineage {
    /// Follows `spec.parent` up; `find` looks a Thread up by name.
    pub(crate) fn of(thread: &Thread, find: impl Fn(&str) -> Option<Thread>) -> Self {
        let mut current = thread.clone();
        for _ in 0..DEPTH {
            let Some(name) = current.spec.parent.clone() else { return Self::Sound };
            let Some(parent) = find(&name) else {
                // Further up it may well have been deleted since.
                let own = current.name_any() == thread.name_any();
                return if own { Self::Missing(name) } else { Self::Sound };
            };
            if parent.spec.repo != thread.spec.repo && !is_split_into(&parent, &thread.spec.repo) {
                return Self::Elsewhere(name);
            }
            current = parent;
        }
        Self::TooDeep
    }

    /// Says what is wrong and what to do; None if the lineage is sound.
    pub(crate) fn verdict(&self, thread: &Thread) -> Option<ObjectHealth> {
        let (reason, message) = match self {
            Self::Sound => return None,
            Self::Missing(parent) => (
                "ParentNotFound",
                format!(
                    "spec.parent: there is no Thread `{parent}` in this namespace: create it, or \
                     delete this Thread"
                ),
            ),
            Self::Elsewhere(parent) => (
                "ParentElsewhere",
                format!(
                    "spec.parent: Thread `{parent}` does not belong to Repo `{}`: delete this Thread \
                     and create it with a parent of the same Repo",
                    thread.spec.repo
                ),
            ),
            Self::TooDeep => (
                "ParentTooDeep",
                format!(
                    "spec.parent: at most {DEPTH} Threads may be parts of each other, and none of \
                     itself: delete this Thread and create it with another parent"
                ),
            ),
        };
        Some(ObjectHealth::new(HealthLevel::Stalled, reason, message))
    }
}

/// True if people approved that a part of a Thread's request is built in another Repo.
fn is_split_into(parent: &Thread, repo: &str) -> bool {
    let split = parent.status.as_ref().and_then(|status| status.split.as_ref());
    let split = split.filter(|split| split.approved_by.is_some());
    split.is_some_and(|split| split.parts.iter().any(|part| part.repo.as_deref() == Some(repo)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use serde_json::json;

    fn thread(name: &str, repo: &str, parent: Option<&str>) -> Thread {
        let mut thread = testing::thread(&json!({}));
        thread.metadata.name = Some(name.to_owned());
        thread.spec.repo = repo.to_owned();
        thread.spec.parent = parent.map(str::to_owned);
        thread
    }

    #[test]
    fn a_parent_is_there_and_of_the_same_repo_and_not_too_far_up() {
        let all = [
            thread("top", "shop", None),
            thread("mid", "shop", Some("top")),
            thread("low", "shop", Some("mid")),
            thread("other", "blog", None),
            thread("orphan", "shop", Some("gone")),
            thread("round", "shop", Some("about")),
            thread("about", "shop", Some("round")),
        ];
        let find = |name: &str| all.iter().find(|thread| thread.name_any() == name).cloned();
        for (parent, expected) in [
            ("top", ThreadLineage::Sound),
            ("mid", ThreadLineage::Sound),
            ("low", ThreadLineage::TooDeep),
            ("gone", ThreadLineage::Missing("gone".to_owned())),
            ("orphan", ThreadLineage::Sound),
            ("other", ThreadLineage::Elsewhere("other".to_owned())),
            ("round", ThreadLineage::TooDeep),
        ] {
            let found = ThreadLineage::of(&thread("new", "shop", Some(parent)), find);
            assert_eq!(found, expected, "{parent}");
        }
        let mut split = thread("split", "blog", None);
        let parts = json!([{"title": "t", "request": "r", "repo": "shop"}]);
        let of = |by: Option<&str>| {
            let split =
                json!({"asked": "5.000000", "role": "pm", "parts": parts, "approvedBy": by});
            serde_json::from_value(json!({ "split": split })).unwrap()
        };
        for (by, expected) in [
            (Some("U1"), ThreadLineage::Sound),
            (None, ThreadLineage::Elsewhere("split".to_owned())),
        ] {
            split.status = Some(of(by));
            let known = split.clone();
            let part = thread("part", "shop", Some("split"));
            assert_eq!(ThreadLineage::of(&part, |_| Some(known.clone())), expected);
        }
        let missing = ThreadLineage::Missing("gone".to_owned()).verdict(&all[0]).unwrap();
        assert!(missing.message.contains("no Thread `gone`"), "{}", missing.message);
    }
}
