//! MiniMax's own words for a failure: a code in `base_resp`, beside status 200. Pure.

use serde_json::Value;

/// True if a `base_resp` tells of a failure: each answer has one.
pub fn is_failed(told: &Value) -> bool {
    told["status_code"].as_u64().is_some_and(|code| code != 0)
}

/// The status and the kind of a failure, as other providers name them.
pub(super) fn read_failure(told: &Value) -> Option<(u16, &'static str)> {
    let code = told["status_code"].as_u64().filter(|code| *code != 0)?;
    Some(match code {
        1002 | 1039 | 1041 | 2056 => (429, "rate_limit_exceeded"),
        1004 | 2049 => (401, "invalid_api_key"),
        1008 => (402, "insufficient_quota"),
        1026 | 1027 => (400, "content_filter"),
        1042 | 2013 => (400, "invalid_request_error"),
        _ => (500, "api_error"),
    })
}
