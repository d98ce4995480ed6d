//! Slack's.

use codebutler_testbed::slack::{SlackOptions, SlackServer};
use futures::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

use super::shapes::Shapes;

/// Calls the fake's methods, hears its events, and compares.
struct Asking {
    slack: SlackServer,
    shapes: Shapes,
    http: reqwest::Client,
    wrong: Vec<String>,
    /// Events that were heard, for the published types.
    events: Vec<Value>,
}

impl Asking {
    async fn call(&mut self, method: &str, params: Value) -> Value {
        let url = format!("{}/{method}", self.slack.api_url());
        let token = match method {
            "apps.connections.open" => self.slack.app_token(),
            _ => self.slack.bot_token(),
        };
        let form: Vec<(String, String)> = params
            .as_object()
            .into_iter()
            .flatten()
            .map(|(name, value)| {
                let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                (name.clone(), text)
            })
            .collect();
        let request = self.http.post(url).bearer_auth(token).query(&form);
        let answer: Value = request.send().await.unwrap().json().await.unwrap();
        assert_eq!(answer["ok"], true, "{method}: {answer}");
        self.compare(&format!("{method} ok"), &answer);
        answer
    }

    fn compare(&mut self, what: &str, value: &Value) {
        self.wrong.extend(self.shapes.differences(what, value));
    }

    /// Hears what comes until all that is named has come.
    async fn hear(&mut self, socket: &mut Socket, mut wanted: Vec<&str>) {
        while !wanted.is_empty() {
            let next = tokio::time::timeout(std::time::Duration::from_secs(20), socket.next());
            let Message::Text(text) = next.await.expect("more events").unwrap().unwrap() else {
                continue;
            };
            let frame: Value = serde_json::from_str(&text).unwrap();
            let kind = frame["type"].as_str().unwrap().to_owned();
            self.compare(&format!("{kind} frame"), &frame);
            let id = json!({"envelope_id": frame["envelope_id"]}).to_string();
            socket.send(Message::text(id)).await.unwrap();
            let payload = &frame["payload"];
            let event = &payload["event"];
            let mut name = event["type"].as_str().unwrap_or("block_actions").to_owned();
            if let Some(subtype @ ("message_changed" | "message_deleted")) =
                event["subtype"].as_str()
            {
                subtype.clone_into(&mut name);
            }
            if kind == "events_api" {
                self.compare("event_callback payload", payload);
                self.compare(&format!("{name} event"), event);
                self.events.push(event.clone());
            } else if kind == "interactive" {
                self.compare("block_actions payload", payload);
            }
            wanted.retain(|wanted| *wanted != name);
        }
    }
}

type Socket = WebSocketStream<MaybeTlsStream<tokio::net::TcpStream>>;

