//! One look at a server: its entry, and where it has a `url`, a session that lists its tools and ends.

use std::sync::Arc;

use codebutler_crds::Repo;
use codebutler_crds::mcp::McpServerSpec;
use codebutler_gateway_core::context::GatewayContext;
use codebutler_mcp::{McpError, ServerSession, SessionSetup};
use codebutler_runtime::apply::shorten_text;

use super::ask::describe_need;
use super::check::{check_entry, filter_tools};
use super::link::{LinkError, NoPods, OpenedLink, open_link};
use super::place::ServerPlace;
use super::sign_in::{ServerGrant, check_sign_in};
use super::words::{WordGuard, describe_left_out};

/// Characters of a sentence about one server.
const SENTENCE: usize = 400;
/// Bytes of its version.
const VERSION: usize = 40;

/// The kind of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FailureKind {
    /// It stays until the Repo or a Secret changes.
    Entry,
    /// A person has to sign in.
    SignIn,
    /// The server, or the way to it.
    Server,
}

/// Outcome of a look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ServerOutcome {
    /// It answered.
    Answers {
        /// Its own version.
        version: String,
        /// Tools that may be used.
        tools: u32,
        /// A sentence about what is left out, if anything.
        remark: String,
    },
    /// It has not been started.
    Waits,
    /// It can't be used.
    Fails {
        /// Kind.
        kind: FailureKind,
        /// A sentence, masked.
        message: String,
    },
}

/// A look that ended.
pub(crate) struct ServerSight {
    /// Its outcome.
    pub outcome: ServerOutcome,
    /// Values of Secrets that the server has: its words must not show them.
    pub secrets: Vec<String>,
}

/// Looks at a server.
pub(crate) async fn look_at_server(
    context: &GatewayContext,
    repo: &Arc<Repo>,
    spec: &McpServerSpec,
) -> ServerSight {
    match check_entry(context, repo, spec).await {
        Ok(mut secrets) => {
            let outcome = ask_server(context, repo, spec, &mut secrets).await;
            ServerSight { outcome, secrets }
        }
        Err(error) => {
            let kind = if error.is_passing() { FailureKind::Server } else { FailureKind::Entry };
            let message = mask_words(context, repo, &[], &error.to_string());
            ServerSight { outcome: ServerOutcome::Fails { kind, message }, secrets: Vec::new() }
        }
    }
}

async fn ask_server(
    context: &GatewayContext,
    repo: &Arc<Repo>,
    spec: &McpServerSpec,
    secrets: &mut Vec<String>,
) -> ServerOutcome {
    if spec.url.is_none() {
        return ServerOutcome::Waits;
    }
    let place = ServerPlace::new(repo, spec, None);
    let outcome = match open_link(context, &NoPods, &place).await {
        Ok(OpenedLink { link, grant, .. }) => {
            let listed = list_tools(link, spec).await;
            secrets.extend(grant.iter().flat_map(ServerGrant::secrets));
            listed
        }
        Err(error) => Err(error),
    };
    let secrets: &[String] = secrets;
    let mask = |text: &str| mask_words(context, repo, secrets, text);
    match outcome {
        Ok(listed) => ServerOutcome::Answers {
            version: shorten_text(&mask(&listed.version), VERSION),
            tools: listed.tools,
            remark: mask(&listed.remark),
        },
        Err(LinkError::SignIn { challenge, .. }) => {
            let checked = check_sign_in(context, &place, &challenge).await;
            let message = mask(&describe_need(checked.map(|stored| stored.lost)));
            ServerOutcome::Fails { kind: FailureKind::SignIn, message }
        }
        Err(error) => {
            let kind = match &error {
                LinkError::Url(_) | LinkError::Header(_) => FailureKind::Entry,
                _ => FailureKind::Server,
            };
            ServerOutcome::Fails { kind, message: mask(&error.to_string()) }
        }
    }
}

struct ListedServer {
    version: String,
    tools: u32,
    remark: String,
}

async fn list_tools(
    link: codebutler_mcp::ServerLink,
    spec: &McpServerSpec,
) -> Result<ListedServer, LinkError> {
    let failed = |error: McpError| LinkError::of_session(error, spec);
    let setup = SessionSetup {
        client_name: "codebutler".to_owned(),
        client_version: env!("CARGO_PKG_VERSION").to_owned(),
        ..SessionSetup::default()
    };
    // Its events are of no interest: it is closed at once.
    let (session, _events) = ServerSession::open(link, setup).await.map_err(failed)?;
    let listed = session.list_tools().await;
    let version = session.facts().version.clone();
    session.close().await;
    let listed = listed.map_err(failed)?;
    let filter = filter_tools(spec).ok();
    let is_allowed = |name: &str| filter.as_ref().is_none_or(|filter| filter.allows(name));
    let tools = listed.items.iter().filter(|tool| is_allowed(&tool.name)).count();
    let remark = describe_left_out(&listed.skipped, listed.is_cut);
    Ok(ListedServer { version, tools: u32::try_from(tools).unwrap_or(u32::MAX), remark })
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
