//! One pod, from its first look at it to its last: sandbox, order of containers, status, end.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod, Service};
use kube::api::{DeleteParams, ListParams, Preconditions};
use kube::core::Status;
use kube::{Api, ResourceExt as _};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::container_spec::pod_hostname;
use super::entry::{PodEntry, PodStop, lock};
use super::forward::{ForwardEndpoint, ForwardTarget};
use super::options::NetworkLeak;
use super::record::RecordedState;
use super::sandbox::spec::PodSpec;
use super::sandbox::{PodSandbox, SandboxError};
use super::status::is_sidecar;
use super::supervisor::{self, ContainerKind, supervise_container};
use super::{log, projected, volumes};
use crate::serving::own_loopback_address;

const RETRY: Duration = Duration::from_millis(300);
/// Grace period of a sidecar where the main containers have used up the pod's.
const LAST_GRACE: Duration = Duration::from_secs(2);

/// A container's supervisor and how to stop it.
struct WorkerTask {
    name: String,
    kind: ContainerKind,
    stop: watch::Sender<Option<Instant>>,
    join: JoinHandle<()>,
}

/// Runs the pod until nothing is left of it here and in the API.
pub(super) async fn run_pod(entry: Arc<PodEntry>) {
    entry.node.tasks.spawn(publish_changes(entry.clone()));
    let tasks = std::sync::Mutex::new(Vec::new());
    let mut is_late = false;
    let interrupted = tokio::select! {
        biased;
        why = await_stop(&entry) => Some(why),
        () = live_pod(&entry, &tasks) => None,
        () = await_deadline(&entry) => {
            is_late = true;
            None
        }
    };
    let tasks = std::mem::take(&mut *lock(&tasks));
    let grace = match interrupted {
        Some(PodStop::AtOnce) => Duration::ZERO,
        _ => Duration::from_secs(supervisor::grace_seconds(&entry)),
    };
    terminate_tasks(tasks, grace, interrupted == Some(PodStop::AtOnce)).await;
    if let Some(sandbox) = entry.sandbox.get() {
        sandbox.stop().await;
    }
    entry.record.send_modify(|record| {
        record.finished = true;
        if is_late {
            let why = "Pod was active on the node longer than the specified deadline";
            record.failure = Some(("DeadlineExceeded".to_owned(), why.to_owned()));
        }
    });
    let why = if let Some(why) = interrupted {
        why
    } else {
        publish_status(&entry).await;
        await_stop(&entry).await
    };
    if why == PodStop::Deleted {
        publish_status(&entry).await;
        delete_pod(&entry).await;
    }
    entry.done.cancel();
    if let Err(error) = log::keep_logs(&entry.dir, &entry.kept_logs()) {
        tracing::debug!(pod = entry.name, %error, "logs not kept");
    }
    if let Err(error) = volumes::remove_folder(&entry.dir) {
        tracing::warn!(pod = entry.name, %error, "pod folder is left behind");
    }
    lock(&entry.node.pods).remove(&entry.uid);
}

/// Waits for a reason to stop.
async fn await_stop(entry: &PodEntry) -> PodStop {
    let mut stop = entry.stop.subscribe();
    tokio::select! {
        () = entry.node.shutdown.cancelled() => PodStop::AtOnce,
        why = stop.wait_for(Option::is_some) => why.ok().and_then(|why| *why).unwrap_or(PodStop::AtOnce),
    }
}

/// Returns once the pod has been active for as long as its spec allows.
async fn await_deadline(entry: &PodEntry) {
    let spec = entry.pod.borrow().spec.clone().unwrap_or_default();
    match spec.active_deadline_seconds.and_then(|seconds| u64::try_from(seconds).ok()) {
        Some(seconds) => tokio::time::sleep(Duration::from_secs(seconds)).await,
        None => std::future::pending().await,
    }
}

