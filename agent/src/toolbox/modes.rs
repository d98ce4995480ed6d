//! Rights of files on the volume. Everything in a pod runs as one user, and Landlock keeps a command from opening
//! files, not from changing their modes. So the toolbox, whose files they are, puts back what a command changed.

use std::collections::HashMap;
use std::fs::{self, OpenOptions, Permissions};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;

/// The toolbox' own files beside the worktree, and the folders that it can't work without.
const OWN: [&str; 17] = [
    "",
    ".git.lock",
    ".base",
    ".base/objects",
    ".base.lock",
    ".scratch",
    ".setup.json",
    ".setup.lock",
    ".branch.note",
    ".snapshot.index",
    ".sparse",
    ".unclaimed",
    "tree",
    "tree/.git",
    "copy",
    "home",
    "build",
];
/// Folders of which each entry is the own one of a role.
const OF_ROLES: [&str; 3] = ["copy", "home", ".scratch"];
/// Folders of tools: what is in them, and in no commit, is made again.
const MADE: [&str; 5] = ["node_modules", "target", "__pycache__", ".venv", ".pytest_cache"];
/// Files of a worktree whose modes are kept.
const MAX_KEPT: usize = 300_000;
/// Rights that the owner needs of a folder and of a file.
const FOLDER_RIGHTS: u32 = 0o700;
const FILE_RIGHTS: u32 = 0o600;
const BITS: u32 = 0o7777;

/// Modes as they were before a command.
#[derive(Debug, Default)]
pub(super) struct KeptModes(HashMap<PathBuf, (u64, u32)>);

/// Paths in folders of tools whose modes are kept too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum KeptMade {
    Some(Vec<PathBuf>),
    /// All of them: it is not known which ones Git has.
    All,
}

/// Returns true if a path in a worktree is in a folder of tools.
pub(super) fn is_made(path: &Path) -> bool {
    path.parent().into_iter().flatten().any(|part| MADE.iter().any(|made| part == *made))
}

impl KeptModes {
    /// Of the toolbox' own files; with `tree`, also of everything in the worktree, for a command that may change
    /// nothing there.
    pub(super) fn keep(work: &Path, tree: Option<KeptMade>) -> Self {
        let mut kept = Self::default();
        for path in own_files(work) {
            kept.note(&path);
        }
        let Some(made) = tree else { return kept };
        let root = work.join("tree");
        kept.note_below(root.clone(), made == KeptMade::All);
        if let KeptMade::Some(paths) = made {
            for path in paths {
                kept.note_in(&root, &path);
            }
        }
        kept
    }

    /// A file of the worktree, with the folders that it is in.
    fn note_in(&mut self, root: &Path, path: &Path) {
        let mut at = root.to_owned();
        for part in path {
            at.push(part);
            if self.0.contains_key(&at) {
                continue;
            }
            if self.0.len() >= MAX_KEPT || self.note(&at).is_none() {
                return;
            }
        }
    }

    fn note(&mut self, path: &Path) -> Option<fs::Metadata> {
        let meta = path.symlink_metadata().ok().filter(|meta| !meta.is_symlink())?;
        let usable = meta.mode() & BITS | needed_rights(&meta);
        self.0.insert(path.to_owned(), (meta.ino(), usable));
        Some(meta)
    }

    fn note_below(&mut self, folder: PathBuf, all: bool) {
        let mut waiting = vec![folder];
        while let Some(folder) = waiting.pop() {
            for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
                if self.0.len() >= MAX_KEPT {
                    tracing::warn!("file_modes_incomplete");
                    return;
                }
                let path = entry.path();
                let is_folder = self.note(&path).is_some_and(|meta| meta.is_dir());
                let made = MADE.iter().any(|made| entry.file_name() == *made);
                if is_folder && (all || !made) {
                    waiting.push(path);
                }
            }
        }
    }

    /// Puts back what has changed since; how many that were.
    pub(super) fn restore(&self) -> usize {
        let mut paths: Vec<_> = self.0.iter().collect();
        // Folders come before what is in them.
        paths.sort_unstable_by_key(|(path, _)| path.as_os_str().len());
        let changed = paths.into_iter().filter(|(path, (ino, mode))| {
            let now = path.symlink_metadata();
            let differs = now.is_ok_and(|meta| meta.ino() == *ino && meta.mode() & BITS != *mode);
            differs && change_mode(path, *ino, *mode).is_ok()
        });
        changed.count()
    }
}

fn own_files(work: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = OWN.iter().map(|name| work.join(name)).collect();
    for folder in OF_ROLES {
        let entries = fs::read_dir(work.join(folder)).into_iter().flatten().flatten();
        for entry in entries.take(1_000) {
            let path = entry.path();
            paths.extend([".setup.json", "tree", "build"].map(|name| path.join(name)));
            paths.push(path);
        }
    }
    paths
}

