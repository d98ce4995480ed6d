//! The model server's own rules: what it knows of its models, what it refuses, and what it bills by their cards.

use std::time::Duration;

use codebutler_crds::NanoUsd;
use codebutler_testbed::models::{
    MischiefKind, ModelCard, ModelMischief, ModelOptions, ModelScript, ModelServer,
    PlayedCatalogue, ScriptStep,
};
use serde_json::{Value, json};

use crate::support::Setup;

struct Client {
    server: ModelServer,
    http: reqwest::Client,
}

impl Client {
    async fn start(steps: Vec<ScriptStep>, options: ModelOptions) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let server = ModelServer::start(ModelScript::of("coder", steps), options).await.unwrap();
        Self { server, http: reqwest::Client::new() }
    }

    async fn post(&self, body: &Value) -> (u16, Value) {
        let url = format!("{}/chat/completions", self.server.url());
        let request = self.http.post(url).bearer_auth(self.server.api_key()).json(body);
        let response = request.send().await.unwrap();
        (response.status().as_u16(), response.json().await.unwrap_or_default())
    }

    async fn get(&self, path: &str) -> (u16, Value) {
        let url = format!("{}{path}", self.server.url());
        let response = self.http.get(url).bearer_auth(self.server.api_key()).send().await.unwrap();
        (response.status().as_u16(), response.json().await.unwrap_or_default())
    }
}

fn ask(model: &str) -> Value {
    json!({"model": model, "messages": [{"role": "user", "content": "x"}]})
}

fn offering(cards: &[&str]) -> ModelOptions {
    let offers = cards.iter().map(|id| ModelCard::new(id)).collect();
    ModelOptions { offers, ..ModelOptions::default() }
}

#[tokio::test]
async fn cards_tell_what_openrouters_list_tells_and_their_models_play() {
    let mut options = offering(&["scripted/coder-2", "anthropic/scripted-coder"]);
    options =
        options.offer(ModelCard::new("other/thing").playing("coder").without("tools").blind());
    let client = Client::start(vec![ScriptStep::say("hi")], options).await;
    let (_, list) = client.get("/models").await;
    let ids: Vec<&str> =
        list["data"].as_array().unwrap().iter().map(|m| m["id"].as_str().unwrap()).collect();
    let all = ["scripted/coder", "scripted/coder-2", "anthropic/scripted-coder", "other/thing"];
    assert_eq!(ids, all);
    for id in all {
        let (status, answer) = client.post(&ask(id)).await;
        assert_eq!((status, &answer["model"]), (200, &json!(id)), "{answer}");
    }
    let (status, one) = client.get("/model/anthropic/scripted-coder").await;
    assert_eq!((status, &one["data"]["pricing"]["input_cache_write"]), (200, &json!("0.00000375")));
    assert_eq!(one["data"]["top_provider"]["max_completion_tokens"], 16_000);
    let (_, blind) = client.get("/model/other/thing").await;
    assert_eq!(blind["data"]["architecture"]["input_modalities"], json!(["text"]));
    let parameters = blind["data"]["supported_parameters"].as_array().unwrap();
    assert!(!parameters.contains(&json!("tools")) && parameters.contains(&json!("max_tokens")));
    assert_eq!(client.get("/model/other/one").await.0, 404);
    assert_eq!(client.get("/models?offset=3&limit=5").await.1["data"].as_array().unwrap().len(), 1);
    let (status, refused) = client.post(&ask("other/one")).await;
    assert_eq!((status, &refused["error"]["code"]), (400, &json!(400)));
    assert_eq!(refused["error"]["message"], "other/one is not a valid model ID");
}

