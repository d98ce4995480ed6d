//! Model calls and what they cost.

use codebutler_crds::NanoUsd;
use codebutler_testbed::models::{FaultKind, ModelScript, ScriptStep};
use serde_json::{Value, json};

use super::{World, eventually};

const CHAT: &str = "/v1/chat/completions";

fn ask(text: &str) -> Value {
    json!({"model": "scripted/coder", "messages": [{"role": "user", "content": text}]})
}

fn streamed(text: &str) -> Value {
    let mut body = ask(text);
    body["stream"] = true.into();
    body
}

#[tokio::test]
async fn what_the_provider_bills_is_on_the_thread_to_the_nano_dollar() {
    let world = World::start(vec![ScriptStep::say("one").costing(1200, 80, "0.0123456789")]).await;
    for expected in [12_345_679, 2 * 12_345_679] {
        let (status, body) = world.post("coder", CHAT, &ask("x")).await;
        assert_eq!(status, 200, "{body}");
        assert_eq!(body["choices"][0]["message"]["content"], "one");
        eventually("the call is metered", || async {
            let status = world.thread().await.status.unwrap();
            assert!(status.roles["coder"].pod_uid.is_some(), "the controller's field stays");
            status.roles["coder"].usage.cost == status.cost.unwrap_or_default()
                && status.cost == Some(NanoUsd(expected))
        })
        .await;
    }
    assert_eq!(world.models.billed().total(), world.thread().await.status.unwrap().cost.unwrap());
    let usage = world.thread().await.status.unwrap().roles["coder"].usage;
    assert_eq!((usage.prompt_tokens, usage.completion_tokens, usage.calls), (2400, 160, 2));
    let metrics = world.metrics().await;
    let repo = format!("{}/shop", world.cluster.team());
    let labels = format!(r#"{{repo="{repo}",role="coder",model="scripted/coder"}}"#);
    assert!(
        metrics.contains(&format!("codebutler_cost_usd_total{labels} 0.024691358")),
        "{metrics}"
    );
    assert!(metrics.contains("codebutler_tokens_total{"), "{metrics}");
}

#[tokio::test]
async fn only_the_roles_own_model_is_asked() {
    let world = World::start(vec![ScriptStep::say("one")]).await;
    let mut other = ask("x");
    other["model"] = "scripted/pm".into();
    let mut streamed = ask("x");
    streamed["stream"] = "yes".into();
    for body in [other, streamed, json!([]), json!({})] {
        let (status, answer) = world.post("coder", CHAT, &body).await;
        assert_eq!((status, answer["error"]["code"].as_str()), (400, Some("invalid_request")));
    }
    assert!(world.models.requests().is_empty());
}

#[tokio::test]
async fn a_role_has_its_share_of_calls_under_way_and_no_more() {
    let hang = FaultKind::Hang { seconds: 30 };
    let script = ModelScript::of("coder", vec![ScriptStep::say("one").failing(hang, 99)])
        .and("pm", vec![ScriptStep::say("mine")]);
    let world = World::play(script, &json!({}), &json!({})).await;
    let under_way = || world.gateway.models.answers.count();
    let body = ask("x");
    let calls = futures::future::join_all((0..24).map(|_| world.post("coder", CHAT, &body)));
    tokio::select! {
        answers = calls => panic!("none is answered yet: {answers:?}"),
        () = eventually("its share is under way", || async { under_way() == 16 }) => {}
    }
    let own = json!({"model": "scripted/pm", "messages": [{"role": "user", "content": "x"}]});
    let (status, answer) = world.post("pm", CHAT, &own).await;
    assert_eq!(status, 200, "another role is served: {answer}");
    // Nobody waits for them any more, and they are still to be paid for.
    eventually("only they are left", || async { under_way() == 16 }).await;
    assert_eq!(world.models.requests().len(), 1);
}

#[tokio::test]
async fn a_passing_failure_is_waited_out_and_an_unknown_outcome_is_not_repeated() {
    let fault = |kind, times| vec![ScriptStep::say("one").costing(1, 1, "1").failing(kind, times)];
    let limited = FaultKind::Status { status: 429, retry_after: Some(0) };
    let world = World::start(fault(limited, 2)).await;
    let (status, body) = world.post("coder", CHAT, &ask("x")).await;
    assert_eq!(status, 200, "{body}");
    assert_eq!(world.models.requests().len(), 3);

    let limited = FaultKind::Status { status: 429, retry_after: Some(77) };
    let world = World::start(fault(limited, 9)).await;
    let request = world.http.post(format!("{}{CHAT}", world.url)).bearer_auth(world.token("coder"));
    let response = request.json(&ask("x")).send().await.unwrap();
    assert_eq!(
        (response.status().as_u16(), &response.headers()["retry-after"]),
        (503, &"77".parse().unwrap())
    );

    for kind in [FaultKind::Cut, FaultKind::BadJson] {
        let world = World::start(fault(kind, 9)).await;
        let (status, body) = world.post("coder", CHAT, &ask("x")).await;
        assert_eq!((status, body["error"]["code"].as_str()), (502, Some("unanswered")), "{body}");
        assert_eq!(world.models.requests().len(), 1);
        assert_eq!(world.thread().await.status.unwrap().cost, None);
    }
}

#[tokio::test]
async fn a_refused_key_names_its_secret_and_never_its_value() {
    let world = World::start(vec![ScriptStep::say("one")]).await;
    let wrong = json!({"apiKey": "sk-wrong"});
    world.cluster.secret("model", &world.models.url(), &wrong).await;
    let (status, body) = world.post("coder", CHAT, &ask("x")).await;
    assert_eq!(status, 502);
    let message = body["error"]["message"].as_str().unwrap();
    assert!(message.contains("Secret `model`") && !message.contains("sk-"), "{message}");
}

#[tokio::test]
async fn a_call_is_metered_even_if_the_caller_is_gone() {
    let step = ScriptStep { delay_ms: 300, ..ScriptStep::say("one").costing(1, 1, "0.5") };
    let world = World::start(vec![step]).await;
    let request = world.http.post(format!("{}{CHAT}", world.url)).bearer_auth(world.token("coder"));
    let request = request.json(&ask("x")).timeout(std::time::Duration::from_millis(100));
    assert!(request.send().await.is_err());
    eventually("the call is metered", || async {
        world.thread().await.status.unwrap().cost == Some(NanoUsd(500_000_000))
    })
    .await;
}

#[tokio::test]
async fn a_stream_passes_through_and_is_metered_at_its_end() {
    let world = World::start(vec![ScriptStep::say("one two").costing(12, 8, "0.25")]).await;
    let (status, text) = world.post("coder", CHAT, &streamed("x")).await;
    let text = text.as_str().unwrap();
    assert_eq!(status, 200);
    assert!(text.contains("one ") && text.contains("\"cost\":0.25"), "{text}");
    assert!(text.trim_end().ends_with("[DONE]"), "{text}");
    let asked = &world.models.requests()[0].body;
    assert_eq!(asked["stream_options"]["include_usage"], true, "{asked}");
    eventually("the stream is metered", || async {
        let usage = world.thread().await.status.unwrap().roles["coder"].usage;
        (usage.cost, usage.prompt_tokens) == (NanoUsd(250_000_000), 12)
    })
    .await;
}

#[tokio::test]
async fn a_cut_stream_says_so_and_counts_as_spent() {
    let step = ScriptStep::say("one two three").costing(1, 1, "1").failing(FaultKind::Cut, 9);
    let world = World::start(vec![step]).await;
    let (status, text) = world.post("coder", CHAT, &streamed("x")).await;
    let text = text.as_str().unwrap();
    assert_eq!(status, 200, "the headers were sent before it broke");
    assert!(text.contains("one ") && text.contains(r#""code":"unanswered""#), "{text}");
    eventually("the call is flagged", || async {
        let status = world.thread().await.status.unwrap();
        let flagged = status.budget.is_some_and(|budget| budget.flagged > NanoUsd::ZERO);
        flagged && status.cost.is_none_or(|cost| cost == NanoUsd::ZERO)
    })
    .await;
}

#[tokio::test]
async fn a_model_that_fails_three_times_is_stood_in_for_and_the_thread_is_told_once() {
    let down = FaultKind::Status { status: 503, retry_after: Some(0) };
    let coder = vec![ScriptStep::say("one").failing(down, 99)];
    let script = ModelScript::of("coder", coder)
        .and("spare", vec![ScriptStep::say("two").costing(1, 1, "0.5")]);
    let world = World::play(script, &json!({}), &json!({"pool": ["scripted/spare"]})).await;
    for _ in 0..2 {
        let (status, body) = world.post("coder", CHAT, &ask("x")).await;
        assert_eq!(status, 200, "{body}");
        assert_eq!(body["choices"][0]["message"]["content"], "two");
    }
    let of = |model: &str| {
        world.models.requests().iter().filter(|request| request.body["model"] == model).count()
    };
    assert_eq!((of("scripted/coder"), of("scripted/spare")), (3, 2));
    let told = || {
        let messages = world.slack.messages(&world.channel, Some(&world.root));
        messages.iter().filter(|message| message.text.contains("`scripted/spare` answers")).count()
    };
    eventually("the thread is told", || async { told() == 1 }).await;
    let metrics = world.metrics().await;
    assert!(metrics.contains(r#"model="scripted/spare",outcome="ok"} 2"#), "{metrics}");
}

#[tokio::test]
async fn minutes_are_metered_and_only_for_roles_that_have_them() {
    let price = json!({"model": {"prices": {"scripted/ear": {"audioMinute": "0.006"}}}});
    let own = json!({"audio": "scripted/ear"});
    let world = World::play(ModelScript::of("coder", vec![]), &price, &own).await;
    let drawn = json!({"model": "scripted/coder", "modalities": ["image"], "messages": []});
    let (status, body) = world.post("coder", "/v1/chat/completions", &drawn).await;
    assert_eq!(status, 400, "people are asked before images are made: {body}");

    let form = |model: &str| {
        let sound = "s".repeat(90_000);
        let form = format!(
            "--b\r\ncontent-disposition: form-data; name=\"model\"\r\n\r\n{model}\r\n--b\r\n\
             content-disposition: form-data; name=\"file\"; filename=\"a.wav\"\r\n\r\n{sound}\r\n--b--\r\n"
        );
        let request = world.http.post(format!("{}/v1/audio/transcriptions", world.url));
        let request = request.header("content-type", "multipart/form-data; boundary=b").body(form);
        request.bearer_auth(world.token("coder")).send()
    };
    let heard: Value = form("scripted/ear").await.unwrap().json().await.unwrap();
    assert_eq!(heard["text"], "fix the total", "{heard}");
    assert_eq!(form("whisper-9").await.unwrap().status(), 400);
    // 90 seconds at 0.006 a minute.
    let expected = NanoUsd(9_000_000);
    assert_eq!(world.models.billed().total(), expected);
    eventually("it is metered", || async {
        world.thread().await.status.unwrap().cost == Some(expected)
    })
    .await;
    let metrics = world.metrics().await;
    let of = format!(r#"repo="{}/shop",role="coder""#, world.cluster.team());
    let line = format!(r#"codebutler_audio_seconds_total{{{of},model="scripted/ear"}} 90"#);
    assert!(metrics.contains(&line), "{metrics}");
}
