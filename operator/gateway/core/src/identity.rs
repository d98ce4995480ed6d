//! Identifies callers. A bearer token proves a pod (TokenReview); the pod's UID in a Thread's
//! status makes it a role of that Thread, or one of its servers. Names and labels of pods prove
//! nothing and are not read.

mod claim;
mod index;
mod review;

use std::sync::Arc;
use std::time::Duration;

use codebutler_crds::thread::ThreadState;
use codebutler_crds::wire::{ErrorCode, SeatAnswer};
use codebutler_crds::{Repo, names};
use codebutler_runtime::server_spec::fingerprint_server;
use codebutler_runtime::shards::GatewayShard;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use kube::ResourceExt as _;

pub use self::index::PodIndex;
use self::index::PodPart;
use self::review::TokenReviewCache;
use crate::api_error::ApiError;
use crate::caller::{ProvenCaller, ProvenSeat, ProvenServer, find_seat_set_up};
use crate::context::GatewayContext;
use crate::metrics::GatewayMetrics;

/// A pod, proven by its token.
#[derive(Clone, Debug, PartialEq, Eq)]
struct CallingPod {
    namespace: String,
    service_account: String,
    uid: String,
}

/// Refusal of a caller. The texts are for the agent's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
enum RefusedToken {
    #[error("send the pod's token as `Authorization: Bearer …`")]
    NoToken,
    #[error("the token is not valid here: it is expired, forged, or made for another audience")]
    Invalid,
    #[error("the token belongs to no ServiceAccount")]
    NoServiceAccount,
    #[error("the token is not bound to a pod")]
    Unbound,
    #[error("no role of a Thread has this pod, or not yet")]
    NotRegistered,
    #[error("the token's ServiceAccount is not the one of this Thread's Repo")]
    OtherServiceAccount,
    #[error("the Thread's Repo does not exist, or no longer names this role")]
    NoRole,
    #[error("the pod of a server may only connect its server and use the server's own egress")]
    Server,
    #[error("this is for pods of servers only")]
    NotServer,
    #[error(
        "no Thread has taken this seat yet: it may ask whether one has, read the repository's branches, and set its \
         clone up"
    )]
    Seat,
    #[error("this is for seats that no Thread has taken")]
    NotSeat,
    #[error("the Repo no longer names this server, or names it otherwise")]
    NoServer,
    #[error("another gateway leads for this Repo: its pods are made anew with that one's address")]
    OtherShard,
    #[error("the token can't be reviewed right now: try again")]
    ReviewFailed,
}

impl RefusedToken {
    const fn reason(self) -> &'static str {
        match self {
            Self::NoToken => "no_token",
            Self::Invalid => "invalid_token",
            Self::NoServiceAccount => "no_service_account",
            Self::Unbound => "unbound_token",
            Self::NotRegistered => "not_registered",
            Self::OtherServiceAccount => "other_service_account",
            Self::NoRole => "no_role",
            Self::Server => "server_pod",
            Self::NotServer => "not_server",
            Self::Seat => "waiting_seat",
            Self::NotSeat => "not_seat",
            Self::NoServer => "no_server",
            Self::OtherShard => "other_shard",
            Self::ReviewFailed => "review_failed",
        }
    }

    const fn code(self) -> ErrorCode {
        match self {
            Self::NoToken | Self::Invalid | Self::NoServiceAccount | Self::Unbound => {
                ErrorCode::Unauthenticated
            }
            // A seat that is being taken: a caller that asks again is told.
            Self::NotRegistered | Self::NotSeat => ErrorCode::NotRegistered,
            Self::OtherServiceAccount
            | Self::NoRole
            | Self::Server
            | Self::NotServer
            | Self::Seat
            | Self::NoServer => ErrorCode::Forbidden,
            Self::OtherShard | Self::ReviewFailed => ErrorCode::Unavailable,
        }
    }
}

/// Identifies callers. Cheap to clone.
#[derive(Clone)]
pub struct CallerIdentity {
    context: GatewayContext,
    index: PodIndex,
    reviews: Arc<TokenReviewCache>,
    metrics: GatewayMetrics,
}

impl CallerIdentity {
    /// `index` has to be fed from the same watch as the context's Threads.
    pub fn new(context: GatewayContext, index: PodIndex, metrics: GatewayMetrics) -> Self {
        let reviews = Arc::new(TokenReviewCache::new(context.client.clone()));
        Self { context, index, reviews, metrics }
    }

    /// The same for the leader of a shard, who knows nobody else's pods.
    #[must_use]
    pub fn of_shard(&self, shard: GatewayShard) -> Self {
        Self { context: self.context.of_shard(shard), ..self.clone() }
    }

    /// The caller behind a request's token.
    ///
    /// # Errors
    /// `Unauthenticated`, `NotRegistered`, `Forbidden` or, if nobody could be asked, `Unavailable`.
    pub async fn caller(&self, headers: &HeaderMap) -> Result<ProvenCaller, ApiError> {
        let outcome = async { self.resolve(&self.prove(headers).await?) };
        outcome.await.map_err(|refused| self.refuse(refused))
    }

