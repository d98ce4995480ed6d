//! What a volume held before there was a store.

use std::io;

use futures::TryStreamExt as _;
use object_store::{ObjectStore as _, PutMode};

use super::{Bucket, lock};
use crate::store::{Place, Store as _};

/// Bytes of one object at most, of what a volume held before.
const ADOPTED: u64 = 4 * 1024 * 1024;

impl Bucket {
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

    fn adopt_one(&self, place: &Place) -> io::Result<()> {
        let (length, mut start) = (self.cache.length(place)?, self.stored(place)?);
        while start < length {
            let mut text = self.cache.read(place, start, ADOPTED)?;
            // What a writer that died had not finished is no line.
            if start + text.len() as u64 == length {
                let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
                text.truncate(whole);
            }
            if text.is_empty() {
                break;
            }
            if !self.put(place, start, &text, PutMode::Create)? {
                // Somebody else is quicker: theirs is read.
                return self.cache.clone().remove(place);
            }
            start += text.len() as u64;
        }
        // What was there before, if it was more or other than this.
        if start > length { self.cache.clone().remove(place) } else { Ok(()) }
    }

    /// How much of a history the store has.
    fn stored(&self, place: &Place) -> io::Result<u64> {
        let listed = self.store.list(Some(&self.folder(place)));
        let mut pieces: Vec<_> = self.wait(listed.try_collect())?;
        pieces.sort_by(|a, b| a.location.cmp(&b.location));
        let mut length = 0;
        for piece in pieces {
            if self.piece(place, length) != piece.location {
                break;
            }
            length += piece.size;
        }
        Ok(length)
    }
}
