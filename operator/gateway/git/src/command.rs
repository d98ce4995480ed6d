//! `git` as a child process. It works on objects and refs in one folder and nowhere else (see
//! [`confine`]): it has no credential, no network protocol, no configuration of a user's or the
//! system's, and runs no hook.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::LazyLock;
use std::time::Duration;

use rustix::process::{Pid, getpriority_process, setpriority_process};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::confine::{self, CommandBounds};

/// Search path for programs.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";
/// The program, by its whole path: to look up a name in another `PATH` than its own, a process is forked,
/// with a copy of all that says where this one's memory is.
static GIT: LazyLock<PathBuf> = LazyLock::new(|| {
    let mut candidates = PATH.split(':').map(|folder| Path::new(folder).join("git"));
    candidates.find(|path| path.is_file()).unwrap_or_else(|| PathBuf::from("git"))
});
/// Most output that is kept of a command, in bytes.
const MAX_OUTPUT: u64 = 64 * 1024 * 1024;
/// Most of its complaints, in bytes.
const MAX_COMPLAINT: u64 = 4096;
/// Niceness added to a process that gives way: others get nine of ten turns, and it is never without one.
const BACK: i32 = 10;
/// Default time limit of a command.
pub(crate) const PATIENCE: Duration = Duration::from_mins(10);
/// Resource limits of commands on the copy of a remote.
const OF_COPY: CommandBounds =
    CommandBounds { memory: 512 << 20, piece: 256 << 20, seconds: 1800, file: 16 << 30 };
/// Options of every command: no hook, no tidying up behind our back, no way out, and large files are not held in
/// memory.
const ALWAYS: [&str; 18] = [
    "-c",
    "core.hooksPath=/dev/null",
    "-c",
    "gc.auto=0",
    "-c",
    "maintenance.auto=false",
    "-c",
    "protocol.allow=never",
    "-c",
    "core.bigFileThreshold=32m",
    "-c",
    "pack.windowMemory=16m",
    "-c",
    "pack.deltaCacheSize=16m",
    "-c",
    "core.deltaBaseCacheLimit=16m",
    "-c",
    "pack.threads=1",
];

/// A Git command failed, could not be run or was stopped at a limit.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// The command could not be started or talked to.
    #[error("git can't be run: {0}")]
    Run(#[from] std::io::Error),
    #[error("git {command} ended with {code}: {said}")]
    Failed {
        command: String,
        /// Exit code; -1 after a signal.
        code: i32,
        said: String,
    },
    /// The output is larger than is accepted.
    #[error("git {0} says too much")]
    TooMuch(String),
    #[error("git {0} takes too long")]
    TooLong(String),
}

/// A bare repository to run commands in.
#[derive(Clone, Debug)]
pub struct GitRepository {
    dir: PathBuf,
    quarantine: Option<(PathBuf, CommandBounds)>,
}

