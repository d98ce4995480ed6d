//! Preview of a thread's page, for places that show its link. Pure.

use crate::UserNames;
use crate::summary::ThreadSummary;
use crate::text::name_people;

/// Title and facts of a preview, as plain text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PagePreview {
    pub title: String,
    /// State, people who are waited for, cost, and pull request.
    pub facts: Vec<String>,
}

/// Builds the preview of a thread; `None` if nothing has happened yet.
#[must_use]
pub fn preview_page(summary: &ThreadSummary, names: &UserNames) -> Option<PagePreview> {
    if summary.title.is_empty() {
        return None;
    }
    let state = summary.pause(names).map_or_else(|| summary.state().to_owned(), |(words, _)| words);
    let pull = summary.pull.as_ref().map(|pull| format!("#{} {}", pull.number, pull.state));
    let cost = summary.total.cost.in_cents();
    let facts = [Some(state), Some(cost), pull].into_iter().flatten().collect();
    Some(PagePreview { title: name_people(&summary.title, names), facts })
}
