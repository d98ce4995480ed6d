//! Dispatch decisions, case by case.

use codebutler_crds::SlackTs;
use codebutler_crds::thread::{HandOverReason as Why, HandoverRounds, ThreadStatus};
use serde_json::{Value, json};

use super::heard::{HeardConversation, HeardLine, HeardSpeaker};
use super::{DispatchFacts, DispatchStep, RepoTeam, decide_dispatch, find_nudge, is_unfinished};

fn ts(n: usize) -> SlackTs {
    format!("{n}.000000").parse().unwrap()
}

/// Names that mean nothing: what a role does is in the team alone.
fn team() -> RepoTeam {
    let roles = ["front", "maker", "judge", "chief", "scout"].map(str::to_owned).to_vec();
    RepoTeam {
        implements: Some("maker".into()),
        reviews: Some("judge".into()),
        leads: Some("chief".into()),
        draws: None,
        roles,
    }
}

/// `U` is a person, `!ID` CodeButler itself, anything else a role; each role's lines are one run unless
/// it is `role#run`.
fn heard(lines: &[(&str, &str, &str)]) -> HeardConversation {
    let line = |(n, (by, to, text)): (usize, &(&str, &str, &str))| HeardLine {
        ts: ts(n + 10),
        by: match (*by, by.strip_prefix('!')) {
            ("U", _) => HeardSpeaker::Person,
            (_, Some(id)) => HeardSpeaker::Own { id: id.to_owned() },
            (role, None) => {
                let (role, run) = role.split_once('#').unwrap_or((role, "1"));
                HeardSpeaker::Role { role: role.to_owned(), run: run.to_owned() }
            }
        },
        to: to.split_whitespace().map(str::to_owned).collect(),
        text: (*text).to_owned(),
    };
    HeardConversation::new(lines.iter().enumerate().map(line).collect())
}

fn status(value: &Value) -> ThreadStatus {
    serde_json::from_value(value.clone()).unwrap()
}

fn approved() -> Value {
    json!({"ts": ts(5), "hash": "h", "role": "front", "approvedBy": "U1"})
}

fn pull() -> Value {
    json!({"number": 7, "url": "https://example.org/7", "state": "open"})
}

fn idle() -> Value {
    json!({"state": "Idle", "inbox": ts(5), "done": ts(5)})
}

fn after(
    role: &str,
    value: &Value,
    heard: &HeardConversation,
) -> Option<(Option<String>, Why, String)> {
    let (team, status) = (team(), status(value));
    match decide_dispatch(&DispatchFacts { team: &team, status: &status, role, heard }) {
        DispatchStep::Rest => None,
        DispatchStep::Pass(decided) => Some((decided.role, decided.why, decided.id)),
    }
}

/// Returns the role that goes on and the reason; `people` if nobody does by itself, `-` if it
/// rests.
fn next(role: &str, value: &Value, lines: &[(&str, &str, &str)]) -> String {
    match after(role, value, &heard(lines)) {
        None => "-".to_owned(),
        Some((role, why, _)) => format!("{} {why:?}", role.as_deref().unwrap_or("people")),
    }
}

