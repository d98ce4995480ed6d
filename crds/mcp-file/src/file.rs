//! The file itself: `servers` as the specification has it, `mcpServers` as other clients write it.

use std::collections::BTreeMap;

use jsonc_parser::ast::{Object, ObjectProp, Value};
use jsonc_parser::common::Ranged as _;
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};

/// Maximum bytes of a file that are read.
const FILE_BYTES: usize = 256 << 10;
/// Most servers in one file.
const SERVERS: usize = 100;
/// Maximum characters of a server's name.
const NAME_CHARS: usize = 32;

/// Fields of other clients that mean nothing here.
const IGNORED: [&str; 18] = [
    "alwaysAllow",
    "autoApprove",
    "cwd",
    "description",
    "disabledTools",
    "envFile",
    "excludeTools",
    "gallery",
    "icon",
    "includeTools",
    "oauth",
    "sandbox",
    "timeout",
    "tools",
    "transportType",
    "trust",
    "version",
    "watchPaths",
];

/// Servers that a repository asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct McpFile {
    /// Servers in the order of the file, each name once.
    pub servers: Vec<WantedServer>,
    /// True if the list is there, whole and empty: it chooses nothing, as the file that a repository begins with.
    pub is_blank: bool,
}

/// One server in the file. All of it is untrusted: nothing of it is run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WantedServer {
    /// Name of the server in the file.
    pub name: String,
    /// A program, for a server behind a pipe.
    pub command: Option<String>,
    /// Arguments of the program.
    pub args: Vec<String>,
    /// An address, for a remote server.
    pub url: Option<String>,
    /// Environment of the program, with `${VAR}` as it stands in the file.
    pub env: BTreeMap<String, String>,
    /// HTTP headers of requests, with `${VAR}` as it stands in the file.
    pub headers: BTreeMap<String, String>,
    /// The roles that may use it; all where there is none.
    pub roles: Option<Vec<String>>,
    /// True if the file switches it off.
    pub is_disabled: bool,
    /// Line of the server's name, from 1.
    pub line: usize,
}

/// Severity of a problem in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProblemKind {
    /// Part of the file is left out.
    Error,
    /// Nothing is left out that has a meaning here.
    Warning,
}

/// A mistake in the file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {message}")]
pub struct FileProblem {
    /// Line of the problem, from 1.
    pub line: usize,
    /// Column of the problem, in characters, from 1.
    pub column: usize,
    /// Severity of the problem.
    pub kind: ProblemKind,
    /// The problem, and the text to write instead.
    pub message: String,
}

/// Reads a file, as far as it can be read. Comments and commas at the end are fine, as in other clients.
pub fn read_mcp_file(text: &str) -> (McpFile, Vec<FileProblem>) {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut reader = FileReader { text, file: McpFile::default(), problems: Vec::new() };
    if text.len() > FILE_BYTES {
        reader.error(0, format!("the file is larger than {} KiB", FILE_BYTES >> 10));
    } else {
        reader.read();
    }
    reader.file.is_blank &= reader.file.servers.is_empty() && reader.problems.is_empty();
    reader.problems.sort_by_key(|problem| (problem.line, problem.column));
    (reader.file, reader.problems)
}

struct FileReader<'a> {
    text: &'a str,
    file: McpFile,
    problems: Vec<FileProblem>,
}

