//! A copy of each Repo's remote in a folder of the gateway's: what pods clone and fetch from, and
//! what pushes are checked against.
//!
//! Every question is put to the remote first (one request), so the copy is never behind; only what
//! changed is fetched, once for all who ask at the same time. While the remote is away, the last copy
//! answers reads. A copy that is damaged is thrown away and made anew. One whose commands were stopped, such as by
//! their timeout on a busy machine, is kept: a whole clone there takes longer still.

mod check;
mod copying;
mod leftovers;

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use codebutler_crds::Repo;
use codebutler_gateway_core::places::SharedPlaces;
use kube::ResourceExt as _;
use sha2::{Digest as _, Sha256};
use tokio::io::AsyncWriteExt as _;

use self::check::check_copy;
use self::copying::CopyFlag;
use self::leftovers::{remove_all, remove_locks};
use super::command::{CommandError, GitRepository};
use super::host::{GitHost, HostError, RemoteRefs};

/// Prefix of the folders of pushes.
pub const PUSHES: &str = "push-";
/// Prefix of the folders of copies that are being removed.
pub const GONE: &str = "gone-";
/// Bytes of a folder's name, which is in hex.
const FOLDER: usize = 12;
/// Largest pack of a remote, in bytes: all copies share one disk.
const MAX_PACK: u64 = 8 << 30;
/// Packs that may gather before they are put together.
const MAX_PACKS: usize = 24;
/// Time for a pack to be indexed once all of it was received: half an hour of a processor, as the command is limited
/// to, and as much again where others have the processor.
const INDEX_LIMIT: Duration = Duration::from_hours(1);
/// Longest wait for whoever updates the copy, to hear if there is one. An update waits for its turn anyway.
const READY_LIMIT: Duration = Duration::from_mins(1);
/// Longest wait for another update of the same copy.
const LOCK_LIMIT: Duration = Duration::from_mins(30);
/// Updates in a row that may be stopped before the copy is made anew after all: the check of a large one may always
/// outlast its timeout, and a clone needs no check.
const MAX_STOPPED: u32 = 3;

