//! Asks each provider for its list of models, keeps it, and says on the Repo what of its roles' models
//! is wrong. A list that can't be had stops no work: then models are taken as they are written down.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::Duration;

use codebutler_crds::condition::MODEL_REACHABLE;
use codebutler_crds::role::RoleModel;
use codebutler_crds::wire::ModelFacts;
use codebutler_crds::{AgentRole, Repo};
use futures::StreamExt as _;
use jiff::{Timestamp, tz::TimeZone};
use kube::ResourceExt as _;
use parking_lot::{Mutex, MutexGuard};
use tokio::time::{Instant, timeout};

use super::check::{self, CheckedModels, Worker};
use super::{Facts, builtin};
use crate::gateway::api::Shared;
use crate::gateway::budget::repos::RepoKey;
use crate::gateway::conditions::{ConditionStanding, ServedModel};
use crate::gateway::models::dialect::Dialect;
use crate::gateway::models::upstream::Upstream;
use crate::gateway::models::upstream::lookup::{Means, Unlisted};
use crate::gateway::revisions::Revisions;

/// Time between two looks at the Repos: nobody is asked for it.
const LOOK: Duration = Duration::from_secs(2);
const GOOD: Duration = Duration::from_hours(1);
/// How long until a list is asked for again that could not be had, or that does not fit.
const AGAIN: Duration = Duration::from_mins(1);
/// How long it is good while the Repo says that its key is not served.
const UNSERVED: Duration = Duration::from_mins(5);
/// How long it is kept although somebody changed something that it may have to do with.
const SETTLED: Duration = Duration::from_secs(10);
/// How long a role that begins waits for the list.
const PATIENCE: Duration = Duration::from_secs(5);
/// Models of a page, and pages, at most.
const PAGE: usize = 1000;
const PAGES: usize = 20;
/// Providers that are asked at the same time.
const AT_ONCE: usize = 8;

/// The lists. Repos that ask the same provider with the same Secret share one.
#[derive(Default)]
pub struct Catalog {
    lists: Mutex<HashMap<ListSource, List>>,
    secrets: Revisions,
    /// One question at a time for each list.
    asking: Mutex<HashMap<ListSource, Arc<tokio::sync::Mutex<()>>>>,
}

/// Base URL, and namespace and name of the Secret.
type ListSource = (String, String, String);

#[derive(Clone)]
struct List {
    at: Instant,
    /// Why there is none, or what it has.
    known: Result<Arc<ListedModels>, String>,
    /// What asking for it said of the key.
    served: ServedModel,
    /// The Secret that the key was from, as it was.
    secret: Option<String>,
}

#[derive(Default)]
struct ListedModels {
    models: CheckedModels,
    is_ollama: bool,
}

fn source(repo: &Repo) -> ListSource {
    let spec = &repo.spec.model;
    (spec.base_url.clone(), repo.namespace().unwrap_or_default(), spec.credentials.name.clone())
}

impl Catalog {
    /// What is known of a model, as the Repo asks for it.
    pub fn facts(&self, repo: &Repo, model: &str) -> Facts {
        let listed = self.list(repo).and_then(|list| list.known.ok());
        facts(repo, model, listed.as_deref())
    }

    /// What the agent is told of all models that a role may use.
    pub fn told(
        &self,
        repo: &Repo,
        role: &RoleModel,
    ) -> impl Iterator<Item = (String, ModelFacts)> {
        let listed = self.list(repo).and_then(|list| list.known.ok());
        role.allowed()
            .map(move |model| (model.to_owned(), facts(repo, model, listed.as_deref()).wire()))
    }

    /// Names of the provider that are like one that it does not know.
    pub fn nearest(&self, repo: &Repo, model: &str) -> Vec<String> {
        let listed = self.list(repo).and_then(|list| list.known.ok());
        let known = |listed: &Arc<ListedModels>| check::nearest(model, listed.models.keys());
        listed.as_ref().map(known).unwrap_or_default()
    }

    fn list(&self, repo: &Repo) -> Option<List> {
        lock(&self.lists).get(&source(repo)).cloned()
    }

