//! Web search where the installation names no search provider: a model of the role's searches, and what it has
//! found may be opened.

use codebutler_crds::{NanoUsd, names};
use codebutler_testbed::models::{ModelCard, ModelOptions, ModelScript, PlayedCatalogue};
use codebutler_testbed::slack::SlackOptions;
use serde_json::{Value, json};

use super::egress::FETCH;
use super::providers::Provider;
use super::{World, eventually, set_tools, thread};

const SEARCH: &str = "/v1/web/search";
const HAIKU: &str = "anthropic/claude-haiku-4.5";
const OPUS: &str = "anthropic/claude-opus-5";
const CLAUDE: &str = "claude-haiku-4-5";

fn found(cost: f64) -> Value {
    let cite = |url: &str, title: &str| {
        let citation = json!({"url": url, "title": title, "content": "It says so.", "start_index": 0, "end_index": 4});
        json!({"type": "url_citation", "url_citation": citation})
    };
    let annotations = [
        cite("https://docs.search.invalid/guide", "Guide"),
        cite("https://169.254.169.254/x", "Inside"),
    ];
    let message =
        json!({"role": "assistant", "content": "Two sources.", "annotations": annotations});
    let usage = json!({"prompt_tokens": 4_000, "completion_tokens": 60, "total_tokens": 4_060, "cost": cost,
        "server_tool_use_details": {"web_search_requests": 1}});
    let choice = json!({"index": 0, "message": message, "finish_reason": "stop"});
    json!({"id": "gen-1", "object": "chat.completion", "choices": [choice], "usage": usage})
}

async fn searching_world(provider: &Provider, spec: &Value) -> World {
    let world = provider.world_with(&json!({"default": OPUS, "pool": [HAIKU]}), spec).await;
    set_tools(&world, "coder", &["Read", "WebFetch", "WebSearch"]).await;
    let (status, session) = world.get("coder", "/v1/session").await;
    assert_eq!(status, 200, "{session}");
    eventually("the role to have its tools", || async {
        world.post("coder", SEARCH, &json!({"query": ""})).await.0 == 400
    })
    .await;
    world
}

#[tokio::test]
async fn the_cheapest_model_searches_and_its_cost_is_the_roles() {
    let provider = Provider::start().await;
    let world = searching_world(&provider, &json!({})).await;
    provider.next(200, None, &found(0.0291));
    let (status, answer) = world.post("coder", SEARCH, &json!({"query": "release notes"})).await;
    assert_eq!(status, 200, "{answer}");
    let first = json!({"title": "Guide", "url": "https://docs.search.invalid/guide", "snippet": "It says so."});
    assert_eq!(answer["results"][0], first);
    let asked = provider.asked();
    assert_eq!((asked.len(), &asked[0]["model"]), (1, &json!(HAIKU)));
    assert_eq!(asked[0]["tools"][0]["type"], "openrouter:web_search");
    assert_eq!(asked[0]["tools"][0]["parameters"]["max_uses"], 1, "one search is paid for");
    assert!(asked[0]["messages"][0]["content"].as_str().unwrap().ends_with("release notes"));
    eventually("the cost to be on the Thread", || async {
        let status = world.thread().await.status.unwrap_or_default();
        let usage = status.roles.get("coder").map(|role| role.usage);
        usage.is_some_and(|usage| usage.calls == 1 && usage.cost == NanoUsd(29_100_000))
    })
    .await;
}

#[tokio::test]
async fn what_was_found_may_be_opened_and_nothing_beside_it() {
    let provider = Provider::start().await;
    let world = searching_world(&provider, &json!({"web": {"hosts": ["listed.invalid"]}})).await;
    let fetch = |url: &'static str| {
        let world = &world;
        async move {
            let (_, answer) = world.post("coder", FETCH, &json!({"url": url})).await;
            answer["error"]["message"].as_str().unwrap_or_default().to_owned()
        }
    };
    let page = "https://docs.search.invalid/guide";
    let refused = fetch(page).await;
    assert!(refused.contains("spec.web.hosts"), "before it was found: {refused}");
    provider.next(200, None, &found(0.01));
    assert_eq!(world.post("coder", SEARCH, &json!({"query": "guide"})).await.0, 200);
    // Nothing answers for these names: an allowed page is tried, and its name can't be resolved.
    for tried in [page, "https://docs.search.invalid/guide#part", "https://listed.invalid/any"] {
        let said = fetch(tried).await;
        assert!(said.contains("can't be resolved"), "{tried}: {said}");
    }
    for other in [
        "https://docs.search.invalid/other",
        "https://docs.search.invalid/guide?leak=1",
        "https://169.254.169.254/x",
    ] {
        let said = fetch(other).await;
        assert!(!said.is_empty() && !said.contains("can't be resolved"), "{other}: {said}");
    }
}

