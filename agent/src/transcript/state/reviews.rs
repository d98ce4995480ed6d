//! Plan of a review, as far as it is posted in the conversation.

use std::collections::BTreeMap;

use codebutler_wire::{MessageAuthor, ThreadMessage};

use super::TranscriptState;
use crate::transcript::TranscriptRecord;

/// State of the reviews of one role.
#[derive(Clone, Debug, Default)]
pub struct RoleReviews {
    /// True if the plan stands in the thread.
    pub is_planned: bool,
    /// Tests that there have to be and are not.
    pub missing_tests: Vec<String>,
    /// Number of messages of each other role that were addressed to this one.
    heard: BTreeMap<String, u32>,
}

impl RoleReviews {
    pub(super) fn plan(&mut self, missing_tests: &[String]) {
        self.is_planned = true;
        self.missing_tests = missing_tests.to_vec();
    }

    /// Counts the messages of other roles.
    pub(super) fn hear(&mut self, messages: &[ThreadMessage]) {
        for message in messages.iter().filter(|message| message.addressed) {
            if let MessageAuthor::Role { role } = &message.author {
                *self.heard.entry(role.clone()).or_default() += 1;
            }
        }
    }

    /// Number of messages that a role has addressed to this one.
    pub fn count_messages(&self, role: &str) -> u32 {
        self.heard.get(role).copied().unwrap_or_default()
    }
}

impl TranscriptState {
    pub(super) fn review(&mut self, record: &TranscriptRecord) {
        match record {
            TranscriptRecord::ReviewPlanned { missing_tests } => self.reviews.plan(missing_tests),
            TranscriptRecord::ReviewCorrected { why, reminder } => self.go_on(why, |run| {
                run.review.corrections += 1;
                run.review.reminded |= *reminder;
            }),
            TranscriptRecord::SecondPass { why } => {
                self.think_anew();
                self.go_on(why, |run| run.model = None);
            }
            _ => {}
        }
    }
}
