//! A repository of the user's own: cloned bare, so that nothing is ever written to it, and looked
//! over for what would surprise later.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use codebutler_start::{
    USUAL_BRANCHES, UnusableRepository, judge_repository, local_path, quiet_ssh,
};
use tokio::process::Command;

use codebutler_testbed::github::git::{BareRepository, GitError};

/// Interval at which the size of a growing clone is checked.
const LOOK: Duration = Duration::from_millis(200);
/// A clone above this (MB) gets a word of warning.
const LARGE_MB: u64 = 200;
/// Longest name of a Repo that is made from a folder's.
const MAX_NAME: usize = 30;

/// An error that keeps a repository from being worked on.
#[derive(Debug, thiserror::Error)]
pub(super) enum RepositoryError {
    /// Unfit as it is.
    #[error(transparent)]
    Unusable(#[from] UnusableRepository),
    /// The git program can't be run.
    #[error("git: {0}")]
    Git(#[from] GitError),
    /// Reading or writing files failed.
    #[error("{0}")]
    Io(#[from] std::io::Error),
}

/// A repository that is to be cloned.
#[derive(Clone, Debug)]
pub(super) struct CloneSource {
    /// Path or URL of the repository.
    pub from: String,
    /// The branch that pull requests are for, if it is not the default one.
    pub branch: Option<String>,
    /// MB that a clone may have.
    pub limit: u64,
}

/// A clone, ready to be served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ClonedRepository {
    /// The branch that pull requests are for.
    pub branch: String,
    /// Notices for the user about the repository, a sentence each.
    pub notices: Vec<String>,
}

impl CloneSource {
    /// The repository's identity: an absolute path, or the URL without credentials.
    #[must_use]
    pub(super) fn identity(&self) -> String {
        if let Some(path) = self.path().and_then(|path| path.canonicalize().ok()) {
            return path.display().to_string();
        }
        match url::Url::parse(&self.from) {
            // On the web a name may be a token by itself.
            Ok(mut url)
                if url.password().is_some()
                    || matches!(url.scheme(), "http" | "https") && !url.username().is_empty() =>
            {
                let _ = url.set_password(None);
                let _ = url.set_username("");
                url.to_string()
            }
            _ => self.from.clone(),
        }
    }

    /// A name for the Repo, its channel and the repository: what the folder or the last part of the
    /// URL is called, as far as Kubernetes allows it.
    #[must_use]
    pub(super) fn name(&self) -> String {
        let identity = self.identity();
        let last = identity.trim_end_matches('/').rsplit(['/', ':']).next().unwrap_or_default();
        let last = last.strip_suffix(".git").unwrap_or(last).to_lowercase();
        let mut name = String::new();
        for c in last.chars() {
            if c.is_ascii_alphanumeric() {
                name.push(c);
            } else if !name.is_empty() && !name.ends_with('-') {
                name.push('-');
            }
        }
        name.truncate(MAX_NAME);
        let name = name.trim_end_matches('-');
        // A DNS label may begin with a digit, but a Service's name may not.
        match name.chars().next() {
            Some(c) if c.is_ascii_alphabetic() => name.to_owned(),
            Some(_) => format!("repo-{name}"),
            None => "repo".to_owned(),
        }
    }

    fn path(&self) -> Option<PathBuf> {
        local_path(&self.from)
    }

    /// Clones it into a folder that does not exist yet.
    ///
    /// # Errors
    /// A sentence that says what to do.
    pub(super) async fn clone_into(&self, dir: &Path) -> Result<ClonedRepository, RepositoryError> {
        if let Some(path) = self.path() {
            judge_repository(&self.from, &path, self.branch.as_deref())?;
        }
        self.fetch(dir).await?;
        let git = BareRepository::at(dir);
        // A remote can be one, too.
        if git.run(&["rev-parse", "--is-shallow-repository"]).await? == "true" {
            return Err(UnusableRepository::Shallow(self.identity()).into());
        }
        // Nothing here knows the way back.
        git.run(&["remote", "remove", "origin"]).await?;
        let branch = self.base(&git).await?;
        let notices = find_notices(&git, &branch).await?;
        Ok(ClonedRepository { branch, notices })
    }

    async fn fetch(&self, dir: &Path) -> Result<(), RepositoryError> {
        if let Some(parent) = dir.parent() {
            std::fs::create_dir_all(parent)?;
        }
        let from = self.path().map_or_else(|| self.from.clone().into(), PathBuf::into_os_string);
        // The user's own settings, keys and helpers, but no questions: nobody would see them.
        let mut git = Command::new("git");
        git.args(["clone", "--quiet", "--bare", "--no-hardlinks", "--template=", "--"])
            .arg(&from)
            .arg(dir)
            .env("GIT_TERMINAL_PROMPT", "0")
            .envs(quiet_ssh().map(|command| ("GIT_SSH_COMMAND", command)))
            .env("LC_ALL", "C.UTF-8")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        let work = git.spawn()?.wait_with_output();
        tokio::pin!(work);
        let output = loop {
            tokio::select! {
                output = &mut work => break output?,
                () = tokio::time::sleep(LOOK) => self.check_size(dir)?,
            }
        };
        if output.status.success() {
            return self.check_size(dir);
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let said = said.lines().filter_map(|line| line.strip_prefix("fatal: ")).next_back();
        let said = said.unwrap_or("git clone failed").trim_end_matches('.').to_owned();
        Err(UnusableRepository::Unreachable { from: self.identity(), said }.into())
    }

    fn check_size(&self, dir: &Path) -> Result<(), RepositoryError> {
        if folder_megabytes(dir) > self.limit {
            return Err(
                UnusableRepository::Huge { from: self.identity(), limit: self.limit }.into()
            );
        }
        Ok(())
    }

    /// The branch that was asked for, the one that is checked out there, or one of a usual name.
    async fn base(&self, git: &BareRepository) -> Result<String, RepositoryError> {
        let from = self.identity();
        let all = git.branches().await?;
        let some: Vec<&str> = all.keys().take(10).map(String::as_str).collect();
        let branches = some.join(", ");
        if let Some(branch) = self.branch.clone() {
            if all.contains_key(&branch) {
                return Ok(branch);
            }
            return Err(UnusableRepository::WrongBranch { from, branch, branches }.into());
        }
        // Its short form would be another one beside a tag of the same name.
        let head = git.run(&["symbolic-ref", "--quiet", "HEAD"]).await.unwrap_or_default();
        let head = head.strip_prefix("refs/heads/").filter(|head| all.contains_key(*head));
        if let Some(head) = head {
            return Ok(head.to_owned());
        }
        let usual = USUAL_BRANCHES.into_iter().find(|name| all.contains_key(*name));
        let only = (some.len() == 1).then(|| some[0]);
        match usual.or(only) {
            Some(name) => Ok(name.to_owned()),
            None if some.is_empty() => Err(UnusableRepository::NoCommits(from).into()),
            None => Err(UnusableRepository::NoBranch { from, branches }.into()),
        }
    }
}

async fn find_notices(git: &BareRepository, branch: &str) -> Result<Vec<String>, RepositoryError> {
    let mut notices = Vec::new();
    let large = folder_megabytes(git.dir());
    if large > LARGE_MB {
        notices.push(format!(
            "it has {large} MB of history: the first answer in a thread takes a while longer"
        ));
    }
    let tree = git.run(&["ls-tree", "-r", "-z", branch]).await?;
    let entries: Vec<(&str, &str)> =
        tree.split('\0').filter_map(|entry| entry.split_once('\t')).collect();
    if entries.is_empty() {
        notices.push(format!("its branch {branch} has no files yet"));
    }
    let modules: Vec<&str> =
        entries.iter().filter(|(kind, _)| kind.starts_with("160000")).map(|e| e.1).collect();
    if !modules.is_empty() {
        notices.push(format!(
            "its submodules are not fetched, their folders stay empty: {}",
            name_some(&modules)
        ));
    }
    let attributes = entries.iter().filter(|(_, path)| path.ends_with(".gitattributes"));
    let mut lfs = false;
    for (_, path) in attributes {
        let text = git.show(branch, path).await?;
        lfs |= String::from_utf8_lossy(&text).contains("filter=lfs");
    }
    if lfs {
        notices.push(
            "it uses Git LFS: such files are there as pointers only, without their content"
                .to_owned(),
        );
    }
    Ok(notices)
}

fn name_some(names: &[&str]) -> String {
    match names.len() {
        0..=3 => names.join(", "),
        n => format!("{} and {} more", names[..3].join(", "), n - 3),
    }
}

/// Size of a folder's files in MB, rounded up.
fn folder_megabytes(dir: &Path) -> u64 {
    fn bytes(dir: &Path) -> u64 {
        let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
        entries
            .map(|entry| match entry.metadata() {
                Ok(meta) if meta.is_dir() => bytes(&entry.path()),
                Ok(meta) => meta.len(),
                Err(_) => 0,
            })
            .sum()
    }
    bytes(dir).div_ceil(1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(from: &str) -> CloneSource {
        CloneSource { from: from.to_owned(), branch: None, limit: 100 }
    }

    #[test]
    fn an_address_is_shown_without_what_signs_in() {
        for from in ["https://ghp_1234@example.org/shop", "https://ana:hunter2@example.org/shop"] {
            assert_eq!(source(from).identity(), "https://example.org/shop");
        }
        let ssh = "ssh://git@example.org/shop";
        assert_eq!(source(ssh).identity(), ssh);
    }

    #[test]
    fn names_are_what_kubernetes_allows() {
        for (from, name) in [
            ("https://example.org/acme/Shop_Front.git", "shop-front"),
            ("git@example.org:acme/shop", "shop"),
            ("https://example.org/acme/2048/", "repo-2048"),
            ("https://example.org/acme/_", "repo"),
            (&format!("https://example.org/{}", "long".repeat(20)), &"long".repeat(20)[..30]),
        ] {
            assert_eq!(source(from).name(), name, "{from}");
        }
    }
}
