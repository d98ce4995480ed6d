//! Decisions of people: which button means what, and what a message or a click changes in a Thread.
//! Which words count is in [`words`](super::words). Pure: applied again, nothing changes.

use codebutler_crds::thread::{
    Closing, ClosingChoice, HandOver, HandOverReason, Pending, RoleState, Settled,
};
use codebutler_crds::wire::Decision;
use codebutler_crds::{SlackTs, ThreadStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::question::{self, Words};
use super::words::Intent;
use super::{approval, keep};
use crate::gateway::dispatch::{Team, reply};
use crate::gateway::threads::{self, Refusal};

/// A button under a message that asks for a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Choice {
    /// The plan is to be carried out as it is.
    Approve,
    /// The plan is to be changed; how, the user says next.
    Modify,
    /// The plan is not wanted.
    Reject,
    /// Merge the pull request.
    Merge,
    /// Not yet.
    Hold,
    /// Close without merging.
    Discard,
}

impl Choice {
    /// The buttons of a decision, in order.
    pub const fn of(decision: Decision) -> [Self; 3] {
        match decision {
            Decision::Plan => [Self::Approve, Self::Modify, Self::Reject],
            Decision::Merge => [Self::Merge, Self::Hold, Self::Discard],
        }
    }

    /// Which decision it belongs to.
    pub const fn decision(self) -> Decision {
        match self {
            Self::Approve | Self::Modify | Self::Reject => Decision::Plan,
            Self::Merge | Self::Hold | Self::Discard => Decision::Merge,
        }
    }

    /// In pending items and action ids.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Approve => "approve",
            Self::Modify => "modify",
            Self::Reject => "reject",
            Self::Merge => "merge",
            Self::Hold => "hold",
            Self::Discard => "discard",
        }
    }

    /// On the button.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Approve => "Approve",
            Self::Modify => "Modify",
            Self::Reject => "Reject",
            Self::Merge => "Merge",
            Self::Hold => "Hold",
            Self::Discard => "Close without merge",
        }
    }

    /// In place of the buttons, once chosen.
    pub const fn told(self) -> &'static str {
        match self {
            Self::Approve => ":white_check_mark: Approved by",
            Self::Modify => ":pencil2: Changes wanted by",
            Self::Reject => ":x: Rejected by",
            Self::Merge => ":white_check_mark: Merge approved by",
            Self::Hold => ":double_vertical_bar: Held by",
            Self::Discard => ":wastebasket: Closed without merge by",
        }
    }

    /// Slack's `action_id`: `plan:approve` and so on.
    pub fn action_id(self) -> String {
        format!("{}:{}", self.decision().kind(), self.name())
    }

    /// The button that has an `action_id`.
    pub fn by_action_id(id: &str) -> Option<Self> {
        let all = [Decision::Plan, Decision::Merge].map(Self::of);
        all.into_iter().flatten().find(|choice| choice.action_id() == id)
    }
}

/// A person's message, as far as a Thread is concerned with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// The message.
    pub ts: SlackTs,
    /// Slack user id.
    pub user: String,
    /// Roles that it mentions.
    pub mentioned: Vec<String>,
    /// Set if it is nothing but a decision.
    pub intent: Option<Intent>,
    /// Said by a bot that may write here.
    pub is_bot: bool,
}

/// A decision that a message or click made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decided {
    /// The message that asked; its buttons are to go.
    pub asked: SlackTs,
    /// What was chosen.
    pub choice: Choice,
}

/// What a person's message came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Taken {
    /// Something to read.
    Message,
    /// A decision.
    Decided(Decided),
    /// The answer to a question about an action, in time or too late.
    Answered,
    /// What was approved for the thread is not any more.
    Revoked,
    /// A yes or no that can mean several things.
    Unclear,
    /// A decision of somebody who may not make it, and why.
    Refused(&'static str),
}

impl Said {
    /// Whether it can let something happen, or not.
    pub fn decides(&self) -> bool {
        !matches!(self.intent, None | Some(Intent::Stop | Intent::Revoke))
    }
}

