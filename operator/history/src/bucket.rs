//! Histories in an object store, with a volume as what was read of them.
//!
//! Such stores know no appending. Each write is an object of its own, named by the byte that it begins with
//! and made only if there is none of that name: of two writers who go on from the same place, one has to
//! look first what the other has added. Objects are never changed but by [`HistoryStore::replace`].

mod adopt;

use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use futures::TryStreamExt as _;
use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::client::{ClientOptions, HttpClient, HttpConnector};
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::path::Path;
use object_store::{
    Error, ObjectStore, ObjectStoreExt as _, ObjectStoreScheme, PutMode, PutOptions, PutPayload,
};
use tokio::runtime::Handle;
use url::Url;

use crate::store::{HistoryStore, HistoryVolume, StoredHistory, ThreadPlace};

/// Interval between looks at a history for what others have added.
const FRESH: Duration = Duration::from_millis(900);
/// Interval between listings of all histories, and between looks whether anything was replaced.
const LISTED: Duration = Duration::from_secs(10);
/// Timeout of one operation, its own retries included.
const PATIENCE: Duration = Duration::from_mins(1);
/// An object that changes when something was replaced or removed.
const REPLACED: &str = "replaced";

/// Histories in an object store, with a cache on a volume. Cheap to clone.
#[derive(Clone)]
pub struct HistoryBucket {
    store: Arc<dyn ObjectStore>,
    prefix: Path,
    /// Copy of what was read, which may be read again at any time.
    cache: HistoryVolume,
    handle: Handle,
    known: Arc<Mutex<BucketCache>>,
    /// True once all that the volume held before is in the store.
    adopted: Arc<Mutex<bool>>,
}

#[derive(Default)]
struct BucketCache {
    looked: HashMap<ThreadPlace, Instant>,
    listed: Option<(Instant, Vec<StoredHistory>)>,
    /// Time of the last look at the marker, and the time at which it had changed.
    replaced: Option<(Instant, Option<SystemTime>)>,
}

/// Reason why a store can't be used.
#[derive(Debug, thiserror::Error)]
pub enum BucketError {
    #[error("no such store is known: begin the address with s3://, gs:// or az://")]
    Scheme,
    #[error("the store can't be used: {0}")]
    Store(#[from] Error),
}

/// Lets a store speak through the caller's client.
#[derive(Clone, Debug)]
struct ClientConnector(reqwest::Client);

impl HttpConnector for ClientConnector {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.0.clone()))
    }
}

impl HistoryBucket {
    /// The store at an address, such as `s3://bucket/folder`, with what `AWS_…`, `GOOGLE_…` or `AZURE_…`
    /// variables say.
    ///
    /// # Errors
    /// When the address or a variable can't be used.
    pub fn open(
        url: &Url,
        cache: HistoryVolume,
        http: reqwest::Client,
        handle: Handle,
    ) -> Result<Self, BucketError> {
        let (scheme, prefix) = find_scheme(url)?;
        let (address, http) = (url.to_string(), ClientConnector(http));
        let store: Arc<dyn ObjectStore> = match scheme {
            ObjectStoreScheme::AmazonS3 => {
                let built = AmazonS3Builder::from_env().with_url(address);
                Arc::new(built.with_http_connector(http).build()?)
            }
            ObjectStoreScheme::GoogleCloudStorage => {
                let built = GoogleCloudStorageBuilder::from_env().with_url(address);
                Arc::new(built.with_http_connector(http).build()?)
            }
            ObjectStoreScheme::MicrosoftAzure => {
                let built = MicrosoftAzureBuilder::from_env().with_url(address);
                Arc::new(built.with_http_connector(http).build()?)
            }
            _ => return Err(BucketError::Scheme),
        };
        Ok(Self::of(store, prefix, cache, handle))
    }

    fn of(store: Arc<dyn ObjectStore>, prefix: Path, cache: HistoryVolume, handle: Handle) -> Self {
        Self { store, prefix, cache, handle, known: Arc::default(), adopted: Arc::default() }
    }

    /// Returns the time at which anything written was last replaced, as far as it was noticed.
    pub fn replaced(&self) -> Option<SystemTime> {
        self.cache.replaced()
    }

