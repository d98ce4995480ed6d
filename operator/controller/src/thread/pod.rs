//! The pod in which one role works on one Thread.
//!
//! Two containers that share nothing but a socket and the program: `agent` holds the token and the
//! transcript, `toolbox` holds the worktree and runs commands. Neither has the other's part of the volume.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use codebutler_crds::names::pod as path;
use codebutler_crds::pods::{PodSettings, PullPolicy};
use codebutler_crds::repo::AccessMode;
use codebutler_crds::role::{SandboxKind, WorkspaceSpec, WorktreeAccess};
use codebutler_crds::{AgentRole, Repo, Thread, names};
use k8s_openapi::api::core::v1::{
    Affinity, Container, EnvVar, EnvVarSource, ExecAction, LocalObjectReference,
    ObjectFieldSelector, Pod, PodAffinityTerm, PodDNSConfig, PodSpec, Probe, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::ResourceExt as _;
use sha2::{Digest as _, Sha256};

use super::security;
use super::shield::EvictionShield;
use super::size::{self, ContainerSize};
use super::{volume, volumes};
use crate::args::ControllerArgs;
use crate::gateway::{self, GatewayAddress};
use crate::labels;

/// Annotation: the newest message when the pod was made. What failed is retried when it moves.
pub(crate) const ANNOTATION_WOKEN_FOR: &str = "codebutler.dev/woken-for";
/// Annotation: a hash of all that a change of Repo or AgentRole can change about the pod and its
/// session.
pub(crate) const ANNOTATION_CONFIG: &str = "codebutler.dev/config";

/// Flag of the agent: the gateway's address, which follows it.
const GATEWAY_ADDRESS: &str = "--gateway-address";

/// Time limit for a pod that prepares a volume: a clone, and a set-up.
const PREPARING_SECONDS: i64 = 45 * 60;

/// Thread or seat that a pod is made for.
#[derive(Clone, Copy)]
pub(crate) enum PodOwner<'a> {
    /// A Thread's, for a role with something to do.
    Thread(&'a Thread),
    /// A seat's, of this name, which is nobody's yet. Nothing of a Thread is in it, so that it still fits once one
    /// takes it.
    Seat(&'a str),
    /// That of a volume from which those of Threads are made, of this name. No Thread ever takes it.
    Prepared(&'a str),
}

impl PodOwner<'_> {
    /// Name of the owner, for log lines and as the start of the pod's name.
    fn name(self) -> String {
        match self {
            Self::Thread(thread) => thread.name_any(),
            Self::Seat(name) | Self::Prepared(name) => name.to_owned(),
        }
    }

    fn claim(self) -> String {
        match self {
            Self::Thread(thread) => thread.volume_claim(),
            Self::Seat(name) | Self::Prepared(name) => name.to_owned(),
        }
    }

    /// The key that pods with one volume have in common.
    fn shares(self) -> String {
        match self {
            Self::Thread(thread) => volume::sharing_key(thread),
            Self::Seat(name) | Self::Prepared(name) => name.to_owned(),
        }
    }
}

/// Everything a pod is made from.
#[derive(Clone, Copy)]
pub(crate) struct PodInput<'a> {
    pub owner: PodOwner<'a>,
    pub repo: &'a Repo,
    /// The role that works in it.
    pub role: &'a AgentRole,
    pub gateway: &'a GatewayAddress,
    pub args: &'a ControllerArgs,
    /// User id of the pod where nobody sets another one.
    pub user: i64,
}

/// True if a pod was told another port of the gateway's Service than a pod made now: that of the shard to which its
/// Repo belonged.
pub(crate) fn has_other_shard(pod: &Pod, gateway: &GatewayAddress) -> bool {
    gateway_of(pod).is_some_and(|told| told.port() != gateway.address.port())
}

/// The gateway's address that a pod was told.
fn gateway_of(pod: &Pod) -> Option<SocketAddr> {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let mut args = containers.flat_map(|container| container.args.iter().flatten());
    args.find(|word| *word == GATEWAY_ADDRESS)?;
    args.next()?.parse().ok()
}

impl PodInput<'_> {
    /// Value of [`ANNOTATION_CONFIG`] for a pod made now.
    pub(crate) fn config(&self) -> String {
        let (repo, settings) = (&self.repo.spec, self.settings());
        let mut parts = serde_json::json!([
            self.spec(&settings),
            settings.labels,
            settings.annotations,
            self.role.spec,
            self.role.prompt(),
            repo.git,
            repo.worktree,
            repo.policy,
            repo.egress
        ]);
        // Over sorted keys: the order in which fields are declared must replace no running pod.
        parts.sort_all_objects();
        hex::encode(&Sha256::digest(parts.to_string())[..8])
    }

    /// The pod, owned by the Thread.
    pub(crate) fn build(&self) -> Pod {
        let (role, settings) = (&self.role.spec.role, self.settings());
        let mut labels = settings.labels.clone();
        let name = names::pod_name(&self.owner.name(), role);
        let (mut metadata, woken_for, shield) = match self.owner {
            PodOwner::Thread(thread) => {
                labels.extend(labels::of_pod(thread, role));
                let metadata = labels::owned_metadata(thread, name, labels);
                (metadata, woken_for(thread, role), EvictionShield::Up)
            }
            PodOwner::Seat(seat) => {
                labels.extend(labels::of_seat(self.repo, seat, role));
                let metadata = labels::owned_metadata(self.repo, name, labels);
                (metadata, String::new(), EvictionShield::Down)
            }
            PodOwner::Prepared(_) => {
                labels.extend(labels::of_prepared(self.repo, role));
                let metadata = labels::owned_metadata(self.repo, name, labels);
                (metadata, String::new(), EvictionShield::Down)
            }
        };
        let own = [
            (ANNOTATION_WOKEN_FOR, woken_for),
            (ANNOTATION_CONFIG, self.config()),
            ("kubectl.kubernetes.io/default-container", path::AGENT.to_owned()),
        ];
        let mut annotations = settings.annotations.clone();
        annotations.extend(own.map(|(key, value)| (key.to_owned(), value)));
        annotations.extend(shield.annotations());
        metadata.annotations = Some(annotations);
        Pod { metadata, spec: Some(self.spec(&settings)), status: None }
    }

    /// Settings added to the pod: the role's own, the Repo's, the installation's.
    fn settings(&self) -> PodSettings {
        let repo = self.repo.spec.pods.clone().unwrap_or_default();
        let mut all = self.role.spec.pod_settings().over(&repo).over(&self.args.agent_pods);
        if let PodOwner::Seat(_) = self.owner {
            let warm = self.repo.spec.warm.as_ref();
            let own = warm.and_then(|warm| warm.priority_class_name.clone());
            all.priority_class_name = own.or(all.priority_class_name);
        }
        let os = all.node_selector.entry("kubernetes.io/os".to_owned());
        os.or_insert_with(|| "linux".to_owned());
        all
    }

    fn spec(&self, settings: &PodSettings) -> PodSpec {
        let role = &self.role.spec;
        PodSpec {
            init_containers: Some(vec![self.toolbox(settings)]),
            containers: vec![self.agent(settings)],
            volumes: Some(volumes::pod_volumes(self.owner.claim(), &settings.volumes)),
            service_account_name: Some(names::service_account(&self.repo.name_any())),
            automount_service_account_token: Some(false),
            enable_service_links: Some(false),
            restart_policy: Some("Never".to_owned()),
            // The gateway's address is given; there is nothing else to resolve.
            dns_policy: Some("None".to_owned()),
            dns_config: Some(PodDNSConfig {
                nameservers: Some(vec!["127.0.0.1".to_owned()]),
                ..PodDNSConfig::default()
            }),
            hostname: Some(role.role.clone()),
            security_context: Some(security::pod_security(
                &security::sharing_level(self.owner.shares(), self.repo, &self.args.agent_pods),
                self.user,
                settings.security_context.as_ref(),
            )),
            affinity: self.affinity(settings),
            node_selector: Some(settings.node_selector.clone()),
            tolerations: some_list(&settings.tolerations),
            topology_spread_constraints: some_list(&settings.topology_spread_constraints),
            runtime_class_name: settings.runtime_class_name.clone(),
            host_users: settings.host_users,
            priority_class_name: settings.priority_class_name.clone(),
            image_pull_secrets: self.pull_secrets(settings),
            active_deadline_seconds: matches!(self.owner, PodOwner::Prepared(_))
                .then_some(PREPARING_SECONDS),
            termination_grace_period_seconds: Some(30),
            ..PodSpec::default()
        }
    }

    /// The installation's, for the images that it brings, and the settings' own.
    fn pull_secrets(&self, settings: &PodSettings) -> Option<Vec<LocalObjectReference>> {
        let own = settings.image_pull_secrets.iter().map(|secret| &secret.name);
        let names: BTreeSet<_> = self.args.agent_pull_secrets.iter().chain(own).collect();
        let all = names.into_iter().map(|name| LocalObjectReference { name: name.clone() });
        let all: Vec<_> = all.collect();
        (!all.is_empty()).then_some(all)
    }

    /// Pull policy of an image. The installation's setting is only for the images that it brings.
    fn pull_policy(&self, settings: &PodSettings, brought: bool) -> Option<String> {
        let own = self.args.agent_pull_policy.filter(|_| brought);
        settings.image_pull_policy.or(own).map(|policy| PullPolicy::name(policy).to_owned())
    }

    /// Runs commands. A sidecar, so that it is there before the agent and does not outlive it. Its image
    /// is anybody's: it runs the agent's binary, which the agent puts there as its first act. A container
    /// that does only that would be one more for the kubelet to start, to see ended, and to go on from.
    fn toolbox(&self, settings: &PodSettings) -> Container {
        let (workspace, resources) = (&self.role.spec.workspace, settings.resources.as_ref());
        let image = workspace.image.as_ref().unwrap_or(&self.args.workspace_image);
        let home = format!("{}/home/{}", path::WORK_DIR, self.role.spec.role);
        let own = |name: &str| ["HOME", "CODEBUTLER_ROLE", "CODEBUTLER_THREAD"].contains(&name);
        let given = workspace.env.iter().filter(|(name, _)| !own(name));
        let env = given.map(|(name, value)| env_var(name, value)).chain(self.log_tags());
        Container {
            name: path::TOOLBOX.to_owned(),
            image: Some(image.clone()),
            image_pull_policy: self.pull_policy(settings, workspace.image.is_none()),
            command: Some(to_words(&["sh", "-c", path::RUN_TOOLBOX, path::SHARED_BINARY])),
            args: toolbox_args(workspace, settings),
            restart_policy: Some("Always".to_owned()),
            env: Some(std::iter::once(env_home(&home)).chain(env).collect()),
            working_dir: Some(path::WORK_DIR.to_owned()),
            volume_mounts: Some(
                [
                    VolumeMount {
                        read_only: Some(true),
                        ..volumes::mount_volume(volumes::BIN, path::BIN_DIR)
                    },
                    volumes::mount_volume(volumes::RUN, path::RUN_DIR),
                    volumes::mount_part("work", path::WORK_DIR),
                    volumes::mount_volume(volumes::TMP, "/tmp"),
                ]
                .into_iter()
                .chain(settings.volumes.iter().map(volumes::extra_mount))
                .collect(),
            ),
            resources: Some(size::resources_of(
                workspace.resources.as_ref().or(resources.and_then(|all| all.toolbox.as_ref())),
                ContainerSize::TOOLBOX,
            )),
            security_context: Some(security::container_security()),
            ..Container::default()
        }
    }

    fn agent(&self, settings: &PodSettings) -> Container {
        let resources = settings.resources.as_ref();
        let args = [
            "run",
            "--share",
            path::BIN_DIR,
            "--gateway",
            &gateway::gateway_url(self.gateway, self.args),
            GATEWAY_ADDRESS,
            &self.gateway.address.to_string(),
        ];
        let waits = match self.owner {
            PodOwner::Thread(_) => None,
            PodOwner::Seat(_) => Some("--seat".to_owned()),
            PodOwner::Prepared(_) => Some("--prepare".to_owned()),
        };
        let dns = self.args.cluster_dns.iter().map(|ip| format!("--forbidden-dns={ip}"));
        let args = to_words(&args).into_iter().chain(dns).chain(waits);
        Container {
            name: path::AGENT.to_owned(),
            image: Some(self.args.agent_image.clone()),
            image_pull_policy: self.pull_policy(settings, true),
            command: Some(to_words(&[path::IMAGE_BINARY])),
            args: Some(args.collect()),
            env: Some(self.log_tags().into_iter().chain(self.node_address()).collect()),
            volume_mounts: Some(vec![
                volumes::mount_volume(volumes::BIN, path::BIN_DIR),
                volumes::mount_volume(volumes::RUN, path::RUN_DIR),
                volumes::mount_part("agent", path::STATE_DIR),
                volumes::in_dir_of(volumes::TOKEN, path::TOKEN_FILE),
                volumes::in_dir_of(volumes::CA, path::CA_FILE),
            ]),
            startup_probe: matches!(self.owner, PodOwner::Seat(_)).then(clone_probe),
            liveness_probe: Some(liveness_probe()),
            resources: Some(size::resources_of(
                resources.and_then(|all| all.agent.as_ref()),
                ContainerSize::AGENT,
            )),
            security_context: Some(security::container_security()),
            ..Container::default()
        }
    }

    /// The node's address, which the agent tries to reach: no pod of a team may, unless its Repo says otherwise.
    fn node_address(&self) -> Option<EnvVar> {
        (!self.repo.spec.egress.allow_own_node).then(node_address)
    }

    /// Environment for log lines only; the pod's identity is in its token. No command sees these variables.
    fn log_tags(&self) -> [EnvVar; 2] {
        [
            env_var("CODEBUTLER_ROLE", &self.role.spec.role),
            env_var("CODEBUTLER_THREAD", &self.owner.name()),
        ]
    }

    /// A volume that only one node can mount keeps a Thread's pods together. The first pod
    /// satisfies the rule itself; one that was a seat has the volume before there is a Thread.
    fn affinity(&self, settings: &PodSettings) -> Option<Affinity> {
        let PodOwner::Thread(thread) = self.owner else { return settings.affinity.clone() };
        if self.repo.spec.worktree.access_mode != AccessMode::ReadWriteOnce {
            return settings.affinity.clone();
        }
        let thread = (names::LABEL_THREAD.to_owned(), thread.name_any());
        let together = PodAffinityTerm {
            label_selector: Some(LabelSelector {
                match_labels: Some([thread].into()),
                match_expressions: None,
            }),
            topology_key: "kubernetes.io/hostname".to_owned(),
            ..PodAffinityTerm::default()
        };
        let mut all = settings.affinity.clone().unwrap_or_default();
        let near = all.pod_affinity.get_or_insert_default();
        let required = &mut near.required_during_scheduling_ignored_during_execution;
        required.get_or_insert_default().push(together);
        Some(all)
    }
}

