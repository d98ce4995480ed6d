//! Decides what is to be done about a Thread. Pure: no clock, no network, no cache.

use std::collections::BTreeSet;

use codebutler_crds::thread::{PeopleQuestion, RoadmapEnd, RoleState, ThreadState};
use codebutler_crds::{Thread, condition};
use codebutler_runtime::notice::EventNotice;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::collect;
use super::ends;
use super::observe::{ObservedThread, RoleAdmission};
use super::plan::{LabelRepair, ThreadPlan};
use super::queue;
use super::role;
use super::status::OwnThreadStatus;
use super::view::{
    RoleView, ThreadView, find_definition, is_idle, not_ending, pod_id, role_of, time_to_end,
};
use super::waits::{find_wait, reason_of};
use super::{disruption, seat, volume, volume_need};
use crate::args::ControllerArgs;
use crate::health::{HealthLevel, ObjectHealth};
use crate::labels;
use crate::pod_life::{self, PodLife};
use crate::refusals;

/// Decides what to do about `thread` at `now`.
pub(super) fn plan_thread(
    thread: &Thread,
    observed: &ObservedThread,
    args: &ControllerArgs,
    now: Timestamp,
) -> ThreadPlan {
    let status = thread.status.clone().unwrap_or_default();
    let mut plan = ThreadPlan { status: OwnThreadStatus::of(&status), ..ThreadPlan::default() };
    if thread.is_going() {
        ends::plan_leaving(thread, observed, &mut plan, now);
        keep_slots(thread, observed, &mut plan, now);
        give_slots(&observed.admission, &mut plan);
        return plan;
    }
    plan.status.queue_position = None;
    plan.status.waits = None;
    let verdict = match (thread.spec.state, &observed.repo) {
        (ThreadState::Closed, _) => ends::plan_closing(thread, observed, &mut plan, now),
        (ThreadState::Active, None) => ends::without_repo(thread, observed, &mut plan, now),
        (ThreadState::Active, Some(repo)) => {
            let view = ThreadView { thread, status: &status, repo, observed, args, now };
            plan_work(&view, &mut plan)
        }
    };
    keep_slots(thread, observed, &mut plan, now);
    give_slots(&observed.admission, &mut plan);
    plan.status.observed_generation = thread.metadata.generation;
    if thread.spec.state == ThreadState::Active {
        plan.status.waits = find_wait(&status, &plan.status, &verdict).map(str::to_owned);
    }
    plan.notices.extend(verdict.notice(&status.conditions));
    verdict.write(&mut plan.status.conditions, thread.metadata.generation, now);
    worktree_ready(thread, observed, &mut plan, now);
    plan
}

fn plan_work(view: &ThreadView, plan: &mut ThreadPlan) -> ObjectHealth {
    let mut verdicts: Vec<ObjectHealth> = check_opening(view.thread).into_iter().collect();
    seat::finish_taking(view, plan);
    let mut names: BTreeSet<&str> = view.status.roles.keys().map(String::as_str).collect();
    names.extend(view.status.pending.iter().map(|pending| pending.role.as_str()));
    let pods: Vec<(String, &Pod)> =
        view.observed.pods.iter().map(|pod| (role_of(view.thread, pod), &**pod)).collect();
    names.extend(pods.iter().map(|(role, _)| role.as_str()));
    for name in names {
        let role = RoleView {
            name,
            definition: find_definition(view.observed, name),
            pod: pods.iter().find(|(role, _)| role == name).map(|(_, pod)| *pod),
            wanted: view.status.wants(name),
        };
        verdicts.extend(role::decide_role(view, &role, plan));
    }
    if let Some(verdict) = view.observed.lineage.verdict(view.thread) {
        plan.create_pods.clear();
        verdicts.push(verdict);
    }
    if plan.take_claim.is_some() {
        plan.create_pods.clear();
    } else if let Some(verdict) = volume_need::provide_volume(view, plan) {
        verdicts.retain(|known| known.reason != "PodStarting");
        verdicts.push(verdict);
    }
    if make_room(view, &pods, plan) {
        // Told first: with it gone, the pod finds a node.
        verdicts.splice(0..0, in_the_way(view, &pods, plan));
    }
    if let Some(refusal) = &view.observed.refusal {
        plan.create_volume = None;
        plan.create_pods.clear();
        verdicts.retain(|known| known.reason != "PodStarting");
        verdicts.push(refusals::refusal_health(refusal, &view.repo.spec.policy.redaction));
    }
    if !verdicts.iter().any(|verdict| verdict.reason == "GatewayAway") {
        verdicts.extend(check_gateway(view, plan));
    }
    look_at_labels(view, plan);
    disruption::plan_shields(view, plan);
    queue::tell_place(view.repo, view.thread, view.observed, plan, view.now);
    tell_progress(view, &pods, plan);
    tell_budget(view, plan);
    collect::tell_inactivity(view, plan);
    is_suspended(view, plan);
    condition::clear_condition(&mut plan.status.conditions, condition::FINISHED);
    ObjectHealth::worst(verdicts, at_rest(view, &pods))
}

