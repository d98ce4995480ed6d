//! The page of a roadmap that is carried out: its items, how each stands, and what they cost together.

use std::collections::BTreeMap;

use askama::Template;
use codebutler_markdown::plain_line;
use codebutler_wire::NanoUsd;
use codebutler_wire::history::ItemShown;

use crate::UserNames;
use crate::moment::show_exactly;
use crate::page::{PageVisitor, name_thread, render_tabs};
use crate::summary::{RoadmapShown, ThreadSummary};
use crate::text::{format_duration, name_people, render_template, show_money};

/// Content of a roadmap's page.
#[derive(Clone, Debug, Default)]
pub struct RoadmapPage {
    /// Address of the conversation that it is carried out from, such as `/team/shop-1`.
    pub base: String,
    /// Summary of that conversation.
    pub summary: ThreadSummary,
    /// Names of people.
    pub names: UserNames,
    /// Summaries of the items' threads that the visitor may see, by name.
    pub threads: BTreeMap<String, ThreadSummary>,
    /// True if the conversation in Slack is known.
    pub slack: bool,
}

#[derive(Template)]
#[template(path = "roadmap.html")]
struct RoadmapTemplate<'a> {
    page: &'a RoadmapPage,
    visitor: &'a PageVisitor,
    tabs: String,
    table: String,
}

#[derive(Template)]
#[template(path = "roadmaptable.html")]
struct RoadmapTable<'a> {
    head: String,
    /// As HTML.
    money: String,
    own: String,
    share: u64,
    /// As HTML.
    changed: String,
    /// Rows, those that need people first and those that are over last.
    rows: Vec<ItemRow<'a>>,
}

struct ItemRow<'a> {
    item: &'a ItemShown,
    title: String,
    /// Reason why it waits.
    why: Option<String>,
    words: &'static str,
    class: &'static str,
    after: String,
    /// Address and state of its thread.
    thread: Option<(String, &'static str)>,
    /// Page and number of its pull request.
    pull: Option<(Option<&'a str>, u64)>,
    cost: String,
    lasted: String,
}

impl RoadmapTemplate<'_> {
    fn title(&self) -> String {
        name_thread(&self.page.base, &self.page.summary, &self.page.names)
    }
}

/// The page of a roadmap.
pub fn render_roadmap(page: &RoadmapPage, visitor: &PageVisitor) -> String {
    let tabs = render_tabs(&page.base, &page.summary, "Roadmap", page.slack);
    render_template(&RoadmapTemplate { page, visitor, tabs, table: roadmap_table(page) })
}

/// Renders the part of the page that changes while it is open.
pub fn roadmap_table(page: &RoadmapPage) -> String {
    let none = RoadmapShown::default();
    let known = page.summary.roadmap.as_ref().unwrap_or(&none);
    let mut rows: Vec<_> = known.items.values().map(|item| ItemRow::of(page, item)).collect();
    rows.sort_by_key(|row| (rank_state(&row.item.state), row.item.place));
    let cost: NanoUsd = page.threads.values().map(|summary| summary.total.cost).sum();
    let (merged, approved) = (known.merged(), known.approved);
    let ended = match known.ended.as_deref() {
        None => "",
        Some("done") => ": done",
        Some(_) => ": stopped, nothing more is started",
    };
    let budget = known.budget.map(|budget| format!(" of {}", show_money(budget)));
    let budget = budget.unwrap_or_default();
    let last = page.threads.values().map(|one| one.last).max().unwrap_or_default();
    let last = last.max(page.summary.last);
    render_template(&RoadmapTable {
        head: format!("{merged} of {approved} merged{ended}"),
        money: show_money(cost) + &budget,
        own: show_money(page.summary.total.cost),
        share: merged as u64 * 1000 / approved.max(1),
        changed: show_exactly(last),
        rows,
    })
}

fn rank_state(state: &str) -> u8 {
    match state {
        "blocked" => 0,
        "ready" => 1,
        "working" => 2,
        "next" => 3,
        "merged" => 5,
        _ => 4,
    }
}

