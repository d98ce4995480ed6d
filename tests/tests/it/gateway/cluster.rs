//! As much of a cluster as the gateway's API meets: objects, their watch caches, and token reviews.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use axum::body::Body;
use bytes::Bytes;
use codebutler_crds::{AgentRole, Repo, Thread};
use codebutler_operator::gateway::context::Context;
use codebutler_operator::gateway::identity::PodIndex;
use http::{Method, Request, Response};
use http_body_util::BodyExt as _;
use k8s_openapi::api::core::v1::Secret;
use kube::client::Body as KubeBody;
use kube::runtime::reflector::{self, store::Writer};
use kube::runtime::watcher::Event;
use kube::{Client, ResourceExt as _};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// A token's owner as a review tells it.
#[derive(Clone)]
pub struct Owner {
    pub username: String,
    pub pod_uid: Option<String>,
    pub audience: String,
}

#[derive(Clone)]
pub struct Cluster(Arc<Mutex<State>>);

struct State {
    objects: BTreeMap<String, Value>,
    tokens: BTreeMap<String, Owner>,
    reviews: usize,
    revision: u64,
    threads: Writer<Thread>,
    repos: Writer<Repo>,
    roles: Writer<AgentRole>,
    index: PodIndex,
}

impl Cluster {
    pub fn new() -> (Self, Context, PodIndex) {
        let (threads, thread_writer) = reflector::store();
        let (repos, repo_writer) = reflector::store();
        let (roles, role_writer) = reflector::store();
        let index = PodIndex::default();
        let state = State {
            objects: BTreeMap::new(),
            tokens: BTreeMap::new(),
            reviews: 0,
            revision: 0,
            threads: thread_writer,
            repos: repo_writer,
            roles: role_writer,
            index: index.clone(),
        };
        let cluster = Self(Arc::new(Mutex::new(state)));
        let server = cluster.clone();
        let service = tower::service_fn(move |request: Request<KubeBody>| {
            let server = server.clone();
            async move { Ok::<_, Infallible>(server.serve(request).await) }
        });
        let client = Client::new(service, "default");
        let namespace = "codebutler-system".to_owned();
        (cluster, Context { client, namespace, repos, roles, threads }, index)
    }

    pub fn add_token(&self, token: &str, owner: Owner) {
        self.0.lock().unwrap().tokens.insert(token.to_owned(), owner);
    }

    pub fn reviews(&self) -> usize {
        self.0.lock().unwrap().reviews
    }

    pub fn put(&self, kind: &str, mut object: Value) {
        let mut state = self.0.lock().unwrap();
        let namespace = object["metadata"]["namespace"].as_str().unwrap().to_owned();
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        state.revision += 1;
        object["metadata"]["resourceVersion"] = state.revision.to_string().into();
        object["metadata"]["uid"] = format!("uid-{name}").into();
        state.observe(kind, &object);
        state.objects.insert(format!("{namespace}/{kind}/{name}"), object);
    }

