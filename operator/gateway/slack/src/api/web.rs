//! Calls to Slack's Web API: transport, rate limits, time limits and errors that say nothing but
//! Slack's own code. Answers are read leniently into the caller's types.

use std::fmt;
use std::time::Duration;

use codebutler_gateway_core::dial::{DialReach, OutsideDialer, find_trouble};
use codebutler_gateway_core::github::text::one_line;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue, LOCATION, RETRY_AFTER};
use reqwest::{RequestBuilder, StatusCode};
use serde::de::DeserializeOwned;
use serde_json::Value;
use url::Url;

use crate::api::call_error::unanswered_status;
pub(crate) use crate::api::call_error::{CallError, EPHEMERAL};
use crate::api::download_error::{
    DOWNLOAD, EXTERNAL, SIGN_IN, failed_download, is_page_instead, refused_download,
};
use crate::api::file_place::{FilePlace, HOPS, next_place};
use crate::api::literal::make_literal;
use crate::api::queue::{CallQueue, CallTurn, CallUrgency, QueuedCall};
use crate::api::scopes::TokenScopes;
use crate::metrics::SlackMetrics;

/// Timeout of the answer to one call.
const TIMEOUT: Duration = Duration::from_secs(20);
/// Most repetitions of a call because Slack said "later".
const LIMITED: u32 = 5;
/// Longest "later" that is waited for.
const LONGEST_WAIT: Duration = Duration::from_mins(1);
/// Most repetitions of a reading call after a failure on the way.
const REREAD: u32 = 3;
/// Size limit of an answer, in bytes: a page of a thousand channels is a tenth of it.
const ANSWER: usize = 16 << 20;
/// Characters of Slack's own sentences that are passed on, and of its codes.
const SAID: usize = 300;
const CODE: usize = 64;

/// A token of an app. Its `Debug` output does not show the token.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct SlackToken(String);

impl SlackToken {
    pub(crate) fn new(value: &str) -> Self {
        Self(value.to_owned())
    }

    /// The token itself, for Slack, and to tell one app from another.
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SlackToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SlackToken(..)")
    }
}

/// A client without identity; the token comes with each call.
#[derive(Clone)]
pub(crate) struct SlackWeb {
    metrics: SlackMetrics,
    /// `host` or `host:port`, as Secrets name it.
    host: String,
    scheme: String,
    base: Url,
    queue: CallQueue,
    urgency: CallUrgency,
    dialer: OutsideDialer,
}

impl SlackWeb {
    /// A client for the API at `base`.
    pub(crate) fn new(base: &Url, metrics: SlackMetrics, dialer: &OutsideDialer) -> Self {
        let name = base.host_str().unwrap_or_default();
        let host = base.port().map_or_else(|| name.to_owned(), |port| format!("{name}:{port}"));
        let scheme = base.scheme().to_owned();
        let queue = CallQueue::new(metrics.clone());
        let (base, dialer) = (base.clone(), dialer.clone());
        let urgency = CallUrgency::Awaited;
        Self { metrics, host, scheme, base, queue, urgency, dialer }
    }

    pub(crate) fn base(&self) -> &Url {
        &self.base
    }

    pub(crate) fn metrics(&self) -> &SlackMetrics {
        &self.metrics
    }

    pub(crate) fn dialer(&self) -> &OutsideDialer {
        &self.dialer
    }

    fn address(&self, method: &str) -> String {
        format!("{}/{method}", self.base.as_str().trim_end_matches('/'))
    }

    /// HTTP client that follows no redirect: it would carry the token along.
    fn http(&self) -> &reqwest::Client {
        self.dialer.http(DialReach::Anywhere)
    }

    /// The same client for calls that no person waits for.
    pub(crate) fn upkeep(&self) -> Self {
        Self { urgency: CallUrgency::Upkeep, ..self.clone() }
    }

    /// Makes a reading call; repeats it when the answer got lost.
    pub(crate) async fn get<R: DeserializeOwned + Send>(
        &self,
        token: &SlackToken,
        method: &'static str,
        params: &[(&str, &str)],
    ) -> Result<R, CallError> {
        let thread = params.iter().find(|(name, _)| *name == "ts").map_or("", |(_, value)| value);
        let app = token.expose();
        let asked = QueuedCall { app, method, channel: "", thread, urgency: self.urgency };
        let mut failures = 0;
        loop {
            let call = || self.http().get(self.address(method)).query(params);
            match self.patiently(asked, token, call).await {
                Err(CallError::Failed { .. }) if failures < REREAD => {
                    failures += 1;
                    tokio::time::sleep(Duration::from_millis(100 << failures)).await;
                }
                result => return result,
            }
        }
    }