/// Reports that no gateway serves, if work waits for one.
fn check_gateway(view: &ThreadView, plan: &ThreadPlan) -> Option<ObjectHealth> {
    let why = view.observed.serving.as_ref().err()?;
    let message = format!("{why}; what was begun goes on by itself when one does");
    let waits = !plan.busy.is_empty() || !plan.create_pods.is_empty();
    waits.then(|| ObjectHealth::new(HealthLevel::Trouble, "GatewayAway", message))
}

/// Sets or clears the condition that says that the Repo is suspended: nothing new starts then.
fn is_suspended(view: &ThreadView, plan: &mut ThreadPlan) {
    let conditions = &mut plan.status.conditions;
    if view.repo.spec.suspend {
        role::describe_hold(view).hold(conditions, view.thread.metadata.generation, view.now);
    } else {
        condition::clear_condition(conditions, condition::SUSPENDED);
    }
}

/// Plans a repair of missing labels. Watches and the network policy find pods and claim by them; without them they
/// are not even seen.
fn look_at_labels(view: &ThreadView, plan: &mut ThreadPlan) {
    let thread = view.thread;
    let pods = view.observed.pods.iter().filter(|pod| PodLife::of(pod) != PodLife::Ending);
    let mut pods = pods
        .map(|pod| labels::lacks_labels(&**pod, &labels::of_pod(thread, &role_of(thread, pod))));
    let claim = view.observed.volume.as_deref();
    let ending = volume::VolumeState::of(claim) == volume::VolumeState::Ending;
    let claimed = claim.filter(|_| !ending);
    let bare = pods.any(|lacks| lacks)
        || claimed.is_some_and(|claim| labels::lacks_labels(claim, &labels::of_claim(thread)));
    let unseen = claim.is_none()
        && plan.create_volume.is_none()
        && condition::is_true(&view.status.conditions, condition::WORKTREE_READY);
    plan.repair =
        if unseen { Some(LabelRepair::Unseen) } else { bare.then_some(LabelRepair::Shown) };
}

/// Whatever becomes of the Thread: a pod that has a slot and is on its way out may still use it.
fn keep_slots(thread: &Thread, observed: &ObservedThread, plan: &mut ThreadPlan, now: Timestamp) {
    let Some(status) = &thread.status else { return };
    for pod in &observed.pods {
        let life = PodLife::of(pod);
        if life != PodLife::Ending && !(life.is_live() && plan.delete_pods.contains(&pod_id(pod))) {
            continue;
        }
        let (role, left) = (role_of(thread, pod), time_to_end(pod, now));
        let works = status.is_running(&role) || status.wants(&role);
        if works && left.is_positive() && status.may_run(&role, false) {
            plan.busy.insert(role);
            plan.look_again_in(left.unsigned_abs());
        }
    }
}

/// Writes down who has a slot, once that is known.
fn give_slots(admission: &RoleAdmission, plan: &mut ThreadPlan) {
    let RoleAdmission::Only { roles, .. } = admission else { return };
    for own in plan.status.roles.values_mut() {
        own.admitted = false;
    }
    for role in roles {
        plan.status.roles.entry(role.clone()).or_default().admitted = true;
    }
}

