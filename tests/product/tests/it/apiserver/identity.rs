//! Authentication of callers, and authorization of their requests.

use std::time::Duration;

use k8s_openapi::api::authentication::v1::{
    BoundObjectReference, TokenRequest, TokenRequestSpec, TokenReview, TokenReviewSpec,
};
use k8s_openapi::api::core::v1::{ConfigMap, ServiceAccount};
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config, ResourceExt as _};
use serde_json::json;

use super::{Fixture, pod, refusal};

const AUDIENCE: &str = "codebutler-gateway";

impl Fixture {
    async fn client_of(&self, account: &str) -> Client {
        let life = Duration::from_hours(1);
        let yaml = self.cluster.kubeconfig_for(&self.namespace, account, life).await.unwrap();
        let config = Kubeconfig::from_yaml(&yaml).unwrap();
        let options = KubeConfigOptions::default();
        Client::try_from(Config::from_custom_kubeconfig(config, &options).await.unwrap()).unwrap()
    }

    /// A token of the account `default`, bound to a pod.
    async fn token(&self, pod: Option<(&str, &str)>, seconds: i64) -> kube::Result<String> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), &self.namespace);
        let bound_object_ref = pod.map(|(name, uid)| BoundObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Pod".to_owned()),
            name: Some(name.to_owned()),
            uid: Some(uid.to_owned()),
        });
        let request = TokenRequest {
            spec: TokenRequestSpec {
                audiences: vec![AUDIENCE.to_owned()],
                expiration_seconds: Some(seconds),
                bound_object_ref,
            },
            ..TokenRequest::default()
        };
        let answer =
            accounts.create_token_request("default", &PostParams::default(), &request).await?;
        Ok(answer.status.unwrap().token)
    }

    async fn review(&self, token: &str, audience: &str) -> TokenReview {
        let api: Api<TokenReview> = Api::all(self.client.clone());
        let review = TokenReview {
            spec: TokenReviewSpec {
                audiences: Some(vec![audience.to_owned()]),
                token: Some(token.to_owned()),
            },
            ..TokenReview::default()
        };
        api.create(&PostParams::default(), &review).await.unwrap()
    }
}

fn authenticated(review: &TokenReview) -> bool {
    review.status.as_ref().and_then(|s| s.authenticated).unwrap_or(false)
}

#[tokio::test]
async fn a_bound_token_names_its_pod_and_dies_with_it() {
    let fixture = Fixture::new().await;
    let pods = fixture.pods();
    let made = pods.create(&PostParams::default(), &pod("p")).await.unwrap();
    let uid = made.uid().unwrap();
    let token = fixture.token(Some(("p", &uid)), 3600).await.unwrap();

    let review = fixture.review(&token, AUDIENCE).await;
    assert!(authenticated(&review), "{review:?}");
    let status = review.status.unwrap();
    assert_eq!(status.audiences.unwrap(), [AUDIENCE]);
    let user = status.user.unwrap();
    let name = format!("system:serviceaccount:{}:default", fixture.namespace);
    assert_eq!(user.username.as_deref(), Some(name.as_str()));
    let groups = user.groups.unwrap();
    for group in [
        "system:serviceaccounts".to_owned(),
        format!("system:serviceaccounts:{}", fixture.namespace),
        "system:authenticated".to_owned(),
    ] {
        assert!(groups.contains(&group), "{group}");
    }
    let extra = user.extra.unwrap();
    assert_eq!(extra["authentication.kubernetes.io/pod-name"], ["p"]);
    assert_eq!(extra["authentication.kubernetes.io/pod-uid"][0], uid);

    assert!(!authenticated(&fixture.review(&token, "another").await));
    assert!(!authenticated(&fixture.review(&format!("{token}x"), AUDIENCE).await));
    let loose = fixture.token(None, 3600).await.unwrap();
    let review = fixture.review(&loose, AUDIENCE).await;
    assert!(authenticated(&review));
    let extra = review.status.unwrap().user.unwrap().extra.unwrap_or_default();
    assert!(!extra.contains_key("authentication.kubernetes.io/pod-uid"));

    // A pod of the same name is another pod.
    pods.delete("p", &DeleteParams::default().grace_period(0)).await.unwrap();
    // A server may know a token for ten seconds before it looks again.
    let ended = async {
        while authenticated(&fixture.review(&token, AUDIENCE).await) {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), ended).await.unwrap();
    pods.create(&PostParams::default(), &pod("p")).await.unwrap();
    assert!(!authenticated(&fixture.review(&token, AUDIENCE).await));
    let wrong = refusal(fixture.token(Some(("p", &uid)), 3600).await);
    assert_eq!(wrong.code, 409);
    let short = refusal(fixture.token(None, 60).await);
    assert!(short.message.contains("may not specify a duration less than 10 minutes"));
    fixture.done().await;
}