#[tokio::test]
async fn sources_that_no_role_has_opened_are_named_beneath_the_answer() {
    let provider = Provider::start().await;
    let world = searching_world(&provider, &json!({})).await;
    set_tools(&world, "coder", &["SendMessage", "WebFetch"]).await;
    // Of a Thread that is older than the gateway nobody knows what was opened in it.
    let user = world.slack.create_user("eve", "Eve");
    world.slack.add_member(&world.channel, &user).unwrap();
    let root = world.slack.post_as(&user, &world.channel, None, "Where is it written?").unwrap();
    let name = names::thread_name("shop", &root.parse().unwrap());
    let tokens = thread(&world.cluster, &name, &world.channel, &root).await;
    let text = "The guide says so: https://docs.search.invalid/guide (ours: `https://x.invalid/`)";
    eventually("the answer to be posted", || async {
        let said = json!({"key": "a", "text": text});
        world.post(&tokens["coder"], "/v1/messages", &said).await.0 == 200
    })
    .await;
    let shown = || world.slack.messages(&world.channel, Some(&root));
    let line = "Not read with WebFetch in this thread: `https://docs.search.invalid/guide`";
    assert!(shown().iter().any(|message| message.shown.contains(line)), "{:#?}", shown());
    assert!(!shown().iter().any(|message| message.shown.contains("`https://x.invalid/`,")));
    // A role that opens no pages is not measured by it.
    let said = json!({"key": "b", "text": "As on https://other.invalid/page"});
    assert_eq!(world.post(&tokens["pm"], "/v1/messages", &said).await.0, 200);
    assert!(!shown().iter().any(|message| message.shown.contains("`https://other.invalid/page`")));
}

#[tokio::test]
async fn a_search_is_paid_once_for_a_key_and_its_answer_is_found_again() {
    let provider = Provider::start().await;
    let world = searching_world(&provider, &json!({})).await;
    provider.next(200, None, &found(0.01));
    let wanted = json!({"query": "release notes", "key": "run.1.0"});
    let both =
        tokio::join!(world.post("coder", SEARCH, &wanted), world.post("coder", SEARCH, &wanted));
    let ((status, first), (_, second)) = both;
    assert_eq!((status, &first), (200, &second), "{first}");
    let again = json!({"query": "release notes", "key": "run.1.0", "again": true});
    assert_eq!(world.post("coder", SEARCH, &again).await, (200, first));
    let other = json!({"query": "something else", "key": "run.1.0"});
    assert_eq!(world.post("coder", SEARCH, &other).await.0, 400, "the key of another search");
    // A refusal ends a search, too: a new one has a key of its own.
    provider.next(402, None, &json!({"error": {"message": "Insufficient credits"}}));
    let refused = json!({"query": "a", "key": "run.2.0"});
    let (status, answer) = world.post("coder", SEARCH, &refused).await;
    assert_eq!((status, &answer["error"]["code"]), (502, &json!("upstream")), "{answer}");
    assert_eq!(world.post("coder", SEARCH, &refused).await, (502, answer));
    assert_eq!(provider.asked().len(), 2);

    // After a restart nobody knows what was found: it may have been paid for, so it is not made again.
    let url = world.successor().await;
    let ask = world.http.post(format!("{url}{SEARCH}")).bearer_auth(world.token("coder"));
    let lost: Value = ask.json(&again).send().await.unwrap().json().await.unwrap();
    let said = lost["error"]["message"].as_str().unwrap_or_default();
    assert!(said.contains("interrupted") && said.contains("search anew"), "{lost}");
    assert_eq!(provider.asked().len(), 2, "nothing is paid twice");
}

#[tokio::test]
async fn a_provider_that_refuses_its_search_alone_is_reachable() {
    let provider = Provider::start().await;
    let world = searching_world(&provider, &json!({})).await;
    provider.next(400, None, &json!({"error": {"message": "web_search is not enabled"}}));
    let (_, answer) = world.post("coder", SEARCH, &json!({"query": "a"})).await;
    assert!(answer.to_string().contains("web_search is not enabled"), "{answer}");
    // It is counted once everything is said of it.
    eventually("the call to be counted", || async {
        world.metrics().await.contains("codebutler_model_calls_total{")
    })
    .await;
    let said = world.condition("ModelReachable").await;
    assert!(!said.contains("web_search"), "{said}");
}

#[tokio::test]
async fn a_search_that_fails_says_what_to_do() {
    let provider = Provider::start().await;
    let spec = json!({"web": {"searchModel": "x/unknown", "openResults": false}});
    let world = searching_world(&provider, &spec).await;
    let (status, answer) = world.post("coder", SEARCH, &json!({"query": "a"})).await;
    let said = answer["error"]["message"].as_str().unwrap_or_default();
    assert!(status == 403 && said.contains("spec.web.searchModel"), "{answer}");
}

/// A world whose coder has a model of Anthropic's, at a provider that answers as Anthropic does.
async fn claude_world() -> World {
    world_at(PlayedCatalogue::Anthropic, "Anthropic", CLAUDE).await
}

