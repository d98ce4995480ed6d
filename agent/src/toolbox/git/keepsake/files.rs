//! The files of a snapshot. What the last one found lies beside the worktree, where no command can write, so
//! that a file which did not change is not read again.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use git2::{Commit, Index, IndexEntry, IndexTime, Oid, Repository};
use serde::{Deserialize, Serialize};

use super::super::GitSite;
use super::super::worktree::{
    ASSUMED, FileStat, FlagUse, LeftAlone, LeftWhy, NewFile, NewFileVerdict, SKIP, ScanLimit,
    ScanRules, ScanScope, WorktreeChanges, WorktreeScanner, intents_left_out, left_reasons,
    stage_changes, written_at,
};
use crate::toolbox::ToolError;

/// Files that Git does not know yet: one, and all of them, in MB.
const MAX_NEW: u64 = 16;
const MAX_ALL_NEW: u64 = 256;
/// Files that .gitignore names, such as settings: one, and all of them, in MB. Ignored folders are
/// what tools make.
const MAX_IGNORED: u64 = 1;
const MAX_ALL_IGNORED: u64 = 16;
/// Limit on the number of files that are read.
const MAX_FILES: usize = 200_000;
/// A file that changed this shortly before may change again without looking different.
const SETTLED: Duration = Duration::from_millis(100);
/// Flag of an entry in the toolbox' own index: the file is in HEAD.
const TRACKED: u16 = ASSUMED;

/// Result of the last scan, kept on the volume.
#[derive(Debug, Default, Serialize, Deserialize)]
struct LastLook {
    /// Id of HEAD's tree at that time.
    head: String,
    /// Id of the tree with all files.
    tree: String,
    /// Git's own index, by what the file system says of it.
    index: String,
    /// Id of the index's tree, if it had one.
    staged: Option<String>,
    /// True if Git's index has entries that may be missing (`skip-worktree`).
    skips: bool,
    /// Stamp of the toolbox' own index: a process may die between the writes of both files.
    known: String,
}

/// Contents of a snapshot.
pub(super) struct FoundWork {
    pub tree: Oid,
    pub staged: Option<Oid>,
    /// Files that are in no snapshot, with the reasons.
    pub left_out: Vec<String>,
    /// Files among them that no ignore file names and no tool made.
    pub at_risk: Vec<String>,
}

/// Looks at all files, ignored folders left out. `newest` is the tree of the newest snapshot, whose objects are
/// sure to be there.
pub(super) fn find_work(
    place: &GitSite,
    repo: &Repository,
    head: Option<&Commit<'_>>,
    newest: Option<Oid>,
) -> Result<FoundWork, ToolError> {
    let known = KnownWork::read(place, newest)?;
    match look_at_files(place, repo, head, known) {
        Err(ToolError::Refused(_)) if newest.is_some() => {
            // The kept index is damaged, or objects that it names have been collected: everything is read anew.
            look_at_files(place, repo, head, KnownWork::nothing(place)?)
        }
        found => found,
    }
}

fn paths_of(place: &GitSite) -> (PathBuf, PathBuf) {
    (place.work.join(".snapshot.index"), place.work.join(".snapshot.json"))
}

/// The kept index with the result of the last scan, if they can be used.
struct KnownWork {
    look: LastLook,
    files: Index,
    written: Option<(i64, u32)>,
}

impl KnownWork {
    fn read(place: &GitSite, newest: Option<Oid>) -> Result<Self, ToolError> {
        let (index, look) = paths_of(place);
        // The lock on the repository is held: a process that left this is dead.
        let _ = fs::remove_file(index.with_extension("index.lock"));
        let look: Option<LastLook> =
            fs::read(look).ok().and_then(|text| serde_json::from_slice(&text).ok());
        let written = written_at(&index);
        let stamp = stamp_of(&index);
        let known = look.filter(|look| {
            newest.is_some_and(|id| id.to_string() == look.tree) && look.known == stamp
        });
        match (known, Index::open(&index)) {
            (Some(look), Ok(files)) => Ok(Self { look, files, written }),
            _ => Self::nothing(place),
        }
    }

    fn nothing(place: &GitSite) -> Result<Self, ToolError> {
        let (index, look) = paths_of(place);
        let _ = fs::remove_file(&index);
        let _ = fs::remove_file(look);
        Ok(Self { look: LastLook::default(), files: Index::open(&index)?, written: None })
    }
}