/// Value of [`ANNOTATION_WOKEN_FOR`] for a pod made now: the newest message and decision.
pub(crate) fn woken_for(thread: &Thread, role: &str) -> String {
    let Some(status) = &thread.status else { return String::new() };
    let inbox = status.roles.get(role).and_then(|role| role.inbox.as_ref());
    let pending = status.pending.iter().rev().find(|pending| pending.role == role);
    let words = inbox.map(ToString::to_string).into_iter().chain(pending.map(|p| p.id.clone()));
    words.collect::<Vec<_>>().join(" ")
}

/// Checks that the agent's loop still turns. What it is there for takes minutes, so the probe is rare.
fn liveness_probe() -> Probe {
    let command = [path::IMAGE_BINARY, "alive", "--share", path::BIN_DIR];
    Probe {
        exec: Some(ExecAction { command: Some(to_words(&command)) }),
        initial_delay_seconds: Some(30),
        period_seconds: Some(30),
        timeout_seconds: Some(10),
        failure_threshold: Some(4),
        ..Probe::default()
    }
}

/// A seat is ready with its first clone. Nobody asks after that. One that takes too long is given up before the
/// kubelet would end it, as long as there is a controller.
fn clone_probe() -> Probe {
    let command = [path::IMAGE_BINARY, "cloned", "--share", path::BIN_DIR];
    Probe {
        exec: Some(ExecAction { command: Some(to_words(&command)) }),
        period_seconds: Some(3),
        timeout_seconds: Some(10),
        failure_threshold: Some(700),
        ..Probe::default()
    }
}

