//! The Kubernetes objects that a team would apply: a Repo and its Secrets, and
//! the operator's Service, RBAC and AgentRoles.

use std::collections::BTreeMap;

use codebutler_crds::limits::LimitsSpec;
use codebutler_crds::model::ModelApi;
use codebutler_crds::names::secret_key as key;
use codebutler_crds::policy::{AccessSpec, EgressSpec, PolicySpec};
use codebutler_crds::repo::{GitSpec, ModelSpec, RepoSpec, SecretRef, SlackSpec, WorktreeSpec};
use codebutler_crds::{AgentRole, Repo, names};
use k8s_openapi::api::core::v1::Secret;
use kube::api::ObjectMeta;
use serde::Serialize;

use super::earlier::EarlierBuild;
use super::{RepoEdit, StackError};
use crate::cluster::ClusterError;
use crate::models::ModelServer;
use crate::place::InstallPlace;

const CONTROLLER_YAML: &str = include_str!("../../../operator/deploy/controller.yaml");
const GATEWAY_YAML: &str = include_str!("../../../operator/deploy/gateway.yaml");

/// Addresses and credentials that the Repo refers to.
#[derive(Clone, Debug)]
pub struct RepoTargets {
    /// `http://host:port/owner/name`.
    pub git_url: String,
    /// Branch that pull requests target.
    pub branch: String,
    /// Base URL of the model API, as `http://host:port/v1`.
    pub model_url: String,
    /// The kind of that API, where its host does not tell.
    pub model_api: Option<ModelApi>,
    /// Base URL of Slack's Web API, as `http://host:port/api`.
    pub slack_url: String,
    /// Id of the team's Slack channel.
    pub channel: String,
    /// Token for Git and for GitHub's API.
    pub git_token: String,
    /// Slack's bot token, `xoxb-…`.
    pub bot_token: String,
    /// Slack's app-level token, `xapp-…`.
    pub app_token: String,
    /// API key for the model API.
    pub api_key: String,
    /// Debounce of messages, in seconds.
    pub debounce: u32,
}

/// Accounts, rights and Services that are installed before the operator starts, as YAML: this build's, or an earlier
/// one's own.
///
/// # Errors
/// When an earlier build's are not YAML. This build's are part of this program.
pub fn system_manifests(
    place: &InstallPlace,
    earlier: Option<&EarlierBuild>,
) -> Result<Vec<String>, ClusterError> {
    match earlier {
        Some(earlier) => earlier.rights.iter().map(|yaml| place.adapted(yaml)).collect(),
        None => {
            [CONTROLLER_YAML, GATEWAY_YAML].map(|yaml| place.adapted(yaml)).into_iter().collect()
        }
    }
}

/// Lets the gateway read the team's Secrets.
pub fn secrets_binding(place: &InstallPlace) -> serde_json::Value {
    serde_json::json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": names::SECRETS_ROLE, "namespace": place.team},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": place.named(names::SECRETS_ROLE),
        },
        "subjects": [
            {"kind": "ServiceAccount", "name": names::GATEWAY, "namespace": place.system},
        ],
    })
}

/// The seeds' AgentRoles in the operator's namespace; `model` maps a role's short name to its model.
///
/// # Errors
/// When a seed is not a valid AgentRole.
pub fn seed_roles(
    place: &InstallPlace,
    model: impl Fn(&AgentRole) -> Option<String>,
) -> Result<Vec<AgentRole>, StackError> {
    read_roles(place, crate::seeds::role_files(), model)
}

/// The AgentRoles of these files (name and YAML), as [`seed_roles`] changes those of the seeds.
///
/// # Errors
/// When a file is not a valid AgentRole.
pub fn read_roles<'a>(
    place: &InstallPlace,
    files: impl Iterator<Item = (&'a str, &'a str)>,
    model: impl Fn(&AgentRole) -> Option<String>,
) -> Result<Vec<AgentRole>, StackError> {
    files
        .map(|(file, yaml)| {
            let mut role: AgentRole = serde_saphyr::from_str(yaml)
                .map_err(|e| StackError::Seed { file: file.to_owned(), reason: e.to_string() })?;
            role.metadata.namespace = Some(place.system.clone());
            if let Some(model) = model(&role) {
                // Nothing else is known there.
                let is_played = model.starts_with(&ModelServer::model(""));
                let image = role.spec.model.image.take();
                role.spec.model.image = image.filter(|_| is_played).map(|_| model.clone());
                role.spec.model.default = model;
                role.spec.model.pool.clear();
                role.spec.model.tiers = None;
                role.spec.model.first_look = None;
                role.spec.model.audio = None;
            }
            Ok(role)
        })
        .collect()
}

