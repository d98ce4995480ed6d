//! Proof that a change was tested: the test run as a role's harness saw it. The model has no say in it, and the
//! gateway believes only what fits the commit that is on the remote.

use serde::{Deserialize, Serialize};

/// A harness's knowledge of the tests of its worktree at the time when something is about to be called done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TestProof {
    /// Id of the commit that HEAD is at.
    pub commit: String,
    /// The newest run of the test command that the session names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test: Option<TestRun>,
    /// Files in which `commit` differs from what was tested; at most 10.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changed: Vec<String>,
    /// Files in which the worktree differs from `commit`; at most 10.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uncommitted: Vec<String>,
}

/// A run of a test command, as the harness saw it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TestRun {
    /// Command line of the tests.
    pub command: String,
    /// Absent if it was killed or ran out of time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Git's id of the tree that was tested: all files that .gitignore does not name, committed or
    /// not. Absent if they changed while the tests ran, or are too many to know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree: Option<String>,
    /// The files are too many or too large to be known.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unknown: bool,
}
