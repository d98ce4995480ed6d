use serde_json::{Value, json};

use super::super::{RoleTools, ToolFailure};
use super::check_arguments;
use crate::model::{AssistantMessage, ToolCall};
use codebutler_guides::policy::CommandPolicy;

fn all() -> RoleTools {
    RoleTools::new(&codebutler_wire::TOOLS.map(str::to_owned))
}

fn call(name: &str, arguments: &str) -> ToolCall {
    ToolCall { id: "1".into(), name: name.into(), arguments: arguments.into() }
}

fn of(name: &str, arguments: &str) -> (String, Value) {
    let tools = all();
    let one = tools.canonical(&call(name, arguments));
    let one = one.unwrap_or_else(|e| panic!("{name} {arguments}: {e}"));
    assert_eq!(tools.canonical(&one).unwrap(), one, "once more changes nothing");
    (one.name, serde_json::from_str(&one.arguments).unwrap())
}

fn fault(name: &str, arguments: &str) -> String {
    match all().canonical(&call(name, arguments)) {
        Err(ToolFailure::Fault(why)) => why,
        other => panic!("{name} {arguments}: {other:?}"),
    }
}

/// Calls in the forms of Claude Code, Codex, opencode, Gemini CLI, `OpenHands`, Cline and Cursor.
#[test]
#[allow(clippy::too_many_lines)] // a table
fn the_calls_of_other_agents_are_understood() {
    for (name, arguments, tool, expected) in [
        (
            "Read",
            json!({"file_path": "a", "offset": 3, "limit": "10"}),
            "Read",
            json!({"path": "a", "offset": 3, "limit": 10}),
        ),
        (
            "read",
            json!({"filePath": "a", "offset": 0.0}),
            "Read",
            json!({"path": "a", "offset": 0}),
        ),
        (
            "read_file",
            json!({"target_file": "a", "should_read_entire_file": true, "explanation": "x"}),
            "Read",
            json!({"path": "a"}),
        ),
        (
            "read_file",
            json!({"target_file": "a", "start_line_one_indexed": 5, "end_line_one_indexed_inclusive": 8}),
            "Read",
            json!({"path": "a", "offset": 5, "limit": 4}),
        ),
        (
            "str_replace_editor",
            json!({"command": "view", "path": "a", "view_range": [3, 7], "security_risk": "LOW"}),
            "Read",
            json!({"path": "a", "offset": 3, "limit": 5}),
        ),
        (
            "str_replace_editor",
            json!({"command": "view", "path": "a", "view_range": [3, -1]}),
            "Read",
            json!({"path": "a", "offset": 3}),
        ),
        (
            "str_replace_editor",
            json!({"command": "create", "path": "a", "file_text": "x"}),
            "Write",
            json!({"path": "a", "content": "x"}),
        ),
        (
            "str_replace_based_edit_tool",
            json!({"command": "str_replace", "path": "a", "old_str": "x", "new_str": ""}),
            "Edit",
            json!({"path": "a", "edits": [{"old": "x", "new": ""}]}),
        ),
        (
            "Edit",
            json!({"file_path": "a", "old_string": "x", "new_string": "y", "replace_all": "true"}),
            "Edit",
            json!({"path": "a", "edits": [{"old": "x", "new": "y", "all": true}]}),
        ),
        (
            "edit",
            json!({"filePath": "a", "oldString": "x", "newString": "y"}),
            "Edit",
            json!({"path": "a", "edits": [{"old": "x", "new": "y"}]}),
        ),
        (
            "MultiEdit",
            json!({"file_path": "a", "edits": [{"old_string": "x", "new_string": "y"}]}),
            "Edit",
            json!({"path": "a", "edits": [{"old": "x", "new": "y"}]}),
        ),
        (
            "Edit",
            json!({"path": "a", "edits": "[{\"old\": \"x\", \"new\": \"y\"}]"}),
            "Edit",
            json!({"path": "a", "edits": [{"old": "x", "new": "y"}]}),
        ),
        (
            "Edit",
            json!({"path": "a", "edits": {"old": "x", "new": "y"}}),
            "Edit",
            json!({"path": "a", "edits": [{"old": "x", "new": "y"}]}),
        ),
        (
            "replace",
            json!({"file_path": "a", "old_string": "x", "new_string": "y", "expected_replacements": 2, "instruction": "z"}),
            "Edit",
            json!({"path": "a", "edits": [{"old": "x", "new": "y", "all": true}]}),
        ),
        (
            "apply_patch",
            json!({"input": "*** Begin Patch\n*** End Patch"}),
            "Edit",
            json!({"patch": "*** Begin Patch\n*** End Patch"}),
        ),
        (
            "shell",
            json!({"command": ["apply_patch", "*** Begin Patch\n*** End Patch"]}),
            "Edit",
            json!({"patch": "*** Begin Patch\n*** End Patch"}),
        ),
        (
            "shell",
            json!({"command": ["bash", "-lc", "apply_patch <<'EOF'\n*** Begin Patch\n*** End Patch\nEOF\n"]}),
            "Edit",
            json!({"patch": "*** Begin Patch\n*** End Patch"}),
        ),
        (
            "write_to_file",
            json!({"path": "a", "content": "x", "task_progress": "- [ ] y"}),
            "Write",
            json!({"path": "a", "content": "x"}),
        ),
        (
            "Write",
            json!({"file_path": "a", "contents": 5}),
            "Write",
            json!({"path": "a", "content": "5"}),
        ),
        (
            "Bash",
            json!({"command": "ls", "timeout": 120_000, "description": "Lists", "run_in_background": false}),
            "Bash",
            json!({"command": "ls", "timeout": 120_000, "background": false}),
        ),
        (
            "shell",
            json!({"command": ["bash", "-lc", "ls | wc"], "workdir": "web", "timeout_ms": 1500}),
            "Bash",
            json!({"command": "ls | wc", "workdir": "web", "timeout": 2}),
        ),
        (
            "shell",
            json!({"command": ["grep", "-rn", "it's", "$HOME"]}),
            "Bash",
            json!({"command": r"grep -rn 'it'\''s' '$HOME'"}),
        ),
        (
            "exec_command",
            json!({"cmd": "ls", "yield_time_ms": 1000, "max_output_tokens": 50, "login": true}),
            "Bash",
            json!({"command": "ls"}),
        ),
        (
            "write_stdin",
            json!({"session_id": 3, "chars": "", "yield_time_ms": 5000}),
            "Bash",
            json!({"job": 3, "wait": 5}),
        ),
        ("BashOutput", json!({"bash_id": "2"}), "Bash", json!({"job": 2})),
        (
            "TaskOutput",
            json!({"task_id": "2", "block": true, "timeout": 30_000}),
            "Bash",
            json!({"job": 2, "wait": 30}),
        ),
        ("KillShell", json!({"shell_id": "2"}), "Bash", json!({"job": 2, "kill": true})),
        (
            "run_terminal_cmd",
            json!({"command": "ls", "is_background": "false", "require_user_approval": false}),
            "Bash",
            json!({"command": "ls", "background": false}),
        ),
        (
            "execute_bash",
            json!({"command": "ls", "is_input": "false", "timeout": 10.0, "security_risk": "LOW"}),
            "Bash",
            json!({"command": "ls", "timeout": 10}),
        ),
        ("functions.Bash", json!({"command": "ls"}), "Bash", json!({"command": "ls"})),
        ("functions.Grep:0", json!({"pattern": "x"}), "Grep", json!({"pattern": "x"})),
        (
            "Grep",
            json!({"pattern": "x", "-i": true, "-A": 1, "-B": "2", "-n": true, "output_mode": "files_with_matches", "head_limit": 5, "type": "rust", "glob": ""}),
            "Grep",
            json!({"pattern": "x", "ignoreCase": true, "after": 1, "before": 2, "mode": "files", "limit": 5, "type": "rust"}),
        ),
        (
            "grep_search",
            json!({"query": "x", "include_pattern": "*.rs", "case_sensitive": false, "exclude_pattern": "y"}),
            "Grep",
            json!({"pattern": "x", "glob": "*.rs", "ignoreCase": true}),
        ),
        (
            "search_files",
            json!({"path": "src", "regex": "x", "file_pattern": "*.rs"}),
            "Grep",
            json!({"path": "src", "pattern": "x", "glob": "*.rs"}),
        ),
        (
            "LS",
            json!({"path": "src", "ignore": ["x"]}),
            "Glob",
            json!({"path": "src", "pattern": "*", "list": true}),
        ),
        (
            "list_dir",
            json!({"target_directory": "src"}),
            "Glob",
            json!({"path": "src", "pattern": "*", "list": true}),
        ),
        (
            "list_files",
            json!({"path": "src", "recursive": true}),
            "Glob",
            json!({"path": "src", "pattern": "**/*"}),
        ),
        (
            "TodoWrite",
            json!({"todos": [{"content": "a", "status": "in_progress", "activeForm": "Doing a"}, {"content": "b", "status": "pending"}, {"content": "c", "status": "completed"}]}),
            "Todo",
            json!({"items": [{"text": "a", "state": "doing"}, {"text": "b", "state": "open"}, {"text": "c", "state": "done"}]}),
        ),
        (
            "update_plan",
            json!({"explanation": "x", "plan": [{"step": "a", "status": "pending"}]}),
            "Todo",
            json!({"items": [{"text": "a", "state": "open"}]}),
        ),
        ("Todo", json!({"items": ["a"]}), "Todo", json!({"items": [{"text": "a"}]})),
        (
            "webfetch",
            json!({"url": "https://h", "format": "markdown", "prompt": "What?"}),
            "WebFetch",
            json!({"url": "https://h"}),
        ),
        (
            "GHReview",
            json!({"event": "REQUEST_CHANGES", "body": "x", "comments": [{"path": "a", "line": "3", "body": "y"}]}),
            "GHReview",
            json!({"requestChanges": true, "body": "x", "comments": [{"file": "a", "line": 3, "body": "y"}]}),
        ),
        (
            "GitCommit",
            json!({"message": "x", "files": "a.rs"}),
            "GitCommit",
            json!({"message": "x", "paths": ["a.rs"]}),
        ),
        (
            "sendmessage",
            json!({"text": "x", "decision": "PLAN", "files": "[\"a\"]", "wait_for_reply": "true"}),
            "SendMessage",
            json!({"message": "x", "decision": "plan", "files": ["a"], "waitForReply": true}),
        ),
        (
            "GitBlame",
            json!({"file_path": "a", "lines": "3-9"}),
            "GitBlame",
            json!({"path": "a", "from": 3, "to": 9}),
        ),
        ("GitPush", json!({"remote": "origin", "force": true}), "GitPush", json!({})),
    ] {
        assert_eq!(
            of(name, &arguments.to_string()),
            (tool.to_owned(), expected),
            "{name} {arguments}"
        );
    }
    let patch = "*** Begin Patch\n*** Add File: a\n+x\n*** End Patch\n";
    assert_eq!(of("apply_patch", patch), ("Edit".to_owned(), json!({"patch": patch})));
}

