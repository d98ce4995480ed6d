//! Web search by a service that a Repo names: its answers, its bill, and what is said where it gives none.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use codebutler_crds::{NanoUsd, Repo};
use codebutler_gateway::web::{SearchOptions, SearchProvider, run_search_conditions};
use codebutler_testbed::models::ModelScript;
use k8s_openapi::api::core::v1::Secret;
use kube::api::DeleteParams;
use serde_json::{Value, json};
use tokio_util::task::AbortOnDropHandle;

use super::{World, eventually, set_tools};

const SEARCH: &str = "/v1/web/search";
const CONDITION: &str = "SearchReachable";
const KEY: &str = "BSA-key-of-the-shop";

/// Status, headers and body of an answer.
type PlannedAnswer = (u16, Vec<(&'static str, &'static str)>, String);

/// A search service that answers what was put down for it, and then with one result.
struct Service {
    url: String,
    play: Arc<ServicePlay>,
    _serving: AbortOnDropHandle<()>,
}

#[derive(Default)]
struct ServicePlay {
    answers: Mutex<VecDeque<PlannedAnswer>>,
    asked: Mutex<Vec<(String, HeaderMap)>>,
}

impl Service {
    async fn start() -> Self {
        let play = Arc::<ServicePlay>::default();
        let app = axum::Router::new().fallback(answer_search).with_state(Arc::clone(&play));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let serving = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { url, play, _serving: AbortOnDropHandle::new(serving) }
    }

    fn next(&self, status: u16, headers: &[(&'static str, &'static str)], body: &str) {
        self.play.answers.lock().unwrap().push_back((status, headers.to_vec(), body.to_owned()));
    }

    fn asked(&self) -> Vec<(String, HeaderMap)> {
        self.play.asked.lock().unwrap().clone()
    }
}

async fn answer_search(
    State(play): State<Arc<ServicePlay>>,
    uri: Uri,
    headers: HeaderMap,
) -> Response {
    play.asked.lock().unwrap().push((uri.to_string(), headers));
    let hit = |text: &str| json!({"title": "Guide", "url": "https://docs.search.invalid/guide", text: "It says so."});
    let fine = || {
        let body = if uri.path().ends_with("/web/search") {
            json!({"type": "search", "web": {"results": [hit("description")]}})
        } else {
            json!({"query": "q", "results": [hit("content")], "unresponsive_engines": [["google", "CAPTCHA"]]})
        };
        (200, Vec::new(), body.to_string())
    };
    let (status, headers, body) = play.answers.lock().unwrap().pop_front().unwrap_or_else(fine);
    let headers =
        headers.into_iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
    (StatusCode::from_u16(status).unwrap(), headers.collect::<HeaderMap>(), body).into_response()
}

/// A world whose coder searches with this service, with more fields in the Repo's `spec`.
async fn world_at(search: &Value, spec: &Value) -> World {
    let mut fields = json!({"web": {"search": search}});
    json_patch::merge(&mut fields, spec);
    let world = World::play(ModelScript::of("coder", vec![]), &fields, &json!({})).await;
    set_tools(&world, "coder", &["Read", "WebFetch", "WebSearch"]).await;
    eventually("the role to have its tools", || async {
        world.post("coder", SEARCH, &json!({"query": ""})).await.0 == 400
    })
    .await;
    world
}

async fn brave_world(service: &Service, spec: &Value) -> World {
    let search = json!({"provider": "Brave", "url": service.url, "credentials": {"name": "brave"},
        "pricePerSearch": "0.0031"});
    let world = world_at(&search, spec).await;
    world.cluster.secret("brave", &service.url, &json!({"apiKey": KEY})).await;
    world
}

impl World {
    async fn search(&self, query: &str) -> (u16, String, Value) {
        let (status, answer) = self.post("coder", SEARCH, &json!({"query": query})).await;
        (status, answer["error"]["message"].as_str().unwrap_or_default().to_owned(), answer)
    }

    async fn search_condition(&self) -> (String, String, String) {
        let conditions = self.repo().await.status.unwrap_or_default().conditions;
        let found = conditions.into_iter().find(|condition| condition.type_ == CONDITION);
        found.map(|c| (c.status, c.reason, c.message)).unwrap_or_default()
    }

