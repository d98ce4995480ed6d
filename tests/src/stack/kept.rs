//! A folder in which a stack outlives its process: one file with what its servers know, beside the
//! Git remotes and volumes that lie there anyway.

use std::fs::{File, TryLockError};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::RunningStack;
use crate::slack::SlackWorld;
use crate::{apiserver, github};

/// Grows whenever an older file can't be read any more.
const FORMAT: u32 = 1;
const FILE: &str = "codebutler-demo.json";
const LOCK: &str = "codebutler-demo.lock";

/// An error of a folder in which a demo keeps its state.
#[derive(Debug, thiserror::Error)]
pub enum KeptError {
    /// Something else lies there.
    #[error("{0} is not empty and holds no demo: name a new folder, or that of an earlier demo")]
    Foreign(PathBuf),
    /// The path is a file; a folder is needed.
    #[error("{0} is a file: name a folder")]
    NoFolder(PathBuf),
    /// Another process works there.
    #[error(
        "{dir} is in use by another demo (process {process}): end that one, or name another folder"
    )]
    Locked {
        /// Folder that another process has locked.
        dir: PathBuf,
        /// Process id, as the other one wrote it.
        process: String,
    },
    /// The state was written by another version of the demo.
    #[error(
        "{dir} was written by another version of the demo (format {found}, this one has {FORMAT}): \
         name another folder"
    )]
    Format {
        /// Folder that holds the state.
        dir: PathBuf,
        /// Format of the state that was found.
        found: u64,
    },
    /// The state belongs to a demo of another repository.
    #[error("{dir} holds the demo of {holds}, not of {wanted}: name another folder")]
    Source {
        /// Folder that holds the state.
        dir: PathBuf,
        /// Repository that the state belongs to.
        holds: String,
        /// Repository that was asked for.
        wanted: String,
    },
    /// The folder was moved after it was made.
    #[error("{dir} was made as {made}, and the volumes in it are bound to that path: move it back")]
    Moved {
        /// Path at which the folder is now.
        dir: PathBuf,
        /// Path at which it was made.
        made: PathBuf,
    },
    /// A file of the state is damaged.
    #[error("{path} can't be read ({source}): name another folder")]
    Broken {
        /// File that can't be parsed.
        path: PathBuf,
        /// Error of the JSON parser.
        source: serde_json::Error,
    },
    /// Reading or writing the state failed.
    #[error("{path}: {source}")]
    Io {
        /// File or folder that was accessed.
        path: PathBuf,
        /// Underlying error of the system.
        source: std::io::Error,
    },
}

fn io_error(path: &Path) -> impl FnOnce(std::io::Error) -> KeptError {
    let path = path.to_owned();
    |source| KeptError::Io { path, source }
}

/// Content of the state file.
#[derive(Debug, Serialize, Deserialize)]
struct SavedState<L> {
    format: u64,
    dir: PathBuf,
    /// The repository that it is all about.
    source: String,
    /// Absent until the first stack has run.
    life: Option<L>,
}

/// State of the servers that the next run goes on with.
#[derive(Debug, Serialize, Deserialize)]
pub struct KeptLife {
    /// Head of the default branch before anything happened.
    pub first_commit: String,
    /// The repository's default branch.
    pub branch: String,
    /// Ports that the servers listened on.
    pub ports: KeptPorts,
    /// Token that lets a browser use the chat page.
    pub page_token: String,
    /// The API server's objects.
    pub objects: apiserver::ServerSnapshot,
    /// Slack's workspace: people, channels and messages.
    pub workspace: SlackWorld,
    /// Pull requests and other data of the Git host.
    pub host: github::GitHubSnapshot,
}

/// Ports that the servers listen on.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct KeptPorts {
    /// Port of Slack and of the chat page.
    pub slack: Option<u16>,
    /// Port of the GitHub host.
    pub github: Option<u16>,
    /// Port of the Kubernetes API server.
    pub cluster: Option<u16>,
    /// Port of the model server.
    pub models: Option<u16>,
}

/// A folder that is kept, locked as long as this lives.
#[derive(Debug)]
pub struct KeptFolder {
    dir: PathBuf,
    source: String,
    life: Option<KeptLife>,
    seen: (u64, u64),
    _lock: File,
}

impl KeptFolder {
    /// Takes a folder: a new one, or that of an earlier demo of the same repository (or of any, if
    /// none is asked for).
    ///
    /// # Errors
    /// A sentence that says what to do.
    pub fn open(dir: &Path, wanted: Option<&str>, sample: &str) -> Result<Self, KeptError> {
        if dir.is_file() {
            return Err(KeptError::NoFolder(dir.to_owned()));
        }
        std::fs::create_dir_all(dir).map_err(io_error(dir))?;
        let dir = dir.canonicalize().map_err(io_error(dir))?;
        let file = dir.join(FILE);
        let used = std::fs::read_dir(&dir).map_err(io_error(&dir))?.next().is_some();
        if used && !file.exists() {
            return Err(KeptError::Foreign(dir));
        }
        let lock = lock_folder(&dir)?;
        if !used {
            let source = wanted.unwrap_or(sample).to_owned();
            let kept = Self { dir, source, life: None, seen: (0, 0), _lock: lock };
            kept.write(None)?;
            return Ok(kept);
        }
        let text = std::fs::read(&file).map_err(io_error(&file))?;
        let broken = |source| KeptError::Broken { path: file.clone(), source };
        // The format first: all else may look different in another one.
        let any: serde_json::Value = serde_json::from_slice(&text).map_err(broken)?;
        let found = any["format"].as_u64().unwrap_or_default();
        if found != u64::from(FORMAT) {
            return Err(KeptError::Format { dir, found });
        }
        let SavedState { dir: made, source: holds, life, .. } =
            serde_json::from_slice::<SavedState<KeptLife>>(&text).map_err(broken)?;
        if made != dir {
            return Err(KeptError::Moved { dir, made });
        }
        match wanted {
            Some(wanted) if wanted != holds => {
                Err(KeptError::Source { dir, holds, wanted: wanted.to_owned() })
            }
            _ => Ok(Self { dir, source: holds, life, seen: (0, 0), _lock: lock }),
        }
    }

