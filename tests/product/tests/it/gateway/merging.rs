//! Merging where GitHub needs more than the button.

use codebutler_crds::Repo;
use codebutler_crds::thread::{MergeWait, PullState, ThreadState};
use codebutler_testbed::github::RepositoryRules;
use serde_json::{Value, json};

use super::close::{decided, posts};
use super::watch::{told, watching};
use super::{World, eventually};

const CLOSE: &str = "/v1/close";

async fn close(world: &World) -> (u16, Value) {
    world.post("lead", CLOSE, &json!({"summary": "The total adds up now."})).await
}

fn message(body: &Value) -> &str {
    body["error"]["message"].as_str().unwrap_or_default()
}

async fn waits(world: &World) -> Option<MergeWait> {
    world.thread().await.status.unwrap().closing.unwrap().waits
}

async fn is_closed(world: &World) -> bool {
    world.thread().await.spec.state == ThreadState::Closed
}

async fn set_method(world: &World, method: &str) {
    let patch = json!({"spec": {"git": {"mergeMethod": method}}});
    world.cluster.patch::<Repo>(world.cluster.team(), "shop", &patch).await;
    let known = || world.gateway.work.context.repo(world.cluster.team(), "shop");
    eventually("the method is known", || async {
        known().and_then(|repo| repo.spec.git.merge_method).is_some()
    })
    .await;
}

#[tokio::test]
async fn what_the_repository_allows_is_taken_where_nobody_says_how() {
    let world = decided("merge").await;
    world.remote.set_rules(|rules| rules.squash = false).await.unwrap();
    let (status, closed) = close(&world).await;
    assert_eq!(status, 200, "{closed}");
    let main = world.remote.log("main").await.unwrap();
    assert_eq!(main[0].parents.len(), 2, "a merge commit: {main:?}");
    assert!(main[0].message.contains("Merge-approved-by: U7"), "{main:?}");
}

#[tokio::test]
async fn a_linear_history_is_kept_where_squashing_is_switched_off() {
    let world = decided("merge").await;
    let rules = |rules: &mut RepositoryRules| {
        (rules.squash, rules.rebase, rules.linear) = (false, true, true);
    };
    world.remote.set_rules(rules).await.unwrap();
    let (status, closed) = close(&world).await;
    assert_eq!(status, 200, "{closed}");
    let main = world.remote.log("main").await.unwrap();
    assert_eq!(main[0].parents.len(), 1, "rebased: {main:?}");
}

#[tokio::test]
async fn a_method_that_is_switched_off_is_named_with_githubs_words() {
    let world = decided("merge").await;
    world.remote.set_rules(|rules| rules.squash = false).await.unwrap();
    set_method(&world, "Squash").await;
    let (status, body) = close(&world).await;
    assert_eq!(status, 502, "{body}");
    for words in ["spec.git.mergeMethod", "`Squash`", "Squash merges are not allowed"] {
        assert!(message(&body).contains(words), "{body}");
    }
    assert_eq!(world.remote.log("main").await.unwrap().len(), 1);
}

#[tokio::test]
async fn commits_are_rebased_where_the_repo_says_so() {
    let world = decided("merge").await;
    world.remote.set_rules(|rules| rules.rebase = true).await.unwrap();
    world.remote.commit("main", "Bo", "Meanwhile", &[("z.txt", Some("z\n"))]).await.unwrap();
    set_method(&world, "Rebase").await;
    let (status, closed) = close(&world).await;
    assert_eq!(status, 200, "{closed}");
    let main = world.remote.log("main").await.unwrap();
    assert_eq!(main[1].message, "Meanwhile", "{main:?}");
    assert_eq!(
        (main[0].parents.len(), &*main[0].sha),
        (1, closed["mergeCommit"].as_str().unwrap())
    );
}

#[tokio::test]
async fn a_merge_that_meets_another_is_tried_again() {
    let world = decided("merge").await;
    world.remote.set_rules(|rules| rules.base_moves = 2).await.unwrap();
    let (status, closed) = close(&world).await;
    assert_eq!(status, 200, "{closed}");
    assert!(is_closed(&world).await);
}

