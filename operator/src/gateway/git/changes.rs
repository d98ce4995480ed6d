//! What branches change, as the remote has them.

use std::collections::BTreeMap;
use std::sync::Arc;

use codebutler_crds::Repo;

use super::command::{CommandError, Git};
use super::{Bench, Fresh, bench_of};
use crate::gateway::api::Shared;
use crate::gateway::context::ThreadKey;

/// Files that are read of one branch.
const MAX_FILES: usize = 2_000;

/// The files in which each branch differs from where it left the base branch. Branches that are not
/// on the remote are left out, and so are all where the remote can't be asked: who is only warned by
/// this is not kept from working. `thread` is told what is wrong with the repository's policy.
pub async fn changed_files(
    gateway: &Shared,
    repo: &Arc<Repo>,
    thread: &ThreadKey,
    branches: &[String],
) -> BTreeMap<String, Vec<String>> {
    let mut all = BTreeMap::new();
    let bench = match bench_of(gateway, repo, thread, Fresh::IfPossible).await {
        Ok(bench) => bench,
        Err(error) => {
            tracing::warn!(%error, "what branches change is not known");
            return all;
        }
    };
    let Bench { mirror, snapshot, .. } = &bench;
    let tip = |branch: &str| snapshot.refs.get(&format!("refs/heads/{branch}"));
    let Some(base) = tip(&repo.spec.git.branch) else { return all };
    for branch in branches {
        let Some(tip) = tip(branch).filter(|tip| *tip != base) else { continue };
        match between(mirror.git(), base, tip).await {
            Ok(files) => drop(all.insert(branch.clone(), files)),
            Err(error) => tracing::warn!(branch, %error, "what a branch changes is not known"),
        }
    }
    all
}

async fn between(git: &Git, base: &str, tip: &str) -> Result<Vec<String>, CommandError> {
    let range = format!("{base}...{tip}");
    let plain = ["diff", "--name-only", "-z", "--no-renames", "--no-ext-diff", "--no-textconv"];
    let names = git.run(&[&plain[..], &[&range, "--"]].concat(), b"").await?;
    let names = names.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    let shown = names.map(|name| String::from_utf8_lossy(name).replace(char::is_control, "?"));
    Ok(shown.take(MAX_FILES).collect())
}