    pub fn secret(&self, name: &str, host: &str, key: &str, value: &str) {
        let object = json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {
                "namespace": "team", "name": name,
                "annotations": {"codebutler.dev/hosts": host},
            },
            "data": {},
        });
        let mut secret: Secret = serde_json::from_value(object).unwrap();
        let data = k8s_openapi::ByteString(value.as_bytes().to_vec());
        secret.data = Some([(key.to_owned(), data)].into());
        self.put("secrets", serde_json::to_value(secret).unwrap());
    }

    pub fn get<K: DeserializeOwned>(&self, kind: &str, name: &str) -> K {
        self.get_in("team", kind, name)
    }

    pub fn get_in<K: DeserializeOwned>(&self, namespace: &str, kind: &str, name: &str) -> K {
        let state = self.0.lock().unwrap();
        serde_json::from_value(state.objects[&format!("{namespace}/{kind}/{name}")].clone())
            .unwrap()
    }

    /// Merges into an object as `kubectl patch` would.
    pub fn patch(&self, kind: &str, name: &str, patch: &Value) {
        let mut object: Value = self.get(kind, name);
        json_patch::merge(&mut object, patch);
        self.put(kind, object);
    }

    async fn serve(&self, request: Request<KubeBody>) -> Response<Body> {
        let (head, body) = request.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let (status, answer) = self.answer(&head.method, head.uri.path(), &body);
        let response =
            Response::builder().status(status).header("content-type", "application/json");
        response.body(Body::from(answer.to_string())).unwrap()
    }

    fn answer(&self, method: &Method, path: &str, body: &Bytes) -> (u16, Value) {
        let parts: Vec<_> = path.split('/').collect();
        if parts.last() == Some(&"tokenreviews") {
            return (201, self.review(&serde_json::from_slice(body).unwrap()));
        }
        let Some(at) = parts.iter().position(|part| *part == "namespaces") else {
            return refused(404, "NotFound");
        };
        let (namespace, kind) = (parts[at + 1], parts[at + 2]);
        if kind == "events" {
            return (201, serde_json::from_slice(body).unwrap());
        }
        let Some(name) = parts.get(at + 3) else {
            return self.create(namespace, kind, serde_json::from_slice(body).unwrap());
        };
        let key = format!("{namespace}/{kind}/{name}");
        let Some(mut object) = self.0.lock().unwrap().objects.get(&key).cloned() else {
            return refused(404, "NotFound");
        };
        if *method == Method::PATCH {
            let patch: Value = serde_json::from_slice(body).unwrap();
            let wanted = &patch["metadata"]["resourceVersion"];
            if !wanted.is_null() && *wanted != object["metadata"]["resourceVersion"] {
                return refused(409, "Conflict");
            }
            json_patch::merge(&mut object, &patch);
            self.put(kind, object);
            object = self.0.lock().unwrap().objects[&key].clone();
        }
        (200, object)
    }

    fn create(&self, namespace: &str, kind: &str, mut object: Value) -> (u16, Value) {
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        let key = format!("{namespace}/{kind}/{name}");
        if self.0.lock().unwrap().objects.contains_key(&key) {
            return refused(409, "AlreadyExists");
        }
        object["metadata"]["namespace"] = namespace.into();
        self.put(kind, object);
        (201, self.0.lock().unwrap().objects[&key].clone())
    }

    fn review(&self, asked: &Value) -> Value {
        let mut state = self.0.lock().unwrap();
        state.reviews += 1;
        let token = asked["spec"]["token"].as_str().unwrap();
        let audience = asked["spec"]["audiences"][0].as_str().unwrap();
        let mut answer = asked.clone();
        let owner = state.tokens.get(token).filter(|owner| owner.audience == audience);
        answer["status"] = match owner {
            None => json!({"authenticated": false, "error": "token is not valid"}),
            Some(owner) => {
                let extra = owner.pod_uid.as_ref().map_or_else(
                    || json!({}),
                    |uid| json!({"authentication.kubernetes.io/pod-uid": [uid]}),
                );
                let user = json!({"username": owner.username, "extra": extra});
                json!({"authenticated": true, "audiences": [audience], "user": user})
            }
        };
        answer
    }
}

impl State {
    fn observe(&mut self, kind: &str, object: &Value) {
        let object = object.clone();
        match kind {
            "threads" => {
                let thread: Thread = serde_json::from_value(object).unwrap();
                assert!(!thread.name_any().is_empty());
                let event = Event::Apply(thread);
                self.threads.apply_watcher_event(&event);
                self.index.observe(&event);
            }
            "repos" => {
                let repo: Repo = serde_json::from_value(object).unwrap();
                self.repos.apply_watcher_event(&Event::Apply(repo));
            }
            "agentroles" => {
                let role: AgentRole = serde_json::from_value(object).unwrap();
                self.roles.apply_watcher_event(&Event::Apply(role));
            }
            _ => {}
        }
    }
}

fn refused(code: u16, reason: &str) -> (u16, Value) {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": reason, "reason": reason, "code": code,
    });
    (code, status)
}
