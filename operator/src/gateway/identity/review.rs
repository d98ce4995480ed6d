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

use super::claim::Claim;
use super::{Pod, Refused};
use crate::gateway::threads::keyed::Keyed;

/// How long a review counts. A pod's end is noticed earlier, from the Thread.
const REMEMBER: Duration = Duration::from_mins(1);
/// Most reviews remembered; more tokens than any gateway's pods hold at a time.
const MOST: usize = 20_000;
/// How long a refusal counts: a pod can be known here before its token is there.
const REFUSED: Duration = Duration::from_secs(10);
/// How long a review that failed is not repeated: those that waited for it would wait as long again.
const FAILED: Duration = Duration::from_secs(1);
/// Tokens of one pod under review at once: who knows a pod's name keeps nobody else waiting.
const PER_POD: usize = 2;
/// Reviews under way at once, so that strangers can't flood the API server.
const AT_ONCE: usize = 16;
/// The key under which the API server tells the pod that a token is bound to.
const POD_UID: &str = "authentication.kubernetes.io/pod-uid";

type Digest256 = [u8; 32];
/// When it was asked for, and what was found.
type Known = (Instant, Result<Pod, Refused>);

pub struct Reviews {
    client: Client,
    known: Mutex<HashMap<Digest256, Known>>,
    /// One review for a token, however many calls show it.
    turns: Keyed<Digest256>,
    asking: Mutex<HashMap<Claim, usize>>,
    permits: Semaphore,
}

impl Reviews {
    pub fn new(client: Client) -> Self {
        Self {
            client,
            known: Mutex::default(),
            turns: Keyed::default(),
            asking: Mutex::default(),
            permits: Semaphore::new(AT_ONCE),
        }
    }

    /// The pod that a token is bound to. `claim` is what it says itself.
    pub async fn pod(&self, token: &str, claim: Claim) -> Result<Pod, Refused> {
        let digest: Digest256 = Sha256::digest(token.as_bytes()).into();
        if let Some(known) = self.remembered(&digest) {
            return known;
        }
        let _turn = self.turns.lock(&digest).await;
        if let Some(known) = self.remembered(&digest) {
            return known;
        }
        let _place = self.place(claim)?;
        let _permit = self.permits.acquire().await.map_err(|_| Refused::ReviewFailed)?;
        let asked = Instant::now();
        let found = self.ask(token).await;
        // What failed counts from its end.
        let asked = if found == Err(Refused::ReviewFailed) { Instant::now() } else { asked };
        self.remember(digest, asked, found.clone());
        found
    }

    async fn ask(&self, token: &str) -> Result<Pod, Refused> {
        let spec = TokenReviewSpec {
            audiences: Some(vec![names::TOKEN_AUDIENCE.to_owned()]),
            token: Some(token.to_owned()),
        };
        let review = TokenReview { spec, ..TokenReview::default() };
        let answer = Api::<TokenReview>::all(self.client.clone())
            .create(&PostParams::default(), &review)
            .await
            .map_err(|error| {
                tracing::warn!(%error, "a token can't be reviewed");
                Refused::ReviewFailed
            })?;
        pod_of(answer.status.as_ref())
    }

    /// One of the places that reviews for a pod have.
    fn place(&self, claim: Claim) -> Result<Place<'_>, Refused> {
        let mut asking = self.asking.lock();
        let count = asking.entry(claim.clone()).or_default();
        if *count >= PER_POD {
            return Err(Refused::ReviewFailed);
        }
        *count += 1;
        Ok(Place { reviews: self, claim })
    }

    fn remembered(&self, digest: &Digest256) -> Option<Result<Pod, Refused>> {
        let known = self.lock();
        known.get(digest).filter(|known| counts(known)).map(|(_, found)| found.clone())
    }

    fn remember(&self, digest: Digest256, asked: Instant, found: Result<Pod, Refused>) {
        let mut known = self.lock();
        if known.len() >= MOST {
            known.retain(|_, known| counts(known));
        }
        if known.len() < MOST {
            known.insert(digest, (asked, found));
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Digest256, Known>> {
        self.known.lock()
    }
}

fn counts((asked, found): &Known) -> bool {
    let counting = match found {
        Ok(_) => REMEMBER,
        Err(Refused::ReviewFailed) => FAILED,
        Err(_) => REFUSED,
    };
    asked.elapsed() < counting
}

struct Place<'a> {
    reviews: &'a Reviews,
    claim: Claim,
}

impl Drop for Place<'_> {
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
fn pod_of(status: Option<&TokenReviewStatus>) -> Result<Pod, Refused> {
    let status = status.filter(|s| s.authenticated == Some(true)).ok_or(Refused::Invalid)?;
    // A server that knows no audiences answers without any: that proves nothing.
    let audiences = status.audiences.as_deref().unwrap_or_default();
    if !audiences.iter().any(|audience| audience == names::TOKEN_AUDIENCE) {
        return Err(Refused::Invalid);
    }
    let user = status.user.as_ref().ok_or(Refused::Invalid)?;
    let (namespace, service_account) = user
        .username
        .as_deref()
        .and_then(|name| name.strip_prefix("system:serviceaccount:"))
        .and_then(|name| name.split_once(':'))
        .filter(|(namespace, account)| !namespace.is_empty() && !account.is_empty())
        .ok_or(Refused::NoServiceAccount)?;
    let uids = user.extra.as_ref().and_then(|extra| extra.get(POD_UID));
    match uids.map(Vec::as_slice) {
        Some([uid]) if !uid.is_empty() => Ok(Pod {
            namespace: namespace.to_owned(),
            service_account: service_account.to_owned(),
            uid: uid.clone(),
        }),
        _ => Err(Refused::Unbound),
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

    fn with(change: impl FnOnce(&mut TokenReviewStatus)) -> Result<Pod, Refused> {
        let mut status = status();
        change(&mut status);
        pod_of(Some(&status))
    }

    #[test]
    fn only_a_bound_token_of_this_audience_is_a_pod() {
        let pod = with(|_| {}).unwrap();
        assert_eq!((&*pod.namespace, &*pod.uid), ("team", "u-1"));
        assert_eq!(pod.service_account, "codebutler-shop");
        assert_eq!(pod_of(None), Err(Refused::Invalid));
        assert_eq!(with(|s| s.authenticated = None), Err(Refused::Invalid));
        assert_eq!(with(|s| s.audiences = None), Err(Refused::Invalid));
        assert_eq!(with(|s| s.audiences = Some(vec!["api".into()])), Err(Refused::Invalid));
        assert_eq!(with(|s| s.user = None), Err(Refused::Invalid));
        let user = |name: &str| with(|s| s.user.as_mut().unwrap().username = Some(name.to_owned()));
        assert_eq!(user("jane"), Err(Refused::NoServiceAccount));
        assert_eq!(user("system:serviceaccount::x"), Err(Refused::NoServiceAccount));
        let extra = |uids: &[&str]| {
            let uids = uids.iter().map(|uid| (*uid).to_owned()).collect();
            with(|s| s.user.as_mut().unwrap().extra = Some([(POD_UID.to_owned(), uids)].into()))
        };
        assert_eq!(extra(&[]), Err(Refused::Unbound));
        assert_eq!(extra(&[""]), Err(Refused::Unbound));
        assert_eq!(extra(&["a", "b"]), Err(Refused::Unbound));
        assert_eq!(with(|s| s.user.as_mut().unwrap().extra = None), Err(Refused::Unbound));
    }
}
