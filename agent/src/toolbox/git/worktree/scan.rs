//! Finds the changes that `git add --all` would stage, of all files or of those that are named.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use git2::{ErrorCode, FileMode, Index, IndexEntry, IndexTime, Oid, Repository};

use super::super::control::{IN_FOLDERS, check_folder, odd_file};
use super::content::{FileStore, StoredFile, names_encodings};
use super::generated::is_made;
use super::index::{ASSUMED, INTENT, SKIP, STAGE};
use super::left::{LeftAlone, LeftWhy};
use super::rules::{FlagUse, NewFile, NewFileVerdict, ScanBudget, ScanRules};
use super::settings::read_settings;
use super::sparse::SparseCheckout;
use super::stat::FileStat;
use super::walk::{GITLINK, KnownFiles, WalkedFiles, join_path, walk_files};
use crate::toolbox::ToolError;

/// Differences between the files and an index.
#[derive(Default)]
pub(crate) struct WorktreeChanges {
    /// Entries with new content or mode.
    pub entries: Vec<IndexEntry>,
    /// The same content, of which the index remembers something else.
    pub refreshed: Vec<IndexEntry>,
    pub removed: Vec<Vec<u8>>,
    pub left: Vec<LeftAlone>,
    /// Repositories of their own, of which the commit is recorded for the first time.
    pub nested: Vec<String>,
}

impl WorktreeChanges {
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.removed.is_empty()
    }

    fn leave(&mut self, path: &[u8], why: LeftWhy) {
        self.left.push(LeftAlone { path: show_path(path), why });
    }
}

pub(super) fn show_path(path: &[u8]) -> String {
    String::from_utf8_lossy(path).replace(|c: char| c.is_control() || c == '`', "?")
}

/// Puts changes into an index.
pub(crate) fn stage_changes(
    index: &mut Index,
    changes: &mut WorktreeChanges,
) -> Result<(), git2::Error> {
    for path in &changes.removed {
        match index.remove(Path::new(OsStr::from_bytes(path)), 0) {
            Err(error) if error.code() != ErrorCode::NotFound => return Err(error),
            _ => {}
        }
    }
    let mut refused = Vec::new();
    for entry in changes.entries.iter().chain(&changes.refreshed) {
        match index.add(entry) {
            Err(error) if error.message().contains("invalid path") => refused.push(&entry.path),
            added => added?,
        }
    }
    let unnameable = refused.into_iter().map(|path| (show_path(path), LeftWhy::Unnameable));
    let unnameable: Vec<_> = unnameable.map(|(path, why)| LeftAlone { path, why }).collect();
    changes.left.extend(unnameable);
    Ok(())
}

/// Compares the files of a worktree with an index.
pub(crate) struct WorktreeScanner<'r> {
    repo: &'r Repository,
    root: PathBuf,
    store: FileStore<'r>,
    file_mode: bool,
    sparse: SparseCheckout,
}

impl<'r> WorktreeScanner<'r> {
    /// `work` is the folder beside the worktree, in which commands have their home.
    pub(crate) fn new(repo: &'r Repository, work: &Path) -> Self {
        let settings = read_settings(repo.path(), Some(work));
        let sparse = SparseCheckout::read(repo.path(), settings.sparse);
        let root = repo.workdir().unwrap_or(Path::new("")).to_owned();
        let file_mode = settings.file_mode;
        Self { repo, root, store: FileStore::new(repo, settings), file_mode, sparse }
    }

    /// Returns true if a sparse checkout leaves parts of the tree out of the worktree.
    pub(crate) fn is_sparse(&self) -> bool {
        self.sparse.is_on()
    }

    /// Returns true if a file belongs in the worktree, as far as a sparse checkout decides that.
    pub(super) fn belongs(&self, path: &[u8]) -> bool {
        self.sparse.holds(path)
    }

    /// Returns true if libgit2 sees the worktree as Git does.
    pub(crate) fn is_plain(&self) -> Result<bool, ToolError> {
        Ok(!self.is_sparse() && !names_encodings(self.repo, &self.repo.index()?))
    }

