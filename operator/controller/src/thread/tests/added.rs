//! Tests of settings that platform teams add to pods.

use codebutler_crds::AgentRole;

use super::*;
use crate::args::ControllerArgs;

/// The pod of the coder with these settings of the role, its Repo and the installation.
fn built(role: &Value, repo: &Value, all: &Value) -> Value {
    let mut args = testing::args();
    args.agent_pods = serde_json::from_value(all.clone()).unwrap();
    built_by(role, repo, &args)
}

fn built_by(role: &Value, repo: &Value, args: &ControllerArgs) -> Value {
    let mut definition = serde_json::to_value(testing::role("coder")).unwrap();
    json_patch::merge(&mut definition["spec"], role);
    let definition: AgentRole = serde_json::from_value(definition).unwrap();
    let mut of_repo = testing::repo();
    of_repo.spec.pods = Some(serde_json::from_value(repo.clone()).unwrap());
    let input = pod::PodInput {
        owner: pod::PodOwner::Thread(&with_mail()),
        repo: &of_repo,
        role: &definition,
        gateway: &gateway(),
        args,
        user: security::USER,
    };
    serde_json::to_value(input.build()).unwrap()
}

fn none() -> Value {
    json!({})
}

#[test]
fn the_node_is_not_tried_where_the_repo_allows_its_pods_their_own() {
    let tries_node = |allowed: bool| {
        let mut repo = testing::repo();
        repo.spec.egress.allow_own_node = allowed;
        let world = ObservedThread { repo: Some(Arc::new(repo)), ..world() };
        let plan = plan(&with_mail(), &world);
        let spec = plan.create_pods["pm"].pod.spec.clone().unwrap();
        spec.containers[0].env.iter().flatten().any(|var| var.name == "CODEBUTLER_NODE")
    };
    assert!(tries_node(false));
    assert!(!tries_node(true));
}

#[test]
fn the_role_goes_before_the_repo_and_the_repo_before_the_installation() {
    let pod = built(
        &json!({"nodeSelector": {"pool": "role"}, "pods": {"labels": {"a": "role"}}}),
        &json!({"labels": {"a": "repo", "b": "repo", "codebutler.dev/role": "other"},
                "annotations": {"note": "repo"}, "priorityClassName": "low"}),
        &json!({"labels": {"c": "all"}, "nodeSelector": {"pool": "all", "kubernetes.io/arch": "arm64"},
                "tolerations": [{"key": "agents"}], "runtimeClassName": "gvisor"}),
    );
    let labels = &pod["metadata"]["labels"];
    assert_eq!(
        (&labels["a"], &labels["b"], &labels["c"]),
        (&json!("role"), &json!("repo"), &json!("all"))
    );
    assert_eq!(labels["codebutler.dev/role"], "coder", "what it is found by is its own");
    assert_eq!(pod["metadata"]["annotations"]["note"], "repo");
    let spec = &pod["spec"];
    assert_eq!(
        spec["nodeSelector"],
        json!({"pool": "role", "kubernetes.io/os": "linux", "kubernetes.io/arch": "arm64"})
    );
    assert_eq!(
        (&spec["priorityClassName"], &spec["runtimeClassName"]),
        (&json!("low"), &json!("gvisor"))
    );
    assert_eq!(spec["tolerations"], json!([{"key": "agents"}]));
    // The Thread's pods keep together whatever else is wanted of nodes.
    let wanted = json!({"affinity": {"nodeAffinity": {}, "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
        [{"topologyKey": "zone"}]}}});
    let near = built(&none(), &wanted, &none());
    let near = &near["spec"]["affinity"];
    assert!(near["nodeAffinity"].is_object());
    let terms = &near["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    assert_eq!(
        (&terms[0]["topologyKey"], &terms[1]["topologyKey"]),
        (&json!("zone"), &json!("kubernetes.io/hostname"))
    );
}

#[test]
fn threads_that_share_a_claim_have_one_selinux_level() {
    let level = |uid: &str, repo: &Value| {
        let mut thread = with_mail();
        thread.metadata.uid = Some(uid.to_owned());
        let mut of_repo = testing::repo();
        of_repo.spec.pods = Some(serde_json::from_value(repo.clone()).unwrap());
        let (args, role) = (testing::args(), testing::role("coder"));
        let input = pod::PodInput {
            owner: pod::PodOwner::Thread(&thread),
            repo: &of_repo,
            role: &role,
            gateway: &gateway(),
            args: &args,
            user: security::USER,
        };
        let context = input.build().spec.unwrap().security_context.unwrap();
        context.se_linux_options.unwrap().level.unwrap()
    };
    let volume = |source: &Value| {
        let mut volume = json!({"name": "cache", "mountPath": "/cache"});
        json_patch::merge(&mut volume, source);
        json!({"volumes": [volume]})
    };
    let folder = volume(&json!({"emptyDir": {}}));
    for alone in [none(), folder] {
        assert_ne!(level("a", &alone), level("b", &alone), "each has volumes of its own");
    }
    let claim = volume(&json!({"persistentVolumeClaim": {"claimName": "cache"}}));
    assert_eq!(level("a", &claim), level("b", &claim));
}

