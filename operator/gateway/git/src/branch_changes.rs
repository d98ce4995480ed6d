//! A branch's changes for people: files, commits, and the patch of some files. From the local copy, without asking
//! the remote.

use std::time::Duration;

use tokio::time::timeout;

use super::command::{CommandError, GitRepository};

/// Time limit for all of Git's work on a page.
const PATIENCE: Duration = Duration::from_secs(20);
/// Limit on the commits listed on a page.
const COMMITS: &str = "--max-count=100";
/// Limit on a patch that is shown, in bytes.
const LARGEST: usize = 16 << 20;
const PLAIN: [&str; 4] = ["--no-renames", "--no-ext-diff", "--no-textconv", "--no-color"];

/// A branch on a page, by its commits.
#[derive(Clone, Copy, Debug)]
pub struct ShownBranch<'a> {
    pub git: &'a GitRepository,
    pub base: &'a str,
    pub tip: &'a str,
}

/// Commits to compare a branch with, where that is not the base branch as it is now.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ComparedCommits {
    pub base: Option<String>,
    /// Commit on the base branch that the pull request was merged as.
    pub merge: Option<String>,
}

impl GitRepository {
    /// Once `merged`, a branch is part of the base branch in one form or another: it is compared with what was there
    /// before. An item that builds on another one is compared with what it has of that, `below`.
    ///
    /// # Errors
    /// When Git can't tell.
    pub async fn compared_commits(
        &self,
        merged: Option<&str>,
        below: Option<&str>,
    ) -> Result<ComparedCommits, CommandError> {
        if let Some(merge) = merged
            && let Some(before) = self.first_parent(merge).await?
        {
            let (base, merge) = (Some(before), Some(merge.to_owned()));
            return Ok(ComparedCommits { base, merge });
        }
        let base = match below {
            Some(below) if self.has_commit(below).await? => Some(below.to_owned()),
            _ => None,
        };
        Ok(ComparedCommits { base, merge: None })
    }