    /// Compares the files with `entries`, the index's.
    pub(crate) fn scan(
        &self,
        entries: &[IndexEntry],
        mut rules: ScanRules<'_>,
    ) -> Result<WorktreeChanges, ToolError> {
        let known = KnownFiles::new(entries, self.file_mode);
        let mut walked = walk_files(&self.root, &known, rules.written);
        if let Some(path) = walked.odd.first() {
            return Err(odd_file(Path::new(OsStr::from_bytes(path))).into());
        }
        let mut budget = ScanBudget::new(rules.limit);
        let mut changes = WorktreeChanges::default();
        let mut seen = vec![false; entries.len()];
        let places = walked.suspects.iter().map(|(place, _)| place);
        for place in places.chain(&walked.same).chain(&walked.nested).chain(&walked.strange) {
            seen[*place] = true;
        }
        for (place, stat) in &walked.suspects {
            if rules.scope.holds(&entries[*place].path) {
                budget.take(stat.size)?;
                self.judge_known(&entries[*place], stat, rules.flags, &mut changes)?;
            }
        }
        for place in &walked.nested {
            self.judge_nested(&entries[*place], &rules, &mut changes);
        }
        for place in &walked.strange {
            if rules.scope.holds(&entries[*place].path) {
                changes.leave(&entries[*place].path, LeftWhy::Unreadable);
            }
        }
        let missing =
            entries.iter().zip(&seen).filter(|(entry, seen)| !**seen && entry.flags & STAGE == 0);
        for (entry, _) in missing.filter(|(entry, _)| rules.scope.holds(&entry.path)) {
            self.judge_missing(entry, rules.flags, &mut changes);
        }
        if rules.new.is_some() {
            self.find_new(&known, &mut walked, &mut rules, &mut budget, &mut changes)?;
        }
        Ok(changes)
    }

    /// Index entry of a file as it is now, or the reason for which it can't be stored; none where there is no file.
    pub(crate) fn entry_of(
        &self,
        path: &[u8],
    ) -> Result<Option<Result<IndexEntry, LeftAlone>>, ToolError> {
        let stat = self.store.path(path).symlink_metadata().ok().as_ref().and_then(FileStat::of);
        let Some(stat) = stat.filter(|_| !self.has_link_above(path)) else { return Ok(None) };
        let stat = self.see_mode(stat, None);
        let stored = self.stored(path, &stat, None, FlagUse::Git)?;
        Ok(Some(stored.map_err(|why| LeftAlone { path: show_path(path), why })))
    }

    /// A file as Git sees it, of which the index has that mode.
    pub(super) fn see_mode(&self, stat: FileStat, known: Option<u32>) -> FileStat {
        if self.file_mode { stat } else { stat.with_known_mode(known) }
    }

    fn judge_known(
        &self,
        entry: &IndexEntry,
        stat: &FileStat,
        flags: FlagUse,
        changes: &mut WorktreeChanges,
    ) -> Result<(), ToolError> {
        let (assumed, skipped) = (entry.flags & ASSUMED != 0, entry.flags_extended & SKIP != 0);
        let sparse = self.sparse.is_on();
        let passed = match flags {
            FlagUse::Git if assumed => Some(LeftWhy::AssumeUnchanged),
            FlagUse::Git if !self.sparse.holds(&entry.path) => Some(LeftWhy::OutsideSparse),
            FlagUse::Git | FlagUse::Named if skipped && !sparse => Some(LeftWhy::SkipWorktree),
            _ => None,
        };
        let mut new = match self.stored(&entry.path, stat, Some(entry), flags)? {
            Ok(new) => new,
            Err(why) => {
                changes.leave(&entry.path, passed.unwrap_or(why));
                return Ok(());
            }
        };
        let intended = entry.flags_extended & INTENT != 0;
        let is_same = new.id == entry.id && new.mode == entry.mode && !intended;
        if let Some(why) = passed {
            if !is_same {
                changes.leave(&entry.path, why);
            }
            return Ok(());
        }
        new.flags = entry.flags & ASSUMED;
        // A file that is there is no longer left out of a sparse checkout.
        new.flags_extended = if sparse { 0 } else { entry.flags_extended & SKIP };
        if is_same {
            changes.refreshed.push(new);
        } else {
            changes.entries.push(new);
        }
        Ok(())
    }

