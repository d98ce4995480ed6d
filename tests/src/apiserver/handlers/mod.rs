//! Handling of a request for a resource, once its caller is authorized.

mod delete;
mod hooks;
mod options;
mod patch;
mod read;
mod screen;
mod special;
mod watch;
mod write;

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::ServerState;
use super::convert;
use super::kinds::ServedKind;
use super::object;
use super::protobuf;
use super::render::{self, AcceptedForm, ApiResponse, ShownForm};
use super::request::{ApiRequest, ResourcePath};
use super::status::ApiError;
use super::store::StoredObject;
use super::table;

/// A request about a resource.
pub(super) struct ResourceRequest<'a> {
    pub server: &'a Arc<ServerState>,
    pub request: &'a ApiRequest,
    /// The resource in the path.
    pub target: &'a ResourcePath,
    pub kind: Arc<ServedKind>,
    /// Form of the answer that the client accepts.
    pub accepted: AcceptedForm,
    /// Fault of a watch: its lag, and the time after which it ends early.
    pub bad_watch: Option<(Duration, Duration)>,
}

/// Answers a request about a resource.
/// With `bad_watch` a watch lags and ends by these times.
pub(super) fn handle_request(
    server: &Arc<ServerState>,
    request: &ApiRequest,
    bad_watch: Option<(Duration, Duration)>,
) -> Result<ApiResponse, ApiError> {
    let Some(target) = &request.target else { return Err(ApiError::unknown_path()) };
    let kind = server
        .kinds
        .find(&target.group, &target.version, &target.resource)
        .ok_or_else(ApiError::unknown_path)?;
    if !target.namespace.is_empty() && !kind.namespaced {
        return Err(ApiError::unknown_path());
    }
    let context = ResourceRequest {
        server,
        request,
        target,
        accepted: accepted_form(request.header("accept"), &kind)?,
        kind,
        bad_watch,
    };
    context.dispatch()
}

fn accepted_form(accept: &str, kind: &ServedKind) -> Result<AcceptedForm, ApiError> {
    let known = |range: &str| range.trim_start().starts_with("application/json");
    render::read_accept(accept).map_err(|error| {
        // JSON in a shape that nobody has is another matter.
        if kind.custom().is_none() && !accept.split(',').any(known) {
            ApiError::no_representation()
        } else {
            error
        }
    })
}

impl ResourceRequest<'_> {
    fn dispatch(&self) -> Result<ApiResponse, ApiError> {
        let one = !self.target.name.is_empty();
        if !self.target.subresource.is_empty()
            && !self.kind.has_subresource(&self.target.subresource)
        {
            return Err(ApiError::unknown_path());
        }
        if self.kind.namespaced && self.target.namespace.is_empty() && (one || self.is_write()) {
            return Err(ApiError::method_not_allowed());
        }
        if self.kind.virtual_only {
            return match self.request.method.as_str() {
                "POST" if !one => self.review(),
                _ => Err(ApiError::method_not_allowed()),
            };
        }
        if let Some(answer) = self.special() {
            return answer;
        }
        match (self.request.method.as_str(), one) {
            ("GET", true) if self.request.query.flag("watch") => self.watch(),
            ("GET", true) => self.get(),
            ("GET", false) if self.request.is_watch() => self.watch(),
            ("GET", false) => self.list(),
            ("POST", false) => self.create(),
            ("PUT", true) => self.update(),
            ("PATCH", true) => self.patch(),
            ("DELETE", true) if self.target.subresource.is_empty() => self.delete(),
            ("DELETE", false) => self.delete_collection(),
            _ => Err(ApiError::method_not_allowed()),
        }
    }

    fn is_write(&self) -> bool {
        matches!(self.request.method.as_str(), "POST" | "PUT" | "PATCH")
    }

    /// The stored object that the path names.
    fn stored(&self) -> Result<Arc<StoredObject>, ApiError> {
        self.server
            .store
            .get(&self.kind.table, &self.target.namespace, &self.target.name)
            .ok_or_else(|| self.not_found())
    }

    fn not_found(&self) -> ApiError {
        ApiError::not_found(&self.kind.group, &self.kind.plural, &self.target.name)
    }

    fn conflict(&self, name: &str) -> ApiError {
        ApiError::conflict(&self.kind.group, &self.kind.plural, name)
    }

    /// Media types of whole objects: the body as a value.
    fn body(&self) -> Result<Value, ApiError> {
        match self.request.content_type() {
            "" | "application/json" | "*/*" => self.json(),
            "application/yaml" => self.yaml(),
            "application/vnd.kubernetes.protobuf" => protobuf::decode_body(&self.request.body)
                .ok_or_else(|| {
                    ApiError::unsupported_media_type("application/json, application/yaml")
                }),
            _ => Err(ApiError::unsupported_media_type("application/json, application/yaml")),
        }
    }

    fn json(&self) -> Result<Value, ApiError> {
        serde_json::from_slice(&self.request.body).map_err(|error| {
            ApiError::bad_request(format!("couldn't get version/kind; json parse error: {error}"))
        })
    }

    fn yaml(&self) -> Result<Value, ApiError> {
        let text = std::str::from_utf8(&self.request.body)
            .map_err(|error| ApiError::bad_request(format!("error decoding YAML: {error}")))?;
        serde_saphyr::from_str(text)
            .map_err(|error| ApiError::bad_request(format!("error decoding YAML: {error}")))
    }

    /// An object as an answer, in the form the client accepts.
    fn answer(&self, code: u16, stored: &Value) -> ApiResponse {
        let shown = convert::convert_outbound(&self.kind, stored);
        match self.accepted.form {
            ShownForm::Object => render::value_answer(code, &self.accepted, &shown),
            ShownForm::Partial => {
                render::value_answer(code, &self.accepted, &render::partial_object(&shown))
            }
            ShownForm::Table => {
                let include = self.request.query.get("includeObject").unwrap_or("Metadata");
                let version = object::object_version(stored).to_owned();
                let table = table::render_table(&self.kind, &[&shown], include, &version, true);
                render::value_answer(code, &self.accepted, &table)
            }
        }
    }

    /// A stored object as an answer, without making its text anew where it can be shared.
    fn answer_stored(&self, code: u16, stored: &StoredObject) -> ApiResponse {
        let shared = self.accepted.form == ShownForm::Object
            && !self.accepted.yaml
            && matches!(
                convert::convert_outbound(&self.kind, &stored.value),
                std::borrow::Cow::Borrowed(_)
            );
        if shared {
            return render::bytes_answer(code, "application/json", stored.json());
        }
        self.answer(code, &stored.value)
    }
}