/// The team's Secrets, the right to read them, and its Repo, which `edit` may change first.
pub fn team_manifests(
    place: &InstallPlace,
    repo: &str,
    roles: Vec<String>,
    outside: &RepoTargets,
    edit: &RepoEdit,
) -> Vec<serde_json::Value> {
    let git_host = url_origin(&outside.git_url);
    let slack_host = url_origin(&outside.slack_url);
    let model_host = url_origin(&outside.model_url);
    let mut spec = RepoSpec {
        git: GitSpec {
            url: outside.git_url.clone(),
            branch: outside.branch.clone(),
            credentials: SecretRef { name: "git".to_owned() },
            merge_method: None,
            pictures: true,
        },
        slack: SlackSpec {
            channel: outside.channel.clone(),
            create_channel: false,
            allow_bots: Vec::new(),
            credentials: SecretRef { name: "slack".to_owned() },
            debounce_seconds: outside.debounce,
            offer_learning: false,
        },
        model: ModelSpec {
            base_url: outside.model_url.clone(),
            credentials: SecretRef { name: "model".to_owned() },
            api: outside.model_api.map(Into::into),
            prices: BTreeMap::new(),
            models: BTreeMap::new(),
            providers: Vec::new(),
        },
        roles,
        worktree: WorktreeSpec::default(),
        limits: LimitsSpec::default(),
        access: AccessSpec::default(),
        egress: EgressSpec::default(),
        web: None,
        policy: PolicySpec::default(),
        pods: None,
        threads: None,
        branches: None,
        retrospective: None,
        review: None,
        roadmap: None,
        schedules: Vec::new(),
        issues: None,
        comments: None,
        deliveries: None,
        mcp_servers: Vec::new(),
        reminders: None,
        warm: None,
        suspend: false,
    };
    edit(&mut spec);
    let mut object = Repo::new(repo, spec);
    object.metadata.namespace = Some(place.team.clone());
    vec![
        secrets_binding(place),
        make_secret(place, "git", &git_host, &[(key::GIT_TOKEN, &outside.git_token)]),
        make_secret(
            place,
            "slack",
            &slack_host,
            &[
                (key::SLACK_BOT_TOKEN, &outside.bot_token),
                (key::SLACK_APP_TOKEN, &outside.app_token),
            ],
        ),
        make_secret(place, "model", &model_host, &[(key::MODEL_API_KEY, &outside.api_key)]),
        object_value("codebutler.dev/v1alpha1", "Repo", &object),
    ]
}

/// Name of the Secret with which people sign in.
pub const SIGN_IN: &str = "codebutler-pages";

/// Manifests of that Secret and of the gateway's right to read it.
pub fn sign_in(
    place: &InstallPlace,
    issuer: &str,
    (id, secret): &(String, String),
) -> [serde_json::Value; 2] {
    let mut right = secrets_binding(place);
    right["metadata"]["namespace"] = place.system.clone().into();
    let data = [(key::CLIENT_ID, id), (key::CLIENT_SECRET, secret)];
    let mut secret = make_secret(place, SIGN_IN, &url_origin(issuer), &data);
    secret["metadata"]["namespace"] = place.system.clone().into();
    [right, secret]
}

fn make_secret(
    place: &InstallPlace,
    name: &str,
    hosts: &str,
    data: &[(&str, &String)],
) -> serde_json::Value {
    let secret = Secret {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(place.team.clone()),
            annotations: Some(
                [(names::ANNOTATION_HOSTS.to_owned(), hosts.to_owned())].into_iter().collect(),
            ),
            ..ObjectMeta::default()
        },
        string_data: Some(data.iter().map(|(k, v)| ((*k).to_owned(), (*v).clone())).collect()),
        ..Secret::default()
    };
    object_value("v1", "Secret", &secret)
}

/// Origin of a URL, as a Secret's annotation has to name it.
fn url_origin(url: &str) -> String {
    url.splitn(4, '/').take(3).collect::<Vec<_>>().join("/")
}

fn object_value(api_version: &str, kind: &str, object: &impl Serialize) -> serde_json::Value {
    let mut value = serde_json::to_value(object).unwrap_or_default();
    value["apiVersion"] = api_version.into();
    value["kind"] = kind.into();
    value
}
