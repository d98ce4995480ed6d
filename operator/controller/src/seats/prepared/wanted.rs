//! The claim that a Repo's prepared volume should have, by all that it is made from.

use codebutler_crds::prepared::PreparedVolumes;
use codebutler_crds::{Repo, names};
use kube::ResourceExt as _;
use serde_json::json;
use sha2::{Digest as _, Sha256};

use crate::seats::making::SeatMaker;
use crate::thread::volume;

/// Name of the claim for everything that it is made from, as that is now.
pub(super) fn wanted_claim(repo: &Repo, maker: &SeatMaker, locks: &str) -> String {
    let worktree = &repo.spec.worktree;
    let image = maker.role.spec.workspace.image.as_ref().unwrap_or(&maker.args.workspace_image);
    let mut parts = json!([
        repo.uid(),
        repo.spec.git.branch,
        worktree.setup,
        volume::describe_source(repo),
        image,
        locks
    ]);
    if let Some(parts) = parts.as_array_mut() {
        if !worktree.sparse.is_empty() {
            parts.push(json!(worktree.sparse));
        }
        // A snapshot can't be changed, and what is said of clones says nothing of it.
        if worktree.prepared == PreparedVolumes::Snapshot {
            parts.push(json!({"snapshotClass": worktree.snapshot_class_name}));
        }
    }
    let digest = Sha256::digest(parts.to_string());
    let id = digest.iter().take(4).fold(0, |id, byte| (id << 8) | u32::from(*byte));
    names::prepared_name(&repo.name_any(), id)
}
