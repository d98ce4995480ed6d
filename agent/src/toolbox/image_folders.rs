//! Links to downloads and toolchains that an image brings in folders of its own, where no command may write: they
//! appear where commands have theirs. Crates and Go modules that an image brings work without a network that way, and
//! take no room on the volume.
//!
//! Commands write beside them, and those of other pods at the same time. So every folder is held open while something
//! is put into it, and nothing that is there is written to.

mod pinned;

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use tokio::sync::oneshot;
use tokio::time::timeout;

use self::pinned::PinnedFolder;
use codebutler_guides::text::clip_text;

/// Files of an image's Cargo home that are neither programs nor downloads.
const CARGO_SETTINGS: [&str; 2] = ["config", "config.toml"];
/// Largest file with settings, in bytes.
const MAX_SETTINGS: u64 = 1024 * 1024;
/// Files of an index up to this size are copied, in bytes: Cargo writes to them.
const SMALL: u64 = 64 * 1024;
/// Most files that are linked or copied, and most bytes that are copied.
const MAX_FILES: u32 = 100_000;
const MAX_COPIED: u64 = 256 * 1024 * 1024;
/// Longest time that a build waits for links.
const WAIT: Duration = Duration::from_mins(1);
/// Deepest folder that is looked into.
const DEEPEST: u32 = 32;

/// The image's own folders, where commands have others.
#[derive(Clone, Debug, Default)]
pub(super) struct ImageFolders {
    /// Home of Cargo (`CARGO_HOME`).
    pub cargo: Option<PathBuf>,
    /// Module cache of Go.
    pub modules: Option<PathBuf>,
    /// Home of rustup.
    pub rustup: Option<PathBuf>,
}

impl ImageFolders {
    /// Copies the settings of the image's Cargo home, unless commands have some.
    pub(super) fn copy_settings(&self, build: &Path) -> io::Result<()> {
        let Some(given) = &self.cargo else { return Ok(()) };
        let found = CARGO_SETTINGS.map(|name| (name, read_settings(&given.join(name))));
        for (name, settings) in found {
            if let Some(settings) = settings {
                let home = PinnedFolder::open(build)?.enter(OsStr::new("cargo"))?;
                home.write(OsStr::new(name), &mut &settings[..])?;
            }
        }
        Ok(())
    }

    /// A home of rustup with links to the image's toolchains, if it has any. Other images of the same Thread have
    /// another one: each has its own default.
    pub(super) fn link_toolchains(&self, build: &Path) -> io::Result<Option<PathBuf>> {
        let Some(given) = &self.rustup else { return Ok(None) };
        let toolchains = given.join("toolchains");
        let Ok(entries) = fs::read_dir(&toolchains) else { return Ok(None) };
        let mut names: Vec<_> = entries.flatten().map(|entry| entry.file_name()).collect();
        names.sort();
        let settings = read_settings(&given.join("settings.toml"));
        let mut key = Sha256::new_with_prefix(given.as_os_str().as_encoded_bytes());
        let parts = names.iter().map(|name| name.as_encoded_bytes());
        for part in parts.chain([settings.as_deref().unwrap_or_default()]) {
            key.update(part);
            key.update([0]);
        }
        let key = hex::encode(&key.finalize()[..4]);
        let home =
            PinnedFolder::open(build)?.enter(OsStr::new("rustup"))?.enter(OsStr::new(&key))?;
        let linked = home.enter(OsStr::new("toolchains"))?;
        for name in &names {
            linked.link(name, &toolchains.join(name))?;
        }
        if let Some(settings) = settings {
            home.write(OsStr::new("settings.toml"), &mut &settings[..])?;
        }
        Ok(Some(build.join("rustup").join(key)))
    }

