//! The end of threads that nobody needs: warned, kept by a word, or archived and undone everywhere.

use codebutler_crds::Thread;
use codebutler_crds::thread::ThreadState;
use codebutler_testbed::github::PullState;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::close::posts;
use super::pull_request::with_a_commit;
use super::{World, eventually};

const WARNING: &str = "In a day I remove worktree and branch";

impl World {
    /// Sets the last activity back, as if nobody had written for so long.
    async fn silent_for(&self, hours: i64) {
        let at = Timestamp::now() - SignedDuration::from_hours(hours);
        self.patch_thread(&json!({"status": {"lastActivity": at}})).await;
    }

    /// The reason of the condition `Collecting`.
    async fn collecting(&self) -> Option<String> {
        let conditions = self.thread().await.status.unwrap().conditions;
        let found = conditions.into_iter().find(|c| c.type_ == "Collecting");
        found.map(|condition| condition.reason)
    }

    /// Sets the warning back, as if it had been given so long ago, and the thread were due.
    async fn warned_for(&self, hours: i64) {
        let is_recorded = || async { self.thread().await.status.unwrap().warned.is_some() };
        eventually("the warning is on record", is_recorded).await;
        let at = Timestamp::now() - SignedDuration::from_hours(hours);
        let warned = format!("{}.000100", at.as_second());
        let mut conditions = self.collecting_since(at).await;
        // Told in one write with the time: a silence of another time would be warned of once more.
        for condition in conditions.iter_mut().filter(|c| c.type_ == "Collecting") {
            "Due".clone_into(&mut condition.reason);
        }
        self.patch_thread(&json!({"status": {"warned": warned, "conditions": conditions}})).await;
    }

    /// Sets the condition back alone, as if nobody could have been warned.
    async fn collecting_for(&self, hours: i64) {
        let at = Timestamp::now() - SignedDuration::from_hours(hours);
        let conditions = self.collecting_since(at).await;
        self.patch_thread(&json!({"status": {"conditions": conditions}})).await;
    }

    async fn collecting_since(&self, at: Timestamp) -> Vec<Condition> {
        let mut conditions = self.thread().await.status.unwrap().conditions;
        for condition in conditions.iter_mut().filter(|c| c.type_ == "Collecting") {
            condition.last_transition_time.0 = at;
        }
        conditions
    }

    async fn is_warned(&self) {
        self.silent_for(49).await;
        eventually("it is warned of", || async { self.collecting().await.is_some() }).await;
    }

    /// Somebody writes, and the role that it is for has answered.
    async fn answered(&self, text: &str) {
        let root = Some(self.root.as_str());
        let ts = self.slack.post_as(&self.ana(), &self.channel, root, text).unwrap();
        let heard = || async {
            let status = self.thread().await.status.unwrap();
            let inbox = status.roles.get("pm").and_then(|pm| pm.inbox.as_ref());
            inbox.is_some_and(|inbox| inbox.to_string() == ts)
        };
        eventually("it is heard", heard).await;
        self.patch_thread(&json!({"status": {"roles": {"pm": {"done": ts}}}})).await;
    }

    fn warnings(&self) -> usize {
        posts(self).iter().filter(|text| text.contains(WARNING)).count()
    }

    fn archive(&self) -> String {
        format!("refs/codebutler/archive/{}", self.name)
    }

    fn is_closed(thread: &Thread) -> bool {
        thread.spec.state == ThreadState::Closed
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_thread_is_warned_kept_by_a_word_and_else_archived_and_undone() {
    let world = with_a_commit().await;
    world.approve_plan().await;
    let wanted = json!({"title": "Fix the total", "body": "Because."});
    let (status, pull) = world.post("coder", "/v1/pull-request", &wanted).await;
    assert_eq!(status, 200, "{pull}");
    let _running = world.run().await;
    // The gateway's record of the pull request got lost: it is stale.
    world.patch_thread(&json!({"status": {"pullRequest": null}})).await;
    let (slack, stop) = (world.gateway.work.slack.clone(), CancellationToken::new());
    let hearing = stop.clone();
    let hearing = tokio::spawn(async move { slack.run(hearing).await.unwrap() });
    let _hearing = AbortOnDropHandle::new(hearing);
    world.slack.wait_connected(1, std::time::Duration::from_mins(1)).await.unwrap();

    // Earlier messages are read first; the person who was asked has answered.
    world.answered("hello").await;
    world.is_warned().await;
    eventually("the thread is warned", || async { world.warnings() == 1 }).await;
    world.answered("keep").await;
    eventually("it is kept", || async { world.collecting().await.is_none() }).await;
    assert!(!World::is_closed(&world.thread().await));

    // Nobody writes any more.
    world.is_warned().await;
    eventually("it is warned again", || async { world.warnings() == 2 }).await;
    let head = world.remote.head(&world.branch).await.unwrap();
    world.warned_for(25).await;
    eventually("it is closed", || async { World::is_closed(&world.thread().await) }).await;
    assert_eq!(world.remote.head(&world.branch).await, None, "the branch is gone");
    assert_eq!(world.remote.git().commit_id(&world.archive()).await, Some(head));
    assert_eq!(world.remote.pulls().await.unwrap()[0].state, PullState::Closed);
    let said = posts(&world);
    let last: Vec<_> = said.iter().filter(|text| text.contains("this thread is closed")).collect();
    assert_eq!(last.len(), 1, "{said:?}");
    assert!(last[0].contains(&format!("git fetch origin {}", world.archive())), "{last:?}");
    assert!(last[0].contains("The plan was approved."), "{last:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_thread_whose_conversation_was_deleted_ends_at_once() {
    let world = with_a_commit().await;
    let _running = world.run().await;
    world.slack.delete_as(&world.ana(), &world.channel, &world.root).unwrap();
    world.is_warned().await;
    eventually("it is closed", || async { World::is_closed(&world.thread().await) }).await;
    assert_eq!(world.remote.head(&world.branch).await, None, "the branch is gone");
    assert!(world.remote.git().commit_id(&world.archive()).await.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_thread_of_an_archived_channel_is_as_it_was_for_a_week() {
    let world = with_a_commit().await;
    let _running = world.run().await;
    world.slack.archive(&world.channel).unwrap();
    world.is_warned().await;
    let is_due = || async { world.collecting().await.as_deref() == Some("Due") };
    world.collecting_for(25).await;
    eventually("it is due", is_due).await;
    let before = world.slack.calls("conversations.replies");
    let is_tried = || async { world.slack.calls("conversations.replies") > before };
    eventually("the warning is tried", is_tried).await;

    // Whoever takes the archiving back finds it, and is warned.
    world.slack.unarchive(&world.channel).unwrap();
    world.slack.add_member(&world.channel, &world.slack.bot_user_id()).unwrap();
    eventually("the thread is warned", || async { world.warnings() == 1 }).await;
    assert!(!World::is_closed(&world.thread().await));
    assert!(world.remote.head(&world.branch).await.is_some(), "the branch is there");

    // Nobody does.
    world.slack.archive(&world.channel).unwrap();
    world.collecting_for(8 * 24).await;
    eventually("it is closed", || async { World::is_closed(&world.thread().await) }).await;
    assert_eq!(world.remote.head(&world.branch).await, None, "the branch is gone");
    assert!(world.remote.git().commit_id(&world.archive()).await.is_some());
}
