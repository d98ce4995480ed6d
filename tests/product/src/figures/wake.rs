//! From a mention to the first model call: in a new thread, whose pod has to start first (its image is
//! there), in one that takes a seat, and in one whose role is awake. On the cluster of `KUBECONFIG` if that
//! is set, and on its own nodes where the environment says so.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use codebutler_crds::thread::RoleState;
use codebutler_crds::{Repo, Thread, names};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;

use super::{MeasuredFigure, SHORT, find_percentile, long_or_short};
use codebutler_testbed::models::{ModelScript, ScriptStep};
use codebutler_testbed::place::InstallPlace;
use codebutler_testbed::stack::nodes::NodeArgs;
use codebutler_testbed::stack::toolchain::WORKSPACE_IMAGE;
use codebutler_testbed::stack::{PagesAccess, RunningStack, StackOptions};

/// Conversations that are measured, after one that has the images pulled.
const CONVERSATIONS: usize = long_or_short(20, 1);
/// Timeout of every wait.
const PATIENCE: Duration = Duration::from_mins(5);
/// Pause between two conversations: one app may read 50 a minute at Slack, and what waits for that is no
/// part of the figure. Those of the short form are far fewer.
const PAUSE: Duration = Duration::from_secs(if SHORT { 1 } else { 4 });
pub(super) const ROLE: &str = "pm";

/// Measures the waiting times that people notice.
///
/// # Errors
/// When the product does not start, or does not answer.
pub(super) async fn measure_wake() -> anyhow::Result<Vec<MeasuredFigure>> {
    let dir = tempfile::tempdir()?;
    let files = dir.path().join("files");
    std::fs::create_dir_all(&files)?;
    std::fs::write(files.join("README.md"), "# shop\n")?;
    let given = std::env::var_os("KUBECONFIG").is_some_and(|path| !path.is_empty());
    let nodes = NodeArgs::from_env()?;
    let image = nodes.as_ref().map_or(WORKSPACE_IMAGE.to_owned(), |nodes| nodes.workspace.clone());
    let options = StackOptions {
        dir: dir.path().join("stack"),
        place: if given { InstallPlace::own() } else { InstallPlace::usual() },
        program: std::env::current_exe()?,
        name: "shop".to_owned(),
        users: vec!["ana".to_owned()],
        roles: vec![ROLE.to_owned()],
        branch: "main".to_owned(),
        files,
        script: ModelScript::of(
            ROLE,
            vec![ScriptStep::say("Hello."), ScriptStep::say("Still here.")],
        ),
        idle_timeout_seconds: Some(10),
        debounce_seconds: 0,
        log: "warn".to_owned(),
        looks_back: false,
        edit_repo: None,
        edit_role: None,
        inject_env: None,
        late_wall: None,
        agent_silence: None,
        nodes,
        pages: PagesAccess::default(),
    };
    std::fs::create_dir_all(&options.dir)?;
    let stack = Box::pin(RunningStack::start(options)).await?;
    let lease = (!stack.place.is_usual()).then(|| stack.place.lease(&stack.cluster));
    let figures = Box::pin(measure_conversation(&stack, &image)).await;
    stack.stop().await?;
    drop(lease);
    figures
}

async fn measure_conversation(
    stack: &RunningStack,
    image: &str,
) -> anyhow::Result<Vec<MeasuredFigure>> {
    let (mut cold, mut awake, mut bare) = (Vec::new(), Vec::new(), Vec::new());
    let mut seated = Vec::new();
    for talk in 0..=CONVERSATIONS {
        keep_seats(stack, 1).await?;
        tokio::time::sleep(PAUSE).await;
        let (root, taken) = await_call(stack, None).await?;
        keep_seats(stack, 0).await?;
        await_settled(stack, &root).await?;
        ensure!(has_taken_seat(stack, &root).await?, "the Thread of {root} took no seat");
        tokio::time::sleep(PAUSE).await;
        let (root, first) = await_call(stack, None).await?;
        await_settled(stack, &root).await?;
        let (_, second) = await_call(stack, Some(&root)).await?;
        await_settled(stack, &root).await?;
        let pod = start_pod(stack, image, talk).await?;
        tokio::time::sleep(PAUSE).await;
        if talk > 0 {
            seated.push(taken);
            cold.push(first);
            awake.push(second);
            bare.push(pod);
        }
    }
    let mut of = |percent| {
        let pick = |samples: &mut Vec<f64>| find_percentile(samples, percent);
        (pick(&mut cold), pick(&mut awake), pick(&mut bare))
    };
    let ((cold_p50, awake_p50, bare_p50), (cold_p95, awake_p95, bare_p95)) = (of(50), of(95));
    let (seat_p50, seat_p95) = (find_percentile(&mut seated, 50), find_percentile(&mut seated, 95));
    Ok(vec![
        // Of a conversation that starts its pod.
        MeasuredFigure::ratio("wake.seat_p50", seat_p50, cold_p50, 0.3),
        MeasuredFigure::ratio("wake.seat_p95", seat_p95, cold_p95, 0.5),
        // Beside a pod of the same image that does nothing.
        MeasuredFigure::at_most("wake.cold_p50", cold_p50, "ms", 3000.0).beside(bare_p50),
        MeasuredFigure::at_most("wake.cold_p95", cold_p95, "ms", 6000.0).beside(bare_p95),
        // Beside the same with a pod to start.
        MeasuredFigure::at_most("wake.awake_p50", awake_p50, "ms", 500.0).beside(cold_p50),
        MeasuredFigure::at_most("wake.awake_p95", awake_p95, "ms", 1000.0).beside(cold_p95),
    ])
}

