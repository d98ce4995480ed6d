//! Files that say how roles work: guides, prompts, skills, policies. They lead on to others, by a link in the tree
//! or by a reference such as `@docs/style.md`, and those steer roles as much.

mod leads;

use std::sync::Arc;

use codebutler_crds::{Repo, Thread};
use codebutler_gateway_core::places::{SharedPlace, SharedPlaces};
use codebutler_gateway_core::redact::SecretRedactor;
use codebutler_gateway_core::repo_key::RepoKey;
use codebutler_gateway_core::thread_key::ThreadKey;

pub use self::leads::SteeringLeads;
use super::fork::{RemovedFromBase, fork_of};
use super::services::GitServices;
use super::survey::{BranchSurvey, SurveyError};

/// Folders, wherever they are.
const FOLDERS: [&str; 11] = [
    ".codebutler",
    ".agents",
    ".claude",
    ".cursor",
    ".codex",
    ".gemini",
    ".clinerules",
    ".windsurf",
    ".github/instructions",
    ".github/agents",
    ".github/prompts",
];
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

/// True if roles, or tools like them, read this path as instructions. Case does not count: some file systems find a
/// file under each spelling.
pub fn steers_roles(path: &str) -> bool {
    let folded = path.to_lowercase();
    let name = folded.rsplit('/').next().unwrap_or_default();
    let slashed = format!("/{folded}");
    // Journals of conversations: roles write one in each, and are shown parts of it as somebody's words, not as
    // instructions.
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

/// The branches of a Repo, to ask what the files that steer roles lead on to.
pub struct SteeringSurvey {
    survey: BranchSurvey,
    readers: SharedPlaces,
    thread: ThreadKey,
    repo: Arc<Repo>,
    redactor: Arc<SecretRedactor>,
}

impl SteeringSurvey {
    /// Takes a survey of the remote as it is now.
    ///
    /// # Errors
    /// When the remote can't be asked.
    pub async fn take(
        gateway: &Arc<GitServices>,
        repo: &Arc<Repo>,
        thread: &ThreadKey,
    ) -> Result<Self, SurveyError> {
        let survey = super::take_survey(gateway, repo, thread).await?;
        let (readers, thread) = (gateway.mirrors.readers.clone(), thread.clone());
        let (repo, redactor) = (Arc::clone(repo), gateway.context.redactors.of(repo));
        Ok(Self { survey, readers, thread, repo, redactor })
    }

    /// Finds the files that the steering files of the base branch, and of a commit that is to be merged, refer to.
    ///
    /// # Errors
    /// When Git can't tell.
    pub async fn leads(&self, head: &str) -> Result<SteeringLeads, SurveyError> {
        let _place = self.place().await?;
        let mut leads = SteeringLeads::default();
        for commit in [head, &self.survey.base] {
            let added = leads.add(self.survey.view().git, commit).await;
            added.map_err(|error| SurveyError::Git(error.to_string()))?;
        }
        Ok(leads)
    }

    /// Finds commits that merging a commit of a Thread's branch would put back on the base branch.
    ///
    /// # Errors
    /// When Git can't tell.
    pub async fn removed_from_base(
        &self,
        thread: &Thread,
        head: &str,
    ) -> Result<Option<RemovedFromBase>, SurveyError> {
        let base = &self.repo.spec.git.branch;
        let Some(fork) = fork_of(thread, base) else { return Ok(None) };
        let _place = self.place().await?;
        let removed = self.survey.removed((&fork.commit, head), (base, &self.redactor)).await;
        removed.map_err(|error| SurveyError::Git(error.to_string()))
    }

    async fn place(&self) -> Result<SharedPlace, SurveyError> {
        let place = self.readers.place(&self.thread, &RepoKey::from(&*self.repo)).await;
        place.map_err(|error| SurveyError::Git(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::steers_roles;

    #[test]
    fn files_that_steer_roles_are_known_by_their_paths() {
        for other in
            ["src/main.rs", "docs/agents/readme.md", "codebutler.md", ".codebutler/journals/a.md"]
        {
            assert!(!steers_roles(other), "{other}");
        }
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
            ".clinerules/a.md",
            ".github/agents/a.agent.md",
            ".github/copilot-instructions.md",
            ".github/CONTRIBUTING.md",
            "docs/PULL_REQUEST_TEMPLATE.md",
            ".github/pull_request_template/release.md",
        ] {
            assert!(steers_roles(path), "{path}");
        }
    }
}
