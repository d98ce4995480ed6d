//! The testbed's Slack, tried with the libraries that it must satisfy: slack-morphism and, in
//! Python, the official `slack_sdk`.

use std::io::Write as _;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use codebutler_testbed::pytools::{PyToolsError, ensure_venv};
use codebutler_testbed::slack::{
    CallFault, EnvelopeKind, EventRelease, RateLimits, SenderKind, SlackChange, SlackOptions,
    SlackServer, SlackTiming,
};
use futures::{SinkExt as _, StreamExt as _};
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::{Value, json};
use slack_morphism::errors::SlackClientError;
use slack_morphism::hyper_tokio::SlackClientHyperConnector;
use slack_morphism::prelude::*;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio_tungstenite::connect_async;
use tokio_tungstenite::tungstenite;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

const SOON: Duration = Duration::from_secs(20);

type Connector = SlackClientHyperConnector<HttpConnector>;
type Client = SlackClient<Connector>;

/// Events and clicks that the callbacks saw.
#[derive(Debug)]
enum Seen {
    Event(Box<SlackPushEventCallback>),
    Click(Box<SlackInteractionBlockActionsEvent>),
}

struct Outbox(UnboundedSender<Seen>);

async fn on_event(
    event: SlackPushEventCallback,
    _: Arc<Client>,
    state: SlackClientEventsUserState,
) -> UserCallbackResult<()> {
    let state = state.read().await;
    let outbox = state.get_user_state::<Outbox>().ok_or("no state")?;
    outbox.0.send(Seen::Event(Box::new(event)))?;
    Ok(())
}

async fn on_click(
    event: SlackInteractionEvent,
    _: Arc<Client>,
    state: SlackClientEventsUserState,
) -> UserCallbackResult<()> {
    let state = state.read().await;
    let outbox = state.get_user_state::<Outbox>().ok_or("no state")?;
    if let SlackInteractionEvent::BlockActions(click) = event {
        outbox.0.send(Seen::Click(Box::new(click)))?;
    }
    Ok(())
}

/// A workspace with a channel, a person, and slack-morphism as its app.
struct Setup {
    slack: SlackServer,
    ana: String,
    channel: String,
    client: Arc<Client>,
    token: SlackApiToken,
    listener: Option<SlackClientSocketModeListener<Connector>>,
    seen: UnboundedReceiver<Seen>,
}

impl Setup {
    async fn new(options: SlackOptions) -> Self {
        let slack = SlackServer::start(options).await.unwrap();
        let ana = slack.create_user("ana", "Ana Example");
        let channel = slack.create_channel("shop", &[&ana]);
        let connector = SlackClientHyperConnector::with_connector(HttpConnector::new());
        let connector = connector.with_slack_api_url(&slack.api_url());
        let client = Arc::new(SlackClient::new(connector));
        let token = SlackApiToken::new(slack.bot_token().into());
        let (_, seen) = unbounded_channel();
        Self { slack, ana, channel, client, token, listener: None, seen }
    }

    async fn connected(options: SlackOptions) -> Self {
        let mut setup = Self::new(options).await;
        let (outbox, seen) = unbounded_channel();
        let environment = SlackClientEventsListenerEnvironment::new(Arc::clone(&setup.client))
            .with_user_state(Outbox(outbox));
        let callbacks = SlackSocketModeListenerCallbacks::new()
            .with_push_events(on_event)
            .with_interaction_events(on_click);
        let config = SlackClientSocketModeConfig::new()
            .with_max_connections_count(1)
            .with_reconnect_timeout_in_seconds(1);
        let listener =
            SlackClientSocketModeListener::new(&config, Arc::new(environment), callbacks);
        let token = SlackApiToken::new(setup.slack.app_token().into());
        listener.listen_for(&token).await.unwrap();
        listener.start().await;
        setup.slack.wait_connected(1, SOON).await.unwrap();
        setup.listener = Some(listener);
        setup.seen = seen;
        setup
    }

