//! The pod of a server of `spec.mcpServers`.
//!
//! Two containers that share a socket: `server` runs the program in its own image, and has no token; `bridge` has the
//! token, and nothing of the program. The binary that both need is put there by an init container, so that an image
//! needs no shell.

use std::collections::BTreeSet;

use codebutler_crds::mcp::{McpServerSpec, McpValue, McpWorktree};
use codebutler_crds::names::pod as path;
use codebutler_crds::pods::{PodSettings, PullPolicy};
use codebutler_crds::repo::AccessMode;
use codebutler_crds::{Repo, Thread, names};
use k8s_openapi::api::core::v1::{
    Affinity, Container, EnvVar, EnvVarSource, LocalObjectReference,
    PersistentVolumeClaimVolumeSource, Pod, PodAffinityTerm, PodDNSConfig, PodSpec,
    ResourceRequirements, SecretKeySelector, Volume, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use kube::ResourceExt as _;
use serde_json::json;
use sha2::{Digest as _, Sha256};

use crate::args::ControllerArgs;
use crate::gateway::{self, GatewayAddress};
use crate::labels::{self, ObjectLabels};
use crate::thread::size::{self, ContainerSize};
use crate::thread::{security, volume, volumes};

/// Annotation: a hash of all that a change of the Repo can change about the pod.
pub(super) const ANNOTATION_CONFIG: &str = "codebutler.dev/config";
/// Annotation: the gateway's hash of the revisions of its Secrets. The controller reads no Secret.
pub(super) const ANNOTATION_SECRETS: &str = "codebutler.dev/secrets";
/// Volume with the program's `HOME`.
const HOME: &str = "home";
/// Prefix of environment variables for a Secret's value that is part of another variable's value.
const SECRET: &str = "CODEBUTLER_SECRET_";
/// Part of the Thread's volume with the worktree.
const TREE: &str = "work/tree";

/// Object that a server belongs to.
#[derive(Clone, Copy, Debug)]
pub(super) enum ServerOwner<'a> {
    /// Server of a single Thread.
    Thread(&'a Thread),
    /// Server that all Threads of the Repo share.
    Repo(&'a Repo),
}

impl ServerOwner<'_> {
    /// Name of the owning object.
    pub(super) fn name(&self) -> String {
        match self {
            Self::Thread(thread) => thread.name_any(),
            Self::Repo(repo) => repo.name_any(),
        }
    }

    fn shares(&self) -> String {
        match self {
            Self::Thread(thread) => volume::sharing_key(thread),
            Self::Repo(repo) => repo.uid().unwrap_or_default(),
        }
    }
}

/// Everything that the pod is made from.
#[derive(Clone, Copy)]
pub(super) struct ServerPodInput<'a> {
    /// Object that the server belongs to.
    pub owner: ServerOwner<'a>,
    /// Repo whose spec has the server.
    pub repo: &'a Repo,
    /// Spec of the server.
    pub server: &'a McpServerSpec,
    /// Value of [`ANNOTATION_SECRETS`] for a pod made now; empty if nothing is known.
    pub secrets: &'a str,
    /// Address that the bridge connects to.
    pub gateway: &'a GatewayAddress,
    /// The installation's settings.
    pub args: &'a ControllerArgs,
    /// User id of the pod where nobody sets another one.
    pub user: i64,
}