/// The pod's life if nobody interferes. Supervisors are left in `tasks`.
async fn live_pod(entry: &Arc<PodEntry>, tasks: &std::sync::Mutex<Vec<WorkerTask>>) {
    let spec = entry.pod.borrow().spec.clone().unwrap_or_default();
    if spec.restart_policy.as_deref() == Some("Never") && ran_before(entry) {
        // Its processes have died with the kubelet that ran them, and may not be repeated.
        let why = "the kubelet was restarted while the pod was running";
        entry.record.send_modify(|record| {
            record.failure = Some(("KubeletRestarted".to_owned(), why.to_owned()));
        });
        return;
    }
    let init = spec.init_containers.unwrap_or_default();
    let first = init.first().or(spec.containers.first()).map(|c| c.name.clone());
    let first = first.unwrap_or_default();
    prepare_volumes(entry, &first).await;
    prepare_sandbox(entry, &first).await;
    let begin = |container: &Container, kind| {
        let stop = watch::channel(None).0;
        let supervisor =
            supervise_container(entry.clone(), container.clone(), kind, stop.subscribe());
        let join = entry.node.tasks.spawn(supervisor);
        lock(tasks).push(WorkerTask { name: container.name.clone(), kind, stop, join });
    };
    for container in &init {
        let kind = if is_sidecar(container) { ContainerKind::Sidecar } else { ContainerKind::Init };
        begin(container, kind);
        if kind == ContainerKind::Sidecar {
            wait_until(entry, |record| {
                record.containers.get(&container.name).is_some_and(|known| known.started)
            })
            .await;
        } else {
            await_end(tasks, &container.name).await;
            let code = entry
                .record
                .borrow()
                .containers
                .get(&container.name)
                .and_then(super::record::ContainerRecord::exit_code);
            if code != Some(0) {
                return;
            }
        }
    }
    entry.record.send_modify(|record| record.initialized = true);
    for container in &spec.containers {
        begin(container, ContainerKind::Main);
    }
    for container in &spec.containers {
        await_end(tasks, &container.name).await;
    }
}

/// True if an earlier kubelet has started containers of this pod.
fn ran_before(entry: &PodEntry) -> bool {
    let pod = entry.pod.borrow();
    let Some(status) = &pod.status else { return false };
    let all = status.init_container_statuses.iter().chain(&status.container_statuses).flatten();
    all.into_iter().any(|status| status.container_id.is_some())
}

/// Waits for a supervisor without taking it from `terminate_tasks`.
async fn await_end(tasks: &std::sync::Mutex<Vec<WorkerTask>>, name: &str) {
    let stop = lock(tasks).iter().find(|task| task.name == name).map(|task| task.stop.clone());
    if let Some(stop) = stop {
        // The supervisor holds the only receiver.
        stop.closed().await;
    }
}

async fn wait_until(entry: &PodEntry, holds: impl Fn(&super::record::PodRecord) -> bool) {
    let _ = entry.record.subscribe().wait_for(|record| holds(record)).await;
}

/// Main and init containers together, then sidecars from the last to the first.
async fn terminate_tasks(tasks: Vec<WorkerTask>, grace: Duration, at_once: bool) {
    let deadline = Instant::now() + grace;
    let (sidecars, others): (Vec<_>, Vec<_>) =
        tasks.into_iter().partition(|task| task.kind == ContainerKind::Sidecar);
    if at_once {
        for sidecar in &sidecars {
            sidecar.stop.send_replace(Some(deadline));
        }
    }
    for task in &others {
        task.stop.send_replace(Some(deadline));
    }
    for task in others {
        let _ = task.join.await;
    }
    for sidecar in sidecars.into_iter().rev() {
        let deadline = if at_once { deadline } else { deadline.max(Instant::now() + LAST_GRACE) };
        sidecar.stop.send_replace(Some(deadline));
        let _ = sidecar.join.await;
    }
}

async fn prepare_volumes(entry: &Arc<PodEntry>, first: &str) {
    let mut tokens = projected::ProjectedTokens::new();
    loop {
        match volumes::prepare_volumes(entry, &mut tokens).await {
            Err(problem) => tell_waiting(entry, first, &problem.to_string()),
            Ok(folders) => {
                let _ = entry.volumes.set(folders);
                entry.node.tasks.spawn(keep_fresh(entry.clone(), tokens));
                return;
            }
        }
        tokio::time::sleep(RETRY).await;
    }
}

/// Projected volumes follow their sources, and tokens are replaced in time.
async fn keep_fresh(entry: Arc<PodEntry>, mut tokens: projected::ProjectedTokens) {
    let mut changes = entry.node.changes.subscribe();
    let mut pod = entry.pod.subscribe();
    let meta = |pod: &Pod| (pod.metadata.labels.clone(), pod.metadata.annotations.clone());
    let mut seen = meta(&pod.borrow_and_update().clone());
    let mut retry = false;
    loop {
        let due = projected::next_refresh(&tokens).map_or(Duration::from_hours(1), |at| {
            at.duration_since(Timestamp::now()).try_into().unwrap_or_default()
        });
        let due = if retry { RETRY } else { due };
        tokio::select! {
            () = entry.done.cancelled() => return,
            () = tokio::time::sleep(due) => {}
            event = changes.recv() => {
                if event.is_ok_and(|namespace| namespace != entry.namespace) {
                    continue;
                }
            }
            Ok(()) = pod.changed() => {
                let now = meta(&pod.borrow_and_update().clone());
                if std::mem::replace(&mut seen, now.clone()) == now {
                    continue;
                }
            }
        }
        let result = volumes::refresh_volumes(&entry, &mut tokens).await;
        retry = result.is_err();
        if let Err(error) = result {
            tracing::debug!(pod = entry.name, %error, "volume refresh");
        }
    }
}

