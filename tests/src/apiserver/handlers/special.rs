//! Subresources with a meaning of their own: token, binding, eviction, scale, log.

use serde_json::{Value, json};

use super::ResourceRequest;
use super::write::WriteChange;
use crate::apiserver::auth::{API_AUDIENCE, BoundToken, reviews};
use crate::apiserver::object::{self, text_at};
use crate::apiserver::patch;
use crate::apiserver::render::{self, ApiResponse};
use crate::apiserver::status::{ApiError, StatusCause};

/// Shortest and default life of a requested token (seconds).
const MIN_TOKEN: i64 = 600;
const DEFAULT_TOKEN: i64 = 3600;

impl ResourceRequest<'_> {
    /// An answer, if the path names such a subresource.
    pub(super) fn special(&self) -> Option<Result<ApiResponse, ApiError>> {
        let method = self.request.method.as_str();
        Some(match (self.target.subresource.as_str(), method) {
            ("token", "POST") => self.token(),
            ("binding", "POST") => self.bind(),
            ("eviction", "POST") => self.evict(),
            ("scale", "GET") => self.stored().map(|s| self.scale(&s.value)),
            ("scale", "PUT" | "PATCH") => self.set_scale(method),
            ("log", "GET") => {
                Err(ApiError::not_implemented("the embedded API server keeps no logs"))
            }
            ("token" | "binding" | "eviction" | "scale" | "log", _) => {
                Err(ApiError::method_not_allowed())
            }
            _ => return None,
        })
    }

    /// Kinds that are only questions.
    pub(super) fn review(&self) -> Result<ApiResponse, ApiError> {
        let mut value = self.body()?;
        self.check_identity(&mut value)?;
        let answer = reviews::answer_review(self.server, &self.kind, value, &self.request.user)?;
        Ok(render::value_answer(201, &self.accepted, &answer))
    }

    fn token(&self) -> Result<ApiResponse, ApiError> {
        let mut request = self.body()?;
        let account = self.stored()?;
        let spec = request.get("spec").cloned().unwrap_or_default();
        let seconds =
            spec.get("expirationSeconds").and_then(Value::as_i64).unwrap_or(DEFAULT_TOKEN);
        if seconds < MIN_TOKEN {
            let cause = StatusCause::invalid(
                "spec.expirationSeconds",
                &seconds.into(),
                "may not specify a duration less than 10 minutes",
            );
            return Err(ApiError::invalid("authentication.k8s.io", "TokenRequest", "", &[cause]));
        }
        let mut audiences: Vec<String> = spec
            .get("audiences")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect();
        if audiences.is_empty() {
            audiences.push(API_AUDIENCE.to_owned());
        }
        let bound = spec.get("boundObjectRef").filter(|b| !b.is_null());
        let bound = bound.map(|reference| self.bound(reference)).transpose()?;
        let (token, expires) =
            self.server.tokens.issue(&account.value, &audiences, seconds, bound.as_ref());
        request["spec"]["audiences"] = json!(audiences);
        request["spec"]["expirationSeconds"] = seconds.into();
        request["status"] =
            json!({ "token": token, "expirationTimestamp": object::whole_seconds(expires) });
        let meta = json!({
            "name": self.target.name,
            "namespace": self.target.namespace,
            "creationTimestamp": object::now_text(),
        });
        object::set_field(&mut request, "metadata", Some(meta));
        Ok(render::value_answer(201, &self.accepted, &request))
    }

    fn bound(&self, reference: &Value) -> Result<BoundToken, ApiError> {
        let field = |name: &str| reference.get(name).and_then(Value::as_str).unwrap_or_default();
        let table = match (field("apiVersion"), field("kind")) {
            ("v1" | "", "Pod") => "pods",
            ("v1" | "", "Secret") => "secrets",
            (version, kind) => {
                // In Go's form of a kind, in which the core group is empty.
                let (group, version) = version.split_once('/').unwrap_or(("", version));
                return Err(ApiError::bad_request(format!(
                    "cannot bind token to object of type {group}/{version}, Kind={kind}"
                )));
            }
        };
        let (namespace, name) = (&self.target.namespace, field("name"));
        let stored = self
            .server
            .store
            .get(table, namespace, name)
            .ok_or_else(|| ApiError::not_found("", table, name))?;
        let found = object::object_uid(&stored.value);
        if !field("uid").is_empty() && field("uid") != found {
            let why = format!(
                "the UID in the bound object reference ({}) does not match the UID in record. The object might have been deleted and then recreated",
                field("uid")
            );
            return Err(ApiError::conflict_because("", field("kind"), name, &why));
        }
        let account = text_at(&stored.value, "/spec/serviceAccountName").unwrap_or_default();
        if table == "pods" && account != self.target.name {
            return Err(ApiError::bad_request(format!(
                "cannot bind token for serviceaccount \"{}\" to pod running with different serviceaccount name.",
                self.target.name
            )));
        }
        Ok(BoundToken {
            kind: field("kind").to_owned(),
            name: name.to_owned(),
            uid: found.to_owned(),
            node: text_at(&stored.value, "/spec/nodeName").map(str::to_owned),
        })
    }

    fn bind(&self) -> Result<ApiResponse, ApiError> {
        let binding = self.body()?;
        let node = text_at(&binding, "/target/name").unwrap_or_default().to_owned();
        if node.is_empty() {
            let cause = StatusCause::required("target.name", "");
            return Err(ApiError::invalid("", "Binding", &self.target.name, &[cause]));
        }
        self.change(&WriteChange::Patch(&|live| {
            let (name, bound) =
                (&self.target.name, text_at(live, "/spec/nodeName").unwrap_or_default());
            let gates = live.pointer("/spec/schedulingGates").and_then(Value::as_array);
            let is_held = gates.is_some_and(|gates| !gates.is_empty());
            let why = (!bound.is_empty())
                .then(|| format!("pod {name} is already assigned to node \"{bound}\""))
                .or_else(|| {
                    is_held.then(|| format!("pod {name} has non-empty .spec.schedulingGates"))
                });
            if let Some(why) = why {
                return Err(ApiError::conflict_because("", "pods/binding", name, &why));
            }
            let mut pod = live.clone();
            object::map_at(&mut pod, "spec").insert("nodeName".to_owned(), node.clone().into());
            let scheduled = json!({
                "type": "PodScheduled", "status": "True", "lastProbeTime": null,
                "lastTransitionTime": object::now_text(),
            });
            let conditions =
                object::map_at(&mut pod, "status").entry("conditions").or_insert_with(|| json!([]));
            if let Some(list) = conditions.as_array_mut() {
                list.retain(|condition| condition["type"] != "PodScheduled");
                list.push(scheduled);
            }
            Ok(pod)
        }))?;
        Ok(self.success(201))
    }

    fn evict(&self) -> Result<ApiResponse, ApiError> {
        let stored = self.stored()?;
        self.server.delete(&self.kind, &stored, &super::delete::DeleteRequest::default())?;
        Ok(self.success(201))
    }

    fn success(&self, code: u16) -> ApiResponse {
        let status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": code,
        });
        render::value_answer(code, &self.accepted, &status)
    }

    fn scale(&self, value: &Value) -> ApiResponse {
        render::value_answer(200, &self.accepted, &self.scale_of(value))
    }

    fn scale_of(&self, value: &Value) -> Value {
        let Some(paths) = &self.kind.scale else { return Value::Null };
        let number =
            |pointer: &str| value.pointer(pointer).and_then(Value::as_i64).unwrap_or_default();
        let selector = match &paths.selector {
            Some(pointer) => text_at(value, pointer).unwrap_or_default().to_owned(),
            None => selector_text(value.pointer("/spec/selector/matchLabels")),
        };
        json!({
            "kind": "Scale", "apiVersion": "autoscaling/v1",
            "metadata": {
                "name": object::object_name(value), "namespace": object::object_namespace(value),
                "uid": object::object_uid(value), "resourceVersion": object::object_version(value),
                "creationTimestamp": object::meta_field(value, "creationTimestamp"),
            },
            "spec": {"replicas": number(&paths.spec)},
            "status": {"replicas": number(&paths.status), "selector": selector},
        })
    }

    fn set_scale(&self, method: &str) -> Result<ApiResponse, ApiError> {
        let Some(paths) = &self.kind.scale else { return Err(ApiError::unknown_path()) };
        let body = if method == "PUT" { self.body()? } else { Value::Null };
        let written = self.change(&WriteChange::Patch(&|live| {
            let now = self.scale_of(live);
            let wanted = match (method, self.request.content_type()) {
                ("PUT", _) => body.clone(),
                (_, "application/json-patch+json") => patch::patch_json(&now, &self.request.body)?,
                _ => patch::patch_merge(&now, &self.json()?)?,
            };
            let replicas = wanted.pointer("/spec/replicas").cloned().unwrap_or_else(|| 0.into());
            let mut value = live.clone();
            set_pointer(&mut value, &paths.spec, replicas);
            let version = object::object_version(&wanted);
            if !version.is_empty() {
                object::set_meta(&mut value, "resourceVersion", Some(version.into()));
            }
            Ok(value)
        }))?;
        Ok(self.scale(&written.value))
    }
}

fn set_pointer(value: &mut Value, pointer: &str, new: Value) {
    let (parents, last) = pointer.rsplit_once('/').unwrap_or(("", pointer));
    let mut at = value;
    for part in parents.split('/').filter(|p| !p.is_empty()) {
        at = object::object_fields(at).entry(part).or_insert_with(|| json!({}));
    }
    object::set_field(at, last, Some(new));
}

fn selector_text(labels: Option<&Value>) -> String {
    let labels = labels.and_then(Value::as_object).into_iter().flatten();
    labels
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect::<Vec<_>>()
        .join(",")
}
