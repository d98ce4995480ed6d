//! Calls by their keys: the same key is the same call, which is carried out once and answered as often as it is asked
//! for. A call goes on as long as somebody waits for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use codebutler_crds::wire::McpResult;
use codebutler_gateway_core::api_error::ApiError;
use codebutler_gateway_core::thread_key::ThreadKey;
use codebutler_runtime::recent::RecentMap;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Calls that are remembered.
const REMEMBERED: usize = 512;
/// Bytes of a result that is remembered.
const KEPT: usize = 64 << 10;

/// Key that makes a call idempotent.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CallKey {
    /// Thread of the caller.
    pub thread: ThreadKey,
    /// UID of the Thread: another one can have the same name later.
    pub uid: String,
    /// Role of the caller.
    pub role: String,
    /// Idempotency key that the agent chose.
    pub key: String,
}

/// Outcome of a call.
#[derive(Debug)]
pub enum CallEnd {
    /// The call was not sent: the same call may be tried again.
    Refused(ApiError),
    /// The call was sent, and can't be sent again.
    Sent(Result<McpResult, ApiError>),
}

impl CallEnd {
    fn outcome(&self) -> Result<McpResult, ApiError> {
        let copy = |error: &ApiError| ApiError {
            code: error.code,
            message: error.message.clone(),
            retry_after: error.retry_after,
        };
        match self {
            Self::Refused(error) | Self::Sent(Err(error)) => Err(copy(error)),
            Self::Sent(Ok(result)) => Ok(result.clone()),
        }
    }

    fn is_small(&self) -> bool {
        let Self::Sent(Ok(result)) = self else { return true };
        let pictures: usize = result.pictures.iter().map(|picture| picture.data.len()).sum();
        let whole = result.whole.as_ref().map_or(0, String::len);
        result.text.len() + whole + pictures <= KEPT
    }
}

type EndReceiver = watch::Receiver<Option<Arc<CallEnd>>>;

struct CallEntry {
    digest: String,
    end: EndReceiver,
    cancel: CancellationToken,
    waiting: Arc<AtomicUsize>,
}

/// A call that this request has to carry out.
pub struct NewCall {
    sender: watch::Sender<Option<Arc<CallEnd>>>,
    /// Cancelled when nobody waits for the call any more.
    pub cancel: CancellationToken,
}

/// A request that waits for the end of a call. The call is cancelled when the last one is dropped.
pub struct CallWaiter {
    end: EndReceiver,
    cancel: CancellationToken,
    waiting: Arc<AtomicUsize>,
}

/// A key that stands for a call already.
#[derive(Debug, PartialEq, Eq)]
pub struct OtherCall;

/// Calls under way, and the latest results.
pub struct CallBook(Mutex<RecentMap<CallKey, CallEntry>>);

impl Default for CallBook {
    fn default() -> Self {
        Self(Mutex::new(RecentMap::new(REMEMBERED)))
    }
}

impl CallBook {
    /// Joins the call of this key, or begins it.
    ///
    /// # Errors
    /// When the key stands for a call with another digest.
    pub fn join(
        &self,
        key: &CallKey,
        digest: &str,
    ) -> Result<(CallWaiter, Option<NewCall>), OtherCall> {
        let mut calls = self.0.lock();
        if let Some(known) = calls.get(key) {
            if known.digest != digest {
                return Err(OtherCall);
            }
            let refused =
                known.end.borrow().as_deref().map(|end| matches!(end, CallEnd::Refused(_)));
            // A call that was not sent may be tried again, and so may one whose task ended without an outcome.
            let is_lost = refused.is_none() && known.end.has_changed().is_err();
            if refused != Some(true) && !is_lost {
                known.waiting.fetch_add(1, Ordering::SeqCst);
                return Ok((CallWaiter::of(known), None));
            }
        }
        let (sender, end) = watch::channel(None);
        let (cancel, waiting) = (CancellationToken::new(), Arc::new(AtomicUsize::new(1)));
        let entry = CallEntry { digest: digest.to_owned(), end, cancel: cancel.clone(), waiting };
        let waiter = CallWaiter::of(&entry);
        calls.insert(key.clone(), entry);
        Ok((waiter, Some(NewCall { sender, cancel })))
    }