impl ServerPodInput<'_> {
    /// The pod, owned by its Thread or Repo.
    pub(super) fn build(&self) -> Pod {
        let settings = self.settings();
        let mut labels = settings.labels.clone();
        labels.extend(self.labels());
        let name = names::mcp_pod_name(&self.owner.name(), &self.server.name);
        let mut metadata: ObjectMeta = match self.owner {
            ServerOwner::Thread(thread) => labels::owned_metadata(thread, name, labels),
            ServerOwner::Repo(repo) => labels::owned_metadata(repo, name, labels),
        };
        let mut annotations = settings.annotations.clone();
        annotations.extend([
            (ANNOTATION_CONFIG.to_owned(), self.config()),
            ("kubectl.kubernetes.io/default-container".to_owned(), path::SERVER.to_owned()),
        ]);
        if !self.secrets.is_empty() {
            annotations.insert(ANNOTATION_SECRETS.to_owned(), self.secrets.to_owned());
        }
        metadata.annotations = Some(annotations);
        Pod { metadata, spec: Some(self.spec(&settings)), status: None }
    }

    /// Value of [`ANNOTATION_CONFIG`] for a pod made now.
    pub(super) fn config(&self) -> String {
        let settings = self.settings();
        let mut parts = json!([self.spec(&settings), settings.labels, settings.annotations]);
        // Over sorted keys: the order in which fields are declared must replace no running pod.
        parts.sort_all_objects();
        hex::encode(&Sha256::digest(parts.to_string())[..8])
    }

    fn labels(&self) -> ObjectLabels {
        let kind = "codebutler-mcp-server";
        let mut labels = match self.owner {
            ServerOwner::Thread(thread) => labels::of_thread(kind, thread),
            ServerOwner::Repo(repo) => labels::of_repo(kind, repo),
        };
        labels.insert(names::LABEL_MCP_SERVER.to_owned(), self.server.name.clone());
        labels
    }

    fn settings(&self) -> PodSettings {
        let mut all = self.repo.spec.pods.clone().unwrap_or_default().over(&self.args.agent_pods);
        let os = all.node_selector.entry("kubernetes.io/os".to_owned());
        os.or_insert_with(|| "linux".to_owned());
        all
    }

    fn spec(&self, settings: &PodSettings) -> PodSpec {
        PodSpec {
            init_containers: Some(vec![self.install(settings)]),
            containers: vec![self.program(settings), self.bridge(settings)],
            volumes: Some(self.volumes()),
            service_account_name: Some(names::service_account(&self.repo.name_any())),
            automount_service_account_token: Some(false),
            enable_service_links: Some(false),
            // Program and bridge restart independently of each other.
            restart_policy: Some("Always".to_owned()),
            // The gateway's address is given; there is nothing else to resolve.
            dns_policy: Some("None".to_owned()),
            dns_config: Some(PodDNSConfig {
                nameservers: Some(vec!["127.0.0.1".to_owned()]),
                ..PodDNSConfig::default()
            }),
            hostname: Some(format!("mcp-{}", self.server.name)),
            security_context: Some(security::pod_security(
                &security::sharing_level(self.owner.shares(), self.repo, &self.args.agent_pods),
                self.user,
                settings.security_context.as_ref(),
            )),
            affinity: self.affinity(settings),
            node_selector: Some(settings.node_selector.clone()),
            tolerations: some_list(&settings.tolerations),
            runtime_class_name: settings.runtime_class_name.clone(),
            host_users: settings.host_users,
            priority_class_name: settings.priority_class_name.clone(),
            image_pull_secrets: self.pull_secrets(settings),
            // A program has two times three seconds.
            termination_grace_period_seconds: Some(15),
            ..PodSpec::default()
        }
    }

    fn install(&self, settings: &PodSettings) -> Container {
        Container {
            name: path::INSTALL.to_owned(),
            image: Some(self.args.agent_image.clone()),
            image_pull_policy: self.pull_policy(settings, true),
            command: Some(to_words(&[path::IMAGE_BINARY, "mcp-install", path::BIN_DIR])),
            volume_mounts: Some(vec![volumes::mount_volume(volumes::BIN, path::BIN_DIR)]),
            resources: Some(own_resources(settings)),
            security_context: Some(security::container_security()),
            ..Container::default()
        }
    }

    /// The program, in the server's own image, in the folder that the image says.
    fn program(&self, settings: &PodSettings) -> Container {
        let mut command = to_words(&[
            path::SHARED_BINARY,
            "mcp-server",
            "--socket",
            path::SERVER_SOCKET,
            "--write",
            "/tmp",
            "--write",
            path::SERVER_HOME,
        ]);
        if settings.runtime_class_name.is_some() {
            // The runtime is the wall, and may have no Landlock.
            command.extend(to_words(&["--sandbox", "runtime"]));
        }
        command.push("--".to_owned());
        command.extend(self.server.command.iter().map(|word| escape_expansion(word)));
        Container {
            name: path::SERVER.to_owned(),
            image: self.server.image.clone(),
            image_pull_policy: self.pull_policy(settings, false),
            command: Some(command),
            env: Some(self.environment()),
            volume_mounts: Some(self.mounts()),
            resources: Some(size::resources_of(
                self.server.resources.as_ref(),
                ContainerSize::SERVER,
            )),
            security_context: Some(security::container_security()),
            ..Container::default()
        }
    }

    fn bridge(&self, settings: &PodSettings) -> Container {
        let args = [
            "mcp-bridge",
            "--gateway",
            &gateway::gateway_url(self.gateway, self.args),
            "--gateway-address",
            &self.gateway.address.to_string(),
        ];
        Container {
            name: path::BRIDGE.to_owned(),
            image: Some(self.args.agent_image.clone()),
            image_pull_policy: self.pull_policy(settings, true),
            command: Some(to_words(&[path::IMAGE_BINARY])),
            args: Some(to_words(&args)),
            volume_mounts: Some(vec![
                volumes::mount_volume(volumes::RUN, path::RUN_DIR),
                volumes::in_dir_of(volumes::TOKEN, path::TOKEN_FILE),
                volumes::in_dir_of(volumes::CA, path::CA_FILE),
            ]),
            resources: Some(own_resources(settings)),
            security_context: Some(security::container_security()),
            ..Container::default()
        }
    }

    /// The usual variables, and behind them the Repo's.
    fn environment(&self) -> Vec<EnvVar> {
        let proxy = format!("http://{}", path::RELAY);
        let local = "localhost,127.0.0.1,::1";
        // A JVM takes a proxy from no other variable. It says so on standard error.
        let (host, port) = path::RELAY.split_once(':').unwrap_or_default();
        let java = ["http", "https"]
            .map(|scheme| format!("-D{scheme}.proxyHost={host} -D{scheme}.proxyPort={port}"))
            .join(" ");
        let usual = [
            ("HOME", path::SERVER_HOME),
            ("TMPDIR", "/tmp"),
            // Dates of databases are moments of the zone that a program thinks it is in.
            ("TZ", "UTC"),
            ("HTTP_PROXY", &proxy),
            ("HTTPS_PROXY", &proxy),
            ("ALL_PROXY", &proxy),
            ("NO_PROXY", local),
            ("http_proxy", &proxy),
            ("https_proxy", &proxy),
            ("all_proxy", &proxy),
            ("no_proxy", local),
            ("npm_config_proxy", &proxy),
            ("npm_config_https_proxy", &proxy),
            ("npm_config_noproxy", local),
            ("NODE_USE_ENV_PROXY", "1"),
            ("JDK_JAVA_OPTIONS", &java),
        ];
        let own = &self.server.env;
        let usual = usual.iter().filter(|(name, _)| own.iter().all(|known| known.name != *name));
        let usual = usual.map(|(name, value)| env_var(name, value));
        let own = own.iter().enumerate().flat_map(|(index, value)| read_value(index, value));
        usual.chain(own).collect()
    }

    fn mounts(&self) -> Vec<VolumeMount> {
        let mut all = vec![
            VolumeMount {
                read_only: Some(true),
                ..volumes::mount_volume(volumes::BIN, path::BIN_DIR)
            },
            volumes::mount_volume(volumes::RUN, path::RUN_DIR),
            volumes::mount_volume(volumes::TMP, "/tmp"),
            volumes::mount_volume(HOME, path::SERVER_HOME),
        ];
        if self.worktree().is_some() {
            all.push(VolumeMount {
                read_only: Some(true),
                ..volumes::mount_part(TREE, path::SERVER_TREE)
            });
        }
        all
    }

    fn volumes(&self) -> Vec<Volume> {
        let mut all = vec![
            volumes::empty_volume(volumes::BIN, "1Gi"),
            volumes::empty_volume(volumes::RUN, "16Mi"),
            volumes::empty_volume(volumes::TMP, "1Gi"),
            volumes::empty_volume(HOME, "1Gi"),
            volumes::token_volume(),
            volumes::authority_volume(),
        ];
        if let Some(thread) = self.worktree() {
            let claim = PersistentVolumeClaimVolumeSource {
                claim_name: thread.volume_claim(),
                read_only: None,
            };
            all.push(Volume {
                name: volumes::THREAD.to_owned(),
                persistent_volume_claim: Some(claim),
                ..Volume::default()
            });
        }
        all
    }

    /// The Thread whose worktree it may read.
    fn worktree(&self) -> Option<&Thread> {
        match (self.owner, self.server.worktree) {
            (ServerOwner::Thread(thread), Some(McpWorktree::ReadOnly)) => Some(thread),
            _ => None,
        }
    }

    /// A volume that only one node can mount keeps all pods with it together.
    fn affinity(&self, settings: &PodSettings) -> Option<Affinity> {
        let together = self.repo.spec.worktree.access_mode == AccessMode::ReadWriteOnce;
        let Some(thread) = self.worktree().filter(|_| together) else {
            return settings.affinity.clone();
        };
        let labels = [(names::LABEL_THREAD.to_owned(), thread.name_any())];
        let near = PodAffinityTerm {
            label_selector: Some(LabelSelector {
                match_labels: Some(labels.into()),
                match_expressions: None,
            }),
            topology_key: "kubernetes.io/hostname".to_owned(),
            ..PodAffinityTerm::default()
        };
        let mut all = settings.affinity.clone().unwrap_or_default();
        let required = all.pod_affinity.get_or_insert_default();
        required
            .required_during_scheduling_ignored_during_execution
            .get_or_insert_default()
            .push(near);
        Some(all)
    }

    fn pull_secrets(&self, settings: &PodSettings) -> Option<Vec<LocalObjectReference>> {
        let own = settings.image_pull_secrets.iter().map(|secret| &secret.name);
        let names: BTreeSet<_> = self.args.agent_pull_secrets.iter().chain(own).collect();
        let all: Vec<_> =
            names.into_iter().map(|name| LocalObjectReference { name: name.clone() }).collect();
        (!all.is_empty()).then_some(all)
    }

    fn pull_policy(&self, settings: &PodSettings, brought: bool) -> Option<String> {
        let own = self.args.agent_pull_policy.filter(|_| brought);
        settings.image_pull_policy.or(own).map(|policy| PullPolicy::name(policy).to_owned())
    }
}

