//! The share of a model's window that the tools of ten servers take: as a role's first request has them,
//! against a plain list of all of them. The definitions are those of the official servers.

use anyhow::{Context as _, ensure};
use codebutler_testbed::mcp::{McpServer, ToolAnswer};
use codebutler_testbed::models::count_tokens;
use serde_json::{Value, json};

use super::super::MeasuredFigure;
use super::super::wake::{ROLE, await_call, await_settled};
use super::bed::McpBed;
use super::direct::DirectClient;

const SERVERS: usize = 10;
const TOOLS: usize = 20;
const OFFICIAL: [&str; 4] = ["everything", "filesystem", "memory", "sequential-thinking"];
const LIMIT: f64 = 0.5;

/// Measures the list's tokens in a role's first request as a ratio to those of the plain list.
pub(super) async fn measure_list(bed: &McpBed) -> anyhow::Result<MeasuredFigure> {
    let definitions = collect_definitions(bed).await?;
    let (mut playing, mut specs, mut plain) = (Vec::new(), Vec::new(), Vec::new());
    for at in 0..SERVERS {
        let name = format!("server-{at}");
        let server = McpServer::start(None).await?;
        let own: Vec<&Value> = definitions.iter().cycle().skip(at * TOOLS).take(TOOLS).collect();
        server.set_tools(own.iter().map(|tool| ((*tool).clone(), ToolAnswer::Text("done".into()))));
        plain.extend(own.iter().map(|tool| show_plainly(&name, tool)));
        specs.push(json!({"name": name, "url": server.url()}));
        playing.push(server);
    }
    bed.set_servers(&[]).await?;
    let without = await_first_request(bed).await?;
    bed.set_servers(&specs).await?;
    bed.await_listed(SERVERS).await?;
    let with = await_first_request(bed).await?;
    // So many are searched, and not listed.
    let tools = with["tools"].to_string();
    let is_shown = tools.contains("mcp__server-") || tools.contains("\"FindTool\"");
    ensure!(is_shown, "the role was shown no way to a tool of a server");
    let shown = count_request(&with) - count_request(&without);
    let plain = count(&Value::Array(plain));
    Ok(MeasuredFigure::ratio("mcp.list_tokens", shown, plain, LIMIT))
}

async fn collect_definitions(bed: &McpBed) -> anyhow::Result<Vec<Value>> {
    let mut all = Vec::new();
    for server in OFFICIAL {
        let mut client = DirectClient::start(bed.dir.path(), &bed.modules, server)?;
        all.extend(client.list_tools().await.with_context(|| server.to_owned())?);
    }
    // A tool that runs as a task only is left out, and said so: it is in neither list.
    all.retain(|tool| tool["execution"]["taskSupport"] != "required");
    // Else a server would have the same tool twice.
    ensure!(all.len() >= TOOLS, "the official servers have only {} tools", all.len());
    Ok(all)
}

/// A tool's definition as Claude Code sends it to its model.
fn show_plainly(server: &str, tool: &Value) -> Value {
    json!({
        "name": format!("mcp__{server}__{}", tool["name"].as_str().unwrap_or_default()),
        "description": tool["description"], "input_schema": tool["inputSchema"],
    })
}

/// The first request of a new conversation.
async fn await_first_request(bed: &McpBed) -> anyhow::Result<Value> {
    let before = bed.stack.models.requests().len();
    let (root, _) = await_call(&bed.stack, None).await?;
    await_settled(&bed.stack, &root).await?;
    let requests = bed.stack.models.requests();
    let first = requests.iter().skip(before).find(|request| is_of_role(request));
    Ok(first.context("the role did not ask its model")?.body.clone())
}

fn is_of_role(request: &codebutler_testbed::models::ModelRequest) -> bool {
    request.role.as_deref() == Some(ROLE)
}

fn count_request(body: &Value) -> f64 {
    count(&body["tools"]) + count(&body["messages"])
}

#[allow(clippy::cast_precision_loss)] // thousands
fn count(value: &Value) -> f64 {
    count_tokens(&value.to_string()) as f64
}
