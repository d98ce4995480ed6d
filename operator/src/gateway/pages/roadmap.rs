//! The page of a roadmap that is worked off from a thread, and what changes of it while somebody looks.

use std::convert::Infallible;
use std::time::Instant;

use axum::extract::{Path, State};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{Html, IntoResponse as _, Response};
use codebutler_history::Place;
use codebutler_pages::{Listed, RoadmapPage, Summary};
use futures::future::select_all;
use futures::stream;
use http::StatusCode;
use tokio::sync::watch;
use tokio::time::timeout;

use super::door::Viewer;
use super::live::{AWAY, LOOK, OVER, RECHECK};
use super::{Pages, Problem, base_path, parse_place};

/// As a page.
pub async fn serve_roadmap(
    State(pages): State<Pages>,
    viewer: Viewer,
    Path((namespace, name)): Path<(String, String)>,
) -> Result<(StatusCode, Html<String>), Problem> {
    let page = pages.roadmap(&viewer, &parse_place(&namespace, &name)?).await?;
    let known = page.summary.roadmap.is_some();
    let status = if known { StatusCode::OK } else { StatusCode::NOT_FOUND };
    Ok((status, Html(codebutler_pages::render_roadmap(&page, &viewer.visitor()))))
}

/// What changes of it.
pub async fn serve_table(
    State(pages): State<Pages>,
    viewer: Viewer,
    Path((namespace, name)): Path<(String, String)>,
) -> Result<Html<String>, Problem> {
    let page = pages.roadmap(&viewer, &parse_place(&namespace, &name)?).await?;
    Ok(Html(codebutler_pages::roadmap_table(&page)))
}

/// The table again whenever it is another.
pub async fn serve_events(
    State(pages): State<Pages>,
    viewer: Viewer,
    Path((namespace, name)): Path<(String, String)>,
) -> Result<Response, Problem> {
    let own = parse_place(&namespace, &name)?;
    pages.permit(&viewer, &own).await?;
    let watching = Watching {
        news: vec![pages.shelf.news(&own)],
        pages,
        viewer,
        own,
        lines: None,
        shown: String::new(),
        checked: Instant::now(),
        away: false,
        over: false,
    };
    let events = stream::unfold(watching, |mut watching| async move {
        let event = watching.next().await?;
        Some((Ok::<_, Infallible>(event), watching))
    });
    let events = Sse::new(events).keep_alive(KeepAlive::default());
    // A proxy must not gather them.
    Ok(([("x-accel-buffering", "no")], events).into_response())
}

struct Watching {
    pages: Pages,
    viewer: Viewer,
    own: Place,
    /// Of the thread that works it off, and of those of its items.
    news: Vec<watch::Receiver<u64>>,
    /// How many lines these have together.
    lines: Option<u64>,
    shown: String,
    /// When it was last seen that this may be seen.
    checked: Instant,
    /// It was told that the history can't be read.
    away: bool,
    over: bool,
}

impl Watching {
    /// Nothing once the gateway stops: the browser asks the next one.
    async fn next(&mut self) -> Option<Event> {
        if self.over {
            return None;
        }
        loop {
            if self.checked.elapsed() >= RECHECK {
                if self.pages.permit(&self.viewer, &self.own).await.is_err() {
                    self.over = true;
                    return Some(Event::default().event("end").data(OVER));
                }
                self.checked = Instant::now();
                // Who sees an item's thread may have changed.
                self.lines = None;
            }
            // Seen before it is looked, so that nothing is overlooked.
            self.news.iter_mut().for_each(watch::Receiver::mark_unchanged);
            match self.render().await {
                Ok(Some(table)) => {
                    self.away = false;
                    return Some(Event::default().data(table));
                }
                Err(problem) if !self.away => {
                    tracing::warn!(?problem, "a page waits");
                    self.away = true;
                    return Some(Event::default().event("away").data(AWAY));
                }
                Ok(None) | Err(_) => {}
            }
            let stop = self.pages.stop.clone();
            let any = select_all(self.news.iter_mut().map(|news| Box::pin(news.changed())));
            stop.run_until_cancelled(timeout(LOOK, any)).await?.ok();
        }
    }

    /// The table, if it is another than was shown.
    async fn render(&mut self) -> Result<Option<String>, Problem> {
        let histories = &self.pages.shelf;
        let summary = histories.summary(&self.own).await?;
        let items = list_places(&summary, &self.own);
        let mut lines = summary.lines;
        for place in &items {
            lines += histories.summary(place).await?.lines;
        }
        if self.lines == Some(lines) {
            return Ok(None);
        }
        if items.len() + 1 != self.news.len() {
            let all = std::iter::once(&self.own).chain(&items);
            self.news = all.map(|place| histories.news(place)).collect();
        }
        let page = self.pages.roadmap(&self.viewer, &self.own).await?;
        let table = codebutler_pages::roadmap_table(&page);
        self.lines = Some(lines);
        if table == self.shown {
            return Ok(None);
        }
        self.shown.clone_from(&table);
        Ok(Some(table))
    }
}

/// Histories of its items' threads.
fn list_places(summary: &Summary, own: &Place) -> Vec<Place> {
    let items = summary.roadmap.iter().flat_map(|roadmap| roadmap.items.values());
    items.filter_map(|item| Place::new(own.namespace(), item.thread.as_ref()?)).collect()
}

impl Pages {
    async fn roadmap(&self, viewer: &Viewer, own: &Place) -> Result<RoadmapPage, Problem> {
        let (summary, _) = self.permit(viewer, own).await?;
        let mut listed = Vec::new();
        for place in list_places(&summary, own) {
            let summary = self.shelf.summary(&place).await?;
            if summary.lines > 0 {
                listed.push(Listed { name: place.to_string(), summary, zone: String::new() });
            }
        }
        // An item's thread may be held in another channel.
        let seen = self.sight.seen(viewer, listed).await?;
        let name = |one: &Listed| one.name.rsplit('/').next().unwrap_or_default().to_owned();
        let threads = seen.into_iter().map(|one| (name(&one), one.summary)).collect();
        Ok(RoadmapPage { base: base_path(own), summary, threads })
    }
}
