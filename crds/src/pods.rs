//! Settings of platform teams for pods that they don't write: [`PodSettings`], given for an installation, a Repo and
//! an AgentRole, each over the one before.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Affinity, NodeAffinity, PodAffinity, PodAntiAffinity, ResourceRequirements, SELinuxOptions,
    Toleration, TopologySpreadConstraint,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Settings that are added to agent pods.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodSettings {
    /// Labels of the pods, such as a cost centre's. Those of CodeButler and of `app.kubernetes.io` are
    /// its own.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend(
        "maxProperties" = 32,
        "x-kubernetes-validations" = [{
            "rule": "self.all(name, !name.startsWith('codebutler.dev/') && !name.startsWith('app.kubernetes.io/'))",
            "message": "labels of codebutler.dev and app.kubernetes.io are CodeButler's own: choose another prefix"
        }]
    ))]
    pub labels: BTreeMap<String, String>,
    /// Annotations of the pods, such as `sidecar.istio.io/inject: "false"`. Those of CodeButler are its
    /// own, and so are the two that keep autoscalers from ending a run.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend(
        "maxProperties" = 32,
        "x-kubernetes-validations" = [{
            "rule": "self.all(name, !name.startsWith('codebutler.dev/') && name != 'cluster-autoscaler.kubernetes.io/safe-to-evict' && name != 'karpenter.sh/do-not-disrupt' && name != 'kubectl.kubernetes.io/default-container')",
            "message": "codebutler.dev/…, cluster-autoscaler.kubernetes.io/safe-to-evict, karpenter.sh/do-not-disrupt and kubectl.kubernetes.io/default-container are CodeButler's own annotations: leave them out"
        }]
    ))]
    pub annotations: BTreeMap<String, String>,
    /// Labels of the nodes that the pods may run on. `kubernetes.io/os` is `linux` unless it is here.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub node_selector: BTreeMap<String, String>,
    /// Affinity of the pods to nodes and to other pods. A rule that keeps a Thread's pods on one node is added where
    /// its volume asks for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub affinity: Option<Affinity>,
    /// Taints that the pods tolerate.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub tolerations: Vec<Toleration>,
    /// Constraints on how the pods spread over zones or nodes. Pods of a Thread whose volume is ReadWriteOnce share a
    /// node all the same.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    pub topology_spread_constraints: Vec<TopologySpreadConstraint>,
    /// PriorityClass of the pods; the cluster's default if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub priority_class_name: Option<String>,
    /// RuntimeClass of the pods, such as `gvisor`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub runtime_class_name: Option<String>,
    /// If true, the pods share the node's user namespace. `false` gives each a user namespace of its own, in which
    /// even its root would be nobody outside. If absent: `false` where the cluster is Kubernetes 1.33 or newer and
    /// the pods have no RuntimeClass. `true` where nodes or volumes can't do that: it needs Linux 6.3, containerd 2.0
    /// or CRI-O, runc 1.2, and file systems with idmapped mounts, which NFS has not. `status.roles` of a Thread says
    /// what is so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_users: Option<bool>,
    /// Secrets of type `kubernetes.io/dockerconfigjson`, in the namespace of the Threads, with which
    /// nodes pull the pods' images. No container sees them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    pub image_pull_secrets: Vec<PullSecret>,
    /// Pull policy of the pods' images. The cluster's default for each image if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_pull_policy: Option<PullPolicy>,
    /// Requests and limits by container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<PodResources>,
    /// As whom the pods run. If absent: as user, group and file system group 10001 (1000 with a volume from before
    /// that) with a SELinux level of the Thread, or of the namespace where `volumes` of the Repo or the installation have
    /// a claim, and on OpenShift as `{}` says. `{}`: as the platform chooses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub security_context: Option<PodUser>,
    /// Volumes for commands, such as a cache that builds share. What one Thread puts into a claim,
    /// others find.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub volumes: Vec<ExtraVolume>,
}

/// Reference to an image pull Secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PullSecret {
    /// Name of a Secret in the pods' namespace.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

/// Policy by which a node pulls an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[allow(missing_docs)] // Kubernetes' own words
pub enum PullPolicy {
    Always,
    IfNotPresent,
    Never,
}

