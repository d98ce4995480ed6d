//! Questions about single actions: their buttons and reactions, and what an answer changes in a
//! Thread. Pure: applied again, nothing changes. What is shown is in [`shown`]; [`ask`] posts it and
//! [`answer`] takes answers in.

pub mod answer;
pub mod ask;
pub mod shown;
mod standing;

use codebutler_crds::thread::{Approval, ApprovalAnswer, Pending, Settled};
use codebutler_crds::wire::ApprovalState;
use codebutler_crds::{SlackTs, ThreadStatus};
use jiff::Timestamp;

use super::decision::Said;
use super::words::Intent;
use crate::gateway::threads::{self, Refusal};

/// `kind` of the message's metadata and of the pending item that wakes the role.
pub const KIND: &str = "approval";
/// `kind` of a message that tells of an action that was approved for the thread.
pub const STANDING: &str = "standing";
/// [`Settled::choice`] of a question that nobody answered in time.
pub const EXPIRED: &str = "approval:expired";
/// Told to who answers then.
pub const LATE: &str = "This is no longer open: nobody answered in time. It has to be asked again.";
/// Questions that a Thread remembers.
const KEPT: usize = 8;

/// What a person can answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Answer {
    /// Exactly this may happen, once.
    Approve,
    /// This may happen, and the same words again in this thread.
    Always,
    /// It may not.
    Deny,
}

impl Answer {
    /// The buttons, in order.
    pub const ALL: [Self; 3] = [Self::Approve, Self::Always, Self::Deny];

    /// Slack's `action_id`.
    pub const fn action_id(self) -> &'static str {
        match self {
            Self::Approve => "approval:approve",
            Self::Always => "approval:thread",
            Self::Deny => "approval:deny",
        }
    }

    /// On the button.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Approve => "Approve",
            Self::Always => "Approve for this thread",
            Self::Deny => "Deny",
        }
    }

    /// In place of the buttons, once chosen.
    pub const fn told(self) -> &'static str {
        match self {
            Self::Approve => ":white_check_mark: Approved, once, by",
            Self::Always => {
                ":white_check_mark: Approved for this thread, until somebody says *revoke* or *stop*, by"
            }
            Self::Deny => ":x: Denied by",
        }
    }

    /// The button that has an `action_id`.
    pub fn by_action_id(id: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|answer| answer.action_id() == id)
    }

    /// What a reaction says, whatever the colour of the hand.
    pub fn by_reaction(name: &str) -> Option<Self> {
        match name.split("::").next() {
            Some("+1" | "thumbsup") => Some(Self::Approve),
            Some("-1" | "thumbsdown") => Some(Self::Deny),
            _ => None,
        }
    }

    const fn recorded(self) -> ApprovalAnswer {
        match self {
            Self::Approve | Self::Always => ApprovalAnswer::Approved,
            Self::Deny => ApprovalAnswer::Denied,
        }
    }
}

/// A person's answer to the question that a message shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answered {
    /// The message with the question.
    pub message: SlackTs,
    /// Yes or no.
    pub answer: Answer,
    /// Slack user id.
    pub user: String,
}

/// What became of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It decided, now or when it was delivered before.
    Counts,
    /// Somebody answered before.
    Stale,
    /// The time to answer is over.
    Late,
    /// No such question is on record.
    Unknown,
}

/// Whether another question can be asked.
pub fn has_room(status: &ThreadStatus) -> bool {
    status.approvals.len() < KEPT || oldest_over(status).is_some()
}

/// The oldest question that nothing more comes of. One whose message still says that it is open is kept:
/// without its record, the same question would be taken for asked.
fn oldest_over(status: &ThreadStatus) -> Option<usize> {
    let settles = |one: &Approval| status.settled.iter().any(|settled| settled.ts == one.ts);
    status.approvals.iter().position(|one| one.used && !settles(one))
}

/// Records a question that was posted.
///
/// # Errors
/// When too many are open.
pub fn add(status: &mut ThreadStatus, question: &Approval) -> Result<(), Refusal> {
    if status.approvals.iter().any(|known| known.id == question.id) {
        return Ok(());
    }
    if status.approvals.len() >= KEPT {
        let old = oldest_over(status).ok_or(Refusal::Asked)?;
        status.approvals.remove(old);
    }
    status.approvals.push(question.clone());
    Ok(())
}

/// Takes an answer in.
///
/// # Errors
/// When too many decisions wait already.
pub fn take(
    status: &mut ThreadStatus,
    answered: &Answered,
    now: Timestamp,
) -> Result<Outcome, Refusal> {
    let found = status.approvals.iter().position(|one| one.ts == answered.message);
    let Some(place) = found else { return Ok(Outcome::Unknown) };
    let question = &status.approvals[place];
    match question.answer {
        Some(ApprovalAnswer::Expired) => return Ok(Outcome::Late),
        Some(given) => {
            let same = question.by.as_ref() == Some(&answered.user);
            let again = same && given == answered.answer.recorded();
            return Ok(if again { Outcome::Counts } else { Outcome::Stale });
        }
        None if question.expires.0 <= now => {
            record(status, place, ApprovalAnswer::Expired, None, None)?;
            return Ok(Outcome::Late);
        }
        None => {}
    }
    give(status, place, answered.answer, &answered.user, None, now)?;
    Ok(Outcome::Counts)
}

