//! The page of costs: what the calls cost that the ledger and the metrics count, by what they were for.

use std::collections::BTreeMap;

use askama::Template;
use codebutler_wire::NanoUsd;

use crate::list::Listed;
use crate::page::{Money, Visitor, moment, render};
use crate::summary::Totals;

const DAY: u64 = 86_400_000;
/// Rows of one table.
const ROWS: usize = 60;

#[derive(Template)]
#[template(path = "costs.html")]
struct Costs<'a> {
    visitor: &'a Visitor,
    days: u64,
    total: Money,
    tables: Vec<Table>,
    merged: Vec<Money>,
    each: String,
}

struct Table {
    title: &'static str,
    rows: Vec<Money>,
}

/// What was spent on the last `days`, today included; `now` in milliseconds since 1970. 0: ever.
pub fn costs(threads: &[Listed], days: u64, now: u64, visitor: &Visitor) -> String {
    let first = if days == 0 { 0 } else { (now / DAY + 1).saturating_sub(days) };
    let mut all = Totals::default();
    let mut by: [BTreeMap<String, Totals>; 4] = Default::default();
    let mut merged = Vec::new();
    for one in threads {
        let mut own = Totals::default();
        let spent = one.summary.by_purpose.iter().filter(|(purpose, _)| purpose.day >= first);
        for (purpose, totals) in spent {
            own.join(totals);
            let day = moment((purpose.day * DAY).max(1), "%Y-%m-%d");
            let keys = [day, one.summary.repo.clone(), purpose.role.clone(), purpose.model.clone()];
            for (table, key) in by.iter_mut().zip(keys) {
                table.entry(key).or_default().join(totals);
            }
        }
        all.join(&own);
        if let Some(pull) = one.summary.pull.as_ref().filter(|pull| pull.state == "merged") {
            // All that it took, whenever.
            let name = format!("#{} {}", pull.number, one.summary.title);
            let link = Some(format!("/{}", one.name));
            let recent = one.summary.last / DAY >= first;
            merged.extend(recent.then(|| {
                (Money { link, ..Money::of(&name, &one.summary.total) }, one.summary.total.cost)
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
        table("Day (UTC)", day, true),
        table("Repository", repo, false),
        table("Role", role, false),
        table("Model", model, false),
    ];
    render(&Costs { visitor, days, total: Money::of("all", &all), tables, merged, each })
}

/// Days by date, all else by cost.
fn table(title: &'static str, by: BTreeMap<String, Totals>, dated: bool) -> Table {
    let dearest = by.values().map(|totals| totals.cost.0).max().unwrap_or(0).max(1);
    let mut rows: Vec<_> = by.into_iter().collect();
    if dated {
        rows.reverse();
    } else {
        rows.sort_by_key(|(_, totals)| std::cmp::Reverse(totals.cost));
    }
    let row = |(name, totals): (String, Totals)| {
        let share = totals.cost.0.saturating_mul(1000) / dearest;
        let name = if name.is_empty() { "not told".to_owned() } else { name };
        Money { share, ..Money::of(&name, &totals) }
    };
    Table { title, rows: rows.into_iter().take(ROWS).map(row).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::{PullShown, Purpose, Summary};

    fn spent(day: u64, role: &str, model: &str, nanos: u64) -> (Purpose, Totals) {
        let purpose = Purpose { day, role: role.into(), model: model.into() };
        (purpose, Totals { calls: 1, cost: NanoUsd(nanos), ..Totals::default() })
    }

    #[test]
    fn every_table_adds_up_to_the_same_nano_dollar() {
        let pull = PullShown { number: 7, url: String::new(), state: "merged".into() };
        let total = Totals { cost: NanoUsd(1_000_000_001), ..Totals::default() };
        let one = Summary {
            repo: "shop".into(),
            title: "prices".into(),
            by_purpose: [spent(20, "pm", "m1", 1), spent(21, "coder", "m2", 1_000_000_000)].into(),
            total,
            last: 21 * DAY,
            pull: Some(pull),
            ..Summary::default()
        };
        let old = Summary { by_purpose: [spent(3, "pm", "m1", 5)].into(), ..Summary::default() };
        let listed = |name: &str, summary| Listed { name: name.into(), summary };
        let threads = [listed("t/a", one), listed("t/b", old)];
        let page = costs(&threads, 7, 21 * DAY + 5, &Visitor::default());
        assert!(page.contains("$1.000000001") && !page.contains("1.000000006"), "{page}");
        for part in
            ["1970-01-22", "1970-01-21", "shop", "coder", "m2", "#7 prices", "href=\"/t/a\""]
        {
            assert!(page.contains(part), "{part}: {page}");
        }
        let ever = costs(&threads, 0, 21 * DAY + 5, &Visitor::default());
        assert!(ever.contains("$1.000000006") && ever.contains("not told"), "{ever}");
    }
}
