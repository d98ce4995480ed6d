//! Calls as models of each family were recorded to make them, and what they are shown of them later.

use codebutler_wire::{EditForm, TOOLS};
use serde_json::{Value, json};

use super::super::RoleTools;
use crate::model::{AnswerSource, AssistantMessage, ToolCall, parse_reply};

const PATCH: &str =
    "*** Begin Patch\n*** Update File: src/a.rs\n@@ fn total() {\n-    0.1\n+    1\n*** End Patch";

fn tools(form: EditForm) -> RoleTools {
    let mut tools = RoleTools::new(&TOOLS.map(str::to_owned));
    tools.suit(form, Vec::new());
    tools
}

fn spec(form: EditForm, name: &str) -> Option<Value> {
    let named =
        |spec: &Value| ["function", "custom"].iter().any(|kind| spec[*kind]["name"] == name);
    tools(form).specs().into_iter().find(named)
}

/// The answer that a provider sends, as the harness keeps it.
fn answered(form: EditForm, calls: &Value) -> AssistantMessage {
    let body = json!({"choices": [{"message": {"role": "assistant", "content": null, "tool_calls": calls}}]});
    tools(form).canonical_answer(parse_reply(body.to_string().as_bytes()).unwrap().message)
}

fn properties(spec: &Value) -> Vec<&str> {
    spec["function"]["parameters"]["properties"]
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect()
}

fn recorded(name: &str, arguments: &str) -> Value {
    json!([{"id": "call_1", "type": "function", "function": {"name": name, "arguments": arguments}}])
}

#[test]
fn claude_is_offered_the_names_that_it_knows() {
    let of = |name| spec(EditForm::ClaudeNames, name).unwrap();
    assert_eq!(properties(&of("Edit")), ["file_path", "old_string", "new_string", "replace_all"]);
    assert_eq!(
        of("Edit")["function"]["parameters"]["required"],
        json!(["file_path", "old_string", "new_string"])
    );
    assert_eq!(properties(&of("Write")), ["file_path", "content"]);
    assert_eq!(of("Write")["function"]["parameters"]["required"], json!(["file_path", "content"]));
    assert_eq!(properties(&of("Read")), ["file_path", "offset", "limit"]);
}

#[test]
fn descriptions_name_arguments_as_they_are_offered() {
    let forms =
        [EditForm::Replacements, EditForm::ClaudeNames, EditForm::Patch, EditForm::FreePatch];
    for form in forms {
        for spec in tools(form).specs() {
            let kind = if spec["type"] == "custom" { "custom" } else { "function" };
            let told = spec[kind]["description"].as_str().unwrap();
            let offered = spec[kind]["parameters"].to_string();
            for word in ["path", "edits", "old", "new", "all", "patch"] {
                let is_named = told.contains(&format!("`{word}`"));
                let is_offered = offered.contains(&format!("\"{word}\""));
                assert!(!is_named || is_offered, "{form:?}: `{word}` in {told}");
            }
        }
    }
    let edit = spec(EditForm::ClaudeNames, "Edit").unwrap();
    assert!(edit["function"]["description"].as_str().unwrap().contains("Copy `old_string` from"));
}

#[test]
fn gpt_is_offered_patches_instead_of_edit() {
    for form in [EditForm::Patch, EditForm::FreePatch] {
        assert_eq!(spec(form, "Edit"), None);
    }
    let function = spec(EditForm::Patch, "apply_patch").unwrap();
    assert_eq!(properties(&function), ["input"]);
    let free = spec(EditForm::FreePatch, "apply_patch").unwrap();
    assert_eq!(free["type"], "custom");
    assert_eq!(free["custom"]["format"]["grammar"]["syntax"], "lark");
    assert_eq!(spec(EditForm::Replacements, "apply_patch"), None);
    assert_eq!(properties(&spec(EditForm::Replacements, "Edit").unwrap()), ["path", "edits"]);
}

