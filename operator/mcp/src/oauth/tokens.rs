//! Answers of token endpoints.

use std::fmt;
use std::time::Duration;

use serde_json::Value;

use super::grant::{TokenError, cut};

/// Tokens that were granted for one resource.
#[derive(Clone, PartialEq, Eq)]
pub struct ServerTokens {
    /// Access token, for header `Authorization`.
    pub access_token: String,
    /// Token that is exchanged for newer ones.
    pub refresh_token: Option<String>,
    /// Lifetime of the access token from now on.
    pub lasts: Option<Duration>,
    /// The scope that was granted.
    pub scope: Option<String>,
}

impl fmt::Debug for ServerTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerTokens")
            .field("lasts", &self.lasts)
            .field("scope", &self.scope)
            .finish_non_exhaustive()
    }
}

/// Errors that say nothing about the grant: the same request may succeed later.
const PASSING: [&str; 4] = ["temporarily_unavailable", "server_error", "slow_down", "ratelimited"];
/// Errors that only a new sign-in mends: those of RFC 6749, and those of servers with words of their own (GitHub,
/// Slack).
const LOST: [&str; 7] = [
    "invalid_grant",
    "bad_refresh_token",
    "bad_verification_code",
    "invalid_refresh_token",
    "token_expired",
    "token_revoked",
    "invalid_code",
];
/// The same of errors about the client.
const CLIENT: [&str; 4] =
    ["invalid_client", "unauthorized_client", "incorrect_client_credentials", "bad_client_secret"];
/// Kinds of tokens that are sent as `Bearer`. Slack says whose its tokens are.
const BEARERS: [&str; 3] = ["bearer", "user", "bot"];

