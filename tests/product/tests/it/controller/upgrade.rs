//! From the last preview to this version, with conversations open: what people wrote and what was
//! known of it stays, and a role that has mail goes on.

use codebutler_crds::{AgentRole, Repo, Thread, names};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{Patch, PatchParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use serde_json::{Value, json};

use super::world::{MAIL, THREAD, World, create, eventually};

const PREVIEW: &str = include_str!("../../../../upgrade/preview.yaml");

/// Reads an object as the API server has it, whatever this version's types know of it.
async fn stored(world: &World, kind: &str, name: &str) -> Value {
    let kind = GroupVersionKind::gvk("codebutler.dev", "v1alpha1", kind);
    let resource = ApiResource::from_gvk(&kind);
    let api: Api<DynamicObject> =
        Api::namespaced_with(world.admin.clone(), &world.place.team, &resource);
    api.get(name).await.unwrap().data
}

/// Makes a team as the preview had it: every field of a role's pods at its old place, and a Thread in the middle of
/// its work.
async fn preview(world: &World) {
    let role = json!({
        "apiVersion": "codebutler.dev/v1alpha1", "kind": "AgentRole", "metadata": {"name": "coder"},
        "spec": {"role": "coder", "display": {"name": "Coder", "icon": ":hammer:"},
                 "model": {"default": "scripted/x"}, "tools": {"allow": ["Read", "Bash"]},
                 "nodeSelector": {"pool": "agents"}, "tolerations": [{"key": "agents", "operator": "Exists"}],
                 "runtimeClassName": "gvisor", "priorityClassName": "low",
                 "imagePullSecrets": [{"name": "registry"}]}});
    let repo = json!({
        "apiVersion": "codebutler.dev/v1alpha1", "kind": "Repo", "metadata": {"name": "shop"},
        "spec": {"git": {"url": "https://git.example/acme/shop", "credentials": {"name": "git"}},
                 "slack": {"channel": "C0TEAM", "credentials": {"name": "slack"}, "debounceSeconds": 0},
                 "model": {"credentials": {"name": "model"}},
                 "roles": ["coder"], "limits": {"budget": {"perDay": "20"}}}});
    let thread = json!({
        "apiVersion": "codebutler.dev/v1alpha1", "kind": "Thread", "metadata": {"name": THREAD},
        "spec": {"repo": "shop", "requestedBy": "U0ANA",
                 "slack": {"channel": "C0TEAM", "ts": MAIL[0]}}});
    create::<AgentRole>(&world.admin, &world.place.team, role).await;
    create::<Repo>(&world.admin, &world.place.team, repo).await;
    create::<Thread>(&world.admin, &world.place.team, thread).await;
    let status = json!({"status": {
        "phase": "coder", "branch": names::branch_name(THREAD), "cost": "1.25", "speaker": "U0ANA",
        "plan": {"ts": MAIL[0], "role": "coder", "hash": "aa", "approvedBy": "U0ANA"},
        "pullRequest": {"number": 7, "url": "https://git.example/acme/shop/pull/7"},
        "roles": {"coder": {"inbox": MAIL[1], "done": MAIL[0], "state": "Idle",
                  "usage": {"cost": "1.25", "promptTokens": 10, "completionTokens": 2, "calls": 1}}},
    }});
    let threads: Api<Thread> = world.api();
    threads.patch_status(THREAD, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
}

#[tokio::test]
async fn open_conversations_of_the_preview_go_on() {
    let mut world = World::without_definitions().await;
    if !world.cluster().is_embedded() {
        return;
    }
    world.cluster().apply_yaml(PREVIEW).await.unwrap();
    preview(&world).await;
    let kinds = [("AgentRole", "coder"), ("Repo", "shop"), ("Thread", THREAD)];
    let mut before = Vec::new();
    for (kind, name) in kinds {
        before.push(stored(&world, kind, name).await);
    }

    world.cluster().install_crds().await.unwrap();
    for ((kind, name), before) in kinds.into_iter().zip(before) {
        assert_eq!(stored(&world, kind, name).await, before, "{kind}");
    }
    world.start_controller();
    let pods: Api<Pod> = world.api();
    let pod = names::pod_name(THREAD, "coder");
    let pod = eventually("the coder's pod", || async { pods.get_opt(&pod).await.unwrap() }).await;
    // Fields of a role's pods at the old place are still read.
    let spec = pod.spec.unwrap();
    assert_eq!(spec.node_selector.unwrap()["pool"], "agents");
    assert!(spec.tolerations.unwrap().iter().any(|t| t.key.as_deref() == Some("agents")));
    assert_eq!(spec.runtime_class_name.as_deref(), Some("gvisor"));
    assert_eq!(spec.image_pull_secrets.unwrap()[0].name, "registry");
    let threads: Api<Thread> = world.api();
    let status = threads.get(THREAD).await.unwrap().status.unwrap();
    assert_eq!(status.plan.unwrap().approved_by.as_deref(), Some("U0ANA"));
    assert_eq!(status.pull_request.unwrap().number, 7);
    assert_eq!(status.roles["coder"].inbox.as_ref().unwrap().as_str(), MAIL[1]);
    world.stop_controller().await;
}
