//! Stores of histories: one text of lines for each conversation, which only grows.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::SystemTime;

/// A conversation: its Thread's namespace and name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ThreadPlace {
    namespace: String,
    name: String,
}

impl ThreadPlace {
    /// Makes a place; None unless both are names as Kubernetes has them: they become folders.
    pub fn new(namespace: &str, name: &str) -> Option<Self> {
        let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        let fits = |text: &str| (1..=63).contains(&text.len()) && text.bytes().all(plain);
        let (namespace, name) = (namespace.to_owned(), name.to_owned());
        (fits(&namespace) && fits(&name)).then_some(Self { namespace, name })
    }

    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    pub fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Display for ThreadPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// A text does not name a conversation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no NAMESPACE/THREAD")]
pub struct ThreadPlaceError(String);

impl FromStr for ThreadPlace {
    type Err = ThreadPlaceError;
    fn from_str(text: &str) -> Result<Self, ThreadPlaceError> {
        let parts = text.split_once('/').and_then(|(namespace, name)| Self::new(namespace, name));
        parts.ok_or_else(|| ThreadPlaceError(text.to_owned()))
    }
}

/// One history that is kept.
#[derive(Clone, Debug)]
pub struct StoredHistory {
    pub place: ThreadPlace,
    pub bytes: u64,
    pub changed: SystemTime,
}

/// Keeps histories. Several may write to one, each behind what it knows of it.
pub trait HistoryStore: Send + 'static {
    /// Returns the length of a history in bytes; 0 if there is none.
    fn length(&self, place: &ThreadPlace) -> io::Result<u64>;

    /// A part of it: `most` bytes at most, from a byte on.
    fn read(&self, place: &ThreadPlace, from: u64, most: u64) -> io::Result<Vec<u8>>;

    /// Adds lines behind its first `length` bytes; they are there for good when this returns true. A line
    /// there that is not whole is what a writer that died had not finished, and goes. False: others have
    /// added lines, which have to be known first.
    fn append(&mut self, place: &ThreadPlace, length: u64, lines: &[u8]) -> io::Result<bool>;

    /// Puts other bytes in the place of as many that are there.
    fn replace(&mut self, place: &ThreadPlace, at: u64, text: &[u8]) -> io::Result<()>;

    fn list(&self) -> io::Result<Vec<StoredHistory>>;

    fn remove(&mut self, place: &ThreadPlace) -> io::Result<()>;
}

/// Files on a volume: `<root>/<namespace>/<thread>/events.jsonl`. Cheap to clone.
#[derive(Clone, Debug)]
pub struct HistoryVolume {
    root: PathBuf,
}

const FILE: &str = "events.jsonl";
/// Changes when something was replaced.
const REPLACED: &str = ".replaced";
/// Marker file: the volume holds only a copy of an object store.
const CACHE: &str = ".cache";

