//! The part of a command's output that is kept: both ends for the model, and all of it in a file where that is not
//! enough.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::fcntl::OFlag;

use super::terminal::{FoldedTerminal, trouble_lines};
use codebutler_guides::text::clip_text;

/// Bytes kept of the beginning and of the end.
const HALF_OUTPUT: usize = 15_000;
/// Most lines about errors that are shown of the part that is left out, and their longest length.
const TROUBLES: usize = 20;
const MAX_TROUBLE: usize = 300;
/// Longest file, in bytes, and how many a role keeps.
const MAX_LOG: usize = 8 * 1024 * 1024;
const MAX_LOGS: usize = 20;
/// Bounds for a folder that commands may fill: names that are read, files that are removed at once, and the highest
/// number.
const MAX_NAMES: usize = 10_000;
const MAX_REMOVED: usize = 100;
const MAX_NUMBER: u32 = 999_999;
/// Most names that are tried where the next one exists.
const TRIES: u32 = 20;
/// Folder of these files, below the one for builds.
const FOLDER: &str = "out";

/// The beginning and the end of an output of any length, as a terminal would leave it.
#[derive(Default)]
pub(super) struct KeptOutput {
    terminal: FoldedTerminal,
    ends: KeptEnds,
}

/// Both ends of a text of any length, and the lines between them that speak of errors.
#[derive(Default)]
struct KeptEnds {
    head: String,
    tail: VecDeque<TailPiece>,
    /// Number of bytes in the tail.
    length: usize,
    dropped: u64,
    /// The first lines of what was dropped that tell of trouble.
    trouble: Vec<String>,
    /// Number of further such lines.
    more: usize,
}

struct TailPiece {
    text: String,
    /// Bytes of it that were searched for trouble: up to the end of a line of which some was dropped.
    searched: usize,
}

impl KeptOutput {
    /// Takes the next bytes of the output.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        let Self { terminal, ends } = self;
        terminal.push(bytes, &mut |text: &str| ends.push(text));
    }

    /// All of it, or both ends, how much is missing, where that is, and the lines of it that tell of trouble;
    /// without what would move a terminal's cursor.
    pub(super) fn text(mut self, whole: Option<&str>) -> String {
        let Self { terminal, ends } = &mut self;
        terminal.flush(&mut |text: &str| ends.push(text));
        let tail: String = ends.tail.iter().map(|piece| piece.text.as_str()).collect();
        if ends.dropped == 0 {
            let mut out = std::mem::take(&mut ends.head) + &tail;
            if let (Some(path), 1..) = (whole, terminal.drawn_over) {
                if !out.ends_with('\n') {
                    out.push('\n');
                }
                let _ = writeln!(
                    out,
                    "[{} lines that were drawn over are left out: `{path}` has them]",
                    terminal.drawn_over
                );
            }
            return out;
        }
        let place = whole.map_or_else(
            || "pipe it through head, tail or grep to see them".to_owned(),
            |path| format!("Read `{path}` from an offset, or grep in it"),
        );
        let mut gap = format!("[… {} bytes of output left out: {place} …]", ends.dropped);
        if !ends.trouble.is_empty() {
            let more =
                if ends.more > 0 { format!(" (and {} more)", ends.more) } else { String::new() };
            let _ = write!(
                gap,
                "\n[lines of it that tell of trouble{more}:]\n{}\n[…]",
                ends.trouble.join("\n")
            );
        }
        format!("{}\n{gap}\n{tail}", ends.head)
    }
}

impl KeptEnds {
    fn push(&mut self, text: &str) {
        let room = text.floor_char_boundary(HALF_OUTPUT.saturating_sub(self.head.len()));
        // A tail that has begun goes on, whatever a head of wide characters leaves.
        let room = if self.tail.is_empty() { room } else { 0 };
        let (head, rest) = text.split_at(room);
        self.head.push_str(head);
        if rest.is_empty() {
            return;
        }
        self.length += rest.len();
        self.tail.push_back(TailPiece { text: rest.to_owned(), searched: 0 });
        while self.length > HALF_OUTPUT {
            self.drop_some(self.length - HALF_OUTPUT);
        }
    }

    /// Drops about so much of the tail's beginning.
    fn drop_some(&mut self, over: usize) {
        let Some(first) = self.tail.front_mut() else { return };
        let cut = first.text.ceil_char_boundary(over.min(first.text.len()));
        if cut > first.searched {
            let ahead = first.text.as_bytes()[cut - 1..].iter().position(|byte| *byte == b'\n');
            let end = ahead.map_or(first.text.len(), |n| cut + n);
            for line in trouble_lines(&first.text[first.searched..end]) {
                if self.trouble.len() < TROUBLES {
                    self.trouble.push(clip_text(line, MAX_TROUBLE));
                } else {
                    self.more += 1;
                }
            }
            first.searched = end;
        }
        first.text.drain(..cut);
        first.searched -= cut;
        self.length -= cut;
        self.dropped += cut as u64;
        if first.text.is_empty() {
            self.tail.pop_front();
        }
    }
}

