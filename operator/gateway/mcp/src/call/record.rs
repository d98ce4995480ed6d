//! The record of a call: a line in the history, one in the log, and the metrics.

use std::time::Duration;

use codebutler_crds::NanoUsd;
use codebutler_crds::wire::McpResult;
use codebutler_crds::wire::history::HistoryEvent;
use codebutler_gateway_core::caller::ProvenCaller;
use codebutler_gateway_core::history::ToldEvent;
use sha2::{Digest as _, Sha256};

use super::super::McpServers;
use super::super::masking::WordGuard;
use super::super::questions::ModelUse;

/// Characters of arguments in the history.
const ARGUMENTS: usize = 500;

/// A call that was sent, for the history.
pub struct SentCall<'a> {
    /// The agent's idempotency key of the call.
    pub key: &'a str,
    /// Name of the called server.
    pub server: &'a str,
    /// The server's own name of the tool, or the method.
    pub tool: &'a str,
    /// Arguments of the call, as JSON.
    pub arguments: String,
    /// Slack user id of the person who approved it.
    pub approved_by: Option<String>,
    /// Use of models by the server during the call.
    pub model: ModelUse,
    /// Price that was charged for the call.
    pub price: NanoUsd,
}

/// Outcome of a call, for the history and the metrics.
pub struct CallTaken {
    /// See [`HistoryEvent::McpCall`].
    pub outcome: &'static str,
    /// Size of the result in bytes.
    pub bytes: u64,
    /// Time from the call to its result.
    pub took: Duration,
}

impl CallTaken {
    /// Outcome of a call that has a result, or none.
    pub fn of(result: Option<&McpResult>, is_cancelled: bool, took: Duration) -> Self {
        let outcome = match result {
            Some(result) if result.failed => "failed",
            Some(_) => "ok",
            None if is_cancelled => "cancelled",
            None => "error",
        };
        let bytes = result.map_or(0, |result| {
            let pictures: usize = result.pictures.iter().map(|one| one.data.len()).sum();
            let sounds: usize = result.sounds.iter().map(|one| one.data.len()).sum();
            result.whole.as_ref().map_or(result.text.len(), String::len) + pictures + sounds
        });
        Self { outcome, bytes: u64::try_from(bytes).unwrap_or(u64::MAX), took }
    }
}

/// Writes a call to the history and counts it.
pub fn record_call(
    servers: &McpServers,
    caller: &ProvenCaller,
    guard: &WordGuard,
    call: &SentCall<'_>,
    taken: &CallTaken,
) {
    let SentCall { key, server, tool, arguments, approved_by, model, price } = call;
    let CallTaken { outcome, bytes, took } = *taken;
    servers.metrics.mcp_call(&caller.repo, server, outcome);
    servers.metrics.mcp_took(&caller.repo, server, took);
    let ModelUse { answers: model_answers, cost } = *model;
    servers.metrics.mcp_cost(&caller.repo, server, cost + *price);
    let hash = hex::encode(Sha256::digest(arguments));
    let (tool, millis) =
        (guard.line(tool, 200), u64::try_from(took.as_millis()).unwrap_or(u64::MAX));
    let by = approved_by.as_deref().unwrap_or("-");
    tracing::info!(
        repo = %format_args!("{}/{}", caller.key().namespace, caller.thread.spec.repo),
        thread = %caller.key(), role = caller.role_name(), server, tool, arguments = hash,
        outcome, bytes, approved_by = by, ms = millis, model_answers, cost_usd = %cost,
        price_usd = %price, "server_tool_called"
    );
    let event = HistoryEvent::McpCall {
        server: (*server).to_owned(),
        tool,
        arguments: guard.line(arguments, ARGUMENTS),
        hash: hash.clone(),
        bytes,
        approved_by: approved_by.clone(),
        millis,
        outcome: outcome.to_owned(),
        model_answers,
        cost,
        price: *price,
    };
    let key = format!("mcp:{}:{key}", caller.role_name());
    let role = Some(caller.role_name().to_owned());
    let told = ToldEvent { key, at: None, role, run: None, event };
    let redactor = servers.context.redactors.of(&caller.repo);
    servers.context.history.tell(&caller.key(), &redactor, told);
}
