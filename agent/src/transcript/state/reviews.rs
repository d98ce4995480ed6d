//! What a conversation's reviews go by.

use super::State;
use crate::transcript::Record;

/// Of one role.
#[derive(Clone, Debug, Default)]
pub struct Reviews {
    /// It stands in the thread.
    pub is_planned: bool,
    /// Tests that there have to be and are not.
    pub missing_tests: Vec<String>,
}

impl Reviews {
    pub(super) fn plan(&mut self, missing_tests: &[String]) {
        self.is_planned = true;
        self.missing_tests = missing_tests.to_vec();
    }
}

impl State {
    pub(super) fn review(&mut self, record: &Record) {
        match record {
            Record::ReviewPlanned { missing_tests } => self.reviews.plan(missing_tests),
            Record::ReviewCorrected { why, reminder } => self.go_on(why, |run| {
                run.review.corrections += 1;
                run.review.reminded |= *reminder;
            }),
            Record::SecondPass { why } => {
                self.think_anew();
                self.go_on(why, |run| run.model = None);
            }
            _ => {}
        }
    }
}
