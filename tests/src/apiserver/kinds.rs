//! The kinds a server knows: a table of built-in ones and those that definitions add.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use super::crd::CustomVersion;
use super::definitions;
use super::object::api_version;
use super::schema::SchemaNode;

/// JSON pointers to the replica counts of a kind with a `scale` subresource.
#[derive(Clone, Debug)]
pub(super) struct ScalePaths {
    /// Pointer to the wanted number of replicas.
    pub spec: String,
    /// Pointer to the observed number of replicas.
    pub status: String,
    /// Serialized label selector.
    pub selector: Option<String>,
}

/// Source of a kind's schema.
#[derive(Clone)]
pub(super) enum KindShape {
    /// A built-in kind, by the name of its definition.
    Core(String),
    /// A version of a custom resource.
    Custom(Arc<CustomVersion>),
}

/// A resource that the server serves, as discovery lists it.
#[derive(Clone)]
#[expect(clippy::struct_excessive_bools, reason = "a row of discovery: independent traits")]
pub(super) struct ServedKind {
    /// API group; empty for the core group.
    pub group: String,
    pub version: String,
    /// Resource name in paths, such as `pods`.
    pub plural: String,
    pub singular: String,
    pub kind: String,
    /// Short names that kubectl accepts.
    pub short_names: Vec<String>,
    /// Categories such as `all`.
    pub categories: Vec<String>,
    /// True if objects live in namespaces.
    pub namespaced: bool,
    /// Key of the store's table; kinds that are views of each other share it.
    pub table: String,
    /// True if the kind has a status subresource.
    pub status: bool,
    /// Replica paths of the scale subresource, if the kind has one.
    pub scale: Option<ScalePaths>,
    /// Further subresources and the kind of their bodies: `(name, group, version, kind)`.
    pub extra: &'static [(&'static str, &'static str, &'static str, &'static str)],
    /// True if objects are only posted and answered, never stored.
    pub virtual_only: bool,
    /// True if objects have a `metadata.generation`.
    pub generation: bool,
    pub shape: KindShape,
}

impl ServedKind {
    /// `group/version`, or the version alone in the core group.
    pub(super) fn api_version(&self) -> String {
        api_version(&self.group, &self.version)
    }

    /// The schema of its objects.
    pub(super) fn node(&self) -> Option<SchemaNode<'_>> {
        match &self.shape {
            KindShape::Core(definition) => definitions::definition_node(definition),
            KindShape::Custom(version) => Some(version.node()),
        }
    }

    /// The custom resource version behind it.
    pub(super) fn custom(&self) -> Option<&Arc<CustomVersion>> {
        match &self.shape {
            KindShape::Custom(version) => Some(version),
            KindShape::Core(_) => None,
        }
    }

    /// True if this is the built-in kind of that group and plural name.
    pub(super) fn is(&self, group: &str, plural: &str) -> bool {
        self.group == group && self.plural == plural
    }

    /// Verbs that discovery lists for the kind.
    pub(super) fn verbs(&self) -> Vec<&'static str> {
        if self.virtual_only {
            vec!["create"]
        } else {
            vec!["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
        }
    }

    /// True if the kind has the subresource.
    pub(super) fn has_subresource(&self, name: &str) -> bool {
        match name {
            "status" => self.status,
            "scale" => self.scale.is_some(),
            other => self.extra.iter().any(|(extra, ..)| *extra == other),
        }
    }
}

/// Splits `group/version`; the core group is empty.
pub(super) fn split_api_version(api_version: &str) -> (&str, &str) {
    api_version.split_once('/').unwrap_or(("", api_version))
}

const CLUSTER: u8 = 0;
const NAMESPACED: u8 = 1;
const STATUS: u8 = 2;
const SCALE: u8 = 4;
const GENERATION: u8 = 8;
const VIRTUAL: u8 = 16;

type BuiltInRow =
    (&'static str, &'static str, &'static str, &'static str, &'static [&'static str], u8);

