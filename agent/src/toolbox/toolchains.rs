//! The programs that a repository seems to need, and which versions of them there are. Asked once, in
//! the sandbox: what answers may be the repository's own.

use std::fmt::Write as _;

use parking_lot::Mutex;

use super::ToolError;
use super::command::CommandResult;
use codebutler_guides::text::{clip_text, plain_text};

/// Timeout in seconds for all versions, which are asked for at the same time.
pub(super) const SECONDS: u32 = 3;
const MAX_VERSION: usize = 80;

/// A file by whose name a repository shows what it is made with, and how to ask for versions.
const KNOWN: [(&str, &[&str]); 22] = [
    ("Cargo.toml", &["cargo --version", "rustc --version"]),
    ("package.json", &["node --version", "npm --version"]),
    ("pnpm-lock.yaml", &["pnpm --version"]),
    ("yarn.lock", &["yarn --version"]),
    ("bun.lock", &["bun --version"]),
    ("deno.json", &["deno --version"]),
    ("pyproject.toml", &["python3 --version"]),
    ("setup.py", &["python3 --version"]),
    ("requirements.txt", &["python3 --version"]),
    ("uv.lock", &["uv --version"]),
    ("poetry.lock", &["poetry --version"]),
    ("go.mod", &["go version"]),
    ("pom.xml", &["java -version", "mvn --version"]),
    ("build.gradle", &["java -version"]),
    ("build.gradle.kts", &["java -version"]),
    ("Gemfile", &["ruby --version", "bundle --version"]),
    ("composer.json", &["php --version", "composer --version"]),
    ("mix.exs", &["elixir --short-version"]),
    ("Package.swift", &["swift --version"]),
    ("CMakeLists.txt", &["cmake --version", "cc --version"]),
    ("Makefile", &["make --version"]),
    ("global.json", &["dotnet --version"]),
];

/// Commands that print the versions that matter, by the top of the tree.
pub(super) fn wanted_versions(top: &[String]) -> Vec<&'static str> {
    let names: Vec<&str> =
        top.iter().flat_map(|line| line.split([' ', '(', ')', ',', '/'])).collect();
    let mut wanted = Vec::new();
    for (file, asks) in KNOWN {
        if names.contains(&file) {
            wanted.extend(asks.iter().filter(|ask| !wanted.contains(*ask)).collect::<Vec<_>>());
        }
    }
    wanted
}

/// Versions of the programs in this image, cached.
#[derive(Debug, Default)]
pub(super) struct KnownPrograms(Mutex<Option<KnownToolchain>>);

#[derive(Debug)]
struct KnownToolchain {
    wanted: Vec<&'static str>,
    versions: Vec<String>,
}

impl KnownPrograms {
    /// The versions; `ask` runs a command, if they are not known yet.
    pub(super) async fn versions(
        &self,
        wanted: &[&'static str],
        ask: impl AsyncFnOnce(String) -> Result<CommandResult, ToolError>,
    ) -> Vec<String> {
        if wanted.is_empty() {
            return Vec::new();
        }
        let known = || self.0.lock();
        if let Some(known) = known().as_ref().filter(|known| known.wanted == wanted) {
            return known.versions.clone();
        }
        let versions = match ask(versions_script(wanted)).await {
            Ok(ran) => read_versions(wanted, &ran.output),
            Err(error) => {
                tracing::debug!(%error, "toolchain_versions_unknown");
                return Vec::new();
            }
        };
        *known() = Some(KnownToolchain { wanted: wanted.to_vec(), versions: versions.clone() });
        versions
    }
}

fn asked_program(ask: &str) -> &str {
    ask.split(' ').next().unwrap_or(ask)
}

/// Asks all at the same time; one that hangs hides no other.
fn versions_script(wanted: &[&str]) -> String {
    let mut script = String::new();
    for ask in wanted {
        let program = asked_program(ask);
        let _ = writeln!(
            script,
            "{{ if command -v {program} >/dev/null 2>&1; then v=$({ask} 2>&1 </dev/null | \
             {{ IFS= read -r line; printf %s \"$line\"; }}); echo \"{program}: $v\"; \
             else echo '{program}: none'; fi; }} &"
        );
    }
    script + "wait\n"
}

/// A line for each program that answered, in the order in which they were asked.
fn read_versions(wanted: &[&str], output: &str) -> Vec<String> {
    let output = plain_text(output);
    let said = |program: &str| {
        let line = output.lines().find_map(|line| line.strip_prefix(&format!("{program}: ")))?;
        let version = clip_text(line.trim().replace('`', "'").as_str(), MAX_VERSION);
        Some(match version.as_str() {
            "none" => format!("`{program}`: not in this image"),
            "" => format!("`{program}`: there, of unknown version"),
            version => format!("`{program}`: {version}"),
        })
    };
    wanted.iter().filter_map(|ask| said(asked_program(ask))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ran(output: &str) -> CommandResult {
        CommandResult {
            output: output.into(),
            notes: vec![],
            verdict: String::new(),
            code: Some(0),
            seconds: 0,
        }
    }

    #[test]
    fn what_is_asked_follows_from_the_files() {
        let top = ["Makefile", "api/ (go.mod, main.go)", "web/ (package.json, src/, and 3 more)"];
        let top = top.map(str::to_owned);
        let asked = ["node --version", "npm --version", "go version", "make --version"];
        assert_eq!(wanted_versions(&top), asked);
        assert_eq!(wanted_versions(&["README".to_owned()]), Vec::<&str>::new());
    }

    #[tokio::test]
    async fn they_are_asked_once_and_silence_is_left_out() {
        let programs = KnownPrograms::default();
        let wanted = ["node --version", "npm --version", "go version"];
        let ask = async |_| Ok(ran("go: none\n\u{1b}[1mnode: v22.1.0\u{1b}[0m\n"));
        let expected = ["`node`: v22.1.0", "`go`: not in this image"];
        assert_eq!(programs.versions(&wanted, ask).await, expected);
        let again = async |_| Err(ToolError::Failed("asked again".into()));
        assert_eq!(programs.versions(&wanted, again).await, expected);
        let broken = async |_| Err(ToolError::Failed("no shell".into()));
        assert_eq!(programs.versions(&["cc --version"], broken).await, Vec::<String>::new());
    }

    #[test]
    fn a_shell_understands_the_question() {
        let script = versions_script(&["sh -c 'echo 1.2; echo more'", "no-such-program --version"]);
        let out = std::process::Command::new("bash").args(["-c", &script]).output().unwrap();
        let mut lines: Vec<_> = std::str::from_utf8(&out.stdout).unwrap().lines().collect();
        lines.sort_unstable();
        assert_eq!(lines, ["no-such-program: none", "sh: 1.2"]);
    }
}
