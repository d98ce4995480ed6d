//! Lists of a server, page by page: each bounded, and a bad item costs only itself.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::ServerSession;
use crate::content::{PromptMessage, ToolResult};
use crate::error::McpError;
use crate::events::cut_text;
use crate::tools::{ServerTool, ToolFault};
use crate::weight::weigh;

/// JSON-RPC's code for a method that a server does not have.
const UNKNOWN_METHOD: i64 = -32_601;
/// Sentences about skipped items that are kept.
const SKIPPED: usize = 50;
/// Bytes of a prompt's name: it is needed as it is.
const PROMPT_NAME: usize = 1000;

/// A list as far as it can be used.
#[derive(Clone, Debug, PartialEq)]
pub struct ListedItems<T> {
    /// Items that can be used.
    pub items: Vec<T>,
    /// A sentence for each item that can't.
    pub skipped: Vec<String>,
    /// The server has more than was read.
    pub is_cut: bool,
}

/// A resource that a server offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedResource {
    /// URI to read the resource by.
    pub uri: String,
    pub name: String,
    pub description: Option<String>,
    pub media_type: Option<String>,
    /// Size in bytes, as the server says.
    pub size: Option<u64>,
}

/// A resource address with variables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceTemplate {
    /// URI template of RFC 6570.
    pub uri_template: String,
    pub name: String,
    pub description: Option<String>,
}

/// A prompt that a server offers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedPrompt {
    /// Name to get the prompt by.
    pub name: String,
    pub description: Option<String>,
    pub arguments: Vec<PromptArgument>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromptArgument {
    pub name: String,
    pub description: Option<String>,
    /// True if the prompt can't do without it.
    pub is_required: bool,
}

/// An entry of a list that can't be used.
#[derive(Debug, thiserror::Error)]
enum EntryFault {
    #[error("entry {number} of `{field}` is no object")]
    NoObject { number: usize, field: String },
    #[error(transparent)]
    Tool(#[from] ToolFault),
    #[error("a resource has no `uri`")]
    NoUri,
    #[error("a template has no `uriTemplate`")]
    NoTemplate,
    #[error("a prompt has no `name`")]
    NoPromptName,
    #[error("a prompt has a name of {0} bytes")]
    LongPromptName(usize),
}

impl ServerSession {
    /// Lists the server's tools; those that can't be used are skipped.
    pub async fn list_tools(&self) -> Result<ListedItems<ServerTool>, McpError> {
        let limits = &self.limits;
        let read = |item: &Map<String, Value>| {
            let (schema, description) = (limits.schema_bytes, limits.description_chars);
            ServerTool::read(item, schema, description).map_err(EntryFault::from)
        };
        let mut listed = match self.list("tools/list", "tools", read).await {
            // A server may have prompts or resources alone.
            Err(McpError::Refused { code: UNKNOWN_METHOD, .. }) if !self.facts.has("tools") => {
                return Ok(ListedItems { items: Vec::new(), skipped: Vec::new(), is_cut: false });
            }
            listed => listed?,
        };
        let mut names = std::collections::HashSet::new();
        let mut twice = Vec::new();
        listed.items.retain(|tool| {
            names.insert(tool.name.clone()) || {
                twice.push(format!(
                    "the tool `{}` is listed twice: only the first is used",
                    cut_text(&tool.name)
                ));
                false
            }
        });
        listed.skipped.extend(twice.into_iter().take(SKIPPED));
        Ok(listed)
    }

    /// The server's resources; none where it declares none.
    pub async fn list_resources(&self) -> Result<ListedItems<ListedResource>, McpError> {
        if !self.facts.has("resources") {
            return Ok(ListedItems { items: Vec::new(), skipped: Vec::new(), is_cut: false });
        }
        self.list("resources/list", "resources", |item| {
            let uri = text_at(item, "uri").ok_or(EntryFault::NoUri)?;
            Ok(ListedResource {
                name: text_at(item, "title")
                    .or_else(|| text_at(item, "name"))
                    .unwrap_or_else(|| uri.clone()),
                uri,
                description: text_at(item, "description"),
                media_type: text_at(item, "mimeType"),
                size: item.get("size").and_then(Value::as_u64),
            })
        })
        .await
    }

