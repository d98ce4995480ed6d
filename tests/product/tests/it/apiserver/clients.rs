//! The API server as its official Python client sees it.

use super::Fixture;

#[tokio::test(flavor = "multi_thread")]
async fn the_python_client_lists_watches_patches_applies_and_deletes() {
    let fixture = Fixture::new().await;
    let environment = [
        ("KUBECONFIG_FILE", fixture.cluster.kubeconfig().display().to_string()),
        ("NAMESPACE", fixture.namespace.clone()),
    ];
    crate::python::run("kubernetes_client.py", &["kubernetes==37.0.2"], &environment).await;
    fixture.done().await;
}
