//! Pods for Deployments, without ReplicaSets in between: as many as are wanted of the newest template,
//! older ones until those are ready.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::runtime::controller::{Action, Controller};
use kube::runtime::watcher;
use kube::{Api, Client, Resource as _, ResourceExt};
use serde_json::{Value, json};

use super::is_over;

const TEMPLATE: &str = "pod-template-hash";

/// Runs the Deployment controller; never returns.
pub(super) async fn run_deployments(client: Client) {
    let config = watcher::Config::default();
    Controller::new(Api::<Deployment>::all(client.clone()), config.clone())
        .owns(Api::<Pod>::all(client.clone()), config)
        .run(reconcile_deployment, |_, error, _| retry_deployment(error), Arc::new(client))
        .for_each(|_| std::future::ready(()))
        .await;
}

fn retry_deployment(error: &kube::Error) -> Action {
    tracing::debug!(%error, "deployments");
    Action::requeue(Duration::from_millis(300))
}

async fn reconcile_deployment(
    deployment: Arc<Deployment>,
    client: Arc<Client>,
) -> kube::Result<Action> {
    let namespace = deployment.namespace().unwrap_or_default();
    if deployment.metadata.deletion_timestamp.is_some() {
        return Ok(Action::await_change());
    }
    let api = Api::<Pod>::namespaced((*client).clone(), &namespace);
    let all = api.list(&ListParams::default()).await?.items;
    let uid = deployment.uid().unwrap_or_default();
    let own = |pod: &Pod| pod.owner_references().iter().any(|owner| owner.uid == uid);
    let pods: Vec<Pod> = all.into_iter().filter(|pod| own(pod) && !is_leaving(pod)).collect();
    let hash = template_hash(&deployment);
    let spec = deployment.spec.as_ref();
    let wanted = usize::try_from(spec.and_then(|spec| spec.replicas).unwrap_or(1)).unwrap_or(0);
    let (new, old): (Vec<_>, Vec<_>) =
        pods.iter().partition(|pod| pod.labels().get(TEMPLATE) == Some(&hash));
    for _ in new.len()..wanted {
        api.create(&PostParams::default(), &pod_of(&deployment, &hash)).await?;
    }
    let ready = new.iter().filter(|pod| is_ready(pod)).count();
    let done = if ready >= wanted { &old[..] } else { &[] };
    for pod in new.iter().skip(wanted).chain(done) {
        match api.delete(&pod.name_any(), &DeleteParams::default()).await {
            Err(error) if is_over(&error) => {}
            other => drop(other?),
        }
    }
    let status = deployment_status(&deployment, pods.len(), new.len(), ready);
    let deployments = Api::<Deployment>::namespaced((*client).clone(), &namespace);
    let patch = Patch::Merge(json!({"status": status}));
    match deployments.patch_status(&deployment.name_any(), &PatchParams::default(), &patch).await {
        Err(error) if is_over(&error) => {}
        other => drop(other?),
    }
    Ok(Action::await_change())
}

fn deployment_status(deployment: &Deployment, all: usize, updated: usize, ready: usize) -> Value {
    json!({
        "observedGeneration": deployment.metadata.generation,
        "replicas": all,
        "updatedReplicas": updated,
        "readyReplicas": ready,
        "availableReplicas": ready,
    })
}

/// A pod that has ended is not counted, and one that is being deleted isn't either.
fn is_leaving(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    pod.metadata.deletion_timestamp.is_some() || matches!(phase, Some("Succeeded" | "Failed"))
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|one| one.type_ == "Ready" && one.status == "True")
}

fn template_hash(deployment: &Deployment) -> String {
    let template = deployment.spec.as_ref().map(|spec| &spec.template);
    let mut hasher = DefaultHasher::new();
    serde_json::to_string(&template).unwrap_or_default().hash(&mut hasher);
    format!("{:010x}", hasher.finish() & 0xff_ffff_ffff)
}

fn pod_of(deployment: &Deployment, hash: &str) -> Pod {
    let template = deployment.spec.as_ref().map(|spec| spec.template.clone()).unwrap_or_default();
    let mut metadata = template.metadata.unwrap_or_default();
    metadata.labels.get_or_insert_default().insert(TEMPLATE.to_owned(), hash.to_owned());
    Pod {
        metadata: ObjectMeta {
            generate_name: Some(format!("{}-{hash}-", deployment.name_any())),
            owner_references: deployment.controller_owner_ref(&()).map(|owner| vec![owner]),
            labels: metadata.labels,
            annotations: metadata.annotations,
            ..ObjectMeta::default()
        },
        spec: template.spec,
        ..Pod::default()
    }
}
