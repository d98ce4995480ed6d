//! A GitHub App in place of a token.

use codebutler_crds::Repo;
use codebutler_testbed::github::HostFailure;
use codebutler_testbed::github::app::{ID, KEY, LOGIN};
use codebutler_testbed::models::ModelScript;
use serde_json::{Value, json};

use super::close::posts;
use super::pull_request::with_a_commit;
use super::{World, eventually};

const ENOUGH: [(&str, &str); 4] =
    [("contents", "write"), ("pull_requests", "write"), ("checks", "read"), ("issues", "write")];

/// Has the Repo use a Secret with these keys.
async fn use_secret(world: &World, name: &str, data: &Value) {
    world.cluster.secret(name, world.remote.url(), data).await;
    let patch = json!({"spec": {"git": {"credentials": {"name": name}}}});
    world.cluster.patch::<Repo>(world.cluster.team(), "shop", &patch).await;
    eventually("the gateway knows the Secret's name", || async {
        let cached = world.gateway.work.context.repo(world.cluster.team(), "shop").unwrap();
        cached.spec.git.credentials.name == name
    })
    .await;
}

#[tokio::test]
async fn it_works_by_one_token_of_one_repository_and_gets_the_next_one_by_itself() {
    let world = with_a_commit().await;
    world.approve_plan().await;
    world.github.install_app("acme", "shop", &ENOUGH);
    world.github.install_app("acme", "other", &ENOUGH);
    use_secret(&world, "app", &json!({"appId": ID, "privateKey": KEY})).await;
    let wanted = json!({"title": "Add a", "body": "Because."});
    let fetch = "/v1/git/info/refs?service=git-upload-pack";
    let (opened, fetched, status) = tokio::join!(
        world.post("coder", "/v1/pull-request", &wanted),
        world.get("coder", fetch),
        world.get("pm", fetch),
    );
    assert_eq!((opened.0, fetched.0, status.0), (200, 200, 200), "{opened:?} {fetched:?}");
    let tokens = world.github.app_tokens();
    assert_eq!(tokens.len(), 1, "one request for a token at a time, and it is kept");
    let url = format!("{}/repos/acme/shop/pulls/1", world.github.api_url());
    let asked = world.http.get(url).bearer_auth(&tokens[0]).header("user-agent", "t");
    let pull: Value = asked.send().await.unwrap().json().await.unwrap();
    assert_eq!(pull["user"]["login"], LOGIN);
    let url = format!("{}/repos/acme/other", world.github.api_url());
    let asked = world.http.get(url).bearer_auth(&tokens[0]).header("user-agent", "t");
    assert_eq!(asked.send().await.unwrap().status(), 404, "it opens this repository alone");

    // Taken back, it is refused; nobody notices but GitHub.
    let mut last = tokens[0].clone();
    let mut renewed = |what: &str| {
        let now = world.github.app_tokens();
        assert!(now.len() == 1 && now[0] != last, "{what}");
        last.clone_from(&now[0]);
    };
    world.github.revoke_app_tokens();
    let (status, refs) = world.get("pm", fetch).await;
    assert!(status == 200 && !refs.to_string().contains("ERR CodeButler: "), "{refs}");
    renewed("for Git");
    world.github.revoke_app_tokens();
    let wanted = json!({"title": "Add b", "body": "Because."});
    let (status, changed) = world.post("coder", "/v1/pull-request", &wanted).await;
    assert_eq!(status, 200, "{changed}");
    renewed("for REST");
    let url = format!("{}/v1/git", world.url);
    world.ok("coder", world.dir.path(), &["clone", "-q", &url, "later"]).await;
    let folder = world.dir.path().join("later");
    world.ok("coder", &folder, &["checkout", "-q", &world.branch]).await;
    world.ok("coder", &folder, &["commit", "-q", "--allow-empty", "-m", "Add b"]).await;
    world.github.revoke_app_tokens();
    world.ok("coder", &folder, &["push", "-q", "origin", &world.branch]).await;
    renewed("for a push");
    // In the middle of a push, when the branches are read and the pack is on its way.
    world.ok("coder", &folder, &["commit", "-q", "--allow-empty", "-m", "Add c"]).await;
    world.github.set_away(HostFailure::RevokesBeforeAPush);
    world.ok("coder", &folder, &["push", "-q", "origin", &world.branch]).await;
    renewed("in the middle of a push");
    let head = world.git("coder", &folder, &["rev-parse", "HEAD"]).await.stdout;
    let head = String::from_utf8(head).unwrap();
    assert_eq!(world.remote.head(&world.branch).await.as_deref(), Some(head.trim()));
}

#[tokio::test]
async fn a_workflow_is_pushed_with_the_permission_for_it_and_else_people_hear_what_is_missing() {
    let open = json!({"policy": {"protectedPaths": ["CODEOWNERS"]}});
    let world = World::play(ModelScript::of("coder", vec![]), &open, &json!({})).await;
    assert_eq!(world.get("coder", "/v1/session").await.0, 200);
    world.approve_plan().await;
    world.github.install_app("acme", "shop", &ENOUGH);
    use_secret(&world, "app", &json!({"appId": ID, "privateKey": KEY})).await;
    let folder = world.clone("coder").await;
    std::fs::create_dir_all(folder.join(".github/workflows")).unwrap();
    std::fs::write(folder.join(".github/workflows/ci.yml"), "on: push\n").unwrap();
    world.ok("coder", &folder, &["add", "."]).await;
    world.ok("coder", &folder, &["commit", "-qm", "Add a workflow"]).await;
    let push = ["push", "-q", "origin", &world.branch];
    let refused = world.git("coder", &folder, &push).await;
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    let missing = "give its App the permission `workflows` (write)";
    assert!(!refused.status.success() && said.contains(missing), "{said}");
    assert!(said.contains("create or update workflow `.github/workflows/ci.yml`"), "{said}");
    eventually("people to hear of it", || async {
        posts(&world).iter().any(|post| post.contains(missing))
    })
    .await;
    // Nothing else of the repository is concerned, and no token from before is in the way.
    world.ok("coder", &folder, &["fetch", "-q"]).await;
    let granted = [&ENOUGH[..], &[("workflows", "write")]].concat();
    world.github.install_app("acme", "shop", &granted);
    world.ok("coder", &folder, &push).await;
    let file = world.remote.show(&world.branch, ".github/workflows/ci.yml").await;
    assert_eq!(file.as_deref(), Some("on: push\n"));
}

