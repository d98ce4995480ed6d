//! Signing keys of each Repo's deliveries, read from its Secret, and cached for some seconds: however many deliveries
//! somebody makes up, the API server is asked no more often than that.

use std::sync::Arc;
use std::time::{Duration, Instant};

use codebutler_crds::names::secret_key;
use codebutler_crds::{Repo, repo::SecretRef};
use codebutler_gateway_core::conditions::ConditionWriter;
use codebutler_gateway_core::context::GatewayContext;
use codebutler_gateway_core::secrets::SecretError;
use codebutler_runtime::recent::RecentMap;
use kube::ResourceExt as _;
use parking_lot::Mutex;

use super::signature::SigningKey;

/// Time for which a Secret is cached.
const FRESH: Duration = Duration::from_secs(5);
/// Maximum number of cached Secrets.
const MOST: usize = 256;

/// Time at which a Secret was read, and the key in it, if there is a usable one.
type ReadKey = (Instant, Option<SigningKey>);

/// Cheap to clone; clones share what they know.
#[derive(Clone)]
pub(super) struct SigningKeys {
    context: GatewayContext,
    conditions: ConditionWriter,
    known: Arc<Mutex<RecentMap<(String, String), ReadKey>>>,
}

impl SigningKeys {
    pub(super) fn new(context: GatewayContext, conditions: ConditionWriter) -> Self {
        Self { context, conditions, known: Arc::new(Mutex::new(RecentMap::new(MOST))) }
    }

    /// The key of a Repo; nothing if its Secret has none that can be used, which its events say.
    pub(super) async fn of(&self, repo: &Repo, secret: &SecretRef) -> Option<SigningKey> {
        let namespace = repo.namespace().unwrap_or_default();
        let place = (namespace, secret.name.clone());
        if let Some((read, key)) = self.known.lock().get(&place)
            && read.elapsed() < FRESH
        {
            return key.clone();
        }
        let key = match self.read(&place.0, secret).await {
            Ok(key) => Ok(key),
            Err(why) => Err(why.to_string()),
        };
        self.known.lock().insert(place, (Instant::now(), key.as_ref().ok().cloned()));
        match key {
            Ok(key) => Some(key),
            Err(why) => {
                tracing::warn!(repo = repo.name_any(), why, "delivery_secret_invalid");
                self.conditions.signing_fails(repo, &why).await;
                None
            }
        }
    }

    async fn read(&self, namespace: &str, secret: &SecretRef) -> Result<SigningKey, KeyError> {
        let opened = self.context.read_secret(namespace, secret).await?;
        let value = opened.value(secret_key::SIGNING_SECRET)?;
        let name = secret.name.clone();
        SigningKey::parse(&value).ok_or(KeyError::Form { name, key: secret_key::SIGNING_SECRET })
    }
}

/// Reason why deliveries can't be checked.
#[derive(Debug, thiserror::Error)]
enum KeyError {
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// The key has another form. The error never holds its value.
    #[error(
        "`{key}` of Secret `{name}` has to be `whsec_` and 24 to 64 bytes in base64: write it so"
    )]
    Form { name: String, key: &'static str },
}