    /// Index entry under which a file is stored.
    pub(super) fn stored(
        &self,
        path: &[u8],
        stat: &FileStat,
        old: Option<&IndexEntry>,
        flags: FlagUse,
    ) -> Result<Result<IndexEntry, LeftWhy>, ToolError> {
        match self.store.store(path, stat, old)? {
            StoredFile::Entry(entry) => Ok(Ok(entry)),
            StoredFile::Left(why) if flags.takes_raw() && why != LeftWhy::Unreadable => {
                match std::fs::read(self.store.path(path)) {
                    Ok(bytes) => Ok(Ok(stat.entry(path.to_vec(), self.repo.blob(&bytes)?))),
                    Err(_) => Ok(Err(LeftWhy::Unreadable)),
                }
            }
            StoredFile::Left(why) => Ok(Err(why)),
        }
    }

    /// A submodule is at the commit that its own HEAD says; an empty folder is as it was. One that is behind what
    /// people have recorded is no change: Git would undo theirs.
    fn judge_nested(
        &self,
        entry: &IndexEntry,
        rules: &ScanRules<'_>,
        changes: &mut WorktreeChanges,
    ) {
        if !rules.scope.holds(&entry.path) {
            return;
        }
        let head = self.store.nested_head(&entry.path).filter(|head| *head != entry.id);
        let Some(head) = head else { return };
        if rules.flags == FlagUse::Git && self.store.lacks_commit(&entry.path, entry.id) {
            changes.leave(&entry.path, LeftWhy::Behind);
        } else {
            changes.entries.push(nested_entry(&entry.path, head));
        }
    }

    fn judge_missing(&self, entry: &IndexEntry, flags: FlagUse, changes: &mut WorktreeChanges) {
        let (assumed, skipped) = (entry.flags & ASSUMED != 0, entry.flags_extended & SKIP != 0);
        let may_be_missing = match flags {
            FlagUse::Receipt => skipped && !self.sparse.holds(&entry.path),
            FlagUse::Git | FlagUse::Named | FlagUse::Snapshot => skipped,
        };
        if may_be_missing {
            return;
        }
        let gone = match self.store.path(&entry.path).symlink_metadata() {
            // A folder is in the file's place.
            Ok(meta) => meta.is_dir(),
            Err(error) => {
                matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
            }
        };
        let beyond = self.has_link_above(&entry.path);
        if flags == FlagUse::Git && assumed {
            changes.leave(&entry.path, LeftWhy::AssumeUnchanged);
        } else if flags == FlagUse::Git && !self.sparse.holds(&entry.path) {
            changes.leave(&entry.path, LeftWhy::OutsideSparse);
        } else if gone || beyond {
            changes.removed.push(entry.path.clone());
        } else {
            changes.leave(&entry.path, LeftWhy::Unreadable);
        }
    }

    /// Returns true if a folder above a path is a link, behind which Git sees nothing.
    pub(crate) fn has_link_above(&self, path: &[u8]) -> bool {
        let path = Path::new(OsStr::from_bytes(path));
        path.ancestors().skip(1).filter(|above| !above.as_os_str().is_empty()).any(|above| {
            self.root.join(above).symlink_metadata().is_ok_and(|meta| meta.is_symlink())
        })
    }

    fn find_new(
        &self,
        known: &KnownFiles<'_>,
        walked: &mut WalkedFiles,
        rules: &mut ScanRules<'_>,
        budget: &mut ScanBudget,
        changes: &mut WorktreeChanges,
    ) -> Result<(), ToolError> {
        let mut ignored = IgnoredFolders { repo: self.repo, known: HashMap::new() };
        for (path, stat) in std::mem::take(&mut walked.files) {
            let hidden = ignored.holds(folder_of(&path));
            if !hidden && rules.scope.holds(&path) {
                self.judge_new(&path, Some(&stat), rules, budget, changes)?;
            }
        }
        let mut waiting = std::mem::take(&mut walked.folders);
        waiting.reverse();
        while let Some(folder) = waiting.pop() {
            if !rules.scope.touches(&folder) || ignored.holds(&folder) {
                continue;
            }
            let path = Path::new(OsStr::from_bytes(&folder));
            if rules.leave_made && is_made(&self.root.join(path)) {
                changes.leave(&join_path(&folder, b""), LeftWhy::Made);
                continue;
            }
            check_folder(&self.root.join(path), path, &IN_FOLDERS)?;
            if self.is_repository(&folder) {
                if rules.scope.holds(&folder) {
                    self.judge_new(&folder, None, rules, budget, changes)?;
                }
                continue;
            }
            let mut files = Vec::new();
            let mut below = Vec::new();
            for entry in std::fs::read_dir(self.store.path(&folder)).into_iter().flatten().flatten()
            {
                let name = entry.file_name();
                let path = join_path(&folder, name.as_bytes());
                match entry.file_type() {
                    _ if name == ".git" => {}
                    Ok(kind) if kind.is_dir() => below.push(path),
                    Ok(_) => {
                        let stat = entry.metadata().ok().and_then(|meta| known.see(&path, &meta));
                        files.extend(stat.map(|stat| (path, stat)));
                    }
                    Err(_) => {}
                }
            }
            files.sort_unstable_by(|a, b| a.0.cmp(&b.0));
            for (path, stat) in files.iter().filter(|(path, _)| rules.scope.holds(path)) {
                self.judge_new(path, Some(stat), rules, budget, changes)?;
            }
            below.sort_unstable_by(|a, b| b.cmp(a));
            waiting.extend(below);
        }
        Ok(())
    }

