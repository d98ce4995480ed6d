//! The page of costs: what the calls cost that the ledger and the metrics count, by what they were for.

use std::collections::BTreeMap;

use askama::Template;
use codebutler_wire::NanoUsd;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp};

use crate::UserNames;
use crate::budgets::{self, BudgetRow, RepoBudgets};
use crate::chart::DayChart;
use crate::list::{ListedThread, encode_query};
use crate::page::{MoneyRow, PageVisitor};
use crate::summary::{CallTotals, QUARTER};
use crate::text::{format_count, name_mentions, render_template, show_money};

/// Maximum number of rows in one table.
const ROWS: usize = 60;

#[derive(Template)]
#[template(path = "costs.html")]
struct CostsTemplate<'a> {
    visitor: &'a PageVisitor,
    days: u64,
    total: String,
    calls: String,
    chart: Option<DayChart>,
    budgets: Vec<BudgetRow>,
    tables: Vec<MoneyTable>,
    merged: Vec<MoneyRow>,
    /// Merged pull requests that are not listed.
    more: usize,
    each: String,
}

struct MoneyTable {
    title: &'static str,
    /// True if the table is folded at first, since few people look for it.
    folded: bool,
    rows: Vec<MoneyRow>,
}

/// Spending grouped by day, person, team, repo, role and model.
#[derive(Default)]
struct SpendingGroups {
    all: CallTotals,
    days: BTreeMap<Date, CallTotals>,
    people: BTreeMap<String, CallTotals>,
    teams: BTreeMap<String, CallTotals>,
    repos: BTreeMap<String, CallTotals>,
    roles: BTreeMap<String, CallTotals>,
    models: BTreeMap<String, CallTotals>,
    /// All that a merged pull request took, whenever.
    merged: Vec<(MoneyRow, NanoUsd)>,
    /// The first and the last day that are asked for.
    first: Option<Date>,
    today: Option<Date>,
}

/// Renders the costs of the last `days`, today included (0: all time); `now` in milliseconds since 1970. A day
/// is one in each Repo's own time zone, as its budgets count it.
pub fn render_costs(
    threads: &[ListedThread],
    budgets: &[RepoBudgets],
    (days, now): (u64, u64),
    names: &UserNames,
    visitor: &PageVisitor,
) -> String {
    let spending = SpendingGroups::of(threads, budgets, (days, now), names);
    let (total, calls) = (show_money(spending.all.cost), spending.all.calls);
    let calls = format_count(calls, "model call");
    let cap = budgets::sum_days(budgets, spending.count_repos(threads));
    let (chart, count) = (spending.chart(cap), spending.merged.len().max(1) as u64);
    let more = spending.merged.len().saturating_sub(ROWS);
    let sum: NanoUsd = spending.merged.iter().map(|(_, cost)| *cost).sum();
    let each = show_money(NanoUsd(sum.0 / count));
    let SpendingGroups {
        all, days: by_day, people, teams, repos, roles, models, mut merged, ..
    } = spending;
    merged.sort_by_key(|(_, cost)| std::cmp::Reverse(*cost));
    let merged = merged.into_iter().take(ROWS).map(|(row, _)| row).collect();
    let by_day = by_day.into_iter().map(|(day, totals)| (day.to_string(), totals)).rev();
    let person = |user: &str| names.get(user).cloned().unwrap_or_else(|| user.to_owned());
    let known = people.keys().any(|user| !user.is_empty());
    let has_teams = !teams.is_empty();
    let mut tables = vec![
        MoneyTable::of("Person", people, all.cost, Some("person")),
        MoneyTable::of("Team", teams, all.cost, None),
        MoneyTable::of("Repository", repos, all.cost, Some("repo")),
        MoneyTable::of("Role", roles, all.cost, None),
        MoneyTable::of("Model", models, all.cost, None),
        MoneyTable::listed("Day", by_day.collect(), all.cost, None),
    ];
    for row in &mut tables[0].rows {
        row.name = person(&row.name);
    }
    tables[5].folded = chart.is_some();
    if !has_teams {
        tables.remove(1);
    }
    if !known {
        tables.remove(0);
    }
    let budgets = budgets::list_budgets(budgets, names);
    render_template(&CostsTemplate {
        visitor,
        days,
        total,
        calls,
        chart,
        budgets,
        tables,
        merged,
        more,
        each,
    })
}