/// Reads the answer of a token endpoint. A refresh may leave out the refresh token: the `old` one stays good then.
/// Servers answer errors with a status of success, too: what names an `error` is one.
pub fn read_tokens(
    status: u16,
    body: &[u8],
    old: Option<&str>,
) -> Result<ServerTokens, TokenError> {
    let value: Value = serde_json::from_slice(body).unwrap_or_default();
    let text_at = |field: &str| value.get(field).and_then(Value::as_str).map(str::to_owned);
    let error = value.get("error").filter(|error| !error.is_null());
    if let Some(error) = error {
        let code = error.as_str().map_or_else(|| error.to_string(), str::to_owned);
        let about =
            text_at("error_description").map(|about| format!(": {about}")).unwrap_or_default();
        // A refresh that is refused for good leads nowhere, whatever the server calls it.
        let is_final =
            old.is_some() && status < 429 && !PASSING.contains(&&*code) && error.is_string();
        return Err(if LOST.contains(&&*code) {
            TokenError::Lost(cut(&about))
        } else if CLIENT.contains(&&*code) {
            TokenError::Client(cut(&about))
        } else if is_final {
            TokenError::Lost(cut(&format!(": {code}{about}")))
        } else {
            TokenError::Refused(cut(&format!("{code}{about}")))
        });
    }
    if !(200..300).contains(&status) {
        return Err(TokenError::Refused(format!("status {status}")));
    }
    let is_bearer = |kind: String| BEARERS.iter().any(|bearer| kind.eq_ignore_ascii_case(bearer));
    if !text_at("token_type").is_some_and(is_bearer) {
        return Err(TokenError::Form("token_type"));
    }
    // Servers write numbers as texts and with fractions, and zero where a token has no end.
    let seconds = value
        .get("expires_in")
        .and_then(|seconds| seconds.as_f64().or_else(|| seconds.as_str()?.trim().parse().ok()))
        .filter(|seconds| *seconds >= 1.0);
    Ok(ServerTokens {
        access_token: text_at("access_token")
            .filter(|token| !token.is_empty())
            .ok_or(TokenError::Form("access_token"))?,
        refresh_token: text_at("refresh_token").or_else(|| old.map(str::to_owned)),
        lasts: seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()),
        scope: text_at("scope"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_read_and_a_lost_grant_is_told_from_an_outage() {
        let good = br#"{"access_token":"t","token_type":"bearer","expires_in":"3600"}"#;
        let tokens = read_tokens(200, good, Some("old")).unwrap();
        assert_eq!(
            (tokens.refresh_token.as_deref(), tokens.lasts),
            (Some("old"), Some(Duration::from_hours(1)))
        );
        // A regression: a token with an end of zero was over before it was used, and one with a fraction had no end.
        for (given, seconds) in [
            ("3600.0", Some(3600)),
            ("\"60.0\"", Some(60)),
            ("0", None),
            ("-1", None),
            ("null", None),
        ] {
            let body =
                format!(r#"{{"access_token":"t","token_type":"bearer","expires_in":{given}}}"#);
            let lasts = read_tokens(200, body.as_bytes(), None).unwrap().lasts;
            assert_eq!(lasts.map(|lasts| lasts.as_secs()), seconds, "{given}");
        }
        let lost =
            read_tokens(400, br#"{"error":"invalid_grant","error_description":"revoked"}"#, None);
        assert_eq!(lost, Err(TokenError::Lost(": revoked".into())));
        // GitHub and Slack answer errors with a status of success.
        for (code, old) in [
            ("bad_refresh_token", Some("old")),
            ("invalid_refresh_token", Some("old")),
            ("bad_verification_code", None),
        ] {
            for status in [200, 400] {
                let body = format!(
                    r#"{{"ok":false,"error":"{code}","access_token":"t","token_type":"bearer"}}"#
                );
                let answer = read_tokens(status, body.as_bytes(), old);
                assert_eq!(answer, Err(TokenError::Lost(String::new())), "{code} {status}");
            }
        }
        let refused = |status, code: &str, old| {
            read_tokens(status, format!(r#"{{"error":"{code}"}}"#).as_bytes(), old)
        };
        for code in ["invalid_client", "incorrect_client_credentials"] {
            let answer = refused(401, code, Some("old"));
            assert_eq!(answer, Err(TokenError::Client(String::new())), "{code}");
        }
        assert_eq!(
            refused(400, "invalid_scope", Some("old")),
            Err(TokenError::Lost(": invalid_scope".into())),
            "a refresh that is refused for good"
        );
        for (status, code, old) in [
            (200, "slow_down", Some("old")),
            (400, "temporarily_unavailable", Some("old")),
            (500, "internal", Some("old")),
            (429, "too_many", Some("old")),
            (400, "invalid_scope", None),
            (200, "access_denied", None),
        ] {
            assert_eq!(refused(status, code, old), Err(TokenError::Refused(code.into())), "{code}");
        }
        let odd = read_tokens(
            200,
            br#"{"error":{"code":7},"access_token":"t","token_type":"bearer"}"#,
            Some("old"),
        );
        assert!(matches!(odd, Err(TokenError::Refused(_))), "{odd:?}");
        let slack =
            read_tokens(200, br#"{"ok":true,"access_token":"t","token_type":"user"}"#, None);
        assert!(slack.is_ok(), "{slack:?}");
        assert_eq!(
            read_tokens(503, b"<html>", None),
            Err(TokenError::Refused("status 503".into()))
        );
        assert_eq!(
            read_tokens(200, br#"{"access_token":"t","token_type":"mac"}"#, None),
            Err(TokenError::Form("token_type"))
        );
        assert_eq!(read_tokens(200, b"{}", None), Err(TokenError::Form("token_type")));
    }
    #[test]
    fn tokens_are_not_shown() {
        let answer = br#"{"access_token":"acc3ss","token_type":"Bearer"}"#;
        let shown = format!("{:?}", read_tokens(200, answer, Some("r3fresh")));
        assert!(!shown.contains("acc3ss") && !shown.contains("r3fresh"), "{shown}");
    }
}
