//! Model calls and what they cost.

use codebutler_crds::NanoUsd;
use codebutler_testbed::models::{FaultKind, Step};
use serde_json::{Value, json};

use super::{World, eventually};

const CHAT: &str = "/v1/chat/completions";

fn ask(text: &str) -> Value {
    json!({"model": "scripted/coder", "messages": [{"role": "user", "content": text}]})
}

#[tokio::test]
async fn what_the_provider_bills_is_on_the_thread_to_the_nano_dollar() {
    let world = World::start(vec![Step::say("one").costing(1200, 80, "0.0123456789")]).await;
    for expected in [12_345_679, 2 * 12_345_679] {
        let (status, body) = world.post("coder", CHAT, &ask("x")).await;
        assert_eq!(status, 200, "{body}");
        assert_eq!(body["choices"][0]["message"]["content"], "one");
        let status = world.thread().await.status.unwrap();
        assert_eq!(status.cost, Some(NanoUsd(expected)));
        assert_eq!(status.roles["coder"].usage.cost, NanoUsd(expected));
        assert!(status.roles["coder"].pod_uid.is_some(), "the controller's field stays");
    }
    assert_eq!(world.models.billed().total(), world.thread().await.status.unwrap().cost.unwrap());
    let usage = world.thread().await.status.unwrap().roles["coder"].usage;
    assert_eq!((usage.prompt_tokens, usage.completion_tokens, usage.calls), (2400, 160, 2));
    let metrics = world.metrics().await;
    let labels = r#"{repo="shop",role="coder",model="scripted/coder"}"#;
    assert!(
        metrics.contains(&format!("codebutler_cost_usd_total{labels} 0.024691358")),
        "{metrics}"
    );
    assert!(metrics.contains("codebutler_tokens_total{"), "{metrics}");
}

#[tokio::test]
async fn only_the_roles_own_model_is_asked() {
    let world = World::start(vec![Step::say("one")]).await;
    let mut other = ask("x");
    other["model"] = "scripted/pm".into();
    let mut streamed = ask("x");
    streamed["stream"] = true.into();
    for body in [other, streamed, json!([]), json!({})] {
        let (status, answer) = world.post("coder", CHAT, &body).await;
        assert_eq!((status, answer["error"]["code"].as_str()), (400, Some("invalid_request")));
    }
    assert!(world.models.requests().is_empty());
}

#[tokio::test]
async fn a_passing_failure_is_waited_out_and_an_unknown_outcome_is_not_repeated() {
    let fault = |kind, times| vec![Step::say("one").costing(1, 1, "1").failing(kind, times)];
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
        assert_eq!((status, body["error"]["code"].as_str()), (502, Some("upstream")), "{body}");
        assert_eq!(world.models.requests().len(), 1);
        assert_eq!(world.thread().await.status.unwrap().cost, None);
    }
}

#[tokio::test]
async fn a_refused_key_names_its_secret_and_never_its_value() {
    let world = World::start(vec![Step::say("one")]).await;
    let wrong = json!({"apiKey": "sk-wrong"});
    world.cluster.secret("model", &world.models.url(), &wrong).await;
    let (status, body) = world.post("coder", CHAT, &ask("x")).await;
    assert_eq!(status, 502);
    let message = body["error"]["message"].as_str().unwrap();
    assert!(message.contains("Secret `model`") && !message.contains("sk-"), "{message}");
}

#[tokio::test]
async fn a_call_is_metered_even_if_the_caller_is_gone() {
    let step = Step { delay_ms: 300, ..Step::say("one").costing(1, 1, "0.5") };
    let world = World::start(vec![step]).await;
    let request = world.http.post(format!("{}{CHAT}", world.url)).bearer_auth(world.token("coder"));
    let request = request.json(&ask("x")).timeout(std::time::Duration::from_millis(100));
    assert!(request.send().await.is_err());
    eventually("the call is metered", || async {
        world.thread().await.status.unwrap().cost == Some(NanoUsd(500_000_000))
    })
    .await;
}
