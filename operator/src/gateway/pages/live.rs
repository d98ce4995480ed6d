//! What is added to a page while somebody looks at it: as server-sent events, and for who asks again and
//! again. A line's number is the event's id, so whoever comes back misses nothing. Who may not see the
//! thread any more is cut off.

use std::convert::Infallible;
use std::time::{Duration, Instant};

use axum::extract::{Path, Query, State};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use codebutler_history::Place;
use codebutler_pages::Names;
use futures::{Stream, stream};
use http::HeaderMap;
use serde::Deserialize;
use tokio::sync::watch;
use tokio::time::timeout;

use super::door::Viewer;
use super::{Pages, Problem, base_path, parse_place};

/// Lines that are sent at once.
const LINES: u64 = 100;
/// How often it is looked for what another gateway has written.
pub const LOOK: Duration = Duration::from_secs(1);
/// How often it is asked whether somebody may still see it.
pub const RECHECK: Duration = Duration::from_secs(15);
pub const OVER: &str = "This page is not shown to you any more: load it again to see why.";
pub const AWAY: &str = "The history can't be read right now: what happens is shown when it can.";

#[derive(Deserialize)]
pub struct After {
    #[serde(default)]
    after: u64,
}

/// What was added, as it is now.
pub async fn serve_steps(
    State(pages): State<Pages>,
    viewer: Viewer,
    Path((namespace, name)): Path<(String, String)>,
    Query(After { after }): Query<After>,
) -> Result<Response, Problem> {
    let place = parse_place(&namespace, &name)?;
    pages.permit(&viewer, &place).await?;
    let names = Names::new();
    let (upto, html) =
        render_added(&pages, &place, after, &names).await?.unwrap_or((after, String::new()));
    let headers =
        [("content-type", "text/html; charset=utf-8".to_owned()), ("x-upto", upto.to_string())];
    Ok((headers, html).into_response())
}

/// What is added, as it happens.
pub async fn serve_events(
    State(pages): State<Pages>,
    viewer: Viewer,
    Path((namespace, name)): Path<(String, String)>,
    Query(After { after }): Query<After>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let place = parse_place(&namespace, &name)?;
    let (summary, _) = pages.permit(&viewer, &place).await?;
    let names = pages.names(&place, &summary).await;
    // Whoever was cut off says what came last.
    let last = headers.get("last-event-id").and_then(|id| id.to_str().ok());
    let after = last.and_then(|id| id.parse().ok()).unwrap_or(after);
    let news = pages.shelf.news(&place);
    let checked = Instant::now();
    let watching =
        Watching { pages, viewer, place, names, after, news, checked, away: false, over: false };
    let events = Sse::new(watching.stream()).keep_alive(KeepAlive::default());
    // A proxy must not gather them.
    Ok(([("x-accel-buffering", "no")], events).into_response())
}

struct Watching {
    pages: Pages,
    viewer: Viewer,
    place: Place,
    names: Names,
    after: u64,
    news: watch::Receiver<u64>,
    /// When it was last seen that this may be seen.
    checked: Instant,
    /// It was told that the history can't be read.
    away: bool,
    over: bool,
}

impl Watching {
    fn stream(self) -> impl Stream<Item = Result<Event, Infallible>> {
        stream::unfold(self, |mut watching| async move {
            let event = watching.next().await?;
            Some((Ok(event), watching))
        })
    }

    /// Nothing once the gateway stops: the browser asks the next one.
    async fn next(&mut self) -> Option<Event> {
        if self.over {
            return None;
        }
        loop {
            if self.checked.elapsed() >= RECHECK {
                if self.pages.permit(&self.viewer, &self.place).await.is_err() {
                    self.over = true;
                    return Some(Event::default().event("end").data(OVER));
                }
                self.checked = Instant::now();
            }
            // Seen before it is looked, so that nothing is overlooked.
            self.news.mark_unchanged();
            match render_added(&self.pages, &self.place, self.after, &self.names).await {
                Ok(Some((upto, html))) => {
                    (self.after, self.away) = (upto, false);
                    return Some(Event::default().id(upto.to_string()).data(html));
                }
                Err(problem) if !self.away => {
                    tracing::warn!(?problem, "a page waits");
                    self.away = true;
                    return Some(Event::default().event("away").data(AWAY));
                }
                Ok(None) | Err(_) => {}
            }
            let stop = self.pages.stop.clone();
            stop.run_until_cancelled(timeout(LOOK, self.news.changed())).await?.ok();
        }
    }
}

/// Lines after this one as steps, and where the thread stands now, with the number of the last.
async fn render_added(
    pages: &Pages,
    place: &Place,
    after: u64,
    names: &Names,
) -> Result<Option<(u64, String)>, Problem> {
    let lines = pages.shelf.lines(place, after.saturating_add(1), LINES).await?;
    let Some((upto, _)) = lines.last() else { return Ok(None) };
    let upto = *upto;
    let summary = pages.shelf.summary(place).await?;
    let lines: Vec<_> = lines.into_iter().filter_map(|(n, line)| Some((n, line?))).collect();
    Ok(Some((upto, codebutler_pages::render_added(&base_path(place), &summary, &lines, names))))
}
