//! A tool's call as people read it. Pure.

use codebutler_wire::history::ToolUse;
use codebutler_wire::{show_tool_name, split_tool_name};
use serde_json::Value;

use crate::text::{TextBlock, format_count};

/// Arguments that say best what a call is about, the best first.
const TELLING: [&str; 8] =
    ["command", "path", "file", "pattern", "query", "url", "title", "message"];

/// Current activity of a role that has made these calls.
pub(crate) fn describe_calls(calls: &[ToolUse]) -> String {
    let Some((first, others)) = calls.split_first() else { return String::new() };
    let first = describe_call(first);
    match others.len() {
        0 => first,
        more => format!("{first}, and {}", format_count(more as u64, "more tool")),
    }
}

pub(crate) fn join_tools(calls: &[ToolUse]) -> String {
    calls.iter().map(|call| show_tool_name(&call.tool)).collect::<Vec<_>>().join(", ")
}

/// Describes a call in one line, by its most telling argument.
pub(crate) fn describe_call(call: &ToolUse) -> String {
    let value: Value = serde_json::from_str(&call.arguments).unwrap_or_default();
    let about = TELLING.iter().find_map(|key| value.get(*key)?.as_str());
    let about = about.and_then(|text| text.lines().find(|line| !line.trim().is_empty()));
    let tool = show_tool_name(&call.tool);
    let Some(about) = about else { return tool.into_owned() };
    let end = about.floor_char_boundary(160);
    format!("{tool} {}", &about[..end])
}

/// True for a tool of a server: an argument named like one of ours may be one of several.
fn is_foreign(call: &ToolUse) -> bool {
    split_tool_name(&call.tool).is_some()
}

pub(crate) fn show_arguments(call: &ToolUse, whole: bool) -> TextBlock {
    let value: Option<Value> = serde_json::from_str(&call.arguments).ok();
    let command = value.as_ref().and_then(|value| value.get("command")?.as_str());
    let command = command.filter(|_| !is_foreign(call));
    let shown = match (command, &value) {
        (Some(command), _) => command.to_owned(),
        (None, Some(value)) => serde_json::to_string_pretty(value).unwrap_or_default(),
        (None, None) => call.arguments.clone(),
    };
    TextBlock::new("Arguments", &shown, whole)
}

/// Shows the edits, patch or written file of a call, where its arguments have one.
pub(crate) fn show_changes(call: &ToolUse, whole: bool) -> Vec<TextBlock> {
    if is_foreign(call) {
        return Vec::new();
    }
    let value: Value = serde_json::from_str(&call.arguments).unwrap_or_default();
    let text = |value: &Value, key: &str| value[key].as_str().unwrap_or_default().to_owned();
    let edits = value["edits"].as_array().into_iter().flatten();
    let mut blocks: Vec<_> = edits
        .map(|edit| TextBlock::change("Change", (&text(edit, "old"), &text(edit, "new")), whole))
        .collect();
    if let Some(patch) = value["patch"].as_str() {
        blocks.push(TextBlock::new("Patch", patch, whole));
    }
    if let (true, Some(content)) = (call.tool == "Write", value["content"].as_str()) {
        blocks.push(TextBlock::change("Written", ("", content), whole));
    }
    blocks
}
