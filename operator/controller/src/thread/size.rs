//! Resource requests and limits of an agent pod's containers.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ResourceRequirements;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

const EPHEMERAL: &str = "ephemeral-storage";

/// Default resources of a container.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ContainerSize {
    cpu: &'static str,
    memory: &'static str,
    memory_limit: &'static str,
    /// Request for the node's disk: logs, and the share of what the pod's folders hold.
    disk: &'static str,
}

impl ContainerSize {
    /// Runs commands, and has `/tmp`.
    pub(crate) const TOOLBOX: Self =
        Self { cpu: "250m", memory: "512Mi", memory_limit: "2Gi", disk: "1Gi" };
    pub(crate) const AGENT: Self =
        Self { cpu: "50m", memory: "64Mi", memory_limit: "512Mi", disk: "64Mi" };
    /// The program of a server of `spec.mcpServers`, with `/tmp` and `HOME`.
    pub(crate) const SERVER: Self =
        Self { cpu: "50m", memory: "128Mi", memory_limit: "1Gi", disk: "256Mi" };
    /// Connects such a server to the gateway.
    pub(crate) const BRIDGE: Self =
        Self { cpu: "10m", memory: "16Mi", memory_limit: "128Mi", disk: "64Mi" };
}

/// Returns the given resources, or else the default ones. A request for the node's disk is always included: a node
/// that does not know of it, or a cluster that fills in its own number, evicts the pod.
pub(crate) fn resources_of(
    given: Option<&ResourceRequirements>,
    usual: ContainerSize,
) -> ResourceRequirements {
    let mut all = given.cloned().unwrap_or_else(|| ResourceRequirements {
        requests: Some(to_quantities(&[("cpu", usual.cpu), ("memory", usual.memory)])),
        limits: Some(to_quantities(&[("memory", usual.memory_limit)])),
        claims: None,
    });
    if !all.limits.as_ref().is_some_and(|limits| limits.contains_key(EPHEMERAL)) {
        let requests = all.requests.get_or_insert_default();
        requests.entry(EPHEMERAL.to_owned()).or_insert_with(|| Quantity(usual.disk.to_owned()));
    }
    all
}

fn to_quantities(pairs: &[(&str, &str)]) -> BTreeMap<String, Quantity> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), Quantity((*value).to_owned()))).collect()
}
