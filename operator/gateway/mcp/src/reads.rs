//! Resources and prompts of servers. They have no names that a role's patterns could tell apart, so a role needs the
//! whole server for them; and they say nothing of their risk, so people are asked once in a thread unless the Repo
//! has a rule for `resources/read` or `prompts/get`. Reading one counts like a call, listing them does not.

use std::sync::Arc;
use std::time::{Duration, Instant};

use codebutler_crds::wire::{McpPrompt, McpRead, McpResource, McpResources, McpResult};
use codebutler_gateway_core::api_error::ApiError;
use codebutler_gateway_core::caller::ProvenCaller;
use codebutler_gateway_core::consent::SpentYes;
use codebutler_mcp::session::ListedPrompt;
use codebutler_mcp::tools::{RiskJudgement, ServerTool, ToolHints};
use codebutler_mcp::{ContentItem, McpError, PromptMessage, ToolResult};
use futures::future::join_all;
use serde_json::{Map, Value, json};
use tokio::time::timeout;

use super::McpServers;
use super::access::{RoleServer, RoleServers};
use super::answer::{AnswerSource, hand_on};
use super::ask::explain_failure;
use super::call::{
    CallApproval, CallTaken, PricedCall, SentCall, WantedCall, approve_call, begin_reading,
    check_reading, pin_scope, record_call,
};
use super::link::LinkError;
use super::masking::WordGuard;
use super::offer::{judge_tool, show_prompt_name};
use super::refusal::{McpRefusal, closest_names};
use super::sessions::{ServerList, SessionUse, is_sign_in};
use super::turned_away::refuse_request;

/// The wait for the resources of one server.
const PATIENCE: Duration = Duration::from_secs(15);
/// Resources that are listed, of all servers together.
const RESOURCES: usize = 200;
/// Characters of an address, of a name, and of a description.
const ADDRESS: usize = 2000;
const NAME: usize = 200;
const DESCRIPTION: usize = 300;

/// Resources of the servers of the caller's role, or of one of them.
///
/// # Errors
/// When the server is none of the role's.
pub async fn list_resources(
    servers: &Arc<McpServers>,
    caller: &ProvenCaller,
    server: Option<&str>,
) -> Result<McpResources, ApiError> {
    let wanted = match server {
        Some(name) => vec![find_server(servers, caller, name).await?],
        None => RoleServers::of(servers, caller).await.map(list_readable).unwrap_or_default(),
    };
    let redactor = servers.outcomes.redactor(caller).await?;
    let plain = WordGuard::new(redactor.clone(), &[]);
    let reading = wanted.iter().map(async |server| {
        let listing = async {
            let open = servers.sessions.open(&server.place).await?;
            let guard = WordGuard::new(redactor.clone(), &open.secrets());
            let listed = read_resources(&open, &server.place.spec.name, &guard).await;
            listed.map_err(|error| Arc::new(LinkError::of_session(error, &server.place.spec)))
        };
        timeout(PATIENCE, listing).await
    });
    let mut all = McpResources::default();
    for (read, server) in join_all(reading).await.into_iter().zip(&wanted) {
        let name = &server.place.spec.name;
        match read {
            Ok(Ok(listed)) => {
                all.truncated |= listed.truncated;
                all.resources.extend(listed.resources);
            }
            Ok(Err(error)) => {
                let why = explain_failure(servers, caller, &server.place, &error, &plain).await;
                all.notices.push(format!("the resources of `{name}` can't be listed: {why}"));
            }
            Err(_) => all.notices.push(format!("`{name}` has not listed its resources in time")),
        }
    }
    if all.resources.len() > RESOURCES {
        all.resources.truncate(RESOURCES);
        all.truncated = true;
    }
    Ok(all)
}

/// The servers of a role whose resources it may read.
fn list_readable(role: RoleServers) -> Vec<RoleServer> {
    let RoleServers { servers, rights, .. } = role;
    servers.into_iter().filter(|server| rights.reads(&server.place.spec.name)).collect()
}

async fn read_resources(
    open: &SessionUse,
    server: &str,
    guard: &WordGuard,
) -> Result<McpResources, McpError> {
    let session = open.session();
    if !session.facts().has("resources") {
        return Ok(McpResources::default());
    }
    let listed = session.list_resources().await?;
    // Not every server with resources has templates.
    let templates = session.list_resource_templates().await.map(|listed| listed.items);
    let resource = |uri: &str, name: &str, description: Option<&str>| McpResource {
        server: server.to_owned(),
        uri: guard.line(uri, ADDRESS),
        name: guard.line(name, NAME),
        description: guard.line(description.unwrap_or_default(), DESCRIPTION),
    };
    let plain =
        listed.items.iter().map(|one| resource(&one.uri, &one.name, one.description.as_deref()));
    let templates = templates.unwrap_or_default();
    let templates = templates
        .iter()
        .map(|one| resource(&one.uri_template, &one.name, one.description.as_deref()));
    let resources = plain.chain(templates).collect();
    Ok(McpResources { resources, truncated: listed.is_cut, notices: Vec::new() })
}

