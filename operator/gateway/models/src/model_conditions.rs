//! Keeps the lists of models fresh, and reports in the conditions of each Repo whether its provider serves its key and
//! has the models of its roles.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::Duration;

use codebutler_crds::condition::MODEL_REACHABLE;
use codebutler_crds::model::{DEFAULT_PROVIDER, ModelProvider, ModelSpec};
use codebutler_crds::{AgentRole, Repo};
use codebutler_gateway_core::conditions::{ConditionStanding, ServedModel};
use codebutler_gateway_core::repo_key::RepoKey;
use futures::StreamExt as _;
use jiff::{Timestamp, tz::TimeZone};
use kube::ResourceExt as _;
use parking_lot::Mutex;
use url::Url;

use crate::catalog::{GOOD, ModelList, list_source, model_facts};
use crate::dialect::ApiDialect;
use crate::facts::check::{self, CheckedModels, ListedModel, RepoWorker};
use crate::facts::family;
use crate::facts::route::{RoutedModel, route_model};
use crate::services::ModelServices;

/// Time between two looks at the Repos: nobody is asked for it.
const LOOK: Duration = Duration::from_secs(2);
/// Lifetime of a list while the Repo says that its key is not served.
const UNSERVED: Duration = Duration::from_mins(5);
/// Least age of a list before it is asked for again because somebody changed something that may
/// concern it.
const SETTLED: Duration = Duration::from_secs(10);
/// Providers that are asked at the same time.
const AT_ONCE: usize = 8;

/// Keeps lists fresh and Repos told, until the gateway stops.
pub async fn run_model_conditions(gateway: &ModelServices) {
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
    let repos: Vec<Arc<Repo>> = gateway.context.own_repos();
    let repos: Vec<Arc<Repo>> =
        repos.into_iter().filter(|repo| repo.metadata.deletion_timestamp.is_none()).collect();
    let keys: HashSet<RepoKey> = repos.iter().map(|repo| RepoKey::from(&**repo)).collect();
    told.lock().retain(|key, _| keys.contains(key));
    let sources = repos.iter().flat_map(|repo| {
        repo.spec.model.all_providers().map(|provider| list_source(repo, &provider))
    });
    let sources = sources.collect();
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
    let lists = || {
        let lists = repo.spec.model.all_providers();
        lists.map(|provider| (provider, catalog.list(&repo, &provider))).collect::<Vec<_>>()
    };
    let fingerprint = |lists: &[ListedProvider<'_>]| {
        standing_fingerprint(&repo, &roles, lists, &find_untold(gateway, &repo, &roles))
    };
    let is_news = said.is_some_and(|said| said != fingerprint(&lists()));
    let mut anew = false;
    for (provider, list) in lists() {
        let secret = catalog.secret(&gateway.context, &repo, &provider).await;
        let is_changed = list.is_some_and(|list| list.secret != secret);
        if is_changed {
            gateway.models.keys.clear();
        }
        anew |= is_changed;
        let age = match (is_changed, is_news) {
            (true, _) => Duration::ZERO,
            (_, true) => SETTLED,
            _ if is_unserved(&repo) => UNSERVED,
            _ => GOOD,
        };
        catalog.refresh(&gateway.models.asker(&gateway.context), &repo, &provider, age).await;
    }
    let lists = lists();
    let now = fingerprint(&lists);
    if said == Some(now) {
        return;
    }
    let known: Vec<_> = lists.iter().filter_map(|(of, list)| Some((*of, list.as_ref()?))).collect();
    if known.len() < lists.len() {
        return;
    }
    let untold = find_untold(gateway, &repo, &roles);
    let standing = find_standing(&repo, &roles, &known, check::tell_untold(&untold));
    let served = join_served(known.iter().map(|(_, list)| &list.served));
    let told_of_key = gateway.conditions.model_asked(&repo, &served, anew).await;
    if gateway.conditions.models(&repo, &standing).await && told_of_key {
        told.lock().insert(key, now);
    }
}

/// The first provider that does not serve, or else the first that was not asked.
fn join_served<'a>(all: impl Iterator<Item = &'a ServedModel>) -> ServedModel {
    all.fold(ServedModel::Yes, |joined, served| match (&joined, served) {
        (_, ServedModel::Yes)
        | (ServedModel::No(..), _)
        | (ServedModel::Unasked(_), ServedModel::Unasked(_)) => joined,
        (_, other) => other.clone(),
    })
}

/// Returns true if the Repo says that its key is not served: somebody may have fixed it.
fn is_unserved(repo: &Repo) -> bool {
    let mut conditions = repo.status.iter().flat_map(|status| &status.conditions);
    conditions.any(|c| c.type_ == MODEL_REACHABLE && c.status == "False")
}

/// Computes a fingerprint that changes once anything may have to be said anew.
fn standing_fingerprint(
    repo: &Repo,
    roles: &[Arc<AgentRole>],
    lists: &[ListedProvider<'_>],
    untold: &[String],
) -> u64 {
    let mut hasher = DefaultHasher::new();
    (repo.uid(), repo.metadata.generation, untold).hash(&mut hasher);
    for (_, list) in lists {
        list.as_ref().map(|list| list.at).hash(&mut hasher);
    }
    for role in roles {
        (role.uid(), role.metadata.generation).hash(&mut hasher);
    }
    hasher.finish()
}

/// Models that are not told how much to think, with their roles.
fn find_untold(gateway: &ModelServices, repo: &Repo, roles: &[Arc<AgentRole>]) -> Vec<String> {
    let mut untold: Vec<String> = Vec::new();
    for role in roles {
        let own = role.spec.model.talking().map(|(_, model)| model);
        let refusing = own.filter(|model| {
            let routed = gateway.models.catalog.route(repo, model);
            gateway.models.params.is_untold(&role.spec.model, routed.address())
        });
        untold
            .extend(refusing.map(|model| format!("`{model}` of AgentRole `{}`", role.name_any())));
    }
    untold.sort_unstable();
    untold.dedup();
    untold
}

/// A provider with its list, once that is known.
type ListedProvider<'r> = (ModelProvider<'r>, Option<ModelList>);

