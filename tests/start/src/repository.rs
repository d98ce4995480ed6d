//! The repository that a demo is to work on, and what makes it unfit.

use std::fmt::{Display, Formatter};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{ChildStderr, Command, Output, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

/// Time limit for the answer of a Git host. Without one nothing is known.
const PATIENCE: Duration = Duration::from_secs(20);
/// Interval at which is looked whether Git has ended.
const LOOK: Duration = Duration::from_millis(50);
/// Longest wait for the words of a Git that has ended.
const SETTLE: Duration = Duration::from_millis(500);
/// Exit code of `git ls-remote --exit-code` where there is no branch.
const NO_BRANCH: i32 = 2;

/// A repository that can't be worked on, with the way out.
#[derive(Debug, PartialEq, Eq)]
pub enum UnusableRepository {
    /// The path does not exist.
    Missing(String),
    /// The folder is not a Git repository.
    NotGit(String),
    /// Git's own words, as for a repository that a newer Git has made.
    Unreadable {
        from: String,
        /// Message of Git, in its own words.
        said: String,
    },
    /// It belongs to somebody else, and Git refuses to read it.
    Foreign {
        from: String,
        /// The folder that Git has to be told of.
        path: PathBuf,
    },
    /// Objects that CodeButler can't name.
    ObjectFormat(String),
    /// The clone is shallow, so its history is incomplete.
    Shallow(String),
    /// The repository has no commits.
    NoCommits(String),
    /// The branch that was asked for is not there.
    WrongBranch {
        from: String,
        /// Branch that was asked for.
        branch: String,
        /// Names of some branches, for people.
        branches: String,
    },
    /// Git can't clone it.
    Unreachable {
        from: String,
        /// The last thing that Git said.
        said: String,
    },
}

impl std::error::Error for UnusableRepository {}

impl Display for UnusableRepository {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Missing(from) => write!(f, "{from} does not exist"),
            Self::NotGit(from) => write!(
                f,
                "{from} is no Git repository: run `git init` and commit in it first, or name another one"
            ),
            Self::Unreadable { from, said } => write!(
                f,
                "{from} can't be read by the Git on this machine: {said}. It may be damaged (`git fsck`), or need a newer Git"
            ),
            Self::Foreign { from, path } => write!(
                f,
                "{from} belongs to another user, and Git reads no such repository: allow it with `git config --global \
                 --add safe.directory {}`",
                path.display()
            ),
            Self::ObjectFormat(from) => write!(
                f,
                "{from} names its objects with SHA-256 (`git rev-parse --show-object-format`), and CodeButler works with \
                 SHA-1 alone: name another one"
            ),
            Self::Shallow(from) => write!(
                f,
                "{from} is a shallow clone, whose history ends where it was cut off: run `git fetch --unshallow` in it \
                 first, then start again"
            ),
            Self::NoCommits(from) => write!(
                f,
                "{from} has no commits yet: commit something first (`git commit`), then start again"
            ),
            Self::WrongBranch { from, branch, branches } => {
                write!(f, "{from} has no branch `{branch}` (there are: {branches})")
            }
            Self::Unreachable { from, said } => write!(
                f,
                "{from} can't be cloned: {said}. Check the address, your access to it and the network"
            ),
        }
    }
}

/// The path that `--repo` names, unless it is an address.
pub fn local_path(from: &str) -> Option<PathBuf> {
    let path = Path::new(from.strip_prefix("file://").unwrap_or(from));
    // `host:path` and `scheme://` are addresses, unless something of that name lies here.
    (path.exists() || !from.contains(':')).then(|| path.to_owned())
}

