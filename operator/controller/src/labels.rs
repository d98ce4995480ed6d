//! Names, labels and owners of what the controller creates.

use std::collections::BTreeMap;

use codebutler_crds::{Repo, Thread, names};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Resource, ResourceExt as _};

/// Labels as objects carry them.
pub(crate) type ObjectLabels = BTreeMap<String, String>;

/// Name, as a label, of claims of volumes from which those of Threads are made.
pub(crate) const PREPARED: &str = "codebutler-prepared";

/// Labels of a Repo's children; `name` says what the child is.
pub(crate) fn of_repo(name: &str, repo: &Repo) -> ObjectLabels {
    common_labels(name, &repo.name_any())
}

/// Labels of a Thread's children; `name` says what the child is.
pub(crate) fn of_thread(name: &str, thread: &Thread) -> ObjectLabels {
    let mut labels = common_labels(name, &thread.spec.repo);
    labels.insert(names::LABEL_THREAD.to_owned(), thread.name_any());
    labels
}

fn common_labels(name: &str, repo: &str) -> ObjectLabels {
    [
        ("app.kubernetes.io/name", name),
        ("app.kubernetes.io/part-of", "codebutler"),
        (names::LABEL_MANAGED_BY, names::CONTROLLER),
        (names::LABEL_REPO, repo),
    ]
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .into()
}

/// Labels of the pod of a role in a Thread.
pub(crate) fn of_pod(thread: &Thread, role: &str) -> ObjectLabels {
    let mut labels = of_thread("codebutler-agent", thread);
    labels.insert(names::LABEL_ROLE.to_owned(), role.to_owned());
    labels
}

/// Labels of a pod that waits for a Thread.
pub(crate) fn of_seat(repo: &Repo, seat: &str, role: &str) -> ObjectLabels {
    let mut labels = of_repo("codebutler-agent", repo);
    labels.insert(names::LABEL_ROLE.to_owned(), role.to_owned());
    labels.insert(names::LABEL_SEAT.to_owned(), seat.to_owned());
    labels
}

/// Labels of the pod of a volume from which those of Threads are made.
pub(crate) fn of_prepared(repo: &Repo, role: &str) -> ObjectLabels {
    let mut labels = of_repo("codebutler-agent", repo);
    labels.insert(names::LABEL_ROLE.to_owned(), role.to_owned());
    labels
}

/// Labels of a Thread's volume claim.
pub(crate) fn of_claim(thread: &Thread) -> ObjectLabels {
    of_thread("codebutler-worktree", thread)
}

/// True if somebody has removed or changed a label that the controller set.
pub(crate) fn lacks_labels<K: Resource>(object: &K, wanted: &ObjectLabels) -> bool {
    let labels = object.labels();
    wanted.iter().any(|(key, value)| labels.get(key) != Some(value))
}

/// Metadata of a child in its owner's namespace, controlled by it.
pub(crate) fn owned_metadata<K: Resource<DynamicType = ()>>(
    owner: &K,
    name: String,
    labels: ObjectLabels,
) -> ObjectMeta {
    ObjectMeta {
        name: Some(name),
        namespace: owner.meta().namespace.clone(),
        labels: Some(labels),
        owner_references: owner.controller_owner_ref(&()).map(|reference| vec![reference]),
        ..ObjectMeta::default()
    }
}
