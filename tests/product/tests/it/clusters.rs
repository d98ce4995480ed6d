//! Clusters that are not like the others.

use codebutler_crds::{Repo, names};
use codebutler_testbed::models::{ModelScript, ScriptStep};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod};
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt as _};
use serde_json::json;

use crate::support::{Setup, Team};

/// The definition that makes a cluster one of a vendor's.
fn definition(group: &str, version: &str, kind: &str) -> String {
    let plural =
        if kind.ends_with('s') { kind.to_lowercase() } else { format!("{}s", kind.to_lowercase()) };
    let singular = kind.to_lowercase();
    format!(
        "apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {{name: {plural}.{group}}}
spec:
  group: {group}
  names: {{kind: {kind}, plural: {plural}, singular: {singular}, listKind: {kind}List}}
  scope: Cluster
  versions:
    - name: {version}
      served: true
      storage: true
      schema: {{openAPIV3Schema: {{type: object, x-kubernetes-preserve-unknown-fields: true}}}}
"
    )
}

/// Makes the cluster one of OpenShift's, and gives the team's namespace its users.
async fn turn_into_openshift(team: &mut Team) {
    team.stack.controller.stop().await.unwrap();
    let constraints = definition("security.openshift.io", "v1", "SecurityContextConstraints");
    team.stack.cluster.apply_yaml(&constraints).await.unwrap();
    let given = json!({"metadata": {"annotations": {
        "openshift.io/sa.scc.uid-range": "1000660000/10000",
        "openshift.io/sa.scc.supplemental-groups": "1000660000/10000",
        "openshift.io/sa.scc.mcs": "s0:c26,c5",
    }}});
    let namespaces = Api::<Namespace>::all(team.stack.cluster.client());
    let name = team.stack.place.team.clone();
    namespaces.patch(&name, &PatchParams::default(), &Patch::Merge(given)).await.unwrap();
    team.stack.controller.restart().await.unwrap();
}

/// Returns the API server's refusal of a pod as it is made on other clusters.
async fn refusal(pods: &Api<Pod>) -> String {
    let pod = json!({"metadata": {"name": "usual"}, "spec": {
        "securityContext": {"runAsNonRoot": true, "runAsUser": 1000, "fsGroup": 1000,
                            "seLinuxOptions": {"level": "s0:c1,c2"}},
        "containers": [{"name": "agent", "image": "x"}],
    }});
    let pod = serde_json::from_value(pod).unwrap();
    pods.create(&PostParams::default(), &pod).await.unwrap_err().to_string()
}

