//! Effects of a person's message on a Thread: the roles whose mail it is, and what it decides. The words that
//! count are in [`words`](crate::text::decision_words), the question that they answer in
//! [`answered`](crate::questions::answered). Pure: applied again, nothing changes.

use codebutler_crds::thread::{PendingItem, RoleState};
use codebutler_crds::wire::{MergeChoice, PendingDecision, PlanChoice};
use codebutler_crds::{SlackTs, ThreadStatus};
use codebutler_gateway_core::dispatch::{RepoTeam, reply};
use codebutler_gateway_core::threads::{self, ChangeRefusal};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::questions::answered::{AnsweredQuestion, find_answered};
use crate::questions::plan::carries_out;
use crate::questions::{
    action, harness, inactivity, learnings, merge, parts, plan, recording, roadmap, train,
};
use crate::text::courtesy::needs_no_answer;
use crate::text::decision_words::MessageIntent;
use crate::text::person_message::PersonMessage;

/// Stands for no role: the answer is for the harness, which asked.
const NOBODY: &str = "";

/// Result of taking a person's message in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TakenMessage {
    Message,
    /// A decision about what the message asked.
    Decided(SlackTs),
    /// The answer to a question about an action, in time or too late.
    Answered,
    /// The approvals of the thread are taken back.
    Revoked,
    /// Thanks, to which nobody has to answer.
    Thanked,
    /// A yes or no that can answer several questions.
    Unclear,
    /// A decision of somebody who may not make it, with the reason.
    Refused(&'static str),
}

/// The roles that a stored message of a person is for. The same whenever it is asked, whatever the
/// roles do by then.
pub(crate) fn find_recipients(
    status: &ThreadStatus,
    said: &PersonMessage,
    team: &RepoTeam,
) -> Vec<String> {
    if !said.mentioned.is_empty() {
        return said.mentioned.clone();
    }
    // Such a message ends what runs and wakes nobody.
    if matches!(
        said.intent,
        Some(
            MessageIntent::Stop
                | MessageIntent::Revoke
                | MessageIntent::Develop(_)
                | MessageIntent::MergeAll
        )
    ) {
        return Vec::new();
    }
    let stored = reply::stored_reply(status, &said.ts);
    if said.intent == Some(MessageIntent::Thanks) && stored.is_none() && needs_no_answer(status) {
        return Vec::new();
    }
    let asker =
        stored.or_else(|| find_question(status, said, team).map(|(role, _)| role)).or(team.first());
    asker.filter(|role| *role != NOBODY).map(str::to_owned).into_iter().collect()
}

/// The role that a message which names nobody is for as of now: whoever asked, stopped or works.
fn replied_to(status: &ThreadStatus, said: &PersonMessage, team: &RepoTeam) -> Option<String> {
    let answers = find_question(status, said, team).is_some_and(|(_, open)| open);
    if !said.mentioned.is_empty()
        || matches!(
            said.intent,
            Some(MessageIntent::Stop | MessageIntent::Develop(_) | MessageIntent::MergeAll)
        )
        || answers
    {
        return None;
    }
    let is_thanks = said.intent == Some(MessageIntent::Thanks);
    if is_thanks && needs_no_answer(status) {
        return None;
    }
    let default = find_recipients(status, said, team);
    let default = default.first().map(String::as_str);
    // The message was delivered again.
    let known = default.and_then(|role| status.roles.get(role)?.inbox.as_ref());
    if known.is_some_and(|known| *known >= said.ts) {
        return None;
    }
    let role = reply::find_reply(status, team, &said.ts)?;
    (default != Some(role)).then(|| role.to_owned())
}

