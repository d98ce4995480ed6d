//! Commits that the gateway makes on its copy, in a folder of their own, and merges for which more counts as merged
//! than Git sees.

use super::command::{CommandError, GitRepository};
use super::merges::{self, BOUNDS, TriedMerge};
use super::mirror::PUSHES;

const NAME: &str = "CodeButler";
const ADDRESS: &str = "codebutler@localhost";
/// Commits that one merge takes for merged.
const MAX_MERGED: usize = 16;
/// Date of stand-in commits, which nobody sees. Git accepts no smaller number for a date.
const LONG_AGO: &str = "1000000000";

/// The copy, with a folder of its own for new objects.
pub(crate) fn open_quarantine(
    mirror: &GitRepository,
) -> Result<(GitRepository, tempfile::TempDir), CommandError> {
    let beside = mirror.dir().parent().unwrap_or(mirror.dir());
    let folder = tempfile::Builder::new().prefix(PUSHES).tempdir_in(beside)?;
    Ok((mirror.with_quarantine(folder.path(), BOUNDS), folder))
}

/// A commit of the product's own; `at`: when, in seconds.
pub(crate) async fn commit_merge(
    git: &GitRepository,
    tree: &str,
    parents: &[&str],
    (message, at): (&str, &str),
) -> Result<String, CommandError> {
    let mut arguments = vec!["commit-tree", tree];
    arguments.extend(parents.iter().flat_map(|parent| ["-p", *parent]));
    arguments.extend(["-m", message]);
    let date = format!("{at} +0000");
    let mut command = git.command(&arguments);
    for who in ["AUTHOR", "COMMITTER"] {
        command.env(format!("GIT_{who}_NAME"), NAME);
        command.env(format!("GIT_{who}_EMAIL"), ADDRESS);
        command.env(format!("GIT_{who}_DATE"), &date);
    }
    let said = git.start_command(command, "commit-tree")?.finish(b"").await?;
    Ok(String::from_utf8_lossy(&said).trim().to_owned())
}

pub(crate) async fn git_line(
    git: &GitRepository,
    arguments: &[&str],
) -> Result<String, CommandError> {
    let said = git.run(arguments, b"").await?;
    Ok(String::from_utf8_lossy(&said).trim().to_owned())
}

/// A commit with the files of `other` from which all of `merged` can be reached, too: Git finds by it what both sides
/// of a merge have in common. It goes to no remote.
pub(crate) async fn stand_in(
    git: &GitRepository,
    other: &str,
    merged: &[String],
) -> Result<String, CommandError> {
    let mut parents = vec![other];
    for commit in merged.iter().take(MAX_MERGED) {
        if is_known(git, commit).await? && !contains(git, other, commit).await? {
            parents.push(commit);
        }
    }
    if parents.len() == 1 {
        return Ok(other.to_owned());
    }
    let tree = format!("{other}^{{tree}}");
    let tree = git_line(git, &["rev-parse", "--verify", "--end-of-options", &tree]).await?;
    commit_merge(git, &tree, &parents, ("What counts as merged", LONG_AGO)).await
}

/// Tries whether a commit merges with `other`, given that `other` contains all commits that `merged` lead to.
pub(crate) async fn try_merge(
    mirror: &GitRepository,
    (other, tip): (&str, &str),
    merged: &[String],
) -> Result<TriedMerge, CommandError> {
    let (git, _folder) = open_quarantine(mirror)?;
    let with = stand_in(&git, other, merged).await?;
    let tried = merges::try_in(&git, &[(with, tip.to_owned())]).await?.pop();
    Ok(tried.unwrap_or_else(TriedMerge::unknown))
}

pub(crate) async fn is_known(git: &GitRepository, commit: &str) -> Result<bool, CommandError> {
    let plain = commit.len() >= 40 && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !plain {
        return Ok(false);
    }
    match git.run(&["cat-file", "-e", &format!("{commit}^{{commit}}")], b"").await {
        Ok(_) => Ok(true),
        Err(CommandError::Failed { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

pub(crate) async fn contains(
    git: &GitRepository,
    commit: &str,
    earlier: &str,
) -> Result<bool, CommandError> {
    if !is_known(git, earlier).await? || !is_known(git, commit).await? {
        return Ok(false);
    }
    git.asks(&["merge-base", "--is-ancestor", earlier, commit]).await
}
