//! Evaluates the gateway's conditions about services outside the cluster. Each counts only for the generation that it
//! was checked for: a check that has not been made yet is neither true nor false. Pure.

use codebutler_crds::Repo;
use codebutler_crds::condition::{
    EGRESS_ENFORCED, GIT_REACHABLE, MODEL_REACHABLE, SLACK_REACHABLE,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::health::{HealthLevel, ObjectHealth};

/// Checks of each generation: the condition, its name for people, and the reason when it is false.
const ASKED: [(&str, &str, &str); 3] = [
    (SLACK_REACHABLE, "Slack", "SlackNotReachable"),
    (GIT_REACHABLE, "Git", "GitNotReachable"),
    (MODEL_REACHABLE, "the model API", "ModelNotReachable"),
];

/// Returns the failed and missing checks that keep the Repo from being ready.
pub(super) fn judge_reach(repo: &Repo, conditions: &[Condition]) -> Vec<ObjectHealth> {
    let find = |type_: &str| conditions.iter().find(|c| c.type_ == type_);
    let (mut verdicts, mut missing) = (Vec::new(), Vec::new());
    for (type_, what, reason) in ASKED {
        match find(type_).filter(|c| c.observed_generation == repo.metadata.generation) {
            Some(c) if c.status == "False" => {
                verdicts.push(ObjectHealth::new(HealthLevel::Trouble, reason, c.message.clone()));
            }
            Some(_) => {}
            None => missing.push(what),
        }
    }
    if !missing.is_empty() {
        let message = format!("the gateway has not asked {} yet", missing.join(", "));
        verdicts.push(ObjectHealth::new(HealthLevel::Reconciling, "Checking", message));
    }
    // A property of the cluster, whatever the generation. Only a pod can find it out: before the
    // first one nothing is known, and nothing is in the way.
    let open = find(EGRESS_ENFORCED).filter(|c| c.status == "False");
    if let Some(open) = open.filter(|_| repo.spec.egress.require_enforcement) {
        let message = format!(
            "{}. Use a network plugin that enforces it, or set spec.egress.requireEnforcement: false",
            open.message.trim_end_matches('.')
        );
        verdicts.push(ObjectHealth::new(HealthLevel::Trouble, "EgressNotEnforced", message));
    }
    verdicts
}
