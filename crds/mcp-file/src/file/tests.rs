use super::*;

fn errors(text: &str) -> Vec<String> {
    let (_, problems) = read_mcp_file(text);
    problems.iter().filter(|one| one.kind == ProblemKind::Error).map(ToString::to_string).collect()
}

#[test]
fn both_forms_are_read() {
    let text = r#"{
  // of the team
  "servers": {
    "db": {"command": "npx", "args": ["-y", "x"], "env": {"URL": "${DATABASE_URL}", "PORT": 5432}, "roles": ["coder"]},
  },
  "mcpServers": {
    "docs": {"type": "http", "url": "https://mcp.example.com/mcp", "headers": {"Authorization": "Bearer ${TOKEN}"}, "disabled": true, "timeout": 5}
  }
}"#;
    let (file, problems) = read_mcp_file(text);
    let said: Vec<_> = problems.iter().map(|one| (one.kind, one.to_string())).collect();
    assert_eq!(
        said,
        [(
            ProblemKind::Warning,
            "line 7, column 135: server `docs`: `timeout` is ignored".to_owned()
        )]
    );
    let [db, docs] = &*file.servers else { panic!("{file:?}") };
    assert_eq!((db.command.as_deref(), db.args.len(), db.line), (Some("npx"), 2, 4));
    assert_eq!((&*db.env["URL"], &*db.env["PORT"]), ("${DATABASE_URL}", "5432"));
    assert_eq!(db.roles.as_deref(), Some(&["coder".to_owned()][..]));
    assert_eq!(
        (docs.url.as_deref(), docs.is_disabled),
        (Some("https://mcp.example.com/mcp"), true)
    );
}

#[test]
fn fields_of_other_clients_cost_no_server() {
    // GitHub Copilot's, Gemini's and Roo's.
    let text = r#"{"mcpServers": {
        "db": {"type": "local", "command": "npx", "args": ["x"], "tools": ["*"]},
        "docs": {"httpUrl": "https://mcp.example.com/mcp", "includeTools": ["search"], "excludeTools": []},
        "files": {"type": "stdio", "command": "files", "alwaysAllow": [], "watchPaths": ["/x"]}}}"#;
    let (file, problems) = read_mcp_file(text);
    let names: Vec<_> = file.servers.iter().map(|server| &*server.name).collect();
    assert_eq!((names, errors(text)), (vec!["db", "docs", "files"], Vec::new()));
    assert!(problems[0].message.contains("`tools` is ignored"), "{problems:?}");
}

#[test]
fn a_typing_error_is_said_with_its_line_and_column() {
    for (text, expected) in [
        ("", "line 1, column 1: the file is empty"),
        ("[]", "line 1, column 1: the file holds no object"),
        ("{}", "line 1, column 1: the field `servers` is missing"),
        ("{\"servers\": {\n  \"a\": {\"command\" \"x\"}}}", "line 2, column 19: "),
        ("{\"servers\": {\n  \"é\u{1F600}\": 7, \"a\" {}}}", "line 2, column "),
        ("{\"servers\": []}", "line 1, column 2: `servers` is no object of servers by name"),
        ("{\"servers\": {\"a\": 7}}", "line 1, column 19: server `a` is no object"),
        (
            "{\"servers\": {\"a\": {}}}",
            "line 1, column 14: server `a`: it needs either a `command` or a `url`",
        ),
        (
            "{\"servers\": {\"A b\": {\"command\": \"x\"}}}",
            "line 1, column 14: server `A b`: a name has",
        ),
        (
            "{\"servers\": {\"a\": {\n\"comand\": \"x\"}}}",
            "line 2, column 1: server `a`: unknown field `comand`: is it `command`?",
        ),
        (
            "{\"servers\": {\"a\": {\"command\": \"x\", \"role\": []}}}",
            "unknown field `role`: is it `roles`?",
        ),
        (
            "{\"servers\": {\"a\": {\"command\": [\"x\"]}}}",
            "line 1, column 31: server `a`: `command` is no text",
        ),
        (
            "{\"servers\": {\"a\": {\"command\": \"x\", \"args\": [1]}}}",
            "line 1, column 45: server `a`: an entry of `args`",
        ),
        (
            "{\"servers\": {\"a\": {\"command\": \"x\", \"env\": {\"A\": null}}}}",
            "`A` in `env` is no text",
        ),
        (
            "{\"servers\": {\"a\": {\"command\": \"x\", \"url\": \"https://a\"}}}",
            "both a `command` and a `url`",
        ),
        ("{\"servers\": {\"a\": {\"url\": \"file:///x\"}}}", "has to begin with https://"),
        ("{\"servers\": {\"a\": {\"command\": \"x\", \"roles\": []}}}", "`roles` is empty"),
        (
            "{\"servers\": {\"a\": {\"command\": \"x\", \"type\": \"tcp\"}}}",
            "its `type` is one of stdio",
        ),
    ] {
        let found = errors(text);
        assert!(found.first().is_some_and(|first| first.contains(expected)), "{text}: {found:?}");
    }
}

#[test]
fn of_two_servers_with_one_name_only_the_first_counts() {
    let one = "{\"servers\": {\n\"a\": {\"command\": \"first\"},\n\"a\": {\"command\": \"second\"}},\n\"mcpServers\": {\"a\": {\"command\": \"third\"}}}";
    let (file, problems) = read_mcp_file(one);
    assert_eq!(file.servers.len(), 1);
    assert_eq!(file.servers[0].command.as_deref(), Some("first"));
    let lines: Vec<usize> = problems.iter().map(|problem| problem.line).collect();
    assert_eq!(lines, [3, 4]);
    assert!(problems[0].message.contains("stands in line 2 already"), "{problems:?}");
}

#[test]
fn a_bad_server_does_not_cost_the_others() {
    let text = "{\"servers\": {\"a\": {\"command\": 1}, \"b\": {\"command\": \"x\"}}}";
    let (file, problems) = read_mcp_file(text);
    assert_eq!(file.servers.iter().map(|server| &*server.name).collect::<Vec<_>>(), ["b"]);
    assert_eq!(problems.len(), 1);
    let large = format!("{{\"servers\": {{}}}}{}", " ".repeat(300 << 10));
    assert_eq!(errors(&large), ["line 1, column 1: the file is larger than 256 KiB"]);
}
