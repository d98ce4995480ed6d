//! Secrets of teams that were opened, and why one can't be used.

use codebutler_crds::names;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt as _;

use crate::dial::DialTrouble;
use crate::redact::log;

/// A Secret that may be used for what it is wanted for.
pub struct OpenedSecret {
    pub name: String,
    secret: Secret,
}

impl OpenedSecret {
    pub fn new(name: &str, secret: Secret) -> Self {
        Self { name: name.to_owned(), secret }
    }

    /// The hosts that its annotation lets it be sent to.
    pub fn allowed_hosts(&self) -> &str {
        self.secret.annotations().get(names::ANNOTATION_HOSTS).map_or("", String::as_str)
    }

    /// Returns true if a key has a usable value.
    pub fn has(&self, key: &str) -> bool {
        self.value(key).is_ok()
    }

    /// The value of one key.
    ///
    /// # Errors
    /// A sentence that names Secret and key.
    pub fn value(&self, key: &str) -> Result<String, SecretError> {
        self.secret
            .data
            .as_ref()
            .and_then(|data| data.get(key))
            .and_then(|value| String::from_utf8(value.0.clone()).ok())
            .map(|value| value.trim().to_owned())
            .filter(|value| !value.is_empty())
            .inspect(|value| log::mask_secret(value))
            .ok_or_else(|| SecretError::Key { name: self.name.clone(), key: key.to_owned() })
    }

    /// Returns a revision that differs after every change, and for every other Secret.
    pub fn revision(&self) -> String {
        let uid = self.secret.uid().unwrap_or_default();
        format!("{uid}/{}", self.secret.resource_version().unwrap_or_default())
    }
}

/// Reason why a credential can't be used.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    #[error("Secret `{name}` does not exist: create it, or name another one in the Repo")]
    Missing { name: String },
    /// The key is absent or empty.
    #[error("Secret `{name}` has no usable key `{key}`: add it")]
    Key { name: String, key: String },
    /// The annotation does not allow this host.
    #[error(
        "Secret `{name}` may not be sent to `{host}`: add the host to its annotation `{}`",
        names::ANNOTATION_HOSTS
    )]
    Host {
        name: String,
        /// The host it would have been sent to.
        host: String,
    },
    /// The host is nothing that a Repo may name.
    #[error("Secret `{name}` is not sent to `{host}`: {}", DialTrouble::Internal)]
    Internal {
        name: String,
        /// The host it would have been sent to.
        host: String,
    },
    /// The team has not let the gateway read its Secrets.
    #[error(
        "Secret `{name}` can't be read: the gateway has no right on Secrets of this namespace. Give it: \
         kubectl -n {namespace} create rolebinding {0} --clusterrole={0} --serviceaccount={system}:{1}",
        names::SECRETS_ROLE,
        names::GATEWAY
    )]
    Forbidden { name: String, namespace: String, system: String },
    #[error("Secret `{name}` can't be read")]
    Unreadable {
        name: String,
        #[source]
        source: kube::Error,
    },
}
