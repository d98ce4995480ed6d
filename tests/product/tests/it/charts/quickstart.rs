//! The quick start on a cluster that is there, run as it stands: twice, as by somebody who was interrupted.

use codebutler_crds::AgentRole;
use codebutler_testbed::place::SYSTEM;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::Api;
use kube::api::ListParams;
use serde_json::json;

use super::run::{bare, shell};

const LINE: &str =
    "NO_WAIT=1 IMAGES=there charts/examples/quickstart/cluster.sh registry.example.com/team";

#[tokio::test(flavor = "multi_thread")]
async fn the_quick_start_installs_both_charts_and_says_what_comes_next() {
    // The definitions stay on a cluster where others have them too.
    if std::env::var_os("KUBECONFIG").is_some_and(|path| !path.is_empty()) {
        return;
    }
    let team = bare().await;
    let values = json!({});
    super::readme::forget_definitions(&team).await;
    let Some(said) = shell(&team, &values, LINE).await else {
        team.stop().await;
        return;
    };
    assert!(said.contains("Next, give it a team"), "{said}");
    let again = shell(&team, &values, LINE).await.unwrap();
    assert!(again.contains("Next, give it a team"), "{again}");

    let client = team.stack.cluster.client();
    let deployments = Api::<Deployment>::namespaced(client.clone(), SYSTEM);
    for name in ["codebutler-controller", "codebutler-gateway"] {
        let pod = deployments.get(name).await.unwrap().spec.unwrap().template.spec.unwrap();
        let image = pod.containers[0].image.clone().unwrap();
        assert_eq!(image, "registry.example.com/team/codebutler-operator:0.1.0");
    }
    let roles = Api::<AgentRole>::namespaced(client.clone(), SYSTEM);
    assert_eq!(roles.list(&ListParams::default()).await.unwrap().items.len(), 6);
    let claims = Api::<PersistentVolumeClaim>::namespaced(client, SYSTEM);
    claims.get("codebutler-history").await.expect("a volume for what happened");
    team.stop().await;
}
