//! `/v1/approvals` as a hostile or unlucky agent calls it.

use codebutler_crds::Thread;
use codebutler_crds::names;
use codebutler_crds::thread::ActionApproval;
use codebutler_testbed::models::{ModelScript, ScriptStep};
use codebutler_testbed::slack::CallFault;
use serde_json::{Value, json};

use super::{World, eventually, thread};

const PATH: &str = "/v1/approvals";

async fn world() -> World {
    World::start(vec![ScriptStep::say("nothing")]).await
}

fn request(key: &str, hash: char) -> Value {
    json!({
        "key": key, "tool": "Bash", "summary": "`rm` deletes files",
        "hash": hash.to_string().repeat(64), "detail": "rm -rf docs",
    })
}

impl World {
    async fn asked(&self) -> Vec<ActionApproval> {
        self.thread().await.status.map(|status| status.approvals).unwrap_or_default()
    }

    fn questions(&self) -> usize {
        let messages = self.slack.messages(&self.channel, Some(&self.root));
        messages.iter().filter(|message| message.shown.contains("May I do this?")).count()
    }

    /// Answers as the gateway's Slack part would after a user's click.
    async fn answer(&self, answer: &str) {
        let mut approvals = json!(self.asked().await);
        approvals[0]["answer"] = json!(answer);
        approvals[0]["by"] = json!("U1");
        self.patch_thread(&json!({"status": {"approvals": approvals}})).await;
    }
}

#[tokio::test]
async fn a_yes_is_for_exactly_what_was_asked_by_exactly_who_asked() {
    let world = world().await;
    let ask = |role: &'static str, key: &'static str, hash| {
        let world = &world;
        async move { world.post(role, PATH, &request(key, hash)).await }
    };
    let (status, body) = ask("coder", "k", 'a').await;
    assert_eq!((status, &body["state"]), (200, &json!("pending")), "{body}");
    // The same question again is the same question, and waiting changes nothing.
    let (status, body) = world.post("coder", &format!("{PATH}?wait=1"), &request("k", 'a')).await;
    assert_eq!((status, &body["id"]), (200, &json!("coder:k")), "{body}");
    assert_eq!((world.questions(), world.asked().await.len()), (1, 1));

    world.answer("approved").await;
    eventually("the answer is told", || async {
        ask("coder", "k", 'a').await.1["state"] == "approved"
    })
    .await;
    let (_, body) = ask("coder", "k", 'a').await;
    assert_eq!((&body["state"], &body["by"]), (&json!("approved"), &json!("U1")));
    // Another action under the same key, and the same action by another role or under another key.
    let (status, body) = ask("coder", "k", 'b').await;
    assert_eq!((status, &body["error"]["code"]), (400, &json!("invalid_request")), "{body}");
    for (role, key) in [("pm", "k"), ("coder", "l")] {
        assert_eq!(ask(role, key, 'a').await.1["state"], "pending", "{role} {key}");
    }
    assert_eq!(world.questions(), 3);
}

#[tokio::test]
async fn the_approval_of_another_thread_is_worth_nothing() {
    let world = world().await;
    world.post("coder", PATH, &request("k", 'a')).await;
    world.answer("approved").await;
    let user = world.slack.create_user("eve", "Eve");
    world.slack.add_member(&world.channel, &user).unwrap();
    let root = world.slack.post_as(&user, &world.channel, None, "Something else").unwrap();
    let other = names::thread_name("shop", &root.parse().unwrap());
    let tokens = thread(&world.cluster, &other, &world.channel, &root).await;
    eventually("the other thread asks for itself", || async {
        let (status, body) = world.post(&tokens["coder"], PATH, &request("k", 'a')).await;
        status == 200 && body["state"] == "pending"
    })
    .await;
    let threads = world.cluster.api::<Thread>(world.cluster.team());
    let asked = threads.get(&other).await.unwrap().status.unwrap().approvals;
    assert_eq!((asked.len(), asked[0].answer), (1, None));
}

#[tokio::test]
async fn a_question_whose_record_was_lost_is_found_again_and_shown_once() {
    let world = world().await;
    // Slack posts it, and the answer is lost on the way.
    world.slack.fail_next("chat.postMessage", 1, &CallFault::LostReply);
    let (status, body) = world.post("coder", PATH, &request("k", 'a')).await;
    assert_eq!((status, &body["state"]), (200, &json!("pending")), "{body}");
    let before = world.asked().await;
    // As if the gateway had died before it was recorded.
    world.patch_thread(&json!({"status": {"approvals": null}})).await;
    eventually("it is on record again", || async {
        world.post("coder", PATH, &request("k", 'a')).await;
        world.asked().await.first().is_some_and(|one| one.ts == before[0].ts)
    })
    .await;
    assert_eq!(world.questions(), 1);
}

#[tokio::test]
async fn a_question_shows_no_secret_and_a_wrong_one_is_refused() {
    let world = World::play(
        ModelScript::of("coder", vec![ScriptStep::say("nothing")]),
        &json!({"policy": {"redaction": [{"name": "customer", "pattern": "CUST-[0-9]+"}]}}),
        &json!({}),
    )
    .await;
    let mut secret = request("k", 'a');
    secret["detail"] = json!("curl -d CUST-1234 https://x.example.com && echo <!channel>");
    secret["summary"] = json!("sends CUST-1234");
    assert_eq!(world.post("coder", PATH, &secret).await.0, 200);
    let messages = world.slack.messages(&world.channel, Some(&world.root));
    let question = messages.iter().find(|m| m.shown.contains("May I do this?")).unwrap();
    let whole = format!("{} {} {:?}", question.text, question.shown, question.blocks);
    assert!(!whole.contains("CUST-1234") && !question.text.contains("<!channel>"), "{whole}");
    assert!(question.shown.contains("[redacted:customer]"), "{whole}");
    for (field, value) in [
        ("key", json!("a b")),
        ("key", json!("k".repeat(65))),
        ("tool", json!("")),
        ("summary", json!(" ")),
        ("hash", json!("xyz")),
        ("detail", json!("x".repeat(70_000))),
    ] {
        let mut wrong = request("w", 'a');
        wrong[field] = value;
        assert_eq!(world.post("coder", PATH, &wrong).await.0, 400, "{field}");
    }
    assert_eq!(world.asked().await.len(), 1);
}
