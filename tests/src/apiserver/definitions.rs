//! Schemas of the built-in kinds: k8s-openapi's definitions, completed with what they leave out and
//! a server needs, which lists are keyed and how strategic merge patches them.

use std::sync::LazyLock;

use k8s_openapi::api::{
    apps, authentication, authorization, coordination, core, discovery, events, networking, policy,
    rbac, storage,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions;
use k8s_openapi::apimachinery::pkg::apis::meta;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::schema::SchemaNode;

/// All definitions by their upstream names, such as `io.k8s.api.core.v1.Pod`.
pub(super) static DEFINITIONS: LazyLock<Map<String, Value>> = LazyLock::new(build_definitions);

/// The definition of a built-in type.
pub(super) fn definition_node(name: &str) -> Option<SchemaNode<'static>> {
    let definitions: &'static Map<String, Value> = &DEFINITIONS;
    definitions.get(name).map(|schema| SchemaNode::new(schema, definitions))
}

/// The name of the metadata definition, which custom resources use too.
pub(super) const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

fn build_definitions() -> Map<String, Value> {
    let mut generator = SchemaSettings::openapi3().into_generator();
    macro_rules! include {
        ($($kind:ty),* $(,)?) => { $( generator.subschema_for::<$kind>(); )* };
    }
    include!(
        core::v1::Binding,
        core::v1::ConfigMap,
        core::v1::Endpoints,
        core::v1::Event,
        core::v1::LimitRange,
        core::v1::Namespace,
        core::v1::Node,
        core::v1::PersistentVolume,
        core::v1::PersistentVolumeClaim,
        core::v1::Pod,
        core::v1::ResourceQuota,
        core::v1::Secret,
        core::v1::Service,
        core::v1::ServiceAccount,
        apps::v1::DaemonSet,
        apps::v1::Deployment,
        apps::v1::ReplicaSet,
        authentication::v1::SelfSubjectReview,
        authentication::v1::TokenRequest,
        authentication::v1::TokenReview,
        authorization::v1::LocalSubjectAccessReview,
        authorization::v1::SelfSubjectAccessReview,
        authorization::v1::SelfSubjectRulesReview,
        authorization::v1::SubjectAccessReview,
        coordination::v1::Lease,
        discovery::v1::EndpointSlice,
        events::v1::Event,
        networking::v1::Ingress,
        networking::v1::NetworkPolicy,
        policy::v1::Eviction,
        policy::v1::PodDisruptionBudget,
        rbac::v1::ClusterRole,
        rbac::v1::ClusterRoleBinding,
        rbac::v1::Role,
        rbac::v1::RoleBinding,
        storage::v1::StorageClass,
        k8s_openapi::api::autoscaling::v1::Scale,
        k8s_openapi::api::scheduling::v1::PriorityClass,
        apiextensions::v1::CustomResourceDefinition,
        meta::v1::DeleteOptions,
        meta::v1::Status,
    );
    let mut definitions = generator.take_definitions(true);
    for definition in definitions.values_mut() {
        open_untyped(definition);
        // k8s-openapi requires metadata of a client's object; the server does not.
        if let Some(required) = definition.get_mut("required").and_then(Value::as_array_mut) {
            required.retain(|name| name != "metadata");
            if required.is_empty()
                && let Some(map) = definition.as_object_mut()
            {
                map.remove("required");
            }
        }
    }
    // A schema inside a schema has no end; it is checked where definitions are registered.
    if let Some(schema) = definitions
        .get_mut("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps")
    {
        schema["x-kubernetes-preserve-unknown-fields"] = true.into();
    }
    for (definition, field, list) in LISTS {
        let Some(property) = definitions
            .get_mut(&full_name(definition))
            .and_then(|d| d.get_mut("properties")?.get_mut(*field))
        else {
            continue;
        };
        list.describe(property);
    }
    for definition in ATOMIC {
        if let Some(schema) = definitions.get_mut(&full_name(definition)) {
            schema["x-kubernetes-map-type"] = "atomic".into();
        }
    }
    // Part of the key of ports, so that an absent protocol is the default one.
    for definition in ["core.v1.ContainerPort", "core.v1.ServicePort"] {
        if let Some(protocol) = definitions
            .get_mut(&full_name(definition))
            .and_then(|d| d.pointer_mut("/properties/protocol"))
        {
            protocol["default"] = "TCP".into();
        }
    }
    definitions
}

