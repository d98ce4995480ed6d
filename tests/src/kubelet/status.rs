//! A pod's status, derived from its spec and what the kubelet remembers. Pure.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    Container, ContainerState, ContainerStateRunning, ContainerStateTerminated,
    ContainerStateWaiting, ContainerStatus, HostIP, Pod, PodCondition, PodIP, PodStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;

use super::HOST_IP;
use super::record::{ContainerRecord, PodRecord, RecordedState, TerminatedRecord};

/// The status to publish. Conditions keep their transition time while they don't change.
pub(super) fn pod_status(pod: &Pod, record: &PodRecord, now: Timestamp) -> PodStatus {
    let spec = pod.spec.clone().unwrap_or_default();
    let old = pod.status.clone().unwrap_or_default();
    let init = spec.init_containers.unwrap_or_default();
    let phase = pod_phase(pod, &init, &spec.containers, record);
    let conditions = pod_conditions(&init, &spec.containers, record, phase);
    let ip = record.ip.map(|ip| ip.to_string());
    let statuses = |containers: &[Container], waiting: &str| {
        let all: Vec<_> =
            containers.iter().map(|c| container_status(pod, c, record, waiting)).collect();
        (!all.is_empty()).then_some(all)
    };
    let main_waits_for = if init.is_empty() { "ContainerCreating" } else { "PodInitializing" };
    PodStatus {
        phase: Some(phase.to_owned()),
        conditions: Some(
            conditions.into_iter().map(|new| stamp_condition(new, &old, pod, now)).collect(),
        ),
        container_statuses: statuses(&spec.containers, main_waits_for),
        init_container_statuses: statuses(&init, "PodInitializing"),
        host_ip: Some(HOST_IP.to_string()),
        host_ips: Some(vec![HostIP { ip: HOST_IP.to_string() }]),
        pod_ips: ip.clone().map(|ip| vec![PodIP { ip }]),
        pod_ip: ip,
        qos_class: old.qos_class.or_else(|| Some("BestEffort".to_owned())),
        start_time: record.start_time.map(Time),
        reason: record.failure.as_ref().map(|(reason, _)| reason.clone()),
        message: record.failure.as_ref().map(|(_, message)| message.clone()),
        ..PodStatus::default()
    }
}

/// True if an init container is a sidecar: it keeps running next to the main containers.
pub(super) fn is_sidecar(container: &Container) -> bool {
    container.restart_policy.as_deref() == Some("Always")
}

fn pod_phase(
    pod: &Pod,
    init: &[Container],
    main: &[Container],
    record: &PodRecord,
) -> &'static str {
    let code = |container: &Container| record.containers.get(&container.name)?.exit_code();
    if record.failure.is_some() {
        return "Failed";
    }
    if record.finished {
        let init_done = init.iter().filter(|c| !is_sidecar(c)).all(|c| code(c) == Some(0));
        let done = init_done && main.iter().all(|c| code(c) == Some(0));
        return if done { "Succeeded" } else { "Failed" };
    }
    let ran = |container: &Container| {
        record.containers.get(&container.name).is_some_and(|container| {
            container.last.is_some() || !matches!(container.state, RecordedState::Waiting { .. })
        })
    };
    // A pod that is being deleted keeps the phase it had.
    let was = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    if record.initialized && main.iter().all(ran)
        || (was == Some("Running") && pod.metadata.deletion_timestamp.is_some())
    {
        "Running"
    } else {
        "Pending"
    }
}

fn container_status(
    pod: &Pod,
    container: &Container,
    record: &PodRecord,
    waiting: &str,
) -> ContainerStatus {
    let image = container.image.clone().unwrap_or_default();
    let absent = ContainerRecord {
        state: RecordedState::waiting(waiting, ""),
        ..ContainerRecord::default()
    };
    let known = record.containers.get(&container.name).unwrap_or(&absent);
    let id = |id: &String| {
        format!("codebutler://{}/{}/{id}", pod.uid().unwrap_or_default(), container.name)
    };
    ContainerStatus {
        name: container.name.clone(),
        image_id: if known.id.is_some() { format!("codebutler://{image}") } else { String::new() },
        image,
        container_id: known.id.as_ref().map(id),
        ready: if is_ended_init(pod, container, known) { true } else { known.ready },
        started: Some(known.started),
        restart_count: known.restarts,
        state: Some(container_state(&known.state)),
        last_state: Some(
            known.last.as_ref().map_or_else(ContainerState::default, terminated_state),
        ),
        ..ContainerStatus::default()
    }
}

/// An ordinary init container is ready once it has succeeded.
fn is_ended_init(pod: &Pod, container: &Container, record: &ContainerRecord) -> bool {
    let init = pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten());
    record.exit_code() == Some(0)
        && !is_sidecar(container)
        && init.into_iter().any(|init| init.name == container.name)
}

fn container_state(state: &RecordedState) -> ContainerState {
    match state {
        RecordedState::Waiting { reason, message } => ContainerState {
            waiting: Some(ContainerStateWaiting {
                reason: Some(reason.clone()),
                message: (!message.is_empty()).then(|| message.clone()),
            }),
            ..ContainerState::default()
        },
        RecordedState::Running { since } => ContainerState {
            running: Some(ContainerStateRunning { started_at: Some(Time(*since)) }),
            ..ContainerState::default()
        },
        RecordedState::Terminated(end) => terminated_state(end),
    }
}