    /// The server behind the token of a request.
    ///
    /// # Errors
    /// As [`Self::caller`]; `Forbidden` for the pod of a role.
    pub async fn server(&self, headers: &HeaderMap) -> Result<ProvenServer, ApiError> {
        let outcome = async { self.resolve_server(&self.prove(headers).await?) };
        outcome.await.map_err(|refused| self.refuse(refused))
    }

    /// The Thread that has taken a seat, once one has, or none after `wait`.
    ///
    /// # Errors
    /// As [`Self::caller`]; `Forbidden` for the pod of a server.
    pub async fn seat_answer(
        &self,
        headers: &HeaderMap,
        wait: Duration,
    ) -> Result<SeatAnswer, ApiError> {
        let outcome = async {
            let pod = self.prove(headers).await?;
            let (repo, thread, set_up) =
                match self.index.taken(&pod.namespace, &pod.uid, wait).await {
                    Some(PodPart::Seat(..)) => {
                        let ProvenSeat { repo, set_up, .. } = self.resolve_seat(&pod)?;
                        (repo, None, set_up)
                    }
                    // Proven as any caller: the Thread as it is now decides.
                    Some(PodPart::Role(..)) => {
                        let caller = self.resolve(&pod)?;
                        (Arc::clone(&caller.repo), Some(caller.thread.name_any()), None)
                    }
                    Some(_) => return Err(RefusedToken::Server),
                    None => return Err(RefusedToken::NotRegistered),
                };
            let sparse = repo.spec.worktree.sparse.clone();
            Ok(SeatAnswer { thread, base_branch: repo.spec.git.branch.clone(), sparse, set_up })
        };
        outcome.await.map_err(|refused| self.refuse(refused))
    }

    /// The seat behind the token of a request.
    ///
    /// # Errors
    /// As [`Self::caller`]; `Forbidden` once a Thread has taken it.
    pub async fn seat(&self, headers: &HeaderMap) -> Result<ProvenSeat, ApiError> {
        let outcome = async { self.resolve_seat(&self.prove(headers).await?) };
        outcome.await.map_err(|refused| self.refuse(refused))
    }

    /// True if the token says that it is of a seat. Nothing of that is proven.
    pub fn claims_seat(&self, headers: &HeaderMap) -> bool {
        let claim = bearer_token(headers).and_then(|token| claim::read_claim(token).ok());
        let found = claim.and_then(|claim| self.index.find(&claim.namespace, &claim.uid));
        matches!(found, Some(PodPart::Seat(..)))
    }

    /// True if the token says that it is of the pod of a server. Nothing of that is proven.
    pub fn claims_server(&self, headers: &HeaderMap) -> bool {
        let claim = bearer_token(headers).and_then(|token| claim::read_claim(token).ok());
        let found = claim.and_then(|claim| self.index.find(&claim.namespace, &claim.uid));
        matches!(found, Some(PodPart::Server(..) | PodPart::Shared(..)))
    }

    async fn prove(&self, headers: &HeaderMap) -> Result<CallingPod, RefusedToken> {
        let token = bearer_token(headers).ok_or(RefusedToken::NoToken)?;
        // A pod that no Thread or Repo names is refused before its token is reviewed: a flood of
        // tokens asks nobody.
        let claim = claim::read_claim(token)?;
        self.index.find(&claim.namespace, &claim.uid).ok_or(RefusedToken::NotRegistered)?;
        self.reviews.pod(token, claim).await
    }

    fn refuse(&self, refused: RefusedToken) -> ApiError {
        self.metrics.refused(refused.reason());
        tracing::debug!(reason = refused.reason(), "caller_refused");
        ApiError::new(refused.code(), refused.to_string())
    }

    /// Looked up for every call, so that a pod that was replaced is nobody at once.
    fn resolve(&self, pod: &CallingPod) -> Result<ProvenCaller, RefusedToken> {
        let part = self.index.find(&pod.namespace, &pod.uid).ok_or(RefusedToken::NotRegistered)?;
        let (key, role) = match part {
            PodPart::Role(key, role) => (key, role),
            PodPart::Seat(..) => return Err(RefusedToken::Seat),
            PodPart::Server(..) | PodPart::Shared(..) => return Err(RefusedToken::Server),
        };
        let thread = self.context.thread(&key).ok_or(RefusedToken::NotRegistered)?;
        // The index only hints; the Thread as it is cached now decides.
        let registered = thread
            .status
            .as_ref()
            .and_then(|status| status.roles.get(&role))
            .and_then(|role| role.pod_uid.as_ref());
        if registered != Some(&pod.uid) {
            return Err(RefusedToken::NotRegistered);
        }
        if names::service_account(&thread.spec.repo) != pod.service_account {
            return Err(RefusedToken::OtherServiceAccount);
        }
        let repo =
            self.context.repo(&key.namespace, &thread.spec.repo).ok_or(RefusedToken::NoRole)?;
        self.check_shard(&repo)?;
        let mut roles = self.context.roles_of(&repo).into_iter();
        let role = roles.find(|known| known.spec.role == role).ok_or(RefusedToken::NoRole)?;
        Ok(ProvenCaller { thread, repo, role })
    }

