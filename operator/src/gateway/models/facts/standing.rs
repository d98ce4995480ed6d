//! Keeps the lists of models fresh, and says on each Repo how its roles' models stand.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::Duration;

use codebutler_crds::condition::MODEL_REACHABLE;
use codebutler_crds::{AgentRole, Repo};
use futures::StreamExt as _;
use jiff::{Timestamp, tz::TimeZone};
use kube::ResourceExt as _;
use parking_lot::Mutex;
use tokio::time::Instant;
use url::Url;

use super::catalog::{GOOD, ModelList, list_source, model_facts};
use super::check::{self, RepoWorker};
use crate::gateway::conditions::ConditionStanding;
use crate::gateway::models::dialect::ApiDialect;
use crate::gateway::models::services::ModelServices;
use crate::gateway::repo_key::RepoKey;

/// Time between two looks at the Repos: nobody is asked for it.
const LOOK: Duration = Duration::from_secs(2);
/// How long it is good while the Repo says that its key is not served.
const UNSERVED: Duration = Duration::from_mins(5);
/// How long it is kept although somebody changed something that it may have to do with.
const SETTLED: Duration = Duration::from_secs(10);
/// Providers that are asked at the same time.
const AT_ONCE: usize = 8;

/// Keeps lists fresh and Repos told, until the gateway stops.
pub async fn run_standing(gateway: &ModelServices) {
    let told = Mutex::new(HashMap::<RepoKey, u64>::new());
    let mut ticks = tokio::time::interval(LOOK);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    while gateway.shutdown.run_until_cancelled(ticks.tick()).await.is_some() {
        let round = look_round(gateway, &told);
        if gateway.shutdown.run_until_cancelled(round).await.is_none() {
            return;
        }
    }
}

async fn look_round(gateway: &ModelServices, told: &Mutex<HashMap<RepoKey, u64>>) {
    let repos: Vec<Arc<Repo>> = gateway.context.repos.state();
    let repos: Vec<Arc<Repo>> =
        repos.into_iter().filter(|repo| repo.metadata.deletion_timestamp.is_none()).collect();
    let keys: HashSet<RepoKey> = repos.iter().map(|repo| RepoKey::from(&**repo)).collect();
    told.lock().retain(|key, _| keys.contains(key));
    let sources = repos.iter().map(|repo| list_source(repo)).collect();
    gateway.models.catalog.forget_all_but(&sources);
    futures::stream::iter(repos)
        .for_each_concurrent(AT_ONCE, |repo| look_at_models(gateway, repo, told))
        .await;
}

async fn look_at_models(
    gateway: &ModelServices,
    repo: Arc<Repo>,
    told: &Mutex<HashMap<RepoKey, u64>>,
) {
    let catalog = &gateway.models.catalog;
    let roles = gateway.context.roles_of(&repo);
    let key = RepoKey::from(&*repo);
    let said = told.lock().get(&key).copied();
    let seen =
        |list: Option<ModelList>| standing_fingerprint(&repo, &roles, list.map(|list| list.at));
    let is_news = said.is_some_and(|said| said != seen(catalog.list(&repo)));
    let secret = catalog.secret(&gateway.context, &repo).await;
    let anew = catalog.list(&repo).is_some_and(|list| list.secret != secret);
    if anew {
        gateway.models.keys.clear();
    }
    let age = match (anew, is_news) {
        (true, _) => Duration::ZERO,
        (_, true) => SETTLED,
        _ if is_unserved(&repo) => UNSERVED,
        _ => GOOD,
    };
    catalog.refresh(&gateway.models.asker(&gateway.context), &repo, age).await;
    let now = seen(catalog.list(&repo));
    if said == Some(now) {
        return;
    }
    let Some(list) = catalog.list(&repo) else { return };
    let standing = find_standing(&repo, &roles, &list);
    let told_of_key = gateway.conditions.model_asked(&repo, &list.served, anew).await;
    if gateway.conditions.models(&repo, &standing).await && told_of_key {
        told.lock().insert(key, now);
    }
}

/// Whether the Repo says that its key is not served: somebody may have mended it.
fn is_unserved(repo: &Repo) -> bool {
    let mut conditions = repo.status.iter().flat_map(|status| &status.conditions);
    conditions.any(|c| c.type_ == MODEL_REACHABLE && c.status == "False")
}

/// Another one once anything may have to be said anew.
fn standing_fingerprint(repo: &Repo, roles: &[Arc<AgentRole>], at: Option<Instant>) -> u64 {
    let mut hasher = DefaultHasher::new();
    (repo.uid(), repo.metadata.generation, at).hash(&mut hasher);
    for role in roles {
        (role.uid(), role.metadata.generation).hash(&mut hasher);
    }
    hasher.finish()
}

fn find_standing(repo: &Repo, roles: &[Arc<AgentRole>], list: &ModelList) -> ConditionStanding {
    let listed = match &list.known {
        Err(why) => return ConditionStanding::Unknown(why.clone()),
        // It lists what could be deployed, and what is has names of its own.
        Ok(_) if ApiDialect::of(repo) == ApiDialect::Azure => {
            return ConditionStanding::Unknown(
                "Azure lists models, and not what is deployed".to_owned(),
            );
        }
        Ok(listed) => listed,
    };
    let of = |model: &str| model_facts(repo, model, Some(listed));
    let workers: Vec<RepoWorker<'_>> =
        roles.iter().map(|role| RepoWorker { role, facts: &of }).collect();
    let today = Timestamp::now().to_zoned(TimeZone::UTC).date();
    if let Some(faults) = check::find_faults(&workers, &listed.models, today) {
        return ConditionStanding::Wrong(faults);
    }
    let base_url = Url::parse(&repo.spec.model.base_url);
    let is_free = base_url.is_ok_and(|url| ApiDialect::of(repo).is_free_at(&url));
    ConditionStanding::Known(check::tell_unpriced(&workers, is_free))
}
