//! Files of a change that say how roles work: guides, prompts, skills, policies. They count from the merge on, for
//! every later conversation, so whoever is asked to merge is shown them by name. What is looked for is what agents
//! read of a repository, and what other tools do, since people keep those in step.

use codebutler_gateway_core::github::{GitHub, GitHubError, PullFiles};

/// Folders, wherever they are.
const FOLDERS: [&str; 7] =
    [".codebutler", ".agents", ".claude", ".cursor", ".codex", ".gemini", ".github/instructions"];
/// Files, wherever they are.
const FILES: [&str; 13] = [
    "agents.md",
    "agents.override.md",
    "agent.md",
    "claude.md",
    "claude.local.md",
    "gemini.md",
    "contributing",
    "contributing.md",
    "contributing.rst",
    "copilot-instructions.md",
    ".cursorrules",
    ".windsurfrules",
    ".clinerules",
];
/// Read as instructions by whoever opens a pull request: a file, or a folder of them.
const TEMPLATE: &str = "pull_request_template";
/// Paths that are named.
const NAMED: usize = 10;
/// Of a path.
const LONGEST: usize = 200;

/// What of a pull request steers roles.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SteeringFiles {
    paths: Vec<String>,
    /// Only so many files were looked at.
    looked_at: Option<usize>,
}

impl SteeringFiles {
    /// Of these, in their order.
    pub fn among(files: &PullFiles) -> Self {
        let mut paths: Vec<String> =
            files.paths.iter().filter(|path| steers_roles(path)).cloned().collect();
        paths.sort_unstable();
        paths.dedup();
        Self { paths, looked_at: files.is_cut.then_some(files.paths.len()) }
    }

    /// Of a pull request.
    ///
    /// # Errors
    /// When GitHub does not say.
    pub async fn of_pull(github: &GitHub, number: u64) -> Result<Self, GitHubError> {
        github.changed_by(number).await.map(|files| Self::among(&files))
    }

    /// A sentence for the people who decide, if there is anything to say.
    pub fn sentence(&self) -> Option<String> {
        let named = self.paths.iter().take(NAMED).map(|path| show_path(path));
        let named: Vec<String> = named.collect();
        let more = self.paths.len().saturating_sub(NAMED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let steers = (!named.is_empty()).then(|| {
            format!(
                ":warning: Changes what steers roles, from the merge on: {}{more}",
                named.join(", ")
            )
        });
        let unseen = self.looked_at.map(|count| {
            format!(":warning: Only {count} of its files were looked at for what steers roles")
        });
        let parts: Vec<String> = steers.into_iter().chain(unseen).collect();
        (!parts.is_empty()).then(|| parts.join(". "))
    }
}

/// Said where the files can't be had.
pub fn describe_unknown(error: &GitHubError) -> String {
    format!(":warning: Whether it changes what steers roles is not known: {error}")
}

/// Whether roles, or tools like them, read this path as instructions. Case does not count: some file systems find
/// a file under each spelling.
fn steers_roles(path: &str) -> bool {
    let folded = path.to_lowercase();
    let name = folded.rsplit('/').next().unwrap_or_default();
    let slashed = format!("/{folded}");
    // What happened in a conversation. Roles write it in each, and are shown parts of it as somebody's words.
    if folded.starts_with(".codebutler/journals/") {
        return false;
    }
    let is_template = |part: &str| part.split('.').next() == Some(TEMPLATE);
    FILES.contains(&name)
        || folded.split('/').any(is_template)
        || FOLDERS.iter().any(|folder| {
            slashed.contains(&format!("/{folder}/")) || slashed.ends_with(&format!("/{folder}"))
        })
}

fn show_path(path: &str) -> String {
    let plain = |c: char| if c == '`' || c.is_control() { '\'' } else { c };
    format!("`{}`", path.chars().take(LONGEST).map(plain).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(paths: &[&str], is_cut: bool) -> Option<String> {
        let paths = paths.iter().map(ToString::to_string).collect();
        SteeringFiles::among(&PullFiles { paths, is_cut }).sentence()
    }

    #[test]
    fn files_that_steer_roles_are_named_and_no_others() {
        let others =
            ["src/main.rs", "docs/agents/readme.md", "codebutler.md", ".codebutler/journals/a.md"];
        assert_eq!(said(&others, false), None);
        for path in [
            ".codebutler/policy.json",
            ".codebutler/roles/coder.md",
            ".CodeButler/skills/a.md",
            ".codebutler",
            "AGENTS.md",
            "web/agents.md",
            "CLAUDE.md",
            "GEMINI.md",
            ".claude/skills/x/SKILL.md",
            ".agents/skills/x/SKILL.md",
            ".cursor/rules/a.mdc",
            ".cursorrules",
            ".github/copilot-instructions.md",
            ".github/CONTRIBUTING.md",
            "docs/PULL_REQUEST_TEMPLATE.md",
            ".github/pull_request_template/release.md",
        ] {
            let said = said(&["src/main.rs", path], false).unwrap();
            assert!(said.contains(&format!("`{path}`")) && !said.contains("main.rs"), "{said}");
        }
        let many: Vec<String> = (0..12).map(|n| format!(".codebutler/{n:02}.md")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert!(said(&many, false).unwrap().ends_with("`.codebutler/09.md` and 2 more"));
        assert!(
            said(&["a"], true).unwrap().contains("Only 1 of its files"),
            "none is passed over silently"
        );
    }
}
