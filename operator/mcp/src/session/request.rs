//! One request: waiting for its answer with two time limits, and taking it back.

use std::error::Error;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rmcp::model::{
    CancelledNotification, CancelledNotificationParam, ClientNotification, ClientRequest,
    CustomRequest, CustomResult, RequestId, ServerResult,
};
use rmcp::service::{PeerRequestOptions, ServiceError};
use rmcp::transport::streamable_http_client::{AuthRequiredError, StreamableHttpError};
use rmcp::{Peer, RoleClient};
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use url::Url;

use super::ServerSession;
use super::handler::{QuestionAnswer, ServerQuestion};
use super::input::WantedInput;
use crate::content::ToolResult;
use crate::error::{McpError, PAGE_NEEDED};
use crate::events::{ProgressStep, cut_text};
use crate::wire::RESULT_KEY;
use crate::wire::http::HttpFault;

/// Steps of progress that wait for their reader.
const STEPS: usize = 16;
/// Pages of one refusal that a person is asked about.
const PAGES: usize = 3;
/// Requests for one answer, of servers that ask before they give it.
const ROUNDS: usize = 10;

/// Call of a tool, with its controls.
#[derive(Clone, Debug, Default)]
pub struct ToolCall {
    /// The server's own name of the tool.
    pub name: String,
    /// Arguments of the call.
    pub arguments: Map<String, Value>,
    /// Channel for steps of progress; a full one drops them.
    pub progress: Option<mpsc::Sender<ProgressStep>>,
    /// Cancels the call, and tells the server.
    pub cancel: CancellationToken,
}

struct WaitLimits {
    idle: Duration,
    total: Duration,
}

impl ServerSession {
    /// Calls a tool. An error of the tool itself is a result; after [`McpError::Closed`] it may have run. Where the
    /// server wants a page to be opened first, a person is asked, and the call has to be made again.
    pub async fn call_tool(&self, call: ToolCall) -> Result<ToolResult, McpError> {
        let params = json!({"name": call.name, "arguments": call.arguments});
        let limits = WaitLimits { idle: self.limits.call_idle, total: self.limits.call_total };
        let result = self.send("tools/call", params, &limits, call.progress, &call.cancel).await?;
        Ok(ToolResult::read(result))
    }

    /// Checks that the server still answers.
    pub async fn ping(&self) -> Result<(), McpError> {
        self.ask("ping", Value::Null).await.map(drop)
    }

    /// True unless the server leaves a ping unanswered for so long, or is gone. One that knows no pings answers, too.
    pub async fn answers_ping(&self, limit: Duration) -> bool {
        match timeout(limit, self.ping()).await {
            Ok(Ok(())) => true,
            Ok(Err(error)) => error.is_answer(),
            Err(_) => false,
        }
    }

    /// Sets the level from which on the server sends entries of its log.
    pub async fn set_log_level(&self, level: &str) -> Result<(), McpError> {
        if !self.facts.has("logging") {
            return Err(McpError::Missing("log"));
        }
        self.ask("logging/setLevel", json!({"level": level})).await.map(drop)
    }

    /// Sends a request that is answered without progress reports.
    pub(super) async fn ask(&self, method: &str, params: Value) -> Result<Value, McpError> {
        let limits = WaitLimits { idle: self.limits.request, total: self.limits.request };
        self.send(method, params, &limits, None, &CancellationToken::new()).await
    }

    /// Sends a request for a page of a list. Servers that make it of other servers' need as long as for a call.
    pub(super) async fn ask_for_page(
        &self,
        method: &str,
        params: Value,
    ) -> Result<Value, McpError> {
        let limits = WaitLimits { idle: self.page_limit(), total: self.limits.call_total };
        self.send(method, params, &limits, None, &CancellationToken::new()).await
    }

    /// Sends a request for content, which may take as long as a call: servers fetch it from elsewhere, and ask people.
    pub(super) async fn fetch(&self, method: &str, params: Value) -> Result<Value, McpError> {
        let limits = WaitLimits { idle: self.limits.call_idle, total: self.limits.call_total };
        self.send(method, params, &limits, None, &CancellationToken::new()).await
    }

    async fn send(
        &self,
        method: &str,
        params: Value,
        limits: &WaitLimits,
        progress: Option<mpsc::Sender<ProgressStep>>,
        cancel: &CancellationToken,
    ) -> Result<Value, McpError> {
        match self.send_answering(method, params, limits, progress, cancel).await {
            Err(McpError::PageNeeded { message, pages }) => {
                let asking = timeout(self.limits.call_total, self.ask_for_pages(message, pages));
                match cancel.run_until_cancelled(asking).await {
                    None => Err(McpError::Cancelled(method.to_owned())),
                    Some(Ok(refused)) => Err(refused),
                    Some(Err(_)) => Err(McpError::Timeout {
                        method: method.to_owned(),
                        limit: self.limits.call_total,
                    }),
                }
            }
            Err(McpError::Closed { .. }) => {
                self.await_last_words().await;
                Err(McpError::Closed { said: self.intake.events.last_words() })
            }
            answer => answer,
        }
    }

