//! Pages on which people watch threads: histories, served over HTTP to who reaches the pod's own
//! loopback, which is where `kubectl port-forward` comes from. Nothing can be changed there.
//!
//! What a page looks like is in [`codebutler_pages`]; [`shelf`] finds its lines, [`live`] keeps it up to
//! date.

mod guard;
mod live;
mod shelf;

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context as _;
use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Query, State};
use axum::middleware;
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use codebutler_history::{Place, Store as _};
use codebutler_pages::{Filter, SCRIPT, STYLE, Step, ThreadPage};
use http::{StatusCode, header};
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use self::shelf::Shelf;
use super::history::History;
use crate::listen::listen;

/// Lines of a page.
const LINES: u64 = 300;
/// Lines that a search finds at most.
const FOUND: usize = 200;
/// Read at once of a history that is handed out whole.
const CHUNK: u64 = 1024 * 1024;

#[derive(Clone)]
struct Pages {
    shelf: Shelf,
    stop: CancellationToken,
}

/// Serves until told to stop.
///
/// # Errors
/// When there is no history, the address is open to others, or taken.
pub fn serve(
    address: SocketAddr,
    history: &History,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    if !address.ip().is_loopback() {
        anyhow::bail!(
            "--pages={address}: whoever reaches it sees every thread, so it has to be a loopback \
             address such as 127.0.0.1:8090; kubectl port-forward leads there"
        );
    }
    let shelf = Shelf::of(history).context("--pages shows histories: set --history, too")?;
    let listener = listen(address)
        .with_context(|| format!("pages can't be served on {address}: choose another --pages"))?;
    tracing::info!(%address, "serving pages");
    let app = router(Pages { shelf, stop: stop.clone() });
    tokio::spawn(async move {
        let serving = axum::serve(listener, app).with_graceful_shutdown(stop.cancelled_owned());
        if let Err(error) = serving.await {
            tracing::error!(%error, "pages are not served any more");
        }
    });
    Ok(())
}

fn router(pages: Pages) -> Router {
    let asset = |kind: &'static str, text: &'static str| {
        get(move || async move { ([(header::CONTENT_TYPE, kind)], text) })
    };
    Router::new()
        .route("/", get(list))
        .route("/favicon.ico", get(|| async { StatusCode::NO_CONTENT }))
        .route("/assets/page.css", asset("text/css; charset=utf-8", STYLE))
        .route("/assets/page.js", asset("text/javascript; charset=utf-8", SCRIPT))
        .route("/{namespace}/{name}", get(thread))
        .route("/{namespace}/{name}/steps", get(live::steps))
        .route("/{namespace}/{name}/events", get(live::events))
        .route("/{namespace}/{name}/lines/{n}", get(line))
        .route("/{namespace}/{name}/events.jsonl", get(whole))
        .fallback(|| async { Problem::NoPage })
        .layer(middleware::from_fn(guard::guard))
        .with_state(pages)
}

/// Why there is no page.
#[derive(Debug)]
enum Problem {
    NoPage,
    Away(std::io::Error),
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        match self {
            Self::NoPage => (StatusCode::NOT_FOUND, "There is no such page.\n").into_response(),
            Self::Away(error) => {
                tracing::warn!(%error, "a page could not be shown");
                let sentence = "The history can't be read right now: try again in a minute.\n";
                (StatusCode::SERVICE_UNAVAILABLE, sentence).into_response()
            }
        }
    }
}

impl From<std::io::Error> for Problem {
    fn from(error: std::io::Error) -> Self {
        Self::Away(error)
    }
}

fn place(namespace: &str, name: &str) -> Result<Place, Problem> {
    Place::new(namespace, name).ok_or(Problem::NoPage)
}

fn base(place: &Place) -> String {
    format!("/{place}")
}

#[derive(Deserialize)]
struct Wanted {
    #[serde(default)]
    q: String,
    #[serde(default)]
    state: String,
}

async fn list(
    State(pages): State<Pages>,
    Query(wanted): Query<Wanted>,
) -> Result<Html<String>, Problem> {
    let filter = Filter { state: wanted.state, query: wanted.q };
    let threads = pages.shelf.all().await?;
    Ok(Html(codebutler_pages::list(threads, &filter)))
}

#[derive(Deserialize)]
struct Part {
    #[serde(default)]
    q: String,
    from: Option<u64>,
    before: Option<u64>,
}

async fn thread(
    State(pages): State<Pages>,
    Path((namespace, name)): Path<(String, String)>,
    Query(part): Query<Part>,
) -> Result<Response, Problem> {
    let place = place(&namespace, &name)?;
    let query = part.q.trim().to_owned();
    let summary = pages.shelf.summary(&place).await?;
    let newest = summary.lines.saturating_sub(LINES) + 1;
    let first = match (part.from, part.before) {
        (Some(from), _) => from.max(1),
        (None, Some(before)) => before.saturating_sub(LINES).max(1),
        (None, None) => newest,
    };
    let lines = match query.as_str() {
        "" => pages.shelf.lines(&place, first, LINES).await?,
        query => pages.shelf.find(&place, query, FOUND).await?,
    };
    let upto = lines.last().map_or(first.saturating_sub(1), |(n, _)| *n);
    let steps = lines.iter().filter_map(|(n, line)| Step::of(*n, line.as_ref()?, false)).collect();
    let searched = !query.is_empty();
    let page = ThreadPage {
        base: base(&place),
        earlier: (first > 1 && !searched).then_some(first - 1),
        live: upto >= summary.lines && !searched,
        steps,
        upto,
        query,
        summary,
    };
    let status = if page.summary.lines == 0 { StatusCode::NOT_FOUND } else { StatusCode::OK };
    Ok((status, Html(codebutler_pages::thread(&page))).into_response())
}

async fn line(
    State(pages): State<Pages>,
    Path((namespace, name, n)): Path<(String, String, u64)>,
) -> Result<Html<String>, Problem> {
    let place = place(&namespace, &name)?;
    let lines = pages.shelf.lines(&place, n, 1).await?;
    let Some((n, Some(line))) = lines.first() else { return Err(Problem::NoPage) };
    Ok(Html(codebutler_pages::one_step(&base(&place), *n, line)))
}

/// As it is kept.
async fn whole(
    State(pages): State<Pages>,
    Path((namespace, name)): Path<(String, String)>,
) -> Result<Response, Problem> {
    let place = place(&namespace, &name)?;
    if pages.shelf.summary(&place).await?.lines == 0 {
        return Err(Problem::NoPage);
    }
    let volume = Arc::new(pages.shelf.volume().clone());
    let pieces = futures::stream::try_unfold(0, move |from| {
        let (volume, place) = (Arc::clone(&volume), place.clone());
        async move {
            let read = move || volume.read(&place, from, CHUNK);
            let text = tokio::task::spawn_blocking(read).await.map_err(std::io::Error::other)??;
            let next = from + text.len() as u64;
            Ok::<_, std::io::Error>((!text.is_empty()).then_some((text, next)))
        }
    });
    let kind = [(header::CONTENT_TYPE, "application/jsonl; charset=utf-8")];
    Ok((kind, Body::from_stream(pieces)).into_response())
}