impl SpendingGroups {
    fn of(
        threads: &[ListedThread],
        budgets: &[RepoBudgets],
        (days, now): (u64, u64),
        names: &UserNames,
    ) -> Self {
        let (mut zones, mut found) = (BTreeMap::new(), Self::default());
        for one in threads {
            let (zone, first) = zones.entry(one.zone.as_str()).or_insert_with(|| {
                let zone = TimeZone::get(&one.zone).unwrap_or(TimeZone::UTC);
                let today = find_date(now, &zone);
                found.today = found.today.max(Some(today));
                let first = first_day(today, days);
                (zone, first)
            });
            found.add(one, budgets, zone, *first);
            let summary = &one.summary;
            let recent = find_date(summary.last, zone) >= *first;
            let pull = summary.pull.as_ref().filter(|pull| pull.state == "merged" && recent);
            found.merged.extend(pull.map(|pull| {
                let name = format!("#{} {}", pull.number, name_mentions(&summary.title, names));
                let link = Some(format!("/{}", one.name));
                (MoneyRow { link, ..MoneyRow::of(&name, &summary.total) }, summary.total.cost)
            }));
        }
        let first = found.today.map(|today| first_day(today, days));
        found.first = first.filter(|_| days > 0).or(found.days.keys().next().copied());
        found
    }

    fn add(&mut self, one: &ListedThread, budgets: &[RepoBudgets], zone: &TimeZone, first: Date) {
        let asked = one.summary.requester.clone().unwrap_or_default();
        let namespace = one.name.split('/').next().unwrap_or_default();
        let teams = budgets::teams_of(budgets, (namespace, &one.summary.repo), &asked);
        for (purpose, totals) in &one.summary.by_purpose {
            let day = find_date(purpose.quarter * QUARTER, zone);
            if day < first {
                continue;
            }
            self.all.join(totals);
            self.days.entry(day).or_default().join(totals);
            for team in &teams {
                self.teams.entry((*team).to_owned()).or_default().join(totals);
            }
            for (table, key) in [
                (&mut self.people, &asked),
                (&mut self.repos, &one.summary.repo),
                (&mut self.roles, &purpose.role),
                (&mut self.models, &purpose.model),
            ] {
                table.entry(key.clone()).or_default().join(totals);
            }
        }
    }

    /// Chart of the cost of each day, with a line at the daily cap, if there is one.
    fn chart(&self, cap: Option<NanoUsd>) -> Option<DayChart> {
        let spent = self.days.iter().map(|(day, totals)| (*day, totals.cost)).collect();
        DayChart::of(&spent, (self.first?, self.today?), cap)
    }

    /// Repos in whose Threads anything was spent.
    fn count_repos(&self, threads: &[ListedThread]) -> usize {
        let of = |one: &ListedThread| {
            let namespace = one.name.split('/').next().unwrap_or_default().to_owned();
            (namespace, one.summary.repo.clone())
        };
        let spent = threads.iter().filter(|one| self.repos.contains_key(&one.summary.repo));
        spent.map(of).collect::<std::collections::BTreeSet<_>>().len()
    }
}

fn find_date(millis: u64, zone: &TimeZone) -> Date {
    let at = i64::try_from(millis).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
    at.unwrap_or(Timestamp::MAX).to_zoned(zone.clone()).date()
}

fn first_day(today: Date, days: u64) -> Date {
    let back = i64::try_from(days.saturating_sub(1)).unwrap_or(i64::MAX);
    let first = Span::new().try_days(back).ok().and_then(|back| today.checked_sub(back).ok());
    first.filter(|_| days > 0).unwrap_or(Date::MIN)
}

impl MoneyTable {
    /// The most expensive first.
    fn of(
        title: &'static str,
        by: BTreeMap<String, CallTotals>,
        all: NanoUsd,
        filter: Option<&str>,
    ) -> Self {
        let mut rows: Vec<_> = by.into_iter().collect();
        rows.sort_by_key(|(_, totals)| std::cmp::Reverse(totals.cost));
        Self::listed(title, rows, all, filter)
    }

