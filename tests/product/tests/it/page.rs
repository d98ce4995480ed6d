//! The chat page, as a browser talks to it.

use std::time::Duration;

use codebutler_testbed::slack::{SlackChange, SlackOptions, SlackServer};
use futures::{Stream, StreamExt as _};
use reqwest::header::{CONTENT_SECURITY_POLICY, HOST, ORIGIN};
use reqwest::{Client, StatusCode};
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(10);

struct Page {
    slack: SlackServer,
    client: Client,
    token: String,
    channel: String,
    ana: String,
    ben: String,
}

async fn page() -> Page {
    let slack = SlackServer::start(SlackOptions::default()).await.unwrap();
    let (ana, ben) = (slack.create_user("ana", "Ana"), slack.create_user("ben", "Ben"));
    let channel = slack.create_channel("shop", &[&ana, &ben]);
    let token = slack.page_url().rsplit_once("token=").unwrap().1.to_owned();
    let _ = rustls::crypto::ring::default_provider().install_default();
    Page { slack, client: Client::new(), token, channel, ana, ben }
}

impl Page {
    fn url(&self, path: &str) -> String {
        format!("{}{path}?token={}", self.slack.origin(), self.token)
    }

    async fn state(&self) -> Value {
        let answer = self.client.get(self.url("/page/state")).send().await.unwrap();
        assert_eq!(answer.status(), StatusCode::OK);
        answer.json().await.unwrap()
    }

    async fn act(&self, path: &str, user: &str, mut what: Value) -> (StatusCode, Value) {
        what["user"] = json!(user);
        what["channel"] = json!(self.channel);
        let answer = self.client.post(self.url(path)).json(&what).send().await.unwrap();
        (answer.status(), answer.json().await.unwrap())
    }

    async fn events(&self) -> impl Stream<Item = Value> + Unpin {
        let answer = self.client.get(self.url("/page/events")).send().await.unwrap();
        assert_eq!(answer.status(), StatusCode::OK);
        let mut left = String::new();
        let changes = answer.bytes_stream().map(move |chunk| {
            left.push_str(&String::from_utf8_lossy(&chunk.unwrap()));
            let mut changes = Vec::new();
            while let Some((event, rest)) = left.split_once("\n\n") {
                if let Some(data) = event.strip_prefix("data: ") {
                    changes.push(serde_json::from_str(data).unwrap());
                }
                left = rest.to_owned();
            }
            futures::stream::iter(changes)
        });
        Box::pin(changes.flatten())
    }

    /// The app posts a message with a button.
    async fn ask(&self) -> String {
        let button = json!({"type": "button", "action_id": "plan:approve",
            "text": {"type": "plain_text", "text": "Approve"}, "value": "key"});
        let message = json!({"channel": self.channel, "text": "Plan", "username": "PM",
            "icon_emoji": ":compass:", "blocks": [{"type": "actions", "elements": [button]}]});
        let call = self.client.post(format!("{}/chat.postMessage", self.slack.api_url()));
        let call = call.bearer_auth(self.slack.bot_token()).json(&message);
        let answer: Value = call.send().await.unwrap().json().await.unwrap();
        answer["ts"].as_str().unwrap().to_owned()
    }
}

/// The next change that fits.
async fn next(
    events: &mut (impl Stream<Item = Value> + Unpin),
    fits: impl Fn(&Value) -> bool,
) -> Value {
    let found = async {
        loop {
            let change = events.next().await.expect("the events ended");
            if fits(&change) {
                return change;
            }
        }
    };
    tokio::time::timeout(PATIENCE, found).await.expect("no such change")
}

#[tokio::test]
async fn the_page_brings_nothing_from_elsewhere() {
    let page = page().await;
    let html = page.client.get(page.slack.page_url()).send().await.unwrap();
    assert_eq!(html.status(), StatusCode::OK);
    let policy = html.headers()[CONTENT_SECURITY_POLICY].to_str().unwrap().to_owned();
    assert!(policy.starts_with("default-src 'none'; script-src 'self';"), "{policy}");
    assert!(!policy.contains("unsafe") && !policy.contains('*'), "{policy}");
    let html = html.text().await.unwrap();
    assert!(!html.contains("://"), "{html}");
    for part in ["page.css", "page.js", "mrkdwn.js", "emoji.js"] {
        let part = format!("{}/page/{part}", page.slack.origin());
        let answer = page.client.get(&part).send().await.unwrap();
        assert_eq!(answer.status(), StatusCode::OK, "{part}");
        assert!(answer.headers().contains_key(CONTENT_SECURITY_POLICY), "{part}");
        // Text of messages must not become markup.
        assert!(!answer.text().await.unwrap().contains("innerHTML"), "{part}");
    }
}

