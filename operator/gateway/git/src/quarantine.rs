//! A push before it is accepted: its objects are in a folder of their own, beside those of the copy,
//! and go with it. What is passed on is packed anew from what was looked at, so nothing travels with
//! it that no commit leads to.

mod budget;
mod diff;
mod history;
mod large;
mod objects;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use axum::body::BodyDataStream;
use bytes::{Bytes, BytesMut};
use codebutler_crds::policy::PolicySpec;
use codebutler_crds::thread::RemovedCommit;
use codebutler_gateway_core::low_priority::run_low_priority;
use codebutler_gateway_core::redact::SecretRedactor;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use tokio::io::AsyncWriteExt as _;
use tokio_util::io::ReaderStream;

use self::history::CommitTrees;
pub(crate) use self::objects::ObjectReader;
use super::command::{CommandError, GitRepository};
use super::commit_text::BroughtBack;
use super::confine::CommandBounds;
use super::guard::PathGuard;
use super::host::{RefUpdate, RemoteRefs};
use super::removed;
use super::rules::{self, FileChange, IncomingPush, NewCommit, PushViolation};

/// Most objects of one push.
const MAX_OBJECTS: u32 = 500_000;
/// Most commits of one push.
const MAX_COMMITS: usize = 5000;
/// Most commits whose guarded files are compared with what people have accepted.
const MAX_COMPARED: usize = 64;
/// The head of a pack: `PACK`, version, number of objects.
const PACK_HEAD: usize = 12;
/// Versions that a commit's guarded files are compared with.
const MAX_VERSIONS: usize = 16;
/// Bytes of earlier contents that a possible secret is looked for in: one that is not found in them is new.
const MAX_BEFORE: usize = 64 << 20;
/// Text that may be looked through for each byte that may be pushed.
const MAX_INFLATION: u64 = 8;

