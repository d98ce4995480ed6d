//! Tools that change files as families of models were trained on them: `apply_patch` of Codex, the parameters
//! of Claude Code. What is offered and shown differs; what is decided, recorded and carried out is the one
//! form of [`canonical`](super::canonical).

use codebutler_wire::EditForm;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{RoleTool, schema};
use crate::model::WrittenCall;

const PATCH: &str = "apply_patch";

/// The format of Codex' patches, for APIs that hold a tool of free text to a grammar.
const GRAMMAR: &str = r#"start: "*** Begin Patch" LF file+ "*** End Patch" LF?
file: added | deleted | updated
added: "*** Add File: " name LF ("+" rest LF)+
deleted: "*** Delete File: " name LF
updated: "*** Update File: " name LF moved? hunk*
moved: "*** Move to: " name LF
hunk: place+ line* end? | line+ end?
place: ("@@" | "@@ " name) LF
line: ("+" | "-" | " ") rest LF
end: "*** End of File" LF
name: /(.+)/
rest: /(.*)/
%import common.LF
"#;

const PATCH_DESCRIPTION: &str = "Changes, adds, deletes and renames files with one patch: `*** Begin Patch`, then for \
    each file `*** Update File: <path>`, `*** Add File: <path>` or `*** Delete File: <path>`, with hunks of lines that \
    begin with a space, `-` or `+` below `@@`, and at the end `*** End Patch`. Paths are relative to the root of the \
    worktree. Read a file before you change it; all of the patch is applied, or none.";

/// `apply_patch` as a function.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[allow(dead_code)] // its schema is what counts
struct PatchInput {
    /// The whole patch.
    input: String,
}

/// `Edit` of Claude Code.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[allow(dead_code)] // its schema is what counts
struct ClaudeEdit {
    /// File, relative to the root of the worktree. You must have read it before.
    file_path: String,
    /// Text that occurs exactly once, with its exact whitespace and without line numbers.
    old_string: String,
    /// What stands there afterwards.
    new_string: String,
    /// Replace every occurrence, such as of a name.
    #[serde(default)]
    replace_all: bool,
}

/// The name by which a family knows a tool.
pub(super) fn name_in_form(form: EditForm, tool: &str) -> &str {
    match (form, tool) {
        (EditForm::Patch | EditForm::FreePatch, "Edit") => PATCH,
        (_, tool) => tool,
    }
}

/// The spec of a tool for a family of models.
pub(super) fn spec_in_form(form: EditForm, tool: &dyn RoleTool) -> Value {
    let mut spec = tool.spec();
    match (form, tool.name()) {
        (EditForm::ClaudeNames, "Read" | "Write") => {
            let schema = &mut spec["function"]["parameters"];
            rename_key(&mut schema["properties"], "path", "file_path");
            for name in schema["required"].as_array_mut().into_iter().flatten() {
                if name == "path" {
                    *name = json!("file_path");
                }
            }
        }
        (EditForm::ClaudeNames, "Edit") => {
            let function = &mut spec["function"];
            let told = function["description"].as_str().unwrap_or_default();
            let told = words_in_form(form, "Edit", told);
            function["description"] = json!(told);
            function["parameters"] = schema::told_schema::<ClaudeEdit>();
        }
        (EditForm::Patch, "Edit") => {
            let parameters = schema::told_schema::<PatchInput>();
            let function =
                json!({"name": PATCH, "description": PATCH_DESCRIPTION, "parameters": parameters});
            spec["function"] = function;
        }
        (EditForm::FreePatch, "Edit") => {
            let grammar = json!({"syntax": "lark", "definition": GRAMMAR});
            let format = json!({"type": "grammar", "grammar": grammar});
            let custom = json!({"name": PATCH, "description": PATCH_DESCRIPTION, "format": format});
            spec = json!({"type": "custom", "custom": custom});
        }
        _ => {}
    }
    spec
}

/// A call in its one form as a model of a family would have written it; nothing where that is the same.
pub fn call_in_form(form: EditForm, name: &str, arguments: &str) -> Option<WrittenCall> {
    let given = || serde_json::from_str::<Map<String, Value>>(arguments).ok();
    let written = |name: &str, arguments: String, free| {
        Some(WrittenCall { call: 0, name: name.to_owned(), arguments, free })
    };
    match (form, name) {
        (EditForm::ClaudeNames, "Read" | "Write") => {
            let mut value = Value::Object(given()?);
            rename_key(&mut value, "path", "file_path");
            written(name, value.to_string(), false)
        }
        (EditForm::ClaudeNames, "Edit") => {
            written(name, Value::Object(claude_edit(&given()?)?).to_string(), false)
        }
        (EditForm::Patch, "Edit") => {
            written(PATCH, json!({"input": patch_text(&given()?)?}).to_string(), false)
        }
        (EditForm::FreePatch, "Edit") => written(PATCH, patch_text(&given()?)?, true),
        _ => None,
    }
}