/// A provider with its list.
type AskedProvider<'r, 'l> = (ModelProvider<'r>, &'l ModelList);

fn find_standing(
    repo: &Repo,
    roles: &[Arc<AgentRole>],
    asked: &[AskedProvider<'_, '_>],
    untold: Option<String>,
) -> ConditionStanding {
    let mut unknown: Vec<(&str, String)> = Vec::new();
    let mut lists: Vec<(&str, &CheckedModels)> = Vec::new();
    for (provider, list) in asked {
        match &list.known {
            Err(error) => unknown.push((provider.name, error.why.clone())),
            // It lists what could be deployed, and what is has names of its own.
            Ok(_) if ApiDialect::of(provider) == ApiDialect::Azure => {
                let why = "Azure lists models, and not what is deployed".to_owned();
                unknown.push((provider.name, why));
            }
            Ok(listed) => lists.push((provider.name, &listed.models)),
        }
    }
    let facts = |model: &str| {
        let RoutedModel { provider, id } = route_by_lists(&repo.spec.model, &lists, model);
        let listed = asked.iter().find(|(own, _)| own.name == provider.name);
        let listed = listed.and_then(|(_, list)| list.known.as_ref().ok());
        model_facts(&provider, id, listed.map(|listed| &**listed))
    };
    let workers: Vec<RepoWorker<'_>> =
        roles.iter().map(|role| RepoWorker { role, facts: &facts }).collect();
    let is_free = |model: &str| {
        let provider = route_by_lists(&repo.spec.model, &lists, model).provider;
        Url::parse(provider.base_url).is_ok_and(|url| ApiDialect::of(&provider).is_free_at(&url))
    };
    let unpriced = check::tell_unpriced(&workers, &is_free);
    if let ([], [(_, why), ..]) = (lists.as_slice(), unknown.as_slice()) {
        let told = std::iter::once(why.clone()).chain(unpriced).chain(untold);
        return ConditionStanding::Unknown(told.collect::<Vec<_>>().join("; "));
    }
    let find_listed = |model: &str| find_listed(&repo.spec.model, &lists, &unknown, model);
    let today = Timestamp::now().to_zoned(TimeZone::UTC).date();
    if let Some(faults) = check::find_faults(&workers, &find_listed, today) {
        return ConditionStanding::Wrong(faults);
    }
    let unlisted = unknown.iter().map(|(provider, why)| {
        format!("the list of the provider `{provider}` can't be used ({why}), so its models are taken as they are written down")
    });
    let remarks: Vec<String> = unlisted.chain(unpriced).chain(untold).collect();
    ConditionStanding::Known((!remarks.is_empty()).then(|| remarks.join("; ")))
}

/// Routes a model as calls do.
fn route_by_lists<'r, 'm>(
    spec: &'r ModelSpec,
    lists: &[(&str, &CheckedModels)],
    model: &'m str,
) -> RoutedModel<'r, 'm> {
    route_model(spec, model, |provider| {
        let known = lists.iter().find(|(name, _)| *name == provider.name);
        known.is_some_and(|(_, models)| check::find_model(model, models).is_some())
    })
}

/// Finds a model in the providers' lists, as far as these are known.
fn find_listed(
    spec: &ModelSpec,
    lists: &[(&str, &CheckedModels)],
    unknown: &[(&str, String)],
    model: &str,
) -> ListedModel {
    let routed = route_by_lists(spec, lists, model);
    let url = Url::parse(routed.provider.base_url);
    // Not at a proxy, which may speak both.
    let is_openai = url.is_ok_and(|url| ApiDialect::at(&url) == ApiDialect::OpenAi);
    if is_openai && family::is_responses_only(routed.id) {
        let provider = routed.provider.name;
        let listed = lists.iter().find(|(name, _)| *name == provider);
        let nearest = listed.map(|(_, listed)| check::nearest_chats(provider, model, listed));
        return ListedModel::OtherApi { nearest: nearest.unwrap_or_default() };
    }
    let named = spec.split_name(model);
    let is_usable = match named {
        Some((provider, id)) => {
            unknown.iter().any(|(name, _)| *name == provider.name)
                || lists.iter().any(|(name, models)| {
                    *name == provider.name && check::find_model(id, models).is_some()
                })
        }
        None => {
            !unknown.is_empty()
                || lists.iter().any(|(_, models)| check::find_model(model, models).is_some())
        }
    };
    if is_usable {
        return ListedModel::Usable;
    }
    let of = match named {
        Some((provider, _)) if provider.name != DEFAULT_PROVIDER => {
            format!("the provider `{}`", provider.name)
        }
        _ if spec.providers.is_empty() => "the provider".to_owned(),
        _ => "any provider".to_owned(),
    };
    let nearest = check::nearest_names(spec, model, lists.iter().copied());
    ListedModel::Missing { of, nearest }
}