/// Log files for a role's long outputs.
#[derive(Clone, Debug)]
pub(super) struct OutputLogs {
    /// Folder for builds, in which the log files lie.
    pub build: PathBuf,
    pub role: String,
}

impl OutputLogs {
    /// A new file; the oldest ones go. Commands can write to the folder, so nothing in it is followed,
    /// and it is held while it is worked in.
    fn open(&self) -> io::Result<(File, String)> {
        let place = self.build.join(FOLDER);
        match fs::create_dir(&place) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let flags = (OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW).bits();
        let held = OpenOptions::new().read(true).custom_flags(flags).open(&place)?;
        let folder = PathBuf::from(format!("/proc/self/fd/{}", held.as_raw_fd()));
        let known = self.numbers(&folder)?;
        for old in known.iter().rev().skip(MAX_LOGS - 1).take(MAX_REMOVED) {
            let _ = fs::remove_file(folder.join(self.name(*old)));
        }
        let mut next = known.last().map_or(1, |last| last + 1);
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).custom_flags(OFlag::O_NOFOLLOW.bits()).mode(0o644);
        for step in 0..TRIES {
            let name = self.name(next);
            match options.open(folder.join(&name)) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => next += 1 << step,
                opened => return Ok((opened?, place.join(name).display().to_string())),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// Numbers of the log files, in order, of as many names as are looked at.
    fn numbers(&self, folder: &Path) -> io::Result<Vec<u32>> {
        let names = fs::read_dir(folder)?.take(MAX_NAMES).flatten();
        let numbers = names.filter_map(|entry| self.number(entry.file_name().to_str()?));
        let mut known: Vec<u32> = numbers.filter(|number| *number < MAX_NUMBER).collect();
        known.sort_unstable();
        Ok(known)
    }

    /// Keeps a text in a new file; its path.
    pub(super) fn keep(&self, text: &str) -> io::Result<String> {
        let (mut file, path) = self.open()?;
        let end = text.floor_char_boundary(MAX_LOG);
        file.write_all(&text.as_bytes()[..end])?;
        Ok(path)
    }

    fn name(&self, number: u32) -> String {
        format!("{}-{number:04}.log", self.role)
    }

    fn number(&self, name: &str) -> Option<u32> {
        name.strip_prefix(&self.role)?.strip_prefix('-')?.strip_suffix(".log")?.parse().ok()
    }
}

/// A command's output as it comes.
pub(super) struct CommandOutput {
    logs: Arc<OutputLogs>,
    kept: KeptOutput,
    /// All bytes of the output, as long as they are few.
    raw: Vec<u8>,
    log: Option<OutputLog>,
    /// True if no log file could be made.
    failed: bool,
}

struct OutputLog {
    file: File,
    path: String,
    room: usize,
}

impl CommandOutput {
    /// Starts empty; a log file is made only when it is needed.
    pub(super) fn new(logs: Arc<OutputLogs>) -> Self {
        Self { logs, kept: KeptOutput::default(), raw: Vec::new(), log: None, failed: false }
    }

    /// Takes the next bytes of the output.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        let fits = self.raw.len() + bytes.len() <= 2 * HALF_OUTPUT;
        if self.log.is_none() && !self.failed && !fits {
            // The output gets too long here: `raw` still has all that came before.
            match self.logs.open() {
                Ok((file, path)) => {
                    let mut log = OutputLog { file, path, room: MAX_LOG };
                    log.write(&std::mem::take(&mut self.raw));
                    self.log = Some(log);
                }
                Err(error) => {
                    tracing::warn!(%error, "output_write_failed");
                    self.failed = true;
                }
            }
        }
        match &mut self.log {
            Some(log) => log.write(bytes),
            None if fits => self.raw.extend_from_slice(bytes),
            None => {}
        }
        self.kept.push(bytes);
    }

    /// Takes the output that has come since the last call.
    pub(super) fn take(&mut self) -> String {
        let whole = self.log.as_ref().map(|log| log.path.clone());
        self.raw.clear();
        std::mem::take(&mut self.kept).text(whole.as_deref())
    }
}

