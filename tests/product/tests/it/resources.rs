//! Validation of the three resources by the API server itself, with the field and the rule.

use std::fmt::Debug;

use codebutler_crds::{AgentRole, Repo, Thread};
use k8s_openapi::NamespaceResourceScope;
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::Resource;
use kube::{Api, ResourceExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::controller::world::{World, create, eventually};

async fn world() -> World {
    World::idle().await
}

fn repo() -> Value {
    json!({"apiVersion": "codebutler.dev/v1alpha1", "kind": "Repo", "metadata": {"name": "shop"},
        "spec": {
            "git": {"url": "https://git.example/acme/shop", "credentials": {"name": "git"}},
            "slack": {"channel": "C0TEAM", "credentials": {"name": "slack"}},
            "model": {"credentials": {"name": "model"}},
            "roles": ["pm"]}})
}

fn role() -> Value {
    json!({"apiVersion": "codebutler.dev/v1alpha1", "kind": "AgentRole", "metadata": {"name": "odd"},
        "spec": {"role": "odd", "display": {"name": "Odd", "icon": ":robot_face:"},
                 "model": {"default": "scripted/x"}}})
}

fn thread() -> Value {
    json!({"apiVersion": "codebutler.dev/v1alpha1", "kind": "Thread", "metadata": {"name": "t-1"},
        "spec": {"repo": "shop", "prompt": "do it"}})
}

/// The API server's answer to `base` with `change` merged into its `spec`, as a dry run.
async fn refusal<K>(world: &World, mut base: Value, change: &Value) -> Option<String>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + Serialize
        + DeserializeOwned,
{
    json_patch::merge(&mut base["spec"], change);
    // As it is written: the types would not let it through.
    let kind = K::plural(&());
    let team = &world.place.team;
    let path = format!("/apis/codebutler.dev/v1alpha1/namespaces/{team}/{kind}?dryRun=All");
    let request = http::Request::post(path)
        .header("content-type", "application/json")
        .body(base.to_string().into_bytes())
        .unwrap();
    match world.admin.request_text(request).await {
        Ok(_) => None,
        Err(kube::Error::Api(status)) => {
            assert_eq!(status.code, 422, "{change}: {}", status.message);
            Some(status.message)
        }
        Err(error) => panic!("{change}: {error}"),
    }
}

#[tokio::test]
async fn folders_of_a_sparse_checkout_have_any_name_that_git_takes() {
    let world = world().await;
    let sparse = |folder: &str| json!({"worktree": {"sparse": [folder]}});
    for folder in [
        "services/shop",
        ".github",
        "a,b",
        "a=b",
        "#notes",
        "~user/x",
        "R&D",
        "!x",
        ":c",
        "{{app.name}}/src",
        "[id]",
        "what?",
        "50%",
        "it's",
        "\"q\"",
        "a\\b",
        "-x",
        "...",
        "..x/y",
        " a ",
        "größe",
        "日本",
    ] {
        assert_eq!(refusal::<Repo>(&world, repo(), &sparse(folder)).await, None, "{folder}");
    }
    for folder in
        ["", "/a", "a/", "a//b", ".", "..", "a/../b", "./a", "a/.", "a\nb", "a\tb", "a\u{7f}"]
    {
        let told = refusal::<Repo>(&world, repo(), &sparse(folder)).await;
        let told = told.unwrap_or_else(|| panic!("{folder:?} is taken"));
        assert!(told.contains("spec.worktree.sparse[0]"), "{told}");
    }
}

#[tokio::test]
async fn what_cannot_be_meant_is_refused_with_the_field_and_the_rule() {
    let world = world().await;
    for change in [
        json!({}),
        json!({"limits": {"budget": {"perThread": "0", "perDay": "12.5"}}}),
        json!({"worktree": {"accessMode": "ReadWriteMany", "size": "10Gi"}}),
    ] {
        assert_eq!(refusal::<Repo>(&world, repo(), &change).await, None, "{change}");
    }
    for (change, field, rule) in [
        (
            json!({"limits": {"budget": {"perDay": "-5"}}}),
            "spec.limits.budget.perDay",
            "should match",
        ),
        (json!({"limits": {"concurrentRuns": 0}}), "spec.limits.concurrentRuns", "1"),
        (
            json!({"worktree": {"accessMode": "ReadWriteOncePod"}}),
            "spec.worktree.accessMode",
            "choose ReadWriteOnce or ReadWriteMany",
        ),
        (json!({"worktree": {"size": "-1Gi"}}), "spec.worktree.size", "should match"),
        (json!({"policy": {"maxFileSize": "101Mi"}}), "spec.policy.maxFileSize", "should match"),
        (json!({"policy": {"maxPushSize": "3Gi"}}), "spec.policy.maxPushSize", "should match"),
        (
            json!({"policy": {"maxFileSize": "5Mi", "maxFileMib": 6}}),
            "spec.policy",
            "maxFileMib is what maxFileSize was before",
        ),
        (json!({"git": {"url": "https://me:pw@git.example/a/b"}}), "spec.git.url", "should match"),
        (json!({"slack": {"channel": "#The Shop"}}), "spec.slack.channel", "should match"),
        (json!({"roles": []}), "spec.roles", "at least 1"),
        (
            json!({"pods": {"labels": {"codebutler.dev/thread": "other"}}}),
            "spec.pods.labels",
            "CodeButler's own",
        ),
        (
            json!({"pods": {"annotations": {"karpenter.sh/do-not-disrupt": "false"}}}),
            "spec.pods.annotations",
            "leave them out",
        ),
        (
            json!({"pods": {"securityContext": {"runAsUser": 0}}}),
            "spec.pods.securityContext.runAsUser",
            "1",
        ),
        (
            json!({"pods": {"volumes": [{"name": "a", "mountPath": "/work/x", "emptyDir": {}}]}}),
            "spec.pods.volumes[0]",
            "choose one such as /cache",
        ),
        (
            json!({"pods": {"volumes": [{"name": "a", "mountPath": "/cache"}]}}),
            "spec.pods.volumes[0]",
            "one of persistentVolumeClaim and emptyDir",
        ),
    ] {
        let refused = refusal::<Repo>(&world, repo(), &change).await;
        let refused = refused.unwrap_or_else(|| panic!("{change} is taken"));
        assert!(refused.contains(field) && refused.contains(rule), "{change}: {refused}");
    }
}

#[tokio::test]
async fn a_role_names_known_tools_and_literal_variables() {
    let world = world().await;
    for change in [
        json!({"tools": {"allow": ["Read", "Bash"], "deny": ["Bash"]}}),
        json!({"workspace": {"env": {"CARGO_HOME": "/work/cargo", "_x1": ""}}}),
        json!({"promptFrom": {"configMap": "prompts"}, "priorityClassName": "high",
               "imagePullSecrets": [{"name": "registry"}]}),
        json!({"pods": {
            "labels": {"cost-centre": "web"}, "securityContext": {}, "tolerations": [{"key": "a"}],
            "resources": {"agent": {"limits": {"cpu": 1}}},
            "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]}}},
            "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}],
            "volumes": [{"name": "a", "mountPath": "/cache", "persistentVolumeClaim": {"claimName": "c"}}]}}),
    ] {
        assert_eq!(refusal::<AgentRole>(&world, role(), &change).await, None, "{change}");
    }
    for (change, field, rule) in [
        (json!({"tools": {"allow": ["Teleport"]}}), "spec.tools.allow[0]", "GitLog"),
        (json!({"workspace": {"env": {"1A": "x"}}}), "spec.workspace.env", "begins with no digit"),
        (
            json!({"workspace": {"env": {"TOKEN": {"valueFrom": {"secretKeyRef": {"name": "x"}}}}}}),
            "spec.workspace.env.TOKEN",
            "string",
        ),
        (
            json!({"prompt": "x", "promptFrom": {"configMap": "prompts"}}),
            "AgentRole",
            "at most one of spec.prompt and spec.promptFrom",
        ),
        (json!({"role": "Über"}), "spec.role", "should match"),
    ] {
        let refused = refusal::<AgentRole>(&world, role(), &change).await;
        let refused = refused.unwrap_or_else(|| panic!("{change} is taken"));
        assert!(refused.contains(field) && refused.contains(rule), "{change}: {refused}");
    }
}

#[tokio::test]
async fn a_thread_begins_in_one_way_and_stays_what_it_is() {
    let world = world().await;
    let slack = json!({"channel": "C0TEAM", "ts": "1767268700.000100"});
    for change in [json!({"slack": slack}), json!({"prompt": null})] {
        let refused = refusal::<Thread>(&world, thread(), &change).await;
        let refused = refused.unwrap_or_else(|| panic!("{change} is taken"));
        assert!(refused.contains("exactly one of spec.slack and spec.prompt"), "{refused}");
    }
    let api: Api<Thread> = world.api();
    let made = serde_json::from_value(thread()).unwrap();
    let made = api.create(&PostParams::default(), &made).await.unwrap();
    for (change, rule) in [
        (json!({"repo": "other"}), "a Thread stays with its Repo"),
        (json!({"prompt": "something else"}), "a prompt is said once"),
        (json!({"prompt": null, "slack": slack}), "a Thread stays with"),
    ] {
        let patch = Patch::Merge(json!({"spec": change}));
        let refused = api.patch(&made.name_any(), &PatchParams::default(), &patch).await;
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains(rule), "{change}: {refused}");
    }
    let close = Patch::Merge(json!({"spec": {"state": "Closed"}}));
    api.patch(&made.name_any(), &PatchParams::default(), &close).await.unwrap();
    for (change, rule) in [
        (json!({"state": "Active"}), "a closed Thread stays closed"),
        (json!({"parent": "t-0"}), "a Thread keeps its parent and its item"),
        (json!({"item": "one"}), "a Thread keeps its parent and its item"),
        (json!({"requestedBy": "U1"}), "who started a Thread stays"),
    ] {
        let patch = Patch::Merge(json!({"spec": change}));
        let refused = api.patch(&made.name_any(), &PatchParams::default(), &patch).await;
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains(rule), "{change}: {refused}");
    }
}

