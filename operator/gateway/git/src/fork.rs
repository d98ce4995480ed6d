//! Finds commits that people took off the base branch by a force push and that a branch still carries as if they were
//! its own: merging the branch would put them back.

use std::collections::HashSet;

use codebutler_crds::Thread;
use codebutler_crds::thread::ForkPoint;
use codebutler_gateway_core::redact::SecretRedactor;
use jiff::Timestamp;

use super::command::{CommandError, GitRepository};
use super::graft::{contains, is_known};
use super::named::{MOST_NAMED, NamedCommit, name_commits, short_id};
use super::removed;

/// Commits that are looked for in a branch.
const MOST_LISTED: &str = "--max-count=20000";

/// Commits that were taken off the base branch and that merging a branch would put back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemovedFromBase {
    /// Name of the base branch.
    base: String,
    /// Newest first, and not all of them.
    named: Vec<NamedCommit>,
    pub(crate) count: usize,
}

impl RemovedFromBase {
    /// Warns the people who are asked whether to merge.
    pub fn warn(&self) -> String {
        let (count, were) = self.count();
        format!(
            ":warning: Puts back {count} that {were} taken off `{}`: {}",
            self.base,
            name_commits(self.named.iter().cloned(), self.count)
        )
    }

    /// Describes them for the conversation, with the remedy.
    pub(crate) fn describe(&self, branch: &str, fork: &str) -> String {
        let (base, (count, were)) = (&self.base, self.count());
        format!(
            ":warning: Somebody rewrote `{base}` on the remote: {count} that {were} taken off it, this thread's branch \
             `{branch}` has still: {}. Merging the branch would put back what they did. To leave that out, put the branch on \
             top of what `{base}` is now (`git rebase --onto {base} {}`) and force-push it: the roles go on from there.",
            name_commits(self.named.iter().cloned(), self.count),
            short_id(fork)
        )
    }

    fn count(&self) -> (String, &'static str) {
        match self.count {
            1 => ("1 commit".to_owned(), "was"),
            count => (format!("{count} commits"), "were"),
        }
    }
}

/// Finds commits that the base branch had up to `fork`, that the branch has, and that are on the base branch no more,
/// under no id. `base`: its name and tip.
pub(crate) async fn find_removed(
    git: &GitRepository,
    (base, base_tip): (&str, &str),
    (fork, tip): (&str, &str),
    redactor: &SecretRedactor,
) -> Result<Option<RemovedFromBase>, CommandError> {
    if contains(git, base_tip, fork).await? {
        return Ok(None);
    }
    if !is_known(git, fork).await? {
        return Ok(None);
    }
    let held = git.run(&["rev-list", MOST_LISTED, tip, "--not", base_tip], b"").await?;
    let held = String::from_utf8_lossy(&held);
    let held: HashSet<&str> = held.lines().collect();
    let loss =
        removed::find_loss(git, (fork, base_tip), None, (redactor, Timestamp::now())).await?;
    let is_held = |commit: &str| held.contains(commit) && !loss.moved.contains(commit);
    let mut named: Vec<NamedCommit> =
        loss.commits.iter().map(NamedCommit::from).filter(|one| is_held(&one.id)).collect();
    // More than are named is known of all of them alike.
    let unnamed = loss.count.unwrap_or_default().saturating_sub(loss.commits.len());
    let count = named.len() + if held.contains(fork) { unnamed } else { 0 };
    named.truncate(MOST_NAMED);
    Ok((count > 0).then(|| RemovedFromBase { base: base.to_owned(), named, count }))
}

/// Returns the recorded fork point of a Thread's branch on this base branch, if known.
pub(crate) fn fork_of<'t>(thread: &'t Thread, base: &str) -> Option<&'t ForkPoint> {
    let radar = thread.status.as_ref()?.radar.as_deref()?;
    radar.fork.as_ref().filter(|fork| fork.base == base)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TestRepository;

    #[tokio::test]
    async fn what_was_taken_off_the_base_branch_and_a_branch_has_is_named() {
        let shop = TestRepository::new();
        let first = shop.commit(&[], &[("a", "1\n")]);
        let secret = shop.commit(&[&first], &[("config.env", "KEY=1\n")]);
        let fork = shop.commit(&[&secret], &[("b", "1\n")]);
        let own = shop.commit(&[&fork], &[("c", "1\n")]);
        let base = shop.commit(&[&first], &[("b", "1\n")]);
        let git = shop.git();
        let of = async |base: &str, tip: &str| {
            let none = SecretRedactor::default();
            find_removed(&git, ("main", base), (&fork, tip), &none).await.unwrap()
        };
        let later = shop.commit(&[&fork], &[("d", "1\n")]);
        assert_eq!(of(&later, &own).await, None, "it only moved on");
        // One of the two is on the base branch under another id.
        let found = of(&base, &own).await.unwrap();
        assert!(found.count == 1 && found.named[0].id == secret, "{found:?}");
        let said = found.warn();
        assert!(said.contains("Puts back 1 commit that was taken off `main`: `"), "{said}");
        let told = found.describe("codebutler/t", &fork);
        assert!(told.contains(&format!("git rebase --onto main {}`", short_id(&fork))), "{told}");
        let rebased = shop.commit(&[&base], &[("c", "1\n")]);
        assert_eq!(of(&base, &rebased).await, None, "it was left out");
        let merged = shop.commit(&[&own, &base], &[]);
        assert_eq!(of(&base, &merged).await.map(|found| found.count), Some(1), "a merge keeps it");
    }
}
