//! Histories handed out whole: as they are kept, and in an open form.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::{IntoResponse as _, Response};
use codebutler_history::{HistoryStore as _, RunTrajectory};
use http::header;

use super::door::PageViewer;
use super::{PageProblem, Pages, parse_place};

/// Read at once.
const CHUNK: u64 = 1024 * 1024;
/// Lines that are looked through at once.
const STRIDE: u64 = 1024;

/// As it is kept.
pub async fn serve_lines(
    State(pages): State<Pages>,
    viewer: PageViewer,
    Path((namespace, name)): Path<(String, String)>,
) -> Result<Response, PageProblem> {
    let place = parse_place(&namespace, &name)?;
    if pages.permit(&viewer, &place).await?.0.lines == 0 {
        return Err(PageProblem::NoPage);
    }
    let store = Arc::new(pages.shelf.store().clone());
    let pieces = futures::stream::try_unfold(0, move |from| {
        let (store, place) = (Arc::clone(&store), place.clone());
        async move {
            let read = move || store.read(&place, from, CHUNK);
            let text = tokio::task::spawn_blocking(read).await.map_err(std::io::Error::other)??;
            let next = from + text.len() as u64;
            Ok::<_, std::io::Error>((!text.is_empty()).then_some((text, next)))
        }
    });
    let kind = [(header::CONTENT_TYPE, "application/jsonl; charset=utf-8")];
    Ok((kind, Body::from_stream(pieces)).into_response())
}

/// As a trajectory.
pub async fn serve_trajectory(
    State(pages): State<Pages>,
    viewer: PageViewer,
    Path((namespace, name)): Path<(String, String)>,
) -> Result<Response, PageProblem> {
    let place = parse_place(&namespace, &name)?;
    let (summary, _) = pages.permit(&viewer, &place).await?;
    if summary.lines == 0 {
        return Err(PageProblem::NoPage);
    }
    let (mut trajectory, mut next) = (RunTrajectory::new(&place.to_string()), 1);
    while next <= summary.lines {
        let lines = pages.shelf.lines(&place, next, STRIDE).await?;
        let Some((last, _)) = lines.last() else { break };
        next = last + 1;
        lines.iter().filter_map(|(_, line)| line.as_ref()).for_each(|line| trajectory.add(line));
    }
    let kind = [(header::CONTENT_TYPE, "application/json; charset=utf-8")];
    Ok((kind, trajectory.finish().to_string()).into_response())
}
