//! Asks each provider for its list of models, keeps it, and says on the Repo what of its roles' models
//! is wrong. A list that can't be had stops no work: then models are taken as they are written down.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use codebutler_crds::Repo;
use codebutler_crds::role::RoleModel;
use codebutler_crds::wire::ModelFacts;
use kube::ResourceExt as _;
use parking_lot::{Mutex, MutexGuard};
use tokio::time::{Instant, timeout};

use super::check::{self, CheckedModels};
use super::{KnownModelFacts, builtin};
use crate::gateway::conditions::ServedModel;
use crate::gateway::context::GatewayContext;
use crate::gateway::models::dialect::ApiDialect;
use crate::gateway::models::upstream::lookup::{LookupMeans, NoModelList};
use crate::gateway::models::upstream::{ModelUpstream, ProviderKeys};
use crate::gateway::revisions::PolledRevisions;

pub(super) const GOOD: Duration = Duration::from_hours(1);
/// How long until a list is asked for again that could not be had, or that does not fit.
const AGAIN: Duration = Duration::from_mins(1);
/// How long a role that begins waits for the list.
const PATIENCE: Duration = Duration::from_secs(5);
/// Models of a page, and pages, at most.
const PAGE: usize = 1000;
const PAGES: usize = 20;

/// The lists. Repos that ask the same provider with the same Secret share one.
#[derive(Default)]
pub struct ModelCatalog {
    lists: Mutex<HashMap<ListSource, ModelList>>,
    secrets: PolledRevisions,
    /// Windows that refusals have named, by list and model: smaller than what the list says, or all that is
    /// known.
    windows: Mutex<HashMap<(ListSource, String), u32>>,
    /// One question at a time for each list.
    asking: Mutex<HashMap<ListSource, Arc<tokio::sync::Mutex<()>>>>,
}

/// What providers are asked with.
pub struct CatalogAsker<'a> {
    pub keys: &'a ProviderKeys,
    pub context: &'a GatewayContext,
}

/// Base URL, and namespace and name of the Secret.
pub(super) type ListSource = (String, String, String);

#[derive(Clone)]
pub(super) struct ModelList {
    pub at: Instant,
    /// Why there is none, or what it has.
    pub known: Result<Arc<ListedModels>, String>,
    /// What asking for it said of the key.
    pub served: ServedModel,
    /// The Secret that the key was from, as it was.
    pub secret: Option<String>,
}

#[derive(Default)]
pub(super) struct ListedModels {
    pub models: CheckedModels,
    is_ollama: bool,
}

pub(super) fn list_source(repo: &Repo) -> ListSource {
    let spec = &repo.spec.model;
    (spec.base_url.clone(), repo.namespace().unwrap_or_default(), spec.credentials.name.clone())
}

impl ModelCatalog {
    /// What is known of a model, as the Repo asks for it.
    pub fn facts(&self, repo: &Repo, model: &str) -> KnownModelFacts {
        let listed = self.list(repo).and_then(|list| list.known.ok());
        self.narrowed(repo, model, model_facts(repo, model, listed.as_deref()))
    }

    /// The server has refused a conversation as too long, and named what the model takes.
    pub fn learn_window(&self, repo: &Repo, model: &str, window: Option<u32>) {
        let Some(window) = window else { return };
        tracing::info!(repo = repo.name_any(), model, window, "the window is what the server says");
        lock(&self.windows).insert((list_source(repo), model.to_owned()), window);
    }

    fn narrowed(&self, repo: &Repo, model: &str, facts: KnownModelFacts) -> KnownModelFacts {
        let learned = lock(&self.windows).get(&(list_source(repo), model.to_owned())).copied();
        KnownModelFacts { window: facts.window.into_iter().chain(learned).min(), ..facts }
    }

    /// What the agent is told of all models that a role may use.
    pub fn told(
        &self,
        repo: &Repo,
        role: &RoleModel,
    ) -> impl Iterator<Item = (String, ModelFacts)> {
        let dialect = ApiDialect::of(repo);
        role.allowed().map(move |model| {
            let facts = self.facts(repo, model);
            let edits = facts.edit_form(dialect, model);
            (model.to_owned(), ModelFacts { edits, ..facts.wire() })
        })
    }

    /// Whether the provider was asked what its models cost, whatever it said.
    pub fn has_asked(&self, repo: &Repo) -> bool {
        self.list(repo).is_some()
    }

    /// Names of the provider that are like one that it does not know.
    pub fn nearest(&self, repo: &Repo, model: &str) -> Vec<String> {
        let listed = self.list(repo).and_then(|list| list.known.ok());
        let known = |listed: &Arc<ListedModels>| check::nearest_models(model, listed.models.keys());
        listed.as_ref().map(known).unwrap_or_default()
    }

    pub(super) fn list(&self, repo: &Repo) -> Option<ModelList> {
        lock(&self.lists).get(&list_source(repo)).cloned()
    }

    /// Asks if there is no list, or only one older than `age`.
    pub(super) async fn refresh(&self, asker: &CatalogAsker<'_>, repo: &Repo, age: Duration) {
        let source = list_source(repo);
        let turn = Arc::clone(lock(&self.asking).entry(source.clone()).or_default());
        let _turn = turn.lock().await;
        let is_good = |list: &ModelList| {
            list.at.elapsed() < if list.known.is_ok() { age } else { age.min(AGAIN) }
        };
        if lock(&self.lists).get(&source).is_some_and(is_good) {
            return;
        }
        let secret = self.secret(asker.context, repo).await;
        let (known, served) = ask_for_models(asker, repo).await;
        if let Err(why) = &known {
            tracing::info!(repo = repo.name_any(), why, "the provider's models are not known");
        }
        // It may be served with another window now; if not, the next refusal says so again.
        let is_listed = |model: &str| {
            known.as_ref().is_ok_and(|known| {
                check::find_model(model, &known.models).is_some_and(|facts| facts.window.is_some())
            })
        };
        lock(&self.windows).retain(|(of, model), _| *of != source || !is_listed(model));
        let (at, known) = (Instant::now(), known.map(Arc::new));
        lock(&self.lists).insert(source, ModelList { at, known, served, secret });
    }