#[tokio::test]
async fn other_providers_lists_tell_less_and_their_answers_no_cost() {
    for (catalogue, owner, refusal) in [
        (PlayedCatalogue::OpenAi, "system", "does not exist or you do not have access"),
        (PlayedCatalogue::Ollama, "library", "try pulling it first"),
        (PlayedCatalogue::Vllm, "vllm", "does not exist."),
    ] {
        let options = ModelOptions { catalogue, ..ModelOptions::default() };
        let client = Client::start(vec![ScriptStep::say("hi").costing(9, 1, "1")], options).await;
        let (_, list) = client.get("/models").await;
        let entry = &list["data"][0];
        assert_eq!((&list["object"], &entry["owned_by"]), (&json!("list"), &json!(owner)));
        assert!(entry["pricing"].is_null());
        assert_eq!(entry["max_model_len"].is_u64(), catalogue == PlayedCatalogue::Vllm);
        let (_, answer) = client.post(&ask("scripted/coder")).await;
        assert_eq!(answer["usage"]["prompt_tokens"], 9);
        assert!(answer["usage"].get("cost").is_none(), "{answer}");
        let (status, refused) = client.post(&ask("gpt")).await;
        assert_eq!(status, 404);
        assert!(refused["error"]["message"].as_str().unwrap().contains(refusal), "{refused}");
    }
}

#[tokio::test]
async fn what_some_provider_refuses_is_refused_unless_it_is_lenient() {
    let call = json!({"id": "functions.Read:0", "type": "function",
        "function": {"name": "Read", "arguments": "{}"}});
    let odd = json!([{"role": "user", "content": "x"},
        {"role": "assistant", "content": null, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "functions.Read:0", "content": "ok"}]);
    for (name, value, words) in [
        ("usage", json!({"include": true}), "Unrecognized request argument supplied: usage"),
        ("messages", odd, "should match pattern '^[a-zA-Z0-9_-]+$'"),
    ] {
        let mut body = ask("scripted/coder");
        body[name] = value;
        let client = Client::start(vec![ScriptStep::say("hi")], ModelOptions::default()).await;
        let (status, refused) = client.post(&body).await;
        assert_eq!(status, 400);
        assert!(refused["error"]["message"].as_str().unwrap().contains(words), "{refused}");
        assert!(client.server.failures()[0].contains(words));
        let lenient = ModelOptions { strict: false, ..ModelOptions::default() };
        let client =
            Client::start(vec![ScriptStep::say("hi"), ScriptStep::say("ho")], lenient).await;
        assert_eq!(client.post(&body).await.0, 200);
    }
}

#[tokio::test]
async fn googles_api_wants_the_signature_of_a_call_back() {
    let model = "google/gemini-3-coder";
    let options = ModelOptions { catalogue: PlayedCatalogue::Vllm, ..offering(&[]) };
    let options = options.offer(ModelCard::new(model).playing("coder"));
    let steps = vec![ScriptStep::tool("Read", json!({"path": "a"})), ScriptStep::say("done")];
    let client = Client::start(steps, options).await;
    let (_, answer) = client.post(&ask(model)).await;
    let said = answer["choices"][0]["message"].clone();
    let call = &said["tool_calls"][0];
    assert!(call["extra_content"]["google"]["thought_signature"].is_string(), "{answer}");
    let with = |signature: Option<&str>| {
        let mut said = said.clone();
        let call = said["tool_calls"][0].as_object_mut().unwrap();
        match signature {
            Some(text) => call["extra_content"]["google"]["thought_signature"] = text.into(),
            None => drop(call.remove("extra_content")),
        }
        said
    };
    let result = json!({"role": "tool", "tool_call_id": call["id"], "content": "ok"});
    let back = async |said: Value, more: &[Value]| {
        let begin = [ask(model)["messages"][0].clone(), said, result.clone()];
        let messages: Vec<Value> = begin.into_iter().chain(more.iter().cloned()).collect();
        let (status, told) = client.post(&json!({"model": model, "messages": messages})).await;
        (status, told["error"]["message"].as_str().unwrap_or_default().to_owned())
    };
    let (status, words) = back(with(None), &[]).await;
    assert!(status == 400 && words.contains("missing a thought_signature"), "{words}");
    assert_eq!(back(with(Some("c2ln")), &[]).await.0, 400);
    assert_eq!(back(with(Some("skip_thought_signature_validator")), &[]).await.0, 200);
    assert_eq!(client.server.failures(), [""; 0], "a client learns of it");
    // Only what was called since somebody spoke is looked at.
    let spoken = json!({"role": "user", "content": "go on"});
    assert_ne!(back(with(None), &[spoken]).await.0, 400);
}