/// The role that hears of a decision in words, and true if it still is a decision: only about what was asked
/// before the message, so that words can't approve what came after them.
fn find_question<'a>(
    status: &'a ThreadStatus,
    said: &PersonMessage,
    team: &'a RepoTeam,
) -> Option<(&'a str, bool)> {
    match find_answered(status, said) {
        AnsweredQuestion::Action(asked) => return Some((&asked.role, true)),
        AnsweredQuestion::Plan(plan) => return Some((carries_out(team, status, &plan.role), true)),
        AnsweredQuestion::Merge(closing) => return Some((&closing.role, true)),
        AnsweredQuestion::Learnings(offer) => return Some((&offer.role, true)),
        AnsweredQuestion::Harness(..) => return Some((NOBODY, true)),
        AnsweredQuestion::Nothing | AnsweredQuestion::Unclear => {}
    }
    let plan = status.plan.as_ref().filter(|plan| plan.ts < said.ts);
    let closing = status.closing.as_ref().filter(|closing| closing.ts < said.ts);
    match said.intent? {
        MessageIntent::Approve => plan.map(|plan| match plan.declined_by {
            None => (carries_out(team, status, &plan.role), false),
            Some(_) => (plan.role.as_str(), false),
        }),
        MessageIntent::Merge => closing.map(|closing| (closing.role.as_str(), false)),
        MessageIntent::Close => {
            closing.map(|closing| (closing.role.as_str(), closing.choice.is_none()))
        }
        MessageIntent::Always
        | MessageIntent::Revoke
        | MessageIntent::Deny
        | MessageIntent::Stop
        | MessageIntent::Develop(_)
        | MessageIntent::MergeAll
        | MessageIntent::Thanks => None,
    }
}

/// Takes in a person's message: marks, and the decision if it is one.
///
/// # Errors
/// When a decision can't be kept because too many wait.
pub(crate) fn take_message(
    status: &mut ThreadStatus,
    said: &PersonMessage,
    team: &RepoTeam,
    now: &Time,
) -> Result<TakenMessage, ChangeRefusal> {
    if said.mentioned.is_empty() && find_answered(status, said) == AnsweredQuestion::Unclear {
        take_plain(status, said, team, now)?;
        return Ok(TakenMessage::Unclear);
    }
    if let Some(role) = replied_to(status, said, team) {
        reply::store_reply(status, &said.ts, &role);
    }
    let recipients = find_recipients(status, said, team);
    let taken = if recipients.is_empty() && said.intent == Some(MessageIntent::Thanks) {
        TakenMessage::Thanked
    } else if said.mentioned.is_empty() {
        in_words(status, said, team, now)?
    } else {
        TakenMessage::Message
    };
    threads::raise_inbox(status, &recipients, &said.ts, now);
    // New words from a person reset the rounds of two roles that hand work to each other.
    status.rounds = status.rounds.take().filter(|rounds| rounds.ts > said.ts);
    recording::end_by_words(status, &said.user, &said.ts);
    if status.warned.as_ref().is_some_and(|warned| *warned < said.ts) {
        inactivity::end_warning(status, inactivity::KEEP, &said.user);
    }
    Ok(taken)
}

/// Takes in a message of somebody who may not decide: what would have been a decision is a message.
///
/// # Errors
/// As above.
pub(crate) fn take_refused(
    status: &mut ThreadStatus,
    said: &PersonMessage,
    why: &'static str,
    team: &RepoTeam,
    now: &Time,
) -> Result<TakenMessage, ChangeRefusal> {
    let mut decided = status.clone();
    let taken = take_message(&mut decided, said, team, now);
    let same = decided.roadmap == status.roadmap
        && decided.train == status.train
        && decided.split == status.split;
    if decided.pending.len() == status.pending.len() && same {
        *status = decided;
        return taken;
    }
    take_plain(status, said, team, now)?;
    Ok(TakenMessage::Refused(why))
}

/// Takes in words that decide nothing: the role that they are for now is the one that reads them later.
fn take_plain(
    status: &mut ThreadStatus,
    said: &PersonMessage,
    team: &RepoTeam,
    now: &Time,
) -> Result<(), ChangeRefusal> {
    let plain = PersonMessage { intent: None, verdict: None, ..said.clone() };
    take_message(status, &plain, team, now)?;
    if let Some(role) = find_recipients(status, &plain, team).first() {
        reply::store_reply(status, &said.ts, role);
    }
    Ok(())
}