/// The roles that a stored message of a person is for. The same whenever it is asked, whatever the
/// roles do by then.
pub fn recipients(status: &ThreadStatus, said: &Said, team: &Team) -> Vec<String> {
    if !said.mentioned.is_empty() {
        return said.mentioned.clone();
    }
    // It ends what runs and wakes nobody.
    if matches!(said.intent, Some(Intent::Stop | Intent::Revoke)) {
        return Vec::new();
    }
    let asker = reply::stored(status, &said.ts)
        .or_else(|| question(status, said, team).map(|(role, _)| role))
        .or(team.first());
    asker.map(str::to_owned).into_iter().collect()
}

/// The role that a message which names nobody is for as of now: whoever asked, stopped or works.
fn replied_to(status: &ThreadStatus, said: &Said, team: &Team) -> Option<String> {
    let answers = question(status, said, team).is_some_and(|(_, open)| open);
    if !said.mentioned.is_empty() || said.intent == Some(Intent::Stop) || answers {
        return None;
    }
    let default = recipients(status, said, team);
    let default = default.first().map(String::as_str);
    // Delivered again.
    let known = default.and_then(|role| status.roles.get(role)?.inbox.as_ref());
    if known.is_some_and(|known| *known >= said.ts) {
        return None;
    }
    let role = reply::find(status, team, &said.ts)?;
    (default != Some(role)).then(|| role.to_owned())
}

/// Who hears of a decision in words, and whether it still is one: only about what was asked before the
/// message, so that words can't approve what came after them.
fn question<'a>(status: &'a ThreadStatus, said: &Said, team: &'a Team) -> Option<(&'a str, bool)> {
    match question::answered(status, said) {
        Words::Action(asked) => return Some((&asked.role, true)),
        Words::Plan(plan) => return Some((carries_out(team, &plan.role), true)),
        Words::Merge(closing) => return Some((&closing.role, true)),
        Words::Nothing | Words::Unclear => {}
    }
    let plan = status.plan.as_ref().filter(|plan| plan.ts < said.ts);
    let closing = status.closing.as_ref().filter(|closing| closing.ts < said.ts);
    match said.intent? {
        Intent::Approve => plan.map(|plan| match plan.declined_by {
            None => (carries_out(team, &plan.role), false),
            Some(_) => (plan.role.as_str(), false),
        }),
        Intent::Merge => closing.map(|closing| (closing.role.as_str(), false)),
        Intent::Close => closing.map(|closing| (closing.role.as_str(), closing.choice.is_none())),
        Intent::Always | Intent::Revoke | Intent::Deny | Intent::Stop => None,
    }
}

/// Who goes on once a plan is approved: nobody in between has to pass it on.
fn carries_out<'a>(team: &'a Team, planner: &'a str) -> &'a str {
    team.implements.as_deref().unwrap_or(planner)
}

/// Takes in a person's message: marks, and the decision if it is one.
///
/// # Errors
/// When a decision can't be kept because too many wait.
pub fn take_message(
    status: &mut ThreadStatus,
    said: &Said,
    team: &Team,
    now: &Time,
) -> Result<Taken, Refusal> {
    if said.mentioned.is_empty() && question::answered(status, said) == Words::Unclear {
        take_plain(status, said, team, now)?;
        return Ok(Taken::Unclear);
    }
    if let Some(role) = replied_to(status, said, team) {
        reply::store(status, &said.ts, &role);
    }
    let recipients = recipients(status, said, team);
    let taken =
        if said.mentioned.is_empty() { in_words(status, said, team, now)? } else { Taken::Message };
    threads::raise_inbox(status, &recipients, &said.ts, now);
    // Two roles that hand work to each other have heard something new.
    status.rounds = status.rounds.take().filter(|rounds| rounds.ts > said.ts);
    if status.warned.as_ref().is_some_and(|warned| *warned < said.ts) {
        keep::end(status, keep::KEEP, &said.user);
    }
    Ok(taken)
}

/// The same for somebody who may not decide: what would have been a decision is a message.
///
/// # Errors
/// As above.
pub fn take_refused(
    status: &mut ThreadStatus,
    said: &Said,
    why: &'static str,
    team: &Team,
    now: &Time,
) -> Result<Taken, Refusal> {
    let mut decided = status.clone();
    let taken = take_message(&mut decided, said, team, now);
    if decided.pending.len() == status.pending.len() {
        *status = decided;
        return taken;
    }
    take_plain(status, said, team, now)?;
    Ok(Taken::Refused(why))
}