    async fn comes_to_say(&self, status: &str, reason: &str, part: &str) {
        eventually(&format!("{CONDITION} to be {status}: {reason}, {part}"), || async {
            let said = self.search_condition().await;
            said.0 == status && said.1 == reason && said.2.contains(part)
        })
        .await;
    }

    /// Has the gateway keep the condition, as its leading replica does.
    fn keep_search_standing(&self) -> AbortOnDropHandle<()> {
        let egress = Arc::clone(&self.gateway.egress);
        AbortOnDropHandle::new(tokio::spawn(async move {
            run_search_conditions(&egress.context, &egress.conditions, &egress.shutdown).await;
        }))
    }

    async fn spent(&self) -> (u64, NanoUsd) {
        let status = self.thread().await.status.unwrap_or_default();
        let usage = status.roles.get("coder").map(|role| role.usage).unwrap_or_default();
        (usage.calls, usage.cost)
    }
}

#[tokio::test]
async fn brave_answers_with_the_repos_key_and_each_search_is_on_the_roles_account() {
    let service = Service::start().await;
    let world = brave_world(&service, &json!({})).await;
    let (status, said, answer) = world.search("release notes & more").await;
    assert_eq!(status, 200, "{said}");
    let first = json!({"title": "Guide", "url": "https://docs.search.invalid/guide", "snippet": "It says so."});
    assert_eq!(answer["results"], json!([first]));
    let asked = service.asked();
    let (url, headers) = &asked[0];
    assert!(url.starts_with("/res/v1/web/search?q=release+notes+%26+more"), "{url}");
    assert_eq!(headers["x-subscription-token"], KEY);
    assert!(!headers.contains_key("authorization"));
    eventually("the cost to be on the Thread", || async {
        world.spent().await == (1, NanoUsd(3_100_000))
    })
    .await;
    // What was found may be opened: nothing answers for its name.
    let page = json!({"url": "https://docs.search.invalid/guide"});
    let (_, answer) = world.post("coder", "/v1/web/fetch", &page).await;
    assert!(answer.to_string().contains("can't be resolved"), "{answer}");
    let metrics = world.metrics().await;
    assert!(metrics.contains("model=\"brave-search\""), "{metrics}");
    assert_eq!(world.search_condition().await.1, "Served");
}

#[tokio::test]
async fn a_search_that_was_refused_costs_nothing_and_one_without_room_in_the_budget_is_not_made() {
    let service = Service::start().await;
    let budget = json!({"limits": {"budget": {"perThread": "0.005"}}});
    let world = brave_world(&service, &budget).await;
    service.next(500, &[], "");
    let (status, said, _) = world.search("a").await;
    assert!(
        status == 502 && said.contains("status 500") && said.contains("try again later"),
        "{said}"
    );
    assert_eq!(world.search("b").await.0, 200);
    eventually("one search to be paid", || async {
        world.spent().await == (1, NanoUsd(3_100_000))
    })
    .await;
    let before = service.asked().len();
    let (status, said, _) = world.search("c").await;
    assert!(status != 200 && !said.is_empty(), "{said}");
    assert_eq!(service.asked().len(), before, "0.0062 is more than 0.005");
}

#[tokio::test]
async fn a_search_of_the_installations_service_is_on_the_roles_account_too() {
    let service = Service::start().await;
    let world = World::play(ModelScript::of("coder", vec![]), &json!({}), &json!({})).await;
    set_tools(&world, "coder", &["Read", "WebFetch", "WebSearch"]).await;
    let brave = SearchOptions {
        search_provider: Some(SearchProvider::Brave),
        search_url: Some(service.url.parse().unwrap()),
        ..SearchOptions::default()
    };
    let url = world.successor_searching(brave).await;
    let search = async |query: &str| {
        let asked = world.http.post(format!("{url}{SEARCH}")).bearer_auth(world.token("coder"));
        super::answer(asked.json(&json!({"query": query}))).await
    };
    eventually("the role to have its tools", || async { search("").await.0 == 400 }).await;
    let (status, answer) = search("release notes").await;
    assert_eq!((status, &answer["results"][0]["title"]), (200, &json!("Guide")), "{answer}");
    eventually("its list price to be on the Thread", || async {
        world.spent().await == (1, NanoUsd(5_000_000))
    })
    .await;
}

