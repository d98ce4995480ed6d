//! The repository that a demo is to work on, and what makes it unfit.

use std::fmt::{Display, Formatter};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// Time limit for the answer of a Git host. Without one nothing is known.
const PATIENCE: Duration = Duration::from_secs(20);
/// Interval at which is looked whether Git has ended.
const LOOK: Duration = Duration::from_millis(50);
/// Longest wait for the words of a Git that has ended.
const SETTLE: Duration = Duration::from_millis(500);
/// Exit code of `git ls-remote --exit-code` where there is nothing.
const NOTHING_THERE: i32 = 2;
/// Branches that are commonly the default one.
pub const USUAL_BRANCHES: [&str; 4] = ["main", "master", "trunk", "develop"];
/// Names of branches that a sentence has room for.
const SHOWN: usize = 10;

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
    /// No branch is checked out, and none is known by a usual name.
    NoBranch {
        from: String,
        /// Names of some branches, for people. Empty: there is none at all.
        branches: String,
    },
    /// It is larger than the limit.
    Huge {
        from: String,
        /// The limit in MB, from `--repo-limit`.
        limit: u64,
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
            Self::NoBranch { from, branches } if branches.is_empty() => write!(
                f,
                "{from} has commits and no branch: make one (`git switch -c main`), then start again"
            ),
            Self::NoBranch { from, branches } => write!(
                f,
                "{from} has no branch checked out, and none of its branches has a usual name: name the one that pull \
                 requests are for with --branch (there are: {branches})"
            ),
            Self::Huge { from, limit } => write!(
                f,
                "{from} is larger than {limit} MB, and each thread would get a copy: name a smaller one, or raise \
                 --repo-limit"
            ),
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
    match branch {
        Some(branch) => judge_branch(from, branch, &git),
        None => judge_default_branch(from, &git),
    }
}

/// A clone begins on the branch that is checked out, or on one with the same commit. Otherwise a usual name counts, or
/// that there is only one.
fn judge_default_branch(
    from: &str,
    git: &impl Fn(&[&str]) -> Option<Output>,
) -> Result<(), UnusableRepository> {
    let list = |filter: &[&str]| {
        let command = ["for-each-ref", "--format=%(refname:strip=2)"];
        let listed = git(&[&command[..], filter, &["refs/heads"]].concat())?;
        listed.status.success().then(|| text_of(&listed))
    };
    let Some(all) = list(&[]) else { return Ok(()) };
    let branches: Vec<&str> = all.lines().collect();
    let head = git(&["symbolic-ref", "--quiet", "HEAD"]).map(|head| text_of(&head));
    let head = head.as_deref().and_then(|head| head.strip_prefix("refs/heads/"));
    let is_known = head.is_some_and(|head| branches.contains(&head))
        || list(&["--points-at=HEAD"]).is_some_and(|same| !same.is_empty());
    judge_guess(from, &branches, is_known)
}

/// Judges branches of which none may be told to be the default one.
fn judge_guess(from: &str, branches: &[&str], is_known: bool) -> Result<(), UnusableRepository> {
    let is_usual = USUAL_BRANCHES.iter().any(|usual| branches.contains(usual));
    if is_known || is_usual || branches.len() == 1 {
        return Ok(());
    }
    let branches = branches.iter().take(SHOWN).copied().collect::<Vec<_>>().join(", ");
    Err(UnusableRepository::NoBranch { from: from.to_owned(), branches })
}

/// Judges the size of a folder's history, which a clone copies. Nothing is known where Git can't be run.
///
/// # Errors
/// A sentence that says what to do.
pub(crate) fn judge_size(from: &str, path: &Path, limit: u64) -> Result<(), UnusableRepository> {
    let Some(folder) = path.canonicalize().ok().filter(|folder| folder.is_dir()) else {
        return Ok(());
    };
    let Some(objects) = ask_git(&folder, &["rev-parse", "--git-path", "objects"]) else {
        return Ok(());
    };
    let objects = folder.join(text_of(&objects));
    if !objects.ends_with("objects") || count_bytes(&objects).div_ceil(1_000_000) <= limit {
        return Ok(());
    }
    Err(UnusableRepository::Huge { from: from.to_owned(), limit })
}

/// Bytes of all files in a folder, but for those that Git hides while it writes them.
fn count_bytes(folder: &Path) -> u64 {
    let entries = folder.read_dir().into_iter().flatten().flatten();
    let shown = entries.filter(|entry| !entry.file_name().to_string_lossy().starts_with('.'));
    shown
        .map(|entry| match entry.metadata() {
            Ok(meta) if meta.is_dir() => count_bytes(&entry.path()),
            Ok(meta) => meta.len(),
            Err(_) => 0,
        })
        .sum()
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
    let all = ["for-each-ref", "--format=%(refname:strip=2)", "refs/heads"];
    let all = git(&all).map(|output| text_of(&output)).unwrap_or_default();
    Err(tell_wrong_branch(from, branch, &all.lines().collect::<Vec<_>>()))
}

