//! Failures as clients see them: HTTP codes and `Status` bodies with upstream's wording.

use serde_json::{Value, json};

/// One field that failed validation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StatusCause {
    /// Path such as `spec.containers[0].name`.
    pub field: String,
    /// Machine-readable reason such as `FieldValueRequired`.
    pub reason: &'static str,
    /// Text after the path in the sentence, such as `Required value`.
    pub detail: String,
}

impl StatusCause {
    /// A required field is absent.
    pub(super) fn required(field: impl Into<String>, more: &str) -> Self {
        let detail = if more.is_empty() {
            "Required value".to_owned()
        } else {
            format!("Required value: {more}")
        };
        Self { field: field.into(), reason: "FieldValueRequired", detail }
    }

    /// A field has a value that is not allowed.
    pub(super) fn invalid(field: impl Into<String>, value: &Value, more: &str) -> Self {
        let shown = show_value(value);
        Self {
            field: field.into(),
            reason: "FieldValueInvalid",
            detail: format!("Invalid value: {shown}: {more}"),
        }
    }

    /// The cause of a violated rule, without the value.
    pub(super) fn broken(field: impl Into<String>, more: &str) -> Self {
        let detail = format!("Invalid value: {more}");
        Self { field: field.into(), reason: "FieldValueInvalid", detail }
    }

    /// A field has a value of another type; `found` names it.
    pub(super) fn wrong_type(field: impl Into<String>, found: &str, more: &str) -> Self {
        Self {
            field: field.into(),
            reason: "FieldValueTypeInvalid",
            detail: format!("Invalid value: \"{found}\": {more}"),
        }
    }

    /// A field has a value outside a closed list.
    pub(super) fn unsupported(field: impl Into<String>, value: &Value, allowed: &[String]) -> Self {
        let allowed: Vec<String> = allowed.iter().map(|a| format!("\"{a}\"")).collect();
        Self {
            field: field.into(),
            reason: "FieldValueNotSupported",
            detail: format!(
                "Unsupported value: {}: supported values: {}",
                show_value(value),
                allowed.join(", ")
            ),
        }
    }

    /// A text or a whole that is longer than allowed (bytes).
    pub(super) fn too_long(field: impl Into<String>, max: usize) -> Self {
        Self {
            field: field.into(),
            reason: "FieldValueTooLong",
            detail: format!("Too long: may not be more than {max} bytes"),
        }
    }

    /// A field may not be set, or not be changed.
    pub(super) fn forbidden(field: impl Into<String>, more: &str) -> Self {
        Self {
            field: field.into(),
            reason: "FieldValueForbidden",
            detail: format!("Forbidden: {more}"),
        }
    }

    /// Two items of a keyed list have the same key.
    pub(super) fn duplicate(field: impl Into<String>, value: &Value) -> Self {
        Self {
            field: field.into(),
            reason: "FieldValueDuplicate",
            detail: format!("Duplicate value: {}", show_value(value)),
        }
    }

    /// True if the mistake keeps the validation rules from being evaluated on the object.
    pub(super) fn blocks_rules(&self) -> bool {
        let kinds = ["NotSupported", "Required", "TooLong", "TooMany", "TypeInvalid"];
        self.reason.strip_prefix("FieldValue").is_some_and(|kind| kinds.contains(&kind))
    }

    /// The cause that upstream adds where it did not evaluate the rules.
    pub(super) fn rules_unchecked() -> Self {
        Self::invalid(
            "<nil>",
            &Value::Null,
            "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation",
        )
    }

    fn sentence(&self) -> String {
        if self.field.is_empty() {
            self.detail.clone()
        } else {
            format!("{}: {}", self.field, self.detail)
        }
    }
}

fn show_value(value: &Value) -> String {
    match value {
        Value::Object(_) | Value::Array(_) => {
            serde_json::to_string(value).unwrap_or_else(|_| "\"\"".to_owned())
        }
        other => other.to_string(),
    }
}

/// A request that failed, ready to be written as a `Status`.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub(super) struct ApiError {
    pub code: u16,
    pub reason: &'static str,
    /// The sentence shown to the user.
    pub message: String,
    pub details: Option<Value>,
}

