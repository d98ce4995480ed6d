//! Checks a server: its entry, and where it has a `url`, a session that lists its tools and ends.

use std::sync::Arc;

use codebutler_crds::Repo;
use codebutler_crds::mcp::McpServerSpec;
use codebutler_gateway_core::context::GatewayContext;
use codebutler_mcp::{McpError, ServerLink, ServerSession};
use codebutler_runtime::apply::shorten_text;

use super::ask::{describe_missing, describe_need};
use super::check::check_entry;
use super::link::{LinkError, NoPods, OpenedLink, open_link};
use super::masking::WordGuard;
use super::session_key::ServerPlace;
use super::sessions::{ServerList, count_tools, read_list, setup_look};
use super::sign_in::{ServerGrant, check_sign_in};

/// Characters of a sentence about one server.
const SENTENCE: usize = 400;
/// Most bytes of a server's version that are shown.
const VERSION: usize = 40;

/// Cause of a failure, by who can fix it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FailureKind {
    /// The failure stays until the Repo or a Secret changes.
    Entry,
    /// The server wants a sign-in: a person has to do it.
    SignIn,
    /// The server, or the way to it.
    Server,
}

/// Outcome of the check of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ServerOutcome {
    /// The server answered.
    Answers {
        /// The server's own version.
        version: String,
        /// Number of tools that may be used.
        tools: u32,
        /// A sentence about what is left out, if anything.
        remark: String,
    },
    /// The server was not started yet.
    Waits,
    /// The server's pod is starting for a role; with what it waits for, masked.
    Starts(String),
    /// The server can't be used.
    Fails {
        kind: FailureKind,
        /// The reason in a sentence, masked.
        message: String,
    },
}

/// Result of the check of a server.
pub(crate) struct ServerHealth {
    pub outcome: ServerOutcome,
    /// Values of Secrets that the server has: its words must not show them.
    pub secrets: Vec<String>,
    /// The server's tools and prompts, if it answered.
    pub list: Option<Box<ServerList>>,
}

impl ServerHealth {
    /// Builds a result without a list.
    pub(crate) const fn of(outcome: ServerOutcome, secrets: Vec<String>) -> Self {
        Self { outcome, secrets, list: None }
    }
}

/// Connects to a server and reads its lists.
pub(crate) async fn check_health(
    context: &GatewayContext,
    repo: &Arc<Repo>,
    spec: &McpServerSpec,
) -> ServerHealth {
    match check_entry(context, repo, spec).await {
        Ok(secrets) => ask_server(context, repo, spec, secrets).await,
        Err(error) => {
            let kind = if error.is_passing() { FailureKind::Server } else { FailureKind::Entry };
            let message = mask_words(context, repo, &[], &error.to_string());
            ServerHealth::of(ServerOutcome::Fails { kind, message }, Vec::new())
        }
    }
}

async fn ask_server(
    context: &GatewayContext,
    repo: &Arc<Repo>,
    spec: &McpServerSpec,
    mut secrets: Vec<String>,
) -> ServerHealth {
    if spec.url.is_none() {
        return ServerHealth::of(ServerOutcome::Waits, secrets);
    }
    let place = ServerPlace::new(repo, spec, None);
    let listed = match open_link(context, &NoPods, &place).await {
        Ok(OpenedLink { link, grant, secrets: sent }) => {
            secrets.extend(sent.all());
            let listed = list_server(link, &place, (&grant, &secrets)).await;
            secrets.extend(grant.iter().flat_map(ServerGrant::secrets));
            listed
        }
        Err(error) => Err(error),
    };
    let mask = |text: &str| mask_words(context, repo, &secrets, text);
    let outcome = match &listed {
        Ok(list) => {
            let (version, tools, remark) = count_tools(&place, list);
            let version = shorten_text(&mask(&version), VERSION);
            ServerOutcome::Answers { version, tools, remark: mask(&remark) }
        }
        Err(LinkError::SignIn { challenge, .. }) => {
            let checked = check_sign_in(context, &place, challenge).await;
            let message = mask(&describe_need(checked.map(|stored| stored.lost)));
            ServerOutcome::Fails { kind: FailureKind::SignIn, message }
        }
        Err(LinkError::Scope { scope, has_sign_in: true, .. }) => ServerOutcome::Fails {
            kind: FailureKind::SignIn,
            message: mask(&describe_missing(scope)),
        },
        Err(error) => {
            let kind = match error {
                LinkError::Url(_) | LinkError::Header(_) => FailureKind::Entry,
                _ => FailureKind::Server,
            };
            ServerOutcome::Fails { kind, message: mask(&error.to_string()) }
        }
    };
    ServerHealth { outcome, secrets, list: listed.ok().map(Box::new) }
}

async fn list_server(
    link: ServerLink,
    place: &ServerPlace,
    (grant, secrets): (&Option<ServerGrant>, &[String]),
) -> Result<ServerList, LinkError> {
    let failed = |error: McpError| LinkError::of_session(error, &place.spec);
    // Events of the session are of no interest, as it is closed at once.
    let opening = Box::pin(ServerSession::open(link, setup_look(place)));
    let (session, _events) = opening.await.map_err(failed)?;
    let sent = || grant.iter().flat_map(ServerGrant::secrets);
    let sent = secrets.iter().cloned().chain(sent()).collect();
    let listed = read_list(&session, &place.spec.name, sent).await;
    session.close().await;
    listed.map_err(failed)
}

/// Words of a server in one line for people, without secrets.
pub(crate) fn mask_words(
    context: &GatewayContext,
    repo: &Repo,
    secrets: &[String],
    words: &str,
) -> String {
    WordGuard::new(context.redactors.of(repo), secrets).line(words, SENTENCE)
}