#[tokio::test]
async fn the_fake_slack_says_what_its_samples_say() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let slack = SlackServer::start(SlackOptions::default()).await.unwrap();
    let (ana, bot) = (slack.create_user("ana", "Ana Example"), slack.bot_user_id());
    let channel = slack.create_channel("shop", &[&ana, &bot]);
    let shapes = Shapes::read(include_str!("../../../../recordings/slack.txt"));
    let mut it = Asking {
        slack,
        shapes,
        http: reqwest::Client::new(),
        wrong: Vec::new(),
        events: Vec::new(),
    };

    it.call("auth.test", json!({})).await;
    let open = it.call("apps.connections.open", json!({})).await;
    let (mut socket, _) = connect_async(open["url"].as_str().unwrap()).await.unwrap();
    let root = it.slack.post_as(&ana, &channel, None, "@codebutler the total is wrong").unwrap();
    let buttons = json!([
        {"type": "section", "text": {"type": "mrkdwn", "text": "*Plan*"}},
        {"type": "actions", "elements": [{"type": "button", "action_id": "plan:approve",
            "text": {"type": "plain_text", "text": "Approve"}, "value": "k", "style": "primary"}]},
    ]);
    let here = json!({"channel": channel, "thread_ts": root, "text": "Plan"});
    let with = |more: Value| {
        let mut all = here.clone();
        let more = more.as_object().cloned().unwrap_or_default();
        all.as_object_mut().unwrap().extend(more);
        all
    };
    let metadata = json!({"event_type": "codebutler", "event_payload": {"key": "k"}});
    let named = with(json!({"blocks": buttons, "username": "PM", "icon_emoji": ":compass:",
        "metadata": metadata}));
    let asked = it.call("chat.postMessage", named).await["ts"].as_str().unwrap().to_owned();
    let plain = it.call("chat.postMessage", here.clone()).await["ts"].as_str().unwrap().to_owned();
    let again = json!({"channel": channel, "ts": plain, "text": "Plan, again"});
    it.call("chat.update", again).await;
    it.call("chat.postEphemeral", with(json!({"user": ana}))).await;
    it.call("chat.getPermalink", json!({"channel": channel, "message_ts": asked})).await;
    let emoji = json!({"channel": channel, "timestamp": root, "name": "eyes"});
    it.call("reactions.add", emoji.clone()).await;
    it.call("reactions.get", json!({"channel": channel, "timestamp": root})).await;
    it.slack.react_as(&ana, &channel, &asked, "+1").unwrap();
    it.slack.click(&ana, &channel, &asked, "plan:approve").unwrap();
    let log = ("build.log", b"error".as_slice());
    it.slack.upload_as(&ana, &channel, Some(&root), "see the log", log).unwrap();
    let edited = it.slack.post_as(&ana, &channel, Some(&root), "and this").unwrap();
    it.slack.edit_as(&ana, &channel, &edited, "and that").unwrap();
    it.slack.delete_as(&ana, &channel, &edited).unwrap();
    it.call("reactions.remove", emoji).await;
    let all = [
        "app_mention",
        "block_actions",
        "file_shared",
        "message",
        "message_changed",
        "message_deleted",
        "reaction_added",
        "reaction_removed",
    ];
    it.hear(&mut socket, all.to_vec()).await;

    let upload = it.call("files.getUploadURLExternal", json!({"filename": "a.rs", "length": 3}));
    let upload = upload.await;
    let url = upload["upload_url"].as_str().unwrap();
    it.http.post(url).body("a\nb").send().await.unwrap();
    let id = upload["file_id"].as_str().unwrap();
    let files = json!({"files": [{"id": id, "title": "a.rs"}], "channel_id": channel,
        "thread_ts": root});
    it.call("files.completeUploadExternal", files).await;
    it.slack
        .wait_message(&channel, Some(&root), std::time::Duration::from_secs(20), |message| {
            message.files.iter().any(|file| file.name == "a.rs")
        })
        .await
        .unwrap();
    it.call("files.info", json!({"file": id})).await;
    let session = json!({"channel_id": channel, "thread_ts": root, "status": "processing"});
    it.call("agents.sessions.setStatus", session).await;
    for method in ["conversations.history", "conversations.info", "conversations.members"] {
        it.call(method, json!({"channel": channel})).await;
    }
    it.call("conversations.replies", json!({"channel": channel, "ts": root})).await;
    it.call("conversations.list", json!({})).await;
    it.call("users.conversations", json!({})).await;
    it.call("conversations.join", json!({"channel": channel})).await;
    it.call("conversations.create", json!({"name": "new"})).await;
    let guest = it.slack.create_guest("gus", "Gus Guest");
    for user in [&ana, &bot, &guest] {
        it.call("users.info", json!({"user": user})).await;
    }
    it.call("users.list", json!({})).await;
    let own = it.slack.snapshot().app.bot_id;
    it.call("bots.info", json!({"bot": own})).await;
    it.call("chat.delete", json!({"channel": channel, "ts": plain})).await;
    it.wrong.sort();
    it.wrong.dedup();
    assert!(it.wrong.is_empty(), "{}", it.wrong.join("\n"));
    it.slack.shutdown().await;
    check_types(&it.events);
}

const TYPES: [&str; 2] = ["@slack/types@3.2.0", "typescript@5.9.3"];

/// Holds events against the types that Slack publishes, where npm brings them and there is a Node.js.
fn check_types(events: &[Value]) {
    let Some(root) = crate::node::ensure_packages(&TYPES) else { return };
    let dir = tempfile::tempdir_in(&root).unwrap();
    let mut lines = vec![
        "import type { SlackEvent } from \"@slack/types\";".to_owned(),
        "function hold<T extends SlackEvent>(event: T): T { return event; }".to_owned(),
    ];
    let events: Vec<Value> = events.iter().filter(|event| has_type(event)).cloned().collect();
    lines.extend(events.iter().map(|event| format!("hold({});", write_event(event))));
    let file = dir.path().join("events.ts");
    std::fs::write(&file, lines.join("\n")).unwrap();
    let checked = std::process::Command::new("node")
        .arg(root.join("node_modules/typescript/bin/tsc"))
        .args(["--noEmit", "--strict", "--skipLibCheck", "--target", "es2022"])
        .args(["--module", "node16", "--moduleResolution", "node16"])
        .arg(&file)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&checked.stdout);
    assert!(!events.is_empty() && checked.status.success(), "{said}\n{}", lines.join("\n"));
}

/// True where the types have what Slack's own samples have: a message inside of an event has no `event_ts` there, and
/// a reaction to a message of nobody has no `item_user`.
fn has_type(event: &Value) -> bool {
    let is_inside = ["message", "previous_message"].iter().any(|name| event.get(name).is_some());
    let is_reaction = event["type"].as_str().is_some_and(|kind| kind.starts_with("reaction_"));
    !is_inside && (!is_reaction || event.get("item_user").is_some())
}

/// Writes an event as TypeScript. The types want a plain message to have no subtype in so many words, and do not know
/// that a bot is a user.
fn write_event(event: &Value) -> String {
    let mut event = event.clone();
    if let Some(bot) = event.get_mut("bot_profile").and_then(Value::as_object_mut) {
        bot.remove("user_id");
    }
    let text = event.to_string();
    let is_plain = event["type"] == "message" && event.get("subtype").is_none();
    match text.strip_suffix('}').filter(|_| is_plain) {
        Some(fields) => format!("{fields}, subtype: undefined}}"),
        None => text,
    }
}
