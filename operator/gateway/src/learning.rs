//! Offers a team once to have it learn a repository that has code and says nothing to the roles yet. What was
//! offered stands in the Repo's status, and where it is not known whether it was, in Slack.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use codebutler_crds::guides::LearningOffer;
use codebutler_crds::{Repo, condition};
use codebutler_gateway_core::api_error::ApiError;
use codebutler_gateway_core::github::{GitHub, GitHubError};
use codebutler_gateway_core::repo_key::RepoKey;
use codebutler_gateway_core::writes;
use codebutler_runtime::step;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::Patch;
use kube::{Api, ResourceExt as _};
use serde_json::json;

use crate::work::WorkServices;

/// The folder that instructs the roles.
const FOLDER: &str = ".codebutler";
/// Files at the top that are no code: a repository of these alone has nothing to learn.
const PAPERS: [&str; 9] = [
    "authors",
    "changelog",
    "code_of_conduct",
    "codeowners",
    "contributing",
    "copying",
    "licen",
    "readme",
    "security",
];

/// Reason why nothing is offered yet.
#[derive(Debug, thiserror::Error)]
enum OfferError {
    #[error(transparent)]
    Slack(#[from] ApiError),
    #[error(transparent)]
    Host(#[from] GitHubError),
    #[error(transparent)]
    Write(#[from] kube::Error),
}

/// Looks at Repos, each now and then until it is settled.
#[derive(Default)]
pub struct LearningOffers {
    looked: HashMap<RepoKey, Instant>,
}

impl LearningOffers {
    /// Looks at those that may be due, none more often than `every`.
    pub async fn look(&mut self, gateway: &WorkServices, every: Duration) {
        let repos = gateway.context.own_repos();
        self.looked.retain(|key, _| repos.iter().any(|repo| RepoKey::from(&**repo) == *key));
        for repo in repos.iter().filter(|repo| is_due(repo)) {
            let key = RepoKey::from(&**repo);
            if self.looked.get(&key).is_some_and(|at| at.elapsed() < every) {
                continue;
            }
            self.looked.insert(key, Instant::now());
            if let Err(error) = offer_learning(gateway, repo).await {
                tracing::info!(repo = repo.name_any(), %error, "learning_offer_delayed");
            }
        }
    }
}

fn is_due(repo: &Repo) -> bool {
    let status = repo.status.as_ref();
    let is_ready = status.is_some_and(|s| condition::is_true(&s.conditions, condition::READY));
    let is_settled = status.and_then(|s| s.learning.as_ref()).is_some_and(|offer| offer.settled);
    is_ready
        && !is_settled
        && repo.spec.slack.offer_learning
        && !repo.spec.suspend
        && repo.metadata.deletion_timestamp.is_none()
}

async fn offer_learning(gateway: &WorkServices, repo: &Repo) -> Result<(), OfferError> {
    let github = GitHub::of(&gateway.context, repo).await?;
    let Some(tip) = github.tip(&repo.spec.git.branch).await? else { return Ok(()) };
    let names = github.top_names(&tip.commit).await?;
    if names.iter().any(|name| name == FOLDER) {
        return settle(gateway, repo, LearningOffer { since: now(), settled: true }).await;
    }
    if !has_code(&names) {
        return Ok(());
    }
    let known = repo.status.as_ref().and_then(|status| status.learning.clone());
    let before = known.as_ref().map(|offer| offer.since.0);
    let offer = known.unwrap_or_else(|| LearningOffer { since: now(), settled: false });
    if before.is_none() {
        settle(gateway, repo, offer.clone()).await?;
    }
    step::point("an offer to learn is on record");
    // The API server keeps whole seconds: an attempt after this one reads no more of it.
    let key = format!("learn:{}", offer.since.0.as_second());
    gateway.slack.offer_learning(repo, &key, before).await?;
    step::point("the channel has an offer to learn");
    settle(gateway, repo, LearningOffer { settled: true, ..offer }).await
}

async fn settle(
    gateway: &WorkServices,
    repo: &Repo,
    offer: LearningOffer,
) -> Result<(), OfferError> {
    let namespace = repo.namespace().unwrap_or_default();
    let api: Api<Repo> = Api::namespaced(gateway.context.client.clone(), &namespace);
    let patch = json!({"metadata": {"uid": repo.uid()}, "status": {"learning": offer}});
    api.patch_status(&repo.name_any(), &writes::patch_params(), &Patch::Merge(patch)).await?;
    Ok(())
}

fn now() -> Time {
    Time(Timestamp::now())
}

/// True if there is anything at the top beside papers and settings.
fn has_code(names: &[String]) -> bool {
    names.iter().any(|name| {
        let name = name.to_ascii_lowercase();
        !name.starts_with('.') && !PAPERS.iter().any(|paper| name.starts_with(paper))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn papers_and_settings_are_no_code() {
        let code = |names: &[&str]| {
            has_code(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())
        };
        assert!(!code(&[]) && !code(&["README.md", "LICENSE", ".gitignore", ".github"]));
        assert!(code(&["README.md", "src"]) && code(&["main.py"]));
    }
}
