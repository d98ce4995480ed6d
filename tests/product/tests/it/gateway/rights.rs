//! Rights of somebody who has taken the gateway over: nothing that leads on to another account.

use codebutler_crds::Repo;
use codebutler_crds::condition::GIT_REACHABLE;
use codebutler_testbed::stack::manifests::secrets_binding;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::rbac::v1::RoleBinding;
use kube::Api;
use kube::api::{DeleteParams, ListParams, PostParams};
use serde_json::json;

use super::{World, eventually};

/// Ways to act as somebody else, or to have somebody else act: group, resource, subresource, verbs.
const WAYS: &[(&str, &str, &str, &[&str])] = &[
    ("", "pods", "", &["create", "update", "patch", "delete", "get", "list"]),
    ("", "pods", "status", &["update", "patch"]),
    ("", "pods", "exec", &["create", "get"]),
    ("", "pods", "attach", &["create", "get"]),
    ("", "pods", "portforward", &["create", "get"]),
    ("", "pods", "ephemeralcontainers", &["update", "patch"]),
    // Of the type that Kubernetes fills with a token, a new one would be an account.
    ("", "secrets", "", &["create", "list", "watch", "update", "patch", "delete"]),
    ("", "configmaps", "", &["create", "list", "watch", "update", "patch", "delete"]),
    // Beside another Service's own, it takes a part of its traffic.
    (
        "discovery.k8s.io",
        "endpointslices",
        "",
        &["create", "list", "watch", "update", "patch", "delete"],
    ),
    (
        "coordination.k8s.io",
        "leases",
        "",
        &["create", "list", "watch", "update", "patch", "delete"],
    ),
    ("", "serviceaccounts", "", &["create", "patch", "impersonate"]),
    ("", "serviceaccounts", "token", &["create"]),
    ("", "users", "", &["impersonate"]),
    ("", "groups", "", &["impersonate"]),
    ("", "services", "", &["create", "update", "patch"]),
    ("", "endpoints", "", &["create", "update", "patch"]),
    ("", "nodes", "", &["update", "patch"]),
    ("", "nodes", "proxy", &["get", "create"]),
    ("", "namespaces", "", &["create", "patch"]),
    ("apps", "deployments", "", &["create", "update", "patch"]),
    ("apps", "replicasets", "", &["create", "update", "patch"]),
    ("apps", "statefulsets", "", &["create", "update", "patch"]),
    ("apps", "daemonsets", "", &["create", "update", "patch"]),
    ("batch", "jobs", "", &["create", "update", "patch"]),
    ("batch", "cronjobs", "", &["create", "update", "patch"]),
    ("rbac.authorization.k8s.io", "roles", "", &["create", "patch", "bind", "escalate"]),
    ("rbac.authorization.k8s.io", "rolebindings", "", &["create", "patch"]),
    ("rbac.authorization.k8s.io", "clusterroles", "", &["create", "patch", "bind", "escalate"]),
    ("rbac.authorization.k8s.io", "clusterrolebindings", "", &["create", "patch"]),
    ("certificates.k8s.io", "certificatesigningrequests", "", &["create"]),
    ("certificates.k8s.io", "certificatesigningrequests", "approval", &["update", "patch"]),
    (
        "admissionregistration.k8s.io",
        "mutatingwebhookconfigurations",
        "",
        &["create", "update", "patch"],
    ),
    ("codebutler.dev", "agentroles", "", &["create", "update", "patch", "delete"]),
    ("codebutler.dev", "repos", "", &["create", "update", "patch", "delete"]),
];

impl World {
    /// Asks as `kubectl auth can-i` does, with the gateway's own account.
    async fn can(&self, namespace: &str, verb: &str, what: (&str, &str, &str), name: &str) -> bool {
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let (group, resource, subresource) = what;
        let attributes = ResourceAttributes {
            namespace: some(namespace),
            verb: some(verb),
            group: Some(group.to_owned()),
            resource: some(resource),
            subresource: some(subresource),
            name: some(name),
            ..ResourceAttributes::default()
        };
        let spec = SelfSubjectAccessReviewSpec {
            resource_attributes: Some(attributes),
            ..SelfSubjectAccessReviewSpec::default()
        };
        let review = SelfSubjectAccessReview { spec, ..SelfSubjectAccessReview::default() };
        let api = Api::<SelfSubjectAccessReview>::all(self.cluster.gateway.clone());
        let answer = api.create(&PostParams::default(), &review).await.unwrap();
        answer.status.unwrap().allowed
    }
}

