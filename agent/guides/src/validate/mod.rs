//! `validate`: what is wrong with a repository's `.codebutler/`, for its CI and for the channel where its team
//! is. It is judged by the code that reads it in a run.

pub mod files;
mod mcp;
mod roadmap;
mod skill;

use std::fmt;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use codebutler_mcp_file::MCP_FILE;
use codebutler_wire::{MCP_PREFIX, TOOLS};

use self::files::{FOLDER, GuideFiles};
use crate::policy::rules::RiskRules;
use crate::{MAX_GUIDE, UnreadFile, seeds};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FindingSeverity {
    /// Probably not what was meant.
    Warning,
    /// The file is not used as it stands.
    Error,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GuideFinding {
    /// The file, from the root of the repository.
    pub file: String,
    /// Line number, counted from 1; 0 for the whole file.
    pub line: usize,
    /// Column in characters, counted from 1; 0 for the whole line.
    pub column: usize,
    pub severity: FindingSeverity,
    /// Sentence that says what is wrong and what to do.
    pub message: String,
}

impl fmt::Display for GuideFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.severity {
            FindingSeverity::Warning => "warning",
            FindingSeverity::Error => "error",
        };
        let file = &self.file;
        match (self.line, self.column) {
            (0, _) => write!(f, "{file}: {severity}: {}", self.message),
            (line, 0) => write!(f, "{file}:{line}: {severity}: {}", self.message),
            (line, column) => write!(f, "{file}:{line}:{column}: {severity}: {}", self.message),
        }
    }
}

/// Prints the findings, a line each. 0: nothing is wrong (warnings aside, unless `strict`); 1:
/// something is; 2: there is nothing to check.
pub fn run_validate(dir: &Path, strict: bool, roles: &[String], out: &mut impl Write) -> ExitCode {
    let own = dir.join(FOLDER);
    let folder = if own.is_dir() { own } else { dir.to_owned() };
    if !folder.is_dir() || (folder == dir && !dir.ends_with(FOLDER)) {
        let _ = writeln!(out, "{}: there is no folder {FOLDER} to check", dir.display());
        return ExitCode::from(2);
    }
    let root = folder.parent().unwrap_or(Path::new(""));
    let findings = check_guides(&GuideFiles::read(root), roles);
    for finding in &findings {
        let file = root.join(&finding.file).display().to_string();
        let _ = writeln!(out, "{}", GuideFinding { file, ..finding.clone() });
    }
    let limit = if strict { FindingSeverity::Warning } else { FindingSeverity::Error };
    ExitCode::from(u8::from(findings.iter().any(|finding| finding.severity >= limit)))
}

/// Everything that is wrong, by file and line. `roles`: those beside CodeButler's own.
pub fn check_guides(files: &GuideFiles, roles: &[String]) -> Vec<GuideFinding> {
    let mut findings = Vec::new();
    let mut known: Vec<String> = seeds::role_names().map(str::to_owned).collect();
    known.extend(roles.iter().cloned());
    for (path, bytes) in files.all() {
        let Some(name) = files::name_in_folder(path) else { continue };
        if path == MCP_FILE {
            with_text(path, bytes, &mut findings, |text| mcp::judge_mcp(text, &known));
            continue;
        }
        let judge: fn(&str) -> JudgedLines = match name {
            "policy.json" => judge_policy,
            codebutler_roadmap::FILE => roadmap::judge_roadmap,
            _ => judge_guide,
        };
        with_text(path, bytes, &mut findings, judge);
    }
    skill::judge_all(files, &known, &mut findings);
    findings.sort();
    findings
}

type JudgedLines = Vec<(usize, FindingSeverity, String)>;

/// A place in a file, as [`GuideFinding`] has it.
struct FilePlace {
    line: usize,
    column: usize,
}

impl From<usize> for FilePlace {
    fn from(line: usize) -> Self {
        Self { line, column: 0 }
    }
}

fn with_text<P: Into<FilePlace>>(
    path: &str,
    bytes: &Result<Vec<u8>, UnreadFile>,
    findings: &mut Vec<GuideFinding>,
    judge: impl FnOnce(&str) -> Vec<(P, FindingSeverity, String)>,
) {
    let mut add = |place: FilePlace, severity, message| {
        let FilePlace { line, column } = place;
        findings.push(GuideFinding { file: path.to_owned(), line, column, severity, message });
    };
    let found = match bytes.as_ref().map(|bytes| std::str::from_utf8(bytes)) {
        Err(why) => vec![(0, FindingSeverity::Error, format!("can't be read: {why}"))],
        Ok(Err(error)) => {
            let good = bytes.iter().flatten().take(error.valid_up_to());
            let line = good.filter(|byte| **byte == b'\n').count() + 1;
            vec![(line, FindingSeverity::Error, "is no UTF-8: it is left out".to_owned())]
        }
        Ok(Ok(text)) => {
            for (place, severity, message) in judge(text) {
                add(place.into(), severity, message);
            }
            judge_text(text)
        }
    };
    for (line, severity, message) in found {
        add(line.into(), severity, message);
    }
}

