//! Tools of the company's servers, as the gateway offers them: a key is carried out once, what people are to be asked
//! about waits for their yes, and nothing is done that is not offered.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use axum::Json;
use axum::Router;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use codebutler_wire::{
    ErrorCode, McpCall, McpPrompt, McpRead, McpResources, McpResult, McpTool, McpTools,
};
use sha2::{Digest as _, Sha256};

use super::{Gateway, refuse};

/// Tools and answers of the servers, and the requests that were made of them.
#[derive(Default)]
pub(crate) struct Servers {
    pub list: McpTools,
    /// Tools that only a search finds.
    pub hidden: Vec<McpTool>,
    /// Answers of tools; others echo their arguments.
    pub answers: HashMap<String, McpResult>,
    /// Tools that need a yes to each call, and the calls that have one.
    pub asks: BTreeSet<String>,
    pub allowed: BTreeSet<String>,
    /// Calls that were carried out.
    pub calls: Vec<McpCall>,
    /// Number of requests for the list, and of those that were answered without it.
    pub listed: usize,
    pub unchanged: usize,
    /// Tools that there are as well once one was called.
    pub grows: Vec<McpTool>,
    /// The list comes so much later.
    pub delay: Duration,
    pub resources: McpResources,
    pub reads: Vec<McpRead>,
    pub prompts: Vec<McpPrompt>,
    /// Calls and their answers, by key.
    known: HashMap<String, (McpCall, McpResult)>,
}

impl Servers {
    /// Key of the exact call that people say yes to.
    pub(crate) fn exactly(call: &McpCall) -> String {
        format!("{} {}", call.tool, call.arguments)
    }
}

pub(super) fn routes() -> Router<Gateway> {
    Router::new()
        .route("/v1/mcp/tools", get(tools))
        .route("/v1/mcp/calls", post(call))
        .route("/v1/mcp/resources", get(resources))
        .route("/v1/mcp/reads", post(read))
        .route("/v1/mcp/prompts", post(prompt))
}

async fn tools(
    State(gateway): State<Gateway>,
    Query(query): Query<HashMap<String, String>>,
) -> Json<McpTools> {
    let delay = {
        let mut inner = gateway.lock();
        inner.servers.listed += usize::from(!query.contains_key("find"));
        inner.servers.delay
    };
    tokio::time::sleep(delay).await;
    let mut inner = gateway.lock();
    let servers = &mut inner.servers;
    let hidden = u32::try_from(servers.hidden.len()).unwrap();
    let mut list = McpTools { hidden, ..servers.list.clone() };
    list.version = hex::encode(Sha256::digest(serde_json::to_string(&list).unwrap()));
    if let Some(words) = query.get("find") {
        assert_eq!(query["most"], "8");
        let fits = |tool: &&McpTool| words.split(' ').any(|word| tool.description.contains(word));
        list.tools = servers.hidden.iter().filter(fits).cloned().collect();
    }
    if query.get("seen") == Some(&list.version) {
        servers.unchanged += 1;
        return Json(McpTools::unchanged_since(list.version));
    }
    Json(list)
}

async fn call(State(gateway): State<Gateway>, Json(call): Json<McpCall>) -> Response {
    let mut inner = gateway.lock();
    let servers = &mut inner.servers;
    assert!(!call.key.is_empty() && call.arguments.is_object(), "{call:?}");
    if let Some((known, answer)) = servers.known.get(&call.key) {
        assert_eq!(known, &call, "a key stands for one call");
        return Json(answer.clone()).into_response();
    }
    let mut all = servers.list.tools.iter().chain(&servers.hidden);
    if !all.any(|tool| tool.name == call.tool) {
        let why = format!("no server has a tool `{}`", call.tool);
        return refuse(StatusCode::BAD_REQUEST, ErrorCode::InvalidRequest, &why);
    }
    if servers.asks.contains(&call.tool) && !servers.allowed.remove(&Servers::exactly(&call)) {
        let why = "people are asked: end your run. Their answer wakes you; then do exactly the same again";
        return refuse(StatusCode::FORBIDDEN, ErrorCode::NeedsApproval, why);
    }
    let echo = || McpResult { text: call.arguments.to_string(), ..McpResult::default() };
    let answer = servers.answers.get(&call.tool).cloned().unwrap_or_else(echo);
    servers.known.insert(call.key.clone(), (call.clone(), answer.clone()));
    servers.calls.push(call);
    let more = std::mem::take(&mut servers.grows);
    servers.list.tools.splice(..0, more);
    Json(answer).into_response()
}

async fn resources(
    State(gateway): State<Gateway>,
    Query(query): Query<HashMap<String, String>>,
) -> Json<McpResources> {
    let mut found = gateway.lock().servers.resources.clone();
    if let Some(server) = query.get("server") {
        found.resources.retain(|resource| resource.server == *server);
    }
    Json(found)
}

async fn read(State(gateway): State<Gateway>, Json(read): Json<McpRead>) -> Json<McpResult> {
    let text = format!("content of {}", read.uri);
    gateway.lock().servers.reads.push(read);
    Json(McpResult { text, ..McpResult::default() })
}

async fn prompt(State(gateway): State<Gateway>, Json(prompt): Json<McpPrompt>) -> Json<McpResult> {
    let text = format!("Please {} it.", prompt.name);
    gateway.lock().servers.prompts.push(prompt);
    Json(McpResult { text, ..McpResult::default() })
}
