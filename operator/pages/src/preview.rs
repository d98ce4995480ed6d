//! Preview of a thread's page, for places that show its link. Pure.

use crate::UserNames;
use crate::page::name_thread;
use crate::summary::ThreadSummary;

/// Title and facts of a preview, as plain text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PagePreview {
    pub title: String,
    /// State, people who are waited for, cost, and pull request.
    pub facts: Vec<String>,
}

/// Builds the preview of a thread, whose page is at `base`; `None` if nothing has happened yet.
#[must_use]
pub fn preview_page(base: &str, summary: &ThreadSummary, names: &UserNames) -> Option<PagePreview> {
    if summary.lines == 0 {
        return None;
    }
    let state = summary.pause(names).map_or_else(|| summary.state().to_owned(), |(words, _)| words);
    let pull = summary.pull.as_ref().map(|pull| format!("#{} {}", pull.number, pull.state));
    let cost = summary.total.cost.in_cents();
    let facts = [Some(state), Some(cost), pull].into_iter().flatten().collect();
    Some(PagePreview { title: name_thread(base, summary, names), facts })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_without_words_is_called_by_its_name() {
        let names = UserNames::new();
        let preview = |summary: &ThreadSummary| preview_page("/team/shop-1", summary, &names);
        assert_eq!(preview(&ThreadSummary::default()), None);
        let mut summary = ThreadSummary { lines: 1, ..ThreadSummary::default() };
        assert_eq!(preview(&summary).unwrap().title, "team/shop-1");
        summary.title = "the total is wrong".to_owned();
        assert_eq!(preview(&summary).unwrap().title, "the total is wrong");
    }
}