/// Words that decide nothing: whoever they are for now is who reads them later.
fn take_plain(
    status: &mut ThreadStatus,
    said: &Said,
    team: &Team,
    now: &Time,
) -> Result<(), Refusal> {
    let plain = Said { intent: None, ..said.clone() };
    take_message(status, &plain, team, now)?;
    if let Some(role) = recipients(status, &plain, team).first() {
        reply::store(status, &said.ts, role);
    }
    Ok(())
}

fn in_words(
    status: &mut ThreadStatus,
    said: &Said,
    team: &Team,
    now: &Time,
) -> Result<Taken, Refusal> {
    match question::answered(status, said) {
        Words::Action(asked) => {
            let id = asked.id.clone();
            approval::take_words(status, &id, said, now.0)?;
            return Ok(Taken::Answered);
        }
        Words::Plan(plan) => {
            let (role, asked) = (carries_out(team, &plan.role).to_owned(), plan.ts.clone());
            return decide_in_words(status, said, (Choice::Approve, asked), &role, team);
        }
        Words::Merge(closing) => {
            let (role, asked) = (closing.role.clone(), closing.ts.clone());
            // A plain yes is not known by its words for what it answered.
            reply::store(status, &said.ts, &role);
            return decide_in_words(status, said, (Choice::Merge, asked), &role, team);
        }
        Words::Nothing | Words::Unclear => {}
    }
    let closing = status.closing.as_ref();
    match said.intent {
        Some(Intent::Revoke) => {
            status.standing.clear();
            return Ok(Taken::Revoked);
        }
        Some(Intent::Stop) => stop(status, &said.ts, &said.user)?,
        Some(Intent::Close) => match closing.map(|c| (c.ts < said.ts, c.choice, c.ts.clone())) {
            Some((true, None, asked)) => {
                let role = closing.map(|closing| closing.role.clone()).unwrap_or_default();
                return decide_in_words(status, said, (Choice::Discard, asked), &role, team);
            }
            None => {
                if let Some(role) = team.first() {
                    close_in_words(status, said, role)?;
                }
            }
            Some(_) => {}
        },
        _ => {}
    }
    Ok(Taken::Message)
}

fn decide_in_words(
    status: &mut ThreadStatus,
    said: &Said,
    (choice, asked): (Choice, SlackTs),
    role: &str,
    team: &Team,
) -> Result<Taken, Refusal> {
    let id = format!("text:{}", said.ts);
    record(status, &asked, choice, (&said.user, role), id, team)?;
    Ok(Taken::Decided(Decided { asked, choice }))
}

/// Every role that runs now is told; whoever has ended meanwhile takes it as done. What was approved for
/// the thread is not any more. `ts` is the word's or sign's own.
///
/// # Errors
/// When too many decisions wait already.
pub fn stop(status: &mut ThreadStatus, ts: &SlackTs, user: &str) -> Result<(), Refusal> {
    let running = status.roles.iter().filter(|(_, role)| role.state == Some(RoleState::Running));
    let running: Vec<String> = running.map(|(name, _)| name.clone()).collect();
    status.standing.clear();
    for role in running {
        let pending = Pending {
            id: format!("stop:{ts}:{role}"),
            role,
            kind: "stop".to_owned(),
            choice: "stop".to_owned(),
            user: user.to_owned(),
            message: ts.clone(),
        };
        threads::add_pending(status, &pending)?;
    }
    Ok(())
}

/// A user may end the thread at any time: the message itself is the question then.
///
/// # Errors
/// When too many decisions wait already.
pub fn close_in_words(status: &mut ThreadStatus, said: &Said, role: &str) -> Result<(), Refusal> {
    let asked = said.ts.clone();
    let closing = Closing {
        ts: asked.clone(),
        role: role.to_owned(),
        choice: None,
        decided_by: None,
        head: None,
        waits: None,
    };
    let before = status.closing.replace(closing);
    let id = format!("text:{}", said.ts);
    let who = (said.user.as_str(), role);
    let recorded = record(status, &asked, Choice::Discard, who, id, &Team::default());
    if recorded.is_err() {
        status.closing = before;
    }
    recorded
}