    /// Ends a call. A large result is handed to those that wait, and not kept.
    pub fn finish(&self, key: &CallKey, call: &NewCall, end: CallEnd) {
        let is_kept = end.is_small();
        call.sender.send_replace(Some(Arc::new(end)));
        if !is_kept {
            self.0.lock().remove(key);
        }
    }
}

impl CallWaiter {
    fn of(entry: &CallEntry) -> Self {
        let (end, cancel) = (entry.end.clone(), entry.cancel.clone());
        Self { end, cancel, waiting: Arc::clone(&entry.waiting) }
    }

    /// The end of the call; none if its task was ended with the gateway.
    pub async fn end(mut self) -> Option<Result<McpResult, ApiError>> {
        let end = self.end.wait_for(Option::is_some).await.ok()?.clone();
        end.map(|end| end.outcome())
    }
}

impl Drop for CallWaiter {
    fn drop(&mut self) {
        if self.waiting.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.cancel.cancel();
        }
    }
}

#[cfg(test)]
mod tests {
    use codebutler_crds::wire::ErrorCode;

    use super::*;

    fn key() -> CallKey {
        let thread = ThreadKey { namespace: "team".into(), name: "shop-1".into() };
        CallKey { thread, uid: "u".into(), role: "coder".into(), key: "k".into() }
    }

    fn sent(text: &str) -> CallEnd {
        CallEnd::Sent(Ok(McpResult { text: text.to_owned(), ..McpResult::default() }))
    }

    #[tokio::test]
    async fn a_call_is_carried_out_once_and_answered_to_all() {
        let book = CallBook::default();
        let (one, call) = book.join(&key(), "d").unwrap();
        let (other, none) = book.join(&key(), "d").unwrap();
        assert!(none.is_none());
        assert_eq!(book.join(&key(), "other").err(), Some(OtherCall));
        book.finish(&key(), &call.unwrap(), sent("done"));
        for waiter in [one, other, book.join(&key(), "d").unwrap().0] {
            assert_eq!(waiter.end().await.unwrap().unwrap().text, "done");
        }
    }

    #[tokio::test]
    async fn a_call_that_was_not_sent_is_tried_again() {
        let book = CallBook::default();
        let (waiter, call) = book.join(&key(), "d").unwrap();
        let refusal = ApiError::new(ErrorCode::NeedsApproval, "ask");
        book.finish(&key(), &call.unwrap(), CallEnd::Refused(refusal));
        assert_eq!(waiter.end().await.unwrap().unwrap_err().message, "ask");
        let (waiter, call) = book.join(&key(), "d").unwrap();
        drop(call.unwrap());
        assert!(waiter.end().await.is_none(), "its task is gone");
        assert!(book.join(&key(), "d").unwrap().1.is_some());
    }

    #[tokio::test]
    async fn a_call_that_nobody_waits_for_is_cancelled() {
        let book = CallBook::default();
        let (one, call) = book.join(&key(), "d").unwrap();
        let (other, _) = book.join(&key(), "d").unwrap();
        let call = call.unwrap();
        drop(one);
        assert!(!call.cancel.is_cancelled());
        drop(other);
        assert!(call.cancel.is_cancelled());
    }

    #[tokio::test]
    async fn a_large_result_is_answered_and_not_kept() {
        let book = CallBook::default();
        let (waiter, call) = book.join(&key(), "d").unwrap();
        book.finish(&key(), &call.unwrap(), sent(&"x".repeat(KEPT + 1)));
        assert_eq!(waiter.end().await.unwrap().unwrap().text.len(), KEPT + 1);
        assert!(book.join(&key(), "d").unwrap().1.is_some());
    }
}
