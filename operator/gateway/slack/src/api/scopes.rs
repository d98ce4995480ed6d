//! Scopes that the app was granted, compared with what CodeButler does with them. Pure.

use std::collections::BTreeSet;

/// Scope that lets a message carry a role's own name and icon.
pub(crate) const CUSTOMIZE: &str = "chat:write.customize";

/// Scope that lets files be posted.
pub(crate) const FILES: &str = "files:write";

/// Scope that lets links be shown with what they lead to.
pub(crate) const UNFURL: &str = "links:write";

/// Scope of apps that are declared agents.
pub(crate) const AGENT: &str = "assistant:write";

/// Required scopes: without one of each group, there is no conversation.
const ESSENTIAL: [&[&str]; 2] = [&["chat:write"], &["channels:history", "groups:history"]];

/// Optional scopes, each with what is missing without it.
const OPTIONAL: [(&str, &str); 10] = [
    (AGENT, "(features.agent_view in the app's manifest) a run is a line that is edited"),
    ("channels:read", "a yes for a thread does not end when its giver leaves a public channel"),
    (CUSTOMIZE, "roles speak under the app's name"),
    ("files:read", "files are not read"),
    (FILES, "long code is posted in pieces"),
    ("groups:read", "a yes for a thread does not end when its giver leaves a private channel"),
    ("im:history", "direct messages get no answer"),
    ("reactions:read", "reactions are not heard"),
    ("reactions:write", "no message gets 👀"),
    ("users:read", "only people whom spec.access.users names decide"),
];

/// True if an error code means that the app lacks a right.
pub(crate) fn is_ungranted(code: &str) -> bool {
    matches!(code, "missing_scope" | "not_allowed_token_type")
}

/// Scopes of a bot token, as Slack names them in a header of each answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TokenScopes(BTreeSet<String>);

impl TokenScopes {
    /// Parses a header of comma-separated scopes, such as `a,b, c`.
    pub(crate) fn parse(header: &str) -> Self {
        let scopes = header.split(',').map(str::trim).filter(|scope| !scope.is_empty());
        Self(scopes.map(str::to_owned).collect())
    }

    pub(crate) fn has(&self, scope: &str) -> bool {
        self.0.contains(scope)
    }

    /// True if no scope is missing, neither a required nor an optional one.
    pub(crate) fn suffice(&self) -> bool {
        self.lacks().is_empty() && self.limits().is_none()
    }

    /// The required scopes that are missing.
    pub(crate) fn lacks(&self) -> Vec<String> {
        let missing = ESSENTIAL.iter().filter(|any| !any.iter().any(|scope| self.has(scope)));
        missing.map(|any| any.join(" or ")).collect()
    }

    /// The optional scopes that are missing, and what that means; `None` if there are none.
    pub(crate) fn limits(&self) -> Option<String> {
        let missing = OPTIONAL.iter().filter(|(scope, _)| !self.has(scope));
        let told: Vec<String> =
            missing.map(|(scope, meaning)| format!("without {scope} {meaning}")).collect();
        (!told.is_empty()).then(|| told.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_is_missing_is_named_at_once() {
        let all = "assistant:write,channels:read,chat:write, groups:history,chat:write.customize,files:read,files:write,\
                   groups:read,im:history,reactions:read,reactions:write,users:read";
        let scopes = TokenScopes::parse(all);
        assert_eq!((scopes.lacks(), scopes.limits()), (Vec::new(), None));
        let none = TokenScopes::parse("users:read");
        assert_eq!(none.lacks(), ["chat:write", "channels:history or groups:history"]);
        let few = TokenScopes::parse(
            "assistant:write,chat:write,channels:history,channels:read,files:read,files:write,im:history,reactions:read,users:read",
        );
        assert_eq!(few.lacks(), Vec::<String>::new());
        assert_eq!(
            few.limits().unwrap(),
            "without chat:write.customize roles speak under the app's name, \
             without groups:read a yes for a thread does not end when its giver leaves a private channel, \
             without reactions:write no message gets 👀"
        );
    }
}