    fn session(&self) -> SlackClientSession<'_, Connector> {
        self.client.open_session(&self.token)
    }

    async fn seen(&mut self) -> Seen {
        tokio::time::timeout(SOON, self.seen.recv()).await.unwrap().unwrap()
    }

    async fn event(&mut self) -> SlackPushEventCallback {
        match self.seen().await {
            Seen::Event(event) => *event,
            Seen::Click(click) => panic!("a click: {click:?}"),
        }
    }

    async fn message(&mut self) -> SlackMessageEvent {
        match self.event().await.event {
            SlackEventCallbackBody::Message(message) => message,
            other => panic!("not a message: {other:?}"),
        }
    }

    async fn end(self) {
        if let Some(listener) = &self.listener {
            listener.shutdown().await;
        }
        self.slack.shutdown().await;
    }
}

fn text(text: &str) -> SlackMessageContent {
    SlackMessageContent::new().with_text(text.to_owned())
}

fn brisk() -> SlackOptions {
    let milliseconds = Duration::from_millis;
    let timing = SlackTiming {
        ack_timeout: milliseconds(2000),
        retry_delays: vec![milliseconds(0), milliseconds(300), milliseconds(600)],
        ..SlackTiming::brisk()
    };
    SlackOptions { timing, ..SlackOptions::default() }
}

#[tokio::test]
async fn a_mention_comes_as_message_and_as_mention_and_is_acknowledged() {
    let mut setup = Setup::connected(SlackOptions::default()).await;
    let ts = setup.slack.post_as(&setup.ana, &setup.channel, None, "hi @codebutler").unwrap();
    let message = setup.event().await;
    let mention = setup.event().await;
    assert_ne!(message.event_id, mention.event_id);
    let SlackEventCallbackBody::Message(message) = message.event else { panic!("{message:?}") };
    let SlackEventCallbackBody::AppMention(mention) = mention.event else { panic!("{mention:?}") };
    let bot = setup.slack.bot_user_id();
    assert_eq!(message.origin.ts.0, ts);
    assert_eq!(message.sender.user.unwrap().0, setup.ana);
    assert_eq!(mention.origin.ts.0, ts);
    assert_eq!(mention.content.text.unwrap(), format!("hi <@{bot}>"));
    setup.slack.wait_acked(&ts, SOON).await.unwrap();
    let stats = setup.slack.stats();
    assert_eq!((stats.emitted, stats.delivered, stats.acked), (2, 2, 2));
    assert!(setup.slack.last_ack_at().is_some());
    setup.end().await;
}