/// A variable of the Repo's. The kubelet puts a value together from a Secret's and what goes before it.
fn read_value(index: usize, value: &McpValue) -> Vec<EnvVar> {
    let Some(secret) = &value.secret else {
        let plain = value.value.as_deref().unwrap_or_default();
        return vec![env_var(&value.name, &escape_expansion(plain))];
    };
    let from = |name: &str| EnvVar {
        name: name.to_owned(),
        value: None,
        value_from: Some(EnvVarSource {
            secret_key_ref: Some(SecretKeySelector {
                name: secret.name.clone(),
                key: secret.key.clone(),
                optional: None,
            }),
            ..EnvVarSource::default()
        }),
    };
    match secret.prefix.as_deref().filter(|prefix| !prefix.is_empty()) {
        None => vec![from(&value.name)],
        Some(prefix) => {
            let part = format!("{SECRET}{index}");
            let whole = format!("{}$({part})", escape_expansion(prefix));
            vec![from(&part), env_var(&value.name, &whole)]
        }
    }
}

/// The kubelet replaces `$(NAME)`, which a Repo's words never mean.
fn escape_expansion(word: &str) -> String {
    word.replace("$(", "$$(")
}

/// Resources of the containers beside a server's program: as somebody has set those of an agent, so that they fit the
/// limits of a namespace, or else the little that they need.
fn own_resources(settings: &PodSettings) -> ResourceRequirements {
    let given = settings.resources.as_ref().and_then(|all| all.agent.as_ref());
    size::resources_of(given, ContainerSize::BRIDGE)
}

fn env_var(name: &str, value: &str) -> EnvVar {
    EnvVar { name: name.to_owned(), value: Some(value.to_owned()), value_from: None }
}

fn to_words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn some_list<T: Clone>(list: &[T]) -> Option<Vec<T>> {
    (!list.is_empty()).then(|| list.to_vec())
}
