//! State of a pod, read from its status: the controller acts on it, and people are told of trouble. Container
//! messages are the kubelet's, never the container's own output.

use codebutler_crds::names::pod::{AGENT, BRIDGE, SERVER, TOOLBOX};
use codebutler_crds::wire::exit_code;
use codebutler_runtime::apply::shorten_text;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{
    ContainerStateTerminated, ContainerStatus, Pod, PodCondition, PodStatus,
};
use kube::ResourceExt as _;

use crate::remedies::{HICCUPS, find_image_remedy, find_remedy, pull_words};

/// Grace period for an autoscaler to add a node.
const TO_SCHEDULE: SignedDuration = SignedDuration::from_mins(3);
/// Reason of a pod that has been held back for longer than a scheduler takes.
pub(crate) const HELD: &str = "PodHeldBack";
/// Interval of looks at a pod that a queue of the cluster's holds back. When it is let go, its watch tells.
const HELD_BACK: SignedDuration = SignedDuration::from_mins(5);
/// Grace period for a registry to answer after all: the kubelet's first back-off. A second failure comes later.
const TO_PULL: SignedDuration = SignedDuration::from_secs(10);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PodLife {
    /// At least one container has not started.
    Starting,
    Running,
    Ending,
    /// The agent ended well: nothing was left to do.
    Succeeded,
    Failed {
        /// Time of the failure, as far as known.
        at: Timestamp,
        /// Cause as far as known, for people.
        why: String,
        /// Kind of failure.
        cause: FailureCause,
    },
}

impl PodLife {
    pub(crate) fn of(pod: &Pod) -> Self {
        if pod.metadata.deletion_timestamp.is_some() {
            return Self::Ending;
        }
        let status = pod.status.clone().unwrap_or_default();
        match status.phase.as_deref() {
            // Evicted while everything in it was ending well, it still is.
            Some("Succeeded") if !is_taken_away(&status) => Self::Succeeded,
            // Another container may have failed, one that the cluster added.
            Some("Failed") if ended_well(&status) => Self::Succeeded,
            Some("Succeeded" | "Failed") => Self::fail(pod, &status),
            Some("Running") => match find_outlived(&status) {
                None => Self::Running,
                Some(0) => Self::Succeeded,
                Some(_) => Self::fail(pod, &status),
            },
            _ => Self::Starting,
        }
    }

    fn fail(pod: &Pod, status: &PodStatus) -> Self {
        let cause = FailureCause::of(status);
        Self::Failed { at: ended_at(pod, status), why: cause.why(status), cause }
    }

    /// True if the pod runs or may still start.
    pub(crate) fn is_live(&self) -> bool {
        matches!(self, Self::Starting | Self::Running)
    }
}

/// Kind of failure that ended a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FailureCause {
    /// The cluster took it away: nobody's fault, and not a failed run.
    Evicted,
    /// The cluster took it away for what it wrote itself.
    OutOfDisk,
    /// A container used more memory than its limit.
    OutOfMemory,
    /// The gateway did not answer.
    GatewayAway,
    /// The gateway did not let it work.
    Refused,
    /// The pod may not write to its volume.
    VolumeNotWritable,
    /// The pod's node can't confine commands.
    NotConfined,
    Crash,
}

impl FailureCause {
    fn of(status: &PodStatus) -> Self {
        let exited = |code: u8| move |c: &ContainerStatus| exit_code_of(c) == Some(i32::from(code));
        let agent = || status.container_statuses.iter().flatten().filter(|c| c.name == AGENT);
        if is_taken_away(status) {
            let own = status.message.as_deref().is_some_and(is_own_disk);
            return if own { Self::OutOfDisk } else { Self::Evicted };
        }
        if is_out_of_time(status) {
            // Only the deadline of the pod itself has stopped its agent.
            return Self::Crash;
        }
        if own_containers(status).any(is_out_of_memory) {
            Self::OutOfMemory
        } else if own_containers(status).any(exited(exit_code::VOLUME_NOT_WRITABLE)) {
            Self::VolumeNotWritable
        } else if agent().any(exited(exit_code::NOT_CONFINED)) {
            Self::NotConfined
        } else if agent().any(exited(exit_code::TOLD_TO_STOP)) {
            // Nobody here has deleted the pod, and not every kubelet says who has.
            Self::Evicted
        } else if agent().any(exited(exit_code::GATEWAY_AWAY)) {
            Self::GatewayAway
        } else if agent().any(exited(exit_code::GATEWAY_REFUSED)) {
            Self::Refused
        } else {
            Self::Crash
        }
    }