    fn is_repository(&self, folder: &[u8]) -> bool {
        let own = self.store.path(folder).join(".git");
        own.is_file() || own.join("HEAD").symlink_metadata().is_ok()
    }

    /// A new file in a folder that is not ignored, or a repository of its own.
    fn judge_new(
        &self,
        path: &[u8],
        stat: Option<&FileStat>,
        rules: &mut ScanRules<'_>,
        budget: &mut ScanBudget,
        changes: &mut WorktreeChanges,
    ) -> Result<(), ToolError> {
        let ignored = stat.is_some()
            && self.repo.is_path_ignored(Path::new(OsStr::from_bytes(path))).unwrap_or(false);
        if ignored && !rules.ignored {
            return Ok(());
        }
        let belongs =
            if stat.is_some() { self.sparse.holds(path) } else { self.sparse.holds_folder(path) };
        if rules.flags == FlagUse::Git && !belongs {
            changes.leave(path, LeftWhy::OutsideSparse);
            return Ok(());
        }
        let Some(judge) = rules.new.as_mut() else { return Ok(()) };
        match judge(&NewFile { path, stat, ignored }) {
            NewFileVerdict::Take => {}
            NewFileVerdict::Leave(why) => {
                changes.leave(path, why);
                return Ok(());
            }
            NewFileVerdict::Pass => return Ok(()),
        }
        let Some(stat) = stat else {
            match self.store.nested_head(path) {
                Some(head) => {
                    changes.entries.push(nested_entry(path, head));
                    changes.nested.push(show_path(path));
                }
                None => changes.leave(path, LeftWhy::NoCommit),
            }
            return Ok(());
        };
        let known = rules.known_new.and_then(|known| known.get(path));
        if let (Some(known), Some(written)) = (known, rules.written)
            && stat.is_known(known, written)
        {
            return Ok(());
        }
        budget.take(stat.size)?;
        match self.stored(path, stat, None, rules.flags)? {
            Ok(entry) => changes.entries.push(entry),
            Err(why) => changes.leave(path, why),
        }
        Ok(())
    }
}

fn folder_of(path: &[u8]) -> &[u8] {
    path.iter().rposition(|byte| *byte == b'/').map_or(b"", |end| &path[..end])
}

/// Index entry with which Git records a nested repository.
fn nested_entry(path: &[u8], head: Oid) -> IndexEntry {
    let never = || IndexTime::new(0, 0);
    debug_assert_eq!(u32::from(FileMode::Commit), GITLINK);
    IndexEntry {
        ctime: never(),
        mtime: never(),
        dev: 0,
        ino: 0,
        mode: GITLINK,
        uid: 0,
        gid: 0,
        file_size: 0,
        id: head,
        flags: 0,
        flags_extended: 0,
        path: path.to_vec(),
    }
}

/// Folders that ignore files name, themselves or through one above: nothing in them is new.
struct IgnoredFolders<'r> {
    repo: &'r Repository,
    known: HashMap<Vec<u8>, bool>,
}

impl IgnoredFolders<'_> {
    fn holds(&mut self, folder: &[u8]) -> bool {
        if folder.is_empty() {
            return false;
        }
        if let Some(known) = self.known.get(folder) {
            return *known;
        }
        let path = Path::new(OsStr::from_bytes(folder));
        let found =
            self.holds(folder_of(folder)) || self.repo.is_path_ignored(path).unwrap_or(false);
        self.known.insert(folder.to_vec(), found);
        found
    }
}