#[tokio::test]
async fn a_key_that_brave_does_not_take_is_the_repos_condition_until_a_search_works() {
    let service = Service::start().await;
    let world = brave_world(&service, &json!({})).await;
    let _keeping = world.keep_search_standing();
    world.comes_to_say("Unknown", "NotAsked", "only a search").await;
    let refused = r#"{"type":"ErrorResponse","error":{"id":"x","code":"SUBSCRIPTION_TOKEN_INVALID","status":422,
        "detail":"The provided subscription token is invalid.","meta":{"component":"authentication"}},"time":1}"#;
    service.next(422, &[], refused);
    let (status, said, _) = world.search("a").await;
    assert_eq!(status, 403, "{said}");
    for part in [
        "Brave does not take the key in Secret `brave`",
        "SUBSCRIPTION_TOKEN_INVALID",
        "ask a person",
    ] {
        assert!(said.contains(part) && !said.contains(KEY), "{part}: {said}");
    }
    world.comes_to_say("False", "KeyRefused", "Secret `brave`").await;
    assert_eq!(world.spent().await.1, NanoUsd::ZERO, "nothing was billed");
    assert_eq!(world.search("b").await.0, 200);
    world.comes_to_say("True", "Served", "Brave answers").await;
    // What has nothing to do with the search says nothing of it, nor does its price.
    let patch = json!({"spec": {"web": {"hosts": ["docs.example"], "search": {"pricePerSearch": "0.004"}}}});
    world.cluster.patch::<Repo>(world.cluster.team(), "shop", &patch).await;
    eventually("the condition to stand for the new generation", || async {
        let Repo { metadata, status, .. } = world.repo().await;
        let mut conditions = status.unwrap_or_default().conditions.into_iter();
        conditions.any(|c| c.type_ == CONDITION && c.observed_generation == metadata.generation)
    })
    .await;
    assert_eq!(world.search_condition().await.0, "True");
    // Another key is not known to work.
    world.cluster.secret("brave", &service.url, &json!({"apiKey": "another"})).await;
    world.comes_to_say("Unknown", "NotAsked", "only a search").await;
    let patch = json!({"spec": {"web": {"search": null}}});
    world.cluster.patch::<Repo>(world.cluster.team(), "shop", &patch).await;
    eventually("the condition to go with the field", || async {
        world.search_condition().await.0.is_empty()
    })
    .await;
}

#[tokio::test]
async fn what_is_wrong_in_the_repo_is_said_before_anything_is_asked() {
    let service = Service::start().await;
    let credentials = json!({"name": "brave"});
    let brave = |url: &str| json!({"provider": "Brave", "url": url, "credentials": credentials});
    let world = world_at(&brave(&service.url), &json!({})).await;
    let _keeping = world.keep_search_standing();
    world.comes_to_say("False", "NotReachable", "Secret `brave` does not exist").await;
    let fails = async |part: &str| {
        let (status, said, _) = world.search("a").await;
        assert!(status == 403 && said.contains(part), "{said}");
        assert!(said.contains("spec.web.search.credentials") && !said.contains(KEY), "{said}");
        let condition = world.search_condition().await;
        assert_eq!((&*condition.0, &*condition.1), ("False", "NotReachable"), "{}", condition.2);
        assert!(condition.2.contains(part), "{}", condition.2);
    };
    fails("Secret `brave` does not exist").await;
    world.cluster.secret("brave", "https://other.example", &json!({"apiKey": KEY})).await;
    fails("codebutler.dev/hosts").await;
    // What `stringData` no longer names stays in a Secret: it is another one.
    let secrets = world.cluster.api::<Secret>(world.cluster.team());
    secrets.delete("brave", &DeleteParams::default()).await.unwrap();
    world.cluster.secret("brave", &service.url, &json!({"key": KEY})).await;
    fails("no usable key `apiKey`").await;
    world.cluster.secret("brave", &service.url, &json!({"apiKey": KEY})).await;
    world.comes_to_say("Unknown", "NotAsked", "only a search").await;
    assert!(service.asked().is_empty(), "{:?}", service.asked());
    // Addresses that can't be asked.
    for (url, part) in [
        ("https://search.example/?key=x", "spec.web.search.url of the Repo is no address"),
        ("http://169.254.169.254", "internal address"),
    ] {
        let patch = json!({"spec": {"web": {"search": brave(url)}}});
        world.cluster.patch::<Repo>(world.cluster.team(), "shop", &patch).await;
        world.comes_to_say("False", "NotReachable", part).await;
        let (status, said, _) = world.search("a").await;
        assert!(status == 403 && said.contains(part), "{said}");
    }
    assert!(service.asked().is_empty());
}

