//! The page of all threads. What it shows is in its address.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use askama::Template;
use codebutler_wire::NanoUsd;

use crate::UserNames;
use crate::moment::show_time;
use crate::page::PageVisitor;
use crate::summary::{STATES, ThreadSummary};
use crate::text::{format_count, format_duration, name_mentions, render_template, show_money};

/// Maximum number of threads on one page of the list.
const MOST: usize = 200;

#[derive(Template)]
#[template(path = "list.html")]
struct ListTemplate<'a> {
    rows: Vec<ThreadRow>,
    filter: &'a ListFilter,
    visitor: &'a PageVisitor,
    states: [&'static str; 4],
    repos: BTreeSet<String>,
    /// Ids and names, in the order of the names.
    people: Vec<(String, String)>,
    count: usize,
    counted: String,
    /// Total cost, as HTML.
    total: String,
    /// True if no filter is set.
    plain: bool,
    older: Option<String>,
}

struct ThreadRow {
    name: String,
    title: String,
    state: &'static str,
    /// The reason for the wait, or the role that is working.
    detail: String,
    /// Time since which it has this state, as HTML.
    since: String,
    repo: String,
    asked: String,
    /// Time of the last activity, as HTML.
    last: String,
    lasted: String,
    cost: String,
    /// Progress of the thread's roadmap.
    roadmap: Option<String>,
}

/// Filter and page of the list, from the address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListFilter {
    /// One of [`STATES`]; empty for all.
    pub state: String,
    /// Words of the title, or the name.
    pub query: String,
    pub repo: String,
    /// Slack user id of somebody who took part.
    pub person: String,
    /// Minimum cost in USD.
    pub cost: String,
    /// Page number, from 0.
    pub page: usize,
}

/// A thread of the list, with its summary.
#[derive(Clone, Debug, Default)]
pub struct ListedThread {
    /// Namespace and name, as NAMESPACE/THREAD.
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

/// Percent-encodes a text for a query.
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
    (names, now): (&UserNames, u64),
    visitor: &PageVisitor,
) -> String {
    let repos = threads.iter().map(|one| one.summary.repo.clone());
    let repos = repos.filter(|repo| !repo.is_empty()).collect();
    let people = threads.iter().flat_map(|one| &one.summary.people);
    let people = people.map(|user| (user.clone(), names.get(user).unwrap_or(user).clone()));
    let mut people: Vec<_> = people.collect::<BTreeMap<_, _>>().into_iter().collect();
    people.sort_by_key(|(_, name)| name.to_lowercase());
    let mut taken: Vec<_> = threads.into_iter().filter(|one| filter.takes(one)).collect();
    taken.sort_by_key(|one| std::cmp::Reverse(one.summary.last));
    let total = taken.iter().map(|one| one.summary.total.cost).sum::<NanoUsd>();
    let (count, first) = (taken.len(), filter.page.saturating_mul(MOST));
    let rows = taken.iter().skip(first).take(MOST);
    let rows = rows.map(|one| ThreadRow::of(one, names, now)).collect();
    let older = (count > first.saturating_add(MOST)).then(|| filter.address(filter.page + 1));
    let (states, total) = (STATES, show_money(total));
    let plain = *filter == ListFilter::default();
    render_template(&ListTemplate {
        rows,
        filter,
        visitor,
        states,
        repos,
        people,
        count,
        counted: format_count(count as u64, "thread"),
        total,
        plain,
        older,
    })
}

