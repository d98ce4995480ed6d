//! One conversation, several models and providers: what one of them gave, no other one is sent.

use axum::http::StatusCode;
use codebutler_wire::{CacheForm, EditForm, ErrorCode, ModelFacts, SharedPicture};
use serde_json::{Value, json};

use crate::world::{World, calls, in_order, says};

/// A call as some models make them.
fn odd(id: Option<&str>, name: &str, reasoning: &str) -> Value {
    let mut call = json!({"type": "function", "function": {"name": name, "arguments": "{}"}});
    if let Some(id) = id {
        call["id"] = json!(id);
    }
    json!({"model": "served", "choices": [{"message": {"role": "assistant", "content": null,
           "tool_calls": [call], "reasoning_details": [{"type": "x", "text": reasoning}]}}]})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ids_of_calls_are_such_that_every_provider_takes_them() {
    let mut world = World::new(in_order(vec![
        odd(Some("functions.GitLog:0"), "GitLog", "a"),
        odd(Some("functions.GitLog:0"), "GitLog", "b"),
        odd(None, "GitLog", "c"),
        odd(None, "GitLog", "d"),
        says("done"),
    ]))
    .await;
    world.gateway.lock().say("go", true);
    world.one_pod().await;
    let inner = world.gateway.lock();
    let last = inner.asked.last().unwrap();
    let made: Vec<_> = last.iter().filter_map(|m| m["tool_calls"][0]["id"].as_str()).collect();
    let answered: Vec<_> = last.iter().filter_map(|m| m["tool_call_id"].as_str()).collect();
    assert_eq!((made.len(), made[0]), (4, "functions_GitLog_0"));
    for id in &made[1..] {
        assert!(id.len() == 9 && id.bytes().all(|b| b.is_ascii_alphanumeric()), "{made:?}");
    }
    let all: std::collections::BTreeSet<_> = made.iter().collect();
    assert_eq!(all.len(), made.len(), "{made:?}");
    assert_eq!(made, answered);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reasoning_is_sent_back_only_to_the_model_that_it_came_from() {
    let mut world = World::new(in_order(vec![
        odd(Some("a"), "GitLog", "mine"),
        says("one"),
        odd(Some("b"), "GitLog", "another's"),
        says("two"),
    ]))
    .await;
    {
        let mut inner = world.gateway.lock();
        inner.session.models = vec!["scripted/pm".into(), "scripted/strong".into()];
        inner.say("go", true);
    }
    world.one_pod().await;
    for text in ["@codebutler.pm model strong", "go on"] {
        world.gateway.lock().say(text, true);
        world.one_pod().await;
    }
    let inner = world.gateway.lock();
    let thoughts = |n: usize| {
        let texts =
            inner.asked[n].iter().filter_map(|m| m["reasoning_details"][0]["text"].as_str());
        texts.collect::<Vec<_>>()
    };
    assert_eq!(inner.asked.len(), 4);
    assert_eq!(thoughts(1), ["mine"]);
    assert_eq!(inner.requests[2]["model"], "scripted/strong");
    assert!(thoughts(2).is_empty());
    assert_eq!(thoughts(3), ["another's"]);
    assert!(!inner.requests.iter().any(|body| body.to_string().contains("codebutler.thinker")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_provider_does_not_take_is_learned_from_its_words() {
    let refused = |words| ("/v1/chat", StatusCode::BAD_REQUEST, ErrorCode::InvalidRequest, words);
    for (words, quirk) in [
        ("messages.1.content.0: Invalid `signature` in `thinking` block", "no_reasoning"),
        ("Unexpected role 'user' after role 'tool'", "bridge"),
    ] {
        let answers = vec![odd(Some("a"), "GitLog", "mine"), says("one"), says("two")];
        let mut world = World::new(in_order(answers)).await;
        world.gateway.lock().say("go", true);
        world.one_pod().await;
        {
            let mut inner = world.gateway.lock();
            inner.refuse = vec![refused(words)];
            inner.say("again", true);
        }
        world.one_pod().await;
        assert_eq!(world.gateway.lock().post_texts(), ["one", "two"], "{words}");
        let learned = world.transcript().into_iter().find(|record| record["record"] == "learned");
        assert_eq!(learned.unwrap()["quirk"], quirk);
        let inner = world.gateway.lock();
        let thinks = inner.asked[2].iter().any(|m| m.get("reasoning_details").is_some());
        assert_eq!(thinks, quirk != "no_reasoning");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_that_no_model_has_gets_the_nearest_and_one_without_tools_is_not_offered() {
    let mut world = World::new(in_order(vec![])).await;
    {
        let mut inner = world.gateway.lock();
        let models = ["scripted/pm", "lab/opus-4.6", "lab/painter"];
        inner.session.models = models.map(Into::into).to_vec();
        let painter = ModelFacts { tools: Some(false), ..ModelFacts::default() };
        inner.session.facts.insert("lab/painter".into(), painter);
        inner.say("@codebutler.pm model opus-4-6", true);
        inner.say("@codebutler.pm model painter", true);
    }
    world.one_pod().await;
    let inner = world.gateway.lock();
    let texts = inner.post_texts();
    assert!(texts[0].starts_with("`opus-4-6` is not one of my models"), "{texts:?}");
    assert!(texts[0].contains("switches:\n- `lab/opus-4.6`\n- `scripted/pm`"), "{texts:?}");
    assert!(texts[1].starts_with("`painter` is not one") && !texts[1].contains("lab/painter"));
    assert!(inner.requests.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_kept_by_the_provider_is_marked_and_what_changes_stands_behind_it() {
    let todo = json!({"items": [{"text": "look", "state": "doing"}]});
    let mut world = World::new(in_order(vec![
        calls(&[("Todo", todo)]),
        calls(&[("GitLog", json!({}))]),
        says("done"),
    ]))
    .await;
    {
        let mut inner = world.gateway.lock();
        inner.session.tools.push("Todo".into());
        let marked = ModelFacts { cache: CacheForm::Marked, ..ModelFacts::default() };
        inner.session.facts.insert("scripted/pm".into(), marked);
        inner.say("go", true);
    }
    world.one_pod().await;
    let inner = world.gateway.lock();
    let marks = |n: usize| {
        let marked = |m: &Value| {
            let parts = m["content"].as_array().into_iter().flatten();
            parts.filter(|part| part["cache_control"]["type"] == "ephemeral").count() >= 1
        };
        (0..inner.asked[n].len()).filter(|at| marked(&inner.asked[n][*at])).collect::<Vec<_>>()
    };
    assert_eq!([marks(0), marks(1), marks(2)], [vec![0, 1], vec![0, 1, 3], vec![0, 3, 5]]);
    for asked in &inner.asked[1..] {
        let last = asked.last().unwrap()["content"].as_str().unwrap();
        assert!(last.starts_with("[CodeButler] Your list:"), "{last}");
    }
    let words = |message: &Value| {
        let text = message["content"].as_str().or_else(|| message["content"][0]["text"].as_str());
        text.map(ToOwned::to_owned)
    };
    for n in 1..3 {
        // The list is the last one and not kept.
        let kept = inner.asked[n - 1].len() - usize::from(n > 1);
        for at in 0..kept {
            assert_eq!(words(&inner.asked[n - 1][at]), words(&inner.asked[n][at]), "{n}: {at}");
        }
        assert_eq!(inner.requests[n - 1]["tools"], inner.requests[n]["tools"]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_call_does_not_make_a_model_blind_and_one_that_is_known_to_be_is_not_tried() {
    let shows = |world: &World| {
        let mut inner = world.gateway.lock();
        inner.say("look", true);
        inner.pictures.insert("F1".into(), b"\x89PNG\r\n\x1a\n\0\0".to_vec());
        let picture = SharedPicture { id: "F1".into(), name: "a.png".into() };
        inner.messages.last_mut().unwrap().pictures.push(picture);
    };
    let sees = |world: &World| {
        let inner = world.gateway.lock();
        assert_eq!((inner.asked.len(), inner.post_texts().len()), (1, 1));
        inner.asked[0].iter().any(|m| m["content"].is_array())
    };
    let mut world = World::new(in_order(vec![says("I see.")])).await;
    shows(&world);
    let lost = (StatusCode::BAD_GATEWAY, ErrorCode::Unanswered, "the connection was lost");
    world.gateway.lock().refuse = vec![("/v1/chat", lost.0, lost.1, lost.2)];
    world.one_pod().await;
    assert!(sees(&world));

    let mut world = World::new(in_order(vec![says("What is on it?")])).await;
    shows(&world);
    let blind = ModelFacts { sees: Some(false), ..ModelFacts::default() };
    world.gateway.lock().session.facts.insert("scripted/pm".into(), blind);
    world.one_pod().await;
    assert!(!sees(&world));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_template_that_refuses_without_a_reason_is_sent_each_form_once() {
    let said = "Unable to generate parser for this template. {{- raise_exception(\"After the optional system";
    let refused = ("/v1/chat", StatusCode::BAD_REQUEST, ErrorCode::InvalidRequest, said);
    let mut world = World::new(in_order(vec![says("done")])).await;
    {
        let mut inner = world.gateway.lock();
        inner.refuse = vec![refused; 5];
        inner.say("go", true);
    }
    world.one_pod().await;
    let learned = world.transcript().into_iter().filter(|record| record["record"] == "learned");
    assert_eq!(learned.count(), 5);
    let inner = world.gateway.lock();
    assert_eq!(inner.post_texts(), ["done"]);
    let roles: Vec<_> = inner.asked[0].iter().map(|m| m["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["user"], "instructions and message in one");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stand_in_of_another_family_is_offered_and_shown_its_own_tools() {
    let stood_in = |mut answer: Value| {
        answer["stand_in"] = json!("lab/claude");
        answer
    };
    let patch = "*** Begin Patch\n*** Add File: a.txt\n+x\n*** End Patch";
    let mut world = World::new(in_order(vec![
        calls(&[("apply_patch", json!({"input": patch}))]),
        // It is served no more: another one of the pool answers, with what it was offered.
        stood_in(calls(&[("Read", json!({"path": "a.txt"}))])),
        stood_in(calls(&[("Edit", json!({"file_path": "a.txt", "old_string": "x"}))])),
        calls(&[("GitLog", json!({}))]),
        says("done"),
    ]))
    .await;
    {
        let mut inner = world.gateway.lock();
        inner.session.models = vec!["scripted/pm".into(), "lab/claude".into()];
        inner.session.tools = ["Read", "Write", "Edit", "GitLog"].map(String::from).to_vec();
        for (model, edits) in
            [("scripted/pm", EditForm::Patch), ("lab/claude", EditForm::ClaudeNames)]
        {
            let facts = ModelFacts { edits, ..ModelFacts::default() };
            inner.session.facts.insert(model.into(), facts);
        }
        inner.say("go", true);
    }
    world.one_pod().await;
    let inner = world.gateway.lock();
    let offered = |n: usize| {
        let tools = inner.requests[n]["tools"].as_array().unwrap();
        let names = tools.iter().filter_map(|tool| tool["function"]["name"].as_str());
        names.collect::<Vec<_>>().join(" ")
    };
    let patches = "Read Write apply_patch GitLog";
    let edits = "Read Write Edit GitLog";
    assert_eq!([0, 1, 2, 3, 4].map(offered), [patches, patches, edits, edits, patches]);
    let shown = |n: usize, call: usize| {
        let calls = inner.asked[n].iter().filter_map(|message| message["tool_calls"].get(0));
        let call = calls.map(|call| &call["function"]).nth(call).unwrap();
        format!("{} {}", call["name"].as_str().unwrap(), call["arguments"].as_str().unwrap())
    };
    // What was read before is shown as each of them writes it.
    assert_eq!(shown(1, 0), format!("apply_patch {}", json!({"input": patch})));
    assert_eq!(shown(2, 1), r#"Read {"file_path":"a.txt"}"#);
    assert_eq!(shown(4, 1), r#"Read {"path":"a.txt"}"#);
    let told = crate::world::results(&inner.asked[3]);
    assert!(told[2].ends_with("`new_string` is missing"), "{told:?}");
    assert_eq!(inner.post_texts(), ["done"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_patch_that_is_none_is_answered_in_the_words_of_patches() {
    let mut world =
        World::new(in_order(vec![calls(&[("apply_patch", json!({"text": ""}))]), says("done")]))
            .await;
    {
        let mut inner = world.gateway.lock();
        inner.session.tools = vec!["Edit".into()];
        let facts = ModelFacts { edits: EditForm::Patch, ..ModelFacts::default() };
        inner.session.facts.insert("scripted/pm".into(), facts);
        inner.say("go", true);
    }
    world.one_pod().await;
    let inner = world.gateway.lock();
    let told = crate::world::results(&inner.asked[1])[0];
    let expected = "Error: the arguments of apply_patch do not fit its schema: `input` is missing";
    assert!(told.starts_with(expected), "{told}");
}