impl FileReader<'_> {
    fn add(&mut self, at: usize, kind: ProblemKind, message: String) {
        let mut at = at.min(self.text.len());
        while !self.text.is_char_boundary(at) {
            at -= 1;
        }
        let before = &self.text[..at];
        let line = before.matches('\n').count() + 1;
        let start = before.rfind('\n').map_or(0, |at| at + 1);
        let column = before[start..].chars().count() + 1;
        self.problems.push(FileProblem { line, column, kind, message });
    }

    fn error(&mut self, at: usize, message: impl Into<String>) {
        self.add(at, ProblemKind::Error, message.into());
    }

    fn warn(&mut self, at: usize, message: impl Into<String>) {
        self.add(at, ProblemKind::Warning, message.into());
    }

    fn read(&mut self) {
        let options = ParseOptions {
            allow_comments: true,
            allow_trailing_commas: true,
            allow_loose_object_property_names: false,
            allow_missing_commas: false,
            allow_single_quoted_strings: false,
            allow_hexadecimal_numbers: false,
            allow_unary_plus_numbers: false,
            allow_bare_decimal_point_numbers: false,
            allow_non_finite_numbers: false,
            allow_extended_string_escapes: false,
        };
        let parsed = match parse_to_ast(self.text, &CollectOptions::default(), &options) {
            Ok(parsed) => parsed,
            Err(error) => return self.error(error.range().start, error.kind().to_string()),
        };
        let root = match parsed.value {
            Some(Value::Object(root)) => root,
            Some(other) => {
                return self.error(other.range().start, "the file holds no object `{…}`");
            }
            None => return self.error(0, "the file is empty: write {\"servers\": {}}"),
        };
        let mut has_servers = false;
        for field in &root.properties {
            let at = field.range.start;
            match (field.name.as_str(), &field.value) {
                ("servers" | "mcpServers", Value::Object(servers)) => {
                    has_servers = true;
                    self.file.is_blank = servers.properties.is_empty();
                    self.read_servers(servers);
                }
                (name @ ("servers" | "mcpServers"), _) => {
                    has_servers = true;
                    self.error(at, format!("`{name}` is no object of servers by name"));
                }
                ("inputs", _) => {
                    self.warn(at, "`inputs` is ignored: values come from Secrets of the Repo");
                }
                ("$schema", _) => {}
                (name, _) => self.warn(at, format!("unknown field `{}`", shorten(name))),
            }
        }
        if !has_servers {
            self.error(root.range.start, "the field `servers` is missing");
        }
    }

    fn read_servers(&mut self, servers: &Object<'_>) {
        for field in &servers.properties {
            let (name, at) = (field.name.as_str(), field.range.start);
            if let Some(first) = self.file.servers.iter().find(|server| server.name == name) {
                let line = first.line;
                self.error(
                    at,
                    format!(
                        "the server `{}` stands in line {line} already: only that one counts",
                        shorten(name)
                    ),
                );
                continue;
            }
            if self.file.servers.len() >= SERVERS {
                return self
                    .error(at, format!("more than {SERVERS} servers: the others are left out"));
            }
            let is_plain = |letter: char| {
                letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-'
            };
            if name.is_empty() || name.len() > NAME_CHARS || !name.chars().all(is_plain) {
                let shown = shorten(name);
                self.error(at, format!("server `{shown}`: a name has 1 to {NAME_CHARS} characters of a-z, 0-9 and `-`"));
                continue;
            }
            let Value::Object(body) = &field.value else {
                self.error(field.value.range().start, format!("server `{name}` is no object"));
                continue;
            };
            let before = self.problems.len();
            let mut server = self.read_server(name, body);
            let is_wrong = self.problems[before..].iter().any(|one| one.kind == ProblemKind::Error);
            if !is_wrong && self.check_server(&server, at) {
                server.line = self.text[..at].matches('\n').count() + 1;
                self.file.servers.push(server);
            }
        }
    }

    fn read_server(&mut self, name: &str, body: &Object<'_>) -> WantedServer {
        let mut server = WantedServer { name: name.to_owned(), ..WantedServer::default() };
        let mut seen = Vec::new();
        for field in &body.properties {
            let (key, at) = (field.name.as_str(), field.range.start);
            if seen.contains(&key) {
                self.error(at, format!("server `{name}`: `{key}` stands there twice"));
                continue;
            }
            seen.push(key);
            match key {
                "command" => server.command = self.text_in(name, field),
                "url" | "serverUrl" | "httpUrl" => server.url = self.text_in(name, field),
                "args" => server.args = self.texts_in(name, field).unwrap_or_default(),
                "roles" => server.roles = self.texts_in(name, field),
                "env" => server.env = self.pairs_in(name, field),
                "headers" => server.headers = self.pairs_in(name, field),
                "disabled" => {
                    server.is_disabled =
                        matches!(&field.value, Value::BooleanLit(flag) if flag.value);
                }
                "enabled" => {
                    server.is_disabled =
                        matches!(&field.value, Value::BooleanLit(flag) if !flag.value);
                }
                "type" | "transport" => self.check_type(name, field),
                key if IGNORED.contains(&key) => {
                    self.warn(at, format!("server `{name}`: `{key}` is ignored"));
                }
                key => {
                    let known = ["command", "args", "env", "url", "headers", "roles"];
                    let close = known.iter().find(|known| is_close(known, key));
                    let hint = close.map(|known| format!(": is it `{known}`?")).unwrap_or_default();
                    self.error(
                        at,
                        format!("server `{name}`: unknown field `{}`{hint}", shorten(key)),
                    );
                }
            }
        }
        server
    }

    /// Checks that need several fields.
    fn check_server(&mut self, server: &WantedServer, at: usize) -> bool {
        let name = &server.name;
        let problem = match (&server.command, &server.url) {
            (Some(command), None) if command.trim().is_empty() => "its `command` is empty",
            (Some(_), None) if !server.headers.is_empty() => "`headers` go with a `url`",
            (None, Some(url))
                if !url.starts_with("https://")
                    && !url.starts_with("http://")
                    && !url.starts_with("${") =>
            {
                "its `url` has to begin with https:// or http://"
            }
            (None, Some(_)) if !server.args.is_empty() => "`args` go with a `command`",
            (Some(_), Some(_)) => "it has both a `command` and a `url`: keep one",
            (None, None) => "it needs either a `command` or a `url`",
            _ if server.roles.as_ref().is_some_and(Vec::is_empty) => {
                "`roles` is empty, so no role has it: leave it out for all of them"
            }
            _ => return true,
        };
        self.error(at, format!("server `{name}`: {problem}"));
        false
    }

    fn check_type(&mut self, server: &str, field: &ObjectProp<'_>) {
        let known = [
            "stdio",
            "local",
            "http",
            "sse",
            "streamable-http",
            "streamableHttp",
            "streamable_http",
        ];
        match &field.value {
            Value::StringLit(text) if known.contains(&&*text.value) => {}
            other => {
                let at = other.range().start;
                self.error(
                    at,
                    format!("server `{server}`: its `type` is one of stdio, http and sse"),
                );
            }
        }
    }

    fn text_in(&mut self, server: &str, field: &ObjectProp<'_>) -> Option<String> {
        if let Value::StringLit(text) = &field.value {
            return Some(text.value.clone().into_owned());
        }
        let (key, at) = (field.name.as_str(), field.value.range().start);
        self.error(at, format!("server `{server}`: `{key}` is no text"));
        None
    }

    fn texts_in(&mut self, server: &str, field: &ObjectProp<'_>) -> Option<Vec<String>> {
        let key = field.name.as_str();
        let Value::Array(list) = &field.value else {
            self.error(
                field.value.range().start,
                format!("server `{server}`: `{key}` is no list of texts"),
            );
            return None;
        };
        let mut texts = Vec::new();
        for entry in &list.elements {
            match entry {
                Value::StringLit(text) => texts.push(text.value.clone().into_owned()),
                other => self.error(
                    other.range().start,
                    format!("server `{server}`: an entry of `{key}` is no text"),
                ),
            }
        }
        Some(texts)
    }

    fn pairs_in(&mut self, server: &str, field: &ObjectProp<'_>) -> BTreeMap<String, String> {
        let key = field.name.as_str();
        let mut pairs = BTreeMap::new();
        let Value::Object(object) = &field.value else {
            self.error(
                field.value.range().start,
                format!("server `{server}`: `{key}` is no object of texts"),
            );
            return pairs;
        };
        for pair in &object.properties {
            let name = pair.name.as_str();
            let value = match &pair.value {
                Value::StringLit(text) => text.value.clone().into_owned(),
                // People write ports and flags without quotes, so numbers count as text.
                Value::NumberLit(number) => number.value.to_owned(),
                Value::BooleanLit(flag) => flag.value.to_string(),
                other => {
                    let at = other.range().start;
                    self.error(
                        at,
                        format!("server `{server}`: `{}` in `{key}` is no text", shorten(name)),
                    );
                    continue;
                }
            };
            if pairs.insert(name.to_owned(), value).is_some() {
                let at = pair.range.start;
                self.error(
                    at,
                    format!("server `{server}`: `{}` stands twice in `{key}`", shorten(name)),
                );
            }
        }
        pairs
    }
}

fn shorten(name: &str) -> String {
    crate::clean::clean_text(name).chars().take(60).collect()
}

/// True if the words differ by one letter more, less or other.
fn is_close(known: &str, written: &str) -> bool {
    let (known, written): (Vec<char>, Vec<char>) =
        (known.chars().collect(), written.to_lowercase().chars().collect());
    let head = known.iter().zip(&written).take_while(|(a, b)| a == b).count();
    let rest = (&known[head..], &written[head..]);
    let skip = |letters: &[char]| letters.get(1..).unwrap_or_default().to_vec();
    written.len() > 2
        && (skip(rest.0) == rest.1 || rest.0 == skip(rest.1) || skip(rest.0) == skip(rest.1))
}

#[cfg(test)]
mod tests;
