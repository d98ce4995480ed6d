//! Git plumbing on bare repositories, by the real `git`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::LazyLock;

use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

/// The program, by its whole path: with a name that is looked up in the child's environment, the whole
/// process is forked for each command.
static GIT: LazyLock<PathBuf> = LazyLock::new(|| {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let mut programs = std::env::split_paths(&folders).map(|folder| folder.join("git"));
    programs.find(|path| path.is_file()).unwrap_or_else(|| PathBuf::from("git"))
});

/// Configuration of each repository on the host. Pull request refs are the host's own, and no push may write them.
const HOST_CONFIG: &str = "\
[http]
\treceivepack = true
[receive]
\thideRefs = refs/pull
\tadvertisePushOptions = true
[uploadpack]
\tallowFilter = true
\tallowReachableSHA1InWant = true
[gc]
\tauto = 0
";

/// An error of a git command.
#[derive(Debug, thiserror::Error)]
pub enum GitError {
    /// Git could not be started, or its pipes failed.
    #[error("git could not be run: {0}")]
    Run(#[from] std::io::Error),
    /// Git exited with an error.
    #[error("git {command} failed: {stderr}")]
    Failed {
        /// The subcommand that was run.
        command: String,
        /// Standard error of the command.
        stderr: String,
    },
}

/// Identity and date of a commit's author: the date as `<seconds> <zone>` or any date git reads; now if absent.
#[derive(Clone, Debug)]
pub struct GitSignature {
    /// Name of the person or account.
    pub name: String,
    /// Email address of the person.
    pub email: String,
    /// Date in a form that git reads; now if absent.
    pub date: Option<String>,
}

impl GitSignature {
    /// A person of the scenario, now.
    #[must_use]
    pub fn of(login: &str) -> Self {
        Self { name: login.to_owned(), email: format!("{login}@example.com"), date: None }
    }
}

/// A commit, as git stores it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitObject {
    /// Object id of the commit itself.
    pub sha: String,
    /// Object id of the commit's tree.
    pub tree: String,
    /// Object ids of its parents.
    pub parents: Vec<String>,
    /// Author as (name, address, RFC 3339 date).
    pub author: (String, String, String),
    /// Committer as (name, address, RFC 3339 date).
    pub committer: (String, String, String),
    /// The whole message, subject and body.
    pub message: String,
}

impl CommitObject {
    /// The first line of the message.
    #[must_use]
    pub fn subject(&self) -> &str {
        self.message.lines().next().unwrap_or_default()
    }
}

/// The change of one file between two trees.
#[derive(Clone, Debug)]
pub struct FileChange {
    /// Path of the file after the change.
    pub path: String,
    /// Old path of a renamed file.
    pub previous: Option<String>,
    /// Git's status letter, such as `M`.
    pub status: char,
    /// Number of lines that were added.
    pub additions: u64,
    /// Number of lines that were removed.
    pub deletions: u64,
    /// Unified diff of this file, without its header.
    pub patch: String,
    /// Object id of the file's content after the change.
    pub blob: String,
}

/// A bare repository in a folder.
#[derive(Clone, Debug)]
pub struct BareRepository {
    dir: PathBuf,
}