    fn why(self, status: &PodStatus) -> String {
        match self {
            Self::Evicted | Self::OutOfDisk => describe_eviction(status),
            Self::OutOfMemory => {
                let killed = own_containers(status).find(|c| is_out_of_memory(c));
                let killed = killed.and_then(|c| Some((&c.name, describe_end(c)?)));
                killed.map_or_else(
                    || describe_failure(status),
                    |(name, ending)| format!("container `{name}` ended with {ending}"),
                )
            }
            Self::GatewayAway => "the gateway did not answer".to_owned(),
            Self::Refused => "the gateway did not let it work".to_owned(),
            Self::VolumeNotWritable => "it may not write to its volume".to_owned(),
            Self::NotConfined => "its node can't confine commands".to_owned(),
            Self::Crash => describe_failure(status),
        }
    }

    /// True if another pod would fail the same way.
    pub(crate) const fn is_lasting(self) -> bool {
        matches!(self, Self::VolumeNotWritable | Self::NotConfined)
    }

    /// Remedy, to follow a sentence about the failure.
    pub(crate) const fn advice(self) -> &'static str {
        match self {
            Self::OutOfMemory => "; give it more memory: workspace.resources of the AgentRole",
            Self::OutOfDisk => {
                "; what commands write outside of the worktree has to be less: large files belong into it"
            }
            Self::VolumeNotWritable => {
                ": the StorageClass has to honour fsGroup; choose another one in \
                 spec.worktree.storageClassName of the Repo"
            }
            Self::Evicted | Self::GatewayAway | Self::Refused | Self::NotConfined | Self::Crash => {
                ""
            }
        }
    }
}

/// Exit code of the agent, once it has ended.
fn agent_end(status: &PodStatus) -> Option<i32> {
    let agent = status.container_statuses.iter().flatten().find(|c| c.name == AGENT);
    Some(agent?.state.as_ref()?.terminated.as_ref()?.exit_code)
}

/// True if the agent of a pod had nothing left to do, whatever became of other containers.
fn ended_well(status: &PodStatus) -> bool {
    agent_end(status) == Some(0) && !is_taken_away(status) && !is_out_of_time(status)
}

/// Exit code of an agent that has ended before a container that the cluster added to its pod, such as a service mesh's
/// proxy: the pod never ends by itself.
fn find_outlived(status: &PodStatus) -> Option<i32> {
    let is_over =
        |c: &ContainerStatus| c.state.as_ref().is_some_and(|state| state.terminated.is_some());
    let outlived = !status.container_statuses.iter().flatten().all(is_over);
    agent_end(status).filter(|_| outlived)
}

fn is_taken_away(status: &PodStatus) -> bool {
    let disrupted = |c: &PodCondition| c.type_ == "DisruptionTarget" && c.status == "True";
    let said = matches!(
        status.reason.as_deref(),
        Some("Evicted" | "Preempting" | "NodeLost" | "NodeShutdown" | "Shutdown" | "Terminated")
    );
    let said = said || status.reason.as_deref().is_some_and(is_turned_down);
    said || status.conditions.iter().flatten().any(disrupted)
}

/// True if a kubelet ended the pod at its `activeDeadlineSeconds`.
fn is_out_of_time(status: &PodStatus) -> bool {
    status.reason.as_deref() == Some("DeadlineExceeded")
}

/// True if a kubelet refused the pod that a scheduler gave it: its node was full by then, or not as the scheduler
/// thought.
fn is_turned_down(reason: &str) -> bool {
    reason.starts_with("OutOf")
        || matches!(reason, "UnexpectedAdmissionError" | "TopologyAffinityError")
        || is_unfit_node(reason)
}

/// True if a kubelet refused the pod for what its node is by then: whatever the pod asks for, another node takes it.
fn is_unfit_node(reason: &str) -> bool {
    matches!(
        reason,
        "InvalidNodeInfo" | "NodeAffinity" | "TaintToleration" | "VolumeAttachmentLimitExceeded"
    )
}

/// True if a kubelet evicts for disk space that the pod's own containers have used.
fn is_own_disk(message: &str) -> bool {
    ["Usage of EmptyDir volume", "ephemeral local storage usage exceeds", "local ephemeral storage"]
        .iter()
        .any(|words| message.contains(words))
        && !message.contains("low on resource")
}