impl OutputLog {
    fn write(&mut self, bytes: &[u8]) {
        let part = &bytes[..bytes.len().min(self.room)];
        if part.is_empty() {
            return;
        }
        self.room -= part.len();
        let cut = if self.room == 0 { "\n[the rest is not kept]\n" } else { "" };
        let written = self.file.write_all(part).and_then(|()| self.file.write_all(cut.as_bytes()));
        if let Err(error) = written {
            tracing::warn!(%error, "output_truncated");
            self.room = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_output_keeps_both_ends() {
        let mut kept = KeptOutput::default();
        kept.push(b"begin ");
        for _ in 0..10 {
            kept.push(&[b'x'; 9999]);
        }
        kept.push(b" end");
        let text = kept.text(None);
        assert!(text.starts_with("begin xx") && text.ends_with("xx end"));
        assert!(text.contains("[… 70000 bytes of output left out"), "{}", &text[14_990..15_100]);
    }

    #[test]
    fn progress_pushes_nothing_out_and_trouble_in_the_middle_is_told() {
        let frame = |n: usize| format!("\r[{}] {n}", "=".repeat(n / 40));
        let bar = (0..3000).map(frame).collect::<Vec<_>>().concat();
        let mut kept = KeptOutput::default();
        for part in
            format!("{bar}\nERROR: checksum of layer 0 is wrong\n{bar}\n").as_bytes().chunks(999)
        {
            kept.push(part);
        }
        let text = kept.text(Some("/out/pm-0001.log"));
        assert!(text.contains("\nERROR: checksum of layer 0 is wrong\n"), "{text}");
        assert!(
            text.contains("were drawn over are left out: `/out/pm-0001.log` has them"),
            "{text}"
        );
        let mut kept = KeptOutput::default();
        for n in 0..20_000 {
            let line =
                if n == 9_000 { "ñ FAILED: test_cart\n".into() } else { format!("ok {n}\n") };
            kept.push(line.as_bytes());
        }
        let text = kept.text(None);
        assert!(
            text.contains("tell of trouble:]\nñ FAILED: test_cart\n[…]"),
            "{}",
            &text[14_900..15_300]
        );
        assert!(text.len() < 31_000 && text.starts_with("ok 0\n") && text.ends_with("ok 19999\n"));
        let mut kept = KeptOutput::default();
        kept.push(b"a\r\nb\r\n");
        assert_eq!(kept.text(None), "a\nb\n");
    }

    fn logs(dir: &tempfile::TempDir) -> Arc<OutputLogs> {
        Arc::new(OutputLogs { build: dir.path().to_owned(), role: "pm".to_owned() })
    }

    #[test]
    fn all_of_a_long_output_is_in_a_file_and_a_short_one_in_none() {
        let dir = tempfile::tempdir().unwrap();
        let mut output = CommandOutput::new(logs(&dir));
        output.push(b"short");
        assert_eq!(output.take(), "short");
        assert!(!dir.path().join(FOLDER).exists());
        let whole: Vec<u8> = (0..100_000u32).flat_map(|n| format!("{n}\n").into_bytes()).collect();
        for part in whole.chunks(7_000) {
            output.push(part);
        }
        let file = dir.path().join("out/pm-0001.log");
        assert!(output.take().contains(&format!("Read `{}`", file.display())));
        assert_eq!(fs::read(&file).unwrap(), whole);
    }

    #[test]
    fn a_text_is_kept_whole() {
        let dir = tempfile::tempdir().unwrap();
        let text = "é\n".repeat(100_000);
        let path = logs(&dir).keep(&text).unwrap();
        assert_eq!(path, dir.path().join("out/pm-0001.log").display().to_string());
        assert_eq!(fs::read_to_string(path).unwrap(), text);
    }

    #[test]
    fn a_folder_that_a_command_has_filled_is_looked_at_in_part() {
        let dir = tempfile::tempdir().unwrap();
        let (logs, folder) = (logs(&dir), dir.path().join(FOLDER));
        fs::create_dir(&folder).unwrap();
        let count = MAX_NAMES + 2_000;
        for n in 1..=count {
            fs::write(folder.join(format!("pm-{n:04}.log")), "").unwrap();
        }
        fs::write(folder.join(format!("pm-{}.log", u32::MAX)), "").unwrap();
        assert!(logs.numbers(&folder).unwrap().len() <= MAX_NAMES);
        let kept = logs.keep("whole").unwrap();
        assert_eq!(fs::read_to_string(kept).unwrap(), "whole");
        let left = fs::read_dir(&folder).unwrap().count();
        assert!(left >= count - MAX_REMOVED, "all went at once: {left} are left");
    }

    #[test]
    fn files_are_bounded_in_size_and_number() {
        let dir = tempfile::tempdir().unwrap();
        for _ in 0..MAX_LOGS + 3 {
            let mut output = CommandOutput::new(logs(&dir));
            output.push(&vec![b'x'; 40_000]);
        }
        let names = fs::read_dir(dir.path().join(FOLDER)).unwrap().flatten();
        let mut names: Vec<_> = names.map(|e| e.file_name().into_string().unwrap()).collect();
        names.sort();
        assert_eq!((names.len(), names[0].as_str()), (MAX_LOGS, "pm-0004.log"));
        let mut output = CommandOutput::new(logs(&dir));
        for _ in 0..12 {
            output.push(&vec![b'x'; 1024 * 1024]);
        }
        let size = fs::metadata(dir.path().join("out/pm-0024.log")).unwrap().len();
        assert!(size < MAX_LOG as u64 + 100, "{size}");
    }

    #[test]
    fn a_link_in_its_place_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(elsewhere.path(), dir.path().join(FOLDER)).unwrap();
        let mut output = CommandOutput::new(logs(&dir));
        output.push(&vec![b'x'; 40_000]);
        assert!(output.take().contains("pipe it through"));
        assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 0);
    }
}
