//! A GitOps tool at work: it applies with a manager of its own, watches health as kstatus reads it,
//! changes a role under a running thread, prunes, and leaves others' fields alone.

use codebutler_crds::names::LABEL_PROMPT;
use codebutler_crds::{AgentRole, Repo};
use codebutler_testbed::models::{ModelScript, ScriptStep};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};

use crate::apiserver::kubectl::kubectl;
use crate::support::{Setup, Team};

/// A GitOps tool that applies under the name of its field manager.
struct Applier<'a>(&'a Team, &'static str);

impl Applier<'_> {
    fn api(&self, kind: &str) -> Api<DynamicObject> {
        let kind = GroupVersionKind::gvk("codebutler.dev", "v1alpha1", kind);
        let resource = ApiResource::from_gvk(&kind);
        Api::namespaced_with(self.0.stack.cluster.client(), &self.0.stack.place.team, &resource)
    }

    /// A server-side apply; `force` takes fields over from others.
    async fn apply(&self, manifest: &Value, force: bool) -> kube::Result<DynamicObject> {
        let mut params = PatchParams::apply(self.1);
        params.force = force;
        let kind = manifest["kind"].as_str().unwrap();
        let name = manifest["metadata"]["name"].as_str().unwrap();
        self.api(kind).patch(name, &params, &Patch::Apply(manifest)).await
    }

    /// Waits until an object's health is as wanted.
    async fn health(&self, kind: &str, name: &str, wanted: &str) -> DynamicObject {
        let api = self.api(kind);
        self.0
            .until(&format!("{kind} {name} to be {wanted}"), || async {
                api.get_opt(name).await.unwrap().filter(|object| kstatus(object) == wanted)
            })
            .await
    }
}

/// The rules of kstatus for a custom resource.
fn kstatus(object: &DynamicObject) -> &'static str {
    if object.metadata.deletion_timestamp.is_some() {
        return "Terminating";
    }
    let status = &object.data["status"];
    if status["observedGeneration"].as_i64().is_some_and(|g| Some(g) != object.metadata.generation)
    {
        return "InProgress";
    }
    let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
    let is = |type_: &str, value: &str| {
        conditions.iter().any(|c| c["type"] == type_ && c["status"] == value)
    };
    if is("Stalled", "True") {
        "Failed"
    } else if is("Reconciling", "True") || is("Ready", "False") || is("Ready", "Unknown") {
        "InProgress"
    } else {
        "Current"
    }
}

/// A manifest of the examples.
fn example(path: &str) -> Value {
    let root = std::path::Path::new(codebutler_testbed::FOLDER).join("../charts/examples");
    serde_saphyr::from_str(&std::fs::read_to_string(root.join(path)).unwrap()).unwrap()
}

/// The team's own pm, as its repository of manifests has it.
fn pm(model: &str, prompt: &str) -> Value {
    let mut role = example("team/roles/coder.yaml");
    role["spec"].as_object_mut().unwrap().remove("promptFrom");
    role["metadata"]["name"] = "pm".into();
    for (field, value) in [("role", "pm"), ("phase", "pm"), ("prompt", prompt)] {
        role["spec"][field] = value.into();
    }
    role["spec"]["model"]["default"] = model.into();
    role
}

