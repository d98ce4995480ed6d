//! `/v1/mcp/…`: tools, resources and prompts of the servers of the caller's role.

use axum::Json;
use axum::extract::State;
use codebutler_crds::wire::{McpCall, McpPrompt, McpRead, McpResources, McpResult, McpTools};
use codebutler_gateway_core::api_error::ApiError;
use codebutler_gateway_core::extract::{JsonBody, OpenCaller, QueryParams};
use codebutler_mcp_servers::offer::{ToolSearch, list_tools};
use codebutler_mcp_servers::{call, reads};
use serde::Deserialize;

use crate::state::SharedGateway;

/// Maximum length of a search, in characters.
const FIND: usize = 500;

/// Parameters of a list of tools.
#[derive(Deserialize)]
pub(super) struct ToolsWanted {
    find: Option<String>,
    most: Option<usize>,
    seen: Option<String>,
}

/// Parameters of a list of resources.
#[derive(Deserialize)]
pub(super) struct ResourcesWanted {
    server: Option<String>,
}

/// Tools that the model is offered, or that a search finds.
pub(super) async fn read_tools(
    State(gateway): State<SharedGateway>,
    OpenCaller(caller): OpenCaller,
    QueryParams(wanted): QueryParams<ToolsWanted>,
) -> Result<Json<McpTools>, ApiError> {
    let search = wanted.find.map(|find| {
        let find = find.chars().take(FIND).collect();
        ToolSearch { find, most: wanted.most }
    });
    let listed = list_tools(&gateway.mcp, &caller, search.as_ref()).await?;
    let is_seen = wanted.seen.as_ref() == Some(&listed.version);
    Ok(Json(if is_seen { McpTools::unchanged_since(listed.version) } else { listed }))
}

/// Calls a tool of an MCP server.
pub(super) async fn call_tool(
    State(gateway): State<SharedGateway>,
    OpenCaller(caller): OpenCaller,
    JsonBody(wanted): JsonBody<McpCall>,
) -> Result<Json<McpResult>, ApiError> {
    Ok(Json(Box::pin(call::call_tool(&gateway.mcp, caller, wanted)).await?))
}

/// Lists resources of MCP servers.
pub(super) async fn list_resources(
    State(gateway): State<SharedGateway>,
    OpenCaller(caller): OpenCaller,
    QueryParams(wanted): QueryParams<ResourcesWanted>,
) -> Result<Json<McpResources>, ApiError> {
    let server = wanted.server.as_deref().filter(|server| !server.is_empty());
    Ok(Json(Box::pin(reads::list_resources(&gateway.mcp, &caller, server)).await?))
}

/// Reads a resource of an MCP server.
pub(super) async fn read_resource(
    State(gateway): State<SharedGateway>,
    OpenCaller(caller): OpenCaller,
    JsonBody(wanted): JsonBody<McpRead>,
) -> Result<Json<McpResult>, ApiError> {
    Ok(Json(Box::pin(reads::read_resource(&gateway.mcp, &caller, &wanted)).await?))
}

/// Fills in a prompt of an MCP server.
pub(super) async fn read_prompt(
    State(gateway): State<SharedGateway>,
    OpenCaller(caller): OpenCaller,
    JsonBody(wanted): JsonBody<McpPrompt>,
) -> Result<Json<McpResult>, ApiError> {
    Ok(Json(Box::pin(reads::read_prompt(&gateway.mcp, &caller, &wanted)).await?))
}
