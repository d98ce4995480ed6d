//! Files of the conversation beside the worktree, where Read and commands find them.
//!
//! They lie in the folder for builds, which commands can write to: nothing in it is followed, and it is held while it
//! is worked in. A file appears under its name when all of it is there.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use nix::fcntl::OFlag;

use super::ToolError;
use super::protocol::AttachmentPart;

/// The folder of these files, in the one for builds.
const FOLDER: &str = "slack";
/// Most files that are kept, and their bytes together; the oldest ones go.
const MAX_FILES: usize = 50;
const MAX_TOGETHER: u64 = 512 * 1024 * 1024;
/// Largest file that is kept, in bytes.
const MAX_FILE: u64 = codebutler_wire::MAX_SHARED_FILE;

/// The folder of the conversation's files.
#[derive(Clone, Debug)]
pub(super) struct KeptAttachments {
    build: PathBuf,
}

/// The folder of the files, held open so that commands can't replace it meanwhile.
struct HeldFolder {
    _held: File,
    folder: PathBuf,
    shown: PathBuf,
}

impl KeptAttachments {
    /// The attachments in this folder for builds.
    pub(super) fn of(build: &Path) -> Self {
        Self { build: build.to_owned() }
    }

    fn hold(&self) -> io::Result<HeldFolder> {
        let shown = self.build.join(FOLDER);
        match fs::create_dir(&shown) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let flags = (OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW).bits();
        let held = OpenOptions::new().read(true).custom_flags(flags).open(&shown)?;
        let folder = PathBuf::from(format!("/proc/self/fd/{}", held.as_raw_fd()));
        Ok(HeldFolder { _held: held, folder, shown })
    }

    /// The path of a file that is kept.
    pub(super) fn find(&self, id: &str) -> Result<Option<String>, ToolError> {
        let held = self.hold().map_err(|error| unkept(&error))?;
        let name = held.find(id).map_err(|error| unkept(&error))?;
        Ok(name.map(|name| held.shown.join(name).display().to_string()))
    }

    /// Takes the next part of a file; the path, once all of it is there.
    pub(super) fn keep(&self, part: &AttachmentPart) -> Result<String, ToolError> {
        let broken = || ToolError::Failed("a part of an attachment is not base64".to_owned());
        let data = STANDARD.decode(&part.data).map_err(|_| broken())?;
        if part.offset + data.len() as u64 > MAX_FILE {
            return Err(ToolError::refused("the file is too large to be kept"));
        }
        let held = self.hold().map_err(|error| unkept(&error))?;
        held.append(part, &data).map_err(|error| unkept(&error))
    }

    /// Reads the whole content of a kept file.
    pub(super) fn load(&self, id: &str) -> Result<Vec<u8>, ToolError> {
        let held = self.hold().map_err(|error| unkept(&error))?;
        let name = held.find(id).map_err(|error| unkept(&error))?;
        let name =
            name.ok_or_else(|| ToolError::refused("the file has gone meanwhile: try again"))?;
        let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
        let file =
            OpenOptions::new().read(true).custom_flags(flags.bits()).open(held.folder.join(name));
        let mut bytes = Vec::new();
        file.and_then(|file| file.take(MAX_FILE + 1).read_to_end(&mut bytes))
            .map_err(|error| unkept(&error))?;
        if bytes.len() as u64 > MAX_FILE {
            return Err(ToolError::refused("the file is too large to be saved"));
        }
        Ok(bytes)
    }
}

impl HeldFolder {
    /// Names of files, oldest first, with their sizes.
    fn list(&self) -> io::Result<Vec<(String, u64)>> {
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.folder)?.flatten() {
            let Ok(meta) = fs::symlink_metadata(entry.path()) else { continue };
            if let (true, Some(name)) = (meta.is_file(), entry.file_name().to_str()) {
                found.push((meta.mtime(), name.to_owned(), meta.len()));
            }
        }
        found.sort();
        Ok(found.into_iter().map(|(_, name, size)| (name, size)).collect())
    }

    fn find(&self, id: &str) -> io::Result<Option<String>> {
        let begins = format!("{id}-");
        let mut names = self.list()?.into_iter().map(|(name, _)| name);
        Ok(names.find(|name| name.starts_with(&begins)))
    }

    fn append(&self, part: &AttachmentPart, data: &[u8]) -> io::Result<String> {
        let partial = self.folder.join(format!(".part-{}", part.id));
        if part.offset == 0 {
            let _ = fs::remove_file(&partial);
            self.make_room()?;
        }
        let mut options = OpenOptions::new();
        options
            .append(true)
            .create(part.offset == 0)
            .custom_flags(OFlag::O_NOFOLLOW.bits())
            .mode(0o644);
        let mut file = options.open(&partial)?;
        // Two calls at once for the same file, or a command that plays with it.
        if file.metadata()?.len() != part.offset {
            return Err(io::Error::other("another call is saving the same file: try again"));
        }
        file.write_all(data)?;
        if !part.last {
            return Ok(String::new());
        }
        let name = format!("{}-{}", part.id, plain_name(&part.name));
        fs::rename(&partial, self.folder.join(&name))?;
        Ok(self.shown.join(name).display().to_string())
    }

    fn make_room(&self) -> io::Result<()> {
        let known = self.list()?;
        let mut total: u64 = known.iter().map(|(_, size)| size).sum();
        let mut count = known.len();
        for (name, size) in known {
            if count < MAX_FILES && total < MAX_TOGETHER {
                break;
            }
            let _ = fs::remove_file(self.folder.join(name));
            (count, total) = (count - 1, total.saturating_sub(size));
        }
        Ok(())
    }
}