fn look_at_files(
    place: &GitSite,
    repo: &Repository,
    head: Option<&Commit<'_>>,
    mut known: KnownWork,
) -> Result<FoundWork, ToolError> {
    let began = SystemTime::now();
    let head_tree = head.map(|head| head.tree_id().to_string()).unwrap_or_default();
    let stamp = stamp_of(&repo.path().join("index"));
    let staged = staged_tree(repo, &known.look, &stamp);
    let same_head = known.look.head == head_tree;
    if !same_head {
        mark_tracked(&mut known.files, head)?;
    }
    let mut tracked: Vec<IndexEntry> = Vec::new();
    let mut new: HashMap<Vec<u8>, IndexEntry> = HashMap::new();
    for mut entry in known.files.iter() {
        let is_tracked = entry.flags & TRACKED != 0;
        entry.flags &= !TRACKED;
        if is_tracked {
            tracked.push(entry);
        } else {
            new.insert(entry.path.clone(), entry);
        }
    }
    if staged.skips {
        mark_skipped(repo, &mut tracked);
    }
    // Attributes and line ends are decided by this index, not by Git's own.
    repo.set_index(&mut known.files)?;
    let mut files = KeptFiles::new(&new);
    let mut judge = |file: &NewFile<'_>| files.judge(file);
    let why = "more than 200,000 files differ from what was kept last";
    let rules = ScanRules {
        scope: &ScanScope::All,
        flags: FlagUse::Snapshot,
        written: known.written,
        new: Some(&mut judge),
        known_new: Some(&new),
        ignored: true,
        leave_made: true,
        limit: Some(ScanLimit { files: MAX_FILES, bytes: u64::MAX, why }),
    };
    let changes = WorktreeScanner::new(repo, &place.work).scan(&tracked, rules)?;
    let left_out = left_reasons(&changes.left);
    let at_risk = left_reasons(
        &changes.left.iter().filter(|one| is_at_risk(one)).cloned().collect::<Vec<_>>(),
    );
    let gone: Vec<Vec<u8>> =
        new.keys().filter(|path| !files.taken.contains(*path)).cloned().collect();
    let unchanged = changes.is_empty() && gone.is_empty() && changes.refreshed.is_empty();
    let look = LastLook {
        head: head_tree,
        index: stamp,
        staged: staged.tree.map(|id| id.to_string()),
        skips: staged.skips,
        tree: known.look.tree.clone(),
        known: known.look.known.clone(),
    };
    if unchanged && same_head && !look.tree.is_empty() {
        if known.look.index != look.index {
            write_look(place, &look);
        }
        let tree = Oid::from_str(&look.tree)?;
        return Ok(FoundWork { tree, staged: staged.tree, left_out, at_risk });
    }
    // A file of HEAD that comes back later is one of HEAD's then.
    let head = if changes.removed.is_empty() { look.head } else { String::new() };
    let tree = keep_files(repo, &mut known.files, (changes, gone), began)?;
    let known = stamp_of(&paths_of(place).0);
    write_look(place, &LastLook { tree: tree.to_string(), head, known, ..look });
    Ok(FoundWork { tree, staged: staged.tree, left_out, at_risk })
}

/// Brings what is known up to date; the tree of all files.
fn keep_files(
    repo: &Repository,
    known: &mut Index,
    (mut changes, gone): (WorktreeChanges, Vec<Vec<u8>>),
    began: SystemTime,
) -> Result<Oid, ToolError> {
    let began = began.duration_since(UNIX_EPOCH).unwrap_or_default();
    let settled = began.saturating_sub(SETTLED);
    let settled = (i64::try_from(settled.as_secs()).unwrap_or_default(), settled.subsec_nanos());
    for entry in changes.entries.iter_mut().chain(&mut changes.refreshed) {
        let modified = (i64::from(entry.mtime.seconds()), entry.mtime.nanoseconds());
        if modified >= settled {
            entry.mtime = IndexTime::new(0, 0);
        }
        entry.flags_extended = 0;
        let path = Path::new(OsStr::from_bytes(&entry.path));
        entry.flags = known.get_path(path, 0).map_or(0, |known| known.flags & TRACKED);
    }
    changes.removed.extend(gone);
    stage_changes(known, &mut changes)?;
    let tree = known.write_tree_to(repo)?;
    if let Err(error) = known.write() {
        tracing::info!(%error, "file_index_write_failed");
        let _ = known.path().map(fs::remove_file);
    }
    Ok(tree)
}

fn write_look(place: &GitSite, look: &LastLook) {
    let text = serde_json::to_vec(look).unwrap_or_default();
    if let Err(error) = fs::write(paths_of(place).1, text) {
        tracing::info!(%error, "file_index_write_failed");
    }
}

