//! Refusals of calls, in words that a model can act on.

use codebutler_crds::wire::ErrorCode;
use codebutler_gateway_core::api_error::ApiError;

/// A call that was not carried out, or has no result.
#[derive(Debug, thiserror::Error)]
pub enum McpRefusal {
    /// The request is malformed.
    #[error("{0}")]
    Invalid(String),
    /// A name that is no tool's.
    #[error("there is no tool `{name}`{}", list_closest(.closest))]
    Unknown {
        /// Name that was asked for.
        name: String,
        /// Existing names that are similar.
        closest: Vec<String>,
    },
    /// A tool, or a server, of other roles.
    #[error(
        "the role {role} may not use {what}: it is not among the role's `tools.allow`, or the Repo gives it to other roles or none"
    )]
    Forbidden {
        /// Role of the caller.
        role: String,
        /// Name of the tool or server.
        what: String,
    },
    /// A server that can't be used.
    #[error(
        "the server `{server}` can't be used now: {why}. Go on without it, or say in the thread that it is away"
    )]
    Away {
        server: String,
        /// Reason, with secrets masked.
        why: String,
    },
    /// A server whose pod is not there yet.
    #[error(
        "the server `{server}` is still starting ({waits}), so `{tool}` was not run. Nothing is wrong with it: go on with \
         something else, and try again in a minute"
    )]
    Starting {
        server: String,
        /// Name of the tool for models.
        tool: String,
        /// Reason why its pod takes long, masked.
        waits: String,
    },
    /// A server that takes no more requests for a while.
    #[error("`{tool}` was not run: {why}. Try again {when}")]
    Limited {
        /// Name of the tool for models.
        tool: String,
        /// The server's words, masked.
        why: String,
        /// Time to wait, such as `in 30 s`.
        when: String,
    },
    /// A right that the server wants.
    #[error("`{tool}` was not run: {why}. Go on without it meanwhile")]
    NoRight {
        /// Name of the tool for models.
        tool: String,
        /// The right, and who was asked for it, masked.
        why: String,
    },
    /// The Thread has used up the `maxCalls` of the server.
    #[error(
        "the {most} calls of the server `{server}` that this thread may make are used up (`maxCalls` in \
         `spec.mcpServers`): go on without it"
    )]
    UsedUp {
        server: String,
        /// Value of `maxCalls`.
        most: u32,
    },
    /// A call that was begun before, by a gateway that has ended since.
    #[error(
        "this call of `{0}` was begun before and its result is lost: it may have run. Find out whether it did before \
         you do it again as a new call"
    )]
    Repeated(String),
    /// A call without an answer.
    #[error("`{tool}` has no result: {why}{}", warn_repeat(*.reads))]
    NoResult {
        /// Name of the tool for models.
        tool: String,
        /// Reason, with secrets masked.
        why: String,
        /// True if the tool only reads, so that a repetition does no harm.
        reads: bool,
    },
    /// Arguments that may not leave.
    #[error(
        "the arguments of `{0}` hold a secret, or something that looks like one, so they are not sent: leave it out. \
         A server's own credentials belong into its entry in `spec.mcpServers`"
    )]
    Secret(String),
}

fn list_closest(closest: &[String]) -> String {
    if closest.is_empty() {
        return ": look for one with FindTool".to_owned();
    }
    let names: Vec<String> = closest.iter().map(|name| format!("`{name}`")).collect();
    format!(": did you mean {}?", names.join(" or "))
}

const fn warn_repeat(reads: bool) -> &'static str {
    if reads {
        ". It changes nothing: it can be called again"
    } else {
        ". It may have run: find out whether it did before you call it again"
    }
}

impl From<McpRefusal> for ApiError {
    fn from(refusal: McpRefusal) -> Self {
        let code = match refusal {
            McpRefusal::Invalid(_) | McpRefusal::Unknown { .. } | McpRefusal::Secret(_) => {
                ErrorCode::InvalidRequest
            }
            McpRefusal::Forbidden { .. } | McpRefusal::UsedUp { .. } => ErrorCode::Forbidden,
            McpRefusal::Away { .. }
            | McpRefusal::Starting { .. }
            | McpRefusal::Limited { .. }
            | McpRefusal::NoRight { .. }
            | McpRefusal::Repeated(_)
            | McpRefusal::NoResult { .. } => ErrorCode::Upstream,
        };
        Self::new(code, refusal.to_string())
    }
}

/// Names that are like a wrong one, the most alike first.
pub(crate) fn closest_names<'a>(wrong: &str, names: impl Iterator<Item = &'a str>) -> Vec<String> {
    const LIKE: f64 = 0.7;
    const MOST: usize = 3;
    let mut alike: Vec<(f64, &str)> = names
        .map(|name| (strsim::normalized_damerau_levenshtein(wrong, name), name))
        .filter(|(alike, _)| *alike >= LIKE)
        .collect();
    alike.sort_by(|(a, one), (b, other)| b.total_cmp(a).then_with(|| one.cmp(other)));
    alike.into_iter().take(MOST).map(|(_, name)| name.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_name_is_answered_with_those_like_it() {
        let names = ["mcp__db__query", "mcp__db__tables", "mcp__web__click"];
        let closest = closest_names("mcp__db__qery", names.into_iter());
        assert_eq!(closest, ["mcp__db__query"]);
        let text = McpRefusal::Unknown { name: "mcp__db__qery".into(), closest }.to_string();
        assert_eq!(text, "there is no tool `mcp__db__qery`: did you mean `mcp__db__query`?");
        assert!(closest_names("mcp__x__unlike_any_of_them", names.into_iter()).is_empty());
    }
}
