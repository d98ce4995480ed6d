//! Checks of a server's entry in a Repo that need no connection: its fields, and the Secrets that it names.

use codebutler_crds::Repo;
use codebutler_crds::mcp::{McpSecretKey, McpServerSpec};
use codebutler_crds::secret_ref::SecretRef;
use codebutler_gateway_core::context::GatewayContext;
use codebutler_gateway_core::dial::DialReach;
use codebutler_gateway_core::egress::EgressRefusal;
use codebutler_gateway_core::secrets::SecretError;
use codebutler_mcp::oauth::is_own_parameter;
use codebutler_mcp::tools::{NamePatterns, PatternError, ToolFilter};
use http::HeaderName;
use kube::ResourceExt as _;
use url::Url;

use crate::bridges::{ServerSecretError, check_secrets};

/// Key of an OAuth client's id in its Secret.
const CLIENT_ID: &str = "clientId";

/// A Repo's entry for a server can't be used as it stands.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EntryError {
    /// The list is a map by name, so the API server should have refused it.
    #[error("two servers have its name: rename one of them in `spec.mcpServers`")]
    Twice,
    /// The entry has an empty command.
    #[error(
        "its `command` is empty: write the program and its arguments, such as [\"npx\", \"-y\", \"@acme/server\"]"
    )]
    Command,
    /// The URL can't be parsed, such as one with a port that is no number.
    #[error("its `url` is no URL: {0}")]
    Url(#[from] url::ParseError),
    /// A place in the path of `url` that nothing fills.
    #[error(
        "its `url` has `{{{0}}}` in its path, and `query` has no entry of that name: add it, or correct the name"
    )]
    Place(String),
    /// The host is one that a Repo may not name.
    #[error("its `url` can't be used: {0}")]
    Host(#[from] EgressRefusal),
    /// The name can't be that of a header.
    #[error("`{0}` of its `headers` is no name of a header")]
    Header(String),
    /// A parameter of the sign-in page that is the gateway's own.
    #[error("`{0}` can't be set in `oauth.parameters`: the gateway sets it by itself")]
    Parameter(String),
    /// A pattern of `tools` or `risk`.
    #[error("{0}: correct it in `tools` or `risk`")]
    Pattern(#[from] PatternError),
    /// A value that can't be had.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// A value that a program may not have.
    #[error(transparent)]
    Environment(#[from] ServerSecretError),
}

impl EntryError {
    /// True if it can pass without a change of the Repo or of a Secret.
    pub(crate) const fn is_passing(&self) -> bool {
        match self {
            Self::Secret(error) => matches!(error, SecretError::Unreadable { .. }),
            Self::Environment(error) => error.is_passing(),
            _ => false,
        }
    }
}

/// Checks the entry of a server, and answers the values of its Secrets: its words must not show them.
pub(crate) async fn check_entry(
    context: &GatewayContext,
    repo: &Repo,
    spec: &McpServerSpec,
) -> Result<Vec<String>, EntryError> {
    check_fields(repo, spec)?;
    let namespace = repo.namespace().unwrap_or_default();
    let mut secrets = Vec::new();
    if let Some(client) = spec.oauth.as_ref().and_then(|oauth| oauth.client.as_ref()) {
        context.read_secret(&namespace, client).await?.value(CLIENT_ID)?;
    }
    if let Some(url) = &spec.url {
        let url = Url::parse(url)?;
        context.dialer.admit(&url)?;
        let values = spec.headers.iter().chain(&spec.query);
        for wanted in values.filter_map(|value| value.secret.as_ref()) {
            let to = (&url, DialReach::Outside);
            secrets.push(context.secret(&namespace, &named(wanted), &wanted.key, to).await?);
        }
        return Ok(secrets);
    }
    Ok(check_secrets(context, &namespace, spec).await?.values)
}

fn named(wanted: &McpSecretKey) -> SecretRef {
    SecretRef { name: wanted.name.clone() }
}

fn check_fields(repo: &Repo, spec: &McpServerSpec) -> Result<(), EntryError> {
    let named = repo.spec.mcp_servers.iter().filter(|server| server.name == spec.name);
    if named.count() > 1 {
        return Err(EntryError::Twice);
    }
    let program = spec.command.first().map(|program| program.trim()).unwrap_or_default();
    if spec.image.is_some() && program.is_empty() {
        return Err(EntryError::Command);
    }
    if let Some(name) = find_open_place(spec) {
        return Err(EntryError::Place(name));
    }
    let header = |name: &str| HeaderName::try_from(name).is_err();
    if let Some(unfit) = spec.headers.iter().find(|value| header(&value.name)) {
        return Err(EntryError::Header(unfit.name.clone()));
    }
    let parameters = spec.oauth.iter().flat_map(|oauth| &oauth.parameters);
    if let Some(own) = parameters.map(|one| &one.name).find(|name| is_own_parameter(name)) {
        return Err(EntryError::Parameter(own.clone()));
    }
    filter_tools(spec)?;
    for rule in &spec.risk {
        NamePatterns::new(&rule.tools)?;
    }
    Ok(())
}

/// A name in braces in the path of `url` for which `query` has no entry.
fn find_open_place(spec: &McpServerSpec) -> Option<String> {
    let url = Url::parse(spec.url.as_deref()?).ok()?;
    // Braces are written so by the parser.
    let places = url.path().split("%7B").skip(1).filter_map(|rest| rest.split_once("%7D"));
    let mut names = places.map(|(name, _)| name);
    names.find(|name| !spec.query.iter().any(|value| value.name == *name)).map(str::to_owned)
}

/// The tools that an entry lets roles use.
pub(crate) fn filter_tools(spec: &McpServerSpec) -> Result<ToolFilter, PatternError> {
    let rules = spec.tools.clone().unwrap_or_default();
    ToolFilter::new(&rules.allow, &rules.deny)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::testing;

    fn check(servers: &Value) -> Result<(), String> {
        let repo = testing::repo(&json!({"mcpServers": servers}));
        check_fields(&repo, &repo.spec.mcp_servers[0]).map_err(|error| error.to_string())
    }

    #[test]
    fn fields_that_no_server_can_have_are_named() {
        let image = |command: Value| json!({"name": "db", "image": "x", "command": command});
        for (servers, part) in [
            (json!([image(json!([" "]))]), "its `command` is empty"),
            (json!([image(json!(["x"])), image(json!(["y"]))]), "two servers have its name"),
            (
                json!([{"name": "a", "url": "https://a.example", "headers": [{"name": "A B", "value": "x"}]}]),
                "`A B` of its `headers`",
            ),
            (
                json!([{"name": "a", "url": "https://a.example", "oauth": {"parameters": [
                    {"name": "prompt", "value": "consent"}, {"name": "redirect_uri", "value": "x"},
                ]}}]),
                "`redirect_uri` can't be set in `oauth.parameters`",
            ),
            (
                json!([{"name": "a", "url": "https://a.example/{one}/{two}", "query": [{"name": "one", "value": "x"}]}]),
                "its `url` has `{two}` in its path",
            ),
            (
                json!([{"name": "a", "url": "https://a.example", "tools": {"deny": ["x["]}}]),
                "`x[` is no pattern",
            ),
            (
                json!([{"name": "a", "url": "https://a.example", "risk": [{"tools": ["{"], "risk": "Read"}]}]),
                "`{` is no pattern",
            ),
        ] {
            let error = check(&servers).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
        assert_eq!(check(&json!([image(json!(["npx", "-y"]))])), Ok(()));
        let filled = json!({"name": "a", "url": "https://a.example/{one}?b={two}", "query": [{"name": "one", "value": "x"}]});
        assert_eq!(check(&json!([filled])), Ok(()));
    }
}
