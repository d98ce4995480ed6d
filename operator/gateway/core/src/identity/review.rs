//! TokenReviews, good and bad ones, remembered for a short while by the token's digest.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use codebutler_crds::names;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, TokenReviewStatus};
use kube::api::PostParams;
use kube::{Api, Client};
use parking_lot::{Mutex, MutexGuard};
use sha2::{Digest as _, Sha256};
use tokio::sync::Semaphore;

use super::claim::TokenClaim;
use super::{CallingPod, RefusedToken};
use crate::threads::keyed::KeyedLocks;

/// Lifetime of a cached review. A pod's end is noticed earlier, from the Thread.
const REMEMBER: Duration = Duration::from_mins(1);
/// Most reviews remembered; more tokens than any gateway's pods hold at a time.
const MOST: usize = 20_000;
/// Lifetime of a cached refusal: a pod can be known here before its token is there.
const REFUSED: Duration = Duration::from_secs(10);
/// Time for which a failed review is not repeated: calls that waited for it would wait as long
/// again.
const FAILED: Duration = Duration::from_secs(1);
/// Reviews of one pod's tokens at once: whoever knows a pod's name keeps nobody else waiting.
const PER_POD: usize = 2;
/// Reviews under way at once, so that strangers can't flood the API server.
const AT_ONCE: usize = 16;
/// The key under which the API server tells the pod that a token is bound to.
const POD_UID: &str = "authentication.kubernetes.io/pod-uid";

type Digest256 = [u8; 32];
/// Time of the review's request, and its result.
type KnownToken = (Instant, Result<CallingPod, RefusedToken>);

pub(super) struct TokenReviewCache {
    client: Client,
    known: Mutex<HashMap<Digest256, KnownToken>>,
    /// Lock for one review of a token, however many calls show it.
    turns: KeyedLocks<Digest256>,
    asking: Mutex<HashMap<TokenClaim, usize>>,
    permits: Semaphore,
}

impl TokenReviewCache {
    pub(super) fn new(client: Client) -> Self {
        Self {
            client,
            known: Mutex::default(),
            turns: KeyedLocks::default(),
            asking: Mutex::default(),
            permits: Semaphore::new(AT_ONCE),
        }
    }

    /// The pod that a token is bound to. `claim` is what it says itself.
    pub(super) async fn pod(
        &self,
        token: &str,
        claim: TokenClaim,
    ) -> Result<CallingPod, RefusedToken> {
        let digest: Digest256 = Sha256::digest(token.as_bytes()).into();
        if let Some(known) = self.remembered(&digest) {
            return known;
        }
        let _turn = self.turns.lock(&digest).await;
        if let Some(known) = self.remembered(&digest) {
            return known;
        }
        let _place = self.place(claim)?;
        let _permit = self.permits.acquire().await.map_err(|_| RefusedToken::ReviewFailed)?;
        let asked = Instant::now();
        let found = self.ask(token).await;
        // A failure counts from the end of its review.
        let asked = if found == Err(RefusedToken::ReviewFailed) { Instant::now() } else { asked };
        self.remember(digest, asked, found.clone());
        found
    }

    async fn ask(&self, token: &str) -> Result<CallingPod, RefusedToken> {
        let spec = TokenReviewSpec {
            audiences: Some(vec![names::TOKEN_AUDIENCE.to_owned()]),
            token: Some(token.to_owned()),
        };
        let review = TokenReview { spec, ..TokenReview::default() };
        let answer = Api::<TokenReview>::all(self.client.clone())
            .create(&PostParams::default(), &review)
            .await
            .map_err(|error| {
                tracing::warn!(%error, "token_review_failed");
                RefusedToken::ReviewFailed
            })?;
        pod_of(answer.status.as_ref())
    }

    /// Takes one of the places that reviews for a pod have.
    fn place(&self, claim: TokenClaim) -> Result<ReviewPlace<'_>, RefusedToken> {
        let mut asking = self.asking.lock();
        let count = asking.entry(claim.clone()).or_default();
        if *count >= PER_POD {
            return Err(RefusedToken::ReviewFailed);
        }
        *count += 1;
        Ok(ReviewPlace { reviews: self, claim })
    }

    fn remembered(&self, digest: &Digest256) -> Option<Result<CallingPod, RefusedToken>> {
        let known = self.lock();
        known.get(digest).filter(|known| still_counts(known)).map(|(_, found)| found.clone())
    }

    fn remember(&self, digest: Digest256, asked: Instant, found: Result<CallingPod, RefusedToken>) {
        let mut known = self.lock();
        if known.len() >= MOST {
            known.retain(|_, known| still_counts(known));
        }
        if known.len() < MOST {
            known.insert(digest, (asked, found));
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Digest256, KnownToken>> {
        self.known.lock()
    }
}

fn still_counts((asked, found): &KnownToken) -> bool {
    let counting = match found {
        Ok(_) => REMEMBER,
        Err(RefusedToken::ReviewFailed) => FAILED,
        Err(_) => REFUSED,
    };
    asked.elapsed() < counting
}

struct ReviewPlace<'a> {
    reviews: &'a TokenReviewCache,
    claim: TokenClaim,
}

