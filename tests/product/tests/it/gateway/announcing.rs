//! Announcements in a channel, where Slack keeps no key for a post: made once, also where its answer is lost.

use std::sync::Arc;
use std::time::Duration;

use codebutler_crds::Repo;
use codebutler_gateway::guides;
use codebutler_testbed::slack::CallFault;
use serde_json::json;
use tokio_util::task::AbortOnDropHandle;

use super::{World, eventually};

impl World {
    /// Commits to the base branch, and has it judged from then on by a gateway whose first post gets no answer.
    async fn judges(&self, files: &[(&str, Option<&str>)]) -> AbortOnDropHandle<()> {
        self.remote.commit("main", "ana", "Change how we work", files).await.unwrap();
        self.clone("coder").await;
        self.slack.fail_next("chat.postMessage", 1, &CallFault::LostReply);
        let work = Arc::clone(&self.gateway.work);
        AbortOnDropHandle::new(tokio::spawn(async move {
            guides::run_guides(&work, Duration::from_millis(200)).await;
        }))
    }

    /// Number of messages at top level that say this.
    fn announced(&self, words: &str) -> usize {
        let all = self.slack.messages(&self.channel, None).into_iter();
        all.filter(|message| message.shown.contains(words)).count()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_offer_to_learn_whose_answer_is_lost_is_made_once() {
    let world = World::start(vec![]).await;
    let ready = json!({"type": "Ready", "status": "True", "reason": "Ready", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let status = json!({"status": {"conditions": [ready]}});
    world.cluster.patch::<Repo>(world.cluster.team(), "shop", &status).await;
    let _judging = world.judges(&[("src/total.py", Some("def total(): pass\n"))]).await;
    eventually("the offer is on record", || async {
        let status = world.repo().await.status.unwrap();
        status.learning.is_some_and(|offer| offer.settled)
    })
    .await;
    assert_eq!(world.announced("has no `.codebutler/` yet"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn mistakes_are_announced_once_where_the_answer_is_lost() {
    let world = World::start(vec![]).await;
    let _judging =
        world.judges(&[(".codebutler/policy.json", Some("{\"destructiv\": []}\n"))]).await;
    eventually("it is on record that the channel knows", || async {
        let status = world.repo().await.status.unwrap_or_default();
        status.guides.is_some_and(|guides| guides.told)
    })
    .await;
    assert_eq!(world.announced("has mistakes on"), 1);
}