/// A push could not be received or inspected.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReceiveError {
    /// The push is not acceptable; the text tells the client why.
    #[error("{0}")]
    Refused(String),
    /// The connection broke off.
    #[error("the push broke off")]
    Cut,
    /// The gateway's own trouble.
    #[error("the push can't be looked at: try again")]
    Command(#[from] CommandError),
    #[error("the push can't be kept: try again")]
    Folder(#[from] std::io::Error),
}

/// A push and the remote's refs that it is judged against.
#[derive(Clone)]
pub(crate) struct PushBase {
    pub update: RefUpdate,
    /// The remote's refs, all of them in the copy.
    pub refs: Arc<RemoteRefs>,
    pub base: String,
}

impl PushBase {
    fn base_tip(&self) -> Option<&str> {
        self.refs.get(&format!("refs/heads/{}", self.base)).map(String::as_str)
    }
}

/// Quarantine for the objects of one push; they are deleted when it is dropped.
pub(crate) struct PushQuarantine {
    git: GitRepository,
    _folder: tempfile::TempDir,
}

/// Resource limits for the inspection of a push: memory for a file of the largest size, its delta base and the delta,
/// and for the histories that are compared.
fn look_bounds(policy: &PolicySpec) -> CommandBounds {
    let (file, push) = (u64::from(policy.file_mib()), u64::from(policy.push_mib()));
    CommandBounds {
        memory: (192 + 3 * file) << 20,
        piece: (file + 1).max(32) << 20,
        seconds: 300,
        file: (push + 512) << 20,
    }
}

impl PushQuarantine {
    /// Creates an empty quarantine beside a copy, for a push under these rules.
    pub(crate) fn new(mirror: &GitRepository, policy: &PolicySpec) -> std::io::Result<Self> {
        let beside = mirror.dir().parent().unwrap_or(mirror.dir());
        let folder = tempfile::Builder::new().prefix(super::mirror::PUSHES).tempdir_in(beside)?;
        let git = mirror.with_quarantine(folder.path(), look_bounds(policy));
        Ok(Self { git, _folder: folder })
    }

    /// Takes the pack in, checking each object's form. The body is read as far as Git wants it.
    ///
    /// # Errors
    /// `Refused` when the pack is broken, too large, or holds what must not be in a repository.
    pub(crate) async fn receive(
        &self,
        begun: Bytes,
        body: &mut BodyDataStream,
        max_bytes: u64,
    ) -> Result<(), ReceiveError> {
        let mut head = BytesMut::from(begun.as_ref());
        while head.len() < PACK_HEAD {
            let Some(Ok(chunk)) = body.next().await else { return Err(ReceiveError::Cut) };
            head.extend_from_slice(&chunk);
        }
        objects_of(&head)?;
        let limit = format!("--max-input-size={max_bytes}");
        let arguments = ["index-pack", "--stdin", "--fix-thin", "--strict", "--threads=1", &limit];
        let mut index = self.git.start(&arguments)?;
        // A small pack may unfold to a giant: others push meanwhile.
        index.give_way();
        let stdin = index.stdin.take();
        let feed = async {
            let Some(mut stdin) = stdin else { return Ok(()) };
            let mut next = Some(Ok(head.freeze()));
            while let Some(chunk) = next {
                let Ok(chunk) = chunk else { return Err(ReceiveError::Cut) };
                // Git has seen enough: it says why.
                if stdin.write_all(&chunk).await.is_err() {
                    break;
                }
                next = body.next().await;
            }
            Ok(())
        };
        let (sent, indexed) = tokio::join!(feed, index.rest());
        match indexed {
            Ok(_) => sent,
            Err(CommandError::Failed { said, .. }) => {
                sent?;
                Err(ReceiveError::Refused(unpack_trouble(&said, max_bytes)))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Reads everything that the push would bring.
    ///
    /// # Errors
    /// `Refused` when it is more than can be looked at, or not whole.
    pub(crate) async fn incoming(
        &self,
        place: &PushBase,
        guard: &PathGuard,
    ) -> Result<IncomingPush, ReceiveError> {
        let RefUpdate { old, new, .. } = &place.update;
        let fast_forward = match old {
            Some(old) => self.git.asks(&["merge-base", "--is-ancestor", old, new]).await,
            None => Ok(true),
        };
        let fast_forward = fast_forward.map_err(not_whole)?;
        let ids =
            self.list(&["rev-list", "--reverse", "--topo-order", new, "--not", "--all"]).await?;
        if ids.len() > MAX_COMMITS {
            let most =
                format!("a push may have {MAX_COMMITS} new commits: this one has {}", ids.len());
            return Err(ReceiveError::Refused(most));
        }
        let mut history = CommitTrees::read(&self.git, &ids).await?;
        let blobs = self.new_blobs(new).await?;
        let mut commits = history.commits(&self.git, &ids).await?;
        self.find_foreign(&mut commits, &history, place).await?;
        if let Some(old) = old.as_ref().filter(|_| !fast_forward) {
            commits.push(history.rewritten(&self.git, old, new, guard).await?);
        } else if let Some(known) = self.takes_over(place, &ids).await? {
            commits.push(history.rewritten(&self.git, known, new, guard).await?);
        }
        self.accept(&mut commits, &mut history, place, guard).await?;
        Ok(IncomingPush { fast_forward, commits, back: Vec::new(), blobs })
    }

    /// The removed commits that the push would put back on the branch.
    pub(crate) async fn brought_back(
        &self,
        place: &PushBase,
        removed: &[RemovedCommit],
        incoming: &IncomingPush,
    ) -> Result<Vec<BroughtBack>, ReceiveError> {
        let RefUpdate { old, new, .. } = &place.update;
        let there: Vec<&str> = old.as_deref().into_iter().chain(place.base_tip()).collect();
        let pushed = (&**new, &*there);
        Ok(removed::find_brought_back(&self.git, pushed, removed, &incoming.commits).await?)
    }

    /// Notes which merges bring in something else than the base branch.
    async fn find_foreign(
        &self,
        commits: &mut [NewCommit],
        history: &CommitTrees,
        place: &PushBase,
    ) -> Result<(), ReceiveError> {
        let merges = history.merges();
        let sides: BTreeSet<&str> = merges.iter().flat_map(|(_, sides)| sides.clone()).collect();
        let known: Vec<&str> =
            place.update.old.as_deref().into_iter().chain(place.base_tip()).collect();
        if sides.is_empty() || known.is_empty() {
            return Ok(());
        }
        let most = format!("--max-count={MAX_COMMITS}");
        let sides: Vec<&str> = sides.into_iter().collect();
        let unknown =
            self.list(&[&["rev-list", &most], &*sides, &["--not"], &*known].concat()).await?;
        let unknown: BTreeSet<&str> = unknown.iter().map(String::as_str).collect();
        // As many as that can't be looked through: they are not the base branch's.
        let all = unknown.len() == MAX_COMMITS;
        for (id, sides) in merges {
            let foreign = sides.into_iter().filter(|side| all || unknown.contains(side));
            if let Some(commit) = commits.iter_mut().find(|commit| commit.id == id) {
                commit.foreign = foreign.map(str::to_owned).collect();
            }
        }
        Ok(())
    }

    /// Returns a commit to compare the push with if it brings commits that are on another branch of the remote only:
    /// people who have pushed there have accepted nothing for this branch.
    async fn takes_over<'p>(
        &self,
        place: &'p PushBase,
        new: &[String],
    ) -> Result<Option<&'p str>, ReceiveError> {
        let RefUpdate { old, new: tip, .. } = &place.update;
        let known: Vec<&str> = old.as_deref().into_iter().chain(place.base_tip()).collect();
        let Some(first) = known.first() else { return Ok(None) };
        let most = format!("--max-count={}", new.len() + 1);
        let arguments = ["rev-list", &most, tip, "--not"];
        let unknown = self.list(&[&arguments[..], &known].concat()).await?;
        Ok((unknown.len() > new.len()).then_some(*first))
    }

    /// Notes which guarded files are as people have accepted them: on the base branch where the
    /// thread's branch has joined it, or on the thread's branch as the remote has it.
    async fn accept(
        &self,
        commits: &mut [NewCommit],
        history: &mut CommitTrees,
        place: &PushBase,
        guard: &PathGuard,
    ) -> Result<(), ReceiveError> {
        let Some(base) = place.base_tip() else { return Ok(()) };
        let old = place.update.old.as_deref();
        let joined = match old {
            Some(old) => self.merge_bases(old, base).await?,
            None => Vec::new(),
        };
        let joined = &joined[..joined.len().min(MAX_VERSIONS)];
        let guarded = find_guarded(commits, guard).await?;
        for (commit, paths) in commits.iter_mut().zip(guarded) {
            if paths.is_empty() {
                continue;
            }
            let mut accepted: Vec<String> =
                joined.iter().cloned().chain(old.map(str::to_owned)).collect();
            for other in self.merge_bases(&commit.id, base).await?.into_iter().take(MAX_VERSIONS) {
                // Older than where the branch has been already: that would take things back.
                if old.is_none() || self.contains_one(&other, joined).await? {
                    accepted.push(other);
                }
            }
            for version in accepted {
                let pair = (&*version, &*commit.id);
                commit.accepted.extend(history.same_files(&self.git, pair, &paths).await?);
            }
        }
        Ok(())
    }

    /// Contents that leak: in files that are not larger than they may be.
    ///
    /// # Errors
    /// `Refused` when there is more text than can be looked through.
    pub(crate) async fn leaks(
        &self,
        incoming: &IncomingPush,
        rules: &rules::PushRules,
        redactor: &Arc<SecretRedactor>,
        max_bytes: u64,
    ) -> Result<BTreeSet<PushViolation>, ReceiveError> {
        if incoming.blobs.values().sum::<u64>() > max_bytes.saturating_mul(MAX_INFLATION) {
            let much = "it holds more text than can be looked through: push fewer or smaller files";
            return Err(ReceiveError::Refused(much.to_owned()));
        }
        let mut places: BTreeMap<&str, Vec<(&NewCommit, &FileChange)>> = BTreeMap::new();
        for commit in &incoming.commits {
            for change in commit.changes.iter() {
                if let Some(blob) =
                    change.blob.as_deref().filter(|b| incoming.blobs.contains_key(*b))
                {
                    places.entry(blob).or_default().push((commit, change));
                }
            }
        }
        let mut objects = ObjectReader::open(&self.git)?;
        let mut wrong = BTreeSet::new();
        for (blob, places) in places {
            let bytes = objects.read(blob).await?;
            let redactor = Arc::clone(redactor);
            let look = move || {
                let leaky = rules::possible_texts(&bytes).into_iter();
                let leaky = leaky.map(|text| (rules::find_leaks(&redactor, &text), text));
                leaky.filter(|(leaks, _)| !leaks.is_empty()).collect::<Vec<_>>()
            };
            for (leaks, text) in run_low_priority(look).await? {
                for (commit, change) in &places {
                    let before = text_before(&mut objects, commit, change).await?;
                    if let Some((line, name)) = rules::new_leak(&leaks, &text, &before) {
                        let path = rules::show_path(rules, &change.path);
                        wrong.insert(PushViolation::Secret(path, line, name.to_owned()));
                    }
                }
            }
        }
        Ok(wrong)
    }

    /// The request that passes the push on.
    pub(crate) fn request(&self, place: &PushBase) -> Result<reqwest::Body, CommandError> {
        push_request(&self.git, &place.update, &place.refs)
    }

    /// Contents that no ref of the remote leads to, with their sizes.
    async fn new_blobs(&self, new: &str) -> Result<BTreeMap<String, u64>, ReceiveError> {
        let listed = self
            .list(&["rev-list", "--objects", "--no-object-names", new, "--not", "--all"])
            .await?;
        self.sizes(&listed).await
    }

    /// The sizes of those objects that are files' contents.
    async fn sizes(&self, ids: &[String]) -> Result<BTreeMap<String, u64>, ReceiveError> {
        if ids.is_empty() {
            return Ok(BTreeMap::new());
        }
        let check = "--batch-check=%(objectname) %(objecttype) %(objectsize)";
        let sizes = self.git.run(&["cat-file", check], (ids.join("\n") + "\n").as_bytes()).await?;
        let blob = |line: &str| {
            let mut words = line.split(' ');
            let (id, kind, size) = (words.next()?, words.next()?, words.next()?);
            (kind == "blob").then(|| Some((id.to_owned(), size.parse().ok()?)))?
        };
        Ok(String::from_utf8_lossy(&sizes).lines().filter_map(blob).collect())
    }

    async fn list(&self, arguments: &[&str]) -> Result<Vec<String>, ReceiveError> {
        let text = self.git.run(arguments, b"").await.map_err(not_whole)?;
        Ok(String::from_utf8_lossy(&text).lines().map(str::to_owned).collect())
    }

    async fn merge_bases(&self, one: &str, other: &str) -> Result<Vec<String>, ReceiveError> {
        match self.git.run(&["merge-base", "--all", one, other], b"").await {
            Ok(text) => Ok(String::from_utf8_lossy(&text).lines().map(str::to_owned).collect()),
            Err(CommandError::Failed { code: 1, .. }) => Ok(Vec::new()),
            Err(error) => Err(error.into()),
        }
    }

    async fn contains_one(&self, commit: &str, some: &[String]) -> Result<bool, CommandError> {
        for one in some {
            if self.git.asks(&["merge-base", "--is-ancestor", one, commit]).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// The request for a push: the change of the ref, then all that the remote lacks.
pub(crate) fn push_request(
    git: &GitRepository,
    update: &RefUpdate,
    refs: &RemoteRefs,
) -> Result<reqwest::Body, CommandError> {
    let arguments = ["pack-objects", "--revs", "--stdout", "--thin", "--delta-base-offset", "-q"];
    let (mut stdin, stdout, child) = git.start(&arguments)?.apart()?;
    let tips: BTreeSet<&String> = refs.values().collect();
    let known = tips.into_iter().fold(String::new(), |all, tip| all + "^" + tip + "\n");
    let revisions = format!("{}\n{known}", update.new);
    tokio::spawn(async move {
        let _ = stdin.write_all(revisions.as_bytes()).await;
    });
    // The process lives as long as its output is read.
    let pack = ReaderStream::with_capacity(stdout, 64 * 1024).inspect_ok(move |_| {
        let _ = &child;
    });
    let head = Bytes::from(super::host::ask_for_update(update));
    let head = stream::once(async move { Ok(head) });
    Ok(reqwest::Body::wrap_stream(head.chain(pack)))
}

/// Guarded files of each commit, as far as they are compared with what people have accepted.
async fn find_guarded(
    commits: &[NewCommit],
    guard: &PathGuard,
) -> Result<Vec<BTreeSet<String>>, ReceiveError> {
    let (changes, guard): (Vec<_>, _) =
        (commits.iter().map(|commit| Arc::clone(&commit.changes)).collect(), guard.clone());
    let find = move || {
        let paths = |changes: &Arc<[FileChange]>| {
            let paths = changes.iter().map(|change| &change.path);
            paths.filter(|path| guard.why(path).is_some()).cloned().collect::<BTreeSet<_>>()
        };
        let mut compared = 0;
        let bounded = changes.iter().map(|changes| {
            let found = if compared < MAX_COMPARED { paths(changes) } else { BTreeSet::new() };
            compared += usize::from(!found.is_empty());
            found
        });
        bounded.collect::<Vec<_>>()
    };
    Ok(run_low_priority(find).await?)
}

/// Reads a file's text in the parents, and in files that this commit deletes.
async fn text_before(
    objects: &mut ObjectReader,
    commit: &NewCommit,
    change: &FileChange,
) -> Result<Vec<String>, CommandError> {
    let gone = commit.changes.iter().filter(|change| change.blob.is_none());
    let blobs: BTreeSet<&String> = gone.chain([change]).flat_map(|change| &change.before).collect();
    let (mut texts, mut room) = (Vec::new(), MAX_BEFORE);
    for blob in blobs {
        let bytes = objects.read(blob).await?;
        if bytes.len() > room {
            break;
        }
        room -= bytes.len();
        texts.extend(rules::possible_texts(&bytes));
    }
    Ok(texts)
}

/// The number of objects that a pack says it has.
fn objects_of(head: &[u8]) -> Result<u32, ReceiveError> {
    match head {
        [b'P', b'A', b'C', b'K', 0, 0, 0, 2 | 3, a, b, c, d, ..] => {
            let count = u32::from_be_bytes([*a, *b, *c, *d]);
            if count > MAX_OBJECTS {
                let many = format!("a push may have {MAX_OBJECTS} objects: this one has {count}");
                return Err(ReceiveError::Refused(many));
            }
            Ok(count)
        }
        _ => Err(ReceiveError::Refused("what was sent is no pack".to_owned())),
    }
}

fn unpack_trouble(said: &str, max_bytes: u64) -> String {
    if said.contains("maximum allowed size") {
        return format!("a push may have {} MiB", max_bytes >> 20);
    }
    let line = said.lines().find(|line| line.starts_with("error:")).or(said.lines().next_back());
    let line = line.unwrap_or("it is broken").trim_start_matches("error: ");
    format!("Git does not accept the pack: {}", line.trim_start_matches("fatal: "))
}

/// A walk over new commits that stops shows that something is missing.
fn not_whole(error: CommandError) -> ReceiveError {
    match error {
        CommandError::Failed { .. } => {
            ReceiveError::Refused("objects are missing that the commits need".to_owned())
        }
        CommandError::TooMuch(_) => too_much(error),
        error => error.into(),
    }
}

/// A tree or a history that unfolds without end.
fn too_much(error: CommandError) -> ReceiveError {
    match error {
        CommandError::TooMuch(_) => {
            ReceiveError::Refused("it changes more files than can be looked at".to_owned())
        }
        error => error.into(),
    }
}

#[cfg(test)]
mod tests;
