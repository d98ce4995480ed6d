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
    /// Runs of this role in which each other role has addressed it, since the plan was approved.
    heard: BTreeMap<String, HeardRuns>,
    /// The approved plan that the role works by.
    plan: Option<String>,
}

/// Runs in which a role has addressed this one.
#[derive(Clone, Debug, Default)]
struct HeardRuns {
    count: u32,
    /// The latest of them.
    latest: Option<String>,
}

impl RoleReviews {
    pub(super) fn plan(&mut self, missing_tests: &[String]) {
        self.is_planned = true;
        self.missing_tests = missing_tests.to_vec();
    }

    /// Begins to count anew with another plan: reviews of earlier work say nothing of it.
    pub(super) fn approve(&mut self, plan: &str) {
        if self.plan.as_deref() != Some(plan) {
            self.heard.clear();
            self.plan = Some(plan.to_owned());
        }
    }

    /// Counts other roles' messages, once in a run: a review may take several.
    pub(super) fn hear(&mut self, run: Option<&str>, messages: &[ThreadMessage]) {
        for message in messages.iter().filter(|message| message.addressed) {
            let MessageAuthor::Role { role } = &message.author else { continue };
            let heard = self.heard.entry(role.clone()).or_default();
            if heard.count == 0 || heard.latest.as_deref() != run {
                heard.count += 1;
                heard.latest = run.map(str::to_owned);
            }
        }
    }

    /// Number of runs of this role in which another one has addressed it, for the approved plan.
    pub fn count_times(&self, role: &str) -> u32 {
        self.heard.get(role).map_or(0, |heard| heard.count)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_review_in_several_messages_comes_back_once() {
        let message = |n: u32, addressed| ThreadMessage {
            ts: format!("{n}.000000").parse().unwrap(),
            author: MessageAuthor::Role { role: "reviewer".to_owned() },
            text: "a total is wrong".to_owned(),
            addressed,
            pictures: Vec::new(),
        };
        let mut reviews = RoleReviews::default();
        reviews.hear(Some("r1"), &[message(1, true), message(2, true)]);
        reviews.hear(Some("r1"), &[message(3, true)]);
        assert_eq!(reviews.count_times("reviewer"), 1);
        reviews.hear(Some("r2"), &[message(4, false)]);
        assert_eq!(reviews.count_times("reviewer"), 1, "it speaks to somebody else");
        reviews.hear(Some("r3"), &[message(5, true)]);
        assert_eq!((reviews.count_times("reviewer"), reviews.count_times("lead")), (2, 0));
    }

    #[test]
    fn reviews_of_earlier_work_do_not_count_for_the_next_plan() {
        let mut state = TranscriptState::default();
        let plan = |text: &str| TranscriptRecord::ApprovedPlan {
            text: Some(text.to_owned()),
            guides: None,
            message: None,
            known: false,
        };
        let review = |n: u32| TranscriptRecord::Taken {
            messages: vec![ThreadMessage {
                ts: format!("{n}.000000").parse().unwrap(),
                author: MessageAuthor::Role { role: "reviewer".to_owned() },
                text: "a total is wrong".to_owned(),
                addressed: true,
                pictures: Vec::new(),
            }],
            pending: Vec::new(),
            pictures: Vec::new(),
        };
        state.apply(&plan("use cents"));
        for n in 1..=2 {
            let run = format!("r{n}");
            state.apply(&TranscriptRecord::RunStarted { run, at: 1, brief: false });
            state.apply(&review(n));
        }
        // The same plan again, with other guides.
        state.apply(&plan("use cents"));
        assert_eq!(state.reviews().count_times("reviewer"), 2);
        state.apply(&plan("add a coupon"));
        assert_eq!(state.reviews().count_times("reviewer"), 0);
        state.apply(&TranscriptRecord::RunStarted { run: "r3".into(), at: 1, brief: false });
        state.apply(&review(3));
        assert_eq!(state.reviews().count_times("reviewer"), 1);
    }
}
