//! Answers: which form a client accepts, and objects in that form.

use std::convert::Infallible;

use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};

use super::status::ApiError;

/// A body, whole or streamed.
pub(super) type AnswerBody = UnsyncBoxBody<Bytes, Infallible>;
/// HTTP response of any handler.
pub(super) type ApiResponse = http::Response<AnswerBody>;

/// The shape in which objects are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ShownForm {
    /// Whole objects, as they are.
    Object,
    /// Rows of a table, for `kubectl get`.
    Table,
    /// Metadata only (`PartialObjectMetadata`).
    Partial,
}

/// The form of an answer that a client accepts best.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AcceptedForm {
    pub form: ShownForm,
    /// True for YAML instead of JSON.
    pub yaml: bool,
    /// The value of `as`, for discovery.
    pub as_kind: Option<String>,
}

/// Reads an `Accept` header: the first range that this server can answer wins.
pub(super) fn read_accept(accept: &str) -> Result<AcceptedForm, ApiError> {
    let plain = AcceptedForm { form: ShownForm::Object, yaml: false, as_kind: None };
    if accept.trim().is_empty() {
        return Ok(plain);
    }
    for range in accept.split(',') {
        let mut parts = range.split(';').map(str::trim);
        let media = parts.next().unwrap_or_default();
        let yaml = media == "application/yaml";
        if !yaml && !matches!(media, "application/json" | "*/*" | "application/*") {
            continue;
        }
        let mut as_kind = None;
        let mut version = "";
        for (name, value) in parts.filter_map(|p| p.split_once('=')) {
            match name {
                "as" => as_kind = Some(value.to_owned()),
                "v" => version = value,
                _ => {}
            }
        }
        let form = match as_kind.as_deref() {
            None => ShownForm::Object,
            Some("Table") if version == "v1" => ShownForm::Table,
            Some("PartialObjectMetadata" | "PartialObjectMetadataList") if version == "v1" => {
                ShownForm::Partial
            }
            Some("APIGroupDiscoveryList") if version == "v2" => ShownForm::Object,
            Some(_) => continue,
        };
        return Ok(AcceptedForm { form, yaml, as_kind });
    }
    Err(ApiError::not_acceptable())
}

/// Makes an answer from a body and its media type.
pub(super) fn bytes_answer(code: u16, media: &'static str, body: impl Into<Bytes>) -> ApiResponse {
    let mut response = ApiResponse::new(Full::new(body.into()).boxed_unsync());
    *response.status_mut() =
        StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
    response
}

/// An answer as JSON or YAML.
pub(super) fn value_answer(code: u16, accepted: &AcceptedForm, value: &Value) -> ApiResponse {
    if accepted.yaml {
        let yaml = serde_saphyr::to_string(value).unwrap_or_default();
        return bytes_answer(code, "application/yaml", yaml);
    }
    json_answer(code, value)
}

/// Makes an answer with a JSON body.
pub(super) fn json_answer(code: u16, value: &Value) -> ApiResponse {
    bytes_answer(code, "application/json", serde_json::to_vec(value).unwrap_or_default())
}

/// Makes the answer for an error.
pub(super) fn error_answer(error: &ApiError) -> ApiResponse {
    json_answer(error.code, &error.body())
}

/// Adds the warnings as `Warning` headers.
pub(super) fn add_warnings(response: &mut ApiResponse, warnings: &[String]) {
    for text in warnings {
        let quoted = text.replace('\\', "\\\\").replace('"', "\\\"");
        if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{quoted}\"")) {
            response.headers_mut().append(header::WARNING, value);
        }
    }
}

/// An object's metadata alone.
pub(super) fn partial_object(object: &Value) -> Value {
    json!({
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": object.get("metadata").cloned().unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_range_that_can_be_answered_wins() {
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
        assert_eq!(read_accept(table).unwrap().form, ShownForm::Table);
        let old = "application/json;as=Table;v=v1beta1;g=meta.k8s.io, application/json";
        assert_eq!(read_accept(old).unwrap().form, ShownForm::Object);
        let protobuf = "application/vnd.kubernetes.protobuf,application/json";
        assert!(!read_accept(protobuf).unwrap().yaml);
        assert!(read_accept("application/yaml").unwrap().yaml);
        assert_eq!(read_accept("application/vnd.kubernetes.protobuf").unwrap_err().code, 406);
        assert!(read_accept("").is_ok() && read_accept("*/*").is_ok());
    }
}
