//! One purse for all Threads of a roadmap: their caps hold each by itself, and this one holds for their sum.

use std::sync::Arc;

use codebutler_crds::thread::RoadmapRun;
use codebutler_crds::{NanoUsd, Repo, Thread, names};
use kube::ResourceExt as _;

use super::child::cost_of;
use crate::gateway::context::Context;
use crate::gateway::thread_key::ThreadKey;

/// What the Threads of a roadmap may cost together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Purse {
    /// USD.
    pub cap: NanoUsd,
    /// The Threads that draw on it, with what each one has cost as far as that is on record.
    pub members: Vec<(ThreadKey, NanoUsd)>,
}

impl Purse {
    /// The purse of an item's Thread, if it has one.
    pub fn of(context: &Context, thread: &Thread, repo: &Repo) -> Option<Self> {
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
        let threads = || members.iter().map(|member| &***member);
        let cap = match parent {
            Some(parent) => find_cap(parent.status.as_ref()?.roadmap.as_deref()?, repo, threads()),
            // What was agreed holds without the conversation in which it was.
            None => threads().filter_map(budget_of).max().map(|cap| cap + raised_by(threads())),
        }?;
        let members = members.iter().map(|member| (ThreadKey::from(&***member), cost_of(member)));
        Some(Self { cap, members: members.collect() })
    }
}

/// What the items of a roadmap may cost together, as it was when this one began. USD.
pub fn budget_of(item: &Thread) -> Option<NanoUsd> {
    item.annotations().get(names::ANNOTATION_ROADMAP_BUDGET)?.parse().ok()
}

/// What people added in any of the Threads. USD.
fn raised_by<'a>(members: impl Iterator<Item = &'a Thread>) -> NanoUsd {
    let budgets = members.filter_map(|member| member.status.as_ref()?.budget.as_ref());
    budgets.fold(NanoUsd::ZERO, |all, budget| all + budget.raised_roadmap)
}

/// As it was said, or as the Repo says, with what people added in any of the Threads.
pub fn find_cap<'a>(
    run: &RoadmapRun,
    repo: &Repo,
    members: impl Iterator<Item = &'a Thread>,
) -> Option<NanoUsd> {
    run.approved_by.as_ref()?;
    agreed_budget(run, repo).map(|budget| budget + raised_by(members))
}

/// What was agreed at the beginning. USD.
pub fn agreed_budget(run: &RoadmapRun, repo: &Repo) -> Option<NanoUsd> {
    run.budget.or(repo.spec.roadmap.as_ref().and_then(|spec| spec.budget))
}
