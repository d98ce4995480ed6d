//! `/v1/egress-check`: whether the cluster keeps agent pods to the gateway. Each agent tries to get
//! past it when it starts and tells what happened; the Repo shows it, and work is refused where
//! nothing is enforced unless the Repo says otherwise.

use axum::extract::State;
use codebutler_crds::Repo;
use codebutler_crds::condition::EGRESS_ENFORCED;
use codebutler_crds::wire::{EgressReport, ErrorCode};
use kube::ResourceExt as _;

use crate::gateway::api::{Json, Open, Shared};
use crate::gateway::context::{ApiError, Caller};

/// Takes an agent's word.
pub async fn report(
    State(gateway): State<Shared>,
    Open(caller): Open,
    Json(report): Json<EgressReport>,
) -> Result<axum::Json<serde_json::Value>, ApiError> {
    gateway.conditions.egress(&caller.repo, !report.reached).await;
    if report.reached && caller.repo.spec.egress.require_enforcement {
        tell(&gateway, &caller).await;
        return Err(unenforced(&caller.repo));
    }
    Ok(axum::Json(serde_json::json!({})))
}

/// Refuses work where an agent has got past the gateway.
///
/// # Errors
/// `Upstream`: agents wait for people to mend it.
pub fn needs_enforcement(repo: &Repo) -> Result<(), ApiError> {
    let conditions = repo.status.iter().flat_map(|status| &status.conditions);
    let mut found = conditions.into_iter().filter(|c| c.type_ == EGRESS_ENFORCED);
    let open = found.any(|condition| condition.status == "False");
    if open && repo.spec.egress.require_enforcement { Err(unenforced(repo)) } else { Ok(()) }
}

fn unenforced(repo: &Repo) -> ApiError {
    ApiError::new(ErrorCode::Upstream, sentence(&repo.name_any()))
}

fn sentence(repo: &str) -> String {
    format!(
        "agent pods of Repo `{repo}` can connect past the gateway: the cluster does not enforce its \
         NetworkPolicy. Use a network plugin that does, or set spec.egress.requireEnforcement: false"
    )
}

/// Once per generation of the Repo.
async fn tell(gateway: &Shared, caller: &Caller) {
    let repo = &caller.repo;
    let key = format!("egress-{}", repo.metadata.generation.unwrap_or_default());
    let text = format!("I don't start here: {}.", sentence(&repo.name_any()));
    if let Err(error) = gateway.slack.notice(&caller.key(), &key, &text).await {
        tracing::warn!(%error, "the thread could not be told that egress is not enforced");
    }
}
