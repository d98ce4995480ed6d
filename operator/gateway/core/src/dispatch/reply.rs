//! Whom a person's message is for that names nobody: pure.

use codebutler_crds::thread::{RoleState, RoleStatus, RoutedReply};
use codebutler_crds::{SlackTs, ThreadStatus};

use super::RepoTeam;

/// Replies of which it is remembered whom they were for.
const REMEMBERED: usize = 32;

/// The role for which a reply was stored, if it is not the first one.
pub fn stored_reply<'a>(status: &'a ThreadStatus, ts: &SlackTs) -> Option<&'a str> {
    status.routed.iter().find(|routed| routed.ts == *ts).map(|routed| routed.role.as_str())
}

/// Remembers it: a later look at the message comes to the same, whatever the roles do by then.
pub fn store_reply(status: &mut ThreadStatus, ts: &SlackTs, role: &str) {
    if stored_reply(status, ts).is_none() {
        if status.routed.len() >= REMEMBERED {
            status.routed.remove(0);
        }
        status.routed.push(RoutedReply { ts: ts.clone(), role: role.to_owned() });
    }
}

/// The role that asked, else the one that stopped last, else the one at work. None: it is for whoever takes
/// what is for nobody.
pub fn find_reply<'a>(
    status: &'a ThreadStatus,
    team: &'a RepoTeam,
    ts: &SlackTs,
) -> Option<&'a str> {
    let first = team.first();
    let known = first.and_then(|first| status.roles.get(first)?.inbox.as_ref());
    if known.is_some_and(|known| known >= ts) {
        // Delivered late or again: nothing was asked then.
        return None;
    }
    let roles = || status.roles.iter().filter(|(name, _)| team.has(name));
    let spoke = |role: &RoleStatus| role.said.clone();
    let before = |role: &RoleStatus| role.said.as_ref().is_none_or(|said| said < ts);
    let asked = roles()
        .filter(|(_, role)| role.state == Some(RoleState::Waiting) && before(role))
        .filter(|(_, role)| role.addressed.is_none())
        .max_by_key(|(_, role)| spoke(role));
    if let Some((name, _)) = asked {
        return Some(name);
    }
    // A stop is over once somebody else has spoken.
    let last = roles().filter(|(_, role)| before(role)).max_by_key(|(_, role)| spoke(role));
    let stopped = |role: &RoleStatus| role.state == Some(RoleState::Failed);
    if let Some((name, _)) = last.filter(|(_, role)| stopped(role) && role.said.is_some()) {
        return Some(name);
    }
    let works = |name: &&str| status.is_running(name) || status.wants(name);
    let working: Vec<&str> = team.roles.iter().map(String::as_str).filter(works).collect();
    match working[..] {
        [one] => Some(one),
        [] => None,
        _ if working.iter().any(|name| Some(*name) == first) => None,
        _ => working.iter().find(|name| team.is_implementer(name)).copied(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn ts(n: u32) -> SlackTs {
        format!("{n}.000000").parse().unwrap()
    }

    fn team() -> RepoTeam {
        let roles = ["pm", "coder", "reviewer"].map(str::to_owned).to_vec();
        RepoTeam { implements: Some("coder".into()), roles, ..RepoTeam::default() }
    }

    #[test]
    fn a_reply_goes_to_whoever_asked_stopped_or_works() {
        let team = &team();
        let role = |state: &str, said: u32, inbox: u32, done: u32| json!({"state": state, "said": ts(said), "inbox": ts(inbox), "done": ts(done)});
        let idle = || role("Idle", 4, 2, 2);
        for (roles, expected) in [
            (json!({}), "pm"),
            (json!({"pm": idle()}), "pm"),
            (json!({"pm": idle(), "coder": role("Idle", 5, 5, 5)}), "pm"),
            (json!({"pm": idle(), "coder": role("Waiting", 5, 5, 5)}), "coder"),
            // The most recent question.
            (json!({"pm": role("Waiting", 4, 2, 2), "coder": role("Waiting", 5, 5, 5)}), "coder"),
            (json!({"pm": role("Waiting", 6, 2, 2), "coder": role("Waiting", 5, 5, 5)}), "pm"),
            // A role that asks comes before one that stopped, and that one before one that works.
            (json!({"pm": role("Waiting", 4, 2, 2), "coder": role("Failed", 5, 5, 5)}), "pm"),
            (json!({"pm": idle(), "coder": role("Failed", 5, 5, 5)}), "coder"),
            (json!({"pm": role("Running", 4, 2, 1), "coder": role("Failed", 5, 5, 5)}), "coder"),
            (
                json!({"reviewer": role("Failed", 5, 5, 5), "coder": role("Failed", 6, 5, 5)}),
                "coder",
            ),
            // Somebody spoke since.
            (json!({"pm": role("Idle", 7, 2, 2), "coder": role("Failed", 5, 5, 5)}), "pm"),
            // At work, or about to be.
            (json!({"pm": idle(), "coder": role("Running", 5, 5, 4)}), "coder"),
            (json!({"pm": idle(), "coder": role("Idle", 3, 5, 4)}), "coder"),
            (json!({"pm": role("Running", 4, 2, 1), "coder": role("Running", 5, 5, 4)}), "pm"),
            (
                json!({"coder": role("Running", 5, 5, 4), "reviewer": role("Running", 5, 5, 4)}),
                "coder",
            ),
            // It asked another role, not the people.
            (
                json!({"pm": role("Running", 4, 2, 1),
                "coder": {"state": "Waiting", "said": ts(5), "addressed": "pm"}}),
                "pm",
            ),
            // Asked after the message was written, or the message is an old one of the first role.
            (json!({"pm": idle(), "coder": role("Waiting", 11, 5, 5)}), "pm"),
            (json!({"pm": role("Idle", 4, 10, 2), "coder": role("Waiting", 5, 5, 5)}), "pm"),
            // Not of this team any more.
            (json!({"pm": idle(), "gone": role("Waiting", 5, 5, 5)}), "pm"),
        ] {
            let status: ThreadStatus = serde_json::from_value(json!({"roles": roles})).unwrap();
            let found = find_reply(&status, team, &ts(10)).unwrap_or("pm");
            assert_eq!(found, expected, "{roles}");
        }
        let pending: Value = json!([{"id": "a", "role": "coder", "kind": "plan", "choice": "approve",
            "user": "U1", "message": "3.000000"}]);
        let status: ThreadStatus = serde_json::from_value(
            json!({"roles": {"pm": idle(), "coder": {}}, "pending": pending}),
        )
        .unwrap();
        assert_eq!(find_reply(&status, team, &ts(10)), Some("coder"));
        assert_eq!(find_reply(&status, &RepoTeam::default(), &ts(10)), None);
    }

    #[test]
    fn whom_a_reply_was_for_is_remembered() {
        let mut status = ThreadStatus::default();
        for n in 1..=40 {
            store_reply(&mut status, &ts(n), "coder");
            store_reply(&mut status, &ts(n), "reviewer");
        }
        assert_eq!(status.routed.len(), REMEMBERED);
        assert_eq!(stored_reply(&status, &ts(40)), Some("coder"));
        assert_eq!(stored_reply(&status, &ts(1)), None);
    }
}
