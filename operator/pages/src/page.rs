//! Whole pages, and the parts that are added to them while they are looked at.

use askama::Template;
use codebutler_wire::history::Line;
use jiff::Timestamp;

use crate::step::Step;
use crate::summary::{Summary, Totals};
use crate::text::{duration, grouped};

#[derive(Template)]
#[template(path = "steps.html")]
struct Steps<'a> {
    steps: &'a [Step],
    base: &'a str,
}

#[derive(Template)]
#[template(path = "thread.html")]
struct Thread<'a> {
    page: &'a ThreadPage,
    steps: String,
    roles: Vec<Row>,
}

#[derive(Template)]
#[template(path = "list.html")]
struct List<'a> {
    threads: &'a [Row],
    filter: &'a Filter,
    total: String,
}

#[derive(Template)]
#[template(path = "one.html")]
struct One<'a> {
    base: &'a str,
    step: String,
    n: u64,
}

/// A row of a table of money.
struct Row {
    name: String,
    title: String,
    state: &'static str,
    last: String,
    calls: String,
    tokens: String,
    cost: String,
}

/// A part of one thread's history.
#[derive(Clone, Debug, Default)]
pub struct ThreadPage {
    /// Address of the page, such as `/team/shop-1`.
    pub base: String,
    pub summary: Summary,
    pub steps: Vec<Step>,
    /// Number of the line before the first that is shown, if there is one.
    pub earlier: Option<u64>,
    /// Number of the last line that was looked at.
    pub upto: u64,
    /// The newest lines are shown: what comes is added.
    pub live: bool,
    /// What was searched for.
    pub query: String,
}

/// What a list shows.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    pub state: String,
    pub query: String,
}

/// One thread of a list.
#[derive(Clone, Debug, Default)]
pub struct Listed {
    /// NAMESPACE/THREAD.
    pub name: String,
    pub summary: Summary,
}

fn render(template: &impl Template) -> String {
    template.render().unwrap_or_else(|_| "this page can't be shown".to_owned())
}

/// A line, if there is anything to be seen of it.
pub fn steps(base: &str, lines: &[(u64, Line)]) -> String {
    let steps: Vec<_> = lines.iter().filter_map(|(n, line)| Step::of(*n, line, false)).collect();
    render(&Steps { steps: &steps, base })
}

/// A page with all of one step.
pub fn one_step(base: &str, n: u64, line: &Line) -> String {
    let steps: Vec<_> = Step::of(n, line, true).into_iter().collect();
    render(&One { base, step: render(&Steps { steps: &steps, base }), n })
}

/// The page of one thread.
pub fn thread(page: &ThreadPage) -> String {
    let steps = render(&Steps { steps: &page.steps, base: &page.base });
    let by_role = page.summary.by_role.iter();
    let mut roles: Vec<_> =
        by_role.map(|(role, totals)| row(role, totals, &Summary::default())).collect();
    roles.push(row("all", &page.summary.total, &page.summary));
    render(&Thread { page, steps, roles })
}

/// The page of all threads, those first in which something happened last.
pub fn list(mut threads: Vec<Listed>, filter: &Filter) -> String {
    let query = filter.query.to_lowercase();
    threads.retain(|one| {
        let text = format!("{} {}", one.name, one.summary.title).to_lowercase();
        (filter.state.is_empty() || one.summary.state == filter.state) && text.contains(&query)
    });
    threads.sort_by_key(|one| std::cmp::Reverse(one.summary.last));
    let total = threads.iter().map(|one| one.summary.total.cost).sum::<codebutler_wire::NanoUsd>();
    let rows: Vec<_> =
        threads.iter().map(|one| row(&one.name, &one.summary.total, &one.summary)).collect();
    render(&List { threads: &rows, filter, total: total.to_string() })
}

fn row(name: &str, totals: &Totals, summary: &Summary) -> Row {
    let last = i64::try_from(summary.last).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
    let last = last.filter(|_| summary.last > 0);
    Row {
        name: name.to_owned(),
        title: summary.title.clone(),
        state: summary.state,
        last: last.map(|at| at.strftime("%Y-%m-%d %H:%M").to_string()).unwrap_or_default(),
        calls: grouped(totals.calls),
        tokens: format!(
            "{} fresh, {} cached, {} answered",
            grouped(totals.fresh),
            grouped(totals.cached),
            grouped(totals.answered)
        ),
        cost: totals.cost.to_string(),
    }
}

impl ThreadPage {
    /// How long the conversation lasts, or lasted.
    fn lasted(&self) -> String {
        duration(self.summary.last.saturating_sub(self.summary.began))
    }
}