    /// Makes a writing call. After `Failed` it may have had its effect.
    pub(crate) async fn post<R: DeserializeOwned + Send>(
        &self,
        token: &SlackToken,
        method: &'static str,
        body: &Value,
    ) -> Result<R, CallError> {
        let body = &make_literal(method, body);
        // Slack reads JSON without a charset, too, and warns of it in each answer.
        let json = HeaderValue::from_static("application/json; charset=utf-8");
        let call = || {
            let request = self.http().post(self.address(method));
            request.header(CONTENT_TYPE, json.clone()).body(body.to_string())
        };
        let text = |name: &str| body[name].as_str().unwrap_or_default();
        let (app, urgency) = (token.expose(), self.urgency);
        let (channel, thread) = (text("channel"), text("thread_ts"));
        self.patiently(QueuedCall { app, method, channel, thread, urgency }, token, call).await
    }

    /// Scopes of a token, read from a header of the answer; `None` if Slack did not say.
    pub(crate) async fn scopes(&self, token: &SlackToken) -> Option<TokenScopes> {
        let request = self.http().post(self.address("auth.test")).timeout(TIMEOUT);
        let answer = request.bearer_auth(token.expose()).send().await.ok()?;
        let scopes = answer.headers().get("x-oauth-scopes")?.to_str().ok()?;
        Some(TokenScopes::parse(scopes))
    }

    /// Uploads a file's bytes to the address that Slack gave. `method` is the call that gave it.
    pub(crate) async fn upload(
        &self,
        method: &'static str,
        url: Url,
        content: Vec<u8>,
    ) -> Result<(), CallError> {
        if !self.is_slack(&url) {
            return Err(failed_call(method, "a foreign upload address"));
        }
        let sent = self.http().post(url).timeout(TIMEOUT).body(content).send().await;
        let result = match sent {
            Ok(answer) if answer.status().is_success() => Ok(()),
            Ok(answer) => {
                let status = answer.status().as_u16();
                let what = unanswered_status(status).unwrap_or_else(|| format!("status {status}"));
                Err(failed_call(method, what))
            }
            Err(error) => Err(failed_call(method, unsent_reason(&error))),
        };
        self.count("upload", if result.is_ok() { "ok" } else { "failed" });
        result
    }

    /// Downloads a file of at most `most` bytes from Slack itself, by its address and its type.
    pub(crate) async fn download(
        &self,
        token: &SlackToken,
        file: (Url, &str),
        most: usize,
    ) -> Result<Vec<u8>, CallError> {
        let mut answer = self.open_download(token, file, TIMEOUT).await?;
        let mut content = Vec::new();
        while let Some(chunk) = next_chunk(&mut answer).await? {
            if content.len() + chunk.len() > most {
                return Err(refused_download("file_too_large"));
            }
            content.extend_from_slice(&chunk);
        }
        Ok(content)
    }

    /// Downloads the first bytes of a file; the rest is not taken.
    pub(crate) async fn download_head(
        &self,
        token: &SlackToken,
        file: (Url, &str),
        most: usize,
    ) -> Result<Vec<u8>, CallError> {
        let mut answer = self.open_download(token, file, TIMEOUT).await?;
        let mut content = Vec::new();
        while let Some(chunk) = next_chunk(&mut answer).await? {
            content.extend_from_slice(&chunk);
            if content.len() >= most {
                content.truncate(most);
                break;
            }
        }
        Ok(content)
    }

    /// Requests a file and returns the answer, whose content is still to be read within `limit`.
    pub(crate) async fn open_download(
        &self,
        token: &SlackToken,
        (url, kind): (Url, &str),
        limit: Duration,
    ) -> Result<reqwest::Response, CallError> {
        if !self.is_slack(&url) {
            return Err(refused_download(EXTERNAL));
        }
        let answer = self.request_file(token, url, limit).await?;
        let sent = answer.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let is_page = is_page_instead(kind, sent.unwrap_or_default());
        let refusal = if answer.status().is_success() {
            is_page.then(|| refused_download(SIGN_IN))
        } else {
            Some(failed_download(answer.status()))
        };
        self.count(DOWNLOAD, if refusal.is_none() { "ok" } else { "refused" });
        refusal.map_or(Ok(answer), Err)
    }