fn terminated_state(end: &TerminatedRecord) -> ContainerState {
    ContainerState {
        terminated: Some(ContainerStateTerminated {
            exit_code: end.exit_code,
            reason: Some(end.reason.clone()),
            message: (!end.message.is_empty()).then(|| end.message.clone()),
            started_at: Some(Time(end.started)),
            finished_at: Some(Time(end.finished)),
            container_id: end.id.clone(),
            signal: None,
        }),
        ..ContainerState::default()
    }
}

fn pod_conditions(
    init: &[Container],
    main: &[Container],
    record: &PodRecord,
    phase: &str,
) -> Vec<PodCondition> {
    let not_ready = |containers: &[Container], only_sidecars: bool| -> Vec<String> {
        containers
            .iter()
            .filter(|c| !only_sidecars || is_sidecar(c))
            .filter(|c| !record.containers.get(&c.name).is_some_and(|known| known.ready))
            .map(|c| c.name.clone())
            .collect()
    };
    let initialized = record.initialized;
    let waiting_for: Vec<String> = init
        .iter()
        .filter(|c| {
            record.containers.get(&c.name).is_none_or(|known| {
                if is_sidecar(c) { !known.started } else { known.exit_code() != Some(0) }
            })
        })
        .map(|c| c.name.clone())
        .collect();
    let mut unready = not_ready(main, false);
    unready.extend(not_ready(init, true));
    let ready = initialized && unready.is_empty() && phase == "Running";
    let (reason, message) = match phase {
        "Succeeded" => (Some("PodCompleted"), None),
        "Failed" => (Some("PodFailed"), None),
        _ if ready => (None, None),
        _ => (
            Some("ContainersNotReady"),
            Some(format!("containers with unready status: [{}]", unready.join(" "))),
        ),
    };
    let readiness =
        |type_| make_condition(type_, ready, reason.map(str::to_owned), message.clone());
    vec![
        make_condition("PodScheduled", true, None, None),
        make_condition(
            "Initialized",
            initialized,
            (!initialized).then(|| "ContainersNotInitialized".to_owned()),
            (!initialized)
                .then(|| format!("containers with incomplete status: [{}]", waiting_for.join(" "))),
        ),
        readiness("ContainersReady"),
        readiness("Ready"),
    ]
}

fn make_condition(
    type_: &str,
    holds: bool,
    reason: Option<String>,
    message: Option<String>,
) -> PodCondition {
    PodCondition {
        type_: type_.to_owned(),
        status: if holds { "True" } else { "False" }.to_owned(),
        reason,
        message,
        ..PodCondition::default()
    }
}

fn stamp_condition(new: PodCondition, old: &PodStatus, pod: &Pod, now: Timestamp) -> PodCondition {
    let same = old
        .conditions
        .iter()
        .flatten()
        .find(|old| old.type_ == new.type_ && old.status == new.status);
    let since = same.and_then(|old| old.last_transition_time.clone());
    PodCondition {
        last_transition_time: since.or(Some(Time(now))),
        observed_generation: pod.metadata.generation,
        ..new
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json};

    use super::*;

    fn pod() -> Pod {
        from_value(json!({"metadata": {"name": "p", "uid": "u"}, "spec": {
            "restartPolicy": "Never",
            "initContainers": [{"name": "init"}, {"name": "side", "restartPolicy": "Always"}],
            "containers": [{"name": "main"}],
        }}))
        .unwrap()
    }

    /// Phase and the statuses of the conditions, in their order.
    fn short(pod: &Pod, record: &PodRecord) -> String {
        let status = pod_status(pod, record, Timestamp::UNIX_EPOCH);
        let conditions = status.conditions.unwrap_or_default();
        let conditions: Vec<_> = conditions.iter().map(|c| &c.status[..1]).collect();
        format!("{} {}", status.phase.unwrap_or_default(), conditions.concat())
    }

    #[test]
    fn a_life() {
        let (pod, now) = (pod(), Timestamp::UNIX_EPOCH);
        let mut record = PodRecord::default();
        assert_eq!(short(&pod, &record), "Pending TFFF");
        let mut init = ContainerRecord::default();
        init.run("1".into(), now);
        init.end(0, "Completed", String::new(), now);
        record.containers.insert("init".into(), init);
        let mut side = ContainerRecord::default();
        side.run("1".into(), now);
        (side.started, side.ready) = (true, true);
        record.containers.insert("side".into(), side);
        record.initialized = true;
        assert_eq!(short(&pod, &record), "Pending TTFF");
        let mut main = ContainerRecord::default();
        main.run("1".into(), now);
        record.containers.insert("main".into(), main.clone());
        assert_eq!(short(&pod, &record), "Running TTFF");
        (main.started, main.ready) = (true, true);
        record.containers.insert("main".into(), main.clone());
        assert_eq!(short(&pod, &record), "Running TTTT");
        main.end(0, "Completed", String::new(), now);
        record.containers.insert("main".into(), main.clone());
        assert_eq!(short(&pod, &record), "Running TTFF", "the sidecar is still there");
        record.finished = true;
        assert_eq!(short(&pod, &record), "Succeeded TTFF");
        main.end(2, "Error", String::new(), now);
        record.containers.insert("main".into(), main);
        assert_eq!(short(&pod, &record), "Failed TTFF");
    }

    #[test]
    fn restarts_are_counted() {
        let now = Timestamp::UNIX_EPOCH;
        let mut record = ContainerRecord::default();
        record.run("1".into(), now);
        assert_eq!(record.restarts, 0);
        record.end(1, "Error", String::new(), now);
        record.wait("CrashLoopBackOff", String::new());
        record.run("2".into(), now);
        assert_eq!((record.restarts, record.last.as_ref().map(|end| end.exit_code)), (1, Some(1)));
    }
}
