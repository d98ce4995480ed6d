//! Secrets in a server's environment: may they go where the server may connect to?

use std::collections::{BTreeMap, BTreeSet};

use codebutler_crds::mcp::McpServerSpec;
use codebutler_crds::names;
use codebutler_crds::repo::SecretRef;
use codebutler_gateway_core::context::GatewayContext;
use codebutler_gateway_core::secrets::SecretError;
use sha2::{Digest as _, Sha256};

/// The server may not be given a Secret.
#[derive(Debug, thiserror::Error)]
pub enum ServerSecretError {
    /// The Secret does not exist, or can't be read.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// The Secret's owner has not said to which hosts it may go.
    #[error(
        "Secret `{secret}` has no annotation `{}`: add it, with all hosts of `egress` of server `{server}`, or with any \
         host if there are none",
        names::ANNOTATION_HOSTS
    )]
    NoHosts { secret: String, server: String },
    /// The server could send it elsewhere.
    #[error(
        "Secret `{secret}` may not be sent to `{host}`, which server `{server}` can reach: add the host to its annotation \
         `{}`, or take it out of `egress`",
        names::ANNOTATION_HOSTS
    )]
    Host { secret: String, server: String, host: String },
}

impl ServerSecretError {
    /// True if it can pass without a change of the Repo or of a Secret.
    pub const fn is_passing(&self) -> bool {
        matches!(self, Self::Secret(SecretError::Unreadable { .. }))
    }
}

/// The Secrets of a server's environment. No Debug: they are secrets.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ServerSecrets {
    /// Values that the server has.
    pub values: Vec<String>,
    /// Values that it had before, while somebody could still hear of them.
    pub older: Vec<String>,
    /// Hash that changes with any of the Secrets; empty without any. It is one of their revisions: those who can read
    /// it could try values against a hash of these.
    pub mark: String,
}

impl ServerSecrets {
    /// Puts others in their place; the earlier ones are masked still.
    pub fn replace(&mut self, now: Self) {
        let Self { values, older, .. } = std::mem::replace(self, now);
        let before = values.into_iter().chain(older);
        let gone = before.filter(|value| !self.values.contains(value)).collect::<Vec<_>>();
        self.older.extend(gone);
    }

    /// All values that the server's answers must not show.
    pub fn all(&self) -> Vec<String> {
        self.values.iter().chain(&self.older).cloned().collect()
    }
}

/// Names of the Secrets of a server's environment, each once, in order.
pub(super) fn secret_names(spec: &McpServerSpec) -> BTreeSet<&str> {
    let secrets = spec.env.iter().filter_map(|value| value.secret.as_ref());
    secrets.map(|secret| secret.name.as_str()).collect()
}

/// The mark of Secrets with these revisions, in the order of their names.
pub(super) fn mark_of(revisions: &[String]) -> String {
    if revisions.is_empty() {
        return String::new();
    }
    hex::encode(&Sha256::digest(revisions.join("\n"))[..12])
}

/// Checks all Secrets of a server's environment, and answers them.
///
/// # Errors
/// A sentence that names Secret, host or key, and never a value.
pub async fn check_secrets(
    context: &GatewayContext,
    namespace: &str,
    spec: &McpServerSpec,
) -> Result<ServerSecrets, ServerSecretError> {
    let (mut values, mut revisions) = (Vec::new(), Vec::new());
    let mut keys: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for secret in spec.env.iter().filter_map(|value| value.secret.as_ref()) {
        keys.entry(&secret.name).or_default().push(&secret.key);
    }
    for (name, keys) in keys {
        let reference = SecretRef { name: name.to_owned() };
        let opened = context.read_secret(namespace, &reference).await?;
        revisions.push(opened.revision());
        for key in keys {
            values.push(opened.value(key)?);
        }
        let (secret, server_name) = (|| name.to_owned(), || spec.name.clone());
        let allowed = read_hosts(opened.allowed_hosts());
        if allowed.is_empty() {
            return Err(ServerSecretError::NoHosts { secret: secret(), server: server_name() });
        }
        let mut hosts = spec.egress.iter();
        if let Some(host) = hosts.find(|host| !allows_host(&allowed, host)) {
            let host = host.clone();
            return Err(ServerSecretError::Host { secret: secret(), server: server_name(), host });
        }
    }
    Ok(ServerSecrets { values, older: Vec::new(), mark: mark_of(&revisions) })
}

fn read_hosts(annotation: &str) -> Vec<String> {
    let entries = annotation.split(',').map(str::trim).filter(|entry| !entry.is_empty());
    let plain = |entry: &str| entry.to_ascii_lowercase().trim_start_matches("https://").to_owned();
    entries.map(plain).collect()
}

/// True if everything that an entry of `egress` lets through is among the hosts of an annotation. Without a port it
/// lets 443 through and 80, as there.
fn allows_host(allowed: &[String], host: &str) -> bool {
    let host = host.to_ascii_lowercase();
    let plain = host.strip_suffix(":443").unwrap_or(&host);
    allowed.iter().any(|entry| *entry == host || entry == plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_changes_with_each_revision_and_old_values_stay_masked() {
        let mark = |texts: &[&str]| {
            mark_of(&texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(mark(&[]), "");
        assert_ne!(mark(&["u1/1"]), mark(&["u1/2"]));
        assert_ne!(mark(&["u1/1", "u2/1"]), mark(&["u2/1", "u1/1"]));
        let secrets = |value: &str, mark: &str| ServerSecrets {
            values: vec![value.to_owned()],
            older: Vec::new(),
            mark: mark.to_owned(),
        };
        let mut known = secrets("old", "a");
        known.replace(secrets("new", "b"));
        known.replace(secrets("new", "c"));
        assert!(known.values == ["new"] && known.all() == ["new", "old"] && known.mark == "c");
    }

    #[test]
    fn a_secret_goes_to_no_host_that_its_annotation_does_not_name() {
        let allows = |annotation: &str, host: &str| allows_host(&read_hosts(annotation), host);
        assert!(allows("api.acme.dev, db.acme.dev:5432", "API.acme.dev"));
        assert!(allows("api.acme.dev", "api.acme.dev:443"));
        assert!(allows("db.acme.dev:5432", "db.acme.dev:5432"));
        assert!(allows("*.acme.dev", "*.acme.dev"), "as the owner of the Secret wrote it");
        for (annotation, host) in [
            ("", "api.acme.dev"),
            ("api.acme.dev", "*.acme.dev"),
            ("api.acme.dev", "acme.dev"),
            ("api.acme.dev", "api.acme.dev.evil.example"),
            ("db.acme.dev:5432", "db.acme.dev"),
            ("db.acme.dev", "db.acme.dev:5432"),
        ] {
            assert!(!allows(annotation, host), "{annotation} and {host}");
        }
    }
}
