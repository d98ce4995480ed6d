//! `mcp.json`: which servers of the Model Context Protocol a repository wants, and for which roles. Its
//! form is checked; the servers that run are those of the Repo.

use std::collections::BTreeMap;

use codebutler_redact::SecretRedactor;
use serde::Deserialize;

use super::{FindingSeverity, JudgedLines, line_in, line_of_quoted};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct McpFile {
    servers: BTreeMap<String, Server>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Server {
    #[serde(default)]
    command: Option<String>,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    url: Option<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    #[serde(default)]
    roles: Option<Vec<String>>,
}

/// What is wrong with a file.
pub fn judge_mcp(text: &str) -> JudgedLines {
    let unread = "this version of CodeButler does not read it: servers are named in the Repo";
    let mut found = vec![(0, FindingSeverity::Warning, unread.to_owned())];
    let file: McpFile = match serde_json::from_str(text) {
        Ok(file) => file,
        Err(error) => {
            let message = error.to_string();
            let line = line_in(&message).unwrap_or_else(|| error.line());
            found.push((line, FindingSeverity::Error, message));
            return found;
        }
    };
    let (redactor, _) = SecretRedactor::new(&[]);
    for (name, server) in &file.servers {
        for what in of_server(name, server, &redactor) {
            let message = format!("server `{name}`: {what}");
            found.push((line_of_quoted(text, &message), FindingSeverity::Error, message));
        }
    }
    found
}

fn of_server(name: &str, server: &Server, redactor: &SecretRedactor) -> Vec<String> {
    let mut wrong = Vec::new();
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    if name.is_empty() || name.len() > 32 || !name.bytes().all(plain) {
        wrong.push("a name has 1 to 32 characters of a-z, 0-9 and `-`".to_owned());
    }
    match (&server.command, &server.url) {
        (Some(command), None) if !command.trim().is_empty() => {}
        (None, Some(url)) if url.starts_with("https://") || url.starts_with("http://") => {}
        (None, Some(_)) => wrong.push("its `url` has to begin with https:// or http://".to_owned()),
        _ => wrong.push("it needs either a `command` or a `url`".to_owned()),
    }
    if server.url.is_some() && !server.args.is_empty() {
        wrong.push("`args` go with a `command`".to_owned());
    }
    for (variable, value) in &server.env {
        let refers = value.starts_with("${") && value.ends_with('}');
        let line = format!("{variable}={value}");
        if !refers && redactor.mask(&line) != line {
            wrong.push(format!(
                "`{variable}` looks like a secret in plain text: revoke it, and write ${{{variable}}}"
            ));
        }
    }
    if server.roles.as_ref().is_some_and(Vec::is_empty) {
        wrong.push("`roles` is empty: nobody has it; leave it out for everybody".to_owned());
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errors(text: &str) -> Vec<(usize, String)> {
        let found = judge_mcp(text)
            .into_iter()
            .filter(|(_, severity, _)| *severity == FindingSeverity::Error);
        found.map(|(line, _, message)| (line, message)).collect()
    }

    #[test]
    fn a_file_of_the_right_form_is_only_warned_about() {
        let good = r#"{"servers": {
            "issues": {"command": "npx", "args": ["-y", "x"], "env": {"TOKEN": "${TOKEN}"}, "roles": ["pm"]},
            "db": {"url": "https://mcp.example.com/sse"}}}"#;
        assert_eq!(errors(good), []);
        assert_eq!(judge_mcp(good).len(), 1);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        let secret = format!("gh{}_{}", 'p', "a1B2c3D4e5F6g7H8i9J0".repeat(2));
        for (text, line, part) in [
            ("{".to_owned(), 1, "EOF"),
            ("{}".to_owned(), 1, "missing field `servers`"),
            (
                "{\"servers\": {\n\"a\": {\n\"comand\": \"x\"}}}".to_owned(),
                3,
                "unknown field `comand`",
            ),
            ("{\"servers\": {\n\"a\": {}}}".to_owned(), 2, "either a `command` or a `url`"),
            ("{\"servers\": {\n\"a\": {\n\"url\": \"file:///x\"}}}".to_owned(), 3, "https://"),
            ("{\"servers\": {\n\"A B\": {\"command\": \"x\"}}}".to_owned(), 2, "a name has"),
            (
                format!(
                    "{{\"servers\": {{\n\"a\": {{\"command\": \"x\",\n\"env\": {{\"GITHUB_TOKEN\": \"{secret}\"}}}}}}}}"
                ),
                3,
                "looks like a secret in plain text",
            ),
        ] {
            let errors = errors(&text);
            assert_eq!(errors.len(), 1, "{text}: {errors:?}");
            assert!(errors[0].1.contains(part) && !errors[0].1.contains(&secret), "{errors:?}");
            assert_eq!(errors[0].0, line, "{text}: {errors:?}");
        }
    }
}
