//! Where a pod stands, read from its status: what the controller acts on, and what a person has to
//! hear. Container messages are the kubelet's, never the container's own output.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodCondition, PodStatus};

use crate::apply::shortened;

/// Where a pod stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Life {
    /// Not all containers have started.
    Starting,
    /// It runs.
    Running,
    /// It is being deleted.
    Ending,
    /// Every container ended well: nothing was left to do.
    Succeeded,
    /// It ended otherwise.
    Failed {
        /// When, as far as is known.
        at: Timestamp,
        /// What is known of the cause, for people.
        why: String,
        /// What kind of failure it was.
        cause: Cause,
    },
}

impl Life {
    /// Reads a pod.
    pub fn of(pod: &Pod) -> Self {
        if pod.metadata.deletion_timestamp.is_some() {
            return Self::Ending;
        }
        let status = pod.status.clone().unwrap_or_default();
        match status.phase.as_deref() {
            Some("Succeeded") => Self::Succeeded,
            Some("Failed") => {
                let cause = Cause::of(&status);
                let why =
                    if cause == Cause::Evicted { eviction(&status) } else { failure(&status) };
                Self::Failed { at: ended_at(pod, &status), why, cause }
            }
            Some("Running") => Self::Running,
            _ => Self::Starting,
        }
    }

    /// Whether the pod can still do something.
    pub fn is_live(&self) -> bool {
        matches!(self, Self::Starting | Self::Running)
    }
}

/// What kind of failure ended a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The cluster took it away: nobody's fault, and not a failed run.
    Evicted,
    /// A container used more memory than its limit.
    OutOfMemory,
    /// Anything else.
    Crash,
}

impl Cause {
    fn of(status: &PodStatus) -> Self {
        let disrupted = |c: &PodCondition| c.type_ == "DisruptionTarget" && c.status == "True";
        let evicted = matches!(
            status.reason.as_deref(),
            Some(
                "Evicted" | "Preempting" | "NodeLost" | "NodeShutdown" | "Shutdown" | "Terminated"
            )
        );
        if evicted || status.conditions.iter().flatten().any(disrupted) {
            return Self::Evicted;
        }
        let killed = |c: &ContainerStatus| {
            let ended = c.state.as_ref().and_then(|state| state.terminated.as_ref());
            ended.and_then(|ended| ended.reason.as_deref()) == Some("OOMKilled")
        };
        if containers(status).any(killed) { Self::OutOfMemory } else { Self::Crash }
    }

    /// What a person can do about it.
    pub const fn advice(self) -> &'static str {
        match self {
            Self::OutOfMemory => "; give it more memory: workspace.resources of the AgentRole",
            Self::Evicted | Self::Crash => "",
        }
    }
}

/// What keeps a pod from working: a reason and a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// One CamelCase word.
    pub reason: &'static str,
    /// What is wrong and what to do.
    pub message: String,
}

/// Looks for what keeps a live pod from working.
pub fn trouble(pod: &Pod) -> Option<Trouble> {
    let status = pod.status.as_ref()?;
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    unschedulable(status, name).or_else(|| containers(status).find_map(|c| stuck(c, name)))
}

fn unschedulable(status: &PodStatus, name: &str) -> Option<Trouble> {
    let scheduled = status.conditions.iter().flatten().find(|c| c.type_ == "PodScheduled")?;
    let unschedulable =
        scheduled.status == "False" && scheduled.reason.as_deref() == Some("Unschedulable");
    unschedulable.then(|| Trouble {
        reason: "PodUnschedulable",
        message: format!(
            "pod `{name}` can't be scheduled ({}): add room to the cluster, or change the \
             AgentRole's resources, nodeSelector or tolerations",
            shortened(scheduled.message.as_deref().unwrap_or("no reason given"), 300)
        ),
    })
}

fn stuck(container: &ContainerStatus, pod: &str) -> Option<Trouble> {
    let waiting = container.state.as_ref()?.waiting.as_ref()?;
    let name = &container.name;
    let said = shortened(waiting.message.as_deref().unwrap_or("no reason given"), 300);
    let (reason, message) = match waiting.reason.as_deref()? {
        "ErrImagePull" | "ImagePullBackOff" | "InvalidImageName" | "ErrImageNeverPull" => (
            "ImageNotPulled",
            format!(
                "image `{}` of container `{name}` in pod `{pod}` can't be pulled: correct it in \
                 the AgentRole's workspace.image, or let the node pull it",
                container.image
            ),
        ),
        why @ ("CreateContainerConfigError" | "CreateContainerError" | "RunContainerError") => (
            "ContainerNotCreated",
            format!("container `{name}` in pod `{pod}` can't be created ({why}: {said})"),
        ),
        "CrashLoopBackOff" => (
            "ContainerCrashes",
            format!(
                "container `{name}` in pod `{pod}` keeps ending{}: see `kubectl logs {pod} -c \
                 {name}`",
                ending(container).map(|e| format!(" with {e}")).unwrap_or_default()
            ),
        ),
        _ => return None,
    };
    Some(Trouble { reason, message })
}