/// Body of the newest request to a model.
fn newest(team: &Team) -> Value {
    team.stack.models.requests().last().map(|request| request.body.clone()).unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_model_and_prompt_roll_between_runs_and_what_is_pruned_goes() {
    let script = ModelScript::of("pm", vec![ScriptStep::say("One."), ScriptStep::say("Two.")])
        // It is asked for the first time when two answers were given.
        .and("large", vec![ScriptStep::say("-"), ScriptStep::say("-"), ScriptStep::say("Three.")]);
    let team = Setup::new(script).start().await;
    let git = Applier(&team, "argocd-controller");
    let mut mistake = pm("scripted/pm", "House rule: brevity.");
    mistake["spec"].as_object_mut().unwrap().remove("prompt");
    mistake["spec"]["promptFrom"] = json!({"configMap": "not-applied-yet"});
    git.apply(&mistake, true).await.unwrap();
    git.health("AgentRole", "pm", "Failed").await;
    git.apply(&pm("scripted/pm", "House rule: brevity."), true).await.unwrap();
    git.health("AgentRole", "pm", "Current").await;
    git.health("Repo", "shop", "Current").await;

    let root = team.says("ana", None, "hello");
    team.message(&root, "One.").await;
    team.settled(&root, "pm").await;
    assert_eq!(newest(&team)["model"], "scripted/pm");
    assert!(newest(&team).to_string().contains("House rule: brevity."), "{}", newest(&team));

    // A commit arrives while the role thinks: that run ends as it began.
    team.stack.models.hold();
    team.says("ana", Some(&root), "again");
    team.stack.models.held().await;
    let before = team.thread(&root).await.status.unwrap().roles["pm"].pod_uid.clone();
    git.apply(&pm("scripted/large", "House rule: candour."), true).await.unwrap();
    git.health("AgentRole", "pm", "Current").await;
    assert_eq!(team.thread(&root).await.status.unwrap().roles["pm"].pod_uid, before, "not cut");
    team.stack.models.release();
    team.message(&root, "Two.").await;
    assert_eq!(newest(&team)["model"], "scripted/pm");
    team.settled(&root, "pm").await;
    team.says("ana", Some(&root), "and now?");
    team.message(&root, "Three.").await;
    assert_eq!(newest(&team)["model"], "scripted/large");
    assert!(newest(&team).to_string().contains("House rule: candour."), "{}", newest(&team));
    let thread = team.settled(&root, "pm").await.name_any();
    git.health("Thread", &thread, "Current").await;

    // Pruned in the order that is worst: the Repo before its conversations and roles.
    let gone = DeleteParams::default();
    git.api("Repo").delete("shop", &gone).await.unwrap();
    git.api("AgentRole").delete("pm", &gone).await.unwrap();
    let accounts =
        Api::<ServiceAccount>::namespaced(team.stack.cluster.client(), &team.stack.place.team);
    team.until("the Repo's account to go", || async {
        accounts.get_opt("codebutler-shop").await.unwrap().is_none().then_some(())
    })
    .await;
    team.until("nothing to be left", || async {
        let threads = team.stack.threads().get_opt(&thread).await.unwrap();
        (threads.is_none() && team.leftovers().await.is_empty()).then_some(())
    })
    .await;
    team.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_appliers_and_the_product_fight_over_no_field() {
    let team = Setup::new(ModelScript::of("pm", vec![ScriptStep::say("Hi.")])).start().await;
    let repos = Api::<Repo>::namespaced(team.stack.cluster.client(), &team.stack.place.team);
    let live = repos.get("shop").await.unwrap();
    let (git, finance) = (Applier(&team, "argocd-controller"), Applier(&team, "finance"));
    let repo = |spec: Value| {
        json!({"apiVersion": "codebutler.dev/v1alpha1", "kind": "Repo",
               "metadata": {"name": "shop"}, "spec": spec})
    };
    // The example's Repo, pointed at this test's outside world. Another tool sets the budget.
    let mut own = example("team/repo.yaml")["spec"].clone();
    own["limits"].as_object_mut().unwrap().remove("budget");
    for field in ["git", "slack", "model"] {
        own[field] = serde_json::to_value(&live.spec).unwrap()[field].clone();
    }
    let budget = json!({"limits": {"budget": {"perDay": "40"}}});
    git.apply(&repo(own.clone()), true).await.unwrap();
    finance.apply(&repo(budget.clone()), false).await.unwrap();
    git.health("Repo", "shop", "Current").await;

    // While the product writes its part.
    let root = team.says("ana", None, "hello");
    team.message(&root, "Hi.").await;
    team.settled(&root, "pm").await;
    let before = repos.get("shop").await.unwrap();
    for round in 0..3 {
        let applied = git.apply(&repo(own.clone()), false).await;
        applied.unwrap_or_else(|error| panic!("round {round}: {error}"));
        finance.apply(&repo(budget.clone()), false).await.unwrap();
    }
    let after = repos.get("shop").await.unwrap();
    assert_eq!(after.metadata.generation, before.metadata.generation, "nothing was changed back");
    assert_eq!(after.spec, before.spec);
    assert_eq!(after.spec.limits.budget.per_day, Some("40".parse().unwrap()));
    // Nobody else owns a field of the spec, nor the tools one of the status.
    for entry in after.metadata.managed_fields.unwrap() {
        let (manager, fields) = (entry.manager.unwrap(), entry.fields_v1.unwrap().0.to_string());
        let tool = [git.1, finance.1].contains(&manager.as_str());
        assert!(!tool || !fields.contains("f:status"), "{manager}: {fields}");
        let product = ["codebutler-controller", "codebutler-gateway"].contains(&manager.as_str());
        assert!(!product || !fields.contains("f:spec"), "{manager}: {fields}");
    }
    // A manager that wants another's field is told whose it is.
    let clash = finance.apply(&repo(json!({"limits": {"concurrentThreads": 9}})), false).await;
    let told = clash.unwrap_err().to_string();
    assert!(told.contains("argocd-controller") && told.contains("concurrentThreads"), "{told}");
    team.stop().await;
}

/// Argo CD applies no object of these kinds, by its own `resource.exclusions`, and no component may create any.
#[test]
fn what_argo_cd_leaves_out_has_a_file_of_its_own() {
    let charts = std::path::Path::new(codebutler_testbed::FOLDER).join("../charts");
    let read = |path: &str| -> Vec<Value> {
        let text = std::fs::read_to_string(charts.join(path)).unwrap();
        serde_saphyr::from_multiple(&text).unwrap()
    };
    let is_left_out =
        |object: &Value| object["kind"] == "Lease" || object["kind"] == "EndpointSlice";
    let mut wanted = read("codebutler/files/deploy/controller.yaml");
    wanted.extend(read("codebutler/files/deploy/gateway.yaml"));
    wanted.retain(is_left_out);
    let mut own = read("examples/argocd/excluded.yaml");
    assert_eq!(own.remove(0)["kind"], "Namespace");
    assert_eq!(own, wanted);
    assert_eq!(own.len(), 4, "a Lease each, and a slice for each family of addresses");
}

#[test]
fn the_examples_are_valid() {
    let role: AgentRole = serde_json::from_value(example("team/roles/coder.yaml")).unwrap();
    let repo: Repo = serde_json::from_value(example("team/repo.yaml")).unwrap();
    assert!(repo.spec.roles.contains(&role.spec.role));
    let Some(kubectl) = kubectl() else { return };
    let team = std::path::Path::new(codebutler_testbed::FOLDER).join("../charts/examples/team");
    let built = std::process::Command::new(kubectl).arg("kustomize").arg(team).output().unwrap();
    let text = String::from_utf8_lossy(&built.stdout);
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let objects: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
    // The role finds its instructions: the name, the key and the label that it is found by.
    let source = role.spec.prompt_from.unwrap();
    let map = objects.iter().find(|object| object["kind"] == "ConfigMap").unwrap();
    assert_eq!(map["metadata"]["name"], source.config_map.as_str());
    assert_eq!(map["metadata"]["labels"][LABEL_PROMPT], "true");
    assert!(map["data"][source.key()].as_str().unwrap().contains("integers of cents"), "{map}");
    for object in objects.iter().filter(|object| object["kind"] != "Namespace") {
        assert_eq!(object["metadata"]["namespace"], "team", "{object}");
    }
}

#[tokio::test]
async fn argo_cd_shows_the_health_that_conditions_say() {
    crate::python::run("argocd_health.py", &["lupa==2.8", "PyYAML==6.0.3"], &[]).await;
}
