//! `/v1/web/…`: pages and search results for roles that may read the web. [`fetch`] gets one page
//! under the same rules as a workspace's own connections, [`text`] makes words of it, [`search`]
//! asks the provider that the operator's configuration names, or else a model whose provider can search,
//! [`found`] remembers what may be opened since a search has found it, and [`cited`] what was opened.

mod cited;
mod depth;
mod fetch;
mod found;
mod search;
mod text;

use std::sync::Arc;

use axum::extract::State;
use codebutler_crds::wire::{WebFetch, WebPage, WebResults, WebSearch};
use url::Url;

pub use self::cited::OpenedPages;
use self::fetch::PageRules;
pub use self::found::FoundPages;
pub use self::search::{SearchEngine, SearchOptions, SearchProvider};
use super::api_error::ApiError;
use super::egress::services::EgressServices;
use super::extract::{JsonBody, OpenCaller, needs_tool};

pub async fn fetch_page(
    State(gateway): State<Arc<EgressServices>>,
    OpenCaller(caller): OpenCaller,
    JsonBody(wanted): JsonBody<WebFetch>,
) -> Result<axum::Json<WebPage>, ApiError> {
    needs_tool(&caller, &["WebFetch"])?;
    let web = caller.repo.spec.web.clone().unwrap_or_default();
    let key = caller.key();
    let is_found = |url: &Url| web.open_results && gateway.found.has(&key, url);
    let rules = PageRules { egress: &caller.repo.spec.egress, web: &web, is_found: &is_found };
    let page = fetch::fetch_page(&gateway.egress, &rules, &wanted.url).await;
    if let Some(page) = page.as_ref().ok().filter(|page| page.status < 400) {
        gateway.opened.remember(&caller, &[&wanted.url, &page.url]);
    }
    page.map(axum::Json).map_err(|error| {
        gateway.metrics.egress_refused(error.reason());
        error.into()
    })
}

pub async fn search_web(
    State(gateway): State<Arc<EgressServices>>,
    OpenCaller(caller): OpenCaller,
    JsonBody(wanted): JsonBody<WebSearch>,
) -> Result<axum::Json<WebResults>, ApiError> {
    needs_tool(&caller, &["WebSearch"])?;
    // What is asked leaves the company.
    let query = gateway.outcomes.redactor(&caller).await?.mask(&wanted.query).into_owned();
    let found = if gateway.search.is_configured() {
        gateway.search.results(&gateway.context, &query).await?
    } else {
        let query = search::check_query(&query)?;
        (gateway.searcher)(caller.clone(), query.to_owned()).await?
    };
    gateway.found.remember(&caller.key(), found.results.iter().map(|hit| &*hit.url));
    Ok(axum::Json(found))
}
