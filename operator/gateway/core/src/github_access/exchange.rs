//! One request to GitHub and its whole answer.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, StatusCode};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::error::GitHubError;

/// Timeout of one request.
const TIMEOUT: Duration = Duration::from_mins(1);
const MAX_ANSWER: usize = 8 * 1024 * 1024;
/// GitHub's words for limits that no header reports.
const LIMITS: [&str; 3] = ["secondary rate limit", "rate limit exceeded", "abuse detection"];

pub(crate) struct GitHubAnswer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl GitHubAnswer {
    /// Returns true if the answer reports a rate limit. Limits that GitHub keeps to itself show in
    /// its words alone.
    pub(crate) fn is_limited(&self) -> bool {
        let refused = matches!(self.status.as_u16(), 403 | 429);
        refused
            && (self.status == StatusCode::TOO_MANY_REQUESTS
                || self.headers.contains_key("retry-after")
                || self.headers.get("x-ratelimit-remaining").is_some_and(|left| left == "0")
                || names_limit(&self.words()))
    }

    /// Returns true if a GitHub sent it: all of its answers have such a header, GitHub Enterprise's too.
    pub(crate) fn is_from_github(&self) -> bool {
        self.headers.keys().any(|name| name.as_str().starts_with("x-github-"))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// Returns true if the body contains these words.
    pub(crate) fn mentions(&self, words: &str) -> bool {
        String::from_utf8_lossy(&self.body).contains(words)
    }

    /// GitHub's own words about a refusal, as they came: to be shown masked only.
    pub(crate) fn words(&self) -> String {
        refusal_words(&serde_json::from_slice(&self.body).unwrap_or_default())
    }
}

/// Sends one request and reads its whole answer.
pub(crate) async fn exchange_request(
    request: reqwest::RequestBuilder,
) -> Result<Result<GitHubAnswer, GitHubError>, reqwest::Error> {
    let mut response = request.timeout(TIMEOUT).send().await?;
    let (status, headers) = (response.status(), response.headers().clone());
    let mut body = BytesMut::new();
    while let Some(chunk) = response.chunk().await? {
        if body.len() + chunk.len() > MAX_ANSWER {
            return Ok(Err(GitHubError::Garbled));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(Ok(GitHubAnswer { status, headers, body: body.freeze() }))
}

/// Returns true if a refusal is that of a rate limit.
pub(crate) fn names_limit(words: &str) -> bool {
    let words = words.to_ascii_lowercase();
    LIMITS.iter().any(|limit| words.contains(limit))
}

/// The message of a refusal and those of its errors: a list of them, or a plain text.
pub(crate) fn refusal_words(body: &Value) -> String {
    let errors = &body["errors"];
    let listed = errors.as_array().into_iter().flatten();
    let errors = listed.filter_map(error_words).chain(errors.as_str().map(str::to_owned));
    let message = body["message"].as_str().map(str::to_owned);
    message.into_iter().chain(errors).collect::<Vec<_>>().join(": ")
}

/// The words of one error. Most have none: they name a field, and by a code what is wrong with it.
fn error_words(error: &Value) -> Option<String> {
    let said = error.as_str().or_else(|| error["message"].as_str());
    match said.filter(|said| !said.is_empty()) {
        Some(said) => Some(said.to_owned()),
        None => Some(format!("{} ({})", error["field"].as_str()?, error["code"].as_str()?)),
    }
}

/// Reads what GitHub described.
pub(crate) fn read_answer<T: DeserializeOwned>(answer: &GitHubAnswer) -> Result<T, GitHubError> {
    read_from(&mut serde_json::Deserializer::from_slice(&answer.body))
}

/// Reads a part of an answer.
pub(crate) fn read_value<T: DeserializeOwned>(value: Value) -> Result<T, GitHubError> {
    read_from(value)
}

fn read_from<'de, T: DeserializeOwned>(
    source: impl serde::Deserializer<'de, Error = serde_json::Error>,
) -> Result<T, GitHubError> {
    serde_path_to_error::deserialize(source).map_err(|error| {
        // The place alone: values are others' words.
        tracing::warn!(field = %error.path(), "github_response_unreadable");
        GitHubError::Garbled
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_refusal_is_read_in_each_form_that_github_gives_it() {
        for (errors, expected) in [
            (
                json!([{"resource": "PullRequest", "field": "head", "code": "invalid"}]),
                "No: head (invalid)",
            ),
            (json!([{"field": "base", "code": "invalid", "message": ""}]), "No: base (invalid)"),
            (
                json!([{"code": "custom", "message": "No commits between a and b"}, {"code": "custom"}]),
                "No: No commits between a and b",
            ),
            (json!(["Line could not be resolved", 7, null]), "No: Line could not be resolved"),
            (json!("body is too long"), "No: body is too long"),
            (json!(null), "No"),
        ] {
            assert_eq!(refusal_words(&json!({"message": "No", "errors": errors})), expected);
        }
        assert_eq!(refusal_words(&json!("odd")), "");
    }
}