#[tokio::test]
async fn an_account_may_do_what_is_bound_to_it_and_nothing_else() {
    let fixture = Fixture::new().await;
    fixture.account("worker").await;
    let worker = fixture.client_of("worker").await;
    let maps: Api<ConfigMap> = Api::namespaced(worker.clone(), &fixture.namespace);
    let refused = refusal(maps.list(&ListParams::default()).await);
    assert_eq!((refused.code, refused.reason.as_str()), (403, "Forbidden"));
    assert_eq!(
        refused.message,
        format!(
            "configmaps is forbidden: User \"system:serviceaccount:{0}:worker\" cannot list resource \"configmaps\" in API group \"\" in the namespace \"{0}\"",
            fixture.namespace
        )
    );
    let rules = format!(
        r#"
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {{name: reader, namespace: {0}}}
rules:
- {{apiGroups: [""], resources: [configmaps], verbs: [list]}}
- {{apiGroups: [""], resources: [configmaps], resourceNames: [mine], verbs: [get, update]}}
- {{apiGroups: [codebutler.dev], resources: [threads/status], verbs: [patch]}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {{name: reader, namespace: {0}}}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: Role, name: reader}}
subjects: [{{kind: ServiceAccount, name: worker}}]
"#,
        fixture.namespace
    );
    fixture.cluster.apply_yaml(&rules).await.unwrap();
    let allowed = async {
        while maps.list(&ListParams::default()).await.is_err() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), allowed).await.unwrap();
    assert_eq!(refusal(maps.get("mine").await).code, 404);
    assert_eq!(refusal(maps.get("yours").await).code, 403);
    let elsewhere: Api<ConfigMap> = Api::namespaced(worker.clone(), "kube-system");
    assert_eq!(refusal(elsewhere.list(&ListParams::default()).await).code, 403);

    fixture.threads().create(&PostParams::default(), &super::thread("t")).await.unwrap();
    let threads: Api<codebutler_crds::Thread> = Api::namespaced(worker, &fixture.namespace);
    let patch = kube::api::Patch::Merge(json!({"status": {"phase": "pm"}}));
    let params = kube::api::PatchParams::default();
    threads.patch_status("t", &params, &patch).await.unwrap();
    let refused = refusal(threads.patch("t", &params, &patch).await);
    assert!(refused.message.starts_with("threads.codebutler.dev \"t\" is forbidden: User"));
    fixture.done().await;
}

#[tokio::test]
async fn strangers_are_turned_away() {
    let fixture = Fixture::new().await;
    let with_token = async |token: &str| {
        let mut config = Kubeconfig::read_from(fixture.cluster.kubeconfig()).unwrap();
        for user in &mut config.auth_infos {
            user.auth_info = Some(kube::config::AuthInfo {
                token: Some(token.to_owned().into()),
                ..kube::config::AuthInfo::default()
            });
        }
        let options = KubeConfigOptions::default();
        let config = Config::from_custom_kubeconfig(config, &options).await.unwrap();
        let maps: Api<ConfigMap> =
            Api::namespaced(Client::try_from(config).unwrap(), &fixture.namespace);
        refusal(maps.list(&ListParams::default()).await)
    };
    let unknown = with_token("not-a-token").await;
    assert_eq!((unknown.code, unknown.reason.as_str()), (401, "Unauthorized"));
    // Valid, but meant for others.
    let token = fixture.token(None, 3600).await.unwrap();
    assert_eq!(with_token(&token).await.code, 401);
    fixture.done().await;
}

#[tokio::test]
async fn the_administrators_kubeconfig_is_private() {
    use std::os::unix::fs::PermissionsExt as _;
    let fixture = Fixture::new().await;
    let mode = std::fs::metadata(fixture.cluster.kubeconfig()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert!(fixture.cluster.version().await.unwrap().starts_with("v1."));
    fixture.done().await;
}

#[tokio::test]
async fn nobody_grants_more_than_he_has() {
    let fixture = Fixture::new().await;
    fixture.account("manager").await;
    let manifest = format!(
        r#"
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {{name: manager, namespace: {0}}}
rules:
- {{apiGroups: [rbac.authorization.k8s.io], resources: [roles], verbs: [create]}}
- {{apiGroups: [""], resources: [configmaps], verbs: [get, list]}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {{name: manager, namespace: {0}}}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: Role, name: manager}}
subjects: [{{kind: ServiceAccount, name: manager}}]
"#,
        fixture.namespace
    );
    fixture.cluster.apply_yaml(&manifest).await.unwrap();
    let client = fixture.client_of("manager").await;
    let roles = Api::<kube::api::DynamicObject>::namespaced_with(
        client,
        &fixture.namespace,
        &super::resource("rbac.authorization.k8s.io/v1", "Role", "roles"),
    );
    let granting = |name: &str, verb: &str| {
        super::object(json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
            "metadata": {"name": name},
            "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": [verb]}],
        }))
    };
    let post = PostParams::default();
    let allowed = async {
        while roles.create(&post, &granting("less", "get")).await.is_err() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), allowed).await.unwrap();
    let refused = refusal(roles.create(&post, &granting("more", "delete")).await);
    assert_eq!(refused.code, 403);
    let part = "is attempting to grant RBAC permissions not currently held";
    assert!(refused.message.contains(part), "{}", refused.message);
    fixture.done().await;
}

#[tokio::test]
async fn a_namespace_can_demand_restricted_pods() {
    let fixture = Fixture::new().await;
    let namespaces: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(fixture.client.clone());
    let label =
        json!({"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}});
    let params = kube::api::PatchParams::default();
    let patch = kube::api::Patch::Merge(label);
    namespaces.patch(&fixture.namespace, &params, &patch).await.unwrap();
    let refused = refusal(fixture.pods().create(&PostParams::default(), &pod("p")).await);
    let start = "pods \"p\" is forbidden: violates PodSecurity \"restricted:latest\": allowPrivilegeEscalation != false";
    assert!(refused.message.starts_with(start), "{}", refused.message);
    fixture.done().await;
}
