//! Buttons of a role's own making, the warning before the end, words that change after they were
//! said, and bots that may speak.

use std::time::Duration;

use codebutler_crds::Repo;
use codebutler_crds::thread::ClosingChoice;
use codebutler_crds::wire::{AskedDecision, PostMessage};
use codebutler_testbed::slack::EventRelease;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::desk::{Desk, PATIENCE};
use super::{ask, inbox, post};

impl Desk {
    pub(super) async fn said(&self, text: &str) -> String {
        let root = self.says(None, text);
        self.slack.wait_acked(&root, PATIENCE).await.unwrap();
        root
    }

    /// Waits for a message with these words that only one person sees.
    pub(super) async fn whispered(&self, user: &str, root: &str, words: &str) {
        let is_it = |m: &codebutler_testbed::slack::MessageView| {
            m.ephemeral_for.as_deref() == Some(user) && m.text.contains(words)
        };
        self.slack.wait_message(&self.channel, Some(root), PATIENCE, is_it).await.unwrap();
    }

    pub(super) async fn shows(&self, ts: &str, words: &str) {
        self.until(words, || async {
            self.slack.message(&self.channel, ts).unwrap().shown.contains(words)
        })
        .await;
    }

    fn buttons(&self, ts: &str) -> usize {
        self.slack.message(&self.channel, ts).unwrap().buttons.len()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_to_choose_from_are_buttons_and_one_counts() {
    let desk = Desk::start().await;
    let root = desk.said("make it better").await;
    let pm = desk.caller(&root, "pm").await;
    let choices = ["Fix the *bug*".to_owned(), "Plan a refactoring".to_owned()].to_vec();
    let message = PostMessage { choices, asks: true, ..post("q", "Which one do you mean?") };
    let asked = desk.service().post(&pm, &message, None).await.unwrap().ts.to_string();
    let shown = desk.slack.message(&desk.channel, &asked).unwrap();
    assert!(shown.text.contains("2. Plan a refactoring"), "{}", shown.text);
    assert!(shown.text.contains(&format!("<@{}>", desk.ana)), "mentioned: {}", shown.text);
    assert_eq!(desk.buttons(&asked), 2);

    let bob = desk.slack.create_user("bob", "Bob Example");
    desk.slack.add_member(&desk.channel, &bob).unwrap();
    desk.slack.hold_events();
    desk.slack.click(&desk.ana, &desk.channel, &asked, "choice:2").unwrap();
    desk.slack.click(&bob, &desk.channel, &asked, "choice:1").unwrap();
    desk.slack.release_events(&EventRelease::InOrder);
    // Whoever was second, whichever that is, is told so.
    desk.shows(&asked, "chosen by").await;
    assert_eq!(desk.buttons(&asked), 0);
    let status = desk.thread(&root).await.unwrap().status.unwrap();
    let pending: Vec<_> = status.pending.iter().map(|p| (&*p.kind, &*p.choice)).collect();
    assert!(matches!(pending[..], [("choice", "1" | "2")]), "{pending:?}");
    let late = if status.pending[0].user == bob { &desk.ana } else { &bob };
    desk.whispered(late, &root, "no longer open").await;

    for wrong in [vec!["one".to_owned()], vec!["x".repeat(76), "y".to_owned()]] {
        let message = PostMessage { choices: wrong, ..post("w", "Which?") };
        let refused = desk.service().post(&pm, &message, None).await.unwrap_err();
        assert!(refused.message.contains("`choices`"), "{}", refused.message);
    }
    desk.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_long_learnings_fit_into_a_message_and_each_can_be_decided_on() {
    let desk = Desk::start().await;
    let root = desk.said("make it better").await;
    let pm = desk.caller(&root, "pm").await;
    for (key, learning) in [("words", "word ".repeat(280)), ("no-blanks", "語".repeat(1400))] {
        let message = PostMessage { learnings: vec![learning; 10], ..post(key, "Learned today:") };
        desk.service().post(&pm, &message, None).await.unwrap();
        let is_last = |m: &codebutler_testbed::slack::MessageView| {
            let own = m.metadata.as_ref().and_then(|of| of.event_payload["key"].as_str());
            m.buttons.len() > 10 && own.is_some_and(|own| own.starts_with(key))
        };
        let shown =
            desk.slack.wait_message(&desk.channel, Some(&root), PATIENCE, is_last).await.unwrap();
        assert!(shown.shown.contains("… (whole above)"), "{}", shown.shown);
    }
    desk.stop().await;
}

/// A pod writes what a failed run says: it may not call people with it.
#[tokio::test(flavor = "multi_thread")]
async fn a_line_of_the_product_calls_whom_it_is_for_and_nobody_whom_it_quotes() {
    let desk = Desk::start().await;
    let root = desk.said("make it better").await;
    let pm = desk.caller(&root, "pm").await;
    let (service, ana) = (desk.service(), format!("<@{}>", desk.ana));
    let text = format!("PM stopped: {ana} <!channel>");
    let quoted = service.notice(&pm.key(), "quoted", &text).await.unwrap();
    let people = [desk.ana.clone()];
    let meant = service.notice_to(&pm.key(), "meant", &text, &people).await.unwrap();
    let text_of = |ts: &codebutler_crds::SlackTs| {
        desk.slack.message(&desk.channel, ts.as_str()).unwrap().text
    };
    assert!(!text_of(&quoted).contains(&ana), "{}", text_of(&quoted));
    assert!(text_of(&meant).contains(&ana), "{}", text_of(&meant));
    assert!(!text_of(&meant).contains("<!channel>"), "{}", text_of(&meant));
    desk.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn learnings_are_judged_one_by_one_and_a_thumb_is_for_the_rest() {
    let desk = Desk::start().await;
    let root = desk.said("what did we learn?").await;
    let pm = desk.caller(&root, "pm").await;
    let learnings = ["Prices are **decimals**", "CI needs Node 20", "Ask before pushing"];
    let learnings = learnings.map(str::to_owned).to_vec();
    let message = PostMessage { learnings, ..post("l", "Learned today:") };
    let asked = desk.service().post(&pm, &message, None).await.unwrap().ts.to_string();
    assert_eq!(desk.buttons(&asked), 7, "two each, and one for the rest");
    desk.slack.click(&desk.ana, &desk.channel, &asked, "learning:2:reject").unwrap();
    desk.shows(&asked, "Rejected by").await;
    assert_eq!(desk.buttons(&asked), 5, "the others stay open");
    desk.slack.react_as(&desk.ana, &desk.channel, &asked, "+1").unwrap();
    desk.until("no buttons", || async { desk.buttons(&asked) == 0 }).await;
    let status = desk.thread(&root).await.unwrap().status.unwrap();
    let mut choices: Vec<_> = status.pending.iter().map(|p| p.choice.clone()).collect();
    choices.sort();
    assert_eq!(choices, ["approve 1", "approve 3", "reject 2"]);
    let shown = desk.slack.message(&desk.channel, &asked).unwrap().shown;
    assert_eq!(shown.matches("Approved by").count(), 2, "{shown}");
    desk.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_warning_before_the_end_has_two_buttons() {
    let desk = Desk::start().await;
    let root = desk.said("hello").await;
    let key = desk.caller(&root, "pm").await.key();
    let warn = async |id: &str| {
        desk.service().warn(&key, id, "Nobody has written here for two days.").await.unwrap();
        desk.thread(&root).await.unwrap().status.unwrap().warned.unwrap().to_string()
    };
    let first = warn("collecting-1").await;
    assert_eq!(desk.buttons(&first), 2);
    desk.slack.click(&desk.ana, &desk.channel, &first, "collect:keep").unwrap();
    desk.shows(&first, "Kept by").await;
    let status = desk.thread(&root).await.unwrap().status.unwrap();
    assert!(status.warned.is_none() && status.last_activity.is_some() && status.closing.is_none());

    // Any word keeps it too.
    let second = warn("collecting-2").await;
    desk.says(Some(&root), "wait, there is more");
    desk.shows(&second, "Kept by").await;

    let third = warn("collecting-3").await;
    desk.slack.click(&desk.ana, &desk.channel, &third, "collect:close").unwrap();
    desk.until("decided", || async {
        let status = desk.thread(&root).await.unwrap().status.unwrap();
        status.closing.is_some_and(|closing| closing.choice == Some(ClosingChoice::Discard))
    })
    .await;
    desk.until("no buttons", || async { desk.buttons(&third) == 0 }).await;
    desk.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn edits_and_deletions_count_until_a_role_takes_the_message() {
    let desk = Desk::start().await;
    let root = desk.said("the totla is wrong").await;
    desk.slack.edit_as(&desk.ana, &desk.channel, &root, "@codebutler.coder total!").unwrap();
    desk.until("the coder is woken", || async {
        inbox(&desk.thread(&root).await.unwrap(), "coder").is_some()
    })
    .await;
    let coder = desk.caller(&root, "coder").await;
    let read = desk.service().inbox(&coder, None, Duration::ZERO).await.unwrap();
    assert!(read.messages[0].text.contains("total!") && read.messages[0].addressed);
    // It is the coder's now, and the pm has nothing to read.
    desk.until("the pm sleeps", || async {
        !desk.thread(&root).await.unwrap().status.unwrap().wants("pm")
    })
    .await;

    // Without the name it would be for the coder, which is about to begin.
    let reply = desk.says(Some(&root), "@codebutler.pm no, wait");
    desk.slack.wait_acked(&reply, PATIENCE).await.unwrap();
    assert!(desk.thread(&root).await.unwrap().status.unwrap().wants("pm"));
    desk.slack.delete_as(&desk.ana, &desk.channel, &reply).unwrap();
    desk.until("nothing waits", || async {
        !desk.thread(&root).await.unwrap().status.unwrap().wants("pm")
    })
    .await;

    // A whole conversation taken back.
    let root = desk.said("never mind").await;
    desk.slack.delete_as(&desk.ana, &desk.channel, &root).unwrap();
    desk.until("nothing waits", || async {
        !desk.thread(&root).await.unwrap().status.unwrap().wants("pm")
    })
    .await;

    // An edit to a yes approves nothing.
    let root = desk.said("hm").await;
    let pm = desk.caller(&root, "pm").await;
    let plan = ask("p", "The plan", AskedDecision::Plan);
    desk.service().post(&pm, &plan, None).await.unwrap();
    let reply = desk.says(Some(&root), "let me think");
    desk.slack.wait_acked(&reply, PATIENCE).await.unwrap();
    desk.slack.edit_as(&desk.ana, &desk.channel, &reply, "approve").unwrap();
    let after = desk.says(Some(&root), "later");
    desk.slack.wait_acked(&after, PATIENCE).await.unwrap();
    let status = desk.thread(&root).await.unwrap().status.unwrap();
    assert_eq!(status.plan.unwrap().approved_by, None);
    desk.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_says_yes_beside_a_file_learns_that_it_decided_nothing() {
    let desk = Desk::start().await;
    let root = desk.said("make it better").await;
    let yes = async || {
        let file = ("instead.txt", &b"something else"[..]);
        let said = desk.slack.upload_as(&desk.ana, &desk.channel, Some(&root), "yes", file);
        desk.slack.wait_acked(&said.unwrap().0, PATIENCE).await.unwrap();
    };
    // Nothing is asked yet.
    yes().await;
    let pm = desk.caller(&root, "pm").await;
    let plan = ask("p", "The plan", AskedDecision::Plan);
    desk.service().post(&pm, &plan, None).await.unwrap();
    yes().await;
    desk.whispered(&desk.ana, &root, "a file, a table or a forwarded message").await;
    let said = desk.slack.messages(&desk.channel, Some(&root));
    assert_eq!(said.iter().filter(|one| one.ephemeral_for.is_some()).count(), 1, "{said:?}");
    let status = desk.thread(&root).await.unwrap().status.unwrap();
    assert_eq!(status.plan.unwrap().approved_by, None);
    desk.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bot_is_heard_only_where_the_repo_allows_it() {
    let desk = Desk::start().await;
    let say = |text: &str| desk.slack.post_as_other_bot("ci", &desk.channel, None, text).unwrap();
    let ignored = say("build 7 failed");
    desk.slack.wait_acked(&ignored, PATIENCE).await.unwrap();
    assert!(desk.thread(&ignored).await.is_none());
    // Whoever made it learns why nobody answers, once.
    let lines = |root: &str| {
        let said = desk.slack.messages(&desk.channel, Some(root));
        said.iter().filter(|one| one.text.contains("`B0CI`")).count()
    };
    let call = format!("<@{}> build 7 failed", desk.slack.bot_user_id());
    let first = say(&call);
    desk.until("it is told", || async { lines(&first) == 1 }).await;
    let second = say(&call);
    desk.slack.wait_acked(&second, PATIENCE).await.unwrap();
    assert!(desk.thread(&second).await.is_none());
    assert_eq!((lines(&first), lines(&second), lines(&ignored)), (1, 0, 0));

    let allowed = Patch::Merge(json!({"spec": {"slack": {"allowBots": ["B0CI"]}}}));
    let repos = Api::<Repo>::namespaced(desk.cluster.client(), &desk.place.team);
    repos.patch("shop", &PatchParams::default(), &allowed).await.unwrap();
    let heard = std::cell::RefCell::new(String::new());
    desk.until("heard", || async {
        let ts = say("build 8 failed");
        desk.slack.wait_acked(&ts, PATIENCE).await.unwrap();
        heard.replace(ts.clone());
        desk.thread(&ts).await.is_some()
    })
    .await;
    let root = heard.into_inner();
    let pm = desk.caller(&root, "pm").await;
    let read = desk.service().inbox(&pm, None, Duration::ZERO).await.unwrap();
    assert_eq!((&*read.messages[0].text, read.messages[0].addressed), ("build 8 failed", true));

    // It decides nothing.
    let plan = ask("p", "The plan", AskedDecision::Plan);
    desk.service().post(&pm, &plan, None).await.unwrap();
    let yes = desk.slack.post_as_other_bot("ci", &desk.channel, Some(&root), "approve").unwrap();
    desk.slack.wait_acked(&yes, PATIENCE).await.unwrap();
    let status = desk.thread(&root).await.unwrap().status.unwrap();
    assert_eq!(status.plan.unwrap().approved_by, None);
    // A line is posted behind the acknowledgement of what it answers: a second one would be here by now.
    assert_eq!((lines(&first), lines(&second), lines(&ignored)), (1, 0, 0));
    desk.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thumb_that_nobody_heard_is_read_back() {
    let mut desk = Desk::start().await;
    let root = desk.said("what did we learn?").await;
    desk.cursor().await;
    let pm = desk.caller(&root, "pm").await;
    let message =
        PostMessage { learnings: vec!["Tests first".to_owned()], ..post("l", "Learned:") };
    let asked = desk.service().post(&pm, &message, None).await.unwrap().ts.to_string();
    desk.gateway.take().unwrap().stop().await;

    desk.slack.hold_events();
    desk.slack.react_as(&desk.ana, &desk.channel, &asked, "+1").unwrap();
    // Emoji on anything else are nobody's answer.
    desk.slack.react_as(&desk.ana, &desk.channel, &root, "+1").unwrap();
    desk.slack.release_events(&EventRelease::Only(Vec::new()));
    desk.restart();
    desk.shows(&asked, "Approved by").await;
    let status = desk.thread(&root).await.unwrap().status.unwrap();
    assert_eq!(status.pending.len(), 1);
    desk.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thumb_on_a_plan_that_nobody_heard_is_read_back() {
    let mut desk = Desk::start().await;
    let root = desk.said("please plan").await;
    desk.cursor().await;
    let pm = desk.caller(&root, "pm").await;
    let plan = ask("p", "The plan", AskedDecision::Plan);
    let asked = desk.service().post(&pm, &plan, None).await.unwrap().ts.to_string();
    let later = desk.says(Some(&root), "let me think");
    desk.slack.wait_acked(&later, PATIENCE).await.unwrap();
    desk.gateway.take().unwrap().stop().await;

    let guest = desk.slack.create_guest("gus", "Gus Guest");
    desk.slack.add_member(&desk.channel, &guest).unwrap();
    desk.slack.hold_events();
    for user in [&guest, &desk.ana] {
        desk.slack.react_as(user, &desk.channel, &asked, "+1").unwrap();
    }
    desk.slack.release_events(&EventRelease::Only(Vec::new()));
    desk.restart();
    desk.shows(&asked, "Approved by").await;
    let status = desk.thread(&root).await.unwrap().status.unwrap();
    assert_eq!(status.plan.unwrap().approved_by.as_ref(), Some(&desk.ana));
    // A person who may not decide would hear so with each sweep.
    let told = desk.slack.messages(&desk.channel, Some(&root)).into_iter();
    assert_eq!(told.filter(|message| message.ephemeral_for.is_some()).count(), 0);
    desk.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_two_days_nothing_is_missing_and_nothing_comes_twice() {
    let mut desk = Desk::start().await;
    let old = desk.said("before").await;
    desk.cursor().await;
    desk.gateway.take().unwrap().stop().await;

    desk.slack.hold_events();
    let (mut roots, mut last) = (Vec::new(), String::new());
    for day in 0..3 {
        for n in 0..5 {
            roots.push(desk.says(None, &format!("day {day}, number {n}")));
        }
        last = desk.says(Some(&old), &format!("@codebutler.coder day {day}"));
        desk.slack.skip(Duration::from_hours(20));
    }
    roots.push(desk.says(None, "today"));
    desk.slack.release_events(&EventRelease::Only(Vec::new()));
    desk.restart();
    desk.until("all of it", || async {
        let mut all = desk.threads().await.len() == roots.len() + 1;
        for root in &roots {
            all &= desk.thread(root).await.is_some_and(|t| inbox(&t, "pm").is_some());
        }
        let coder = inbox(&desk.thread(&old).await.unwrap(), "coder");
        all && coder.is_some_and(|ts| ts.as_str() == last)
    })
    .await;
    for root in &roots {
        desk.eyes(root).await;
    }
    // The next start reads the same again, and changes nothing.
    let before: Vec<_> = desk.threads().await.into_iter().map(|t| t.metadata.uid).collect();
    desk.gateway.take().unwrap().stop().await;
    desk.restart();
    desk.slack.wait_connected(1, PATIENCE).await.unwrap();
    let next = desk.said("and on it goes").await;
    desk.eyes(&next).await;
    let after: Vec<_> = desk.threads().await.into_iter().map(|t| t.metadata.uid).collect();
    assert_eq!(after.len(), before.len() + 1);
    assert!(before.iter().all(|uid| after.contains(uid)));
    desk.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workspace_that_refuses_blocks_is_asked_in_words() {
    let desk = Desk::start().await;
    desk.slack.forget_block("actions");
    let root = desk.said("please plan").await;
    let pm = desk.caller(&root, "pm").await;
    let plan = ask("plan-1", "**Plan**: `src/a.rs:1`", AskedDecision::Plan);
    let plan = desk.service().post(&pm, &plan, None).await.unwrap().ts.to_string();
    let shown = desk.slack.message(&desk.channel, &plan).unwrap();
    assert!(shown.blocks.is_empty() && shown.text.contains("src/a.rs:1"), "{shown:?}");
    let choices = vec!["the first".to_owned(), "the second".to_owned()];
    let offer = PostMessage { choices, ..post("which", "Which one?") };
    let offer = desk.service().post(&pm, &offer, None).await.unwrap().ts.to_string();
    let shown = desk.slack.message(&desk.channel, &offer).unwrap();
    assert!(shown.blocks.is_empty() && shown.text.contains("the second"), "{shown:?}");
    let root = desk.said("another one").await;
    let pm = desk.caller(&root, "pm").await;
    let plan = ask("plan-2", "**Plan**: `src/b.rs:1`", AskedDecision::Plan);
    desk.service().post(&pm, &plan, None).await.unwrap();
    let yes = desk.says(Some(&root), "approve");
    desk.slack.wait_acked(&yes, PATIENCE).await.unwrap();
    let plan = desk.thread(&root).await.unwrap().status.unwrap().plan.unwrap();
    assert_eq!(plan.approved_by.as_deref(), Some(desk.ana.as_str()));
    desk.stop().await;
}