#[tokio::test]
async fn a_merge_waits_for_required_checks_and_goes_on_by_itself() {
    let world = decided("merge").await;
    world.remote.set_rules(|rules| rules.required_checks = vec!["ci".into()]).await.unwrap();
    let (status, body) = close(&world).await;
    assert_eq!(status, 200, "{body}");
    let waiting = body["waiting"].as_str().unwrap_or_default();
    assert!(waiting.contains("waits until its required checks are green"), "{body}");
    assert!(waiting.contains("Required status check \"ci\" is expected."), "{body}");
    assert_eq!(waits(&world).await, Some(MergeWait::Checks));
    let (_, again) = close(&world).await;
    assert_eq!(again, body, "asked again, it still waits");
    assert_eq!(told(&world, "waits until its required checks"), 1, "{:?}", posts(&world));
    let head = world.remote.pulls().await.unwrap()[0].head_sha.clone();
    let _watch = watching(&world);
    world.remote.report_check(&head, "ci", Some("success"), "").await.unwrap();
    eventually("the thread is closed", || async { is_closed(&world).await }).await;
    let main = world.remote.log("main").await.unwrap().remove(0);
    assert!(main.message.contains("The total adds up now."), "{main:?}");
    assert!(main.message.contains("Merge-approved-by: U7"), "{main:?}");
    let pull = world.thread().await.status.unwrap().pull_request.unwrap();
    assert_eq!((pull.merge_commit, pull.state), (Some(main.sha), Some(PullState::Merged)));
    assert_eq!(told(&world, "Merged #1"), 1, "{:?}", posts(&world));
}

#[tokio::test]
async fn a_check_that_fails_ends_the_waiting_in_words_and_the_role_hears_it() {
    let world = decided("merge").await;
    world.remote.set_rules(|rules| rules.required_checks = vec!["ci".into()]).await.unwrap();
    assert_eq!(close(&world).await.0, 200);
    let head = world.remote.pulls().await.unwrap()[0].head_sha.clone();
    world.remote.report_check(&head, "ci", Some("failure"), "").await.unwrap();
    let _watch = watching(&world);
    eventually("told", || async { told(&world, "\"ci\" is failing") == 1 }).await;
    eventually("it waits no longer", || async { waits(&world).await.is_none() }).await;
    assert!(world.thread().await.status.unwrap().wants("lead"));
    // The decision still holds for this commit.
    world.remote.report_check(&head, "ci", Some("success"), "").await.unwrap();
    let (status, closed) = close(&world).await;
    assert_eq!((status, closed["mergeCommit"].is_string()), (200, true), "{closed}");
}

#[tokio::test]
async fn a_merge_queue_is_asked_watched_and_believed() {
    let world = decided("merge").await;
    world.remote.set_rules(|rules| rules.merge_queue = true).await.unwrap();
    let (status, body) = close(&world).await;
    assert_eq!(status, 200, "{body}");
    assert!(body["waiting"].as_str().unwrap_or_default().contains("GitHub merges"), "{body}");
    assert_eq!(world.remote.queue().await.unwrap(), [1]);
    assert_eq!(close(&world).await.1, body, "it is not put in twice");
    assert_eq!(waits(&world).await, Some(MergeWait::Queue));
    let _watch = watching(&world);
    world.remote.leave_queue(1, false).await.unwrap();
    eventually("told", || async { told(&world, "took it out of its merge queue") == 1 }).await;
    eventually("it waits no longer", || async { waits(&world).await.is_none() }).await;
    assert!(!is_closed(&world).await);
    assert_eq!(close(&world).await.0, 200);
    world.remote.leave_queue(1, true).await.unwrap();
    eventually("the thread is closed", || async { is_closed(&world).await }).await;
    assert_eq!(told(&world, "Merged #1"), 1, "{:?}", posts(&world));
    assert_eq!(world.remote.head(&world.branch).await, None, "the branch is gone");
}

