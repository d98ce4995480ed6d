//! What git itself can do through the gateway, as a command in a pod would try.

use std::path::{Path, PathBuf};
use std::process::Output;

use codebutler_testbed::github::git::Git;

use super::World;

impl World {
    async fn git(&self, token: &str, folder: &Path, arguments: &[&str]) -> Output {
        let mut command = Git::command();
        command.arg("-C").arg(folder);
        command
            .args(["-c", &format!("http.extraHeader=Authorization: Bearer {}", self.token(token))]);
        command.args(["-c", "user.name=Ana", "-c", "user.email=ana@example.com"]);
        command.args(arguments).output().await.unwrap()
    }

    /// A clone with one commit of its own on the thread's branch.
    async fn clone(&self, token: &str) -> PathBuf {
        assert_eq!(self.get(token, "/v1/session").await.0, 200);
        let url = format!("{}/v1/git", self.url);
        let name = format!("work-{token}");
        let output = self.git(token, self.dir.path(), &["clone", "-q", &url, &name]).await;
        assert!(output.status.success(), "{output:?}");
        let folder = self.dir.path().join(name);
        self.ok(token, &folder, &["checkout", "-q", &self.branch]).await;
        std::fs::write(folder.join("a.txt"), "a\n").unwrap();
        self.ok(token, &folder, &["add", "."]).await;
        self.ok(token, &folder, &["commit", "-q", "-m", "Add a"]).await;
        folder
    }

    async fn ok(&self, token: &str, folder: &Path, arguments: &[&str]) {
        let output = self.git(token, folder, arguments).await;
        assert!(output.status.success(), "{arguments:?}: {output:?}");
    }

    async fn refused(&self, token: &str, folder: &Path, arguments: &[&str]) -> String {
        let output = self.git(token, folder, arguments).await;
        assert!(!output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stderr).unwrap()
    }
}

#[tokio::test]
async fn a_role_pushes_its_threads_branch_once_the_plan_is_approved() {
    let world = World::start(vec![]).await;
    let folder = world.clone("coder").await;
    let before = world.remote.branches().await.unwrap();
    let push = ["push", "origin", &world.branch];
    let said = world.refused("coder", &folder, &push).await;
    assert!(said.contains("a user has to approve the plan"), "{said}");
    assert!(said.contains("the plan is not approved yet"), "{said}");
    assert_eq!(world.remote.branches().await.unwrap(), before);

    world.approve_plan().await;
    world.ok("coder", &folder, &push).await;
    assert_eq!(world.remote.show(&world.branch, "a.txt").await.as_deref(), Some("a\n"));
    // Its own branch may be rewritten, and a large push comes in chunks.
    let large: Vec<u8> =
        (0..3_000_000_u32).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    std::fs::write(folder.join("large.bin"), large).unwrap();
    world.ok("coder", &folder, &["add", "."]).await;
    world.ok("coder", &folder, &["commit", "-q", "--amend", "-m", "Add b"]).await;
    world.ok("coder", &folder, &["push", "--force", "origin", &world.branch]).await;
    let log = world.remote.log(&format!("main..{}", world.branch)).await.unwrap();
    assert_eq!(log.len(), 1, "{log:?}");
    let metrics = world.metrics().await;
    assert!(metrics.contains(r#"outcome="refused"} 1"#), "{metrics}");
}

#[tokio::test]
async fn no_other_ref_changes_whoever_tries() {
    let world = World::start(vec![]).await;
    world.approve_plan().await;
    let folder = world.clone("coder").await;
    let before = world.remote.branches().await.unwrap();
    let own = format!("HEAD:refs/heads/{}", world.branch);
    for arguments in [
        &["push", "origin", "HEAD:refs/heads/main"][..],
        &["push", "--force", "origin", "HEAD:refs/heads/main"],
        &["push", "origin", "HEAD:refs/tags/v1"],
        &["push", "origin", "HEAD:refs/heads/codebutler/other"],
        &["push", "origin", &own, "HEAD:refs/heads/main"],
        &["push", "origin", &format!(":refs/heads/{}", world.branch)],
        &["push", "origin", ":refs/heads/main"],
        &["push", "--mirror", "origin"],
    ] {
        let said = world.refused("coder", &folder, arguments).await;
        assert!(said.contains("CodeButler: "), "{arguments:?}: {said}");
        assert_eq!(world.remote.branches().await.unwrap(), before, "{arguments:?}");
    }
    // The pm reads everything and pushes nothing.
    let folder = world.clone("pm").await;
    let said = world.refused("pm", &folder, &["push", "origin", &world.branch]).await;
    assert!(said.contains("may not push") && said.contains("403"), "{said}");
    assert_eq!(world.remote.branches().await.unwrap(), before);
}

#[tokio::test]
async fn a_push_that_hides_its_commands_goes_nowhere() {
    let world = World::start(vec![]).await;
    world.approve_plan().await;
    let url = format!("{}/v1/git/git-receive-pack", world.url);
    let zero = "0".repeat(40);
    let command = format!("{zero} {} refs/heads/main", "1".repeat(40));
    for (encoding, token, body, expected) in [
        ("gzip", "coder", command.clone(), 400),
        ("identity", "coder", "00zz".to_owned(), 400),
        ("identity", "coder", format!("{:04x}{command}", command.len() + 4), 400),
        // Straight to the push, without asking for the refs first.
        ("identity", "pm", format!("{:04x}{command}0000", command.len() + 4), 200),
    ] {
        let request = world
            .http
            .post(&url)
            .bearer_auth(world.token(token))
            .header("content-encoding", encoding);
        let status = request.body(body.clone()).send().await.unwrap().status().as_u16();
        assert_eq!(status, expected, "{body}");
    }
    let pushes = world.github.seen().iter().filter(|s| s.path.contains("receive-pack")).count();
    assert_eq!(pushes, 0);
}