#[tokio::test]
async fn deepseeks_api_wants_reasoning_in_each_answer_once_there_are_tools() {
    let model = "deepseek-v4-pro";
    let options = ModelOptions { catalogue: PlayedCatalogue::Vllm, ..offering(&[]) };
    let options = options.offer(ModelCard::new(model).playing("coder"));
    let client = Client::start(vec![ScriptStep::say("a"), ScriptStep::say("b")], options).await;
    let tool =
        json!({"type": "function", "function": {"name": "Read", "parameters": {"type": "object"}}});
    let refuses = async |thought: Value, tools: Value| {
        let mut body = ask(model);
        let messages = body["messages"].as_array_mut().unwrap();
        messages.push(json!({"role": "assistant", "content": "a", "reasoning_content": thought}));
        messages.push(json!({"role": "user", "content": "go on"}));
        body["tools"] = tools;
        let (status, told) = client.post(&body).await;
        let words = told["error"]["message"].as_str().unwrap_or_default();
        status == 400 && words.contains("must be passed back")
    };
    for nothing in [json!(""), Value::Null] {
        assert!(refuses(nothing, json!([tool])).await);
    }
    assert!(!refuses(json!(" "), json!([tool])).await);
    assert!(!refuses(Value::Null, json!([])).await);
}

#[tokio::test]
async fn openais_thinkers_refuse_what_its_other_models_take() {
    let options = ModelOptions { catalogue: PlayedCatalogue::OpenAi, ..offering(&[]) };
    let cards = ["gpt-6-astra", "gpt-5.4", "gpt-5.2", "gpt-4o"]
        .map(|id| ModelCard::new(id).playing("coder"));
    let options = cards.into_iter().fold(options, ModelOptions::offer);
    let says = (0..9).map(|_| ScriptStep::say("hi")).collect();
    let client = Client::start(says, options).await;
    let tools = json!([{"type": "function", "function": {"name": "Read", "parameters": {"type": "object"}}}]);
    for (model, fields, refusal) in [
        ("gpt-5.4", json!({"reasoning_effort": "high", "tools": tools}), "Function tools with"),
        ("gpt-5.4", json!({"reasoning_effort": "none", "tools": tools}), ""),
        ("gpt-5.4", json!({"tools": tools}), ""),
        ("gpt-6-astra", json!({"tools": tools}), "Function tools with"),
        ("gpt-6-astra", json!({"reasoning_effort": "none", "tools": tools}), ""),
        ("gpt-5.2", json!({"reasoning_effort": "high", "tools": tools}), ""),
        ("gpt-5.2", json!({"max_tokens": 9}), "Use 'max_completion_tokens' instead"),
        ("gpt-5.2", json!({"temperature": 0.2}), "Only the default (1) value"),
        ("gpt-4o", json!({"max_tokens": 9, "temperature": 0.2}), ""),
        ("gpt-4o", json!({"reasoning_effort": "low"}), "Unrecognized request argument"),
    ] {
        let mut body = ask(model);
        body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let (status, told) = client.post(&body).await;
        let words = told["error"]["message"].as_str().unwrap_or_default();
        let expected = if refusal.is_empty() { 200 } else { 400 };
        assert!(status == expected && words.contains(refusal), "{body}: {told}");
    }
}

#[tokio::test]
async fn thoughts_are_wanted_back_as_they_were_by_the_model_that_had_them() {
    let steps = vec![
        ScriptStep::tool("Read", json!({"path": "a"})).thinking("I had better read it."),
        ScriptStep::say("done"),
    ];
    let client = Client::start(steps, offering(&["scripted/coder-2"])).await;
    let (_, answer) = client.post(&ask("scripted/coder")).await;
    let message = &answer["choices"][0]["message"];
    assert_eq!(message["reasoning_details"][0]["text"], "I had better read it.");
    let mut body = ask("scripted/coder");
    let list = body["messages"].as_array_mut().unwrap();
    list.push(message.clone());
    let id = &message["tool_calls"][0]["id"];
    list.push(json!({"role": "tool", "tool_call_id": id, "content": "ok"}));
    assert_eq!(client.post(&body).await.1["choices"][0]["message"]["content"], "done");
    let mut masked = body.clone();
    masked["messages"][1]["reasoning_details"][0]["text"] = "I had better ***".into();
    let mut switched = body.clone();
    switched["model"] = "scripted/coder-2".into();
    for wrong in [&masked, &switched] {
        let (status, refused) = client.post(wrong).await;
        let message = refused["error"]["message"].as_str().unwrap();
        assert!(status == 400 && message.contains("Invalid `signature` in `thinking` block"));
    }
    let mut dropped = switched;
    let message = dropped["messages"][1].as_object_mut().unwrap();
    message.retain(|name, _| !name.starts_with("reasoning"));
    assert_eq!(client.post(&dropped).await.1["choices"][0]["message"]["content"], "done");
}

