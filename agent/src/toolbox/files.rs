//! Read, Write and Edit.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nix::fcntl::OFlag;
use sha2::{Digest as _, Sha256};

use super::paths::{Located, Tree};
use super::protocol::{EditPlan, Reply};
use super::{ToolError, show};
use crate::text::clip;
use crate::tools::args;

/// Largest file that is read or edited, in bytes.
const MAX_FILE: u64 = 16 * 1024 * 1024;
const DEFAULT_LINES: usize = 2000;
const MAX_LINE_CHARS: usize = 2000;
/// Most text that one Read answers with, in bytes.
const MAX_TEXT: usize = 60_000;
/// Nobody writes one file for this long.
const ABANDONED: Duration = Duration::from_hours(1);

/// What this role has seen: the content's hash, by resolved path. Kept in a file beside the
/// worktree, so that a restarted pod may edit what it had read. Commands can write that file; all
/// they would gain is an edit of a file that nobody read.
#[derive(Debug, Default)]
pub struct Seen {
    hashes: Mutex<HashMap<PathBuf, String>>,
    file: Option<PathBuf>,
}

impl Seen {
    /// What was kept in `file`; nothing if it isn't there or isn't readable.
    pub fn kept_in(file: PathBuf) -> Self {
        let kept = fs::read(&file).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
        Self { hashes: Mutex::new(kept.unwrap_or_default()), file: Some(file) }
    }
    fn lock(&self) -> MutexGuard<'_, HashMap<PathBuf, String>> {
        self.hashes.lock().unwrap_or_else(PoisonError::into_inner)
    }
    fn remember(&self, path: &Path, hash: &str) {
        let mut hashes = self.lock();
        if hashes.insert(path.to_owned(), hash.to_owned()).as_deref() == Some(hash) {
            return;
        }
        if let Some(file) = &self.file
            && let Err(error) = keep(file, &hashes)
        {
            tracing::warn!(%error, "what was read is not kept for after a restart");
        }
    }
    fn hash(&self, path: &Path) -> Option<String> {
        self.lock().get(path).cloned()
    }
}

/// Replaced as a whole, so that a kill leaves the old or the new.
fn keep(file: &Path, hashes: &HashMap<PathBuf, String>) -> std::io::Result<()> {
    let next = file.with_extension("next");
    fs::write(&next, serde_json::to_vec(hashes)?)?;
    fs::rename(next, file)
}

/// Numbered lines of a text file, or a picture.
pub fn read(tree: &Tree, seen: &Seen, args: &args::Read) -> Result<Reply, ToolError> {
    let at = tree.locate(&args.path)?;
    let bytes = load(&at)?;
    if let Some(media_type) = show::media_type(&bytes) {
        return show::picture(&at, media_type, &bytes).map(Reply::Picture);
    }
    if bytes.iter().take(8192).any(|b| *b == 0) {
        let size = bytes.len();
        return Err(ToolError::refused(format!(
            "`{}` is a binary file of {size} bytes: look at it with a program of the workspace, in Bash",
            at.shown
        )));
    }
    seen.remember(&at.full, &sha256(&bytes));
    let text = String::from_utf8_lossy(&bytes);
    if at.full.extension().is_some_and(|extension| extension == "ipynb")
        && let Some(cells) = show::notebook(&text)
    {
        let note = "(a notebook: its cells as text; edit the JSON of the file)\n";
        return numbered(&at.shown, &cells, args).map(|text| Reply::Text(format!("{note}{text}")));
    }
    numbered(&at.shown, &text, args).map(Reply::Text)
}

