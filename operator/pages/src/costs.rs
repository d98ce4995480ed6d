//! The page of costs: what the calls cost that the ledger and the metrics count, by what they were for.

use std::collections::BTreeMap;

use askama::Template;
use codebutler_wire::NanoUsd;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp};

use crate::list::ListedThread;
use crate::page::{MoneyRow, PageVisitor, render_template};
use crate::summary::{CallTotals, QUARTER};

/// Rows of one table.
const ROWS: usize = 60;

#[derive(Template)]
#[template(path = "costs.html")]
struct Costs<'a> {
    visitor: &'a PageVisitor,
    days: u64,
    total: MoneyRow,
    tables: Vec<Table>,
    merged: Vec<MoneyRow>,
    each: String,
}

struct Table {
    title: &'static str,
    rows: Vec<MoneyRow>,
}

/// What was spent on the last `days`, today included; `now` in milliseconds since 1970. 0: ever. A day is one of
/// each Repo's own time zone, as its budgets count it.
pub fn render_costs(
    threads: &[ListedThread],
    days: u64,
    now: u64,
    visitor: &PageVisitor,
) -> String {
    let mut zones = BTreeMap::new();
    let mut all = CallTotals::default();
    let mut by: [BTreeMap<String, CallTotals>; 4] = Default::default();
    let mut merged = Vec::new();
    for one in threads {
        let (zone, first) = zones.entry(one.zone.as_str()).or_insert_with(|| {
            let zone = TimeZone::get(&one.zone).unwrap_or(TimeZone::UTC);
            let first = first_day(find_date(now, &zone), days);
            (zone, first)
        });
        let mut own = CallTotals::default();
        for (purpose, totals) in &one.summary.by_purpose {
            let day = find_date(purpose.quarter * QUARTER, zone);
            if day < *first {
                continue;
            }
            own.join(totals);
            let repo = one.summary.repo.clone();
            let keys = [day.to_string(), repo, purpose.role.clone(), purpose.model.clone()];
            for (table, key) in by.iter_mut().zip(keys) {
                table.entry(key).or_default().join(totals);
            }
        }
        all.join(&own);
        if let Some(pull) = one.summary.pull.as_ref().filter(|pull| pull.state == "merged") {
            // All that it took, whenever.
            let name = format!("#{} {}", pull.number, one.summary.title);
            let link = Some(format!("/{}", one.name));
            let recent = find_date(one.summary.last, zone) >= *first;
            merged.extend(recent.then(|| {
                (
                    MoneyRow { link, ..MoneyRow::of(&name, &one.summary.total) },
                    one.summary.total.cost,
                )
            }));
        }
    }
    let count = merged.len().max(1) as u64;
    let sum: NanoUsd = merged.iter().map(|(_, cost)| *cost).sum();
    let each = NanoUsd(sum.0 / count).to_string();
    merged.sort_by_key(|(_, cost)| std::cmp::Reverse(*cost));
    let merged = merged.into_iter().take(ROWS).map(|(row, _)| row).collect();
    let [day, repo, role, model] = by;
    let tables = vec![
        build_table("Day", day, true),
        build_table("Repository", repo, false),
        build_table("Role", role, false),
        build_table("Model", model, false),
    ];
    render_template(&Costs {
        visitor,
        days,
        total: MoneyRow::of("all", &all),
        tables,
        merged,
        each,
    })
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

/// Days by date, all else by cost.
fn build_table(title: &'static str, by: BTreeMap<String, CallTotals>, dated: bool) -> Table {
    let dearest = by.values().map(|totals| totals.cost.0).max().unwrap_or(0).max(1);
    let mut rows: Vec<_> = by.into_iter().collect();
    if dated {
        rows.reverse();
    } else {
        rows.sort_by_key(|(_, totals)| std::cmp::Reverse(totals.cost));
    }
    let row = |(name, totals): (String, CallTotals)| {
        let share = totals.cost.0.saturating_mul(1000) / dearest;
        let name = if name.is_empty() { "not told".to_owned() } else { name };
        MoneyRow { share, ..MoneyRow::of(&name, &totals) }
    };
    Table { title, rows: rows.into_iter().take(ROWS).map(row).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::{MoneyPurpose, PullShown, ThreadSummary};

    const DAY: u64 = 86_400_000;

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
        let page = render_costs(&threads, 7, 21 * DAY + 5, &PageVisitor::default());
        assert!(page.contains("$1.000000001") && !page.contains("1.000000006"), "{page}");
        for part in
            ["1970-01-22", "1970-01-21", "shop", "coder", "m2", "#7 prices", "href=\"/t/a\""]
        {
            assert!(page.contains(part), "{part}: {page}");
        }
        let ever = render_costs(&threads, 0, 21 * DAY + 5, &PageVisitor::default());
        assert!(ever.contains("$1.000000006") && ever.contains("not told"), "{ever}");
    }

    #[test]
    fn a_day_is_one_of_the_repos_zone_as_its_budget_has_it() {
        // 23:30 and 22:00 in UTC: half past midnight in Berlin, and 03:45 in Kathmandu.
        let late = 20 * DAY + 23 * 3_600_000 + 1_800_000;
        let calls = [spent(late, "pm", "m", 3), spent(20 * DAY + 22 * 3_600_000, "pm", "m", 4)];
        let summary = ThreadSummary { by_purpose: calls.into(), ..ThreadSummary::default() };
        let shown = |zone: &str| {
            let threads = [listed("t/a", zone, summary.clone())];
            let page = render_costs(&threads, 1, late, &PageVisitor::default());
            ["Costs: $0.000000007", "Costs: $0.000000003", "1970-01-21", "1970-01-22"]
                .map(|part| page.contains(part))
        };
        assert_eq!(shown("UTC"), [true, false, true, false]);
        assert_eq!(shown("Europe/Berlin"), [false, true, false, true]);
        assert_eq!(shown("Asia/Kathmandu"), [true, false, false, true]);
        assert_eq!(shown("Mars/Olympus"), [true, false, true, false], "as in UTC");
    }
}
