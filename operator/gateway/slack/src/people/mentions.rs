//! Mentions of people when a thread needs an answer. Pure.

use std::collections::BTreeSet;

use codebutler_crds::{Thread, ThreadStatus};

/// Slack user ids of the people whose answer a question waits for: who asked for the thread and who took part last.
/// Nobody if none is known to Slack.
pub(crate) fn people_of(thread: &Thread) -> Vec<String> {
    thread.asked_people()
}

/// Slack user id of the person who reads what a role does: the one who spoke last, else the one who asked for
/// the thread.
pub(crate) fn reader_of(thread: &Thread) -> Option<String> {
    let speaker = thread.status.as_ref().and_then(|status| status.speaker.as_ref());
    speaker.into_iter().chain(&thread.spec.requested_by).find(|user| is_id(user)).cloned()
}

/// Mentions of all people whose answer is waited for; empty if nobody is known.
pub(crate) fn mention_all(thread: &Thread) -> String {
    mention_each(&people_of(thread))
}

/// Mentions of users, one after the other.
pub(crate) fn mention_each(people: &[String]) -> String {
    people.iter().filter_map(|user| mention_user(user)).collect::<Vec<_>>().join(" ")
}

/// Slack user ids of all whom a role hears of besides those it has mail from: who asked for the thread,
/// who took part last, who decided.
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
    .chain(status.iter().flat_map(|status| &status.speakers))
    .filter(|user| is_id(user))
    .cloned()
    .collect()
}

/// Slack user ids of all who are reminded of what a thread waits for: of the only ones who can give it, or else of all
/// who have to do with the thread.
pub(crate) fn reminded_people(thread: &Thread) -> Vec<String> {
    let asks_for_money = thread.status.as_ref().is_some_and(ThreadStatus::asks_for_money);
    let asked = thread.asked_people();
    if asks_for_money || asked == thread.people() {
        return concerned_people(thread).into_iter().collect();
    }
    asked
}

/// Mention of a user, unless it can be none.
pub(crate) fn mention_user(user: &str) -> Option<String> {
    is_id(user).then(|| format!("<@{user}>"))
}

/// Mentions of `people` in a text of CodeButler's own, once it was rendered. What it quotes calls nobody else.
pub(crate) fn restore_mentions(rendered: &str, people: &[String]) -> String {
    const BEGIN: &str = "&lt;@";
    const END: &str = "&gt;";
    let mut parts = rendered.split(BEGIN);
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part
            .split_once(END)
            .filter(|(user, _)| is_id(user) && people.iter().any(|one| one == user))
        {
            Some((user, rest)) => text.extend(["<@", user, ">", rest]),
            None => text.extend([BEGIN, part]),
        }
    }
    text
}

/// True if a name can be a Slack user id, and nothing that Slack reads as more.
fn is_id(user: &str) -> bool {
    codebutler_crds::thread::is_user(user)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn who_asked_and_who_spoke_last_are_called_and_what_is_no_user_pings_nobody() {
        for (speaker, requested_by, expected) in [
            (Some("U0123"), Some("U9999"), vec!["U9999", "U0123"]),
            (Some("U9999"), Some("U9999"), vec!["U9999"]),
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
    fn everybody_who_took_part_is_called_and_who_spoke_last_is_who_reads() {
        let thread: Thread = serde_json::from_value(json!({
            "apiVersion": "codebutler.dev/v1alpha1", "kind": "Thread", "metadata": {"name": "t"},
            "spec": {"repo": "r", "requestedBy": "U0ANA"},
            "status": {"speaker": "U0ANA", "speakers": ["U0BEN", "U0CIA", "U0ANA"]},
        }))
        .unwrap();
        assert_eq!(mention_all(&thread), "<@U0ANA> <@U0BEN> <@U0CIA>");
        assert_eq!(concerned_people(&thread).len(), 3, "reminders call them, too");
        assert_eq!(reader_of(&thread).as_deref(), Some("U0ANA"));
    }

    #[test]
    fn who_alone_can_answer_is_reminded_alone() {
        let remind = |status: serde_json::Value| {
            let thread: Thread = serde_json::from_value(json!({
                "apiVersion": "codebutler.dev/v1alpha1", "kind": "Thread", "metadata": {"name": "t"},
                "spec": {"repo": "r", "requestedBy": "U0ANA"}, "status": status,
            }))
            .unwrap();
            reminded_people(&thread)
        };
        let plan = json!({"ts": "2.000000", "hash": "h", "role": "pm", "declinedBy": "U0CIA"});
        assert_eq!(
            remind(json!({"speakers": ["U0BEN"], "plan": plan})),
            ["U0ANA", "U0BEN", "U0CIA"]
        );
        let servers = json!({"docs": {"calls": 0, "signIn": "U0BEN"}});
        let mut status = json!({"speakers": ["U0BEN", "U0CIA"], "mcp": {"servers": servers}});
        assert_eq!(remind(status.clone()), ["U0BEN"]);
        let ask = json!({"ts": "2.000000", "limit": "perThread", "roles": ["pm"]});
        status["budget"] = json!({"ask": ask});
        assert_eq!(remind(status).len(), 3, "anybody may raise a budget");
    }

    #[test]
    fn only_people_are_mentioned_again() {
        let rendered = "of &lt;@U0ANA&gt; and &lt;@here&gt;, &lt;!channel&gt; &lt;@U0BEN&gt;";
        let expected = "of <@U0ANA> and &lt;@here&gt;, &lt;!channel&gt; <@U0BEN>";
        let both = ["U0ANA", "U0BEN", "here"].map(str::to_owned);
        assert_eq!(restore_mentions(rendered, &both), expected);
        assert_eq!(restore_mentions("&lt;@U0ANA", &both), "&lt;@U0ANA");
        let only_ana = restore_mentions("&lt;@U0ANA&gt; &lt;@U0BEN&gt;", &both[..1]);
        assert_eq!(only_ana, "<@U0ANA> &lt;@U0BEN&gt;");
    }
}
