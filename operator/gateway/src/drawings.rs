//! Calls that make images, by their keys: the same key is the same call, which is paid for once, and answered as often as it
//! is asked for.

use codebutler_crds::wire::{DrawnImages, ErrorCode};
use codebutler_gateway_core::api_error::ApiError;
use codebutler_gateway_core::thread_key::ThreadKey;
use codebutler_runtime::recent::RecentMap;
use parking_lot::Mutex;
use tokio::sync::watch;

/// Calls that are remembered.
const REMEMBERED: usize = 512;

/// Identity of a call.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DrawingKey {
    pub thread: ThreadKey,
    /// UID of the Thread: another one can have the same name later.
    pub uid: String,
    pub role: String,
    /// Chosen by the agent.
    pub key: String,
}

/// The end of a call.
pub type DrawingEnd = Result<DrawnImages, (ErrorCode, String)>;

type EndReceiver = watch::Receiver<Option<DrawingEnd>>;

/// Ends a call for everybody who waits for it.
pub struct NewDrawing(watch::Sender<Option<DrawingEnd>>);

/// Waits for the end of a call.
pub struct DrawingWaiter(EndReceiver);

/// The key stands for another call.
#[derive(Debug, PartialEq, Eq)]
pub struct OtherDrawing;

/// Calls under way, and the latest ones.
pub struct DrawingBook(Mutex<RecentMap<DrawingKey, (String, EndReceiver)>>);

impl Default for DrawingBook {
    fn default() -> Self {
        Self(Mutex::new(RecentMap::new(REMEMBERED)))
    }
}

impl DrawingBook {
    /// Joins the call of this key, or begins it.
    ///
    /// # Errors
    /// When the key stands for a call with another digest.
    pub fn join(
        &self,
        key: &DrawingKey,
        digest: &str,
    ) -> Result<(DrawingWaiter, Option<NewDrawing>), OtherDrawing> {
        let mut calls = self.0.lock();
        if let Some((known, end)) = calls.get(key) {
            return if known == digest {
                Ok((DrawingWaiter(end.clone()), None))
            } else {
                Err(OtherDrawing)
            };
        }
        let (sender, end) = watch::channel(None);
        calls.insert(key.clone(), (digest.to_owned(), end.clone()));
        Ok((DrawingWaiter(end), Some(NewDrawing(sender))))
    }
}

impl NewDrawing {
    /// Ends the call.
    pub fn finish(self, end: DrawingEnd) {
        self.0.send_replace(Some(end));
    }
}

impl DrawingWaiter {
    /// The end of the call; none if its task was ended with the gateway.
    pub async fn end(mut self) -> Option<Result<DrawnImages, ApiError>> {
        let end = self.0.wait_for(Option::is_some).await.ok()?.clone();
        end.map(|end| end.map_err(|(code, message)| ApiError::new(code, message)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_call_is_begun_once_and_its_end_told_to_all() {
        let thread = ThreadKey { namespace: "team".into(), name: "shop-1".into() };
        let key =
            DrawingKey { thread, uid: "u".into(), role: "artist".into(), key: "run.1.0".into() };
        let book = DrawingBook::default();
        let (one, new) = book.join(&key, "a fox").unwrap();
        let (other, none) = book.join(&key, "a fox").unwrap();
        assert!(none.is_none());
        assert_eq!(book.join(&key, "a wolf").err(), Some(OtherDrawing));
        new.unwrap().finish(Err((ErrorCode::Upstream, "refused".to_owned())));
        for waiter in [one, other, book.join(&key, "a fox").unwrap().0] {
            assert_eq!(waiter.end().await.unwrap().unwrap_err().message, "refused");
        }
        let next = DrawingKey { key: "run.2.0".into(), ..key };
        let (waiter, new) = book.join(&next, "a fox").unwrap();
        drop(new.unwrap());
        assert!(waiter.end().await.is_none(), "its task is gone");
        assert!(book.join(&next, "a fox").unwrap().1.is_none(), "it may have been paid for");
    }
}
