//! What a hostile command, or a hostile agent container, can reach from inside a pod. Each attempt
//! is one that design.md's trust boundaries rule out; a test fails when one succeeds.

use codebutler_testbed::models::{Script, Step};
use codebutler_testbed::stack::manifests::TEAM;

use crate::support::{Setup, Team};

/// A thread whose coder sleeps in its pod, with a toolbox to misuse.
async fn coder_pod() -> (Team, String, String) {
    let script = Script::of("pm", vec![Step::say("@codebutler.coder have a look")])
        .and("coder", vec![Step::say("Looked.")]);
    let team = Setup::new(script).start().await;
    let root = team.says("ana", None, "please look");
    team.message(&root, "Looked.").await;
    let pod = team.pod(&root, "coder").await;
    (team, root, pod)
}

/// Runs a shell line as one of a container's own commands: (exit code, output).
async fn sh(team: &Team, pod: &str, container: &str, line: &str) -> (i32, String) {
    let argv = ["bash", "-c", line];
    let output = team.stack.kubelet.exec(TEAM, pod, container, &argv).await.unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&text).into_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_finds_no_credential_and_no_way_out() {
    let (team, _root, pod) = coder_pod().await;
    let (_, seen) = sh(
        &team,
        &pod,
        "toolbox",
        "env; cat /proc/*/environ /proc/*/cmdline 2>/dev/null | tr '\\0' '\\n'; \
         find / -xdev -type f \\( -path '/var/*' -o -path '/run/*' -o -path '/work/*' \
         -o -path '/tmp/*' -o -path '/etc/*' -o -path '/root/*' -o -path '/home/*' \\) \
         -size -200k -exec cat {} + 2>/dev/null",
    )
    .await;
    let slack = [team.stack.slack.bot_token(), team.stack.slack.app_token()];
    let others = [team.stack.github.token().to_owned(), team.stack.models.api_key().to_owned()];
    for secret in slack.iter().chain(&others) {
        assert!(!seen.contains(secret.as_str()), "a credential is visible in the toolbox");
    }
    assert!(!seen.contains("eyJ"), "a token is visible in the toolbox");

    let (code, out) = sh(&team, &pod, "toolbox", "ls /var/lib/codebutler /var/run/secrets").await;
    assert_ne!(code, 0, "the toolbox sees the agent's files: {out}");

    // Neither the API server, nor any other server of the testbed, nor the gateway's other port.
    let api = team.stack.cluster.url();
    for url in [
        api,
        &team.stack.slack.api_url(),
        &team.stack.models.url(),
        &team.stack.github.url(),
        &format!("http://{}", team.stack.metrics.gateway),
        "http://169.254.169.254/",
    ] {
        let address = url.split("://").nth(1).unwrap().split('/').next().unwrap();
        let (host, port) = address.split_once(':').unwrap_or((address, "80"));
        let line = format!("timeout 3 bash -c 'exec 3<>/dev/tcp/{host}/{port}'");
        let (code, _) = sh(&team, &pod, "toolbox", &line).await;
        assert_ne!(code, 0, "{url} can be reached from a pod");
    }
    team.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_agent_container_never_sees_the_worktree_and_holds_only_its_own_token() {
    let (team, _root, pod) = coder_pod().await;
    let (_, mounts) = sh(&team, &pod, "agent", "cat /proc/self/mounts; ls /work 2>&1").await;
    assert!(!mounts.contains(" /work "), "{mounts}");
    let (_, seen) = sh(
        &team,
        &pod,
        "agent",
        "env; find /var /run /etc -xdev -type f -size -200k -exec cat {} + 2>/dev/null",
    )
    .await;
    let stack = &team.stack;
    for secret in [
        &stack.slack.bot_token(),
        &stack.slack.app_token(),
        stack.github.token(),
        stack.models.api_key(),
    ] {
        assert!(!seen.contains(secret), "a credential is visible in the agent container");
    }
    team.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_push_is_refused_before_approval_and_to_any_other_ref() {
    let (team, root, pod) = coder_pod().await;
    let branch = team.thread(&root).await.status.unwrap().branch.unwrap();
    let commit = "cd /work/tree && git -c safe.directory='*' -c user.name=x -c user.email=x@x \
                  commit --allow-empty -qm hostile && git -c safe.directory='*' ";
    let before = team.stack.remote.branches().await.unwrap();
    for refspec in [
        format!("HEAD:refs/heads/{branch}"),
        "HEAD:refs/heads/main".to_owned(),
        "HEAD:refs/heads/codebutler/other".to_owned(),
        "HEAD:refs/tags/v1".to_owned(),
        format!(":refs/heads/{branch}"),
        "+HEAD:refs/heads/main".to_owned(),
    ] {
        let line = format!("{commit} push http://127.0.0.1:8417/git {refspec}");
        let (code, out) = sh(&team, &pod, "toolbox", &line).await;
        assert_ne!(code, 0, "pushed {refspec}: {out}");
        assert!(out.contains("rejected") || out.contains("403"), "{out}");
    }
    assert_eq!(before, team.stack.remote.branches().await.unwrap(), "the remote has changed");

    // The relay serves Git and nothing else of the gateway.
    for path in ["v1/session", "git/../v1/session", "v1/messages", "git/%2e%2e/session"] {
        let line = format!(
            "exec 3<>/dev/tcp/127.0.0.1/8417; printf 'GET /{path} HTTP/1.1\\r\\nHost: x\\r\\n\
             Connection: close\\r\\n\\r\\n' >&3; head -1 <&3"
        );
        let (_, out) = sh(&team, &pod, "toolbox", &line).await;
        assert!(!out.contains(" 200 "), "{path}: {out}");
    }
    team.stop().await;
}
