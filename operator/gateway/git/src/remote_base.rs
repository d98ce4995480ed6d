//! The remote with its base branch, as it is at one moment.

use std::sync::Arc;

use codebutler_crds::Repo;

use super::host::{GitHost, RemoteRefs};
use super::mirror::{MirrorError, RepoMirror};
use super::{Fresh, update_copy};
use crate::services::GitServices;

/// The branches of a remote at one moment, and a copy of them.
pub(super) struct RemoteBase {
    pub host: GitHost,
    pub mirror: Arc<RepoMirror>,
    pub refs: Arc<RemoteRefs>,
    /// The base branch's commit.
    pub base: String,
}

impl RemoteBase {
    /// Asks the remote; nothing where it has no such base branch.
    ///
    /// # Errors
    /// When the remote can't be asked.
    pub(super) async fn ask(
        gateway: &GitServices,
        repo: &Repo,
    ) -> Result<Option<Self>, MirrorError> {
        let host = GitHost::of(&gateway.context, repo).await?;
        let mirror = gateway.mirrors.of(repo);
        let snapshot = update_copy(gateway, repo, &mirror, &host, Fresh::Must).await?;
        let refs = snapshot.refs;
        let base = refs.get(&format!("refs/heads/{}", repo.spec.git.branch)).cloned();
        Ok(base.map(|base| Self { host, mirror, refs, base }))
    }
}