fn numbered(shown: &str, text: &str, args: &args::Read) -> Result<String, ToolError> {
    let total = text.lines().count();
    if total == 0 {
        return Ok(format!("`{shown}` is empty"));
    }
    let first = args.offset.map_or(1, |n| n.max(1)) as usize;
    let limit = args.limit.map_or(DEFAULT_LINES, |n| n.max(1) as usize);
    if first > total {
        return Err(ToolError::refused(format!("`{shown}` has only {total} lines")));
    }
    let mut out = String::new();
    let mut last = first - 1;
    for (number, line) in text.lines().enumerate().skip(first - 1).take(limit) {
        if out.len() > MAX_TEXT {
            break;
        }
        let _ = writeln!(out, "{:>6}\t{}", number + 1, clip(line, MAX_LINE_CHARS));
        last = number + 1;
    }
    if first > 1 || last < total {
        let _ = write!(out, "(lines {first} to {last} of {total}");
        let _ = match last {
            _ if last < total => writeln!(out, "; read on with offset {})", last + 1),
            _ => writeln!(out, ")"),
        };
    }
    Ok(out)
}

/// Replaces or creates a file.
pub fn write(
    tree: &Tree,
    seen: &Seen,
    scratch: &Path,
    args: &args::Write,
) -> Result<String, ToolError> {
    let at = tree.locate(&args.path)?;
    let existed = regular(&at)?.is_some();
    if let Some(parent) = at.full.parent() {
        fs::create_dir_all(parent).map_err(|e| io(&at, "the folder can't be made", &e))?;
    }
    store(&at, scratch, args.content.as_bytes())?;
    seen.remember(&at.full, &sha256(args.content.as_bytes()));
    let lines = args.content.lines().count();
    let what = if existed { "Wrote" } else { "Created" };
    Ok(format!("{what} `{}` ({lines} lines)", at.shown))
}

/// What an edit would do.
pub fn plan_edit(tree: &Tree, seen: &Seen, args: &args::Edit) -> Result<EditPlan, ToolError> {
    let at = tree.locate(&args.path)?;
    let bytes = load(&at)?;
    let before = sha256(&bytes);
    match seen.hash(&at.full) {
        None => {
            return Err(ToolError::refused(format!(
                "read `{}` first (what was read before a restart of the pod does not count)",
                at.shown
            )));
        }
        Some(known) if known != before => {
            return Err(ToolError::refused(format!(
                "`{}` has changed since you read it: read it again",
                at.shown
            )));
        }
        Some(_) => {}
    }
    let after = sha256(replaced(&at, &bytes, args)?.as_bytes());
    Ok(EditPlan { before, after })
}

/// Does a planned edit. A repetition after a crash finds it done, or does it now.
pub fn edit(
    tree: &Tree,
    seen: &Seen,
    scratch: &Path,
    args: &args::Edit,
    plan: &EditPlan,
) -> Result<String, ToolError> {
    let at = tree.locate(&args.path)?;
    let bytes = load(&at)?;
    let now = sha256(&bytes);
    if now == plan.before {
        let text = replaced(&at, &bytes, args)?;
        store(&at, scratch, text.as_bytes())?;
    } else if now != plan.after {
        return Err(ToolError::refused(format!(
            "`{}` was changed by something else meanwhile: read it again",
            at.shown
        )));
    }
    seen.remember(&at.full, &plan.after);
    let count = args.edits.len();
    Ok(format!("Edited `{}` ({count} replacement{})", at.shown, if count == 1 { "" } else { "s" }))
}

fn replaced(at: &Located, bytes: &[u8], args: &args::Edit) -> Result<String, ToolError> {
    let refuse = |why: String| Err(ToolError::refused(why));
    let Ok(text) = std::str::from_utf8(bytes) else {
        return refuse(format!("`{}` is not UTF-8 text", at.shown));
    };
    if args.edits.is_empty() {
        return refuse("`edits` is empty".to_owned());
    }
    let mut text = text.to_owned();
    for (index, edit) in args.edits.iter().enumerate() {
        let number = index + 1;
        if edit.old.is_empty() {
            return refuse(format!("edit {number}: `old` is empty: use Write for a new file"));
        }
        if edit.old == edit.new {
            return refuse(format!("edit {number}: `old` and `new` are the same"));
        }
        match text.matches(&edit.old).count() {
            1 => text = text.replacen(&edit.old, &edit.new, 1),
            0 => {
                return refuse(format!(
                    "edit {number}: `old` does not occur in `{}` (whitespace counts; line numbers \
                     are not part of the text). Nothing was changed",
                    at.shown
                ));
            }
            times => {
                return refuse(format!(
                    "edit {number}: `old` occurs {times} times in `{}`: add lines around it until \
                     it is unique. Nothing was changed",
                    at.shown
                ));
            }
        }
    }
    Ok(text)
}