/// Takes an answer in words in.
///
/// # Errors
/// When too many decisions wait already.
pub fn take_words(
    status: &mut ThreadStatus,
    id: &str,
    said: &Said,
    now: Timestamp,
) -> Result<Outcome, Refusal> {
    let found = status.approvals.iter().position(|one| one.id == id);
    let Some(place) = found else { return Ok(Outcome::Unknown) };
    let question = &status.approvals[place];
    if question.said.as_ref() == Some(&said.ts) {
        return Ok(Outcome::Counts);
    }
    if question.answer.is_some() {
        return Ok(Outcome::Stale);
    }
    if question.expires.0 <= now {
        record(status, place, ApprovalAnswer::Expired, None, None)?;
        return Ok(Outcome::Late);
    }
    let answer = match said.intent {
        Some(Intent::Approve) => Answer::Approve,
        Some(Intent::Always) => Answer::Always,
        _ => Answer::Deny,
    };
    give(status, place, answer, &said.user, Some(&said.ts), now)?;
    Ok(Outcome::Counts)
}

/// Writes a person's answer down. A yes for the thread to what can only be allowed once is one for once.
fn give(
    status: &mut ThreadStatus,
    place: usize,
    answer: Answer,
    user: &str,
    said: Option<&SlackTs>,
    now: Timestamp,
) -> Result<(), Refusal> {
    let question = status.approvals.get(place).cloned().ok_or(Refusal::NotAsked)?;
    let always = answer == Answer::Always && question.words.is_some();
    let shown = if answer == Answer::Always && !always { Answer::Approve } else { answer };
    record(status, place, shown.recorded(), Some(user), said)?;
    if always {
        if let Some(settled) = status.settled.iter_mut().find(|one| one.ts == question.ts) {
            settled.choice = Some(Answer::Always.action_id().to_owned());
        }
        standing::grant(status, &question, user, now);
    }
    Ok(())
}

/// Whether a question has waited for too long.
pub fn is_late(question: &Approval, now: Timestamp) -> bool {
    question.answer.is_none() && question.expires.0 <= now
}

/// Ends all questions whose time is over.
///
/// # Errors
/// When too many decisions wait already.
pub fn expire(status: &mut ThreadStatus, now: Timestamp) -> Result<(), Refusal> {
    while let Some(place) = status.approvals.iter().position(|one| is_late(one, now)) {
        record(status, place, ApprovalAnswer::Expired, None, None)?;
    }
    Ok(())
}

/// How a role's question stands; an answer is the role's from now on.
///
/// # Errors
/// When there is no such question, or it is about another action.
pub fn hand_out(
    status: &mut ThreadStatus,
    id: &str,
    hash: &str,
    now: Timestamp,
) -> Result<(ApprovalState, Option<String>), Refusal> {
    expire(status, now)?;
    let found = status.approvals.iter_mut().find(|one| one.id == id);
    let question = found.ok_or(Refusal::NotAsked)?;
    if question.hash != hash {
        return Err(Refusal::OtherAction);
    }
    question.used |= question.answer.is_some();
    Ok((state(question.answer), question.by.clone()))
}

/// What was approved has happened: the yes counts no more.
pub fn spend(status: &mut ThreadStatus, id: &str) {
    let found = status.approvals.iter_mut().find(|one| one.id == id);
    if let Some(question) = found.filter(|one| one.answer == Some(ApprovalAnswer::Approved)) {
        question.answer = Some(ApprovalAnswer::Expired);
        question.used = true;
    }
}

const fn state(answer: Option<ApprovalAnswer>) -> ApprovalState {
    match answer {
        None => ApprovalState::Pending,
        Some(ApprovalAnswer::Approved) => ApprovalState::Approved,
        Some(ApprovalAnswer::Denied) => ApprovalState::Denied,
        Some(ApprovalAnswer::Expired) => ApprovalState::Expired,
    }
}

/// Writes an answer down, wakes the role, and has the message lose its buttons.
fn record(
    status: &mut ThreadStatus,
    place: usize,
    answer: ApprovalAnswer,
    user: Option<&str>,
    said: Option<&SlackTs>,
) -> Result<(), Refusal> {
    let Some(question) = status.approvals.get(place) else { return Err(Refusal::NotAsked) };
    let (choice, settled) = match answer {
        ApprovalAnswer::Approved => ("approved", Answer::Approve.action_id()),
        ApprovalAnswer::Denied => ("denied", Answer::Deny.action_id()),
        ApprovalAnswer::Expired => ("expired", EXPIRED),
    };
    let pending = Pending {
        id: format!("{KIND}:{}", question.id),
        role: question.role.clone(),
        kind: KIND.to_owned(),
        choice: choice.to_owned(),
        user: user.unwrap_or_default().to_owned(),
        message: question.ts.clone(),
    };
    threads::add_pending(status, &pending)?;
    let question = &mut status.approvals[place];
    question.answer = Some(answer);
    question.by = user.map(str::to_owned);
    question.said = said.cloned();
    let settled = Settled {
        ts: question.ts.clone(),
        choice: Some(settled.to_owned()),
        user: question.by.clone(),
    };
    threads::settle(status, settled);
    Ok(())
}

#[cfg(test)]
mod tests;