fn containers(status: &PodStatus) -> impl Iterator<Item = &ContainerStatus> {
    let init = status.init_container_statuses.iter().flatten();
    init.chain(status.container_statuses.iter().flatten())
}

/// How a container ended, now or before its restart: `exit code 137 (OOMKilled)`.
fn ending(container: &ContainerStatus) -> Option<String> {
    let state = container.state.as_ref().and_then(|s| s.terminated.as_ref());
    let last = container.last_state.as_ref().and_then(|s| s.terminated.as_ref());
    let ended = state.or(last).filter(|ended| ended.exit_code != 0)?;
    let reason = ended.reason.as_deref().filter(|r| *r != "Error");
    let reason = reason.map(|r| format!(" ({})", shortened(r, 60))).unwrap_or_default();
    Some(format!("exit code {}{reason}", ended.exit_code))
}

/// Why the cluster took a pod away, in its own words.
fn eviction(status: &PodStatus) -> String {
    let disrupted = status.conditions.iter().flatten().find(|c| c.type_ == "DisruptionTarget");
    let said = disrupted.and_then(|c| c.message.as_ref()).or(status.message.as_ref());
    let said = said.or(status.reason.as_ref()).map(|said| said.trim_end_matches(['.', ' ']));
    said.filter(|said| !said.is_empty())
        .map_or_else(|| failure(status), |said| shortened(said, 200))
}

fn failure(status: &PodStatus) -> String {
    let of = |c: &ContainerStatus| {
        ending(c).map(|ending| format!("container `{}` ended with {ending}", c.name))
    };
    // The agent decides whether a pod fails; its toolbox is only stopped with it.
    let main = status.container_statuses.iter().flatten().find_map(of);
    let cause = main.or_else(|| containers(status).find_map(of));
    let evicted = status.reason.as_deref().map(|reason| shortened(reason, 60));
    cause.or(evicted).unwrap_or_else(|| "no container says why".to_owned())
}

fn ended_at(pod: &Pod, status: &PodStatus) -> Timestamp {
    let ended = |c: &ContainerStatus| {
        c.state.as_ref()?.terminated.as_ref()?.finished_at.as_ref().map(|time| time.0)
    };
    let created = pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
    containers(status).filter_map(ended).max().or(created).unwrap_or(Timestamp::UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

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
        assert_eq!(Life::of(&failed), Life::Failed { at, why, cause: Cause::OutOfMemory });
        let evicted = Life::of(&pod(&json!({"phase": "Failed", "reason": "Evicted"})));
        assert!(
            matches!(evicted, Life::Failed { why, cause: Cause::Evicted, .. } if why == "Evicted")
        );
        let drained = Life::of(&pod(&json!({"phase": "Failed", "conditions": [
            {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}]})));
        assert!(matches!(drained, Life::Failed { cause: Cause::Evicted, .. }));
        let full = Life::of(&pod(&json!({"phase": "Failed", "reason": "Evicted",
            "message": "The node was low on resource: memory. "})));
        let said = "The node was low on resource: memory";
        assert!(matches!(full, Life::Failed { why, .. } if why == said));
    }

    #[test]
    fn what_a_live_pod_waits_for_is_told_with_what_to_do() {
        let unschedulable = pod(&json!({"phase": "Pending", "conditions": [{
            "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
            "message": "0/3 nodes are available: 3 Insufficient memory."}]}));
        let found = trouble(&unschedulable).unwrap();
        assert_eq!(found.reason, "PodUnschedulable");
        assert!(found.message.contains("Insufficient memory"), "{}", found.message);

        for (waiting, reason) in [
            ("ImagePullBackOff", Some("ImageNotPulled")),
            ("CreateContainerConfigError", Some("ContainerNotCreated")),
            ("CrashLoopBackOff", Some("ContainerCrashes")),
            ("PodInitializing", None),
        ] {
            let stuck = pod(&json!({"phase": "Pending", "initContainerStatuses": [{
                "name": "toolbox", "image": "debian:13", "imageID": "", "ready": false,
                "restartCount": 0, "state": {"waiting": {"reason": waiting}}}]}));
            assert_eq!(trouble(&stuck).map(|t| t.reason), reason, "{waiting}");
        }
    }
}
