//! Settings of a repository that its owners choose: merge methods, and conditions that have to hold
//! before a merge.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;

use super::people::find_pull;
use super::rest::merge;
use super::settings::RepositoryRules;
use super::state::{HostedPull, HostedRepository};
use super::{DrivenRepository, GitHubError};

impl HostedRepository {
    /// Reason for which a pull request may not be merged yet, in the host's words.
    pub(super) fn unmet(&self, pull: &HostedPull) -> Option<String> {
        let state = |name: &String| {
            let of = self.checks.iter().rev().filter(|check| check.commit == pull.head_sha);
            of.into_iter().find(|check| check.name == *name).map(|check| check.state.as_deref())
        };
        self.rules.required_checks.iter().find_map(|name| {
            let stands = match state(name) {
                None => "expected",
                Some(None) => "in progress",
                Some(Some("success" | "neutral" | "skipped")) => return None,
                Some(Some(_)) => "failing",
            };
            Some(format!("Required status check \"{name}\" is {stands}."))
        })
    }
}

/// Installs, or removes, the hook by which Git itself refuses what the rules forbid. The words are the real host's, but
/// for the reason in the report, which a hook can't choose.
fn guard_repository(repository: &HostedRepository) -> Result<(), GitHubError> {
    let path = repository.git.dir().join("hooks/pre-receive");
    let rules = &repository.rules;
    let checks = [
        rules.no_branches.as_deref().map(check_creation),
        rules.no_pushes.as_deref().map(check_pushes),
        rules.signed.as_deref().map(check_signatures),
    ];
    let checks: Vec<_> = checks.into_iter().flatten().collect();
    if checks.is_empty() {
        return match std::fs::remove_file(path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
            _ => Ok(()),
        };
    }
    let script =
        format!("#!/bin/sh\nwhile read -r old new ref; do\n{}done\nexit 0\n", checks.concat());
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::write(&path, script)?;
    std::fs::set_permissions(&path, Permissions::from_mode(0o755))?;
    Ok(())
}

/// Part of the hook that refuses new branches whose names begin so.
fn check_creation(prefix: &str) -> String {
    format!(
        "  case $old in *[!0]*) ;; *) case $ref in 'refs/heads/{prefix}'*)\n    \
         echo \"error: GH013: Repository rule violations found for $ref.\" >&2\n    \
         echo '- Cannot create ref due to creations being restricted.' >&2\n    exit 1 ;;\n  esac ;; esac\n"
    )
}

/// Part of the hook that refuses every push to branches whose names begin so.
fn check_pushes(prefix: &str) -> String {
    format!(
        "  case $ref in 'refs/heads/{prefix}'*)\n    \
         echo \"error: GH006: Protected branch update failed for $ref.\" >&2\n    \
         echo '- Changes must be made through a pull request.' >&2\n    exit 1 ;;\n  esac\n"
    )
}

/// Part of the hook that refuses commits without a signature on branches whose names begin so.
fn check_signatures(prefix: &str) -> String {
    format!(
        "  case $ref in 'refs/heads/{prefix}'*)\n    for commit in $(git rev-list \"$new\" --not --all); do\n      \
         git cat-file commit \"$commit\" | grep -q '^gpgsig' && continue\n      \
         echo \"error: GH013: Repository rule violations found for $ref.\" >&2\n      \
         echo '- Commits must have verified signatures.' >&2\n      \
         echo '  Found 1 violation:' >&2\n      echo \"  $commit\" >&2\n      exit 1\n    done ;;\n  esac\n"
    )
}

impl DrivenRepository {
    /// Changes settings and rules.
    ///
    /// # Errors
    /// When the repository is gone.
    pub async fn set_rules(
        &self,
        change: impl FnOnce(&mut RepositoryRules),
    ) -> Result<(), GitHubError> {
        self.with(async |repository| {
            change(&mut repository.rules);
            guard_repository(repository)
        })
        .await
    }

    /// Renames a branch: pull requests follow, and so does the default branch.
    ///
    /// # Errors
    /// When there is no such branch.
    pub async fn rename_branch(&self, from: &str, to: &str) -> Result<(), GitHubError> {
        self.with(async |repository| {
            repository.git.run(&["branch", "-m", from, to]).await?;
            repository.renamed.insert(from.to_owned(), to.to_owned());
            if repository.default_branch == from {
                to.clone_into(&mut repository.default_branch);
            }
            for pull in repository.pulls.values_mut() {
                for name in [&mut pull.base, &mut pull.head].into_iter().filter(|n| *n == from) {
                    to.clone_into(name);
                }
            }
            Ok(())
        })
        .await
    }

    /// The pull requests in the merge queue.
    ///
    /// # Errors
    /// When the repository is gone.
    pub async fn queue(&self) -> Result<Vec<u64>, GitHubError> {
        self.with(async |repository| Ok(repository.queue.clone())).await
    }

    /// The merge queue is done with a pull request: merges it, or throws it out.
    ///
    /// # Errors
    /// When it is not in the queue.
    pub async fn leave_queue(&self, number: u64, merged: bool) -> Result<(), GitHubError> {
        self.with(async |repository| {
            let at = repository.queue.iter().position(|queued| *queued == number);
            let missing = || GitHubError::Name(format!("{number} is not queued"));
            repository.queue.remove(at.ok_or_else(missing)?);
            find_pull(repository, number)?.updated_at = jiff::Timestamp::now();
            if merged {
                let taken = find_pull(repository, number)?.clone();
                let message = format!("{} (#{number})\n", taken.title);
                let login = "github-merge-queue[bot]";
                let sha = merge::make_commit(repository, &taken, true, &message, login).await?;
                merge::record_merge(repository, &taken, &sha, login);
            }
            Ok(())
        })
        .await
    }
}