#[tokio::test]
async fn posts_edits_reactions_and_clicks_through_morphism() {
    let mut setup = Setup::connected(SlackOptions::default()).await;
    let mut changes = setup.slack.subscribe();
    let channel: SlackChannelId = setup.channel.clone().into();
    let root = setup.slack.post_as(&setup.ana, &setup.channel, None, "please").unwrap();
    setup.message().await;
    let blocks = json!([
        { "type": "section", "text": { "type": "mrkdwn", "text": "A *plan* &amp; more" } },
        { "type": "actions", "elements": [{
            "type": "button", "action_id": "plan:approve", "value": "k1",
            "text": { "type": "plain_text", "text": "Approve" },
        }] },
    ]);
    let blocks: Vec<SlackBlock> = serde_json::from_value(blocks).unwrap();
    let payload = std::collections::HashMap::from([("key".to_owned(), "k1".to_owned())]);
    let metadata = SlackMessageMetadata::new("codebutler".to_owned()).with_event_payload(payload);
    let content = text("plan").with_blocks(blocks).with_metadata(metadata);
    let post = SlackApiChatPostMessageRequest::new(channel.clone(), content)
        .with_thread_ts(root.clone().into())
        .with_username("Lead".to_owned())
        .with_icon_emoji(":memo:".to_owned());
    let posted = setup.session().chat_post_message(&post).await.unwrap();
    let echo = setup.message().await;
    assert_eq!(echo.origin.ts, posted.ts);
    assert_eq!(echo.subtype, Some(SlackMessageEventType::BotMessage));
    assert!(echo.sender.bot_id.is_some());
    assert_eq!(echo.content.unwrap().metadata.unwrap().event_payload, None);

    let view = setup.slack.message(&setup.channel, &posted.ts.0).unwrap();
    assert_eq!((view.sender.kind, view.sender.name.as_str()), (SenderKind::App, "Lead"));
    assert_eq!(view.shown, "A *plan* & more");
    assert_eq!(view.buttons[0].text, "Approve");
    assert_eq!(view.metadata.unwrap().event_payload, json!({ "key": "k1" }));
    assert!(setup.slack.click(&setup.ana, &setup.channel, &posted.ts.0, "nope").is_err());
    let click =
        setup.slack.click(&setup.ana, &setup.channel, &posted.ts.0, "plan:approve").unwrap();
    let Seen::Click(seen) = setup.seen().await else { panic!("no click") };
    let action = &seen.actions.unwrap()[0];
    assert_eq!(action.action_id.0, "plan:approve");
    assert_eq!(action.value.as_deref(), Some("k1"));
    assert_eq!(seen.user.unwrap().id.0, setup.ana);
    assert_eq!(seen.message.unwrap().origin.thread_ts.unwrap().0, root);
    setup.slack.wait_acked(&click, SOON).await.unwrap();

    let update =
        SlackApiChatUpdateRequest::new(channel.clone(), text("approved"), posted.ts.clone());
    setup.session().chat_update(&update).await.unwrap();
    let edit = setup.message().await;
    assert_eq!(edit.subtype, Some(SlackMessageEventType::MessageChanged));
    let view = setup.slack.message(&setup.channel, &posted.ts.0).unwrap();
    assert!(view.buttons.is_empty() && view.edited.is_some());
    let eyes =
        SlackApiReactionsAddRequest::new(channel.clone(), "eyes".into(), root.clone().into());
    setup.session().reactions_add(&eyes).await.unwrap();
    let SlackEventCallbackBody::ReactionAdded(added) = setup.event().await.event else {
        panic!("no reaction")
    };
    assert_eq!(added.reaction.0, "eyes");
    let again = setup.session().reactions_add(&eyes).await.unwrap_err();
    assert!(matches!(again, SlackClientError::ApiError(e) if e.code == "already_reacted"));
    let thread = SlackApiConversationsRepliesRequest::new(channel, root.into());
    let thread = setup.session().conversations_replies(&thread).await.unwrap();
    assert_eq!(thread.messages.len(), 2);
    assert_eq!(thread.messages[0].parent.reply_count, Some(1));

    let mut kinds = Vec::new();
    while let Ok(change) = changes.try_recv() {
        kinds.push(serde_json::to_value(&change).unwrap()["change"].as_str().unwrap().to_owned());
    }
    let order = ["posted", "posted", "clicked", "click_acked", "edited", "reaction"];
    assert_eq!(kinds, order);
    setup.end().await;
}

#[tokio::test]
async fn updates_with_blocks_hide_the_edit_and_text_alone_removes_blocks() {
    let setup = Setup::new(SlackOptions::default()).await;
    let channel: SlackChannelId = setup.channel.clone().into();
    let section = |text: &str| -> Vec<SlackBlock> {
        let text = json!({ "type": "mrkdwn", "text": text });
        serde_json::from_value(json!([{ "type": "section", "text": text }])).unwrap()
    };
    let post = SlackApiChatPostMessageRequest::new(channel.clone(), text("a"));
    let posted = setup.session().chat_post_message(&post).await.unwrap();
    let update =
        |content| SlackApiChatUpdateRequest::new(channel.clone(), content, posted.ts.clone());
    let view = || setup.slack.message(&setup.channel, &posted.ts.0).unwrap();
    setup.session().chat_update(&update(text("b").with_blocks(section("b")))).await.unwrap();
    assert_eq!((view().blocks.len(), view().edited), (1, None));
    setup.session().chat_update(&update(text("c"))).await.unwrap();
    assert!(view().blocks.is_empty() && view().edited.is_some());
    setup.end().await;
}

