//! The GitHub fake, driven by octocrab and by git itself.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Output;
use std::time::Duration;

use codebutler_testbed::github::git::BareRepository;
use codebutler_testbed::github::{
    DrivenRepository, FirstCommit, GitHubOptions, GitHubServer, HostFailure, PullState,
    RepositoryRules,
};
use octocrab::Octocrab;
use octocrab::params::State;
use octocrab::params::pulls::MergeMethod;
use octocrab::params::repos::Reference;

struct Host {
    server: GitHubServer,
    remote: DrivenRepository,
    octo: Octocrab,
    dir: tempfile::TempDir,
}

impl Host {
    async fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("host");
        let server = GitHubServer::start(&path, GitHubOptions::default()).await.unwrap();
        let files = [("README.md", "# Shop\n"), ("src/a.txt", "one\ntwo\n")];
        let files: BTreeMap<_, _> =
            files.iter().map(|(p, t)| ((*p).to_owned(), (*t).to_owned())).collect();
        let remote =
            server.create_repo("acme", "shop", FirstCommit::Files(files), "main").await.unwrap();
        let octo = client(&server, server.token());
        Self { server, remote, octo, dir }
    }

    /// Runs git as a user would, with the token in the URL's place for a password.
    async fn git(&self, folder: &Path, arguments: &[&str]) -> Output {
        self.git_as(self.server.token(), folder, arguments).await
    }

    async fn git_as(&self, token: &str, folder: &Path, arguments: &[&str]) -> Output {
        let url = self.remote.url();
        let with = url.replace("http://", &format!("http://x-access-token:{token}@"));
        let mut command = BareRepository::command();
        command.arg("-C").arg(folder).arg("-c").arg(format!("url.{with}.insteadOf={url}"));
        command.args(["-c", "user.name=Ana", "-c", "user.email=ana@example.com"]);
        command.args(arguments).output().await.unwrap()
    }

    async fn clone(&self) -> std::path::PathBuf {
        let url = self.remote.url().to_owned();
        let output = self.git(self.dir.path(), &["clone", "--quiet", &url, "work"]).await;
        assert!(output.status.success(), "{output:?}");
        self.dir.path().join("work")
    }
}

fn client(server: &GitHubServer, token: &str) -> Octocrab {
    Octocrab::builder()
        .base_uri(server.api_url())
        .unwrap()
        .personal_token(token.to_owned())
        .build()
        .unwrap()
}

fn status_and_message(error: octocrab::Error) -> (u16, String, String) {
    let octocrab::Error::GitHub { source, .. } = error else { panic!("{error:?}") };
    let errors = serde_json::to_string(&source.errors).unwrap();
    (source.status_code.as_u16(), source.message, errors)
}

#[tokio::test]
async fn git_clones_and_pushes_only_with_the_token() {
    let host = Host::start().await;
    let url = host.remote.url().to_owned();
    let refused = host.git_as("wrong", host.dir.path(), &["clone", &url, "nope"]).await;
    assert!(!refused.status.success());

    let work = host.clone().await;
    // More than git sends in one piece, so that the body arrives compressed and chunked.
    let lines = (0..60_000u64).map(|n| format!("{:x}\n", n * 7_919 % 1_000_003));
    let big = lines.collect::<Vec<_>>().concat();
    std::fs::write(work.join("big.txt"), &big).unwrap();
    for arguments in [
        &["switch", "--quiet", "-c", "codebutler/x"][..],
        &["add", "."],
        &["commit", "--quiet", "-m", "Add numbers"],
        &["push", "--quiet", "origin", "HEAD"],
    ] {
        let output = host.git(&work, arguments).await;
        assert!(output.status.success(), "{arguments:?}: {output:?}");
    }
    assert_eq!(host.remote.show("codebutler/x", "big.txt").await, Some(big));
    assert_eq!(host.remote.log("main..codebutler/x").await.unwrap()[0].subject(), "Add numbers");
    let fetched = host.git(&work, &["fetch", "--quiet", "--depth=1", "origin", "main"]).await;
    assert!(fetched.status.success(), "{fetched:?}");
}