#[test]
fn what_can_mean_two_things_or_nothing_is_told() {
    for (name, arguments, why) in [
        ("Read", r#"{"pth": "a"}"#, "`path` is missing (it has `pth`: do you mean that?)"),
        (
            "Read",
            r#"{"wanted": "a"}"#,
            "`path` is missing (of what they have, it knows no `wanted`)",
        ),
        ("Read", "{}", "`path` is missing"),
        ("Read", r#"{"path": "a", "file_path": "b"}"#, "`path` is there twice"),
        ("Read", r#"{"path": "a", "offset": "x"}"#, "`offset` is a text, not a whole number"),
        ("Bash", r#"{"command": "ls", "cmd": "rm -rf ."}"#, "`command` is there twice"),
        ("Bash", r#"{"command": ["ls", 5]}"#, "`command` is a list of something else"),
        ("write_stdin", r#"{"session_id": 1, "chars": "y"}"#, "gets no input"),
        ("Write", r#"{"path": "a", "content": "half"#, "end in the middle"),
        (
            "Write",
            r#"{"path": "package.json", "content": {"a": 1}}"#,
            "`content` is an object, not a text",
        ),
        ("Edit", r#"{"path": "a", "old_string": "x"}"#, "(item 1) `new` is missing"),
        (
            "str_replace_editor",
            r#"{"command": "undo_edit", "path": "a"}"#,
            "there is no `undo_edit`",
        ),
        (
            "Todo",
            r#"{"items": [{"text": "a", "state": "perhaps"}]}"#,
            "is none of open, doing, done",
        ),
        ("Teleport", "{}", "there is no tool `Teleport`"),
    ] {
        let told = fault(name, arguments);
        assert!(told.contains(why), "{name} {arguments}: {told}");
    }
    // A here document with further commands behind it stays a command.
    let more = json!({"command": "apply_patch <<'EOF'\n*** Begin Patch\n*** End Patch\nEOF\nrm -rf ~\nEOF"});
    assert_eq!(of("Bash", &more.to_string()).0, "Bash");
}

#[test]
fn an_approval_is_of_the_words_whatever_their_order() {
    let one = super::approved_form(r#"{"path":"a","edits":[{"old":"x","new":"y"}]}"#);
    assert_eq!(one, r#"{"edits":[{"new":"y","old":"x"}],"path":"a"}"#, "as it was always recorded");
    assert_eq!(super::approved_form(&one), one);
    assert_eq!(super::approved_form("no JSON"), "no JSON");
}

#[test]
fn arguments_come_out_in_the_order_of_the_schema() {
    let one = all().canonical(&call("Edit", r#"{"edits":[{"new":"y","old":"x"}],"path":"a"}"#));
    assert_eq!(one.unwrap().arguments, r#"{"path":"a","edits":[{"old":"x","new":"y"}]}"#);
}

#[test]
fn a_name_of_another_agent_gives_no_tool_that_the_role_lacks() {
    let tools = RoleTools::new(&["Read".into(), "Bash".into()]);
    for name in ["str_replace", "apply_patch", "Edit", "write_file"] {
        assert!(matches!(tools.canonical(&call(name, "{}")), Err(ToolFailure::Fault(_))), "{name}");
    }
    let patch = r#"{"command": ["apply_patch", "*** Begin Patch\n*** End Patch"]}"#;
    assert_eq!(tools.canonical(&call("shell", patch)).unwrap().name, "Bash");
    let create = r#"{"command": "create", "path": "a", "file_text": "x"}"#;
    assert!(tools.canonical(&call("str_replace_editor", create)).is_err());
}

/// Policy judges exactly the form that is carried out, whatever form the call had.
#[test]
fn policy_judges_the_form_that_is_carried_out() {
    let (tools, policy) = (all(), CommandPolicy::default());
    for (name, arguments) in [
        ("shell", r#"{"cmd": ["bash", "-lc", "git push --force"]}"#),
        ("exec_command", r#"{"cmd": ["git", "push", "--force"]}"#),
        ("functions.Bash:3", r#""{\"command\": \"git push --force\",}""#),
        ("Bash", "```json\n{\"command\": [\"sh\", \"-c\", \"git push --force\"]}\n```"),
        ("Bash", r#"{"command": "git push --force", "thought": "ls", "safe": true}"#),
        ("Bash", r#"{}{"command": "git push --force"}"#),
    ] {
        let one = tools.canonical(&call(name, arguments)).unwrap();
        let given: Value = serde_json::from_str(&one.arguments).unwrap();
        assert_eq!(given, json!({"command": "git push --force"}), "{arguments}");
        let tool = tools.find(&one.name).unwrap();
        let plain = tool.verdict(&policy, r#"{"command": "git push --force"}"#);
        assert_eq!(tool.verdict(&policy, &one.arguments).tier, plain.tier);
        // A tool that is handed arguments not in canonical form comes to the same verdict.
        if name == "Bash" {
            assert_eq!(tool.verdict(&policy, arguments).tier, plain.tier, "{arguments}");
        }
    }
}

#[test]
fn an_answer_is_recorded_in_form_and_what_is_not_understood_as_it_was() {
    let message = AssistantMessage {
        tool_calls: vec![
            call("bash", r#"{"cmd": "ls"}"#),
            call("Teleport", "{"),
            call("Read", "{"),
        ],
        ..AssistantMessage::default()
    };
    let calls = all().canonical_answer(message).tool_calls;
    let shown: Vec<_> = calls.iter().map(|c| (c.name.as_str(), c.arguments.as_str())).collect();
    assert_eq!(shown, [("Bash", r#"{"command":"ls"}"#), ("Teleport", "{"), ("Read", "{")]);
}

#[test]
fn a_required_field_with_a_default_may_be_left_out() {
    let schema = json!({
        "type": "object",
        "properties": {"scale": {"type": "string", "default": "css"}, "url": {"type": "string"}},
        "required": ["scale", "url"],
    });
    let check = |given: Value| {
        let given = given.as_object().unwrap().clone();
        check_arguments("mcp__browser__shot", &schema, &given)
    };
    assert!(check(json!({"url": "https://shop.example"})).is_ok());
    let Err(ToolFailure::Fault(why)) = check(json!({})) else { panic!("it needs a URL") };
    assert!(why.ends_with("`url` is missing"), "{why}");
}
