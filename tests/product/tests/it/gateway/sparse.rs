//! Folders of `spec.worktree.sparse`, judged by the gateway.

use std::sync::Arc;
use std::time::Duration;

use codebutler_gateway::guides;
use codebutler_testbed::models::ModelScript;
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use tokio_util::task::AbortOnDropHandle;

use super::{World, eventually};

const STATUS: &str = "repos/status";

impl World {
    /// Gives the gateway the right to write the status of Repos, or takes it.
    async fn let_write_repos(&self, may: bool) {
        let roles = Api::<ClusterRole>::all(self.cluster.admin());
        let name = self.cluster.place.named("codebutler-gateway");
        let mut role = roles.get(&name).await.unwrap();
        for rule in role.rules.iter_mut().flatten() {
            let resources = rule.resources.get_or_insert_default();
            if resources.iter().any(|resource| resource == "threads/status") {
                resources.retain(|resource| resource != STATUS);
                resources.extend(may.then(|| STATUS.to_owned()));
            }
        }
        let patch = Patch::Merge(json!({"rules": role.rules}));
        roles.patch(&name, &PatchParams::default(), &patch).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_could_not_be_said_of_folders_is_said_later() {
    let spec = json!({"worktree": {"sparse": ["gone"]}});
    let world = World::play(ModelScript::of("coder", vec![]), &spec, &json!({})).await;
    // Only the embedded server tells what it has refused.
    if !world.cluster.is_embedded() {
        return;
    }
    world.clone("coder").await;
    world.let_write_repos(false).await;
    let work = Arc::clone(&world.gateway.work);
    let _judging = AbortOnDropHandle::new(tokio::spawn(async move {
        guides::run_guides(&work, Duration::from_millis(200)).await;
    }));
    let user = format!("system:serviceaccount:{}:codebutler-gateway", world.cluster.system());
    eventually("a write is refused", || async {
        let asked = world.cluster.requests_of(&user);
        asked.iter().any(|(record, allowed)| !allowed && record.resource == STATUS)
    })
    .await;
    world.let_write_repos(true).await;
    world.comes_to("SparseCheckoutValid", "False", "has no folder `gone`").await;
}