/// Marks what HEAD has, and adds an entry for each file of it of which nothing is known yet.
fn mark_tracked(known: &mut Index, head: Option<&Commit<'_>>) -> Result<(), ToolError> {
    let mut in_head = Index::new()?;
    if let Some(head) = head {
        in_head.read_tree(&head.tree()?)?;
    }
    let paths: HashSet<Vec<u8>> = in_head.iter().map(|entry| entry.path).collect();
    let marked =
        known.iter().filter(|entry| (entry.flags & TRACKED != 0) != paths.contains(&entry.path));
    for mut entry in marked.collect::<Vec<_>>() {
        entry.flags ^= TRACKED;
        known.add(&entry)?;
    }
    let there: HashSet<Vec<u8>> = known.iter().map(|entry| entry.path).collect();
    for mut entry in in_head.iter().filter(|entry| !there.contains(&entry.path)) {
        entry.flags |= TRACKED;
        known.add(&entry)?;
    }
    Ok(())
}

/// Identity, size and times of a file as text: different each time that the file is replaced.
fn stamp_of(path: &Path) -> String {
    let meta = path.symlink_metadata();
    meta.ok().as_ref().and_then(FileStat::of).map(|stat| format!("{stat:?}")).unwrap_or_default()
}

struct StagedWork {
    tree: Option<Oid>,
    skips: bool,
}

/// The tree of Git's own index, where it can be read and holds no conflict.
fn staged_tree(repo: &Repository, last: &LastLook, stamp: &str) -> StagedWork {
    if !stamp.is_empty() && last.index == stamp {
        let tree = last.staged.as_deref().and_then(|id| Oid::from_str(id).ok());
        if tree.is_none_or(|id| repo.find_tree(id).is_ok()) {
            return StagedWork { tree, skips: last.skips };
        }
    }
    let read = || -> Result<Index, git2::Error> {
        let mut index = repo.index()?;
        index.read(true)?;
        Ok(index)
    };
    let Ok(mut index) = read() else { return StagedWork { tree: None, skips: false } };
    let skips = index.iter().any(|entry| entry.flags_extended & SKIP != 0);
    let is_whole = !index.has_conflicts();
    let tree = is_whole.then(|| intents_left_out(repo, &mut index).ok()).flatten();
    StagedWork { tree, skips }
}

/// Copies the `skip-worktree` flags of Git's index.
fn mark_skipped(repo: &Repository, tracked: &mut [IndexEntry]) {
    let Ok(index) = repo.index() else { return };
    for entry in tracked {
        let path = Path::new(OsStr::from_bytes(&entry.path));
        entry.flags_extended =
            index.get_path(path, 0).map_or(0, |known| known.flags_extended) & SKIP;
    }
}

fn is_at_risk(left: &LeftAlone) -> bool {
    !matches!(left.why, LeftWhy::Made | LeftWhy::Ignored(_) | LeftWhy::TooMany(MAX_ALL_IGNORED))
}

/// Decides which new files are part of a snapshot.
struct KeptFiles<'a> {
    taken: HashSet<Vec<u8>>,
    /// Bytes of new files and of ignored ones.
    new: u64,
    ignored: u64,
    known: &'a HashMap<Vec<u8>, IndexEntry>,
}

impl<'a> KeptFiles<'a> {
    fn new(known: &'a HashMap<Vec<u8>, IndexEntry>) -> Self {
        Self { taken: HashSet::new(), new: 0, ignored: 0, known }
    }

    fn judge(&mut self, file: &NewFile<'_>) -> NewFileVerdict {
        let Some(stat) = file.stat else {
            return NewFileVerdict::Leave(LeftWhy::OwnRepository);
        };
        let is_link = stat.is_link();
        if file.ignored {
            if is_link || stat.size > MAX_IGNORED << 20 {
                return NewFileVerdict::Leave(LeftWhy::Ignored(MAX_IGNORED));
            }
            if self.ignored + stat.size > MAX_ALL_IGNORED << 20 {
                return NewFileVerdict::Leave(LeftWhy::TooMany(MAX_ALL_IGNORED));
            }
            self.ignored += stat.size;
        } else if !is_link {
            if stat.size > MAX_NEW << 20 {
                return NewFileVerdict::Leave(LeftWhy::TooLarge(MAX_NEW));
            }
            if self.new + stat.size > MAX_ALL_NEW << 20 {
                return NewFileVerdict::Leave(LeftWhy::TooMany(MAX_ALL_NEW));
            }
            self.new += stat.size;
        }
        if self.known.contains_key(file.path) {
            self.taken.insert(file.path.to_vec());
        }
        NewFileVerdict::Take
    }
}
