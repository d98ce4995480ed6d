//! Live updates of an open page: as server-sent events, or for clients that poll. A line's number is the event's
//! id, so nothing is missed after a reconnect. A viewer who may not see the thread any more is disconnected.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::time::{Duration, Instant};

use axum::extract::{Query, State};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use codebutler_crds::wire::history::HistoryLine;
use codebutler_gateway_core::history::millis_now;
use codebutler_history::ThreadPlace;
use codebutler_pages::{ThreadNow, ThreadSummary, UserNames};
use futures::{Stream, stream};
use http::HeaderMap;
use serde::Deserialize;
use tokio::sync::watch;
use tokio::time::timeout;

use super::address::AddressPath;
use super::door::PageViewer;
use super::limits::VisitPlace;
use super::{PageProblem, PageServices, base_path, parse_place};

/// Lines that are sent at once.
const LINES: u64 = 100;
/// Interval of polls for lines that another gateway has written.
const LOOK: Duration = Duration::from_secs(1);
/// Interval of checks that the viewer may still see the thread.
const RECHECK: Duration = Duration::from_secs(15);
const OVER: &str = "This page is not shown to you any more: load it again to see why.";
const AWAY: &str = "The history can't be read right now: what happens is shown when it can.";

#[derive(Deserialize)]
pub(super) struct LiveQuery {
    #[serde(default)]
    after: u64,
}

/// Serves the lines after a cursor once, as HTML.
pub(super) async fn serve_steps(
    State(pages): State<PageServices>,
    viewer: PageViewer,
    AddressPath((namespace, name)): AddressPath<(String, String)>,
    Query(LiveQuery { after }): Query<LiveQuery>,
) -> Result<Response, PageProblem> {
    let place = parse_place(&namespace, &name)?;
    let (summary, _) = pages.permit(&viewer, &place).await?;
    let names = pages.names(&viewer, &place, &summary).await;
    let progress = pages.progress(&place).await;
    // The state and the progress can change without a new line, so they are always rendered.
    let added = read_added(&pages, &place, after, (&progress, true)).await?;
    let added = added.map(|added| (added.upto, added.render(&place, &names)));
    let (upto, html) = added.unwrap_or((after, String::new()));
    let headers =
        [("content-type", "text/html; charset=utf-8".to_owned()), ("x-upto", upto.to_string())];
    Ok((headers, html).into_response())
}

/// Streams new lines as server-sent events.
pub(super) async fn serve_events(
    State(pages): State<PageServices>,
    viewer: PageViewer,
    AddressPath((namespace, name)): AddressPath<(String, String)>,
    Query(LiveQuery { after }): Query<LiveQuery>,
    headers: HeaderMap,
) -> Result<Response, PageProblem> {
    let place = parse_place(&namespace, &name)?;
    let (summary, _) = pages.permit(&viewer, &place).await?;
    let names = pages.names(&viewer, &place, &summary).await;
    // A browser that reconnects sends the id of the last event it got.
    let last = headers.get("last-event-id").and_then(|id| id.to_str().ok());
    let after = last.and_then(|id| id.parse().ok()).unwrap_or(after);
    let news = pages.shelf.news(&place);
    let (progress, now, people) = (BTreeMap::new(), None, summary.people);
    stream_part(pages, viewer, place, NewSteps { names, people, after, progress, now, news })
}

/// A part of a page that changes while somebody looks at it.
pub(super) trait LivePart: Send + 'static {
    /// Renders the part if it has changed, else `None`. `anew`: permissions may have changed, so check them again.
    fn render(
        &mut self,
        watching: &PageWatcher,
        anew: bool,
    ) -> impl Future<Output = Result<Option<Event>, PageProblem>> + Send;

    /// Resolves once there may be something new to render.
    fn changed(&mut self) -> impl Future<Output = ()> + Send;
}

/// The viewer of a stream and the thread that they watch.
pub(super) struct PageWatcher {
    pub pages: PageServices,
    pub viewer: PageViewer,
    pub place: ThreadPlace,
}

/// A part as it changes, until who looks may not any more.
///
/// # Errors
/// When as many pages are followed as can be.
pub(super) fn stream_part(
    pages: PageServices,
    viewer: PageViewer,
    place: ThreadPlace,
    part: impl LivePart,
) -> Result<Response, PageProblem> {
    let held = pages.limits.stream(viewer.person())?;
    let watcher = PageWatcher { pages, viewer, place };
    let (checked, away, over) = (Instant::now(), false, false);
    let watching = LiveStream { watcher, part, checked, away, over, _held: held };
    let events = Sse::new(watching.stream()).keep_alive(KeepAlive::default());
    // A proxy must not gather them.
    Ok(([("x-accel-buffering", "no")], events).into_response())
}

