//! Asks each provider for its list of models, and keeps it. A list that can't be had stops no work: then models are
//! taken as they are written down.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use codebutler_crds::Repo;
use codebutler_crds::model::ModelProvider;
use codebutler_crds::role::RoleModel;
use codebutler_crds::wire::ModelFacts;
use codebutler_gateway_core::conditions::ServedModel;
use codebutler_gateway_core::context::GatewayContext;
use codebutler_gateway_core::revisions::PolledRevisions;
use kube::ResourceExt as _;
use parking_lot::{Mutex, MutexGuard};
use tokio::time::{Instant, timeout};

use crate::dialect::ApiDialect;
use crate::facts::check::{self, CheckedModels};
use crate::facts::list::ListPage;
use crate::facts::route::{RoutedModel, route_model};
use crate::facts::{KnownModelFacts, builtin};
use crate::upstream::lookup::{LookupMeans, NoModelList};
use crate::upstream::{ModelUpstream, ProviderKeys};

pub(crate) const GOOD: Duration = Duration::from_hours(1);
/// Interval before a list is asked for again that could not be had, or that does not fit.
const AGAIN: Duration = Duration::from_mins(1);
/// Time that a role that begins waits for the list.
const PATIENCE: Duration = Duration::from_secs(5);
/// Models of a page, and pages, at most.
const PAGE: usize = 1000;
const PAGES: usize = 20;
/// Most loaded models of a router that it is asked about. It keeps four unless it is told otherwise.
const LOADED: usize = 8;

/// The lists. Repos that ask the same provider with the same Secret share one.
#[derive(Default)]
pub struct ModelCatalog {
    lists: Mutex<HashMap<ListSource, ModelList>>,
    secrets: PolledRevisions,
    /// Windows that refusals have named, by list and model: smaller than what the list says, or all that is
    /// known.
    windows: Mutex<HashMap<(ListSource, String), u32>>,
    /// Locks for one question at a time for each list.
    asking: Mutex<HashMap<ListSource, Arc<tokio::sync::Mutex<()>>>>,
}

/// Keys and context for requests to providers.
pub struct CatalogAsker<'a> {
    pub keys: &'a ProviderKeys,
    pub context: &'a GatewayContext,
}

/// Base URL, and namespace and name of the Secret.
pub(crate) type ListSource = (String, String, String);

#[derive(Clone)]
pub(crate) struct ModelList {
    pub at: Instant,
    pub known: Result<Arc<ListedModels>, NoModelList>,
    /// Verdict on the key from the request for the list.
    pub served: ServedModel,
    /// The Secret that the key was from, as it was.
    pub secret: Option<String>,
    /// True for what it said before it was asked last: nobody answered then.
    pub is_kept: bool,
}

#[derive(Default)]
pub(crate) struct ListedModels {
    pub models: CheckedModels,
    is_ollama: bool,
}

pub(crate) fn list_source(repo: &Repo, provider: &ModelProvider<'_>) -> ListSource {
    let namespace = repo.namespace().unwrap_or_default();
    (provider.base_url.to_owned(), namespace, provider.credentials.name.clone())
}

impl ModelCatalog {
    /// The provider that a model's name begins with, or the first whose list has it, or the default one.
    pub fn route<'r, 'm>(&self, repo: &'r Repo, model: &'m str) -> RoutedModel<'r, 'm> {
        route_model(&repo.spec.model, model, |provider| {
            let listed = self.list(repo, provider).and_then(|list| list.known.ok());
            listed.is_some_and(|listed| check::find_model(model, &listed.models).is_some())
        })
    }

    /// Returns the facts about a model, as the Repo asks for it.
    pub fn facts(&self, repo: &Repo, model: &str) -> KnownModelFacts {
        self.facts_at(repo, &self.route(repo, model))
    }

    /// Returns the facts about a model at its provider.
    pub fn facts_at(
        &self,
        repo: &Repo,
        RoutedModel { provider, id }: &RoutedModel<'_, '_>,
    ) -> KnownModelFacts {
        let listed = self.list(repo, provider).and_then(|list| list.known.ok());
        let facts = model_facts(provider, id, listed.as_deref());
        let learned = (list_source(repo, provider), (*id).to_owned());
        let learned = lock(&self.windows).get(&learned).copied();
        KnownModelFacts { window: facts.window.into_iter().chain(learned).min(), ..facts }
    }

    /// The server has refused a conversation as too long, and named what the model takes.
    pub fn learn_window(
        &self,
        repo: &Repo,
        RoutedModel { provider, id }: &RoutedModel<'_, '_>,
        window: Option<u32>,
    ) {
        let Some(window) = window else { return };
        tracing::info!(repo = repo.name_any(), id, window, "context_window_learned");
        lock(&self.windows).insert((list_source(repo, provider), (*id).to_owned()), window);
    }

