//! The volume that each Thread works in, and what its worktree begins with.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::prepared::{PreparedVolumes, clone_seconds, is_usual};

/// Path of a folder in a repository, of any names that Git takes: without a slash at its ends, and without `.`, `..` or
/// control characters in it.
const SPARSE_FOLDER: &str = r"^([^./\p{Cc}][^/\p{Cc}]*|\.[^./\p{Cc}][^/\p{Cc}]*|\.\.[^/\p{Cc}]+)(/([^./\p{Cc}][^/\p{Cc}]*|\.[^./\p{Cc}][^/\p{Cc}]*|\.\.[^/\p{Cc}]+))*$";

/// The volume that each Thread works in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorktreeSpec {
    /// Requested size of the volume.
    #[serde(default = "size")]
    #[schemars(regex(pattern = r"^[1-9][0-9]*(Mi|Gi|Ti|M|G|T)$"))]
    pub size: String,
    /// StorageClass; the cluster's default if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage_class_name: Option<String>,
    /// Access mode of the volume, which decides whether a Thread's pods have to share a node.
    #[serde(default)]
    #[schemars(extend(
        "enum" = ["ReadWriteOncePod"],
        "x-kubernetes-validations" = [{
            "rule": "self != 'ReadWriteOncePod'",
            "message": "ReadWriteOncePod lets one pod use the volume, but the roles of a Thread share it: choose ReadWriteOnce or ReadWriteMany"
        }]
    ))]
    pub access_mode: AccessMode,
    /// A shell command that prepares a worktree before the first command of a Thread, such as
    /// `npm ci`. It runs again when it or a lock file has changed, and after it failed or was cut
    /// off, so it has to bear repetition. Absent: found by the files at the top of the tree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 2048))]
    pub setup: Option<String>,
    /// Whether the volumes of new Threads begin with what a set-up of the base branch has made.
    #[serde(default, skip_serializing_if = "PreparedVolumes::is_none")]
    pub prepared: PreparedVolumes,
    /// Seconds that the driver may take for a volume that is cloned or restored from a prepared one, from when it is asked; 60 if absent.
    #[serde(default = "clone_seconds", skip_serializing_if = "is_usual")]
    #[schemars(range(min = 10, max = 1800))]
    pub clone_seconds: u32,
    /// VolumeSnapshotClass of the snapshots of `prepared: Snapshot`. The default one of the volume's driver if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub snapshot_class_name: Option<String>,
    /// Folders of the repository that worktrees have, such as `services/shop`: with all that is in them, the files at the
    /// top and those directly above each (a sparse checkout in cone mode). Roles add others when they need them. The
    /// whole repository if none is named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(min = 1, max = 255), regex(pattern = SPARSE_FOLDER)))]
    pub sparse: Vec<String>,
    /// The shell command whose success proves a change, such as `cargo test`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 2048))]
    pub test: Option<String>,
    /// Set-ups, test runs and commands that build at the same time, over the Repo's Threads.
    #[serde(default = "builds")]
    #[schemars(range(min = 1, max = 100))]
    pub max_concurrent_builds: u32,
}

impl Default for WorktreeSpec {
    fn default() -> Self {
        Self {
            size: size(),
            storage_class_name: None,
            access_mode: AccessMode::default(),
            setup: None,
            prepared: PreparedVolumes::None,
            clone_seconds: clone_seconds(),
            snapshot_class_name: None,
            sparse: Vec::new(),
            test: None,
            max_concurrent_builds: builds(),
        }
    }
}

/// Access modes in which several pods of a Thread can use one volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum AccessMode {
    /// Mounted by pods on one node at a time: a Thread's pods share a node.
    #[default]
    ReadWriteOnce,
    /// Mounted by pods on many nodes.
    ReadWriteMany,
}

fn size() -> String {
    "2Gi".to_owned()
}

const fn builds() -> u32 {
    2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worktree_of_the_whole_repository_is_written_as_before() {
        let written = serde_json::to_value(WorktreeSpec::default()).unwrap();
        // Pods and prepared volumes are replaced where their Repo's worktree is written otherwise.
        let are_new = ["sparse", "cloneSeconds"].iter().any(|field| written.get(field).is_some());
        assert!(!are_new && written.get("size").is_some(), "{written}");
    }
}
