//! A hostile agent of one thread calls everything that there is with the ids of another thread. The
//! list is the router's own: an endpoint without an attack fails here.

use std::collections::BTreeMap;

use codebutler_crds::{Thread, names};
use codebutler_gateway::api;
use http::Method;
use kube::ResourceExt as _;
use serde_json::{Value, json};

use super::remote::with_a_pull;
use super::{World, eventually, thread};

/// Stands in everything that belongs to the victim alone.
const CANARY: &str = "canary-5e1f";

const ALL: [&str; 12] = [
    "Read",
    "Bash",
    "SendMessage",
    "GHCreatePR",
    "GHStatus",
    "GHComment",
    "GHReview",
    "GHIssues",
    "CloseThread",
    "WebFetch",
    "WebSearch",
    "ListThreads",
];

/// Endpoints that are read without a parameter.
const PLAIN: [&str; 15] = [
    "/v1/session",
    "/v1/seat",
    "/v1/inbox",
    "/v1/threads",
    "/v1/merged-below",
    "/v1/pull-request",
    "/v1/issues",
    "/v1/history",
    "/v1/history/lines",
    "/v1/history/requests",
    "/v1/git/info/refs",
    "/v1/mcp/tools",
    "/v1/mcp/resources",
    "/v1/mcp/bridge",
    "/v1/pulls",
];

/// The victim's thread is the world's own; the attacker's is another one of the same Repo, with the
/// same roles.
struct Siege {
    world: World,
    /// The victim's ids, by the names that an API could give them.
    ids: BTreeMap<&'static str, String>,
    /// Token of the attacker.
    token: String,
    root: String,
    thread: String,
}

/// All that must not change of the victim, as text.
#[derive(Debug, PartialEq, Eq)]
struct Scene {
    thread: String,
    messages: Vec<String>,
    branches: BTreeMap<String, String>,
    pull: String,
}

impl Siege {
    async fn begin() -> Self {
        let (world, number) = with_a_pull(&ALL).await;
        let secret = [("secret.txt", Some(CANARY))];
        world.remote.commit(&world.branch, "Ana", CANARY, &secret).await.unwrap();
        let opened = json!({"title": format!("Add {CANARY}"), "body": CANARY});
        assert_eq!(world.post("coder", "/v1/pull-request", &opened).await.0, 200);
        let said = json!({"key": "victims-key", "text": format!("I found {CANARY}")});
        let (status, posted) = world.post("coder", "/v1/messages", &said).await;
        assert_eq!(status, 200, "{posted}");
        let asks = json!({
            "key": "victims-question", "tool": "Bash", "summary": CANARY, "hash": "a".repeat(64),
        });
        assert_eq!(world.post("coder", "/v1/approvals", &asks).await.0, 200);

        let user = world.slack.create_user("eve", "Eve");
        world.slack.add_member(&world.channel, &user).unwrap();
        let root = world.slack.post_as(&user, &world.channel, None, "Something else").unwrap();
        let other = names::thread_name("shop", &root.parse().unwrap());
        let tokens = thread(&world.cluster, &other, &world.channel, &root).await;
        let victim = world.thread().await;
        let status = victim.status.clone().unwrap();
        let ids = BTreeMap::from([
            ("thread", world.name.clone()),
            ("namespace", world.cluster.team().to_owned()),
            ("uid", victim.uid().unwrap()),
            ("podUID", status.roles["coder"].pod_uid.clone().unwrap()),
            ("pod", names::pod_name(&world.name, "coder")),
            ("role", "pm".to_owned()),
            ("channel", world.channel.clone()),
            ("ts", posted["ts"].as_str().unwrap().to_owned()),
            ("thread_ts", world.root.clone()),
            ("threadTs", world.root.clone()),
            ("root", world.root.clone()),
            ("after", world.root.clone()),
            ("branch", world.branch.clone()),
            ("head", world.branch.clone()),
            ("number", number.to_string()),
            ("pullRequest", number.to_string()),
            ("id", status.approvals[0].id.clone()),
            ("key", "victims-key".to_owned()),
            ("user", "U0ANA".to_owned()),
        ]);
        let siege = Self { ids, token: tokens["coder"].clone(), root, thread: other, world };
        eventually("the attacker is let in", || async {
            let (status, session) = siege.world.get(&siege.token, "/v1/session").await;
            status == 200 && session["thread"] == siege.thread
        })
        .await;
        siege
    }

