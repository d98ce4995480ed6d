//! One simple command of a script.

use super::known::{HOLE, is_socket, known_word};
use super::{ShellWord, listing};

/// Programs that run what they are given.
const RUNNERS: [&str; 12] = [
    "eval", "exec", "command", "builtin", "env", "sh", "bash", "timeout", "nohup", "nice", "xargs",
    "sudo",
];

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlainCommand {
    /// The program and its arguments.
    pub words: Vec<ShellWord>,
    /// The same, with [`HOLE`] for each part that is not known.
    pub shapes: Vec<String>,
    /// Files that it writes by redirection.
    pub writes: Vec<ShellWord>,
    /// Files among `writes` that a redirection empties first.
    pub replaces: Vec<ShellWord>,
    /// Files that it reads by redirection; nothing for what is only known when it runs.
    pub reads: Vec<ShellWord>,
    /// Variables that are set for it alone.
    pub sets: Vec<(String, ShellWord)>,
    /// Text that a here-document or here-string feeds to it.
    pub input: Option<String>,
    /// True if another command's output is its input.
    pub piped: bool,
    /// Output of that command, where it is known.
    pub fed: Option<String>,
    /// The programs whose output comes through the pipe.
    pub from: Vec<String>,
    /// The programs whose output is among its words, or is fed to it.
    pub within: Vec<String>,
    /// True if a list of all files, the repository's own folder among them, is in its words or is its input.
    pub lists: bool,
}

impl PlainCommand {
    /// The same command with other words.
    #[must_use]
    pub fn with_words(&self, words: Vec<ShellWord>) -> Self {
        let shape = |word: &ShellWord| word.clone().unwrap_or_else(|| HOLE.to_string());
        Self { shapes: words.iter().map(shape).collect(), words, ..self.clone() }
    }

    /// The program without its folder.
    pub fn program(&self) -> Option<&str> {
        let name = self.words.first()?.as_deref()?;
        Some(name.rsplit('/').next().unwrap_or(name))
    }

    /// True if it runs something that is only known when it runs.
    pub(super) fn runs_unknown(&self) -> bool {
        match self.words.first() {
            Some(None) => true,
            Some(Some(name)) => {
                RUNNERS.contains(&name.as_str()) && self.words.iter().any(Option::is_none)
            }
            None => false,
        }
    }

    /// True if it puts out a list of all files.
    pub(super) fn prints_all(&self) -> bool {
        listing::prints_all(&self.shapes, self.lists)
    }

    /// The program, and where it reads from another host.
    pub(super) fn sources(&self) -> impl Iterator<Item = String> + '_ {
        let sockets = self.reads.iter().flatten().filter(|file| is_socket(file));
        self.words.first().and_then(Option::as_ref).into_iter().chain(sockets).cloned()
    }

    pub(super) fn push(&mut self, shape: String) {
        self.words.push(known_word(&shape));
        self.shapes.push(shape);
    }
}
