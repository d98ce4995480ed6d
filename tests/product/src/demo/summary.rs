//! The summary of a played scenario: for people, and with `--json` for machines.

use std::fmt;

use codebutler_crds::{NanoUsd, Thread};
use serde::Serialize;

use codebutler_testbed::scenario::{ExpectationOutcome, ScenarioReport};

/// The figures of a conversation.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DemoSummary {
    /// Name of the scenario that was played.
    pub scenario: String,
    /// True if every expectation held.
    pub passed: bool,
    /// Results of all expectations.
    pub expectations: Vec<ExpectationResult>,
    /// Figures by role, in the order of the Thread's status.
    pub roles: Vec<RoleFigures>,
    /// USD on the Threads, exact.
    pub cost: NanoUsd,
    /// USD that the model server billed, exact.
    pub billed: NanoUsd,
    /// The pull request's page, if there was one.
    pub pull_request: Option<String>,
    /// The newest commit on the base branch, if there was one since the start.
    pub commit: Option<String>,
    /// Wall-clock seconds from the first message to the last look.
    pub seconds: f64,
}

/// The result of an expectation.
#[derive(Debug, Serialize)]
pub struct ExpectationResult {
    /// The expectation in words.
    pub what: String,
    /// True if the expectation held.
    pub ok: bool,
    /// The difference that was found; empty if the expectation held.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub detail: String,
}

/// A role's model calls, tool calls, tokens and cost.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RoleFigures {
    /// Short name of the agent's role.
    pub role: String,
    /// Number of calls to the model.
    pub turns: u64,
    /// Tool calls that the model made.
    pub tool_calls: u64,
    /// Number of tokens that were sent.
    pub prompt_tokens: u64,
    /// Number of tokens that were received.
    pub completion_tokens: u64,
    /// Exact cost in US dollars.
    pub cost: NanoUsd,
}

impl DemoSummary {
    /// Adds up what the report found.
    pub fn of(scenario: &str, report: &ScenarioReport, seconds: f64) -> Self {
        let evidence = &report.evidence;
        let threads = evidence.observed.threads.iter();
        let threads: Vec<Thread> =
            threads.filter_map(|t| serde_json::from_value(t.clone()).ok()).collect();
        let statuses = || threads.iter().filter_map(|t| t.status.as_ref());
        let bill = &evidence.account.bill;
        let roles = bill.roles.iter().map(|(role, billed)| {
            let usage = statuses().filter_map(|s| s.roles.get(role)).map(|r| r.usage);
            let usage: Vec<_> = usage.collect();
            RoleFigures {
                role: role.clone(),
                turns: usage.iter().map(|u| u.calls).sum(),
                tool_calls: billed.tool_calls,
                prompt_tokens: usage.iter().map(|u| u.prompt_tokens).sum(),
                completion_tokens: usage.iter().map(|u| u.completion_tokens).sum(),
                cost: usage.iter().map(|u| u.cost).sum(),
            }
        });
        let pull = statuses().find_map(|s| s.pull_request.as_ref());
        let commit = evidence.remote.commits.first();
        Self {
            scenario: scenario.to_owned(),
            passed: report.passed(),
            expectations: report.outcomes.iter().map(ExpectationResult::of).collect(),
            roles: roles.collect(),
            cost: statuses().filter_map(|s| s.cost).sum(),
            billed: bill.total(),
            pull_request: pull.map(|p| p.url.clone()),
            commit: commit.map(|c| format!("{} {}", c.sha, c.subject())),
            seconds,
        }
    }
}

impl ExpectationResult {
    fn of(outcome: &ExpectationOutcome) -> Self {
        let ExpectationOutcome { what, ok, detail } = outcome.clone();
        Self { what, ok, detail }
    }
}

impl fmt::Display for DemoSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "role         turns  tools  tokens in  tokens out  USD")?;
        for r in &self.roles {
            let RoleFigures { role, turns, tool_calls, prompt_tokens, completion_tokens, cost } = r;
            writeln!(
                f,
                "{role:<12} {turns:>5}  {tool_calls:>5}  {prompt_tokens:>9}  {completion_tokens:>10}  {cost}"
            )?;
        }
        writeln!(f, "total {} USD (billed: {})", self.cost, self.billed)?;
        writeln!(f, "pull request: {}", self.pull_request.as_deref().unwrap_or("none"))?;
        writeln!(f, "new commit:   {}", self.commit.as_deref().unwrap_or("none"))?;
        let failed = self.expectations.iter().filter(|e| !e.ok);
        for ExpectationResult { what, detail, .. } in failed.clone() {
            writeln!(f, "✗ {what}: {detail}")?;
        }
        let (all, bad) = (self.expectations.len(), failed.count());
        write!(f, "{} of {all} expectations held, {:.1} s", all - bad, self.seconds)
    }
}