impl HistoryVolume {
    pub fn new(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    /// Returns the time at which anything written was last replaced.
    pub fn replaced(&self) -> Option<SystemTime> {
        fs::metadata(self.root.join(REPLACED)).ok()?.modified().ok()
    }

    /// Marks that something was replaced: whoever has read it reads it again.
    pub(crate) fn mark_replaced(&self) -> io::Result<()> {
        fs::create_dir_all(&self.root)?;
        File::create(self.root.join(REPLACED))?.sync_all()
    }

    /// Returns true if the volume holds only a copy of an object store, which may go at any time.
    pub(crate) fn is_cache(&self) -> bool {
        self.root.join(CACHE).exists()
    }

    /// Unmarks the volume as a cache: whoever writes here without a store writes the only copy.
    ///
    /// # Errors
    /// When the volume can't be written.
    pub fn unmark_cache(&self) -> io::Result<()> {
        match fs::remove_file(self.root.join(CACHE)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    pub(crate) fn mark_cache(&self) -> io::Result<()> {
        fs::create_dir_all(&self.root)?;
        File::create(self.root.join(CACHE))?.sync_all()
    }

    fn folder(&self, place: &ThreadPlace) -> PathBuf {
        self.root.join(&place.namespace).join(&place.name)
    }

    fn make(&self, place: &ThreadPlace) -> io::Result<File> {
        let folder = self.folder(place);
        fs::create_dir_all(&folder)?;
        let mut options = OpenOptions::new();
        let file =
            options.create(true).truncate(false).read(true).write(true).open(folder.join(FILE))?;
        // Its name is as lasting as what it holds.
        for folder in folder.ancestors().take(3) {
            File::open(folder)?.sync_all()?;
        }
        Ok(file)
    }
}

impl HistoryStore for HistoryVolume {
    fn length(&self, place: &ThreadPlace) -> io::Result<u64> {
        match fs::metadata(self.folder(place).join(FILE)) {
            Ok(metadata) => Ok(metadata.len()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
            Err(error) => Err(error),
        }
    }

    fn read(&self, place: &ThreadPlace, from: u64, most: u64) -> io::Result<Vec<u8>> {
        let mut text = Vec::new();
        match File::open(self.folder(place).join(FILE)) {
            Ok(mut file) => {
                file.seek(SeekFrom::Start(from))?;
                file.take(most).read_to_end(&mut text)?;
                Ok(text)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(text),
            Err(error) => Err(error),
        }
    }

    fn append(&mut self, place: &ThreadPlace, length: u64, lines: &[u8]) -> io::Result<bool> {
        let mut file = match length {
            0 => self.make(place)?,
            _ => OpenOptions::new().read(true).write(true).open(self.folder(place).join(FILE))?,
        };
        // Until the file is closed.
        file.lock()?;
        let there = file.metadata()?.len();
        if there < length {
            return Err(io::Error::other("the history is shorter than it was"));
        }
        file.seek(SeekFrom::Start(length))?;
        if there > length {
            let mut rest = Vec::new();
            file.read_to_end(&mut rest)?;
            if rest.contains(&b'\n') {
                return Ok(false);
            }
            file.set_len(length)?;
            file.seek(SeekFrom::Start(length))?;
        }
        file.write_all(lines)?;
        file.sync_data()?;
        Ok(true)
    }

    fn replace(&mut self, place: &ThreadPlace, at: u64, text: &[u8]) -> io::Result<()> {
        let file = self.folder(place).join(FILE);
        let mut file = OpenOptions::new().read(true).write(true).open(file)?;
        file.lock()?;
        if at + text.len() as u64 > file.metadata()?.len() {
            return Err(io::Error::other("the history is shorter than it was"));
        }
        file.seek(SeekFrom::Start(at))?;
        file.write_all(text)?;
        file.sync_data()?;
        self.mark_replaced()
    }

    fn list(&self) -> io::Result<Vec<StoredHistory>> {
        let mut kept = Vec::new();
        for namespace in list_folders(&self.root)? {
            for folder in list_folders(&namespace)? {
                let Ok(metadata) = fs::metadata(folder.join(FILE)) else { continue };
                let name = |path: &Path| Some(path.file_name()?.to_str()?.to_owned());
                let place = name(&namespace).zip(name(&folder));
                let place = place.and_then(|(namespace, name)| ThreadPlace::new(&namespace, &name));
                let changed = metadata.modified()?;
                kept.extend(place.map(|place| StoredHistory {
                    place,
                    bytes: metadata.len(),
                    changed,
                }));
            }
        }
        Ok(kept)
    }

    fn remove(&mut self, place: &ThreadPlace) -> io::Result<()> {
        fs::remove_dir_all(self.folder(place))
    }
}

fn list_folders(of: &Path) -> io::Result<Vec<PathBuf>> {
    match fs::read_dir(of) {
        Ok(entries) => {
            let paths = entries.map(|entry| entry.map(|entry| entry.path()));
            let paths: Vec<_> = paths.collect::<io::Result<_>>()?;
            Ok(paths.into_iter().filter(|path| path.is_dir()).collect())
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_leads_out_of_the_volume() {
        for (namespace, name) in [("..", "a"), ("a", ".."), ("", "a"), ("a/b", "c"), ("a", "B")] {
            assert_eq!(ThreadPlace::new(namespace, name), None, "{namespace} {name}");
        }
        assert_eq!("team/shop-1".parse(), Ok(ThreadPlace::new("team", "shop-1").unwrap()));
        assert!("shop-1".parse::<ThreadPlace>().is_err());
    }
}
