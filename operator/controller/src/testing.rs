//! Values that this module's unit tests start from.

use codebutler_crds::{AgentRole, Repo, Thread};
use jiff::Timestamp;
use serde_json::json;

use crate::args::ControllerArgs;

pub(crate) fn args() -> ControllerArgs {
    ControllerArgs {
        namespaces: Vec::new(),
        namespace: "codebutler-system".to_owned(),
        gateway_service: "codebutler-gateway".to_owned(),
        gateway_port: 8443,
        gateway_shards: 1,
        agent_image: "codebutler-agent:test".to_owned(),
        workspace_image: "debian:12".to_owned(),
        agent_pull_secrets: Vec::new(),
        cluster_dns: Vec::new(),
        agent_pull_policy: None,
        agent_pods: Box::default(),
        lease: codebutler_runtime::args::LeaseArgs::default(),
        metrics_address: ([127, 0, 0, 1], 0).into(),
    }
}

pub(crate) fn now() -> Timestamp {
    "2026-01-01T12:00:00Z".parse().unwrap()
}

pub(crate) fn role(name: &str) -> AgentRole {
    serde_json::from_value(json!({
        "apiVersion": "codebutler.dev/v1alpha1",
        "kind": "AgentRole",
        "metadata": {"name": name, "namespace": "team", "uid": format!("role-{name}"), "generation": 1},
        "spec": {
            "role": name,
            "display": {"name": name, "icon": ":hammer:"},
            "phase": name,
            "model": {"default": "scripted/x"},
            "tools": {"allow": ["Read", "Bash"]},
            "workspace": {"env": {"CARGO_HOME": "/work/cargo", "HOME": "/elsewhere"}},
        },
    }))
    .unwrap()
}

pub(crate) fn repo() -> Repo {
    serde_json::from_value(json!({
        "apiVersion": "codebutler.dev/v1alpha1",
        "kind": "Repo",
        "metadata": {"name": "shop", "namespace": "team", "uid": "repo-1", "generation": 1},
        "spec": {
            "git": {"url": "https://git.example/acme/shop", "credentials": {"name": "git"}},
            "slack": {"channel": "C0TEAM", "credentials": {"name": "slack"}},
            "model": {"credentials": {"name": "model"}},
            "roles": ["pm", "coder"],
        },
    }))
    .unwrap()
}

pub(crate) fn thread(status: &serde_json::Value) -> Thread {
    serde_json::from_value(json!({
        "apiVersion": "codebutler.dev/v1alpha1",
        "kind": "Thread",
        "metadata": {"name": "shop-1767268700-000100", "namespace": "team", "uid": "thread-1", "generation": 1},
        "spec": {"repo": "shop", "slack": {"channel": "C0TEAM", "ts": "1767268700.000100"}},
        "status": status,
    }))
    .unwrap()
}