    /// Builds a table in the order of `rows`, with the sum of those for which there is no room. `filter`: the query
    /// parameter of the list that shows a row's threads.
    fn listed(
        title: &'static str,
        mut rows: Vec<(String, CallTotals)>,
        all: NanoUsd,
        filter: Option<&str>,
    ) -> Self {
        let left = rows.split_off(rows.len().min(ROWS));
        let row = |(name, totals): (String, CallTotals)| {
            let share = u128::from(totals.cost.0) * 1000 / u128::from(all.0.max(1));
            let share = u64::try_from(share).unwrap_or(1000);
            let share = if share == 0 && totals.cost.0 > 0 { 1 } else { share };
            let link = filter.filter(|_| !name.is_empty());
            let link = link.map(|filter| format!("/?{filter}={}", encode_query(&name)));
            let name = if name.is_empty() { "not known".to_owned() } else { name };
            MoneyRow { link, share, ..MoneyRow::of(&name, &totals) }
        };
        let rest = (!left.is_empty()).then(|| {
            let mut totals = CallTotals::default();
            for (_, own) in &left {
                totals.join(own);
            }
            MoneyRow { link: None, ..row((format!("{} more", left.len()), totals)) }
        });
        let rows = rows.into_iter().map(row).chain(rest).collect();
        Self { title, folded: false, rows }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budgets::{BudgetLine, BudgetOwner, BudgetUse};
    use crate::summary::{MoneyPurpose, PullShown, ThreadSummary};

    const DAY: u64 = 86_400_000;

    fn render(threads: &[ListedThread], days: u64, now: u64) -> String {
        render_costs(threads, &[], (days, now), &UserNames::default(), &PageVisitor::default())
    }

    fn spent(at: u64, role: &str, model: &str, nanos: u64) -> (MoneyPurpose, CallTotals) {
        let purpose =
            MoneyPurpose { quarter: at / QUARTER, role: role.into(), model: model.into() };
        (purpose, CallTotals { calls: 1, cost: NanoUsd(nanos), ..CallTotals::default() })
    }

    fn listed(name: &str, zone: &str, summary: ThreadSummary) -> ListedThread {
        ListedThread { name: name.into(), summary, zone: zone.into() }
    }

    #[test]
    fn every_table_adds_up_to_the_same_nano_dollar() {
        let pull = PullShown { number: 7, url: String::new(), state: "merged".into() };
        let total = CallTotals { cost: NanoUsd(1_000_000_001), ..CallTotals::default() };
        let both = [spent(20 * DAY, "pm", "m1", 1), spent(21 * DAY, "coder", "m2", 1_000_000_000)];
        let one = ThreadSummary {
            repo: "shop".into(),
            title: "prices".into(),
            by_purpose: both.into(),
            total,
            last: 21 * DAY,
            pull: Some(pull),
            ..ThreadSummary::default()
        };
        let old = [spent(3 * DAY, "pm", "m1", 5)].into();
        let old = ThreadSummary { by_purpose: old, ..ThreadSummary::default() };
        let threads = [listed("t/a", "UTC", one), listed("t/b", "", old)];
        let page = render(&threads, 7, 21 * DAY + 5);
        assert!(page.contains("$1.000000001") && !page.contains("1.000000006"), "{page}");
        for part in
            ["1970-01-22", "1970-01-21", "shop", "coder", "m2", "#7 prices", "href=\"/t/a\""]
        {
            assert!(page.contains(part), "{part}: {page}");
        }
        let ever = render(&threads, 0, 21 * DAY + 5);
        assert!(ever.contains("$1.000000006") && ever.contains("not known"), "{ever}");
    }

    #[test]
    fn a_day_is_one_of_the_repos_zone_as_its_budget_has_it() {
        // 23:30 and 22:00 in UTC: half past midnight in Berlin, and 03:45 in Kathmandu.
        let late = 20 * DAY + 23 * 3_600_000 + 1_800_000;
        let calls = [spent(late, "pm", "m", 3), spent(20 * DAY + 22 * 3_600_000, "pm", "m", 4)];
        let summary = ThreadSummary { by_purpose: calls.into(), ..ThreadSummary::default() };
        let shown = |zone: &str| {
            let threads = [listed("t/a", zone, summary.clone())];
            let page = render(&threads, 1, late);
            let total = |nanos| format!("Costs: {}", show_money(NanoUsd(nanos)));
            [total(7), total(3), "1970-01-21".to_owned(), "1970-01-22".to_owned()]
                .map(|part| page.contains(&part))
        };
        assert_eq!(shown("UTC"), [true, false, true, false]);
        assert_eq!(shown("Europe/Berlin"), [false, true, false, true]);
        assert_eq!(shown("Asia/Kathmandu"), [true, false, false, true]);
        assert_eq!(shown("Mars/Olympus"), [true, false, true, false], "as in UTC");
    }

    #[test]
    fn a_share_is_one_of_all_and_a_person_is_the_one_who_asked() {
        let of = |name: &str, by: Option<&str>, nanos| {
            let summary = ThreadSummary {
                repo: "shop".into(),
                requester: by.map(Into::into),
                by_purpose: [spent(20 * DAY, "pm", "m", nanos)].into(),
                ..ThreadSummary::default()
            };
            listed(name, "", summary)
        };
        let threads = [
            of("t/a", Some("U1"), 810_000_000),
            of("t/b", Some("U2"), 189_000_000),
            of("t/c", None, 1_000_000),
        ];
        let names = UserNames::from([("U1".to_owned(), "Ana <b>".to_owned())]);
        let page = render_costs(&threads, &[], (7, 21 * DAY), &names, &PageVisitor::default());
        for part in [
            "Costs: <data value=\"1.00\" title=\"$1.00\">$1.00</data>",
            "value=\"810\" aria-label=\"81 %\"",
            "value=\"189\" aria-label=\"19 %\"",
            "&#60;1 %",
            "<a href=\"/?person=U1\">Ana &#60;b&#62;</a>",
            "<a href=\"/?repo=shop\">shop</a>",
            "3 model calls",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
        // Seven days are drawn, most of them without costs.
        assert_eq!(page.matches("<rect").count(), 7, "{page}");
    }

    #[test]
    fn what_there_is_no_room_for_is_summed_up() {
        let many = (0..ROWS as u64 + 10).map(|n| {
            let number = n + 1;
            let pull = PullShown { number, url: String::new(), state: "merged".into() };
            let summary = ThreadSummary {
                requester: Some(format!("U{n}")),
                by_purpose: [spent(20 * DAY, "pm", "m", 100)].into(),
                last: 20 * DAY,
                pull: Some(pull),
                ..ThreadSummary::default()
            };
            listed(&format!("t/{n}"), "", summary)
        });
        let page = render(&many.collect::<Vec<_>>(), 7, 20 * DAY);
        assert!(page.contains("<th scope=\"row\">10 more</th>"), "{page}");
        assert!(page.contains(&show_money(NanoUsd(1000))) && !page.contains("person=10"), "{page}");
        assert!(page.contains("10 more are not listed"), "{page}");
    }

    #[test]
    fn budgets_stand_in_a_table_and_as_a_line_over_the_days() {
        let summary = ThreadSummary {
            repo: "shop".into(),
            requester: Some("U1".into()),
            by_purpose: [spent(20 * DAY, "pm", "m", 2_000_000_000)].into(),
            ..ThreadSummary::default()
        };
        let threads = [listed("team/a", "", summary)];
        let usd = |usd: u64| NanoUsd(usd * 1_000_000_000);
        let line = BudgetLine {
            owner: BudgetOwner::Person("U1".into()),
            day: BudgetUse { used: usd(2), cap: Some(usd(4)) },
            month: BudgetUse { used: usd(2), cap: None },
        };
        let mut budgets = vec![RepoBudgets {
            namespace: "team".into(),
            repo: "shop".into(),
            per_day: Some(usd(8)),
            lines: vec![line],
            teams: vec![("payments".into(), vec!["U1".into()])],
        }];
        let names = UserNames::from([("U1".to_owned(), "Ana".to_owned())]);
        let shown = |budgets: &[RepoBudgets]| {
            render_costs(&threads, budgets, (7, 21 * DAY), &names, &PageVisitor::default())
        };
        let page = shown(&budgets);
        for part in [
            "<h2>Budgets</h2>",
            "<a href=\"/?person=U1\">Ana</a>",
            "value=\"500\" aria-label=\"50 %\"",
            "By team",
            "payments",
            "the budget of a day is $8.00",
            "<line class=\"cap\"",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
        budgets[0].namespace = "other".into();
        budgets[0].per_day = None;
        let page = shown(&budgets);
        assert!(!page.contains("By team") && !page.contains("<line"), "{page}");
        assert!(!shown(&[]).contains("Budgets"));
    }
}
