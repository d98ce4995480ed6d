//! The official servers of npm.

use codebutler_crds::wire::history::{HistoryEvent, HistoryLine};
use codebutler_testbed::models::ScriptStep;
use codebutler_testbed::nodetools::MCP_SERVERS;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::images::{node_command, node_image};
use super::{coder, reading, with_servers};
use crate::support::{Setup, Team, needs_process_kubelet};

const IMAGE: &str = "acme/official:1";

fn official(name: &str, package: &str, arguments: &[&str]) -> Value {
    let mut command =
        node_command(&format!("@modelcontextprotocol/server-{package}/dist/index.js"));
    command.extend(arguments.iter().map(|argument| (*argument).to_owned()));
    json!({"name": name, "image": IMAGE, "command": command})
}

fn servers() -> Vec<Value> {
    let mut everything = reading(official("everything", "everything", &[]));
    everything["tools"] = json!({"allow": ["echo", "get-sum", "get-tiny-image"]});
    let mut files = reading(official("files", "filesystem", &["/workspace"]));
    files["worktree"] = json!("ReadOnly");
    files["tools"] = json!({"allow": ["list_directory", "read_text_file", "write_file"]});
    // The default place of its file is in its package, which nothing may write to.
    let mut memory = official("memory", "memory", &[]);
    memory["env"] = json!([{"name": "MEMORY_FILE_PATH", "value": "/home/mcp/memory.jsonl"}]);
    memory["risk"] = json!([
        {"tools": ["read_graph"], "risk": "Read"}, {"tools": ["create_entities"], "risk": "Visible"},
    ]);
    memory["tools"] = json!({"allow": ["create_entities", "read_graph"]});
    let thinking = reading(official("thinking", "sequential-thinking", &[]));
    vec![everything, files, memory, thinking]
}

fn entity() -> Value {
    json!({"entities": [{"name": "tea", "entityType": "item", "observations": ["costs 250 cents"]}]})
}

fn script() -> Vec<ScriptStep> {
    let thought = json!({
        "thought": "Prices are floats.", "nextThoughtNeeded": false, "thoughtNumber": 1, "totalThoughts": 1,
    });
    let file = json!({"path": "/workspace/src/price.txt"});
    let written = json!({"path": "/workspace/new.txt", "content": "x"});
    vec![
        ScriptStep::tool("mcp__everything__echo", json!({"message": "hé"}))
            .and_tool("mcp__everything__get-sum", json!({"a": 2, "b": 3}))
            .and_tool("mcp__everything__get-tiny-image", json!({}))
            .and_tool("mcp__files__list_directory", json!({"path": "/workspace"}))
            .and_tool("mcp__files__read_text_file", file)
            .and_tool("mcp__files__write_file", written)
            .and_tool("mcp__thinking__sequentialthinking", thought),
        ScriptStep::tool("mcp__memory__create_entities", entity()),
        ScriptStep::say("I wait for a yes."),
        ScriptStep::tool("mcp__memory__create_entities", entity()),
        ScriptStep::tool("mcp__memory__read_graph", json!({})),
        ScriptStep::say("Done."),
    ]
}

/// A call in the history of a thread.
#[derive(Debug)]
struct RecordedCall {
    role: Option<String>,
    server: String,
    tool: String,
    arguments: String,
    hash: String,
    bytes: u64,
    approved_by: Option<String>,
    outcome: String,
}

/// The calls in the history of a thread, as the operator prints it.
async fn recorded_calls(team: &Team, root: &str) -> Vec<RecordedCall> {
    let name = team.thread(root).await.metadata.name.unwrap();
    let output = tokio::process::Command::new(team.stack.dir.join("bin/codebutler-operator"))
        .args(["history", &format!("{}/{name}", team.stack.place.team), "--history"])
        .arg(team.stack.dir.join("history"))
        .output()
        .await
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<HistoryLine>(line).unwrap());
    lines.filter_map(read_call).collect()
}