struct LiveStream<P> {
    watcher: PageWatcher,
    part: P,
    /// Time of the last check that the viewer may see the thread.
    checked: Instant,
    /// True once the viewer was told that the history can't be read.
    away: bool,
    over: bool,
    _held: VisitPlace,
}

impl<P: LivePart> LiveStream<P> {
    fn stream(self) -> impl Stream<Item = Result<Event, Infallible>> {
        stream::unfold(self, |mut watching| async move {
            let event = watching.next().await?;
            Some((Ok(event), watching))
        })
    }

    /// Returns the next event; `None` once the gateway stops: the browser then connects to another one.
    async fn next(&mut self) -> Option<Event> {
        if self.over {
            return None;
        }
        let PageWatcher { pages, viewer, place } = &self.watcher;
        loop {
            let anew = self.checked.elapsed() >= RECHECK;
            if anew {
                if pages.permit(viewer, place).await.is_err() {
                    self.over = true;
                    return Some(Event::default().event("end").data(OVER));
                }
                self.checked = Instant::now();
            }
            match self.part.render(&self.watcher, anew).await {
                Ok(Some(event)) => {
                    self.away = false;
                    return Some(event);
                }
                Err(problem) if !self.away => {
                    tracing::warn!(?problem, "page_stream_interrupted");
                    self.away = true;
                    return Some(Event::default().event("away").data(AWAY));
                }
                Ok(None) | Err(_) => {}
            }
            let news = timeout(LOOK, self.part.changed());
            pages.stop.run_until_cancelled(news).await?.ok();
        }
    }
}

/// New lines, progress and state of one thread.
struct NewSteps {
    /// Names of these people, as far as they are known.
    names: UserNames,
    people: BTreeSet<String>,
    after: u64,
    /// Progress of the calls that roles wait for, as last sent.
    progress: BTreeMap<String, String>,
    /// State of the Thread, as last sent.
    now: Option<ThreadNow>,
    news: watch::Receiver<u64>,
}

impl LivePart for NewSteps {
    async fn render(
        &mut self,
        watcher: &PageWatcher,
        _: bool,
    ) -> Result<Option<Event>, PageProblem> {
        // Seen before it is looked, so that nothing is overlooked.
        self.news.mark_unchanged();
        let PageWatcher { pages, viewer, place } = watcher;
        let (progress, now) = (pages.progress(place).await, pages.sight.now(place));
        let moved = progress != self.progress || now != self.now;
        let added = read_added(pages, place, self.after, (&progress, moved)).await?;
        let Some(added) = added else { return Ok(None) };
        // Somebody speaks for the first time, or is waited for, since the page was opened.
        let is_asked = now != self.now && now.as_ref().is_some_and(|now| now.wait.is_some());
        if is_asked || added.summary.people != self.people {
            self.names = pages.names(viewer, place, &added.summary).await;
            self.people.clone_from(&added.summary.people);
        }
        let html = added.render(place, &self.names);
        (self.after, self.progress, self.now) = (added.upto, progress, now);
        Ok(Some(Event::default().id(added.upto.to_string()).data(html)))
    }

    async fn changed(&mut self) {
        self.news.changed().await.ok();
    }
}

/// New lines of a thread, and its summary with them.
struct AddedLines {
    /// Number of the last line.
    upto: u64,
    lines: Vec<(u64, HistoryLine)>,
    summary: ThreadSummary,
}

/// Reads the lines after this one; `None` if there are none. `moved`: an answer without new lines, too, since the
/// thread stands otherwise than before.
async fn read_added(
    pages: &PageServices,
    place: &ThreadPlace,
    after: u64,
    (progress, moved): (&BTreeMap<String, String>, bool),
) -> Result<Option<AddedLines>, PageProblem> {
    let lines = pages.shelf.lines(place, after.saturating_add(1), LINES).await?;
    if lines.is_empty() && !moved {
        return Ok(None);
    }
    let upto = lines.last().map_or(after, |(n, _)| *n);
    let mut summary = pages.shelf.summary(place).await?;
    pages.sight.overlay(place, &mut summary);
    for (role, note) in progress {
        summary.show_progress(role, note);
    }
    let lines = lines.into_iter().filter_map(|(n, line)| Some((n, line?))).collect();
    Ok(Some(AddedLines { upto, lines, summary }))
}

impl AddedLines {
    /// The lines as steps, and where the thread stands now.
    fn render(&self, place: &ThreadPlace, names: &UserNames) -> String {
        let reader = (names, millis_now());
        codebutler_pages::render_added(&base_path(place), &self.summary, &self.lines, reader)
    }
}