    /// True where the provider's list has a model, or where it gives no list.
    pub fn may_have(&self, repo: &Repo, model: &str) -> bool {
        let RoutedModel { provider, id } = self.route(repo, model);
        let listed = self.list(repo, &provider).and_then(|list| list.known.ok());
        listed.is_none_or(|listed| check::find_model(id, &listed.models).is_some())
    }

    /// Returns the facts that the agent is told, for all models that a role may use.
    pub fn told(
        &self,
        repo: &Repo,
        role: &RoleModel,
    ) -> impl Iterator<Item = (String, ModelFacts)> {
        role.allowed().map(move |model| {
            let routed = self.route(repo, model);
            let facts = self.facts_at(repo, &routed);
            let edits = facts.edit_form(ApiDialect::of(&routed.provider), routed.id);
            (model.to_owned(), ModelFacts { edits, ..facts.wire() })
        })
    }

    /// Returns true if a provider was asked for its list, whatever it answered.
    pub fn has_asked(&self, repo: &Repo, provider: &ModelProvider<'_>) -> bool {
        self.list(repo, provider).is_some()
    }

    /// Names of models that are like one that no provider knows, in code marks.
    pub fn nearest(&self, repo: &Repo, model: &str) -> Vec<String> {
        let spec = &repo.spec.model;
        let lists: Vec<_> = spec
            .all_providers()
            .filter_map(|provider| Some((provider.name, self.list(repo, &provider)?.known.ok()?)))
            .collect();
        let lists = lists.iter().map(|(provider, listed)| (*provider, &listed.models));
        check::nearest_names(spec, model, lists)
    }

    pub(crate) fn list(&self, repo: &Repo, provider: &ModelProvider<'_>) -> Option<ModelList> {
        lock(&self.lists).get(&list_source(repo, provider)).cloned()
    }

    /// Asks if there is no list, or only one older than `age`.
    pub(crate) async fn refresh(
        &self,
        asker: &CatalogAsker<'_>,
        repo: &Repo,
        provider: &ModelProvider<'_>,
        age: Duration,
    ) {
        let source = list_source(repo, provider);
        let turn = Arc::clone(lock(&self.asking).entry(source.clone()).or_default());
        let _turn = turn.lock().await;
        let is_good = |list: &ModelList| {
            let holds = list.known.is_ok() && !list.is_kept;
            list.at.elapsed() < if holds { age } else { age.min(AGAIN) }
        };
        if lock(&self.lists).get(&source).is_some_and(is_good) {
            return;
        }
        let secret = self.secret(asker.context, repo, provider).await;
        let (known, served) = ask_for_models(asker, repo, provider).await;
        if let Err(error) = &known {
            tracing::info!(
                repo = repo.name_any(),
                provider = provider.name,
                why = error.why,
                "model_list_failed"
            );
        }
        // It may be served with another window now; if not, the next refusal says so again.
        let is_listed = |model: &str| {
            known.as_ref().is_ok_and(|known| {
                check::find_model(model, &known.models).is_some_and(|facts| facts.window.is_some())
            })
        };
        lock(&self.windows).retain(|(of, model), _| *of != source || !is_listed(model));
        let (at, known) = (Instant::now(), known.map(Arc::new));
        let mut lists = lock(&self.lists);
        let (known, is_kept) = keep_last(known, lists.get(&source));
        lists.insert(source, ModelList { at, known, served, secret, is_kept });
    }

    /// The Secret with the key of a provider, as it is.
    pub(crate) async fn secret(
        &self,
        context: &GatewayContext,
        repo: &Repo,
        provider: &ModelProvider<'_>,
    ) -> Option<String> {
        let (_, namespace, name) = list_source(repo, provider);
        self.secrets.of(context, &namespace, &name).await
    }

    /// Waits a moment for lists that were not asked for yet. Who comes next does not wait again.
    pub async fn ready(&self, asker: &CatalogAsker<'_>, repo: &Repo) {
        let missing = repo.spec.model.all_providers();
        let missing = missing.filter(|provider| self.list(repo, provider).is_none());
        futures::future::join_all(missing.map(|provider| self.ready_list(asker, repo, provider)))
            .await;
    }

    async fn ready_list(&self, asker: &CatalogAsker<'_>, repo: &Repo, provider: ModelProvider<'_>) {
        if timeout(PATIENCE, self.refresh(asker, repo, &provider, GOOD)).await.is_err() {
            let why = "no answer in time".to_owned();
            let known = Err(NoModelList { why: why.clone(), means: LookupMeans::Away });
            let served = ServedModel::Unasked(why);
            let none =
                ModelList { at: Instant::now(), known, served, secret: None, is_kept: false };
            lock(&self.lists).entry(list_source(repo, &provider)).or_insert(none);
        }
    }

