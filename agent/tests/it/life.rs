//! A role's life with what it is told: it wakes, works, waits, fails well, and leaves.

use std::time::Duration;

use axum::http::StatusCode;
use codebutler_wire::{AskedDecision, ErrorCode, PendingItem, RoleState};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;

use crate::world::{World, calls, in_order, results, says, until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_is_answered_and_the_pod_leaves() {
    let mut world = World::new(in_order(vec![
        calls(&[
            ("Read", json!({"path": "README"})),
            ("Glob", json!({"pattern": "*"})),
            ("GitLog", json!({})),
        ]),
        says("It greets the world."),
    ]))
    .await;
    let ts = world.gateway.lock().say("what does it do?", true);
    world.one_pod().await;
    let inner = world.gateway.lock();
    assert_eq!(inner.post_texts(), ["It greets the world."]);
    let states: Vec<_> = inner.reports.iter().map(|r| (r.state, r.turns)).collect();
    assert_eq!(states, [(RoleState::Running, 0), (RoleState::Idle, 2)]);
    assert_eq!(inner.last_report().done, Some(ts));
    assert_eq!(inner.sessions, 1, "a pod that wakes asks once before its first answer");
    let results = results(&inner.asked[1]);
    assert_eq!(results[0], "     1\thello\n     2\tworld\n");
    assert_eq!(results[1], "README");
    assert!(results[2].ends_with("Someone: First\n"), "{results:?}");
    let first = &inner.requests[0];
    assert_eq!(first["tool_choice"], "auto");
    assert_eq!(first["tools"].as_array().unwrap().len(), 14);
    let system = first["messages"][0]["content"].as_str().unwrap();
    assert!(
        system.contains("# How you work here") && system.contains("`codebutler/t`"),
        "{system}"
    );
    assert!(first.get("stream").is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_during_a_run_is_seen_before_the_next_model_call_and_once() {
    let mut world = World::new(in_order(vec![
        calls(&[("Bash", json!({"command": "true"}))]),
        calls(&[("Bash", json!({"command": "true"}))]),
        says("done"),
    ]))
    .await;
    {
        let mut inner = world.gateway.lock();
        let first = inner.say("begin", true);
        // The same event three times, and two out of order.
        let copy = inner.messages[0].clone();
        inner.messages.extend([copy.clone(), copy]);
        inner.say("second", true);
        inner.messages.reverse();
        assert_eq!(inner.messages.last().unwrap().ts, first);
        inner.meanwhile = Some((1, "also this"));
    }
    world.one_pod().await;
    let inner = world.gateway.lock();
    let told = |n: usize| inner.asked[n].iter().filter(|m| m["role"] == "user").count();
    assert_eq!([told(0), told(1), told(2)], [1, 2, 2]);
    let begin = inner.asked[0][1]["content"].as_str().unwrap();
    // With what is so now.
    let words = "[message 1001.000000 from user U1, to you]\n> begin\n\n[message 1002.000000 from user U1, to you]\n> \
                 second\n\n[CodeButler] ";
    assert!(begin.starts_with(words), "{begin}");
    assert_eq!(inner.last_report().done.as_ref().unwrap().as_str(), "1003.000000");
    assert!(!inner.wants());
    assert_eq!(inner.reports.len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_decision_wakes_and_is_handled() {
    let mut world = World::new(in_order(vec![
        calls(&[("SendMessage", json!({"message": "The plan", "decision": "plan"}))]),
        says("on it"),
    ]))
    .await;
    world.gateway.lock().say("fix it", true);
    world.one_pod().await;
    {
        let mut inner = world.gateway.lock();
        assert_eq!(inner.last_report().state, RoleState::Waiting);
        assert_eq!(inner.posts[0].decision, Some(AskedDecision::Plan));
        let message = inner.messages.last().unwrap().ts.clone();
        let (kind, choice, user) = ("plan".into(), "approve".into(), "U1".into());
        inner.pending.push(PendingItem {
            id: "click-1".into(),
            role: "pm".into(),
            kind,
            choice,
            user,
            message,
        });
    }
    world.one_pod().await;
    let inner = world.gateway.lock();
    assert_eq!(inner.last_report().handled, ["click-1"]);
    let told = inner.asked[1].last().unwrap()["content"].as_str().unwrap();
    let expected = "[decision] user U1 chose `approve` on the plan (message 1002.000000): it is to be \
                    carried out now, as it is.";
    assert_eq!(told, expected);
    assert_eq!(inner.post_texts(), ["The plan", "on it"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn known_mail_is_reported_and_pays_nothing() {
    let mut world = World::new(in_order(vec![says("done")])).await;
    world.gateway.lock().say("hello", true);
    world.one_pod().await;
    // The gateway forgot, as if the report had been lost.
    world.gateway.lock().done = None;
    world.one_pod().await;
    let inner = world.gateway.lock();
    assert_eq!(inner.asked.len(), 1);
    assert_eq!(inner.last_report().state, RoleState::Idle);
    assert!(!inner.wants());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_calls_are_told_to_the_model_and_after_five_to_the_user() {
    let mut world = World::new(in_order(vec![
        calls(&[("Teleport", json!({})), ("Read", json!({"path": "README"}))]),
        calls(&[("Read", json!({"pth": "README"}))]),
        calls(&[("Bash", json!("{\"command\": "))]),
        calls(&[("Teleport", json!({}))]),
        calls(&[("Teleport", json!({}))]),
    ]))
    .await;
    world.gateway.lock().say("go", true);
    world.one_pod().await;
    let inner = world.gateway.lock();
    let told = results(&inner.asked[2]);
    assert!(told[0].starts_with("Error: there is no tool `Teleport`; you have Read, "), "{told:?}");
    assert!(told[1].contains("hello"), "{told:?}");
    assert!(told[2].contains("do not fit its schema: `path` is missing (it has `pth`"), "{told:?}");
    assert!(told.iter().all(|text| text.chars().count() <= 510));
    let last = inner.last_report();
    assert_eq!((last.state, last.turns), (RoleState::Failed, 5));
    let reason = last.reason.as_ref().unwrap();
    assert!(reason.contains("in a row were unusable"), "{last:?}");
    assert!(reason.contains("a model that calls tools reliably"), "which kind would do: {last:?}");
    assert!(!inner.wants());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unreadable_reply_is_told_back_and_a_good_one_forgives() {
    let replies = [
        json!({"choices": [{"message": {"content": 1}}]}),
        json!({"choices": [{"message": {"tool_calls": [{"function": {}}]}}]}),
        calls(&[("GitLog", json!({}))]),
        json!({"choices": [{"message": {"tool_calls": "Read"}}]}),
        says("at last"),
    ];
    let asked = std::sync::atomic::AtomicUsize::new(0);
    let mut world = World::new(move |_| {
        replies[asked.fetch_add(1, std::sync::atomic::Ordering::SeqCst)].clone()
    })
    .await;
    world.gateway.lock().say("go", true);
    world.one_pod().await;
    let inner = world.gateway.lock();
    assert_eq!(inner.post_texts(), ["at last"]);
    let told = inner.asked[2].last().unwrap()["content"].as_str().unwrap();
    let why = "tool call 0 has no function name";
    let why = format!("\n\n[CodeButler] Your last reply could not be read: {why}. Answer again.");
    assert!(told.ends_with(&why), "{told}");
    assert_eq!(inner.last_report().turns, 5);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_end_a_run_and_say_where_it_stands() {
    let mut world =
        World::new(in_order(vec![calls(&[("Glob", json!({"pattern": "*.rs"}))]); 9])).await;
    {
        let mut inner = world.gateway.lock();
        inner.session.max_turns = 2;
        inner.say("go", true);
    }
    world.one_pod().await;
    {
        let mut inner = world.gateway.lock();
        let reason = inner.last_report().reason.clone().unwrap();
        assert!(
            reason.starts_with(
                "I stopped at the limit of 2 steps; the last step was Glob `*.rs`. Write"
            ),
            "{reason}"
        );
        inner.say("go on", true);
    }
    world.one_pod().await;
    assert_eq!(world.gateway.lock().asked.len(), 4);

    let mut world =
        World::new(in_order(vec![calls(&[("Bash", json!({"command": "sleep 50"}))]), says("ok")]))
            .await;
    {
        let mut inner = world.gateway.lock();
        inner.session.timeout_seconds = 1;
        inner.say("go", true);
    }
    world.one_pod().await;
    {
        let mut inner = world.gateway.lock();
        let last = inner.last_report();
        assert_eq!(last.state, RoleState::Failed);
        assert!(
            last.reason.as_ref().unwrap().contains("is over; the last step was Bash"),
            "{last:?}"
        );
        inner.session.timeout_seconds = 60;
        inner.say("and?", true);
    }
    world.one_pod().await;
    let inner = world.gateway.lock();
    assert!(results(&inner.asked[1])[0].contains("Interrupted"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tool_that_the_role_lacks_is_neither_offered_nor_carried_out() {
    let mut world = World::new(in_order(vec![
        calls(&[("Write", json!({"path": "x", "content": "x"}))]),
        says("sorry"),
    ]))
    .await;
    {
        let mut inner = world.gateway.lock();
        inner.session.tools = vec!["Read".into(), "SendMessage".into()];
        inner.say("go", true);
    }
    world.one_pod().await;
    let inner = world.gateway.lock();
    assert_eq!(inner.requests[0]["tools"].as_array().unwrap().len(), 2);
    assert_eq!(
        results(&inner.asked[1]),
        ["Error: there is no tool `Write`; you have Read, SendMessage"]
    );
    assert!(!world.tree("x").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_gateway_refuses_reaches_the_model_or_the_thread() {
    let mut world = World::new(in_order(vec![
        calls(&[
            ("Write", json!({"path": "x", "content": "x"})),
            ("GitCommit", json!({"message": "X"})),
        ]),
        calls(&[("GitPush", json!({})), ("GHCreatePR", json!({"title": "x", "body": "x"}))]),
        says("needs approval"),
    ]))
    .await;
    {
        let mut inner = world.gateway.lock();
        let approve = "a user has to approve the plan first";
        inner.refuse = vec![
            ("/v1/session", StatusCode::FORBIDDEN, ErrorCode::NotRegistered, "not yet"),
            ("/v1/session", StatusCode::SERVICE_UNAVAILABLE, ErrorCode::Unavailable, "starting"),
            ("/v1/chat", StatusCode::SERVICE_UNAVAILABLE, ErrorCode::Unavailable, "starting"),
            ("/v1/git/git-receive-pack", StatusCode::FORBIDDEN, ErrorCode::NeedsApproval, approve),
            ("/v1/git/git-receive-pack", StatusCode::FORBIDDEN, ErrorCode::NeedsApproval, approve),
            ("/v1/pull-request", StatusCode::FORBIDDEN, ErrorCode::NeedsApproval, approve),
        ];
        inner.say("go", true);
    }
    world.one_pod().await;
    {
        let mut inner = world.gateway.lock();
        let told = results(&inner.asked[2]).into_iter().map(ToOwned::to_owned).collect::<Vec<_>>();
        assert_eq!(told[2..], ["Error: a user has to approve the plan first"; 2], "{told:?}");
        assert_eq!(world.git(&["rev-list", "--count", "codebutler/t"]), "1");
        let gone = "the model API answered 402: no credit left";
        inner.refuse = vec![("/v1/chat", StatusCode::BAD_GATEWAY, ErrorCode::Upstream, gone)];
        inner.say("again", true);
    }
    world.one_pod().await;
    let inner = world.gateway.lock();
    let last = inner.last_report();
    assert_eq!(last.state, RoleState::Failed);
    assert_eq!(
        last.reason.as_deref(),
        Some("the model API answered 402: no credit left. Write again to make me try again.")
    );
    assert_eq!(inner.asked.len(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_role_without_money_waits_and_goes_on_from_where_it_was() {
    let mut world = World::new(in_order(vec![
        calls(&[("Read", json!({"path": "README"}))]),
        says("It greets the world."),
    ]))
    .await;
    {
        let mut inner = world.gateway.lock();
        inner.say("what does it do?", true);
        let money = ErrorCode::BudgetExceeded;
        inner.refuse = vec![("/v1/chat", StatusCode::PAYMENT_REQUIRED, money, "$1 of $1 is used")];
    }
    world.one_pod().await;
    {
        let mut inner = world.gateway.lock();
        let report = inner.last_report();
        assert_eq!((report.state, report.reason.as_deref()), (RoleState::Waiting, None));
        assert!(inner.posts.is_empty() && inner.asked.is_empty());
        inner.pending.push(PendingItem {
            id: "budget:1.000000:pm".into(),
            role: "pm".into(),
            kind: "budget".into(),
            choice: "raise".into(),
            user: "U1".into(),
            message: "1.000000".parse().unwrap(),
        });
    }
    world.one_pod().await;
    let inner = world.gateway.lock();
    assert_eq!(inner.post_texts(), ["It greets the world."]);
    assert_eq!(inner.last_report().state, RoleState::Idle);
    assert_eq!(inner.last_report().handled, ["budget:1.000000:pm"]);
    let told = inner.asked[0].iter().map(ToString::to_string).collect::<String>();
    assert!(told.contains("what does it do?") && told.contains("The limit was raised"), "{told}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closing_ends_the_process_for_good() {
    let mut world =
        World::new(in_order(vec![calls(&[("CloseThread", json!({"summary": "All done."}))])]))
            .await;
    world.gateway.lock().say("merge it", true);
    world.one_pod().await;
    assert_eq!(world.gateway.lock().closings, ["All done."]);
    world.one_pod().await;
    let inner = world.gateway.lock();
    assert_eq!((inner.closings.len(), inner.asked.len()), (1, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sleeping_role_hears_mail_at_once_and_sigterm_too() {
    let mut world = World::new(in_order(vec![says("one"), says("two")])).await;
    {
        let mut inner = world.gateway.lock();
        inner.session.idle_timeout_seconds = 600;
        inner.say("first", true);
    }
    let pod = world.pod(None);
    let gateway = world.gateway.clone();
    until("the first answer", || gateway.lock().reports.len() == 2).await;
    gateway.lock().say("to somebody else", false);
    gateway.lock().say("second", true);
    until("the second answer", || gateway.lock().reports.len() == 4).await;
    let told = gateway.lock().asked[1].clone();
    let last = told.last().unwrap()["content"].as_str().unwrap();
    assert!(last.contains("> to somebody else") && last.contains("> second"), "{last}");
    let id = i32::try_from(pod.agent.id().unwrap()).unwrap();
    kill(Pid::from_raw(id), Signal::SIGTERM).unwrap();
    let status = tokio::time::timeout(Duration::from_secs(10), pod.ended()).await.unwrap();
    assert_eq!(status.code(), Some(143));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_that_nobody_knows_exits_with_four() {
    let mut world = World::new(in_order(vec![])).await;
    world.gateway.lock().refuse = vec![(
        "/v1/session",
        StatusCode::FORBIDDEN,
        ErrorCode::Forbidden,
        "not a role of this thread",
    )];
    assert_eq!(world.pod(None).ended().await.code(), Some(4));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_as_other_agents_make_them_are_carried_out_and_kept_in_their_one_form() {
    let mut world = World::new(in_order(vec![
        calls(&[
            ("read_file", json!({"file_path": "README", "explanation": "to see"})),
            ("functions.Bash:1", json!({"cmd": ["bash", "-lc", "pwd"], "timeout": 30_000})),
        ]),
        calls(&[(
            "str_replace",
            json!({"filePath": "README", "oldString": "hello", "newString": "bye"}),
        )]),
        says("done"),
    ]))
    .await;
    world.gateway.lock().say("go", true);
    world.one_pod().await;
    let transcript = world.transcript();
    let made = transcript.iter().filter_map(|r| r["message"]["tool_calls"].as_array());
    let made: Vec<_> = made
        .flatten()
        .map(|c| format!("{} {}", c["name"].as_str().unwrap(), c["arguments"].as_str().unwrap()))
        .collect();
    assert_eq!(
        made,
        [
            r#"Read {"path":"README"}"#,
            r#"Bash {"command":"pwd","timeout":30000}"#,
            r#"Edit {"path":"README","edits":[{"old":"hello","new":"bye"}]}"#
        ]
    );
    let inner = world.gateway.lock();
    let told = results(&inner.asked[2]);
    assert!(told[1].starts_with("[`timeout` 30000 was taken as milliseconds: 30 s]"), "{told:?}");
    assert!(told[2].starts_with("Edited `README` (1 replacement)\n     1\tbye"), "{told:?}");
    let sent = inner.asked[2].iter().find(|m| m["role"] == "assistant").unwrap();
    assert_eq!(sent["tool_calls"][0]["function"]["name"], "Read");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_stands_behind_a_call_that_waits_is_not_carried_out() {
    let mut world = World::new(in_order(vec![calls(&[
        ("SendMessage", json!({"message": "The plan", "decision": "plan"})),
        ("Write", json!({"path": "early", "content": "x"})),
        ("Read", json!({"path": "README"})),
    ])]))
    .await;
    world.gateway.lock().say("go", true);
    world.one_pod().await;
    assert!(!world.tree("early").exists());
    let transcript = world.transcript();
    let told = transcript.iter().filter(|r| r["record"] == "result");
    let told: Vec<_> = told.map(|r| r["text"].as_str().unwrap()).collect();
    assert_eq!(told.len(), 3, "{told:?}");
    assert!(told[1..].iter().all(|text| text.starts_with("Not carried out: an earlier call")));
    assert_eq!(world.gateway.lock().last_report().state, RoleState::Waiting);
}