fn full_name(short: &str) -> String {
    if short.starts_with("meta.") {
        format!("io.k8s.apimachinery.pkg.apis.{short}")
    } else if short.starts_with("apiextensions.") {
        format!("io.k8s.apiextensions-apiserver.pkg.apis.{short}")
    } else {
        format!("io.k8s.api.{short}")
    }
}

/// An object that declares no fields holds any (RawExtension, FieldsV1).
fn open_untyped(schema: &mut Value) {
    let Some(map) = schema.as_object_mut() else { return };
    if map.get("type").and_then(Value::as_str) == Some("object")
        && !map.contains_key("properties")
        && !map.contains_key("additionalProperties")
    {
        map.insert("x-kubernetes-preserve-unknown-fields".to_owned(), true.into());
    }
    for key in ["properties", "items", "additionalProperties"] {
        match (key, map.get_mut(key)) {
            ("properties", Some(Value::Object(properties))) => {
                properties.values_mut().for_each(open_untyped);
            }
            (_, Some(child)) => open_untyped(child),
            _ => {}
        }
    }
}

enum List {
    /// Keys for server-side apply; the first is the merge key of strategic merge.
    Keyed(&'static [&'static str]),
    /// Keys for server-side apply only and another merge key.
    KeyedAnd(&'static [&'static str], &'static str),
    /// Like `Keyed`, and a patch may say which keys of the volume to keep.
    Volumes,
    /// A set of scalars for server-side apply; a strategic merge joins both lists.
    Set,
    /// A list that is one value for server-side apply, and merged by this key in a strategic merge.
    MergedBy(&'static str),
}

impl List {
    fn describe(&self, property: &mut Value) {
        let keyed = |property: &mut Value, keys: &[&str], merge: &str| {
            property["x-kubernetes-list-type"] = "map".into();
            property["x-kubernetes-list-map-keys"] = json!(keys);
            property["x-kubernetes-patch-strategy"] = "merge".into();
            property["x-kubernetes-patch-merge-key"] = merge.into();
        };
        match self {
            Self::Keyed(keys) => keyed(property, keys, keys[0]),
            Self::KeyedAnd(keys, merge) => keyed(property, keys, merge),
            Self::Volumes => {
                keyed(property, &["name"], "name");
                property["x-kubernetes-patch-strategy"] = "merge,retainKeys".into();
            }
            Self::Set => {
                property["x-kubernetes-list-type"] = "set".into();
                property["x-kubernetes-patch-strategy"] = "merge".into();
            }
            Self::MergedBy(key) => {
                property["x-kubernetes-list-type"] = "atomic".into();
                property["x-kubernetes-patch-strategy"] = "merge".into();
                property["x-kubernetes-patch-merge-key"] = (*key).into();
            }
        }
    }
}

