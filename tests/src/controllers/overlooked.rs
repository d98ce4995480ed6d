//! Claims that no watch has told of.
//!
//! All watches of one of kube's controllers pause after an error of any of them, longer with each, and nothing tells
//! when they do not go on. A pod whose claim has no volume does not start.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::api::ListParams;
use kube::{Api, ResourceExt};

use super::claims::{ClaimContext, Need, claim_need, reconcile_claim};

/// Interval at which claims are listed.
pub(super) const INTERVAL: Duration = Duration::from_secs(5);
/// Timeout of a list request, and of one claim's requests.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Gives a volume to claims that have waited for one since the list before; never returns.
pub(super) async fn serve_overlooked(context: Arc<ClaimContext>, every: Duration) {
    let all: Api<PersistentVolumeClaim> = Api::all(context.client.clone());
    let mut waited = BTreeSet::new();
    loop {
        tokio::time::sleep(every).await;
        let listed = tokio::time::timeout(TIMEOUT, all.list(&ListParams::default())).await;
        let Ok(Ok(claims)) = listed else {
            tracing::warn!("claims not listed");
            continue;
        };
        let mut waiting = BTreeSet::new();
        for claim in claims.items.into_iter().filter(|claim| is_due(claim, &context)) {
            let (name, uid) = (claim.name_any(), claim.uid().unwrap_or_default());
            if waited.contains(&uid) {
                tracing::warn!(claim = name, "no watch has told of a claim");
                let served = reconcile_claim(Arc::new(claim), context.clone());
                match tokio::time::timeout(TIMEOUT, served).await {
                    Ok(Ok(_)) => {}
                    Ok(Err(error)) => tracing::warn!(claim = name, %error, "no volume"),
                    Err(_) => tracing::warn!(claim = name, "no volume in time"),
                }
            }
            waiting.insert(uid);
        }
        waited = waiting;
    }
}

/// True for a claim of ours that needs no more than an empty folder. A clone may wait long for its source, and is not
/// to be made twice at the same time.
fn is_due(claim: &PersistentVolumeClaim, context: &ClaimContext) -> bool {
    context.serves(&claim.namespace().unwrap_or_default())
        && claim_need(claim, &context.class) == Need::Volume
        && claim.spec.as_ref().is_none_or(|spec| spec.data_source.is_none())
}

#[cfg(test)]
mod tests {
    use kube::api::PostParams;
    use serde_json::json;

    use super::super::claims::ensure_storage_class;
    use super::*;
    use crate::apiserver::ServerOptions;
    use crate::cluster::TestCluster;

    #[tokio::test]
    async fn a_claim_that_no_watch_tells_of_gets_its_volume() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let dir = tempfile::tempdir().unwrap();
        let cluster = TestCluster::embedded(dir.path(), ServerOptions::default()).await.unwrap();
        let client = cluster.client();
        let class = ensure_storage_class(&client).await.unwrap().to_owned();
        let volumes = dir.path().join("volumes");
        let context = ClaimContext {
            client: client.clone(),
            dir: volumes.clone(),
            class: class.clone(),
            namespaces: Vec::new(),
        };
        let looking = tokio::spawn(serve_overlooked(Arc::new(context), Duration::from_millis(20)));
        let api = Api::<PersistentVolumeClaim>::namespaced(client, "default");
        let claim = json!({"metadata": {"name": "c"}, "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
        }});
        let claim = serde_json::from_value(claim).unwrap();
        api.create(&PostParams::default(), &claim).await.unwrap();
        let bound = async {
            while claim_need(&api.get("c").await.unwrap(), &class) != Need::Nothing {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), bound).await.unwrap();
        assert_eq!(std::fs::read_dir(volumes).unwrap().count(), 1);
        looking.abort();
        cluster.shutdown().await;
    }
}