impl ApiError {
    fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self { code, reason, message: message.into(), details: None }
    }

    fn about(mut self, group: &str, kind: &str, name: &str) -> Self {
        let mut details = json!({});
        for (key, value) in [("name", name), ("group", group), ("kind", kind)] {
            if !value.is_empty() {
                details[key] = value.into();
            }
        }
        self.details = Some(details);
        self
    }

    /// An error with status 400.
    pub(super) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// An error with status 401.
    pub(super) fn unauthorized() -> Self {
        Self::new(401, "Unauthorized", "Unauthorized")
    }

    /// 403 about an object or, with an empty name, its kind.
    pub(super) fn forbidden(group: &str, resource: &str, name: &str, why: &str) -> Self {
        let qualified = qualified_name(group, resource);
        let subject = if name.is_empty() { qualified } else { format!("{qualified} \"{name}\"") };
        Self::new(403, "Forbidden", format!("{subject} is forbidden: {why}"))
            .about(group, resource, name)
    }

    /// 403 about a path that is no resource.
    pub(super) fn forbidden_path(why: &str) -> Self {
        Self::new(403, "Forbidden", format!("forbidden: {why}")).about("", "", "")
    }

    /// An error with status 404 about an object.
    pub(super) fn not_found(group: &str, resource: &str, name: &str) -> Self {
        let message = format!("{} \"{name}\" not found", qualified_name(group, resource));
        Self::new(404, "NotFound", message).about(group, resource, name)
    }

    /// 404 about a path or kind that this server does not know.
    pub(super) fn unknown_path() -> Self {
        Self::new(404, "NotFound", "the server could not find the requested resource")
            .about("", "", "")
    }

    /// An error with status 405.
    pub(super) fn method_not_allowed() -> Self {
        Self::new(
            405,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
        )
        .about("", "", "")
    }

    /// An error with status 406.
    pub(super) fn not_acceptable() -> Self {
        Self::new(
            406,
            "NotAcceptable",
            "only the following media types are accepted: application/json, application/yaml",
        )
    }

    /// 406 of a kind that is built in: the path's own router says it.
    pub(super) fn no_representation() -> Self {
        Self::new(
            406,
            "NotAcceptable",
            "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml",
        )
    }

    /// 415 of a patch of a kind that is built in: the path's own router says it.
    pub(super) fn unknown_patch() -> Self {
        Self::new(415, "UnsupportedMediaType", "415: Unsupported Media Type")
    }

    /// An error with status 415.
    pub(super) fn unsupported_media_type(accepted: &str) -> Self {
        Self::new(
            415,
            "UnsupportedMediaType",
            format!(
                "the body of the request was in an unknown format - accepted media types include: {accepted}"
            ),
        )
    }

    /// An error with status 409, for a create.
    pub(super) fn already_exists(group: &str, resource: &str, name: &str) -> Self {
        let message = format!("{} \"{name}\" already exists", qualified_name(group, resource));
        Self::new(409, "AlreadyExists", message).about(group, resource, name)
    }

    /// 409 on a write that raced with another one.
    pub(super) fn conflict(group: &str, resource: &str, name: &str) -> Self {
        Self::conflict_because(
            group,
            resource,
            name,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    /// 409 with a reason of its own.
    pub(super) fn conflict_because(group: &str, resource: &str, name: &str, why: &str) -> Self {
        let message = format!(
            "Operation cannot be fulfilled on {} \"{name}\": {why}",
            qualified_name(group, resource)
        );
        Self::new(409, "Conflict", message).about(group, resource, name)
    }

    /// 409 of a server-side apply: `(manager sentence, field path)` for each conflict.
    pub(super) fn apply_conflict(message: String, causes: &[(String, String)]) -> Self {
        let causes: Vec<Value> = causes
            .iter()
            .map(|(message, field)| {
                json!({"reason": "FieldManagerConflict", "message": message, "field": field})
            })
            .collect();
        let mut error = Self::new(409, "Conflict", message);
        error.details = Some(json!({ "causes": causes }));
        error
    }

    /// 410: the version asked for is no longer known.
    pub(super) fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    /// 422 with the fields that failed.
    pub(super) fn invalid(group: &str, kind: &str, name: &str, causes: &[StatusCause]) -> Self {
        let sentences: Vec<String> = causes.iter().map(StatusCause::sentence).collect();
        let list = match sentences.as_slice() {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let mut error = Self::new(
            422,
            "Invalid",
            format!("{} \"{name}\" is invalid: {list}", qualified_name(group, kind)),
        )
        .about(group, kind, name);
        let causes: Vec<Value> = causes
            .iter()
            .map(|c| json!({"reason": c.reason, "message": c.detail, "field": c.field}))
            .collect();
        if let Some(details) = &mut error.details {
            details["causes"] = Value::Array(causes);
        }
        error
    }

    /// 422 about a request as a whole, such as a JSON patch whose test failed.
    pub(super) fn unprocessable(message: impl Into<String>) -> Self {
        let message = message.into();
        let mut error = Self::new(422, "Invalid", message);
        error.details = Some(json!({}));
        error
    }

    /// 500 of which upstream says nothing but the sentence.
    pub(super) fn untyped(message: impl Into<String>) -> Self {
        Self::new(500, "", message)
    }

    /// A failure that a test asked for.
    pub(super) fn on_purpose(code: u16) -> Self {
        let reason = match code {
            409 => "Conflict",
            429 => "TooManyRequests",
            _ => "InternalError",
        };
        Self::new(code, reason, "a failure on purpose")
    }

    /// 500: a webhook that admission asks answers with an error.
    pub(super) fn webhook(name: &str, said: &str) -> Self {
        let message = format!(
            "Internal error occurred: failed calling webhook \"{name}\": failed to call webhook: an error on \
             the server (\"{said}\") has prevented the request from succeeding"
        );
        Self::new(500, "InternalError", message)
    }

    /// An error with status 413.
    pub(super) fn too_large(why: &str) -> Self {
        let message = format!("Request entity too large: {why}");
        Self::new(413, "RequestEntityTooLarge", message)
    }

    /// An error with status 501.
    pub(super) fn not_implemented(message: impl Into<String>) -> Self {
        Self::new(501, "NotImplemented", message)
    }

    /// 504: a version that is still in the future.
    pub(super) fn too_large_version(asked: u64, current: u64) -> Self {
        let mut error = Self::new(
            504,
            "Timeout",
            format!("Timeout: Too large resource version: {asked}, current: {current}"),
        );
        error.details = Some(json!({
            "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
            "retryAfterSeconds": 1,
        }));
        error
    }

    /// The error as a `Status` object.
    pub(super) fn body(&self) -> Value {
        let mut body = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "code": self.code,
        });
        if !self.reason.is_empty() {
            body["reason"] = self.reason.into();
        }
        if let Some(details) = &self.details {
            body["details"] = details.clone();
        }
        body
    }
}

/// `resource.group`, or the bare resource of the core group.
pub(super) fn qualified_name(group: &str, resource: &str) -> String {
    if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") }
}