/// The gateway opens the conversation of a prompt, or says what it waits for.
fn check_opening(thread: &Thread) -> Option<ObjectHealth> {
    if thread.conversation().is_some() {
        return None;
    }
    let conditions = thread.status.iter().flat_map(|status| &status.conditions);
    let why = conditions.into_iter().find(|c| c.type_ == condition::OPENED && c.status == "False");
    Some(match why {
        Some(why) => ObjectHealth::new(HealthLevel::Trouble, "NotOpened", why.message.clone()),
        None => ObjectHealth::new(
            HealthLevel::Reconciling,
            "Opening",
            "the gateway opens a conversation in Slack",
        ),
    })
}

/// A pod that finds no room on the Thread's node: its siblings that sleep go first, and once all are
/// gone, the Thread moves.
///
/// Answers whether there is such a pod.
fn make_room(view: &ThreadView, pods: &[(String, &Pod)], plan: &mut ThreadPlan) -> bool {
    let stuck = |pod: &Pod| {
        PodLife::of(pod) == PodLife::Starting
            && pod_life::find_trouble(pod, view.now)
                .is_some_and(|trouble| trouble.reason == "PodUnschedulable")
    };
    if !pods.iter().any(|(role, pod)| view.status.wants(role) && stuck(pod)) {
        return false;
    }
    for (role, pod) in pods.iter().filter(|(_, pod)| is_idle(view, pod)) {
        let doomed = pod_id(pod);
        if !plan.delete_pods.contains(&doomed) {
            plan.delete_pods.push(doomed);
            let note = format!("role `{role}` sleeps to make room on the node");
            plan.notices.push(EventNotice::normal("Suspended", note));
        }
    }
    true
}

/// A sibling that is on its way out and does not go, on a node that is lost: pods of a Thread share a
/// node, so that none finds another one as long as it is there.
fn in_the_way(
    view: &ThreadView,
    pods: &[(String, &Pod)],
    plan: &mut ThreadPlan,
) -> Option<ObjectHealth> {
    // For a role that is wanted, this is told anyhow.
    let ending = pods
        .iter()
        .filter(|(role, pod)| PodLife::of(pod) == PodLife::Ending && !view.status.wants(role));
    let late = |pod: &Pod| time_to_end(pod, view.now);
    let mut lost = None;
    for (_, pod) in ending {
        match late(pod) {
            left if left.is_positive() => plan.look_again_in(left.unsigned_abs()),
            _ => lost = Some(not_ending(pod)),
        }
    }
    lost
}

/// Reports the role at work, and if the Thread waits for a person.
fn tell_progress(view: &ThreadView, pods: &[(String, &Pod)], plan: &mut ThreadPlan) {
    let roles = &view.status.roles;
    let running = |name: &str| {
        view.status.is_running(name)
            && pods.iter().any(|(role, pod)| role == name && PodLife::of(pod).is_live())
    };
    let active = roles.iter().filter(|(name, _)| running(name));
    let active = active.max_by(|(_, a), (_, b)| a.inbox.cmp(&b.inbox)).map(|(name, _)| name);
    if let Some(name) = active {
        plan.status.active_role = Some(name.clone());
        let phase = find_definition(view.observed, name).and_then(|role| role.spec.phase.clone());
        plan.status.phase = phase.or(plan.status.phase.take());
    }
    let busy = active.is_some() || roles.keys().any(|name| view.status.wants(name));
    let asks: Vec<_> = roles
        .iter()
        .filter(|(_, role)| role.state == Some(RoleState::Waiting))
        .map(|(name, _)| format!("`{name}`"))
        .collect();
    let mut questions = view.status.questions_of_roles();
    if asks.is_empty() {
        // A merge that somebody holds back is open and waits for nobody.
        questions.retain(|question| question.is_own());
    }
    let asked = questions.first().filter(|_| !busy && view.status.pending.is_empty());
    let awaiting = asked.is_some();
    let (reason, message) = match asked {
        Some(first) => {
            let who = if asks.is_empty() { "CodeButler".to_owned() } else { asks.join(", ") };
            (reason_of(*first), format!("{who} waits for people {}", name_deeds(&questions)))
        }
        None => ("NothingAsked", "nobody waits for a person".to_owned()),
    };
    condition::set_condition(
        &mut plan.status.conditions,
        condition::AWAITING_USER,
        awaiting,
        reason,
        message,
        view.thread.metadata.generation,
        &Time(view.now),
    );
}

