//! One of the stores of histories: files on a volume, or objects in an object store.

use std::io;
use std::time::SystemTime;

use crate::{HistoryBucket, HistoryStore, HistoryVolume, StoredHistory, ThreadPlace};

/// A store of histories. Cheap to clone.
#[derive(Clone)]
pub enum AnyStore {
    /// Files on a volume.
    Volume(HistoryVolume),
    /// Objects in an object store.
    Bucket(Box<HistoryBucket>),
}

impl AnyStore {
    /// Returns the time at which anything written was last replaced, as far as it was noticed.
    pub fn replaced(&self) -> Option<SystemTime> {
        match self {
            Self::Volume(volume) => volume.replaced(),
            Self::Bucket(bucket) => bucket.replaced(),
        }
    }

    fn store(&self) -> &dyn HistoryStore {
        match self {
            Self::Volume(volume) => volume,
            Self::Bucket(bucket) => &**bucket,
        }
    }

    fn store_mut(&mut self) -> &mut dyn HistoryStore {
        match self {
            Self::Volume(volume) => volume,
            Self::Bucket(bucket) => &mut **bucket,
        }
    }
}

impl HistoryStore for AnyStore {
    fn length(&self, place: &ThreadPlace) -> io::Result<u64> {
        self.store().length(place)
    }

    fn read(&self, place: &ThreadPlace, from: u64, most: u64) -> io::Result<Vec<u8>> {
        self.store().read(place, from, most)
    }

    fn append(&mut self, place: &ThreadPlace, length: u64, lines: &[u8]) -> io::Result<bool> {
        self.store_mut().append(place, length, lines)
    }

    fn replace(&mut self, place: &ThreadPlace, at: u64, text: &[u8]) -> io::Result<()> {
        self.store_mut().replace(place, at, text)
    }

    fn list(&self) -> io::Result<Vec<StoredHistory>> {
        self.store().list()
    }

    fn remove(&mut self, place: &ThreadPlace) -> io::Result<()> {
        self.store_mut().remove(place)
    }
}
