//! `mcp.json`, by the rules of [`read_mcp_file`], and what else a person should change in it.

use codebutler_mcp_file::{ProblemKind, WantedServer, read_mcp_file};
use codebutler_redact::SecretRedactor;

use super::{FilePlace, FindingSeverity};

/// Mistakes of a file, by line and column. `known`: all roles.
pub(super) fn judge_mcp(text: &str, known: &[String]) -> Vec<(FilePlace, FindingSeverity, String)> {
    let (file, problems) = read_mcp_file(text);
    let mut found: Vec<_> = problems
        .into_iter()
        .map(|problem| {
            let severity = match problem.kind {
                ProblemKind::Error => FindingSeverity::Error,
                ProblemKind::Warning => FindingSeverity::Warning,
            };
            let place = FilePlace { line: problem.line, column: problem.column };
            (place, severity, problem.message)
        })
        .collect();
    let (redactor, _) = SecretRedactor::new(&[]);
    for server in &file.servers {
        found.extend(find_secrets(text, server, &redactor));
        found.extend(find_strange_roles(text, server, known));
    }
    found
}

/// Values that look like secrets. The value itself is not repeated.
fn find_secrets(
    text: &str,
    server: &WantedServer,
    redactor: &SecretRedactor,
) -> Vec<(FilePlace, FindingSeverity, String)> {
    let name = &server.name;
    let env = server.env.iter().map(|(key, value)| (format!("`{key}`"), format!("{key}="), value));
    let headers = server
        .headers
        .iter()
        .map(|(key, value)| (format!("the header `{key}`"), format!("{key}: "), value));
    let args = server.args.iter().map(|value| ("an argument".to_owned(), String::new(), value));
    let url = server.url.iter().map(|value| ("its `url`".to_owned(), String::new(), value));
    let all = env.chain(headers).chain(args).chain(url);
    let is_secret = |before: &str, value: &str| {
        let shown = format!("{before}{value}");
        !is_reference(value) && redactor.mask(&shown) != shown
    };
    all.filter(|(_, before, value)| is_secret(before, value))
        .map(|(what, _, value)| {
            let message = format!(
                "server `{name}`: {what} looks like a secret in plain text: revoke it, keep the new one in a Secret \
                 that `spec.mcpServers` of the Repo names, and write `${{NAME}}` here"
            );
            (find_place(text, server.line, value), FindingSeverity::Error, message)
        })
        .collect()
}

/// True for `${NAME}`, with or without a scheme such as `Bearer` before it.
fn is_reference(value: &str) -> bool {
    let last = value.rsplit(' ').next().unwrap_or(value);
    last.starts_with("${") && last.ends_with('}') && !last.contains(":-")
}

fn find_strange_roles(
    text: &str,
    server: &WantedServer,
    known: &[String],
) -> Vec<(FilePlace, FindingSeverity, String)> {
    let name = &server.name;
    let strange = server.roles.iter().flatten().filter(|role| !known.contains(role));
    strange
        .map(|role| {
            let role = codebutler_mcp_file::clean_text(role);
            let message = format!(
                "server `{name}`: `{role}` is no role that CodeButler brings ({}), unless the Repo has an AgentRole of \
                 that name (then say so with `--role {role}`)",
                known.join(", ")
            );
            (find_place(text, server.line, &role), FindingSeverity::Warning, message)
        })
        .collect()
}

/// The first place of a value from a line on, or else the line.
fn find_place(text: &str, from: usize, value: &str) -> FilePlace {
    let lines = text.lines().enumerate().skip(from.saturating_sub(1));
    let mut found = lines.filter_map(|(at, line)| Some((at, line, line.find(value)?)));
    match found.next() {
        Some((at, line, byte)) => {
            FilePlace { line: at + 1, column: line[..byte].chars().count() + 1 }
        }
        None => FilePlace { line: from, column: 0 },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(text: &str) -> Vec<(usize, usize, FindingSeverity, String)> {
        let known = ["pm", "coder"].map(str::to_owned);
        let found = judge_mcp(text, &known).into_iter();
        found.map(|(place, severity, text)| (place.line, place.column, severity, text)).collect()
    }

    #[test]
    fn both_forms_pass_in_silence() {
        for field in ["servers", "mcpServers"] {
            let good = format!(
                r#"{{"{field}": {{
            "issues": {{"command": "npx", "args": ["-y", "x"], "env": {{"TOKEN": "${{TOKEN}}"}}, "roles": ["pm"]}},
            "docs": {{"type": "http", "url": "https://mcp.example.com/mcp",
                "headers": {{"Authorization": "Bearer ${{TOKEN}}"}}}}}}}}"#
            );
            assert_eq!(judged(&good), []);
        }
    }

    #[test]
    fn mistakes_have_line_and_column() {
        for (text, line, column, part) in [
            ("{", 1, 1, "Unterminated object"),
            ("{}", 1, 1, "the field `servers` is missing"),
            (
                "{\"servers\": {\n\"a\": {\n \"comand\": \"x\"}}}",
                3,
                2,
                "unknown field `comand`: is it `command`?",
            ),
            ("{\"servers\": {\n\"a\": {}}}", 2, 1, "either a `command` or a `url`"),
            ("{\"servers\": {\n\"A B\": {\"command\": \"x\"}}}", 2, 1, "a name has"),
            (
                "{\"servers\": {\"a\": {\"command\": \"x\"}},\n\"mcpServers\": {\"a\": {\"command\": \"x\"}}}",
                2,
                16,
                "the server `a` stands in line 1 already",
            ),
        ] {
            let found = judged(text);
            assert_eq!(found.len(), 1, "{text}: {found:?}");
            let (at, from, severity, message) = &found[0];
            assert_eq!((*at, *from, *severity), (line, column, FindingSeverity::Error), "{text}");
            assert!(message.contains(part), "{text}: {message}");
        }
    }

    #[test]
    fn a_secret_in_plain_text_is_found_and_not_repeated() {
        let secret = format!("gh{}_{}", 'p', "a1B2c3D4e5F6g7H8i9J0".repeat(2));
        for (server, part) in [
            (format!(r#""command": "x", "env": {{"GITHUB_TOKEN": "{secret}"}}"#), "`GITHUB_TOKEN`"),
            (format!(r#""command": "x", "args": ["--token={secret}"]"#), "an argument"),
            (format!(r#""url": "https://x.example/?key={secret}""#), "its `url`"),
            (
                format!(
                    r#""url": "https://x.example/", "headers": {{"Authorization": "Bearer {secret}"}}"#
                ),
                "the header `Authorization`",
            ),
            (format!(r#""command": "x", "env": {{"TOKEN": "${{A:-{secret}}}"}}"#), "`TOKEN`"),
        ] {
            let found = judged(&format!("{{\"servers\": {{\n\"a\": {{\n{server}}}}}}}"));
            assert_eq!(found.len(), 1, "{server}: {found:?}");
            let (line, column, severity, message) = &found[0];
            assert_eq!((*line, *severity), (3, FindingSeverity::Error), "{server}");
            assert!(*column > 1 && message.contains(part), "{server}: {found:?}");
            assert!(!message.contains(&secret), "{message}");
        }
    }

    #[test]
    fn a_role_that_is_not_known_is_a_warning() {
        let found = judged("{\"servers\": {\"a\": {\"command\": \"x\",\n \"roles\": [\"codr\"]}}}");
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((found[0].0, found[0].1, found[0].2), (2, 13, FindingSeverity::Warning));
        assert!(found[0].3.contains("`codr` is no role"), "{found:?}");
    }
}
