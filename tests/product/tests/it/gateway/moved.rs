//! Repositories that are not where they were, or can't be changed any more.

use codebutler_gateway_core::github::GitHub;

use super::World;

#[tokio::test]
async fn a_renamed_repository_goes_on_and_the_repo_names_its_new_address() {
    let world = World::start(Vec::new()).await;
    let remote = world.github.rename("acme", "shop", "store").await.unwrap();
    let (status, body) = world.get("coder", "/v1/session").await;
    assert_eq!(status, 200, "{body}");
    assert!(remote.head(&world.branch).await.is_some(), "the branch is where the repository is");
    world.approve_plan().await;
    let folder = world.clone("coder").await;
    let condition = world.condition("GitReachable").await;
    assert!(condition.contains("acme/store by now"), "{condition}");
    assert!(condition.contains("set spec.git.url to"), "{condition}");
    world.ok("coder", &folder, &["push", "origin", &world.branch]).await;
}

#[tokio::test]
async fn a_repository_that_was_given_away_is_not_followed_to_its_new_owner() {
    let world = World::start(Vec::new()).await;
    let remote = world.github.transfer("acme", "shop", "stranger").await.unwrap();
    let (status, body) = world.get("coder", "/v1/session").await;
    assert_eq!(status, 502, "{body}");
    let message = body["error"]["message"].as_str().unwrap_or_default();
    assert!(message.contains("has moved: correct spec.git.url"), "{body}");
    assert_eq!(remote.head(&world.branch).await, None, "nothing is made there");
}

#[tokio::test]
async fn an_owner_that_was_renamed_is_followed() {
    let world = World::start(Vec::new()).await;
    let remote = world.github.transfer("acme", "shop", "acme-inc").await.unwrap();
    world.github.forget_account("acme");
    let (status, body) = world.get("coder", "/v1/session").await;
    assert_eq!(status, 200, "{body}");
    assert!(remote.head(&world.branch).await.is_some());
    world.clone("coder").await;
    let condition = world.condition("GitReachable").await;
    assert!(condition.contains("acme-inc/shop by now"), "{condition}");
}

#[tokio::test]
async fn an_archived_repository_is_told_as_that() {
    let world = World::start(Vec::new()).await;
    world.remote.set_rules(|rules| rules.archived = true).await.unwrap();
    let (status, body) = world.get("coder", "/v1/session").await;
    assert_eq!(status, 502, "{body}");
    let message = body["error"]["message"].as_str().unwrap_or_default();
    assert!(message.contains("is archived") && message.contains("unarchive it"), "{body}");
    assert!(world.condition("GitReachable").await.contains("is archived"));
    world.remote.set_rules(|rules| rules.archived = false).await.unwrap();
    assert_eq!(world.get("coder", "/v1/session").await.0, 200, "it goes on");
}

#[tokio::test]
async fn a_branch_is_not_found_under_the_name_that_it_had_before() {
    let world = World::start(Vec::new()).await;
    let github = GitHub::of(&world.gateway.work.context, &world.repo().await).await.unwrap();
    let tip = async |branch: &str| github.tip(branch).await.unwrap().map(|tip| tip.commit);
    assert_eq!(tip("main").await, world.remote.head("main").await);
    world.remote.rename_branch("main", "trunk").await.unwrap();
    assert_eq!(tip("main").await, None);
    let led = world.github.seen().iter().any(|seen| seen.path.ends_with("/branches/trunk"));
    assert!(led, "GitHub leads on to the new name");
    assert_eq!(tip("trunk").await, world.remote.head("trunk").await);
}

#[tokio::test]
async fn no_role_works_without_the_base_branch_and_the_thread_reads_why() {
    let world = World::start(Vec::new()).await;
    world.approve_plan().await;
    let folder = world.clone("coder").await;
    world.remote.rename_branch("main", "trunk").await.unwrap();
    let said = world.refused("coder", &folder, &["fetch", "origin"]).await;
    let why = "the repository has no branch `main` (its default branch is `trunk`): check spec.git.branch";
    assert!(said.contains(why), "{said}");
    let condition = world.condition("GitReachable").await;
    assert!(condition.contains(why), "{condition}");
    world.remote.rename_branch("trunk", "main").await.unwrap();
    world.ok("coder", &folder, &["fetch", "origin"]).await;
    assert!(world.condition("GitReachable").await.contains("accepts"), "it goes on");
}
