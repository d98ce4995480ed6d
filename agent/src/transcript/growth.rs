//! Signal by which transcripts report that they have grown. Whoever sends them waits for it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

/// Handle by which transcripts report that they have grown. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct TranscriptGrowth(Arc<SharedGrowth>);

#[derive(Debug, Default)]
struct SharedGrowth {
    /// Durable length of each transcript of which not everything was sent.
    grown: Mutex<BTreeMap<PathBuf, u64>>,
    news: Notify,
}

impl TranscriptGrowth {
    /// Reports the length of a transcript.
    pub fn tell(&self, path: &Path, length: u64) {
        self.0.grown.lock().insert(path.to_owned(), length);
        self.wake();
    }

    /// Waits until a transcript has grown, or until it is woken.
    pub(crate) async fn grown(&self) {
        self.0.news.notified().await;
    }

    /// Ends the wait of [`Self::grown`], the next one if there is none now.
    pub(crate) fn wake(&self) {
        self.0.news.notify_one();
    }

    pub(crate) fn unsent(&self) -> BTreeMap<PathBuf, u64> {
        self.0.grown.lock().clone()
    }

    /// Notes that a transcript was sent up to this length. If it has grown since, the rest is still to be sent.
    pub(crate) fn note_sent(&self, path: &Path, length: u64) {
        let mut grown = self.0.grown.lock();
        if grown.get(path) == Some(&length) {
            grown.remove(path);
        }
    }
}
