//! Changes of a Thread's status: pure, monotone, and the same when applied again.

use codebutler_crds::thread::{
    AgentSilence, ApprovalAnswer, ClosingChoice, HandOver, HandOverReason, MergeWait, PendingItem,
    PlanDetails, PostedPlan, PullRequest, RoleState, SettledQuestion, ThreadClosing,
};
use codebutler_crds::wire::RunReport;
use codebutler_crds::{SlackTs, ThreadStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::joint;

/// Pending items that a Thread can hold.
const PENDING: usize = 32;

/// Decisions about who goes on that are still to be told.
const HANDOVERS: usize = 8;

/// Settled questions whose messages are still to be edited.
const SETTLED: usize = 16;

/// [`SettledQuestion::choice`] of a question that was open when its Thread was closed.
pub const CLOSED: &str = "closed";

/// Reason why a change is not possible.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ChangeRefusal {
    /// Too many decisions wait for the roles already.
    #[error(
        "{PENDING} decisions wait in this thread already: another one can't be taken in until a role has worked on them"
    )]
    Full,
    /// Too many questions about single actions are open.
    #[error(
        "too many questions about single actions wait in this thread for an answer: people have to answer one of them first"
    )]
    Asked,
    /// The key of a question is that of another action.
    #[error("this key stands for another action: a new action needs a key of its own")]
    OtherAction,
    /// The question does not exist (any more).
    #[error("nobody was asked about this action: ask again with a new key")]
    NotAsked,
    /// The question was decided otherwise meanwhile.
    #[error("the decision how the thread ends is another one by now")]
    Undecided,
}

/// Takes in a role's report.
pub fn take_report(status: &mut ThreadStatus, role: &str, report: &RunReport, now: &Time) {
    let entry = status.roles.entry(role.to_owned()).or_default();
    entry.state = Some(report.state);
    entry.turns = report.turns;
    if let Some(sandbox) = &report.sandbox {
        entry.sandbox = Some(sandbox.chars().take(300).collect());
    }
    raise_mark(&mut entry.done, report.done.as_ref());
    // Once for each run, in the same write as its end: nobody forgets to look who goes on.
    entry.ended |= report.state != RoleState::Running && report.terminal.is_some();
    if report.state != RoleState::Running {
        status.pending.retain(|p| p.role != role || !report.handled.contains(&p.id));
    }
    // The click may have been quicker than the end of the run that asked.
    release_planner(status);
    if report.terminal.is_some()
        && let Some((by, ts)) = joint::leave_joint(status, role)
    {
        raise_inbox(status, &[by], &ts, now);
    }
    status.last_activity = Some(now.clone());
}

/// Marks that a role's pod is not heard of, or that it is. The mark of a pod that is not the role's
/// any more stays until there is another one: it tells why the pod goes.
pub fn set_silence(
    status: &mut ThreadStatus,
    role: &str,
    pod: &str,
    silent: Option<&AgentSilence>,
) {
    let own = status.roles.get_mut(role).filter(|own| own.pod_uid.as_deref() == Some(pod));
    if let Some(own) = own {
        own.silent = silent.cloned();
    }
}

/// Ends the waiting of the role whose proposed plan is approved, unless it has asked something
/// since or is to hear of the approval itself.
pub fn release_planner(status: &mut ThreadStatus) {
    let Some(plan) = status.plan.as_ref().filter(|plan| plan.approved_by.is_some()) else { return };
    let (role, asked) = (plan.role.clone(), plan.ts.clone());
    let wants = status.wants(&role);
    let Some(own) = status.roles.get_mut(&role) else { return };
    let since = own.said.as_ref().is_some_and(|said| *said != asked);
    if own.state == Some(RoleState::Waiting) && !since && !wants {
        own.state = Some(RoleState::Idle);
    }
}

