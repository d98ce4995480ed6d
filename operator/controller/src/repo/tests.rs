//! Tests of the decisions about a Repo, on plain values.

use std::net::SocketAddr;
use std::sync::Arc;

use codebutler_crds::{Repo, condition};
use codebutler_runtime::apply::ApplyRefusal;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::Resource as _;
use serde_json::json;

use super::children;
use super::desired::{RepoPlan, plan_repo};
use super::observe::ObservedRepo;
use crate::gateway::{GatewayAddress, GatewayNotFound};
use crate::serving::GatewayAway;
use crate::testing;

fn gateway() -> GatewayAddress {
    GatewayAddress {
        address: SocketAddr::from(([10, 96, 0, 7], 8443)),
        target_port: IntOrString::Int(9443),
    }
}

/// A world in which everything that the Repo names is there, and nothing of what it needs.
fn fresh(repo: &Repo) -> ObservedRepo {
    let role = |name: &str| (name.to_owned(), Some(Arc::new(testing::role(name))));
    ObservedRepo {
        roles: vec![role("pm"), role("coder")],
        gateway: Ok(gateway()),
        shard: None,
        serving: Ok(()),
        authority: Some("PEM".to_owned()),
        siblings: repo.owner_ref(&()).into_iter().collect(),
        open_threads: 0,
        account: None,
        policy: None,
        authority_copy: None,
        refusal: None,
    }
}

fn settled(repo: &Repo) -> ObservedRepo {
    let fresh = fresh(repo);
    ObservedRepo {
        account: Some(Arc::new(children::build_account(repo))),
        policy: Some(Arc::new(children::build_policy(repo, &gateway(), &testing::args()))),
        authority_copy: Some(Arc::new(children::build_authority("team", "PEM", &fresh.siblings))),
        ..fresh
    }
}

/// A Repo of which the gateway says that all is as it should be.
fn answered() -> Repo {
    let said = |type_: &str| {
        json!({"type": type_, "status": "True", "reason": "R", "message": "", "observedGeneration": 1,
               "lastTransitionTime": "2026-01-01T00:00:00Z"})
    };
    let conditions = ["SlackReachable", "GitReachable", "ModelReachable"].map(said);
    let mut repo = testing::repo();
    repo.status = Some(serde_json::from_value(json!({"conditions": conditions})).unwrap());
    repo
}

/// The Repo as it is once the plan's status is written.
fn told(mut repo: Repo, plan: &RepoPlan) -> Repo {
    let mut status = serde_json::to_value(repo.status.take().unwrap_or_default()).unwrap();
    let patch = plan.status.patch(Some(&serde_json::from_value(status.clone()).unwrap())).unwrap();
    for (key, value) in patch.as_object().unwrap() {
        status[key] = value.clone();
    }
    repo.status = Some(serde_json::from_value(status).unwrap());
    repo
}

fn plan(repo: &Repo, observed: &ObservedRepo) -> RepoPlan {
    plan_repo(repo, observed, &testing::args(), testing::now())
}

fn ready(plan: &RepoPlan) -> (String, String) {
    let ready = plan.status.conditions.iter().find(|c| c.type_ == condition::READY).unwrap();
    let well = matches!(ready.reason.as_str(), "Ready" | "Suspended");
    assert!((ready.status == "True") == well, "{ready:?}");
    (ready.reason.clone(), ready.message.clone())
}

#[test]
fn a_new_repo_gets_all_that_its_pods_need() {
    let repo = testing::repo();
    insta::assert_yaml_snapshot!("new", plan(&repo, &fresh(&repo)));
}

#[test]
fn a_repo_says_its_shard_where_there_is_more_than_one() {
    let repo = answered();
    let observed = ObservedRepo { shard: Some(2), ..settled(&repo) };
    let first = plan(&repo, &observed);
    assert_eq!(first.status.patch(repo.status.as_ref()).unwrap()["shard"], 2);
    let repo = told(repo, &first);
    assert_eq!(plan(&repo, &observed).status.patch(repo.status.as_ref()), None);
    let one = plan(&repo, &settled(&repo)).status.patch(repo.status.as_ref()).unwrap();
    assert_eq!(one, json!({"shard": null}), "there is one shard again");
}

