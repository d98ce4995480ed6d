//! The Kubernetes objects that a team would apply: one namespace with a Repo and its Secrets, and
//! the operator's namespace with Service, RBAC and AgentRoles.

use std::collections::BTreeMap;

use codebutler_crds::limits::LimitsSpec;
use codebutler_crds::names::secret_key as key;
use codebutler_crds::policy::{AccessSpec, EgressSpec, PolicySpec};
use codebutler_crds::repo::{GitSpec, ModelSpec, RepoSpec, SecretRef, SlackSpec, WorktreeSpec};
use codebutler_crds::{AgentRole, Repo, names};
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::api::ObjectMeta;
use serde::Serialize;

use super::{RepoEdit, StackError};

/// The operator's namespace.
pub const SYSTEM: &str = "codebutler-system";
/// The team's namespace.
pub const TEAM: &str = "team";

const CONTROLLER_YAML: &str = include_str!("../../../operator/deploy/controller.yaml");
const GATEWAY_YAML: &str = include_str!("../../../operator/deploy/gateway.yaml");

/// What the Repo points at.
#[derive(Clone, Debug)]
pub struct Outside {
    /// `http://host:port/owner/name`.
    pub git_url: String,
    /// Base branch.
    pub branch: String,
    /// `http://host:port/v1`.
    pub model_url: String,
    /// `http://host:port/api`.
    pub slack_url: String,
    /// Channel id.
    pub channel: String,
    /// Git and GitHub token.
    pub git_token: String,
    /// `xoxb-…`
    pub bot_token: String,
    /// `xapp-…`
    pub app_token: String,
    /// Model API key.
    pub api_key: String,
    /// Debounce in seconds.
    pub debounce: u32,
}

/// Everything that is installed before the operator starts, as YAML documents.
pub fn system() -> Vec<String> {
    let namespace = format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: {SYSTEM}}}\n");
    vec![namespace, CONTROLLER_YAML.to_owned(), GATEWAY_YAML.to_owned()]
}

/// The seeds' AgentRoles in the operator's namespace; `model` maps a role's short name to its model.
///
/// # Errors
/// When a seed is not a valid AgentRole.
pub fn roles(model: impl Fn(&AgentRole) -> Option<String>) -> Result<Vec<AgentRole>, StackError> {
    crate::seeds::roles()
        .map(|(file, yaml)| {
            let mut role: AgentRole = serde_saphyr::from_str(yaml)
                .map_err(|e| StackError::Seed { file: file.to_owned(), reason: e.to_string() })?;
            role.metadata.namespace = Some(SYSTEM.to_owned());
            if let Some(model) = model(&role) {
                role.spec.model.default = model;
            }
            Ok(role)
        })
        .collect()
}

/// The team's namespace, Secrets and Repo, which `edit` may change first.
pub fn team(
    repo: &str,
    roles: Vec<String>,
    outside: &Outside,
    edit: Option<&RepoEdit>,
) -> Vec<serde_json::Value> {
    let git_host = authority(&outside.git_url);
    let namespace = Namespace {
        metadata: ObjectMeta { name: Some(TEAM.to_owned()), ..ObjectMeta::default() },
        ..Namespace::default()
    };
    let slack_host = authority(&outside.slack_url);
    let model_host = authority(&outside.model_url);
    let mut spec = RepoSpec {
        git: GitSpec {
            url: outside.git_url.clone(),
            branch: outside.branch.clone(),
            credentials: SecretRef { name: "git".to_owned() },
        },
        slack: SlackSpec {
            channel: outside.channel.clone(),
            create_channel: false,
            allow_bots: Vec::new(),
            credentials: SecretRef { name: "slack".to_owned() },
            debounce_seconds: outside.debounce,
        },
        model: ModelSpec {
            base_url: outside.model_url.clone(),
            credentials: SecretRef { name: "model".to_owned() },
            prices: BTreeMap::new(),
        },
        roles,
        worktree: WorktreeSpec::default(),
        limits: LimitsSpec::default(),
        access: AccessSpec::default(),
        egress: EgressSpec::default(),
        policy: PolicySpec::default(),
        suspend: false,
    };
    if let Some(edit) = edit {
        edit(&mut spec);
    }
    let mut object = Repo::new(repo, spec);
    object.metadata.namespace = Some(TEAM.to_owned());
    vec![
        value("v1", "Namespace", &namespace),
        secret("git", &git_host, &[(key::GIT_TOKEN, &outside.git_token)]),
        secret(
            "slack",
            &slack_host,
            &[
                (key::SLACK_BOT_TOKEN, &outside.bot_token),
                (key::SLACK_APP_TOKEN, &outside.app_token),
            ],
        ),
        secret("model", &model_host, &[(key::MODEL_API_KEY, &outside.api_key)]),
        value("codebutler.dev/v1alpha1", "Repo", &object),
    ]
}

fn secret(name: &str, hosts: &str, data: &[(&str, &String)]) -> serde_json::Value {
    let secret = Secret {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(TEAM.to_owned()),
            annotations: Some(
                [(names::ANNOTATION_HOSTS.to_owned(), hosts.to_owned())].into_iter().collect(),
            ),
            ..ObjectMeta::default()
        },
        string_data: Some(data.iter().map(|(k, v)| ((*k).to_owned(), (*v).clone())).collect()),
        ..Secret::default()
    };
    value("v1", "Secret", &secret)
}

/// `host:port` of a URL, as the Secret's annotation names it.
fn authority(url: &str) -> String {
    url.parse::<http::Uri>()
        .ok()
        .and_then(|uri| uri.authority().map(ToString::to_string))
        .unwrap_or_default()
}

fn value(api_version: &str, kind: &str, object: &impl Serialize) -> serde_json::Value {
    let mut value = serde_json::to_value(object).unwrap_or_default();
    value["apiVersion"] = api_version.into();
    value["kind"] = kind.into();
    value
}