/// Records the pull request; a merge commit once known stays, and what the thread was told.
pub fn set_pull_request(status: &mut ThreadStatus, pull_request: &PullRequest) {
    let known = status.pull_request.take().filter(|known| known.number == pull_request.number);
    let mut next = pull_request.clone();
    if let Some(known) = known {
        if next.title.is_empty() {
            next.title = known.title;
        }
        next.merge_commit = next.merge_commit.or(known.merge_commit);
        next.state = next.state.or(known.state);
        next.seen = next.seen.max(known.seen);
        next.updated = next.updated.max(known.updated);
    }
    status.pull_request = Some(Box::new(next));
}

pub fn raise_inbox(status: &mut ThreadStatus, roles: &[String], ts: &SlackTs, now: &Time) {
    for role in roles {
        let entry = status.roles.entry(role.clone()).or_default();
        if raise_mark(&mut entry.inbox, Some(ts)) {
            status.last_activity = Some(now.clone());
        }
    }
}

/// Appends a pending item unless its id is there.
pub fn add_pending(status: &mut ThreadStatus, pending: &PendingItem) -> Result<(), ChangeRefusal> {
    if status.pending.iter().any(|p| p.id == pending.id) {
        return Ok(());
    }
    if status.pending.len() >= PENDING {
        return Err(ChangeRefusal::Full);
    }
    // The role has to exist in the map for the controller to find that it wants something.
    status.roles.entry(pending.role.clone()).or_default();
    status.pending.push(pending.clone());
    Ok(())
}

/// Has the conversation told who goes on.
pub fn add_handover(status: &mut ThreadStatus, decided: HandOver) {
    if status.handovers.iter().any(|known| known.id == decided.id) {
        return;
    }
    if status.handovers.len() >= HANDOVERS {
        // Whom these are about knows already.
        let known = |one: &HandOver| one.why == HandOverReason::Approved;
        let place = status.handovers.iter().position(known).unwrap_or_default();
        status.handovers.remove(place);
    }
    status.handovers.push(decided);
}

/// A role said something, to another role or to the people. Only grows.
pub fn raise_said(status: &mut ThreadStatus, role: &str, ts: &SlackTs, to: Option<&str>) {
    let own = status.roles.entry(role.to_owned()).or_default();
    if raise_mark(&mut own.said, Some(ts)) {
        own.addressed = to.map(str::to_owned);
    }
}

/// A role asks people something.
pub fn raise_asked(status: &mut ThreadStatus, ts: &SlackTs) {
    raise_mark(&mut status.asked, Some(ts));
}

/// Records a plan unless this or a newer one is known. What it replaces can't be answered any more.
pub fn set_plan(status: &mut ThreadStatus, plan: &PostedPlan) {
    if status.plan.as_ref().is_none_or(|known| known.ts < plan.ts) {
        let before = status.plan.replace(Box::new(plan.clone()));
        let open = |plan: &PostedPlan| plan.approved_by.is_none() && plan.declined_by.is_none();
        if let Some(before) = before.filter(|before| open(before)) {
            settle_question(status, SettledQuestion { ts: before.ts, choice: None, user: None });
        }
    }
}

/// Records what the plan at `details.plan` says of itself, if that is the current one.
pub fn set_plan_details(status: &mut ThreadStatus, details: &PlanDetails) {
    if status.plan.as_ref().is_some_and(|plan| plan.ts == details.plan) {
        status.plan_details = Some(Box::new(details.clone()));
    }
}

/// Has the message of a question lose its buttons.
pub fn settle_question(status: &mut ThreadStatus, settled: SettledQuestion) {
    // The learnings of one message are settled one by one.
    let part =
        |one: &SettledQuestion| one.choice.as_ref().is_some_and(|id| id.starts_with("learning:"));
    let same = |known: &SettledQuestion| {
        known.ts == settled.ts
            && (known.choice == settled.choice || !part(known) || !part(&settled))
    };
    if !status.settled.iter().any(same) {
        if status.settled.len() >= SETTLED {
            status.settled.remove(0);
        }
        status.settled.push(settled);
    }
}

