//! The review APIs: who is this, and may he.

use std::sync::Arc;

use serde_json::{Value, json};

use super::rbac::{find_reason, list_rules};
use super::{API_AUDIENCE, ApiUser, RequestAttributes};
use crate::apiserver::ServerState;
use crate::apiserver::kinds::ServedKind;
use crate::apiserver::object::{self, text_at};
use crate::apiserver::status::{ApiError, StatusCause};

/// Answers a review by filling in its status.
pub(crate) fn answer_review(
    server: &Arc<ServerState>,
    kind: &ServedKind,
    mut review: Value,
    caller: &ApiUser,
) -> Result<Value, ApiError> {
    check_review(kind, &review)?;
    let status = match kind.plural.as_str() {
        "tokenreviews" => review_token(server, &review),
        "selfsubjectreviews" => json!({ "userInfo": caller.to_json() }),
        "selfsubjectaccessreviews" => review_access(server, caller, &review["spec"]),
        "subjectaccessreviews" | "localsubjectaccessreviews" => {
            review_access(server, &review_subject(&review["spec"]), &review["spec"])
        }
        "selfsubjectrulesreviews" => all_rules(server, caller, &review),
        _ => return Err(ApiError::unknown_path()),
    };
    object::set_field(&mut review, "status", Some(status));
    object::set_meta(&mut review, "creationTimestamp", None);
    Ok(review)
}

/// Validates a review's spec before it is answered.
fn check_review(kind: &ServedKind, review: &Value) -> Result<(), ApiError> {
    let spec = review.get("spec").unwrap_or(&Value::Null);
    let has = |field: &str| spec.get(field).is_some_and(|value| !value.is_null());
    let mut causes = Vec::new();
    match kind.plural.as_str() {
        "tokenreviews" if text_at(spec, "/token").unwrap_or_default().is_empty() => {
            let why = "token is required for TokenReview in authentication";
            return Err(ApiError::bad_request(why));
        }
        "selfsubjectrulesreviews" if text_at(spec, "/namespace").unwrap_or_default().is_empty() => {
            return Err(ApiError::bad_request("no namespace on request"));
        }
        "selfsubjectaccessreviews" | "subjectaccessreviews" | "localsubjectaccessreviews" => {
            if has("resourceAttributes") == has("nonResourceAttributes") {
                causes.push(StatusCause::invalid(
                    "spec.resourceAttributes",
                    &Value::Null,
                    "exactly one of nonResourceAttributes or resourceAttributes must be specified",
                ));
            }
            let nobody = text_at(spec, "/user").unwrap_or_default().is_empty() && !has("groups");
            if kind.plural != "selfsubjectaccessreviews" && nobody {
                let why = "at least one of user or group must be specified";
                causes.push(StatusCause::invalid("spec.user", &"".into(), why));
            }
        }
        _ => {}
    }
    if causes.is_empty() {
        return Ok(());
    }
    Err(ApiError::invalid(&kind.group, &kind.kind, object::object_name(review), &causes))
}

fn review_token(server: &ServerState, review: &Value) -> Value {
    let mut audiences: Vec<String> = review
        .pointer("/spec/audiences")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect();
    if audiences.is_empty() {
        audiences.push(API_AUDIENCE.to_owned());
    }
    let token = text_at(review, "/spec/token").unwrap_or_default();
    if let Some(user) = server.static_user(token) {
        return json!({ "authenticated": true, "user": user.to_json(), "audiences": audiences });
    }
    match server.tokens.check(token, &audiences, &server.store) {
        Ok((user, audiences)) => {
            json!({ "authenticated": true, "user": user.to_json(), "audiences": audiences })
        }
        // Never with the token's own words.
        Err(error) => json!({
            "user": {},
            "error": format!("[invalid bearer token, {error}]"),
        }),
    }
}

fn review_subject(spec: &Value) -> ApiUser {
    let list = spec.get("groups").and_then(Value::as_array).into_iter().flatten();
    ApiUser {
        name: text_at(spec, "/user").unwrap_or_default().to_owned(),
        groups: list.filter_map(Value::as_str).map(str::to_owned).collect(),
        ..ApiUser::default()
    }
}

fn review_access(server: &ServerState, user: &ApiUser, spec: &Value) -> Value {
    let get = |pointer: &str| text_at(spec, pointer).unwrap_or_default().to_owned();
    let wanted = if spec.get("resourceAttributes").is_some_and(|r| !r.is_null()) {
        RequestAttributes {
            verb: get("/resourceAttributes/verb"),
            group: get("/resourceAttributes/group"),
            resource: get("/resourceAttributes/resource"),
            subresource: get("/resourceAttributes/subresource"),
            namespace: get("/resourceAttributes/namespace"),
            name: get("/resourceAttributes/name"),
            path: String::new(),
        }
    } else {
        RequestAttributes {
            verb: get("/nonResourceAttributes/verb"),
            path: get("/nonResourceAttributes/path"),
            ..RequestAttributes::default()
        }
    };
    let reason = find_reason(&server.store, user, &wanted);
    let mut status = json!({ "allowed": reason.is_some() });
    if let Some(reason) = reason.filter(|reason| !reason.is_empty()) {
        status["reason"] = reason.into();
    }
    status
}

fn all_rules(server: &ServerState, caller: &ApiUser, review: &Value) -> Value {
    let namespace = text_at(review, "/spec/namespace").unwrap_or("default");
    let mut resources = Vec::new();
    let mut paths = Vec::new();
    if caller.groups.iter().any(|g| g == "system:masters") {
        resources.push(json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}));
        paths.push(json!({"verbs": ["*"], "nonResourceURLs": ["*"]}));
    }
    for rule in list_rules(&server.store, caller, namespace) {
        if rule.get("nonResourceURLs").is_some() {
            paths.push(rule);
        } else {
            resources.push(rule);
        }
    }
    json!({ "resourceRules": resources, "nonResourceRules": paths, "incomplete": false })
}
