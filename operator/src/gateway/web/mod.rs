//! `/v1/web/…`: pages and search results for roles that may read the web. [`fetch`] gets one page
//! under the same rules as a workspace's own connections, [`text`] makes words of it, [`search`]
//! asks the provider that the operator's configuration names.

mod depth;
mod fetch;
mod search;
mod text;

use std::sync::Arc;

use axum::extract::State;
use codebutler_crds::wire::{WebFetch, WebPage, WebResults, WebSearch};

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
    let page = fetch::fetch_page(&gateway.egress, &caller.repo.spec.egress, &wanted.url).await;
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
    gateway.search.results(&gateway.context, &query).await.map(axum::Json)
}