#[tokio::test]
async fn a_repo_without_what_its_service_needs_is_not_taken() {
    let world = World::start(vec![]).await;
    let repos = world.cluster.api::<Repo>(world.cluster.team());
    for (search, part) in [
        (json!({"provider": "SearXNG"}), "write the base URL of an instance into `url`"),
        (json!({"provider": "Brave"}), "name a Secret with the key `apiKey` in `credentials`"),
        (json!({"provider": "brave", "credentials": {"name": "x"}}), "Brave"),
        (json!({"provider": "SearXNG", "url": "search.example"}), "spec.web.search.url"),
    ] {
        let patch = kube::api::Patch::Merge(json!({"spec": {"web": {"search": search}}}));
        let refused = repos.patch("shop", &kube::api::PatchParams::default(), &patch).await;
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains(part), "{part}: {refused}");
    }
}

#[tokio::test]
async fn a_limit_that_passes_is_waited_for_and_a_quota_is_told() {
    let service = Service::start().await;
    let world = brave_world(&service, &json!({})).await;
    let busy = [
        ("x-ratelimit-limit", "1, 15000"),
        ("x-ratelimit-remaining", "0, 1000"),
        ("x-ratelimit-reset", "1, 1419704"),
    ];
    service.next(429, &busy, r#"{"type":"ErrorResponse","errors":[{"code":"RATE_LIMITED"}]}"#);
    assert_eq!(world.search("a").await.0, 200);
    assert_eq!(service.asked().len(), 2, "once more, after a moment");
    let quota = [
        ("x-ratelimit-limit", "1, 15000"),
        ("x-ratelimit-remaining", "0, 0"),
        ("x-ratelimit-reset", "1, 1419704"),
    ];
    service.next(429, &quota, r#"{"type":"ErrorResponse","errors":[{"code":"QUOTA_LIMITED"}]}"#);
    let (status, said, _) = world.search("b").await;
    assert!(status == 403 && said.contains("(the plan has 15000), again in 17 days"), "{said}");
    assert_eq!(service.asked().len(), 3, "nobody waits for that");
    assert_eq!(world.search_condition().await.1, "Refused");
    eventually("one search to be paid", || async {
        world.spent().await == (1, NanoUsd(3_100_000))
    })
    .await;
    let long = "word ".repeat(51);
    let (status, said, _) = world.search(&long).await;
    assert!(status == 400 && said.contains("at most 50 words"), "{said}");
}

#[tokio::test]
async fn searxng_is_free_and_says_how_to_switch_its_json_on() {
    let service = Service::start().await;
    let search = json!({"provider": "SearXNG", "url": format!("{}/searx/", service.url)});
    let world = world_at(&search, &json!({})).await;
    service.next(403, &[("content-type", "text/html")], "<html>Forbidden</html>");
    let (status, said, _) = world.search("a").await;
    assert!(
        status == 403 && said.contains("`json` is in `search.formats` of its settings.yml"),
        "{said}"
    );
    assert_eq!(world.search_condition().await.1, "Refused");
    service.next(200, &[("content-type", "text/html")], "<html>Sign in</html>");
    let (_, said, _) = world.search("a").await;
    assert!(said.contains("answered a web page") && said.contains("spec.web.search.url"), "{said}");
    let (status, _, answer) = world.search("release notes").await;
    assert_eq!((status, &answer["results"][0]["snippet"]), (200, &json!("It says so.")));
    assert!(answer["note"].as_str().unwrap().contains("google: CAPTCHA"), "{answer}");
    let (url, headers) = service.asked().pop().unwrap();
    assert!(url.starts_with("/searx/search?q=release+notes&format=json"), "{url}");
    assert!(!headers.contains_key("authorization"));
    assert_eq!(world.spent().await, (0, NanoUsd::ZERO));
    assert_eq!(world.search_condition().await.1, "Served");
}