impl Drop for ReviewPlace<'_> {
    fn drop(&mut self) {
        let mut asking = self.reviews.asking.lock();
        if let Some(count) = asking.get_mut(&self.claim) {
            *count -= 1;
            if *count == 0 {
                asking.remove(&self.claim);
            }
        }
    }
}

/// Reads a review strictly: whatever is missing refuses.
fn pod_of(status: Option<&TokenReviewStatus>) -> Result<CallingPod, RefusedToken> {
    let status = status.filter(|s| s.authenticated == Some(true)).ok_or(RefusedToken::Invalid)?;
    // A server that knows no audiences answers without any: that proves nothing.
    let audiences = status.audiences.as_deref().unwrap_or_default();
    if !audiences.iter().any(|audience| audience == names::TOKEN_AUDIENCE) {
        return Err(RefusedToken::Invalid);
    }
    let user = status.user.as_ref().ok_or(RefusedToken::Invalid)?;
    let (namespace, service_account) = user
        .username
        .as_deref()
        .and_then(|name| name.strip_prefix("system:serviceaccount:"))
        .and_then(|name| name.split_once(':'))
        .filter(|(namespace, account)| !namespace.is_empty() && !account.is_empty())
        .ok_or(RefusedToken::NoServiceAccount)?;
    let uids = user.extra.as_ref().and_then(|extra| extra.get(POD_UID));
    match uids.map(Vec::as_slice) {
        Some([uid]) if !uid.is_empty() => Ok(CallingPod {
            namespace: namespace.to_owned(),
            service_account: service_account.to_owned(),
            uid: uid.clone(),
        }),
        _ => Err(RefusedToken::Unbound),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::authentication::v1::UserInfo;

    fn status() -> TokenReviewStatus {
        TokenReviewStatus {
            authenticated: Some(true),
            audiences: Some(vec![names::TOKEN_AUDIENCE.into()]),
            user: Some(UserInfo {
                username: Some("system:serviceaccount:team:codebutler-shop".into()),
                extra: Some([(POD_UID.to_owned(), vec!["u-1".to_owned()])].into()),
                ..UserInfo::default()
            }),
            error: None,
        }
    }

    fn with(change: impl FnOnce(&mut TokenReviewStatus)) -> Result<CallingPod, RefusedToken> {
        let mut status = status();
        change(&mut status);
        pod_of(Some(&status))
    }

    #[test]
    fn only_a_bound_token_of_this_audience_is_a_pod() {
        let pod = with(|_| {}).unwrap();
        assert_eq!((&*pod.namespace, &*pod.uid), ("team", "u-1"));
        assert_eq!(pod.service_account, "codebutler-shop");
        assert_eq!(pod_of(None), Err(RefusedToken::Invalid));
        assert_eq!(with(|s| s.authenticated = None), Err(RefusedToken::Invalid));
        assert_eq!(with(|s| s.audiences = None), Err(RefusedToken::Invalid));
        assert_eq!(with(|s| s.audiences = Some(vec!["api".into()])), Err(RefusedToken::Invalid));
        assert_eq!(with(|s| s.user = None), Err(RefusedToken::Invalid));
        let user = |name: &str| with(|s| s.user.as_mut().unwrap().username = Some(name.to_owned()));
        assert_eq!(user("jane"), Err(RefusedToken::NoServiceAccount));
        assert_eq!(user("system:serviceaccount::x"), Err(RefusedToken::NoServiceAccount));
        let extra = |uids: &[&str]| {
            let uids = uids.iter().map(|uid| (*uid).to_owned()).collect();
            with(|s| s.user.as_mut().unwrap().extra = Some([(POD_UID.to_owned(), uids)].into()))
        };
        assert_eq!(extra(&[]), Err(RefusedToken::Unbound));
        assert_eq!(extra(&[""]), Err(RefusedToken::Unbound));
        assert_eq!(extra(&["a", "b"]), Err(RefusedToken::Unbound));
        assert_eq!(with(|s| s.user.as_mut().unwrap().extra = None), Err(RefusedToken::Unbound));
    }
}
