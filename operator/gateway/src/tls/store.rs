//! Store of the authorities: a Secret and a ConfigMap that the installation brings along, empty. The gateway fills
//! them and has no right to create either. The replica whose patch comes first has made an authority or its
//! successor; all others read it.

use codebutler_crds::names::{CA_CONFIG_MAP, CA_KEY};
use codebutler_gateway_core::writes;
use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::Patch;
use kube::{Api, Client};
use serde_json::json;

use super::TlsError;
use super::authority::CertificateAuthority;
use super::rotation::{KeyPairPem, KnownAuthorities};

/// The Secret, with the keys of a TLS Secret; the others are the rotation's.
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

/// The stored authorities, and their resource version.
pub(super) struct KeptAuthority {
    pub authorities: KnownAuthorities,
    version: Option<String>,
}

fn api_failed(source: kube::Error) -> TlsError {
    TlsError::Api { what: "Secret `codebutler-gateway-tls`", source: Box::new(source) }
}

/// The authorities of this installation; the first one is made if there is none.
pub(super) async fn load_authorities(
    client: &Client,
    namespace: &str,
    now: Timestamp,
) -> Result<KeptAuthority, TlsError> {
    let api = Api::<Secret>::namespaced(client.clone(), namespace);
    for _ in 0..ATTEMPTS {
        let secret = api.get_opt(SECRET).await.map_err(api_failed)?;
        let secret = secret.ok_or(TlsError::Missing { kind: "Secret", name: SECRET })?;
        if !is_unfilled(&secret) {
            return read_authority(&secret);
        }
        let (certificate, key) = CertificateAuthority::generate(now)?;
        let current = KeyPairPem { certificate, key, since: now };
        let first = KnownAuthorities { current, next: None, previous: None };
        let kept = KeptAuthority {
            authorities: first.clone(),
            version: secret.metadata.resource_version.clone(),
        };
        // Another replica may be faster: its authority is the one then.
        if store_authorities(client, namespace, &kept, &first).await? {
            tracing::info!(secret = SECRET, "certificate_authority_created");
        }
    }
    Err(TlsError::Damaged(SECRET))
}

/// True if nothing was ever put into the Secret. One that lost a part is damaged, and a new authority would cut off
/// all agents.
fn is_unfilled(secret: &Secret) -> bool {
    let has = |key: &str| secret.data.as_ref().is_some_and(|data| data.contains_key(key));
    !has(CERTIFICATE) && !has(KEY)
}

/// Stores what comes next, unless somebody else has stored something since it was read.
pub(super) async fn store_authorities(
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
pub(super) async fn publish_authority(
    client: &Client,
    namespace: &str,
    pem: &str,
) -> Result<(), TlsError> {
    let api = Api::<ConfigMap>::namespaced(client.clone(), namespace);
    let failed = |source| TlsError::Api {
        what: "ConfigMap `codebutler-gateway-ca`",
        source: Box::new(source),
    };
    let now = api.get_opt(CA_CONFIG_MAP).await.map_err(failed)?;
    let now = now.ok_or(TlsError::Missing { kind: "ConfigMap", name: CA_CONFIG_MAP })?;
    if now.data.as_ref().and_then(|data| data.get(CA_KEY)).map(String::as_str) == Some(pem) {
        return Ok(());
    }
    let patch = json!({"data": {CA_KEY: pem}});
    let patched = api.patch(CA_CONFIG_MAP, &writes::patch_params(), &Patch::Merge(patch)).await;
    patched.map(drop).map_err(failed)
}