/// The content of a resource.
///
/// # Errors
/// A sentence for the model.
pub async fn read_resource(
    servers: &Arc<McpServers>,
    caller: &ProvenCaller,
    read: &McpRead,
) -> Result<McpResult, ApiError> {
    if read.uri.is_empty() || read.uri.len() > ADDRESS {
        return Err(
            McpRefusal::Invalid(format!("`uri` has to have 1 to {ADDRESS} characters")).into()
        );
    }
    let arguments = json!({"uri": read.uri});
    let reading =
        Reading { servers, caller, server: &read.server, kind: ReadKind::Resource, arguments };
    reading.run(async |open, _, _| open.session().read_resource(&read.uri).await).await
}

/// A prompt with its arguments filled in, as text.
///
/// # Errors
/// A sentence for the model.
pub async fn read_prompt(
    servers: &Arc<McpServers>,
    caller: &ProvenCaller,
    prompt: &McpPrompt,
) -> Result<McpResult, ApiError> {
    let arguments = json!({"name": prompt.name, "arguments": prompt.arguments});
    let reading =
        Reading { servers, caller, server: &prompt.server, kind: ReadKind::Prompt, arguments };
    reading
        .run(async |open, list, guard| {
            let prompts = list.map(|list| &*list.prompts).unwrap_or_default();
            let (name, values) = name_exactly(prompts, prompt, guard);
            let messages = open.session().get_prompt(&name, &values).await?;
            Ok(join_messages(messages))
        })
        .await
}

/// The prompt and its arguments by the server's own names: a model knows those that it is shown.
fn name_exactly(
    prompts: &[ListedPrompt],
    wanted: &McpPrompt,
    guard: &WordGuard,
) -> (String, Map<String, Value>) {
    let exact = prompts.iter().find(|one| one.name == wanted.name);
    let known = exact
        .or_else(|| prompts.iter().find(|one| show_prompt_name(&one.name, guard) == wanted.name));
    let name_of = |shown: &String| {
        let arguments = || known.iter().flat_map(|prompt| &prompt.arguments);
        let found = arguments()
            .find(|one| one.name == *shown)
            .or_else(|| arguments().find(|one| show_prompt_name(&one.name, guard) == *shown));
        found.map_or_else(|| shown.clone(), |one| one.name.clone())
    };
    let values = wanted.arguments.iter().map(|(name, value)| (name_of(name), json!(value)));
    (known.map_or_else(|| wanted.name.clone(), |one| one.name.clone()), values.collect())
}

/// The messages of a prompt as pieces of one result.
fn join_messages(messages: Vec<PromptMessage>) -> ToolResult {
    let items = messages
        .into_iter()
        .map(|message| ContentItem { body: message.body, is_for_people: false });
    ToolResult { items: items.collect(), ..ToolResult::default() }
}

async fn find_server(
    servers: &McpServers,
    caller: &ProvenCaller,
    name: &str,
) -> Result<RoleServer, McpRefusal> {
    let role = RoleServers::of(servers, caller).await;
    let found = role.as_ref().and_then(|role| role.server(name));
    if found.is_some() && !role.as_ref().is_some_and(|role| role.rights.reads(name)) {
        let what = format!(
            "resources and prompts of the server `{name}`, which take a right to all of it (`mcp__{name}__*`)"
        );
        return Err(McpRefusal::Forbidden { role: caller.role_name().to_owned(), what });
    }
    found.cloned().ok_or_else(|| {
        let names = role.iter().flat_map(|role| &role.servers).map(|one| &*one.place.spec.name);
        let closest = closest_names(name, names);
        let like = closest.first().map(|like| format!(" (did you mean `{like}`?)"));
        let what = format!(
            "the server `{}`{}",
            name.chars().take(60).collect::<String>(),
            like.unwrap_or_default()
        );
        McpRefusal::Forbidden { role: caller.role_name().to_owned(), what }
    })
}

/// The kinds of what is read from servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReadKind {
    Resource,
    Prompt,
}

impl ReadKind {
    /// The method, which rules of a Repo name like a tool.
    const fn method(self) -> &'static str {
        match self {
            Self::Resource => "resources/read",
            Self::Prompt => "prompts/get",
        }
    }

    /// Name of the agent's tool for it.
    const fn tool(self) -> &'static str {
        match self {
            Self::Resource => "ReadResource",
            Self::Prompt => "UsePrompt",
        }
    }

    /// Describes it as a tool whose risk is judged: the words are our own.
    fn as_tool(self) -> ServerTool {
        let what = match self {
            Self::Resource => "resources",
            Self::Prompt => "prompts",
        };
        ServerTool {
            name: self.method().to_owned(),
            title: None,
            description: what.to_owned(),
            input_schema: Map::new(),
            output_schema: None,
            hints: ToolHints::default(),
            annotations: Value::Null,
        }
    }
}