/// A regular file's size; `None` if there is nothing.
fn regular(at: &Located) -> Result<Option<u64>, ToolError> {
    match fs::symlink_metadata(&at.full) {
        Ok(meta) if meta.is_file() => Ok(Some(meta.len())),
        Ok(meta) if meta.is_dir() => {
            Err(ToolError::refused(format!("`{}` is a folder: use Glob to list it", at.shown)))
        }
        Ok(_) => Err(ToolError::refused(format!("`{}` is not a regular file", at.shown))),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(io(at, "can't be looked at", &e)),
    }
}

/// All of a regular file.
pub fn load(at: &Located) -> Result<Vec<u8>, ToolError> {
    let Some(size) = regular(at)? else {
        return Err(ToolError::refused(format!("`{}` does not exist", at.shown)));
    };
    if size > MAX_FILE {
        let shown = &at.shown;
        return Err(ToolError::refused(format!(
            "`{shown}` is too large ({size} bytes): look at parts of it with Bash or Grep"
        )));
    }
    // No link that appeared meanwhile is followed, and no pipe is waited for.
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits()).open(&at.full);
    let mut bytes = Vec::new();
    file.and_then(|file| file.take(MAX_FILE).read_to_end(&mut bytes))
        .map_err(|e| io(at, "can't be read", &e))?;
    Ok(bytes)
}

/// Makes the folder for files that are being written. What a killed writer left there goes.
pub fn make_scratch(folder: &Path) -> std::io::Result<()> {
    fs::create_dir_all(folder)?;
    for entry in fs::read_dir(folder)?.flatten() {
        // Young ones may be in use: another role's pod works on the same volume.
        let modified = entry.metadata().and_then(|meta| meta.modified());
        if modified.is_ok_and(|at| at.elapsed().is_ok_and(|age| age > ABANDONED)) {
            let _ = fs::remove_file(entry.path());
        }
    }
    Ok(())
}

/// All or nothing, whenever the process dies. The scratch folder is on the same volume.
fn store(at: &Located, scratch: &Path, content: &[u8]) -> Result<(), ToolError> {
    let partial = scratch.join(format!("write-{:016x}", rand::random::<u64>()));
    let stored = (|| {
        let mut file = File::create_new(&partial)?;
        file.write_all(content)?;
        if let Ok(meta) = fs::metadata(&at.full) {
            file.set_permissions(meta.permissions())?;
        }
        fs::rename(&partial, &at.full)
    })();
    if stored.is_err() {
        let _ = fs::remove_file(&partial);
    }
    stored.map_err(|e| io(at, "can't be written", &e))
}

fn io(at: &Located, what: &str, error: &std::io::Error) -> ToolError {
    ToolError::refused(format!("`{}` {what}: {error}", at.shown))
}