#[tokio::test]
async fn a_pull_request_lives_from_push_to_squash_merge() {
    let Host { remote, octo, .. } = &Host::start().await;
    let start = remote.head("main").await.unwrap();
    let pulls = octo.pulls("acme", "shop");

    let error = pulls.create("T", "codebutler/x", "main").send().await.unwrap_err();
    let (status, message, errors) = status_and_message(error);
    assert_eq!((status, message.as_str()), (422, "Validation Failed"));
    assert!(errors.contains(r#""field":"head"#) && errors.contains(r#""code":"invalid""#));

    let repos = octo.repos("acme", "shop");
    let branch = Reference::Branch("codebutler/x".to_owned());
    repos.create_ref(&branch, &start).await.unwrap();
    let (status, message, _) =
        status_and_message(repos.create_ref(&branch, &start).await.unwrap_err());
    assert_eq!((status, message.as_str()), (422, "Reference already exists"));
    let error = pulls.create("T", "codebutler/x", "main").send().await.unwrap_err();
    assert!(status_and_message(error).2.contains("No commits between main and codebutler/x"));

    let change = [("src/a.txt", Some("one\nTWO\n"))];
    let first = remote.commit("codebutler/x", "ana", "Shout", &change).await.unwrap();
    let pull =
        pulls.create("Shout two", "codebutler/x", "main").body("Because").send().await.unwrap();
    assert_eq!((pull.number, pull.head.sha.as_str()), (1, first.as_str()));
    let error = pulls.create("T", "codebutler/x", "main").send().await.unwrap_err();
    let text = status_and_message(error).2;
    assert!(text.contains("A pull request already exists for acme:codebutler/x."), "{text}");

    // The head follows pushes; a merge of what was seen before is refused.
    let more = [("src/b.txt", Some("three\n"))];
    let second = remote.commit("codebutler/x", "ana", "More", &more).await.unwrap();
    let listed = pulls.list().head("acme:codebutler/x").state(State::Open).send().await.unwrap();
    assert_eq!(listed.items[0].head.sha, second);
    let pull = pulls.get(1).await.unwrap();
    assert_eq!((pull.mergeable, pull.changed_files, pull.commits), (Some(true), Some(2), Some(2)));
    let stale = pulls.merge(1).method(MergeMethod::Squash).sha(&first).send().await.unwrap_err();
    let (status, message, _) = status_and_message(stale);
    assert_eq!(status, 409);
    assert_eq!(message, "Head branch was modified. Review and try the merge again.");

    pulls.update(1).title("Shout").body("Summary").send().await.unwrap();
    let files = pulls.list_files(1).await.unwrap().items;
    assert_eq!(
        files.iter().map(|f| f.filename.as_str()).collect::<Vec<_>>(),
        ["src/a.txt", "src/b.txt"]
    );
    assert!(files[0].patch.as_ref().unwrap().contains("+TWO"));

    let merged = pulls
        .merge(1)
        .method(MergeMethod::Squash)
        .sha(&second)
        .title("Shout (#1)")
        .message("Plan-approved-by: U1")
        .send()
        .await
        .unwrap();
    let log = remote.log("main").await.unwrap();
    assert_eq!(log.len(), 2);
    assert_eq!(Some(&log[0].sha), merged.sha.as_ref());
    assert_eq!(log[0].parents, [start]);
    assert_eq!(log[0].message, "Shout (#1)\n\nPlan-approved-by: U1");
    assert_eq!(remote.show("main", "src/b.txt").await.as_deref(), Some("three\n"));
    let again = pulls.merge(1).send().await.unwrap_err();
    assert_eq!(status_and_message(again).0, 405);

    repos.delete_ref(&branch).await.unwrap();
    let (status, message, _) = status_and_message(repos.delete_ref(&branch).await.unwrap_err());
    assert_eq!((status, message.as_str()), (422, "Reference does not exist"));
    let pull = remote.pulls().await.unwrap().remove(0);
    assert_eq!((pull.state, pull.title.as_str()), (PullState::Merged, "Shout"));
}

#[tokio::test]
async fn a_conflict_is_seen_and_refused() {
    let Host { remote, octo, .. } = &Host::start().await;
    let pulls = octo.pulls("acme", "shop");
    remote.commit("x", "ana", "Mine", &[("src/a.txt", Some("mine\n"))]).await.unwrap();
    pulls.create("Mine", "x", "main").send().await.unwrap();
    remote.commit("main", "bo", "Theirs", &[("src/a.txt", Some("theirs\n"))]).await.unwrap();
    assert_eq!(pulls.get(1).await.unwrap().mergeable, Some(false));
    let error = pulls.merge(1).method(MergeMethod::Squash).send().await.unwrap_err();
    assert_eq!(status_and_message(error).0, 405);
    // Without its branch a pull request is closed.
    octo.repos("acme", "shop").delete_ref(&Reference::Branch("x".to_owned())).await.unwrap();
    assert_eq!(remote.pulls().await.unwrap()[0].state, PullState::Closed);
}

#[tokio::test]
async fn typed_clients_read_everything_else() {
    let Host { remote, octo, server, .. } = &Host::start().await;
    let repo = octo.repos("acme", "shop").get().await.unwrap();
    assert_eq!(repo.default_branch.as_deref(), Some("main"));
    assert_eq!(octo.current().user().await.unwrap().login, "codebutler-bot");
    assert_eq!(octo.ratelimit().get().await.unwrap().rate.limit, 5000);

    let change = [("README.md", None), ("new.txt", Some("n\n"))];
    let head = remote.commit("a/b", "ana", "Move", &change).await.unwrap();
    let repos = octo.repos("acme", "shop");
    let branches = repos.list_branches().send().await.unwrap().items;
    assert_eq!(branches.iter().map(|b| b.name.as_str()).collect::<Vec<_>>(), ["a/b", "main"]);
    repos.get_ref(&Reference::Branch("a/b".to_owned())).await.unwrap();
    let commits = repos.list_commits().branch("a/b").per_page(1).send().await.unwrap();
    assert_eq!((commits.items[0].sha.as_str(), commits.next.is_some()), (head.as_str(), true));
    let compared = octo.commits("acme", "shop").compare("main", "a/b").send().await.unwrap();
    assert_eq!((compared.ahead_by, compared.behind_by), (1, 0));
    assert_eq!(compared.files.unwrap().len(), 2);
    let checks = octo.checks("acme", "shop");
    let runs = checks.list_check_runs_for_git_ref("a/b".to_owned().into()).send().await.unwrap();
    assert_eq!(runs.total_count, 0);

    octo.pulls("acme", "shop").create("T", "a/b", "main").send().await.unwrap();
    let issues = octo.issues("acme", "shop");
    issues.create_comment(1, "Nice").await.unwrap();
    let comments = issues.list_comments(1).send().await.unwrap();
    assert_eq!(comments.items[0].body.as_deref(), Some("Nice"));
    let reviews: serde_json::Value = octo
        .post("/repos/acme/shop/pulls/1/reviews", Some(&serde_json::json!({"event": "COMMENT"})))
        .await
        .unwrap();
    assert_eq!(reviews["state"], "COMMENTED");
    let reviews = octo.pulls("acme", "shop").list_reviews(1).send().await.unwrap();
    assert_eq!(reviews.items.len(), 1);

    let error = client(server, "wrong").repos("acme", "shop").get().await.unwrap_err();
    assert_eq!(status_and_message(error).1, "Bad credentials");
    let error = octo.repos("acme", "none").get().await.unwrap_err();
    assert_eq!(status_and_message(error).0, 404);
}

#[tokio::test]
async fn it_fails_on_demand() {
    let Host { server, octo, .. } = &Host::start().await;
    server.set_away(HostFailure::Unavailable);
    assert!(octo.repos("acme", "shop").get().await.is_err());
    server.set_away(HostFailure::HangsUp);
    assert!(octo.repos("acme", "shop").get().await.is_err());
    server.set_away(HostFailure::No);
    server.set_latency(Duration::from_millis(50));
    octo.repos("acme", "shop").get().await.unwrap();
    let statuses: Vec<u16> = server.seen().iter().map(|s| s.status).collect();
    assert_eq!(statuses, [503, 0, 200]);
}

#[tokio::test]
async fn pygithub_is_content() {
    let host = Host::start().await;
    let change = [("new.txt", Some("n\n"))];
    host.remote.commit("codebutler/x", "ana", "Add", &change).await.unwrap();
    let files = FirstCommit::Files(BTreeMap::from([("a.txt".to_owned(), "a\n".to_owned())]));
    let ruled = host.server.create_repo("acme", "ruled", files, "main").await.unwrap();
    let head = ruled.commit("codebutler/x", "ana", "Add", &change).await.unwrap();
    ruled.report_check(&head, "lint", Some("success"), "").await.unwrap();
    let strict = |rules: &mut RepositoryRules| {
        rules.required_checks = vec!["build".to_owned()];
        rules.no_branches = Some("locked/".to_owned());
        rules.auto_merge = true;
    };
    ruled.set_rules(strict).await.unwrap();
    let files = FirstCommit::Files(BTreeMap::from([("a.txt".to_owned(), "a\n".to_owned())]));
    let queued = host.server.create_repo("acme", "queued", files, "main").await.unwrap();
    queued.commit("codebutler/x", "ana", "Add", &change).await.unwrap();
    queued.set_rules(|rules| rules.merge_queue = true).await.unwrap();
    let env =
        [("GITHUB_API_URL", host.server.api_url()), ("GITHUB_TOKEN", host.server.token().into())];
    let client = crate::python::run("github_client.py", &["PyGithub==2.10.0"], &env);
    // Once the client has said that it waits, by a new title, the queue is done with it.
    let merging = async {
        let renamed = |seen: &codebutler_testbed::github::SeenRequest| {
            seen.method == "PATCH" && seen.path.ends_with("/repos/acme/queued/pulls/1")
        };
        while !host.server.seen().iter().any(renamed) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        queued.leave_queue(1, true).await.unwrap();
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = client => {}
        () = merging => {}
    }
}

#[tokio::test]
async fn git_meets_what_a_repository_forbids_and_where_it_went() {
    let host = Host::start().await;
    let work = host.clone().await;
    let push = async |to: &str| host.git(&work, &["push", "origin", &format!("HEAD:{to}")]).await;
    let said = |output: &Output| String::from_utf8_lossy(&output.stderr).into_owned();
    host.remote.set_rules(|rules| rules.no_branches = Some("locked/".to_owned())).await.unwrap();
    let refused = push("refs/heads/locked/x").await;
    let told = said(&refused);
    assert!(!refused.status.success() && told.contains("GH013"), "{told}");
    assert!(told.contains("creations being restricted"), "{told}");
    assert!(push("refs/heads/open/x").await.status.success());
    host.remote.set_rules(|rules| rules.no_branches = None).await.unwrap();
    assert!(push("refs/heads/locked/x").await.status.success());

    host.remote.set_rules(|rules| rules.archived = true).await.unwrap();
    let refused = push("refs/heads/open/y").await;
    let told = said(&refused);
    assert!(!refused.status.success() && told.contains("archived so it is read-only"), "{told}");
    assert!(host.git(&work, &["fetch", "--quiet"]).await.status.success(), "it can be read");
    host.remote.set_rules(|rules| rules.archived = false).await.unwrap();

    let moved = host.server.rename("acme", "shop", "store").await.unwrap();
    let output = host.git(&work, &["fetch", "origin", "main"]).await;
    assert!(output.status.success(), "{}", said(&output));
    assert!(push("refs/heads/after/x").await.status.success(), "a push follows it too");
    assert!(moved.branches().await.unwrap().contains_key("after/x"));
}
