//! Seats that no Thread has taken, from the caches.

use std::sync::Arc;

use codebutler_crds::Repo;
use codebutler_runtime::apply::owned_by;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;

use crate::context::ControllerContext;
use crate::index::ObjectKey;
use crate::pod_life;

/// The seats of a Repo that a Thread can take, the oldest first: they have their clone.
pub(crate) fn free_seats(context: &ControllerContext, repo: &Repo) -> Vec<Arc<Pod>> {
    if repo.spec.warm.is_none() {
        return Vec::new();
    }
    let mut free = own_seats(context, repo);
    free.retain(|pod| pod_life::is_ready(pod));
    free.sort_by_key(|pod| pod.metadata.creation_timestamp.as_ref().map(|time| time.0));
    free
}

/// Seats that no Thread has taken, whatever their state.
pub(crate) fn own_seats(context: &ControllerContext, repo: &Repo) -> Vec<Arc<Pod>> {
    let uid = repo.uid().unwrap_or_default();
    let mut own = context.seats.of(&ObjectKey::of(repo));
    own.retain(|pod| owned_by(&**pod, &uid) && context.spent.since(pod).is_none());
    own
}

/// Seats that a Thread has tried to take and that caches still show as waiting, each with the time of that.
pub(crate) fn spent_seats(context: &ControllerContext, repo: &Repo) -> Vec<(Arc<Pod>, Timestamp)> {
    let uid = repo.uid().unwrap_or_default();
    let all = context.seats.of(&ObjectKey::of(repo)).into_iter();
    let spent = all.filter_map(|pod| context.spent.since(&pod).map(|since| (pod, since)));
    spent.filter(|(pod, _)| owned_by(&**pod, &uid)).collect()
}
