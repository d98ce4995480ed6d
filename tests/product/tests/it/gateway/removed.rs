//! Files that people removed from a thread's branch do not come back with a role's plain `git push`.

use std::path::Path;

use codebutler_crds::AgentRole;
use codebutler_crds::thread::BranchRadar;
use codebutler_gateway_core::dial::{DialOptions, OutsideDialer};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::{World, eventually};

impl World {
    async fn commits(&self, folder: &Path, path: &str) -> String {
        std::fs::write(folder.join(path), format!("{path}\n")).unwrap();
        self.ok("coder", folder, &["add", "."]).await;
        self.ok("coder", folder, &["commit", "-q", "-m", &format!("Add {path}")]).await;
        self.line(folder, &["rev-parse", "HEAD"]).await
    }

    async fn line(&self, folder: &Path, arguments: &[&str]) -> String {
        let output = self.git("coder", folder, arguments).await;
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// Moves the branch as a person's force push would.
    async fn force(&self, commit: &str) {
        let name = format!("refs/heads/{}", self.branch);
        self.remote.git().run(&["update-ref", &name, commit]).await.unwrap();
    }

    async fn radar(&self) -> BranchRadar {
        let status = self.thread().await.status.unwrap_or_default();
        status.radar.map(|radar| *radar).unwrap_or_default()
    }

    async fn removed(&self) -> Vec<String> {
        self.radar().await.removed.into_iter().map(|one| one.commit).collect()
    }

    /// A gateway that has no copy of the repository yet; its URL.
    async fn newcomer(&self) -> String {
        let open = vec!["127.0.0.0/8".parse().unwrap()];
        let options = DialOptions { egress_allow: open, ..DialOptions::default() };
        let dialer = OutsideDialer::new(&options).unwrap();
        let gateway = super::gateway_by(self, dialer, &CancellationToken::new()).await;
        super::serve(gateway).await
    }
}

#[tokio::test]
async fn a_removed_commit_does_not_come_back_with_a_plain_push() {
    let world = World::start(vec![]).await;
    world.approve_plan().await;
    let folder = world.clone("coder").await;
    let first = world.line(&folder, &["rev-parse", "HEAD"]).await;
    let gone = world.commits(&folder, "b.txt").await;
    let push = ["push", "origin", &world.branch];
    world.ok("coder", &folder, &push).await;
    assert_eq!(world.radar().await.tip.as_ref(), Some(&gone));

    world.force(&first).await;
    world.commits(&folder, "c.txt").await;
    let said = world.refused("coder", &folder, &push).await;
    let named = format!("`{} Add b.txt (Ana)` was removed from {}", &gone[..10], world.branch);
    for part in [&*named, "(noticed 20", "GitUpdate takes their branch over", "cherry-pick -x"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(!said.contains("Secrets, large"), "{said}");
    assert_eq!(world.remote.head(&world.branch).await.as_ref(), Some(&first));
    assert_eq!(world.removed().await, std::slice::from_ref(&gone));
    // Whoever serves later knows it, too.
    let newcomer = format!("{}/v1/git", world.newcomer().await);
    let head = format!("HEAD:refs/heads/{}", world.branch);
    let said = world.refused("coder", &folder, &["push", &newcomer, &head]).await;
    assert!(said.contains(&named), "{said}");

    // Under another id it is what it was.
    world.ok("coder", &folder, &["reset", "-q", "--hard", &first]).await;
    world.commits(&folder, "d.txt").await;
    world.ok("coder", &folder, &push).await;
    world.ok("coder", &folder, &["cherry-pick", &gone]).await;
    let again = world.line(&folder, &["rev-parse", "HEAD"]).await;
    assert_ne!(again, gone);
    let said = world.refused("coder", &folder, &push).await;
    assert!(said.contains(&named) && said.contains("makes the same change"), "{said}");
    // Unless it is said to be on purpose.
    world.ok("coder", &folder, &["reset", "-q", "--hard", "HEAD~1"]).await;
    world.ok("coder", &folder, &["cherry-pick", "-x", &gone]).await;
    world.ok("coder", &folder, &push).await;
    assert!(world.remote.show(&world.branch, "b.txt").await.is_some());
}

#[tokio::test]
async fn a_merge_brings_nothing_back_and_a_rebase_of_ones_own_is_fine() {
    let world = World::start(vec![]).await;
    world.approve_plan().await;
    let folder = world.clone("coder").await;
    let push = ["push", "origin", &world.branch];
    let moved = world.commits(&folder, "b.txt").await;
    world.ok("coder", &folder, &push).await;
    // A person put the branch on top of a newer base branch.
    let base =
        world.remote.commit("main", "ben", "Later", &[("z.txt", Some("z\n"))]).await.unwrap();
    let theirs = world.dir.path().join("theirs");
    world
        .ok("coder", world.dir.path(), &["clone", "-q", &format!("{}/v1/git", world.url), "theirs"])
        .await;
    world.ok("coder", &theirs, &["checkout", "-q", &world.branch]).await;
    world.ok("coder", &theirs, &["rebase", "-q", &base]).await;
    let rebased = world.line(&theirs, &["rev-parse", "HEAD"]).await;
    let into = world.remote.git().dir().to_str().unwrap().to_owned();
    let head = format!("+HEAD:refs/heads/{}", world.branch);
    world.ok("coder", &theirs, &["push", "-q", &into, &head]).await;

    world.commits(&folder, "c.txt").await;
    world.ok("coder", &folder, &["fetch", "-q", "origin"]).await;
    let own = world.line(&folder, &["rev-parse", "HEAD"]).await;
    let remote = format!("origin/{}", world.branch);
    world.ok("coder", &folder, &["merge", "-q", "--no-edit", &remote]).await;
    let said = world.refused("coder", &folder, &push).await;
    assert!(said.contains(&format!("`{} Add b.txt (Ana)` was removed", &moved[..10])), "{said}");
    world.ok("coder", &folder, &["reset", "-q", "--hard", &own]).await;
    world.ok("coder", &folder, &["rebase", "-q", &remote]).await;
    assert_eq!(world.line(&folder, &["rev-parse", "HEAD~1"]).await, rebased);
    world.ok("coder", &folder, &push).await;

    // Put back by a person, it is theirs again, and stays there.
    let tip = world.line(&folder, &["rev-parse", "HEAD"]).await;
    let old = format!("+{own}:refs/heads/{}", world.branch);
    world.ok("coder", &folder, &["push", "-q", &into, &old]).await;
    world.ok("coder", &folder, &["reset", "-q", "--hard", &own]).await;
    world.commits(&folder, "d.txt").await;
    world.ok("coder", &folder, &push).await;
    let removed = world.removed().await;
    assert!(removed.contains(&tip) && !removed.contains(&moved), "{removed:?}");
}

#[tokio::test]
async fn what_a_role_rewrites_itself_nobody_has_removed() {
    let world = World::start(vec![]).await;
    world.approve_plan().await;
    let push = json!({"spec": {"push": {"rewrite": true}}});
    world.cluster.patch::<AgentRole>(world.cluster.system(), "coder", &push).await;
    let folder = world.clone("coder").await;
    let push = ["push", "--force", "origin", &world.branch];
    let first = world.line(&folder, &["rev-parse", "HEAD"]).await;
    let second = world.commits(&folder, "b.txt").await;
    world.ok("coder", &folder, &push).await;
    world.ok("coder", &folder, &["reset", "-q", "--hard", &first]).await;
    eventually("the role's new right", || async {
        world.git("coder", &folder, &push).await.status.success()
    })
    .await;
    assert_eq!(world.remote.head(&world.branch).await.as_ref(), Some(&first));
    world.ok("coder", &folder, &["reset", "-q", "--hard", &second]).await;
    world.ok("coder", &folder, &push).await;
    assert_eq!(world.removed().await, [""; 0]);
    // A force push of its own brings back what a person removed as little as another.
    world.force(&first).await;
    world.commits(&folder, "c.txt").await;
    let said = world.refused("coder", &folder, &push).await;
    assert!(said.contains("Add b.txt (Ana)` was removed from"), "{said}");
}

#[tokio::test]
async fn a_removal_that_nobody_saw_is_known_by_the_branchs_last_commit() {
    let world = World::start(vec![]).await;
    world.approve_plan().await;
    let folder = world.clone("coder").await;
    let first = world.line(&folder, &["rev-parse", "HEAD"]).await;
    let gone = world.commits(&folder, "b.txt").await;
    world.ok("coder", &folder, &["push", "origin", &world.branch]).await;
    world.force(&first).await;
    world.commits(&folder, "c.txt").await;
    // Its copy of the repository is made after the removal.
    let newcomer = format!("{}/v1/git", world.newcomer().await);
    let head = format!("HEAD:refs/heads/{}", world.branch);
    let said = world.refused("coder", &folder, &["push", &newcomer, &head]).await;
    assert!(said.contains(&format!("`{} Add b.txt", &gone[..10])), "{said}");
    assert_eq!(world.remote.head(&world.branch).await.as_ref(), Some(&first));
}