fn tell_wrong_branch(from: &str, branch: &str, all: &[&str]) -> UnusableRepository {
    UnusableRepository::WrongBranch {
        from: from.to_owned(),
        branch: branch.to_owned(),
        branches: all.iter().take(SHOWN).copied().collect::<Vec<_>>().join(", "),
    }
}

/// Asks a Git host for a repository's branches, as cloning it does. Nothing is known where the host takes its time.
///
/// # Errors
/// A sentence that says what to do.
pub(crate) fn judge_remote(from: &str, branch: Option<&str>) -> Result<(), UnusableRepository> {
    // The user's own settings, keys and helpers, but no questions: the demo asks none either.
    let mut git = Command::new("git");
    git.args(["ls-remote", "--exit-code", "--symref", "--", from, "HEAD", "refs/heads/*"])
        .env("GIT_TERMINAL_PROMPT", "0")
        .envs(quiet_ssh().map(|command| ("GIT_SSH_COMMAND", command)))
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let Ok(mut child) = git.spawn() else { return Ok(()) };
    let answer = child.stdout.take().map(read_aside);
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
    let from = without_password(from);
    if status.success() {
        let (told, is_whole) = collect(answer.as_ref(), PATIENCE);
        let told = String::from_utf8_lossy(&told);
        return if is_whole { judge_refs(&from, branch, &told) } else { Ok(()) };
    }
    if status.code() == Some(NOTHING_THERE) {
        return Err(UnusableRepository::NoCommits(from));
    }
    // A connection that SSH keeps open for later may hold this end open, too.
    let (said, _) = collect(errors.as_ref(), SETTLE);
    let said = String::from_utf8_lossy(&said);
    let said = said.lines().filter_map(|line| line.strip_prefix("fatal: ")).next_back();
    let said = said.unwrap_or("git ls-remote failed").trim_end_matches('.').to_owned();
    Err(UnusableRepository::Unreachable { from, said })
}

/// Judges what a Git host tells of its branches, a line for each: a commit or `ref: NAME`, a tab, and a name.
fn judge_refs(from: &str, branch: Option<&str>, told: &str) -> Result<(), UnusableRepository> {
    let lines = || told.lines().filter_map(|line| line.split_once('\t'));
    let branches: Vec<&str> =
        lines().filter_map(|(_, name)| name.strip_prefix("refs/heads/")).collect();
    if let Some(branch) = branch.filter(|_| !branches.is_empty()) {
        let is_there = branches.contains(&branch);
        return if is_there { Ok(()) } else { Err(tell_wrong_branch(from, branch, &branches)) };
    }
    // An old server tells a commit alone, and a clone begins on a branch that has it.
    let of_head: Vec<&str> =
        lines().filter(|(_, name)| *name == "HEAD").map(|(value, _)| value).collect();
    let is_known = lines().any(|(value, name)| {
        let Some(short) = name.strip_prefix("refs/heads/") else { return false };
        let target = format!("ref: refs/heads/{short}");
        of_head.iter().any(|head| *head == value || *head == target)
    });
    judge_guess(from, &branches, is_known)
}

/// All that was read of a program that has ended, and whether that is its whole output. Each piece may take `patience`.
fn collect(pieces: Option<&Receiver<Vec<u8>>>, patience: Duration) -> (Vec<u8>, bool) {
    let mut all = Vec::new();
    let Some(pieces) = pieces else { return (all, false) };
    loop {
        match pieces.recv_timeout(patience) {
            Ok(piece) => all.extend(piece),
            Err(end) => return (all, end == RecvTimeoutError::Disconnected),
        }
    }
}

/// Reads what a program says while it runs: one that says much would wait for its reader.
fn read_aside(mut output: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        let mut piece = [0; 4096];
        while let Ok(length @ 1..) = output.read(&mut piece) {
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
pub(crate) fn without_password(from: &str) -> String {
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
    fn a_host_that_tells_no_default_branch_has_to_be_helped_by_name() {
        let one = "1".repeat(40);
        let two = "2".repeat(40);
        let refs = format!("{one}\trefs/heads/one\n{two}\trefs/heads/two\n");
        let judge = |head: &str, branch| {
            judge_refs("shop", branch, &format!("{head}{refs}")).map_err(|no| no.to_string())
        };
        for head in [format!("ref: refs/heads/two\tHEAD\n{two}\tHEAD\n"), format!("{one}\tHEAD\n")]
        {
            assert_eq!(judge(&head, None), Ok(()), "{head}");
        }
        let aside = format!("{}\tHEAD\n", "3".repeat(40));
        let told = judge(&aside, None).unwrap_err();
        assert!(told.contains("with --branch (there are: one, two)"), "{told}");
        assert_eq!(judge(&aside, Some("two")), Ok(()));
        let told = judge(&aside, Some("main")).unwrap_err();
        assert!(told.contains("has no branch `main` (there are: one, two)"), "{told}");
        assert_eq!(judge_refs("shop", None, &format!("{aside}{one}\trefs/heads/main\n")), Ok(()));
        let told = judge_refs("shop", None, &aside).unwrap_err().to_string();
        assert!(told.contains("has commits and no branch"), "{told}");
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