#[tokio::test]
async fn who_names_no_longest_answer_needs_credit_for_the_longest() {
    let credit = Some(NanoUsd(100_000_000));
    let options = ModelOptions { credit, ..ModelOptions::default() };
    let client = Client::start(vec![ScriptStep::say("hi")], options).await;
    let (status, refused) = client.post(&ask("scripted/coder")).await;
    assert_eq!(status, 402);
    let said = "You requested up to 16000 tokens, but can only afford 6666.";
    assert!(refused["error"]["message"].as_str().unwrap().contains(said), "{refused}");
    let mut body = ask("scripted/coder");
    body["max_tokens"] = 6_666.into();
    assert_eq!(client.post(&body).await.0, 200);
}

#[tokio::test]
async fn metered_calls_are_billed_by_the_card() {
    let mut card = ModelCard::new("anthropic/scripted-coder");
    card.byok = true;
    let options = ModelOptions::default().offer(card);
    let steps = vec![ScriptStep::say("one").metered(), ScriptStep::say("two").metered()];
    let client = Client::start(steps, options).await;
    let part = json!({"type": "text", "text": "s".repeat(8_000),
        "cache_control": {"type": "ephemeral"}});
    let body = json!({"model": "anthropic/scripted-coder", "messages": [
        {"role": "system", "content": [part]}, {"role": "user", "content": "x"}]});
    let mut bills = Vec::new();
    for _ in 0..2 {
        let (_, answer) = client.post(&body).await;
        let usage = &answer["usage"];
        assert_eq!(usage["is_byok"], true);
        let details = &usage["prompt_tokens_details"];
        bills.push((details["cached_tokens"].as_u64(), details["cache_write_tokens"].as_u64()));
        let (fee, rest) = (&usage["cost"], &usage["cost_details"]["upstream_inference_cost"]);
        let ratio = rest.as_f64().unwrap() / fee.as_f64().unwrap();
        assert!((18.9..19.1).contains(&ratio), "{usage}");
    }
    let kept = bills[0].1;
    assert!(kept > Some(2_000), "{bills:?}");
    assert_eq!(bills, [(Some(0), kept), (kept, Some(0))]);
    let served = client.server.served();
    assert!(served[0].cost > served[1].cost, "{served:?}");
    client.server.pass_time(Duration::from_mins(6));
    client.post(&body).await;
    let (_, third) = client.post(&body).await;
    assert_eq!(third["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64(), kept);
    assert_eq!(client.server.served()[2].cached_tokens, 0, "after five minutes it is gone");

    let bad = ModelMischief::from(MischiefKind::Empty);
    let options = ModelOptions { metered: true, ..ModelOptions::default() };
    let client = Client::start(vec![ScriptStep::say("hi").after(bad)], options).await;
    client.post(&ask("scripted/coder")).await;
    let bill = client.server.billed();
    assert!(bill.total() > NanoUsd::ZERO && bill.roles["coder"].calls == 0, "{bill:?}");
    assert_eq!(bill.roles["coder"].misplayed, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_card_makes_of_a_call_is_what_the_thread_has_spent() {
    let options = ModelOptions { metered: true, ..offering(&["other/scripted-pm"]) };
    let pm = vec![ScriptStep::tool("Glob", json!({"pattern": "*"})), ScriptStep::say("Two files.")];
    let setup = Setup::new(ModelScript::of("pm", pm)).provider(options);
    let team = setup
        .role(|role| role.model.default = format!("other/scripted-{}", role.role))
        .start()
        .await;
    let root = team.says("ana", None, "look");
    team.message(&root, "Two files.").await;
    let status = team.settled(&root, "pm").await.status.unwrap();
    let billed = team.stack.models.billed().total();
    assert!(billed > NanoUsd::ZERO);
    assert_eq!(status.cost, Some(billed));
    assert_eq!(team.stack.models.requests()[0].body["model"], "other/scripted-pm");
    team.stop().await;
}
