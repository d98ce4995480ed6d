//! Opening paths below a folder without being led out of it by what a container left there.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path};

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, OFlag, OpenHow, ResolveFlag, openat, openat2};
use nix::sys::stat::{Mode, mkdirat};

const FOLDER: OFlag = OFlag::O_PATH.union(OFlag::O_DIRECTORY).union(OFlag::O_CLOEXEC);

const FOLDER_MODE: Mode = Mode::from_bits_truncate(0o755);

/// Opens an existing path of the host, for use as a mount's source or target.
pub(super) fn open_path(path: &Path) -> io::Result<OwnedFd> {
    Ok(openat(AT_FDCWD, path, OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty())?)
}

/// Opens `path` below `root`. Links are followed as long as they stay below it.
pub(super) fn open_beneath(root: impl AsFd, path: &str) -> io::Result<OwnedFd> {
    let how = OpenHow::new()
        .flags(OFlag::O_PATH | OFlag::O_CLOEXEC)
        .resolve(ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_MAGICLINKS);
    Ok(openat2(root, path, how)?)
}

/// Opens the folder `path` below `root` and makes what is missing of it. Links are refused.
pub(super) fn make_folder(root: impl AsFd, path: &str) -> io::Result<OwnedFd> {
    let mut at = openat(&root, ".", FOLDER, Mode::empty())?;
    for name in path_names(path)? {
        at = match openat(&at, name, FOLDER | OFlag::O_NOFOLLOW, Mode::empty()) {
            Err(Errno::ENOENT) => {
                match mkdirat(&at, name, FOLDER_MODE) {
                    Ok(()) | Err(Errno::EEXIST) => {}
                    Err(error) => return Err(error.into()),
                }
                openat(&at, name, FOLDER | OFlag::O_NOFOLLOW, Mode::empty())?
            }
            other => other?,
        };
    }
    Ok(at)
}

/// Opens the file `path` below `root`, made empty if missing. Links are refused.
pub(super) fn make_file(root: impl AsFd, path: &str) -> io::Result<OwnedFd> {
    let names = path_names(path)?;
    let (name, parents) =
        names.split_last().ok_or_else(|| io::Error::other("a file can't be mounted on /"))?;
    let parent = make_folder(root, &parents.join("/"))?;
    let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    match openat(&parent, *name, flags, Mode::empty()) {
        Err(Errno::ENOENT) => {
            let create = OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_WRONLY | OFlag::O_CLOEXEC;
            drop(openat(&parent, *name, create, Mode::from_bits_truncate(0o644))?);
            Ok(openat(&parent, *name, flags, Mode::empty())?)
        }
        other => Ok(other?),
    }
}

/// The names a path consists of; `..` is refused.
pub(super) fn path_names(path: &str) -> io::Result<Vec<&str>> {
    Path::new(path)
        .components()
        .filter(|part| !matches!(part, Component::RootDir | Component::CurDir))
        .map(|part| match part {
            Component::Normal(name) => {
                name.to_str().ok_or_else(|| io::Error::other("path is not UTF-8"))
            }
            _ => Err(io::Error::other(format!("{path}: must not contain '..'"))),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_nowhere() {
        let dir = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/etc", dir.path().join("out")).unwrap();
        std::fs::create_dir(dir.path().join("in")).unwrap();
        std::os::unix::fs::symlink("in", dir.path().join("link")).unwrap();
        let root = open_path(dir.path()).unwrap();
        assert!(open_beneath(&root, "out").is_err());
        assert!(open_beneath(&root, "../x").is_err());
        assert!(open_beneath(&root, "link").is_ok());
        assert!(make_folder(&root, "out/x").is_err());
        assert!(make_folder(&root, "a/../b").is_err());
        assert!(make_folder(&root, "/a/b").is_ok() && dir.path().join("a/b").is_dir());
        assert!(make_file(&root, "a/b/c").is_ok() && dir.path().join("a/b/c").is_file());
        assert!(make_file(&root, "/").is_err());
    }
}
