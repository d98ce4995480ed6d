//! Statuses as kubelets write them.

use serde_json::{Value, json};

use super::*;

fn pod(status: &Value) -> Pod {
    serde_json::from_value(json!({"metadata": {"name": "t-pm"}, "status": status})).unwrap()
}

#[test]
fn a_failed_pod_tells_when_and_why() {
    let terminated = |code: i32, reason: &str, at: &str| json!({"terminated": {"exitCode": code, "reason": reason, "finishedAt": at}});
    let container = |name: &str, state: Value| {
        json!({"name": name, "image": "i", "imageID": "", "ready": false, "restartCount": 0,
               "state": state})
    };
    let failed = pod(&json!({
        "phase": "Failed",
        "initContainerStatuses": [
            container("toolbox", terminated(143, "Error", "2026-01-01T00:00:09Z"))],
        "containerStatuses": [
            container("agent", terminated(137, "OOMKilled", "2026-01-01T00:00:05Z"))],
    }));
    let at = "2026-01-01T00:00:09Z".parse().unwrap();
    let why = "container `agent` ended with exit code 137 (OOMKilled)".to_owned();
    assert_eq!(PodLife::of(&failed), PodLife::Failed { at, why, cause: FailureCause::OutOfMemory });
    let evicted = PodLife::of(&pod(&json!({"phase": "Failed", "reason": "Evicted"})));
    assert!(
        matches!(evicted, PodLife::Failed { why, cause: FailureCause::Evicted, .. } if why == "Evicted")
    );
    let drained = PodLife::of(&pod(&json!({"phase": "Failed", "conditions": [
        {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}]})));
    assert!(matches!(drained, PodLife::Failed { cause: FailureCause::Evicted, .. }));
    let full = PodLife::of(&pod(&json!({"phase": "Failed", "reason": "Evicted",
        "message": "The node was low on resource: memory. "})));
    let said = "The node was low on resource: memory";
    assert!(matches!(full, PodLife::Failed { why, .. } if why == said));
}

fn ended(name: &str, state: &Value) -> Value {
    json!({"name": name, "image": "i", "imageID": "", "ready": false, "restartCount": 0,
           "state": {"terminated": state}})
}