impl GitRepository {
    /// Opens the repository in `dir`; nothing is checked.
    pub fn at(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into(), quarantine: None }
    }

    /// Returns a repository with the same refs and objects, but new objects are written to (and found in) a folder of
    /// their own, under tighter limits.
    pub fn with_quarantine(&self, objects: &Path, bounds: CommandBounds) -> Self {
        Self { dir: self.dir.clone(), quarantine: Some((objects.to_owned(), bounds)) }
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// A command, not started yet, whose ends are pipes.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&*GIT);
        command
            .args(ALWAYS)
            .args(arguments)
            .env_clear()
            .env("PATH", PATH)
            .env("HOME", "/nonexistent")
            .env("LC_ALL", "C.UTF-8")
            .env("GIT_DIR", &self.dir)
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_ATTR_NOSYSTEM", "1")
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GIT_NO_REPLACE_OBJECTS", "1")
            .env("GIT_NO_LAZY_FETCH", "1")
            // Git itself fails when a single allocation would exceed this limit.
            .env("GIT_ALLOC_LIMIT", self.bounds().piece.to_string())
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        if let Some((objects, _)) = &self.quarantine {
            command
                .env("GIT_OBJECT_DIRECTORY", objects)
                .env("GIT_ALTERNATE_OBJECT_DIRECTORIES", self.dir.join("objects"))
                .env("GIT_QUARANTINE_PATH", objects);
        }
        command
    }

    /// Starts a command that is talked to while it runs.
    pub fn start(&self, arguments: &[&str]) -> Result<RunningGit, CommandError> {
        let name = arguments.first().copied().unwrap_or_default();
        self.start_command(self.command(arguments), name)
    }

    /// Starts a command made by [`Self::command`].
    pub fn start_command(&self, command: Command, name: &str) -> Result<RunningGit, CommandError> {
        let objects = self.quarantine.as_ref().map(|(objects, _)| objects.clone());
        let folders: Vec<_> = std::iter::once(self.dir.clone()).chain(objects).collect();
        RunningGit::new(confine::spawn_confined(command, &folders, self.bounds())?, name)
    }

    fn bounds(&self) -> CommandBounds {
        self.quarantine.as_ref().map_or(OF_COPY, |(_, bounds)| *bounds)
    }

    /// Runs a command to its end and gives its output.
    pub async fn run(&self, arguments: &[&str], input: &[u8]) -> Result<Vec<u8>, CommandError> {
        self.start(arguments)?.finish(input).await
    }

    /// Runs a command that answers yes (0) or no (1).
    pub async fn asks(&self, arguments: &[&str]) -> Result<bool, CommandError> {
        match self.run(arguments, b"").await {
            Ok(_) => Ok(true),
            Err(CommandError::Failed { code: 1, .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// A command that runs; dropped, it is killed.
#[derive(Debug)]
pub struct RunningGit {
    name: String,
    /// Standard input, until it is taken.
    pub stdin: Option<ChildStdin>,
    pub stdout: ChildStdout,
    child: Child,
}

impl RunningGit {
    fn new(mut child: Child, name: &str) -> Result<Self, CommandError> {
        let broken = || std::io::Error::from(std::io::ErrorKind::BrokenPipe);
        let stdin = child.stdin.take().ok_or_else(broken)?;
        let stdout = child.stdout.take().ok_or_else(broken)?;
        Ok(Self { name: name.to_owned(), stdin: Some(stdin), stdout, child })
    }

    /// Lowers the command's priority, for work that may take a processor for long.
    pub fn give_way(&self) {
        let pid = self.child.id().and_then(|pid| Pid::from_raw(pid.cast_signed()));
        let own = getpriority_process(None).unwrap_or_default();
        // Setting the priority of a process that has ended fails, and need not succeed.
        let _ = pid.map(|pid| setpriority_process(Some(pid), own.saturating_add(BACK)));
    }

    /// Feeds `input`, reads everything, and waits for the end.
    pub async fn finish(mut self, input: &[u8]) -> Result<Vec<u8>, CommandError> {
        let stdin = self.stdin.take();
        let feed = async move {
            if let Some(mut stdin) = stdin {
                // A command that ends early says why by itself.
                let _ = stdin.write_all(input).await;
            }
        };
        let name = self.name.clone();
        let work = async { tokio::join!(feed, self.rest()).1 };
        let late = |_| CommandError::TooLong(name);
        tokio::time::timeout(PATIENCE, work).await.map_err(late)?
    }

    /// Takes the streams and the process apart; the process has to be kept as long as they are used.
    pub fn apart(self) -> Result<(ChildStdin, ChildStdout, Child), CommandError> {
        let broken = || std::io::Error::from(std::io::ErrorKind::BrokenPipe);
        Ok((self.stdin.ok_or_else(broken)?, self.stdout, self.child))
    }

    /// Reads what is left of its output, and waits for the end.
    pub async fn rest(mut self) -> Result<Vec<u8>, CommandError> {
        drop(self.stdin.take());
        let stderr = self.child.stderr.take();
        let complaint = async {
            let mut said = Vec::new();
            if let Some(mut stderr) = stderr {
                let _ = (&mut stderr).take(MAX_COMPLAINT).read_to_end(&mut said).await;
                let _ = tokio::io::copy(&mut stderr, &mut tokio::io::sink()).await;
            }
            Ok(String::from_utf8_lossy(&said).trim().to_owned())
        };
        let mut out = Vec::new();
        let read = async {
            let read = (&mut self.stdout).take(MAX_OUTPUT).read_to_end(&mut out).await?;
            if u64::try_from(read).is_ok_and(|read| read < MAX_OUTPUT) {
                Ok(())
            } else {
                Err(CommandError::TooMuch(self.name.clone()))
            }
        };
        let ((), said) = tokio::try_join!(read, complaint)?;
        let status = self.child.wait().await?;
        if status.success() {
            return Ok(out);
        }
        let code = status.code().unwrap_or(-1);
        Err(CommandError::Failed { command: self.name.clone(), code, said })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn repository() -> (tempfile::TempDir, GitRepository) {
        let dir = tempfile::tempdir().unwrap();
        let git = GitRepository::at(dir.path());
        git.run(&["init", "--quiet", "--bare"], b"").await.unwrap();
        (dir, git)
    }

    #[tokio::test]
    async fn a_command_is_fed_and_answers() {
        let (_dir, git) = repository().await;
        let id = git.run(&["hash-object", "-w", "--stdin"], b"hello\n").await.unwrap();
        assert_eq!(id, b"ce013625030ba8dba906f756967f9e9ca394464a\n");
        let text = String::from_utf8(id).unwrap();
        assert!(git.asks(&["cat-file", "-e", text.trim()]).await.unwrap());
        assert!(!git.asks(&["cat-file", "-e", &"1".repeat(40)]).await.unwrap());
        let error = git.run(&["cat-file", "-p", "nothing"], b"").await.unwrap_err().to_string();
        assert!(error.starts_with("git cat-file ended with 128: fatal: "), "{error}");
    }

    #[tokio::test]
    async fn it_reaches_no_other_host_and_runs_no_hook() {
        let (dir, git) = repository().await;
        let other = format!("file://{}", dir.path().display());
        let error = git.run(&["ls-remote", &other], b"").await.unwrap_err().to_string();
        assert!(error.contains("transport 'file' not allowed"), "{error}");
        let (mark, hook) =
            (dir.path().join("mark"), dir.path().join("hooks/reference-transaction"));
        std::fs::create_dir_all(dir.path().join("hooks")).unwrap();
        std::fs::write(&hook, format!("#!/bin/sh\ntouch {}\n", mark.display())).unwrap();
        std::fs::set_permissions(&hook, std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .unwrap();
        let id = git.run(&["hash-object", "-w", "--stdin"], b"hello\n").await.unwrap();
        let id = String::from_utf8(id).unwrap();
        git.run(&["update-ref", "refs/x", id.trim()], b"").await.unwrap();
        assert!(!mark.exists());
    }
}