fn needed_rights(meta: &fs::Metadata) -> u32 {
    if meta.is_dir() { FOLDER_RIGHTS } else { FILE_RIGHTS }
}

/// Through no link, and only of the very file.
fn change_mode(path: &Path, ino: u64, mode: u32) -> io::Result<()> {
    let flags = (OFlag::O_PATH | OFlag::O_NOFOLLOW).bits();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    if file.metadata()?.ino() != ino {
        return Err(io::ErrorKind::NotFound.into());
    }
    let held = format!("/proc/self/fd/{}", file.as_raw_fd());
    fs::set_permissions(held, Permissions::from_mode(mode))
}

/// Gives the owner back the rights that the toolbox needs of its own files.
pub(super) fn restore_own(work: &Path) {
    for path in own_files(work) {
        restore_one(&path);
    }
}

fn restore_one(path: &Path) {
    let Ok(meta) = path.symlink_metadata() else { return };
    let wanted = meta.mode() & BITS | needed_rights(&meta);
    if meta.is_symlink() || meta.mode() & BITS == wanted {
        return;
    }
    match change_mode(path, meta.ino(), wanted) {
        Ok(()) => {
            tracing::warn!(path = %path.display(), "file_mode_restored");
        }
        // The file is another user's: then no command has changed its mode either.
        Err(error) => tracing::debug!(path = %path.display(), %error, "file_mode_restore_failed"),
    }
}

/// Opens something of the toolbox'; once more with its rights given back, if it may not.
pub(super) fn with_rights<T>(path: &Path, open: impl Fn() -> io::Result<T>) -> io::Result<T> {
    match open() {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            let mut above: Vec<&Path> = path.ancestors().take(4).collect();
            above.reverse();
            above.into_iter().for_each(restore_one);
            open()
        }
        done => done,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        path.symlink_metadata().unwrap().mode() & BITS
    }

    fn set(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn what_git_has_in_a_folder_of_tools_is_kept_too() {
        let dir = tempfile::tempdir().unwrap();
        let tree = dir.path().join("tree");
        fs::create_dir_all(tree.join("web/node_modules/pad")).unwrap();
        let files = ["web/node_modules/pad/index.js", "web/node_modules/made.js"];
        for file in files {
            fs::write(tree.join(file), "x").unwrap();
        }
        let tracked = vec![PathBuf::from(files[0])];
        assert!(
            is_made(&tracked[0]) && !is_made(Path::new("target")) && !is_made(Path::new("a/b"))
        );
        for (made, count) in [(KeptMade::Some(tracked), 2), (KeptMade::All, 3)] {
            let kept = KeptModes::keep(dir.path(), Some(made));
            let paths = [files[0], files[1], "web/node_modules/pad"];
            let before = paths.map(|path| mode(&tree.join(path)));
            for path in paths {
                set(&tree.join(path), 0o711);
            }
            assert_eq!(kept.restore(), count);
            let after = paths.map(|path| mode(&tree.join(path)));
            assert_eq!((before[0], before[2]), (after[0], after[2]));
            set(&tree.join(files[1]), before[1]);
        }
    }

    #[test]
    fn modes_that_a_command_changed_are_put_back() {
        let dir = tempfile::tempdir().unwrap();
        let work = dir.path();
        for folder in ["tree/src", "tree/target", "copy/pm/tree", ".scratch"] {
            fs::create_dir_all(work.join(folder)).unwrap();
        }
        for file in ["tree/src/run.sh", "tree/README", "tree/target/out", ".git.lock"] {
            fs::write(work.join(file), "x").unwrap();
            set(&work.join(file), 0o644);
        }
        std::os::unix::fs::symlink("README", work.join("tree/link")).unwrap();
        let kept = KeptModes::keep(work, Some(KeptMade::Some(Vec::new())));
        for (path, to) in [
            ("tree/README", 0o755),
            ("tree/src/run.sh", 0),
            ("tree/src", 0),
            (".git.lock", 0),
            ("copy/pm/tree", 0o500),
        ] {
            set(&work.join(path), to);
        }
        // A file that was replaced meanwhile is a new one.
        fs::write(work.join("tree/new"), "x").unwrap();
        assert_eq!(kept.restore(), 5);
        for (path, was) in
            [("tree/README", 0o644), ("tree/src/run.sh", 0o644), (".git.lock", 0o644)]
        {
            assert_eq!(mode(&work.join(path)), was, "{path}");
        }
        assert_eq!(kept.restore(), 0);
        // Without a command that was watched: the rights that the toolbox needs.
        set(&work.join(".scratch"), 0);
        set(&work.join(".git.lock"), 0);
        restore_own(work);
        assert_eq!(mode(&work.join(".git.lock")), 0o600);
        assert_eq!(mode(&work.join(".scratch")), 0o700);
    }
}
