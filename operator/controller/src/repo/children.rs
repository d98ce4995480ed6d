//! Objects that all pods of a Repo share: an account without rights, a network policy that lets them reach the
//! gateway and nothing else, and the gateway's certificate authority.

use std::net::SocketAddr;

use codebutler_crds::{Repo, names};
use k8s_openapi::api::core::v1::{ConfigMap, ServiceAccount};
use k8s_openapi::api::networking::v1::{
    IPBlock, NetworkPolicy, NetworkPolicyEgressRule, NetworkPolicyPeer, NetworkPolicyPort,
    NetworkPolicySpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, OwnerReference};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt as _;
use serde::Serialize;
use serde_json::Value;

use crate::args::ControllerArgs;
use crate::gateway::GatewayAddress;
use crate::labels;

/// `app.kubernetes.io/name` of the gateway's pods.
const GATEWAY_PODS: &str = "codebutler-gateway";

/// The network policy of a Repo.
pub(super) fn policy_name(repo: &str) -> String {
    format!("codebutler-{repo}")
}

/// The account of a Repo's pods. No role is bound to it; it only tells whose pods they are.
pub(super) fn build_account(repo: &Repo) -> ServiceAccount {
    let name = names::service_account(&repo.name_any());
    ServiceAccount {
        metadata: labels::owned_metadata(repo, name, labels::of_repo("codebutler-agent", repo)),
        automount_service_account_token: Some(false),
        ..ServiceAccount::default()
    }
}

/// Builds the network policy of the Repo's pods: nothing in, and out only to the gateway's pods and its Service.
pub(super) fn build_policy(
    repo: &Repo,
    gateway: &GatewayAddress,
    args: &ControllerArgs,
) -> NetworkPolicy {
    let name = repo.name_any();
    let select = |key: &str, value: &str| LabelSelector {
        match_labels: Some([(key.to_owned(), value.to_owned())].into()),
        match_expressions: None,
    };
    let to_pods = NetworkPolicyPeer {
        namespace_selector: Some(select("kubernetes.io/metadata.name", &args.namespace)),
        pod_selector: Some(select("app.kubernetes.io/name", GATEWAY_PODS)),
        ip_block: None,
    };
    NetworkPolicy {
        metadata: labels::owned_metadata(
            repo,
            policy_name(&name),
            labels::of_repo("codebutler-agent", repo),
        ),
        spec: Some(NetworkPolicySpec {
            pod_selector: Some(select(names::LABEL_REPO, &name)),
            policy_types: Some(vec!["Ingress".to_owned(), "Egress".to_owned()]),
            // Said, so that a rule that somebody adds is a difference.
            ingress: Some(Vec::new()),
            egress: Some(vec![
                allow_tcp(to_pods, gateway.target_port.clone()),
                allow_service(gateway.address),
            ]),
        }),
    }
}

/// Allows the Service's own address. Most plugins judge a connection after that is translated, and never see it. The VPC
/// CNI of EKS judges before, and would find the pods by the Service's selector: the gateway's Service has none.
fn allow_service(address: SocketAddr) -> NetworkPolicyEgressRule {
    let bits = if address.is_ipv4() { 32 } else { 128 };
    let block = IPBlock { cidr: format!("{}/{bits}", address.ip()), except: None };
    let peer = NetworkPolicyPeer { ip_block: Some(block), ..NetworkPolicyPeer::default() };
    allow_tcp(peer, IntOrString::Int(address.port().into()))
}

fn allow_tcp(to: NetworkPolicyPeer, port: IntOrString) -> NetworkPolicyEgressRule {
    NetworkPolicyEgressRule {
        to: Some(vec![to]),
        ports: Some(vec![NetworkPolicyPort {
            port: Some(port),
            protocol: Some("TCP".to_owned()),
            end_port: None,
        }]),
    }
}

/// The gateway's certificate authority for the pods of this namespace, owned by all of its Repos.
pub(super) fn build_authority(namespace: &str, pem: &str, owners: &[OwnerReference]) -> ConfigMap {
    let mut copy = ConfigMap {
        data: Some([(names::CA_KEY.to_owned(), pem.to_owned())].into()),
        ..ConfigMap::default()
    };
    copy.metadata.name = Some(names::CA_CONFIG_MAP.to_owned());
    copy.metadata.namespace = Some(namespace.to_owned());
    copy.metadata.owner_references = Some(owners.to_vec());
    copy.metadata.labels = Some(
        [("app.kubernetes.io/part-of", "codebutler"), (names::LABEL_MANAGED_BY, names::CONTROLLER)]
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into(),
    );
    copy
}

/// True if `found` already has every value that `wanted` has.
pub(super) fn agrees_with<K: Serialize>(wanted: &K, found: Option<&K>) -> bool {
    let value = |object| serde_json::to_value(object).unwrap_or_default();
    found.is_some_and(|found| contains_value(&value(found), &value(wanted)))
}

fn contains_value(found: &Value, wanted: &Value) -> bool {
    match (found, wanted) {
        (Value::Object(found), Value::Object(wanted)) => {
            // A server leaves out empty lists.
            let empty = Value::Array(Vec::new());
            wanted.iter().all(|(key, wanted)| {
                let found = found.get(key).or((*wanted == empty).then_some(&empty));
                found.is_some_and(|found| contains_value(found, wanted))
            })
        }
        (Value::Array(found), Value::Array(wanted)) => {
            found.len() == wanted.len()
                && found.iter().zip(wanted).all(|(found, wanted)| contains_value(found, wanted))
        }
        _ => found == wanted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_a_server_adds_is_no_difference_but_what_anybody_changes_is() {
        let wanted = json!({"spec": {"ports": [{"port": 1}], "on": true}});
        let found = json!({"uid": "x", "spec": {"ports": [{"port": 1, "p": "TCP"}], "on": true}});
        assert!(contains_value(&found, &wanted));
        let more = json!({"spec": {"ports": [{"port": 1}, {"port": 2}], "on": true}});
        assert!(!contains_value(&more, &wanted));
        assert!(!contains_value(&json!({"spec": {"ports": [{"port": 1}]}}), &wanted));
        assert!(contains_value(&json!({}), &json!({"ingress": []})));
        assert!(!contains_value(&json!({"ingress": [{}]}), &json!({"ingress": []})));
    }
}
