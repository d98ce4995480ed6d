//! Tools of the company's servers, through the gateway. A call may last for minutes, and is repeated only with its
//! key, by which the gateway knows that it is the same.

use std::time::Duration;

use codebutler_wire::{
    ErrorCode, McpCall, McpPrompt, McpRead, McpResources, McpResult, McpTools, path,
};
use reqwest::{Method, RequestBuilder};
use serde::de::DeserializeOwned;

pub use super::lasting::is_over;
use super::{GatewayClient, GatewayError, PATIENCE, parse_answer};

/// Timeout of a tool call: ten minutes at most at the server, and up to four for its pod to start before.
pub const CALL_LIMIT: Duration = Duration::from_mins(15);
/// Timeout of a list request; the gateway has the list at hand.
const LIST_LIMIT: Duration = Duration::from_secs(30);
/// Retry budget of a list request.
const LIST_PATIENCE: Duration = Duration::from_secs(10);
/// Error text for the model when a call timed out.
pub const NO_ANSWER: &str =
    "no answer in time. It may have been carried out all the same: look before you repeat it";
/// Most tools that a search answers with, as a query parameter.
const MOST_FOUND: &str = "8";

impl GatewayClient {
    /// Lists the servers' tools that the role is offered. If the caller has seen the current version, the answer only
    /// says so.
    pub async fn server_tools(&self, seen: Option<&str>) -> Result<McpTools, GatewayError> {
        let query: Vec<_> = seen.map(|version| ("seen", version)).into_iter().collect();
        let answer = self.retried(LIST_PATIENCE, || {
            let request = self.request(Method::GET, path::MCP_TOOLS)?;
            Ok(request.query(&query).timeout(LIST_LIMIT))
        });
        parse_answer(&answer.await?)
    }

    /// Searches all tools that the role may use for those whose descriptions fit these words best.
    pub async fn find_server_tools(&self, words: &str) -> Result<McpTools, GatewayError> {
        let query = [("find", words), ("most", MOST_FOUND)];
        let answer = self.retried(PATIENCE, || {
            let request = self.request(Method::GET, path::MCP_TOOLS)?;
            Ok(request.query(&query).timeout(LIST_LIMIT))
        });
        parse_answer(&answer.await?)
    }

    /// Calls a tool, once per key.
    pub async fn call_server(&self, call: &McpCall) -> Result<McpResult, GatewayError> {
        self.ask_servers(|| Ok(self.request(Method::POST, path::MCP_CALLS)?.json(call))).await
    }

    /// Lists the resources of one server, or of all.
    pub async fn server_resources(
        &self,
        server: Option<&str>,
    ) -> Result<McpResources, GatewayError> {
        let query: Vec<_> = server.map(|server| ("server", server)).into_iter().collect();
        self.ask_servers(|| Ok(self.request(Method::GET, path::MCP_RESOURCES)?.query(&query))).await
    }

    /// Reads a resource of an MCP server.
    pub async fn read_resource(&self, read: &McpRead) -> Result<McpResult, GatewayError> {
        self.ask_servers(|| Ok(self.request(Method::POST, path::MCP_READS)?.json(read))).await
    }

    /// Fetches a prompt of a server, filled in.
    pub async fn fill_prompt(&self, prompt: &McpPrompt) -> Result<McpResult, GatewayError> {
        self.ask_servers(|| Ok(self.request(Method::POST, path::MCP_PROMPTS)?.json(prompt))).await
    }

    async fn ask_servers<T: DeserializeOwned>(
        &self,
        build: impl Fn() -> Result<RequestBuilder, GatewayError>,
    ) -> Result<T, GatewayError> {
        self.retry_lasting((false, CALL_LIMIT), |_| build()).await
    }
}

/// Text for the model where a call failed and the run can go on.
pub fn explain_refusal(error: &GatewayError) -> Option<String> {
    match error {
        GatewayError::Refused {
            code: ErrorCode::ThreadClosed | ErrorCode::NotRegistered | ErrorCode::Unauthenticated,
            ..
        } => None,
        GatewayError::Refused { message, .. } => Some(message.clone()),
        GatewayError::Unexpected { .. } => Some(error.to_string()),
        error if is_over(error) => Some(NO_ANSWER.to_owned()),
        _ => None,
    }
}