fn is_out_of_memory(container: &ContainerStatus) -> bool {
    find_end(container).and_then(|ended| ended.reason.as_deref()) == Some("OOMKilled")
}

fn exit_code_of(container: &ContainerStatus) -> Option<i32> {
    find_end(container).map(|ended| ended.exit_code)
}

/// Returns the last end of a container: of now, or before its restart.
fn find_end(container: &ContainerStatus) -> Option<&ContainerStateTerminated> {
    let state = container.state.as_ref().and_then(|state| state.terminated.as_ref());
    state.or_else(|| container.last_state.as_ref()?.terminated.as_ref())
}

/// Condition that keeps a pod from working, with a reason and a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PodTrouble {
    pub reason: &'static str,
    /// Sentence that says what is wrong and what to do.
    pub message: String,
    pub said: String,
    /// Longest time in which the trouble may pass by itself, as in a cluster's normal work.
    pub passes: Option<SignedDuration>,
}

/// Looks for what keeps a live pod from working.
pub(crate) fn find_trouble(pod: &Pod, now: Timestamp) -> Option<PodTrouble> {
    let status = pod.status.as_ref()?;
    find_gates(status, pod, now)
        .or_else(|| find_unschedulable(status, pod, now))
        .or_else(|| all_containers(status).find_map(|container| find_stuck(container, pod, now)))
}

fn is_gated(condition: &PodCondition) -> bool {
    condition.type_ == "PodScheduled" && condition.reason.as_deref() == Some("SchedulingGated")
}

/// True as long as somebody else does not let the pod be scheduled.
pub(crate) fn is_held_back(pod: &Pod) -> bool {
    pod.status.iter().flat_map(|status| status.conditions.iter().flatten()).any(is_gated)
}

/// A queue such as Kueue's has put scheduling gates on the pod and takes them away when it is its turn. However long that
/// takes, nothing is wrong; people hear of it after a while.
fn find_gates(status: &PodStatus, pod: &Pod, now: Timestamp) -> Option<PodTrouble> {
    let scheduled = status.conditions.iter().flatten().find(|c| is_gated(c))?;
    let gates = pod.spec.iter().flat_map(|spec| spec.scheduling_gates.iter().flatten());
    let gates: Vec<_> = gates.map(|gate| format!("`{}`", gate.name)).collect();
    let since = scheduled.last_transition_time.as_ref().map_or(now, |since| since.0);
    let left = Some(TO_SCHEDULE - now.duration_since(since)).filter(SignedDuration::is_positive);
    Some(PodTrouble {
        reason: if left.is_some() { "PodStarting" } else { HELD },
        message: format!(
            "pod `{}` waits until the cluster lets it be scheduled: its scheduling gates ({}) are somebody else's, such \
             as a queue's, and go when it is its turn",
            pod.name_any(),
            gates.join(", ")
        ),
        said: shorten_text(scheduled.message.as_deref().unwrap_or_default(), 300),
        passes: Some(left.unwrap_or(HELD_BACK)),
    })
}

fn find_unschedulable(status: &PodStatus, pod: &Pod, now: Timestamp) -> Option<PodTrouble> {
    let (name, namespace) = (pod.name_any(), pod.namespace().unwrap_or_default());
    let scheduled = status.conditions.iter().flatten().find(|c| c.type_ == "PodScheduled")?;
    let unschedulable =
        scheduled.status == "False" && scheduled.reason.as_deref() == Some("Unschedulable");
    let since = scheduled.last_transition_time.as_ref().map(|since| since.0);
    let left = since.map(|since| TO_SCHEDULE - now.duration_since(since));
    let said = shorten_text(scheduled.message.as_deref().unwrap_or("no reason given"), 300);
    let advice = if said.contains("PersistentVolumeClaim") || said.contains("persistentvolumeclaim")
    {
        format!(
            "see `kubectl -n {namespace} describe pvc`; spec.worktree.storageClassName of the Repo has to \
             be a class that the cluster has"
        )
    } else {
        "add room to the cluster, or change the AgentRole's resources, nodeSelector or tolerations"
            .to_owned()
    };
    unschedulable.then(|| PodTrouble {
        reason: "PodUnschedulable",
        message: format!("pod `{name}` can't be scheduled ({said}): {advice}"),
        passes: left.filter(SignedDuration::is_positive),
        said,
    })
}

