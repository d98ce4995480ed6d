//! What a thread has cost, by role.

use std::fmt::Write as _;

use codebutler_crds::thread::Usage;
use codebutler_crds::{NanoUsd, ThreadStatus};

/// A table in a code block: the same in Slack and in a pull request. Roles that did nothing are
/// left out; the last line is the total, and below it what is not known.
#[must_use]
pub fn table(status: &ThreadStatus) -> String {
    let mut rows = vec![["role", "calls", "tokens in", "tokens out", "USD"].map(str::to_owned)];
    let mut sum = Usage::default();
    for (role, entry) in status.roles.iter().filter(|(_, entry)| entry.usage.calls > 0) {
        let usage = entry.usage;
        rows.push(row(role, usage));
        sum.cost += usage.cost;
        sum.calls = sum.calls.saturating_add(usage.calls);
        sum.prompt_tokens = sum.prompt_tokens.saturating_add(usage.prompt_tokens);
        sum.completion_tokens = sum.completion_tokens.saturating_add(usage.completion_tokens);
    }
    rows.push(row("total", sum));

    let width = |column: usize| rows.iter().map(|r| r[column].len()).max().unwrap_or(0);
    let widths = [0, 1, 2, 3, 4].map(width);
    let mut text = String::from("```\n");
    for row in &rows {
        let [role, numbers @ ..] = row;
        let _ = write!(text, "{role:<0$}", widths[0]);
        for (number, width) in numbers.iter().zip(&widths[1..]) {
            let _ = write!(text, "  {number:>width$}");
        }
        text.push('\n');
    }
    text.push_str("```");
    let flagged = status.budget.as_ref().map_or(NanoUsd::ZERO, |budget| budget.flagged);
    if flagged > NanoUsd::ZERO {
        let _ =
            write!(text, "\nUp to ${flagged} more for calls whose cost the provider has not told.");
    }
    text
}

fn row(name: &str, usage: Usage) -> [String; 5] {
    [
        name.to_owned(),
        usage.calls.to_string(),
        usage.prompt_tokens.to_string(),
        usage.completion_tokens.to_string(),
        usage.cost.to_string(),
    ]
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
            let usage = Usage {
                cost: NanoUsd(cost),
                prompt_tokens: 12_000,
                completion_tokens: 40,
                calls,
                ..Usage::default()
            };
            status.roles.entry(role.to_owned()).or_default().usage = usage;
        }
        insta::assert_snapshot!(table(&status), @r"
        ```
        role   calls  tokens in  tokens out          USD
        coder      4      12000          40  2.000000001
        pm         4      12000          40      0.00125
        total      8      24000          80  2.001250001
        ```
        ");
        let flagged = NanoUsd(300_000_000);
        status.budget = Some(ThreadBudget { flagged, ..ThreadBudget::default() });
        let told = "\nUp to $0.30 more for calls whose cost the provider has not told.";
        assert!(table(&status).ends_with(told));
    }
}
