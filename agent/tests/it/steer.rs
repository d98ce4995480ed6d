//! People steer a run: they stop it, allow what is hard to undo, switch the model, and get asked when it goes in
//! circles.

use std::fs;
use std::time::{Duration, Instant};

use codebutler_wire::{ApprovalState, MessageAuthor, PendingItem, RoleState, RunTerminal};
use serde_json::{Value, json};

use crate::toolbox::alive;
use crate::world::{World, calls, in_order, results, says, until};

pub(crate) fn pending(kind: &str, id: &str, choice: &str) -> PendingItem {
    PendingItem {
        id: id.into(),
        role: "pm".into(),
        kind: kind.into(),
        choice: choice.into(),
        user: "U1".into(),
        message: "1001.000000".parse().unwrap(),
    }
}

fn decisions(world: &World) -> Vec<Value> {
    let text = fs::read_to_string(world.path("agent/pm/decisions.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_ends_the_run_and_everything_that_it_started() {
    let command = "setsid sleep 300 & echo $! > $TMPDIR/pid; sleep 300";
    let mut world =
        World::new(in_order(vec![calls(&[("Bash", json!({"command": command}))]), says("again")]))
            .await;
    world.gateway.lock().say("begin", true);
    let pod = world.pod(None);
    let pid = world.path("tmp/pid");
    until("the command runs", || fs::read_to_string(&pid).is_ok_and(|t| t.ends_with('\n'))).await;
    let gateway = world.gateway.clone();
    let said = Instant::now();
    gateway.lock().pending.push(pending("stop", "stop:1:pm", "stop"));
    until("it has stopped", || gateway.lock().last_report().state != RoleState::Running).await;
    let took = said.elapsed();
    until("the process is gone", || !alive(&pid)).await;
    pod.ended().await;
    {
        let mut inner = world.gateway.lock();
        let last = inner.last_report();
        assert_eq!(
            (last.state, last.terminal),
            (RoleState::Waiting, Some(RunTerminal::NeedsInformation))
        );
        assert_eq!(last.handled, ["stop:1:pm"]);
        assert!(inner.post_texts()[0].starts_with("Stopped; the last step was Bash"), "{took:?}");
        // Generous: other tests run beside this one.
        assert!(took < Duration::from_secs(10), "{took:?}");
        inner.say("go on", true);
    }
    world.one_pod().await;
    let inner = world.gateway.lock();
    assert!(results(&inner.asked[1])[0].contains("a user stopped the run"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_that_comes_late_wakes_nobody() {
    let mut world = World::new(in_order(vec![says("done")])).await;
    world.gateway.lock().say("hello", true);
    world.one_pod().await;
    world.gateway.lock().pending.push(pending("stop", "stop:2:pm", "stop"));
    world.one_pod().await;
    let inner = world.gateway.lock();
    assert_eq!((inner.asked.len(), inner.pending.len()), (1, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_hard_to_undo_waits_for_a_yes_to_exactly_this() {
    let command = "vercel --prod; rm -rf docs; echo gone >> $TMPDIR/gone";
    let call = || calls(&[("Bash", json!({"command": command}))]);
    let mut world = World::new(in_order(vec![call(), call(), says("I leave it.")])).await;
    world.gateway.lock().say("clean up", true);
    world.one_pod().await;
    let key = {
        let mut inner = world.gateway.lock();
        assert_eq!(inner.last_report().state, RoleState::Waiting);
        assert!(!world.path("tmp/gone").exists());
        let asked = inner.asked_for.last().unwrap().clone();
        assert_eq!(asked.detail.as_deref(), Some(command));
        assert_eq!(asked.hash.len(), 64);
        inner.approvals.insert(asked.key.clone(), ApprovalState::Approved);
        inner.pending.push(pending("approval", &format!("approval:pm:{}", asked.key), "approved"));
        asked.key
    };
    // The harness carries it out, in a pod that has just woken. The yes is for one use: the same call
    // of the model asks anew, and gets a no.
    world.one_pod().await;
    {
        let mut inner = world.gateway.lock();
        assert_eq!(fs::read_to_string(world.path("tmp/gone")).unwrap(), "gone\n");
        let told = inner.asked[1].last().unwrap()["content"].as_str().unwrap();
        assert!(
            told.contains("\n\n[CodeButler] Bash was carried out, as it was allowed.")
                && told.contains("[exit code 0"),
            "{told}"
        );
        let asked = inner.asked_for.last().unwrap().clone();
        assert_ne!(asked.key, key);
        inner.pending.push(pending("approval", &format!("approval:pm:{}", asked.key), "denied"));
        inner.approvals.insert(asked.key, ApprovalState::Denied);
    }
    world.one_pod().await;
    assert_eq!(fs::read_to_string(world.path("tmp/gone")).unwrap(), "gone\n");
    let chosen: Vec<_> = decisions(&world).iter().map(|d| d["chosen"].clone()).collect();
    assert_eq!(chosen, ["Pending", "Approved", "Pending"]);
    let inner = world.gateway.lock();
    assert_eq!(inner.last_report().terminal, Some(RunTerminal::Completed));
    let told = inner.asked[2].last().unwrap()["content"].as_str().unwrap();
    assert!(told.contains("was denied by user U1"), "{told}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_allowed_call_runs_once_whenever_its_pod_is_killed() {
    let command = "vercel --prod; rm -rf docs; echo gone >> $TMPDIR/gone";
    let mut world =
        World::new(in_order(vec![calls(&[("Bash", json!({"command": command}))]), says("Gone.")]))
            .await;
    world.gateway.lock().say("clean up", true);
    world.one_pod().await;
    {
        let mut inner = world.gateway.lock();
        let key = inner.asked_for.last().unwrap().key.clone();
        inner.approvals.insert(key.clone(), ApprovalState::Approved);
        inner.pending.push(pending("approval", &format!("approval:pm:{key}"), "approved"));
    }
    // Each pod gets a few steps further than its predecessor, until one comes to the end.
    let mut step = 2;
    while world.gateway.lock().wants() {
        world.pod(Some(step)).ended().await;
        step += 3;
        assert!(step < 200, "never done");
    }
    let done = fs::read_to_string(world.path("tmp/gone")).unwrap_or_default();
    assert!(done.len() <= "gone\n".len(), "{done}");
    let inner = world.gateway.lock();
    let last = serde_json::to_string(inner.asked.last().unwrap()).unwrap();
    // Killed in the middle of it, it is not repeated, and that is said.
    assert!(!done.is_empty() || last.contains("not known"), "{last}");
    assert_eq!(inner.post_texts(), ["Gone."]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_in_circles_gets_a_nudge_then_a_stronger_model_then_asks() {
    let mut world =
        World::new(in_order(vec![calls(&[("Bash", json!({"command": "echo same"}))]); 20])).await;
    {
        let mut inner = world.gateway.lock();
        inner.session.models = vec!["scripted/pm".into(), "scripted/strong".into()];
        inner.session.stronger = Some("scripted/strong".into());
        inner.say("go", true);
    }
    world.one_pod().await;
    let chosen: Vec<_> = decisions(&world).iter().map(|d| d["chosen"].clone()).collect();
    assert_eq!(chosen, ["scripted/pm", "a nudge", "the stronger model", "a question"]);
    let inner = world.gateway.lock();
    let models: Vec<_> =
        inner.requests.iter().map(|body| body["model"].as_str().unwrap()).collect();
    assert_eq!((models.len(), models[7], models[8]), (12, "scripted/pm", "scripted/strong"));
    assert!(
        inner.post_texts()[0].starts_with("I am stuck: the same call"),
        "{:?}",
        inner.post_texts()
    );
    assert_eq!(inner.last_report().terminal, Some(RunTerminal::NeedsInformation));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_that_turns_out_hard_goes_to_the_stronger_model() {
    let bash = |command: &str| calls(&[("Bash", json!({"command": command}))]);
    let steps = ["false", "echo a", "false", "echo b", "echo c"].map(bash);
    let mut world = World::new(in_order(steps.into_iter().chain([says("done")]).collect())).await;
    {
        let mut inner = world.gateway.lock();
        inner.session.models = vec!["scripted/pm".into(), "scripted/strong".into()];
        inner.session.stronger = Some("scripted/strong".into());
        inner.session.test = Some("false".into());
        inner.session.max_turns = 7;
        inner.say("go", true);
    }
    world.one_pod().await;
    let models: Vec<_> = {
        let inner = world.gateway.lock();
        inner.requests.iter().map(|body| body["model"].as_str().unwrap().to_owned()).collect()
    };
    let (pm, strong) = ("scripted/pm", "scripted/strong");
    assert_eq!(models, [pm, pm, pm, pm, strong, strong]);
    let decided = decisions(&world);
    let last = decided.iter().rfind(|decision| decision["kind"] == "model").unwrap();
    assert_eq!((&last["chosen"], &last["alternatives"]), (&json!(strong), &json!([pm])));
    let why = "4 of 7 turns are used, and the tests failed 2 times in a row";
    assert_eq!(last["evidence"], why);
    let told = format!("`scripted/strong` goes on from here: {why}.");
    assert_eq!(world.gateway.lock().post_texts(), [told.as_str(), "done"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hard_work_is_not_taken_from_the_strongest_model() {
    let bash = |command: &str| calls(&[("Bash", json!({"command": command}))]);
    let steps = ["false", "echo a", "false", "echo b", "echo c"].map(bash);
    let mut world = World::new(in_order(steps.into_iter().chain([says("done")]).collect())).await;
    {
        let mut inner = world.gateway.lock();
        inner.session.models = vec!["scripted/pm".into(), "scripted/other".into()];
        inner.session.stronger = Some("scripted/other".into());
        inner.session.is_strongest = true;
        inner.session.test = Some("false".into());
        inner.session.max_turns = 7;
        inner.say("go", true);
    }
    world.one_pod().await;
    let inner = world.gateway.lock();
    assert!(inner.requests.iter().all(|body| body["model"] == "scripted/pm"));
    assert_eq!((inner.requests.len(), inner.post_texts()), (6, vec!["done"]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tests_that_fail_three_times_call_the_stronger_model_early_in_a_run() {
    let bash = |command: &str| calls(&[("Bash", json!({"command": command}))]);
    let steps = ["false", "echo a", "false", "echo b", "false"].map(bash);
    let mut world = World::new(in_order(steps.into_iter().chain([says("done")]).collect())).await;
    {
        let mut inner = world.gateway.lock();
        inner.session.models = vec!["scripted/pm".into(), "scripted/strong".into()];
        inner.session.stronger = Some("scripted/strong".into());
        inner.session.steps_up = true;
        inner.session.roles[0].implements = true;
        inner.session.test = Some("false".into());
        inner.session.max_turns = 200;
        inner.say("go", true);
    }
    world.one_pod().await;
    let inner = world.gateway.lock();
    let models: Vec<_> =
        inner.requests.iter().map(|body| body["model"].as_str().unwrap()).collect();
    let (pm, strong) = ("scripted/pm", "scripted/strong");
    assert_eq!(models, [pm, pm, pm, pm, pm, strong]);
    let told = "`scripted/strong` goes on from here: the tests failed 3 times in a row.";
    assert_eq!(inner.post_texts(), [told, "done"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_that_a_review_sends_back_twice_goes_to_the_stronger_model() {
    let mut world = World::new(in_order(vec![says("one"), says("two")])).await;
    {
        let mut inner = world.gateway.lock();
        inner.session.models = vec!["scripted/pm".into(), "scripted/strong".into()];
        inner.session.stronger = Some("scripted/strong".into());
        inner.session.steps_up = true;
        let mut reviewer = inner.session.roles[1].clone();
        (reviewer.role, reviewer.implements, reviewer.reviews) = ("reviewer".into(), false, true);
        inner.session.roles[0].implements = true;
        inner.session.roles[1] = reviewer;
        inner.session.pull_request =
            serde_json::from_value(json!({"number": 7, "url": "https://x.invalid/7"})).unwrap();
    }
    for text in ["@codebutler.pm a total is wrong", "@codebutler.pm it still is"] {
        let reviewer = MessageAuthor::Role { role: "reviewer".into() };
        world.gateway.lock().say_as(reviewer, text, true);
        world.one_pod().await;
    }
    let inner = world.gateway.lock();
    let models: Vec<_> =
        inner.requests.iter().map(|body| body["model"].as_str().unwrap()).collect();
    assert_eq!(models, ["scripted/pm", "scripted/strong"]);
    let told = "`scripted/strong` goes on from here: the review has come back 2 times.";
    assert_eq!(inner.post_texts(), ["one", told, "two"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_switches_the_model_with_the_whole_conversation() {
    let mut world = World::new(in_order(vec![says("one"), says("two")])).await;
    {
        let mut inner = world.gateway.lock();
        inner.session.models = vec!["scripted/pm".into(), "scripted/strong".into()];
        inner.say("hello", true);
    }
    world.one_pod().await;
    for text in ["@codebutler.pm model", "@codebutler.pm model strong"] {
        world.gateway.lock().say(text, true);
        world.one_pod().await;
    }
    world.gateway.lock().say("and now?", true);
    world.one_pod().await;
    let inner = world.gateway.lock();
    let texts = inner.post_texts();
    assert!(texts[1].contains("- `scripted/strong`"), "{texts:?}");
    assert_eq!(texts[2..], ["From now on I think with `scripted/strong`.", "two"]);
    let models: Vec<_> =
        inner.requests.iter().map(|body| body["model"].as_str().unwrap()).collect();
    assert_eq!(models, ["scripted/pm", "scripted/strong"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_several_switches_none_is_lost_and_one_during_a_run_holds_for_its_next_call() {
    let wait = "until [ -e $TMPDIR/go ]; do sleep 0.05; done";
    let mut world =
        World::new(in_order(vec![calls(&[("Bash", json!({"command": wait}))]), says("done")]))
            .await;
    {
        let mut inner = world.gateway.lock();
        inner.session.models = vec!["scripted/pm".into(), "scripted/strong".into()];
        inner.say("@codebutler.pm model strong", true);
        inner.say("@codebutler.pm model", true);
    }
    world.one_pod().await;
    {
        let mut inner = world.gateway.lock();
        let texts = inner.post_texts();
        assert_eq!(texts[0], "From now on I think with `scripted/strong`.");
        assert!(texts[1].starts_with("I think with `scripted/strong`."), "{texts:?}");
        assert!(inner.requests.is_empty(), "no model was asked");
        inner.say("go", true);
    }
    let pod = world.pod(None);
    let gateway = world.gateway.clone();
    until("it works", || gateway.lock().requests.len() == 1).await;
    gateway.lock().say("@codebutler.pm model scripted/pm", true);
    fs::write(world.path("tmp/go"), "").unwrap();
    assert!(pod.ended().await.success());
    let inner = gateway.lock();
    assert_eq!(inner.post_texts()[2..], ["From now on I think with `scripted/pm`.", "done"]);
    let models: Vec<_> =
        inner.requests.iter().map(|body| body["model"].as_str().unwrap()).collect();
    assert_eq!(models, ["scripted/strong", "scripted/pm"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_while_the_model_is_switched_repeats_nothing_and_asks_no_model() {
    let mut steps = 0;
    loop {
        steps += 1;
        let mut world = World::new(in_order(vec![says("here I am")])).await;
        {
            let mut inner = world.gateway.lock();
            inner.session.models = vec!["scripted/pm".into(), "scripted/strong".into()];
            inner.say("@codebutler.pm model strong", true);
            inner.say("@codebutler.pm model", true);
        }
        let ended = world.settle(Some(steps)).await;
        {
            let inner = world.gateway.lock();
            let texts = inner.post_texts();
            assert_eq!(texts[0], "From now on I think with `scripted/strong`.", "step {steps}");
            assert!(texts[1].starts_with("I think with `scripted/strong`."), "{steps}: {texts:?}");
            assert_eq!((texts.len(), inner.requests.len()), (2, 0), "step {steps}: {texts:?}");
        }
        let chosen = decisions(&world).iter().filter(|one| one["kind"] == "model").count();
        assert!((1..=2).contains(&chosen), "step {steps}: {chosen}");
        world.gateway.lock().say("are you there?", true);
        world.settle(None).await;
        let inner = world.gateway.lock();
        assert_eq!(inner.post_texts()[2..], ["here I am"], "step {steps}");
        assert_eq!(inner.requests[0]["model"], "scripted/strong", "step {steps}");
        if ended.len() == 1 {
            break;
        }
    }
    assert!(steps > 6, "{steps} steps: some are not walked");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_run_does_not_quote_an_earlier_one() {
    let work = calls(&[("Bash", json!({"command": "touch $TMPDIR/on; sleep 300"}))]);
    let mut world = World::new(in_order(vec![says("first"), work])).await;
    world.gateway.lock().say("hello", true);
    world.one_pod().await;
    world.gateway.lock().say("and on", true);
    let pod = world.pod(None);
    until("it works", || world.path("tmp/on").exists()).await;
    world.gateway.lock().pending.push(pending("stop", "stop:1:pm", "stop"));
    pod.ended().await;
    let inner = world.gateway.lock();
    let told = inner.post_texts()[1];
    assert!(
        told.starts_with("Stopped; the last step was Bash") && !told.contains("first"),
        "{told}"
    );
}
