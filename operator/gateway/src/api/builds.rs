//! `POST /v1/builds`: a pod's turn to build.

use std::time::{Duration, Instant};

use axum::extract::State;
use codebutler_crds::wire::{BuildClaim, BuildTurn, BuildWant, ErrorCode};
use codebutler_gateway_core::api_error::ApiError;
use codebutler_gateway_core::extract::{JsonBody, OpenCaller, QueryParams, needs_tool};
use kube::ResourceExt as _;
use serde::Deserialize;

use crate::builds::{BuildClaimant, BuildPlaces, TOOL};
use crate::state::SharedGateway;

/// Longest wait of one question.
const LONGEST: Duration = Duration::from_secs(25);
/// Interval of looks while somebody waits: a pod that is gone says nothing.
const LOOK: Duration = Duration::from_millis(500);

/// Guard that leaves the queue soon, however the question ends.
struct QueueGuard<'a> {
    builds: &'a BuildPlaces,
    repo: (String, String),
    who: &'a BuildClaimant,
}

impl Drop for QueueGuard<'_> {
    fn drop(&mut self) {
        self.builds.leave(&self.repo, self.who);
    }
}

/// The query of `/v1/builds`.
#[derive(Deserialize)]
pub(super) struct BuildPatience {
    #[serde(default)]
    wait: u64,
}

/// `POST /v1/builds`: answers how a claim stands, once it is granted or after at most `wait` seconds.
pub(super) async fn claim_build(
    State(gateway): State<SharedGateway>,
    OpenCaller(caller): OpenCaller,
    QueryParams(patience): QueryParams<BuildPatience>,
    JsonBody(claim): JsonBody<BuildClaim>,
) -> Result<axum::Json<BuildTurn>, ApiError> {
    needs_tool(&caller, &[TOOL])?;
    if claim.id.is_empty() || claim.id.len() > 64 {
        let message = "`id` has 1 to 64 characters";
        return Err(ApiError::new(ErrorCode::InvalidRequest, message));
    }
    let who = BuildClaimant::of(&caller).ok_or_else(|| {
        ApiError::new(ErrorCode::NotRegistered, "no role of a Thread has this pod any more")
    })?;
    let deadline = Instant::now() + Duration::from_secs(patience.wait).min(LONGEST);
    let repo = (who.thread.namespace.clone(), caller.repo.name_any());
    let _asking = QueueGuard { builds: &gateway.builds, repo, who: &who };
    loop {
        let changed = gateway.builds.changed.notified();
        let turn = gateway.builds.ask(&gateway.work.context, &caller, &who, &claim);
        if claim.want == BuildWant::Release {
            gateway.builds.changed.notify_waiters();
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if turn.granted || claim.want != BuildWant::Slot || left.is_zero() {
            return Ok(axum::Json(turn));
        }
        tokio::select! {
            () = changed => {}
            () = tokio::time::sleep(left.min(LOOK)) => {}
            () = gateway.work.shutdown.cancelled() => {
                let message = "the gateway restarts: ask again";
                return Err(ApiError::new(ErrorCode::Unavailable, message));
            }
        }
    }
}
