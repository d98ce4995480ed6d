//! Adopts the histories that a volume held before there was a store.

use std::io;

use futures::TryStreamExt as _;
use object_store::{ObjectStoreExt as _, PutMode};

use super::{HistoryBucket, lock};
use crate::store::{HistoryStore as _, ThreadPlace};

/// Most bytes of one object with what a volume held before.
const ADOPTED: u64 = 4 * 1024 * 1024;

impl HistoryBucket {
    /// Puts what the volume held before there was a store into it, once. Where the store has a history already, that
    /// one counts.
    pub(super) fn adopt(&self) -> io::Result<()> {
        let mut adopted = lock(&self.adopted);
        if *adopted {
            return Ok(());
        }
        if !self.cache.is_cache() {
            for kept in self.cache.list()? {
                self.adopt_one(&kept.place)?;
            }
            self.cache.mark_cache()?;
        }
        *adopted = true;
        Ok(())
    }

    fn adopt_one(&self, place: &ThreadPlace) -> io::Result<()> {
        let length = self.cache.length(place)?;
        let stored = self.stored(place)?;
        let mut start = stored.len() as u64;
        // Of an adoption that was broken off, or another gateway's: that one counts.
        if start > length || self.cache.read(place, 0, start)? != stored {
            return self.give_up(place);
        }
        while start < length {
            let mut text = self.cache.read(place, start, ADOPTED)?;
            // The unfinished end that a dead writer left is no line.
            if start + text.len() as u64 == length {
                let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
                text.truncate(whole);
            }
            if text.is_empty() {
                break;
            }
            if !self.put(place, start, &text, PutMode::Create)? {
                return self.give_up(place);
            }
            start += text.len() as u64;
        }
        Ok(())
    }

    /// The store has another history of that thread, which is read from now on.
    fn give_up(&self, place: &ThreadPlace) -> io::Result<()> {
        tracing::warn!(%place, "local_history_discarded");
        self.cache.clone().remove(place)
    }

    /// Reads the store's part of a history, without a gap.
    fn stored(&self, place: &ThreadPlace) -> io::Result<Vec<u8>> {
        let listed = self.store.list(Some(&self.folder(place)));
        let mut pieces: Vec<_> = self.wait(listed.try_collect())?;
        pieces.sort_by(|a, b| a.location.cmp(&b.location));
        let mut text = Vec::new();
        for piece in pieces {
            if self.piece(place, text.len() as u64) != piece.location {
                break;
            }
            let got = async { self.store.get(&piece.location).await?.bytes().await };
            text.extend_from_slice(&self.wait(got)?);
        }
        Ok(text)
    }
}