/// There is no copy to work with.
#[derive(Debug, thiserror::Error)]
pub enum MirrorError {
    #[error(transparent)]
    Host(#[from] HostError),
    /// A command on the copy failed. A copy that was damaged is made anew already.
    #[error("the gateway's copy of the repository can't be used: try again")]
    Command(#[from] CommandError),
    /// Another update of the copy goes on for too long.
    #[error("the gateway is still copying the repository: try again")]
    Late,
    #[error("the gateway's folder for copies of repositories can't be used")]
    Folder(#[from] std::io::Error),
}

/// The remote's refs, whose objects are all in the copy.
#[derive(Clone, Debug)]
pub struct RefSnapshot {
    pub refs: Arc<RemoteRefs>,
    /// Reason why the snapshot may be old, where the remote did not answer, with the time that it is from.
    pub stale: Option<String>,
}

/// All copies, by Repo. Cheap to clone.
#[derive(Clone, Debug)]
pub struct RepoMirrors {
    root: PathBuf,
    pub(super) known: Arc<Mutex<HashMap<String, Arc<RepoMirror>>>>,
    /// Counter of requests for copies, for eviction of the least recently used.
    asked: Arc<AtomicU64>,
    pub(super) limit: Option<u64>,
    /// Places for processes that read from the copies.
    pub(super) readers: SharedPlaces,
    pub(super) pushers: SharedPlaces,
}

impl RepoMirrors {
    /// Keeps the copies in `root`, which is made when it is needed.
    pub fn new(root: PathBuf) -> Self {
        // Remove leftovers of an earlier process that was stopped meanwhile.
        remove_all(&root, PUSHES);
        remove_all(&root, GONE);
        Self {
            root,
            known: Arc::default(),
            asked: Arc::default(),
            limit: None,
            readers: SharedPlaces::for_reading(None),
            pushers: SharedPlaces::for_pushing(),
        }
    }

    /// Limits the bytes of disk that the copies may take, and the memory of the process that serves them.
    #[must_use]
    pub fn within(self, disk: Option<u64>, memory: Option<u64>) -> Self {
        Self { limit: disk, readers: SharedPlaces::for_reading(memory), ..self }
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// The copy of a Repo: of what its URL names now.
    pub fn of(&self, repo: &Repo) -> Arc<RepoMirror> {
        let namespace = repo.namespace().unwrap_or_default();
        let name = format!("{namespace}/{}", repo.name_any());
        let dir = self.root.join(folder_of(repo));
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let mirror = match known.get(&name) {
            Some(mirror) if mirror.git.dir() == dir => Arc::clone(mirror),
            _ => {
                let mirror = Arc::new(RepoMirror::new(dir));
                known.insert(name, Arc::clone(&mirror));
                mirror
            }
        };
        let turn = self.asked.fetch_add(1, Ordering::Relaxed) + 1;
        mirror.used.store(turn, Ordering::Relaxed);
        mirror
    }

    /// Removes the copies of Repos that are gone, or that name another repository now. One that is
    /// being read stays until the next time.
    pub fn keep_only(&self, repos: &[Arc<Repo>]) {
        let kept: BTreeSet<String> = repos.iter().map(|repo| folder_of(repo)).collect();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        for entry in std::fs::read_dir(&self.root).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let ours = name.strip_suffix(".git").is_some_and(|folder| {
                folder.len() == FOLDER * 2 && folder.bytes().all(|b| b.is_ascii_hexdigit())
            });
            let path = entry.path();
            let busy = known.values().any(|m| m.git.dir() == path && Arc::strong_count(m) > 1);
            if !ours || kept.contains(&name) || busy {
                continue;
            }
            known.retain(|_, mirror| mirror.git.dir() != path);
            match std::fs::remove_dir_all(&path) {
                Ok(()) => {
                    tracing::info!(folder = name, "mirror_removed");
                }
                Err(error) => tracing::warn!(folder = name, %error, "mirror_removal_failed"),
            }
        }
    }
}

/// The folder of a Repo's copy: another one for each URL.
fn folder_of(repo: &Repo) -> String {
    let (namespace, url) = (repo.namespace().unwrap_or_default(), &repo.spec.git.url);
    let name = format!("{namespace}/{}\n{url}", repo.name_any());
    format!("{}.git", hex::encode(&Sha256::digest(name)[..FOLDER]))
}

#[derive(Debug)]
pub struct RepoMirror {
    git: GitRepository,
    /// True if its objects have to be checked before the copy is used again.
    suspect: AtomicBool,
    last: tokio::sync::Mutex<Option<Last>>,
    /// Value of the request counter when the copy was last asked for.
    pub(super) used: AtomicU64,
    /// Set by a fetch; cleared by the next look at the copy's size.
    grown: AtomicBool,
    /// Set when a ref of the remote moves; cleared by the next look at the refs.
    moved: AtomicBool,
    /// Reason why the last fetch was refused, though the remote's refs could be listed.
    refused: Mutex<Option<String>>,
    /// Updates in a row that were stopped before their end.
    stopped: AtomicU32,
    /// True while the remote's objects and refs are taken over.
    copying: CopyFlag,
}

#[derive(Debug)]
struct Last {
    refs: Arc<RemoteRefs>,
    /// Time at which the remote was asked; None for a copy that an earlier process left.
    asked: Option<Instant>,
}

impl RepoMirror {
    fn new(dir: PathBuf) -> Self {
        // A folder that is there already was left by another process, however that ended.
        let suspect = AtomicBool::new(true);
        let (used, grown) = (AtomicU64::default(), AtomicBool::default());
        let (moved, refused) = (AtomicBool::default(), Mutex::default());
        Self {
            git: GitRepository::at(dir),
            suspect,
            last: tokio::sync::Mutex::default(),
            used,
            grown,
            moved,
            refused,
            stopped: AtomicU32::default(),
            copying: CopyFlag::default(),
        }
    }

    /// Returns true if the copy has grown since the last call.
    pub fn has_grown(&self) -> bool {
        self.grown.swap(false, Ordering::Relaxed)
    }

    /// Returns true if a ref has moved, come or gone since the last call.
    pub fn has_moved(&self) -> bool {
        self.moved.swap(false, Ordering::Relaxed)
    }

    /// Reason why a person has to correct the remote before there is a copy of it, if the last fetch found one.
    pub fn refusal(&self) -> Option<String> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// True while what the remote has is copied, which may take long. Whoever only looks at the copy, or asks the remote
    /// for its refs, holds the lock too.
    pub fn is_copying(&self) -> bool {
        self.copying.is_set()
    }

    /// The repository, to run commands in.
    pub const fn git(&self) -> &GitRepository {
        &self.git
    }

    /// Marks the copy as suspect: it is checked before it is used again.
    pub fn suspect(&self) {
        self.suspect.store(true, Ordering::Relaxed);
    }

    /// True if there is a copy that needs no check first.
    pub async fn is_ready(&self) -> bool {
        !self.suspect.load(Ordering::Relaxed)
            && self.lock_last(READY_LIMIT).await.is_ok_and(|last| last.is_some())
    }

    /// True if there is a copy on disk, in whatever state.
    pub fn is_there(&self) -> bool {
        self.git.dir().join("HEAD").exists()
    }

    /// Brings the copy up to what the remote has at this moment or later. `base` is what a clone
    /// checks out.
    ///
    /// # Errors
    /// When the remote does not answer. See [`Self::read`].
    pub async fn sync(&self, host: &GitHost, base: &str) -> Result<RefSnapshot, MirrorError> {
        let wanted = Instant::now();
        let mut last = self.lock_last(LOCK_LIMIT).await?;
        if let Some(last) = last.as_ref().filter(|last| last.asked >= Some(wanted)) {
            return Ok(RefSnapshot { refs: Arc::clone(&last.refs), stale: None });
        }
        let asked = Instant::now();
        let theirs = host.refs().await?;
        let copying = self.copying.set();
        let outcome = match self.update(host, &theirs, base).await {
            Err(MirrorError::Command(error)) if self.is_lost_after(&error) => {
                tracing::warn!(%error, "mirror_damaged");
                self.discard()?;
                self.update(host, &theirs, base).await
            }
            outcome => outcome,
        };
        drop(copying);
        let refusal = match &outcome {
            Err(MirrorError::Host(error)) if error.is_about_repo() => Some(error.to_string()),
            _ => None,
        };
        *self.refused.lock().unwrap_or_else(PoisonError::into_inner) = refusal;
        if let Err(error) = outcome {
            self.suspect();
            return Err(error);
        }
        self.stopped.store(0, Ordering::Relaxed);
        let refs = Arc::new(theirs);
        *last = Some(Last { refs: Arc::clone(&refs), asked: Some(asked) });
        Ok(RefSnapshot { refs, stale: None })
    }

    /// Like [`Self::sync`], but answers from the last copy while the remote is away.
    ///
    /// # Errors
    /// When there is no copy, or the remote refuses.
    pub async fn read(&self, host: &GitHost, base: &str) -> Result<RefSnapshot, MirrorError> {
        match self.sync(host, base).await {
            Err(MirrorError::Host(error)) if error.is_passing() => {
                let mut last = self.lock_last(LOCK_LIMIT).await?;
                if last.is_none() {
                    *last = self.left(base).await;
                }
                let Some(last) = last.as_ref() else { return Err(error.into()) };
                let stale =
                    format!("{error}. Until then clones and fetches get the last copy of it");
                Ok(RefSnapshot { refs: Arc::clone(&last.refs), stale: Some(stale) })
            }
            outcome => outcome,
        }
    }

    /// Waits for whoever updates the copy now.
    async fn lock_last(
        &self,
        limit: Duration,
    ) -> Result<tokio::sync::MutexGuard<'_, Option<Last>>, MirrorError> {
        tokio::time::timeout(limit, self.last.lock()).await.map_err(|_| MirrorError::Late)
    }

    /// Adopts the copy that an earlier process left, if it is whole.
    async fn left(&self, base: &str) -> Option<Last> {
        if !self.git.dir().join("HEAD").exists() {
            return None;
        }
        self.prepare(base).await.ok()?;
        let refs = self.list_refs().await.ok().filter(|refs| !refs.is_empty())?;
        Some(Last { refs: Arc::new(refs), asked: None })
    }

    async fn update(
        &self,
        host: &GitHost,
        theirs: &RemoteRefs,
        base: &str,
    ) -> Result<(), MirrorError> {
        self.prepare(base).await?;
        let ours = self.list_refs().await?;
        let known: BTreeSet<&str> = ours.values().map(String::as_str).collect();
        let tips: BTreeSet<&str> = theirs.values().map(String::as_str).collect();
        let wants: Vec<&str> = tips.difference(&known).copied().collect();
        if !wants.is_empty() {
            self.grown.store(true, Ordering::Relaxed);
            self.fetch(host, &wants, &known_refs(&ours, base)).await?;
        }
        for (name, command) in
            [("deleted", ref_deletions(&ours, theirs)), ("moved", ref_moves(&ours, theirs))]
        {
            if !command.is_empty() {
                tracing::debug!(
                    refs = command.lines().count(),
                    change = name,
                    "mirror_refs_changed"
                );
                self.git.run(&["update-ref", "--stdin"], command.as_bytes()).await?;
                self.moved.store(true, Ordering::Relaxed);
            }
        }
        if !wants.is_empty() {
            self.tidy().await?;
        }
        Ok(())
    }

    /// True if the copy has to be made anew after a failed update. Counts the updates that were stopped.
    fn is_lost_after(&self, error: &CommandError) -> bool {
        if !was_stopped(error) {
            return true;
        }
        if is_unstarted(error) {
            return false;
        }
        let stopped = self.stopped.fetch_add(1, Ordering::Relaxed) + 1;
        if stopped < MAX_STOPPED {
            return false;
        }
        self.stopped.store(0, Ordering::Relaxed);
        true
    }

    /// Creates the copy if it does not exist, and checks it if it is suspect.
    async fn prepare(&self, base: &str) -> Result<(), MirrorError> {
        let dir = self.git.dir();
        if dir.join("HEAD").exists() {
            if !self.suspect.load(Ordering::Relaxed) {
                return Ok(());
            }
            remove_locks(dir);
            check_copy(&self.git).await?;
        } else {
            self.discard()?;
            std::fs::create_dir_all(dir)?;
            self.git.run(&["init", "--quiet", "--bare", "--template="], b"").await?;
        }
        self.git.run(&["symbolic-ref", "HEAD", &format!("refs/heads/{base}")], b"").await?;
        self.suspect.store(false, Ordering::Relaxed);
        Ok(())
    }

    fn discard(&self) -> std::io::Result<()> {
        match std::fs::remove_dir_all(self.git.dir()) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Lists the copy's branches and tags with their commits.
    ///
    /// # Errors
    /// When Git can't tell.
    pub async fn list_refs(&self) -> Result<RemoteRefs, CommandError> {
        let format = "--format=%(objectname) %(refname)";
        let text = self.git.run(&["for-each-ref", format], b"").await?;
        let text = String::from_utf8_lossy(&text);
        let lines = text.lines().filter_map(|line| line.split_once(' '));
        Ok(lines.map(|(id, name)| (name.to_owned(), id.to_owned())).collect())
    }

    async fn fetch(
        &self,
        host: &GitHost,
        wants: &[&str],
        haves: &[&str],
    ) -> Result<(), MirrorError> {
        // Whoever asks holds the lock: what lies there belongs to a fetch that was given up.
        remove_all(&self.git.dir().join("objects/pack"), "tmp_");
        let most = format!("--max-input-size={MAX_PACK}");
        let mut index = self.git.start(&["index-pack", "--stdin", "--fix-thin", &most])?;
        let stdin = index.stdin.take();
        let receive = async {
            let Some(mut stdin) = stdin else { return Ok(()) };
            host.fetch(wants, haves, &mut stdin).await?;
            // An end without this would look like a whole pack.
            stdin.shutdown().await.map_err(CommandError::from)?;
            Ok::<_, MirrorError>(())
        };
        let (received, indexed) = copying::join_within(receive, index.rest(), INDEX_LIMIT).await;
        let indexed =
            indexed.unwrap_or_else(|_| Err(CommandError::TooLong("index-pack".to_owned())));
        // A pack that was cut off is the host's failure, not the copy's.
        received?;
        indexed?;
        Ok(())
    }

    /// Puts small packs together, so that reading stays quick.
    async fn tidy(&self) -> Result<(), CommandError> {
        let packs = std::fs::read_dir(self.git.dir().join("objects/pack"))?
            .flatten()
            .filter(|entry| entry.path().extension().is_some_and(|e| e == "pack"));
        if packs.count() > MAX_PACKS {
            self.git.run(&["repack", "-d", "-q", "--geometric=2"], b"").await?;
            self.git.run(&["pack-refs", "--all"], b"").await?;
        }
        Ok(())
    }
}

/// Commits that are named as known in a fetch; the base branch's comes first, because only so many are sent.
fn known_refs<'r>(ours: &'r RemoteRefs, base: &str) -> Vec<&'r str> {
    let first = ours.get(&format!("refs/heads/{base}"));
    let rest = ours.values().filter(|id| Some(*id) != first);
    first.into_iter().chain(rest.collect::<BTreeSet<_>>()).map(String::as_str).collect()
}

fn ref_deletions(ours: &RemoteRefs, theirs: &RemoteRefs) -> String {
    let gone = ours.keys().filter(|name| !theirs.contains_key(*name));
    gone.fold(String::new(), |all, name| all + "delete " + name + "\n")
}

fn ref_moves(ours: &RemoteRefs, theirs: &RemoteRefs) -> String {
    let moved = theirs.iter().filter(|(name, id)| ours.get(*name) != Some(id));
    moved.fold(String::new(), |all, (name, id)| all + "update " + name + " " + id + "\n")
}

/// True if a failure says nothing about the copy: the command could not be started, or was ended from outside.
const fn was_stopped(error: &CommandError) -> bool {
    match error {
        CommandError::Run(_) | CommandError::TooLong(_) => true,
        // After a signal, such as that of a limit on memory or time.
        CommandError::Failed { code, .. } => *code < 0,
        CommandError::TooMuch(_) => false,
    }
}

/// True if a command could not even be started, such as for a limit on processes or open files. It fails at once, and so
/// do those of a clone: no number of them says anything. A pipe breaks after a start.
fn is_unstarted(error: &CommandError) -> bool {
    matches!(error, CommandError::Run(error) if error.kind() != std::io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests;
