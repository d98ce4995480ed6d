//! The model server, driven over HTTP as an OpenAI client does.

use std::time::Duration;

use codebutler_crds::NanoUsd;
use codebutler_testbed::models::{
    FaultKind, MischiefKind, ModelOptions, ModelScript, ModelServer, ScriptStep, ScriptUsage,
};
use serde_json::{Value, json};

struct Client {
    server: ModelServer,
    http: reqwest::Client,
}

impl Client {
    async fn start(steps: Vec<ScriptStep>) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let script = ModelScript::of("coder", steps);
        let server = ModelServer::start(script, ModelOptions::default()).await.unwrap();
        Self { server, http: reqwest::Client::new() }
    }

    async fn send(&self, body: &Value) -> reqwest::Response {
        let url = format!("{}/chat/completions", self.server.url());
        let request = self.http.post(url).bearer_auth(self.server.api_key()).json(body);
        request.timeout(Duration::from_secs(10)).send().await.unwrap()
    }

    async fn ask(&self, messages: &Value) -> (u16, String) {
        let response = self.send(&body(messages)).await;
        (response.status().as_u16(), response.text().await.unwrap_or_default())
    }
}

fn body(messages: &Value) -> Value {
    json!({"model": "scripted/coder", "messages": messages})
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

#[tokio::test]
async fn a_conversation_is_played_and_billed_to_the_nano_dollar() {
    let steps = vec![
        ScriptStep::tool("Read", json!({"path": "a.rs"}))
            .and_tool("Grep", json!({"pattern": "x"}))
            .expecting("fix it")
            .costing(1200, 80, "0.0123456789"),
        ScriptStep::say("done").expecting("42").costing(1400, 20, "1.5e-7"),
    ];
    let client = Client::start(steps).await;
    let mut messages = json!([user("please fix it")]);
    let (status, text) = client.ask(&messages).await;
    assert_eq!(status, 200, "{text}");
    // The provider's own figure, digit by digit.
    assert!(text.contains(r#""cost":0.0123456789,"#), "{text}");
    let answer: Value = serde_json::from_str(&text).unwrap();
    let choice = &answer["choices"][0];
    assert_eq!(choice["finish_reason"], "tool_calls");
    assert_eq!(answer["usage"]["total_tokens"], 1280);
    let calls = choice["message"]["tool_calls"].as_array().unwrap();
    assert_eq!(calls[0]["function"]["arguments"], r#"{"path":"a.rs"}"#);
    let list = messages.as_array_mut().unwrap();
    list.push(choice["message"].clone());
    for call in calls {
        list.push(json!({"role": "tool", "tool_call_id": call["id"], "content": "42"}));
    }
    let (_, first) = client.ask(&messages).await;
    let (_, second) = client.ask(&messages).await;
    for text in [first, second] {
        let answer: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(answer["choices"][0]["message"]["content"], "done");
        assert_eq!(answer["choices"][0]["finish_reason"], "stop");
    }
    let bill = client.server.billed();
    assert_eq!(bill.total(), NanoUsd(12_345_679 + 2 * 150));
    let coder = bill.roles["coder"];
    assert_eq!((coder.calls, coder.repeats, coder.tool_calls), (3, 1, 2));

    messages
        .as_array_mut()
        .unwrap()
        .extend([json!({"role": "assistant", "content": "done"}), user("more")]);
    assert!(client.ask(&messages).await.1.contains("The script ends here."));
    assert_eq!(client.server.billed().total(), bill.total());
    assert!(client.server.failures().is_empty());
    assert_eq!(client.server.requests().len(), 4);
}

#[tokio::test]
async fn what_openai_refuses_is_refused() {
    let client = Client::start(vec![ScriptStep::say("hi").expecting("hello")]).await;
    let (status, text) = client.ask(&json!([])).await;
    assert_eq!(status, 400);
    assert!(text.contains(r#""code":400"#) && text.contains("empty array"), "{text}");
    let response = client.send(&json!({"model": "gpt", "messages": [user("x")]})).await;
    assert_eq!(response.status(), 400);
    assert!(response.text().await.unwrap().contains("gpt is not a valid model ID"));
    let (status, text) = client.ask(&json!([user("bye")])).await;
    assert_eq!(status, 500);
    assert!(text.contains("`hello`"), "{text}");
    assert!(client.server.failures().iter().any(|f| f.contains("coder step 1")));
    // As there, anybody may read the list, and a key is asked about where it is alone.
    let url = format!("{}/key", client.server.url());
    let response = client.http.get(&url).bearer_auth("sk-wrong").send().await.unwrap();
    assert_eq!(response.status(), 401);
    assert!(response.text().await.unwrap().contains(r#""code":401"#));
    let response = client.http.get(&url).bearer_auth(client.server.api_key()).send().await.unwrap();
    assert_eq!(response.status(), 200);
    let url = format!("{}/models", client.server.url());
    let response = client.http.get(&url).send().await.unwrap();
    assert!(response.text().await.unwrap().contains("scripted/coder"));
    assert_eq!(client.server.billed().total(), NanoUsd::ZERO);
}

#[tokio::test]
async fn faults_come_first_and_cost_nothing() {
    let limited = FaultKind::Status { status: 429, retry_after: Some(3) };
    let answers =
        |kind, times| vec![ScriptStep::say("finally").failing(kind, times).costing(1, 1, "1")];
    let messages = json!([user("x")]);

    let client = Client::start(answers(limited, 2)).await;
    for _ in 0..2 {
        let response = client.send(&body(&messages)).await;
        assert_eq!(response.status(), 429);
        assert_eq!(response.headers()["retry-after"], "3");
    }
    assert_eq!(client.server.billed().total(), NanoUsd::ZERO);
    assert!(client.ask(&messages).await.1.contains("finally"));
    assert_eq!(client.server.billed().total(), NanoUsd(1_000_000_000));

    let client = Client::start(answers(FaultKind::BadJson, 1)).await;
    assert!(serde_json::from_str::<Value>(&client.ask(&messages).await.1).is_err());
    assert!(client.ask(&messages).await.1.contains("finally"));

    let client = Client::start(answers(FaultKind::Cut, 1)).await;
    assert!(client.send(&body(&messages)).await.text().await.is_err());
    assert!(client.ask(&messages).await.1.contains("finally"));

    let client = Client::start(answers(FaultKind::Hang { seconds: 0 }, 1)).await;
    let url = format!("{}/chat/completions", client.server.url());
    let request = client.http.post(url).bearer_auth(client.server.api_key());
    assert!(request.json(&body(&messages)).send().await.is_err());
    assert!(client.ask(&messages).await.1.contains("finally"));
}

#[tokio::test]
async fn a_stream_adds_up_to_the_same_answer() {
    let arguments = json!({"path": "src/lib.rs", "content": "fn main() { println!(\"hi\"); }"});
    let step = ScriptStep {
        say: Some("I write it.".to_owned()),
        ..ScriptStep::tool("Write", arguments.clone())
    };
    let client = Client::start(vec![step.costing(10, 5, "0.25")]).await;
    let mut request = body(&json!([user("x")]));
    request["stream"] = true.into();
    let text = client.send(&request).await.text().await.unwrap();
    let data: Vec<&str> = text.lines().filter_map(|l| l.strip_prefix("data: ")).collect();
    assert_eq!(data.last(), Some(&"[DONE]"));
    let (mut content, mut called, mut cost) = (String::new(), String::new(), None);
    for event in &data[..data.len() - 1] {
        let event: Value = serde_json::from_str(event).unwrap();
        let delta = &event["choices"][0]["delta"];
        content += delta["content"].as_str().unwrap_or_default();
        called += delta["tool_calls"][0]["function"]["arguments"].as_str().unwrap_or_default();
        cost = event["usage"]["cost"].as_f64().or(cost);
    }
    assert_eq!(content, "I write it.");
    assert_eq!(serde_json::from_str::<Value>(&called).unwrap(), arguments);
    assert_eq!(cost, Some(0.25));
}

#[tokio::test]
async fn the_official_openai_client_is_content() {
    let limited = FaultKind::Status { status: 429, retry_after: Some(0) };
    let usage = ScriptUsage {
        prompt: 40,
        cached: 30,
        completion: 8,
        reasoning: 4,
        ..ScriptUsage::default()
    };
    let client = Client::start(vec![
        ScriptStep::tool("Read", json!({"path": "a.rs"}))
            .costing(10, 2, "0.25")
            .failing(limited, 1),
        ScriptStep::say("It is empty.").expecting("fn main()").costing(20, 4, "0.5"),
        ScriptStep::say("There is nothing more to say.")
            .costing(30, 6, "1")
            .failing(FaultKind::Cut, 1),
        ScriptStep { usage, ..ScriptStep::say("This is the last word.") }
            .thinking("Is there anything else?")
            .after(MischiefKind::ErrorIn200)
            .after(MischiefKind::Length)
            .after(MischiefKind::Refusal),
    ])
    .await;
    let env = [
        ("OPENAI_BASE_URL", client.server.url()),
        ("OPENAI_API_KEY", client.server.api_key().to_owned()),
    ];
    crate::python::run("openai_client.py", &["openai==3.54.0"], &env).await;
    assert_eq!(client.server.billed().total(), NanoUsd(1_750_000_000));
}
