//! Tools of the company's own servers. Which there are is known from the gateway while the role runs, so they have
//! names of their own; what they say is a stranger's word and stands in a fence.

mod instructions;
mod lookup;
mod result;

use async_trait::async_trait;
use codebutler_guides::policy::{CommandPolicy, RiskVerdict};
use codebutler_guides::voice::guard_voice;
use codebutler_wire::{McpCall, McpServer, McpTool};
use serde_json::{Value, json};

use super::{CallRisk, RoleTool, StartedCall, ToolContext, ToolFailure, ToolOutcome, canonical};

pub use instructions::show_instructions;
pub use lookup::{FIND, LIST, PROMPT, READ};

/// A tool of a server.
pub struct ServerTool {
    tool: McpTool,
}

impl ServerTool {
    /// As the gateway describes it.
    pub fn new(tool: McpTool) -> Self {
        Self { tool }
    }

    /// One of which only the name is known: the gateway knows whether it exists.
    pub fn unlisted(name: &str) -> Self {
        let (name, description, reads) = (name.to_owned(), String::new(), false);
        Self { tool: McpTool { name, description, schema: json!({"type": "object"}), reads } }
    }
}

/// What the model is offered to look around at servers: by name, as the order of offered tools has it.
pub fn lookup_tool(name: &str, servers: &[McpServer]) -> Option<Box<dyn RoleTool>> {
    lookup::find_tool(name, servers)
}

#[async_trait]
impl RoleTool for ServerTool {
    fn name(&self) -> &str {
        &self.tool.name
    }

    fn spec(&self) -> Value {
        let McpTool { name, description, schema, .. } = &self.tool;
        let parameters = match schema {
            Value::Object(_) => schema.clone(),
            _ => json!({"type": "object", "properties": {}}),
        };
        let description = guard_voice(description);
        let function = json!({"name": name, "description": description, "parameters": parameters});
        json!({"type": "function", "function": function})
    }

    fn schema(&self) -> Value {
        self.tool.schema.clone()
    }

    fn is_foreign(&self) -> bool {
        true
    }

    fn risk(&self) -> CallRisk {
        if self.tool.reads { CallRisk::Reads } else { CallRisk::Speaks }
    }

    fn verdict(&self, policy: &CommandPolicy, _arguments: &str) -> RiskVerdict {
        policy.tool(&self.tool.name, self.risk().tier())
    }

    async fn key(
        &self,
        _cx: &ToolContext,
        _arguments: &str,
        proposed: &str,
    ) -> Result<String, ToolFailure> {
        Ok(proposed.to_owned())
    }

    async fn call(
        &self,
        cx: &ToolContext,
        arguments: &str,
        call: StartedCall<'_>,
    ) -> Result<ToolOutcome, ToolFailure> {
        let name = &self.tool.name;
        let arguments = canonical::read_arguments(name, arguments)?;
        canonical::check_arguments(name, &self.tool.schema, &arguments)?;
        let call = McpCall {
            key: call.key.to_owned(),
            tool: name.clone(),
            arguments: Value::Object(arguments),
        };
        let answer = cx.gateway.call_server(&call).await.map_err(result::explain_failure)?;
        Ok(result::show_result(cx, answer).await)
    }
}

#[cfg(test)]
mod tests;
