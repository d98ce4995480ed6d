//! The one form of a tool call. Models know the tools of other agents, and write their names, their
//! parameters and their habits; what is meant is the same.
//!
//! A call is brought into its one form before anything is decided about it: policy judges, people
//! approve, the transcript replays and the tool does exactly that text. Bringing it there again
//! changes nothing.

mod coerce;
mod forms;
mod json;
mod keys;
mod names;

use serde_json::{Map, Value};

use super::family::{call_in_form, words_in_form};
use super::{RoleTool, RoleTools, ToolFailure};
use crate::model::{AssistantMessage, ToolCall, WrittenCall};

impl RoleTools {
    /// An answer with each call in its one form, and beside it as the model wrote it: that is what it is shown
    /// of its own calls later. What can't be understood stays as it was, and is refused when it is carried
    /// out.
    pub fn canonical_answer(&self, mut message: AssistantMessage) -> AssistantMessage {
        message.form = self.form();
        for (place, call) in message.tool_calls.iter_mut().enumerate() {
            let Ok(one) = self.canonical(call) else { continue };
            let made = std::mem::replace(call, one);
            let known = message.written.iter().any(|written| written.call == place);
            let is_offered = made.name == self.offered_name(&call.name) && made.is_whole();
            let shown = if is_offered {
                let (name, arguments) = (made.name, made.arguments);
                let differs = arguments != call.arguments;
                differs.then_some(WrittenCall { call: place, name, arguments, free: false })
            } else {
                // Later it is to find itself calling what it is offered.
                call_in_form(self.form(), &call.name, &call.arguments)
            };
            let shown = shown.filter(|_| !known);
            message.written.extend(shown.map(|shown| WrittenCall { call: place, ..shown }));
        }
        message
    }

    /// Why a call came to nothing, with the names that the model was offered.
    pub fn explain(&self, called: &str, failure: ToolFailure) -> ToolFailure {
        match failure {
            ToolFailure::Respond(why) => ToolFailure::Respond(self.told_of(called, &why)),
            ToolFailure::Fault(why) => ToolFailure::Fault(self.told_of(called, &why)),
            other => other,
        }
    }

    /// What is said of a call, with the names that the model was offered.
    pub fn told_of(&self, called: &str, text: &str) -> String {
        let meant = names::resolve_name(called, |name| self.has(name));
        words_in_form(self.form(), meant.map_or(called, |meant| meant.tool), text)
    }

    /// A call in its one form.
    pub fn canonical(&self, call: &ToolCall) -> Result<ToolCall, ToolFailure> {
        if let Ok(tool) = self.find(names::strip_name(call.name.trim()))
            && tool.is_foreign()
        {
            return foreign_call(tool, call);
        }
        let meant = names::resolve_name(&call.name, |name| self.has(name));
        let Some(mut meant) = meant else {
            return self.find(&call.name).map(|_| call.clone());
        };
        let mut given = given_arguments(meant.tool, &call.arguments)?;
        forms::choose_tool(&mut meant, &mut given, |name| self.has(name))
            .map_err(ToolFailure::Fault)?;
        let tool = self.find(meant.tool)?;
        Ok(ToolCall {
            id: call.id.clone(),
            name: tool.name().to_owned(),
            arguments: canonical_text(tool.name(), &tool.schema(), given)?,
        })
    }
}

/// A call of a tool with a stranger's schema: its arguments as the model wrote them, in their order.
fn foreign_call(tool: &dyn RoleTool, call: &ToolCall) -> Result<ToolCall, ToolFailure> {
    let given = read_arguments(tool.name(), &call.arguments)?;
    check_arguments(tool.name(), &tool.schema(), &given)?;
    Ok(ToolCall {
        id: call.id.clone(),
        name: tool.name().to_owned(),
        arguments: Value::Object(given).to_string(),
    })
}

/// The arguments of a tool in their one form.
pub(super) fn canonical_arguments(
    tool: &str,
    schema: &Value,
    arguments: &str,
) -> Result<String, ToolFailure> {
    canonical_text(tool, schema, given_arguments(tool, arguments)?)
}

/// The form that an approval is of: arguments with the keys of each object sorted, whatever order they are written
/// in, so that an order of fields that changes makes nothing of what people have approved.
pub fn approved_form(arguments: &str) -> String {
    match serde_json::from_str::<Value>(arguments) {
        Ok(mut value) => {
            value.sort_all_objects();
            value.to_string()
        }
        Err(_) => arguments.to_owned(),
    }
}

fn given_arguments(tool: &str, arguments: &str) -> Result<Map<String, Value>, ToolFailure> {
    if tool == "Edit" && arguments.trim_start().starts_with("*** Begin Patch") {
        return Ok(Map::from_iter([("patch".to_owned(), arguments.into())]));
    }
    read_arguments(tool, arguments)
}

/// Arguments as they are written.
pub(super) fn read_arguments(
    tool: &str,
    arguments: &str,
) -> Result<Map<String, Value>, ToolFailure> {
    json::read_object(arguments).map_err(|why| {
        ToolFailure::Fault(format!("the arguments of {tool} are not a JSON object: {why}"))
    })
}

/// Whether arguments have what a stranger's schema requires. It is the server that judges the rest.
pub(super) fn check_arguments(
    tool: &str,
    schema: &Value,
    given: &Map<String, Value>,
) -> Result<(), ToolFailure> {
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    // Some generators call fields required that have a default, and their servers put it in.
    let has_default = |name: &str| schema["properties"][name].get("default").is_some();
    let missing: Vec<_> =
        required.filter(|name| !given.contains_key(*name) && !has_default(name)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(ToolFailure::Fault(format!(
        "the arguments of {tool} do not fit its schema: `{}` is missing",
        missing.join("`, `")
    )))
}

fn canonical_text(
    tool: &str,
    schema: &Value,
    mut given: Map<String, Value>,
) -> Result<String, ToolFailure> {
    let fault = |why: String| {
        ToolFailure::Fault(format!("the arguments of {tool} do not fit its schema: {why}"))
    };
    forms::unfold_call(tool, &mut given).map_err(fault)?;
    let fitting = coerce::coerce_object(tool, schema, given).map_err(fault)?;
    Ok(Value::Object(fitting).to_string())
}

/// A name without what agents spell differently: case, `_`, `-`.
fn bare_name(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
}

#[cfg(test)]
mod tests;