    /// Requests a file, and follows Slack's redirects to it.
    async fn request_file(
        &self,
        token: &SlackToken,
        url: Url,
        limit: Duration,
    ) -> Result<reqwest::Response, CallError> {
        let (mut place, mut hops) = (FilePlace { url, wants_token: true }, 0);
        loop {
            let request = self.http().get(place.url.clone()).timeout(limit);
            let request =
                if place.wants_token { request.bearer_auth(token.expose()) } else { request };
            let sent = request.send().await;
            let answer = sent.map_err(|error| failed_call(DOWNLOAD, unsent_reason(&error)))?;
            let location = answer.headers().get(LOCATION).and_then(|value| value.to_str().ok());
            let location = location.filter(|_| answer.status().is_redirection() && hops < HOPS);
            let next = location.and_then(|to| next_place(&place.url, to, |url| self.is_slack(url)));
            let Some(next) = next else { return Ok(answer) };
            (place, hops) = (next, hops + 1);
        }
    }

    /// True for Slack's own host or one under it, such as `files.slack.com`: nothing else gets the token.
    fn is_slack(&self, url: &Url) -> bool {
        let host = url.host_str().unwrap_or_default();
        let name = url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
        let own = url.scheme() == self.scheme;
        own && (name == self.host || name.ends_with(&format!(".{}", self.host)))
    }

    /// Makes a call in its turn, again for as long as Slack says "later": nobody else makes one
    /// of its kind meanwhile.
    async fn patiently<R: DeserializeOwned>(
        &self,
        asked: QueuedCall<'_>,
        token: &SlackToken,
        call: impl Fn() -> RequestBuilder,
    ) -> Result<R, CallError> {
        let method = asked.method;
        let turn: CallTurn = self.queue.turn(asked).await;
        for _ in 0..=LIMITED {
            let request = call().bearer_auth(token.expose());
            let result = match tokio::time::timeout(TIMEOUT, read_answer(method, request)).await {
                Ok(result) => result,
                Err(_) => Err(WebOutcome::Error(failed_call(method, "no answer in time"))),
            };
            let (label, result) = match result {
                Ok(answer) => ("ok", Some(Ok(answer))),
                Err(WebOutcome::Later(wait)) => {
                    self.count(method, "limited");
                    let wait = wait.min(LONGEST_WAIT);
                    turn.later(wait);
                    tokio::time::sleep(wait).await;
                    continue;
                }
                Err(WebOutcome::Error(error)) => {
                    let label = if error.code().is_some() { "refused" } else { "failed" };
                    (label, Some(Err(error)))
                }
            };
            self.count(method, label);
            if let Some(result) = result {
                return result;
            }
        }
        Err(CallError::Limited { method })
    }

    fn count(&self, method: &'static str, outcome: &'static str) {
        self.metrics.call(method, outcome);
    }
}

enum WebOutcome {
    Later(Duration),
    Error(CallError),
}

fn failed_call(method: &'static str, what: impl Into<String>) -> CallError {
    CallError::Failed { method, what: what.into(), lost: true }
}

/// A call that had no effect: it was not sent, or the answer says that it was not taken.
fn undone_call(method: &'static str, what: impl Into<String>) -> CallError {
    CallError::Failed { method, what: what.into(), lost: false }
}

/// Makes one call. Bodies stay in here: of what went wrong, only Slack's code and its sentences for
/// developers leave.
async fn read_answer<R: DeserializeOwned>(
    method: &'static str,
    request: RequestBuilder,
) -> Result<R, WebOutcome> {
    let failed = |what: String| WebOutcome::Error(failed_call(method, what));
    let undone = |what: String| WebOutcome::Error(undone_call(method, what));
    let unsent = |error: reqwest::Error| {
        let what = unsent_reason(&error);
        if error.is_connect() { undone(what) } else { failed(what) }
    };
    let mut answer = request.send().await.map_err(unsent)?;
    let (status, later) = (answer.status(), asked_wait(answer.headers()));
    if status == StatusCode::TOO_MANY_REQUESTS {
        return Err(WebOutcome::Later(later));
    }
    if !status.is_success() {
        let code = status.as_u16();
        let what = unanswered_status(code).unwrap_or_else(|| format!("status {code}"));
        // A server or proxy that broke down while it answered may have done what it was asked for.
        let is_refusal = !status.is_server_error() || status == StatusCode::SERVICE_UNAVAILABLE;
        return Err(if is_refusal { undone(what) } else { failed(what) });
    }
    let mut body = Vec::new();
    while let Some(chunk) = answer.chunk().await.map_err(|error| failed(unsent_reason(&error)))? {
        if body.len() + chunk.len() > ANSWER {
            return Err(failed("an answer that is too long".to_owned()));
        }
        body.extend_from_slice(&chunk);
    }
    let unreadable = || failed("unreadable answer".to_owned());
    let answer: Value = serde_json::from_slice(&body).map_err(|_| unreadable())?;
    match answer["ok"].as_bool() {
        Some(true) => serde_json::from_value(answer).map_err(|_| unreadable()),
        Some(false) => Err(refused_call(method, &answer, later)),
        None => Err(unreadable()),
    }
}