    fn folder(&self, place: &ThreadPlace) -> Path {
        self.prefix.clone().join(place.namespace()).join(place.name())
    }

    fn piece(&self, place: &ThreadPlace, start: u64) -> Path {
        self.folder(place).join(format!("{start:020}.jsonl"))
    }

    /// Waits for an operation, on a thread that may wait.
    fn wait<T>(&self, what: impl Future<Output = object_store::Result<T>>) -> io::Result<T> {
        let bounded = async { tokio::time::timeout(PATIENCE, what).await };
        match self.handle.block_on(bounded) {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(error)) => Err(wrap_error(error)),
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        }
    }

    /// Marks for all who have read something that it may be another one, or gone.
    fn mark_replaced(&self) -> io::Result<()> {
        let marker = self.prefix.clone().join(REPLACED);
        let now = format!("{:?}", SystemTime::now());
        self.wait(self.store.put(&marker, PutPayload::from(now.into_bytes()))).map(drop)
    }

    /// Reads what was added since, unless that was just done.
    fn follow(&self, place: &ThreadPlace, most: Duration) -> io::Result<u64> {
        self.adopt()?;
        self.heed_replaced()?;
        let known = self.cache.length(place)?;
        if lock(&self.known).looked.get(place).is_some_and(|at| at.elapsed() < most) {
            return Ok(known);
        }
        let length = self.fetch(place, known)?;
        let mut own = lock(&self.known);
        if own.looked.len() > 4096 {
            own.looked.clear();
        }
        own.looked.insert(place.clone(), Instant::now());
        Ok(length)
    }

    fn fetch(&self, place: &ThreadPlace, known: u64) -> io::Result<u64> {
        let (folder, after) = (self.folder(place), self.folder(place).join(format!("{known:020}")));
        let listed = self.store.list_with_offset(Some(&folder), &after);
        let mut pieces: Vec<_> = self.wait(listed.try_collect())?;
        pieces.sort_by(|a, b| a.location.cmp(&b.location));
        let (mut length, mut cache) = (known, self.cache.clone());
        for piece in pieces {
            if self.piece(place, length) != piece.location {
                return Err(io::Error::other("a piece of the history is missing"));
            }
            let got = async { self.store.get(&piece.location).await?.bytes().await };
            let text = self.wait(got)?;
            if !cache.append(place, length, &text)? {
                // Somebody else of this process was quicker.
                return self.cache.length(place);
            }
            length += text.len() as u64;
        }
        Ok(length)
    }

    /// Empties the cache when any of it was replaced, so that it is read anew.
    fn heed_replaced(&self) -> io::Result<()> {
        let before = lock(&self.known).replaced;
        if before.is_some_and(|(at, _)| at.elapsed() < LISTED) {
            return Ok(());
        }
        let marker = self.prefix.clone().join(REPLACED);
        let head = async {
            match self.store.head(&marker).await {
                Ok(found) => Ok(Some(SystemTime::from(found.last_modified))),
                Err(Error::NotFound { .. }) => Ok(None),
                Err(error) => Err(error),
            }
        };
        let now = self.wait(head)?;
        let is_stale = match before {
            Some((_, known)) => known != now,
            // The cache of an earlier process may be older than the replacement.
            None => now > self.cache.replaced(),
        };
        if is_stale {
            for kept in self.cache.list()? {
                self.cache.clone().remove(&kept.place)?;
            }
            self.cache.mark_replaced()?;
            lock(&self.known).looked.clear();
        }
        lock(&self.known).replaced = Some((Instant::now(), now));
        Ok(())
    }

    fn put(&self, place: &ThreadPlace, start: u64, text: &[u8], mode: PutMode) -> io::Result<bool> {
        let at = self.piece(place, start);
        let payload = PutPayload::from(text.to_vec());
        let put = async {
            match self.store.put_opts(&at, payload, PutOptions::from(mode)).await {
                Ok(_) => Ok(true),
                Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) => Ok(false),
                Err(error) => Err(error),
            }
        };
        self.wait(put)
    }
}

impl HistoryStore for HistoryBucket {
    fn length(&self, place: &ThreadPlace) -> io::Result<u64> {
        self.follow(place, FRESH)
    }