    /// The server's addresses with variables; none where it declares none.
    pub async fn list_resource_templates(&self) -> Result<ListedItems<ResourceTemplate>, McpError> {
        if !self.facts.has("resources") {
            return Ok(ListedItems { items: Vec::new(), skipped: Vec::new(), is_cut: false });
        }
        self.list("resources/templates/list", "resourceTemplates", |item| {
            let uri_template = text_at(item, "uriTemplate").ok_or(EntryFault::NoTemplate)?;
            let name = text_at(item, "name").unwrap_or_else(|| uri_template.clone());
            Ok(ResourceTemplate { uri_template, name, description: text_at(item, "description") })
        })
        .await
    }

    /// The server's prompts; none where it declares none.
    pub async fn list_prompts(&self) -> Result<ListedItems<ListedPrompt>, McpError> {
        if !self.facts.has("prompts") {
            return Ok(ListedItems { items: Vec::new(), skipped: Vec::new(), is_cut: false });
        }
        self.list("prompts/list", "prompts", |item| {
            let name = item.get("name").and_then(Value::as_str).filter(|name| !name.is_empty());
            let name = name.ok_or(EntryFault::NoPromptName)?.to_owned();
            if name.len() > PROMPT_NAME {
                return Err(EntryFault::LongPromptName(name.len()));
            }
            let arguments = item.get("arguments").and_then(Value::as_array).into_iter().flatten();
            let arguments = arguments.filter_map(Value::as_object).filter_map(|argument| {
                Some(PromptArgument {
                    name: text_at(argument, "name")?,
                    description: text_at(argument, "description"),
                    is_required: argument.get("required") == Some(&Value::Bool(true)),
                })
            });
            Ok(ListedPrompt {
                name,
                description: text_at(item, "description"),
                arguments: arguments.collect(),
            })
        })
        .await
    }

    /// Reads the content of a resource.
    pub async fn read_resource(&self, uri: &str) -> Result<ToolResult, McpError> {
        let result = self.fetch("resources/read", json!({"uri": uri})).await?;
        Ok(ToolResult::read_resource(&result))
    }

    /// A prompt with its arguments filled in.
    pub async fn get_prompt(
        &self,
        name: &str,
        arguments: &Map<String, Value>,
    ) -> Result<Vec<PromptMessage>, McpError> {
        let params = json!({"name": name, "arguments": arguments});
        let result = self.fetch("prompts/get", params).await?;
        Ok(PromptMessage::read_all(&result))
    }

    async fn list<T>(
        &self,
        method: &str,
        field: &str,
        read: impl Fn(&Map<String, Value>) -> Result<T, EntryFault>,
    ) -> Result<ListedItems<T>, McpError> {
        let mut listed = ListedItems { items: Vec::new(), skipped: Vec::new(), is_cut: false };
        let mut cursor = Value::Null;
        let mut seen = Vec::new();
        let mut bytes = 0_usize;
        for _ in 0..self.limits.pages {
            let params = if cursor.is_null() { json!({}) } else { json!({"cursor": cursor}) };
            let mut page = self.ask_for_page(method, params).await?;
            let Some(Value::Array(items)) = page.get_mut(field).map(Value::take) else {
                let reason = format!("it has no list `{field}`");
                return Err(McpError::Unreadable { method: method.to_owned(), reason });
            };
            for (number, item) in items.iter().enumerate() {
                bytes = bytes.saturating_add(weigh(item));
                if listed.items.len() >= self.limits.items || bytes > self.limits.list_bytes {
                    listed.is_cut = true;
                    return Ok(listed);
                }
                let no_object =
                    || EntryFault::NoObject { number: number + 1, field: field.to_owned() };
                match item.as_object().ok_or_else(no_object).and_then(&read) {
                    Ok(item) => listed.items.push(item),
                    Err(fault) if listed.skipped.len() < SKIPPED => {
                        listed.skipped.push(cut_text(&fault.to_string()));
                    }
                    Err(_) => {}
                }
            }
            seen.push(cursor);
            cursor = page.get_mut("nextCursor").map(Value::take).unwrap_or_default();
            let is_end = cursor.is_null() || cursor.as_str() == Some("");
            // A server that sends the same page again would never end.
            if is_end || seen.contains(&cursor) {
                return Ok(listed);
            }
            // Each is kept until the list ends.
            bytes = bytes.saturating_add(weigh(&cursor));
            if bytes > self.limits.list_bytes {
                break;
            }
        }
        listed.is_cut = true;
        Ok(listed)
    }
}

fn text_at(item: &Map<String, Value>, key: &str) -> Option<String> {
    item.get(key).and_then(Value::as_str).filter(|text| !text.is_empty()).map(cut_text)
}
