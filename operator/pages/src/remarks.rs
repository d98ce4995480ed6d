//! Reviewers' remarks on lines of a pull request. Pure.

use codebutler_wire::history::ToolUse;
use serde_json::Value;

/// The tool that leaves a review.
const REVIEW: &str = "GHReview";

/// A reviewer's remark on a line of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LineRemark {
    pub role: String,
    pub file: String,
    /// Line number in the new version.
    pub line: u64,
    /// The branch's newest commit then, if one was pushed: the line is counted there.
    pub commit: Option<String>,
    /// Text of the remark, as Markdown.
    pub body: String,
}

/// Remarks of a review of the thread's own pull request, where the call is one.
pub(crate) fn read_remarks(
    role: &str,
    call: &ToolUse,
    ok: bool,
    commit: Option<&str>,
) -> Vec<LineRemark> {
    if call.tool != REVIEW || !ok {
        return Vec::new();
    }
    let review: Value = serde_json::from_str(&call.arguments).unwrap_or_default();
    if !review["number"].is_null() {
        return Vec::new();
    }
    let read = |remark: &Value| {
        let text = |key: &str| remark[key].as_str().map(str::to_owned);
        let (file, line, body) = (text("file")?, remark["line"].as_u64()?, text("body")?);
        let role = role.to_owned();
        Some(LineRemark { role, file, line, body, commit: commit.map(str::to_owned) })
    };
    review["comments"].as_array().into_iter().flatten().filter_map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remarks_are_those_of_a_review_of_the_own_pull_request() {
        let said = |tool: &str, arguments: &str, ok| {
            let call = ToolUse { tool: tool.into(), arguments: arguments.into() };
            read_remarks("reviewer", &call, ok, None).len()
        };
        let own = r#"{"body":"x","comments":[{"file":"a","line":2,"body":"no"}]}"#;
        let other = r#"{"number":3,"body":"x","comments":[{"file":"a","line":2,"body":"no"}]}"#;
        assert_eq!(said(REVIEW, own, true), 1);
        assert_eq!(said(REVIEW, own, false), 0);
        assert_eq!(said(REVIEW, other, true), 0);
        assert_eq!(said("Bash", own, true), 0);
        assert_eq!(said(REVIEW, "{\"body\":\"x\"}", true), 0);
        assert_eq!(said(REVIEW, "nonsense", true), 0);
    }
}