/// Something that is read from a server.
struct Reading<'a> {
    servers: &'a Arc<McpServers>,
    caller: &'a ProvenCaller,
    server: &'a str,
    kind: ReadKind,
    arguments: Value,
}

impl Reading<'_> {
    async fn run(
        self,
        read: impl AsyncFnOnce(
            &SessionUse,
            Option<&ServerList>,
            &WordGuard,
        ) -> Result<ToolResult, McpError>,
    ) -> Result<McpResult, ApiError> {
        let Self { servers, caller, server, kind, arguments } = self;
        let method = kind.method();
        let server = find_server(servers, caller, server).await?;
        let name = server.place.spec.name.clone();
        let redactor = servers.outcomes.redactor(caller).await?;
        let plain = WordGuard::new(redactor.clone(), &[]);
        if plain.finds_secret(&arguments) {
            return Err(McpRefusal::Secret(method.to_owned()).into());
        }
        let away = async |error: &LinkError| {
            let refused = (method, error);
            ApiError::from(refuse_request(servers, caller, &server.place, refused, &plain).await)
        };
        let open = match servers.sessions.open(&server.place).await {
            Ok(open) => open,
            Err(error) => return Err(away(&error).await),
        };
        let guard = WordGuard::new(redactor, &open.secrets());
        let approval = approve_reading(servers, caller, &server, kind, &arguments, &guard).await?;
        let mut priced =
            PricedCall::grant(&servers.models, caller, &server.place.spec, method).await?;
        begin_reading(servers, caller, &server).await?;
        let mut used_yes = None;
        if let Some(standing) = &approval.standing {
            let spent = servers.consent.spend(caller, standing).await.require()?;
            used_yes = (spent == SpentYes::Now).then_some(standing);
        }
        let list = servers.sessions.known_list(&server.place);
        let begun = Instant::now();
        priced.send();
        let mark = open.begin_call(caller, &guard);
        let answer = read(&open, list.as_deref(), &guard).await;
        let model = mark.end();
        let elapsed = begun.elapsed();
        let price = priced.end(&servers.models, caller, answer.as_ref().err());
        if let Err(error) = &answer
            && (error.is_lost_connection() || is_sign_in(error))
        {
            servers.sessions.drop_session(&open);
        }
        let key = format!("{method}:{:x}", rand::random::<u64>());
        let outcome = match answer {
            Ok(result) => {
                let source = AnswerSource { server: &name, tool: method, key: &key };
                Ok(Box::pin(hand_on(servers, caller, &guard, &source, result)).await)
            }
            Err(error) if error.is_answer() => {
                let text = guard.text(&error.to_string());
                Ok(McpResult { text, failed: true, ..McpResult::default() })
            }
            Err(error) => {
                let error = LinkError::of_session(error, &server.place.spec);
                if error.is_turned_away() {
                    if let Some(standing) = used_yes {
                        servers.consent.restore(caller, standing).await;
                    }
                    servers.sessions.post_trouble(&server.place, &error);
                    return Err(away(&error).await);
                }
                let (tool, why) = (format!("{method} of {name}"), guard.error(&error));
                Err(ApiError::from(McpRefusal::NoResult { tool, why, reads: true }))
            }
        };
        let sent = SentCall {
            key: &key,
            server: &name,
            tool: method,
            arguments: arguments.to_string(),
            approved_by: approval.by,
            model,
            price,
        };
        let facts = CallTaken::of(outcome.as_ref().ok(), false, elapsed);
        record_call(servers, caller, &guard, &sent, &facts);
        outcome
    }
}

/// Asks people before something is read, unless the Repo says that this needs no approval.
async fn approve_reading(
    servers: &Arc<McpServers>,
    caller: &ProvenCaller,
    server: &RoleServer,
    kind: ReadKind,
    arguments: &Value,
    guard: &WordGuard,
) -> Result<CallApproval, ApiError> {
    // People are asked about nothing that can't happen.
    check_reading(servers, caller, server)?;
    let (spec, tool) = (&server.place.spec, kind.as_tool());
    let judged = judge_tool(&tool, spec).map_err(|error| McpRefusal::Away {
        server: spec.name.clone(),
        why: guard.error(&error),
    })?;
    let reason =
        if judged.is_ruled { judged.reason } else { "no rule of the Repo's `risk` names it" };
    let judged = RiskJudgement { reason, ..judged };
    let wanted = WantedCall {
        name: kind.tool(),
        server: &spec.name,
        tool: &tool,
        arguments,
        pin: pin_scope(spec),
        judged: &judged,
        guard,
        is_reading: true,
    };
    approve_call(servers, caller, &wanted).await
}