    /// Links what the image has downloaded.
    fn link_downloads(&self, build: &Path) -> io::Result<()> {
        let mut left = LinkBudget { files: MAX_FILES, bytes: MAX_COPIED };
        if let Some(given) = self.cargo.as_deref().filter(|given| given.is_dir()) {
            let home = PinnedFolder::open(build)?.enter(OsStr::new("cargo"))?;
            for (folder, inner, rule) in [
                ("registry", "cache", LinkRule::Archives),
                ("registry", "index", LinkRule::Index),
                ("git", "db", LinkRule::Repositories),
            ] {
                let from = given.join(folder).join(inner);
                if from.is_dir() {
                    let to = home.enter(OsStr::new(folder))?.enter(OsStr::new(inner))?;
                    rule.bring_all(&from, &to, &mut left)?;
                }
            }
        }
        let modules = self.modules.as_ref().map(|modules| modules.join("cache/download"));
        if let Some(from) = modules.filter(|from| from.is_dir()) {
            let mut to = PinnedFolder::open(build)?;
            for name in ["go", "pkg", "mod", "cache", "download"] {
                to = to.enter(OsStr::new(name))?;
            }
            LinkRule::Modules.bring_all(&from, &to, &mut left)?;
        }
        Ok(())
    }
}

/// A file with settings, if it is a small one.
fn read_settings(path: &Path) -> Option<Vec<u8>> {
    let mut all = Vec::new();
    let file = File::open(path).ok().filter(|file| file.metadata().is_ok_and(|it| it.is_file()))?;
    file.take(MAX_SETTINGS + 1).read_to_end(&mut all).ok()?;
    (u64::try_from(all.len()).is_ok_and(|length| length <= MAX_SETTINGS)).then_some(all)
}

/// Files and bytes that may still be put on the volume.
struct LinkBudget {
    files: u32,
    bytes: u64,
}

impl LinkBudget {
    fn spend(&mut self, bytes: u64) -> io::Result<()> {
        let left = self.files.checked_sub(1).zip(self.bytes.checked_sub(bytes));
        let too_much = || io::Error::other(format!("they are more than {MAX_FILES} files"));
        (self.files, self.bytes) = left.ok_or_else(too_much)?;
        Ok(())
    }
}

/// Links or copies: only files that their program never writes to can be links into the image.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LinkRule {
    /// Cargo's `.crate` files, which are linked.
    Archives,
    /// Downloads of Go, without its lists of versions: the newest one there is not the newest.
    Modules,
    /// Cargo's indices, of which some are repositories.
    Index,
    /// A folder of bare Git repositories.
    Repositories,
    /// Inside of one. Its objects are read where they are.
    Repository,
}

impl LinkRule {
    fn bring_all(self, from: &Path, to: &PinnedFolder, left: &mut LinkBudget) -> io::Result<()> {
        self.bring(from, to, left, DEEPEST)
    }

    fn bring(
        self,
        from: &Path,
        to: &PinnedFolder,
        left: &mut LinkBudget,
        depth: u32,
    ) -> io::Result<()> {
        let Some(depth) = depth.checked_sub(1) else { return Ok(()) };
        for entry in fs::read_dir(from)? {
            let entry = entry?;
            let (name, path, kind) = (entry.file_name(), entry.path(), entry.file_type()?);
            if kind.is_dir() && self.is_repository(&path) {
                bring_repository(&path, &name, to, left, depth)?;
            } else if kind.is_dir() && self == Self::Repository && name == "objects" {
                refer_to_objects(&path, &to.enter(&name)?)?;
            } else if kind.is_dir() && !(self == Self::Modules && name == "sumdb") {
                self.bring(&path, &to.enter(&name)?, left, depth)?;
            } else if kind.is_file() && self.wants(&name) {
                self.bring_file(&path, &name, to, left)?;
            }
        }
        Ok(())
    }

    fn wants(self, name: &OsStr) -> bool {
        let locks = Path::new(name).extension().is_some_and(|kind| kind == "lock");
        !(self == Self::Modules && (locks || name == "list"))
    }

    fn is_repository(self, path: &Path) -> bool {
        match self {
            Self::Repositories => true,
            Self::Index => path.join(".git").is_dir(),
            Self::Archives | Self::Modules | Self::Repository => false,
        }
    }

    fn bring_file(
        self,
        from: &Path,
        name: &OsStr,
        to: &PinnedFolder,
        left: &mut LinkBudget,
    ) -> io::Result<()> {
        if to.has(name)? {
            return Ok(());
        }
        // A file that commands can't read would be in the way of a download.
        let Ok(file) = File::open(from) else { return Ok(()) };
        let length = file.metadata()?.len();
        let links = match self {
            Self::Archives | Self::Modules => true,
            Self::Index => length > SMALL,
            Self::Repositories | Self::Repository => false,
        };
        left.spend(if links { 0 } else { length })?;
        if links { to.link(name, from) } else { to.write(name, &mut io::BufReader::new(file)) }
    }
}