    /// Resolves a seat: the Repo as it is cached now decides.
    fn resolve_seat(&self, pod: &CallingPod) -> Result<ProvenSeat, RefusedToken> {
        let part = self.index.find(&pod.namespace, &pod.uid).ok_or(RefusedToken::NotRegistered)?;
        let PodPart::Seat(key, name) = part else { return Err(RefusedToken::NotSeat) };
        let repo =
            self.context.repo(&key.namespace, &key.name).ok_or(RefusedToken::NotRegistered)?;
        if registered_seat(&repo, &name) != Some(&pod.uid) {
            return Err(RefusedToken::NotRegistered);
        }
        if names::service_account(&repo.name_any()) != pod.service_account {
            return Err(RefusedToken::OtherServiceAccount);
        }
        self.check_shard(&repo)?;
        let role = names::seat_of_pod(&key.name, &name)
            .or_else(|| names::prepared_of_pod(&key.name, &name))
            .map(|(_, role)| role);
        let roles = self.context.roles_of(&repo);
        let set_up = role.and_then(|role| find_seat_set_up(&repo, &roles, role));
        Ok(ProvenSeat { repo, pod: name, set_up })
    }

    /// Resolves a server: its registration and its Repo, as they are now, decide.
    fn resolve_server(&self, pod: &CallingPod) -> Result<ProvenServer, RefusedToken> {
        let part = self.index.find(&pod.namespace, &pod.uid).ok_or(RefusedToken::NotRegistered)?;
        let (repo, thread, name) = match part {
            PodPart::Role(..) | PodPart::Seat(..) => return Err(RefusedToken::NotServer),
            PodPart::Server(key, name) => {
                let thread = self.context.thread(&key).ok_or(RefusedToken::NotRegistered)?;
                let repo = self.context.repo(&key.namespace, &thread.spec.repo);
                (repo, Some(thread), name)
            }
            PodPart::Shared(key, name) => {
                (self.context.repo(&key.namespace, &key.name), None, name)
            }
        };
        let repo = repo.ok_or(RefusedToken::NoServer)?;
        let server = ProvenServer::find(repo, thread, &name).ok_or(RefusedToken::NoServer)?;
        let registered = server.pod().filter(|known| known.pod_uid.as_ref() == Some(&pod.uid));
        let registered = registered.ok_or(RefusedToken::NotRegistered)?;
        if names::service_account(&server.repo.name_any()) != pod.service_account {
            return Err(RefusedToken::OtherServiceAccount);
        }
        if registered.spec != fingerprint_server(&server.spec) {
            return Err(RefusedToken::NoServer);
        }
        self.check_shard(&server.repo)?;
        Ok(server)
    }

    /// Two leaders for one Repo would each spend its budget.
    fn check_shard(&self, repo: &Repo) -> Result<(), RefusedToken> {
        if self.context.shard.has_repo(repo) { Ok(()) } else { Err(RefusedToken::OtherShard) }
    }
}

/// UID of a pod of this name that waits for a Thread, or prepares a volume, if the Repo says so and still wants it.
fn registered_seat<'a>(repo: &'a Repo, name: &str) -> Option<&'a String> {
    let status = repo.status.as_ref()?;
    let warm = status.warm.as_ref().filter(|_| repo.spec.warm.is_some());
    if let Some(uid) = warm.and_then(|warm| warm.pods.get(name)) {
        return Some(uid);
    }
    let prepared = status.prepared.as_ref().filter(|_| !repo.spec.worktree.prepared.is_none())?;
    prepared.pod.as_ref().filter(|pod| pod.name == name).map(|pod| &pod.uid)
}

/// Returns true if the caller's Thread is closed, or being deleted.
pub fn is_closed(caller: &ProvenCaller) -> bool {
    caller.thread.spec.state == ThreadState::Closed || caller.thread.is_going()
}

fn bearer_token(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    let token = token.trim();
    // Real tokens have 1 to 3 KiB.
    let usable = scheme.eq_ignore_ascii_case("bearer") && !token.is_empty() && token.len() < 16_384;
    usable.then_some(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_taken_from_its_header_alone() {
        let with = |value: &str| {
            let headers = HeaderMap::from_iter([(AUTHORIZATION, value.parse().unwrap())]);
            bearer_token(&headers).map(str::to_owned)
        };
        assert_eq!(with("Bearer abc"), Some("abc".into()));
        assert_eq!(with("bearer abc "), Some("abc".into()));
        for other in ["Basic abc", "Bearer", "Bearer  ", "abc"] {
            assert_eq!(with(other), None, "{other}");
        }
        assert_eq!(bearer_token(&HeaderMap::new()), None);
    }
}