#[test]
fn a_pod_runs_as_nobody_in_particular_only_where_that_is_asked_for() {
    let user = |pod: &Value| pod["spec"]["securityContext"].clone();
    let usual = user(&built(&none(), &none(), &none()));
    assert_eq!((&usual["runAsUser"], &usual["fsGroup"]), (&json!(10001), &json!(10001)));
    assert!(usual["seLinuxOptions"]["level"].is_string());
    let free = user(&built(&none(), &none(), &json!({"securityContext": {}})));
    assert_eq!(
        free,
        json!({"runAsNonRoot": true, "fsGroupChangePolicy": "OnRootMismatch",
               "seccompProfile": {"type": "RuntimeDefault"}})
    );
    let own =
        json!({"securityContext": {"runAsUser": 4000, "fsGroup": 4001, "supplementalGroups": [7]}});
    let own = user(&built(&none(), &own, &json!({"securityContext": {}})));
    assert_eq!(
        (&own["runAsUser"], &own["fsGroup"], &own["supplementalGroups"]),
        (&json!(4000), &json!(4001), &json!([7]))
    );
    assert_eq!(own["runAsNonRoot"], true);
}

#[test]
fn every_container_says_what_it_takes_of_the_disk_and_may_be_given_more() {
    let containers = |pod: &Value| -> BTreeMap<String, Value> {
        let all = ["initContainers", "containers"].map(|list| pod["spec"][list].clone());
        let all = all.iter().flat_map(|list| list.as_array().unwrap().clone());
        all.map(|c| (c["name"].as_str().unwrap().to_owned(), c)).collect()
    };
    let given = json!({"resources": {"agent": {"limits": {"cpu": "1", "memory": "1Gi"}},
        "toolbox": {"requests": {"cpu": "4"}}}});
    for settings in [none(), given.clone()] {
        for (name, container) in containers(&built(&none(), &settings, &none())) {
            let resources = &container["resources"];
            let known = |part: &str| !resources[part]["ephemeral-storage"].is_null();
            assert!(known("requests") || known("limits"), "{name}: {resources}");
        }
    }
    let all = containers(&built(&none(), &given, &none()));
    assert_eq!(all["agent"]["resources"]["limits"], json!({"cpu": "1", "memory": "1Gi"}));
    assert_eq!(
        all["toolbox"]["resources"]["requests"],
        json!({"cpu": "4", "ephemeral-storage": "1Gi"})
    );
    let near = json!({"workspace": {"resources": {"requests": {"cpu": "9"}}}});
    let all = containers(&built(&near, &given, &none()));
    assert_eq!(all["toolbox"]["resources"]["requests"]["cpu"], "9", "an AgentRole's own");

    // The installation's pull policy is only for the images that it brings.
    let args = ControllerArgs {
        agent_pull_policy: serde_json::from_value(json!("Never")).unwrap(),
        ..testing::args()
    };
    let own = json!({"workspace": {"image": "our/tools:latest"}});
    let all = containers(&built_by(&own, &none(), &args));
    let policy = |name: &str| all[name].get("imagePullPolicy").and_then(Value::as_str);
    assert_eq!((policy("agent"), policy("toolbox")), (Some("Never"), None));
    let all = containers(&built_by(&own, &json!({"imagePullPolicy": "Always"}), &args));
    assert!(all.values().all(|container| container["imagePullPolicy"] == "Always"));
}

#[test]
fn commands_find_the_volumes_that_were_added_and_the_agent_does_not() {
    let pod = built(
        &none(),
        &json!({"volumes": [
            {"name": "cache", "mountPath": "/cache", "persistentVolumeClaim": {"claimName": "builds"}},
            {"name": "tmp", "mountPath": "/models", "emptyDir": {"sizeLimit": "5Gi"}, "readOnly": true}]}),
        &none(),
    );
    let volumes = pod["spec"]["volumes"].as_array().unwrap();
    let named = |name: &str| volumes.iter().find(|v| v["name"] == name).unwrap();
    assert_eq!(named("extra-cache")["persistentVolumeClaim"]["claimName"], "builds");
    assert_eq!(named("extra-tmp")["emptyDir"]["sizeLimit"], "5Gi");
    let toolbox = &pod["spec"]["initContainers"][0];
    assert_eq!(toolbox["args"], json!(["--writable", "/cache"]));
    let mounts = |container: &Value| container["volumeMounts"].to_string();
    assert!(mounts(toolbox).contains("/cache") && mounts(toolbox).contains("/models"));
    assert!(!mounts(&pod["spec"]["containers"][0]).contains("/cache"));
}

#[test]
fn autoscalers_wait_for_a_role_at_work_and_for_no_other() {
    let shield = |status: Value| {
        let thread = testing::thread(&status);
        let mut world = world();
        world.volume = Some(claim(&thread, "Bound"));
        world.pods = vec![pod(&thread, "pm", "a", json!({"phase": "Running"}))];
        let shields = plan(&thread, &world).shields;
        serde_json::to_value(shields).unwrap()
    };
    let at_work = json!({"roles": {"pm": {"inbox": MAIL, "podUID": "a", "state": "Running"}}});
    assert_eq!(shield(at_work), json!([]), "as it was made");
    let idle =
        json!({"roles": {"pm": {"inbox": MAIL, "done": MAIL, "podUID": "a", "state": "Idle"}}});
    let down = shield(idle);
    assert_eq!((&down[0]["pod"]["uid"], &down[0]["shield"]), (&json!("a"), &json!("Down")));
}