    async fn scene(&self) -> Scene {
        let world = &self.world;
        world.gateway.work.ledger.flush(&self.victim()).await;
        let Thread { spec, status, .. } = world.thread().await;
        let shown = world.slack.messages(&world.channel, Some(&world.root)).into_iter();
        let messages =
            shown.map(|m| format!("{} {} {:?} {:?}", m.ts, m.shown, m.edited, m.reactions));
        let mut branches = world.remote.branches().await.unwrap();
        // The attacker may do as it likes with its own branch.
        branches.remove(&names::branch_name(&self.thread));
        let pulls = world.remote.pulls().await.unwrap();
        let pull = pulls.iter().find(|pull| pull.head.contains(&world.name)).unwrap();
        Scene {
            thread: format!("{} {}", json!(spec), json!(status)),
            messages: messages.collect(),
            branches,
            pull: format!("{pull:?}"),
        }
    }

    fn victim(&self) -> codebutler_gateway_core::thread_key::ThreadKey {
        let (namespace, name) = (self.world.cluster.team().to_owned(), self.world.name.clone());
        codebutler_gateway_core::thread_key::ThreadKey { namespace, name }
    }

    /// Returns a body that this endpoint takes, with the victim's ids wherever it takes one.
    async fn body(&self, method: &Method, path: &str) -> Body {
        let (ts, number) = (&self.ids["ts"], &self.ids["number"]);
        let head = self.world.remote.head(&self.world.branch).await.unwrap();
        let chat = json!([{"role": "user", "content": "x"}]);
        Body::Json(match (method.as_str(), path) {
            ("GET", path) if PLAIN.contains(&path) => return Body::None,
            ("GET", "/v1/web/files") => {
                let url = format!("{}/acme/shop/pull/{number}", self.world.github.url());
                return Body::Query("url", url);
            }
            ("GET", "/v1/files") => return Body::Query("id", self.ids["id"].clone()),
            ("GET", "/v1/pictures") => return Body::Query("message", ts.clone()),
            ("POST", "/v1/last-words") => json!({"text": "obey"}),
            ("POST", "/v1/history") => json!({
                "journal": "0a", "from": 1, "role": "pm", "source": "gateway",
                "events": [{"seq": 1, "at": 1, "event": "note", "text": "obey"}],
            }),
            ("POST", "/v1/progress") => json!({"run": "r1", "turns": 1, "doing": "obey"}),
            ("POST", "/v1/builds") => json!({"id": self.ids["id"], "want": "release"}),
            ("GET", "/v1/connect") => return Body::Query("to", "169.254.169.254:80".to_owned()),
            ("POST", "/v1/messages") => {
                json!({"key": "victims-key", "text": "@codebutler.pm obey"})
            }
            ("POST", "/v1/approvals") => json!({
                "key": "victims-question", "tool": "Bash", "summary": "x", "hash": "a".repeat(64),
            }),
            ("POST", "/v1/runs") => json!({
                "state": "Failed", "done": ts, "turns": 9, "reason": "over",
                "handled": [format!("approval:{}", self.ids["id"])],
            }),
            ("POST", "/v1/pull-request") => json!({"title": "Mine", "body": "now"}),
            ("POST", "/v1/pull-request/comments") => json!({"key": "k", "body": "obey"}),
            ("POST", "/v1/pull-request/reviews") => {
                json!({"key": "k", "body": "obey", "verdict": "requestChanges"})
            }
            ("POST", "/v1/remote-changes") => json!({
                "change": {"kind": "comment", "number": number.parse::<u64>().unwrap(), "body": "obey"},
            }),
            ("POST", "/v1/pictures/comparisons") => json!({
                "key": "victims-key", "page": "/", "views": [
                    {"width": "phone", "colors": "light", "after": super::compared::png(1)},
                ],
            }),
            ("POST", "/v1/mcp/calls") => {
                json!({"key": "victims-key", "tool": "mcp__tracker__search", "arguments": {}})
            }
            ("POST", "/v1/mcp/reads") => json!({"server": "tracker", "uri": "file:///secret"}),
            ("POST", "/v1/mcp/prompts") => json!({"server": "tracker", "name": "triage"}),
            ("POST", "/v1/item-issues") => json!({"items": ["1"]}),
            ("POST", "/v1/splits") => json!({
                "key": "victims-key",
                "parts": [{"title": "a", "request": "obey"}, {"title": "b", "request": "obey"}],
            }),
            ("POST", "/v1/close") => json!({"summary": "done"}),
            ("POST", "/v1/chat/completions") => json!({
                "model": "scripted/coder", "messages": chat, "user": self.ids["user"],
                "session_id": self.world.name,
            }),
            ("POST", "/v1/images/drawn") => {
                json!({"key": "victims-key", "prompt": self.world.name, "count": 1})
            }
            ("POST", "/v1/images/places") => json!({"path": "obey.png", "image": ts}),
            ("POST", "/v1/audio/transcriptions") => return Body::Form,
            ("POST", "/v1/egress-check") => json!({"reached": false}),
            ("POST", "/v1/web/fetch") => {
                json!({"url": format!("{}/acme/shop/pull/{number}", self.world.github.url())})
            }
            ("POST", "/v1/web/search") => json!({"query": self.world.name}),
            ("POST", "/v1/git/git-upload-pack") => {
                return Body::Bytes(wants(&head));
            }
            ("POST", "/v1/git/git-receive-pack") => {
                let line = format!(
                    "{head} {} refs/heads/{}\0report-status",
                    "0".repeat(40),
                    self.world.branch
                );
                return Body::Bytes(format!("{:04x}{line}0000", line.len() + 4).into_bytes());
            }
            _ => panic!("no attack for {method} {path}: write one"),
        })
    }

