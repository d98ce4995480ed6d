//! The product as its operators meet it: kubectl while it works, metrics, and what happens to bad
//! input.

use std::process::Command;

use codebutler_crds::{NanoUsd, Repo, condition};
use codebutler_testbed::models::{ModelScript, ScriptStep, ToolCall};
use k8s_openapi::api::core::v1::Event;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use serde_json::json;

use crate::apiserver::kubectl::kubectl;
use crate::support::{Setup, asks, needs_process_kubelet};

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_shows_and_changes_a_running_team() {
    let Some(program) = kubectl() else { return };
    let script = ModelScript::of(
        "pm",
        vec![asks("Plan: nothing (README.md:1).", "plan").costing(1000, 50, "0.0125")],
    );
    let team = Setup::new(script).start().await;
    let root = team.says("ana", None, "hello");
    team.message(&root, "Plan: nothing").await;
    let thread = team.settled(&root, "pm").await.name_any();
    let run = |arguments: &str| {
        let output = Command::new(&program)
            .arg("--kubeconfig")
            .arg(team.stack.cluster.kubeconfig())
            .args(["--namespace", &team.stack.place.team, "--cache-dir"])
            .arg(team.stack.dir.join("kubectl-cache"))
            .args(arguments.split(' '))
            .output()
            .unwrap();
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text).into_owned();
        assert!(output.status.success(), "kubectl {arguments}: {text}");
        text
    };

    let table = run("get threads");
    let mut lines = table.lines();
    let head: Vec<&str> = lines.next().unwrap().split_whitespace().collect();
    let all = ["NAME", "REPO", "STATE", "READY", "REASON", "WAITS", "ROLE", "PR", "COST", "AGE"];
    assert_eq!(head, all);
    let row = lines.next().unwrap();
    for cell in [thread.as_str(), "shop", "Active", "True", "Awake", "pm", "$0.01"] {
        assert!(row.contains(cell), "{cell}: {table}");
    }
    let wide = run("get threads,repos -o wide");
    for part in ["True", &format!("codebutler/{thread}")] {
        assert!(wide.contains(part), "{part}: {wide}");
    }
    assert!(run("get agentroles --all-namespaces").contains("coder"));
    assert!(run("get pods,pvc").contains(&format!("pod/{thread}-pm")));
    let described = run(&format!("describe thread {thread}"));
    for part in ["AwaitingUser", "WorktreeReady", "Events:", "VolumeCreated"] {
        assert!(described.contains(part), "{part}: {described}");
    }
    assert!(run("explain repo.spec.git.url").contains("/api/v3"));
    run("wait --for=condition=Ready repo/shop --timeout=60s");
    run("label repo shop team=web");

    // Deleting a Thread takes everything of it along.
    run(&format!("delete thread {thread} --timeout=60s"));
    team.until("nothing to be left", || async { team.leftovers().await.is_empty().then_some(()) })
        .await;
    team.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_dollar_is_on_the_thread_and_in_the_metrics() {
    let pm = vec![
        ScriptStep::tool("Glob", json!({"pattern": "*"})).costing(900, 20, "0.001234567"),
        ScriptStep::say("@codebutler.reviewer a second opinion?").costing(950, 30, "0.0000000019"),
    ];
    let reviewer = vec![ScriptStep::say("Fine.").costing(500, 5, "3.3e-5")];
    let team = Setup::new(ModelScript::of("pm", pm).and("reviewer", reviewer)).start().await;
    let root = team.says("ana", None, "look");
    team.message(&root, "Fine.").await;
    let status = team.settled(&root, "reviewer").await.status.unwrap();
    // Finer than a nano-dollar is rounded up, call by call.
    assert_eq!(status.roles["pm"].usage.cost, NanoUsd(1_234_567 + 2));
    // The sandbox of its commands is there for an operator to see.
    let sandbox = status.roles["pm"].sandbox.as_deref();
    assert!(sandbox.is_some_and(|s| s.starts_with("landlock-")), "{sandbox:?}");
    assert_eq!(status.roles["reviewer"].usage.cost, NanoUsd(33_000));
    assert_eq!(status.cost, Some(NanoUsd(1_267_569)));
    assert_eq!(status.cost, Some(team.stack.models.billed().total()));

    if !needs_process_kubelet("its metrics are read at an address of this machine") {
        let url = format!("http://{}/metrics", team.stack.metrics.gateway);
        let metrics = reqwest::get(url).await.unwrap().text().await.unwrap();
        let samples = metrics.lines().filter(|l| l.starts_with("codebutler_cost_usd_total{"));
        let sum: f64 = samples.map(|l| l.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum();
        assert!((sum - 0.001_267_569).abs() < 1e-12, "{metrics}");
        assert!(
            !metrics.contains(&root) && !metrics.contains(&team.stack.users["ana"]),
            "{metrics}"
        );
    }
    team.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_talks_nonsense_is_told_five_times_and_then_the_user() {
    let unknown = ScriptStep::tool("LaunchRocket", json!({}));
    let invalid = ScriptStep::tool("Read", json!({"pfad": "README.md"}));
    let garbled = ScriptStep {
        tools: vec![ToolCall {
            name: "Read".to_owned(),
            arguments: serde_json::Map::new(),
            raw: Some("{\"path\": ".to_owned()),
        }],
        ..ScriptStep::default()
    };
    let nonsense = [unknown.clone(), invalid.clone(), garbled, unknown, invalid];
    let steps = nonsense.into_iter().chain([ScriptStep::say("never reached")]);
    let script = ModelScript::of("pm", steps.collect());
    let team = Setup::new(script).start().await;
    let root = team.says("ana", None, "hello");
    let thread = team.settled(&root, "pm").await;
    let state = thread.status.unwrap().roles["pm"].state;
    assert_eq!(state, Some(codebutler_crds::thread::RoleState::Failed));
    let told = team.messages(&root);
    let notice = told.last().unwrap();
    assert!(notice.shown.contains("5 replies"), "{}", notice.shown);
    let requests = team.stack.models.requests();
    assert_eq!(requests.len(), 5, "one call each");
    let last = requests.last().unwrap().body["messages"].to_string();
    assert!(last.contains("LaunchRocket") && last.contains("Grep"), "the tools there are: {last}");
    team.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repo_becomes_ready_by_itself_and_a_second_one_on_its_channel_says_so() {
    let team = Setup::new(ModelScript::of("pm", vec![ScriptStep::say("Hello.")])).start().await;
    let repos: Api<Repo> = Api::namespaced(team.stack.cluster.client(), &team.stack.place.team);
    let said = async |name: &str, type_: &str, status: &str, reason: &str| {
        team.until(&format!("{name} to be {type_}={status} for {reason}"), || async {
            let repo = repos.get(name).await.unwrap();
            let conditions = repo.status.unwrap_or_default().conditions;
            let found = conditions.into_iter().find(|c| c.type_ == type_)?;
            let is = found.status == status && found.reason == reason;
            (is && found.observed_generation == repo.metadata.generation).then_some(found.message)
        })
        .await
    };
    // Nobody has written anything, and no pod has run.
    said("shop", "Ready", "True", "Ready").await;
    for type_ in ["SlackReachable", "GitReachable", "ModelReachable", "GatewayServing"] {
        let conditions = repos.get("shop").await.unwrap().status.unwrap_or_default().conditions;
        assert!(condition::is_true(&conditions, type_), "{type_}: {conditions:?}");
    }
    let mut second = repos.get("shop").await.unwrap();
    second.metadata = kube::api::ObjectMeta { name: Some("copy".to_owned()), ..<_>::default() };
    second.status = None;
    repos.create(&kube::api::PostParams::default(), &second).await.unwrap();
    said("copy", "Ready", "True", "Ready").await;
    for (name, other) in [("copy", "/shop`"), ("shop", "/copy`")] {
        team.until("both to say that they share the channel", async || {
            let message = said(name, "SlackReachable", "True", "Reachable").await;
            message.contains(other).then_some(())
        })
        .await;
    }
    // With the first one gone, the channel is the second one's.
    repos.delete("shop", &kube::api::DeleteParams::default()).await.unwrap();
    let root = team.says("ana", None, "hello");
    team.message(&root, "Hello.").await;
    team.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repo_that_is_made_anew_at_once_becomes_ready_again() {
    let team = Setup::new(ModelScript::of("pm", vec![ScriptStep::say("Hello.")])).start().await;
    let repos: Api<Repo> = Api::namespaced(team.stack.cluster.client(), &team.stack.place.team);
    let is_ready = async || {
        team.until("the Repo to be ready", || async {
            let conditions = repos.get_opt("shop").await.unwrap()?.status?.conditions;
            condition::is_true(&conditions, condition::READY).then_some(())
        })
        .await;
    };
    for _ in 0..3 {
        is_ready().await;
        let mut repo = repos.get("shop").await.unwrap();
        repos.delete("shop", &kube::api::DeleteParams::default()).await.unwrap();
        team.until("it to go", || async {
            repos.get_opt("shop").await.unwrap().is_none().then_some(())
        })
        .await;
        repo.metadata = kube::api::ObjectMeta { name: Some("shop".to_owned()), ..<_>::default() };
        repo.status = None;
        repos.create(&kube::api::PostParams::default(), &repo).await.unwrap();
    }
    is_ready().await;
    let root = team.says("ana", None, "are you there?");
    team.message(&root, "Hello.").await;
    team.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_with_a_repo_is_said_where_people_look() {
    let team = Setup::new(ModelScript::of("pm", vec![ScriptStep::say("Hello.")])).start().await;
    let repos: Api<Repo> = Api::namespaced(team.stack.cluster.client(), &team.stack.place.team);
    let events: Api<Event> = Api::namespaced(team.stack.cluster.client(), &team.stack.place.team);
    let set = |spec: serde_json::Value| {
        let repos = repos.clone();
        async move {
            let patch = Patch::Merge(json!({"spec": spec}));
            repos.patch("shop", &PatchParams::default(), &patch).await.unwrap();
        }
    };
    let not_ready = async |what: &str, parts: &[&str]| {
        team.until(what, || async {
            let repo = repos.get("shop").await.unwrap();
            let conditions = repo.status.unwrap_or_default().conditions;
            let ready = conditions.iter().find(|c| c.type_ == condition::READY)?;
            let wrong = ready.status == "False";
            (wrong && parts.iter().all(|p| ready.message.contains(p))).then_some(())
        })
        .await;
    };

    // A role that does not exist.
    set(json!({"roles": ["pm", "dba"]})).await;
    not_ready("the missing role to be named", &["dba", "spec.roles"]).await;
    team.until("an event", || async {
        let all = events.list(&ListParams::default()).await.unwrap();
        let told = |e: &Event| e.reason.as_deref() == Some("RoleNotFound");
        all.iter().any(told).then_some(())
    })
    .await;
    set(json!({"roles": ["pm"]})).await;

    // Credentials that do not exist, noticed by the gateway and told in the thread as well.
    set(json!({"git": {"credentials": {"name": "nothing"}}})).await;
    let root = team.says("ana", None, "are you there?");
    not_ready("the missing Secret to be named", &["nothing"]).await;
    team.message(&root, "nothing").await;
    set(json!({"git": {"credentials": {"name": "git"}}})).await;
    // Nothing is lost: the message is answered once the Repo is right.
    team.message(&root, "Hello.").await;

    // A channel that no Repo names.
    let slack = &team.stack.slack;
    let ana = &team.stack.users["ana"];
    let elsewhere = slack.create_channel("elsewhere", &[ana, &slack.bot_user_id()]);
    let stray = slack.post_as(ana, &elsewhere, None, "hello?").unwrap();
    slack.wait_acked(&stray, crate::support::PATIENCE).await.unwrap();
    let second = slack.post_as(ana, &elsewhere, None, "anyone?").unwrap();
    slack.wait_acked(&second, crate::support::PATIENCE).await.unwrap();
    assert_eq!(team.stack.threads().list(&ListParams::default()).await.unwrap().items.len(), 1);
    let said = || team.stack.gateway.said();
    if said().await.is_some() {
        let named = |log: &String| log.contains(&elsewhere);
        let log = team.until("it is logged", || async { said().await.filter(named) }).await;
        assert_eq!(log.matches(&elsewhere).count(), 1, "logged once:\n{log}");
    }
    team.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_killed_in_the_middle_loses_nothing() {
    let look = ScriptStep::tool("Glob", json!({"pattern": "*"}));
    let script = ModelScript::of(
        "pm",
        vec![look, ScriptStep::say("Here I am."), ScriptStep::say("And again.")],
    );
    let mut team = Setup::new(script).start().await;
    team.stack.models.hold();
    let root = team.says("ana", None, "hello");
    team.stack.models.held().await;
    team.stack.gateway.kill().await.unwrap();
    team.stack.models.release();
    let missed = team.says("ana", Some(&root), "said while nobody listened");
    team.stack.gateway.restart().await.unwrap();
    team.message(&root, "Here I am.").await;
    let thread = team
        .thread_when(&root, "the missed message to be taken", |t| {
            let pm = t.status.as_ref().and_then(|s| s.roles.get("pm"));
            let done = pm.and_then(|r| r.done.as_ref());
            done.is_some_and(|done| done.as_str() >= missed.as_str())
        })
        .await;
    let prompts: String = team.stack.models.requests().iter().map(|r| r.body.to_string()).collect();
    assert!(prompts.contains("said while nobody listened"));
    let answers = team.messages(&root);
    let count = |text: &str| answers.iter().filter(|m| m.shown.contains(text)).count();
    assert_eq!(count("Here I am."), 1, "{thread:?}");
    team.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_role_of_a_repo_hears_and_a_denied_tool_is_not_offered() {
    let script = ModelScript::of("coder", vec![ScriptStep::say("At your service.")]);
    let team = Setup::new(script)
        .repo(|repo| repo.roles = vec!["coder".to_owned()])
        .role(|role| role.tools.deny = vec!["Bash".to_owned()])
        .start()
        .await;
    let root = team.says("ana", None, "hello");
    team.message(&root, "At your service.").await;
    let request = &team.stack.models.requests()[0];
    let tools = request.body["tools"].as_array().unwrap();
    let offered: Vec<_> = tools.iter().filter_map(|t| t["function"]["name"].as_str()).collect();
    assert!(offered.contains(&"Edit"), "{offered:?}");
    assert!(!offered.contains(&"Bash"), "{offered:?}");
    team.stop().await;
}
