//! Model replies that are no answer: never posted, never an end in silence, never a repetition.

use axum::http::StatusCode;
use codebutler_wire::{ErrorCode, RoleState};
use futures::{StreamExt as _, stream};
use serde_json::{Value, json};

use crate::gateway::check_keys;
use crate::world::{
    World, breaks, calls, cut_off, ends, in_order, one_by_one, refuses, results, says, thinks,
};

/// Plays the answers to one message in one pod.
async fn played(answers: Vec<Value>) -> World {
    let mut world = World::new(one_by_one(answers)).await;
    world.gateway.lock().say("go", true);
    world.one_pod().await;
    world
}

/// Text of the last message in the model's n-th call.
fn told(world: &World, n: usize) -> String {
    world.gateway.lock().asked[n].last().unwrap()["content"].as_str().unwrap().to_owned()
}

/// Reason that the thread is told where nothing was posted.
fn reason(world: &World) -> String {
    let inner = world.gateway.lock();
    assert_eq!(inner.posts.len(), 0, "{:?}", inner.post_texts());
    let last = inner.last_report();
    assert_eq!(last.state, RoleState::Failed);
    last.reason.clone().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_says_nothing_is_asked_for_once_more_and_then_said() {
    let empty = || ends(&json!({"role": "assistant", "content": ""}), "stop");
    for (nothing, told_of, said) in [
        (empty(), "was empty", "answered with nothing"),
        (thinks("hm"), "contained only reasoning", "only thought"),
    ] {
        let world = played(vec![nothing.clone(), says("done")]).await;
        assert!(told(&world, 1).contains(told_of), "{}", told(&world, 1));
        assert_eq!(world.gateway.lock().post_texts(), ["done"]);
        assert_eq!(world.gateway.lock().last_report().turns, 2);
        let world = played(vec![nothing.clone(), nothing]).await;
        let reason = reason(&world);
        assert!(reason.contains(said) && reason.contains("Write again"), "{reason}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_has_posted_may_end_without_a_word() {
    let post = calls(&[("SendMessage", json!({"message": "All is well."}))]);
    let world = played(vec![post, thinks("nothing more to say")]).await;
    let inner = world.gateway.lock();
    assert_eq!(inner.post_texts(), ["All is well."]);
    assert_eq!((inner.last_report().state, inner.last_report().turns), (RoleState::Idle, 2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_is_asked_about_once_more_and_then_said_in_its_words() {
    let filtered = || ends(&json!({"role": "assistant", "content": "Sure, fir"}), "content_filter");
    let world = played(vec![refuses("I can't help with that."), says("Here it is.")]).await;
    assert_eq!(world.gateway.lock().post_texts(), ["Here it is."]);
    for (answer, said) in
        [(refuses("I can't help with that."), "I can't help"), (filtered(), "Sure, fir")]
    {
        let world = played(vec![answer.clone(), answer]).await;
        let reason = reason(&world);
        assert!(reason.contains("refused to answer") && reason.contains(said), "{reason}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_provider_does_not_let_pass_is_said_with_what_to_do() {
    let refused =
        ("/v1/chat", StatusCode::FORBIDDEN, ErrorCode::ContentRefused, "flagged: violence");
    let mut world = World::new(one_by_one(vec![])).await;
    {
        let mut inner = world.gateway.lock();
        inner.session.models = vec!["scripted/pm".into(), "scripted/strong".into()];
        inner.refuse = vec![refused; 2];
        inner.say("go", true);
    }
    world.one_pod().await;
    let reason = reason(&world);
    assert!(reason.contains("flagged: violence") && reason.contains("in other words"), "{reason}");
    assert!(reason.contains("`@codebutler.pm model NAME`"), "{reason}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn words_that_are_cut_off_go_on_and_are_posted_as_one() {
    let world = played(vec![
        cut_off("The cause is in `parse`:\nit reads one by"),
        cut_off("it reads one byte too many, so th"),
        says("the fix is to stop before the end."),
    ])
    .await;
    let inner = world.gateway.lock();
    let whole = "The cause is in `parse`:\nit reads one byte too many, so the fix is to stop before the end.";
    assert_eq!(inner.post_texts(), [whole]);
    let said = inner.asked[1].iter().find(|m| m["role"] == "assistant").unwrap();
    assert_eq!(said["content"], "The cause is in `parse`:\n");
    drop(inner);
    assert!(told(&world, 1).contains("cut off at 16000 tokens"), "{}", told(&world, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_is_cut_off_is_written_in_parts_and_is_no_fault() {
    let cut = || {
        let mut body = calls(&[("Write", json!("{\"path\": \"a\", \"content\": \"lon"))]);
        body["choices"][0]["finish_reason"] = json!("length");
        body["usage"] = json!({"completion_tokens": 16_000});
        body
    };
    let write = calls(&[("Write", json!({"path": "a", "content": "short\n"}))]);
    let world = played(vec![cut(), cut(), cut(), write, says("done")]).await;
    let told = told(&world, 1);
    assert!(told.contains("cut off at 16000 tokens, in the middle of a call of `Write`"), "{told}");
    assert_eq!(world.git(&["show", "codebutler/t:a"]), "short");
    assert_eq!(world.gateway.lock().post_texts(), ["done"]);
    let world = played(vec![cut(), cut(), cut(), cut()]).await;
    assert!(reason(&world).contains("`model.maxTokens`"), "{}", reason(&world));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_leaks_as_text_is_neither_posted_nor_carried_out() {
    let leaks = [
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.Bash:0<|tool_call_argument_begin|>{\"command\": \"touch x\"}<|tool_call_end|>",
        "<tool_call>\n{\"name\": \"Bash\", \"arguments\": {\"command\": \"touch x\"}}\n</tool_call>",
        "<function=Bash>{\"command\": \"touch x\"}</function>",
        "[TOOL_CALLS][{\"name\": \"Bash\", \"arguments\": {\"command\": \"touch x\"}}]",
    ];
    for leak in leaks {
        let world = played(vec![says(leak), says("`<tool_call>` was no call.")]).await;
        assert!(told(&world, 1).contains("wrote a tool call as text"), "{}", told(&world, 1));
        assert!(!world.tree("x").exists());
        let inner = world.gateway.lock();
        assert_eq!(inner.post_texts(), ["`<tool_call>` was no call."]);
        assert!(!inner.asked[1].iter().any(|m| m["content"].as_str() == Some(leak)));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_breaks_off_is_asked_for_again_and_not_told_to_the_model() {
    let lost = [
        breaks("upstream broke"),
        json!({"error": {"code": 502, "message": "upstream broke"}}),
        json!("<html>upstream broke</html>"),
    ];
    let mut answers = lost.to_vec();
    answers.push(says("done"));
    let world = played(answers).await;
    {
        let inner = world.gateway.lock();
        assert_eq!(inner.post_texts(), ["done"]);
        assert_eq!(inner.asked.len(), 4);
        assert!(inner.asked.iter().all(|messages| *messages == inner.asked[0]));
        assert_eq!(inner.last_report().turns, 1);
    }
    let world = played(vec![breaks("upstream broke"); 4]).await;
    let reason = reason(&world);
    assert!(reason.contains("broke off: upstream broke. I asked several times"), "{reason}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_says_what_comes_next_and_does_not_do_it_is_told_once() {
    let announces = || says("I found it. I will now fix the parser.");
    let world = played(vec![
        announces(),
        calls(&[("Write", json!({"path": "a", "content": "x\n"}))]),
        says("Fixed."),
    ])
    .await;
    assert_eq!(world.gateway.lock().post_texts(), ["Fixed."]);
    assert!(told(&world, 1).contains("called no tool"), "{}", told(&world, 1));
    // Twice is its last word: it is not kept from people.
    let world = played(vec![announces(), announces()]).await;
    assert_eq!(world.gateway.lock().post_texts(), ["I found it. I will now fix the parser."]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_call_of_a_run_is_for_words_and_they_are_posted() {
    let look = |n: usize| calls(&[("Glob", json!({"pattern": format!("*.{n}")}))]);
    let mut world =
        World::new(in_order(vec![look(0), look(1), look(2), look(3), says("Half is done.")])).await;
    {
        let mut inner = world.gateway.lock();
        inner.session.max_turns = 5;
        inner.say("go", true);
    }
    world.one_pod().await;
    assert!(told(&world, 4).contains("last model call of your run"));
    let inner = world.gateway.lock();
    let choices: Vec<_> = inner.requests.iter().map(|body| body["tool_choice"].clone()).collect();
    assert_eq!(choices, ["auto", "auto", "auto", "auto", "none"]);
    assert!(inner.requests[4].get("tools").is_some());
    let posted = inner.post_texts()[0];
    assert!(posted.starts_with("Half is done.\n"), "{posted}");
    assert!(posted.contains("stopped at the limit of 5 steps"), "{posted}");
    let last = inner.last_report();
    assert_eq!((last.state, last.turns, &last.reason), (RoleState::Waiting, 5, &None));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_model_is_told_when_its_calls_run_out_and_it_is_not_kept() {
    let look = |n: usize| calls(&[("Glob", json!({"pattern": format!("*.{n}")}))]);
    let mut answers: Vec<_> = (0..9).map(look).collect();
    answers.push(says("done"));
    let mut world = World::new(in_order(answers)).await;
    {
        let mut inner = world.gateway.lock();
        inner.session.max_turns = 10;
        inner.say("go", true);
    }
    world.one_pod().await;
    let inner = world.gateway.lock();
    let notices = |n: usize| {
        let texts = inner.asked[n].iter().filter_map(|m| m["content"].as_str());
        texts.filter(|text| text.contains("model calls are left")).count()
    };
    assert_eq!([notices(3), notices(8)], [0, 1]);
    assert!(inner.asked[8].last().unwrap()["content"].as_str().unwrap().contains("2 of 10"));
    // Earlier messages are sent again unchanged.
    for n in 1..10 {
        let (before, now) = (&inner.asked[n - 1], &inner.asked[n]);
        let kept = before.len() - usize::from(n > 5);
        assert_eq!(before[..kept], now[..kept], "call {n}");
    }
}

/// Each kind of trouble, decided by the conversation alone, so that a kill repeats the same.
fn troubled(messages: &[Value]) -> Value {
    let last = messages.last().unwrap();
    // Messages said in a row are one message: the newest word counts.
    let text = last["content"].as_str().unwrap_or_default();
    let text = text.rsplit("\n\n").next().unwrap_or_default();
    if last["role"] == "tool" {
        return cut_off("It greets the wor");
    }
    for (told, answer) in [
        ("was empty", refuses("no")),
        ("was withheld", says("<tool_call>{\"name\": \"Bash\"}</tool_call>")),
        ("wrote a tool call as text", says("Let me look at the file.")),
        ("called no tool", calls(&[("Bash", json!({"command": "echo ran >> $TMPDIR/ran"}))])),
        ("was cut off", says("world.")),
    ] {
        if text.contains(told) {
            return answer;
        }
    }
    ends(&json!({"role": "assistant", "content": ""}), "stop")
}

/// Plays the troubles with a pod that dies at `step`; true if it was killed.
async fn die_at(step: u64) -> bool {
    let mut world = World::new(troubled).await;
    world.gateway.lock().say("what does it do?", true);
    let status = world.pod(Some(step)).ended().await;
    let lines = world.transcript();
    let paid = |line: &&Value| line["record"] == "answer" || line["record"] == "flawed";
    let recorded = lines.iter().filter(paid).count();
    let asked = world.gateway.lock().asked.len();
    assert!(asked - recorded <= 1, "step {step}: {asked} calls, {recorded} recorded");
    world.settle(None).await;
    let inner = world.gateway.lock();
    assert_eq!(inner.post_texts(), ["It greets the world."], "step {step}");
    check_keys(&inner.posts);
    // A request that was under way when it died may be made again.
    assert!((7..=8).contains(&inner.asked.len()), "step {step}: {} calls", inner.asked.len());
    assert_eq!(results(inner.asked.last().unwrap()).len(), 1, "step {step}");
    !status.success()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_between_bad_answers_pays_for_none_twice_and_ends_the_same() {
    let mut walk = stream::iter(1..1000u64)
        .map(|step| tokio::spawn(async move { (step, die_at(step).await) }))
        .buffered(3);
    let mut last = 0;
    while let Some(done) = walk.next().await {
        let (step, killed) = done.unwrap();
        if !killed {
            last = step;
            break;
        }
    }
    assert!((26..1000).contains(&last), "{last} steps: some are not walked");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_text_is_never_posted_and_people_read_what_to_check() {
    let noise = "\u{1}\u{fffd}k\u{fffd}\u{7}\u{fffd}";
    let mut world = World::new(one_by_one(vec![says(noise), says("Here you are.")])).await;
    world.gateway.lock().say("go", true);
    world.one_pod().await;
    assert_eq!(world.gateway.lock().post_texts(), ["Here you are."]);
    let mut world = World::new(one_by_one(vec![says(noise), says(noise)])).await;
    world.gateway.lock().say("go", true);
    world.one_pod().await;
    let inner = world.gateway.lock();
    assert!(inner.posts.is_empty());
    let reason = inner.last_report().reason.clone().unwrap();
    assert!(reason.contains("chat template") && reason.contains("quantisation"), "{reason}");
}
