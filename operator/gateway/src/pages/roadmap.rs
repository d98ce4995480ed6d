//! The page of a roadmap that is carried out from a thread, and what changes of it while somebody looks.

use axum::extract::State;
use axum::response::sse::Event;
use axum::response::{Html, Response};
use codebutler_history::ThreadPlace;
use codebutler_pages::{ListedThread, RoadmapPage, ThreadSummary};
use futures::future::select_all;
use http::StatusCode;
use tokio::sync::watch;

use super::address::AddressPath;
use super::door::PageViewer;
use super::live::{LivePart, PageWatcher, stream_part};
use super::{PageProblem, PageServices, base_path, parse_place};

/// Serves a roadmap as a page.
pub(super) async fn serve_roadmap(
    State(pages): State<PageServices>,
    viewer: PageViewer,
    AddressPath((namespace, name)): AddressPath<(String, String)>,
) -> Result<(StatusCode, Html<String>), PageProblem> {
    let place = parse_place(&namespace, &name)?;
    let mut page = pages.roadmap(&viewer, &place).await?;
    page.names = pages.names(&viewer, &place, &page.summary).await;
    let known = page.summary.roadmap.is_some();
    let status = if known { StatusCode::OK } else { StatusCode::NOT_FOUND };
    Ok((status, Html(codebutler_pages::render_roadmap(&page, &viewer.visitor(&page.names)))))
}

/// Serves only the table of the roadmap, the part that changes.
pub(super) async fn serve_table(
    State(pages): State<PageServices>,
    viewer: PageViewer,
    AddressPath((namespace, name)): AddressPath<(String, String)>,
) -> Result<Html<String>, PageProblem> {
    let place = parse_place(&namespace, &name)?;
    let mut page = pages.roadmap(&viewer, &place).await?;
    page.names = pages.names(&viewer, &place, &page.summary).await;
    Ok(Html(codebutler_pages::roadmap_table(&page)))
}

/// The table again whenever it is another.
pub(super) async fn serve_events(
    State(pages): State<PageServices>,
    viewer: PageViewer,
    AddressPath((namespace, name)): AddressPath<(String, String)>,
) -> Result<Response, PageProblem> {
    let own = parse_place(&namespace, &name)?;
    pages.permit(&viewer, &own).await?;
    let news = vec![pages.shelf.news(&own)];
    let table = LiveTable { news, lines: None, shown: String::new() };
    stream_part(pages, viewer, own, table)
}

struct LiveTable {
    /// Change notifications of the roadmap's thread, and of the threads of its items.
    news: Vec<watch::Receiver<u64>>,
    /// Total number of lines of these histories at the last look.
    lines: Option<u64>,
    shown: String,
}

impl LivePart for LiveTable {
    async fn render(
        &mut self,
        watcher: &PageWatcher,
        anew: bool,
    ) -> Result<Option<Event>, PageProblem> {
        // Seen before it is looked, so that nothing is overlooked.
        self.news.iter_mut().for_each(watch::Receiver::mark_unchanged);
        let PageWatcher { pages, viewer, place: own } = watcher;
        let summary = pages.shelf.summary(own).await?;
        let items = list_places(&summary, own);
        let mut lines = summary.lines;
        for place in &items {
            lines += pages.shelf.summary(place).await?.lines;
        }
        if self.lines == Some(lines) && !anew {
            return Ok(None);
        }
        if items.len() + 1 != self.news.len() {
            let all = std::iter::once(own).chain(&items);
            self.news = all.map(|place| pages.shelf.news(place)).collect();
        }
        let mut page = pages.roadmap(viewer, own).await?;
        page.names = pages.names(viewer, own, &page.summary).await;
        let table = codebutler_pages::roadmap_table(&page);
        self.lines = Some(lines);
        if table == self.shown {
            return Ok(None);
        }
        self.shown.clone_from(&table);
        Ok(Some(Event::default().data(table)))
    }

    async fn changed(&mut self) {
        select_all(self.news.iter_mut().map(|news| Box::pin(news.changed()))).await.0.ok();
    }
}

/// Histories of its items' threads.
fn list_places(summary: &ThreadSummary, own: &ThreadPlace) -> Vec<ThreadPlace> {
    let items = summary.roadmap.iter().flat_map(|roadmap| roadmap.items.values());
    items.filter_map(|item| ThreadPlace::new(own.namespace(), item.thread.as_ref()?)).collect()
}

impl PageServices {
    async fn roadmap(
        &self,
        viewer: &PageViewer,
        own: &ThreadPlace,
    ) -> Result<RoadmapPage, PageProblem> {
        let (summary, _) = self.permit(viewer, own).await?;
        let mut listed = Vec::new();
        for place in list_places(&summary, own) {
            let summary = self.shelf.summary(&place).await?;
            if summary.lines > 0 {
                listed.push(ListedThread { name: place.to_string(), summary, zone: String::new() });
            }
        }
        // An item's thread may be held in another channel.
        let seen = self.sight.seen(viewer, listed).await?;
        let name = |one: &ListedThread| one.name.rsplit('/').next().unwrap_or_default().to_owned();
        let threads = seen.into_iter().map(|one| (name(&one), one.summary)).collect();
        let slack = self.conversation(own).is_some();
        Ok(RoadmapPage { base: base_path(own), summary, threads, slack, ..RoadmapPage::default() })
    }
}