#[tokio::test]
async fn a_user_writes_and_everybody_sees_it_at_once() {
    let page = page().await;
    let mut events = page.events().await;
    let (status, root) = page.act("/page/post", &page.ana, json!({"text": "a < b, @ben?"})).await;
    assert_eq!(status, StatusCode::OK, "{root}");
    let change = next(&mut events, |change| change["kind"] == "message").await;
    assert_eq!(change["message"]["ts"], root["ts"]);
    assert_eq!(change["message"]["text"], format!("a &lt; b, <@{}>?", page.ben));

    let reply = json!({"text": "Yes.", "thread": root["ts"]});
    let (status, _) = page.act("/page/post", &page.ben, reply).await;
    assert_eq!(status, StatusCode::OK);
    let change = next(&mut events, |change| change["message"]["thread_ts"] == root["ts"]).await;
    assert_eq!(change["message"]["sender"]["name"], "ben");

    let state = page.state().await;
    assert_eq!(state["channels"][0]["name"], "shop");
    assert_eq!(state["messages"].as_array().unwrap().len(), 2);
    let names: Vec<&str> =
        state["users"].as_array().unwrap().iter().filter_map(|u| u["name"].as_str()).collect();
    assert_eq!(names, ["codebutler", "ana", "ben"]);
}

#[tokio::test]
async fn a_click_reaches_the_app() {
    let page = page().await;
    let mut heard = page.slack.subscribe();
    let mut events = page.events().await;
    let ts = page.ask().await;
    let shown = next(&mut events, |change| change["message"]["ts"] == ts.as_str()).await;
    assert_eq!(shown["message"]["sender"]["icon"], ":compass:");
    let button = shown["message"]["buttons"][0]["action_id"].clone();

    let click = json!({"ts": ts, "action_id": button});
    let (status, clicked) = page.act("/page/click", &page.ana, click).await;
    assert_eq!(status, StatusCode::OK, "{clicked}");
    let change = next(&mut events, |change| change["kind"] == "click").await;
    assert_eq!(change["action_ts"], clicked["action_ts"]);
    let mut changes = std::iter::from_fn(|| heard.try_recv().ok());
    assert!(
        changes
            .any(|change| matches!(change, SlackChange::Clicked { user, .. } if user == page.ana))
    );

    let wrong = json!({"ts": ts, "action_id": "nope"});
    let (status, why) = page.act("/page/click", &page.ana, wrong).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
    assert!(why["error"].as_str().unwrap().contains("no button `nope`"), "{why}");
}

#[tokio::test]
async fn a_reaction_comes_and_goes() {
    let page = page().await;
    let ts = page.slack.post_as(&page.ana, &page.channel, None, "Done?").unwrap();
    let mut events = page.events().await;
    let eyes = json!({"ts": ts, "name": "eyes"});
    let (_, done) = page.act("/page/react", &page.ben, eyes.clone()).await;
    assert_eq!(done, json!({"added": true}));
    let change = next(&mut events, |change| change["kind"] == "message").await;
    assert_eq!(change["message"]["reactions"], json!([{"name": "eyes", "users": [page.ben]}]));
    let (_, done) = page.act("/page/react", &page.ben, eyes).await;
    assert_eq!(done, json!({"added": false}));
    let change = next(&mut events, |change| change["kind"] == "message").await;
    assert_eq!(change["message"]["reactions"], json!([]));
}

#[tokio::test]
async fn files_are_shown_as_text() {
    let page = page().await;
    let file = ("note.html", b"<script>1</script>".as_slice());
    let (_, id) = page.slack.upload_as(&page.ana, &page.channel, None, "see", file).unwrap();
    let url = page.url(&format!("/page/file/{id}/note.html"));
    let answer = page.client.get(url).send().await.unwrap();
    assert_eq!(answer.headers()["content-type"], "text/plain; charset=utf-8");
    assert_eq!(answer.headers()["x-content-type-options"], "nosniff");
    assert_eq!(answer.text().await.unwrap(), "<script>1</script>");
}

#[tokio::test]
async fn strangers_are_refused() {
    let page = page().await;
    let post = json!({"user": page.ana, "channel": page.channel, "text": "I am ana"});
    let origin = page.slack.origin().to_owned();
    for query in ["", "?token=", "?token=guess"] {
        for path in ["/", "/page/state", "/page/events"] {
            let answer = page.client.get(format!("{origin}{path}{query}")).send().await.unwrap();
            assert_eq!(answer.status(), StatusCode::FORBIDDEN, "{path}{query}");
        }
        let call = page.client.post(format!("{origin}/page/post{query}")).json(&post);
        assert_eq!(call.send().await.unwrap().status(), StatusCode::FORBIDDEN, "{query}");
    }
    for (header, value) in [(HOST, "rebound.example"), (ORIGIN, "http://elsewhere.example")] {
        let call = page.client.post(page.url("/page/post")).json(&post).header(&header, value);
        assert_eq!(call.send().await.unwrap().status(), StatusCode::FORBIDDEN, "{header}");
    }
    // A form of another page can't send JSON.
    let call = page.client.post(page.url("/page/post")).body(post.to_string());
    assert!(call.send().await.unwrap().status().is_client_error());
    assert_eq!(page.slack.messages(&page.channel, None).len(), 0);
}

#[tokio::test]
async fn the_server_ends_though_a_page_listens() {
    let page = page().await;
    let mut events = page.events().await;
    page.slack.shutdown().await;
    let ended = tokio::time::timeout(PATIENCE, events.next()).await.expect("still listening");
    assert_eq!(ended, None);
}
