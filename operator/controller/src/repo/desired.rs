//! Decides what is to be done about a Repo. Pure: no clock, no network, no cache.

use std::collections::BTreeMap;

use codebutler_crds::condition::{self, GATEWAY_SERVING, READY, SUSPENDED};
use codebutler_crds::redact::SecretRedactor;
use codebutler_crds::repo::ThreadCounts;
use codebutler_crds::{Repo, names};
use codebutler_runtime::notice::EventNotice;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{ConfigMap, ServiceAccount};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;
use serde::Serialize;

use super::children::{self, agrees_with};
use super::observe::ObservedRepo;
use super::reach;
use super::status::OwnRepoStatus;
use crate::args::ControllerArgs;
use crate::health::{HealthLevel, ObjectHealth};
use crate::{refusals, schedules, spelling};

/// Longest time by which caches are expected to lag behind an object that was just created.
const SETTLED: SignedDuration = SignedDuration::from_secs(10);

/// Steps to take for a Repo, in this order.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct RepoPlan {
    /// The account of its pods, where it is not yet as it should be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub account: Option<ServiceAccount>,
    /// The network policy of its pods, where it is not yet as it should be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<NetworkPolicy>,
    /// The copy of the gateway's certificate authority, where it is not yet as it should be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub authority: Option<ConfigMap>,
    /// The controller's part of the status.
    pub status: OwnRepoStatus,
    /// Events, once the status is written.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<EventNotice>,
}

/// Decides what to do about `repo` at `now`.
pub(super) fn plan_repo(
    repo: &Repo,
    observed: &ObservedRepo,
    args: &ControllerArgs,
    now: Timestamp,
) -> RepoPlan {
    let before = repo.status.clone().unwrap_or_default();
    let mut plan = RepoPlan { status: OwnRepoStatus::of(&before), ..RepoPlan::default() };
    if repo.metadata.deletion_timestamp.is_some() {
        return plan;
    }
    let mut verdicts = check_roles(observed);
    if let Some(refusal) = &observed.refusal {
        verdicts.push(refusals::refusal_health(refusal, &repo.spec.policy.redaction));
    } else {
        verdicts.extend(plan_children(repo, observed, args, &mut plan));
        tell_repairs(&before, now, &mut plan);
    }
    verdicts.extend(check_gateway(repo, observed, &mut plan, now));
    verdicts.extend(reach::judge_reach(repo, &before.conditions));
    verdicts.extend(check_patterns(repo));
    if repo.spec.suspend {
        let message = "spec.suspend: no new work starts until it is unset";
        let held = ObjectHealth::new(HealthLevel::Held, "Suspended", message);
        held.hold(&mut plan.status.conditions, repo.metadata.generation, now);
        verdicts.push(held);
    } else {
        condition::clear_condition(&mut plan.status.conditions, SUSPENDED);
    }
    let ready =
        ObjectHealth::new(HealthLevel::Ready, "Ready", "messages in the channel are answered");
    let verdict = ObjectHealth::worst(verdicts, ready);
    let generation = repo.metadata.generation;
    plan.notices.extend(verdict.notice(&before.conditions));
    verdict.write(&mut plan.status.conditions, generation, now);
    let outdated = repo.spec.outdated();
    plan.notices.extend(spelling::tell_outdated(
        &outdated,
        &mut plan.status.conditions,
        generation,
        now,
    ));
    plan.notices.extend(schedules::tell_invalid(repo, &mut plan.status.conditions, now));
    plan.status.observed_generation = generation;
    plan.status.threads = ThreadCounts { open: observed.open_threads };
    plan.status.shard = observed.shard;
    plan
}

/// Every name in `spec.roles` means an AgentRole, and no two of them the same role.
fn check_roles(observed: &ObservedRepo) -> Vec<ObjectHealth> {
    let mut seen = BTreeMap::new();
    let mut verdicts = Vec::new();
    for (i, (name, role)) in observed.roles.iter().enumerate() {
        let Some(role) = role else {
            let message = format!(
                "spec.roles[{i}]: AgentRole `{name}` exists neither in this namespace nor in the \
                 operator's: create it or take it out"
            );
            verdicts.push(ObjectHealth::new(HealthLevel::Stalled, "RoleNotFound", message));
            continue;
        };
        if let Some(first) = seen.insert(role.spec.role.clone(), i) {
            let message = format!(
                "spec.roles[{i}]: AgentRole `{name}` is role `{}`, and so is spec.roles[{first}]: \
                 take one out",
                role.spec.role
            );
            verdicts.push(ObjectHealth::new(HealthLevel::Stalled, "RoleTwice", message));
        }
    }
    verdicts
}

