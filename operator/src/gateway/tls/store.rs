//! Where the authority is kept. Whoever creates the Secret first has made the authority; everybody
//! else reads it.

use std::collections::BTreeMap;

use codebutler_crds::names::{self, CA_CONFIG_MAP, CA_KEY};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::json;

use super::TlsError;
use super::authority::Authority;

/// The Secret, with the keys of its type.
const SECRET: &str = "codebutler-gateway-tls";
const CERTIFICATE: &str = "tls.crt";
const KEY: &str = "tls.key";
const ATTEMPTS: u32 = 3;

/// The one authority of this installation.
pub async fn authority(client: &Client, namespace: &str) -> Result<Authority, TlsError> {
    let api = Api::<Secret>::namespaced(client.clone(), namespace);
    let failed = |source| TlsError::Api {
        what: "Secret `codebutler-gateway-tls`",
        source: Box::new(source),
    };
    let mut made = None;
    for _ in 0..ATTEMPTS {
        if let Some(secret) = api.get_opt(SECRET).await.map_err(failed)? {
            return read(&secret);
        }
        if made.is_none() {
            made = Some(fresh()?);
        }
        let Some(secret) = &made else { break };
        match api.create(&PostParams::default(), secret).await {
            Ok(secret) => {
                tracing::info!(secret = SECRET, "made a certificate authority");
                return read(&secret);
            }
            // Another gateway was faster: its authority is the one.
            Err(kube::Error::Api(status)) if status.is_already_exists() => {}
            Err(error) => return Err(failed(error)),
        }
    }
    Err(TlsError::Damaged(SECRET))
}

fn fresh() -> Result<Secret, TlsError> {
    let (certificate, key) = Authority::generate()?;
    let entry = |name: &str, text: String| (name.to_owned(), ByteString(text.into_bytes()));
    Ok(Secret {
        metadata: metadata(SECRET),
        type_: Some("kubernetes.io/tls".to_owned()),
        data: Some(BTreeMap::from([entry(CERTIFICATE, certificate), entry(KEY, key)])),
        ..Secret::default()
    })
}

fn read(secret: &Secret) -> Result<Authority, TlsError> {
    let text = |key| {
        let value = secret.data.as_ref()?.get(key)?;
        std::str::from_utf8(&value.0).ok()
    };
    let authority = || Authority::parse(text(CERTIFICATE)?, text(KEY)?);
    authority().ok_or(TlsError::Damaged(SECRET))
}

/// Puts the public half where the controller copies it from.
pub async fn publish(client: &Client, namespace: &str, pem: &str) -> Result<(), TlsError> {
    let api = Api::<ConfigMap>::namespaced(client.clone(), namespace);
    let failed = |source| TlsError::Api {
        what: "ConfigMap `codebutler-gateway-ca`",
        source: Box::new(source),
    };
    let map = ConfigMap {
        metadata: metadata(CA_CONFIG_MAP),
        data: Some(BTreeMap::from([(CA_KEY.to_owned(), pem.to_owned())])),
        ..ConfigMap::default()
    };
    let Some(now) = api.get_opt(CA_CONFIG_MAP).await.map_err(failed)? else {
        match api.create(&PostParams::default(), &map).await {
            Ok(_) => return Ok(()),
            Err(kube::Error::Api(status)) if status.is_already_exists() => {}
            Err(error) => return Err(failed(error)),
        }
        return patch(&api, pem).await.map_err(failed);
    };
    if now.data.as_ref().and_then(|data| data.get(CA_KEY)).map(String::as_str) == Some(pem) {
        return Ok(());
    }
    patch(&api, pem).await.map_err(failed)
}

async fn patch(api: &Api<ConfigMap>, pem: &str) -> Result<(), kube::Error> {
    let patch = json!({"data": {CA_KEY: pem}});
    api.patch(CA_CONFIG_MAP, &PatchParams::default(), &Patch::Merge(patch)).await.map(drop)
}

fn metadata(name: &str) -> ObjectMeta {
    let label = (names::LABEL_MANAGED_BY.to_owned(), names::GATEWAY.to_owned());
    ObjectMeta {
        name: Some(name.to_owned()),
        labels: Some(BTreeMap::from([label])),
        ..ObjectMeta::default()
    }
}
