//! Two Repos in one channel: who is meant is named or asked, once, and remembered.

use codebutler_crds::{Repo, Thread, condition, names};
use codebutler_testbed::slack::{CallFault, MessageView};
use kube::Api;
use kube::ResourceExt as _;

use super::desk::{Desk, PATIENCE};
use super::inbox;

async fn both() -> Desk {
    let mut desk = Desk::start().await;
    desk.second_repo().await;
    desk.gateway.take().unwrap().stop().await;
    desk.restart();
    desk.until("both to share the channel", || async {
        desk.reachable().await.contains("shares it with")
    })
    .await;
    desk
}

async fn of(desk: &Desk, repo: &str, root: &str) -> Option<Thread> {
    let name = names::thread_name(repo, &root.parse().unwrap());
    let api = Api::<Thread>::namespaced(desk.cluster.client(), &desk.place.team);
    api.get_opt(&name).await.unwrap()
}

async fn marked(desk: &Desk, repo: &str, root: &str, message: &str) {
    desk.until("the mark to be raised", || async {
        let thread = of(desk, repo, root).await;
        thread.and_then(|thread| inbox(&thread, "pm")).is_some_and(|ts| ts.as_str() == message)
    })
    .await;
}

async fn question(desk: &Desk, root: &str) -> MessageView {
    let asks = |message: &MessageView| message.text.contains("Which repository");
    desk.slack.wait_message(&desk.channel, Some(root), PATIENCE, asks).await.unwrap()
}

fn questions(desk: &Desk, root: &str) -> usize {
    let messages = desk.slack.messages(&desk.channel, Some(root));
    messages.iter().filter(|message| message.text.contains("Which repository")).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_names_its_repo_goes_there_and_its_thread_stays_there() {
    let desk = both().await;
    let root = desk.says(None, "the total in second is wrong");
    desk.slack.wait_acked(&root, PATIENCE).await.unwrap();
    let thread = of(&desk, "second", &root).await.unwrap();
    assert_eq!(inbox(&thread, "pm").unwrap().as_str(), root);
    desk.eyes(&root).await;
    // Whatever is named there later.
    let reply = desk.says(Some(&root), "as it was in shop");
    desk.slack.wait_acked(&reply, PATIENCE).await.unwrap();
    marked(&desk, "second", &root, &reply).await;
    let own = desk.says(None, "look at <https://git.example.org/acme/shop/pull/3>");
    desk.slack.wait_acked(&own, PATIENCE).await.unwrap();
    assert!(of(&desk, "shop", &own).await.is_some());
    assert_eq!((desk.threads().await.len(), questions(&desk, &root)), (2, 0));
    desk.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_names_none_is_asked_once_and_nothing_is_lost_until_somebody_answers() {
    let mut desk = both().await;
    // The question is posted, and the answer to that is lost.
    desk.slack.fail_next("chat.postMessage", 1, &CallFault::LostReply);
    let root = desk.says(None, "the sum of three apricots is wrong");
    desk.slack.wait_acked(&root, PATIENCE).await.unwrap();
    let asked = question(&desk, &root).await;
    assert_eq!(asked.buttons.len(), 2, "{asked:?}");
    let more = desk.says(Some(&root), "and that of four");
    desk.slack.wait_acked(&more, PATIENCE).await.unwrap();
    let still = |m: &MessageView| m.ephemeral_for.is_some() && m.text.contains("still open");
    desk.slack.wait_message(&desk.channel, Some(&root), PATIENCE, still).await.unwrap();

    // Between question and answer the process dies. What was said is in Slack alone.
    desk.gateway.take().unwrap().stop().await;
    let api = Api::<Repo>::namespaced(desk.cluster.client(), &desk.place.team);
    let kept = serde_json::to_string(&api.list(&<_>::default()).await.unwrap().items).unwrap();
    assert!(kept.contains(&root) && !kept.contains("apricots"), "{kept}");
    assert!(desk.threads().await.is_empty());
    desk.restart();
    desk.slack.wait_connected(1, PATIENCE).await.unwrap();
    let second = api.get("second").await.unwrap();
    let button = format!("repository:{}", second.uid().unwrap());
    let press = desk.slack.click(&desk.ana, &desk.channel, &asked.ts, &button).unwrap();
    desk.slack.wait_acked(&press, PATIENCE).await.unwrap();
    marked(&desk, "second", &root, &more).await;
    let settled = |m: &MessageView| m.buttons.is_empty() && m.shown.contains("chosen by");
    desk.slack
        .wait_for("the buttons to go", PATIENCE, |slack| {
            slack.message(&desk.channel, &asked.ts).filter(settled)
        })
        .await
        .unwrap();
    let reply = desk.says(Some(&root), "thanks");
    desk.slack.wait_acked(&reply, PATIENCE).await.unwrap();
    marked(&desk, "second", &root, &reply).await;
    assert_eq!((desk.threads().await.len(), questions(&desk, &root)), (1, 1));

    // Words answer as well.
    let root = desk.says(None, "and the difference, too");
    question(&desk, &root).await;
    let answer = desk.says(Some(&root), "In shop.");
    desk.slack.wait_acked(&answer, PATIENCE).await.unwrap();
    marked(&desk, "shop", &root, &answer).await;
    desk.until("nothing to be kept any more", || async {
        let repos = api.list(&<_>::default()).await.unwrap().items;
        repos.iter().all(|repo| repo.status.as_ref().is_none_or(|s| s.slack.unclear.is_empty()))
    })
    .await;
    assert_eq!((desk.threads().await.len(), questions(&desk, &root)), (2, 1));
    desk.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repo_that_cant_hear_is_named_and_reads_it_once_it_can() {
    let desk = Desk::start().await;
    desk.second_repo_of("second-slack").await;
    let api = Api::<Repo>::namespaced(desk.cluster.client(), &desk.place.team);
    let reaches = || async {
        let conditions = api.get("second").await.unwrap().status.unwrap_or_default().conditions;
        conditions.into_iter().find(|one| one.type_ == condition::SLACK_REACHABLE)
    };
    desk.until("the second one to say that it can't hear", || async {
        reaches()
            .await
            .is_some_and(|one| one.status == "False" && one.message.contains("second-slack"))
    })
    .await;
    // The first one hears for both, and works.
    let root = desk.says(None, "the total in second is wrong");
    desk.slack.wait_acked(&root, PATIENCE).await.unwrap();
    let deaf = |m: &MessageView| m.ephemeral_for.is_some() && m.text.contains("Nobody can answer");
    desk.slack.wait_message(&desk.channel, Some(&root), PATIENCE, deaf).await.unwrap();
    let own = desk.says(None, "the total in shop is wrong, too");
    desk.slack.wait_acked(&own, PATIENCE).await.unwrap();
    marked(&desk, "shop", &own, &own).await;
    assert_eq!((of(&desk, "second", &root).await, questions(&desk, &root)), (None, 0));

    desk.slack_secret("second-slack").await;
    marked(&desk, "second", &root, &root).await;
    desk.until("the second one to say that it hears", || async {
        reaches().await.is_some_and(|one| one.status == "True")
    })
    .await;
    assert_eq!((desk.threads().await.len(), questions(&desk, &root)), (2, 0));
    desk.stop().await;
}