/// Adds a second Repo, so that two own the copy of the authority. OpenShift lets only those who may delete an object
/// change its owners.
async fn a_second_repo_becomes_an_owner(team: &Team) {
    let (client, namespace) = (team.stack.cluster.client(), &team.stack.place.team);
    let repos = Api::<Repo>::namespaced(client.clone(), namespace);
    let mut second = repos.get(&team.stack.repo).await.unwrap();
    second.metadata = ObjectMeta { name: Some("docs".to_owned()), ..ObjectMeta::default() };
    second.status = None;
    "C0DOCS".clone_into(&mut second.spec.slack.channel);
    repos.create(&PostParams::default(), &second).await.unwrap();
    let copies = Api::<ConfigMap>::namespaced(client, namespace);
    team.until("both Repos to own the authority's copy", || async {
        let copy = copies.get(names::CA_CONFIG_MAP).await.ok()?;
        (copy.owner_references().len() == 2).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thread_is_answered_on_openshift_with_what_its_platform_team_added() {
    let steps = vec![
        ScriptStep::tool(
            "Bash",
            json!({"command": "echo built as $(id -u) > /cache/out; cat /cache/out"}),
        ),
        ScriptStep::say("It is built.").expecting("built as 1000660000"),
    ];
    let mut team = Setup::new(ModelScript::of("coder", steps))
        .repo(|repo| {
            let pods = json!({
                "labels": {"cost-centre": "web"}, "annotations": {"sidecar.istio.io/inject": "false"},
                "volumes": [{"name": "cache", "mountPath": "/cache", "emptyDir": {}}],
            });
            repo.pods = Some(serde_json::from_value(pods).unwrap());
        })
        .start()
        .await;
    if !team.stack.cluster.is_embedded() {
        team.stop().await;
        return;
    }
    turn_into_openshift(&mut team).await;
    let pods: Api<Pod> =
        Api::namespaced(team.stack.cluster.client(), &team.stack.place.team.clone());
    let refused = refusal(&pods).await;
    for why in ["fsGroup: Invalid value: []int64{1000}", "runAsUser", "seLinuxOptions.level"] {
        assert!(refused.contains(why), "{refused}");
    }

    let root = team.says("ana", None, "@codebutler.coder build it");
    team.message(&root, "It is built.").await;
    assert_eq!(team.stack.models.failures(), Vec::<String>::new());
    let pod = pods.get(&team.pod(&root, "coder").await).await.unwrap();
    assert_eq!(pod.annotations()["openshift.io/scc"], "restricted-v2");
    assert_eq!(pod.annotations()["sidecar.istio.io/inject"], "false");
    assert_eq!(pod.labels()["cost-centre"], "web");
    // Nobody's node goes away under a run; one who waits is in nobody's way.
    team.settled(&root, "coder").await;
    team.until("the pod to stand in no autoscaler's way", || async {
        let pod = pods.get(&pod.name_any()).await.ok()?;
        let said = |name: &str| pod.annotations().get(name).map(String::as_str);
        (said("cluster-autoscaler.kubernetes.io/safe-to-evict") == Some("true")
            && said("karpenter.sh/do-not-disrupt") == Some("false"))
        .then_some(())
    })
    .await;
    a_second_repo_becomes_an_owner(&team).await;
    team.stop().await;
}

/// Autopilot rewrites the requests of our pods, and the product has to be content with that: a pod is neither
/// replaced for it nor evicted.
#[tokio::test(flavor = "multi_thread")]
async fn a_thread_is_answered_on_autopilot_which_rewrites_what_its_pod_asks_for() {
    let steps = vec![
        ScriptStep::tool("Bash", json!({"command": "echo built on autopilot"})),
        ScriptStep::say("It is built.").expecting("built on autopilot"),
        ScriptStep::say("It still is."),
    ];
    let setup = Setup::new(ModelScript::of("coder", steps)).role(|role| {
        // More memory than Autopilot gives to so few processors.
        let asked =
            json!({"requests": {"cpu": "100m", "memory": "3Gi"}, "limits": {"memory": "3Gi"}});
        role.workspace.resources = serde_json::from_value(asked).unwrap();
    });
    let team = setup.start().await;
    if !team.stack.cluster.is_embedded() {
        team.stop().await;
        return;
    }
    let allowlists = definition("auto.gke.io", "v1", "AllowlistSynchronizer");
    team.stack.cluster.apply_yaml(&allowlists).await.unwrap();
    let pods: Api<Pod> = Api::namespaced(team.stack.cluster.client(), &team.stack.place.team);
    let pod = json!({"metadata": {"name": "usual"}, "spec": {
        "hostNetwork": true, "volumes": [{"name": "root", "hostPath": {"path": "/"}}],
        "nodeSelector": {"pool": "x"},
        "containers": [{"name": "agent", "image": "x", "securityContext": {"privileged": true},
                        "resources": {"requests": {"ephemeral-storage": "20Gi"}}}],
    }});
    let pod = serde_json::from_value(pod).unwrap();
    let refused = pods.create(&PostParams::default(), &pod).await.unwrap_err().to_string();
    for why in [
        "hostNetwork",
        "uses path /",
        "of pool in a node selector",
        "privileged",
        "maximum of '10Gi'",
    ] {
        assert!(refused.contains(why), "{refused}");
    }

    let root = team.says("ana", None, "@codebutler.coder build it");
    team.message(&root, "It is built.").await;
    team.settled(&root, "coder").await;
    let pod = pods.get(&team.pod(&root, "coder").await).await.unwrap();
    let said = &pod.annotations()["autopilot.gke.io/resource-adjustment"];
    let said: serde_json::Value = serde_json::from_str(said).unwrap();
    assert_ne!(said["input"], said["output"]);
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    for container in containers {
        let resources = serde_json::to_value(&container.resources).unwrap();
        let disk = |kind: &str| resources[kind]["ephemeral-storage"].clone();
        assert!(disk("requests").is_string() && disk("requests") == disk("limits"), "{resources}");
    }
    team.says("ana", Some(&root), "@codebutler.coder is it still?");
    team.message(&root, "It still is.").await;
    let later = pods.get(&pod.name_any()).await.unwrap();
    assert_eq!(later.uid(), pod.uid(), "the same pod");
    assert_eq!(team.stack.models.failures(), Vec::<String>::new());
    team.stop().await;
}