/// Reports if a budget limit stops the Thread, as the gateway says. The condition is absent while nothing is asked.
fn tell_budget(view: &ThreadView, plan: &mut ThreadPlan) {
    let asked = view.status.budget.as_ref().and_then(|budget| budget.ask.as_ref());
    let Some(ask) = asked else {
        condition::clear_condition(&mut plan.status.conditions, condition::BUDGET_EXCEEDED);
        return;
    };
    let (limit, repo) = (ask.limit.name(), &view.thread.spec.repo);
    let roles: Vec<_> = ask.roles.iter().map(|role| format!("`{role}`")).collect();
    let remedy = if ask.limit.is_raised_in_thread() {
        "answer in the Slack thread, or raise it in spec.limits"
    } else {
        "it goes on by itself, or once somebody raises it in spec.limits"
    };
    let message = format!(
        "{} waits: the limit {limit} of Repo `{repo}` is reached; {remedy}",
        roles.join(", ")
    );
    condition::set_condition(
        &mut plan.status.conditions,
        condition::BUDGET_EXCEEDED,
        true,
        "LimitReached",
        message,
        view.thread.metadata.generation,
        &Time(view.now),
    );
}

fn at_rest(view: &ThreadView, pods: &[(String, &Pod)]) -> ObjectHealth {
    let live = pods.iter().filter(|(_, pod)| PodLife::of(pod).is_live());
    let awake: Vec<_> = live.map(|(role, _)| format!("`{role}`")).collect();
    let questions = view.status.people_questions();
    let ended = view.status.roadmap.as_ref().and_then(|run| run.ended);
    let (reason, message) = if !awake.is_empty() {
        ("Awake", format!("awake: {}", awake.join(", ")))
    } else if !questions.is_empty() {
        ("Asked", format!("people were asked {}", name_deeds(&questions)))
    } else if let Some(ask) = view.status.budget.as_ref().and_then(|budget| budget.ask.as_ref()) {
        let message = if ask.limit.is_raised_in_thread() {
            "people were asked to raise a limit: answer in the Slack thread"
        } else {
            "a limit is reached: it goes on by itself, or once somebody raises it in spec.limits"
        };
        ("Asked", message.to_owned())
    } else if ended == Some(RoadmapEnd::Done) {
        ("RoadmapDone", "each approved item of the roadmap is merged; nothing to do".to_owned())
    } else {
        ("Asleep", "nothing to do".to_owned())
    };
    ObjectHealth::new(HealthLevel::Ready, reason, message)
}

/// Names what people have to do, and where.
fn name_deeds(questions: &[PeopleQuestion]) -> String {
    let deeds: Vec<_> = questions.iter().map(|question| question.deed()).collect();
    format!("{}: answer in the Slack thread", deeds.join(" and "))
}

fn worktree_ready(
    thread: &Thread,
    observed: &ObservedThread,
    plan: &mut ThreadPlan,
    now: Timestamp,
) {
    let (ready, reason, message) = match volume::VolumeState::of(observed.volume.as_deref()) {
        volume::VolumeState::Bound if observed.unexpanded.is_some() => {
            (true, "NotExpanded", observed.unexpanded.as_deref().unwrap_or_default())
        }
        volume::VolumeState::Bound => (true, "Bound", "the worktree's volume exists"),
        volume::VolumeState::Pending => {
            (false, "Pending", "the claim waits for a volume, which may need its first pod")
        }
        volume::VolumeState::Lost => (false, "Lost", "the volume behind the claim is gone"),
        volume::VolumeState::Ending => (false, "Ending", "the volume is being removed"),
        volume::VolumeState::Absent => (false, "Absent", "there is no volume"),
    };
    condition::set_condition(
        &mut plan.status.conditions,
        condition::WORKTREE_READY,
        ready,
        reason,
        message,
        thread.metadata.generation,
        &Time(now),
    );
}