fn env_home(home: &str) -> EnvVar {
    env_var("HOME", home)
}

fn env_var(name: &str, value: &str) -> EnvVar {
    EnvVar { name: name.to_owned(), value: Some(value.to_owned()), value_from: None }
}

fn node_address() -> EnvVar {
    let field = ObjectFieldSelector {
        api_version: Some("v1".to_owned()),
        field_path: "status.hostIP".to_owned(),
    };
    let source = EnvVarSource { field_ref: Some(field), ..EnvVarSource::default() };
    EnvVar { name: "CODEBUTLER_NODE".to_owned(), value: None, value_from: Some(source) }
}

fn toolbox_args(workspace: &WorkspaceSpec, settings: &PodSettings) -> Option<Vec<String>> {
    let sandbox = (*workspace.sandbox == SandboxKind::Runtime).then_some(["--sandbox", "runtime"]);
    let copy = *workspace.worktree == WorktreeAccess::ReadOnly;
    let worktree = copy.then_some(["--worktree", "read-only"]);
    let writable = settings.volumes.iter().filter(|volume| !volume.read_only);
    let writable = writable.map(|volume| ["--writable", volume.mount_path.as_str()]);
    let all: Vec<&str> = sandbox.into_iter().chain(worktree).chain(writable).flatten().collect();
    (!all.is_empty()).then(|| to_words(&all))
}

fn to_words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn some_list<T: Clone>(list: &[T]) -> Option<Vec<T>> {
    (!list.is_empty()).then(|| list.to_vec())
}