/// Has the messages of all open questions lose their buttons: nobody can answer any more.
pub fn settle_open(status: &mut ThreadStatus) {
    for ts in pressable_questions(status) {
        settle_question(
            status,
            SettledQuestion { ts, choice: Some(CLOSED.to_owned()), user: None },
        );
    }
    status.warned = None;
    status.update_offer = None;
    status.heard.clear();
    status.standing.clear();
    status.offers.retain(|offer| !offer.has_buttons());
    status.closing = status.closing.take().filter(|closing| closing.choice.is_some());
    let answered = |plan: &PostedPlan| plan.approved_by.is_some() || plan.declined_by.is_some();
    status.plan = status.plan.take().filter(|plan| answered(plan));
    for question in &mut status.approvals {
        question.answer.get_or_insert(ApprovalAnswer::Expired);
    }
    if let Some(run) = &mut status.roadmap {
        run.proposal = None;
    }
    if let Some(train) = &mut status.train {
        train.proposal = None;
    }
    if let Some(split) = &mut status.split {
        split.declined |= split.is_open();
        split.halves.retain(|half| half.undo.is_some());
    }
    if let Some(budget) = &mut status.budget {
        budget.ask = None;
    }
}

/// Messages whose buttons people may press: all that wait for an answer, and offers that nobody waits for.
pub fn pressable_questions(status: &ThreadStatus) -> Vec<SlackTs> {
    let optional = status.offers.iter().filter(|offer| offer.optional && offer.has_buttons());
    let mut found = open_questions(status);
    found.extend(optional.map(|offer| offer.ts.clone()));
    found
}

/// Messages that ask people for an answer.
pub fn open_questions(status: &ThreadStatus) -> Vec<SlackTs> {
    let plan = status.plan.as_ref();
    let plan = plan.filter(|plan| plan.approved_by.is_none() && plan.declined_by.is_none());
    let closing = status.closing.as_ref().filter(|closing| closing.choice.is_none());
    let actions = status.approvals.iter().filter(|question| question.answer.is_none());
    let offers = status.offers.iter().filter(|offer| offer.is_open());
    let money = status.budget.as_ref().and_then(|budget| budget.ask.as_ref());
    let roadmap = status.roadmap.as_ref().and_then(|run| run.open_question());
    let mut found: Vec<SlackTs> = plan.map(|plan| plan.ts.clone()).into_iter().collect();
    found.extend(closing.map(|closing| closing.ts.clone()));
    found.extend(actions.map(|question| question.ts.clone()));
    found.extend(offers.map(|offer| offer.ts.clone()));
    found.extend(money.map(|ask| ask.ts.clone()));
    found.extend(roadmap.map(|asked| asked.ts.clone()));
    let train = status.train.as_ref().and_then(|train| train.open_question());
    found.extend(train.map(|asked| asked.ts.clone()));
    if let Some(split) = &status.split {
        found.extend(split.is_open().then(|| split.asked.clone()));
        let halves = split.halves.iter().filter(|half| half.undo.is_none());
        found.extend(halves.map(|half| half.asked.clone()));
    }
    found.extend(status.warned.clone());
    found.extend(status.update_offer.clone());
    let heard = status.heard.iter().filter(|one| !one.corrected);
    found.extend(heard.map(|one| one.ts.clone()));
    found
}

pub fn done_settling(status: &mut ThreadStatus, done: &[SettledQuestion]) {
    status.settled.retain(|settled| !done.contains(settled));
}

/// Records an approval if the plan at `ts` is the current one and nobody approved or declined it
/// yet. Returns whether it did.
pub fn approve_plan(status: &mut ThreadStatus, ts: &SlackTs, user: &str) -> bool {
    match &mut status.plan {
        Some(plan)
            if plan.ts == *ts && plan.approved_by.is_none() && plan.declined_by.is_none() =>
        {
            plan.approved_by = Some(user.to_owned());
            true
        }
        _ => false,
    }
}

