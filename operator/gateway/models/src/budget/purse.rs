//! One purse for all Threads of a roadmap: their caps hold each by itself, and this one holds for their sum.

use std::sync::Arc;

use codebutler_crds::thread::RoadmapRun;
use codebutler_crds::{NanoUsd, Repo, Thread, names};
use codebutler_gateway_core::context::GatewayContext;
use codebutler_gateway_core::thread_key::ThreadKey;
use kube::ResourceExt as _;

/// Budget that the Threads of a roadmap share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoadmapBudget {
    /// Cap in USD.
    pub cap: NanoUsd,
    /// The Threads that draw on it, with what each one has cost as far as that is on record.
    pub members: Vec<(ThreadKey, NanoUsd)>,
}

impl RoadmapBudget {
    /// The purse of an item's Thread, if it has one.
    pub fn of(context: &GatewayContext, thread: &Thread, repo: &Repo) -> Option<Self> {
        let namespace = thread.namespace()?;
        let name = thread.spec.parent.clone().filter(|_| thread.spec.item.is_some())?;
        let parent =
            context.thread(&ThreadKey { namespace: namespace.clone(), name: name.clone() });
        let all = context.threads.state();
        let is_member = |member: &&Arc<Thread>| {
            member.spec.parent.as_ref() == Some(&name)
                && member.namespace().as_ref() == Some(&namespace)
        };
        let members: Vec<&Arc<Thread>> = all.iter().filter(is_member).collect();
        let threads: Vec<&Thread> = members.iter().map(|member| &***member).collect();
        let run = parent.as_ref().and_then(|parent| parent.status.as_ref()?.roadmap.as_deref());
        let cap = match run {
            Some(run) => find_cap(run, repo, threads.iter().copied()),
            None => find_kept_cap(&threads),
        }?;
        let members = members.iter().map(|member| (ThreadKey::from(&***member), cost_of(member)));
        Some(Self { cap, members: members.collect() })
    }
}

/// Finds the budget that was agreed, which holds without the conversation in which it was, and
/// where that has begun anew.
fn find_kept_cap(members: &[&Thread]) -> Option<NanoUsd> {
    let agreed = members.iter().filter_map(|member| kept_budget(member)).max();
    agreed.map(|agreed| agreed + raised_by(members.iter().copied()))
}

/// Returns the shared budget of a roadmap's items, as it was when this one began. USD.
fn kept_budget(item: &Thread) -> Option<NanoUsd> {
    item.annotations().get(names::ANNOTATION_ROADMAP_BUDGET)?.parse().ok()
}

/// Sums what people added in any of the Threads. USD.
fn raised_by<'a>(members: impl Iterator<Item = &'a Thread>) -> NanoUsd {
    let budgets = members.filter_map(|member| member.status.as_ref()?.budget.as_ref());
    budgets.fold(NanoUsd::ZERO, |all, budget| all + budget.raised_roadmap)
}

/// Finds the cap that was agreed, or that of the Repo, with what people added in any of the
/// Threads.
pub fn find_cap<'a>(
    run: &RoadmapRun,
    repo: &Repo,
    members: impl Iterator<Item = &'a Thread>,
) -> Option<NanoUsd> {
    run.approved_by.as_ref()?;
    agreed_budget(run, repo).map(|budget| budget + raised_by(members))
}

/// Returns the budget that was agreed at the beginning. USD.
pub fn agreed_budget(run: &RoadmapRun, repo: &Repo) -> Option<NanoUsd> {
    run.budget.or(repo.spec.roadmap.as_ref().and_then(|spec| spec.budget))
}

/// Returns the most that a Thread may have cost by the end of the calls that are under way. USD.
pub fn cost_of(thread: &Thread) -> NanoUsd {
    spent_of(thread) + granted_of(thread)
}

/// Returns the cost of a Thread, flagged amounts included. USD.
pub fn spent_of(thread: &Thread) -> NanoUsd {
    let Some(status) = &thread.status else { return NanoUsd::ZERO };
    let flagged = status.budget.as_ref().map(|budget| budget.flagged);
    status.cost.unwrap_or_default() + flagged.unwrap_or_default()
}

/// Returns the most that calls under way may cost. USD.
pub fn granted_of(thread: &Thread) -> NanoUsd {
    let budget = thread.status.as_ref().and_then(|status| status.budget.as_ref());
    budget.map(|budget| budget.granted).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_was_agreed_is_kept_by_the_items() {
        let item = |budget: Option<&str>, raised: &str| -> Thread {
            let annotations = budget.map(|usd| json!({(names::ANNOTATION_ROADMAP_BUDGET): usd}));
            serde_json::from_value(json!({
                "apiVersion": "codebutler.dev/v1alpha1", "kind": "Thread",
                "metadata": {"name": "t", "annotations": annotations},
                "spec": {"repo": "r", "prompt": "p", "item": "1", "parent": "gone"},
                "status": {"budget": {"raisedRoadmap": raised}},
            }))
            .unwrap()
        };
        let cap = |items: &[Thread]| find_kept_cap(&items.iter().collect::<Vec<_>>());
        let usd = |text: &str| Some(text.parse::<NanoUsd>().unwrap());
        // One began before more was agreed, and people added something in two of them.
        let items = [item(Some("10.00"), "0.50"), item(Some("20.00"), "0.25"), item(None, "0")];
        assert_eq!(cap(&items), usd("20.75"));
        assert_eq!(cap(&items[2..]), None, "nothing was agreed");
        assert_eq!(cap(&[item(Some("much"), "1")]), None);
    }
}
