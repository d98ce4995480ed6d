//! Finds commits that people took off the base branch by a force push and that a branch still carries as if they were
//! its own: merging the branch would put them back.

use std::collections::HashSet;

use codebutler_crds::Thread;
use codebutler_crds::thread::ForkPoint;
use codebutler_gateway_core::redact::SecretRedactor;
use jiff::Timestamp;

use super::command::{CommandError, GitRepository};
use super::commit_text::{MOST_NAMED, NamedCommit, name_commits, short_id};
use super::graft::{contains, is_known};
use super::removed;

/// Commits that are looked for in a branch.
const MOST_LISTED: &str = "--max-count=20000";

/// Commits that were taken off the base branch and that merging a branch would put back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemovedFromBase {
    /// Name of the base branch.
    base: String,
    /// Commit at which the branch left it.
    fork: String,
    /// Newest first, and not all of them.
    named: Vec<NamedCommit>,
    pub(crate) count: usize,
}

impl RemovedFromBase {
    /// Warns the people who are asked whether to merge.
    pub fn warn(&self) -> String {
        let Self { base, fork, .. } = self;
        let (count, were, _, them) = self.count();
        format!(
            ":warning: Puts back {count} that {were} taken off `{base}`: {}. To leave {them} out, rebase the branch before you \
             merge: `git rebase --onto {base} {}`, and a force-push",
            name_commits(self.named.iter().cloned(), self.count),
            short_id(fork)
        )
    }

    /// Describes them for the conversation: what a merge would do, and what to do instead. `who`: the person who
    /// rewrote the base branch, if that is known.
    pub(crate) fn describe(&self, branch: &str, who: Option<&str>) -> String {
        let Self { base, fork, .. } = self;
        let (count, were, are, them) = self.count();
        let rewritten = match who {
            Some(who) => format!("{who} rewrote `{base}` on the remote"),
            None => format!("The base branch `{base}` was rewritten on the remote"),
        };
        format!(
            ":warning: {rewritten}: {count} that {were} taken off it {are} still on this thread's branch `{branch}`: {}. Merging \
             this branch as it is would bring {them} back to `{base}`. To leave {them} out, put the branch on top of what \
             `{base}` is now (`git rebase --onto {base} {}`) and force-push it before it is merged: the roles go on from there. \
             To have {them} back, there is nothing to do.",
            name_commits(self.named.iter().cloned(), self.count),
            short_id(fork)
        )
    }

    /// The number of commits, and the words that go with it.
    fn count(&self) -> (String, &'static str, &'static str, &'static str) {
        match self.count {
            1 => ("1 commit".to_owned(), "was", "is", "it"),
            count => (format!("{count} commits"), "were", "are", "them"),
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
    let (base, fork) = (base.to_owned(), fork.to_owned());
    Ok((count > 0).then_some(RemovedFromBase { base, fork, named, count }))
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
        let rebase = format!("git rebase --onto main {}`", short_id(&fork));
        assert!(said.contains(&rebase), "{said}");
        let told = found.describe("codebutler/t", None);
        assert!(told.contains(&rebase), "{told}");
        for part in [
            "The base branch `main` was rewritten on the remote: 1 commit that was taken off it is still on",
            "would bring it back to `main`. To leave it out, put the branch on top of",
        ] {
            assert!(told.contains(part), "{part}: {told}");
        }
        let told = found.describe("codebutler/t", Some("`ana`"));
        assert!(told.contains("`ana` rewrote `main` on the remote: 1 commit"), "{told}");
        let rebased = shop.commit(&[&base], &[("c", "1\n")]);
        assert_eq!(of(&base, &rebased).await, None, "it was left out");
        let merged = shop.commit(&[&own, &base], &[]);
        assert_eq!(of(&base, &merged).await.map(|found| found.count), Some(1), "a merge keeps it");
    }
}