/// A click, as far as a Thread is concerned with it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Clicked {
    /// The message with the button.
    pub message: SlackTs,
    /// What it says.
    pub choice: Choice,
    /// Slack user id.
    pub user: String,
}

/// What became of a click.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClickOutcome {
    /// It decided, now or when it was delivered before.
    Counts,
    /// Another message asks now, or somebody decided before.
    Stale,
}

/// Takes in a click.
///
/// # Errors
/// When a decision can't be kept because too many wait.
pub fn take_click(
    status: &mut ThreadStatus,
    clicked: &Clicked,
    team: &Team,
) -> Result<ClickOutcome, Refusal> {
    // One identity per message, user and choice: an impatient second click is the same decision.
    let id = format!("click:{}:{}:{}", clicked.message, clicked.choice.name(), clicked.user);
    if status.pending.iter().any(|pending| pending.id == id) {
        return Ok(ClickOutcome::Counts);
    }
    let open = match clicked.choice.decision() {
        Decision::Plan => match &status.plan {
            Some(plan) if plan.ts == clicked.message => match &plan.approved_by {
                None => question::is_open(plan).then(|| match clicked.choice {
                    Choice::Approve => carries_out(team, &plan.role).to_owned(),
                    _ => plan.role.clone(),
                }),
                Some(by) if *by == clicked.user && clicked.choice == Choice::Approve => {
                    return Ok(ClickOutcome::Counts);
                }
                Some(_) => None,
            },
            _ => None,
        },
        Decision::Merge => match &status.closing {
            Some(closing) if closing.ts == clicked.message => {
                match (closing.choice, &closing.decided_by) {
                    (None, _) => Some(closing.role.clone()),
                    (Some(choice), Some(by))
                        if *by == clicked.user && ending(clicked.choice) == Some(choice) =>
                    {
                        return Ok(ClickOutcome::Counts);
                    }
                    _ => None,
                }
            }
            _ => None,
        },
    };
    let Some(role) = open else { return Ok(ClickOutcome::Stale) };
    record(status, &clicked.message, clicked.choice, (&clicked.user, &role), id, team)?;
    Ok(ClickOutcome::Counts)
}

const fn ending(choice: Choice) -> Option<ClosingChoice> {
    match choice {
        Choice::Merge => Some(ClosingChoice::Merge),
        Choice::Discard => Some(ClosingChoice::Discard),
        _ => None,
    }
}

/// Writes down a decision for everybody (approval, ending) and for the role that goes on (pending).
fn record(
    status: &mut ThreadStatus,
    asked: &SlackTs,
    choice: Choice,
    (user, role): (&str, &str),
    id: String,
    team: &Team,
) -> Result<(), Refusal> {
    let pending = Pending {
        id,
        role: role.to_owned(),
        kind: choice.decision().kind().to_owned(),
        choice: choice.name().to_owned(),
        user: user.to_owned(),
        message: asked.clone(),
    };
    threads::add_pending(status, &pending)?;
    match choice {
        Choice::Approve => {
            threads::approve_plan(status, asked, user);
            if team.is_implementer(role) {
                approved(status, asked, role);
            }
        }
        Choice::Modify | Choice::Reject => threads::decline_plan(status, asked, user),
        Choice::Merge | Choice::Hold | Choice::Discard => {}
    }
    if let Some(ending) = ending(choice) {
        threads::decide_closing(status, asked, ending, user);
    }
    let (ts, choice) = (asked.clone(), Some(choice.action_id()));
    threads::settle(status, Settled { ts, choice, user: Some(user.to_owned()) });
    Ok(())
}

/// The plan goes to the role that carries it out, in the same write as the approval. Who proposed it has
/// nothing to wait for any more.
fn approved(status: &mut ThreadStatus, plan: &SlackTs, role: &str) {
    let planner = status.plan.as_ref().map(|plan| plan.role.clone()).filter(|own| own != role);
    threads::release_planner(status);
    let told = HandOver {
        id: format!("on:approved:{role}:{plan}"),
        role: Some(role.to_owned()),
        from: planner,
        with: None,
        why: HandOverReason::Approved,
        views: Vec::new(),
    };
    threads::add_handover(status, told);
}

#[cfg(test)]
mod tests;
