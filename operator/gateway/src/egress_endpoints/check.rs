//! `/v1/egress-check`: whether the cluster keeps agent pods to the gateway. Each agent tries to get
//! past it when it starts and tells what happened; the Repo shows it, and work is refused where
//! nothing is enforced unless the Repo says otherwise.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::extract::State;
use codebutler_crds::condition::EGRESS_ENFORCED;
use codebutler_crds::wire::{EgressReport, EgressTrial, EgressWay, ErrorCode};
use codebutler_gateway_core::api_error::ApiError;
use codebutler_gateway_core::caller::ProvenCaller;
use codebutler_gateway_core::egress::walls::{WallVerdict, forgive_node, reported_ways};
use codebutler_gateway_core::extract::{JsonBody, OpenCaller};
use kube::ResourceExt as _;

use crate::web::services::EgressServices;

pub async fn report_egress(
    State(gateway): State<Arc<EgressServices>>,
    OpenCaller(caller): OpenCaller,
    JsonBody(mut report): JsonBody<EgressReport>,
) -> Result<axum::Json<serde_json::Value>, ApiError> {
    if caller.repo.spec.egress.allow_own_node {
        // A pod that was made before its Repo allowed it.
        forgive_node(&mut report);
    }
    let is_there = |key: &_| gateway.context.thread(key).is_some();
    match gateway.egress.walls.hear(&caller, &report, is_there) {
        WallVerdict::Enforced => gateway.conditions.egress(&caller.repo, None).await,
        WallVerdict::Open(ways) => {
            let (names, remedy) = (names_of(&ways), node_remedy(&ways));
            gateway.conditions.egress(&caller.repo, Some((&names, remedy))).await;
        }
        WallVerdict::Unsettled => {}
    }
    if report.reached && caller.repo.spec.egress.require_enforcement {
        let ways = reported_ways(&report);
        let why = leak_sentence(&caller.repo.name_any(), &names_of(&ways)) + node_remedy(&ways);
        // A way that may be closed in a moment is not worth a message.
        if report.trial >= EgressTrial::Long {
            tell_open_egress(&gateway, &caller, &why).await;
        }
        return Err(ApiError::new(ErrorCode::Upstream, why));
    }
    Ok(axum::Json(serde_json::json!({})))
}

/// Refuses work where agents have got past the gateway, except to a pod that tried and did not.
///
/// # Errors
/// `Upstream`: agents wait for people to fix it.
pub fn needs_enforcement(gateway: &EgressServices, caller: &ProvenCaller) -> Result<(), ApiError> {
    let repo = &caller.repo;
    let conditions = repo.status.iter().flat_map(|status| &status.conditions);
    let mut found = conditions.into_iter().filter(|c| c.type_ == EGRESS_ENFORCED);
    let open = found.any(|condition| condition.status == "False");
    if open && repo.spec.egress.require_enforcement && !gateway.egress.walls.keep(caller) {
        let why = leak_sentence(&repo.name_any(), "see its condition EgressEnforced");
        return Err(ApiError::new(ErrorCode::Upstream, why));
    }
    Ok(())
}

fn names_of(ways: &BTreeSet<EgressWay>) -> String {
    ways.iter().map(|way| way_name(*way)).collect::<Vec<_>>().join(", ")
}

const fn way_name(way: EgressWay) -> &'static str {
    match way {
        EgressWay::ApiServer => "the API server",
        EgressWay::ClusterDns => "the cluster's DNS",
        EgressWay::NodeDns => "the node's DNS cache at 169.254.20.10",
        EgressWay::Node => "the node's own address (its kubelet, port 10250)",
        EgressWay::Metadata => "the cloud's metadata at 169.254.169.254",
        EgressWay::Internet => "the internet (1.1.1.1)",
    }
}

fn leak_sentence(repo: &str, ways: &str) -> String {
    format!(
        "agent pods of Repo `{repo}` can connect past the gateway ({ways}): the cluster does not \
         enforce its NetworkPolicy, or another one lets these pods out. Use a network plugin that \
         enforces them and delete what lets them out, or set spec.egress.requireEnforcement: false"
    )
}

/// A remedy that opens less than the others, for a network plugin that lets pods reach their own node and nothing else.
/// In a cluster of one node, the API server is there, too.
fn node_remedy(ways: &BTreeSet<EgressWay>) -> &'static str {
    let ways: Vec<EgressWay> = ways.iter().copied().collect();
    match ways[..] {
        [EgressWay::Node] => {
            "; the node alone is reached, which the plugins of EKS and kind always allow: spec.egress.allowOwnNode: true \
             accepts that and nothing else"
        }
        [EgressWay::ApiServer, EgressWay::Node] => {
            "; where a plugin such as kind's keeps no pod from its own node, the API server is on that node: add a node \
             without it (on kind a worker), and set spec.egress.allowOwnNode: true"
        }
        _ => "",
    }
}

/// Tells the thread of open egress, once per generation of the Repo.
async fn tell_open_egress(gateway: &EgressServices, caller: &ProvenCaller, why: &str) {
    let key = format!("egress-{}", caller.repo.metadata.generation.unwrap_or_default());
    let text = format!("I don't start here: {why}.");
    if let Err(error) = gateway.notices.post_notice(&caller.key(), &key, &text).await {
        tracing::warn!(%error, notice = "egress_unenforced", "notice_post_failed");
    }
}
