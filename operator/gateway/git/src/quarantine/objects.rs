//! Reads Git objects one by one, each up to a size, from one `git cat-file`.

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{ChildStdin, ChildStdout};

use crate::command::{CommandError, GitRepository, PATIENCE};
use crate::push::is_object;

/// Largest object that is read. Larger files than a role may push are not looked into.
const MAX_OBJECT: u64 = 128 * 1024 * 1024;

/// Largest tree or commit that is read: a folder of some 100,000 files. What is in it takes ten times as
/// much memory.
const MAX_SMALL: u64 = 4 * 1024 * 1024;

/// A `git cat-file` that is asked for one object after another.
pub(crate) struct ObjectReader {
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    _running: tokio::process::Child,
}

impl ObjectReader {
    /// Opens the repository's objects.
    pub(crate) fn open(git: &GitRepository) -> Result<Self, CommandError> {
        let (stdin, stdout, running) = git.start(&["cat-file", "--batch"])?.apart()?;
        Ok(Self { stdin, stdout: BufReader::new(stdout), _running: running })
    }

    /// Reads an object's content. An id that is no object of this repository (a submodule) has none.
    pub(super) async fn read(&mut self, id: &str) -> Result<Vec<u8>, CommandError> {
        self.read_up_to(id, MAX_OBJECT).await
    }

    /// The list of what is in a folder, or a commit's text.
    pub(super) async fn read_small(&mut self, id: &str) -> Result<Vec<u8>, CommandError> {
        self.read_up_to(id, MAX_SMALL).await
    }

    /// Reads an object's content, unless it has more bytes.
    pub(crate) async fn read_or_skip(
        &mut self,
        id: &str,
        most: u64,
    ) -> Result<Option<Vec<u8>>, CommandError> {
        let work = async {
            let size = self.ask(id).await?;
            if size <= most {
                return self.content(size).await.map(Some);
            }
            let mut content = (&mut self.stdout).take(size + 1);
            tokio::io::copy(&mut content, &mut tokio::io::sink()).await?;
            Ok(None)
        };
        tokio::time::timeout(PATIENCE, work).await.map_err(late)?
    }

    async fn read_up_to(&mut self, id: &str, most: u64) -> Result<Vec<u8>, CommandError> {
        if !is_object(id) {
            return Ok(Vec::new());
        }
        let work = async {
            let size = self.ask(id).await?;
            if size > most {
                return Err(CommandError::TooMuch("cat-file".to_owned()));
            }
            self.content(size).await
        };
        tokio::time::timeout(PATIENCE, work).await.map_err(late)?
    }

    /// Requests an object and returns its size.
    async fn ask(&mut self, id: &str) -> Result<u64, CommandError> {
        self.stdin.write_all(format!("{id}\n").as_bytes()).await?;
        let mut head = String::new();
        (&mut self.stdout).take(256).read_line(&mut head).await?;
        let size = head.trim_end().rsplit(' ').next().and_then(|size| size.parse::<u64>().ok());
        size.ok_or_else(|| {
            let said = format!("{id} is missing");
            CommandError::Failed { command: "cat-file".to_owned(), code: 1, said }
        })
    }

    async fn content(&mut self, size: u64) -> Result<Vec<u8>, CommandError> {
        let mut bytes = Vec::new();
        (&mut self.stdout).take(size + 1).read_to_end(&mut bytes).await?;
        bytes.pop();
        Ok(bytes)
    }
}

fn late(_: tokio::time::error::Elapsed) -> CommandError {
    CommandError::TooLong("cat-file".to_owned())
}

/// Tree and parents of a commit.
pub(super) fn commits_head(text: &str) -> Option<(String, Vec<String>)> {
    let mut lines = text.lines();
    let tree = lines.next()?.strip_prefix("tree ").filter(|id| is_object(id))?;
    let parents = lines.map_while(|line| line.strip_prefix("parent "));
    Some((tree.to_owned(), parents.map(str::to_owned).collect()))
}
