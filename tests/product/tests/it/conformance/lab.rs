//! Plain requests and what can be said of their answers.

use std::time::Duration;

use codebutler_testbed::cluster::{TestCluster, kubeconfig_with_token};
use futures::{AsyncBufReadExt as _, StreamExt as _, TryStreamExt as _};
use http_body_util::BodyExt as _;
use kube::client::Body;
use kube::config::KubeConfigOptions;
use kube::{Client, Config};
use serde_json::{Value, json};

/// Timeout of one behaviour.
pub(super) const PATIENCE: Duration = Duration::from_mins(1);

/// Plural, API version, kind and whether it lives in a namespace.
const KINDS: &[(&str, &str, &str, bool)] = &[
    ("configmaps", "v1", "ConfigMap", true),
    ("secrets", "v1", "Secret", true),
    ("pods", "v1", "Pod", true),
    ("services", "v1", "Service", true),
    ("serviceaccounts", "v1", "ServiceAccount", true),
    ("persistentvolumeclaims", "v1", "PersistentVolumeClaim", true),
    ("events", "v1", "Event", true),
    ("limitranges", "v1", "LimitRange", true),
    ("namespaces", "v1", "Namespace", false),
    ("deployments", "apps/v1", "Deployment", true),
    ("leases", "coordination.k8s.io/v1", "Lease", true),
    ("networkpolicies", "networking.k8s.io/v1", "NetworkPolicy", true),
    ("roles", "rbac.authorization.k8s.io/v1", "Role", true),
    ("rolebindings", "rbac.authorization.k8s.io/v1", "RoleBinding", true),
    ("clusterroles", "rbac.authorization.k8s.io/v1", "ClusterRole", false),
    ("storageclasses", "storage.k8s.io/v1", "StorageClass", false),
    ("customresourcedefinitions", "apiextensions.k8s.io/v1", "CustomResourceDefinition", false),
    ("threads", "codebutler.dev/v1alpha1", "Thread", true),
    ("repos", "codebutler.dev/v1alpha1", "Repo", true),
    ("tokenreviews", "authentication.k8s.io/v1", "TokenReview", false),
    ("selfsubjectreviews", "authentication.k8s.io/v1", "SelfSubjectReview", false),
    ("subjectaccessreviews", "authorization.k8s.io/v1", "SubjectAccessReview", false),
    ("selfsubjectaccessreviews", "authorization.k8s.io/v1", "SelfSubjectAccessReview", false),
    ("selfsubjectrulesreviews", "authorization.k8s.io/v1", "SelfSubjectRulesReview", false),
];

/// A namespace of a behaviour's own, and somebody's access to it.
#[derive(Clone)]
pub(super) struct Lab {
    client: Client,
    admin: Client,
    pub namespace: String,
    access: kube::config::Cluster,
}

/// Response of the API server.
#[derive(Debug)]
pub(super) struct Reply {
    pub code: u16,
    pub warnings: Vec<String>,
    pub content_type: String,
    pub text: String,
    pub json: Value,
}

impl Lab {
    pub(super) async fn new(cluster: &TestCluster) -> Self {
        let client = cluster.client_without_retries().await.unwrap();
        let mut lab = Self {
            admin: client.clone(),
            client,
            namespace: String::new(),
            access: cluster.access(),
        };
        let made = lab.post("namespaces", json!({"metadata": {"generateName": "conf-"}})).await;
        lab.namespace = made.ok(201)["metadata"]["name"].as_str().unwrap().to_owned();
        // A bare control plane has no controller that makes it.
        lab.post("serviceaccounts", json!({"metadata": {"name": "default"}})).await;
        lab
    }

    /// The same access to another namespace.
    pub(super) fn within(&self, namespace: &str) -> Self {
        Self { namespace: namespace.to_owned(), ..self.clone() }
    }

    pub(super) async fn clean(&self) {
        let admin = Self { client: self.admin.clone(), ..self.clone() };
        admin.delete(&format!("namespaces/{}", self.namespace), Value::Null).await;
    }

    /// The same namespace with a bearer token; the empty one is nobody's.
    pub(super) async fn with_token(&self, token: &str) -> Self {
        let mut config = kubeconfig_with_token(&self.access, token, None);
        if token.is_empty() {
            config.auth_infos.clear();
            for context in &mut config.contexts {
                if let Some(context) = &mut context.context {
                    context.user = None;
                }
            }
        }
        let options = KubeConfigOptions::default();
        let mut config = Config::from_custom_kubeconfig(config, &options).await.unwrap();
        config.default_retry = false;
        Self { client: Client::try_from(config).unwrap(), ..self.clone() }
    }

