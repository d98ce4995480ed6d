//! Files of a change that say how roles work: guides, prompts, skills, policies, and what those lead on to. They
//! count from the merge on, for every later conversation, so whoever is asked to merge is shown them by name. What is
//! looked for is what agents read of a repository, and what other tools do, since people keep those in step.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use codebutler_crds::{Repo, Thread};
use codebutler_gateway_core::github::{GitHub, GitHubError, PullFiles};
use codebutler_gateway_core::thread_key::ThreadKey;
use codebutler_git::SurveyError;
use codebutler_git::services::GitServices;
use codebutler_git::steering::{SteeringLeads, SteeringSurvey, steers_roles};
use tokio::time::timeout;

use crate::naming::path_as_code;

/// Maximum number of paths that are named.
const NAMED: usize = 10;
/// Timeout of each of the three looks at the copy of the repository: a role waits for a minute until its question is
/// posted, and a look that takes longer would take as long when it asks again.
const PATIENCE: Duration = Duration::from_secs(12);
const UNLED: &str =
    ":warning: Which other files steer roles, by links and references, is not known";

/// Files of a pull request that steer roles.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SteeringFiles {
    /// Paths, each with the file that leads there where it does not steer by its own name.
    paths: BTreeMap<String, Option<String>>,
    /// Number of files that were looked at, where that is not all of them.
    looked_at: Option<usize>,
    /// Completeness of what is known of where files lead.
    leads: KnownLeads,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum KnownLeads {
    #[default]
    All,
    Some,
    /// None are known, for this reason.
    None(String),
}

/// Looks for what steers roles in the pull requests of a Repo.
pub struct SteeringSearch {
    survey: Result<SteeringSurvey, SurveyError>,
}

impl SteeringSearch {
    /// Surveys a Repo's branches as they are now.
    pub async fn begin(gateway: &Arc<GitServices>, repo: &Arc<Repo>, thread: &ThreadKey) -> Self {
        let taken = SteeringSurvey::take(gateway, repo, thread);
        let survey = timeout(PATIENCE, taken).await.unwrap_or_else(|_| Err(late()));
        Self { survey }
    }

    /// Searches one pull request, at a commit.
    ///
    /// # Errors
    /// When GitHub does not say.
    pub async fn search(
        &self,
        github: &GitHub,
        number: u64,
        head: &str,
    ) -> Result<SteeringFiles, GitHubError> {
        let files = github.changed_by(number).await?;
        let survey = match &self.survey {
            Ok(survey) => survey,
            Err(error) => return Ok(SteeringFiles::among(&files, Err(error))),
        };
        let leads = timeout(PATIENCE, survey.leads(head)).await.unwrap_or_else(|_| Err(late()));
        Ok(match leads {
            Ok(leads) => SteeringFiles::among(&files, Ok(leads)),
            Err(error) => SteeringFiles::among(&files, Err(&error)),
        })
    }
}

impl SteeringSearch {
    /// A sentence about changes that merging a commit of a Thread's branch would put back on the base branch.
    pub async fn removed_from_base(&self, thread: &Thread, head: &str) -> Option<String> {
        // The sentence about the files says already that the branches can't be read.
        let survey = self.survey.as_ref().ok()?;
        let found = timeout(PATIENCE, survey.removed_from_base(thread, head)).await;
        match found.unwrap_or_else(|_| Err(late())) {
            Ok(found) => found.map(|found| found.warn()),
            Err(error) => Some(format!(
                ":warning: Whether it puts back what was taken off the base branch is not known: {error}"
            )),
        }
    }
}

impl SteeringFiles {
    /// Picks the steering files among those that a pull request changes.
    fn among(files: &PullFiles, leads: Result<SteeringLeads, &SurveyError>) -> Self {
        let (leads, known) = match leads {
            Ok(leads) if leads.is_cut => (leads, KnownLeads::Some),
            Ok(leads) => (leads, KnownLeads::All),
            Err(error) => (SteeringLeads::default(), KnownLeads::None(error.to_string())),
        };
        let steering = |path: &String| {
            let by =
                if steers_roles(path) { None } else { Some(leads.leading_to(path)?.to_owned()) };
            Some((path.clone(), by))
        };
        let paths = files.paths.iter().filter_map(steering).collect();
        Self { paths, looked_at: files.is_cut.then_some(files.paths.len()), leads: known }
    }

    /// A sentence for the people who decide, if there is anything to say.
    pub fn sentence(&self) -> Option<String> {
        let show = |(path, by): (&String, &Option<String>)| match by {
            None => path_as_code(path),
            Some(by) => format!("{} (by {})", path_as_code(path), path_as_code(by)),
        };
        let named: Vec<String> = self.paths.iter().take(NAMED).map(show).collect();
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
        let unled = match &self.leads {
            KnownLeads::All => None,
            KnownLeads::Some => Some(format!("{UNLED} in part")),
            KnownLeads::None(why) => Some(format!("{UNLED}: {why}")),
        };
        let parts: Vec<String> = steers.into_iter().chain(unseen).chain(unled).collect();
        (!parts.is_empty()).then(|| parts.join(". "))
    }
}

fn late() -> SurveyError {
    SurveyError::Git("the copy of the repository takes too long".to_owned())
}

/// Sentence where the files can't be read.
pub fn describe_unknown(error: &GitHubError) -> String {
    format!(":warning: Whether it changes what steers roles is not known: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(paths: &[&str], is_cut: bool) -> Option<String> {
        let paths = paths.iter().map(ToString::to_string).collect();
        let leads = Ok(SteeringLeads::default());
        SteeringFiles::among(&PullFiles { paths, is_cut }, leads).sentence()
    }

    #[test]
    fn files_that_steer_roles_are_named_and_no_others() {
        assert_eq!(said(&["src/main.rs", "docs/style.md"], false), None);
        let named = said(&["web/AGENTS.md", "src/main.rs", ".codebutler/pm.md"], false).unwrap();
        assert!(named.ends_with("from the merge on: `.codebutler/pm.md`, `web/AGENTS.md`"));
        let many: Vec<String> = (0..12).map(|n| format!(".codebutler/{n:02}.md")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert!(said(&many, false).unwrap().ends_with("`.codebutler/09.md` and 2 more"));
        assert!(
            said(&["a"], true).unwrap().contains("Only 1 of its files"),
            "none is passed over silently"
        );
    }

    #[test]
    fn who_decides_is_told_what_is_not_known() {
        let files = PullFiles { paths: vec!["docs/style.md".to_owned()], is_cut: false };
        let cut = SteeringLeads { is_cut: true, ..SteeringLeads::default() };
        let away = SurveyError::Git("away".to_owned());
        for (leads, end) in [(Ok(cut), "is not known in part"), (Err(&away), "is not known: away")]
        {
            let said = SteeringFiles::among(&files, leads).sentence().unwrap();
            assert!(said.ends_with(end), "{said}");
        }
    }
}