/// Explains what is wrong with a folder, in plainer words than Git would. Nothing is known where Git can't be run.
///
/// # Errors
/// A sentence that says what to do.
pub fn judge_repository(
    from: &str,
    path: &Path,
    branch: Option<&str>,
) -> Result<(), UnusableRepository> {
    if !path.exists() {
        return Err(UnusableRepository::Missing(from.to_owned()));
    }
    // A bundle is one file.
    let Some(folder) = path.canonicalize().ok().filter(|folder| folder.is_dir()) else {
        return Ok(());
    };
    let git = |arguments: &[&str]| ask_git(&folder, arguments);
    let Some(found) = git(&["rev-parse", "--absolute-git-dir"]) else { return Ok(()) };
    let said = String::from_utf8_lossy(&found.stderr);
    if said.contains("dubious ownership") {
        return Err(UnusableRepository::Foreign { from: from.to_owned(), path: folder });
    }
    let unreadable = |said: &str| {
        let said = said.trim().trim_start_matches("fatal: ");
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        UnusableRepository::Unreadable { from: from.to_owned(), said }
    };
    // A repository that this Git can't read is one all the same.
    if !found.status.success() && !said.contains("not a git repository") {
        return Err(unreadable(&said));
    }
    // A folder within somebody's repository is none of its own.
    let own = Path::new(&text_of(&found)).canonicalize().unwrap_or_default();
    let said = |arguments: &[&str]| git(arguments).map(|output| text_of(&output));
    let top = said(&["rev-parse", "--show-toplevel"]).unwrap_or_default();
    if !found.status.success() || (own != folder && Path::new(&top) != folder) {
        return Err(UnusableRepository::NotGit(from.to_owned()));
    }
    if said(&["rev-parse", "--show-object-format"]).as_deref() == Some("sha256") {
        return Err(UnusableRepository::ObjectFormat(from.to_owned()));
    }
    if said(&["rev-parse", "--is-shallow-repository"]).as_deref() == Some("true") {
        return Err(UnusableRepository::Shallow(from.to_owned()));
    }
    let Some(commits) = git(&["rev-list", "--all", "--max-count=1"]) else { return Ok(()) };
    if commits.status.success() && commits.stdout.is_empty() {
        return Err(UnusableRepository::NoCommits(from.to_owned()));
    }
    // A clone leaves a broken branch out, which may be an old one of some remote.
    let head = ["rev-parse", "--verify", "--quiet", "HEAD^{commit}"];
    if !commits.status.success() && git(&head).is_some_and(|output| !output.status.success()) {
        return Err(unreadable(&String::from_utf8_lossy(&commits.stderr)));
    }
    branch.map_or(Ok(()), |branch| judge_branch(from, branch, &git))
}

fn judge_branch(
    from: &str,
    branch: &str,
    git: &impl Fn(&[&str]) -> Option<Output>,
) -> Result<(), UnusableRepository> {
    let known = ["show-ref", "--verify", "--quiet", &format!("refs/heads/{branch}")];
    if git(&known).is_none_or(|output| output.status.success()) {
        return Ok(());
    }
    let some = ["for-each-ref", "--count=10", "--format=%(refname:short)", "refs/heads"];
    let some = git(&some).map(|output| text_of(&output)).unwrap_or_default();
    Err(UnusableRepository::WrongBranch {
        from: from.to_owned(),
        branch: branch.to_owned(),
        branches: some.lines().collect::<Vec<_>>().join(", "),
    })
}

/// Asks a Git host for a repository's branches, as cloning it does. Nothing is known where the host takes its time.
///
/// # Errors
/// A sentence that says what to do.
pub(crate) fn judge_remote(from: &str) -> Result<(), UnusableRepository> {
    // The user's own settings, keys and helpers, but no questions: the demo asks none either.
    let mut git = Command::new("git");
    git.args(["ls-remote", "--exit-code", "--heads", "--", from])
        .env("GIT_TERMINAL_PROMPT", "0")
        .envs(quiet_ssh().map(|command| ("GIT_SSH_COMMAND", command)))
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let Ok(mut child) = git.spawn() else { return Ok(()) };
    let errors = child.stderr.take().map(read_aside);
    let begun = Instant::now();
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if begun.elapsed() < PATIENCE => std::thread::sleep(LOOK),
            _ => {
                let _ = child.kill();
                let _ = child.wait();
                return Ok(());
            }
        }
    };
    if status.success() {
        return Ok(());
    }
    let from = without_password(from);
    if status.code() == Some(NO_BRANCH) {
        return Err(UnusableRepository::NoCommits(from));
    }
    // A connection that SSH keeps open for later may hold this end open, too.
    let mut said = Vec::new();
    let errors = errors.as_ref();
    while let Some(piece) = errors.and_then(|errors| errors.recv_timeout(SETTLE).ok()) {
        said.extend(piece);
    }
    let said = String::from_utf8_lossy(&said);
    let said = said.lines().filter_map(|line| line.strip_prefix("fatal: ")).next_back();
    let said = said.unwrap_or("git ls-remote failed").trim_end_matches('.').to_owned();
    Err(UnusableRepository::Unreachable { from, said })
}