impl PullPolicy {
    /// The value of a container's `imagePullPolicy`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Always => "Always",
            Self::IfNotPresent => "IfNotPresent",
            Self::Never => "Never",
        }
    }
}

/// Requests and limits of an agent pod's containers. What is given for one replaces what it has
/// otherwise.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodResources {
    /// Requests and limits of the container that talks to the gateway, in pods of servers too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<ResourceRequirements>,
    /// Requests and limits of the container in which commands run; an AgentRole's `workspace.resources` take
    /// precedence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub toolbox: Option<ResourceRequirements>,
}

/// As whom an agent pod runs. What is absent is left to the platform. That it is never root, and runs
/// with the runtime's default seccomp profile and without capabilities, is not to be changed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodUser {
    /// User id under which all containers run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub run_as_user: Option<i64>,
    /// Group id under which all containers run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub run_as_group: Option<i64>,
    /// Group that owns the files of volumes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub fs_group: Option<i64>,
    /// Further groups of all containers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub supplemental_groups: Vec<i64>,
    /// SELinux label of all containers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub se_linux_options: Option<SELinuxOptions>,
}

/// An extra volume that commands see.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "has(self.persistentVolumeClaim) != has(self.emptyDir)",
        "message": "give one of persistentVolumeClaim and emptyDir"
    },
    {
        "rule": "!['/work', '/tmp', '/opt/codebutler', '/run/codebutler', '/proc', '/sys', '/dev', '/etc', '/usr', '/bin', '/lib'].exists(own, self.mountPath == own || self.mountPath.startsWith(own + '/'))",
        "message": "mountPath is a folder that the pod has already: choose one such as /cache"
    }
]))]
pub struct ExtraVolume {
    /// Name of the volume, unlike that of every other.
    #[schemars(regex(pattern = r"^[a-z0-9]([-a-z0-9]{0,56}[a-z0-9])?$"))]
    pub name: String,
    /// The folder where commands find it, such as `/cache`.
    #[schemars(regex(pattern = r"^(/[A-Za-z0-9_][A-Za-z0-9._-]*)+$"), length(max = 256))]
    pub mount_path: String,
    /// A claim in the namespace of the Threads, which many pods have to be able to mount.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub persistent_volume_claim: Option<ClaimSource>,
    /// A folder that goes with the pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub empty_dir: Option<EmptySource>,
    /// If true, commands can only read it. False by default.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub read_only: bool,
}

/// A volume claim that is there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClaimSource {
    /// Name of a PersistentVolumeClaim.
    #[schemars(length(min = 1, max = 253))]
    pub claim_name: String,
}

/// A folder of the node that goes with the pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EmptySource {
    /// Maximum size of the volume; 1Gi if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^[1-9][0-9]*(Ki|Mi|Gi|Ti|k|M|G|T)?$"))]
    pub size_limit: Option<String>,
}

impl PodSettings {
    /// Merges these settings over those of `base`.
    #[must_use]
    pub fn over(mut self, base: &Self) -> Self {
        under(&mut self.labels, &base.labels);
        under(&mut self.annotations, &base.annotations);
        under(&mut self.node_selector, &base.node_selector);
        self.affinity = affinity_over(self.affinity, base.affinity.as_ref());
        let more = base.tolerations.iter().filter(|t| !self.tolerations.contains(t));
        let more: Vec<_> = more.cloned().collect();
        self.tolerations.extend(more);
        if self.topology_spread_constraints.is_empty() {
            self.topology_spread_constraints.clone_from(&base.topology_spread_constraints);
        }
        or(&mut self.priority_class_name, base.priority_class_name.as_ref());
        // A base decides on users for the runtime that it knows, so its choice does not hold for another one.
        let other_runtime =
            self.runtime_class_name.is_some() && self.runtime_class_name != base.runtime_class_name;
        if !other_runtime {
            or(&mut self.host_users, base.host_users.as_ref());
        }
        or(&mut self.runtime_class_name, base.runtime_class_name.as_ref());
        let known = &self.image_pull_secrets;
        let more = base.image_pull_secrets.iter().filter(|s| !known.contains(s));
        let more: Vec<_> = more.cloned().collect();
        self.image_pull_secrets.extend(more);
        or(&mut self.image_pull_policy, base.image_pull_policy.as_ref());
        if let Some(base) = &base.resources {
            let own = self.resources.get_or_insert_default();
            or(&mut own.agent, base.agent.as_ref());
            or(&mut own.toolbox, base.toolbox.as_ref());
        }
        or(&mut self.security_context, base.security_context.as_ref());
        let taken = |volume: &&ExtraVolume| {
            self.volumes
                .iter()
                .any(|own| own.name == volume.name || own.mount_path == volume.mount_path)
        };
        let more: Vec<_> = base.volumes.iter().filter(|volume| !taken(volume)).cloned().collect();
        self.volumes.extend(more);
        self
    }
}

