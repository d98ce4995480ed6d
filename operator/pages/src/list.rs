//! The page of all threads. What it shows is in its address.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use askama::Template;
use codebutler_wire::NanoUsd;

use crate::UserNames;
use crate::page::{PageVisitor, format_moment, render_template};
use crate::summary::{STATES, ThreadSummary};
use crate::text::{format_duration, name_people};

/// Threads of one page.
const MOST: usize = 200;

#[derive(Template)]
#[template(path = "list.html")]
struct List<'a> {
    rows: Vec<ThreadRow>,
    filter: &'a ListFilter,
    visitor: &'a PageVisitor,
    states: [&'static str; 4],
    repos: BTreeSet<String>,
    people: BTreeMap<String, String>,
    count: usize,
    total: String,
    older: Option<String>,
}

struct ThreadRow {
    name: String,
    title: String,
    state: &'static str,
    repo: String,
    last: String,
    lasted: String,
    cost: String,
    /// How its roadmap stands.
    roadmap: Option<String>,
}

/// What a list shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListFilter {
    /// One of [`STATES`].
    pub state: String,
    /// Words of the title, or the name.
    pub query: String,
    pub repo: String,
    /// Slack user id of somebody who took part.
    pub person: String,
    /// USD, at least.
    pub cost: String,
    /// From 0.
    pub page: usize,
}

/// One thread of a list.
#[derive(Clone, Debug, Default)]
pub struct ListedThread {
    /// NAMESPACE/THREAD.
    pub name: String,
    pub summary: ThreadSummary,
    /// Time zone of its Repo's days; empty: UTC.
    pub zone: String,
}

impl ListFilter {
    fn takes(&self, one: &ListedThread) -> bool {
        let ListedThread { name, summary, .. } = one;
        let text = format!("{name} {}", summary.title).to_lowercase();
        let least = NanoUsd::parse(self.cost.trim()).unwrap_or_default();
        (self.state.is_empty() || summary.state() == self.state)
            && (self.repo.is_empty() || summary.repo == self.repo)
            && (self.person.is_empty() || summary.people.contains(&self.person))
            && summary.total.cost >= least
            && text.contains(&self.query.trim().to_lowercase())
    }

    /// The address of another page of the same list.
    fn address(&self, page: usize) -> String {
        let fields = [
            ("q", &self.query),
            ("state", &self.state),
            ("repo", &self.repo),
            ("person", &self.person),
            ("cost", &self.cost),
        ];
        let said = fields.iter().filter(|(_, value)| !value.is_empty());
        let said = said.map(|(name, value)| format!("{name}={}", encode_query(value)));
        let said: Vec<_> = said.chain((page > 0).then(|| format!("page={page}"))).collect();
        format!("/?{}", said.join("&"))
    }
}

/// For a query.
pub(crate) fn encode_query(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' => out.push(byte.into()),
            _ => drop(write!(out, "%{byte:02X}")),
        }
    }
    out
}

/// The page of threads, those first in which something happened last.
pub fn render_list(
    threads: Vec<ListedThread>,
    filter: &ListFilter,
    names: &UserNames,
    visitor: &PageVisitor,
) -> String {
    let repos = threads.iter().map(|one| one.summary.repo.clone());
    let repos = repos.filter(|repo| !repo.is_empty()).collect();
    let people = threads.iter().flat_map(|one| &one.summary.people);
    let people = people.map(|user| (user.clone(), names.get(user).unwrap_or(user).clone()));
    let people = people.collect();
    let mut taken: Vec<_> = threads.into_iter().filter(|one| filter.takes(one)).collect();
    taken.sort_by_key(|one| std::cmp::Reverse(one.summary.last));
    let total = taken.iter().map(|one| one.summary.total.cost).sum::<NanoUsd>();
    let (count, first) = (taken.len(), filter.page.saturating_mul(MOST));
    let rows = taken.iter().skip(first).take(MOST);
    let rows = rows.map(|one| ThreadRow::of(one, names)).collect();
    let older = (count > first.saturating_add(MOST)).then(|| filter.address(filter.page + 1));
    let (states, total) = (STATES, total.to_string());
    render_template(&List { rows, filter, visitor, states, repos, people, count, total, older })
}

impl ThreadRow {
    fn of(one: &ListedThread, names: &UserNames) -> Self {
        let ListedThread { name, summary, .. } = one;
        let title = if summary.title.is_empty() { name } else { &summary.title };
        Self {
            name: name.clone(),
            title: name_people(title, names),
            state: summary.state(),
            repo: summary.repo.clone(),
            last: format_moment(summary.last, "%Y-%m-%d %H:%M"),
            lasted: format_duration(summary.last.saturating_sub(summary.began)),
            cost: summary.total.cost.to_string(),
            roadmap: summary
                .roadmap
                .as_ref()
                .map(|roadmap| format!("roadmap: {} of {}", roadmap.merged(), roadmap.approved)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use codebutler_wire::history::{HistoryEvent, HistoryLine, ModelCall};

    fn listed(name: &str, repo: &str, by: &str, cost: u64) -> ListedThread {
        let line = |event| HistoryLine {
            v: 1,
            at: 5,
            source: "gateway".to_owned(),
            seq: None,
            key: None,
            role: Some("pm".to_owned()),
            run: None,
            event,
        };
        let mut summary = ThreadSummary::default();
        let (repo, channel, by) = (repo.to_owned(), "C1".to_owned(), Some(by.to_owned()));
        summary.add(Some(&line(HistoryEvent::Opened { repo, channel, by })));
        let cost = NanoUsd(cost);
        summary
            .add(Some(&line(HistoryEvent::ModelCall(ModelCall { cost, ..ModelCall::default() }))));
        ListedThread { name: name.to_owned(), summary, zone: String::new() }
    }

    #[test]
    fn the_address_says_which_threads_are_shown() {
        let all =
            || vec![listed("t/a", "shop", "U1", 5), listed("t/b", "docs", "U2", 2_000_000_000)];
        let shown = |filter: ListFilter| {
            let page = render_list(all(), &filter, &UserNames::default(), &PageVisitor::default());
            ["/t/a\"", "/t/b\""].map(|link| page.contains(link))
        };
        let of = |set: fn(&mut ListFilter)| {
            let mut filter = ListFilter::default();
            set(&mut filter);
            shown(filter)
        };
        assert_eq!(of(|_| {}), [true, true]);
        assert_eq!(of(|f| f.repo = "shop".into()), [true, false]);
        assert_eq!(of(|f| f.person = "U2".into()), [false, true]);
        assert_eq!(of(|f| f.cost = "1.5".into()), [false, true]);
        assert_eq!(of(|f| f.cost = "nonsense".into()), [true, true]);
        assert_eq!(of(|f| f.state = "done".into()), [true, true]);
        assert_eq!(of(|f| f.state = "running".into()), [false, false]);
        assert_eq!(of(|f| f.query = "T/A".into()), [true, false]);
    }

    #[test]
    fn a_long_list_has_pages_that_keep_the_filter() {
        let many = (0..450).map(|n| listed(&format!("t/n{n}"), "shop", "U1", 1)).collect();
        let filter = ListFilter { person: "U1".into(), page: 1, ..ListFilter::default() };
        let page = render_list(many, &filter, &UserNames::default(), &PageVisitor::default());
        assert_eq!(page.matches("<th scope=\"row\">").count(), MOST);
        assert!(page.contains("/?person=U1&#38;page=2"), "{page}");
    }
}
