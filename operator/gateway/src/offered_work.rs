//! Workflows and skills that people can ask for by name, as the gateway's copy of a repository's base branch has them.

use std::sync::Arc;
use std::time::Duration;

use codebutler_crds::Repo;
use codebutler_git::guides::BaseCopy;
use codebutler_git::mirror::{MirrorError, RepoMirrors};
use codebutler_guides::skills::{self, ReadFile, SkillSource};
use codebutler_guides::validate::files::{FOLDER, GuideFiles, is_skill};
use codebutler_guides::{UnreadFile, seeds};
use codebutler_slack::{OfferedSkill, OfferedWork};
use futures::FutureExt as _;
use kube::ResourceExt as _;
use tokio::time::timeout;

use crate::state::GatewayBase;

/// Longest wait of somebody who asks for help.
const PATIENCE: Duration = Duration::from_secs(3);
/// File of the team's own workflows, which replace those that CodeButler brings.
const WORKFLOWS: &str = "workflows.md";
/// Section of a guide that roles are not shown.
const ARCHIVE: &str = "archived learnings";

/// Has Slack's answer to `help` name what a repository offers.
pub(crate) fn offer_work(gateway: &GatewayBase) {
    let (context, mirrors) = (gateway.context.clone(), gateway.mirrors.clone());
    gateway.slack.offer_work_of(Arc::new(move |repo: Arc<Repo>| {
        let (context, mirrors) = (context.clone(), mirrors.clone());
        async move {
            let roles = context.roles_of(&repo).into_iter();
            let roles: Vec<String> = roles.map(|role| role.spec.role.clone()).collect();
            let files = match timeout(PATIENCE, read_files(&mirrors, &repo)).await {
                Ok(Ok(files)) => files,
                Ok(Err(error)) => {
                    tracing::info!(repo = repo.name_any(), %error, "help_guides_unread");
                    None
                }
                Err(_) => {
                    let error = "it takes too long";
                    tracing::info!(repo = repo.name_any(), error, "help_guides_unread");
                    None
                }
            };
            // Up to some megabytes are parsed.
            let listing = tokio::task::spawn_blocking(move || list_work(files.as_ref(), &roles));
            listing.await.unwrap_or_default()
        }
        .boxed()
    }));
}

async fn read_files(mirrors: &RepoMirrors, repo: &Repo) -> Result<Option<GuideFiles>, MirrorError> {
    match BaseCopy::known(mirrors, repo).await? {
        Some(base) => base.guides().await.map(Some),
        None => Ok(None),
    }
}

/// Lists workflows and skills. `roles` are those that work in the repository.
fn list_work(files: Option<&GuideFiles>, roles: &[String]) -> OfferedWork {
    let mut found: Vec<_> = files.into_iter().flat_map(GuideFiles::all).collect();
    // The repository's own skills win over those in the open form.
    found.sort_by_key(|(path, _)| !path.starts_with(FOLDER));
    let own = format!("{FOLDER}/{WORKFLOWS}");
    let own = found.iter().find(|(path, _)| **path == own);
    let own = own.and_then(|(_, bytes)| read_text(bytes).ok());
    let own = own.filter(|text| !text.trim().is_empty());
    let shipped = || seeds::find_seed(WORKFLOWS).unwrap_or_default().to_owned();
    let workflows = list_sections(&own.unwrap_or_else(shipped));
    let read = found.into_iter().filter(|(path, _)| is_skill(path));
    let read: Vec<ReadFile> = read.map(|(path, bytes)| (path.clone(), read_text(bytes))).collect();
    let (skills, _) = skills::collect_skills(&read, roles);
    let skills = skills.into_iter().map(|skill| OfferedSkill {
        is_own: skill.source != SkillSource::Seed,
        name: skill.name,
        about: skill.description,
    });
    OfferedWork { workflows, skills: skills.collect(), is_whole: files.is_some() }
}

fn read_text(bytes: &Result<Vec<u8>, UnreadFile>) -> Result<String, UnreadFile> {
    let bytes = bytes.clone()?;
    String::from_utf8(bytes).map_err(|error| UnreadFile::new(error.to_string()))
}

/// Titles of a guide's sections.
fn list_sections(guide: &str) -> Vec<String> {
    let titles = guide.lines().filter_map(|line| line.strip_prefix("## ")).map(str::trim);
    titles.filter(|title| !title.eq_ignore_ascii_case(ARCHIVE)).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn skill(about: &str) -> Vec<u8> {
        let text = format!(
            "# any\n\n{about}\n\n## Trigger\nbring it out\n\n## Agent\npm\n\n## Prompt\nDo it.\n"
        );
        text.into_bytes()
    }

    #[test]
    fn without_a_copy_what_codebutler_brings_is_offered_to_the_roles_that_there_are() {
        let work = list_work(None, &["pm".to_owned()]);
        assert!(work.workflows.iter().any(|name| name == "bugfix"), "{work:?}");
        let explain = work.skills.iter().find(|skill| skill.name == "explain").unwrap();
        assert!(!explain.is_own && explain.about.starts_with("Explains how"), "{explain:?}");
        assert!(work.skills.iter().all(|skill| skill.name != "learn"), "no lead works here");
        assert!(!work.is_whole);
    }

    #[test]
    fn own_files_win_and_those_that_can_not_be_read_are_left_out() {
        let mut files = GuideFiles::default();
        let workflows = "# Workflows\n\n## ship\n\nOut.\n\n## Archived Learnings\nOld.\n";
        files.add(".codebutler/workflows.md", Ok(workflows.as_bytes().to_vec()));
        files.add(".codebutler/skills/any.md", Ok(skill("Does it our way.")));
        files.add(".codebutler/skills/broken.md", Ok(vec![0xff]));
        files.add(".codebutler/skills/large.md", Err(UnreadFile::new("it is too large")));
        let work = list_work(Some(&files), &["pm".to_owned()]);
        assert_eq!(work.workflows, ["ship"]);
        let own: Vec<_> = work.skills.iter().filter(|skill| skill.is_own).collect();
        assert_eq!(own.len(), 1, "{own:?}");
        assert_eq!((&*own[0].name, &*own[0].about), ("any", "Does it our way."));
        assert!(work.is_whole);
    }
}
