//! `cost`: today by Repo, and all that open and kept Threads have cost, by role.

use std::collections::BTreeMap;

use codebutler_crds::{NanoUsd, Repo, Thread};
use kube::ResourceExt as _;

use crate::cluster::TeamCluster;
use crate::table::{format_table, format_usd};
use crate::{PluginError, PluginTerminal};

/// Prints tables of what Repos, Threads and roles have cost.
pub(crate) async fn run_cost(
    cluster: &TeamCluster,
    terminal: &mut PluginTerminal<'_>,
) -> Result<(), PluginError> {
    let (repos, threads) = (cluster.repos().await?, cluster.threads().await?);
    if repos.is_empty() {
        return terminal.say("No Repos here: -A looks in all namespaces.");
    }
    let rows: Vec<_> = repos.iter().map(repo_row).collect();
    print_table(terminal, &["REPO", "DAY", "SPENT", "CAP A DAY", "CAP A THREAD"], &rows)?;
    let rows: Vec<_> = threads.iter().filter_map(thread_row).collect();
    if rows.is_empty() {
        return terminal.say("\nNo Thread has cost anything yet.");
    }
    terminal.say("")?;
    print_table(terminal, &["THREAD", "STATE", "COST", "BY ROLE"], &rows)?;
    terminal.say("")?;
    let roles = sum_roles(&threads);
    let total: NanoUsd = threads.iter().filter_map(cost_of).sum();
    let mut rows: Vec<Vec<String>> = roles
        .iter()
        .map(|(role, (calls, cost))| vec![role.clone(), calls.to_string(), format_usd(*cost)])
        .collect();
    rows.push(vec!["all".to_owned(), String::new(), format_usd(total)]);
    print_table(terminal, &["ROLE", "CALLS", "COST"], &rows)?;
    terminal.say(&format!(
        "\nExactly {total} USD in the Threads that are kept, as the providers billed it."
    ))
}

fn print_table(
    terminal: &mut PluginTerminal<'_>,
    head: &[&str],
    rows: &[Vec<String>],
) -> Result<(), PluginError> {
    format_table(head, rows).iter().try_for_each(|line| terminal.say(line))
}

fn repo_row(repo: &Repo) -> Vec<String> {
    let spend = repo.status.as_ref().and_then(|status| status.spend.as_ref());
    let cap = |cap: Option<NanoUsd>| cap.map_or_else(|| "none".to_owned(), format_usd);
    let budget = &repo.spec.limits.budget;
    vec![
        format!("{}/{}", repo.namespace().unwrap_or_default(), repo.name_any()),
        spend.map(|spend| spend.day.clone()).unwrap_or_default(),
        spend.map_or_else(|| format_usd(NanoUsd(0)), |spend| format_usd(spend.settled)),
        cap(budget.per_day),
        cap(budget.per_thread),
    ]
}

fn cost_of(thread: &Thread) -> Option<NanoUsd> {
    thread.status.as_ref()?.cost
}

fn thread_row(thread: &Thread) -> Option<Vec<String>> {
    let status = thread.status.as_ref()?;
    let cost = status.cost.filter(|cost| cost.0 > 0)?;
    let roles = status.roles.iter().filter(|(_, role)| role.usage.cost.0 > 0);
    let roles: Vec<_> =
        roles.map(|(role, own)| format!("{role} {}", format_usd(own.usage.cost))).collect();
    Some(vec![
        format!("{}/{}", thread.namespace().unwrap_or_default(), thread.name_any()),
        format!("{:?}", thread.spec.state),
        format_usd(cost),
        roles.join(", "),
    ])
}

fn sum_roles(threads: &[Thread]) -> BTreeMap<String, (u64, NanoUsd)> {
    let mut sums: BTreeMap<String, (u64, NanoUsd)> = BTreeMap::new();
    let roles = threads.iter().filter_map(|thread| thread.status.as_ref());
    for (role, own) in roles.flat_map(|status| &status.roles) {
        let (calls, cost) = sums.entry(role.clone()).or_default();
        *calls = calls.saturating_add(own.usage.calls);
        *cost += own.usage.cost;
    }
    sums
}
