//! Cost of a thread, by role.

use std::fmt::Write as _;

use codebutler_crds::thread::TokenUsage;
use codebutler_crds::{NanoUsd, SlackTs, ThreadStatus};
use jiff::Timestamp;

/// One line for people: the sum, the cost of each role where two or more worked, and the time that it took
/// since `begun`.
#[must_use]
pub fn usage_line(status: &ThreadStatus, begun: Option<&SlackTs>) -> String {
    let mut worked = list_worked(status);
    worked.sort_by_key(|(_, usage)| std::cmp::Reverse(usage.cost));
    let cost = |(role, usage): &(&str, TokenUsage)| format!("{role} {}", usage.cost.in_cents());
    let each = match worked.as_slice() {
        [] | [_] => String::new(),
        several => format!(" ({})", several.iter().map(cost).collect::<Vec<_>>().join(", ")),
    };
    total_line(status, &each, begun)
}

/// The same without the cost of each role: for the question whether to merge, which the final report follows.
#[must_use]
pub fn usage_total(status: &ThreadStatus, begun: Option<&SlackTs>) -> String {
    total_line(status, "", begun)
}

fn total_line(status: &ThreadStatus, each: &str, begun: Option<&SlackTs>) -> String {
    let worked = list_worked(status);
    let sum = worked.iter().fold(TokenUsage::default(), |sum, (_, usage)| add_usage(sum, usage));
    let mut line = format!("Cost {}{each}, {} model calls", sum.cost.in_cents(), sum.calls);
    if let Some(minutes) = begun.and_then(minutes_since) {
        let _ = write!(line, ", {minutes} min");
    }
    let flagged = flagged_cost(status);
    if flagged > NanoUsd::ZERO {
        let _ =
            write!(line, "; up to {} more that the provider has not reported", flagged.in_cents());
    }
    line
}

/// Usage of each role that called a model.
fn list_worked(status: &ThreadStatus) -> Vec<(&str, TokenUsage)> {
    let worked = status.roles.iter().filter(|(_, entry)| entry.usage.calls > 0);
    worked.map(|(role, entry)| (role.as_str(), entry.usage)).collect()
}

fn minutes_since(begun: &SlackTs) -> Option<u64> {
    let begun = Timestamp::from_second(begun.parts().0.cast_signed()).ok()?;
    let seconds = Timestamp::now().duration_since(begun).as_secs().max(0).unsigned_abs();
    Some(seconds.div_ceil(60).max(1))
}

fn flagged_cost(status: &ThreadStatus) -> NanoUsd {
    status.budget.as_ref().map_or(NanoUsd::ZERO, |budget| budget.flagged)
}

/// A table in a code block: the same in Slack and in a pull request. Roles that did nothing are
/// left out; the last line is the total, and below it what is not known. Where providers report them, sent tokens are
/// apart: not cached, read from a cache, or written to one. So are those of a model's reasoning, a part of those received.
#[must_use]
pub fn usage_table(status: &ThreadStatus) -> String {
    let mut lines = list_worked(status);
    let sum = lines.iter().fold(TokenUsage::default(), |sum, (_, usage)| add_usage(sum, usage));
    lines.push(("total", sum));
    let columns: Vec<Column> = COLUMNS.into_iter().filter(|column| (column.shown)(&sum)).collect();

    let mut rows: Vec<Vec<String>> = vec![columns.iter().map(|c| c.title.to_owned()).collect()];
    rows[0].insert(0, "role".to_owned());
    for (name, usage) in &lines {
        let figures = columns.iter().map(|column| (column.figure)(usage));
        rows.push(std::iter::once((*name).to_owned()).chain(figures).collect());
    }
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..=columns.len()).map(width).collect();
    let mut text = String::from("```\n");
    for row in &rows {
        for (n, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let _ = match n {
                0 => write!(text, "{cell:<width$}"),
                _ => write!(text, "  {cell:>width$}"),
            };
        }
        text.push('\n');
    }
    text.push_str("```");
    let flagged = flagged_cost(status);
    if flagged > NanoUsd::ZERO {
        let flagged = flagged.in_cents();
        let _ = write!(
            text,
            "\nUp to {flagged} more for calls whose cost the provider has not reported."
        );
    }
    text
}

/// A column, by what it is of a role and when there is one: by the sum of all roles.
#[derive(Clone, Copy)]
struct Column {
    title: &'static str,
    figure: fn(&TokenUsage) -> String,
    shown: fn(&TokenUsage) -> bool,
}

