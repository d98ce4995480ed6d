//! Labels that somebody took off a Thread's pods or claim, put back. Watches and the network policy
//! find them by their labels.

use codebutler_crds::Thread;
use codebutler_runtime::apply::{AppliedObject, ApplyError, owned_by};
use codebutler_runtime::notice::EventNotice;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::{Resource as _, ResourceExt as _};

use super::plan::LabelRepair;
use super::view::role_of;
use crate::context::ControllerContext;
use crate::index::ObjectKey;
use crate::labels::{self, ObjectLabels};

/// Puts labels back on all objects that the caches show, and on a claim that they don't.
pub(super) async fn repair_children(
    thread: &Thread,
    repair: LabelRepair,
    context: &ControllerContext,
) -> Result<(), ApplyError> {
    let key = ObjectKey::of(thread);
    for found in context.pods.of(&key) {
        repair_pod(thread, &role_of(thread, &found), &found, context).await?;
    }
    for found in context.volumes.of(&key) {
        repair_claim(thread, &found, context).await?;
    }
    if repair == LabelRepair::Unseen {
        let name = thread.volume_claim();
        let there = context.apply.find::<PersistentVolumeClaim>(&key.namespace, &name).await?;
        if let Some(found) = there {
            repair_claim(thread, &found, context).await?;
        }
    }
    Ok(())
}

pub(super) async fn repair_pod(
    thread: &Thread,
    role: &str,
    found: &Pod,
    context: &ControllerContext,
) -> Result<(), ApplyError> {
    put_back(thread, found, &labels::of_pod(thread, role), context).await
}

pub(super) async fn repair_claim(
    thread: &Thread,
    found: &PersistentVolumeClaim,
    context: &ControllerContext,
) -> Result<(), ApplyError> {
    if found.name_any() != thread.volume_claim() {
        return Ok(());
    }
    put_back(thread, found, &labels::of_claim(thread), context).await
}

async fn put_back<K: AppliedObject>(
    thread: &Thread,
    found: &K,
    wanted: &ObjectLabels,
    context: &ControllerContext,
) -> Result<(), ApplyError> {
    let ours = owned_by(found, &thread.uid().unwrap_or_default());
    let going = found.meta().deletion_timestamp.is_some();
    if !ours || going || !labels::lacks_labels(found, wanted) {
        return Ok(());
    }
    context.apply.relabel(found, wanted).await?;
    let note = format!("labels of {} `{}` put back", K::kind(&()), found.name_any());
    context.apply.tell(&thread.object_ref(&()), None, &EventNotice::normal("Repaired", note)).await;
    Ok(())
}