#[tokio::test]
async fn a_merge_that_github_refuses_for_a_workflow_leaves_the_repo_in_order() {
    let world = World::start(vec![]).await;
    let change = async |branch: &str, first: &str, last: &str| {
        let text = format!("{first}\n{}{last}\n", "# A line between.\n".repeat(9));
        let files = [(".github/workflows/ci.yml", Some(&*text))];
        world.remote.commit(branch, "Ana", "Change a workflow", &files).await.unwrap();
    };
    change("main", "a", "y").await;
    assert_eq!(world.get("coder", "/v1/session").await.0, 200);
    change(&world.branch, "b", "y").await;
    change("main", "a", "z").await;
    world.approve_plan().await;
    world.github.install_app("acme", "shop", &ENOUGH);
    use_secret(&world, "app", &json!({"appId": ID, "privateKey": KEY})).await;
    let wanted = json!({"title": "Change it", "body": "Because."});
    let (status, pull) = world.post("coder", "/v1/pull-request", &wanted).await;
    assert_eq!(status, 200, "{pull}");
    let closing = json!({
        "ts": "2.000000", "role": "lead", "choice": "merge", "decidedBy": "U7", "head": pull["head"],
    });
    world.patch_thread(&json!({"status": {"closing": closing}})).await;
    let summary = json!({"summary": "Changed."});
    let (status, body) = world.post("lead", "/v1/close", &summary).await;
    let message = body["error"]["message"].as_str().unwrap_or_default();
    assert_eq!(status, 502, "{body}");
    assert!(message.contains("the permission `workflows` (write)"), "{message}");
    let condition = world.condition("GitReachable").await;
    assert!(!condition.contains("workflows"), "{condition}");
    let granted = [&ENOUGH[..], &[("workflows", "write")]].concat();
    world.github.install_app("acme", "shop", &granted);
    let (status, closed) = world.post("lead", "/v1/close", &summary).await;
    assert_eq!(status, 200, "{closed}");
}

#[tokio::test]
async fn what_is_wrong_with_it_is_said_in_words() {
    let world = World::start(vec![]).await;
    let good = json!({"appId": ID, "privateKey": KEY});
    let check = async |secret: &str, data: &Value, says: &str| {
        use_secret(&world, secret, data).await;
        let (status, body) = world.get("coder", "/v1/session").await;
        assert_eq!((status, body["error"]["code"].as_str()), (502, Some("upstream")), "{body}");
        let message = body["error"]["message"].as_str().unwrap();
        assert!(message.contains(says), "{message}");
        assert!(message.contains(&format!("`{secret}`")), "{message}");
        let repo = world.repo().await;
        let conditions = repo.status.unwrap().conditions;
        let condition = conditions.iter().find(|c| c.type_ == "GitReachable").unwrap();
        assert_eq!((&*condition.status, &*condition.message), ("False", message));
        assert!(posts(&world).iter().any(|said| said.contains(says)), "{:?}", posts(&world));
        assert!(!format!("{body}{condition:?}").contains("BEGIN RSA"));
    };
    check("nowhere", &good, "is not installed on acme/shop").await;
    let malformed = json!({"appId": ID, "privateKey": "-----BEGIN RSA PRIVATE KEY-----\nno\n"});
    check("malformed", &malformed, "is no RSA private key").await;
    check("half", &json!({"appId": ID}), "no usable key `privateKey`").await;
    check("stranger", &json!({"appId": "1", "privateKey": KEY}), "check `appId`").await;
    let odd = json!({"appId": ID, "privateKey": KEY, "installationId": "main"});
    check("odd", &odd, "`installationId`").await;
    world.github.install_app("acme", "shop", &[("contents", "write"), ("pull_requests", "read")]);
    check("weak", &good, "lacks the permission pull_requests: write").await;
    world.github.install_app("acme", "shop", &ENOUGH);
    let (status, body) = world.get("coder", "/v1/session").await;
    assert_eq!(status, 200, "{body}");
}

#[tokio::test]
async fn a_renamed_repository_goes_on_with_the_app_that_is_installed_on_it() {
    for is_given in [false, true] {
        let world = World::start(Vec::new()).await;
        world.github.install_app("acme", "shop", &ENOUGH);
        let mut data = json!({"appId": ID, "privateKey": KEY});
        if is_given {
            let id = world.github.installation_id("acme").unwrap();
            data["installationId"] = id.to_string().into();
        }
        let remote = world.github.rename("acme", "shop", "store").await.unwrap();
        use_secret(&world, "app", &data).await;
        let (status, body) = world.get("coder", "/v1/session").await;
        assert_eq!(status, 200, "installation given: {is_given}: {body}");
        assert!(remote.head(&world.branch).await.is_some());
        world.approve_plan().await;
        let folder = world.clone("coder").await;
        world.ok("coder", &folder, &["push", "origin", &world.branch]).await;
        let condition = world.condition("GitReachable").await;
        assert!(condition.contains("acme/store by now"), "{condition}");
    }
}