/// `group/version`, plural, kind, package of its definition, short names and traits.
const BUILT_IN: &[BuiltInRow] = &[
    ("v1", "configmaps", "ConfigMap", "core", &["cm"], NAMESPACED),
    ("v1", "endpoints", "Endpoints", "core", &["ep"], NAMESPACED),
    ("v1", "events", "Event", "core", &["ev"], NAMESPACED),
    ("v1", "limitranges", "LimitRange", "core", &["limits"], NAMESPACED),
    ("v1", "namespaces", "Namespace", "core", &["ns"], CLUSTER | STATUS),
    ("v1", "nodes", "Node", "core", &["no"], CLUSTER | STATUS),
    (
        "v1",
        "persistentvolumeclaims",
        "PersistentVolumeClaim",
        "core",
        &["pvc"],
        NAMESPACED | STATUS,
    ),
    ("v1", "persistentvolumes", "PersistentVolume", "core", &["pv"], CLUSTER | STATUS),
    ("v1", "pods", "Pod", "core", &["po"], NAMESPACED | STATUS | GENERATION),
    ("v1", "resourcequotas", "ResourceQuota", "core", &["quota"], NAMESPACED | STATUS),
    ("v1", "secrets", "Secret", "core", &[], NAMESPACED),
    ("v1", "serviceaccounts", "ServiceAccount", "core", &["sa"], NAMESPACED),
    ("v1", "services", "Service", "core", &["svc"], NAMESPACED | STATUS),
    ("apps/v1", "daemonsets", "DaemonSet", "apps", &["ds"], NAMESPACED | STATUS | GENERATION),
    (
        "apps/v1",
        "deployments",
        "Deployment",
        "apps",
        &["deploy"],
        NAMESPACED | STATUS | SCALE | GENERATION,
    ),
    (
        "apps/v1",
        "replicasets",
        "ReplicaSet",
        "apps",
        &["rs"],
        NAMESPACED | STATUS | SCALE | GENERATION,
    ),
    (
        "authentication.k8s.io/v1",
        "selfsubjectreviews",
        "SelfSubjectReview",
        "authentication",
        &[],
        CLUSTER | VIRTUAL,
    ),
    (
        "authentication.k8s.io/v1",
        "tokenreviews",
        "TokenReview",
        "authentication",
        &[],
        CLUSTER | VIRTUAL,
    ),
    (
        "authorization.k8s.io/v1",
        "localsubjectaccessreviews",
        "LocalSubjectAccessReview",
        "authorization",
        &[],
        NAMESPACED | VIRTUAL,
    ),
    (
        "authorization.k8s.io/v1",
        "selfsubjectaccessreviews",
        "SelfSubjectAccessReview",
        "authorization",
        &[],
        CLUSTER | VIRTUAL,
    ),
    (
        "authorization.k8s.io/v1",
        "selfsubjectrulesreviews",
        "SelfSubjectRulesReview",
        "authorization",
        &[],
        CLUSTER | VIRTUAL,
    ),
    (
        "authorization.k8s.io/v1",
        "subjectaccessreviews",
        "SubjectAccessReview",
        "authorization",
        &[],
        CLUSTER | VIRTUAL,
    ),
    ("coordination.k8s.io/v1", "leases", "Lease", "coordination", &[], NAMESPACED),
    (
        "discovery.k8s.io/v1",
        "endpointslices",
        "EndpointSlice",
        "discovery",
        &[],
        NAMESPACED | GENERATION,
    ),
    ("events.k8s.io/v1", "events", "Event", "events", &["ev"], NAMESPACED),
    (
        "networking.k8s.io/v1",
        "ingresses",
        "Ingress",
        "networking",
        &["ing"],
        NAMESPACED | STATUS | GENERATION,
    ),
    (
        "networking.k8s.io/v1",
        "networkpolicies",
        "NetworkPolicy",
        "networking",
        &["netpol"],
        NAMESPACED | GENERATION,
    ),
    (
        "policy/v1",
        "poddisruptionbudgets",
        "PodDisruptionBudget",
        "policy",
        &["pdb"],
        NAMESPACED | STATUS | GENERATION,
    ),
    (
        "rbac.authorization.k8s.io/v1",
        "clusterrolebindings",
        "ClusterRoleBinding",
        "rbac",
        &[],
        CLUSTER,
    ),
    ("rbac.authorization.k8s.io/v1", "clusterroles", "ClusterRole", "rbac", &[], CLUSTER),
    ("rbac.authorization.k8s.io/v1", "rolebindings", "RoleBinding", "rbac", &[], NAMESPACED),
    ("rbac.authorization.k8s.io/v1", "roles", "Role", "rbac", &[], NAMESPACED),
    (
        "scheduling.k8s.io/v1",
        "priorityclasses",
        "PriorityClass",
        "scheduling",
        &["pc"],
        CLUSTER | GENERATION,
    ),
    ("storage.k8s.io/v1", "storageclasses", "StorageClass", "storage", &["sc"], CLUSTER),
    (
        "apiextensions.k8s.io/v1",
        "customresourcedefinitions",
        "CustomResourceDefinition",
        "apiextensions",
        &["crd", "crds"],
        CLUSTER | STATUS | GENERATION,
    ),
];