#[tokio::test]
async fn faults_are_what_they_say() {
    let setup = Setup::new(SlackOptions::default()).await;
    let post = SlackApiChatPostMessageRequest::new(setup.channel.clone().into(), text("x"));
    let method = "chat.postMessage";
    setup.slack.fail_next(method, 1, &CallFault::RateLimited { retry_after: 7 });
    setup.slack.fail_next(method, 1, &CallFault::Error("fatal_error".to_owned()));
    setup.slack.fail_next(method, 1, &CallFault::Http(502));
    setup.slack.fail_next(method, 1, &CallFault::BreakBefore);
    setup.slack.fail_next(method, 1, &CallFault::LostReply);
    let session = setup.session();
    let limited = session.chat_post_message(&post).await.unwrap_err();
    let SlackClientError::RateLimitError(limited) = limited else { panic!("{limited}") };
    assert_eq!(limited.retry_after, Some(Duration::from_secs(7)));
    let refused = session.chat_post_message(&post).await.unwrap_err();
    assert!(matches!(refused, SlackClientError::ApiError(e) if e.code == "fatal_error"));
    let proxy = session.chat_post_message(&post).await.unwrap_err();
    assert!(matches!(proxy, SlackClientError::HttpError(e) if e.status_code == 502));
    assert!(session.chat_post_message(&post).await.is_err());
    assert!(setup.slack.messages(&setup.channel, None).is_empty());
    assert!(session.chat_post_message(&post).await.is_err());
    assert_eq!(setup.slack.messages(&setup.channel, None).len(), 1, "carried out, not answered");
    assert_eq!(setup.slack.calls(method), 5);
    setup.end().await;
}

