//! A folder of the volume that is held open: whatever a command puts in its place meanwhile, nothing is written
//! there.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{OpenOptionsExt as _, symlink};
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;

pub(super) struct PinnedFolder(File);

impl PinnedFolder {
    /// Opens a folder; fails on a symbolic link.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW;
        OpenOptions::new().read(true).custom_flags(flags.bits()).open(path).map(Self)
    }

    /// The folder of this name in it, made if it is not there.
    pub(super) fn enter(&self, name: &OsStr) -> io::Result<Self> {
        match fs::create_dir(self.at(name)) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => Self::open(&self.at(name)),
        }
    }

    /// A path to what has this name in it, for calls that follow no link at its end.
    pub(super) fn at(&self, name: &OsStr) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.0.as_raw_fd())).join(name)
    }

    /// True if there is something of this name. A link that leads nowhere, as one into an image that the Thread had
    /// before, is taken away: a download would be written through it.
    pub(super) fn has(&self, name: &OsStr) -> io::Result<bool> {
        let path = self.at(name);
        match path.symlink_metadata() {
            Ok(meta) if meta.is_symlink() && path.metadata().is_err() => {
                fs::remove_file(path).map(|()| false)
            }
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// A link to `target`, unless there is something else.
    pub(super) fn link(&self, name: &OsStr, target: &Path) -> io::Result<()> {
        match symlink(target, self.at(name)) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => Ok(()),
        }
    }

    /// A file as a whole or not at all, unless there is something else.
    pub(super) fn write(&self, name: &OsStr, content: &mut dyn Read) -> io::Result<()> {
        if self.has(name)? {
            return Ok(());
        }
        // The temporary name is random: another pod may do the same at this moment.
        let begun = self.at(OsStr::new(&format!(".begun-{:016x}", rand::random::<u64>())));
        let mut file = OpenOptions::new().write(true).create_new(true).open(&begun)?;
        let written = io::copy(content, &mut file).and_then(|_| fs::rename(&begun, self.at(name)));
        if written.is_err() {
            let _ = fs::remove_file(&begun);
        }
        written
    }
}
