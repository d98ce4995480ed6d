//! The cost of a demo with real models.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use codebutler_crds::thread::TokenUsage;
use codebutler_crds::{NanoUsd, Thread};
use kube::api::ListParams;

use codebutler_testbed::stack::RunningStack;

/// A table by role; nothing if no model was called.
///
/// # Errors
/// When the Threads can't be read.
pub(super) async fn spent_table(stack: &RunningStack) -> Result<Option<String>, kube::Error> {
    let threads = stack.threads().list(&ListParams::default()).await?;
    Ok(show_table(&by_role(&threads.items)))
}

fn by_role(threads: &[Thread]) -> BTreeMap<String, TokenUsage> {
    let mut all = BTreeMap::<String, TokenUsage>::new();
    let roles = threads.iter().filter_map(|t| t.status.as_ref()).flat_map(|s| &s.roles);
    for (role, status) in roles.filter(|(_, status)| status.usage.calls > 0) {
        let sum = all.entry(role.clone()).or_default();
        sum.cost += status.usage.cost;
        sum.prompt_tokens += status.usage.prompt_tokens;
        sum.completion_tokens += status.usage.completion_tokens;
        sum.calls += status.usage.calls;
    }
    all
}

fn show_table(roles: &BTreeMap<String, TokenUsage>) -> Option<String> {
    if roles.is_empty() {
        return None;
    }
    let mut text = "spent        calls  tokens in  tokens out  USD\n".to_owned();
    for (role, usage) in roles {
        let TokenUsage { calls, prompt_tokens, completion_tokens, cost, .. } = usage;
        let _ = writeln!(
            text,
            "{role:<12} {calls:>5}  {prompt_tokens:>9}  {completion_tokens:>10}  {cost}"
        );
    }
    let total: NanoUsd = roles.values().map(|usage| usage.cost).sum();
    let _ = write!(text, "total        {total:>36}");
    if total == NanoUsd::ZERO {
        text.push_str("\nThe provider named no prices; it may bill for these tokens all the same.");
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_added_up_by_role() {
        let thread = |role: &str, cost: u64| -> Thread {
            serde_json::from_value(serde_json::json!({
                "apiVersion": "codebutler.dev/v1alpha1", "kind": "Thread",
                "metadata": {"name": "t"},
                "spec": {"repo": "shop", "slack": {"channel": "C1", "ts": "1.000000"}},
                "status": {"roles": {role: {"usage": {
                    "calls": 2, "promptTokens": 100, "completionTokens": 10,
                    "cost": NanoUsd(cost).to_string()}}}},
            }))
            .unwrap()
        };
        let threads =
            [thread("pm", 1_500_000), thread("coder", 250_000_000), thread("pm", 500_000)];
        let text = show_table(&by_role(&threads)).unwrap();
        let lines: Vec<Vec<&str>> =
            text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[1], ["coder", "2", "100", "10", "0.25"], "{text}");
        assert_eq!(lines[2], ["pm", "4", "200", "20", "0.002"], "{text}");
        assert_eq!(lines[3], ["total", "0.252"], "{text}");
        assert_eq!(show_table(&BTreeMap::new()), None);
    }
}
