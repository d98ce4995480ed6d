//! One container over all its runs: start, probes, end, and whether to start again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Container;
use nix::sys::signal::Signal;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::container_spec::{self, ContainerSurroundings, SpecError, container_spec};
use super::entry::{PodEntry, RunningContainer, lock};
use super::env::{self, EnvError, EnvSources};
use super::sandbox::spec::ContainerSpec;
use super::sandbox::{SandboxError, SandboxProcess};
use super::{log, probes, projected, volumes};

/// A container's role in its pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ContainerKind {
    /// Runs once, before the others.
    Init,
    /// Runs next to them, from before the first to after the last.
    Sidecar,
    /// The workload itself, which the pod exists for.
    Main,
}

/// A run that lasted this long forgives earlier failures.
const GOOD_RUN: Duration = Duration::from_mins(10);
const CONFIG_RETRY: Duration = Duration::from_secs(1);

/// An error that keeps a container from being started.
#[derive(Debug, thiserror::Error)]
enum Problem {
    #[error("image {0:?} is not known to this node")]
    Image(String),
    #[error(transparent)]
    Env(#[from] EnvError),
    #[error(transparent)]
    Spec(#[from] SpecError),
    #[error(transparent)]
    Api(#[from] kube::Error),
    #[error("container folder: {0}")]
    Io(#[from] std::io::Error),
    #[error("the pod has no sandbox")]
    NoSandbox,
}

impl Problem {
    /// The waiting reason, as users of `kubectl get pods` know it, and its message. Attempts to pull, and the waits
    /// between them, are told by turns.
    fn waiting(&self, refusals: u32) -> (&'static str, String) {
        match self {
            Self::Image(name) if refusals % 2 == 1 => (
                "ImagePullBackOff",
                format!("Back-off pulling image {name:?}: ErrImagePull: {self}"),
            ),
            Self::Image(_) => ("ErrImagePull", self.to_string()),
            _ => ("CreateContainerConfigError", self.to_string()),
        }
    }
}

/// True if a container that has exited with `code` is started again.
pub(super) fn restarts_container(kind: ContainerKind, policy: &str, code: i32) -> bool {
    match (kind, policy) {
        (ContainerKind::Sidecar, _) => true,
        (_, "Never") => false,
        (ContainerKind::Init, _) | (_, "OnFailure") => code != 0,
        (ContainerKind::Main, _) => true,
    }
}

/// The delay before the start after `failures` of them: none, then one unit, doubling to thirty.
pub(super) fn restart_delay(unit: Duration, failures: u32) -> Duration {
    match failures {
        0 | 1 => Duration::ZERO,
        n => unit * (1_u32 << (n - 2).min(5)).min(30),
    }
}

/// Runs the container until it has ended for good, or until `stop` gives the time by which it has
/// to have ended.
pub(super) async fn supervise_container(
    entry: Arc<PodEntry>,
    container: Container,
    kind: ContainerKind,
    mut stop: watch::Receiver<Option<Instant>>,
) {
    let unit = entry.node.options.backoff;
    let image = container.image.as_ref().and_then(|name| entry.node.options.images.get(name));
    if let Some(pull) = image.map(|image| image.pull).filter(|pull| !pull.is_zero()) {
        pause_for(pull, &mut stop).await;
    }
    let (mut failures, mut refusals) = (0, 0);
    while stop.borrow().is_none() {
        let spec = match prepare_container(&entry, &container).await {
            Ok(spec) => spec,
            Err(problem) => {
                let (reason, message) = problem.waiting(refusals);
                entry.update(&container.name, |record| record.wait(reason, message));
                refusals += 1;
                pause_for(CONFIG_RETRY, &mut stop).await;
                continue;
            }
        };
        let started = Instant::now();
        run_once(&entry, &container, &spec, &mut stop).await;
        let record = entry.record.borrow().containers.get(&container.name).cloned();
        let code = record.and_then(|record| record.exit_code()).unwrap_or(255);
        let policy = restart_policy(&entry);
        if stop.borrow().is_some() || !restarts_container(kind, &policy, code) {
            return;
        }
        failures = if started.elapsed() > GOOD_RUN { 1 } else { failures + 1 };
        let wait = restart_delay(unit, failures);
        if !wait.is_zero() {
            let message = format!("back-off {wait:?} restarting failed container");
            entry.update(&container.name, |record| record.wait("CrashLoopBackOff", message));
            pause_for(wait, &mut stop).await;
        }
    }
}

fn restart_policy(entry: &PodEntry) -> String {
    let pod = entry.pod.borrow();
    let policy = pod.spec.as_ref().and_then(|spec| spec.restart_policy.clone());
    policy.unwrap_or_else(|| "Always".to_owned())
}

/// Runs the container once, from start to end. The record tells how it ended.
async fn run_once(
    entry: &PodEntry,
    container: &Container,
    spec: &ContainerSpec,
    stop: &mut watch::Receiver<Option<Instant>>,
) {
    let name = &container.name;
    let id = uuid::Uuid::new_v4().simple().to_string();
    let (signals, mut wanted) = mpsc::unbounded_channel();
    let (mut process, output) = match start_container(entry, name, spec).await {
        Ok(started) => started,
        Err(problem) => {
            entry.update(name, |record| {
                record.run(id, Timestamp::now());
                record.end(128, "StartError", problem.to_string(), Timestamp::now());
            });
            return;
        }
    };
    let running = RunningContainer {
        started: process.started().clone(),
        process: spec.process.clone(),
        signals,
    };
    lock(&entry.running).insert(name.clone(), running);
    entry.update(name, |record| record.run(id, Timestamp::now()));

    let grace = Duration::from_secs(grace_seconds(entry));
    let mut unhealthy = None;
    let mut deadline = None;
    let health = probes::monitor_container(entry, container);
    tokio::pin!(health);
    let code = loop {
        let killed_at = deadline;
        tokio::select! {
            ended = process.wait() => break ended.unwrap_or(255),
            Some(signal) = wanted.recv() => {
                let _ = process.signal(signal);
            }
            why = &mut health, if unhealthy.is_none() => {
                unhealthy = Some(why);
                let _ = process.signal(Signal::SIGTERM);
                deadline = Some(Instant::now() + grace);
            }
            by = await_stop(stop), if deadline.is_none() => {
                let _ = process.signal(Signal::SIGTERM);
                deadline = Some(by);
            }
            () = wait_until(killed_at), if killed_at.is_some() => {
                let _ = process.signal(Signal::SIGKILL);
                deadline = Some(Instant::now() + grace.max(CONFIG_RETRY));
            }
        }
    };
    lock(&entry.running).remove(name);
    // Takes the last of its output. The timeout is for a descriptor that the command passed to another
    // process: it must not hold the pod up.
    let _ = tokio::time::timeout(Duration::from_secs(1), output).await;
    let reason = if code == 0 { "Completed" } else { "Error" };
    let message = unhealthy.unwrap_or_default();
    entry.update(name, |record| record.end(code, reason, message, Timestamp::now()));
}

async fn start_container(
    entry: &PodEntry,
    name: &str,
    spec: &ContainerSpec,
) -> Result<(SandboxProcess, tokio::task::JoinHandle<()>), SandboxError> {
    let options = &entry.node.options;
    let (write, output) = log::collect_log(entry.log_path(name), options.log_limit)?;
    let process = SandboxProcess::container(&options.self_exe, spec, write).await?;
    Ok((process, output))
}

/// Grace period of the pod, in seconds: that of its deletion, or else of its spec.
pub(super) fn grace_seconds(entry: &PodEntry) -> u64 {
    let pod = entry.pod.borrow();
    let of_deletion = pod.metadata.deletion_grace_period_seconds;
    let of_spec = pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds);
    of_deletion.or(of_spec).and_then(|seconds| u64::try_from(seconds).ok()).unwrap_or(30)
}

async fn await_stop(stop: &mut watch::Receiver<Option<Instant>>) -> Instant {
    match stop.wait_for(Option::is_some).await.map(|by| *by) {
        Ok(Some(by)) => by,
        _ => Instant::now(),
    }
}

async fn wait_until(time: Option<Instant>) {
    if let Some(time) = time {
        tokio::time::sleep_until(time).await;
    }
}

async fn pause_for(time: Duration, stop: &mut watch::Receiver<Option<Instant>>) {
    let _ = tokio::time::timeout(time, await_stop(stop)).await;
}

/// Everything that the container needs, as it is now.
async fn prepare_container(
    entry: &PodEntry,
    container: &Container,
) -> Result<ContainerSpec, Problem> {
    let name = container.image.clone().unwrap_or_default();
    let options = &entry.node.options;
    let image = options.images.get(&name).ok_or(Problem::Image(name))?;
    let (sandbox, folders) =
        entry.sandbox.get().zip(entry.volumes.get()).ok_or(Problem::NoSandbox)?;
    let ip = entry.record.borrow().ip.ok_or(Problem::NoSandbox)?;
    let pod = entry.pod.borrow().clone();
    // The status may not have come back yet, and a container may ask for its address.
    let mut with_ip = (*pod).clone();
    with_ip.status.get_or_insert_default().pod_ip = Some(ip.to_string());

    let base = image.environment(&container_spec::pod_hostname(&pod));
    let sources = fetch_sources(entry, container).await?;
    let mut environment = env::build_environment(&with_ip, container, base, &sources)?;
    let inject = entry.node.inject_env.read().ok().and_then(|inject| inject.clone());
    if let Some(inject) = inject {
        environment.extend(inject(&with_ip, &container.name));
    }
    let root = entry.dir.join("roots").join(&container.name);
    volumes::remove_folder(&root)?;
    std::fs::create_dir_all(&root)?;
    let around =
        ContainerSurroundings { sandbox: sandbox.pid(), root: &root, volumes: folders, ip };
    Ok(container_spec(&pod, container, image, &environment, around)?)
}

async fn fetch_sources(entry: &PodEntry, container: &Container) -> kube::Result<EnvSources> {
    let wanted = env::find_references(container);
    let (client, namespace) = (&entry.node.client, entry.namespace.as_str());
    let mut sources = EnvSources { config_maps: BTreeMap::new(), secrets: BTreeMap::new() };
    for name in wanted.config_maps {
        if let Some(data) = projected::config_map(client, namespace, &name).await? {
            sources.config_maps.insert(name, data);
        }
    }
    for name in wanted.secrets {
        if let Some(data) = projected::read_secret(client, namespace, &name).await? {
            sources.secrets.insert(name, data);
        }
    }
    Ok(sources)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_started_again() {
        for (kind, policy, after_success, after_failure) in [
            (ContainerKind::Main, "Always", true, true),
            (ContainerKind::Main, "OnFailure", false, true),
            (ContainerKind::Main, "Never", false, false),
            (ContainerKind::Init, "Always", false, true),
            (ContainerKind::Init, "Never", false, false),
            (ContainerKind::Sidecar, "Never", true, true),
        ] {
            let found = (restarts_container(kind, policy, 0), restarts_container(kind, policy, 1));
            assert_eq!(found, (after_success, after_failure), "{kind:?} {policy}");
        }
    }

    #[test]
    fn delays_double_up_to_a_limit() {
        let seconds = |failures| restart_delay(Duration::from_secs(10), failures).as_secs();
        assert_eq!([1, 2, 3, 4, 5, 6, 7, 50].map(seconds), [0, 10, 20, 40, 80, 160, 300, 300]);
    }
}