#[test]
fn a_settled_repo_is_left_alone() {
    let repo = answered();
    let first = plan(&repo, &settled(&repo));
    assert!(first.account.is_none() && first.policy.is_none() && first.authority.is_none());
    assert_eq!(ready(&first).0, "Ready");
    let repo = told(repo, &first);
    let second = plan(&repo, &settled(&repo));
    assert_eq!(second.status.patch(repo.status.as_ref()), None);
    assert!(second.notices.is_empty());
}

#[test]
fn in_the_operators_namespace_the_authority_is_the_gateways_own() {
    let mut repo = testing::repo();
    repo.metadata.namespace = Some(testing::args().namespace);
    assert!(plan(&repo, &fresh(&repo)).authority.is_none());
}

#[test]
fn a_role_that_does_not_exist_is_named_with_its_field() {
    let repo = testing::repo();
    let mut observed = settled(&repo);
    observed.roles[1].1 = None;
    let plan = plan(&repo, &observed);
    let (reason, message) = ready(&plan);
    assert_eq!(reason, "RoleNotFound");
    assert!(message.contains("spec.roles[1]") && message.contains("`coder`"), "{message}");
    assert!(condition::is_true(&plan.status.conditions, condition::STALLED));
    assert!(plan.notices[0].warning);
}

#[test]
fn two_agent_roles_with_one_short_name_are_refused() {
    let repo = testing::repo();
    let mut observed = settled(&repo);
    observed.roles[1] = ("other-pm".to_owned(), Some(Arc::new(testing::role("pm"))));
    let (reason, message) = ready(&plan(&repo, &observed));
    assert_eq!(reason, "RoleTwice");
    assert!(message.contains("spec.roles[1]") && message.contains("spec.roles[0]"), "{message}");
}

#[test]
fn what_the_gateway_could_not_reach_is_told_in_its_words_and_kept() {
    let mut repo = testing::repo();
    let words = "spec.slack.credentials: Secret `slack` does not exist";
    repo.status = Some(
        serde_json::from_value(json!({"slack": {"cursor": "1767268700.000100"}, "conditions": [{
            "type": "SlackReachable", "status": "False", "reason": "SecretNotFound",
            "message": words, "observedGeneration": 1, "lastTransitionTime": "2026-01-01T00:00:00Z",
        }]}))
        .unwrap(),
    );
    let plan = plan(&repo, &settled(&repo));
    assert_eq!(ready(&plan), ("SlackNotReachable".to_owned(), words.to_owned()));
    let patch = plan.status.patch(repo.status.as_ref()).unwrap();
    assert_eq!(patch["conditions"][0]["type"], "SlackReachable", "the gateway's part stays");
    assert_eq!(patch.get("slack"), None);
}

#[test]
fn what_nobody_has_asked_of_this_generation_is_not_ready() {
    let new = testing::repo();
    let first = plan(&new, &settled(&new));
    let (reason, message) = ready(&first);
    assert_eq!(reason, "Checking");
    assert_eq!(message, "the gateway has not asked Slack, Git, the model API yet");
    assert!(condition::is_true(&first.status.conditions, condition::RECONCILING));
    let mut changed = answered();
    changed.metadata.generation = Some(2);
    assert_eq!(ready(&plan(&changed, &settled(&changed))).0, "Checking");
    // Neither does an old no keep it from being looked at.
    let status = changed.status.as_mut().unwrap();
    status.conditions[1].status = "False".to_owned();
    assert_eq!(ready(&plan(&changed, &settled(&changed))).0, "Checking");
}

#[test]
fn egress_that_is_open_is_in_the_way_where_it_has_to_be_closed() {
    let mut repo = answered();
    let status = repo.status.as_mut().unwrap();
    let mut open = status.conditions[0].clone();
    (open.type_, open.status) = ("EgressEnforced".to_owned(), "False".to_owned());
    open.message = "a pod got out".to_owned();
    status.conditions.push(open);
    assert_eq!(ready(&plan(&repo, &settled(&repo))).0, "EgressNotEnforced");
    repo.spec.egress.require_enforcement = false;
    assert_eq!(ready(&plan(&repo, &settled(&repo))).0, "Ready");
    let away = ObservedRepo { serving: Err(GatewayAway::Never), ..settled(&repo) };
    let away = plan(&repo, &away);
    assert_eq!(ready(&away), ("GatewayAway".to_owned(), GatewayAway::Never.to_string()));
    assert!(!condition::is_true(&away.status.conditions, condition::GATEWAY_SERVING));
}

