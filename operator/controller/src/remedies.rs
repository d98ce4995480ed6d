//! Remedies for containers that a node can't create, or whose image it can't pull, from a kubelet's words. Pure.

use codebutler_crds::names::pod::{AGENT, BRIDGE, INSTALL, TOOLBOX};

/// Failures to pull an image that a kubelet tries again, as it names them before it backs off.
pub(crate) const HICCUPS: [&str; 3] = ["ErrImagePull", "RegistryUnavailable", "ImageInspectError"];

/// A kubelet's words on a pull that failed, without those that it adds while it waits before the next one.
pub(crate) fn pull_words(message: &str) -> &str {
    let waits = message.strip_prefix("Back-off pulling image ");
    let Some((_, said)) = waits.and_then(|rest| rest.split_once("\": ")) else { return message };
    let named = said.split_once(": ").filter(|(reason, _)| HICCUPS.contains(reason));
    named.map_or(said, |(_, said)| said)
}

/// Remedy for a container's image that can't be pulled.
pub(crate) fn find_image_remedy(container: &str) -> &'static str {
    match container {
        TOOLBOX => {
            "correct it in the AgentRole's workspace.image, or let the node pull it (images.pullSecrets of the chart, \
             imagePullSecrets of the AgentRole)"
        }
        AGENT | BRIDGE | INSTALL => {
            "correct the chart's images.registry, or let the node pull it (images.pullSecrets of the chart, \
             imagePullSecrets of the AgentRole)"
        }
        _ => {
            "the cluster adds this container to pods, such as by a webhook of a service mesh: ask who keeps that, or turn it \
             off for these pods (annotations or labels in spec.pods of the Repo)"
        }
    }
}

/// Remedy for an image in which no command could run, and for a node or volume that knows no other users.
pub(crate) fn find_remedy(container: &str, said: &str) -> &'static str {
    // runc quotes the name one way, crun the other.
    if container == TOOLBOX && ["\"sh\"", "`sh`"].iter().any(|shell| said.contains(shell)) {
        ": the image of the AgentRole's workspace.image has to have a shell, `sh`"
    } else {
        needs_host_users(said)
    }
}

/// Remedy for a node that has no user namespaces, or a volume whose file system has no idmapped mounts.
pub(crate) fn needs_host_users(said: &str) -> &'static str {
    let said = said.to_ascii_lowercase();
    if ["hostusers", "user namespace", "idmap"].iter().any(|words| said.contains(words)) {
        ": set hostUsers: true in agents.pods of the chart, or in spec.pods of the Repo"
    } else {
        ""
    }
}
