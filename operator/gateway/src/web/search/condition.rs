//! The condition `SearchReachable` of Repos that name a search service: what can be seen without a search, and what
//! searches have shown.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use codebutler_crds::Repo;
use codebutler_crds::condition::SEARCH_REACHABLE;
use codebutler_crds::web::{SearchService, WebSearchSpec};
use codebutler_gateway_core::conditions::{ConditionFinding, ConditionWriter};
use codebutler_gateway_core::context::GatewayContext;
use codebutler_gateway_core::repo_key::RepoKey;
use codebutler_gateway_core::revisions::PolledRevisions;
use kube::ResourceExt as _;
use tokio_util::sync::CancellationToken;

use super::ChosenSearch;
use super::error::SearchError;

/// Time between two looks at the Repos. Nobody is asked for it but the API server for the Secrets.
const LOOK: Duration = Duration::from_secs(2);
/// Reason of the event about a service that can't be used.
const EVENT: &str = "SearchNotReachable";
/// Reasons that only a search finds, and that only another search finds resolved.
const BY_SEARCHES: [&str; 2] = ["KeyRefused", "Refused"];

/// All of a Repo that decides whether its service can be used. Another state has to be judged anew.
#[derive(Clone, Debug, PartialEq, Eq)]
struct JudgedState {
    uid: Option<String>,
    /// The service, without its price.
    service: WebSearchSpec,
    /// Revision of the Secret; None where it can't be read.
    secret: Option<String>,
}

impl JudgedState {
    fn of(repo: &Repo, spec: &WebSearchSpec, secret: Option<String>) -> Self {
        let service = WebSearchSpec { price_per_search: None, ..spec.clone() };
        Self { uid: repo.uid(), service, secret }
    }
}

/// A judgement, and the generation of the Repo for which its condition stands.
type LastJudgement = (JudgedState, Option<i64>);

/// Keeps the condition true to what Repos and Secrets say, until the gateway stops.
pub async fn run_search_conditions(
    context: &GatewayContext,
    conditions: &ConditionWriter,
    shutdown: &CancellationToken,
) {
    let (mut judged, secrets) = (HashMap::new(), PolledRevisions::default());
    let mut ticks = tokio::time::interval(LOOK);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    while shutdown.run_until_cancelled(ticks.tick()).await.is_some() {
        let round = look_round(context, conditions, &secrets, &mut judged);
        if shutdown.run_until_cancelled(round).await.is_none() {
            return;
        }
    }
}

async fn look_round(
    context: &GatewayContext,
    conditions: &ConditionWriter,
    secrets: &PolledRevisions,
    judged: &mut HashMap<RepoKey, LastJudgement>,
) {
    let mut named = HashSet::new();
    for repo in context.own_repos() {
        if repo.metadata.deletion_timestamp.is_some() {
            continue;
        }
        let Some(spec) = repo.spec.web.as_ref().and_then(|web| web.search.as_ref()) else {
            conditions.forget(&repo, SEARCH_REACHABLE).await;
            continue;
        };
        let key = RepoKey::from(&*repo);
        named.insert(key.clone());
        let secret = match &spec.credentials {
            Some(secret) => {
                let namespace = repo.namespace().unwrap_or_default();
                secrets.of(context, &namespace, &secret.name).await
            }
            None => Some(String::new()),
        };
        let state = JudgedState::of(&repo, spec, secret);
        let generation = repo.metadata.generation;
        let is_said = match judged.get(&key) {
            Some((known, at)) if *known == state && *at == generation => continue,
            // What was changed is something else.
            Some((known, _)) if *known == state && says_any(&repo) => {
                conditions.affirm(&repo, SEARCH_REACHABLE).await
            }
            before => judge_repo(context, conditions, &repo, spec, before.is_some()).await,
        };
        if is_said {
            judged.insert(key, (state, generation));
        }
    }
    judged.retain(|key, _| named.contains(key));
}

/// Has the Repo say what can be seen without a search. Answers whether it does. `is_changed`: it was judged before, and
/// is not the same any more.
async fn judge_repo(
    context: &GatewayContext,
    conditions: &ConditionWriter,
    repo: &Repo,
    spec: &WebSearchSpec,
    is_changed: bool,
) -> bool {
    let chosen = ChosenSearch::of_repo(repo, spec);
    match chosen.prepare(context).await {
        Err(error) => {
            let Some(reason) = error.reason() else { return false };
            tell(conditions, repo, Some(false), reason, &error.to_string()).await
        }
        // What an earlier gateway's searches have found still holds.
        Ok(_) if !is_changed && holds_on(repo) => true,
        Ok(_) => {
            let service = spec.provider.name();
            let message = match spec.provider {
                SearchService::Brave => {
                    format!("only a search can tell whether {service} takes the key")
                }
                SearchService::SearXng => {
                    format!("only a search can tell whether {service} answers, in JSON")
                }
            };
            tell(conditions, repo, None, "NotAsked", &message).await
        }
    }
}

/// True if the Repo has the condition, whatever it says.
fn says_any(repo: &Repo) -> bool {
    let mut said = repo.status.iter().flat_map(|status| &status.conditions);
    said.any(|c| c.type_ == SEARCH_REACHABLE)
}

/// True if searches have found what the Repo, as it is now, says.
fn holds_on(repo: &Repo) -> bool {
    let mut said = repo.status.iter().flat_map(|status| &status.conditions);
    said.any(|c| {
        c.type_ == SEARCH_REACHABLE
            && c.observed_generation == repo.metadata.generation
            && (c.status == "True" || BY_SEARCHES.contains(&&*c.reason))
    })
}

/// Has the Repo say what a search has shown.
pub(in crate::web) async fn note_search(
    conditions: &ConditionWriter,
    repo: &Repo,
    chosen: &ChosenSearch,
    error: Option<&SearchError>,
) {
    match error.map(|error| (error.reason(), error)) {
        None => {
            let message = format!("{} answers searches", chosen.subject.service.name());
            tell(conditions, repo, Some(true), "Served", &message).await;
        }
        Some((Some(reason), error)) => {
            tell(conditions, repo, Some(false), reason, &error.to_string()).await;
        }
        Some((None, _)) => {}
    }
}

async fn tell(
    conditions: &ConditionWriter,
    repo: &Repo,
    holds: Option<bool>,
    reason: &str,
    message: &str,
) -> bool {
    let type_ = SEARCH_REACHABLE;
    conditions.search(repo, &ConditionFinding { type_, holds, reason, message, event: EVENT }).await
}
