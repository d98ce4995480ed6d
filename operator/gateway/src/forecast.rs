//! Forecast of a plan's cost and duration, from the Repo's own merged conversations of the same complexity, and of
//! the error of such estimates so far.

use std::sync::Arc;

use codebutler_crds::thread::{PlanEstimate, ThreadState};
use codebutler_crds::wire::{NanoUsd, PlanComplexity};
use codebutler_crds::{AgentRole, Repo, SlackTs, Thread};
use codebutler_gateway_core::context::GatewayContext;
use codebutler_gateway_core::dispatch::RepoTeam;
use kube::ResourceExt as _;

/// Minimum and maximum number of conversations that an estimate is made from: the newest ones.
const LEAST: usize = 3;
const MOST: usize = 30;

/// Cost and duration of a merged conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
struct PastWork {
    complexity: Option<PlanComplexity>,
    cost: NanoUsd,
    /// Duration from the plan to the question whether to merge, in minutes.
    minutes: u64,
    estimate: Option<PlanEstimate>,
    ended: SlackTs,
}

impl PastWork {
    fn of(thread: &Thread) -> Option<Self> {
        let status = thread.status.as_ref()?;
        let merged = status.pull_request.as_ref().is_some_and(|pull| pull.merge_commit.is_some());
        let (plan, closing) = (status.plan.as_ref()?, status.closing.as_ref()?);
        if thread.spec.state != ThreadState::Closed || !merged {
            return None;
        }
        let details = status.approved_details();
        let spent = status.roles.values().map(|role| role.usage.cost);
        Some(Self {
            complexity: details.and_then(|details| details.complexity),
            cost: NanoUsd(spent.fold(0, |sum, cost| sum.saturating_add(cost.0))),
            minutes: seconds_of(&closing.ts).saturating_sub(seconds_of(&plan.ts)).div_ceil(60),
            estimate: details.and_then(|details| details.estimate),
            ended: closing.ts.clone(),
        })
    }
}

fn seconds_of(ts: &SlackTs) -> u64 {
    ts.as_str().split('.').next().and_then(|whole| whole.parse().ok()).unwrap_or_default()
}

/// An estimate, and what is said of it under the plan.
pub struct PlanForecast {
    pub estimate: Option<PlanEstimate>,
    pub line: Option<String>,
}

/// Makes the forecast of a plan, from the past work of its Repo.
pub fn forecast_plan(
    context: &GatewayContext,
    repo: &Repo,
    complexity: Option<PlanComplexity>,
) -> PlanForecast {
    let threads: Vec<Arc<Thread>> = context.threads.state();
    let of_repo = |thread: &&Arc<Thread>| {
        thread.spec.repo == repo.name_any() && thread.namespace() == repo.namespace()
    };
    let past: Vec<_> =
        threads.iter().filter(of_repo).filter_map(|thread| PastWork::of(thread)).collect();
    let (estimate, told) = estimate_work(past, complexity).unzip();
    let parts = [choose_model(&context.roles_of(repo), complexity), told];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    PlanForecast { estimate, line: (!parts.is_empty()).then(|| parts.join(" · ")) }
}

/// Name of the model that will do the work, with the reason for it.
fn choose_model(roles: &[Arc<AgentRole>], complexity: Option<PlanComplexity>) -> Option<String> {
    let implements = RepoTeam::of(roles).implements?;
    let role = roles.iter().find(|role| role.spec.role == implements)?;
    let model = role.spec.model.for_work(complexity);
    let own = complexity.is_some() && model != role.spec.model.default;
    let why = if own { " (chosen for this complexity)" } else { "" };
    Some(format!("{}: `{}`{why}", role.spec.display.name, model.replace('`', "")))
}