    /// Sends a request, and once more with the answers where its server asks something first.
    async fn send_answering(
        &self,
        method: &str,
        params: Value,
        limits: &WaitLimits,
        progress: Option<mpsc::Sender<ProgressStep>>,
        cancel: &CancellationToken,
    ) -> Result<Value, McpError> {
        // The arguments of a call can be large.
        if !self.is_stateless() {
            return self.send_once(method, params, limits, progress, cancel).await;
        }
        let begun = Instant::now();
        let mut next = params.as_object().cloned().unwrap_or_default();
        let mut asked = params;
        for _ in 0..ROUNDS {
            // All rounds have the time of one request.
            let total = limits.total.saturating_sub(begun.elapsed());
            let left = WaitLimits { idle: limits.idle, total };
            let mut result = self.send_once(method, asked, &left, progress.clone(), cancel).await?;
            let Some(input) = WantedInput::take(&mut result) else { return Ok(result) };
            let answering = input.answer_in(&mut next, &self.answers, cancel);
            let answering = cancel.run_until_cancelled(answering);
            match timeout_at(begun + limits.total, answering).await {
                Ok(Some(answered)) => answered?,
                Ok(None) => return Err(McpError::Cancelled(method.to_owned())),
                Err(_) => {
                    return Err(McpError::Timeout {
                        method: method.to_owned(),
                        limit: limits.total,
                    });
                }
            }
            asked = Value::Object(next.clone());
        }
        let reason = format!("it has asked {ROUNDS} times for more");
        Err(McpError::Unreadable { method: method.to_owned(), reason })
    }

    /// Asks a person to open pages; the server's refusal then says how that went.
    async fn ask_for_pages(&self, message: String, pages: Vec<(String, Url)>) -> McpError {
        let mut has_seen = self.questions.is_some();
        for (message, url) in pages {
            let Some(questions) = self.questions.as_ref().filter(|_| has_seen) else { break };
            let answer = questions.ask(ServerQuestion::Link { message, url }).await;
            has_seen = matches!(answer, QuestionAnswer::Accepted(_));
        }
        let then = if has_seen {
            "a person was shown the page that it wants opened: call again once they say that they are done"
        } else {
            "it wants a person to open a page, and none did"
        };
        McpError::Refused { code: PAGE_NEEDED, message: format!("{message} ({then})") }
    }

    async fn send_once(
        &self,
        method: &str,
        params: Value,
        limits: &WaitLimits,
        progress: Option<mpsc::Sender<ProgressStep>>,
        cancel: &CancellationToken,
    ) -> Result<Value, McpError> {
        let late = |limit| McpError::Timeout { method: method.to_owned(), limit };
        let params = (!params.is_null()).then_some(params);
        let request = ClientRequest::CustomRequest(CustomRequest::new(method, params));
        let sending = self.peer.send_request_with_option(request, PeerRequestOptions::no_options());
        let sent = timeout(limits.idle, sending).await.map_err(|_| late(limits.idle))?;
        let mut handle = sent.map_err(|error| read_error(error, method))?;
        let token = token_text(&handle.progress_token);
        let mut steps = StepsOfCall::claim(self, &token);
        let mut guard = CancelGuard::new(&self.peer, handle.id.clone(), self.limits.close);
        let begun = Instant::now();
        let mut idle_until = begun + limits.idle;
        let answer = loop {
            tokio::select! {
                answer = &mut handle.rx => break answer.map_err(|_| closed())?,
                () = cancel.cancelled() => {
                    guard.reason = "cancelled";
                    return Err(McpError::Cancelled(method.to_owned()));
                }
                () = sleep_until(idle_until.min(begun + limits.total)) => {
                    let is_asking = self.intake.questions.load(Ordering::SeqCst) > 0;
                    if is_asking && Instant::now() < begun + limits.total {
                        // The server waits for a person, and is not late.
                        idle_until = Instant::now() + limits.idle;
                        continue;
                    }
                    let is_idle = idle_until < begun + limits.total;
                    guard.reason = "timeout";
                    return Err(late(if is_idle { limits.idle } else { limits.total }));
                }
                Some(step) = steps.receiver.recv() => {
                    idle_until = Instant::now() + limits.idle;
                    if let Some(progress) = &progress {
                        let _ = progress.try_send(step);
                    }
                }
            }
        };
        guard.disarm();
        unwrap_result(answer.map_err(|error| read_error(error, method))?, method)
    }
}

/// Registered for progress as long as it lives.
struct StepsOfCall<'a> {
    session: &'a ServerSession,
    token: String,
    receiver: mpsc::Receiver<ProgressStep>,
}

