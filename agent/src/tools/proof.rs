//! The harness's own knowledge of test runs, for whatever claims that work is done. No model writes any of it.

use codebutler_wire::{TestProof, TestRun};

use super::ToolContext;
use crate::toolbox::client::ToolboxError;
use crate::toolbox::protocol::{ToolboxReply, ToolboxRequest, WorktreeStanding};

/// The test command of the thread, and the newest run of it by this role.
#[derive(Clone, Debug, Default)]
pub struct ThreadTests {
    /// The command line that counts, if there is one.
    pub command: Option<String>,
    pub last: Option<TestRun>,
}

impl ThreadTests {
    /// True if a command is the test command that counts.
    pub fn is(&self, command: &str) -> bool {
        self.command.as_ref().is_some_and(|test| test.trim() == command.trim())
    }

    /// Advice for the model about a test proof that proves nothing.
    pub fn advice(&self, proof: Option<&TestProof>) -> String {
        let Some(command) = &self.command else { return String::new() };
        let proven = |proof: &TestProof| {
            proof.changed.is_empty()
                && proof.uncommitted.is_empty()
                && proof
                    .test
                    .as_ref()
                    .is_some_and(|run| self.is(&run.command) && run.tree.is_some())
        };
        if proof.is_some_and(proven) {
            return String::new();
        }
        format!(
            " People see that what is pushed was not checked: with everything committed, run exactly \
             `{command}` in Bash (in the foreground, nothing added to it), push, and say it again."
        )
    }
}

impl ToolContext {
    pub async fn proof(&self) -> Result<Option<TestProof>, ToolboxError> {
        let test = self.tests.last.clone();
        let tested = test.as_ref().and_then(|run| run.tree.clone());
        match self.toolbox.ask(ToolboxRequest::Standing { tested }).await? {
            ToolboxReply::Standing(WorktreeStanding { commit, changed, uncommitted }) => {
                Ok(Some(TestProof { commit, test, changed, uncommitted }))
            }
            other => {
                tracing::warn!(?other, request = "standing", "toolbox_request_failed");
                Ok(None)
            }
        }
    }
}
