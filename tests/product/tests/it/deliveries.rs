//! Signed deliveries begin conversations: once each, whoever repeats them, and for nobody else.

use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use codebutler_crds::starts::DeliveriesSpec;
use codebutler_crds::{Repo, RepoSpec, Thread, repo::SecretRef};
use codebutler_testbed::models::{ModelScript, ScriptStep};
use futures::{StreamExt as _, stream};
use k8s_openapi::api::core::v1::{Event, Secret};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt as _};
use ring::hmac;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::support::{Setup, Team};

const KEY: [u8; 32] = [7; 32];
const PROMPT: &str = "The nightly build fails on main.";

fn url(team: &Team, repo: &str) -> String {
    let (address, namespace) = (team.stack.metrics.deliveries.unwrap(), &team.stack.place.team);
    format!("http://{address}/v1/repos/{namespace}/{repo}/deliveries")
}

fn secret() -> String {
    format!("whsec_{}", STANDARD.encode(KEY))
}

/// The Repo takes deliveries that are signed with the secret.
async fn permit_deliveries(team: &Team) {
    let (client, namespace) = (team.stack.cluster.client(), &team.stack.place.team);
    let secret: Secret = serde_json::from_value(json!({
        "metadata": {"name": "deliveries"}, "stringData": {"signingSecret": secret()},
    }))
    .unwrap();
    let secrets = Api::<Secret>::namespaced(client, namespace);
    secrets.create(&PostParams::default(), &secret).await.unwrap();
}

async fn start() -> Team {
    let script = ModelScript::of("pm", vec![ScriptStep::say("I look into it.")]);
    let takes = |repo: &mut RepoSpec| {
        let credentials = SecretRef { name: "deliveries".to_owned() };
        repo.deliveries = Some(DeliveriesSpec { credentials });
    };
    Setup::new(script).repo(takes).start().await
}

#[derive(Clone)]
struct SentDelivery {
    id: String,
    at: i64,
    body: String,
    key: [u8; 32],
}

impl SentDelivery {
    fn of(id: &str, body: &Value) -> Self {
        let at = jiff::Timestamp::now().as_second();
        Self { id: id.to_owned(), at, body: body.to_string(), key: KEY }
    }

    /// Status, and what was answered.
    async fn send(&self, client: &reqwest::Client, url: &str) -> (u16, Value) {
        let signed = format!("{}.{}.{}", self.id, self.at, self.body);
        let key = hmac::Key::new(hmac::HMAC_SHA256, &self.key);
        let signature = STANDARD.encode(hmac::sign(&key, signed.as_bytes()));
        let request = client
            .post(url)
            .header("content-type", "application/json")
            .header("webhook-id", &self.id)
            .header("webhook-timestamp", self.at)
            .header("webhook-signature", format!("v1,{signature}"))
            .body(self.body.clone());
        let answer = request.send().await.unwrap();
        (answer.status().as_u16(), answer.json().await.unwrap())
    }
}

