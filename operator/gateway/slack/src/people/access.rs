//! Rights of people: to steer, and to decide. Pure.

/// Told to people whom the Repo's list of users does not name.
pub(crate) const NOT_PERMITTED: &str = "You can't steer here: this team lists who may, and you are not among them. Whoever runs \
     CodeButler can add you (`spec.access.users` of this channel's Repo).";
const BOT: &str = "A bot decides nothing here.";
const GUEST: &str = "This did not count: a guest of the workspace decides only where the team lists them \
     (`spec.access.users` of this channel's Repo). A full member of the workspace can decide.";
const STRANGER: &str = "This did not count: people of other organisations decide only where the team lists them \
     (`spec.access.users` of this channel's Repo). A full member of the workspace that the app is in can decide.";
const GONE: &str = "This did not count: the account is deactivated in this workspace. Somebody who is in it can decide.";
const UNKNOWN: &str = "This did not count: Slack does not tell the app who you are. Whoever runs CodeButler can give the app the \
     scope `users:read`, or list you (`spec.access.users` of this channel's Repo).";
/// Told where the person who decided has left the channel since.
pub(crate) const LEFT: &str =
    "This does not count any more: you are not in this channel. Somebody who is in it can decide.";
pub(crate) const SHARED: &str = "the channel is shared with another organisation and `spec.access.users` is empty: everybody in \
     it may give work, only full members of the app's own workspace decide";

/// Relation of a user to the app's workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PersonKind {
    Member,
    /// Guest, invited to some channels.
    Guest,
    /// Member of another organisation, met in a shared channel.
    Stranger,
    /// Deactivated account that was one of these.
    Gone,
    /// A bot: it decides nothing.
    Bot,
    /// Slack does not say enough.
    Unknown,
}

/// True if a person may start threads, answer and steer.
pub(crate) fn permits_user(users: &[String], user: &str) -> bool {
    users.is_empty() || names_user(users, user)
}

/// Reason for which a yes or no to what is about to happen does not count from this person; `None` if it does.
pub(crate) fn access_refusal(
    users: &[String],
    user: &str,
    kind: PersonKind,
) -> Option<&'static str> {
    match kind {
        PersonKind::Bot => Some(BOT),
        PersonKind::Gone => Some(GONE),
        _ if names_user(users, user) => None,
        _ if !users.is_empty() => Some(NOT_PERMITTED),
        PersonKind::Member => None,
        PersonKind::Guest => Some(GUEST),
        PersonKind::Stranger => Some(STRANGER),
        PersonKind::Unknown => Some(UNKNOWN),
    }
}

fn names_user(users: &[String], user: &str) -> bool {
    users.iter().any(|known| known == user)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(users: &[&str]) -> Vec<String> {
        users.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn an_empty_list_permits_everybody_and_any_other_only_those_on_it() {
        assert!(permits_user(&list(&[]), "U1"));
        assert!(permits_user(&list(&["U2", "U1"]), "U1"));
        assert!(!permits_user(&list(&["U2", "U11"]), "U1"));
    }

    #[test]
    fn full_members_decide_and_others_if_they_are_named_and_bots_never() {
        let (anybody, ana, bob) = (list(&[]), list(&["U1"]), list(&["U2"]));
        for (kind, by_nobody) in [
            (PersonKind::Member, None),
            (PersonKind::Guest, Some(GUEST)),
            (PersonKind::Stranger, Some(STRANGER)),
            (PersonKind::Unknown, Some(UNKNOWN)),
        ] {
            assert_eq!(access_refusal(&anybody, "U1", kind), by_nobody, "{kind:?}");
            assert_eq!(access_refusal(&ana, "U1", kind), None, "{kind:?}");
            assert_eq!(access_refusal(&bob, "U1", kind), Some(NOT_PERMITTED), "{kind:?}");
        }
        for (kind, refusal) in [(PersonKind::Bot, BOT), (PersonKind::Gone, GONE)] {
            for users in [&anybody, &ana, &bob] {
                assert_eq!(access_refusal(users, "U1", kind), Some(refusal), "{kind:?}");
            }
        }
    }
}