impl<'a> ItemRow<'a> {
    fn of(page: &'a RoadmapPage, item: &'a ItemShown) -> Self {
        let (words, class) = match item.state.as_str() {
            "merged" => ("merged", "good"),
            "ready" => ("waits for a person to merge it", ""),
            "working" => ("in progress", ""),
            "next" => ("is next", ""),
            "waits" => ("waits for others", ""),
            "blocked" => ("blocked", "bad"),
            _ => ("not known", ""),
        };
        let namespace = page.base.trim_start_matches('/').split('/').next().unwrap_or_default();
        let thread = item.thread.as_ref();
        let seen = thread.and_then(|name| Some((name, page.threads.get(name)?)));
        let pull = seen.and_then(|(_, summary)| summary.pull.as_ref());
        let number = pull.map(|pull| pull.number).or(item.pull_request);
        let link = pull.map(|pull| pull.url.as_str()).filter(|url| url.starts_with("https://"));
        Self {
            item,
            title: name_people(&plain_line(&item.title), &page.names),
            why: item.why.as_ref().map(|why| name_people(why, &page.names)),
            words,
            class,
            after: item.after.join(", "),
            thread: seen.map(|(name, one)| (format!("/{namespace}/{name}"), one.state())),
            pull: number.map(|number| (link, number)),
            cost: seen.map(|(_, one)| show_money(one.total.cost)).unwrap_or_default(),
            lasted: seen
                .map(|(_, one)| format_duration(one.last.saturating_sub(one.began)))
                .unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::{CallTotals, PullShown};

    fn item(id: &str, place: u64, state: &str, thread: Option<&str>) -> ItemShown {
        let (id, title, state) = (id.to_owned(), format!("Title {id}"), state.to_owned());
        ItemShown {
            id,
            title,
            place,
            state,
            thread: thread.map(Into::into),
            ..ItemShown::default()
        }
    }

    fn spent(nanos: u64) -> ThreadSummary {
        let total = CallTotals { cost: NanoUsd(nanos), ..CallTotals::default() };
        ThreadSummary { total, lines: 3, began: 1_000, last: 61_000, ..ThreadSummary::default() }
    }

    #[test]
    fn what_people_have_to_look_at_comes_first_and_costs_add_up() {
        let mut blocked = item("2", 1, "blocked", Some("shop-b"));
        blocked.why = Some("<@U1> was asked: a question waits".to_owned());
        let mut waits = item("3", 2, "waits", None);
        waits.after = vec!["1".to_owned(), "2".to_owned()];
        let all = [item("1", 0, "merged", Some("shop-a")), blocked, waits];
        let items = all.into_iter().map(|item| (item.id.clone(), item)).collect();
        let budget = Some(NanoUsd(20_000_000_000));
        let known = RoadmapShown { approved: 3, budget, ended: None, items };
        let mut a = spent(1_000_000_001);
        let url = "https://git.example/7".to_owned();
        a.pull = Some(PullShown { number: 7, url, state: "merged".into() });
        let threads = [("shop-a".to_owned(), a), ("shop-b".to_owned(), spent(2))];
        let page = RoadmapPage {
            base: "/team/shop-1".to_owned(),
            summary: ThreadSummary { roadmap: Some(known), ..spent(5) },
            threads: threads.into(),
            names: UserNames::from([("U1".to_owned(), "Ana".to_owned())]),
            slack: true,
        };
        let shown = render_roadmap(&page, &PageVisitor::default());
        for part in [
            "1 of 3 merged",
            ">$1.00</data> of <data value=\"20.00\" title=\"$20.00\">$20.00</data> spent",
            "value=\"1.000000003\"",
            "value=\"0.000000005\"",
            "@Ana was asked: a question waits",
            "1, 2",
            "href=\"/team/shop-a\"",
            "href=\"/team/shop-1/slack\"",
            "<dialog id=\"keys\"",
            "href=\"https://git.example/7\"",
            "Changed <time datetime=\"1970-01-01T00:01:01Z\" data-exact>1970-01-01 00:01:01 UTC</time>",
        ] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
        let at = ["Title 2", "Title 3", "Title 1"].map(|title| shown.find(title).unwrap());
        assert!(at.is_sorted(), "{shown}");
        // Of a thread that may not be seen nothing is shown but that it is there.
        let mut page = page;
        page.threads.remove("shop-b");
        let shown = render_roadmap(&page, &PageVisitor::default());
        assert!(!shown.contains("shop-b") && shown.contains("Title 2"), "{shown}");
    }
}