/// A world whose coder has this model, at a provider with this API.
async fn world_at(catalogue: PlayedCatalogue, api: &str, model: &str) -> World {
    let provider = ModelOptions { catalogue, ..ModelOptions::default() };
    let provider = provider.offer(ModelCard::new(model));
    let mut price = json!({"prompt": "1", "completion": "5"});
    if catalogue == PlayedCatalogue::OpenAi {
        // Its models' searches have several prices, of which none is in its list.
        price["search"] = json!("0.01");
    }
    let spec = json!({"model": {"api": api, "prices": {model: price}}});
    let script = ModelScript::of("coder", vec![]);
    let role = json!({"pool": [model]});
    let world = World::play_at(SlackOptions::default(), provider, script, (&spec, &role)).await;
    set_tools(&world, "coder", &["Read", "WebFetch", "WebSearch"]).await;
    eventually("the role to have its tools", || async {
        world.post("coder", SEARCH, &json!({"query": ""})).await.0 == 400
    })
    .await;
    world
}

#[tokio::test]
async fn claude_searches_with_anthropics_own_tool_and_both_tokens_and_searches_are_billed() {
    let world = claude_world().await;
    let (status, answer) = world.post("coder", SEARCH, &json!({"query": "release notes"})).await;
    assert_eq!(status, 200, "{answer}");
    let first = json!({"title": "Guide", "url": "https://docs.search.invalid/guide",
        "snippet": "It says so. (April 30, 2026)"});
    assert_eq!(answer["results"][0], first);
    assert_eq!(answer["results"].as_array().unwrap().len(), 2, "{answer}");
    let asked = world.models.requests();
    let sent = &asked.last().unwrap().body;
    assert_eq!((&sent["model"], sent.get("stream")), (&json!(CLAUDE), None), "{sent}");
    assert_eq!(sent["tools"][0]["max_uses"], 1, "one search is paid for");
    let billed = world.models.billed().total();
    assert!(billed > NanoUsd(10_000_000), "ten dollars for a thousand searches: {billed}");
    eventually("exactly that to be on the Thread", || async {
        let status = world.thread().await.status.unwrap_or_default();
        let usage = status.roles.get("coder").map(|role| role.usage);
        usage.is_some_and(|usage| usage.calls == 1 && usage.cost == billed)
    })
    .await;
}

#[tokio::test]
async fn models_of_openai_search_in_its_responses_api_and_both_tokens_and_searches_are_billed() {
    let world = world_at(PlayedCatalogue::OpenAi, "OpenAI", "gpt-5.6").await;
    let (status, answer) = world.post("coder", SEARCH, &json!({"query": "release notes"})).await;
    assert_eq!(status, 200, "{answer}");
    let first = json!({"title": "Guide", "url": "https://docs.search.invalid/guide", "snippet": "It says so."});
    assert_eq!(answer["results"][0], first);
    assert_eq!(answer["results"][1]["url"], "https://b.search.invalid/", "found, and not cited");
    let asked = world.models.requests();
    let sent = &asked.last().unwrap().body;
    assert_eq!((&sent["model"], &sent["max_tool_calls"]), (&json!("gpt-5.6"), &json!(1)), "{sent}");
    assert_eq!(sent["reasoning"]["effort"], "low", "{sent}");
    let billed = world.models.billed().total();
    assert!(billed > NanoUsd(10_000_000), "ten dollars for a thousand searches: {billed}");
    eventually("the call to be on the Thread", || async {
        let status = world.thread().await.status.unwrap_or_default();
        status.roles.get("coder").is_some_and(|role| role.usage.calls == 1)
    })
    .await;
    let usage = world.thread().await.status.unwrap().roles["coder"].usage;
    assert_eq!(usage.cost, billed, "{usage:?}");
}

#[tokio::test]
async fn a_search_of_claudes_that_fails_within_its_answer_is_told_and_its_tokens_are_billed() {
    let world = claude_world().await;
    let query = "something failing with too_many_requests";
    let (status, answer) = world.post("coder", SEARCH, &json!({"query": query})).await;
    assert_eq!(status, 200, "{answer}");
    assert_eq!(answer["results"], json!([]));
    assert!(answer["note"].as_str().unwrap().contains("search again in a minute"), "{answer}");
    let billed = world.models.billed().total();
    assert!(billed < NanoUsd(10_000_000), "no search was made: {billed}");
    eventually("the tokens to be on the Thread", || async {
        let status = world.thread().await.status.unwrap_or_default();
        status.roles.get("coder").is_some_and(|role| role.usage.cost == billed)
    })
    .await;
    // A key that is refused there is the model API's, and is said as such.
    world.cluster.secret("model", &world.models.url(), &json!({"apiKey": "sk-ant-wrong"})).await;
    eventually("the key to be refused", || async {
        let (status, answer) = world.post("coder", SEARCH, &json!({"query": "a"})).await;
        status != 200 && answer.to_string().contains("refused the key of Secret `model`")
    })
    .await;
}
