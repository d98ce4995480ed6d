//! Mentions of roles in messages. Pure.

const ADDRESS: &str = "@codebutler";

/// True if a line of the message begins with a role's address, whatever decorates it.
pub(crate) fn hands_over(text: &str) -> bool {
    let decorates = |c: char| !c.is_alphanumeric() && !"@`>".contains(c);
    text.lines().any(|line| line.trim_start_matches(decorates).starts_with(ADDRESS))
}

/// True if a message speaks to a role, or of one.
pub(crate) fn addresses_role(text: &str) -> bool {
    text.contains(ADDRESS)
}