#[tokio::test]
async fn the_old_spelling_is_read_and_named_until_the_new_one_stands_there() {
    let world = World::start().await;
    let (mut repo, mut role) = (repo(), role());
    let spelled = |merge: &str, api: &str, cache: &str| {
        json!({
            "git": {"mergeMethod": merge},
            "model": {"api": api, "models": {"m": {"cache": cache}}},
        })
    };
    json_patch::merge(&mut repo["spec"], &spelled("rebase", "openAI", "marked"));
    let old = json!({"policy": {"maxFileMib": 3, "maxPushMib": 100}});
    json_patch::merge(&mut repo["spec"], &old);
    role["spec"]["workspace"] = json!({"sandbox": "landlock", "worktree": "readOnly"});
    create::<Repo>(&world.admin, &world.place.team, repo).await;
    create::<AgentRole>(&world.admin, &world.place.team, role).await;
    let told = world.condition::<Repo>("shop", "OldSpelling", "True", "Renamed").await;
    for words in [
        "spec.git.mergeMethod: write `Rebase` instead of `rebase`",
        "spec.model.api: write `OpenAI` instead of `openAI`",
        "spec.model.models.*.cache: write `Marked` instead of `marked`",
        "spec.policy: write `maxFileSize: 3Mi` instead of `maxFileMib: 3`",
    ] {
        assert!(told.contains(words), "{told}");
    }
    assert!(!told.contains("maxPushMib"), "an older definition filled that in: {told}");
    let told = world.condition::<AgentRole>("odd", "OldSpelling", "True", "Renamed").await;
    assert!(
        told.contains("spec.workspace.worktree: write `ReadOnly` instead of `readOnly`"),
        "{told}"
    );
    assert!(!told.contains("landlock"), "an older definition filled that in: {told}");
    world.event("shop", "Renamed").await;
    world.event("odd", "Renamed").await;
    let read = world.api::<Repo>().get("shop").await.unwrap().spec.policy;
    assert_eq!((read.file_mib(), read.push_mib()), (3, 100));

    let mut new = spelled("Rebase", "OpenAI", "Marked");
    // As somebody applies it who never wrote what an older definition has filled in.
    new["policy"] = json!({"maxFileMib": null, "maxFileSize": "4Mi", "maxPushSize": "2Gi"});
    patch::<Repo>(&world, "shop", &json!({"spec": new})).await;
    patch::<AgentRole>(&world, "odd", &json!({"spec": {"workspace": {"worktree": "ReadOnly"}}}))
        .await;
    eventually("nothing is old", || async {
        let repo = world.api::<Repo>().get("shop").await.unwrap().status?.conditions;
        let role = world.api::<AgentRole>().get("odd").await.unwrap().status?.conditions;
        repo.iter().chain(&role).all(|c| c.type_ != "OldSpelling").then_some(())
    })
    .await;
    let read = world.api::<Repo>().get("shop").await.unwrap().spec.policy;
    assert_eq!((read.file_mib(), read.push_mib()), (4, 2048));
}

async fn patch<K>(world: &World, name: &str, patch: &Value)
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + DeserializeOwned,
{
    let params = PatchParams::default();
    world.api::<K>().patch(name, &params, &Patch::Merge(patch)).await.unwrap();
}