    /// The commit that another one follows on its branch, if both are there.
    ///
    /// # Errors
    /// When Git can't tell.
    async fn first_parent(&self, commit: &str) -> Result<Option<String>, CommandError> {
        let parent = format!("{commit}^1^{{commit}}");
        let asked = ["rev-parse", "--verify", "--quiet", "--end-of-options", &parent];
        match self.run(&asked, b"").await {
            Ok(said) => Ok(Some(String::from_utf8_lossy(&said).trim().to_owned())),
            Err(CommandError::Failed { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns true if the copy has a commit with this id.
    ///
    /// # Errors
    /// When Git can't tell.
    pub async fn has_commit(&self, commit: &str) -> Result<bool, CommandError> {
        match self.run(&["cat-file", "-e", &format!("{commit}^{{commit}}")], b"").await {
            Ok(_) => Ok(true),
            Err(CommandError::Failed { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

impl ShownBranch<'_> {
    /// Output of `git diff --numstat -z`.
    ///
    /// # Errors
    /// When Git can't tell, or not soon.
    pub async fn counts(&self) -> Result<Vec<u8>, CommandError> {
        self.run(&[&["diff", "--numstat", "-z"], &PLAIN[..], &[&self.range(), "--"]].concat()).await
    }

    /// The patch of these files, or of all where none is named, in the order of [`Self::counts`]; `None` if it is too
    /// large to be shown.
    ///
    /// # Errors
    /// When Git can't tell, or not soon.
    pub async fn patch(&self, paths: &[String]) -> Result<Option<Vec<u8>>, CommandError> {
        let shown = ["--src-prefix=a/", "--dst-prefix=b/", "-U3"];
        let range = self.range();
        let paths: Vec<_> = paths.iter().map(|path| format!(":(literal){path}")).collect();
        let paths: Vec<_> = paths.iter().map(String::as_str).collect();
        let arguments =
            [&["diff", "--patch"], &PLAIN[..], &shown, &[&range, "--"], &paths].concat();
        match self.run(&arguments).await {
            Ok(patch) => Ok(Some(patch).filter(|patch| patch.len() <= LARGEST)),
            Err(CommandError::TooMuch(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Its commits that the base branch lacks, the newest first: id, space and first line.
    ///
    /// # Errors
    /// When Git can't tell, or not soon.
    pub async fn commits(&self) -> Result<String, CommandError> {
        let range = format!("{}..{}", self.base, self.tip);
        let said =
            self.run(&["log", COMMITS, "--format=%H %s", "--no-color", &range, "--"]).await?;
        Ok(String::from_utf8_lossy(&said).into_owned())
    }

    fn range(&self) -> String {
        format!("{}...{}", self.base, self.tip)
    }

    /// Runs Git at a low priority, behind everybody's work.
    async fn run(&self, arguments: &[&str]) -> Result<Vec<u8>, CommandError> {
        let running = self.git.start(arguments)?;
        running.give_way();
        let late = |_| CommandError::TooLong("diff".to_owned());
        timeout(PATIENCE, running.finish(b"")).await.map_err(late)?
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TestRepository;

    #[tokio::test]
    async fn a_branch_is_shown_from_where_it_left_the_base() {
        let shop = TestRepository::new();
        let first = shop.commit(&[], &[("a.txt", "one\n"), ("b.txt", "one\n")]);
        let base = shop.commit(&[&first], &[("base.txt", "of the base\n")]);
        let odd = ":(glob)*";
        let tip = shop.commit(&[&first], &[("a.txt", "two\n"), (odd, "new\n")]);
        let git = shop.git();
        let branch = ShownBranch { git: &git, base: &base, tip: &tip };
        let counts = branch.counts().await.unwrap();
        assert_eq!(String::from_utf8(counts).unwrap(), "1\t0\t:(glob)*\x001\t1\ta.txt\0");
        assert_eq!(branch.commits().await.unwrap(), format!("{tip} Change\n"));
        // A path is a path, whatever it looks like.
        let patch = branch.patch(&[odd.to_owned()]).await.unwrap().unwrap();
        let patch = String::from_utf8(patch).unwrap();
        assert!(patch.contains("+new") && !patch.contains("two"), "{patch}");
        let whole = branch.patch(&[]).await.unwrap().unwrap();
        let whole = String::from_utf8(whole).unwrap();
        assert!(whole.contains("-one") && whole.contains("+two"), "{whole}");
        assert!(!whole.contains("of the base"), "{whole}");
        let lines = ("x".repeat(1 << 20) + "\n").repeat(17);
        let huge = shop.commit(&[&first], &[("a.txt", &lines)]);
        let huge = ShownBranch { git: &git, base: &base, tip: &huge };
        assert_eq!(huge.patch(&[]).await.unwrap(), None);
        assert_eq!(git.first_parent(&tip).await.unwrap(), Some(first.clone()));
        assert_eq!(git.first_parent(&first).await.unwrap(), None);
        let missing = "1".repeat(40);
        assert_eq!(git.first_parent(&missing).await.unwrap(), None);
        assert!(git.has_commit(&tip).await.unwrap() && !git.has_commit(&missing).await.unwrap());
        // Squashed, it is compared with what was there before, and one that builds on another with that.
        let squashed = shop.commit(&[&base], &[("a.txt", "two\n"), (odd, "new\n")]);
        let merged = git.compared_commits(Some(&squashed), Some(&first)).await.unwrap();
        let known = |base: &String, merge: Option<&String>| ComparedCommits {
            base: Some(base.clone()),
            merge: merge.cloned(),
        };
        assert_eq!(merged, known(&base, Some(&squashed)));
        let after = ShownBranch { git: &git, base: &base, tip: &squashed };
        let counts = String::from_utf8(after.counts().await.unwrap()).unwrap();
        assert!(counts.contains("a.txt") && !counts.contains("base.txt"), "{counts:?}");
        let next = shop.commit(&[&tip], &[("c.txt", "three\n")]);
        assert_eq!(git.compared_commits(None, Some(&tip)).await.unwrap(), known(&tip, None));
        let stacked = ShownBranch { git: &git, base: &tip, tip: &next };
        assert_eq!(stacked.counts().await.unwrap(), b"1\t0\tc.txt\0");
        let none = git.compared_commits(Some(&missing), Some(&missing)).await.unwrap();
        assert_eq!(none, ComparedCommits::default());
        let unknown = ShownBranch { git: &git, base: &base, tip: &"1".repeat(40) };
        assert!(unknown.counts().await.is_err());
    }
}
