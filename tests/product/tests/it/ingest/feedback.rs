//! Feedback on answers: the buttons under them, who is heard, and why one did not help.

use codebutler_crds::Repo;
use codebutler_crds::thread::AnswerFeedback;
use codebutler_crds::wire::PostMessage;
use codebutler_testbed::slack::{CallFault, ModalView};
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::desk::{Desk, PATIENCE};
use super::{inbox, post};

fn answer(key: &str, text: &str) -> PostMessage {
    PostMessage { answers: true, last: true, ..post(key, text) }
}

impl Desk {
    /// The pm's answer to a question: the conversation, and the answer's place.
    async fn answered(&self) -> (String, String) {
        let root = self.said("what does it cost?").await;
        let pm = self.caller(&root, "pm").await;
        let asked = self.service().post(&pm, &answer("a", "It costs 20."), None).await.unwrap();
        (root, asked.ts.to_string())
    }

    async fn feedback(&self, root: &str) -> Vec<AnswerFeedback> {
        self.thread(root).await.unwrap().status.unwrap().feedback
    }

    /// Somebody presses a button under an answer, and it is acknowledged.
    async fn rates(&self, user: &str, answer: &str, helps: bool) -> String {
        let press = self.slack.rate(user, &self.channel, answer, helps).unwrap();
        self.slack.wait_acked(&press, PATIENCE).await.unwrap();
        press
    }

    async fn modal(&self, user: &str) -> ModalView {
        self.until("a modal", || async { self.slack.modals(user).len() == 1 }).await;
        self.slack.modals(user).remove(0)
    }