/// The role whose run ended, the Thread's status, the lines said, and the expected outcome.
type Case<'a> = (&'a str, &'a Value, &'a [(&'a str, &'a str, &'a str)], &'a str);

/// Checks each row with all roles at rest.
fn check(table: &[Case<'_>]) {
    for (role, status, lines, expected) in table {
        let mut status = (*status).clone();
        status["roles"] =
            json!({"front": idle(), "maker": idle(), "judge": idle(), "chief": idle()});
        assert_eq!(next(role, &status, lines), *expected, "{role} {status} {lines:?}");
    }
}

#[test]
fn who_goes_on_after_a_run() {
    let (planned, open) =
        (json!({"plan": approved()}), json!({"plan": approved(), "pullRequest": pull()}));
    let free = json!({});
    let table: &[Case<'_>] = &[
        // Nothing is approved: an answer is an answer.
        ("front", &free, &[("U", "front", "why?"), ("front", "", "Because.")], "-"),
        ("maker", &free, &[("U", "maker", "?"), ("maker", "", "Yes.")], "-"),
        // Asked by a role, and nobody is addressed: back to it.
        ("scout", &free, &[("front", "scout", "which?"), ("scout", "", "3.2")], "front Answered"),
        ("front", &free, &[("maker", "front", "which?"), ("front", "", "this")], "maker Answered"),
        // A person says something in between.
        (
            "scout",
            &free,
            &[("front", "scout", "?"), ("U", "scout", "also"), ("scout", "", "3")],
            "front Answered",
        ),
        // A question of a run before is answered already.
        (
            "chief",
            &open,
            &[
                ("judge", "chief", "fine"),
                ("chief#1", "", "Ready"),
                ("U", "chief", "?"),
                ("chief#2", "", "It is"),
            ],
            "people NotClosed",
        ),
        // A decision is nobody's question.
        (
            "front",
            &free,
            &[("scout", "front", "?"), ("!on:answer:front:1", "front", "→"), ("front", "", "ok")],
            "-",
        ),
        // The plan waits.
        (
            "front",
            &planned,
            &[("U", "front", "?"), ("front", "", "Over to it.")],
            "maker PlanWaits",
        ),
        ("scout", &planned, &[("U", "scout", "?"), ("scout", "", "3")], "maker PlanWaits"),
        (
            "front",
            &planned,
            &[("U", "", "?"), ("!on:plan:maker:5.000000", "maker", "→"), ("front", "", "ok")],
            "people NoPullRequest",
        ),
        // A person spoke since: anew.
        (
            "front",
            &planned,
            &[("!on:plan:maker:5.000000", "maker", "→"), ("U", "", "go on"), ("front", "", "ok")],
            "maker PlanWaits",
        ),
        // The role that implements stops without a pull request.
        ("maker", &planned, &[("maker", "", "Done, all tests pass.")], "people NoPullRequest"),
    ];
    check(table);
}

#[test]
fn who_goes_on_once_there_is_a_pull_request() {
    let open = json!({"plan": approved(), "pullRequest": pull()});
    let reviewed = [("judge", "maker", "One finding"), ("maker#2", "", "Done")];
    let table: &[Case<'_>] = &[
        // Its pull request is there.
        ("maker", &open, &[("maker", "", "Done, all tests pass.")], "judge NotReviewed"),
        ("maker", &open, &[("front", "maker", "go"), ("maker", "", "Done.")], "judge NotReviewed"),
        ("maker", &open, &reviewed, "judge Answered"),
        (
            "maker",
            &open,
            &[("judge", "chief", "fine"), ("chief", "maker", "rename it"), ("maker", "", "Done")],
            "chief Answered",
        ),
        // The review says what it came to, and addresses nobody.
        (
            "judge",
            &open,
            &[("maker", "judge", "look"), ("judge", "", "Approved.")],
            "chief ReviewPassed",
        ),
        (
            "judge",
            &open,
            &[("maker", "judge", "look"), ("judge", "", "One finding: x")],
            "maker ReviewFound",
        ),
        ("judge", &open, &[("maker", "judge", "look"), ("judge", "", "Hm.")], "maker Answered"),
        ("judge", &open, &[("U", "judge", "look"), ("judge", "", "Hm.")], "chief NotClosed"),
        // The lead does not ask.
        (
            "chief",
            &open,
            &[
                ("judge", "chief", "fine"),
                ("chief#1", "", "Hm."),
                ("!on:close:chief:5.000000.7", "chief", "→"),
                ("chief#2", "", "Fine."),
            ],
            "people NotClosed",
        ),
        (
            "chief",
            &open,
            &[("judge", "chief", "?"), ("chief", "", "The first way.")],
            "judge Answered",
        ),
        // Everything but the question whether to merge.
        (
            "front",
            &open,
            &[("judge", "chief", "fine"), ("U", "front", "?"), ("front", "", "It is 3.")],
            "chief NotClosed",
        ),
        ("front", &open, &[("U", "front", "?"), ("front", "", "It is 3.")], "judge NotReviewed"),
    ];
    check(table);
}

#[test]
fn what_goes_on_or_is_asked_is_left_alone() {
    let words = [("maker", "", "Done.")];
    let with = |name: &str, value: Value| {
        let mut status = json!({"plan": approved(), "roles": {"maker": idle(), "judge": idle()}});
        status[name] = value;
        status
    };
    let role = |name: &str, value: Value| {
        let mut status = with("cost", Value::Null);
        status["roles"][name] = value;
        status
    };
    assert_eq!(next("maker", &with("cost", Value::Null), &words), "people NoPullRequest");
    let asked = json!([{"id": "maker:k", "role": "maker", "tool": "Bash", "hash": "a", "ts": ts(6),
        "expires": "2026-01-01T00:00:00Z"}]);
    let click = json!([{"id": "c", "role": "judge", "kind": "plan", "choice": "x", "user": "U", "message": ts(4)}]);
    for status in [
        role("judge", json!({"state": "Running"})),
        role("judge", json!({"state": "Idle", "inbox": ts(9), "done": ts(5)})),
        role("maker", json!({"state": "Idle", "inbox": ts(9), "done": ts(5)})),
        role("maker", json!({"state": "Waiting"})),
        role("maker", json!({"state": "Failed"})),
        with("pending", click),
        with("closing", json!({"ts": ts(6), "role": "chief"})),
        with("approvals", asked),
        with("offers", json!([{"ts": ts(6), "role": "front", "kind": "choice", "of": 2}])),
        with("plan", json!({"ts": ts(6), "hash": "h", "role": "front"})),
        with("handovers", json!([{"id": "a", "why": "approved", "role": "maker"}])),
    ] {
        assert_eq!(next("maker", &status, &words), "-", "{status}");
        if status["roles"]["maker"]["state"] == "Idle"
            && !status["roles"]["maker"]["inbox"].eq(&json!(ts(9)))
        {
            let (team, status) = (team(), self::status(&status));
            assert_eq!(find_nudge(&team, &status, "maker", "Done.", &[]), None);
        }
    }
    // Another role's old question does not hold up the work; learnings to judge don't either.
    let mut open = role("front", json!({"state": "Waiting"}));
    open["pullRequest"] = pull();
    open["offers"] = json!([{"ts": ts(6), "role": "front", "kind": "learnings", "of": 2}]);
    assert_eq!(next("maker", &open, &words), "judge NotReviewed");
    // The role that is to go on has stopped, and people know.
    for state in ["Failed", "Waiting"] {
        let status = role("maker", json!({"state": state}));
        assert_eq!(next("front", &status, &[("front", "", "It is 3.")]), "-", "{state}");
    }
}

#[test]
fn who_was_addressed_in_second_place_comes_next() {
    let mut status = json!({"queued": [
        {"role": "gone", "from": "front", "ts": ts(9)}, {"role": "scout", "from": "front", "ts": ts(9)}]});
    status["roles"] = json!({"maker": {"state": "Waiting"}});
    let decided = after("maker", &status, &heard(&[]));
    let expected =
        (Some("scout".to_owned()), Why::AlsoAddressed, "on:also:scout:9.000000".to_owned());
    assert_eq!(decided, Some(expected));
}

#[test]
fn two_roles_that_are_passed_on_without_end_reach_the_lead() {
    let lines = [("judge", "maker", "One finding"), ("maker#2", "", "Done")];
    let mut before = status(&json!({"plan": approved(), "pullRequest": pull()}));
    before.rounds = Some(Box::new(HandoverRounds {
        from: "judge".into(),
        to: "maker".into(),
        ts: ts(10),
        before: Some(ts(9)),
        times: 6,
        idle: 0,
    }));
    let (team, heard) = (team(), heard(&lines));
    let facts = DispatchFacts { team: &team, status: &before, role: "maker", heard: &heard };
    let DispatchStep::Pass(decided) = decide_dispatch(&facts) else { panic!() };
    assert_eq!((decided.role.as_deref(), decided.why), (Some("chief"), Why::Rounds));
    assert_eq!(decided.id, "rounds:11.000000");
}

#[test]
fn nobody_goes_on_once_people_were_told_that_two_roles_say_nothing() {
    let silent = [("maker", "front", "ok"), ("front", "", "go ahead")];
    let told = |id: &'static str| [silent[0], silent[1], (id, "", "→")];
    let (about, elsewhere) = (told("!idle:11.000000"), told("!idle:9.000000"));
    let answered = [about[0], about[1], about[2], ("U", "", "go on")];
    let free = json!({});
    let (planned, open) =
        (json!({"plan": approved()}), json!({"plan": approved(), "pullRequest": pull()}));
    let table: &[Case<'_>] = &[
        ("front", &free, &silent, "maker Answered"),
        ("front", &free, &about, "-"),
        ("front", &planned, &about, "-"),
        ("front", &open, &about, "-"),
        // About other words than its last ones.
        ("front", &free, &elsewhere, "maker Answered"),
        // A person has said something since.
        ("front", &free, &answered, "maker Answered"),
        ("front", &open, &answered, "maker Answered"),
    ];
    check(table);
}

#[test]
fn people_hear_of_a_lead_that_was_to_decide_and_did_not() {
    let state = json!({"plan": approved(), "pullRequest": pull()});
    let lines = [
        ("judge", "maker", "One finding"),
        ("!rounds:10.000000", "chief", "→"),
        ("chief", "", "Both have a point."),
    ];
    assert_eq!(next("chief", &state, &lines), "people Rounds");
}

#[test]
fn a_decision_about_the_same_has_a_new_name_once_a_person_spoke() {
    let status = json!({"plan": approved(), "roles": {"maker": idle()}});
    let told = ("!on:none::5.000000", "", "→");
    let words = ("maker", "", "Done.");
    assert_eq!(after("maker", &status, &heard(&[told, words])), None);
    let (_, _, id) = after("maker", &status, &heard(&[told, ("U", "", "go on"), words])).unwrap();
    assert_eq!(id, "on:none::5.000000~1");
    let again = [told, ("U", "", "x"), ("!on:none::5.000000~1", "", "→"), words];
    assert_eq!(after("maker", &status, &heard(&again)), None);
}

#[test]
fn a_team_without_some_roles_ends_with_the_people() {
    let small = RepoTeam {
        roles: vec!["solo".into()],
        implements: Some("solo".into()),
        ..RepoTeam::default()
    };
    let status = status(&json!({"plan": approved(), "pullRequest": pull()}));
    let heard = heard(&[("solo", "", "Done.")]);
    let facts = DispatchFacts { team: &small, status: &status, role: "solo", heard: &heard };
    let DispatchStep::Pass(decided) = decide_dispatch(&facts) else { panic!() };
    assert_eq!((decided.role, decided.why), (None, Why::NotClosed));
}

#[test]
fn a_run_is_nudged_where_its_words_would_let_the_work_rest() {
    let (team, free) = (team(), json!({}));
    let (planned, open) =
        (json!({"plan": approved()}), json!({"plan": approved(), "pullRequest": pull()}));
    let declined = json!({"plan": {"ts": ts(5), "hash": "h", "role": "front", "declinedBy": "U1"}});
    let decided = |choice: &str| {
        let closing = json!({"ts": ts(6), "role": "chief", "choice": choice});
        json!({"plan": approved(), "pullRequest": pull(), "closing": closing})
    };
    let (merge, discard) = (decided("merge"), decided("discard"));
    let mut waiting = decided("merge");
    waiting["closing"]["waits"] = json!("checks");
    let plan = "Plan:\n1. a\n2. b";
    for (role, value, words, to, expected) in [
        ("maker", &planned, "Done, all tests pass.", None, Some("no pull request")),
        ("maker", &planned, "Now I will run the tests.", None, Some("no pull request")),
        ("maker", &planned, "Which one?", Some("front"), None),
        ("maker", &open, "Done.", None, None),
        ("maker", &free, "It is 3.", None, None),
        ("judge", &open, "I read it.", None, Some("@codebutler.maker")),
        ("judge", &open, "Approved.", None, None),
        ("judge", &open, "One finding.", None, None),
        ("chief", &open, "Everything is fine.", None, Some("decision: merge")),
        ("chief", &free, "Everything is fine.", None, None),
        ("chief", &merge, "Merged!", None, Some("Call CloseThread")),
        ("chief", &discard, "Closed.", None, Some("without merging")),
        ("chief", &merge, "It conflicts.", Some("maker"), None),
        ("maker", &merge, "Done.", None, None),
        // GitHub waits for checks or its queue: the merge needs no role any more.
        ("chief", &waiting, "It is merged once the checks pass.", None, None),
        ("maker", &waiting, "Done.", None, None),
        ("judge", &waiting, "I read it.", None, None),
        ("front", &free, plan, None, Some("decision: plan")),
        ("front", &declined, plan, None, Some("decision: plan")),
        ("front", &planned, plan, None, None),
        ("front", &free, "It is 3.", None, None),
        ("maker", &free, plan, None, None),
    ] {
        let to: Vec<String> = to.into_iter().map(str::to_owned).collect();
        let said = find_nudge(&team, &status(value), role, words, &to);
        match expected {
            None => assert_eq!(said, None, "{role} {words}"),
            Some(part) => {
                assert!(said.as_ref().is_some_and(|s| s.contains(part)), "{role} {words} {said:?}");
            }
        }
    }
}

#[test]
fn what_is_approved_is_unfinished_until_it_is_merged_or_given_up() {
    let merged = json!({"number": 7, "url": "u", "state": "merged"});
    for (value, expected) in [
        (json!({}), false),
        (json!({"plan": {"ts": ts(5), "hash": "h", "role": "front"}}), false),
        (json!({"plan": approved()}), true),
        (json!({"plan": approved(), "pullRequest": pull()}), true),
        (json!({"plan": approved(), "pullRequest": merged}), false),
        (
            json!({"plan": approved(), "closing": {"ts": ts(6), "role": "chief", "choice": "discard"}}),
            false,
        ),
        (json!({"plan": approved(), "closing": {"ts": ts(6), "role": "chief"}}), true),
    ] {
        assert_eq!(is_unfinished(&status(&value)), expected, "{value}");
    }
}