/// Reads what a program says while it runs: one that says much would wait for its reader.
fn read_aside(mut errors: ChildStderr) -> Receiver<Vec<u8>> {
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        let mut piece = [0; 4096];
        while let Ok(length @ 1..) = errors.read(&mut piece) {
            if tell.send(piece[..length].to_vec()).is_err() {
                return;
            }
        }
    });
    told
}

/// The command that Git is to run in place of `ssh`, so that it asks no questions: the user's own, where there is one.
/// None where that is another program than OpenSSH, which may know no such option.
pub fn quiet_ssh() -> Option<String> {
    let set = |name: &str| std::env::var(name).ok().filter(|text| !text.trim().is_empty());
    let configured = || {
        let mut git = Command::new("git");
        git.args(["config", "--get", "core.sshCommand"]).stdin(Stdio::null());
        git.output().ok().map(|output| text_of(&output)).filter(|text| !text.is_empty())
    };
    let own = set("GIT_SSH_COMMAND").or_else(configured);
    if own.is_none() && set("GIT_SSH").is_some() {
        return None;
    }
    make_quiet(own.as_deref().unwrap_or("ssh"))
}

fn make_quiet(command: &str) -> Option<String> {
    let program = command.split_whitespace().next()?;
    let is_openssh = program.rsplit('/').next() == Some("ssh");
    is_openssh.then(|| format!("{command} -oBatchMode=yes"))
}

/// An address without the name and the password in it. On the web a name may be a token by itself.
fn without_password(from: &str) -> String {
    let Some((scheme, rest)) = from.split_once("://") else { return from.to_owned() };
    let end = rest.find('/').unwrap_or(rest.len());
    let is_web = ["http", "https"].contains(&&*scheme.to_ascii_lowercase());
    match rest[..end].rfind('@') {
        Some(at) if is_web || rest[..at].contains(':') => format!("{scheme}://{}", &rest[at + 1..]),
        _ => from.to_owned(),
    }
}

fn ask_git(folder: &Path, arguments: &[&str]) -> Option<Output> {
    let mut git = Command::new("git");
    git.arg("-C").arg(folder).args(arguments).env("LC_ALL", "C").stdin(Stdio::null()).output().ok()
}

fn text_of(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_told_from_a_path_and_shown_without_its_password() {
        for (from, path) in [
            ("../shop", Some("../shop")),
            ("file:///nowhere/shop", None),
            ("file:///", Some("/")),
            ("git@example.org:acme/shop", None),
            ("https://example.org/acme/shop", None),
        ] {
            assert_eq!(local_path(from).as_deref(), path.map(Path::new), "{from}");
        }
        for (from, shown) in [
            ("https://ana:hunter2@example.org/a@b", "https://example.org/a@b"),
            ("https://ghp_1234@example.org/acme/shop", "https://example.org/acme/shop"),
            ("https://example.org/a:b@c", "https://example.org/a:b@c"),
            ("ssh://git@example.org/acme", "ssh://git@example.org/acme"),
            ("git@example.org:acme/shop", "git@example.org:acme/shop"),
        ] {
            assert_eq!(without_password(from), shown);
        }
    }

    #[test]
    fn the_users_own_ssh_asks_no_questions_and_another_program_stays_as_it_is() {
        for (command, quiet) in [
            ("ssh", Some("ssh -oBatchMode=yes")),
            ("/usr/bin/ssh -i ~/.ssh/work", Some("/usr/bin/ssh -i ~/.ssh/work -oBatchMode=yes")),
            ("plink -i work.ppk", None),
        ] {
            assert_eq!(make_quiet(command).as_deref(), quiet, "{command}");
        }
    }
}
