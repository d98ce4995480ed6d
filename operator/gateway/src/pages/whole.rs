//! Histories handed out whole: as they are kept, and in an open form.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use codebutler_gateway_core::low_priority::run_low_priority;
use codebutler_history::{HistoryStore as _, RunTrajectory};
use http::header;
use tokio::time::Instant;

use super::address::AddressPath;
use super::door::PageViewer;
use super::{PageProblem, PageServices, parse_place};

/// Read at once, and handed out.
const CHUNK: u64 = 256 * 1024;
/// Bytes of lines that a trajectory is made of, which is made as a whole.
const WHOLE: u64 = 32 * 1024 * 1024;
/// Time limit on the download of a trajectory.
const PATIENCE: Duration = Duration::from_mins(5);
/// Time limit on the download of raw lines; below it, the interval of checks that the viewer may still see them.
const LONGEST: Duration = Duration::from_mins(15);
const AGAIN: Duration = Duration::from_mins(1);
/// Lines that are looked through at once.
const STRIDE: u64 = 1024;

/// Serves a history as raw lines, as they are stored.
pub(super) async fn serve_lines(
    State(pages): State<PageServices>,
    viewer: PageViewer,
    AddressPath((namespace, name)): AddressPath<(String, String)>,
) -> Result<Response, PageProblem> {
    let place = parse_place(&namespace, &name)?;
    if pages.permit(&viewer, &place).await?.0.lines == 0 {
        return Err(PageProblem::NoPage);
    }
    let held = Arc::new(pages.limits.copy(viewer.person()).await?);
    let begins = pages.shelf.begins(&place).await?;
    let store = Arc::new(pages.shelf.store().clone());
    let until = Instant::now() + LONGEST;
    let begin = (begins, Instant::now() + AGAIN);
    let pieces = futures::stream::try_unfold(begin, move |(from, mut again)| {
        let (store, place, held) = (Arc::clone(&store), place.clone(), Arc::clone(&held));
        let (pages, viewer) = (pages.clone(), viewer.clone());
        async move {
            let _held = held;
            if Instant::now() > until {
                return Err(std::io::Error::from(std::io::ErrorKind::TimedOut));
            }
            // A viewer who has lost access gets no further chunk.
            if Instant::now() > again {
                let permitted = pages.permit(&viewer, &place).await;
                permitted.map_err(|_| std::io::ErrorKind::PermissionDenied)?;
                again = Instant::now() + AGAIN;
            }
            let read = move || store.read(&place, from, CHUNK);
            let text = run_low_priority(read).await??;
            let next = from + text.len() as u64;
            Ok::<_, std::io::Error>((!text.is_empty()).then_some((text, (next, again))))
        }
    });
    let kind = [(header::CONTENT_TYPE, "application/jsonl; charset=utf-8")];
    Ok((kind, Body::from_stream(pieces)).into_response())
}

/// Serves a history as a trajectory.
pub(super) async fn serve_trajectory(
    State(pages): State<PageServices>,
    viewer: PageViewer,
    AddressPath((namespace, name)): AddressPath<(String, String)>,
) -> Result<Response, PageProblem> {
    let place = parse_place(&namespace, &name)?;
    let (summary, _) = pages.permit(&viewer, &place).await?;
    if summary.lines == 0 {
        return Err(PageProblem::NoPage);
    }
    let turn = pages.limits.heavy(viewer.person()).await?;
    let bytes = pages.shelf.bytes(&place).await?;
    if bytes > WHOLE {
        return Err(PageProblem::TooLong);
    }
    let (mut trajectory, mut next) = (RunTrajectory::new(&place.to_string()), 1);
    while next <= summary.lines {
        let lines = pages.shelf.lines(&place, next, STRIDE).await?;
        let Some((last, _)) = lines.last() else { break };
        next = last + 1;
        lines.iter().filter_map(|(_, line)| line.as_ref()).for_each(|line| trajectory.add(line));
    }
    let kind = [(header::CONTENT_TYPE, "application/json; charset=utf-8")];
    let made = Bytes::from(run_low_priority(move || trajectory.finish().to_string()).await?);
    // Others wait for this turn: who takes it slowly gets a part of it.
    let until = Instant::now() + PATIENCE;
    let pieces = futures::stream::try_unfold((made, turn), move |(mut left, turn)| async move {
        if Instant::now() > until {
            return Err(std::io::Error::from(std::io::ErrorKind::TimedOut));
        }
        let piece = left.split_to(left.len().min(64 * 1024));
        Ok((!piece.is_empty()).then_some((piece, (left, turn))))
    });
    Ok((kind, Body::from_stream(pieces)).into_response())
}