    /// Asks if there is no list, or only one older than `age`.
    async fn refresh(&self, gateway: &Shared, repo: &Repo, age: Duration) {
        let source = source(repo);
        let turn = Arc::clone(lock(&self.asking).entry(source.clone()).or_default());
        let _turn = turn.lock().await;
        let is_good =
            |list: &List| list.at.elapsed() < if list.known.is_ok() { age } else { age.min(AGAIN) };
        if lock(&self.lists).get(&source).is_some_and(is_good) {
            return;
        }
        let secret = self.secret(gateway, repo).await;
        let (known, served) = ask_for_models(gateway, repo).await;
        if let Err(why) = &known {
            tracing::info!(repo = repo.name_any(), why, "the provider's models are not known");
        }
        let (at, known) = (Instant::now(), known.map(Arc::new));
        lock(&self.lists).insert(source, List { at, known, served, secret });
    }

    /// The Secret with the Repo's key, as it is.
    async fn secret(&self, gateway: &Shared, repo: &Repo) -> Option<String> {
        let (_, namespace, name) = source(repo);
        self.secrets.of(&gateway.context, &namespace, &name).await
    }

    /// Waits a moment for a list that nobody has asked for yet. Who comes next does not wait again.
    pub async fn ready(&self, gateway: &Shared, repo: &Repo) {
        if self.list(repo).is_some() {
            return;
        }
        if timeout(PATIENCE, self.refresh(gateway, repo, GOOD)).await.is_err() {
            let why = "no answer in time".to_owned();
            let (known, served) = (Err(why.clone()), ServedModel::Unasked(why));
            let none = List { at: Instant::now(), known, served, secret: None };
            lock(&self.lists).entry(source(repo)).or_insert(none);
        }
    }

    fn forget_all_but(&self, wanted: &HashSet<ListSource>) {
        lock(&self.lists).retain(|source, _| wanted.contains(source));
        lock(&self.asking).retain(|source, _| wanted.contains(source));
    }
}

fn facts(repo: &Repo, model: &str, listed: Option<&ListedModels>) -> Facts {
    let told = listed.and_then(|listed| check::find_model(model, &listed.models)).cloned();
    let facts = told.unwrap_or_default().or(builtin::facts(Dialect::of(repo), model));
    let served = if listed.is_some_and(|listed| listed.is_ollama) {
        builtin::ollama()
    } else {
        Facts::default()
    };
    facts.or(served).noted(repo, model)
}

/// All pages of the list, and what that says of the key.
async fn ask_for_models(
    gateway: &Shared,
    repo: &Repo,
) -> (Result<ListedModels, String>, ServedModel) {
    let upstream = match Upstream::of(&gateway.models.keys, &gateway.context, repo).await {
        Ok(upstream) => upstream,
        Err(error) => {
            let error = Unlisted::from(error);
            let served =
                ServedModel::No("NotReachable", error.why.clone(), error.means == Means::Away);
            return (Err(error.why), served);
        }
    };
    let listed = all_pages(gateway, &upstream).await;
    // OpenRouter's list is anybody's.
    let asked = match upstream.dialect {
        Dialect::OpenRouter => Some(upstream.knows_key(gateway.context.http()).await),
        _ => None,
    };
    let served = match (&listed, &asked) {
        (Err(error), _) if error.means != Means::Nothing => served(error, &upstream),
        (_, Some(Err(error))) | (Err(error), None) => served(error, &upstream),
        (_, Some(Ok(()))) | (Ok(_), None) => ServedModel::Yes,
    };
    (listed.map_err(|error| error.why), served)
}

fn served(Unlisted { why, means }: &Unlisted, upstream: &Upstream<'_>) -> ServedModel {
    let (host, secret) = (upstream.host(), upstream.secret());
    match means {
        Means::Unusable => ServedModel::No("NotReachable", why.clone(), false),
        Means::Barred => {
            ServedModel::No("NotReachable", format!("{host} can't be reached: {why}"), false)
        }
        Means::Away => {
            let why = format!("{host} does not answer right now ({why}): it is asked again");
            ServedModel::No("NotReachable", why, true)
        }
        Means::Refused => {
            let why = format!(
                "{host} does not take the API key in Secret `{secret}`: put a valid one into it ({why})"
            );
            ServedModel::No("KeyRefused", why, false)
        }
        Means::Nothing => ServedModel::Unasked(format!("it is shown no list of models ({why})")),
    }
}