const COLUMNS: [Column; 8] = [
    Column { title: "calls", figure: |usage| usage.calls.to_string(), shown: |_| true },
    Column {
        title: "tokens in",
        figure: |usage| usage.prompt_tokens.to_string(),
        shown: |sum| !has_parts(sum),
    },
    Column {
        title: "tokens out",
        figure: |usage| usage.completion_tokens.to_string(),
        shown: |sum| !has_parts(sum),
    },
    Column {
        title: "uncached",
        figure: |usage| {
            let kept = usage.cached_tokens.saturating_add(usage.written_tokens);
            short_count(usage.prompt_tokens.saturating_sub(kept))
        },
        shown: has_parts,
    },
    Column {
        title: "cache read",
        figure: |usage| short_count(usage.cached_tokens),
        shown: |sum| sum.cached_tokens > 0,
    },
    Column {
        title: "cache write",
        figure: |usage| short_count(usage.written_tokens),
        shown: |sum| sum.written_tokens > 0,
    },
    Column {
        title: "out (reasoning)",
        figure: |usage| match usage.reasoning_tokens {
            0 => short_count(usage.completion_tokens),
            thought => {
                format!("{} ({})", short_count(usage.completion_tokens), short_count(thought))
            }
        },
        shown: has_parts,
    },
    Column { title: "cost", figure: |usage| usage.cost.in_cents(), shown: |_| true },
];

const fn has_parts(usage: &TokenUsage) -> bool {
    usage.cached_tokens > 0 || usage.written_tokens > 0 || usage.reasoning_tokens > 0
}

/// Rounds to thousands and millions, as more columns leave less room.
fn short_count(tokens: u64) -> String {
    match tokens {
        0..10_000 => tokens.to_string(),
        10_000..999_500 => format!("{}k", (tokens + 500) / 1_000),
        _ => {
            let tenths = tokens.saturating_add(50_000) / 100_000;
            format!("{}.{}M", tenths / 10, tenths % 10)
        }
    }
}

fn add_usage(sum: TokenUsage, usage: &TokenUsage) -> TokenUsage {
    TokenUsage {
        cost: sum.cost + usage.cost,
        prompt_tokens: sum.prompt_tokens.saturating_add(usage.prompt_tokens),
        completion_tokens: sum.completion_tokens.saturating_add(usage.completion_tokens),
        cached_tokens: sum.cached_tokens.saturating_add(usage.cached_tokens),
        written_tokens: sum.written_tokens.saturating_add(usage.written_tokens),
        reasoning_tokens: sum.reasoning_tokens.saturating_add(usage.reasoning_tokens),
        calls: sum.calls.saturating_add(usage.calls),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use codebutler_crds::spend::ThreadBudget;

    #[test]
    fn every_role_that_worked_and_the_sum() {
        let mut status = ThreadStatus::default();
        for (role, cost) in [("pm", 1_250_000), ("coder", 2_000_000_001), ("lead", 0)] {
            let calls = u64::from(cost > 0) * 4;
            let usage = TokenUsage {
                cost: NanoUsd(cost),
                prompt_tokens: 12_000,
                completion_tokens: 40,
                calls,
                ..TokenUsage::default()
            };
            status.roles.entry(role.to_owned()).or_default().usage = usage;
        }
        insta::assert_snapshot!(usage_table(&status), @r"
        ```
        role   calls  tokens in  tokens out    cost
        coder      4      12000          40   $2.00
        pm         4      12000          40  <$0.01
        total      8      24000          80   $2.00
        ```
        ");
        let line = "Cost $2.00 (coder $2.00, pm <$0.01), 8 model calls";
        assert_eq!(usage_line(&status, None), line);
        let total = "Cost $2.00, 8 model calls";
        assert_eq!(usage_total(&status, None), total);
        let flagged = NanoUsd(300_000_000);
        status.budget = Some(Box::new(ThreadBudget { flagged, ..ThreadBudget::default() }));
        let told = "\nUp to $0.30 more for calls whose cost the provider has not reported.";
        assert!(usage_table(&status).ends_with(told));
        let told = "; up to $0.30 more that the provider has not reported";
        assert_eq!(usage_line(&status, None), format!("{line}{told}"));
        assert_eq!(usage_total(&status, None), format!("{total}{told}"));
    }

    #[test]
    fn kept_and_thought_tokens_have_columns_where_there_are_any() {
        let mut status = ThreadStatus::default();
        let coder = TokenUsage {
            cost: NanoUsd(1_620_000_000),
            prompt_tokens: 1_519_000,
            completion_tokens: 31_400,
            cached_tokens: 1_390_000,
            written_tokens: 120_500,
            reasoning_tokens: 18_200,
            calls: 35,
        };
        let lead = TokenUsage { prompt_tokens: 9_000, calls: 2, ..TokenUsage::default() };
        for (role, usage) in [("coder", coder), ("lead", lead)] {
            status.roles.entry(role.to_owned()).or_default().usage = usage;
        }
        insta::assert_snapshot!(usage_table(&status), @r"
        ```
        role   calls  uncached  cache read  cache write  out (reasoning)   cost
        coder     35      8500        1.4M         121k        31k (18k)  $1.62
        lead       2      9000           0            0                0  $0.00
        total     37       18k        1.4M         121k        31k (18k)  $1.62
        ```
        ");
    }

    #[test]
    fn large_figures_are_rounded() {
        for (tokens, shown) in [
            (0, "0"),
            (9_999, "9999"),
            (10_499, "10k"),
            (10_500, "11k"),
            (999_499, "999k"),
            (999_500, "1.0M"),
            (1_950_000, "2.0M"),
            (u64::MAX, "18446744073709.5M"),
        ] {
            assert_eq!(short_count(tokens), shown);
        }
    }
}