/// The wait that an answer asks for, if Slack says "later" in it.
fn asked_wait(headers: &HeaderMap) -> Duration {
    let seconds = headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok());
    let seconds = seconds.and_then(|value| value.trim().parse().ok()).unwrap_or(1);
    Duration::from_secs(seconds)
}

/// Reads an answer that Slack gives with status 200. `later`: the wait that it asks for.
fn refused_call(method: &'static str, answer: &Value, later: Duration) -> WebOutcome {
    let code = answer["error"].as_str().unwrap_or("unknown_error");
    match code {
        "ratelimited" | "rate_limited" => WebOutcome::Later(later),
        // Slack's documentation says of both that a part may have succeeded before.
        "internal_error" | "fatal_error" => WebOutcome::Error(failed_call(method, code)),
        "service_unavailable"
        | "request_timeout"
        | "team_added_to_org"
        | "message_limit_exceeded" => WebOutcome::Error(undone_call(method, code)),
        code => {
            let needed = answer["needed"].as_str().map(|scopes| one_line(scopes, SAID));
            let (code, said) = (one_line(code, CODE), slack_words(answer));
            WebOutcome::Error(CallError::Refused { method, code, needed, said })
        }
    }
}

/// Slack's sentences for developers about a refusal: what of a message it does not take, and where.
fn slack_words(body: &Value) -> Option<String> {
    let of = |list: &Value| -> Vec<String> {
        let texts = list.as_array().into_iter().flatten().filter_map(Value::as_str);
        texts.map(str::to_owned).collect()
    };
    let messages = of(&body["response_metadata"]["messages"]);
    let all = if messages.is_empty() { of(&body["errors"]) } else { messages };
    let all = all.iter().map(|text| text.trim_start_matches("[ERROR]").trim());
    Some(one_line(&all.collect::<Vec<_>>().join("; "), SAID)).filter(|said| !said.is_empty())
}

/// Explains why there was no connection, with what a person can do about it.
pub(crate) fn unsent_reason(error: &(dyn std::error::Error + 'static)) -> String {
    let why = find_trouble(error).map_or_else(String::new, |why| format!(": {why}"));
    format!("no connection{why}")
}
async fn next_chunk(answer: &mut reqwest::Response) -> Result<Option<bytes::Bytes>, CallError> {
    answer.chunk().await.map_err(|_| failed_call(DOWNLOAD, "cut off"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_line_for_one_person_is_not_shown_again_where_slack_may_have_shown_it() {
        for (code, repeats) in [
            ("internal_error", false),
            ("fatal_error", false),
            ("service_unavailable", true),
            ("request_timeout", true),
            ("team_added_to_org", true),
            ("channel_not_found", false),
        ] {
            let answer = json!({"ok": false, "error": code});
            let error = |method| match refused_call(method, &answer, Duration::ZERO) {
                WebOutcome::Error(error) => error,
                WebOutcome::Later(wait) => panic!("later, after {wait:?}"),
            };
            assert_eq!(error(EPHEMERAL).may_repeat(), repeats, "{code}");
            // A message can be looked for before it is posted again.
            let is_failure = code != "channel_not_found";
            assert_eq!(error("chat.postMessage").may_repeat(), is_failure, "{code}");
        }
    }

    #[test]
    fn a_limit_in_an_ordinary_answer_lasts_as_long_as_its_header_says() {
        let limited = json!({"ok": false, "error": "ratelimited"});
        let wait = |headers: &HeaderMap| match refused_call(
            "chat.update",
            &limited,
            asked_wait(headers),
        ) {
            WebOutcome::Later(wait) => wait,
            WebOutcome::Error(error) => panic!("{error}"),
        };
        let mut headers = HeaderMap::new();
        assert_eq!(wait(&headers), Duration::from_secs(1));
        headers.insert(RETRY_AFTER, HeaderValue::from_static("30"));
        assert_eq!(wait(&headers), Duration::from_secs(30));
    }
}
