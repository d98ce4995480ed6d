//! Calls that are paid for, such as those that make images or search the web, by their keys: the same key is the same
//! call, which is paid for once, and answered as often as it is asked for.

use codebutler_crds::wire::ErrorCode;
use codebutler_gateway_core::api_error::ApiError;
use codebutler_gateway_core::caller::ProvenCaller;
use codebutler_gateway_core::thread_key::ThreadKey;
use codebutler_runtime::recent::RecentMap;
use kube::ResourceExt as _;
use parking_lot::Mutex;
use tokio::sync::watch;

/// Maximum number of calls that are remembered.
const REMEMBERED: usize = 512;
const MAX_KEY: usize = 64;

/// Identity of a paid call.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PaidCallKey {
    pub thread: ThreadKey,
    /// UID of the Thread: another one can have the same name later.
    pub uid: String,
    pub role: String,
    /// Idempotency key that the agent chose.
    pub key: String,
}

impl PaidCallKey {
    /// The key that the agent of this role has chosen.
    pub fn of(caller: &ProvenCaller, key: &str) -> Self {
        Self {
            thread: caller.key(),
            uid: caller.thread.uid().unwrap_or_default(),
            role: caller.role_name().to_owned(),
            key: key.to_owned(),
        }
    }
}

/// Outcome of a paid call.
pub type PaidEnd<T> = Result<T, (ErrorCode, String)>;

type EndReceiver<T> = watch::Receiver<Option<PaidEnd<T>>>;

/// Ends a call for everybody who waits for it.
pub struct NewPaidCall<T>(watch::Sender<Option<PaidEnd<T>>>);

/// Waits for the end of a call.
pub struct PaidCallWaiter<T>(EndReceiver<T>);

/// The key stands for another call.
#[derive(Debug, PartialEq, Eq)]
pub struct OtherPaidCall;

impl From<OtherPaidCall> for ApiError {
    fn from(_: OtherPaidCall) -> Self {
        let message = "this key stands for another call: a new call has a key of its own";
        Self::new(ErrorCode::InvalidRequest, message)
    }
}

/// Calls under way, and the latest ones.
pub struct PaidCalls<T>(Mutex<RecentMap<PaidCallKey, (String, EndReceiver<T>)>>);

impl<T> Default for PaidCalls<T> {
    fn default() -> Self {
        Self(Mutex::new(RecentMap::new(REMEMBERED)))
    }
}

impl<T: Clone> PaidCalls<T> {
    /// Joins the call of this key, or begins it.
    ///
    /// # Errors
    /// When the key stands for a call with another digest.
    pub fn join(
        &self,
        key: &PaidCallKey,
        digest: &str,
    ) -> Result<(PaidCallWaiter<T>, Option<NewPaidCall<T>>), OtherPaidCall> {
        let mut calls = self.0.lock();
        if let Some((known, end)) = calls.get(key) {
            return if known == digest {
                Ok((PaidCallWaiter(end.clone()), None))
            } else {
                Err(OtherPaidCall)
            };
        }
        let (sender, end) = watch::channel(None);
        calls.insert(key.clone(), (digest.to_owned(), end.clone()));
        Ok((PaidCallWaiter(end), Some(NewPaidCall(sender))))
    }
}

impl<T> NewPaidCall<T> {
    /// Ends the call with this outcome.
    pub fn finish(self, end: PaidEnd<T>) {
        self.0.send_replace(Some(end));
    }
}

impl<T: Clone> PaidCallWaiter<T> {
    /// The end of the call; none if its task was ended with the gateway.
    pub async fn end(mut self) -> Option<Result<T, ApiError>> {
        let end = self.0.wait_for(Option::is_some).await.ok()?.clone();
        end.map(|end| end.map_err(|(code, message)| ApiError::new(code, message)))
    }
}

/// An error that ends a call for good: nothing that the agent is to try again by itself.
pub fn as_final(error: ApiError) -> (ErrorCode, String) {
    let code = match error.code {
        code @ (ErrorCode::NeedsApproval
        | ErrorCode::Forbidden
        | ErrorCode::InvalidRequest
        | ErrorCode::ThreadClosed) => code,
        _ => ErrorCode::Upstream,
    };
    (code, error.message)
}

/// Refuses a key that is none.
///
/// # Errors
/// With the form that it has to have.
pub fn check_key(key: &str) -> Result<(), ApiError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_.:-".contains(c);
    if key.is_empty() || key.len() > MAX_KEY || !key.chars().all(plain) {
        let message = "`key` has 1 to 64 characters of A-Z, a-z, 0-9, `_`, `.`, `:` and `-`";
        return Err(ApiError::new(ErrorCode::InvalidRequest, message));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use codebutler_crds::wire::DrawnImages;

    use super::*;

    #[tokio::test]
    async fn a_call_is_begun_once_and_its_end_told_to_all() {
        let thread = ThreadKey { namespace: "team".into(), name: "shop-1".into() };
        let key =
            PaidCallKey { thread, uid: "u".into(), role: "artist".into(), key: "run.1.0".into() };
        let book = PaidCalls::<DrawnImages>::default();
        let (one, new) = book.join(&key, "a fox").unwrap();
        let (other, none) = book.join(&key, "a fox").unwrap();
        assert!(none.is_none());
        assert_eq!(book.join(&key, "a wolf").err(), Some(OtherPaidCall));
        new.unwrap().finish(Err((ErrorCode::Upstream, "refused".to_owned())));
        for waiter in [one, other, book.join(&key, "a fox").unwrap().0] {
            assert_eq!(waiter.end().await.unwrap().unwrap_err().message, "refused");
        }
        let next = PaidCallKey { key: "run.2.0".into(), ..key };
        let (waiter, new) = book.join(&next, "a fox").unwrap();
        drop(new.unwrap());
        assert!(waiter.end().await.is_none(), "its task is gone");
        assert!(book.join(&next, "a fox").unwrap().1.is_none(), "it may have been paid for");
    }
}
