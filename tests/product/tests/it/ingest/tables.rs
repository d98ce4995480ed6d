//! Tables in roles' messages: blocks of their own where Slack knows them, and words for whoever reads the text.

use codebutler_crds::wire::{AskedDecision, PostMessage};
use codebutler_testbed::slack::MessageView;

use super::desk::{Desk, PATIENCE};
use super::{ask, inbox, post};

const TABLE: &str = "| File | Change |\n|---|---|\n\
                     | `src/total.rs` | rounds once, see [the rule](https://example.org/rule) |\n\
                     | @codebutler.coder | <!channel> |\n";

fn kinds(message: &MessageView) -> Vec<&str> {
    message.blocks.iter().map(|block| block["type"].as_str().unwrap()).collect()
}

impl Desk {
    fn message_at(&self, ts: &str) -> MessageView {
        self.slack.message(&self.channel, ts).unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_is_shown_as_one_and_read_as_text() {
    let desk = Desk::start().await;
    let root = desk.said("what do you change?").await;
    let pm = desk.caller(&root, "pm").await;
    let posted = async |message: PostMessage| {
        desk.service().post(&pm, &message, None).await.unwrap().ts.to_string()
    };
    let text = format!("This:\n\n{TABLE}\nThat is all.");
    let told = desk.message_at(&posted(post("t", &text)).await);
    assert_eq!(kinds(&told), ["section", "table", "section"], "{told:?}");
    let rows = &told.blocks[1]["rows"];
    let link = &rows[1][1]["elements"][0]["elements"][1];
    assert_eq!((&link["type"], &link["url"]), (&"link".into(), &"https://example.org/rule".into()));
    assert_eq!(rows[1][0]["elements"][0]["elements"][0]["style"]["code"], true);
    // The text has all of it: notifications show it, and roles read it.
    assert!(
        told.text.starts_with("This:\n\n• `src/total.rs` — Change: rounds once"),
        "{}",
        told.text
    );
    assert!(told.text.contains("&lt;!channel&gt;") && told.text.ends_with("That is all."));
    let coder = desk.caller(&root, "coder").await;
    // Cells call nobody.
    assert_eq!(inbox(&desk.thread(&root).await.unwrap(), "coder"), None);
    let next = desk.says(Some(&root), "@codebutler.coder and you?");
    desk.slack.wait_acked(&next, PATIENCE).await.unwrap();
    let read = desk.service().inbox(&coder, None, PATIENCE).await.unwrap();
    let read: Vec<&str> = read
        .messages
        .iter()
        .map(|message| message.text.as_str())
        .filter(|text| text.contains("src/total.rs"))
        .collect();
    let [read] = &read[..] else { panic!("{read:?}") };
    assert!(read.contains("Change: rounds once") && !read.contains(" | "), "{read}");

    // Two tables are two messages, and a question keeps its buttons when it was answered.
    let two = format!("One\n\n{TABLE}\nTwo\n\n{TABLE}");
    let plan = posted(ask("p", &two, AskedDecision::Plan)).await;
    let all = desk.slack.messages(&desk.channel, Some(&root));
    let (first, last) = (&all[all.len() - 2], &all[all.len() - 1]);
    assert_eq!(first.ts, plan);
    assert_eq!(kinds(first), ["section", "table", "section"]);
    assert_eq!(kinds(last), ["table", "section", "actions"], "{last:?}");
    let press = desk.slack.click(&desk.ana, &desk.channel, &last.ts, "plan:approve").unwrap();
    desk.slack.wait_acked(&press, PATIENCE).await.unwrap();
    desk.until("the buttons are gone", || async { desk.message_at(&last.ts).buttons.is_empty() })
        .await;
    assert_eq!(kinds(&desk.message_at(&last.ts)), ["table", "section", "context"]);
    desk.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workspace_that_knows_no_tables_shows_them_as_text() {
    let desk = Desk::start().await;
    desk.slack.forget_block("table");
    let root = desk.said("what do you change?").await;
    let pm = desk.caller(&root, "pm").await;
    let posted = async |message: PostMessage| {
        desk.service().post(&pm, &message, None).await.unwrap().ts.to_string()
    };
    let text = format!("This:\n\n{TABLE}");
    let told = desk.message_at(&posted(post("t", &text)).await);
    assert!(told.blocks.is_empty() && told.text.contains("• `src/total.rs` — Change:"), "{told:?}");
    let narrow = "| role | cost |\n|---|--:|\n| pm | 1 |";
    let told = desk.message_at(&posted(post("n", narrow)).await);
    assert_eq!(told.text, "```\nrole  cost\n────  ────\npm       1\n```");
    // Buttons are taken all the same: those of a question, and those that ask whether it helped.
    let asked = desk.message_at(&posted(ask("p", &text, AskedDecision::Plan)).await);
    assert_eq!(kinds(&asked), ["section", "actions"], "{asked:?}");
    let answer = PostMessage { answers: true, last: true, ..post("a", &text) };
    let answered = desk.message_at(&posted(answer).await);
    assert_eq!(kinds(&answered), ["section", "context_actions"], "{answered:?}");
    desk.slack.forget_block("context_actions");
    let answer = PostMessage { answers: true, last: true, ..post("b", &text) };
    assert!(desk.message_at(&posted(answer).await).blocks.is_empty());
    desk.stop().await;
}
