//! What is added to a page while somebody looks at it: as server-sent events, and for who asks again and
//! again. A line's number is the event's id, so whoever comes back misses nothing.

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::{Path, Query, State};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use codebutler_history::Place;
use futures::{Stream, stream};
use http::HeaderMap;
use serde::Deserialize;
use tokio::sync::watch;
use tokio::time::timeout;

use super::{Pages, Problem, base, place};

/// Lines that are sent at once.
const LINES: u64 = 100;
/// How often it is looked for what another gateway has written.
const LOOK: Duration = Duration::from_secs(1);

#[derive(Deserialize)]
pub struct After {
    #[serde(default)]
    after: u64,
}

/// What was added, as it is now.
pub async fn steps(
    State(pages): State<Pages>,
    Path((namespace, name)): Path<(String, String)>,
    Query(After { after }): Query<After>,
) -> Result<Response, Problem> {
    let place = place(&namespace, &name)?;
    let (upto, html) = added(&pages, &place, after).await?.unwrap_or((after, String::new()));
    let headers =
        [("content-type", "text/html; charset=utf-8".to_owned()), ("x-upto", upto.to_string())];
    Ok((headers, html).into_response())
}

/// What is added, as it happens.
pub async fn events(
    State(pages): State<Pages>,
    Path((namespace, name)): Path<(String, String)>,
    Query(After { after }): Query<After>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let place = place(&namespace, &name)?;
    // Whoever was cut off says what came last.
    let last = headers.get("last-event-id").and_then(|id| id.to_str().ok());
    let after = last.and_then(|id| id.parse().ok()).unwrap_or(after);
    let news = pages.shelf.news(&place);
    let watching = Watching { pages, place, after, news };
    let events = Sse::new(watching.stream()).keep_alive(KeepAlive::default());
    // A proxy must not gather them.
    Ok(([("x-accel-buffering", "no")], events).into_response())
}

struct Watching {
    pages: Pages,
    place: Place,
    after: u64,
    news: watch::Receiver<u64>,
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
        loop {
            // Seen before it is looked, so that nothing is overlooked.
            self.news.mark_unchanged();
            match added(&self.pages, &self.place, self.after).await {
                Ok(Some((upto, html))) => {
                    self.after = upto;
                    return Some(Event::default().id(upto.to_string()).data(html));
                }
                Ok(None) => {}
                Err(problem) => tracing::debug!(?problem, "a page waits"),
            }
            let stop = self.pages.stop.clone();
            stop.run_until_cancelled(timeout(LOOK, self.news.changed())).await?.ok();
        }
    }
}

/// Lines after this one as steps, with the number of the last.
async fn added(pages: &Pages, place: &Place, after: u64) -> Result<Option<(u64, String)>, Problem> {
    let lines = pages.shelf.lines(place, after.saturating_add(1), LINES).await?;
    let Some((upto, _)) = lines.last() else { return Ok(None) };
    let upto = *upto;
    let lines: Vec<_> = lines.into_iter().filter_map(|(n, line)| Some((n, line?))).collect();
    Ok(Some((upto, codebutler_pages::steps(&base(place), &lines))))
}
