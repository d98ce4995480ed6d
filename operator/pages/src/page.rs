//! The page of one thread, and the parts that are added to it while it is looked at.

use askama::Template;
use codebutler_markdown::TextDialect;
use codebutler_wire::history::HistoryLine;

use crate::UserNames;
use crate::moment::{show_exactly, show_time};
use crate::reply::{PageReplies, render_asks, render_reply};
use crate::run::{PageItem, add_lost_runs, group_steps};
use crate::step::{StepPlace, StepView, describe_outcome, name_author, waited_for};
use crate::summary::{CallTotals, LatestMessage, ThreadSummary, TimeSpan};
use crate::text::{
    format_duration, group_digits, name_mentions, render_prose, render_template, show_money,
    without_page_link,
};
use crate::timeline::PageTimeline;

#[derive(Template)]
#[template(path = "items.html")]
struct ItemsTemplate<'a> {
    items: &'a [PageItem],
    base: &'a str,
}

#[derive(Template)]
#[template(path = "steps.html")]
struct StepsTemplate<'a> {
    steps: &'a [StepView],
    base: &'a str,
}

#[derive(Template)]
#[template(path = "now.html")]
struct StateTemplate<'a> {
    base: &'a str,
    summary: &'a ThreadSummary,
    names: &'a UserNames,
    /// In milliseconds since 1970.
    moment: u64,
    /// A wait, and since when.
    pause: Option<(String, u64)>,
    roles: Vec<MoneyRow>,
    timeline: PageTimeline,
    spans: Vec<SpanRow>,
}

#[derive(Template)]
#[template(path = "thread.html")]
struct ThreadTemplate<'a> {
    page: &'a ThreadPage,
    visitor: &'a PageVisitor,
    /// Steps of a search.
    found: usize,
    tabs: String,
    now: String,
    asks: String,
    steps: String,
    reply: String,
}

#[derive(Template)]
#[template(path = "tabs.html")]
struct TabsTemplate<'a> {
    base: &'a str,
    current: &'a str,
    roadmap: bool,
    slack: bool,
}

#[derive(Template)]
#[template(path = "one.html")]
struct StepTemplate<'a> {
    base: &'a str,
    step: String,
    n: u64,
}

#[derive(Template)]
#[template(path = "notice.html")]
struct NoticeTemplate<'a> {
    title: &'a str,
    text: &'a str,
    action: Option<(&'a str, &'a str)>,
}

/// A row of a table of money.
pub(crate) struct MoneyRow {
    pub name: String,
    pub link: Option<String>,
    pub calls: String,
    pub fresh: String,
    pub cached: String,
    pub written: String,
    pub answered: String,
    pub reasoning: String,
    /// As HTML.
    pub cost: String,
    /// Of all rows together, in thousandths.
    pub share: u64,
}

/// A row of the timeline's table.
struct SpanRow {
    who: String,
    /// As HTML.
    from: String,
    lasted: String,
    what: String,
}

/// Visitor of a page.
#[derive(Clone, Debug, Default)]
pub struct PageVisitor {
    /// Their name; empty where nobody has to sign in.
    pub name: String,
    /// Comes with whatever they change; nothing where nothing can be changed.
    pub token: Option<String>,
    /// True if they may stop what runs in the thread.
    pub may_stop: bool,
}

/// A part of one thread's history.
#[derive(Clone, Debug, Default)]
pub struct ThreadPage {
    /// Address of the page, such as `/team/shop-1`.
    pub base: String,
    pub summary: ThreadSummary,
    pub steps: Vec<StepView>,
    /// Names of people.
    pub names: UserNames,
    /// Number of the line before the first that is shown, if there is one.
    pub earlier: Option<u64>,
    /// Number of the last line that was looked at.
    pub upto: u64,
    /// In milliseconds since 1970.
    pub now: u64,
    /// The conversation in Slack is known.
    pub slack: bool,
    /// The newest lines are shown: what comes is added.
    pub live: bool,
    /// Words that were searched for.
    pub query: String,
    /// There are older lines that were found and are not listed.
    pub cut: bool,
    /// The visitor's forms; nothing where they may not write.
    pub replies: Option<PageReplies>,
}

/// Renders an addition to a page: the state of the thread, and steps.
pub fn render_added(
    base: &str,
    summary: &ThreadSummary,
    lines: &[(u64, HistoryLine)],
    (names, now): (&UserNames, u64),
) -> String {
    let steps = lines.iter().filter_map(|(n, line)| StepView::of(*n, line, names, false));
    let mut items = group_steps(steps.collect(), summary);
    add_lost_runs(&mut items, summary);
    render_now(base, summary, names, now) + &render_template(&ItemsTemplate { items: &items, base })
}

fn render_now(base: &str, summary: &ThreadSummary, names: &UserNames, now: u64) -> String {
    let by_role = summary.by_role.iter().map(|(role, totals)| MoneyRow::of(role, totals));
    let roles = by_role.chain([MoneyRow::of("all", &summary.total)]).collect();
    let pause = summary.pause(names);
    let timeline = PageTimeline::of(&summary.spans, summary.began, summary.last);
    let spans = summary.spans.iter().map(|span| SpanRow::of(span, summary.last)).collect();
    render_template(&StateTemplate {
        base,
        summary,
        names,
        moment: now,
        pause,
        roles,
        timeline,
        spans,
    })
}