/// Waits until so many pods wait for a conversation.
async fn keep_seats(stack: &RunningStack, seats: u32) -> anyhow::Result<()> {
    let repos = Api::<Repo>::namespaced(stack.cluster.client(), &stack.place.team);
    let warm = json!({"spec": {"warm": {"seats": seats}}});
    repos.patch(&stack.repo, &PatchParams::default(), &Patch::Merge(&warm)).await?;
    let begun = Instant::now();
    loop {
        let status = repos.get(&stack.repo).await?.status.unwrap_or_default();
        let warm = status.warm.unwrap_or_default();
        if (warm.wanted, warm.ready) == (seats, seats) {
            return Ok(());
        }
        ensure!(begun.elapsed() < PATIENCE, "{seats} seats are not there");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn has_taken_seat(stack: &RunningStack, root: &str) -> anyhow::Result<bool> {
    let name = names::thread_name(&stack.repo, &root.parse()?);
    let thread = stack.threads().get(&name).await?;
    Ok(thread.status.is_some_and(|status| status.volume.is_some()))
}

/// Writes as a person; returns the conversation, and the milliseconds until a model is called.
pub(super) async fn await_call(
    stack: &RunningStack,
    root: Option<&str>,
) -> anyhow::Result<(String, f64)> {
    let user = stack.users.get("ana").context("ana")?;
    let before = stack.models.served().len();
    let begun = Instant::now();
    let ts = stack.slack.post_as(user, &stack.channel, root, "<@BOT> hello")?;
    while stack.models.served().len() == before {
        ensure!(begun.elapsed() < PATIENCE, "no model was called");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    Ok((ts, begun.elapsed().as_secs_f64() * 1e3))
}

/// Waits until the role has nothing left to do, and its pod still runs.
pub(super) async fn await_settled(stack: &RunningStack, root: &str) -> anyhow::Result<()> {
    let (threads, name) = (stack.threads(), names::thread_name(&stack.repo, &root.parse()?));
    let idle = |thread: Thread| {
        let status = thread.status.unwrap_or_default();
        let state = status.roles.get(ROLE).and_then(|role| role.state);
        state == Some(RoleState::Idle) && !status.wants(ROLE)
    };
    let begun = Instant::now();
    while !threads.get_opt(&name).await?.is_some_and(idle) {
        ensure!(begun.elapsed() < PATIENCE, "the answer of {name} is not over");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

/// The milliseconds that the cluster takes for a pod with that image and nothing to do.
async fn start_pod(stack: &RunningStack, image: &str, number: usize) -> anyhow::Result<f64> {
    let pods = Api::<Pod>::namespaced(stack.cluster.client(), &stack.place.team);
    let name = format!("bare-{number}");
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": name},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": false,
            "securityContext": {
                "runAsNonRoot": true, "runAsUser": 1000, "runAsGroup": 1000,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [{
                "name": "bare", "image": image, "command": ["/bin/true"],
                "securityContext": {
                    "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]},
                },
            }],
        },
    }))?;
    let begun = Instant::now();
    pods.create(&PostParams::default(), &pod).await?;
    let over =
        |pod: Pod| pod.status.and_then(|status| status.phase) == Some("Succeeded".to_owned());
    while !over(pods.get(&name).await?) {
        ensure!(begun.elapsed() < PATIENCE, "the pod {name} does not run");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let took = begun.elapsed().as_secs_f64() * 1e3;
    pods.delete(&name, &DeleteParams::default()).await?;
    Ok(took)
}