    pub(crate) fn forget_all_but(&self, wanted: &HashSet<ListSource>) {
        lock(&self.lists).retain(|source, _| wanted.contains(source));
        lock(&self.asking).retain(|source, _| wanted.contains(source));
        lock(&self.windows).retain(|(source, _), _| wanted.contains(source));
    }
}

/// A list that nobody answered for stays the last one, which is said: a name that is found there would go to another
/// provider meanwhile.
fn keep_last(
    known: Result<Arc<ListedModels>, NoModelList>,
    before: Option<&ModelList>,
) -> (Result<Arc<ListedModels>, NoModelList>, bool) {
    match (known, before.map(|before| &before.known)) {
        (Err(error), Some(Ok(before))) if error.means == LookupMeans::Away => {
            (Ok(Arc::clone(before)), true)
        }
        (known, _) => (known, false),
    }
}

/// Facts of the model `id` from a provider's list, the built-in ones and the Repo.
pub(crate) fn model_facts(
    provider: &ModelProvider<'_>,
    id: &str,
    listed: Option<&ListedModels>,
) -> KnownModelFacts {
    let told = listed.and_then(|listed| check::find_model(id, &listed.models)).cloned();
    let built_in = builtin::builtin_facts(ApiDialect::of(provider), id);
    let facts = told.unwrap_or_default().or(built_in);
    let served = if listed.is_some_and(|listed| listed.is_ollama) {
        builtin::ollama_facts()
    } else {
        KnownModelFacts::default()
    };
    facts.or(served).noted(provider, id)
}

/// Asks for all pages of the list, and judges the key by the answer.
async fn ask_for_models(
    asker: &CatalogAsker<'_>,
    repo: &Repo,
    provider: &ModelProvider<'_>,
) -> (Result<ListedModels, NoModelList>, ServedModel) {
    let upstream = match ModelUpstream::of(asker.keys, asker.context, repo, provider).await {
        Ok(upstream) => upstream,
        Err(error) => {
            let error = NoModelList::from(error);
            let served = ServedModel::No(
                "NotReachable",
                error.why.clone(),
                error.means == LookupMeans::Away,
            );
            return (Err(error), served);
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
    (listed, served)
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
        let mut page = upstream.models(context.http(), place).await?;
        let before = all.models.len();
        if page.is_llama_cpp {
            ask_for_props(context, upstream, &mut page).await;
        }
        all.models.extend(page.models);
        all.is_ollama |= page.is_ollama;
        // A server that does not know pages sends the same page again.
        let is_full = all.models.len() >= PAGES * PAGE;
        if !pages || page.entries < PAGE || all.models.len() == before || is_full {
            break;
        }
    }
    if all.models.is_empty() {
        return Err(NoModelList { why: "it is empty".to_owned(), means: LookupMeans::Nothing });
    }
    Ok(all)
}

/// Adds what llama.cpp says of its one model, or of those that its router has loaded.
async fn ask_for_props(
    context: &GatewayContext,
    upstream: &ModelUpstream<'_>,
    page: &mut ListPage,
) {
    if page.entries == 1 {
        let model = page.loaded.first().map(String::as_str);
        let props = upstream.llama_props(context.http(), model).await;
        page.models.values_mut().for_each(|facts| props.apply(facts));
        return;
    }
    for model in page.loaded.iter().take(LOADED) {
        let props = upstream.llama_props(context.http(), Some(model.as_str())).await;
        if let Some(facts) = page.models.get_mut(model) {
            props.apply(facts);
        }
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_kept_while_nobody_answers_and_not_when_the_key_is_refused() {
        let failed = |means| Err(NoModelList { why: "no".to_owned(), means });
        let list = |known| ModelList {
            at: Instant::now(),
            known,
            served: ServedModel::Yes,
            secret: None,
            is_kept: false,
        };
        let good = list(Ok(Arc::new(ListedModels::default())));
        let (known, is_kept) = keep_last(failed(LookupMeans::Away), Some(&good));
        assert!(known.is_ok() && is_kept);
        let (known, is_kept) = keep_last(failed(LookupMeans::Refused), Some(&good));
        assert!(known.is_err() && !is_kept);
        let never = list(failed(LookupMeans::Away));
        assert!(keep_last(failed(LookupMeans::Away), Some(&never)).0.is_err());
        assert!(keep_last(failed(LookupMeans::Away), None).0.is_err());
    }
}