    fn asks_if_it_helped(&self, ts: &str) -> bool {
        let message = self.slack.message(&self.channel, ts).unwrap();
        message.blocks.iter().any(|block| block["type"] == "context_actions")
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn people_say_whether_an_answer_helped_and_why_not_in_a_modal() {
    let desk = Desk::start().await;
    let (root, answer) = desk.answered().await;
    let shown = desk.slack.message(&desk.channel, &answer).unwrap();
    assert!(desk.asks_if_it_helped(&answer) && shown.shown == "It costs 20.", "{shown:?}");
    desk.rates(&desk.ana, &answer, true).await;
    desk.rates(&desk.ana, &answer, true).await;
    let said = desk.feedback(&root).await;
    assert!(matches!(&said[..], [one] if one.helps && one.role == "pm" && one.by == desk.ana));
    assert_eq!(desk.slack.modals(&desk.ana), []);

    // Another mind.
    let press = desk.rates(&desk.ana, &answer, false).await;
    // On record before it was acknowledged, and delivered twice it is one.
    let said = desk.feedback(&root).await;
    assert!(matches!(&said[..], [one] if !one.helps && one.why.is_none()), "{said:?}");
    let modal = desk.modal(&desk.ana).await;
    assert_eq!(modal.title, "What was wrong?");
    assert!(desk.slack.redeliver(&press, 2) > 0);
    let long = "x".repeat(301);
    assert!(desk.slack.submit_modal(&desk.ana, &modal.id, &long).is_err());
    let before = inbox(&desk.thread(&root).await.unwrap(), "pm");
    let sent = desk.slack.submit_modal(&desk.ana, &modal.id, "The *currency*\nis missing").unwrap();
    desk.slack.wait_acked(&sent, PATIENCE).await.unwrap();
    desk.until("it is closed", || async { desk.slack.modals(&desk.ana).is_empty() }).await;
    let thread = desk.thread(&root).await.unwrap();
    let said = thread.status.clone().unwrap().feedback;
    let why = said[0].why.as_ref().unwrap().as_str();
    let words = desk.slack.message(&desk.channel, why).unwrap();
    assert!(words.text.contains("The *currency* is missing"), "{}", words.text);
    assert!(words.sender.name.ends_with("(about an answer)"), "{:?}", words.sender);
    assert_eq!(inbox(&thread, "pm"), before, "nobody is woken by it");
    // A role that reads the conversation reads it as hers, and has nothing to answer.
    let next = desk.says(Some(&root), "and two?");
    desk.slack.wait_acked(&next, PATIENCE).await.unwrap();
    let pm = desk.caller(&root, "pm").await;
    let read = desk.service().inbox(&pm, None, PATIENCE).await.unwrap();
    let read = read.messages.iter().find(|m| m.ts.as_str() == why).unwrap();
    let author = codebutler_crds::wire::MessageAuthor::User { id: desk.ana.clone() };
    assert_eq!((&read.author, read.addressed), (&author, false));
    desk.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_can_be_shown_no_modal_is_asked_in_the_thread() {
    let desk = Desk::start().await;
    let (root, answer) = desk.answered().await;
    let late = CallFault::Error("expired_trigger_id".to_owned());
    desk.slack.fail_next("views.open", 1, &late);
    desk.rates(&desk.ana, &answer, false).await;
    desk.whispered(&desk.ana, &root, "say in one sentence, as your next message").await;
    desk.until("it is known", || async { desk.feedback(&root).await[0].asked }).await;
    let bob = desk.slack.create_user("bob", "Bob Example");
    desk.slack.add_member(&desk.channel, &bob).unwrap();
    let other = desk.slack.post_as(&bob, &desk.channel, Some(&root), "which currency?").unwrap();
    desk.slack.wait_acked(&other, PATIENCE).await.unwrap();
    assert!(desk.feedback(&root).await[0].why.is_none());
    let why = desk.says(Some(&root), "the currency is missing");
    desk.slack.wait_acked(&why, PATIENCE).await.unwrap();
    assert_eq!(desk.feedback(&root).await[0].why.as_ref().unwrap().as_str(), why);
    // It is a message like any other, too.
    assert_eq!(inbox(&desk.thread(&root).await.unwrap(), "pm").unwrap().as_str(), why);
    desk.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_not_speak_says_nothing_of_answers() {
    let desk = Desk::start().await;
    let (root, answer) = desk.answered().await;
    let bob = desk.slack.create_user("bob", "Bob Example");
    desk.slack.add_member(&desk.channel, &bob).unwrap();
    let repos = Api::<Repo>::namespaced(desk.cluster.client(), &desk.place.team);
    let patch = Patch::Merge(json!({"spec": {"access": {"users": [desk.ana]}}}));
    repos.patch("shop", &PatchParams::default(), &patch).await.unwrap();
    let context = &desk.gateway().context;
    desk.until("it is known who may", || async {
        context.repo(&desk.place.team, "shop").is_some_and(|r| !r.spec.access.users.is_empty())
    })
    .await;
    desk.rates(&bob, &answer, false).await;
    desk.whispered(&bob, &root, "You can't steer here").await;
    assert_eq!(desk.feedback(&root).await, []);
    assert_eq!(desk.slack.modals(&bob), []);
    desk.rates(&desk.ana, &answer, true).await;
    assert_eq!(desk.feedback(&root).await.len(), 1);
    desk.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_answers_are_asked_about_and_an_older_workspace_gets_them_without() {
    let desk = Desk::start().await;
    let root = desk.said("what does it cost?").await;
    let pm = desk.caller(&root, "pm").await;
    let posted = async |message: PostMessage| {
        desk.service().post(&pm, &message, None).await.unwrap().ts.to_string()
    };
    let progress = posted(post("p", "I look.")).await;
    let question = posted(answer("q", "Which of them?")).await;
    let handed = posted(answer("h", "@codebutler.coder please look")).await;
    let long = posted(answer("l", &"A long answer. ".repeat(400))).await;
    for ts in [&progress, &question, &handed] {
        assert!(!desk.asks_if_it_helped(ts), "{:?}", desk.slack.message(&desk.channel, ts));
    }
    // Under the last part of a long one.
    assert!(!desk.asks_if_it_helped(&long));
    let parts = desk.slack.messages(&desk.channel, Some(&root));
    assert!(desk.asks_if_it_helped(&parts.last().unwrap().ts));

    desk.slack.forget_block("context_actions");
    let calls = || desk.slack.calls("chat.postMessage");
    let before = calls();
    for key in ["o1", "o2"] {
        let old = posted(answer(key, "It costs 20.")).await;
        let shown = desk.slack.message(&desk.channel, &old).unwrap();
        assert!(shown.blocks.is_empty() && shown.text == "It costs 20.", "{shown:?}");
    }
    assert_eq!(calls() - before, 3, "tried once");
    desk.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_press_while_nobody_listens_is_told_and_one_that_was_stored_stays() {
    let mut desk = Desk::start().await;
    let (root, answer) = desk.answered().await;
    desk.rates(&desk.ana, &answer, false).await;
    let modal = desk.modal(&desk.ana).await;
    desk.gateway.take().unwrap().stop().await;
    let mut changes = desk.slack.subscribe();
    desk.slack.submit_modal(&desk.ana, &modal.id, "no currency").unwrap();
    // Slack says so to who sent it, and leaves it open.
    loop {
        let change = tokio::time::timeout(PATIENCE, changes.recv()).await.unwrap().unwrap();
        if matches!(change, codebutler_testbed::slack::SlackChange::ClickFailed { .. }) {
            break;
        }
    }
    desk.restart();
    desk.slack.wait_connected(1, PATIENCE).await.unwrap();
    for _ in 0..2 {
        let sent = desk.slack.submit_modal(&desk.ana, &modal.id, "no currency");
        let Ok(sent) = sent else { break };
        desk.slack.wait_acked(&sent, PATIENCE).await.unwrap();
    }
    let said = desk.feedback(&root).await;
    assert!(matches!(&said[..], [one] if one.why.is_some()), "{said:?}");
    let messages = desk.slack.messages(&desk.channel, Some(&root));
    assert_eq!(messages.iter().filter(|m| m.text.contains("no currency")).count(), 1);
    desk.stop().await;
}