#[test]
fn each_familys_call_means_the_same_edit() {
    let claude =
        r#"{"file_path": "src/a.rs", "old_string": "0.1", "new_string": "1", "replace_all": true}"#;
    let answer = answered(EditForm::ClaudeNames, &recorded("Edit", claude));
    let one = r#"{"path":"src/a.rs","edits":[{"old":"0.1","new":"1","all":true}]}"#;
    assert_eq!(answer.tool_calls[0].arguments, one);
    let plain = answered(EditForm::Replacements, &recorded("Edit", one));
    assert_eq!(plain.tool_calls[0].arguments, one);
    assert!(plain.written.is_empty(), "nothing is kept twice");
    let patch = json!({ "patch": PATCH }).to_string();
    let function = json!({ "input": PATCH }).to_string();
    let answer = answered(EditForm::Patch, &recorded("apply_patch", &function));
    assert_eq!(
        (answer.tool_calls[0].name.as_str(), &answer.tool_calls[0].arguments),
        ("Edit", &patch)
    );
    let free =
        json!([{"id": "c", "type": "custom", "custom": {"name": "apply_patch", "input": PATCH}}]);
    let answer = answered(EditForm::FreePatch, &free);
    assert_eq!(
        (answer.tool_calls[0].name.as_str(), &answer.tool_calls[0].arguments),
        ("Edit", &patch)
    );
}

#[test]
fn what_a_model_wrote_comes_back_byte_for_byte() {
    let free =
        json!([{"id": "c", "type": "custom", "custom": {"name": "apply_patch", "input": PATCH}}]);
    let edit = r#"{"new_string": "1",  "old_string": "0.1", "file_path": "src/a.rs"}"#;
    let bash = r#"{ "timeout": 5, "command": "ls" }"#;
    for (form, calls) in [
        (EditForm::ClaudeNames, recorded("Edit", edit)),
        (EditForm::ClaudeNames, recorded("Bash", bash)),
        (EditForm::Replacements, recorded("Bash", bash)),
        (EditForm::Replacements, recorded("Edit", edit)),
        (EditForm::Patch, recorded("apply_patch", &json!({ "input": PATCH }).to_string())),
        (EditForm::FreePatch, free),
    ] {
        let answer = answered(form, &calls);
        // As it is read from a transcript.
        let kept: AssistantMessage =
            serde_json::from_str(&serde_json::to_string(&answer).unwrap()).unwrap();
        assert_eq!(kept, answer);
        let chat = kept.to_chat(None);
        assert_eq!(chat["tool_calls"].to_string(), calls.to_string(), "{form:?}");
    }
}

#[test]
fn thoughts_come_back_with_their_keys_in_order() {
    let block = r#"[{"type":"reasoning.text","text":"hm","signature":"s","index":0,"format":"a"}]"#;
    let body = format!(
        r#"{{"choices":[{{"message":{{"role":"assistant","content":"x","reasoning_details":{block}}}}}]}}"#
    );
    let answer = parse_reply(body.as_bytes()).unwrap().message;
    let kept: AssistantMessage =
        serde_json::from_str(&serde_json::to_string(&answer).unwrap()).unwrap();
    let source = AnswerSource { model: "m".into(), ..AnswerSource::default() };
    let chat = kept.to_chat(Some(&source.thinker()));
    assert_eq!(chat["reasoning_details"].to_string(), block);
    assert_eq!(chat.as_object().unwrap().keys().next().unwrap(), "role");
}

