//! Where the authorities are kept. Whoever creates the Secret first has made the first one; whoever
//! patches it first makes its successor; everybody else reads.

use std::collections::BTreeMap;

use codebutler_crds::names::{self, CA_CONFIG_MAP, CA_KEY};
use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::Patch;
use kube::{Api, Client};
use serde_json::json;

use super::TlsError;
use super::authority::CertificateAuthority;
use super::rotation::{KeyPairPem, KnownAuthorities};
use crate::gateway::writes;

/// The Secret, with the keys of its type; the others are the rotation's.
const SECRET: &str = "codebutler-gateway-tls";
const CERTIFICATE: &str = "tls.crt";
const KEY: &str = "tls.key";
const SINCE: &str = "tls.since";
const NEXT_CERTIFICATE: &str = "next.crt";
const NEXT_KEY: &str = "next.key";
const NEXT_SINCE: &str = "next.since";
const PREVIOUS_CERTIFICATE: &str = "previous.crt";
const PREVIOUS_SINCE: &str = "previous.since";
const ATTEMPTS: u32 = 3;

/// What is kept, and its version.
pub struct KeptAuthority {
    pub authorities: KnownAuthorities,
    version: Option<String>,
}

fn api_failed(source: kube::Error) -> TlsError {
    TlsError::Api { what: "Secret `codebutler-gateway-tls`", source: Box::new(source) }
}

/// The authorities of this installation; the first one is made if there is none.
pub async fn load_authorities(
    client: &Client,
    namespace: &str,
    now: Timestamp,
) -> Result<KeptAuthority, TlsError> {
    let api = Api::<Secret>::namespaced(client.clone(), namespace);
    let mut made = None;
    for _ in 0..ATTEMPTS {
        if let Some(secret) = api.get_opt(SECRET).await.map_err(api_failed)? {
            return read_authority(&secret);
        }
        if made.is_none() {
            made = Some(fresh_secret(now)?);
        }
        let Some(secret) = &made else { break };
        match api.create(&writes::create_params(), secret).await {
            Ok(secret) => {
                tracing::info!(secret = SECRET, "made a certificate authority");
                return read_authority(&secret);
            }
            // Another gateway was faster: its authority is the one.
            Err(kube::Error::Api(status)) if status.is_already_exists() => {}
            Err(error) => return Err(api_failed(error)),
        }
    }
    Err(TlsError::Damaged(SECRET))
}

/// Stores what comes next, unless somebody else has stored something since it was read.
pub async fn store_authorities(
    client: &Client,
    namespace: &str,
    kept: &KeptAuthority,
    next: &KnownAuthorities,
) -> Result<bool, TlsError> {
    let data = |text: &str| json!(ByteString(text.as_bytes().to_vec()));
    let own = next.next.as_ref();
    let previous = next.previous.as_ref();
    let patch = json!({
        "metadata": {"resourceVersion": kept.version},
        "data": {
            CERTIFICATE: data(&next.current.certificate),
            KEY: data(&next.current.key),
            SINCE: data(&next.current.since.to_string()),
            NEXT_CERTIFICATE: own.map(|pair| data(&pair.certificate)),
            NEXT_KEY: own.map(|pair| data(&pair.key)),
            NEXT_SINCE: own.map(|pair| data(&pair.since.to_string())),
            PREVIOUS_CERTIFICATE: previous.map(|(certificate, _)| data(certificate)),
            PREVIOUS_SINCE: previous.map(|(_, since)| data(&since.to_string())),
        },
    });
    let api = Api::<Secret>::namespaced(client.clone(), namespace);
    match api.patch(SECRET, &writes::patch_params(), &Patch::Merge(patch)).await {
        Ok(_) => Ok(true),
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
        Err(error) => Err(api_failed(error)),
    }
}

fn fresh_secret(now: Timestamp) -> Result<Secret, TlsError> {
    let (certificate, key) = CertificateAuthority::generate(now)?;
    let entry = |name: &str, text: String| (name.to_owned(), ByteString(text.into_bytes()));
    let since = entry(SINCE, now.to_string());
    let data = BTreeMap::from([entry(CERTIFICATE, certificate), entry(KEY, key), since]);
    Ok(Secret {
        metadata: object_metadata(SECRET),
        type_: Some("kubernetes.io/tls".to_owned()),
        data: Some(data),
        ..Secret::default()
    })
}

fn read_authority(secret: &Secret) -> Result<KeptAuthority, TlsError> {
    let text = |key: &str| {
        let value = secret.data.as_ref()?.get(key)?;
        String::from_utf8(value.0.clone()).ok()
    };
    let time = |key: &str| text(key)?.parse::<Timestamp>().ok();
    let pair = |certificate, key, since| {
        Some(KeyPairPem { certificate: text(certificate)?, key: text(key)?, since })
    };
    // Secrets of installations from before there was a rotation do not say since when.
    let made = secret.metadata.creation_timestamp.as_ref().map(|time| time.0);
    let since = time(SINCE).or(made).unwrap_or(Timestamp::UNIX_EPOCH);
    let current = pair(CERTIFICATE, KEY, since).ok_or(TlsError::Damaged(SECRET))?;
    let next = time(NEXT_SINCE).and_then(|since| pair(NEXT_CERTIFICATE, NEXT_KEY, since));
    let previous = text(PREVIOUS_CERTIFICATE).zip(time(PREVIOUS_SINCE));
    let usable =
        |pair: &KeyPairPem| CertificateAuthority::parse(&pair.certificate, &pair.key).is_some();
    if !usable(&current) || !next.as_ref().is_none_or(usable) {
        return Err(TlsError::Damaged(SECRET));
    }
    let version = secret.metadata.resource_version.clone();
    Ok(KeptAuthority { authorities: KnownAuthorities { current, next, previous }, version })
}

/// Puts the public halves where the controller copies them from.
pub async fn publish_authority(
    client: &Client,
    namespace: &str,
    pem: &str,
) -> Result<(), TlsError> {
    let api = Api::<ConfigMap>::namespaced(client.clone(), namespace);
    let failed = |source| TlsError::Api {
        what: "ConfigMap `codebutler-gateway-ca`",
        source: Box::new(source),
    };
    let map = ConfigMap {
        metadata: object_metadata(CA_CONFIG_MAP),
        data: Some(BTreeMap::from([(CA_KEY.to_owned(), pem.to_owned())])),
        ..ConfigMap::default()
    };
    let Some(now) = api.get_opt(CA_CONFIG_MAP).await.map_err(failed)? else {
        match api.create(&writes::create_params(), &map).await {
            Ok(_) => return Ok(()),
            Err(kube::Error::Api(status)) if status.is_already_exists() => {}
            Err(error) => return Err(failed(error)),
        }
        return patch_config(&api, pem).await.map_err(failed);
    };
    if now.data.as_ref().and_then(|data| data.get(CA_KEY)).map(String::as_str) == Some(pem) {
        return Ok(());
    }
    patch_config(&api, pem).await.map_err(failed)
}

async fn patch_config(api: &Api<ConfigMap>, pem: &str) -> Result<(), kube::Error> {
    let patch = json!({"data": {CA_KEY: pem}});
    api.patch(CA_CONFIG_MAP, &writes::patch_params(), &Patch::Merge(patch)).await.map(drop)
}

fn object_metadata(name: &str) -> ObjectMeta {
    let label = (names::LABEL_MANAGED_BY.to_owned(), names::GATEWAY.to_owned());
    ObjectMeta {
        name: Some(name.to_owned()),
        labels: Some(BTreeMap::from([label])),
        ..ObjectMeta::default()
    }
}