    fn read(&self, place: &ThreadPlace, from: u64, most: u64) -> io::Result<Vec<u8>> {
        self.follow(place, FRESH)?;
        self.cache.read(place, from, most)
    }

    fn append(&mut self, place: &ThreadPlace, length: u64, lines: &[u8]) -> io::Result<bool> {
        self.adopt()?;
        if !self.put(place, length, lines, PutMode::Create)? {
            // Or it was this writer's own try, whose answer was lost: its lines are known then.
            self.fetch(place, self.cache.length(place)?)?;
            return Ok(false);
        }
        if self.cache.length(place)? < length {
            self.fetch(place, self.cache.length(place)?)?;
        } else {
            self.cache.append(place, length, lines)?;
        }
        Ok(true)
    }

    fn replace(&mut self, place: &ThreadPlace, at: u64, text: &[u8]) -> io::Result<()> {
        let folder = self.folder(place);
        let mut pieces: Vec<_> = self.wait(self.store.list(Some(&folder)).try_collect())?;
        pieces.sort_by(|a, b| a.location.cmp(&b.location));
        let mut start = 0;
        for piece in pieces {
            let end = start + piece.size;
            if at >= start && at + text.len() as u64 <= end {
                let got = async { self.store.get(&piece.location).await?.bytes().await };
                let mut whole = self.wait(got)?.to_vec();
                let from = usize::try_from(at - start).map_err(io::Error::other)?;
                whole[from..from + text.len()].copy_from_slice(text);
                self.put(place, start, &whole, PutMode::Overwrite)?;
                self.mark_replaced()?;
                return self.cache.replace(place, at, text);
            }
            start = end;
        }
        Err(io::Error::other("the history is shorter than it was"))
    }

    fn list(&self) -> io::Result<Vec<StoredHistory>> {
        if let Some((at, listed)) = &lock(&self.known).listed
            && at.elapsed() < LISTED
        {
            return Ok(listed.clone());
        }
        self.adopt()?;
        let pieces: Vec<_> = self.wait(self.store.list(Some(&self.prefix)).try_collect())?;
        let mut by_place: HashMap<ThreadPlace, StoredHistory> = HashMap::new();
        for piece in pieces {
            let Some(mut parts) = piece.location.prefix_match(&self.prefix) else { continue };
            let (namespace, name) = (parts.next(), parts.next());
            let place = namespace.zip(name).filter(|_| parts.next().is_some());
            let place = place.and_then(|(ns, name)| ThreadPlace::new(ns.as_ref(), name.as_ref()));
            let Some(place) = place else { continue };
            let changed = SystemTime::from(piece.last_modified);
            let fresh = StoredHistory { place: place.clone(), bytes: 0, changed };
            let kept = by_place.entry(place).or_insert(fresh);
            kept.bytes += piece.size;
            kept.changed = kept.changed.max(changed);
        }
        let listed: Vec<_> = by_place.into_values().collect();
        lock(&self.known).listed = Some((Instant::now(), listed.clone()));
        Ok(listed)
    }

    fn remove(&mut self, place: &ThreadPlace) -> io::Result<()> {
        let folder = self.folder(place);
        let pieces: Vec<_> = self.wait(self.store.list(Some(&folder)).try_collect())?;
        // The first one last: without it nothing else is read.
        for piece in pieces.into_iter().rev() {
            self.wait(self.store.delete(&piece.location))?;
        }
        self.mark_replaced()?;
        lock(&self.known).listed = None;
        if self.cache.length(place)? > 0 { self.cache.remove(place) } else { Ok(()) }
    }
}

/// Finds the kind of store that an address names, and the folder in it.
fn find_scheme(url: &Url) -> Result<(ObjectStoreScheme, Path), BucketError> {
    use ObjectStoreScheme::{AmazonS3, GoogleCloudStorage, MicrosoftAzure};
    match ObjectStoreScheme::parse(url) {
        Ok((scheme @ (AmazonS3 | GoogleCloudStorage | MicrosoftAzure), prefix)) => {
            Ok((scheme, prefix))
        }
        _ => Err(BucketError::Scheme),
    }
}

