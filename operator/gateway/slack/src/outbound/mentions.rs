//! Whom a thread mentions when it needs an answer. Pure.

use std::collections::BTreeSet;

use codebutler_crds::Thread;

/// Slack user ids of the people whose answer a question waits for: who spoke last, else who asked for
/// the thread. Nobody if neither is known to Slack.
pub(crate) fn people_of(thread: &Thread) -> Vec<String> {
    let speaker = thread.status.as_ref().and_then(|status| status.speaker.as_deref());
    let known = [speaker, thread.spec.requested_by.as_deref()];
    known.into_iter().flatten().find(|user| is_id(user)).map(str::to_owned).into_iter().collect()
}

/// The same as mentions; nothing if nobody is known.
pub(crate) fn mention_all(thread: &Thread) -> String {
    people_of(thread).iter().map(|user| format!("<@{user}>")).collect::<Vec<_>>().join(" ")
}

/// Slack user ids of all whom a role hears of besides those it has mail from: who asked for the thread,
/// who spoke last, who decided.
pub(crate) fn concerned_people(thread: &Thread) -> BTreeSet<String> {
    let status = thread.status.as_ref();
    let plan = status.and_then(|status| status.plan.as_ref());
    let closing = status.and_then(|status| status.closing.as_ref());
    [
        thread.spec.requested_by.as_ref(),
        status.and_then(|status| status.speaker.as_ref()),
        plan.and_then(|plan| plan.approved_by.as_ref()),
        plan.and_then(|plan| plan.declined_by.as_ref()),
        closing.and_then(|closing| closing.decided_by.as_ref()),
    ]
    .into_iter()
    .flatten()
    .filter(|user| is_id(user))
    .cloned()
    .collect()
}

/// A user as a mention, unless it can be none.
pub(crate) fn mention_user(user: &str) -> Option<String> {
    is_id(user).then(|| format!("<@{user}>"))
}

/// Whether a name can be a Slack user id, and nothing that Slack reads as more.
/// Mentions of people in a text of CodeButler's own, once it was rendered.
pub(crate) fn restore_mentions(rendered: &str) -> String {
    const BEGIN: &str = "&lt;@";
    const END: &str = "&gt;";
    let mut parts = rendered.split(BEGIN);
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.split_once(END).filter(|(user, _)| is_id(user)) {
            Some((user, rest)) => text.extend(["<@", user, ">", rest]),
            None => text.extend([BEGIN, part]),
        }
    }
    text
}

fn is_id(user: &str) -> bool {
    let mut bytes = user.bytes();
    let rest = |b: u8| b.is_ascii_uppercase() || b.is_ascii_digit();
    matches!(bytes.next(), Some(b'U' | b'W')) && (3..=21).contains(&user.len()) && bytes.all(rest)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn who_spoke_last_is_asked_and_what_is_no_user_pings_nobody() {
        for (speaker, requested_by, expected) in [
            (Some("U0123"), Some("U9999"), vec!["U0123"]),
            (None, Some("W9999"), vec!["W9999"]),
            (Some("nightly build"), Some("U9999"), vec!["U9999"]),
            (None, Some("U1> <!channel"), vec![]),
            (None, Some("USER"), vec!["USER"]),
            (None, None, vec![]),
        ] {
            let thread: Thread = serde_json::from_value(json!({
                "apiVersion": "codebutler.dev/v1alpha1", "kind": "Thread", "metadata": {"name": "t"},
                "spec": {"repo": "r", "requestedBy": requested_by},
                "status": {"speaker": speaker},
            }))
            .unwrap();
            assert_eq!(people_of(&thread), expected, "{speaker:?} {requested_by:?}");
        }
    }

    #[test]
    fn only_people_are_mentioned_again() {
        let rendered = "of &lt;@U0ANA&gt; and &lt;@here&gt;, &lt;!channel&gt; &lt;@U0BEN&gt;";
        let expected = "of <@U0ANA> and &lt;@here&gt;, &lt;!channel&gt; <@U0BEN>";
        assert_eq!(restore_mentions(rendered), expected);
        assert_eq!(restore_mentions("&lt;@U0ANA"), "&lt;@U0ANA");
    }
}