/// A role's guide, `global.md` or `workflows.md`.
fn judge_guide(text: &str) -> JudgedLines {
    let mut found = Vec::new();
    if text.trim().is_empty() {
        let message =
            "is empty: remove it, or say in it what CodeButler's own guide does not".to_owned();
        found.push((0, FindingSeverity::Warning, message));
    }
    if let Some((cut, _)) = text.trim().char_indices().nth(MAX_GUIDE) {
        let blank = text.len() - text.trim_start().len();
        let line = text[..blank + cut].matches('\n').count() + 1;
        let message = format!("what follows is cut: a guide has {MAX_GUIDE} characters at most");
        found.push((line, FindingSeverity::Error, message));
    }
    found
}

/// `policy.json`, by the rules of [`RiskRules::parse`].
fn judge_policy(text: &str) -> JudgedLines {
    let message = match RiskRules::parse(text) {
        Ok(rules) => return judge_tools(text, &rules),
        Err(error) => error.to_string(),
    };
    let line = match serde_json::from_str::<serde_json::Value>(text) {
        Err(error) => error.line(),
        Ok(_) => line_in(&message).unwrap_or_else(|| line_of_quoted(text, &message)),
    };
    let message = format!("{message}; until this is fixed no rule of the file counts");
    vec![(line, FindingSeverity::Error, message)]
}

/// Finds tiers of tools that no role can have: they do nothing.
fn judge_tools(text: &str, rules: &RiskRules) -> JudgedLines {
    let is_known = |name: &str| TOOLS.contains(&name) || name.starts_with(MCP_PREFIX);
    let unknown = rules.tool_names().filter(|name| !is_known(name));
    unknown
        .map(|name| {
            let line = line_of_quoted(text, &format!("`\"{name}\"`"));
            let message = format!(
                "no tool is called `{name}`, so its tier does nothing: names are those of `spec.tools.allow` of an \
                 AgentRole, and a tool of a server is `{MCP_PREFIX}SERVER__TOOL`"
            );
            (line, FindingSeverity::Warning, message)
        })
        .collect()
}

/// The line that the parser names.
fn line_in(message: &str) -> Option<usize> {
    let (_, rest) = message.rsplit_once(" at line ")?;
    rest.split(' ').next()?.parse().ok().filter(|line| *line > 0)
}

/// The line with the last of the texts in backticks that is in the file.
fn line_of_quoted(text: &str, message: &str) -> usize {
    let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    let line = |part: &&str| text.lines().position(|line| line.contains(*part));
    quoted.iter().rev().find_map(line).map_or(0, |line| line + 1)
}

/// Finds mistakes that any text file may have.
fn judge_text(text: &str) -> JudgedLines {
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        if line.starts_with("<<<<<<< ") || line.starts_with(">>>>>>> ") {
            let message = "a conflict of a merge is left over".to_owned();
            found.push((number + 1, FindingSeverity::Error, message));
        }
        if let Some(hidden) = line.chars().find(|c| is_hidden(*c)) {
            let message = format!(
                "has U+{:04X}, which people don't see and models do: remove it",
                u32::from(hidden)
            );
            found.push((number + 1, FindingSeverity::Error, message));
        }
    }
    found
}