fn read_call(line: HistoryLine) -> Option<RecordedCall> {
    let role = line.role;
    match line.event {
        HistoryEvent::McpCall {
            server,
            tool,
            arguments,
            hash,
            bytes,
            approved_by,
            outcome,
            ..
        } => {
            Some(RecordedCall { role, server, tool, arguments, hash, bytes, approved_by, outcome })
        }
        _ => None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_works_with_the_official_servers_and_each_call_is_on_record() {
    if needs_process_kubelet("the servers' image has packages of this machine") {
        return;
    }
    let Some(image) = node_image(MCP_SERVERS).await else { return };
    let setup = with_servers(Setup::new(coder(script())).image(IMAGE, image), servers());
    let team = setup.start().await;
    let (reason, said) = team.servers_are("Unknown", "`files`: not started yet").await;
    assert_eq!(reason, "McpServersNotStarted", "{said}");
    assert!(team.server_pods().await.is_empty(), "a Repo that rests has no pod of a server");

    let root = team.servers_wake().await;
    let (_, said) = team.servers_are("True", "`files`").await;
    assert!(said.contains("has 3 tools, ready since 20"), "{said}");
    assert_eq!(team.server_pods().await.len(), 4);

    team.says("ana", Some(&root), "@codebutler.coder go on");
    let question = team.message(&root, "create_entities of the server memory").await;
    team.message(&root, "I wait for a yes.").await;
    team.settled(&root, "coder").await;
    let (ana, channel) = (&team.stack.users["ana"], &team.stack.channel);
    team.stack.slack.click(ana, channel, &question.ts, "approval:approve").unwrap();
    team.message(&root, "Done.").await;

    let requests = team.stack.models.requests();
    let body = &requests.last().unwrap().body;
    let shown = body["messages"].to_string();
    for part in [
        "Echo: hé",
        "The sum of 2 and 3 is 5.",
        "[FILE] README.md",
        "price = 0.1",
        "costs 250 cents",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert!(shown.contains("data:image/png;base64,"), "the picture is shown: {shown}");
    assert!(
        shown.contains("Error: the server says that this failed."),
        "a file was written: {shown}"
    );

    team.calls_are_counted(&root, &[("everything", 3), ("memory", 2)]).await;
    check_record(&team, &root, ana).await;
    team.stop().await;
}

/// The history line and the audit line of calls that needed a yes, and that did not.
async fn check_record(team: &Team, root: &str, approver: &str) {
    let calls = recorded_calls(team, root).await;
    let find = |tool: &str| {
        let mut found = calls.iter().filter(|call| call.tool == tool);
        let call = found.next().unwrap_or_else(|| panic!("{tool}: {calls:?}"));
        assert!(found.next().is_none(), "{tool} is there once");
        assert_eq!(call.role.as_deref(), Some("coder"));
        call
    };
    let audit = team.stack.gateway.said().await.unwrap();
    let audited = |tool: &str, parts: &[&str]| {
        let named = format!("tool=\"{tool}\"");
        let line = audit.lines().find(|line| {
            line.contains("server_tool_called")
                && (line.contains(&named) || line.contains(&format!("tool={tool} ")))
        });
        let line = line.unwrap_or_else(|| panic!("no line about {tool}: {audit}"));
        for part in parts {
            assert!(line.contains(part), "{part}: {line}");
        }
    };
    for (server, tool, arguments, approved_by) in [
        ("everything", "echo", json!({"message": "hé"}), None),
        ("memory", "create_entities", entity(), Some(approver)),
    ] {
        let call = find(tool);
        let hash = hex::encode(Sha256::digest(arguments.to_string()));
        assert_eq!((&*call.server, &*call.outcome), (server, "ok"), "{call:?}");
        assert_eq!((&call.hash, &call.arguments), (&hash, &arguments.to_string()), "{call:?}");
        assert!(call.bytes > 0, "{call:?}");
        assert_eq!(call.approved_by.as_deref(), approved_by, "{call:?}");
        audited(tool, &[&hash, approved_by.unwrap_or("-"), "coder", server]);
    }
    assert_eq!(find("write_file").outcome, "failed");
}