fn sha256(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    struct Place {
        dir: tempfile::TempDir,
        tree: Tree,
        seen: Seen,
    }

    fn place() -> Place {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("tree")).unwrap();
        let tree = Tree::open(&dir.path().join("tree")).unwrap();
        Place { dir, tree, seen: Seen::default() }
    }

    impl Place {
        fn put(&self, path: &str, content: impl AsRef<[u8]>) {
            fs::write(self.tree.root().join(path), content).unwrap();
        }
        fn content(&self, path: &str) -> String {
            fs::read_to_string(self.tree.root().join(path)).unwrap()
        }
        fn read(
            &self,
            path: &str,
            offset: Option<u32>,
            limit: Option<u32>,
        ) -> Result<String, ToolError> {
            let args = args::Read { path: path.into(), offset, limit };
            match read(&self.tree, &self.seen, &args)? {
                Reply::Text(text) => Ok(text),
                other => panic!("{other:?}"),
            }
        }
        fn write(&self, path: &str, content: &str) -> Result<String, ToolError> {
            let args = args::Write { path: path.into(), content: content.into() };
            write(&self.tree, &self.seen, self.dir.path(), &args)
        }
        fn edit(&self, path: &str, edits: &[(&str, &str)]) -> Result<String, ToolError> {
            let args = edits_of(path, edits);
            let plan = plan_edit(&self.tree, &self.seen, &args)?;
            edit(&self.tree, &self.seen, self.dir.path(), &args, &plan)
        }
    }

    fn edits_of(path: &str, edits: &[(&str, &str)]) -> args::Edit {
        let edit = |(old, new): &(&str, &str)| args::Replacement {
            old: (*old).into(),
            new: (*new).into(),
        };
        args::Edit { path: path.into(), edits: edits.iter().map(edit).collect() }
    }

    fn why<T: std::fmt::Debug>(result: Result<T, ToolError>) -> String {
        match result.unwrap_err() {
            ToolError::Refused(why) => why,
            ToolError::Failed(why) => panic!("failed: {why}"),
        }
    }

    #[test]
    fn read_numbers_lines_and_says_where_the_rest_is() {
        let place = place();
        place.put("a.txt", "one\ntwo\nthree\nfour\n");
        assert_eq!(
            place.read("a.txt", None, None).unwrap(),
            "     1\tone\n     2\ttwo\n     3\tthree\n     4\tfour\n"
        );
        assert_eq!(
            place.read("a.txt", Some(2), Some(2)).unwrap(),
            "     2\ttwo\n     3\tthree\n(lines 2 to 3 of 4; read on with offset 4)\n"
        );
        assert!(why(place.read("a.txt", Some(5), None)).contains("only 4 lines"));
        place.put("many.txt", format!("{}\n", "y".repeat(90)).repeat(3000));
        let many = place.read("many.txt", None, None).unwrap();
        assert!(many.len() < MAX_TEXT + 300, "{}", many.len());
        assert!(many.contains("read on with offset"), "{}", &many[many.len() - 100..]);
        place.put("binary", b"\x7fELF\0\0");
        assert!(why(place.read("binary", None, None)).contains("binary"));
        assert!(why(place.read(".", None, None)).contains("folder"));
        assert!(why(place.read("nothing", None, None)).contains("does not exist"));
    }

    #[test]
    fn pictures_are_shown_and_notebooks_told() {
        let place = place();
        place.put("a.png", b"\x89PNG\r\n\x1a\n\0\0rest");
        let args = |path: &str| args::Read { path: path.into(), ..args::Read::default() };
        let Reply::Picture(picture) = read(&place.tree, &place.seen, &args("a.png")).unwrap()
        else {
            panic!()
        };
        assert_eq!((&*picture.media_type, &*picture.shown), ("image/png", "a.png"));
        let mut large = b"\xff\xd8\xff".to_vec();
        large.resize(4 * 1024 * 1024, 0);
        place.put("b.jpg", &large);
        assert!(why(read(&place.tree, &place.seen, &args("b.jpg"))).contains("smaller copy"));
        place.put("n.ipynb", r#"{"cells": [{"cell_type": "code", "source": "1 + 1"}]}"#);
        let told = place.read("n.ipynb", None, None).unwrap();
        assert!(told.contains("\t1 + 1\n") && told.starts_with("(a notebook"), "{told}");
        // What is no notebook is shown as it is.
        place.put("m.ipynb", "not JSON");
        assert!(place.read("m.ipynb", None, None).unwrap().contains("\tnot JSON"));
    }

    #[test]
    fn a_file_of_one_character_can_be_edited() {
        let place = place();
        place.put("n", "1\n");
        place.read("n", None, None).unwrap();
        place.edit("n", &[("1", "2")]).unwrap();
        assert_eq!(place.content("n"), "2\n");
    }

    #[test]
    fn an_edit_needs_a_read_and_an_unchanged_file() {
        let place = place();
        place.put("a.rs", "fn a() {}\nfn b() {}\n");
        assert!(why(place.edit("a.rs", &[("fn a", "fn c")])).contains("read `a.rs` first"));
        place.read("a.rs", None, Some(1)).unwrap();
        place.put("a.rs", "fn a() {}\nfn b() { }\n");
        assert!(why(place.edit("a.rs", &[("fn a", "fn c")])).contains("changed since"));
        place.read("a.rs", None, None).unwrap();
        place.edit("a.rs", &[("fn a", "fn c"), ("fn c() {}", "fn c() { 1 }")]).unwrap();
        // Own writes and edits count as read.
        place.edit("a.rs", &[("fn b", "fn d")]).unwrap();
        assert_eq!(place.content("a.rs"), "fn c() { 1 }\nfn d() { }\n");
    }

    #[test]
    fn an_edit_is_exact_unique_and_all_or_nothing() {
        let place = place();
        place.write("a.txt", "same\nsame\nother\n").unwrap();
        assert!(why(place.edit("a.txt", &[("same", "x")])).contains("2 times"));
        assert!(
            why(place.edit("a.txt", &[("other", "x"), ("Other", "y")])).contains("does not occur")
        );
        assert!(why(place.edit("a.txt", &[("", "x")])).contains("empty"));
        assert!(why(place.edit("a.txt", &[("same", "same")])).contains("same"));
        assert!(why(place.edit("a.txt", &[])).contains("empty"));
        assert_eq!(place.content("a.txt"), "same\nsame\nother\n");
        place.put("latin1", b"caf\xe9\n");
        place.read("latin1", None, None).unwrap();
        assert!(why(place.edit("latin1", &[("caf", "x")])).contains("UTF-8"));
    }

    #[test]
    fn a_planned_edit_can_be_repeated_after_a_crash() {
        let place = place();
        place.write("a.txt", "1\n").unwrap();
        let args = edits_of("a.txt", &[("1", "2 1")]);
        let plan = plan_edit(&place.tree, &place.seen, &args).unwrap();
        for _ in 0..2 {
            let nothing_seen = Seen::default();
            edit(&place.tree, &nothing_seen, place.dir.path(), &args, &plan).unwrap();
            assert_eq!(place.content("a.txt"), "2 1\n");
        }
        place.put("a.txt", "3\n");
        assert!(
            why(edit(&place.tree, &place.seen, place.dir.path(), &args, &plan))
                .contains("meanwhile")
        );
    }

    #[test]
    fn what_was_read_may_be_edited_after_a_restart() {
        let place = place();
        place.put("a.txt", "one\n");
        let kept = place.dir.path().join("seen.json");
        let first = args::Read { path: "a.txt".into(), offset: None, limit: None };
        read(&place.tree, &Seen::kept_in(kept.clone()), &first).unwrap();
        let edit = edits_of("a.txt", &[("one", "two")]);
        assert!(plan_edit(&place.tree, &Seen::default(), &edit).is_err());
        plan_edit(&place.tree, &Seen::kept_in(kept.clone()), &edit).unwrap();
        fs::write(&kept, "{torn").unwrap();
        assert!(plan_edit(&place.tree, &Seen::kept_in(kept), &edit).is_err());
    }

    #[test]
    fn write_makes_folders_keeps_modes_and_leaves_no_scratch() {
        let place = place();
        assert!(place.write("x/y/z.sh", "#!/bin/sh\n").unwrap().starts_with("Created"));
        let path = place.tree.root().join("x/y/z.sh");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(place.write("x/y/z.sh", "#!/bin/bash\n").unwrap().starts_with("Wrote"));
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o755);
        assert_eq!(fs::read_dir(place.dir.path()).unwrap().count(), 1);
        assert!(why(place.write("x", "a")).contains("folder"));
        assert!(why(place.write(".git/config", "a")).contains(".git"));
    }
}
