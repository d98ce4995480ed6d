//! The page of a roadmap that is worked off from a thread.

use axum::extract::{Path, State};
use axum::response::Html;
use codebutler_history::Place;
use codebutler_pages::{Listed, RoadmapPage};
use http::StatusCode;

use super::door::Viewer;
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

impl Pages {
    async fn roadmap(&self, viewer: &Viewer, own: &Place) -> Result<RoadmapPage, Problem> {
        let (summary, _) = self.permit(viewer, own).await?;
        let items = summary.roadmap.iter().flat_map(|roadmap| roadmap.items.values());
        let places = items.filter_map(|item| Place::new(own.namespace(), item.thread.as_ref()?));
        let mut listed = Vec::new();
        for place in places {
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