async fn prepare_sandbox(entry: &Arc<PodEntry>, first: &str) {
    let host_network = has_host_network(entry);
    let ip = if host_network { own_loopback_address() } else { entry.node.new_ip() };
    loop {
        let started = if host_network {
            let (hostname, addresses) = (pod_hostname(&entry.pod.borrow()), Vec::new());
            let spec = PodSpec { hostname, addresses, host_network };
            PodSandbox::start(&entry.node.options.self_exe, &spec).await
        } else {
            start_sandbox(entry, ip).await
        };
        match started {
            Ok(sandbox) => {
                let _ = entry.sandbox.set(sandbox);
                entry.record.send_modify(|record| record.ip = Some(ip));
                return;
            }
            Err(problem) => tell_waiting(entry, first, &problem.to_string()),
        }
        tokio::time::sleep(RETRY).await;
    }
}

/// True if the pod's images ask for this machine's network.
fn has_host_network(entry: &PodEntry) -> bool {
    let pod = entry.pod.borrow();
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let mut images = containers.filter_map(|container| container.image.as_ref());
    let known = &entry.node.options.images;
    images.any(|image| known.get(image).is_some_and(|image| image.host_network))
}

/// Services of a name, whose addresses lead to their endpoints.
async fn proxied_services(
    entry: &PodEntry,
    name: &str,
) -> kube::Result<Vec<(SocketAddr, ForwardTarget, Option<Duration>)>> {
    let client = &entry.node.client;
    let named = ListParams::default().fields(&format!("metadata.name={name}"));
    let services = Api::<Service>::all(client.clone()).list(&named).await?;
    let mut forwards = Vec::new();
    for service in services {
        let namespace = service.namespace().unwrap_or_default();
        let slices = Api::namespaced(client.clone(), &namespace);
        let spec = service.spec.unwrap_or_default();
        let Some(ip) = spec.cluster_ip.and_then(|ip| ip.parse().ok()) else { continue };
        for port in spec.ports.into_iter().flatten() {
            let Ok(number) = u16::try_from(port.port) else { continue };
            let (slices, service) = (Api::clone(&slices), name.to_owned());
            let endpoint = ForwardEndpoint { slices, service, port: port.name };
            let target = ForwardTarget::Endpoint(Box::new(endpoint));
            forwards.push((SocketAddr::new(ip, number), target, None));
        }
    }
    Ok(forwards)
}

async fn start_sandbox(entry: &Arc<PodEntry>, ip: IpAddr) -> Result<PodSandbox, SandboxError> {
    let options = &entry.node.options;
    let mut forwards = match &options.proxied {
        Some(name) => proxied_services(entry, name)
            .await
            .map_err(|error| SandboxError::Refused(error.to_string()))?,
        None => Vec::new(),
    };
    for forward in &options.services {
        let services: Api<Service> = Api::namespaced(entry.node.client.clone(), &forward.namespace);
        let service = services.get_opt(&forward.service).await;
        // The pod would have no way there for all of its life.
        let service = service.map_err(|error| SandboxError::Refused(error.to_string()))?;
        let address = service.and_then(|service| service.spec?.cluster_ip?.parse().ok());
        if let Some(address) = address {
            let target = ForwardTarget::Address(forward.target);
            forwards.push((SocketAddr::new(address, forward.port), target, None));
        } else {
            tracing::warn!(service = forward.service, "no such Service to forward to");
        }
    }
    let leak = |leak: &NetworkLeak| (leak.address, ForwardTarget::Address(leak.target), leak.lasts);
    forwards.extend(options.leaks.iter().map(leak));
    let mut addresses = vec![ip];
    let given = forwards.iter().map(|(address, ..)| address.ip());
    // The loopback's own are there.
    addresses.extend(given.filter(|address| !address.is_loopback()));
    addresses.sort_unstable();
    addresses.dedup();
    let pod = entry.pod.borrow().clone();
    let spec = PodSpec { hostname: pod_hostname(&pod), addresses, host_network: false };
    let sandbox = PodSandbox::start(&options.self_exe, &spec).await?;
    for (address, target, lasts) in forwards {
        let listener = sandbox.listen(address).await?;
        let done = entry.done.clone();
        entry.node.tasks.spawn(async move {
            tokio::select! {
                () = done.cancelled() => {}
                () = tokio::time::sleep(lasts.unwrap_or(Duration::MAX)) => {}
                () = super::forward::serve_forward(listener, target) => {}
            }
        });
    }
    Ok(sandbox)
}