/// Every pattern in `spec.policy.redaction` can be used: what it should mask would leave otherwise.
fn check_patterns(repo: &Repo) -> Option<ObjectHealth> {
    let (_, bad) = SecretRedactor::new(&repo.spec.policy.redaction);
    let first = bad.first()?;
    Some(ObjectHealth::new(HealthLevel::Stalled, "BadPattern", format!("spec.policy.{first}")))
}

/// Plans the objects that the Repo's pods need. Without a gateway there is no policy that would let them reach it, so
/// there are no pods either.
fn plan_children(
    repo: &Repo,
    observed: &ObservedRepo,
    args: &ControllerArgs,
    plan: &mut RepoPlan,
) -> Vec<ObjectHealth> {
    let mut verdicts = Vec::new();
    let account = children::build_account(repo);
    if !agrees_with(&account, observed.account.as_deref()) {
        plan.account = Some(account);
    }
    match &observed.gateway {
        Ok(gateway) => {
            let policy = children::build_policy(repo, gateway, args);
            if !agrees_with(&policy, observed.policy.as_deref()) {
                plan.policy = Some(policy);
            }
        }
        Err(why) => {
            verdicts.push(ObjectHealth::new(
                HealthLevel::Trouble,
                "GatewayNotFound",
                why.to_string(),
            ));
        }
    }
    let namespace = repo.namespace().unwrap_or_default();
    match &observed.authority {
        None => {
            let message = format!(
                "ConfigMap `{}/{}` does not exist yet: the gateway writes it when it starts",
                args.namespace,
                names::CA_CONFIG_MAP
            );
            verdicts.push(ObjectHealth::new(
                HealthLevel::Trouble,
                "GatewayCertificateNotFound",
                message,
            ));
        }
        // In this namespace it is the gateway's own, and no copy.
        Some(_) if namespace == args.namespace => {}
        Some(pem) => {
            let copy = children::build_authority(&namespace, pem, &observed.siblings);
            if !agrees_with(&copy, observed.authority_copy.as_deref()) {
                plan.authority = Some(copy);
            }
        }
    }
    verdicts
}

/// Reports repairs. If the Repo has been ready for a while, an object that is no longer in order was changed or
/// deleted by somebody.
fn tell_repairs(before: &codebutler_crds::RepoStatus, now: Timestamp, plan: &mut RepoPlan) {
    let ready = before.conditions.iter().find(|c| c.type_ == READY && c.status == "True");
    if ready.is_none_or(|c| now.duration_since(c.last_transition_time.0) <= SETTLED) {
        return;
    }
    let named = |kind: &str, name: String| format!("{kind} `{name}`");
    let account = plan.account.as_ref().map(|a| named("ServiceAccount", a.name_any()));
    let policy = plan.policy.as_ref().map(|p| named("NetworkPolicy", p.name_any()));
    let authority = plan.authority.as_ref().map(|a| named("ConfigMap", a.name_any()));
    let all: Vec<_> = account.into_iter().chain(policy).chain(authority).collect();
    if !all.is_empty() {
        let note = format!("not as it has to be, put in order: {}", all.join(", "));
        plan.notices.push(EventNotice::normal("Repaired", note));
    }
}

/// Sets the condition about the gateway. Without one nobody answers, whatever was true while there was one.
fn check_gateway(
    repo: &Repo,
    observed: &ObservedRepo,
    plan: &mut RepoPlan,
    now: Timestamp,
) -> Option<ObjectHealth> {
    let (serves, reason, message) = match &observed.serving {
        Ok(()) => (true, "Serving", "a gateway serves agents".to_owned()),
        Err(why) => (false, "GatewayAway", why.to_string()),
    };
    condition::set_condition(
        &mut plan.status.conditions,
        GATEWAY_SERVING,
        serves,
        reason,
        message.clone(),
        repo.metadata.generation,
        &Time(now),
    );
    (!serves).then(|| ObjectHealth::new(HealthLevel::Trouble, "GatewayAway", message))
}