fn wrap_error(error: Error) -> io::Error {
    match error {
        Error::NotFound { .. } => io::Error::new(io::ErrorKind::NotFound, error),
        error => io::Error::other(error),
    }
}

fn lock<T>(shared: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use object_store::memory::InMemory;
    use tokio::runtime::Runtime;

    struct Gateway {
        bucket: HistoryBucket,
        _dir: tempfile::TempDir,
    }

    fn gateway(store: &Arc<InMemory>, runtime: &Runtime) -> Gateway {
        let dir = tempfile::tempdir().unwrap();
        let store: Arc<dyn ObjectStore> = Arc::clone(store) as _;
        let (cache, handle) = (HistoryVolume::new(dir.path()), runtime.handle().clone());
        Gateway { bucket: HistoryBucket::of(store, Path::from("kept"), cache, handle), _dir: dir }
    }

    /// Opens the store in another process on the same volume.
    fn again(before: &Gateway, store: &Arc<InMemory>, runtime: &Runtime) -> HistoryBucket {
        let store: Arc<dyn ObjectStore> = Arc::clone(store) as _;
        let (cache, handle) = (before.bucket.cache.clone(), runtime.handle().clone());
        HistoryBucket::of(store, Path::from("kept"), cache, handle)
    }

    fn forget_time(gateway: &Gateway) {
        let mut known = lock(&gateway.bucket.known);
        known.looked.clear();
        let long_ago = Instant::now().checked_sub(LISTED).unwrap();
        (known.listed, known.replaced) = (None, known.replaced.map(|(_, what)| (long_ago, what)));
    }

    #[test]
    fn two_gateways_add_each_line_once_and_read_the_same() {
        let (store, runtime) = (Arc::new(InMemory::new()), Runtime::new().unwrap());
        let place = ThreadPlace::new("team", "shop-1").unwrap();
        let mut gateways = [gateway(&store, &runtime), gateway(&store, &runtime)];
        let mut lengths = [0, 0];
        let (mut added, mut lost) = (String::new(), 0);
        for n in 0..300 {
            let who = usize::from(rand::random_range(0..2_u8));
            let line = format!("line {n} of {who}\n");
            loop {
                if gateways[who].bucket.append(&place, lengths[who], line.as_bytes()).unwrap() {
                    lengths[who] += line.len() as u64;
                    added += &line;
                    break;
                }
                // As the writer does: what is there has to be known first.
                lost += 1;
                forget_time(&gateways[who]);
                lengths[who] = gateways[who].bucket.length(&place).unwrap();
            }
        }
        assert!(lost > 20, "they met {lost} times");
        // One that begins with nothing at hand.
        for gateway in gateways.iter().chain([&gateway(&store, &runtime)]) {
            forget_time(gateway);
            let text = gateway.bucket.read(&place, 0, u64::MAX).unwrap();
            assert_eq!(String::from_utf8(text).unwrap(), added);
        }
    }

    #[test]
    fn what_is_replaced_is_replaced_for_all_and_what_is_removed_is_gone() {
        let (store, runtime) = (Arc::new(InMemory::new()), Runtime::new().unwrap());
        let [one, other] = ["shop-1", "docs-2"].map(|name| ThreadPlace::new("team", name).unwrap());
        let (mut here, there) = (gateway(&store, &runtime), gateway(&store, &runtime));
        for (place, text) in [(&one, "aaaa\n"), (&other, "cccc\n")] {
            assert!(here.bucket.append(place, 0, text.as_bytes()).unwrap());
        }
        assert!(here.bucket.append(&one, 5, b"bbbb\ndddd\n").unwrap());
        assert_eq!(there.bucket.length(&one).unwrap(), 15);
        let late = gateway(&store, &runtime);
        assert_eq!(late.bucket.length(&one).unwrap(), 15);
        here.bucket.replace(&one, 10, b"xxxx\n").unwrap();
        forget_time(&there);
        assert_eq!(there.bucket.read(&one, 0, 99).unwrap(), b"aaaa\nbbbb\nxxxx\n");
        // One that was away meanwhile, and had read it before.
        let late = Gateway { bucket: again(&late, &store, &runtime), ..late };
        assert_eq!(late.bucket.read(&one, 0, 99).unwrap(), b"aaaa\nbbbb\nxxxx\n");
        let mut kept = there.bucket.list().unwrap();
        kept.sort_by(|a, b| a.place.cmp(&b.place));
        let kept: Vec<_> = kept.iter().map(|kept| (kept.place.name(), kept.bytes)).collect();
        assert_eq!(kept, [("docs-2", 5), ("shop-1", 15)]);
        here.bucket.remove(&one).unwrap();
        forget_time(&here);
        assert_eq!(here.bucket.length(&one).unwrap(), 0);
        assert_eq!(here.bucket.list().unwrap().len(), 1);
    }

    #[test]
    fn what_a_volume_held_before_is_put_into_the_store_once() {
        let (store, runtime) = (Arc::new(InMemory::new()), Runtime::new().unwrap());
        let [one, other] = ["shop-1", "docs-2"].map(|name| ThreadPlace::new("team", name).unwrap());
        let before = gateway(&store, &runtime);
        let mut volume = before.bucket.cache.clone();
        let long = format!("{}\n", "x".repeat(6 * 1024 * 1024));
        for (place, text) in [(&one, "aaaa\nbbbb\nunfini"), (&other, long.as_str())] {
            assert!(volume.append(place, 0, text.as_bytes()).unwrap());
        }
        let mut here = again(&before, &store, &runtime);
        let listed = here.list().unwrap();
        assert_eq!(listed.iter().map(|kept| kept.bytes).sum::<u64>(), 10 + long.len() as u64);
        // Another replica, with a volume of its own, reads all and goes on behind it.
        let there = gateway(&store, &runtime);
        assert_eq!(there.bucket.read(&one, 0, 99).unwrap(), b"aaaa\nbbbb\n");
        assert_eq!(there.bucket.read(&other, 0, u64::MAX).unwrap(), long.as_bytes());
        assert!(here.append(&one, 10, b"cccc\n").unwrap());
        forget_time(&there);
        assert_eq!(there.bucket.read(&one, 0, 99).unwrap(), b"aaaa\nbbbb\ncccc\n");
        // A history removed since does not come back with a process that had read it.
        let mut there = there;
        there.bucket.remove(&other).unwrap();
        let late = again(&before, &store, &runtime);
        assert_eq!(late.length(&other).unwrap(), 0);
        assert_eq!(late.list().unwrap().len(), 1);
    }

    #[test]
    fn what_another_gateway_has_put_into_the_store_is_not_gone_on_with() {
        let (store, runtime) = (Arc::new(InMemory::new()), Runtime::new().unwrap());
        let place = ThreadPlace::new("team", "shop-1").unwrap();
        let mut volumes = ["aaaa\n", "bbbb\ncccc\n"].map(|text| {
            let before = gateway(&store, &runtime);
            assert!(before.bucket.cache.clone().append(&place, 0, text.as_bytes()).unwrap());
            before
        });
        for before in &mut volumes {
            let now = again(before, &store, &runtime);
            assert_eq!(now.read(&place, 0, 99).unwrap(), b"aaaa\n");
        }
        // One that was broken off goes on where it was.
        let broken = gateway(&store, &runtime);
        assert!(broken.bucket.cache.clone().append(&place, 0, b"aaaa\ndddd\n").unwrap());
        assert_eq!(again(&broken, &store, &runtime).read(&place, 0, 99).unwrap(), b"aaaa\ndddd\n");
        assert_eq!(gateway(&store, &runtime).bucket.read(&place, 0, 99).unwrap(), b"aaaa\ndddd\n");
    }

    #[test]
    fn an_address_names_the_store() {
        let folder = |address: &str| find_scheme(&address.parse().unwrap()).map(|(_, path)| path);
        assert_eq!(folder("s3://bucket/team/kept").unwrap(), Path::from("team/kept"));
        for known in ["gs://bucket", "az://container/x", "abfss://c@a.dfs.core.windows.net/x"] {
            assert!(folder(known).is_ok(), "{known}");
        }
        for unknown in ["ftp://bucket/folder", "memory:///", "file:///x"] {
            assert!(matches!(folder(unknown), Err(BucketError::Scheme)), "{unknown}");
        }
    }
}
