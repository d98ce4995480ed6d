//! Every namespace has a service account named `default`, and the API server's CA if it is given.

use std::collections::BTreeMap;

use futures::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, ServiceAccount};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::PostParams;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, ResourceExt};

use super::insist_on;

const DEFAULT: &str = "default";
const ROOT_CA: &str = "kube-root-ca.crt";

/// Runs the controller for default service accounts; never returns.
pub(super) async fn run_accounts(client: Client, root_ca: Option<String>) {
    let config = watcher::Config::default();
    let accounts = watcher::Config::default().fields("metadata.name=default");
    let namespaces = watcher(Api::<Namespace>::all(client.clone()), config).default_backoff();
    let accounts = watcher(Api::<ServiceAccount>::all(client.clone()), accounts).default_backoff();
    let new = namespaces.filter_map(|event| async {
        match event {
            Ok(Event::Apply(object) | Event::InitApply(object)) => {
                object.metadata.deletion_timestamp.is_none().then(|| object.name_any())
            }
            _ => None,
        }
    });
    let lost = accounts.filter_map(|event| async {
        match event {
            Ok(Event::Delete(object)) if object.name_any() == DEFAULT => object.namespace(),
            _ => None,
        }
    });
    futures::stream::select(new, lost)
        .for_each_concurrent(8, |namespace| {
            let (client, root_ca) = (&client, root_ca.as_deref());
            async move {
                insist_on("default service account", || {
                    furnish_namespace(client, &namespace, root_ca)
                })
                .await;
            }
        })
        .await;
}

async fn furnish_namespace(
    client: &Client,
    namespace: &str,
    root_ca: Option<&str>,
) -> kube::Result<()> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    match namespaces.get_opt(namespace).await? {
        Some(found) if found.metadata.deletion_timestamp.is_none() => {}
        _ => return Ok(()),
    }
    let named = |name: &str| ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
    let account = ServiceAccount { metadata: named(DEFAULT), ..ServiceAccount::default() };
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), namespace);
    ignore_existing(accounts.create(&PostParams::default(), &account).await)?;
    if let Some(root_ca) = root_ca {
        let data = BTreeMap::from([("ca.crt".to_owned(), root_ca.to_owned())]);
        let bundle =
            ConfigMap { metadata: named(ROOT_CA), data: Some(data), ..ConfigMap::default() };
        let bundles: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
        ignore_existing(bundles.create(&PostParams::default(), &bundle).await)?;
    }
    Ok(())
}

fn ignore_existing<T>(created: kube::Result<T>) -> kube::Result<()> {
    match created {
        Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
        other => other.map(drop),
    }
}
