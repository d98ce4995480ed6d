//! The number of reads of Slack's history, and that no message is lost or delivered twice by reading less.

use std::collections::BTreeSet;
use std::time::Duration;

use codebutler_crds::SlackTs;
use codebutler_crds::wire::VersionedInbox;
use codebutler_gateway_core::caller::ProvenCaller;
use codebutler_slack::WantedInbox;
use codebutler_testbed::slack::{CallFault, EventRelease};

use super::desk::{Desk, PATIENCE};
use super::{inbox, post};

const READ: &str = "conversations.replies";

impl Desk {
    fn reads(&self) -> u64 {
        self.slack.calls(READ)
    }

    /// Returns the texts in a role's inbox, each once.
    async fn texts(&self, caller: &ProvenCaller) -> Vec<String> {
        let inbox = self.service().inbox(caller, None, Duration::ZERO).await.unwrap();
        let seen: BTreeSet<&SlackTs> = inbox.messages.iter().map(|message| &message.ts).collect();
        assert_eq!(seen.len(), inbox.messages.len(), "nothing twice");
        inbox.messages.into_iter().map(|message| message.text).collect()
    }

    async fn hears(&self, caller: &ProvenCaller, texts: &[&str]) {
        self.until(&format!("to hear {texts:?}"), || async { self.texts(caller).await == texts })
            .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_without_news_asks_slack_nothing_and_news_cost_one_read() {
    let desk = Desk::start().await;
    let root = desk.says(None, "the total is wrong");
    desk.slack.wait_acked(&root, PATIENCE).await.unwrap();
    let (pm, slack) = (desk.caller(&root, "pm").await, desk.service());
    let first = slack.inbox_news(&pm, &WantedInbox::default(), Duration::ZERO).await.unwrap();
    assert_eq!(first.inbox.messages.len(), 1);
    let before = desk.reads();
    for _ in 0..200 {
        assert_eq!(slack.inbox(&pm, None, Duration::ZERO).await.unwrap(), first.inbox);
    }
    let seen = WantedInbox { after: None, seen: first.version.clone() };
    let nothing = slack.inbox_news(&pm, &seen, Duration::from_secs(1)).await.unwrap();
    assert_eq!(nothing, VersionedInbox::default());
    assert_eq!(desk.reads(), before);

    for n in 0..3 {
        let now = slack.inbox_news(&pm, &WantedInbox::default(), Duration::ZERO).await.unwrap();
        let seen = WantedInbox { after: None, seen: now.version };
        let before = desk.reads();
        let waiting = slack.inbox_news(&pm, &seen, PATIENCE);
        let text = format!("@codebutler.coder and @codebutler.pm look again {n}");
        let said = async {
            let ts = desk.says(Some(&root), &text);
            desk.slack.wait_acked(&ts, PATIENCE).await.unwrap();
            ts
        };
        let (news, ts) = tokio::join!(waiting, said);
        assert_eq!(news.unwrap().inbox.messages.last().unwrap().text, text);
        let coder = desk.caller(&root, "coder").await;
        let (one, other) = tokio::join!(desk.texts(&pm), desk.texts(&coder));
        assert_eq!((one.last(), other.last()), (Some(&text), Some(&text)));
        assert_eq!(desk.reads(), before + 1, "one read for both roles");
        desk.role(&root, "pm", serde_json::json!({"done": ts})).await;
        desk.says(Some(&root), "@codebutler.pm go on");
        desk.until("it is heard", || async {
            desk.texts(&pm).await.last().is_some_and(|text| text == "@codebutler.pm go on")
        })
        .await;
    }
    // A role's own message is no news to it.
    slack.post(&pm, &post("own-1", "I look at it."), None).await.unwrap();
    let before = desk.reads();
    desk.texts(&pm).await;
    assert_eq!(desk.reads(), before);
    desk.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn edits_and_deletions_are_seen_by_roles_that_have_not_taken_the_message() {
    let desk = Desk::start().await;
    let root = desk.says(None, "the total is wrong");
    desk.slack.wait_acked(&root, PATIENCE).await.unwrap();
    let pm = desk.caller(&root, "pm").await;
    desk.says(Some(&root), "@codebutler.coder old words");
    let ts = desk.says(Some(&root), "and more");
    desk.hears(&pm, &["the total is wrong", "@codebutler.coder old words", "and more"]).await;
    desk.slack.edit_as(&desk.ana, &desk.channel, &ts, "and less").unwrap();
    desk.hears(&pm, &["the total is wrong", "@codebutler.coder old words", "and less"]).await;
    desk.slack.delete_as(&desk.ana, &desk.channel, &ts).unwrap();
    desk.hears(&pm, &["the total is wrong", "@codebutler.coder old words"]).await;
    // Also where the other replica hears of it.
    let standby = desk.standby();
    desk.slack.wait_connected(2, PATIENCE).await.unwrap();
    let ts = desk.says(Some(&root), "one");
    for text in ["two", "three", "four", "five"] {
        desk.slack.edit_as(&desk.ana, &desk.channel, &ts, text).unwrap();
        desk.hears(&pm, &["the total is wrong", "@codebutler.coder old words", text]).await;
    }
    standby.cancel();
    desk.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_comes_late_is_delivered_by_any_replica() {
    let desk = Desk::start().await;
    let root = desk.says(None, "first");
    desk.slack.wait_acked(&root, PATIENCE).await.unwrap();
    let pm = desk.caller(&root, "pm").await;
    desk.hears(&pm, &["first"]).await;
    let standby = desk.standby();
    desk.slack.wait_connected(2, PATIENCE).await.unwrap();
    let mut all = vec!["first".to_owned()];
    // Each event goes to one of the two.
    for n in 0..4 {
        desk.slack.hold_events();
        let early = desk.says(Some(&root), &format!("early {n}"));
        desk.slack.lag_behind(&desk.channel, &early);
        let late = desk.says(Some(&root), &format!("late {n}"));
        desk.slack.release_events(&EventRelease::Reversed);
        for ts in [&early, &late] {
            desk.slack.wait_acked(ts, PATIENCE).await.unwrap();
        }
        let marked = inbox(&desk.thread(&root).await.unwrap(), "pm").unwrap();
        assert_eq!(marked.as_str(), late);
        desk.until("the newer one is delivered", || async {
            desk.texts(&pm).await.last() == Some(&format!("late {n}"))
        })
        .await;
        desk.slack.index_all();
        all.extend([format!("early {n}"), format!("late {n}")]);
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        desk.hears(&pm, &all).await;
    }
    standby.cancel();
    desk.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_comes_while_slack_is_read_is_not_missed() {
    let desk = Desk::start().await;
    let root = desk.says(None, "0");
    desk.slack.wait_acked(&root, PATIENCE).await.unwrap();
    let pm = desk.caller(&root, "pm").await;
    let mut all = vec!["0".to_owned()];
    for n in 1..8 {
        desk.slack.fail_next(READ, 1, &CallFault::Slow(Duration::from_millis(150)));
        let reading = desk.texts(&pm);
        let saying = async {
            tokio::time::sleep(Duration::from_millis(20 * n)).await;
            // In the same second, and one behind the other.
            desk.says(Some(&root), &n.to_string());
            desk.says(Some(&root), &format!("{n}!"));
        };
        tokio::join!(reading, saying);
        all.extend([n.to_string(), format!("{n}!")]);
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        desk.hears(&pm, &all).await;
    }
    desk.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_takes_over_reads_for_itself() {
    let mut desk = Desk::start().await;
    let root = desk.says(None, "before");
    desk.slack.wait_acked(&root, PATIENCE).await.unwrap();
    let pm = desk.caller(&root, "pm").await;
    desk.hears(&pm, &["before"]).await;
    desk.cursor().await;
    let whole = WantedInbox::default();
    let seen = desk.service().inbox_news(&pm, &whole, Duration::ZERO).await.unwrap();
    desk.gateway.take().unwrap().stop().await;
    desk.slack.hold_events();
    desk.says(Some(&root), "while no replica listened");
    desk.slack.release_events(&EventRelease::Only(Vec::new()));
    desk.restart();
    let pm = desk.caller(&root, "pm").await;
    desk.hears(&pm, &["before", "while no replica listened"]).await;
    let wanted = WantedInbox { after: None, seen: seen.version };
    let news = desk.service().inbox_news(&pm, &wanted, PATIENCE).await.unwrap();
    assert_eq!(news.inbox.messages.len(), 2, "versions of another process are compared by content");
    desk.stop().await;
}