impl BareRepository {
    /// An existing bare repository.
    #[must_use]
    pub fn at(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into() }
    }

    /// Creates an empty bare repository that accepts pushes over HTTP.
    pub async fn init(dir: &Path, default_branch: &str) -> Result<Self, GitError> {
        tokio::fs::create_dir_all(dir.join("hooks")).await?;
        let git = Self::at(dir);
        let branch = format!("--initial-branch={default_branch}");
        // Each stack of a test has a repository: without the samples of hooks, and configured by no processes.
        git.run(&["init", "--quiet", "--bare", "--template=", &branch]).await?;
        let config = dir.join("config");
        let own = tokio::fs::read_to_string(&config).await?;
        tokio::fs::write(&config, own + HOST_CONFIG).await?;
        Ok(git)
    }

    /// Folder of the repository.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// A `git` command that knows nothing of this machine's or this user's settings.
    #[must_use]
    pub fn command() -> Command {
        let mut command = Command::new(&*GIT);
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", "/nonexistent")
            .env("LC_ALL", "C.UTF-8")
            .env("TZ", "UTC")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_TERMINAL_PROMPT", "0")
            .stdin(Stdio::null())
            .kill_on_drop(true);
        command
    }

    /// Runs a command and gives its output without the trailing newline.
    pub async fn run(&self, arguments: &[&str]) -> Result<String, GitError> {
        self.run_with(arguments, &[], None).await
    }

    /// True if git runs and exits with success.
    pub async fn succeeds(&self, arguments: &[&str]) -> bool {
        self.run(arguments).await.is_ok()
    }

    async fn run_with(
        &self,
        arguments: &[&str],
        env: &[(&str, String)],
        input: Option<&[u8]>,
    ) -> Result<String, GitError> {
        let bytes = self.bytes_with(arguments, env, input).await?;
        Ok(String::from_utf8_lossy(&bytes).trim_end_matches('\n').to_owned())
    }

    async fn bytes_with(
        &self,
        arguments: &[&str],
        env: &[(&str, String)],
        input: Option<&[u8]>,
    ) -> Result<Vec<u8>, GitError> {
        let mut command = Self::command();
        command.arg("--git-dir").arg(&self.dir).args(arguments);
        command.envs(env.iter().map(|(k, v)| (*k, v)));
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        if input.is_some() {
            command.stdin(Stdio::piped());
        }
        let mut child = command.spawn()?;
        if let (Some(input), Some(mut stdin)) = (input, child.stdin.take()) {
            stdin.write_all(input).await?;
        }
        let output = child.wait_with_output().await?;
        if output.status.success() {
            return Ok(output.stdout);
        }
        Err(GitError::Failed {
            command: arguments.first().copied().unwrap_or_default().to_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        })
    }

    /// The commit that a name stands for.
    pub async fn commit_id(&self, name: &str) -> Option<String> {
        let name = format!("{name}^{{commit}}");
        self.run(&["rev-parse", "--verify", "--quiet", "--end-of-options", &name]).await.ok()
    }

    /// The commit that a branch points at.
    pub async fn branch(&self, branch: &str) -> Option<String> {
        self.commit_id(&format!("refs/heads/{branch}")).await
    }

    /// Every branch with its commit.
    pub async fn branches(&self) -> Result<BTreeMap<String, String>, GitError> {
        let refs = self.refs("refs/heads/").await?;
        Ok(refs.into_iter().map(|(n, sha)| (n["refs/heads/".len()..].to_owned(), sha)).collect())
    }

    /// Refs under a prefix, with what they point at.
    pub async fn refs(&self, prefix: &str) -> Result<Vec<(String, String)>, GitError> {
        let text = self.run(&["for-each-ref", "--format=%(refname) %(objectname)"]).await?;
        let pairs = text.lines().filter_map(|line| line.split_once(' '));
        Ok(pairs
            .filter(|(name, _)| name.starts_with(prefix))
            .map(|(name, sha)| (name.to_owned(), sha.to_owned()))
            .collect())
    }

    /// Moves a ref if it still is what it was (`old`: empty for "must not exist").
    pub async fn update_ref(&self, name: &str, new: &str, old: &str) -> Result<(), GitError> {
        let zero = "0".repeat(40);
        let old = if old.is_empty() { &zero } else { old };
        self.run(&["update-ref", name, new, old]).await.map(drop)
    }

    /// Commits of a range (`main`, `a..b`), newest first.
    pub async fn log(&self, range: &str, limit: usize) -> Result<Vec<CommitObject>, GitError> {
        let format = "--format=%H%x00%T%x00%P%x00%an%x00%ae%x00%aI%x00%cn%x00%ce%x00%cI%x00%B%x1e";
        let limit = format!("--max-count={limit}");
        let text = self.run(&["log", &limit, format, "--end-of-options", range, "--"]).await?;
        Ok(text.split('\u{1e}').filter_map(parse_commit).collect())
    }

    /// A file's content at a revision.
    pub async fn show(&self, revision: &str, path: &str) -> Result<Vec<u8>, GitError> {
        let spec = format!("{revision}:{path}");
        self.bytes_with(&["cat-file", "blob", &spec], &[], None).await
    }

    /// Paths of all files at a revision.
    pub async fn files(&self, revision: &str) -> Result<Vec<String>, GitError> {
        let text = self.run(&["ls-tree", "-r", "-z", "--name-only", revision]).await?;
        Ok(text.split('\0').filter(|p| !p.is_empty()).map(str::to_owned).collect())
    }

    /// Compares two trees file by file, and finds renames.
    pub async fn changes(&self, from: &str, to: &str) -> Result<Vec<FileChange>, GitError> {
        let raw = self.run(&["diff-tree", "-r", "-z", "--find-renames", from, to]).await?;
        let mut changes = Vec::new();
        let mut fields = raw.split('\0');
        while let (Some(head), Some(first)) = (fields.next(), fields.next()) {
            let mut parts = head.split(' ').skip(3);
            let (Some(blob), Some(status)) = (parts.next(), parts.next()) else { continue };
            let second = if status.starts_with('R') { fields.next() } else { None };
            let (path, previous) = match second {
                Some(path) => (path, Some(first)),
                None => (first, None),
            };
            let mut arguments = vec!["diff-tree", "-p", "--find-renames", from, to, "--", path];
            arguments.extend(previous);
            let text = self.run(&arguments).await?;
            let text = text.find("\n@@").map_or("", |at| &text[at + 1..]);
            let count = |mark| text.lines().filter(|l| l.starts_with(mark)).count() as u64;
            changes.push(FileChange {
                path: path.to_owned(),
                previous: previous.map(str::to_owned),
                status: status.chars().next().unwrap_or('M'),
                additions: count('+'),
                deletions: count('-'),
                patch: text.to_owned(),
                blob: blob.to_owned(),
            });
        }
        Ok(changes)
    }

    /// The tree that a clean merge gives, or `None` when there are conflicts.
    pub async fn merge_tree(&self, base: &str, head: &str) -> Option<String> {
        let tree = self.run(&["merge-tree", "--write-tree", base, head]).await.ok()?;
        tree.lines().next().map(str::to_owned)
    }

    /// Writes a commit object; no ref moves.
    pub async fn commit_tree(
        &self,
        tree: &str,
        parents: &[&str],
        message: &str,
        author: &GitSignature,
        committer: &GitSignature,
    ) -> Result<String, GitError> {
        let mut arguments = vec!["commit-tree", tree];
        for parent in parents {
            arguments.extend(["-p", parent]);
        }
        let mut env = Vec::new();
        for (kind, who) in [("AUTHOR", author), ("COMMITTER", committer)] {
            let [name, email, date] = match kind {
                "AUTHOR" => ["GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_AUTHOR_DATE"],
                _ => ["GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL", "GIT_COMMITTER_DATE"],
            };
            env.push((name, who.name.clone()));
            env.push((email, who.email.clone()));
            env.extend(who.date.clone().map(|d| (date, d)));
        }
        self.run_with(&arguments, &env, Some(message.as_bytes())).await
    }

    /// The tree of a folder, its `.gitignore` respected.
    pub async fn tree_of_folder(&self, folder: &Path) -> Result<String, GitError> {
        let index = tempfile::tempdir()?;
        let env = [("GIT_INDEX_FILE", index.path().join("index").to_string_lossy().into_owned())];
        let folder = folder.to_string_lossy();
        let add = ["--work-tree", &*folder, "-C", &*folder, "add", "--all", "."];
        self.run_with(&add, &env, None).await?;
        self.run_with(&["write-tree"], &env, None).await
    }

    /// The tree that results from writing (`Some`) and removing (`None`) files in another.
    pub async fn tree_with(
        &self,
        base: Option<&str>,
        files: &BTreeMap<String, Option<Vec<u8>>>,
    ) -> Result<String, GitError> {
        let index = tempfile::tempdir()?;
        let env = [("GIT_INDEX_FILE", index.path().join("index").to_string_lossy().into_owned())];
        if let Some(base) = base {
            self.run_with(&["read-tree", base], &env, None).await?;
        }
        let mut entries = Vec::new();
        for (path, content) in files {
            if let Some(content) = content {
                let blob = ["hash-object", "-w", "--stdin"];
                let blob = self.run_with(&blob, &[], Some(content)).await?;
                let mode = if content.starts_with(b"#!") { "100755" } else { "100644" };
                entries.push(format!("{mode} {blob}\t{path}\0"));
            } else {
                entries.push(format!("0 {}\t{path}\0", "0".repeat(40)));
            }
        }
        let update = ["update-index", "-z", "--index-info"];
        self.run_with(&update, &env, Some(entries.concat().as_bytes())).await?;
        self.run_with(&["write-tree"], &env, None).await
    }
}

fn parse_commit(text: &str) -> Option<CommitObject> {
    let mut fields = text.trim_start_matches('\n').splitn(10, '\0').map(str::to_owned);
    let mut next = || fields.next();
    let (sha, tree, parents) = (next()?, next()?, next()?);
    let author = (next()?, next()?, next()?);
    let committer = (next()?, next()?, next()?);
    let message = next()?.trim_end_matches('\n').to_owned();
    let parents = parents.split(' ').filter(|p| !p.is_empty()).map(str::to_owned).collect();
    Some(CommitObject { sha, tree, parents, author, committer, message })
}
