//! The way to a server: its URL with its headers, or the bridge in its pod.

use std::sync::Arc;

use async_trait::async_trait;
use codebutler_crds::mcp::{McpServerSpec, McpValue};
use codebutler_crds::secret_ref::SecretRef;
use codebutler_gateway_core::context::GatewayContext;
use codebutler_gateway_core::dial::DialReach;
use codebutler_gateway_core::mcp_grants::seconds_now;
use codebutler_gateway_core::redact::log;
use codebutler_gateway_core::secrets::SecretError;
use codebutler_mcp::{HttpDialer, McpError, ServerLink};
use http::{HeaderMap, HeaderName, HeaderValue};
use url::Url;

use super::bridges::ServerSecrets;
use super::dialer::SessionDialer;
use super::session_key::ServerPlace;
use super::sign_in::{ServerGrant, SignedDialer};

/// Failure to reach a server.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// The `url` of the Repo's entry can't be parsed.
    #[error("`url` of `spec.mcpServers` is no URL: {0}")]
    Url(url::ParseError),
    /// The Repo's entry, or the value in a Secret.
    #[error(
        "the header `{0}` can't be sent: its name or its value has characters that no header may have"
    )]
    Header(String),
    /// A value that can't be had.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// The pod of a server with an image.
    #[error("{0}")]
    Pod(String),
    /// The server gets no pod before another server's is gone.
    #[error("{0}")]
    NoRoom(String),
    /// Something that passes by itself, and is no fault of the server: its Thread is over, its entry was changed just
    /// now.
    #[error("{0}")]
    Passing(String),
    /// Its pod is not there yet, and nothing is known to be wrong: the text says what it waits for.
    #[error("it is still starting ({0})")]
    Starting(String),
    /// The server's credentials.
    #[error(
        "the server does not accept what it is sent as credentials (401): check `headers` and `query` of the server in \
         `spec.mcpServers` and the Secrets that they name"
    )]
    Credentials,
    /// The server wants a sign-in: a person has to do it.
    #[error("a person has to sign in to the server before it can be used")]
    SignIn {
        /// Header `WWW-Authenticate`, as it came.
        challenge: String,
        /// Time of the answer, in seconds since 1970.
        at: i64,
    },
    /// A person has signed in, or a Secret is sent, and the server wants a right that this does not give.
    #[error(
        "the server wants the right `{scope}`, which {} does not give",
        if *.has_sign_in { "the sign-in" } else { "the token in `headers` of its entry in `spec.mcpServers`" }
    )]
    Scope {
        /// Header `WWW-Authenticate`, as it came.
        challenge: String,
        /// The scope that is missing.
        scope: String,
        /// Time of the answer, in seconds since 1970.
        at: i64,
        /// True if people sign in to the server.
        has_sign_in: bool,
    },
    /// The session with the server failed.
    #[error(transparent)]
    Server(McpError),
    /// Too many sessions are in use in the namespace.
    #[error(
        "{0} sessions with servers are in use in this namespace, and others need room too: try again when one has ended"
    )]
    Full(usize),
}

impl LinkError {
    /// True where nothing is wrong with the server: nobody can correct anything, and the next use may succeed.
    pub const fn is_passing(&self) -> bool {
        match self {
            Self::NoRoom(_) | Self::Passing(_) | Self::Starting(_) | Self::Full(_) => true,
            Self::Secret(error) => matches!(error, SecretError::Unreadable { .. }),
            Self::Server(error) => error.is_limit(),
            _ => false,
        }
    }

    /// True where a person is asked to sign in, or to sign in once more with another right.
    pub const fn is_sign_in(&self) -> bool {
        matches!(self, Self::SignIn { .. } | Self::Scope { has_sign_in: true, .. })
    }

    /// True where the server has refused a request before it looked at it: it did not run.
    pub const fn is_turned_away(&self) -> bool {
        match self {
            Self::Credentials | Self::SignIn { .. } | Self::Scope { .. } => true,
            Self::Server(error) => error.is_limit(),
            _ => false,
        }
    }

    /// The failure of a session with a server of this entry.
    pub fn of_session(error: McpError, spec: &McpServerSpec) -> Self {
        match error {
            McpError::SignIn { challenge } if spec.oauth.is_some() => {
                Self::SignIn { challenge, at: seconds_now() }
            }
            McpError::SignIn { .. } => Self::Credentials,
            McpError::Scope { challenge, scope } => {
                let (at, has_sign_in) = (seconds_now(), spec.oauth.is_some());
                Self::Scope { challenge, scope, at, has_sign_in }
            }
            error => Self::Server(error),
        }
    }
}

/// Opens links to servers in pods.
#[async_trait]
pub trait PodLinks: Send + Sync {
    /// The streams of a server with an image, once its pod runs.
    ///
    /// # Errors
    /// A sentence for people and models.
    async fn open_pod_link(&self, place: &ServerPlace) -> Result<OpenedLink, LinkError>;

    /// True while the pod of a server runs, as far as that is known.
    fn has_pod(&self, place: &ServerPlace) -> bool;

    /// The Secrets of a server's pod, where they are others than those that had this mark: none at all, if they may
    /// not be used any more.
    async fn new_secrets(&self, place: &ServerPlace, mark: &str) -> Option<ServerSecrets>;

    /// Keeps the pod of a server whose session is in use.
    async fn keep_pod(&self, place: &ServerPlace);