/// Direction marks, zero-width characters and tags: a way to tell a model what no reviewer sees.
fn is_hidden(c: char) -> bool {
    matches!(c, '\u{200B}' | '\u{200E}' | '\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2060}'..='\u{2069}'
        | '\u{FEFF}' | '\u{E0000}'..='\u{E007F}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(files: &[(&str, &[u8])]) -> (String, ExitCode, ExitCode) {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join(FOLDER);
        std::fs::create_dir(&folder).unwrap();
        for (name, bytes) in files {
            std::fs::write(folder.join(name), bytes).unwrap();
        }
        let mut said = Vec::new();
        let code = run_validate(dir.path(), false, &[], &mut said);
        let strict = run_validate(dir.path(), true, &[], &mut Vec::new());
        let said = String::from_utf8(said).unwrap();
        (said.replace(&format!("{}/", folder.display()), ""), code, strict)
    }

    #[test]
    fn good_files_are_passed_in_silence() {
        let policy = br#"{"tool_overrides": {"bash": {"destructive": ["./migrate.sh"]}}}"#;
        let (said, code, strict) = checked(&[
            ("pm.md", b"# PM\n\nBe brief.\n"),
            ("workflows.md", b"# Workflows\n"),
            ("policy.json", policy),
        ]);
        assert_eq!((said.as_str(), code, strict), ("", ExitCode::SUCCESS, ExitCode::SUCCESS));
    }

    #[test]
    fn a_mistake_is_said_by_file_and_line() {
        let contradiction = br#"{"tool_overrides": {"bash": {
  "safe": [
    {"command": "npm ci", "matches": ["npm ci --offline"],
     "spares": ["npm ci --force"]}]}}}"#;
        let broken = b"{\n  \"tool_overrides\": {\n    \"bash\": {\"safe\": [1,]}\n}}";
        let misspelt = b"{\"tool_overrides\": {\n  \"bash\": {\"destructiv\": []}\n}}";
        for (policy, line, word) in [
            (&contradiction[..], "policy.json:4: error: ", "its own example `npm ci --force`"),
            (&broken[..], "policy.json:3: error: ", "no rule of the file counts"),
            (&misspelt[..], "policy.json:2: error: ", "unknown field `destructiv`"),
        ] {
            let (said, code, _) = checked(&[("policy.json", policy)]);
            assert!(said.starts_with(line) && said.contains(word), "{said}");
            assert_eq!(code, ExitCode::FAILURE);
        }
    }

    #[test]
    fn a_tier_of_a_tool_that_does_not_exist_is_said_with_its_line() {
        let policy = b"{\"tool_overrides\": {\"tools\": {\n  \"GitPush\": \"Destructive\",\n  \
            \"gitpush\": \"Destructive\",\n  \"mcp__tracker__close\": \"Destructive\"}}}";
        let (said, code, strict) = checked(&[("policy.json", policy)]);
        assert!(said.starts_with("policy.json:3: warning: no tool is called `gitpush`"), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
        assert_eq!((code, strict), (ExitCode::SUCCESS, ExitCode::FAILURE));
    }

    #[test]
    fn a_roadmap_is_judged_by_its_own_rules() {
        let good = b"# Roadmap\n\n## 1. Login\n- Status: done\n- Acceptance criteria: works\n";
        assert_eq!(checked(&[("roadmap.md", good)]).0, "");
        let bad =
            b"## 1. A\n- Depends on: 2\n- Acceptance criteria: x\n\n## 2. B\n- Depends on: 1\n\
            - Status: soon\n- Acceptance criteria: x\n";
        let (said, code, _) = checked(&[("roadmap.md", bad)]);
        assert!(said.contains("roadmap.md:1: error: items 1 \u{2192} 2 \u{2192} 1 wait"), "{said}");
        assert!(said.contains("roadmap.md:7: error: `soon` is no status"), "{said}");
        assert_eq!(code, ExitCode::FAILURE);
    }

    #[test]
    fn what_no_reviewer_sees_is_seen() {
        let long = format!("# Long\n{}", "word\n".repeat(20_000));
        let (said, code, _) = checked(&[
            ("coder.md", "# Coder\nBe kind.\u{202E}\n".as_bytes()),
            ("global.md", b"one\n<<<<<<< HEAD\n"),
            ("lead.md", b"# Lead\n\xff\n"),
            ("pm.md", long.as_bytes()),
        ]);
        for line in [
            "coder.md:2: error: has U+202E",
            "global.md:2: error: a conflict of a merge",
            "lead.md:2: error: is no UTF-8",
            "pm.md:9831: error: what follows is cut",
        ] {
            assert!(said.contains(line), "{line}: {said}");
        }
        assert_eq!(code, ExitCode::FAILURE);
    }

    #[test]
    fn warnings_fail_only_who_wants_that() {
        let (said, code, strict) =
            checked(&[("mcp.json", b"{\"servers\": {}, \"inputs\": []}"), ("pm.md", b" \n")]);
        assert!(
            said.contains("mcp.json:1:17: warning: `inputs` is ignored")
                && said.contains("pm.md: warning"),
            "{said}"
        );
        assert_eq!((code, strict), (ExitCode::SUCCESS, ExitCode::FAILURE));
        let nothing = tempfile::tempdir().unwrap();
        assert_eq!(run_validate(nothing.path(), false, &[], &mut Vec::new()), ExitCode::from(2));
    }
}