/// Brings a repository as a whole: one of which a part is missing is broken. A copy that was cut off is resumed.
fn bring_repository(
    from: &Path,
    name: &OsStr,
    to: &PinnedFolder,
    left: &mut LinkBudget,
    depth: u32,
) -> io::Result<()> {
    if let Ok(there) = to.at(name).symlink_metadata() {
        if there.is_symlink() || !lacks_objects(&to.at(name)) {
            return Ok(());
        }
        // The repository is from an image that the Thread had before.
        fs::remove_dir_all(to.at(name))?;
    }
    let mut begun = std::ffi::OsString::from(".begun-");
    begun.push(name);
    LinkRule::Repository.bring(from, &to.enter(&begun)?, left, depth)?;
    match fs::rename(to.at(&begun), to.at(name)) {
        // A command has fetched it meanwhile, or another pod was first.
        Err(_) if to.at(name).symlink_metadata().is_ok() => {
            let _ = fs::remove_dir_all(to.at(&begun));
            Ok(())
        }
        renamed => renamed,
    }
}

/// Refers to the objects as alternates: Cargo leaves links to object files out when it clones a repository anew.
fn refer_to_objects(from: &Path, to: &PinnedFolder) -> io::Result<()> {
    to.enter(OsStr::new("pack"))?;
    let mut path = from.as_os_str().as_encoded_bytes().to_owned();
    path.push(b'\n');
    to.enter(OsStr::new("info"))?.write(OsStr::new("alternates"), &mut &path[..])
}

/// True for a repository whose objects were read from where nothing is any more.
fn lacks_objects(repository: &Path) -> bool {
    let objects = ["objects", ".git/objects"].map(|objects| repository.join(objects));
    objects.iter().filter_map(|objects| read_settings(&objects.join("info/alternates"))).any(
        |said| {
            let said = String::from_utf8_lossy(&said).into_owned();
            said.lines().any(|path| !Path::new(path).is_dir())
        },
    )
}

/// The links, made while the agent is at work already: on a slow volume many files take long.
#[derive(Debug, Default)]
pub(super) struct ImageDownloads {
    linking: tokio::sync::Mutex<Option<oneshot::Receiver<io::Result<()>>>>,
    /// Note on missing downloads, for the role's next build.
    missing: Mutex<Option<String>>,
    /// A build that has waited in vain is the last one that waits.
    waited: AtomicBool,
}

impl ImageDownloads {
    /// Begins to link, on a thread of its own: nothing waits for it at the end of the process.
    pub(super) fn begin(&self, image: &ImageFolders, build: &Path) {
        if image.cargo.is_none() && image.modules.is_none() {
            return;
        }
        let (image, build, span) = (image.clone(), build.to_owned(), tracing::Span::current());
        let (sender, receiver) = oneshot::channel();
        thread::spawn(move || {
            let linked = span.in_scope(|| image.link_downloads(&build));
            let _ = sender.send(linked);
        });
        if let Ok(mut linking) = self.linking.try_lock() {
            *linking = Some(receiver);
        }
    }

    /// Waits for the links, for a while.
    pub(super) async fn linked(&self) {
        let mut linking = self.linking.lock().await;
        let Some(receiver) = linking.as_mut() else { return };
        let waited = self.waited.load(Ordering::Relaxed);
        let limit = if waited { Duration::ZERO } else { WAIT };
        let Ok(ended) = timeout(limit, receiver).await else {
            self.waited.store(true, Ordering::Relaxed);
            return;
        };
        *linking = None;
        if let Ok(Err(error)) = ended {
            tracing::warn!(%error, "image_downloads_incomplete");
            let why = clip_text(&error.to_string(), 200);
            *self.missing.lock() = Some(format!(
                "Not all crates and Go modules that the image brings could be put beside the worktree ({why}): \
                 commands download what is missing."
            ));
        }
    }

    /// Waits before a command that builds. Returns the note on missing downloads once.
    pub(super) async fn ready(&self) -> Option<String> {
        self.linked().await;
        self.missing.lock().take()
    }
}

#[cfg(test)]
mod tests;
