//! Requests of users in this run that may ask for a skill, and the question to users which one.

use codebutler_guides::voice::speak;
use codebutler_wire::{MessageAuthor, PendingDecision, PendingItem, SlackTs, ThreadMessage};
use serde::{Deserialize, Serialize};

use super::TranscriptState;
use crate::model;
use crate::transcript::TranscriptRecord;

/// A question which skill a message asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkillOffer {
    /// Message with the question.
    pub posted: SlackTs,
    /// Request that the question is about.
    pub wish: UserWish,
    /// The answers, in their order.
    pub choices: Vec<String>,
}

/// A user's message that may ask for a skill.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserWish {
    pub message: SlackTs,
    pub text: String,
}

impl SkillOffer {
    /// Note for the model, which did not ask the question itself.
    pub fn shown(&self) -> String {
        let Self { posted, wish, choices } = self;
        format!(
            "[CodeButler] In your name it was asked, as message {posted}, which skill message {} asks for: {}. Your run \
             ended there, and goes on with the answer.",
            wish.message,
            choices.join(", ")
        )
    }
}

impl TranscriptState {
    /// Takes in what was found of a wish, or asked about it.
    pub(super) fn wish(&mut self, record: &TranscriptRecord) {
        match record {
            TranscriptRecord::Skill { message, text } => {
                self.wishes.settle(message);
                if let Some(skill) = text.as_deref().map(speak) {
                    self.words.go_by(&skill, self.chat.len());
                    self.chat.push(model::user_message(&skill));
                }
            }
            TranscriptRecord::Offered(offer) => {
                self.wishes.offer(offer);
                self.chat.push(model::user_message(&speak(&offer.shown())));
            }
            _ => {}
        }
    }
}

#[derive(Debug, Default)]
pub struct UserWishes {
    /// Requests that were not compared with skills yet.
    fresh: Vec<UserWish>,
    /// The question that is open.
    offer: Option<SkillOffer>,
    /// People's answer to it, with the request.
    chosen: Option<(UserWish, String)>,
    /// First message of people in the conversation.
    first: Option<UserWish>,
}

impl UserWishes {
    pub fn fresh(&self) -> &[UserWish] {
        &self.fresh
    }

    /// First message of people in the conversation.
    pub fn first(&self) -> Option<&UserWish> {
        self.first.as_ref()
    }

    /// The answer that was chosen, and of what.
    pub fn chosen(&self) -> Option<(&UserWish, &str)> {
        self.chosen.as_ref().map(|(wish, choice)| (wish, choice.as_str()))
    }

    /// Returns true if this message is the open question.
    pub fn asks_in(&self, message: &SlackTs) -> bool {
        self.offer.as_ref().is_some_and(|offer| offer.posted == *message)
    }

    pub(super) fn begin(&mut self) {
        self.fresh.clear();
        self.chosen = None;
    }

    pub(super) fn take(&mut self, messages: &[ThreadMessage], pending: &[PendingItem]) {
        let of_people = |message: &&ThreadMessage| {
            matches!(message.author, MessageAuthor::User { .. } | MessageAuthor::Prompt { .. })
        };
        let asks = |message: &&ThreadMessage| of_people(message) && message.addressed;
        let wish = |message: &ThreadMessage| UserWish {
            message: message.ts.clone(),
            text: message.text.clone(),
        };
        let oldest = messages.iter().filter(of_people).min_by_key(|message| &message.ts);
        if let Some(oldest) = oldest
            && self.first.as_ref().is_none_or(|first| oldest.ts < first.message)
        {
            self.first = Some(wish(oldest));
        }
        self.fresh.extend(messages.iter().filter(asks).map(wish));
        for item in pending {
            let Some(PendingDecision::Choice(number)) = item.decision() else { continue };
            let Some(offer) = self.offer.take_if(|offer| offer.posted == item.message) else {
                continue;
            };
            let at = usize::try_from(number).ok().and_then(|number| number.checked_sub(1));
            let choice = at.and_then(|at| offer.choices.get(at).cloned());
            self.chosen = choice.map(|choice| (offer.wish, choice));
        }
    }

    fn settle(&mut self, message: &SlackTs) {
        self.fresh.retain(|wish| wish.message != *message);
        self.chosen.take_if(|(wish, _)| wish.message == *message);
    }

    fn offer(&mut self, offer: &SkillOffer) {
        self.fresh.retain(|wish| wish.message != offer.wish.message);
        self.offer = Some(offer.clone());
    }
}