#[test]
fn without_a_gateway_no_policy_lets_anything_out() {
    let repo = testing::repo();
    let mut observed = fresh(&repo);
    let missing = GatewayNotFound::MissingService { service: "system/gateway".to_owned() };
    observed.gateway = Err(missing.clone());
    let plan = plan(&repo, &observed);
    assert_eq!(ready(&plan), ("GatewayNotFound".to_owned(), missing.to_string()));
    assert!(plan.policy.is_none());
    observed.authority = None;
    observed.gateway = Ok(gateway());
    let (reason, _) = ready(&plan_repo(&repo, &observed, &testing::args(), testing::now()));
    assert_eq!(reason, "GatewayCertificateNotFound");
}

/// The VPC CNI of EKS judges a connection by the Service's address and port, and looks for pods behind it by a selector
/// that the gateway's Service has not.
#[test]
fn a_policy_allows_the_address_of_the_service_before_it_is_translated() {
    let repo = testing::repo();
    for (address, cidr, port) in
        [("10.96.0.7:8444", "10.96.0.7/32", 8444), ("[fd00::7]:8443", "fd00::7/128", 8443)]
    {
        let shard = GatewayAddress { address: address.parse().unwrap(), ..gateway() };
        let policy = children::build_policy(&repo, &shard, &testing::args());
        let egress = serde_json::to_value(policy.spec.unwrap().egress).unwrap();
        let service = json!({"to": [{"ipBlock": {"cidr": cidr}}],
                             "ports": [{"port": port, "protocol": "TCP"}]});
        assert_eq!(egress[1], service, "{egress}");
        let pods = &egress[0];
        assert_eq!(pods["ports"][0]["port"], 9443, "and its pods by theirs: {pods}");
        assert!(pods["to"][0]["podSelector"].is_object(), "{pods}");
    }
}

#[test]
fn somebody_elses_object_is_told_of_and_not_tried_again_at_once() {
    let repo = testing::repo();
    let mut observed = fresh(&repo);
    let (kind, name) = ("ServiceAccount".to_owned(), "codebutler-shop".to_owned());
    observed.refusal = Some(ApplyRefusal::NameTaken { kind, name });
    let plan = plan(&repo, &observed);
    assert!(plan.account.is_none() && plan.policy.is_none() && plan.authority.is_none());
    let (reason, message) = ready(&plan);
    assert_eq!(reason, "NameTaken");
    assert!(message.contains("`codebutler-shop`"), "{message}");
}

#[test]
fn a_suspended_repo_says_so() {
    let mut repo = answered();
    repo.spec.suspend = true;
    let plan = plan(&repo, &settled(&repo));
    assert_eq!(ready(&plan).0, "Suspended");
    assert!(condition::is_true(&plan.status.conditions, condition::SUSPENDED));
    assert!(!condition::is_true(&plan.status.conditions, condition::STALLED));
}

#[test]
fn what_somebody_changes_or_deletes_is_put_in_order_and_told() {
    let repo = answered();
    let first = plan(&repo, &settled(&repo));
    let repo = told(repo, &first);
    let gone = ObservedRepo { policy: None, ..settled(&repo) };
    assert!(plan(&repo, &gone).notices.is_empty(), "the cache may be behind");
    let later = "2026-01-01T13:00:00Z".parse().unwrap();
    let later = |observed: &ObservedRepo| plan_repo(&repo, observed, &testing::args(), later);
    let told = later(&gone);
    assert!(told.policy.is_some() && told.notices[0].reason == "Repaired", "{:?}", told.notices);
    assert!(told.notices[0].note.contains("NetworkPolicy `codebutler-shop`"));
    let mut opened = children::build_policy(&repo, &gateway(), &testing::args());
    opened.spec.as_mut().unwrap().ingress = Some(vec![<_>::default()]);
    let edited = ObservedRepo { policy: Some(Arc::new(opened)), ..settled(&repo) };
    assert_eq!(later(&edited).notices[0].reason, "Repaired");
}
