//! People named by a user group of Slack.

use codebutler_crds::{Repo, condition};
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::desk::{Desk, PATIENCE, Setting};

impl Desk {
    async fn lets_in(&self, users: &[&str]) {
        let repos = Api::<Repo>::namespaced(self.cluster.client(), &self.place.team);
        let patch = Patch::Merge(json!({"spec": {"access": {"users": users}}}));
        repos.patch("shop", &PatchParams::default(), &patch).await.unwrap();
    }

    /// Waits until the gateway counts so many people and groups.
    async fn knows(&self, names: usize) {
        let context = &self.gateway().context;
        self.until("it is known who may", || async {
            let repo = context.repo(&self.place.team, "shop");
            repo.is_some_and(|repo| repo.spec.access.users.len() == names)
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_stands_for_its_members_and_one_that_is_not_known_for_nobody() {
    let mut desk = Desk::start().await;
    let bob = desk.slack.create_user("bob", "Bob Example");
    desk.slack.add_member(&desk.channel, &bob).unwrap();
    desk.slack.set_group("S0TEAM", &[&desk.ana]);
    desk.lets_in(&["S0TEAM", "S0GONE"]).await;
    desk.knows(3).await;
    let root = desk.said("the total is wrong").await;
    assert!(desk.thread(&root).await.is_some());
    let stranger = desk.slack.post_as(&bob, &desk.channel, None, "and mine").unwrap();
    desk.slack.wait_acked(&stranger, PATIENCE).await.unwrap();
    desk.whispered(&bob, &stranger, "You can't steer here").await;
    assert!(desk.thread(&stranger).await.is_none());
    // Asked for once, not with every message.
    let asked = desk.slack.calls("usergroups.users.list");
    assert_eq!(asked, 2);
    // Known before anything is heard, also by the next process.
    desk.gateway.take().unwrap().stop().await;
    desk.slack.set_group("S0TEAM", &[&desk.ana, &bob]);
    desk.restart();
    desk.slack.wait_connected(1, PATIENCE).await.unwrap();
    let later = desk.slack.post_as(&bob, &desk.channel, None, "and now?").unwrap();
    desk.slack.wait_acked(&later, PATIENCE).await.unwrap();
    assert!(desk.thread(&later).await.is_some());
    desk.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_that_may_not_see_groups_says_so_on_the_repo() {
    let scopes = &["assistant:write", "channels:history", "chat:write", "users:read"];
    let desk = Desk::with(Setting { scopes: Some(scopes), ..Setting::default() }).await;
    desk.slack.wait_connected(1, PATIENCE).await.unwrap();
    desk.slack.set_group("S0TEAM", &[&desk.ana]);
    desk.lets_in(&["S0TEAM"]).await;
    desk.until("it is said", || async {
        let conditions = desk.repo().await.status.unwrap_or_default().conditions;
        conditions.iter().any(|one| {
            one.type_ == condition::SLACK_REACHABLE && one.message.contains("usergroups:read")
        })
    })
    .await;
    // It lets nobody in rather than everybody.
    let root = desk.says(None, "the total is wrong");
    desk.slack.wait_acked(&root, PATIENCE).await.unwrap();
    assert!(desk.thread(&root).await.is_none());
    desk.stop().await;
}