/// Records that the plan at `ts` is not wanted as it is, if it is the current one and nobody has
/// approved it.
pub fn decline_plan(status: &mut ThreadStatus, ts: &SlackTs, user: &str) {
    if let Some(plan) = status.plan.as_mut().filter(|p| p.ts == *ts && p.approved_by.is_none()) {
        plan.declined_by = Some(user.to_owned());
    }
}

/// Records a question how to end the thread unless this or a newer one is known.
pub fn set_closing(status: &mut ThreadStatus, closing: &ThreadClosing) {
    if status.closing.as_ref().is_none_or(|known| known.ts < closing.ts) {
        let before = status.closing.replace(Box::new(closing.clone()));
        if let Some(before) = before.filter(|before| before.choice.is_none()) {
            settle_question(status, SettledQuestion { ts: before.ts, choice: None, user: None });
        }
    }
}

/// Records the answer if the question at `ts` is the current one and open. Returns whether it did.
pub fn decide_closing(
    status: &mut ThreadStatus,
    ts: &SlackTs,
    choice: ClosingChoice,
    user: &str,
) -> bool {
    match &mut status.closing {
        Some(closing) if closing.ts == *ts && closing.choice.is_none() => {
            closing.choice = Some(choice);
            closing.decided_by = Some(user.to_owned());
            true
        }
        _ => false,
    }
}

/// Records what the merge that was decided at `ts` waits for, or that it does no longer.
pub fn set_wait(
    status: &mut ThreadStatus,
    ts: &SlackTs,
    waits: Option<MergeWait>,
) -> Result<(), ChangeRefusal> {
    let closing = status.closing.as_mut().filter(|closing| closing.ts == *ts);
    closing.ok_or(ChangeRefusal::Undecided)?.waits = waits;
    Ok(())
}

