//! Servers of the Model Context Protocol that a scenario gives its Repo: each is played by a server on loopback.

use codebutler_crds::mcp::McpServerSpec;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::mcp::{McpServer, ToolAnswer};

/// Defaults that the API server fills in.
const IDLE_SECONDS: u32 = 300;
const CALL_SECONDS: u32 = 90;

/// A server of the Repo.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Server")]
pub struct ScenarioServer {
    /// Name in `spec.mcpServers`.
    #[schemars(regex(pattern = r"^[a-z0-9]([-a-z0-9]{0,28}[a-z0-9])?$"))]
    pub name: String,
    /// Roles that may use it; all if absent.
    #[serde(default)]
    pub roles: Vec<String>,
    /// Its tools.
    #[schemars(length(min = 1))]
    pub tools: Vec<ScenarioTool>,
}

/// A tool of a server.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ServerTool")]
pub struct ScenarioTool {
    /// The server's own name of it.
    pub name: String,
    /// Its description.
    pub description: String,
    /// Schema of its arguments; without properties if absent.
    #[serde(default)]
    pub schema: Option<Value>,
    /// The server's hints, such as `{readOnlyHint: true}`.
    #[serde(default)]
    pub annotations: Option<Value>,
    /// Its answer: a text, or a whole result with `content`.
    pub answer: Value,
}

/// Servers of a scenario, running until they are dropped.
pub struct ScenarioServers {
    running: Vec<(ScenarioServer, McpServer)>,
}

impl ScenarioServers {
    /// Starts all of them.
    ///
    /// # Errors
    /// When no port can be had.
    pub async fn start(servers: &[ScenarioServer]) -> std::io::Result<Self> {
        let mut running = Vec::new();
        for server in servers {
            let playing = McpServer::start(None).await?;
            playing.set_tools(server.tools.iter().map(describe_tool));
            running.push((server.clone(), playing));
        }
        Ok(Self { running })
    }

    /// Entries of `spec.mcpServers`.
    #[must_use]
    pub fn specs(&self) -> Vec<McpServerSpec> {
        let spec = |(server, playing): &(ScenarioServer, McpServer)| McpServerSpec {
            name: server.name.clone(),
            url: Some(playing.url()),
            roles: server.roles.clone(),
            idle_seconds: IDLE_SECONDS,
            call_seconds: CALL_SECONDS,
            ..McpServerSpec::default()
        };
        self.running.iter().map(spec).collect()
    }
}

fn describe_tool(tool: &ScenarioTool) -> (Value, ToolAnswer) {
    let plain = json!({"type": "object", "properties": {}});
    let mut told = json!({
        "name": tool.name,
        "description": tool.description,
        "inputSchema": tool.schema.clone().unwrap_or(plain),
    });
    if let Some(annotations) = &tool.annotations {
        told["annotations"] = annotations.clone();
    }
    let answer = match &tool.answer {
        Value::String(text) => ToolAnswer::Text(text.clone()),
        result => ToolAnswer::Result(result.clone()),
    };
    (told, answer)
}