#[test]
fn another_family_is_shown_earlier_calls_in_its_own_form() {
    let edit = r#"{"file_path":"src/a.rs","old_string":"a\nb","new_string":"c"}"#;
    let claude = answered(EditForm::ClaudeNames, &recorded("Edit", edit));
    let call = &claude.tool_calls[0];
    let shown = |form| super::call_in_form(form, &call.name, &call.arguments);
    let patch = shown(EditForm::FreePatch).unwrap();
    assert!(patch.free && patch.name == "apply_patch");
    assert_eq!(
        patch.arguments,
        "*** Begin Patch\n*** Update File: src/a.rs\n@@\n-a\n-b\n+c\n*** End Patch"
    );
    assert_eq!(shown(EditForm::ClaudeNames).unwrap().arguments, edit);
    assert_eq!(shown(EditForm::Replacements), None);
    let read = super::call_in_form(EditForm::ClaudeNames, "Read", r#"{"path":"a","offset":3}"#);
    assert_eq!(read.unwrap().arguments, r#"{"file_path":"a","offset":3}"#);
    // The converted call is understood again.
    let again = recorded("apply_patch", &json!({ "input": patch.arguments }).to_string());
    assert_eq!(answered(EditForm::Patch, &again).tool_calls[0].name, "Edit");
}

#[test]
fn a_call_under_another_name_is_shown_in_the_form_that_is_offered() {
    let edit = json!({"path": "a.rs", "edits": [{"old": "a", "new": "b"}]}).to_string();
    let patched =
        json!({"input": "*** Begin Patch\n*** Update File: a.rs\n@@\n-a\n+b\n*** End Patch"});
    let shown = |form, name: &str, arguments: &str| {
        let chat = answered(form, &recorded(name, arguments)).to_chat(None);
        let function = &chat["tool_calls"][0]["function"];
        (function["name"].clone(), function["arguments"].as_str().unwrap().to_owned())
    };
    let by_patch = shown(EditForm::Patch, "Edit", &edit);
    assert_eq!(by_patch, (json!("apply_patch"), patched.to_string()));
    // Claude knows no such tool under another name than its own.
    let given = json!({"path": "a.rs", "old_string": "a", "new_string": "b"}).to_string();
    let (name, arguments) = shown(EditForm::ClaudeNames, "str_replace", &given);
    assert_eq!(name, "Edit");
    assert!(arguments.contains("old_string") && !arguments.contains("edits"), "{arguments}");
}

#[test]
fn a_refused_call_names_the_tools_that_are_offered() {
    let error = tools(EditForm::Patch).find("Teleport").err().unwrap().to_string();
    assert!(error.contains("apply_patch") && !error.contains(" Edit,"), "{error}");
}

#[test]
fn errors_name_arguments_as_they_are_offered() {
    let told = |form, name: &str, arguments: &str| {
        let tools = tools(form);
        let call = ToolCall { id: "c".into(), name: name.into(), arguments: arguments.into() };
        let failure = tools.canonical(&call).err().unwrap_or_else(|| panic!("{name} {arguments}"));
        tools.explain(name, failure).to_string()
    };
    let claude = |name, arguments| told(EditForm::ClaudeNames, name, arguments);
    assert_eq!(
        claude("Edit", r#"{"file_path": "a", "old_string": "x"}"#),
        "the arguments of Edit do not fit its schema: `new_string` is missing"
    );
    assert_eq!(
        claude("Edit", r#"{"file_path": "a"}"#),
        "the arguments of Edit do not fit its schema: `old_string` is missing"
    );
    assert!(claude("Write", r#"{"content": "x"}"#).ends_with("`file_path` is missing"));
    assert!(claude("Read", "{}").ends_with("`file_path` is missing"));
    for form in [EditForm::Patch, EditForm::FreePatch] {
        for arguments in ["{}", r#"{"path": "a"}"#] {
            assert_eq!(
                told(form, "apply_patch", arguments),
                "the arguments of apply_patch do not fit its schema: `input` is missing",
                "{arguments}"
            );
        }
        assert!(told(form, "Read", "{}").ends_with("`path` is missing"));
    }
    let plain = told(EditForm::Replacements, "str_replace", r#"{"path": "a", "old_str": "x"}"#);
    assert!(plain.ends_with("(item 1) `new` is missing"), "{plain}");
    let undo = r#"{"command": "undo_edit", "path": "a"}"#;
    assert!(
        claude("str_replace_editor", undo)
            .ends_with("use Edit with `file_path`, `old_string` and `new_string`")
    );
    // What a file says stays as it is.
    let shown = "edit 1: `old` occurs 2 times\n     7\tlet `old` = `path`;\n";
    assert_eq!(
        tools(EditForm::ClaudeNames).told_of("Edit", shown),
        "edit 1: `old_string` occurs 2 times\n     7\tlet `old` = `path`;\n"
    );
    let patch = tools(EditForm::Patch);
    assert_eq!(
        patch.told_of("apply_patch", "edit 1: `old` is empty"),
        "edit 1: the old text is empty"
    );
}
