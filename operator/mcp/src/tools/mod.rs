//! Tools of servers, made fit for models: names, schemas, search, risk, and what was approved of them.

mod arguments;
mod name;
mod pattern;
mod pin;
mod risk;
mod schema;
mod search;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use codebutler_mcp_file::clean_text;

use crate::weight::weigh;

pub use arguments::restore_arguments;
pub use name::{NAME_LENGTH, NamedTools, assign_names, name_tool};
pub use pattern::{NamePatterns, PatternError, ToolFilter};
pub use pin::{ChangedTool, PinReview, PinScope, PinnedTool, review_pins};
pub use risk::{RiskJudgement, RiskOverride, ToolRisk, judge_risk};
pub use schema::{CleanSchema, SchemaBounds, SchemaDialect, clean_schema};
pub use search::{SearchEntry, ShownTools, choose_shown, search_tools};

/// Bytes of a tool's annotations: the protocol knows a name and four flags.
const ANNOTATIONS: usize = 4 << 10;

/// A server's hints about a tool's effects. Hints of strangers: see [`judge_risk`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolHints {
    /// The tool changes nothing.
    pub read_only: bool,
    /// The tool may destroy something.
    pub destructive: bool,
    /// The tool reaches beyond the server.
    pub open_world: bool,
}

/// A tool as its server describes it. All of its words are untrusted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServerTool {
    /// The server's own name of it, as a call has to say it.
    pub name: String,
    /// Display name for people.
    pub title: Option<String>,
    pub description: String,
    /// Schema of its arguments, as it came.
    pub input_schema: Map<String, Value>,
    /// Schema of its structured answer, as it came.
    pub output_schema: Option<Value>,
    /// The server's hints about its effects.
    pub hints: ToolHints,
    /// All annotations, as they came.
    pub annotations: Value,
}

/// A tool that can't be used; the words name it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ToolFault {
    #[error("a tool has no `name`")]
    NoName,
    #[error("the tool `{0}…` has a name of {1} bytes")]
    LongName(String, usize),
    #[error("the tool `{0}` runs as a task only, which this client can't start")]
    TaskOnly(String),
    #[error("the tool `{0}` has an `inputSchema` that is no object")]
    NoSchema(String),
    #[error("the tool `{tool}` has a schema of {size} KiB, more than {most} KiB")]
    LargeSchema { tool: String, size: usize, most: usize },
    #[error("the tool `{0}` has annotations of {1} KiB")]
    LargeAnnotations(String, usize),
}

impl ServerTool {
    /// Reads an entry of `tools/list`.
    pub(crate) fn read(
        item: &Map<String, Value>,
        schema_bytes: usize,
        description_chars: usize,
    ) -> Result<Self, ToolFault> {
        let name = item.get("name").and_then(Value::as_str).filter(|name| !name.is_empty());
        let name = name.ok_or(ToolFault::NoName)?.to_owned();
        let shown = clean_text(&name).chars().take(80).collect::<String>();
        if name.len() > 1000 {
            return Err(ToolFault::LongName(shown, name.len()));
        }
        if item.get("execution").and_then(|execution| execution.get("taskSupport"))
            == Some(&json!("required"))
        {
            return Err(ToolFault::TaskOnly(shown));
        }
        let input_schema = match item.get("inputSchema") {
            Some(Value::Object(schema)) => schema.clone(),
            Some(Value::Null | Value::Bool(true)) | None => Map::new(),
            Some(_) => return Err(ToolFault::NoSchema(shown)),
        };
        let size = input_schema.iter().map(|(key, value)| key.len() + weigh(value)).sum::<usize>();
        if size > schema_bytes {
            let (size, most) = (size >> 10, schema_bytes >> 10);
            return Err(ToolFault::LargeSchema { tool: shown, size, most });
        }
        let output_schema = item.get("outputSchema").filter(|schema| schema.is_object());
        let text_at = |key: &str| item.get(key).and_then(Value::as_str).map(clean_text);
        let cut = |text: String| text.chars().take(description_chars).collect::<String>();
        let annotations =
            item.get("annotations").filter(|value| value.is_object()).cloned().unwrap_or_default();
        let size = weigh(&annotations);
        if size > ANNOTATIONS {
            return Err(ToolFault::LargeAnnotations(shown, size >> 10));
        }
        Ok(Self {
            name,
            title: text_at("title")
                .or_else(|| annotations.get("title").and_then(Value::as_str).map(clean_text))
                .map(cut),
            description: cut(text_at("description").unwrap_or_default()),
            input_schema,
            output_schema: output_schema.filter(|schema| weigh(schema) <= schema_bytes).cloned(),
            hints: read_hints(&annotations),
            annotations,
        })
    }
}

/// Only a plain `true` makes a tool harmless; anything like it makes it dangerous.
fn read_hints(annotations: &Value) -> ToolHints {
    let is_true = |key: &str| annotations.get(key) == Some(&Value::Bool(true));
    let is_like_true = |key: &str| {
        annotations.get(key).is_some_and(|value| !matches!(value, Value::Null | Value::Bool(false)))
    };
    ToolHints {
        read_only: is_true("readOnlyHint"),
        destructive: is_like_true("destructiveHint"),
        // The protocol's default is that it does.
        open_world: annotations.get("openWorldHint") != Some(&Value::Bool(false)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(item: Value) -> Result<ServerTool, String> {
        let Value::Object(item) = item else { panic!("{item}") };
        ServerTool::read(&item, 1000, 20).map_err(|fault| fault.to_string())
    }

    #[test]
    fn a_tool_with_missing_fields_is_used_and_a_useless_one_is_named() {
        let bare = read(json!({"name": "a", "inputSchema": null, "annotations": 7})).unwrap();
        assert_eq!((&*bare.name, &*bare.description, bare.input_schema.len()), ("a", "", 0));
        let refused = |item: Value| read(item).unwrap_err();
        assert_eq!(refused(json!({"description": "x"})), "a tool has no `name`");
        assert!(
            refused(json!({"name": "b", "inputSchema": []})).contains("`b` has an `inputSchema`")
        );
        let task = json!({"name": "c", "execution": {"taskSupport": "required"}});
        assert!(refused(task).contains("`c` runs as a task only"));
        let large = json!({"name": "d", "inputSchema": {"description": "x".repeat(2000)}});
        assert!(refused(large).contains("`d` has a schema of"));
        let large = json!({"name": "e", "annotations": {"title": "x".repeat(5000)}});
        assert!(refused(large).contains("`e` has annotations of 4 KiB"));
    }

    #[test]
    fn only_a_plain_true_is_harmless() {
        let hints = |value: Value| read_hints(&value);
        assert!(hints(json!({"readOnlyHint": true})).read_only);
        assert!(!hints(json!({"readOnlyHint": "true"})).read_only && !hints(json!({})).read_only);
        assert!(hints(json!({"destructiveHint": "true"})).destructive);
        assert!(
            !hints(json!({"destructiveHint": false})).destructive
                && !hints(json!(null)).destructive
        );
        assert!(hints(json!({})).open_world && !hints(json!({"openWorldHint": false})).open_world);
    }
}