/// Moves a mark forward, never back. Returns whether it moved.
fn raise_mark(mark: &mut Option<SlackTs>, to: Option<&SlackTs>) -> bool {
    match (&mark, to) {
        (Some(at), Some(to)) if at >= to => false,
        (_, Some(to)) => {
            *mark = Some(to.clone());
            true
        }
        (_, None) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ts(text: &str) -> SlackTs {
        text.parse().unwrap()
    }

    fn now() -> Time {
        Time(jiff::Timestamp::UNIX_EPOCH)
    }

    fn pending(id: usize) -> PendingItem {
        PendingItem {
            id: id.to_string(),
            role: "pm".to_owned(),
            kind: "plan".to_owned(),
            choice: "approve".to_owned(),
            user: "U1".to_owned(),
            message: ts("5.000000"),
        }
    }

    #[test]
    fn marks_only_grow() {
        let mut status = ThreadStatus::default();
        let roles = ["pm".to_owned()];
        raise_inbox(&mut status, &roles, &ts("1000000000.000001"), &now());
        raise_inbox(&mut status, &roles, &ts("999999999.900000"), &now());
        assert_eq!(status.roles["pm"].inbox, Some(ts("1000000000.000001")));

        let done = |done: &str| RunReport {
            state: RoleState::Idle,
            done: Some(ts(done)),
            handled: Vec::new(),
            turns: 3,
            reason: None,
            terminal: None,
            sandbox: None,
        };
        take_report(&mut status, "pm", &done("1000000000.000001"), &now());
        take_report(&mut status, "pm", &done("5.000000"), &now());
        assert!(!status.wants("pm"));
        // While it goes on with others.
        raise_inbox(&mut status, &roles, &ts("1000000003.000000"), &now());
        let part = RunReport {
            state: RoleState::Running,
            handled: vec!["a".into()],
            ..done("1000000002.000000")
        };
        take_report(&mut status, "pm", &part, &now());
        assert!(status.wants("pm"));
        assert_eq!(status.roles["pm"].done, Some(ts("1000000002.000000")));
    }

    #[test]
    fn who_proposed_a_plan_waits_no_longer_once_it_is_approved() {
        let mut status = ThreadStatus::default();
        let (role, hash) = ("pm".to_owned(), "aa".to_owned());
        let plan =
            PostedPlan { ts: ts("7.000000"), hash, role, approved_by: None, declined_by: None };
        set_plan(&mut status, &plan);
        raise_said(&mut status, "pm", &ts("7.000000"), None);
        let waits = RunReport {
            state: RoleState::Waiting,
            done: None,
            handled: vec![],
            turns: 1,
            reason: None,
            terminal: None,
            sandbox: None,
        };
        take_report(&mut status, "pm", &waits, &now());
        assert_eq!(status.roles["pm"].state, Some(RoleState::Waiting));
        // Approved before the run that asked has ended.
        approve_plan(&mut status, &ts("7.000000"), "U1");
        take_report(&mut status, "pm", &waits, &now());
        assert_eq!(status.roles["pm"].state, Some(RoleState::Idle));
        // It has asked something else since.
        raise_said(&mut status, "pm", &ts("8.000000"), None);
        take_report(&mut status, "pm", &waits, &now());
        assert_eq!(status.roles["pm"].state, Some(RoleState::Waiting));
    }

    #[test]
    fn a_report_removes_what_it_handled_and_nothing_of_others() {
        let mut status = ThreadStatus::default();
        for id in 0..3 {
            add_pending(&mut status, &pending(id)).unwrap();
        }
        status.pending[2].role = "coder".to_owned();
        let handled = vec!["0".to_owned(), "2".to_owned()];
        let done = RunReport {
            state: RoleState::Waiting,
            done: None,
            handled,
            turns: 1,
            reason: None,
            terminal: None,
            sandbox: None,
        };
        take_report(&mut status, "pm", &done, &now());
        let left: Vec<_> = status.pending.iter().map(|p| p.id.as_str()).collect();
        assert_eq!(left, ["1", "2"]);
    }

    #[test]
    fn pending_items_are_kept_once_and_refused_when_there_is_no_room() {
        let mut status = ThreadStatus::default();
        for id in 0..PENDING {
            add_pending(&mut status, &pending(id)).unwrap();
            add_pending(&mut status, &pending(id)).unwrap();
        }
        assert_eq!(status.pending.len(), PENDING);
        assert_eq!(add_pending(&mut status, &pending(99)), Err(ChangeRefusal::Full));
        assert_eq!(add_pending(&mut status, &pending(0)), Ok(()));
    }

    #[test]
    fn only_the_current_plan_can_be_approved_and_only_once() {
        let mut status = ThreadStatus::default();
        let plan = |at: &str| PostedPlan {
            ts: ts(at),
            hash: "aa".to_owned(),
            role: "pm".to_owned(),
            approved_by: None,
            declined_by: None,
        };
        set_plan(&mut status, &plan("7.000000"));
        set_plan(&mut status, &plan("5.000000"));
        assert_eq!(status.settled, []);
        assert!(!approve_plan(&mut status, &ts("5.000000"), "U1"));
        assert!(approve_plan(&mut status, &ts("7.000000"), "U1"));
        assert!(!approve_plan(&mut status, &ts("7.000000"), "U2"));
        // The same post repeated does not take the approval back.
        set_plan(&mut status, &plan("7.000000"));
        assert_eq!(status.plan.as_ref().unwrap().approved_by.as_deref(), Some("U1"));
        // An answered plan lost its buttons with the answer; an open one loses them to the next.
        set_plan(&mut status, &plan("8.000000"));
        assert_eq!(status.settled, []);
        set_plan(&mut status, &plan("9.000000"));
        let settled = status.settled.clone();
        assert_eq!(settled.iter().map(|s| s.ts.as_str()).collect::<Vec<_>>(), ["8.000000"]);
        done_settling(&mut status, &settled);
        assert_eq!(status.settled, []);
    }
}