/// Lists the names of all Threads.
async fn threads(team: &Team) -> Vec<String> {
    let all = team.stack.threads().list(&ListParams::default()).await.unwrap();
    all.iter().map(Thread::name_any).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_repeated_a_thousand_times_begins_one_thread() {
    let mut team = start().await;
    if team.stack.metrics.deliveries.is_none() {
        return team.stop().await;
    }
    permit_deliveries(&team).await;
    let (client, to) = (reqwest::Client::new(), url(&team, "shop"));
    let delivery =
        SentDelivery::of("nightly-1", &json!({"prompt": PROMPT, "requestedBy": "nightly build"}));
    // As many at once as come from several places at the same time.
    let sent = stream::iter(0..500).map(|_| delivery.send(&client, &to));
    let answers: Vec<_> = sent.buffer_unordered(16).collect().await;
    let begun = answers.iter().filter(|(status, _)| *status == 201).count();
    assert_eq!(begun, 1, "{:?}", answers.iter().find(|(status, _)| *status > 201));
    let name = answers[0].1["thread"].as_str().unwrap().to_owned();
    let same = |(status, answer): &(u16, Value)| {
        let created = *status == 201;
        (created || *status == 200) && *answer == json!({"thread": name, "created": created})
    };
    assert!(answers.iter().all(same), "{answers:?}");

    team.stack.gateway.kill().await.unwrap();
    team.stack.gateway.restart().await.unwrap();
    let health = format!("http://{}/readyz", team.stack.metrics.gateway);
    team.until("the gateway again", || async {
        let ready = client.get(&health).send().await.ok()?;
        ready.status().is_success().then_some(())
    })
    .await;
    let sent = stream::iter(0..500).map(|_| delivery.send(&client, &to));
    let answers: Vec<_> = sent.buffer_unordered(16).collect().await;
    assert!(answers.iter().all(|answer| answer.0 == 200 && same(answer)), "{answers:?}");

    // One conversation, which says where it is from, and is answered.
    assert_eq!(threads(&team).await, [name.as_str()]);
    let api = team.stack.threads();
    let root = team
        .until("the conversation", || async {
            Some(api.get(&name).await.unwrap().conversation()?.ts.to_string())
        })
        .await;
    let opened = team.message(&root, PROMPT).await;
    assert!(opened.shown.contains("nightly build"), "{}", opened.shown);
    team.message(&root, "I look into it.").await;
    let channel = team.stack.slack.messages(&team.stack.channel, None);
    assert_eq!(channel.iter().filter(|message| message.shown.contains(PROMPT)).count(), 1);

    // Also once it is gone: the Repo remembers it.
    remember_only_in_history(&team, &name).await;
    let (status, answer) = delivery.send(&client, &to).await;
    assert_eq!((status, &answer["created"]), (200, &json!(false)), "{answer}");
    assert!(!threads(&team).await.contains(&name));
    team.stop().await;
}

/// Leaves a Thread as retention does: in the Repo's history alone.
async fn remember_only_in_history(team: &Team, name: &str) {
    let client = team.stack.cluster.client();
    let repos: Api<Repo> = Api::namespaced(client, &team.stack.place.team);
    let closed = json!({"name": name, "uid": "0", "closed": "2026-01-01T00:00:00Z"});
    let patch = Patch::Merge(json!({"status": {"history": [closed]}}));
    repos.patch_status("shop", &PatchParams::default(), &patch).await.unwrap();
    let api = team.stack.threads();
    api.delete(name, &DeleteParams::default()).await.unwrap();
    team.until("the Thread to be gone", || async {
        api.get_opt(name).await.unwrap().is_none().then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_signed_or_not_right_begins_nothing() {
    let team = start().await;
    if team.stack.metrics.deliveries.is_none() {
        return team.stop().await;
    }
    let (client, to) = (reqwest::Client::new(), url(&team, "shop"));
    let good = SentDelivery::of("one", &json!({"prompt": PROMPT}));

    // Without the Secret nothing can be checked, and the Repo's events say so.
    let (status, answer) = good.send(&client, &to).await;
    assert_eq!((status, &answer["error"]["code"]), (503, &json!("no_secret")), "{answer}");
    assert!(!answer.to_string().contains("does not exist"), "{answer}");
    let events: Api<Event> = Api::namespaced(team.stack.cluster.client(), &team.stack.place.team);
    team.until("an event", || async {
        let all = events.list(&ListParams::default()).await.unwrap();
        let ours = |event: &Event| event.reason.as_deref() == Some("SigningSecretInvalid");
        all.items.into_iter().find(ours)
    })
    .await;
    permit_deliveries(&team).await;
    let wrong = SentDelivery { key: [8; 32], ..good.clone() };
    let unsigned = team
        .until("the Secret to be known", || async {
            let (status, answer) = wrong.send(&client, &to).await;
            (status == 401).then_some(answer)
        })
        .await;

    // A stranger learns nothing of what there is.
    let nowhere = url(&team, "nothing");
    for (delivery, to) in [(&good, &nowhere), (&wrong, &nowhere), (&wrong, &to)] {
        assert_eq!(delivery.send(&client, to).await, (401, unsigned.clone()));
    }
    let late = |seconds: i64| SentDelivery { at: good.at + seconds, ..good.clone() };
    let with = |body: &str| SentDelivery { body: body.to_owned(), ..good.clone() };
    let large = json!({"prompt": "x".repeat(70_000)}).to_string();
    for (delivery, status, code) in [
        (late(-400), 400, "timestamp_stale"),
        (late(400), 400, "timestamp_stale"),
        (SentDelivery { id: "x".repeat(129), ..good.clone() }, 400, "header_invalid"),
        (with(&large), 413, "too_large"),
        (with("{\"prompt\": \"x\", \"branch\": \"main\"}"), 400, "body_invalid"),
        (with("{}"), 400, "body_invalid"),
    ] {
        let (found, answer) = delivery.send(&client, &to).await;
        assert_eq!((found, &answer["error"]["code"]), (status, &json!(code)), "{answer}");
    }
    let plain = client.post(&to).body("{}").send().await.unwrap();
    assert_eq!(plain.status().as_u16(), 400);
    assert!(plain.text().await.unwrap().contains("webhook-id"));
    assert_eq!(client.get(&to).send().await.unwrap().status().as_u16(), 404);
    assert!(threads(&team).await.is_empty());

    let metrics = format!("http://{}/metrics", team.stack.metrics.gateway);
    let metrics = client.get(metrics).send().await.unwrap().text().await.unwrap();
    assert!(metrics.contains("codebutler_deliveries_total{outcome=\"unsigned\"}"), "{metrics}");
    let log = std::fs::read_to_string(team.stack.gateway.log()).unwrap();
    assert!(!log.contains(&STANDARD.encode(KEY)), "the secret is in the log");
    slow_ones_hold_up_nobody(&team, &client).await;
    example_begins_a_thread(&team).await;
    team.stop().await;
}

/// Checks that a client that sends no body holds up nobody, and not for long.
async fn slow_ones_hold_up_nobody(team: &Team, client: &reqwest::Client) {
    let address = team.stack.metrics.deliveries.unwrap();
    let now = jiff::Timestamp::now().as_second();
    let head = format!(
        "POST /v1/repos/a/b/deliveries HTTP/1.1\r\nhost: here\r\ncontent-type: application/json\r\n\
         content-length: 9\r\nwebhook-id: slow\r\nwebhook-timestamp: {now}\r\n\
         webhook-signature: v1,aGVsbG8=\r\n\r\n"
    );
    let mut slow = Vec::new();
    for _ in 0..32 {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        slow.push(stream);
    }
    // They are in nobody's way: who knows the secret of no Repo is told so as ever.
    let nowhere = url(team, "nothing");
    let quick = SentDelivery::of("quick", &json!({}));
    assert_eq!(quick.send(client, &nowhere).await.0, 401);
    let mut answer = [0; 12];
    slow[0].read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 408");
}

/// Runs the README's example, as it stands there but for the address.
async fn example_begins_a_thread(team: &Team) {
    let there = |program: &str| Command::new(program).arg("--version").output().is_ok();
    if !there("curl") || !there("openssl") {
        let _ =
            writeln!(std::io::stderr(), "skipped: no curl and openssl for the README's example");
        return;
    }
    let page = Path::new(codebutler_testbed::FOLDER).join("../charts/codebutler/WORK.md");
    let page = std::fs::read_to_string(page).unwrap();
    let section = page.split_once("\n## Begin work from elsewhere: signed deliveries\n").unwrap().1;
    let block = section.split_once("```bash\n").unwrap().1.split_once("```").unwrap().0;
    let made_up = "https://deliveries.example.com/v1/repos/team/shop/deliveries";
    assert!(block.contains(made_up), "{block}");
    let block = block.replace(made_up, &url(team, "shop"));
    let output = tokio::process::Command::new("bash")
        .args(["-e", "-u", "-o", "pipefail", "-c", &block])
        .env("secret", secret())
        .output()
        .await
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    let answer: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(answer["created"], true, "{answer}");
    assert_eq!(threads(team).await, [answer["thread"].as_str().unwrap()]);
}