fn tell_waiting(entry: &PodEntry, container: &str, problem: &str) {
    entry.record.send_if_modified(|record| {
        let known = record.containers.entry(container.to_owned()).or_default();
        let state = RecordedState::waiting("ContainerCreating", problem);
        std::mem::replace(&mut known.state, state.clone()) != state
    });
}

async fn publish_changes(entry: Arc<PodEntry>) {
    let mut record = entry.record.subscribe();
    loop {
        publish_status(&entry).await;
        tokio::select! {
            () = entry.done.cancelled() => return,
            changed = record.changed() => if changed.is_err() { return },
        }
    }
}

/// Publishes the status, again and again until the API server has taken or refused it.
async fn publish_status(entry: &PodEntry) {
    loop {
        match entry.publish().await {
            Ok(()) => return,
            Err(error) => {
                let read = || async { entry.api().get_opt(&entry.name).await };
                if let kube::Error::Api(status) = &error
                    && is_gone(status, &entry.uid, read).await
                {
                    return;
                }
                tracing::warn!(pod = entry.name, %error, "status not published");
            }
        }
        tokio::select! {
            () = entry.done.cancelled() => return,
            () = tokio::time::sleep(RETRY) => {}
        }
    }
}

/// True if a refusal means that the pod is gone or was replaced. A conflict alone does not: it is also the answer where
/// others wrote the pod at the same time, so the pod is read again.
async fn is_gone<F>(status: &Status, uid: &str, read: impl FnOnce() -> F) -> bool
where
    F: Future<Output = kube::Result<Option<Pod>>>,
{
    if !status.is_conflict() {
        return crate::cluster::is_replaced(status);
    }
    read().await.is_ok_and(|pod| pod.is_none_or(|pod| pod.uid().as_deref() != Some(uid)))
}

/// Tells the API server that nothing is left of the pod.
async fn delete_pod(entry: &PodEntry) {
    let params = DeleteParams {
        grace_period_seconds: Some(0),
        preconditions: Some(Preconditions {
            uid: Some(entry.uid.clone()),
            ..Preconditions::default()
        }),
        ..DeleteParams::default()
    };
    loop {
        match entry.api().delete(&entry.name, &params).await {
            Ok(_) => return,
            Err(kube::Error::Api(status)) if status.is_not_found() => return,
            Err(error) => {
                let read = || async { entry.api().get_opt(&entry.name).await };
                if let kube::Error::Api(status) = &error
                    && status.is_conflict()
                    && is_gone(status, &entry.uid, read).await
                {
                    return;
                }
                tracing::warn!(pod = entry.name, %error, "pod not deleted");
            }
        }
        tokio::select! {
            () = entry.node.shutdown.cancelled() => return,
            () = tokio::time::sleep(RETRY) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

    use super::*;

    fn pod(uid: &str) -> Pod {
        let metadata = ObjectMeta { uid: Some(uid.to_owned()), ..ObjectMeta::default() };
        Pod { metadata, ..Pod::default() }
    }

    #[tokio::test]
    async fn a_conflict_of_writers_does_not_end_a_pods_status() {
        let conflict = Status { code: 409, reason: "Conflict".to_owned(), ..Status::default() };
        let missing = Status { code: 404, reason: "NotFound".to_owned(), ..Status::default() };
        let gone = async |status: &Status, found: kube::Result<Option<Pod>>| {
            is_gone(status, "1", || std::future::ready(found)).await
        };
        assert!(!gone(&conflict, Ok(Some(pod("1")))).await, "others wrote at the same time");
        assert!(gone(&conflict, Ok(Some(pod("2")))).await, "another one has the name");
        assert!(gone(&conflict, Ok(None)).await);
        let away = kube::Error::LinesCodecMaxLineLengthExceeded;
        assert!(!gone(&conflict, Err(away)).await, "nobody knows");
        assert!(gone(&missing, Ok(Some(pod("1")))).await);
    }
}