fn in_words(
    status: &mut ThreadStatus,
    said: &PersonMessage,
    team: &RepoTeam,
    now: &Time,
) -> Result<TakenMessage, ChangeRefusal> {
    match find_answered(status, said) {
        AnsweredQuestion::Action(asked) => {
            let id = asked.id.clone();
            action::take_words(status, &id, said, now.0)?;
            return Ok(TakenMessage::Answered);
        }
        AnsweredQuestion::Plan(open) => {
            let (role, asked) = (carries_out(team, status, &open.role).to_owned(), open.ts.clone());
            let (id, who) = (format!("text:{}", said.ts), (said.user.as_str(), role.as_str()));
            plan::record_answer(status, &asked, PlanChoice::Approve, who, id, team)?;
            return Ok(TakenMessage::Decided(asked));
        }
        AnsweredQuestion::Merge(closing) => {
            let (role, asked) = (closing.role.clone(), closing.ts.clone());
            // Stored, because the words of a plain yes do not tell which question they answered.
            reply::store_reply(status, &said.ts, &role);
            return end_in_words(status, said, (MergeChoice::Merge, asked), &role);
        }
        AnsweredQuestion::Learnings(offer) => {
            let (role, asked) = (offer.role.clone(), offer.ts.clone());
            reply::store_reply(status, &said.ts, &role);
            learnings::take_words(status, &asked, said)?;
            return Ok(TakenMessage::Decided(asked));
        }
        AnsweredQuestion::Harness(asked, kind) => {
            let asked = asked.clone();
            reply::store_reply(status, &said.ts, NOBODY);
            harness::take_words(status, (asked.clone(), kind), said, team, now.0)?;
            return Ok(TakenMessage::Decided(asked));
        }
        AnsweredQuestion::Nothing | AnsweredQuestion::Unclear => {}
    }
    let closing = status.closing.as_ref();
    match said.intent {
        Some(MessageIntent::Revoke) => {
            threads::revoke_allowances(status);
            return Ok(TakenMessage::Revoked);
        }
        Some(MessageIntent::Stop) => stop_runs(status, &said.ts, &said.user)?,
        Some(MessageIntent::Develop(budget)) => {
            roadmap::want_roadmap(status, &said.ts, &said.user, budget);
        }
        Some(MessageIntent::MergeAll) => train::want_train(status, &said.ts, &said.user),
        Some(MessageIntent::Close) => {
            match closing.map(|c| (c.ts < said.ts, c.choice, c.ts.clone())) {
                Some((true, None, asked)) => {
                    let role = closing.map(|closing| closing.role.clone()).unwrap_or_default();
                    return end_in_words(status, said, (MergeChoice::Discard, asked), &role);
                }
                None => {
                    if let Some(role) = team.first() {
                        merge::close_in_words(status, &said.ts, &said.user, role)?;
                    }
                }
                Some(_) => {}
            }
        }
        _ => {}
    }
    Ok(TakenMessage::Message)
}

fn end_in_words(
    status: &mut ThreadStatus,
    said: &PersonMessage,
    (choice, asked): (MergeChoice, SlackTs),
    role: &str,
) -> Result<TakenMessage, ChangeRefusal> {
    let id = format!("text:{}", said.ts);
    merge::record_answer(status, &asked, choice, (&said.user, role), id)?;
    Ok(TakenMessage::Decided(asked))
}

/// Tells every role that runs now to stop; a role that has ended meanwhile takes it as done. Approvals for the
/// thread are taken back. `ts` is that of the word or sign.
///
/// # Errors
/// When too many decisions wait already.
pub(crate) fn stop_runs(
    status: &mut ThreadStatus,
    ts: &SlackTs,
    user: &str,
) -> Result<(), ChangeRefusal> {
    let running = status.roles.iter().filter(|(_, role)| role.state == Some(RoleState::Running));
    let running: Vec<String> = running.map(|(name, _)| name.clone()).collect();
    threads::revoke_allowances(status);
    roadmap::stop_roadmap(status);
    train::stop_train(status);
    parts::stop_split(status);
    for role in running {
        let id = format!("stop:{ts}:{role}");
        threads::add_pending(
            status,
            &PendingItem::new(id, &role, PendingDecision::Stop, user, ts),
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