/// The estimate, in figures and in words; nothing as long as too few conversations were like it.
fn estimate_work(
    mut past: Vec<PastWork>,
    complexity: Option<PlanComplexity>,
) -> Option<(PlanEstimate, String)> {
    past.sort_by(|a, b| b.ended.cmp(&a.ended));
    let off = off_so_far(&past);
    let alike: Vec<_> =
        past.into_iter().filter(|work| work.complexity == complexity).take(MOST).collect();
    if alike.len() < LEAST {
        return None;
    }
    let cost = NanoUsd(find_median(alike.iter().map(|work| work.cost.0)));
    let minutes = find_median(alike.iter().map(|work| work.minutes));
    let of = u32::try_from(alike.len()).unwrap_or(u32::MAX);
    let minutes = u32::try_from(minutes).unwrap_or(u32::MAX);
    let off = off.map(|percent| format!("; estimates were {percent} % off so far"));
    let told = format!(
        "about {} and {minutes} minutes until the merge question (median of {of} similar threads{})",
        cost.in_cents(),
        off.unwrap_or_default()
    );
    Some((PlanEstimate { cost, minutes, of }, told))
}

/// Median error of past estimates of cost, in percent.
fn off_so_far(past: &[PastWork]) -> Option<u64> {
    let off = past.iter().filter_map(|work| {
        let estimated = work.estimate.as_ref().filter(|estimate| estimate.cost.0 > 0)?.cost.0;
        Some(work.cost.0.abs_diff(estimated).saturating_mul(100) / estimated)
    });
    let off: Vec<_> = off.take(MOST).collect();
    (off.len() >= LEAST).then(|| find_median(off.into_iter()))
}

fn find_median(values: impl Iterator<Item = u64>) -> u64 {
    let mut values: Vec<_> = values.collect();
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work(
        complexity: PlanComplexity,
        cents: u64,
        minutes: u64,
        estimated: Option<u64>,
    ) -> PastWork {
        let nanos = |cents| NanoUsd(cents * 10_000_000);
        PastWork {
            complexity: Some(complexity),
            cost: nanos(cents),
            minutes,
            estimate: estimated.map(|cents| PlanEstimate { cost: nanos(cents), minutes: 1, of: 3 }),
            ended: "1.000001".parse().unwrap(),
        }
    }

    #[test]
    fn like_work_tells_what_it_will_cost_and_how_far_that_was_off() {
        use PlanComplexity::{Complex, Simple};
        let past = vec![
            work(Simple, 10, 5, Some(20)),
            work(Simple, 30, 9, Some(20)),
            work(Simple, 20, 7, Some(25)),
            work(Complex, 900, 90, None),
        ];
        let (known, told) = estimate_work(past.clone(), Some(Simple)).unwrap();
        let cost = NanoUsd(200_000_000);
        assert_eq!(known, PlanEstimate { cost, minutes: 7, of: 3 });
        assert_eq!(
            told,
            "about $0.20 and 7 minutes until the merge question (median of 3 similar threads; estimates were 50 % \
             off so far)"
        );
        // One conversation of this complexity is too few, and nothing is said of it.
        assert_eq!(estimate_work(past, Some(Complex)), None);
    }

    #[test]
    fn time_runs_from_the_plan_to_the_question_whether_to_merge() {
        let thread = |state: &str, merged: bool| -> Thread {
            serde_json::from_value(serde_json::json!({
                "apiVersion": "codebutler.dev/v1alpha1", "kind": "Thread",
                "metadata": {"name": "shop-1-000001", "namespace": "team"},
                "spec": {"repo": "shop", "state": state},
                "status": {
                    "plan": {"ts": "1000.000001", "hash": "x", "role": "pm", "approvedBy": "U1"},
                    "planDetails": {"plan": "1000.000001", "complexity": "medium"},
                    "closing": {"ts": "1301.000002", "role": "lead"},
                    "pullRequest": {"number": 1, "url": "u", "state": "merged",
                        "mergeCommit": if merged { Some("c") } else { None }},
                    "roles": {"pm": {"usage": {"cost": "0.5"}}, "coder": {"usage": {"cost": "1.25"}}},
                },
            }))
            .unwrap()
        };
        let work = PastWork::of(&thread("Closed", true)).unwrap();
        assert_eq!((work.minutes, work.cost.0), (6, 1_750_000_000));
        assert_eq!(work.complexity, Some(PlanComplexity::Medium));
        assert_eq!(PastWork::of(&thread("Closed", false)), None);
        assert_eq!(PastWork::of(&thread("Active", true)), None);
    }
}