    /// Gives up the pod of a server whose session has ended.
    async fn release_pod(&self, place: &ServerPlace);
}

/// Stand-in for an installation that starts no pods for servers.
pub struct NoPods;

#[async_trait]
impl PodLinks for NoPods {
    fn has_pod(&self, _: &ServerPlace) -> bool {
        false
    }

    async fn new_secrets(&self, _: &ServerPlace, _: &str) -> Option<ServerSecrets> {
        None
    }

    async fn keep_pod(&self, _: &ServerPlace) {}

    async fn release_pod(&self, _: &ServerPlace) {}

    async fn open_pod_link(&self, _: &ServerPlace) -> Result<OpenedLink, LinkError> {
        let text = "this installation starts no pods for servers with an `image`: only those with a `url` can be used";
        Err(LinkError::Pod(text.to_owned()))
    }
}

/// A link, and the secrets that the server is sent over it: its answers must not show them.
pub struct OpenedLink {
    pub link: ServerLink,
    /// Secrets that the server is sent.
    pub secrets: ServerSecrets,
    /// The grant whose tokens it is sent, of a server that people sign in to.
    pub grant: Option<ServerGrant>,
}

/// Opens the way to a server.
pub async fn open_link(
    context: &GatewayContext,
    pods: &dyn PodLinks,
    place: &ServerPlace,
) -> Result<OpenedLink, LinkError> {
    let Some(url) = &place.spec.url else {
        return pods.open_pod_link(place).await;
    };
    let mut url = Url::parse(url).map_err(LinkError::Url)?;
    let (mut headers, mut secrets) = (HeaderMap::new(), Vec::new());
    for value in &place.spec.headers {
        let (text, secret) = read_value(context, &place.key.namespace, value, &url).await?;
        let unfit = || LinkError::Header(value.name.clone());
        let name = HeaderName::try_from(&value.name).map_err(|_| unfit())?;
        let mut header = HeaderValue::try_from(text).map_err(|_| unfit())?;
        header.set_sensitive(true);
        headers.append(name, header);
        secrets.extend(secret);
    }
    let server = url.clone();
    for value in &place.spec.query {
        let (text, secret) = read_value(context, &place.key.namespace, value, &server).await?;
        let is_in_path = fill_path(&mut url, &value.name, &text);
        if !is_in_path {
            url.query_pairs_mut().append_pair(&value.name, &text);
        }
        // The server may show it as it stands in the address.
        let write: fn(&str) -> String = if is_in_path { write_in_path } else { write_as_parameter };
        let written = secret.as_deref().map(write);
        if let Some(written) = &written {
            log::mask_secret(written);
        }
        secrets.extend(secret.into_iter().chain(written));
    }
    let dialer = SessionDialer(context.dialer.clone());
    let grant = place.spec.oauth.as_ref().map(|_| ServerGrant::new(context, place));
    let dialer: Arc<dyn HttpDialer> = match &grant {
        Some(grant) => Arc::new(SignedDialer::new(dialer, grant.clone())),
        None => Arc::new(dialer),
    };
    let secrets = ServerSecrets { values: secrets, ..ServerSecrets::default() };
    Ok(OpenedLink { link: ServerLink::Http { dialer, url, headers }, secrets, grant })
}

/// Puts a text into the path of an address, in the place of its name in braces. False where the path has no such place.
fn fill_path(url: &mut Url, name: &str, text: &str) -> bool {
    // Braces are written so by the parser.
    let place = format!("%7B{name}%7D");
    let has_place = url.path().contains(&place);
    if has_place {
        let path = url.path().replace(&place, &write_in_path(text));
        url.set_path(&path);
    }
    has_place
}

/// A text as it stands in the path of an address.
fn write_in_path(text: &str) -> String {
    write_as_parameter(text).replace('+', "%20")
}

/// A text as it stands in the query of an address.
fn write_as_parameter(text: &str) -> String {
    url::form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

/// The text of a header or a parameter, and the secret in it.
async fn read_value(
    context: &GatewayContext,
    namespace: &str,
    value: &McpValue,
    url: &Url,
) -> Result<(String, Option<String>), LinkError> {
    let Some(wanted) = &value.secret else {
        return Ok((value.value.clone().unwrap_or_default(), None));
    };
    let reference = SecretRef { name: wanted.name.clone() };
    let to = (url, DialReach::Outside);
    let secret = context.secret(namespace, &reference, &wanted.key, to).await?;
    log::mask_secret(&secret);
    let prefix = wanted.prefix.as_deref().unwrap_or_default();
    Ok((format!("{prefix}{secret}"), Some(secret)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_fills_its_place_in_the_path_and_nothing_else_of_the_address() {
        let fill = |url: &str, text: &str| {
            let mut url = Url::parse(url).unwrap();
            fill_path(&mut url, "key", text).then(|| url.to_string())
        };
        let url = "https://tools.example/s/{key}/mcp?a={key}#{key}";
        let filled = fill(url, "a/../b?c#d+ e").unwrap();
        assert!(filled.starts_with("https://tools.example/s/a%2F..%2Fb%3Fc%23d%2B%20e/mcp?a="));
        assert_eq!(fill("https://tools.example/mcp?a={key}", "x"), None);
        assert_eq!(fill("https://tools.example/{other}/mcp", "x"), None);
    }
}