/// What is said of a call, with the names of arguments that a model of a family is offered. Lines of a file, which have
/// a tab behind their number, stay as they are.
pub(super) fn words_in_form(form: EditForm, tool: &str, text: &str) -> String {
    let names: &[(&str, &str)] = match (form, tool) {
        (EditForm::ClaudeNames, "Read" | "Write") => &[("`path`", "`file_path`")],
        (EditForm::ClaudeNames, "Edit") => &CLAUDE_WORDS,
        (EditForm::Patch | EditForm::FreePatch, "Edit") => &PATCH_WORDS,
        _ => return text.to_owned(),
    };
    let told = text.split_inclusive('\n').map(|line| {
        if line.contains('\t') {
            return line.to_owned();
        }
        names.iter().fold(line.to_owned(), |line, (own, offered)| line.replace(own, offered))
    });
    told.collect()
}

const CLAUDE_WORDS: [(&str, &str); 8] = [
    ("`path`, and `edits` of `old` and `new`", "`file_path`, `old_string` and `new_string`"),
    ("`edits` (item 1) ", ""),
    ("`edits` is missing", "`old_string` is missing"),
    ("`path`", "`file_path`"),
    ("`old`", "`old_string`"),
    ("`new`", "`new_string`"),
    ("`all`", "`replace_all`"),
    ("`all: true`", "`replace_all: true`"),
];

/// A patch is one text: what it changes has no names of its own.
const PATCH_WORDS: [(&str, &str); 9] = [
    ("use Edit with `path`, and `edits` of `old` and `new`", "use apply_patch with `input`"),
    ("pass `patch`, or `path` and `edits`, not all of them", "pass the patch alone"),
    ("arguments of Edit ", "arguments of apply_patch "),
    ("`path` is missing", "`input` is missing"),
    ("`edits` is missing", "`input` is missing"),
    ("`edits` (item ", "(change "),
    ("`patch`", "`input`"),
    ("`old`", "the old text"),
    ("`new`", "the new text"),
];

/// Several replacements stay a list, which Claude Code had under another name.
fn claude_edit(given: &Map<String, Value>) -> Option<Map<String, Value>> {
    let path = given.get("path")?.clone();
    let edits: Vec<Map<String, Value>> = given
        .get("edits")?
        .as_array()?
        .iter()
        .filter_map(|edit| claude_names(edit.as_object()?))
        .collect();
    let mut out = Map::from_iter([("file_path".to_owned(), path)]);
    match <[_; 1]>::try_from(edits) {
        Ok([one]) => out.extend(one),
        Err(edits) => drop(out.insert("edits".to_owned(), json!(edits))),
    }
    Some(out)
}

fn claude_names(edit: &Map<String, Value>) -> Option<Map<String, Value>> {
    let mut out = Map::new();
    out.insert("old_string".to_owned(), edit.get("old")?.clone());
    out.insert("new_string".to_owned(), edit.get("new")?.clone());
    if edit.get("all").is_some_and(|all| all == true) {
        out.insert("replace_all".to_owned(), true.into());
    }
    Some(out)
}

/// An edit as a patch.
fn patch_text(given: &Map<String, Value>) -> Option<String> {
    if let Some(patch) = given.get("patch").and_then(Value::as_str) {
        return Some(patch.to_owned());
    }
    let path = given.get("path")?.as_str()?;
    let mut out = format!("*** Begin Patch\n*** Update File: {path}\n");
    for edit in given.get("edits")?.as_array()? {
        out.push_str("@@\n");
        for (sign, part) in [('-', "old"), ('+', "new")] {
            for line in edit.get(part)?.as_str()?.lines() {
                out.push(sign);
                out.push_str(line);
                out.push('\n');
            }
        }
    }
    out.push_str("*** End Patch");
    Some(out)
}

/// Renames a key where it stands.
fn rename_key(object: &mut Value, from: &str, to: &str) {
    let Some(fields) = object.as_object_mut() else { return };
    let renamed = std::mem::take(fields).into_iter().map(|(key, value)| {
        let key = if key == from { to.to_owned() } else { key };
        (key, value)
    });
    *fields = renamed.collect();
}

#[cfg(test)]
mod tests;