#[tokio::test]
async fn names_take_a_scope() {
    let scopes = vec!["chat:write".to_owned()];
    let setup = Setup::new(SlackOptions { scopes, ..SlackOptions::default() }).await;
    let post = SlackApiChatPostMessageRequest::new(setup.channel.clone().into(), text("x"));
    setup.session().chat_post_message(&post).await.unwrap();
    let named = post.with_username("Coder".to_owned());
    let refused = setup.session().chat_post_message(&named).await.unwrap_err();
    let SlackClientError::ApiError(refused) = refused else { panic!("{refused}") };
    assert_eq!(refused.code, "missing_scope");
    assert!(refused.http_response_body.unwrap().contains(r#""needed":"chat:write.customize""#));
    setup.end().await;
}

#[tokio::test]
async fn held_events_come_in_the_order_of_the_release_and_again_on_demand() {
    let mut setup = Setup::connected(SlackOptions::default()).await;
    setup.slack.hold_events();
    let post = |n: usize| setup.slack.post_as(&setup.ana, &setup.channel, None, &n.to_string());
    let ts: Vec<String> = (0..3).map(|n| post(n).unwrap()).collect();
    assert_eq!(setup.slack.release_events(&EventRelease::Reversed), 3);
    for expected in ts.iter().rev() {
        assert_eq!(setup.message().await.origin.ts.0, *expected);
        setup.slack.wait_acked(expected, SOON).await.unwrap();
    }
    assert_eq!(setup.slack.redeliver(&ts[0], 2), 2);
    assert_eq!(setup.message().await.origin.ts.0, ts[0]);
    assert_eq!(setup.message().await.origin.ts.0, ts[0]);
    assert_eq!(setup.slack.stats().redelivered, 2);
    setup.end().await;
}

#[tokio::test]
async fn events_survive_broken_and_refreshed_connections() {
    let mut setup = Setup::connected(SlackOptions::default()).await;
    setup.slack.drop_connections();
    let first = setup.slack.post_as(&setup.ana, &setup.channel, None, "one").unwrap();
    assert_eq!(setup.message().await.origin.ts.0, first);
    setup.slack.wait_acked(&first, SOON).await.unwrap();
    setup.slack.request_refresh();
    let second = setup.slack.post_as(&setup.ana, &setup.channel, None, "two").unwrap();
    assert_eq!(setup.message().await.origin.ts.0, second);
    setup.slack.wait_acked(&second, SOON).await.unwrap();
    assert_eq!(setup.slack.stats().lost, 0);
    setup.end().await;
}

/// A connection over the limit hears why and is closed with a code, however much it says meanwhile:
/// `slack_sdk` pings as it connects and loses what it has read when the connection is reset.
#[tokio::test]
async fn one_connection_too_many_hears_why() {
    let setup = Setup::new(SlackOptions { max_connections: 0, ..brisk() }).await;
    let token = SlackApiToken::new(setup.slack.app_token().into());
    let session = setup.client.open_session(&token);
    let request = SlackApiAppsConnectionOpenRequest::new();
    let opened = session.apps_connections_open(&request).await.unwrap();
    let (mut socket, _) = connect_async(opened.url.0.as_str()).await.unwrap();
    for _ in 0..50 {
        let _ = socket.feed(tungstenite::Message::Ping("still here".into())).await;
    }
    let frames: Vec<_> = tokio::time::timeout(SOON, socket.by_ref().collect()).await.unwrap();
    let frames: Vec<_> = frames.into_iter().collect::<Result<_, _>>().unwrap();
    let [tungstenite::Message::Text(why), tungstenite::Message::Close(Some(close))] = &frames[..]
    else {
        panic!("{frames:?}");
    };
    let why: Value = serde_json::from_str(why).unwrap();
    assert_eq!(why["reason"], "too_many_websockets");
    assert_eq!(close.code, CloseCode::Normal);
    setup.end().await;
}

#[tokio::test]
async fn without_a_connection_clicks_fail_and_events_are_lost_after_three_retries() {
    let setup = Setup::new(brisk()).await;
    let mut changes = setup.slack.subscribe();
    let content: SlackMessageContent = serde_json::from_value(json!({
        "text": "x",
        "blocks": [{ "type": "actions", "elements": [{
            "type": "button", "action_id": "go", "text": { "type": "plain_text", "text": "Go" },
        }] }],
    }))
    .unwrap();
    let post = SlackApiChatPostMessageRequest::new(setup.channel.clone().into(), content);
    let posted = setup.session().chat_post_message(&post).await.unwrap();
    let click = setup.slack.click(&setup.ana, &setup.channel, &posted.ts.0, "go").unwrap();
    let failed = async {
        loop {
            if let SlackChange::ClickFailed { action_ts } = changes.recv().await.unwrap() {
                break action_ts;
            }
        }
    };
    assert_eq!(tokio::time::timeout(SOON, failed).await.unwrap(), click);
    let lost = |slack: &SlackServer| (slack.stats().lost == 2).then_some(());
    setup.slack.wait_for("lost event", SOON, lost).await.unwrap();
    let kinds: Vec<EnvelopeKind> = setup.slack.deliveries().iter().map(|d| d.kind).collect();
    assert_eq!(kinds, [EnvelopeKind::EventsApi, EnvelopeKind::Interactive]);
    setup.end().await;
}

#[tokio::test]
async fn a_snapshot_starts_the_same_workspace_again() {
    let setup = Setup::new(SlackOptions::default()).await;
    let file = ("shot.png", [0, 159, 146, 150].as_slice());
    let (ts, id) = setup.slack.upload_as(&setup.ana, &setup.channel, None, "look", file).unwrap();
    let saved = serde_json::to_string(&setup.slack.snapshot()).unwrap();
    let channel = setup.channel.clone();
    setup.end().await;
    let world = serde_json::from_str(&saved).unwrap();
    let options = SlackOptions { world: Some(world), ..SlackOptions::default() };
    let slack = SlackServer::start(options).await.unwrap();
    assert_eq!(slack.message(&channel, &ts).unwrap().files[0].id, id);
    assert_eq!(slack.file(&id).unwrap(), file.1);
    slack.shutdown().await;
}

/// Fulfils a wish of the Python client, in words of the driver.
async fn fulfil(setup: &Setup, private: &str, wish: &Value) -> Result<Value, String> {
    let field = |name: &str| wish[name].as_str().unwrap_or_default();
    let (slack, ana, channel) = (&setup.slack, &setup.ana, &setup.channel);
    let thread = wish["thread"].as_str();
    let done = match field("do") {
        "world" => return Ok(json!({ "channel": channel, "user": ana, "private": private })),
        "post_as" => slack.post_as(ana, channel, thread, field("text")).map(Value::from),
        "delete_as" => slack.delete_as(ana, channel, field("ts")).map(Value::from),
        "click" => slack.click(ana, channel, field("ts"), field("action_id")).map(Value::from),
        "show_links" => {
            slack.show_links_of(field("domain"));
            return Ok(Value::Null);
        }
        "buttons" => {
            let found = slack.message(channel, field("ts"));
            Ok(json!(found.map(|message| message.buttons)))
        }
        "ephemerals" => {
            let all = slack.messages(channel, None).into_iter();
            let mine = all.filter(|message| message.ephemeral_for.is_some());
            Ok(mine.map(|message| message.text).collect())
        }
        "status" => Ok(json!(slack.status(channel, field("thread")))),
        "request_refresh" => {
            slack.request_refresh();
            Ok(Value::Null)
        }
        "wait_disconnected" => {
            let gone = |slack: &SlackServer| (slack.connections() == 0).then_some(Value::Null);
            slack.wait_for("end of connections", SOON, gone).await
        }
        "redeliver" => Ok(json!(slack.redeliver(field("key"), 1))),
        "wait_acked" => slack.wait_acked(field("key"), SOON).await.map(Value::from),
        "fail_next" => {
            let retry_after = wish["retry_after"].as_u64().unwrap_or(1);
            let times = usize::try_from(wish["times"].as_u64().unwrap_or(1)).unwrap();
            slack.fail_next(field("method"), times, &CallFault::RateLimited { retry_after });
            Ok(Value::Null)
        }
        other => return Err(format!("unknown wish {other}")),
    };
    done.map_err(|error| error.to_string())
}

#[tokio::test]
async fn the_official_python_client_is_content() {
    let venv = tokio::task::spawn_blocking(|| ensure_venv(&["slack_sdk==3.47.0"])).await.unwrap();
    let venv = match venv {
        Ok(venv) => venv,
        Err(PyToolsError::NoPython) => {
            let _ = writeln!(std::io::stderr(), "skipped: no python3 for the slack_sdk checks");
            return;
        }
        Err(error) => panic!("{error}"),
    };
    // The test is about the answer of each call, and not about how often it may be made.
    let setup = Setup::new(SlackOptions { rate_limits: RateLimits::Off, ..brisk() }).await;
    let outsiders = setup.slack.create_private_channel("secret", &[]);
    setup.slack.remove_member(&outsiders, &setup.slack.bot_user_id()).unwrap();
    let script = format!("{}/clients/slack_client.py", codebutler_testbed::FOLDER);
    let mut client = tokio::process::Command::new(venv.join("bin/python"))
        .arg(script)
        .env("SLACK_API_URL", setup.slack.api_url())
        .env("SLACK_BOT_TOKEN", setup.slack.bot_token())
        .env("SLACK_APP_TOKEN", setup.slack.app_token())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut wishes = BufReader::new(client.stdout.take().unwrap()).lines();
    let mut answers = client.stdin.take().unwrap();
    let talk = async {
        while let Some(line) = wishes.next_line().await.unwrap() {
            let wish: Value = serde_json::from_str(&line).unwrap();
            let answer = match fulfil(&setup, &outsiders, &wish).await {
                Ok(value) => json!({ "value": value }),
                Err(error) => json!({ "error": error }),
            };
            answers.write_all(format!("{answer}\n").as_bytes()).await.unwrap();
        }
        client.wait().await.unwrap()
    };
    let status = tokio::time::timeout(Duration::from_mins(2), talk).await.unwrap();
    assert!(status.success(), "slack_client.py: {status}");
    setup.end().await;
}
