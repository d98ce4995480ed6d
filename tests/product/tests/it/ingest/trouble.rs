//! A channel or an app that somebody took away: told on the Repo with what to do, and once it is done,
//! all goes on by itself.

use codebutler_crds::wire::ErrorCode;
use codebutler_testbed::slack::CallFault;

use super::desk::{Desk, PATIENCE};
use super::{inbox, post};

impl Desk {
    /// While `says` is on the Repo nothing can be posted; after `mend` the same post goes out.
    async fn is_mended_by(&self, says: &[&str], mend: impl AsyncFnOnce(&Self)) {
        let root = self.said("please plan").await;
        let pm = self.caller(&root, "pm").await;
        self.reachable().await;
        let message = post("one", "Here I am.");
        let bot = self.slack.bot_user_id();
        match says[0] {
            "archived" => self.slack.archive(&self.channel).unwrap(),
            "invite" => self.slack.remove_member(&self.channel, &bot).unwrap(),
            code => self.slack.revoke(Some(code)),
        }
        let refused = self.service().post(&pm, &message, None).await.unwrap_err();
        assert_eq!(refused.code, ErrorCode::Unavailable, "{}", refused.message);
        let told = self.unreachable().await;
        assert!(says.iter().all(|word| told.contains(word)), "{told}");
        mend(self).await;
        self.reachable().await;
        self.until("the same post", || async {
            self.service().post(&pm, &message, None).await.is_ok()
        })
        .await;
        let next = self.says(None, "and this?");
        self.slack.wait_acked(&next, PATIENCE).await.unwrap();
        assert!(inbox(&self.thread(&next).await.unwrap(), "pm").is_some());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_slack_says_of_a_refusal_is_told_masked_and_cut() {
    let desk = Desk::start().await;
    let root = desk.said("please plan").await;
    let pm = desk.caller(&root, "pm").await;
    let secret = "ghp_0123456789abcdefghijABCDEFGHIJ012345";
    let why = format!("must be valid: {secret} [json-pointer:/blocks/0] {}", "word ".repeat(200));
    let refused = CallFault::Explained("invalid_blocks".to_owned(), vec![why]);
    desk.slack.fail_next("chat.postMessage", 1, &refused);
    let told = desk.service().post(&pm, &post("k", "Hello."), None).await.unwrap_err().message;
    assert!(told.contains("invalid_blocks. It says: “must be valid"), "{told}");
    assert!(told.contains("[json-pointer:/blocks/0]") && !told.contains(secret), "{told}");
    assert!(told.chars().count() < 450, "{}", told.chars().count());
    // Trouble that hinders everything is told on the Repo.
    let refused = CallFault::Explained("org_login_required".to_owned(), vec![secret.to_owned()]);
    desk.slack.fail_next("conversations.history", 20, &refused);
    desk.slack.drop_connections();
    let told = desk.unreachable().await;
    assert!(told.contains("org_login_required. It says: “[redacted"), "{told}");
    desk.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_archived_channel_is_waited_for() {
    let desk = Desk::start().await;
    desk.is_mended_by(&["archived", "unarchive it"], async |desk| {
        desk.slack.unarchive(&desk.channel).unwrap();
        desk.slack.add_member(&desk.channel, &desk.slack.bot_user_id()).unwrap();
    })
    .await;
    desk.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removed_app_is_waited_for() {
    let desk = Desk::start().await;
    desk.is_mended_by(&["account_inactive", "install it again"], async |desk| {
        desk.slack.revoke(None);
    })
    .await;
    desk.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_channel_that_the_app_was_taken_out_of_is_waited_for() {
    let desk = Desk::start().await;
    desk.is_mended_by(&["invite", "spec.slack.channel"], async |desk| {
        desk.slack.add_member(&desk.channel, &desk.slack.bot_user_id()).unwrap();
    })
    .await;
    desk.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_channel_without_the_app_slack_is_not_asked_for_each_post() {
    const INFO: &str = "conversations.info";
    let desk = Desk::start().await;
    let root = desk.said("please plan").await;
    let pm = desk.caller(&root, "pm").await;
    desk.slack.remove_member(&desk.channel, &desk.slack.bot_user_id()).unwrap();
    let before = desk.slack.calls(INFO);
    for key in ["a", "b", "c", "d", "e", "f"] {
        let refused = desk.service().post(&pm, &post(key, "Here I am."), None).await.unwrap_err();
        assert!(refused.message.contains("invite"), "{}", refused.message);
    }
    // One for all of them, and one of a reading back that may have begun meanwhile.
    let asked = desk.slack.calls(INFO) - before;
    assert!((1..=2).contains(&asked), "{asked}");
    desk.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_whose_socket_mode_is_off_says_so_until_it_is_on_again() {
    let desk = Desk::start().await;
    desk.cursor().await;
    desk.reachable().await;
    desk.slack.enable_socket_mode(false);
    let told = desk.unreachable().await;
    assert!(told.contains("Socket Mode is off") && told.contains("`shop-slack`"), "{told}");
    let meanwhile = desk.says(None, "and this?");
    desk.slack.enable_socket_mode(true);
    desk.reachable().await;
    desk.until("it is heard", || async { desk.thread(&meanwhile).await.is_some() }).await;
    desk.stop().await;
}
