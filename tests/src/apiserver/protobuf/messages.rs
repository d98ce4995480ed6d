//! Field numbers of the kinds that are read from protobuf, as in upstream's `generated.proto`.

use FieldType::{Boolean, BytesMap, Integer, Message, Messages, Text, TextMap, Texts, Time};

/// Type of a field in a message.
#[derive(Clone, Copy, Debug)]
pub(super) enum FieldType {
    Text,
    Integer,
    Boolean,
    /// A timestamp, as the message `Time`.
    Time,
    /// A repeated field of strings.
    Texts,
    /// A map from strings to strings.
    TextMap,
    /// A map from strings to bytes.
    BytesMap,
    /// A nested message, by its name.
    Message(&'static str),
    /// A repeated nested message, by its name.
    Messages(&'static str),
}

/// Number, JSON name and type.
pub(super) type MessageField = (u32, &'static str, FieldType);

/// Looks up the fields of a message.
pub(super) fn message_fields(name: &str) -> Option<&'static [MessageField]> {
    MESSAGES.iter().find(|(known, _)| *known == name).map(|(_, fields)| *fields)
}

const META: MessageField = (1, "metadata", Message("ObjectMeta"));

const MESSAGES: &[(&str, &[MessageField])] = &[
    (
        "ObjectMeta",
        &[
            (1, "name", Text),
            (2, "generateName", Text),
            (3, "namespace", Text),
            (5, "uid", Text),
            (6, "resourceVersion", Text),
            (8, "creationTimestamp", Time),
            (9, "deletionTimestamp", Time),
            (11, "labels", TextMap),
            (12, "annotations", TextMap),
            (13, "ownerReferences", Messages("OwnerReference")),
            (14, "finalizers", Texts),
        ],
    ),
    (
        "OwnerReference",
        &[
            (1, "kind", Text),
            (3, "name", Text),
            (4, "uid", Text),
            (5, "apiVersion", Text),
            (6, "controller", Boolean),
            (7, "blockOwnerDeletion", Boolean),
        ],
    ),
    (
        "DeleteOptions",
        &[
            (1, "gracePeriodSeconds", Integer),
            (2, "preconditions", Message("Preconditions")),
            (3, "orphanDependents", Boolean),
            (4, "propagationPolicy", Text),
            (5, "dryRun", Texts),
        ],
    ),
    ("Preconditions", &[(1, "uid", Text), (2, "resourceVersion", Text)]),
    ("Namespace", &[META, (2, "spec", Message("NamespaceSpec")), (3, "status", Message("Phase"))]),
    ("NamespaceSpec", &[(1, "finalizers", Texts)]),
    ("Phase", &[(1, "phase", Text)]),
    (
        "Secret",
        &[
            META,
            (2, "data", BytesMap),
            (3, "type", Text),
            (4, "stringData", TextMap),
            (5, "immutable", Boolean),
        ],
    ),
    (
        "ConfigMap",
        &[META, (2, "data", TextMap), (3, "binaryData", BytesMap), (4, "immutable", Boolean)],
    ),
    (
        "ServiceAccount",
        &[
            META,
            (2, "secrets", Messages("ObjectReference")),
            (3, "imagePullSecrets", Messages("LocalObjectReference")),
            (4, "automountServiceAccountToken", Boolean),
        ],
    ),
    (
        "ObjectReference",
        &[
            (1, "kind", Text),
            (2, "namespace", Text),
            (3, "name", Text),
            (4, "uid", Text),
            (5, "apiVersion", Text),
            (6, "resourceVersion", Text),
            (7, "fieldPath", Text),
        ],
    ),
    ("LocalObjectReference", &[(1, "name", Text)]),
    ("Lease", &[META, (2, "spec", Message("LeaseSpec"))]),
    (
        "LeaseSpec",
        &[
            (1, "holderIdentity", Text),
            (2, "leaseDurationSeconds", Integer),
            (3, "acquireTime", Time),
            (4, "renewTime", Time),
            (5, "leaseTransitions", Integer),
        ],
    ),
    ("Eviction", &[META, (2, "deleteOptions", Message("DeleteOptions"))]),
    ("Role", &[META, (2, "rules", Messages("PolicyRule"))]),
    ("ClusterRole", &[META, (2, "rules", Messages("PolicyRule"))]),
    (
        "PolicyRule",
        &[
            (1, "verbs", Texts),
            (2, "apiGroups", Texts),
            (3, "resources", Texts),
            (4, "resourceNames", Texts),
            (5, "nonResourceURLs", Texts),
        ],
    ),
    (
        "RoleBinding",
        &[META, (2, "subjects", Messages("Subject")), (3, "roleRef", Message("RoleRef"))],
    ),
    (
        "ClusterRoleBinding",
        &[META, (2, "subjects", Messages("Subject")), (3, "roleRef", Message("RoleRef"))],
    ),
    (
        "Subject",
        &[(1, "kind", Text), (2, "apiGroup", Text), (3, "name", Text), (4, "namespace", Text)],
    ),
    ("RoleRef", &[(1, "apiGroup", Text), (2, "kind", Text), (3, "name", Text)]),
    ("TokenRequest", &[META, (2, "spec", Message("TokenRequestSpec"))]),
    (
        "TokenRequestSpec",
        &[
            (1, "audiences", Texts),
            (3, "boundObjectRef", Message("BoundObjectReference")),
            (4, "expirationSeconds", Integer),
        ],
    ),
    (
        "BoundObjectReference",
        &[(1, "kind", Text), (2, "apiVersion", Text), (3, "name", Text), (4, "uid", Text)],
    ),
    ("TokenReview", &[META, (2, "spec", Message("TokenReviewSpec"))]),
    ("TokenReviewSpec", &[(1, "token", Text), (2, "audiences", Texts)]),
    ("SelfSubjectReview", &[META]),
    ("SelfSubjectAccessReview", &[META, (2, "spec", Message("AccessReviewSpec"))]),
    ("SubjectAccessReview", &[META, (2, "spec", Message("AccessReviewSpec"))]),
    ("LocalSubjectAccessReview", &[META, (2, "spec", Message("AccessReviewSpec"))]),
    (
        "AccessReviewSpec",
        &[
            (1, "resourceAttributes", Message("ResourceAttributes")),
            (2, "nonResourceAttributes", Message("NonResourceAttributes")),
            (3, "user", Text),
            (4, "groups", Texts),
            (6, "uid", Text),
        ],
    ),
    (
        "ResourceAttributes",
        &[
            (1, "namespace", Text),
            (2, "verb", Text),
            (3, "group", Text),
            (4, "version", Text),
            (5, "resource", Text),
            (6, "subresource", Text),
            (7, "name", Text),
        ],
    ),
    ("NonResourceAttributes", &[(1, "path", Text), (2, "verb", Text)]),
    ("SelfSubjectRulesReview", &[META, (2, "spec", Message("RulesReviewSpec"))]),
    ("RulesReviewSpec", &[(1, "namespace", Text)]),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_named_message_exists() {
        for (name, fields) in MESSAGES {
            for (_, field, kind) in *fields {
                if let Message(inner) | Messages(inner) = kind {
                    assert!(message_fields(inner).is_some(), "{name}.{field}");
                }
            }
        }
    }
}