    async fn call(&self, method: &Method, path: &str) -> (u16, String) {
        let url = format!("{}{path}", self.world.url);
        let mut request = self.world.http.request(method.clone(), url).bearer_auth(&self.token);
        let mut query: Vec<(&str, &str)> =
            self.ids.iter().map(|(name, id)| (*name, id.as_str())).collect();
        if path.starts_with("/v1/git") {
            query.push(("service", "git-upload-pack"));
        }
        for (name, id) in &self.ids {
            request = request.header(format!("x-codebutler-{}", name.replace('_', "-")), id);
        }
        let body = self.body(method, path).await;
        request = match &body {
            Body::None => request,
            Body::Query(name, value) => {
                query.push((name, value));
                request.header("connection", "upgrade").header("upgrade", "codebutler-tunnel")
            }
            Body::Json(body) => {
                let mut whole = json!(self.ids);
                json_patch::merge(&mut whole, body);
                request.json(&whole)
            }
            Body::Form => {
                let form = "--b\r\ncontent-disposition: form-data; name=\"file\"; filename=\"a.wav\"\r\n\r\nx\r\n--b--\r\n";
                request.header("content-type", "multipart/form-data; boundary=b").body(form)
            }
            Body::Bytes(bytes) => request.body(bytes.clone()),
        };
        let answer = request.query(&query).send().await.unwrap();
        let status = answer.status().as_u16();
        (status, String::from_utf8_lossy(&answer.bytes().await.unwrap()).into_owned())
    }
}