async fn all_pages(gateway: &Shared, upstream: &Upstream<'_>) -> Result<ListedModels, Unlisted> {
    let pages = upstream.dialect == Dialect::OpenRouter;
    let mut all = ListedModels::default();
    for number in 0..PAGES {
        let place = pages.then_some((number * PAGE, PAGE));
        let page = upstream.models(gateway.context.http(), place).await?;
        let before = all.models.len();
        all.models.extend(page.models);
        all.is_ollama |= page.is_ollama;
        // Who does not know pages sends the same again.
        if !pages || page.entries < PAGE || all.models.len() == before {
            break;
        }
    }
    if all.models.is_empty() {
        return Err(Unlisted { why: "it is empty".to_owned(), means: Means::Nothing });
    }
    Ok(all)
}

/// Keeps lists fresh and Repos told, until the gateway stops.
pub async fn run(gateway: &Shared) {
    let told = Mutex::new(HashMap::<RepoKey, u64>::new());
    let mut ticks = tokio::time::interval(LOOK);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    while gateway.shutdown.run_until_cancelled(ticks.tick()).await.is_some() {
        let round = round(gateway, &told);
        if gateway.shutdown.run_until_cancelled(round).await.is_none() {
            return;
        }
    }
}

async fn round(gateway: &Shared, told: &Mutex<HashMap<RepoKey, u64>>) {
    let repos: Vec<Arc<Repo>> = gateway.context.repos.state();
    let repos: Vec<Arc<Repo>> =
        repos.into_iter().filter(|repo| repo.metadata.deletion_timestamp.is_none()).collect();
    let keys: HashSet<RepoKey> = repos.iter().map(|repo| RepoKey::from(&**repo)).collect();
    lock(told).retain(|key, _| keys.contains(key));
    let sources = repos.iter().map(|repo| source(repo)).collect();
    gateway.models.catalog.forget_all_but(&sources);
    futures::stream::iter(repos)
        .for_each_concurrent(AT_ONCE, |repo| look_at_models(gateway, repo, told))
        .await;
}

async fn look_at_models(gateway: &Shared, repo: Arc<Repo>, told: &Mutex<HashMap<RepoKey, u64>>) {
    let catalog = &gateway.models.catalog;
    let roles = gateway.context.roles_of(&repo);
    let key = RepoKey::from(&*repo);
    let said = lock(told).get(&key).copied();
    let seen = |list: Option<List>| fingerprint(&repo, &roles, list.map(|list| list.at));
    let is_news = said.is_some_and(|said| said != seen(catalog.list(&repo)));
    let secret = catalog.secret(gateway, &repo).await;
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
    catalog.refresh(gateway, &repo, age).await;
    let now = seen(catalog.list(&repo));
    if said == Some(now) {
        return;
    }
    let Some(list) = catalog.list(&repo) else { return };
    let standing = standing(&repo, &roles, &list);
    let told_of_key = gateway.conditions.model_asked(&repo, &list.served, anew).await;
    if gateway.conditions.models(&repo, &standing).await && told_of_key {
        lock(told).insert(key, now);
    }
}

/// Whether the Repo says that its key is not served: somebody may have mended it.
fn is_unserved(repo: &Repo) -> bool {
    let mut conditions = repo.status.iter().flat_map(|status| &status.conditions);
    conditions.any(|c| c.type_ == MODEL_REACHABLE && c.status == "False")
}

/// Another one once anything may have to be said anew.
fn fingerprint(repo: &Repo, roles: &[Arc<AgentRole>], at: Option<Instant>) -> u64 {
    let mut hasher = DefaultHasher::new();
    (repo.uid(), repo.metadata.generation, at).hash(&mut hasher);
    for role in roles {
        (role.uid(), role.metadata.generation).hash(&mut hasher);
    }
    hasher.finish()
}

fn standing(repo: &Repo, roles: &[Arc<AgentRole>], list: &List) -> ConditionStanding {
    let listed = match &list.known {
        Err(why) => return ConditionStanding::Unknown(why.clone()),
        // It lists what could be deployed, and what is has names of its own.
        Ok(_) if Dialect::of(repo) == Dialect::Azure => {
            return ConditionStanding::Unknown(
                "Azure lists models, and not what is deployed".to_owned(),
            );
        }
        Ok(listed) => listed,
    };
    let of = |model: &str| facts(repo, model, Some(listed));
    let workers: Vec<Worker<'_>> = roles.iter().map(|role| Worker { role, facts: &of }).collect();
    let today = Timestamp::now().to_zoned(TimeZone::UTC).date();
    check::faults(&workers, &listed.models, today)
        .map_or(ConditionStanding::Known, ConditionStanding::Wrong)
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock()
}