/// A page with all of one step.
pub fn one_step(base: &str, n: u64, line: &HistoryLine, names: &UserNames) -> String {
    let steps: Vec<_> = StepView::of(n, line, names, true).into_iter().collect();
    render_template(&StepTemplate {
        base,
        step: render_template(&StepsTemplate { steps: &steps, base }),
        n,
    })
}

/// The page of one thread.
pub fn render_thread(page: &ThreadPage, visitor: &PageVisitor) -> String {
    let (base, summary) = (&*page.base, &page.summary);
    let is_shown = |step: &&StepView| step.place != StepPlace::Aside;
    let found: Vec<_> = page.steps.iter().filter(is_shown).cloned().collect();
    let steps = if page.query.is_empty() {
        let items = group_steps(page.steps.clone(), summary);
        render_template(&ItemsTemplate { items: &items, base })
    } else {
        // Search results are not folded away, and what only the export has is none.
        render_template(&StepsTemplate { steps: &found, base })
    };
    let now = if page.query.is_empty() {
        render_now(base, summary, &page.names, page.now)
    } else {
        // A search shows its own results alone, and not the newest message.
        let found = ThreadSummary { latest: None, ..summary.clone() };
        render_now(base, &found, &page.names, page.now)
    };
    let tabs = render_tabs(base, summary, "Conversation", page.slack);
    let replies = page.replies.as_ref().filter(|_| page.query.is_empty());
    let asks = replies.map(|own| render_asks(base, own, &page.names)).unwrap_or_default();
    let reply = replies.filter(|_| !summary.closed);
    let reply = reply.map(|own| render_reply(base, (&own.token, &own.key), "")).unwrap_or_default();
    let found = found.len();
    render_template(&ThreadTemplate { page, visitor, found, tabs, now, asks, steps, reply })
}

/// Title of a thread: its first words, or else its name, as in the list.
pub(crate) fn name_thread(base: &str, summary: &ThreadSummary, names: &UserNames) -> String {
    match summary.title.trim() {
        "" => base.trim_start_matches('/').to_owned(),
        title => name_mentions(title, names),
    }
}

/// Ways to look at a thread.
pub(crate) fn render_tabs(
    base: &str,
    summary: &ThreadSummary,
    current: &str,
    slack: bool,
) -> String {
    render_template(&TabsTemplate { base, current, roadmap: summary.roadmap.is_some(), slack })
}

/// A page that says one thing, and where to go: an address and words.
pub fn render_notice(title: &str, text: &str, action: Option<(&str, &str)>) -> String {
    render_template(&NoticeTemplate { title, text, action })
}

impl MoneyRow {
    pub(crate) fn of(name: &str, totals: &CallTotals) -> Self {
        Self {
            name: name.to_owned(),
            link: None,
            calls: group_digits(totals.calls),
            fresh: group_digits(totals.fresh),
            cached: group_digits(totals.cached),
            written: group_digits(totals.written),
            answered: group_digits(totals.answered),
            reasoning: group_digits(totals.reasoning),
            cost: show_money(totals.cost),
            share: 0,
        }
    }
}

impl SpanRow {
    fn of(span: &TimeSpan, last: u64) -> Self {
        let lasted = format_duration(span.ended.unwrap_or(last).saturating_sub(span.began));
        let (who, what) = match span.role.as_str() {
            "" => (format!("waits for {}", waited_for(&span.what)), String::new()),
            role => (role.to_owned(), describe_outcome(&span.what).to_owned()),
        };
        let what = if span.ended.is_none() { "goes on".to_owned() } else { what };
        Self { who, from: show_exactly(span.began), lasted, what }
    }
}

impl ThreadTemplate<'_> {
    fn title(&self) -> String {
        name_thread(&self.page.base, &self.page.summary, &self.page.names)
    }
}

impl MoneyRow {
    /// The share as people say it.
    pub(crate) fn percent(&self) -> String {
        match self.share {
            1..10 => "<1 %".to_owned(),
            share => format!("{} %", (share + 5) / 10),
        }
    }
}

impl StateTemplate<'_> {
    fn cost(&self) -> String {
        show_money(self.summary.total.cost)
    }

    /// Duration of the conversation until now, or until its end.
    fn lasted(&self) -> String {
        format_duration(self.summary.last.saturating_sub(self.summary.began))
    }

    fn open(&self) -> Vec<&TimeSpan> {
        self.summary.open_runs().collect()
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "as templates call it")]
    fn ago(&self, millis: &u64) -> String {
        show_time(*millis, self.moment)
    }

    fn author(&self, latest: &LatestMessage) -> String {
        let author = name_author(&latest.author);
        self.names.get(&author).cloned().unwrap_or(author)
    }

    fn said(&self, latest: &LatestMessage) -> String {
        name_mentions(&latest.text, self.names)
    }

    fn prose(&self, text: &str) -> String {
        render_prose(&without_page_link(text), TextDialect::Slack, self.names)
    }

    fn name<'a>(&'a self, user: &'a str) -> &'a str {
        self.names.get(user).map_or(user, String::as_str)
    }
}