    /// Makes a ServiceAccount in this namespace, and returns a lab that acts as it.
    pub(super) async fn account(&self, name: &str) -> Self {
        self.post("serviceaccounts", json!({"metadata": {"name": name}})).await;
        let token = self.token(name, json!({})).await;
        self.with_token(token.ok(201)["status"]["token"].as_str().unwrap()).await
    }

    pub(super) async fn token(&self, account: &str, spec: Value) -> Reply {
        let request = json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec,
        });
        self.post(&format!("serviceaccounts/{account}/token"), request).await
    }

    /// Gives an account of this namespace rules of a Role.
    pub(super) async fn allow(&self, account: &str, rules: Value) {
        let meta = json!({"name": account});
        self.post("roles", json!({"metadata": meta, "rules": rules})).await.ok(201);
        let binding = json!({
            "metadata": meta,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": account},
            "subjects": [{
                "kind": "ServiceAccount", "name": account, "namespace": self.namespace,
            }],
        });
        self.post("rolebindings", binding).await.ok(201);
    }

    fn path(&self, path: &str) -> String {
        if path.starts_with('/') {
            return path.to_owned();
        }
        let plural = path.split(['/', '?']).next().unwrap();
        let (_, version, _, namespaced) = kind(plural).unwrap_or_else(|| panic!("{plural}"));
        let root = if version.contains('/') { "/apis" } else { "/api" };
        let place =
            if namespaced { format!("namespaces/{}/", self.namespace) } else { String::new() };
        format!("{root}/{version}/{place}{path}")
    }

    pub(super) async fn call(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Vec<u8>,
    ) -> Reply {
        let mut request = http::Request::builder().method(method).uri(self.path(path));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = self.client.send(request.body(Body::from(body)).unwrap()).await.unwrap();
        let (parts, body) = response.into_parts();
        let text = String::from_utf8_lossy(&body.collect().await.unwrap().to_bytes()).into_owned();
        let header = |name: &str| {
            let values = parts.headers.get_all(name).iter();
            values.map(|v| String::from_utf8_lossy(v.as_bytes()).into_owned()).collect::<Vec<_>>()
        };
        Reply {
            code: parts.status.as_u16(),
            warnings: header("warning"),
            content_type: header("content-type").join(","),
            json: serde_json::from_str(&text).unwrap_or_default(),
            text,
        }
    }

    async fn send(&self, method: &str, path: &str, media: &str, body: &Value) -> Reply {
        let headers = [("content-type", media), ("accept", "application/json")];
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let headers = if body.is_empty() { &headers[1..] } else { &headers[..] };
        self.call(method, path, headers, body).await
    }

    pub(super) async fn get(&self, path: &str) -> Reply {
        self.send("GET", path, "", &Value::Null).await
    }

    pub(super) async fn post(&self, path: &str, body: Value) -> Reply {
        self.send("POST", path, "application/json", &typed(path, body)).await
    }

    pub(super) async fn put(&self, path: &str, body: Value) -> Reply {
        self.send("PUT", path, "application/json", &typed(path, body)).await
    }

    pub(super) async fn merge(&self, path: &str, change: Value) -> Reply {
        self.send("PATCH", path, "application/merge-patch+json", &change).await
    }

    pub(super) async fn json_patch(&self, path: &str, change: Value) -> Reply {
        self.send("PATCH", path, "application/json-patch+json", &change).await
    }

    pub(super) async fn strategic(&self, path: &str, change: Value) -> Reply {
        self.send("PATCH", path, "application/strategic-merge-patch+json", &change).await
    }

    /// The query names the manager.
    pub(super) async fn apply(&self, path: &str, config: Value) -> Reply {
        self.send("PATCH", path, "application/apply-patch+yaml", &typed(path, config)).await
    }

    pub(super) async fn delete(&self, path: &str, options: Value) -> Reply {
        self.send("DELETE", path, "application/json", &options).await
    }

    /// Gets a resource in another representation.
    pub(super) async fn get_as(&self, path: &str, accept: &str) -> Reply {
        self.call("GET", path, &[("accept", accept)], Vec::new()).await
    }

    /// The lines of a watch until it ends or `enough` says so.
    pub(super) async fn watch(&self, path: &str, enough: impl Fn(&[Value]) -> bool) -> Vec<Value> {
        let request = http::Request::get(self.path(path)).header("accept", "application/json");
        let response = self.client.send(request.body(Body::empty()).unwrap()).await.unwrap();
        assert_eq!(response.status().as_u16(), 200, "the watch is refused");
        let body = response.into_body().into_data_stream();
        let reader = body.map_err(std::io::Error::other).into_async_read();
        let mut lines = futures::io::BufReader::new(reader).lines();
        let mut events = Vec::new();
        while !enough(&events) {
            let next = tokio::time::timeout(PATIENCE / 2, lines.next()).await;
            let Some(line) = next.unwrap_or_else(|_| panic!("only {events:?}")) else { break };
            let event: Value = serde_json::from_str(&line.unwrap()).unwrap();
            // A controller manager puts it into every namespace, at its own time.
            if event["object"]["metadata"]["name"] != "kube-root-ca.crt" {
                events.push(event);
            }
        }
        events
    }

    /// Polls until there is an answer.
    pub(super) async fn until<T, F: Future<Output = Option<T>>>(
        &self,
        what: &str,
        look: impl Fn() -> F,
    ) -> T {
        let polled = async {
            loop {
                if let Some(found) = look().await {
                    return found;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(PATIENCE / 2, polled).await.unwrap_or_else(|_| panic!("no {what}"))
    }
}

fn kind(plural: &str) -> Option<(&'static str, &'static str, &'static str, bool)> {
    KINDS.iter().find(|k| k.0 == plural).copied()
}

/// Adds what the path says of the kind, unless the body does.
fn typed(path: &str, mut body: Value) -> Value {
    let plural = path.split(['/', '?']).next().unwrap();
    if let Some((_, version, kind, _)) = kind(plural)
        && body.is_object()
        && body.get("kind").is_none()
    {
        body["apiVersion"] = version.into();
        body["kind"] = kind.into();
    }
    body
}

impl Reply {
    #[track_caller]
    pub(super) fn ok(&self, code: u16) -> &Value {
        assert_eq!(self.code, code, "{}", self.text);
        &self.json
    }

    /// A Status with this code and reason, and a message with all of these parts.
    #[track_caller]
    pub(super) fn refused(&self, code: u16, reason: &str, parts: &[&str]) -> &Self {
        assert_eq!(self.code, code, "{}", self.text);
        assert_eq!(self.json["kind"], "Status", "{}", self.text);
        assert_eq!(self.json["status"], "Failure", "{}", self.text);
        assert_eq!(self.json["code"], code, "{}", self.text);
        assert_eq!(self.json["reason"].as_str().unwrap_or_default(), reason, "{}", self.text);
        for part in parts {
            assert!(self.message().contains(part), "`{part}` is not in `{}`", self.message());
        }
        self
    }

    /// The same with the whole message.
    #[track_caller]
    pub(super) fn says(&self, code: u16, reason: &str, message: &str) -> &Self {
        self.refused(code, reason, &[]);
        assert_eq!(self.message(), message);
        self
    }

    /// `details` without causes.
    #[track_caller]
    pub(super) fn about(&self, name: &str, group: &str, kind: &str) -> &Self {
        let text = |field: &str| self.json["details"][field].as_str().unwrap_or_default();
        assert_eq!(
            (text("name"), text("group"), text("kind")),
            (name, group, kind),
            "{}",
            self.text
        );
        self
    }

    /// Asserts that one of the causes has this field and reason.
    #[track_caller]
    pub(super) fn cause(&self, field: &str, reason: &str) -> &Self {
        let causes = self.json["details"]["causes"].as_array().cloned().unwrap_or_default();
        let found = causes
            .iter()
            .any(|c| c["field"].as_str().unwrap_or_default() == field && c["reason"] == reason);
        assert!(found, "{reason} of {field} is not among {causes:?}");
        self
    }

    pub(super) fn message(&self) -> &str {
        self.json["message"].as_str().unwrap_or_default()
    }

    #[track_caller]
    pub(super) fn warned(&self, part: &str) -> &Self {
        assert!(self.warnings.iter().any(|w| w.contains(part)), "{part}: {:?}", self.warnings);
        self
    }
}

/// A ConfigMap with one key.
pub(super) fn map(name: &str) -> Value {
    json!({"metadata": {"name": name}, "data": {"a": "1"}})
}

/// A pod that no scheduler takes.
pub(super) fn pod(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {
        "schedulerName": "nobody", "automountServiceAccountToken": false,
        "containers": [{"name": "main", "image": "image:1"}],
    }})
}

pub(super) fn thread(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {
        "repo": "shop", "slack": {"channel": "C0123", "ts": "1700000000.000100"},
    }})
}

/// The resourceVersion of an object or list.
pub(super) fn version(value: &Value) -> &str {
    value["metadata"]["resourceVersion"].as_str().unwrap()
}

pub(super) fn uid(value: &Value) -> &str {
    value["metadata"]["uid"].as_str().unwrap()
}