    /// Path of the folder that is kept.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The repository that it is all about.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.source
    }

    /// State of the servers when it was last saved, if it ever was.
    #[must_use]
    pub fn life(&self) -> Option<&KeptLife> {
        self.life.as_ref()
    }

    /// Takes the saved state out, to start the servers with it.
    pub fn take(&mut self) -> Option<KeptLife> {
        self.life.take()
    }

    /// Saves what the stack's servers know now, if that is news.
    ///
    /// # Errors
    /// When the disk fails.
    pub async fn save(&mut self, stack: &RunningStack) -> Result<(), KeptError> {
        let Some(server) = stack.cluster.server() else { return Ok(()) };
        let now = (server.version(), stack.slack.version());
        if now == self.seen {
            return Ok(());
        }
        let life = KeptLife {
            first_commit: stack.first_commit.clone(),
            branch: stack.branch.clone(),
            ports: KeptPorts {
                slack: stack.slack.origin().rsplit(':').next().and_then(|port| port.parse().ok()),
                github: Some(stack.github.port()),
                cluster: Some(server.port()),
                models: Some(stack.models.port()),
            },
            page_token: stack.slack.page_token().to_owned(),
            host: stack.github.snapshot().await,
            // Marks before messages: one that is marked must be there to be read.
            objects: server.snapshot(),
            workspace: stack.slack.snapshot(),
        };
        self.write(Some(&life))?;
        self.seen = now;
        Ok(())
    }

    /// Replaces the file as a whole. It holds Secrets, so nobody else may read it.
    fn write(&self, life: Option<&KeptLife>) -> Result<(), KeptError> {
        let (dir, source) = (self.dir.clone(), self.source.clone());
        let saved = SavedState { format: u64::from(FORMAT), dir, source, life };
        let (path, new) = (self.dir.join(FILE), self.dir.join(format!("{FILE}.new")));
        let text = serde_json::to_vec(&saved)
            .map_err(|source| KeptError::Broken { path: path.clone(), source })?;
        let mut options = File::options();
        options.create(true).truncate(true).write(true).mode(0o600);
        let mut file = options.open(&new).map_err(io_error(&new))?;
        file.write_all(&text).and_then(|()| file.sync_all()).map_err(io_error(&new))?;
        std::fs::rename(&new, &path).map_err(io_error(&path))
    }
}

fn lock_folder(dir: &Path) -> Result<File, KeptError> {
    let path = dir.join(LOCK);
    let mut options = File::options();
    options.create(true).truncate(false).read(true).write(true);
    let mut file = options.open(&path).map_err(io_error(&path))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut process = String::new();
            let _ = file.read_to_string(&mut process);
            return Err(KeptError::Locked {
                dir: dir.to_owned(),
                process: process.trim().to_owned(),
            });
        }
        Err(TryLockError::Error(source)) => return Err(io_error(&path)(source)),
    }
    file.set_len(0).map_err(io_error(&path))?;
    writeln!(file, "{}", std::process::id()).map_err(io_error(&path))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(dir: &Path, wanted: Option<&str>) -> String {
        KeptFolder::open(dir, wanted, "the sample").unwrap_err().to_string()
    }

    #[test]
    fn a_folder_that_can_t_be_used_is_told_why() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, "x").unwrap();
        assert!(told(&file, None).ends_with("is a file: name a folder"));
        assert!(told(dir.path(), None).contains("is not empty and holds no demo"));

        let dir = dir.path().join("new");
        let first = KeptFolder::open(&dir, None, "the sample").unwrap();
        let process = format!("in use by another demo (process {})", std::process::id());
        assert!(told(&dir, None).contains(&process));
        drop(first);
        assert!(
            told(&dir, Some("/src/shop"))
                .contains("holds the demo of the sample, not of /src/shop")
        );
        assert_eq!(KeptFolder::open(&dir, None, "other").unwrap().source(), "the sample");

        let moved = dir.with_file_name("moved");
        std::fs::rename(&dir, &moved).unwrap();
        assert!(told(&moved, None).contains("move it back"));
        let state = moved.join(FILE);
        let text = std::fs::read_to_string(&state).unwrap();
        std::fs::write(&state, text.replace("\"format\":1", "\"format\":9")).unwrap();
        assert!(told(&moved, None).contains("another version of the demo (format 9"));
        std::fs::write(&state, "{").unwrap();
        assert!(told(&moved, None).contains("can't be read"));
    }
}