fn built_in(row: &BuiltInRow) -> ServedKind {
    let (api_version, plural, kind, package, short_names, traits) = *row;
    let (group, version) = split_api_version(api_version);
    let definition = if package == "apiextensions" {
        format!("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.{kind}")
    } else {
        format!("io.k8s.api.{package}.v1.{kind}")
    };
    let has = |one: u8| traits & one != 0;
    let extra: &[_] = match (group, plural) {
        ("", "pods") => &[
            ("binding", "", "v1", "Binding"),
            ("ephemeralcontainers", "", "v1", "Pod"),
            ("eviction", "policy", "v1", "Eviction"),
            ("log", "", "v1", "Pod"),
        ],
        ("", "serviceaccounts") => &[("token", "authentication.k8s.io", "v1", "TokenRequest")],
        ("", "namespaces") => &[("finalize", "", "v1", "Namespace")],
        _ => &[],
    };
    let in_all =
        matches!(plural, "pods" | "services" | "daemonsets" | "deployments" | "replicasets");
    let in_extensions = plural == "customresourcedefinitions";
    ServedKind {
        group: group.to_owned(),
        version: version.to_owned(),
        plural: plural.to_owned(),
        singular: kind.to_lowercase(),
        kind: kind.to_owned(),
        short_names: short_names.iter().map(|&s| s.to_owned()).collect(),
        categories: if in_all {
            vec!["all".to_owned()]
        } else if in_extensions {
            vec!["api-extensions".to_owned()]
        } else {
            Vec::new()
        },
        namespaced: has(NAMESPACED),
        // Both Event APIs show the same objects.
        table: if plural == "events" { "events".to_owned() } else { printed_table(group, plural) },
        status: has(STATUS),
        scale: has(SCALE).then(|| ScalePaths {
            spec: "/spec/replicas".to_owned(),
            status: "/status/replicas".to_owned(),
            selector: None,
        }),
        extra,
        virtual_only: has(VIRTUAL),
        generation: has(GENERATION),
        shape: KindShape::Core(definition),
    }
}

/// Key of the table that stores a resource.
pub(super) fn printed_table(group: &str, plural: &str) -> String {
    if group.is_empty() { plural.to_owned() } else { format!("{plural}.{group}") }
}

type KindIndex = BTreeMap<(String, String, String), Arc<ServedKind>>;

/// The registry of all kinds that a server serves.
pub(super) struct KindRegistry {
    kinds: RwLock<KindIndex>,
}

impl KindRegistry {
    /// Makes a registry of the built-in kinds.
    pub(super) fn new() -> Self {
        let kinds = BUILT_IN.iter().map(built_in).map(|k| (index_key(&k), Arc::new(k))).collect();
        Self { kinds: RwLock::new(kinds) }
    }

    /// Looks up the kind that a path addresses.
    pub(super) fn find(&self, group: &str, version: &str, plural: &str) -> Option<Arc<ServedKind>> {
        let key = (group.to_owned(), version.to_owned(), plural.to_owned());
        self.kinds.read().unwrap_or_else(PoisonError::into_inner).get(&key).cloned()
    }

    /// All kinds, sorted by group, version and plural name.
    pub(super) fn all(&self) -> Vec<Arc<ServedKind>> {
        self.kinds.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// Puts the given kinds in place of all that a definition had before.
    pub(super) fn replace_custom(&self, group: &str, plural: &str, kinds: Vec<ServedKind>) {
        let mut index = self.kinds.write().unwrap_or_else(PoisonError::into_inner);
        index.retain(|_, k| !(k.custom().is_some() && k.is(group, plural)));
        index.extend(kinds.into_iter().map(|k| (index_key(&k), Arc::new(k))));
    }
}

impl Default for KindRegistry {
    fn default() -> Self {
        Self::new()
    }
}

fn index_key(kind: &ServedKind) -> (String, String, String) {
    (kind.group.clone(), kind.version.clone(), kind.plural.clone())
}
