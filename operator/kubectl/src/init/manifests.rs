//! The objects of a team.

use codebutler_crds::names::{ANNOTATION_HOSTS, GATEWAY, SECRETS_ROLE, secret_key};
use serde_json::{Value, json};
use url::Url;

use super::answers::TeamAnswers;

/// Manifests in the order in which they are applied.
pub(super) struct TeamManifests {
    pub namespace: Value,
    /// Role binding that lets the gateway read the Secrets.
    pub binding: Value,
    pub secrets: Vec<Value>,
    pub repo: Value,
}

/// Roles that the chart installs; the first one hears messages without a mention.
const ROLES: [&str; 6] = ["pm", "coder", "reviewer", "lead", "researcher", "artist"];

/// Makes the manifests of a team's namespace, Secrets and Repo.
pub(super) fn make_manifests(answers: &TeamAnswers, system: &str) -> TeamManifests {
    let namespace = &answers.namespace;
    TeamManifests {
        namespace: json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace},
        }),
        binding: json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {"name": SECRETS_ROLE, "namespace": namespace},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": SECRETS_ROLE,
            },
            "subjects": [{"kind": "ServiceAccount", "name": GATEWAY, "namespace": system}],
        }),
        secrets: vec![
            make_secret(
                namespace,
                "slack",
                "slack.com",
                &json!({
                    secret_key::SLACK_BOT_TOKEN: answers.bot_token,
                    secret_key::SLACK_APP_TOKEN: answers.app_token,
                }),
            ),
            make_secret(
                namespace,
                "git",
                &git_hosts(&answers.git_url),
                &json!({secret_key::GIT_TOKEN: answers.git_token}),
            ),
            make_secret(
                namespace,
                "model",
                &url_host(&answers.model_url),
                &json!({secret_key::MODEL_API_KEY: answers.model_key}),
            ),
        ],
        repo: make_repo(answers),
    }
}

fn make_secret(namespace: &str, name: &str, hosts: &str, data: &Value) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": name, "namespace": namespace, "annotations": {ANNOTATION_HOSTS: hosts},
        },
        "stringData": data,
    })
}

fn make_repo(answers: &TeamAnswers) -> Value {
    let presets: Vec<&str> = answers.presets.iter().map(|preset| preset.name()).collect();
    let mut egress = json!({"presets": presets});
    if answers.allow_own_node {
        egress["allowOwnNode"] = true.into();
    }
    json!({
        "apiVersion": "codebutler.dev/v1alpha1",
        "kind": "Repo",
        "metadata": {"name": answers.repo, "namespace": answers.namespace},
        "spec": {
            "git": {
                "url": answers.git_url.as_str().trim_end_matches('/'),
                "branch": answers.branch,
                "credentials": {"name": "git"},
            },
            "slack": {"channel": answers.channel, "credentials": {"name": "slack"}},
            "model": {
                "baseURL": answers.model_url.as_str().trim_end_matches('/'),
                "credentials": {"name": "model"},
            },
            "roles": ROLES,
            "egress": egress,
        },
    })
}

/// An address in the form of a Secret's annotation: a host alone means https, anything else is written out.
fn url_host(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    match (url.scheme(), url.port()) {
        ("https", None) => host.to_owned(),
        ("https", Some(port)) => format!("{host}:{port}"),
        _ => url.origin().ascii_serialization(),
    }
}

/// A token for Git is sent to the host and to its API.
fn git_hosts(url: &Url) -> String {
    let own = url_host(url);
    match own.as_str() {
        "github.com" => "github.com, api.github.com".to_owned(),
        tenant if tenant.ends_with(".ghe.com") => format!("{tenant}, api.{tenant}"),
        _ => own,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_may_be_sent_where_its_url_leads_and_nowhere_else() {
        let hosts = |url: &str| git_hosts(&Url::parse(url).unwrap());
        assert_eq!(hosts("https://github.com/acme/shop"), "github.com, api.github.com");
        assert_eq!(hosts("https://acme.ghe.com/acme/shop"), "acme.ghe.com, api.acme.ghe.com");
        assert_eq!(hosts("https://git.acme.dev:8443/acme/shop"), "git.acme.dev:8443");
        assert_eq!(hosts("http://10.0.0.7:3000/acme/shop"), "http://10.0.0.7:3000");
    }
}