impl<'a> StepsOfCall<'a> {
    fn claim(session: &'a ServerSession, token: &str) -> Self {
        let (sender, receiver) = mpsc::channel(STEPS);
        session.intake.progress.claim(token.to_owned(), sender);
        Self { session, token: token.to_owned(), receiver }
    }
}

impl Drop for StepsOfCall<'_> {
    fn drop(&mut self) {
        self.session.intake.progress.forget(&self.token);
    }
}

/// Takes a request back when the caller does not wait for its answer any more.
struct CancelGuard {
    peer: Option<Peer<RoleClient>>,
    id: RequestId,
    limit: Duration,
    reason: &'static str,
}

impl CancelGuard {
    fn new(peer: &Peer<RoleClient>, id: RequestId, limit: Duration) -> Self {
        Self { peer: Some(peer.clone()), id, limit, reason: "abandoned" }
    }

    fn disarm(&mut self) {
        self.peer = None;
    }
}

impl Drop for CancelGuard {
    fn drop(&mut self) {
        let Some((peer, runtime)) =
            self.peer.take().zip(tokio::runtime::Handle::try_current().ok())
        else {
            return;
        };
        let params =
            CancelledNotificationParam::new(Some(self.id.clone()), Some(self.reason.to_owned()));
        let limit = self.limit;
        // The SDK waits without a limit until a notification is written, and a server may not read.
        runtime.spawn(async move {
            let notification = CancelledNotification::new(params);
            let _ = timeout(
                limit,
                peer.send_notification(ClientNotification::CancelledNotification(notification)),
            )
            .await;
        });
    }
}

fn token_text(token: &rmcp::model::ProgressToken) -> String {
    match &token.0 {
        RequestId::Number(number) => number.to_string(),
        RequestId::String(text) => text.to_string(),
    }
}

/// The answer as the server wrote it.
fn unwrap_result(result: ServerResult, method: &str) -> Result<Value, McpError> {
    // Taken out without a copy, as it can be large.
    if let ServerResult::CustomResult(CustomResult(mut value)) = result {
        let answer = value.get_mut(RESULT_KEY).map(Value::take);
        return Ok(answer.unwrap_or(value));
    }
    let unreadable = |reason: String| McpError::Unreadable { method: method.to_owned(), reason };
    let mut value = serde_json::to_value(result).map_err(|error| unreadable(error.to_string()))?;
    match value.get_mut(RESULT_KEY) {
        Some(result) => Ok(result.take()),
        None => Ok(value),
    }
}

fn read_error(error: ServiceError, method: &str) -> McpError {
    match error {
        ServiceError::McpError(error) if i64::from(error.code.0) == PAGE_NEEDED => {
            let message = error.message.into_owned();
            match read_pages(error.data.as_ref()) {
                pages if pages.is_empty() => McpError::Refused { code: PAGE_NEEDED, message },
                pages => McpError::PageNeeded { message, pages },
            }
        }
        ServiceError::McpError(error) => {
            McpError::Refused { code: i64::from(error.code.0), message: error.message.into_owned() }
        }
        ServiceError::TransportSend(error) => {
            read_transport_error(&*error.error).unwrap_or_else(closed)
        }
        ServiceError::Cancelled { .. } => McpError::Cancelled(method.to_owned()),
        ServiceError::Timeout { timeout } => {
            McpError::Timeout { method: method.to_owned(), limit: timeout }
        }
        ServiceError::TransportClosed => closed(),
        other => McpError::Unreadable { method: method.to_owned(), reason: other.to_string() },
    }
}

/// Error for a closed connection; the server's last words are added where the session is known.
const fn closed() -> McpError {
    McpError::Closed { said: String::new() }
}

/// The pages that an error wants opened, each with its reason.
fn read_pages(data: Option<&Value>) -> Vec<(String, Url)> {
    let asked = data.and_then(|data| data.get("elicitations")).and_then(Value::as_array);
    let page = |asked: &Value| {
        let text = |key: &str| asked.get(key).and_then(Value::as_str);
        let url =
            Url::parse(text("url")?).ok().filter(|url| ["https", "http"].contains(&url.scheme()));
        Some((cut_text(text("message").unwrap_or_default()), url?))
    };
    asked.into_iter().flatten().filter_map(page).take(PAGES).collect()
}

/// Our own fault somewhere below an error of the SDK.
pub(super) fn read_transport_error(error: &(dyn Error + 'static)) -> Option<McpError> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(fault) = error.downcast_ref::<HttpFault>() {
            return Some(fault.clone().into());
        }
        if let Some(error) = error.downcast_ref::<AuthRequiredError>() {
            return Some(McpError::SignIn { challenge: error.www_authenticate_header.clone() });
        }
        match error.downcast_ref::<StreamableHttpError<HttpFault>>() {
            Some(StreamableHttpError::Client(fault)) => return Some(fault.clone().into()),
            Some(
                StreamableHttpError::SessionExpired | StreamableHttpError::UnexpectedEndOfStream,
            ) => return Some(closed()),
            _ => {}
        }
        next = error.source();
    }
    None
}