fn under(own: &mut BTreeMap<String, String>, base: &BTreeMap<String, String>) {
    for (key, value) in base {
        own.entry(key.clone()).or_insert_with(|| value.clone());
    }
}

fn or<T: Clone>(own: &mut Option<T>, base: Option<&T>) {
    if own.is_none() {
        *own = base.cloned();
    }
}

/// Merges two affinities: each of the three parts is one's own, or else the other's.
fn affinity_over(own: Option<Affinity>, base: Option<&Affinity>) -> Option<Affinity> {
    let Some(base) = base else { return own };
    let mut own = own.unwrap_or_default();
    or::<NodeAffinity>(&mut own.node_affinity, base.node_affinity.as_ref());
    or::<PodAffinity>(&mut own.pod_affinity, base.pod_affinity.as_ref());
    or::<PodAntiAffinity>(&mut own.pod_anti_affinity, base.pod_anti_affinity.as_ref());
    Some(own)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(yaml: &str) -> PodSettings {
        serde_saphyr::from_str(yaml).unwrap()
    }

    #[test]
    fn what_is_said_of_users_is_for_the_runtime_beside_it() {
        let users = |near: &str, far: &str| settings(near).over(&settings(far)).host_users;
        assert_eq!(users("{}", "{hostUsers: false}"), Some(false));
        assert_eq!(users("{hostUsers: true}", "{hostUsers: false}"), Some(true));
        assert_eq!(users("{runtimeClassName: gvisor}", "{hostUsers: false}"), None);
        let same = "{runtimeClassName: crun, hostUsers: false}";
        assert_eq!(users("{runtimeClassName: crun}", same), Some(false));
        assert_eq!(users("{}", same), Some(false));
    }

    #[test]
    fn what_is_nearer_goes_before_and_lists_add_up() {
        let near = settings(
            "{labels: {a: near}, nodeSelector: {pool: gpu}, tolerations: [{key: gpu}],
              imagePullSecrets: [{name: own}], resources: {agent: {limits: {cpu: '1'}}},
              affinity: {podAntiAffinity: {}}, volumes: [{name: cache, mountPath: /cache, emptyDir: {}}]}",
        );
        let far = settings(
            "{labels: {a: far, b: far}, nodeSelector: {pool: cpu, zone: a}, tolerations: [{key: gpu}, {key: ci}],
              imagePullSecrets: [{name: all}, {name: own}], priorityClassName: low, securityContext: {},
              resources: {agent: {limits: {cpu: '9'}}, toolbox: {limits: {cpu: '2'}}},
              affinity: {nodeAffinity: {}, podAntiAffinity: {preferredDuringSchedulingIgnoredDuringExecution: []}},
              volumes: [{name: cache, mountPath: /other, emptyDir: {}}, {name: more, mountPath: /more, emptyDir: {}}]}",
        );
        let wanted = settings(
            "{labels: {a: near, b: far}, nodeSelector: {pool: gpu, zone: a}, tolerations: [{key: gpu}, {key: ci}],
              imagePullSecrets: [{name: own}, {name: all}], priorityClassName: low, securityContext: {},
              resources: {agent: {limits: {cpu: '1'}}, toolbox: {limits: {cpu: '2'}}},
              affinity: {nodeAffinity: {}, podAntiAffinity: {}},
              volumes: [{name: cache, mountPath: /cache, emptyDir: {}}, {name: more, mountPath: /more, emptyDir: {}}]}",
        );
        assert_eq!(near.over(&far), wanted);
        assert_eq!(PodSettings::default().over(&wanted), wanted);
        assert_eq!(wanted.clone().over(&PodSettings::default()), wanted);
    }
}
