//! Instructions of a role that are kept in a ConfigMap.

use codebutler_crds::{AgentRole, Thread};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::world::{MAIL, THREAD, World, create, eventually};

impl World {
    fn maps(&self) -> Api<ConfigMap> {
        Api::namespaced(self.admin.clone(), &self.place.system)
    }

    async fn change_pm(&self, spec: Value) {
        let roles = Api::<AgentRole>::namespaced(self.admin.clone(), &self.place.system);
        let patch = Patch::Merge(json!({"spec": spec}));
        roles.patch("pm", &PatchParams::default(), &patch).await.unwrap();
    }

    async fn stalled_pm(&self) -> String {
        let roles = Api::<AgentRole>::namespaced(self.admin.clone(), &self.place.system);
        eventually("the role is stalled", || async {
            let conditions = roles.get("pm").await.unwrap().status?.conditions;
            let stalled = conditions.into_iter().find(|c| c.type_ == "Stalled")?;
            (stalled.status == "True" && stalled.reason == "PromptNotFound")
                .then_some(stalled.message)
        })
        .await
    }
}

#[tokio::test]
async fn a_role_waits_for_its_instructions_and_rolls_with_them_between_runs() {
    let world = World::start().await;
    world.create_repo().await;
    world.change_pm(json!({"promptFrom": {"configMap": "prompts", "key": "pm.md"}})).await;
    let message = world.stalled_pm().await;
    assert!(message.contains("ConfigMap `prompts`"), "{message}");
    world.create_thread().await;
    world.mark("pm", json!({"inbox": MAIL[0]})).await;
    world.condition::<Thread>(THREAD, "Ready", "False", "PromptNotFound").await;

    // Without the label it is nobody's business.
    let map = json!({"metadata": {"name": "prompts"}, "data": {"pm.md": "Be brief."}});
    create::<ConfigMap>(&world.admin, &world.place.system, map).await;
    let label = json!({"metadata": {"labels": {"codebutler.dev/prompt": "true"}}});
    let params = PatchParams::default();
    world.maps().patch("prompts", &params, &Patch::Merge(label)).await.unwrap();
    let first = world.registered_pod("pm", None).await;
    world.pod_is(&first, "Running").await;

    // A run is not cut, and an idle pod does not outlive the change.
    world.mark("pm", json!({"state": "Running"})).await;
    let change = Patch::Merge(json!({"data": {"pm.md": "Be thorough."}}));
    world.maps().patch("prompts", &params, &change).await.unwrap();
    let roles = Api::<AgentRole>::namespaced(world.admin.clone(), &world.place.system);
    eventually("the change is read", || async {
        let prompt = roles.get("pm").await.unwrap().status?.prompt?;
        (prompt == "Be thorough.").then_some(())
    })
    .await;
    world.mark("coder", json!({"inbox": MAIL[1]})).await;
    world.registered_pod("coder", None).await;
    let pods: Api<Pod> = world.api();
    let same = pods.get(first.metadata.name.as_deref().unwrap()).await.unwrap();
    assert!(same.metadata.deletion_timestamp.is_none(), "in the middle of a run");
    world.mark("pm", json!({"state": "Waiting", "done": MAIL[0]})).await;
    world.event(THREAD, "Rolled").await;

    world.maps().delete("prompts", &<_>::default()).await.unwrap();
    world.stalled_pm().await;
}