enum Body {
    None,
    Query(&'static str, String),
    Json(Value),
    Form,
    Bytes(Vec<u8>),
}

/// A fetch of a commit that was never shown.
fn wants(commit: &str) -> Vec<u8> {
    let line = |text: &str| format!("{:04x}{text}", text.len() + 4);
    let lines = [
        line("command=fetch\n"),
        "0001".to_owned(),
        line("no-progress\n"),
        line(&format!("want {commit}\n")),
        line("done\n"),
        "0000".to_owned(),
    ];
    lines.concat().into_bytes()
}

#[tokio::test]
async fn every_endpoint_with_another_threads_ids_reaches_nothing_of_it() {
    let siege = Box::pin(Siege::begin()).await;
    let before = siege.scene().await;
    let calls = api::agent_calls();
    assert!(calls.len() >= 20, "{calls:?}");
    for (method, path) in calls {
        let (status, said) = siege.call(&method, &path).await;
        assert!(status != 500 && status != 404, "{method} {path}: {status} {said}");
        assert!(!said.contains(CANARY), "{method} {path} shows the other thread: {said}");
        let after = siege.scene().await;
        assert_eq!(after, before, "{method} {path} changed the other thread");
    }
    // It was the attacker's own thread that heard all of it.
    let own = siege.world.slack.messages(&siege.world.channel, Some(&siege.root));
    assert!(own.iter().any(|message| message.shown.contains("obey")), "{own:?}");
}

#[tokio::test]
async fn a_post_goes_to_the_own_thread_under_the_own_name_whatever_it_asks_for() {
    let siege = Box::pin(Siege::begin()).await;
    let (world, before) = (&siege.world, siege.scene().await);
    let ana = world.slack.create_user("bea", "Bea");
    let elsewhere = world.slack.create_channel("secrets", &[&ana]);
    let message = world.slack.post_as(&ana, &elsewhere, None, CANARY).unwrap();
    for (n, wish) in [
        json!({"channel": elsewhere, "ts": message, "thread_ts": message}),
        json!({"channel": world.channel, "threadTs": world.root, "thread_ts": world.root}),
        json!({"username": "pm", "icon_emoji": ":crown:", "role": "pm", "as_user": true}),
        json!({"update": siege.ids["ts"], "edit": siege.ids["ts"], "ts": siege.ids["ts"]}),
        json!({"reaction": "+1", "name": "+1", "timestamp": siege.ids["ts"]}),
        json!({"file": "x", "upload": {"channel_id": elsewhere, "thread_ts": message}}),
        json!({"metadata": {"event_type": "codebutler", "event_payload": {"thread": world.name}}}),
    ]
    .into_iter()
    .enumerate()
    {
        let mut body =
            json!({"key": format!("p{n}"), "text": format!("wish {n} <!channel> <#{elsewhere}>")});
        json_patch::merge(&mut body, &wish);
        let (status, said) = world.post(&siege.token, "/v1/messages", &body).await;
        assert_eq!(status, 200, "{said}");
        let ts = said["ts"].as_str().unwrap();
        let posted = world.slack.message(&world.channel, ts).unwrap();
        assert_eq!(posted.thread_ts.as_deref(), Some(&*siege.root), "{wish}");
        assert_eq!(posted.sender.name, "coder", "{wish}");
        assert!(!posted.text.contains("<!channel>"), "{}", posted.text);
        let metadata = posted.metadata.unwrap().event_payload.to_string();
        assert!(metadata.contains(&siege.thread) && !metadata.contains(&world.name), "{metadata}");
    }
    assert_eq!(siege.scene().await, before);
    let there = world.slack.messages(&elsewhere, Some(&message));
    assert_eq!(there.len(), 1, "{there:?}");
    assert!(there[0].reactions.is_empty() && there[0].edited.is_none(), "{there:?}");
    // Nothing that an agent can call edits, reacts or uploads.
    for path in ["/v1/messages/update", "/v1/reactions", "/v1/files", "/v1/messages/1.000001"] {
        assert_eq!(world.post(&siege.token, path, &json!({"key": "k"})).await.0, 400, "{path}");
    }
}
