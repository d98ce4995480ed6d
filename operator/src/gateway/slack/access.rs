//! Who may steer. Pure.

/// Told to who may not.
pub const NOT_PERMITTED: &str =
    "You can't steer here: `spec.access.users` of this channel's Repo does not name you.";

/// Whether a person may start threads, answer, steer and merge.
pub fn permits(users: &[String], user: &str) -> bool {
    users.is_empty() || users.iter().any(|known| known == user)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_list_permits_everybody_and_any_other_only_those_on_it() {
        let list = |users: &[&str]| users.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert!(permits(&list(&[]), "U1"));
        assert!(permits(&list(&["U2", "U1"]), "U1"));
        assert!(!permits(&list(&["U2", "U11"]), "U1"));
    }
}
