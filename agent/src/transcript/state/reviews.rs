//! What a conversation's reviews go by.

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
