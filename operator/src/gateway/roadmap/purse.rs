//! One purse for all Threads of a roadmap: their caps hold each by itself, and this one holds for their sum.

use std::sync::Arc;

use codebutler_crds::thread::RoadmapRun;
use codebutler_crds::{NanoUsd, Repo, Thread};
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
            context.thread(&ThreadKey { namespace: namespace.clone(), name: name.clone() })?;
        let run = parent.status.as_ref().and_then(|status| status.roadmap.as_deref())?;
        let all = context.threads.state();
        let is_member = |member: &&Arc<Thread>| {
            member.spec.parent.as_ref() == Some(&name)
                && member.namespace().as_ref() == Some(&namespace)
        };
        let members: Vec<&Arc<Thread>> = all.iter().filter(is_member).collect();
        let cap = cap(run, repo, members.iter().map(|member| &***member))?;
        let members = members.iter().map(|member| (ThreadKey::from(&***member), cost_of(member)));
        Some(Self { cap, members: members.collect() })
    }
}

/// As it was said, or as the Repo says, with what people added in any of the Threads.
pub fn cap<'a>(
    run: &RoadmapRun,
    repo: &Repo,
    members: impl Iterator<Item = &'a Thread>,
) -> Option<NanoUsd> {
    run.approved_by.as_ref()?;
    let own = repo.spec.roadmap.as_ref().and_then(|spec| spec.budget);
    let budgets = members.filter_map(|member| member.status.as_ref()?.budget.as_ref());
    let raised = budgets.fold(NanoUsd::ZERO, |all, budget| all + budget.raised_roadmap);
    run.budget.or(own).map(|budget| budget + raised)
}