/// Time that a registry, or the runtime, still has to answer after all, where `reason` is a failure to pull. From then
/// on the kubelet names the failure and its own back-off by turns, which is one trouble.
pub(crate) fn time_to_pull(reason: &str, pod: &Pod, now: Timestamp) -> Option<SignedDuration> {
    let made = pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
    let since = scheduled_at(pod).max(made).unwrap_or(now);
    let left = TO_PULL - now.duration_since(since);
    (HICCUPS.contains(&reason) && left.is_positive()).then_some(left)
}

fn find_stuck(container: &ContainerStatus, pod: &Pod, now: Timestamp) -> Option<PodTrouble> {
    let waiting = container.state.as_ref()?.waiting.as_ref()?;
    let why = waiting.reason.as_deref()?;
    let passes = time_to_pull(why, pod, now);
    let (pod, namespace) = (pod.name_any(), pod.namespace().unwrap_or_default());
    let name = &container.name;
    let said = pull_words(waiting.message.as_deref().unwrap_or("no reason given"));
    let said = shorten_text(said, 300);
    let (reason, message) = match why {
        "ErrImagePull"
        | "RegistryUnavailable"
        | "ImageInspectError"
        | "ImagePullBackOff"
        | "InvalidImageName"
        | "ErrImageNeverPull"
        | "SignatureValidationFailed" => {
            let text = format!(
                "image `{}` of container `{name}` in pod `{pod}` can't be pulled ({said}): {}",
                container.image,
                find_image_remedy(name)
            );
            ("ImageNotPulled", text)
        }
        "CreateContainerConfigError" | "CreateContainerError" | "RunContainerError" => (
            "ContainerNotCreated",
            format!(
                "container `{name}` in pod `{pod}` can't be created ({why}: {said}){}",
                find_remedy(name, &said)
            ),
        ),
        // The container never ran, so it has no log: the kubelet's words are all there is.
        "CrashLoopBackOff" if let Some(why) = why_not_started(container) => (
            "ContainerNotCreated",
            format!(
                "container `{name}` in pod `{pod}` can't be created ({why}){}",
                find_remedy(name, &why)
            ),
        ),
        "CrashLoopBackOff" => (
            "ContainerCrashes",
            format!(
                "container `{name}` in pod `{pod}` keeps ending{}: see `kubectl -n {namespace} logs {pod} \
                 -c {name}`",
                describe_end(container).map(|e| format!(" with {e}")).unwrap_or_default()
            ),
        ),
        _ => return None,
    };
    Some(PodTrouble { reason, message, said, passes })
}

/// Container runtime's message when it could not start a container, as the kubelet has it.
fn why_not_started(container: &ContainerStatus) -> Option<String> {
    let ended = find_end(container)?;
    let reason = ended.reason.as_deref()?;
    let message = ended.message.as_deref().unwrap_or("no reason given");
    ["StartError", "ContainerCannotRun"]
        .contains(&reason)
        .then(|| format!("{reason}: {}", shorten_text(message, 300)))
}

/// Time at which a pod was given a node.
pub(crate) fn scheduled_at(pod: &Pod) -> Option<Timestamp> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let scheduled = conditions.iter().find(|c| c.type_ == "PodScheduled" && c.status == "True")?;
    Some(scheduled.last_transition_time.as_ref()?.0)
}

/// Time since which no node is found for a pod.
pub(crate) fn unscheduled_since(pod: &Pod) -> Option<Timestamp> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let scheduled = conditions.iter().find(|c| c.type_ == "PodScheduled" && c.status == "False")?;
    Some(scheduled.last_transition_time.as_ref()?.0)
}

/// True for the agent that does what it is there for: in a seat, once it has its clone. Containers that a cluster
/// adds to each pod have their own reasons not to be ready.
pub(crate) fn is_ready(pod: &Pod) -> bool {
    PodLife::of(pod) == PodLife::Running && agent_status(pod).is_some_and(|agent| agent.ready)
}

/// Time for which the agent of a pod that has ended was not ready before, if the cluster did not take the pod away.
/// The kubelet notes when readiness changes, which the end of an agent that was never ready does not.
pub(crate) fn ended_unready(pod: &Pod) -> Option<SignedDuration> {
    let status = pod.status.as_ref().filter(|status| !is_taken_away(status))?;
    let ended = find_end(agent_status(pod)?)?.finished_at.as_ref()?.0;
    let conditions = status.conditions.as_ref()?;
    let ready = conditions.iter().find(|c| c.type_ == "Ready" && c.status == "False")?;
    Some(ended.duration_since(ready.last_transition_time.as_ref()?.0))
}

