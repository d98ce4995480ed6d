//! State of a server's pod in the kubelet's and the scheduler's words: what it waits for while it starts, and what
//! keeps it from working.

use codebutler_crds::names::pod as path;
use codebutler_runtime::apply::shorten_text;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodCondition, PodStatus};

use crate::pod_life::{find_trouble, time_to_pull};
use crate::remedies::pull_words;

/// A start that is as quick as most has nothing to say.
const QUICK: SignedDuration = SignedDuration::from_secs(5);
/// The pod's containers, in the order in which they start.
const CONTAINERS: [&str; 3] = [path::INSTALL, path::SERVER, path::BRIDGE];

/// True once all its containers run.
pub(super) fn is_ready(pod: &Pod) -> bool {
    let ready = pod.status.as_ref().and_then(|status| condition(status, "Ready"));
    ready.is_some_and(|ready| ready.status == "True")
}

/// Reason why a pod does not work, and the remedy.
pub(super) fn tell_trouble(pod: &Pod, server: &str, now: Timestamp) -> Option<String> {
    let status = pod.status.as_ref()?;
    let containers = status.container_statuses.iter().flatten();
    let program = containers.into_iter().find(|found| found.name == path::SERVER);
    if let Some(said) = program.and_then(|found| tell_waiting(found, (pod, server), now)) {
        return Some(said);
    }
    find_trouble(pod, now).filter(|found| found.passes.is_none()).map(|found| found.message)
}

/// The kubelet's words on the server's own container.
fn tell_waiting(
    container: &ContainerStatus,
    (pod, server): (&Pod, &str),
    now: Timestamp,
) -> Option<String> {
    let waiting = container.state.as_ref()?.waiting.as_ref()?;
    let said = pull_words(waiting.message.as_deref().unwrap_or("no reason given"));
    let said = shorten_text(said, 300);
    match waiting.reason.as_deref()? {
        why if time_to_pull(why, pod, now).is_some() => None,
        "ErrImagePull"
        | "RegistryUnavailable"
        | "ImageInspectError"
        | "ImagePullBackOff"
        | "InvalidImageName"
        | "ErrImageNeverPull"
        | "SignatureValidationFailed" => Some(format!(
            "image `{}` can't be pulled ({said}): correct `image` of server `{server}` in spec.mcpServers of the Repo, or \
             let nodes pull it (spec.pods.imagePullSecrets)",
            container.image
        )),
        "CreateContainerConfigError" => Some(format!(
            "the container can't be created ({said}): correct `env` of server `{server}` in spec.mcpServers of the Repo, or \
             the Secret that it names"
        )),
        _ => None,
    }
}

/// Reason why a pod takes longer than usual to start. None of it is a fault: large images take minutes, so does a new
/// node.
pub(super) fn tell_wait(pod: &Pod, now: Timestamp) -> Option<String> {
    let made = pod.metadata.creation_timestamp.as_ref()?.0;
    if is_ready(pod) || now.duration_since(made) < QUICK {
        return None;
    }
    Some(pod.status.as_ref().map_or_else(|| NODE.to_owned(), describe_wait))
}

/// Wait of a pod that no scheduler has found a node for.
const NODE: &str = "its pod waits for a node";

fn describe_wait(status: &PodStatus) -> String {
    let has = |type_: &str, value: &str| {
        condition(status, type_).is_some_and(|found| found.status == value)
    };
    if !has("PodScheduled", "True") {
        let said = condition(status, "PodScheduled").and_then(|found| found.message.as_deref());
        let said = said.map(|said| format!(" ({})", shorten_text(said, 200)));
        return format!("{NODE}{}", said.unwrap_or_default());
    }
    if has("PodReadyToStartContainers", "False") {
        return "its node sets up volumes and network".to_owned();
    }
    let find = |name: &&str| {
        let init = status.init_container_statuses.iter().flatten();
        let all = init.chain(status.container_statuses.iter().flatten());
        all.into_iter().find(|found| found.name == **name)
    };
    let waiting = CONTAINERS.iter().filter_map(find).find_map(|found| {
        let waiting = found.state.as_ref()?.waiting.as_ref()?;
        Some((found, waiting.reason.as_deref().unwrap_or_default()))
    });
    match waiting {
        Some((found, "ErrImagePull" | "RegistryUnavailable" | "ImageInspectError")) => {
            format!("image `{}` could not be pulled, which its node tries again", found.image)
        }
        Some((found, "PodInitializing" | "ContainerCreating")) => {
            format!("its node pulls image `{}`", found.image)
        }
        _ => "its containers start".to_owned(),
    }
}

fn condition<'a>(status: &'a PodStatus, type_: &str) -> Option<&'a PodCondition> {
    status.conditions.iter().flatten().find(|found| found.type_ == type_)
}
