//! `/v1/web/…`: pages and search results for roles that may read the web. [`fetch`] gets one page or file
//! under the same rules as a workspace's own connections, asked for by [`ask`], and leaves alone what its
//! site's robots.txt closes ([`robots`]). [`text`] makes words of it, in the encoding of [`charset`]. [`search`] asks the service that the
//! Repo or the operator's configuration names; without one a model searches whose provider can. [`found`]
//! remembers what may be opened since a search has found it, and [`cited`] what was opened.

mod ask;
mod charset;
mod cited;
mod depth;
mod fetch;
mod found;
mod robots;
mod search;
pub mod services;
mod text;

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::response::IntoResponse;
use codebutler_crds::NanoUsd;
use codebutler_crds::wire::{FILE_NAME, WebFetch, WebPage, WebResults};
use codebutler_gateway_core::api_error::ApiError;
use codebutler_gateway_core::caller::ProvenCaller;
use codebutler_gateway_core::extract::{JsonBody, OpenCaller, QueryParams, needs_tool};
use codebutler_models::bought::BoughtCall;
use codebutler_models::services::ModelServices;
use codebutler_models::upstream::ModelError;
use http::header::{CONTENT_TYPE, HeaderName};
use kube::ResourceExt as _;
use serde::Deserialize;
use url::{Url, form_urlencoded};

use self::ask::PageRules;
pub use self::cited::OpenedPages;
use self::fetch::PageWays;
pub use self::found::FoundPages;
pub use self::robots::RobotsCache;
use self::search::ChosenSearch;
pub use self::search::{
    SearchEngine, SearchOptions, SearchProvider, check_query, run_search_conditions,
};
use self::services::EgressServices;

pub async fn fetch_page(
    State(gateway): State<Arc<EgressServices>>,
    OpenCaller(caller): OpenCaller,
    JsonBody(wanted): JsonBody<WebFetch>,
) -> Result<axum::Json<WebPage>, ApiError> {
    needs_tool(&caller, &["WebFetch"])?;
    let (web, key) = (caller.repo.spec.web.clone().unwrap_or_default(), caller.key());
    let is_found = |url: &Url| web.open_results && gateway.found.has(&key, url);
    let rules = PageRules { egress: &caller.repo.spec.egress, web: &web, is_found: &is_found };
    let ways = PageWays { egress: &gateway.egress, robots: &gateway.robots };
    let page = fetch::fetch_page(ways, &rules, &wanted).await;
    if let Some(page) = page.as_ref().ok().filter(|page| page.status < 400 && !page.is_document) {
        gateway.opened.remember(&caller, &[&wanted.url, &page.url]);
    }
    page.map(axum::Json).map_err(|error| {
        gateway.metrics.egress_refused(error.reason());
        error.into()
    })
}

#[derive(Deserialize)]
pub struct FileQuery {
    url: String,
}

/// A document of the web, for the toolbox of the role that makes text of it.
pub async fn fetch_file(
    State(gateway): State<Arc<EgressServices>>,
    OpenCaller(caller): OpenCaller,
    QueryParams(FileQuery { url }): QueryParams<FileQuery>,
) -> Result<impl IntoResponse, ApiError> {
    needs_tool(&caller, &["WebFetch"])?;
    let (web, key) = (caller.repo.spec.web.clone().unwrap_or_default(), caller.key());
    let is_found = |url: &Url| web.open_results && gateway.found.has(&key, url);
    let rules = PageRules { egress: &caller.repo.spec.egress, web: &web, is_found: &is_found };
    let ways = PageWays { egress: &gateway.egress, robots: &gateway.robots };
    let file = fetch::fetch_file(ways, &rules, &url).await.map_err(|error| {
        gateway.metrics.egress_refused(error.reason());
        ApiError::from(error)
    })?;
    gateway.opened.remember(&caller, &[&url, file.url.as_str()]);
    let name: String = form_urlencoded::byte_serialize(file.name.as_bytes()).collect();
    // The file is a stranger's: no browser may take it for a page of ours.
    let headers = [
        (CONTENT_TYPE, "application/octet-stream".to_owned()),
        (HeaderName::from_static(FILE_NAME), name),
    ];
    Ok((headers, Body::from_stream(file.content)))
}

/// Searches the web for a role; what is found may be opened in its Thread.
///
/// # Errors
/// A sentence for the role.
pub async fn search_for(
    gateway: &EgressServices,
    models: &ModelServices,
    caller: &ProvenCaller,
    query: &str,
) -> Result<WebResults, ApiError> {
    let found = match gateway.search.choose(&gateway.context, &caller.repo) {
        Some(chosen) => search_service(gateway, models, caller, (&chosen, query)).await?,
        None => (gateway.searcher)(caller.clone(), query.trim().to_owned()).await?,
    };
    gateway.found.remember(&caller.key(), found.results.iter().map(|hit| &*hit.url));
    Ok(found)
}

/// Asks a search service, on the role's account where a search has a price.
async fn search_service(
    gateway: &EgressServices,
    models: &ModelServices,
    caller: &ProvenCaller,
    (chosen, query): (&ChosenSearch, &str),
) -> Result<WebResults, ApiError> {
    let query = check_query(query)?;
    let outcome = match chosen.prepare(&gateway.context).await {
        Ok(ready) => {
            let bought = match chosen.price {
                NanoUsd::ZERO => None,
                price => Some(BoughtCall::open(models, caller, (chosen.label(), price)).await),
            };
            let refused = |error: ModelError| {
                ApiError::new(error.code(), format!("the web search failed: {error}"))
            };
            let bought = bought.transpose().map_err(refused)?;
            let outcome = chosen.search(&gateway.context, &ready, query).await;
            match (&outcome, bought) {
                (_, None) => {}
                (Ok(_), Some(call)) => call.settle(models, caller),
                (Err(error), Some(call)) => call.end(error.may_be_billed()),
            }
            outcome
        }
        Err(error) => Err(error),
    };
    if chosen.is_of_repo {
        search::note_search(&gateway.conditions, &caller.repo, chosen, outcome.as_ref().err())
            .await;
    }
    outcome.map_err(|error| {
        tracing::warn!(repo = caller.repo.name_any(), service = chosen.label(), %error, "web_search_failed");
        error.into()
    })
}
