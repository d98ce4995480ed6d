//! Git itself through the gateway, as a command in a pod would use it.

use std::path::{Path, PathBuf};
use std::process::Output;

use codebutler_crds::AgentRole;
use codebutler_testbed::github::HostFailure;
use codebutler_testbed::github::git::BareRepository;
use kube::api::DeleteParams;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::{World, eventually};

impl World {
    pub(super) async fn git(&self, token: &str, folder: &Path, arguments: &[&str]) -> Output {
        let mut command = BareRepository::command();
        command.arg("-C").arg(folder);
        command
            .args(["-c", &format!("http.extraHeader=Authorization: Bearer {}", self.token(token))]);
        command.args(["-c", "user.name=Ana", "-c", "user.email=ana@example.com"]);
        command.args(arguments).output().await.unwrap()
    }

    /// A clone with one commit of its own on the thread's branch.
    pub(super) async fn clone(&self, token: &str) -> PathBuf {
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

    pub(super) async fn ok(&self, token: &str, folder: &Path, arguments: &[&str]) {
        let output = self.git(token, folder, arguments).await;
        assert!(output.status.success(), "{arguments:?}: {output:?}");
    }

    /// A push's request as no Git would send it.
    pub(super) async fn raw_push(&self, token: &str, line: &str, pack: &[u8]) -> (u16, String) {
        let mut body = format!("{:04x}{line}0000", line.len() + 4).into_bytes();
        body.extend_from_slice(pack);
        let url = format!("{}/v1/git/git-receive-pack", self.url);
        let request = self.http.post(url).bearer_auth(self.token(token)).body(body);
        let response = request.send().await.unwrap();
        let status = response.status().as_u16();
        (status, String::from_utf8_lossy(&response.bytes().await.unwrap()).into_owned())
    }

    /// Returns the message of a condition of the Repo.
    pub(super) async fn condition(&self, type_: &str) -> String {
        let conditions = self.repo().await.status.unwrap_or_default().conditions;
        conditions.into_iter().find(|c| c.type_ == type_).map(|c| c.message).unwrap_or_default()
    }

    pub(super) async fn refused(&self, token: &str, folder: &Path, arguments: &[&str]) -> String {
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
    // A large push comes in chunks.
    let large: Vec<u8> =
        (0..2_000_000_u32).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    std::fs::write(folder.join("large.bin"), large).unwrap();
    world.ok("coder", &folder, &["add", "."]).await;
    world.ok("coder", &folder, &["commit", "-q", "-m", "Add b"]).await;
    world.ok("coder", &folder, &push).await;
    let log = world.remote.log(&format!("main..{}", world.branch)).await.unwrap();
    assert_eq!(log.len(), 2, "{log:?}");
    let metrics = world.metrics().await;
    assert!(metrics.contains(r#"outcome="refused"} 1"#), "{metrics}");
}

#[tokio::test]
async fn pointers_of_git_lfs_go_out_only_where_the_host_has_what_they_point_to() {
    let pointer = |letter: char| {
        let oid = letter.to_string().repeat(64);
        format!("version https://git-lfs.github.com/spec/v1\noid sha256:{oid}\nsize 12345\n")
    };
    let logo = pointer('a');
    let world = World::start(vec![]).await;
    world.remote.commit("main", "ana", "Paint", &[("logo.png", Some(&logo))]).await.unwrap();
    world.approve_plan().await;
    let folder = world.clone("coder").await;
    let push = ["push", "origin", &world.branch];
    // A pointer to Git LFS that is there already passes unchanged, also at another path.
    world.ok("coder", &folder, &["mv", "logo.png", "art.png"]).await;
    world.ok("coder", &folder, &["commit", "-q", "-m", "Move"]).await;
    world.ok("coder", &folder, &push).await;

    let change = async |text: &str| {
        std::fs::write(folder.join("art.png"), text).unwrap();
        world.ok("coder", &folder, &["commit", "-q", "-a", "-m", "Draw"]).await;
    };
    change(&pointer('b')).await;
    let said = world.refused("coder", &folder, &push).await;
    assert!(said.contains("art.png points to a content of Git LFS that"), "{said}");
    assert!(said.contains("(bbbbbbbbbbbb, 12345 bytes)"), "{said}");
    assert!(said.contains("ask a person to change them with git lfs"), "{said}");
    world.github.store_lfs(&"b".repeat(64), 12345);
    world.ok("coder", &folder, &push).await;

    change("\u{89}PNG").await;
    let said = world.refused("coder", &folder, &push).await;
    assert!(said.contains("art.png is kept in Git LFS, and would be a file"), "{said}");
    let shown = world.remote.show(&world.branch, "art.png").await.unwrap();
    assert_eq!(shown, pointer('b'));
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
    // Git reads an answer only once it has sent all of a push.
    let mut stream = TcpStream::connect(world.url.trim_start_matches("http://")).await.unwrap();
    let push = vec![b'x'; 48 << 20];
    let head = format!(
        "POST /v1/git/git-receive-pack HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\ncontent-encoding: gzip\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n",
        world.token("coder"),
        push.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(&push).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
    let pushes = world.github.seen().iter().filter(|s| s.path.contains("receive-pack")).count();
    assert_eq!(pushes, 0);
}

#[tokio::test]
async fn a_pushed_branch_is_taken_back_only_by_a_role_that_may() {
    let world = World::start(vec![]).await;
    world.approve_plan().await;
    let folder = world.clone("coder").await;
    world.ok("coder", &folder, &["push", "origin", &world.branch]).await;
    let before = world.remote.branches().await.unwrap();
    world.ok("coder", &folder, &["commit", "-q", "--amend", "-m", "Add b"]).await;
    let force = ["push", "--force", "origin", &world.branch];
    let said = world.refused("coder", &folder, &force).await;
    assert!(said.contains("may not take back what is on"), "{said}");
    assert!(said.contains("(non-fast-forward)"), "{said}");
    assert_eq!(world.remote.branches().await.unwrap(), before);

    let push = json!({"spec": {"push": {"rewrite": true}}});
    world.cluster.patch::<AgentRole>(world.cluster.system(), "coder", &push).await;
    eventually("the role's new right", || async {
        world.git("coder", &folder, &force).await.status.success()
    })
    .await;
    let log = world.remote.log(&format!("main..{}", world.branch)).await.unwrap();
    assert_eq!((log.len(), log[0].subject()), (1, "Add b"));
}

#[tokio::test]
async fn a_clone_shows_the_repository_and_no_other_threads_branch() {
    let world = World::start(vec![]).await;
    world
        .remote
        .commit("codebutler/other", "ben", "Elsewhere", &[("b.txt", Some("b\n"))])
        .await
        .unwrap();
    world.remote.commit("feature", "ben", "A feature", &[("c.txt", Some("c\n"))]).await.unwrap();
    let main = world.remote.head("main").await.unwrap();
    world.remote.git().run(&["tag", "v1", &main]).await.unwrap();
    let folder = world.clone("pm").await;
    for version in ["version=0", "version=2"] {
        let argument = format!("protocol.{version}");
        let list = ["-c", &argument, "ls-remote", "origin"];
        let output = world.git("pm", &folder, &list).await;
        let shown = String::from_utf8(output.stdout).unwrap();
        let names: Vec<&str> = shown.lines().filter_map(|line| line.split('\t').nth(1)).collect();
        let own = format!("refs/heads/{}", world.branch);
        assert_eq!(names, ["HEAD", &own, "refs/heads/feature", "refs/heads/main", "refs/tags/v1"]);
    }
    // Commits that people push are there at once.
    let tip = world.remote.commit("main", "ben", "Later", &[("d.txt", Some("d\n"))]).await.unwrap();
    world.ok("pm", &folder, &["fetch", "-q", "origin"]).await;
    let output = world.git("pm", &folder, &["rev-parse", "origin/main"]).await;
    assert_eq!(String::from_utf8(output.stdout).unwrap().trim(), tip);
}

#[tokio::test]
async fn many_clones_fetch_a_repository_once() {
    let world = World::start(vec![]).await;
    assert_eq!(world.get("pm", "/v1/session").await.0, 200);
    let url = format!("{}/v1/git", world.url);
    let clones = (0..6).map(|n| {
        let (world, url) = (&world, &url);
        async move {
            let name = format!("clone-{n}");
            world.ok("pm", world.dir.path(), &["clone", "-q", url, &name]).await;
        }
    });
    futures::future::join_all(clones).await;
    let packs = world.dir.path().join("cache");
    let mirror = std::fs::read_dir(packs).unwrap().next().unwrap().unwrap().path();
    let packs = std::fs::read_dir(mirror.join("objects/pack")).unwrap().flatten();
    let packs = packs.filter(|entry| entry.path().extension().is_some_and(|e| e == "pack")).count();
    assert_eq!(packs, 1);
}

#[tokio::test]
async fn while_the_host_is_away_clones_get_the_last_copy_and_pushes_wait() {
    let world = World::start(vec![]).await;
    world.approve_plan().await;
    let folder = world.clone("coder").await;
    for away in [HostFailure::HangsUp, HostFailure::Unavailable] {
        world.github.set_away(away);
        let url = format!("{}/v1/git", world.url);
        let name = format!("late-{away:?}");
        world.ok("coder", world.dir.path(), &["clone", "-q", &url, &name]).await;
        assert!(world.dir.path().join(name).join("README.md").exists());
        let condition = world.condition("GitReachable").await;
        assert!(condition.contains("clones and fetches get the last copy"), "{condition}");
        let said = world.refused("coder", &folder, &["push", "origin", &world.branch]).await;
        assert!(
            said.contains("remote error: CodeButler: ") && said.contains("try again"),
            "{said}"
        );
    }
    world.github.set_away(HostFailure::No);
    world.ok("coder", &folder, &["push", "origin", &world.branch]).await;
    assert!(world.condition("GitReachable").await.contains("accepts the credentials"));
}

#[tokio::test]
async fn a_damaged_copy_is_made_anew() {
    let world = World::start(vec![]).await;
    let folder = world.clone("pm").await;
    let mirror = std::fs::read_dir(world.dir.path().join("cache")).unwrap();
    let mirror = mirror.flatten().next().unwrap().path();
    for (n, damage) in ["objects", "refs", "HEAD", "config"].into_iter().enumerate() {
        if mirror.join(damage).is_dir() {
            std::fs::remove_dir_all(mirror.join(damage)).unwrap();
        } else {
            std::fs::write(mirror.join(damage), "nonsense").unwrap();
        }
        let file = format!("{n}.txt");
        world.remote.commit("main", "ben", "Later", &[(&file, Some("d\n"))]).await.unwrap();
        eventually("the copy to be made anew", || async {
            world
                .git("pm", &folder, &["pull", "-q", "--no-rebase", "--no-edit", "origin", "main"])
                .await
                .status
                .success()
        })
        .await;
        assert!(folder.join(&file).exists(), "{damage}");
    }
}

#[tokio::test]
async fn a_push_whose_answer_is_lost_is_found_and_not_repeated() {
    let world = World::start(vec![]).await;
    world.approve_plan().await;
    let folder = world.clone("coder").await;
    world.github.set_away(HostFailure::LosesAnswersToPushes);
    let output = world.git("coder", &folder, &["push", "origin", &world.branch]).await;
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && said.contains("it has taken the push"), "{said}");
    let tip = world.remote.head(&world.branch).await.unwrap();
    // The same request once more, as from a client that never heard.
    let zero = "0".repeat(40);
    let line = format!("{zero} {tip} refs/heads/{}\0report-status", world.branch);
    let (status, answer) = world.raw_push("coder", &line, &[]).await;
    assert_eq!((status, answer.contains(&format!("ok refs/heads/{}", world.branch))), (200, true));
    let pushes = world.github.seen().into_iter().filter(|s| s.path.ends_with("git-receive-pack"));
    assert_eq!(pushes.count(), 1);
}

#[tokio::test]
async fn a_token_that_is_refused_is_told_with_what_to_do() {
    let world = World::start(vec![]).await;
    world.approve_plan().await;
    let folder = world.clone("coder").await;
    world.cluster.secret("git", world.remote.url(), &json!({"token": "ghp_expired"})).await;
    let url = format!("{}/v1/git", world.url);
    let what = "refused the token of Secret `git`: put a valid one into it";
    for (folder, arguments) in [
        (world.dir.path(), &["clone", "-q", &url, "again"][..]),
        (world.dir.path(), &["-c", "protocol.version=0", "clone", "-q", &url, "again"]),
        (&folder, &["fetch", "origin"]),
        (&folder, &["push", "origin", &world.branch]),
    ] {
        let said = world.refused("coder", folder, arguments).await;
        let told = said.contains("remote error: CodeButler: ") && said.contains(what);
        assert!(told && !said.contains("ghp_"), "{arguments:?}: {said}");
    }
    // In the middle of a push, too: the refs were asked for while the token was good.
    let zero = "0".repeat(40);
    let line = format!(
        "{zero} {} refs/heads/{}\0report-status side-band-64k",
        "1".repeat(40),
        world.branch
    );
    let (status, said) = world.raw_push("coder", &line, b"").await;
    let ng = format!("ng refs/heads/{} the push failed", world.branch);
    assert!(status == 200 && said.contains(&ng) && said.contains(what), "{status} {said}");
    let condition = world.condition("GitReachable").await;
    assert!(condition.contains("put a valid one into it"), "{condition}");
    eventually("the thread is told what a person has to do", || async {
        world.told("I can't work in this repository") == 1 && world.told(what) == 1
    })
    .await;
    world.cluster.secret("git", world.remote.url(), &json!({"token": world.github.token()})).await;
    world.ok("coder", world.dir.path(), &["clone", "-q", &url, "again"]).await;
    world.ok("coder", &folder, &["push", "origin", &world.branch]).await;
    assert_eq!(world.told("I can't work in this repository"), 1);
}

#[tokio::test]
async fn a_thread_reads_so_many_at_once_and_is_told_why_no_more() {
    let world = World::start(vec![]).await;
    let folder = world.clone("coder").await;
    let reading = || {
        // A request that never ends.
        let body =
            reqwest::Body::wrap_stream(futures::stream::pending::<std::io::Result<Vec<u8>>>());
        let request = world.http.post(format!("{}/v1/git/git-upload-pack", world.url)).body(body);
        tokio::spawn(request.bearer_auth(world.token("coder")).send())
    };
    let open: Vec<_> = (0..8).map(|_| reading()).collect();
    eventually("the ninth is refused in words", || async {
        let output = world.git("coder", &folder, &["fetch", "-q", "origin"]).await;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        said.contains("remote error: CodeButler: this thread has 8 clones or fetches under way")
    })
    .await;
    assert!(world.metrics().await.contains(r#"outcome="busy""#));
    // Other threads' turn comes all the same, and this one's once it lets go.
    for one in open {
        one.abort();
    }
    eventually("there is room again", || async {
        world.git("coder", &folder, &["fetch", "-q", "origin"]).await.status.success()
    })
    .await;
}

#[tokio::test]
async fn the_copy_of_a_repo_that_is_gone_goes_too() {
    let world = World::start(vec![]).await;
    world.clone("pm").await;
    let copies = || {
        let found = std::fs::read_dir(world.dir.path().join("cache")).into_iter().flatten();
        found.flatten().filter(|e| e.path().extension().is_some_and(|e| e == "git")).count()
    };
    let tidy = || {
        let repos = world.gateway.work.context.repos.state();
        world.gateway.git.mirrors.keep_only(&repos);
    };
    tidy();
    assert_eq!(copies(), 1, "a Repo's own copy stays");
    world
        .cluster
        .api::<codebutler_crds::Repo>(world.cluster.team())
        .delete("shop", &DeleteParams::default())
        .await
        .unwrap();
    eventually("the copy is removed", || async {
        tidy();
        copies() == 0
    })
    .await;
}

#[tokio::test]
async fn what_an_earlier_process_left_is_read_while_the_host_is_away() {
    let world = World::start(vec![]).await;
    let folder = world.clone("coder").await;
    let next = world.successor().await;
    world.github.set_away(HostFailure::Unavailable);
    world.ok("coder", &folder, &["remote", "set-url", "origin", &format!("{next}/v1/git")]).await;
    world.ok("coder", &folder, &["fetch", "-q", "origin"]).await;
}
