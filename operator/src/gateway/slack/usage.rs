//! What a thread has cost, by role.

use codebutler_crds::ThreadStatus;

/// A table in a code block: the same in Slack and in a pull request. Roles that did nothing are
/// left out; the last line is the total.
#[must_use]
pub fn table(status: &ThreadStatus) -> String {
    let mut rows = vec![["role", "calls", "tokens in", "tokens out", "USD"].map(str::to_owned)];
    let mut sum = codebutler_crds::thread::Usage::default();
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
        text.push_str(&format!("{role:<0$}", widths[0]));
        for (number, width) in numbers.iter().zip(&widths[1..]) {
            text.push_str(&format!("  {number:>width$}"));
        }
        text.push('\n');
    }
    text.push_str("```");
    text
}

fn row(name: &str, usage: codebutler_crds::thread::Usage) -> [String; 5] {
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
    use codebutler_crds::NanoUsd;
    use codebutler_crds::thread::Usage;

    #[test]
    fn every_role_that_worked_and_the_sum() {
        let mut status = ThreadStatus::default();
        for (role, cost) in [("pm", 1_250_000), ("coder", 2_000_000_001), ("lead", 0)] {
            let calls = u64::from(cost > 0) * 4;
            let usage =
                Usage { cost: NanoUsd(cost), prompt_tokens: 12_000, completion_tokens: 40, calls };
            status.roles.entry(role.to_owned()).or_default().usage = usage;
        }
        insta::assert_snapshot!(table(&status), @r"
        ");
    }
}