impl ThreadRow {
    fn of(one: &ListedThread, names: &UserNames, now: u64) -> Self {
        let ListedThread { name, summary, .. } = one;
        let (run, begins) = (summary.open_runs().next(), summary.beginning());
        let (detail, since) = match (summary.pause(names), run, begins.first()) {
            (Some((words, since)), ..) => (words, since),
            (None, Some(run), _) => (format!("{} works", run.role), run.began),
            (None, None, Some(role)) => (format!("{role} begins"), summary.last),
            (None, None, None) => (String::new(), 0),
        };
        let asked = summary.requester.as_ref().map(|user| names.get(user).unwrap_or(user));
        let title = if summary.title.is_empty() { name } else { &summary.title };
        Self {
            name: name.clone(),
            title: name_mentions(title, names),
            state: summary.state(),
            detail,
            since: show_time(since, now),
            repo: summary.repo.clone(),
            asked: asked.cloned().unwrap_or_default(),
            last: show_time(summary.last, now),
            lasted: format_duration(summary.last.saturating_sub(summary.began)),
            cost: show_money(summary.total.cost),
            roadmap: summary
                .roadmap
                .as_ref()
                .map(|roadmap| format!("roadmap: {} of {}", roadmap.merged(), roadmap.approved)),
        }
    }

    /// CSS class that colours the state.
    fn class(&self) -> &'static str {
        match self.state {
            "running" => "running",
            "waiting for people" => "waiting",
            _ => "",
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

    fn render(threads: Vec<ListedThread>, filter: &ListFilter) -> String {
        render_list(threads, filter, (&UserNames::default(), 60_000), &PageVisitor::default())
    }

    #[test]
    fn a_row_says_who_is_waited_for_and_since_when() {
        let mut one = listed("t/a", "shop", "U1", 727_483_960);
        let what = "AwaitingUser".to_owned();
        let waits = HistoryEvent::Waiting { what, now: true, why: String::new() };
        let source = "gateway".to_owned();
        let (seq, key, role, run) = (None, None, None, None);
        let at = 60_000;
        one.summary.add(Some(&HistoryLine { v: 1, at, source, seq, key, role, run, event: waits }));
        let names = UserNames::from([("U1".to_owned(), "Ana".to_owned())]);
        let filter = ListFilter::default();
        let page = render_list(vec![one], &filter, (&names, 300_000), &PageVisitor::default());
        for part in [
            "1 thread, ",
            "waits for an answer",
            "<span class=\"state waiting\">waiting for people</span>",
            "<time datetime=\"1970-01-01T00:01:00Z\" title=\"1970-01-01 00:01:00 UTC\" data-ago>\
             4 min ago</time>",
            "title=\"$0.72748396\">$0.73</data>",
            "Ana",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
    }

    #[test]
    fn an_empty_list_says_how_to_begin() {
        let page = render(Vec::new(), &ListFilter::default());
        assert!(page.contains("No threads yet") && !page.contains("Show all"), "{page}");
        let filter = ListFilter { query: "x".into(), ..ListFilter::default() };
        let page = render(Vec::new(), &filter);
        assert!(page.contains("No thread fits") && page.contains("href=\"/\">Show all"), "{page}");
    }

    #[test]
    fn the_address_says_which_threads_are_shown() {
        let all =
            || vec![listed("t/a", "shop", "U1", 5), listed("t/b", "docs", "U2", 2_000_000_000)];
        let shown = |filter: ListFilter| {
            let page = render(all(), &filter);
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
    fn people_are_chosen_by_their_names() {
        let all = vec![listed("t/a", "shop", "U1", 5), listed("t/b", "shop", "U2", 5)];
        let names = [("U1", "zoe"), ("U2", "Ana")];
        let names: UserNames = names.map(|(user, name)| (user.to_owned(), name.to_owned())).into();
        let filter = ListFilter { person: "U1".into(), ..ListFilter::default() };
        let page = render_list(all, &filter, (&names, 60_000), &PageVisitor::default());
        let people = "<option value=\"U2\">Ana</option><option value=\"U1\" selected>zoe</option>";
        assert!(page.contains(people), "{page}");
    }

    #[test]
    fn a_long_list_has_pages_that_keep_the_filter() {
        let many = (0..450).map(|n| listed(&format!("t/n{n}"), "shop", "U1", 1)).collect();
        let filter = ListFilter { person: "U1".into(), page: 1, ..ListFilter::default() };
        let page = render(many, &filter);
        assert_eq!(page.matches("<th scope=\"row\">").count(), MOST);
        assert!(page.contains("/?person=U1&#38;page=2"), "{page}");
    }
}
