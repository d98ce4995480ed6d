//! One request: waiting for its answer with two time limits, and taking it back.

use std::error::Error;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rmcp::model::{
    CancelledNotification, CancelledNotificationParam, ClientNotification, ClientRequest,
    CustomRequest, RequestId, ServerResult,
};
use rmcp::service::{PeerRequestOptions, ServiceError};
use rmcp::transport::streamable_http_client::{AuthRequiredError, StreamableHttpError};
use rmcp::{Peer, RoleClient};
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::ServerSession;
use crate::content::ToolResult;
use crate::error::McpError;
use crate::events::ProgressStep;
use crate::wire::RESULT_KEY;
use crate::wire::http::HttpFault;

/// Steps of progress that wait for their reader.
const STEPS: usize = 16;

/// A call of a tool.
#[derive(Clone, Debug, Default)]
pub struct ToolCall {
    /// The server's own name of the tool.
    pub name: String,
    /// Its arguments.
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
    /// Calls a tool. An error of the tool itself is a result; after [`McpError::Closed`] it may have run.
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

    /// From which level on the server sends entries of its log.
    pub async fn set_log_level(&self, level: &str) -> Result<(), McpError> {
        if !self.facts.has("logging") {
            return Err(McpError::Missing("log"));
        }
        self.ask("logging/setLevel", json!({"level": level})).await.map(drop)
    }

    /// Sends a short request.
    pub(super) async fn ask(&self, method: &str, params: Value) -> Result<Value, McpError> {
        let limits = WaitLimits { idle: self.limits.request, total: self.limits.request };
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
                answer = &mut handle.rx => break answer.map_err(|_| McpError::Closed)?,
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
    let unreadable = |reason: String| McpError::Unreadable { method: method.to_owned(), reason };
    let mut value = serde_json::to_value(result).map_err(|error| unreadable(error.to_string()))?;
    match value.get_mut(RESULT_KEY) {
        Some(result) => Ok(result.take()),
        None => Ok(value),
    }
}

fn read_error(error: ServiceError, method: &str) -> McpError {
    match error {
        ServiceError::McpError(error) => {
            McpError::Refused { code: i64::from(error.code.0), message: error.message.into_owned() }
        }
        ServiceError::TransportSend(error) => {
            read_transport_error(&*error.error).unwrap_or(McpError::Closed)
        }
        ServiceError::Cancelled { .. } => McpError::Cancelled(method.to_owned()),
        ServiceError::Timeout { timeout } => {
            McpError::Timeout { method: method.to_owned(), limit: timeout }
        }
        ServiceError::TransportClosed => McpError::Closed,
        other => McpError::Unreadable { method: method.to_owned(), reason: other.to_string() },
    }
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
            ) => return Some(McpError::Closed),
            _ => {}
        }
        next = error.source();
    }
    None
}