#[tokio::test]
async fn a_gateway_that_was_taken_over_leads_to_no_other_account() {
    let world = World::start(vec![]).await;
    let (system, team) = (world.cluster.system(), world.cluster.team());
    for namespace in [system, team, "default", "kube-system", ""] {
        for (group, resource, subresource, verbs) in WAYS {
            for verb in *verbs {
                let can = world.can(namespace, verb, (group, resource, subresource), "").await;
                assert!(!can, "{verb} {group}/{resource}/{subresource} in `{namespace}`");
            }
        }
    }
    let secrets = ("", "secrets", "");
    for namespace in [system, "default", "kube-system", ""] {
        assert!(!world.can(namespace, "get", secrets, "").await, "Secrets of `{namespace}`");
        assert!(!world.can(namespace, "get", secrets, "git").await, "a Secret of `{namespace}`");
    }
    // Control: the same question is answered with yes for the gateway's own Secrets.
    assert!(world.can(team, "get", secrets, "git").await, "its team has bound it");
    assert!(world.can(system, "get", secrets, "codebutler-gateway-tls").await, "its own");
    // Sign-ins of people to servers: this one name, and only while its team has it.
    assert!(world.can(team, "patch", secrets, "codebutler-mcp-tokens").await, "its sign-ins");
    for verb in ["create", "update", "delete"] {
        assert!(
            !world.can(team, verb, secrets, "codebutler-mcp-tokens").await,
            "{verb} its sign-ins"
        );
    }
    assert!(!world.can(team, "patch", secrets, "git").await, "another Secret of the team");
    let slices = ("discovery.k8s.io", "endpointslices", "");
    assert!(world.can(system, "patch", slices, "codebutler-gateway").await, "its own Service's");
    assert!(!world.can(system, "patch", slices, "other").await, "another Service's");
    let inside = ("discovery.k8s.io", "endpointslices", "restricted");
    assert!(!world.can(system, "create", inside, "other").await, "another Service's, on OpenShift");
    // Whatever its name, what it fills was there before it.
    let leases = ("coordination.k8s.io", "leases", "");
    for (what, name) in [
        (secrets, "codebutler-gateway-tls"),
        (("", "configmaps", ""), "codebutler-gateway-ca"),
        (slices, "codebutler-gateway"),
        (leases, "codebutler-gateway"),
    ] {
        assert!(!world.can(system, "create", what, name).await, "create {name}");
        assert!(!world.can(system, "delete", what, name).await, "delete {name}");
    }
    assert!(world.can(system, "update", leases, "codebutler-gateway").await, "its own Lease");
    assert!(
        !world.can(system, "update", leases, "codebutler-controller").await,
        "the controller's"
    );
}

#[tokio::test]
async fn a_team_that_has_not_bound_its_secrets_is_told_what_to_bind() {
    let world = World::start(vec![]).await;
    let bindings = world.cluster.api::<RoleBinding>(world.cluster.team());
    bindings.delete("codebutler-gateway-secrets", &DeleteParams::default()).await.unwrap();
    let command = format!(
        "kubectl -n {} create rolebinding codebutler-gateway-secrets \
         --clusterrole=codebutler-gateway-secrets --serviceaccount={}:codebutler-gateway",
        world.cluster.team(),
        world.cluster.system(),
    );
    let (status, answer) = world.get("coder", "/v1/session").await;
    assert!(status == 502 && answer.to_string().contains(&command), "{status} {answer}");
    let git = |repo: Repo| {
        let conditions = repo.status.unwrap_or_default().conditions;
        conditions.into_iter().find(|c| c.type_ == GIT_REACHABLE).map(|c| (c.status, c.message))
    };
    let (holds, message) = git(world.repo().await).unwrap();
    assert!(holds == "False" && message.contains(&command), "{message}");
    eventually("an event says so", || async {
        let events = world.cluster.api::<Event>(world.cluster.team());
        let events = events.list(&ListParams::default()).await.unwrap();
        events.iter().any(|event| event.note.as_ref().is_some_and(|n| n.contains(&command)))
    })
    .await;
    world.cluster.apply(&secrets_binding(&world.cluster.place)).await;
    eventually("it goes on", || async { world.get("coder", "/v1/session").await.0 == 200 }).await;
    let bound = json!("True");
    assert_eq!(json!(git(world.repo().await).unwrap().0), bound);
}
