//! The options of a request: what a query may say.

use serde_json::Value;

use super::ResourceRequest;
use crate::apiserver::status::{ApiError, StatusCause};

/// Longest name of a field manager (bytes).
const MAX_MANAGER: usize = 128;
/// The option that says how a list relates to the version it names.
const MATCH: &str = "resourceVersionMatch";

impl ResourceRequest<'_> {
    /// Checks the options of a write; `kind` names them, such as `CreateOptions`.
    pub(super) fn check_write_options(&self, kind: &str, apply: bool) -> Result<(), ApiError> {
        let query = &self.request.query;
        let mut causes = Vec::new();
        if apply {
            if query.get("fieldManager").is_none() {
                causes.push(StatusCause::required("fieldManager", "is required for apply patch"));
            }
        } else if kind == "PatchOptions" && query.get("force").is_some() {
            causes
                .push(StatusCause::forbidden("force", "may not be specified for non-apply patch"));
        }
        let manager = query.get("fieldManager").unwrap_or_default();
        if manager.len() > MAX_MANAGER {
            causes.push(StatusCause::too_long("fieldManager", MAX_MANAGER));
        }
        if let Some((at, letter)) = manager.char_indices().find(|(_, c)| c.is_control()) {
            let why = format!("invalid character U+{:04X} (at position {at})", u32::from(letter));
            causes.push(StatusCause::invalid("fieldManager", &manager.into(), &why));
        }
        if let Some(other) = query.get("dryRun").filter(|value| *value != "All") {
            let found = Value::Array(vec![other.into()]);
            causes.push(StatusCause::unsupported("dryRun", &found, &["All".to_owned()]));
        }
        let known = ["", "Ignore", "Strict", "Warn"];
        if let Some(other) = query.get("fieldValidation").filter(|value| !known.contains(value)) {
            let known = known.map(str::to_owned);
            causes.push(StatusCause::unsupported("fieldValidation", &other.into(), &known));
        }
        refuse_options(kind, &causes)
    }

    /// Checks the options of a list or watch.
    pub(super) fn check_list_options(&self, watch: bool) -> Result<(), ApiError> {
        let query = &self.request.query;
        let (wanted, initial) = (query.get("resourceVersionMatch"), query.get("sendInitialEvents"));
        let mut causes = Vec::new();
        let mut forbid = |field: &str, why: &str| causes.push(StatusCause::forbidden(field, why));
        if watch {
            if initial.is_some() && wanted != Some("NotOlderThan") {
                forbid(
                    MATCH,
                    "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
                );
            }
            if wanted.is_some() && initial.is_none() {
                forbid(
                    MATCH,
                    "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
                );
            }
        } else {
            if initial.is_some() {
                forbid("sendInitialEvents", "sendInitialEvents is forbidden for list");
            }
            if wanted.is_some() && query.get("resourceVersion").is_none() {
                forbid(
                    MATCH,
                    "resourceVersionMatch is forbidden unless resourceVersion is provided",
                );
            }
            if wanted == Some("Exact") && query.get("resourceVersion") == Some("0") {
                forbid(
                    MATCH,
                    "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
                );
            }
        }
        if wanted.is_some() && query.get("continue").is_some() {
            forbid(MATCH, "resourceVersionMatch is forbidden when continue is provided");
        }
        let known: &[&str] = if watch { &["NotOlderThan"] } else { &["Exact", "NotOlderThan", ""] };
        if let Some(other) = wanted.filter(|value| !known.contains(value)) {
            let known: Vec<String> = known.iter().map(|&k| k.to_owned()).collect();
            causes.push(StatusCause::unsupported(MATCH, &other.into(), &known));
        }
        refuse_options("ListOptions", &causes)
    }
}

/// 422 about the options of a kind, if there is a cause.
pub(super) fn refuse_options(kind: &str, causes: &[StatusCause]) -> Result<(), ApiError> {
    if causes.is_empty() {
        return Ok(());
    }
    Err(ApiError::invalid("meta.k8s.io", kind, "", causes))
}
