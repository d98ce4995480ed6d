//! Secrets in a server's environment: may they go where the server may connect to?

use std::collections::BTreeMap;

use codebutler_crds::mcp::McpServerSpec;
use codebutler_crds::names;
use codebutler_crds::repo::SecretRef;
use codebutler_gateway_core::context::GatewayContext;
use codebutler_gateway_core::secrets::SecretError;

/// Why a server may not have a Secret.
#[derive(Debug, thiserror::Error)]
pub enum ServerSecretError {
    /// It is not there, or can't be read.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// Its owner has not said where it may go.
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

/// Checks all Secrets of a server's environment; answers their values, which its answers must not show.
///
/// # Errors
/// A sentence that names Secret, host or key, and never a value.
pub async fn check_secrets(
    context: &GatewayContext,
    namespace: &str,
    spec: &McpServerSpec,
) -> Result<Vec<String>, ServerSecretError> {
    let mut values = Vec::new();
    let mut keys: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for secret in spec.env.iter().filter_map(|value| value.secret.as_ref()) {
        keys.entry(&secret.name).or_default().push(&secret.key);
    }
    for (name, keys) in keys {
        let reference = SecretRef { name: name.to_owned() };
        let opened = context.read_secret(namespace, &reference).await?;
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
    Ok(values)
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