/// Time at which the agent of a pod was started.
pub(crate) fn agent_since(pod: &Pod) -> Option<Timestamp> {
    let running = agent_status(pod)?.state.as_ref()?.running.as_ref()?;
    Some(running.started_at.as_ref()?.0)
}

fn agent_status(pod: &Pod) -> Option<&ContainerStatus> {
    let mut containers = pod.status.as_ref()?.container_statuses.iter().flatten();
    containers.find(|c| c.name == AGENT)
}

fn all_containers(status: &PodStatus) -> impl Iterator<Item = &ContainerStatus> {
    let init = status.init_container_statuses.iter().flatten();
    init.chain(status.container_statuses.iter().flatten())
}

/// Containers that are CodeButler's own. A cluster may add others to a pod.
fn own_containers(status: &PodStatus) -> impl Iterator<Item = &ContainerStatus> {
    all_containers(status).filter(|c| [AGENT, TOOLBOX, SERVER, BRIDGE].contains(&c.name.as_str()))
}

/// Describes the end of a container, of now or before its restart: `exit code 137 (OOMKilled)`.
fn describe_end(container: &ContainerStatus) -> Option<String> {
    let ended = find_end(container).filter(|ended| ended.exit_code != 0)?;
    let reason = ended.reason.as_deref().filter(|r| *r != "Error");
    let reason = reason.map(|r| format!(" ({})", shorten_text(r, 60))).unwrap_or_default();
    Some(format!("exit code {}{reason}", ended.exit_code))
}

/// Reason why the cluster took a pod away, in its own words.
fn describe_eviction(status: &PodStatus) -> String {
    let disrupted = status.conditions.iter().flatten().find(|c| c.type_ == "DisruptionTarget");
    let said = disrupted.and_then(|c| c.message.as_ref()).or(status.message.as_ref());
    let said = said.or(status.reason.as_ref()).map(|said| said.trim_end_matches(['.', ' ']));
    said.filter(|said| !said.is_empty())
        .map_or_else(|| describe_failure(status), |said| shorten_text(said, 200))
}

/// True if a pod was taken away because its node is drained, gone or unfit: no other pod would have stayed.
pub(crate) fn is_about_node(pod: &Pod) -> bool {
    if pod.status.as_ref().and_then(|status| status.reason.as_deref()).is_some_and(is_unfit_node) {
        return true;
    }
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let mut why = conditions.filter(|c| c.type_ == "DisruptionTarget" && c.status == "True");
    let reasons = ["DeletionByPodGC", "DeletionByTaintManager", "EvictionByEvictionAPI"];
    why.any(|c| c.reason.as_deref().is_some_and(|reason| reasons.contains(&reason)))
}

fn describe_failure(status: &PodStatus) -> String {
    let of = |c: &ContainerStatus| {
        describe_end(c).map(|ending| format!("container `{}` ended with {ending}", c.name))
    };
    // The agent decides whether a pod fails; its toolbox is only stopped with it.
    let main = own_containers(status).find(|c| c.name == AGENT).and_then(of);
    let main = main.or_else(|| status.container_statuses.iter().flatten().find_map(of));
    let cause = main.or_else(|| all_containers(status).find_map(of));
    let refused = status.reason.as_deref().map(|reason| match status.message.as_deref() {
        Some(said) => format!("{}: {}", shorten_text(reason, 60), shorten_text(said, 200)),
        None => shorten_text(reason, 60),
    });
    let cause = cause.filter(|_| !is_out_of_time(status));
    cause.or(refused).unwrap_or_else(|| "no container says why".to_owned())
}

/// Time at which a pod ended. The status that an evicting kubelet writes names no end of a container; then it is the
/// time from which the pod was no longer ready.
fn ended_at(pod: &Pod, status: &PodStatus) -> Timestamp {
    let finished = |c: &ContainerStatus| Some(find_end(c)?.finished_at.as_ref()?.0);
    let lost = status.conditions.iter().flatten().filter(|c| {
        (c.type_ == "Ready" && c.status == "False")
            || (c.type_ == "DisruptionTarget" && c.status == "True")
    });
    let lost = lost.filter_map(|c| Some(c.last_transition_time.as_ref()?.0));
    let created = pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
    let ended = all_containers(status).filter_map(finished).chain(lost).max();
    ended.or(created).unwrap_or(Timestamp::UNIX_EPOCH)
}

#[cfg(test)]
mod tests;
