//! `kubectl codebutler` as its users run it, with a kubeconfig and nothing else.

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Stdio;

use codebutler_crds::{Repo, Thread};
use codebutler_testbed::models::{ModelScript, ScriptStep};
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::support::{Setup, Team, asks};

/// Exit code, what it printed, and what it complained of.
struct Ran {
    code: Option<i32>,
    said: String,
    complaint: String,
}

async fn plugin(team: &Team, arguments: &[&str], typed: &str) -> Ran {
    plugin_with(team, arguments, typed, &[]).await
}

async fn plugin_with(team: &Team, arguments: &[&str], typed: &str, env: &[(&str, &str)]) -> Ran {
    let program = team.stack.dir.join("kubectl-codebutler");
    if !program.exists() {
        symlink(env!("CARGO_BIN_EXE_demo"), &program).unwrap();
    }
    let mut child = tokio::process::Command::new(program)
        .args(arguments)
        .current_dir(&team.stack.dir)
        .env("KUBECONFIG", team.stack.cluster.kubeconfig())
        .envs(env.iter().copied())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(typed.as_bytes()).await.unwrap();
    let output = child.wait_with_output().await.unwrap();
    Ran {
        code: output.status.code(),
        said: String::from_utf8(output.stdout).unwrap(),
        complaint: String::from_utf8(output.stderr).unwrap(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn threads_cost_and_open_questions_are_shown_and_a_thread_is_stopped() {
    let plan = asks("Plan: raise the price.", "plan").costing(100, 10, "0.0123");
    let team = Setup::new(ModelScript::of("pm", vec![plan])).start().await;
    let place = ["-n", &*team.stack.place.team];
    let with = |more: &[&'static str]| -> Vec<&str> { more.iter().copied().chain(place).collect() };

    // A proxy that leads nowhere: a cluster of this machine is reached without.
    let proxy = [("HTTPS_PROXY", "http://127.0.0.1:1")];
    let none = plugin_with(&team, &with(&["threads"]), "", &proxy).await;
    assert!(none.said.contains("No open Threads in"), "{}", none.said);
    let root = team.says("ana", None, "the price is too low");
    team.message(&root, "Plan: raise").await;
    let thread = team.thread(&root).await.name_any();
    let listed = team
        .until("the plan to be waited for", || async {
            let ran = plugin(&team, &with(&["threads"]), "").await;
            let row = ran.said.lines().find(|line| line.contains(&thread))?;
            // The question and the cost are written by two hands.
            let parts = ["shop", "Active", "person", "$0.01"];
            parts.into_iter().all(|part| row.contains(part)).then_some(ran)
        })
        .await;
    assert!(listed.said.contains("kubectl codebutler approve NAME"), "{}", listed.said);

    let cost = plugin(&team, &with(&["cost"]), "").await;
    assert_eq!(cost.code, Some(0), "{}", cost.complaint);
    assert!(
        cost.said.contains("pm $0.01") && cost.said.contains("Exactly 0.0123 USD"),
        "{}",
        cost.said
    );

    let arguments = ["approve", &*thread, place[0], place[1]];
    let open = plugin(&team, &arguments, "").await;
    assert!(open.said.contains("a plan to approve"), "{}", open.said);
    let link = format!("channel={}&message_ts={root}", team.stack.channel);
    assert!(open.said.contains(&link), "{link}: {}", open.said);

    let arguments = ["stop", &*thread, place[0], place[1]];
    let kept = plugin(&team, &arguments, "n\n").await;
    assert!(kept.said.contains("Nothing was changed."), "{}", kept.said);
    let threads = Api::<Thread>::namespaced(team.stack.cluster.client(), place[1]);
    assert!(threads.get_opt(&thread).await.unwrap().is_some());
    let ended = plugin(&team, &arguments, "y\n").await;
    assert_eq!(ended.code, Some(0), "{}", ended.complaint);
    team.until("the Thread to go", || async {
        threads.get_opt(&thread).await.unwrap().is_none().then_some(())
    })
    .await;
    let again = plugin(&team, &arguments, "").await;
    assert_eq!(again.code, Some(2));
    assert!(again.complaint.contains("there is no Thread"), "{}", again.complaint);

    let arguments = ["stop", "--repo", "shop", place[0], place[1]];
    assert_eq!(plugin(&team, &arguments, "").await.code, Some(0));
    let repos = Api::<Repo>::namespaced(team.stack.cluster.client(), place[1]);
    assert!(repos.get("shop").await.unwrap().spec.suspend);
    team.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_doctor_says_what_is_wrong_and_what_to_do() {
    let mut team = Setup::new(ModelScript::of("pm", vec![ScriptStep::say("Hello.")])).start().await;
    let place = team.stack.place.team.clone();
    let doctor = || async { plugin(&team, &["doctor", "-n", &place], "").await };
    let well = team
        .until("all to be well", || async {
            let ran = doctor().await;
            (ran.code == Some(0)).then_some(ran)
        })
        .await;
    assert!(well.said.contains("nothing to correct"), "{}", well.said);

    let secrets = Api::<Secret>::namespaced(team.stack.cluster.client(), &place);
    let wrong = json!({"stringData": {"token": "no-such-token"}});
    secrets.patch("git", &PatchParams::default(), &Patch::Merge(&wrong)).await.unwrap();
    let ill = team
        .until("the token to be refused", || async {
            let ran = doctor().await;
            (ran.code == Some(1) && ran.said.contains("To do:")).then_some(ran)
        })
        .await;
    assert!(ill.said.contains(&format!("✗ Repo {place}/shop: ")), "{}", ill.said);
    assert!(ill.said.contains("1 to correct"), "what is said once is not said twice: {}", ill.said);
    assert!(!ill.said.contains("no-such-token"), "{}", ill.said);

    // A status is as old as the program that wrote it.
    team.stack.stop_product().await.unwrap();
    let stopped = plugin(&team, &["doctor", "-n", &place], "").await;
    assert_eq!(stopped.code, Some(1), "{}", stopped.said);
    for name in ["codebutler-controller", "codebutler-gateway"] {
        let said = format!("✗ Installation {name}: NotRunning");
        assert!(stopped.said.contains(&said), "{}", stopped.said);
    }
    let mistyped = plugin(&team, &["doctor", "-n", "no-such-team"], "").await;
    assert!(mistyped.said.contains("There is no namespace no-such-team"), "{}", mistyped.said);

    // Without a kubeconfig, and with one whose cluster is away: init asks nothing that nobody could take.
    let path = team.stack.dir.join("away.kubeconfig");
    let env = [("KUBECONFIG", path.to_str().unwrap())];
    let bare = plugin_with(&team, &["doctor"], "", &env).await;
    assert_eq!(bare.code, Some(2), "{}", bare.said);
    assert!(bare.complaint.contains("no cluster is configured: "), "{}", bare.complaint);
    let text = std::fs::read_to_string(team.stack.cluster.kubeconfig()).unwrap();
    let mut config = kube::config::Kubeconfig::from_yaml(&text).unwrap();
    config.clusters[0].cluster.as_mut().unwrap().server = Some("http://127.0.0.1:1".to_owned());
    std::fs::write(&path, serde_json::to_string(&config).unwrap()).unwrap();
    let away = plugin_with(&team, &["init", "--apply"], "", &env).await;
    assert_eq!(away.code, Some(2), "{}", away.said);
    let said = "can't be reached: http://127.0.0.1:1/";
    assert!(away.complaint.contains(said), "{}", away.complaint);
    assert!(!away.said.contains("Repository, "), "{}", away.said);
    team.stop().await;
}

const TOKENS: [(&str, &str); 4] = [
    ("SLACK_BOT_TOKEN", "xoxb-1"),
    ("SLACK_APP_TOKEN", "xapp-2"),
    ("GIT_TOKEN", "token-3"),
    ("MODEL_API_KEY", "key-4"),
];

fn read(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn init_asks_for_what_is_missing_and_its_team_is_one_that_the_cluster_takes() {
    let team = Setup::new(ModelScript::of("pm", vec![ScriptStep::say("Hello.")])).start().await;
    let client = team.stack.cluster.client();
    let name = json!({"metadata": {"generateName": "init-"}});
    let namespaces = Api::<Namespace>::all(client.clone());
    let made = serde_json::from_value(name).unwrap();
    let made = namespaces.create(&kube::api::PostParams::default(), &made).await.unwrap();
    let namespace = made.name_any();

    // Repository, namespace (as suggested), channel, model API (as suggested), presets, then what no flag says.
    let typed = "https://github.com/acme/corner-shop\n\n#shop\n\nnpm, pypi\nxoxb-1\nxapp-2\ntoken-3\nkey-4\n";
    let asked = plugin(&team, &["init", "--dir", "made"], typed).await;
    assert_eq!(asked.code, Some(0), "{}", asked.complaint);
    for token in ["xoxb-1", "xapp-2", "token-3", "key-4"] {
        assert!(!asked.said.contains(token), "{}", asked.said);
    }
    let dir = team.stack.dir.join("made");
    let secrets = dir.join("secrets.json");
    assert_eq!(std::fs::metadata(&secrets).unwrap().permissions().mode() & 0o777, 0o600);
    let repo = &read(&dir.join("team.json"))["items"][2];
    assert_eq!(repo["metadata"], json!({"name": "corner-shop", "namespace": "corner-shop"}));
    assert_eq!(repo["spec"]["egress"], json!({"presets": ["npm", "pypi"]}));
    let git = &read(&secrets)["items"][1];
    let hosts = &git["metadata"]["annotations"]["codebutler.dev/hosts"];
    assert_eq!(hosts, "github.com, api.github.com");
    assert!(asked.said.contains("App-Level Tokens"), "where tokens come from: {}", asked.said);
    assert!(!asked.said.contains("roles.overrides"), "OpenRouter has them: {}", asked.said);
    let again = plugin(&team, &["init", "--dir", "made"], typed).await;
    assert_eq!(again.code, Some(2), "what is there is not written over: {}", again.said);

    // Mistyped input is asked for again; a person without an app gets its manifest, and a server without keys needs
    // none.
    let app = team.stack.dir.join("later/slack-app.yaml");
    let early = plugin(&team, &["init", "--dir", "later"], "https://github.com/acme/2048\n").await;
    assert_eq!(early.code, Some(2), "{}", early.said);
    assert!(app.exists() && early.said.contains("later/slack-app.yaml"), "{}", early.said);
    let typed = "github.com/acme/2048\nhttps://github.com/acme/2048\n\nshop\n#shop\nhttp://ollama:11434/v1\ncargo\ncrates\nhunter2\nxoxb-1\nxapp-2\ntoken-3\n\n";
    let mended = plugin(&team, &["init", "--dir", "later"], typed).await;
    assert_eq!(mended.code, Some(0), "{}", mended.complaint);
    assert!(
        mended.said.contains("Once more") && !mended.said.contains("hunter2"),
        "{}",
        mended.said
    );
    assert!(mended.said.contains("Name those of ollama in the chart's value roles.overrides"));
    let later = team.stack.dir.join("later");
    assert_eq!(read(&later.join("team.json"))["items"][2]["metadata"]["name"], "repo-2048");
    assert_eq!(read(&later.join("secrets.json"))["items"][2]["stringData"]["apiKey"], "none");

    let short = plugin(&team, &["init"], "https://github.com/acme/shop\n").await;
    assert_eq!(short.code, Some(2));
    assert!(short.complaint.contains("as flags and in the environment"), "{}", short.complaint);

    let line = [
        "init",
        "--apply",
        "-n",
        &*namespace,
        "--git-url",
        "https://github.com/acme/shop",
        "--channel",
        "C0123ABCD",
        "--model-url",
        "https://models.acme.dev/v1",
        "--presets",
        "crates",
        "--allow-own-node",
    ];
    let applied = plugin_with(&team, &line, "", &TOKENS).await;
    assert_eq!(applied.code, Some(0), "{}", applied.complaint);
    assert!(applied.said.contains("those of models.acme.dev in"), "{}", applied.said);
    let repo = Api::<Repo>::namespaced(client.clone(), &namespace).get("shop").await.unwrap();
    assert_eq!(repo.spec.egress.presets.len(), 1);
    assert!(repo.spec.egress.allow_own_node, "as on kind and EKS");
    assert_eq!(repo.spec.model.base_url, "https://models.acme.dev/v1");
    let secrets = Api::<Secret>::namespaced(client, &namespace);
    let bot_token =
        || async { secrets.get("slack").await.unwrap().data.unwrap()["botToken"].0.clone() };
    assert_eq!(bot_token().await, b"xoxb-1");
    an_admin_of_the_namespace_applies(&team, &namespace, &line).await;
    // It may be applied again. What somebody else has set since then stays.
    let twice = plugin_with(&team, &line, "", &TOKENS).await;
    assert_eq!(twice.code, Some(0), "{}", twice.complaint);
    let theirs = Patch::Merge(json!({"stringData": {"botToken": "xoxb-theirs"}}));
    secrets.patch("slack", &PatchParams::default(), &theirs).await.unwrap();
    let refused = plugin_with(&team, &line, "", &TOKENS).await;
    assert_eq!(refused.code, Some(2), "{}", refused.said);
    let complaint = &refused.complaint;
    assert!(complaint.contains("Secret `slack` is there already"), "{complaint}");
    assert!(!complaint.contains("xoxb"), "{complaint}");
    assert_eq!(bot_token().await, b"xoxb-theirs");
    namespaces.delete(&namespace, &DeleteParams::default()).await.unwrap();

    let next = plugin(&team, &["__complete", "threads", "--al"], "").await;
    assert!(next.said.starts_with("--all\t") && next.said.ends_with(":4\n"), "{}", next.said);
    let completions = plugin(&team, &["completions", "bash"], "").await;
    assert!(completions.said.contains("doctor"), "{}", completions.said);
    team.stop().await;
}

/// Applies as somebody who has rights in the namespace alone, which is there already.
async fn an_admin_of_the_namespace_applies(team: &Team, namespace: &str, line: &[&str]) {
    let cluster = &team.stack.cluster;
    let rules = json!([
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "create", "patch"]},
        {"apiGroups": ["codebutler.dev"], "resources": ["repos"], "verbs": ["get", "create", "patch"]},
        {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["rolebindings"],
         "verbs": ["get", "create", "patch"]},
        {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles"], "verbs": ["bind"]},
    ]);
    let meta = json!({"name": "team-admin", "namespace": namespace});
    let objects = [
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta}),
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": meta, "rules": rules}),
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": meta,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "team-admin"},
            "subjects": [{"kind": "ServiceAccount", "name": "team-admin", "namespace": namespace}]}),
    ];
    for object in &objects {
        cluster.apply_yaml(&object.to_string()).await.unwrap();
    }
    let ten_minutes = std::time::Duration::from_mins(10);
    let config = cluster.kubeconfig_for(namespace, "team-admin", ten_minutes).await.unwrap();
    let path = team.stack.dir.join("team-admin.kubeconfig");
    std::fs::write(&path, config).unwrap();
    let mut env = TOKENS.to_vec();
    env.push(("KUBECONFIG", path.to_str().unwrap()));
    let applied = plugin_with(team, line, "", &env).await;
    assert_eq!(applied.code, Some(0), "{}", applied.complaint);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_behind_a_proxy_is_reached_through_it() {
    let team = Setup::new(ModelScript::of("pm", vec![ScriptStep::say("Hello.")])).start().await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy = format!("http://ana:hunter2@{}", listener.local_addr().unwrap());
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let serving = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let tell = tell.clone();
            tokio::spawn(async move { tunnel(stream, &tell).await });
        }
    });
    // The kubeconfig's own, so that it counts for a cluster of this machine, too.
    let text = std::fs::read_to_string(team.stack.cluster.kubeconfig()).unwrap();
    let mut config = kube::config::Kubeconfig::from_yaml(&text).unwrap();
    config.clusters[0].cluster.as_mut().unwrap().proxy_url = Some(proxy);
    let path = team.stack.dir.join("proxied.kubeconfig");
    std::fs::write(&path, serde_json::to_string(&config).unwrap()).unwrap();
    let env = [("KUBECONFIG", path.to_str().unwrap())];
    let ran = plugin_with(&team, &["threads", "-A"], "", &env).await;
    assert_eq!(ran.code, Some(0), "{}", ran.complaint);
    let head = told.recv().await.unwrap();
    assert!(
        head.starts_with("CONNECT 127.") && head.contains("Proxy-Authorization: Basic"),
        "{head}"
    );
    serving.abort();
    team.stop().await;
}

/// One connection of a proxy that lets everybody out.
async fn tunnel(
    mut stream: tokio::net::TcpStream,
    tell: &tokio::sync::mpsc::UnboundedSender<String>,
) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let Ok(byte) = stream.read_u8().await else { return };
        head.push(byte);
    }
    let head = String::from_utf8(head).unwrap();
    let target = head.split(' ').nth(1).unwrap().to_owned();
    let _ = tell.send(head);
    let mut out = tokio::net::TcpStream::connect(target).await.unwrap();
    stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
    let _ = tokio::io::copy_bidirectional(&mut stream, &mut out).await;
}
