//! OpenRouter's.

use codebutler_testbed::models::{ModelOptions, ModelScript, ModelServer, ScriptStep};
use serde_json::{Value, json};

use super::shapes::Shapes;

#[tokio::test]
async fn the_fake_provider_says_what_the_specification_says() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let steps = vec![
        ScriptStep::tool("Read", json!({"path": "a.rs"})).costing(1200, 80, "0.0123"),
        ScriptStep::say("It is empty.").costing(1400, 20, "0.5"),
        ScriptStep::say("Done.").costing(1500, 10, "0.5"),
    ];
    let script = ModelScript::of("coder", steps);
    let server = ModelServer::start(script, ModelOptions::default()).await.unwrap();
    let shapes = Shapes::read(include_str!("../../../../recordings/openrouter.txt"));
    let (http, mut wrong) = (reqwest::Client::new(), Vec::new());
    let mut compare = |what: &str, value: &Value| wrong.extend(shapes.differences(what, value));
    let get = async |path: &str| {
        let request = http.get(format!("{}{path}", server.url())).bearer_auth(server.api_key());
        let answer = request.send().await.unwrap();
        (answer.status().as_u16(), answer.json::<Value>().await.unwrap())
    };
    let post = |key: &str, body: Value| {
        let request = http.post(format!("{}/chat/completions", server.url())).bearer_auth(key);
        request.json(&body).send()
    };
    let model = ModelServer::model("coder");
    compare("GET /models 200", &get("/models").await.1);
    compare("GET /model/{author}/{slug} 200", &get(&format!("/model/{model}")).await.1);

    let mut messages = vec![json!({"role": "user", "content": "please fix it"})];
    let ask = |messages: &[Value]| json!({"model": model, "messages": messages});
    let answer = post(server.api_key(), ask(&messages)).await.unwrap();
    let answer: Value = answer.json().await.unwrap();
    compare("POST /chat/completions 200", &answer);
    let said = answer["choices"][0]["message"].clone();
    let call = said["tool_calls"][0]["id"].clone();
    messages.extend([said, json!({"role": "tool", "tool_call_id": call, "content": "ok"})]);
    let mut streamed = ask(&messages);
    streamed["stream"] = json!(true);
    let events = post(server.api_key(), streamed).await.unwrap().text().await.unwrap();
    let data = events.lines().filter_map(|line| line.strip_prefix("data: "));
    for event in data.filter(|data| *data != "[DONE]") {
        let event: Value = serde_json::from_str(event).unwrap();
        compare("POST /chat/completions 200 event", &json!({"data": event}));
    }
    let id = answer["id"].as_str().unwrap();
    let mut found = (404, Value::Null);
    for _ in 0..100 {
        found = get(&format!("/generation?id={id}")).await;
        if found.0 == 200 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    compare("GET /generation 200", &found.1);
    compare("GET /generation 404", &get("/generation?id=gen-none").await.1);
    let refused = post("sk-wrong", ask(&messages)).await.unwrap();
    assert_eq!(refused.status(), 401);
    compare("POST /chat/completions 401", &refused.json().await.unwrap());
    let other = json!({"model": "nobody/none", "messages": messages});
    let refused = post(server.api_key(), other).await.unwrap();
    assert_eq!(refused.status(), 400);
    compare("POST /chat/completions 400", &refused.json().await.unwrap());
    wrong.sort();
    wrong.dedup();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