/// A name of a file that needs no quotes and hides nothing.
fn plain_name(name: &str) -> String {
    let plain = |c: char| if c.is_alphanumeric() || "._+-".contains(c) { c } else { '_' };
    let name: String = name.chars().map(plain).collect();
    let name = name.trim_start_matches('.');
    let skip = name.chars().count().saturating_sub(80);
    let end: String = name.chars().skip(skip).collect();
    if end.is_empty() { "file".to_owned() } else { end }
}

fn unkept(error: &io::Error) -> ToolError {
    ToolError::refused(format!("the file can't be kept beside the worktree: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(id: &str, offset: u64, data: &[u8], last: bool) -> AttachmentPart {
        let (id, name, data) =
            (id.to_owned(), "a b/../\u{202e}c.pdf".to_owned(), STANDARD.encode(data));
        AttachmentPart { id, name, offset, data, last }
    }

    #[test]
    fn a_file_is_there_when_all_of_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let kept = KeptAttachments::of(dir.path());
        assert_eq!(kept.keep(&part("F1", 0, b"one ", false)).unwrap(), "");
        assert_eq!(kept.find("F1").unwrap(), None);
        let path = kept.keep(&part("F1", 4, b"two", true)).unwrap();
        assert_eq!(path, dir.path().join("slack/F1-a_b_..__c.pdf").display().to_string());
        assert_eq!(kept.find("F1").unwrap().as_deref(), Some(path.as_str()));
        assert_eq!(kept.find("F").unwrap(), None);
        assert_eq!(kept.load("F1").unwrap(), b"one two");
    }

    #[test]
    fn parts_that_do_not_follow_each_other_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let kept = KeptAttachments::of(dir.path());
        kept.keep(&part("F1", 0, b"one ", false)).unwrap();
        assert!(kept.keep(&part("F1", 9, b"two", true)).is_err());
        assert!(kept.keep(&part("F2", 4, b"two", true)).is_err());
        assert_eq!(kept.find("F1").unwrap(), None);
        // Begun anew.
        kept.keep(&part("F1", 0, b"again", true)).unwrap();
        assert_eq!(kept.load("F1").unwrap(), b"again");
    }

    #[test]
    fn links_are_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        fs::write(elsewhere.path().join("secret"), "s").unwrap();
        let kept = KeptAttachments::of(dir.path());
        kept.find("F1").unwrap();
        let slack = dir.path().join(FOLDER);
        std::os::unix::fs::symlink(elsewhere.path().join("secret"), slack.join("F1-x")).unwrap();
        std::os::unix::fs::symlink(elsewhere.path().join("new"), slack.join(".part-F2")).unwrap();
        assert!(kept.load("F1").is_err());
        kept.keep(&part("F2", 0, b"x", true)).unwrap();
        assert!(!elsewhere.path().join("new").exists());
        fs::remove_dir_all(&slack).unwrap();
        std::os::unix::fs::symlink(elsewhere.path(), &slack).unwrap();
        assert!(kept.keep(&part("F3", 0, b"x", true)).is_err());
        assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 1);
    }

    #[test]
    fn the_oldest_files_go() {
        let dir = tempfile::tempdir().unwrap();
        let kept = KeptAttachments::of(dir.path());
        for n in 0..MAX_FILES + 3 {
            kept.keep(&part(&format!("F{n}x"), 0, b"x", true)).unwrap();
        }
        assert_eq!(fs::read_dir(dir.path().join(FOLDER)).unwrap().count(), MAX_FILES);
        assert!(kept.find(&format!("F{}x", MAX_FILES + 2)).unwrap().is_some());
    }
}