const LISTS: &[(&str, &str, List)] = &[
    ("meta.v1.ObjectMeta", "finalizers", List::Set),
    ("meta.v1.ObjectMeta", "ownerReferences", List::Keyed(&["uid"])),
    ("core.v1.PodSpec", "containers", List::Keyed(&["name"])),
    ("core.v1.PodSpec", "initContainers", List::Keyed(&["name"])),
    ("core.v1.PodSpec", "ephemeralContainers", List::Keyed(&["name"])),
    ("core.v1.PodSpec", "hostAliases", List::Keyed(&["ip"])),
    ("core.v1.PodSpec", "imagePullSecrets", List::Keyed(&["name"])),
    ("core.v1.PodSpec", "resourceClaims", List::Keyed(&["name"])),
    ("core.v1.PodSpec", "schedulingGates", List::Keyed(&["name"])),
    (
        "core.v1.PodSpec",
        "topologySpreadConstraints",
        List::Keyed(&["topologyKey", "whenUnsatisfiable"]),
    ),
    ("core.v1.PodSpec", "volumes", List::Volumes),
    ("core.v1.Container", "env", List::Keyed(&["name"])),
    ("core.v1.Container", "ports", List::KeyedAnd(&["containerPort", "protocol"], "containerPort")),
    ("core.v1.Container", "volumeDevices", List::Keyed(&["devicePath"])),
    ("core.v1.Container", "volumeMounts", List::Keyed(&["mountPath"])),
    ("core.v1.EphemeralContainer", "env", List::Keyed(&["name"])),
    ("core.v1.EphemeralContainer", "volumeMounts", List::Keyed(&["mountPath"])),
    ("core.v1.ResourceRequirements", "claims", List::Keyed(&["name"])),
    ("core.v1.PodStatus", "conditions", List::Keyed(&["type"])),
    ("core.v1.PodStatus", "podIPs", List::Keyed(&["ip"])),
    ("core.v1.PodStatus", "hostIPs", List::MergedBy("ip")),
    ("core.v1.ServiceSpec", "ports", List::KeyedAnd(&["port", "protocol"], "port")),
    ("core.v1.ServiceStatus", "conditions", List::Keyed(&["type"])),
    ("core.v1.ServiceAccount", "secrets", List::Keyed(&["name"])),
    ("core.v1.NamespaceStatus", "conditions", List::Keyed(&["type"])),
    ("core.v1.NodeSpec", "podCIDRs", List::Set),
    ("core.v1.NodeStatus", "addresses", List::Keyed(&["type"])),
    ("core.v1.NodeStatus", "conditions", List::Keyed(&["type"])),
    ("core.v1.PersistentVolumeClaimStatus", "conditions", List::Keyed(&["type"])),
    ("apps.v1.DaemonSetStatus", "conditions", List::Keyed(&["type"])),
    ("apps.v1.DeploymentStatus", "conditions", List::Keyed(&["type"])),
    ("apps.v1.ReplicaSetStatus", "conditions", List::Keyed(&["type"])),
    ("policy.v1.PodDisruptionBudgetStatus", "conditions", List::Keyed(&["type"])),
    ("discovery.v1.EndpointSlice", "ports", List::MergedBy("port")),
    ("apiextensions.v1.CustomResourceDefinitionStatus", "conditions", List::Keyed(&["type"])),
];

/// Structures that are owned and replaced as one value.
const ATOMIC: &[&str] = &[
    "core.v1.ConfigMapKeySelector",
    "core.v1.EndpointAddress",
    "core.v1.EndpointPort",
    "core.v1.LocalObjectReference",
    "core.v1.NodeSelector",
    "core.v1.NodeSelectorTerm",
    "core.v1.ObjectFieldSelector",
    "core.v1.ObjectReference",
    "core.v1.ResourceFieldSelector",
    "core.v1.SecretKeySelector",
    "core.v1.SecretReference",
    "core.v1.TopologySelectorTerm",
    "core.v1.TypedLocalObjectReference",
    "meta.v1.LabelSelector",
    "rbac.v1.RoleRef",
    "rbac.v1.Subject",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apiserver::schema::ListKind;

    #[test]
    fn every_named_list_and_structure_exists() {
        for (definition, field, _) in LISTS {
            let node = definition_node(&full_name(definition)).expect(definition);
            assert!(node.property(field).is_some(), "{definition}.{field}");
        }
        for definition in ATOMIC {
            assert!(definition_node(&full_name(definition)).is_some(), "{definition}");
        }
    }

    #[test]
    fn references_with_a_description_are_followed() {
        let pod = definition_node("io.k8s.api.core.v1.Pod").unwrap();
        let containers = pod.property("spec").unwrap().property("containers").unwrap();
        assert_eq!(containers.list_kind(), ListKind::Map(vec!["name".to_owned()]));
        assert!(containers.items().unwrap().property("image").is_some());
    }
}
