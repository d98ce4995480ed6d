//! TokenReviews, remembered for a short while by the token's digest.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use codebutler_crds::names;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, TokenReviewStatus};
use kube::api::PostParams;
use kube::{Api, Client};
use sha2::{Digest as _, Sha256};
use tokio::sync::Semaphore;

use super::{Pod, Refused};

/// How long a review counts. A pod's end is noticed earlier, from the Thread.
const REMEMBER: Duration = Duration::from_mins(1);
/// Most reviews remembered; more tokens than any gateway's pods hold at a time.
const MOST: usize = 20_000;
/// Reviews under way at once, so that strangers can't flood the API server.
const AT_ONCE: usize = 16;
/// The key under which the API server tells the pod that a token is bound to.
const POD_UID: &str = "authentication.kubernetes.io/pod-uid";

/// Reviews tokens.
pub struct Reviews {
    client: Client,
    known: Mutex<HashMap<[u8; 32], (Instant, Pod)>>,
    permits: Semaphore,
}

impl Reviews {
    pub fn new(client: Client) -> Self {
        Self { client, known: Mutex::default(), permits: Semaphore::new(AT_ONCE) }
    }

    /// The pod that a token is bound to. Only good news is remembered.
    pub async fn pod(&self, token: &str) -> Result<Pod, Refused> {
        let digest: [u8; 32] = Sha256::digest(token.as_bytes()).into();
        if let Some(pod) = self.remembered(&digest) {
            return Ok(pod);
        }
        let _permit = self.permits.acquire().await.map_err(|_| Refused::ReviewFailed)?;
        if let Some(pod) = self.remembered(&digest) {
            return Ok(pod);
        }
        let asked = Instant::now();
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
        let pod = pod_of(answer.status.as_ref())?;
        self.remember(digest, asked, pod.clone());
        Ok(pod)
    }

    fn remembered(&self, digest: &[u8; 32]) -> Option<Pod> {
        let known = self.lock();
        let (asked, pod) = known.get(digest)?;
        (asked.elapsed() < REMEMBER).then(|| pod.clone())
    }

    fn remember(&self, digest: [u8; 32], asked: Instant, pod: Pod) {
        let mut known = self.lock();
        if known.len() >= MOST {
            known.retain(|_, (asked, _)| asked.elapsed() < REMEMBER);
        }
        if known.len() < MOST {
            known.insert(digest, (asked, pod));
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<[u8; 32], (Instant, Pod)>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
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