    /// The Secret with the Repo's key, as it is.
    pub(super) async fn secret(&self, context: &GatewayContext, repo: &Repo) -> Option<String> {
        let (_, namespace, name) = list_source(repo);
        self.secrets.of(context, &namespace, &name).await
    }

    /// Waits a moment for a list that nobody has asked for yet. Who comes next does not wait again.
    pub async fn ready(&self, asker: &CatalogAsker<'_>, repo: &Repo) {
        if self.list(repo).is_some() {
            return;
        }
        if timeout(PATIENCE, self.refresh(asker, repo, GOOD)).await.is_err() {
            let why = "no answer in time".to_owned();
            let (known, served) = (Err(why.clone()), ServedModel::Unasked(why));
            let none = ModelList { at: Instant::now(), known, served, secret: None };
            lock(&self.lists).entry(list_source(repo)).or_insert(none);
        }
    }

    pub(super) fn forget_all_but(&self, wanted: &HashSet<ListSource>) {
        lock(&self.lists).retain(|source, _| wanted.contains(source));
        lock(&self.asking).retain(|source, _| wanted.contains(source));
        lock(&self.windows).retain(|(source, _), _| wanted.contains(source));
    }
}

pub(super) fn model_facts(
    repo: &Repo,
    model: &str,
    listed: Option<&ListedModels>,
) -> KnownModelFacts {
    let told = listed.and_then(|listed| check::find_model(model, &listed.models)).cloned();
    let facts = told.unwrap_or_default().or(builtin::builtin_facts(ApiDialect::of(repo), model));
    let served = if listed.is_some_and(|listed| listed.is_ollama) {
        builtin::ollama_facts()
    } else {
        KnownModelFacts::default()
    };
    facts.or(served).noted(repo, model)
}

/// All pages of the list, and what that says of the key.
async fn ask_for_models(
    asker: &CatalogAsker<'_>,
    repo: &Repo,
) -> (Result<ListedModels, String>, ServedModel) {
    let upstream = match ModelUpstream::of(asker.keys, asker.context, repo).await {
        Ok(upstream) => upstream,
        Err(error) => {
            let error = NoModelList::from(error);
            let served = ServedModel::No(
                "NotReachable",
                error.why.clone(),
                error.means == LookupMeans::Away,
            );
            return (Err(error.why), served);
        }
    };
    let listed = all_pages(asker.context, &upstream).await;
    // OpenRouter's list is anybody's.
    let key_known = match upstream.dialect {
        ApiDialect::OpenRouter => Some(upstream.knows_key(asker.context.http()).await),
        _ => None,
    };
    let served = match (&listed, &key_known) {
        (Err(error), _) if error.means != LookupMeans::Nothing => served_model(error, &upstream),
        (_, Some(Err(error))) | (Err(error), None) => served_model(error, &upstream),
        (_, Some(Ok(()))) | (Ok(_), None) => ServedModel::Yes,
    };
    (listed.map_err(|error| error.why), served)
}

fn served_model(
    NoModelList { why, means }: &NoModelList,
    upstream: &ModelUpstream<'_>,
) -> ServedModel {
    let (host, secret) = (upstream.host(), upstream.secret());
    match means {
        LookupMeans::Unusable => ServedModel::No("NotReachable", why.clone(), false),
        LookupMeans::Barred => {
            ServedModel::No("NotReachable", format!("{host} can't be reached: {why}"), false)
        }
        LookupMeans::Away => {
            let why = format!("{host} does not answer right now ({why}): it is asked again");
            ServedModel::No("NotReachable", why, true)
        }
        LookupMeans::Refused => {
            let why = format!(
                "{host} does not take the API key in Secret `{secret}`: put a valid one into it ({why})"
            );
            ServedModel::No("KeyRefused", why, false)
        }
        LookupMeans::Nothing => {
            ServedModel::Unasked(format!("it is shown no list of models ({why})"))
        }
    }
}

async fn all_pages(
    context: &GatewayContext,
    upstream: &ModelUpstream<'_>,
) -> Result<ListedModels, NoModelList> {
    let pages = upstream.dialect == ApiDialect::OpenRouter;
    let mut all = ListedModels::default();
    for number in 0..PAGES {
        let place = pages.then_some((number * PAGE, PAGE));
        let page = upstream.models(context.http(), place).await?;
        let before = all.models.len();
        let mut models = page.models;
        if page.is_llama_cpp && page.entries == 1 {
            let props = upstream.llama_props(context.http()).await;
            for facts in models.values_mut() {
                props.apply(facts);
            }
        }
        all.models.extend(models);
        all.is_ollama |= page.is_ollama;
        // Who does not know pages sends the same again.
        if !pages || page.entries < PAGE || all.models.len() == before {
            break;
        }
    }
    if all.models.is_empty() {
        return Err(NoModelList { why: "it is empty".to_owned(), means: LookupMeans::Nothing });
    }
    Ok(all)
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock()
}