#[tokio::test]
async fn githubs_words_are_masked_and_short() {
    let world = decided("merge").await;
    let secret = format!("ghp_{}", "a1B2".repeat(9));
    let name = format!("{secret} {}", "long ".repeat(100));
    world.remote.set_rules(|rules| rules.required_checks = vec![name.clone()]).await.unwrap();
    let head = world.remote.pulls().await.unwrap()[0].head_sha.clone();
    world.remote.report_check(&head, &name, Some("failure"), "").await.unwrap();
    let (status, body) = close(&world).await;
    assert_eq!(status, 502, "{body}");
    assert!(!body.to_string().contains(&secret) && message(&body).contains("redacted"), "{body}");
    let said = message(&body).split('“').nth(1).unwrap().split('”').next().unwrap();
    assert!(said.chars().count() <= 300, "{said}");
}

#[tokio::test]
async fn a_pull_request_with_another_base_is_not_merged() {
    let world = decided("merge").await;
    let start = world.remote.head("main").await.unwrap();
    world.remote.git().update_ref("refs/heads/next", &start, "").await.unwrap();
    world.remote.retarget(1, "next").await.unwrap();
    let (status, body) = close(&world).await;
    assert_eq!(status, 400, "{body}");
    assert!(message(&body).contains("into `next`") && message(&body).contains("`main`"), "{body}");
    assert_eq!(world.remote.head("next").await, Some(start));
    assert!(!is_closed(&world).await);
}

#[tokio::test]
async fn a_branch_that_a_ruleset_keeps_is_named_at_the_end() {
    let world = decided("merge").await;
    let keeps = |rules: &mut RepositoryRules| rules.no_deletions = Some("codebutler/".to_owned());
    world.remote.set_rules(keeps).await.unwrap();
    let (status, closed) = close(&world).await;
    assert_eq!(status, 200, "{closed}");
    assert!(is_closed(&world).await, "the merge is done all the same");
    let kept = format!("The branch `{}` stays: rules of the repository", world.branch);
    assert_eq!(told(&world, &kept), 1, "{:?}", posts(&world));
    assert!(world.remote.head(&world.branch).await.is_some());
}

#[tokio::test]
async fn a_rule_that_no_role_can_satisfy_is_told_to_the_role_and_to_people() {
    let own = || Some("codebutler/".to_owned());
    let signed = RepositoryRules { signed: own(), ..RepositoryRules::default() };
    let protected = RepositoryRules { no_pushes: own(), ..RepositoryRules::default() };
    for (set, said, told_as) in [
        (signed, "must have verified signatures", "CodeButler can't sign them"),
        (protected, "GH006: Protected branch update failed", "lets nobody push to this branch"),
    ] {
        let world = World::start(Vec::new()).await;
        world.approve_plan().await;
        let folder = world.clone("coder").await;
        world.remote.set_rules(|rules| *rules = set).await.unwrap();
        let push = ["push", "-q", "origin", &world.branch];
        let refused = world.refused("coder", &folder, &push).await;
        for words in [said, told_as, "`codebutler/**`"] {
            assert!(refused.contains(words), "{refused}");
        }
        eventually("the thread is told", || async { told(&world, told_as) == 1 }).await;
        world.refused("coder", &folder, &push).await;
        world.remote.set_rules(|rules| *rules = RepositoryRules::default()).await.unwrap();
        world.ok("coder", &folder, &push).await;
        assert_eq!(told(&world, told_as), 1, "once");
    }
}

#[tokio::test]
async fn a_branch_that_a_ruleset_forbids_is_told_as_that() {
    let world = World::start(Vec::new()).await;
    let forbidden = |rules: &mut RepositoryRules| {
        rules.no_branches = Some("codebutler/".to_owned());
    };
    world.remote.set_rules(forbidden).await.unwrap();
    let (status, body) = world.get("coder", "/v1/session").await;
    assert_eq!(status, 502, "{body}");
    for words in ["rulesets", "creations being restricted", "codebutler/**"] {
        assert!(message(&body).contains(words), "{body}");
    }
    assert!(!message(&body).contains("no repository"), "{body}");
    eventually("the thread is told", || async { told(&world, "creations being restricted") == 1 })
        .await;
    let conditions = world.repo().await.status.unwrap_or_default().conditions;
    assert!(conditions.iter().all(|c| c.type_ != "GitReachable" || c.status == "True"));
    world.remote.set_rules(|rules| rules.no_branches = None).await.unwrap();
    let (status, body) = world.get("coder", "/v1/session").await;
    assert_eq!(status, 200, "it goes on: {body}");
}