#[test]
fn a_container_that_the_cluster_added_does_not_keep_a_pod_from_ending() {
    let runs = |name: &str| {
        json!({"name": name, "image": "i", "imageID": "", "ready": true, "restartCount": 0,
               "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}})
    };
    let end = |code: i32, reason: &str| {
        let state =
            json!({"exitCode": code, "reason": reason, "finishedAt": "2026-01-01T00:00:05Z"});
        ended("agent", &state)
    };
    let life = |agent: Value, added: Value| {
        PodLife::of(&pod(&json!({
            "phase": "Running", "initContainerStatuses": [runs("toolbox")],
            "containerStatuses": [agent, added],
        })))
    };
    assert_eq!(life(runs("agent"), runs("linkerd-proxy")), PodLife::Running);
    assert_eq!(
        life(runs("agent"), ended("vault-agent", &json!({"exitCode": 0}))),
        PodLife::Running
    );
    assert_eq!(life(end(0, "Completed"), runs("linkerd-proxy")), PodLife::Succeeded);
    let killed = life(end(137, "OOMKilled"), runs("linkerd-proxy"));
    let at = "2026-01-01T00:00:05Z".parse().unwrap();
    let why = "container `agent` ended with exit code 137 (OOMKilled)".to_owned();
    assert_eq!(killed, PodLife::Failed { at, why, cause: FailureCause::OutOfMemory });
    // Its memory is nothing that a setting of the role gives.
    let mut proxy = runs("istio-proxy");
    proxy["lastState"] = json!({"terminated": {"exitCode": 137, "reason": "OOMKilled"}});
    let crashed = json!({"phase": "Failed", "initContainerStatuses": [runs("toolbox"), proxy],
        "containerStatuses": [ended("a-agent", &json!({"exitCode": 2})), end(1, "Error")]});
    let (cause, why, _) = cause(&crashed);
    assert_eq!((cause, &*why), (FailureCause::Crash, "container `agent` ended with exit code 1"));
    // It may fail where the agent has not.
    let proxy = ended("linkerd-proxy", &json!({"exitCode": 137, "reason": "OOMKilled"}));
    let failed = json!({"phase": "Failed", "containerStatuses": [end(0, "Completed"), proxy]});
    assert_eq!(PodLife::of(&pod(&failed)), PodLife::Succeeded);
    let mut late = failed;
    late["reason"] = "DeadlineExceeded".into();
    assert!(matches!(PodLife::of(&pod(&late)), PodLife::Failed { .. }));
    // The toolbox is stopped when the agent has ended, and may take its time.
    let alone = json!({"phase": "Running", "initContainerStatuses": [runs("toolbox")],
        "containerStatuses": [end(0, "Completed")]});
    assert_eq!(PodLife::of(&pod(&alone)), PodLife::Running);
}

fn cause(status: &Value) -> (FailureCause, String, Timestamp) {
    match PodLife::of(&pod(status)) {
        PodLife::Failed { cause, why, at } => (cause, why, at),
        life => panic!("{life:?}"),
    }
}

#[test]
fn an_eviction_is_one_in_whatever_form_a_kubelet_writes_it() {
    let full = "Usage of EmptyDir volume \"tmp\" exceeds the limit \"4Gi\". ";
    // With a reason, and containers whose end nobody has seen.
    let lost = json!({"name": "agent", "image": "i", "imageID": "", "ready": false,
        "restartCount": 0, "state": {"waiting": {"reason": "PodInitializing"}},
        "lastState": {"terminated": {"exitCode": 137, "reason": "ContainerStatusUnknown",
            "finishedAt": null, "startedAt": null}}});
    let said = cause(&json!({"phase": "Failed", "reason": "Evicted", "message": full,
        "containerStatuses": [lost], "conditions": [
            {"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet",
             "message": full, "lastTransitionTime": "2026-01-01T00:00:07Z"},
            {"type": "Ready", "status": "False", "lastTransitionTime": "2026-01-01T00:00:09Z"}]}));
    let at = "2026-01-01T00:00:09Z".parse().unwrap();
    assert_eq!(said, (FailureCause::OutOfDisk, full.trim_end_matches(['.', ' ']).to_owned(), at));
    // Without a reason: nobody here has told the agent to stop.
    let stopped = json!({"exitCode": 143, "reason": "Error", "finishedAt": "2026-01-01T00:00:05Z"});
    let silent = cause(&json!({"phase": "Failed",
        "containerStatuses": [ended("agent", &stopped)]}));
    assert_eq!(silent.0, FailureCause::Evicted);
    // With a reason, though everything in it ended well.
    let well = json!({"exitCode": 0, "reason": "Completed", "finishedAt": "2026-01-01T00:00:05Z"});
    let both = json!({"phase": "Succeeded", "reason": "Evicted", "containerStatuses":
        [ended("agent", &well)], "message": "The node was low on resource: ephemeral-storage."});
    assert_eq!(cause(&both).0, FailureCause::Evicted);
    let mut done = both;
    done["reason"] = Value::Null;
    assert_eq!(PodLife::of(&pod(&done)), PodLife::Succeeded);
}

#[test]
fn a_pod_that_its_node_did_not_take_has_not_failed() {
    let full = "Pod was rejected: Node didn't have enough resource: cpu, requested: 250, used: 3900, \
                capacity: 4000";
    for (reason, unfit) in [
        ("OutOfcpu", false),
        ("OutOfmemory", false),
        ("OutOfpods", false),
        ("UnexpectedAdmissionError", false),
        ("NodeAffinity", true),
        // Tainted between its choice and its start, as by a spot instance's end.
        ("TaintToleration", true),
        ("InvalidNodeInfo", true),
        // Kubernetes 1.35: the driver says no to one more volume.
        ("VolumeAttachmentLimitExceeded", true),
    ] {
        let status = json!({"phase": "Failed", "reason": reason, "message": full});
        let (cause, why, _) = cause(&status);
        assert_eq!((cause, &*why), (FailureCause::Evicted, full), "{reason}");
        assert_eq!(is_about_node(&pod(&status)), unfit, "{reason}");
    }
}

#[test]
fn a_pod_that_no_node_of_its_kind_takes_has_failed_for_the_reason_that_its_kubelet_gives() {
    let said = "Pod was rejected: AppArmor profile is not loaded";
    let (cause, why, _) = cause(&json!({"phase": "Failed", "reason": "AppArmor", "message": said}));
    assert_eq!((cause, why), (FailureCause::Crash, format!("AppArmor: {said}")));
}

#[test]
fn a_pod_that_took_too_long_was_not_evicted() {
    let stopped = json!({"exitCode": 143, "reason": "Error", "finishedAt": "2026-01-01T00:00:05Z"});
    let said = "Pod was active on the node longer than the specified deadline";
    let late = json!({"phase": "Failed", "reason": "DeadlineExceeded", "message": said,
        "containerStatuses": [ended("agent", &stopped)]});
    let (cause, why, _) = cause(&late);
    assert_eq!((cause, why), (FailureCause::Crash, format!("DeadlineExceeded: {said}")));
}

#[test]
fn exit_codes_say_what_ended_a_pod() {
    for (name, code, expected) in [
        ("agent", 3, FailureCause::GatewayAway),
        ("agent", 4, FailureCause::Refused),
        ("agent", 5, FailureCause::VolumeNotWritable),
        ("toolbox", 5, FailureCause::VolumeNotWritable),
        ("agent", 6, FailureCause::NotConfined),
        ("agent", 1, FailureCause::Crash),
        ("toolbox", 3, FailureCause::Crash),
    ] {
        let state = json!({"exitCode": code, "finishedAt": "2026-01-01T00:00:05Z"});
        let found = cause(&json!({"phase": "Failed",
            "containerStatuses": [ended(name, &state)]}));
        assert_eq!(found.0, expected, "{name} {code}");
    }
}

#[test]
fn of_two_containers_the_one_that_ran_out_of_memory_is_named() {
    let killed =
        json!({"exitCode": 137, "reason": "OOMKilled", "finishedAt": "2026-01-01T00:00:05Z"});
    let after = json!({"exitCode": 1, "reason": "Error", "finishedAt": "2026-01-01T00:00:06Z"});
    let mut toolbox = ended("toolbox", &killed);
    // Restarted since.
    toolbox["lastState"] = toolbox["state"].take();
    toolbox["state"] = json!({"running": {}});
    let found = cause(&json!({"phase": "Failed", "initContainerStatuses": [toolbox],
        "containerStatuses": [ended("agent", &after)]}));
    let why = "container `toolbox` ended with exit code 137 (OOMKilled)";
    assert_eq!((found.0, found.1.as_str()), (FailureCause::OutOfMemory, why));
}

#[test]
fn what_a_cluster_mends_by_itself_gets_its_time() {
    let unschedulable = pod(&json!({"phase": "Pending", "conditions": [{
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
        "message": "pod has unbound immediate PersistentVolumeClaims."}]}));
    let at = |now: &str| find_trouble(&unschedulable, now.parse().unwrap()).unwrap();
    assert_eq!(at("2026-01-01T00:00:40Z").passes, Some(SignedDuration::from_secs(140)));
    let late = at("2026-01-01T00:03:00Z");
    assert_eq!(late.passes, None);
    assert!(late.message.contains("storageClassName"), "{}", late.message);
    let pulled = pod(&json!({"phase": "Pending", "containerStatuses": [{
        "name": "agent", "image": "r/agent:1", "imageID": "", "ready": false, "restartCount": 0,
        "state": {"waiting": {"reason": "ErrImagePull", "message": "401 Unauthorized"}}}]}));
    let pulled = find_trouble(&pulled, Timestamp::UNIX_EPOCH).unwrap();
    assert!(pulled.passes.is_some());
    assert!(pulled.message.contains("401") && pulled.message.contains("images.pullSecrets"));
    let added = pod(&json!({"phase": "Pending", "initContainerStatuses": [{
        "name": "istio-proxy", "image": "r/proxyv2:1", "imageID": "", "ready": false, "restartCount": 0,
        "state": {"waiting": {"reason": "ImagePullBackOff", "message": "401 Unauthorized"}}}]}));
    let added = find_trouble(&added, Timestamp::UNIX_EPOCH).unwrap().message;
    assert!(added.contains("`istio-proxy`") && added.contains("ask who keeps that"), "{added}");
    assert!(!added.contains("images.registry"), "{added}");
}

/// As a kubelet says it: each attempt, and the wait before the next one, which is 10 seconds the first time.
#[test]
fn attempts_to_pull_and_the_waits_between_are_one_trouble() {
    let at = |second: u32, reason: &str, message: &str| {
        let stuck = pod(&json!({
            "phase": "Pending",
            "conditions": [{
                "type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z",
            }],
            "initContainerStatuses": [{
                "name": "toolbox", "image": "debain:13", "imageID": "", "ready": false, "restartCount": 0,
                "state": {"waiting": {"reason": reason, "message": message}},
            }],
        }));
        let now = format!("2026-01-01T00:00:{second:02}Z");
        find_trouble(&stuck, now.parse().unwrap()).unwrap()
    };
    let said = "failed to pull and unpack image \"docker.io/library/debain:13\": not found";
    let waits = |reason: &str| format!("Back-off pulling image \"debain:13\": {reason}: {said}");
    assert_eq!(at(2, "ErrImagePull", said).passes, Some(SignedDuration::from_secs(8)));
    let told = at(4, "ImagePullBackOff", &waits("ErrImagePull"));
    assert_eq!((told.reason, told.passes, told.said.as_str()), ("ImageNotPulled", None, said));
    assert_eq!(at(14, "ErrImagePull", said), told, "it does not come and go");
    assert_eq!(at(16, "ImagePullBackOff", &waits("ErrImagePull")), told);
    assert_eq!(at(18, "ImagePullBackOff", &waits("RegistryUnavailable")), told);
    // No back-off ever follows on this one.
    assert_eq!(at(14, "ImageInspectError", said).passes, None);
    // Older kubelets do not say why they wait.
    let older = "Back-off pulling image \"debain:13\"";
    assert_eq!(at(16, "ImagePullBackOff", older).said, older);
}

#[test]
fn what_a_live_pod_waits_for_is_told_with_what_to_do() {
    let unschedulable = pod(&json!({"phase": "Pending", "conditions": [{
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
        "message": "0/3 nodes are available: 3 Insufficient memory."}]}));
    let found = find_trouble(&unschedulable, Timestamp::UNIX_EPOCH).unwrap();
    assert_eq!(found.reason, "PodUnschedulable");
    assert!(found.message.contains("Insufficient memory"), "{}", found.message);

    for (waiting, reason) in [
        ("ImagePullBackOff", Some("ImageNotPulled")),
        ("RegistryUnavailable", Some("ImageNotPulled")),
        ("ImageInspectError", Some("ImageNotPulled")),
        // As CRI-O says it, where a policy wants images to be signed.
        ("SignatureValidationFailed", Some("ImageNotPulled")),
        ("CreateContainerConfigError", Some("ContainerNotCreated")),
        ("CrashLoopBackOff", Some("ContainerCrashes")),
        ("PodInitializing", None),
    ] {
        let stuck = pod(&json!({"phase": "Pending", "initContainerStatuses": [{
            "name": "toolbox", "image": "debian:13", "imageID": "", "ready": false,
            "restartCount": 0, "state": {"waiting": {"reason": waiting}}}]}));
        let found = find_trouble(&stuck, Timestamp::UNIX_EPOCH);
        assert_eq!(found.map(|t| t.reason), reason, "{waiting}");
    }
}

#[test]
fn a_volume_without_idmapped_mounts_is_told_with_the_setting_that_needs_none() {
    let said = "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc \
                create failed: failed to set MOUNT_ATTR_IDMAP on /var/lib/kubelet/pods/1/volumes: invalid \
                argument (maybe the filesystem used doesn't support idmap mounts on this kernel?)";
    let stuck = pod(&json!({"phase": "Pending", "initContainerStatuses": [{
        "name": "toolbox", "image": "debian:13", "imageID": "", "ready": false, "restartCount": 0,
        "state": {"waiting": {"reason": "RunContainerError", "message": said}}}]}));
    let found = find_trouble(&stuck, Timestamp::UNIX_EPOCH).unwrap();
    assert_eq!(found.reason, "ContainerNotCreated");
    assert!(found.message.ends_with("or in spec.pods of the Repo"), "{}", found.message);
}

#[test]
fn an_image_without_a_shell_is_told_and_not_a_log_that_is_not_there() {
    let said = "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc \
                create failed: unable to start container process: error during container init: exec: \
                \"sh\": executable file not found in $PATH";
    let ended = json!({"terminated": {"exitCode": 128, "reason": "StartError", "message": said}});
    let first = json!({"waiting": {"reason": "RunContainerError", "message": said}});
    let later = json!({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}});
    for state in [first, later] {
        let stuck = pod(&json!({"phase": "Pending", "initContainerStatuses": [{
            "name": "toolbox", "image": "bare:1", "imageID": "", "ready": false,
            "restartCount": 1, "state": state, "lastState": ended}]}));
        let found = find_trouble(&stuck, Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!(found.reason, "ContainerNotCreated");
        assert!(found.message.contains("has to have a shell, `sh`"), "{}", found.message);
        assert!(!found.message.contains(" logs "), "{}", found.message);
    }
}
