//! Tools of the company's servers, listed in the background so that no model call waits for the list. The list that a
//! model call was given stays as it is during that call.

use std::sync::Arc;
use std::time::Duration;

use codebutler_guides::text::clip_text;
use codebutler_guides::voice::join_lines;
use codebutler_wire::{MCP_PREFIX, McpServer, McpTool, McpTools, is_tool_pattern};
use parking_lot::Mutex;
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument as _;

use super::view::RunView;
use super::{Agent, RunError};
use crate::gateway::{GatewayClient, GatewayError};
use crate::tools::RoleTool;
use crate::tools::mcp::{FIND, LIST, PROMPT, READ, ServerTool, lookup_tool, show_instructions};
use crate::transcript::TranscriptRecord;
use crate::transcript::state::OpenAnswer;
use crate::transcript::state::servers::{KnownServers, digest_instructions};

/// Longest wait of a run for its first list, and of a turn that has an older list.
const WAIT: Duration = Duration::from_secs(2);
const BRIEF_WAIT: Duration = Duration::from_millis(250);
/// Most notices to the model, and the longest in characters.
const MOST_NOTICES: usize = 12;
const MAX_NOTICE: usize = 400;
/// Most tool names whose order is kept.
const MOST_NAMES: usize = 400;
/// Notice to the model while the list is not known.
const UNKNOWN: &str = "Tools of the company's servers can't be listed now. Go on without them; they are offered as soon as \
                       they can be.";

/// The latest list of the role's tools, for its next run: the gateway does not send again what is known. Cheap to
/// clone; clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct KeptServerTools(Arc<Mutex<Option<McpTools>>>);

/// Pending request for the list.
type AskedList = AbortOnDropHandle<Result<McpTools, GatewayError>>;

/// Tool list of the company's servers.
pub(super) struct ServerList {
    gateway: GatewayClient,
    asked: Option<AskedList>,
    known: Option<McpTools>,
    kept: KeptServerTools,
    /// The last run's list, as the first request of this one names it: it is known once the gateway says that it holds.
    before: Option<McpTools>,
    /// True if the last answer timed out: no other turn waits for it.
    late: bool,
    /// Tools offered to the model, with the version of the list that they come from.
    offered: (Option<String>, Vec<OfferedTool>),
}

impl ServerList {
    /// Starts the request; nothing for a role that may use no tool of a server.
    pub(super) fn ask(
        gateway: &GatewayClient,
        tools: &[String],
        kept: &KeptServerTools,
    ) -> Option<Self> {
        let uses = tools.iter().any(|tool| is_tool_pattern(tool));
        let mut list = uses.then(|| Self {
            gateway: gateway.clone(),
            asked: None,
            known: None,
            kept: kept.clone(),
            before: kept.0.lock().clone(),
            late: false,
            offered: (None, Vec::new()),
        })?;
        list.begin();
        Some(list)
    }

    /// True if the list names a server or a tool.
    pub(super) fn has_servers(&self) -> bool {
        self.known
            .as_ref()
            .is_some_and(|known| !known.servers.is_empty() || !known.tools.is_empty())
    }

    /// Takes the answer, or asks anew; waits a little for it, unless it is late already. The gateway holds its
    /// answer back for servers that are starting: their tools come with a later turn.
    pub(super) async fn refresh(&mut self) {
        // A Repo without servers gets some from the next run on.
        if self.asked.is_none() && (self.known.is_none() || self.has_servers()) {
            self.begin();
        }
        let Some(asked) = &mut self.asked else { return };
        let patience = match &self.known {
            _ if self.late => Duration::ZERO,
            Some(_) => BRIEF_WAIT,
            None => WAIT,
        };
        let Ok(answer) = tokio::time::timeout(patience, asked).await else {
            self.late = true;
            return;
        };
        (self.asked, self.late) = (None, false);
        match answer {
            Ok(Ok(list)) if list.unchanged => self.known = self.known.take().or(self.before.take()),
            Ok(Ok(list)) => {
                *self.kept.0.lock() = Some(list.clone());
                self.known = Some(list);
            }
            // An older gateway that does not know servers yet.
            Ok(Err(GatewayError::Unexpected { status, .. })) if status.as_u16() == 404 => {
                self.known = Some(McpTools::default());
            }
            Ok(Err(error)) => tracing::warn!(%error, "server_tools_unlisted"),
            Err(error) => tracing::warn!(%error, "server_tools_unlisted"),
        }
    }

    fn begin(&mut self) {
        let gateway = self.gateway.clone();
        let seen = self.known.as_ref().or(self.before.as_ref()).map(|list| list.version.clone());
        let asking = async move { gateway.server_tools(seen.as_deref()).await }.in_current_span();
        self.asked = Some(AbortOnDropHandle::new(tokio::spawn(asking)));
    }
}

/// Refreshes the list, for a role that may use servers.
pub(super) async fn refresh(list: &mut Option<ServerList>) {
    if let Some(list) = list {
        list.refresh().await;
    }
}

/// Tools that are offered now, and the transcript record of the change.
#[derive(Debug, PartialEq)]
struct ServerOffer {
    tools: Vec<OfferedTool>,
    record: Option<TranscriptRecord>,
}

#[derive(Clone, Debug, PartialEq)]
enum OfferedTool {
    Server(McpTool),
    Lookup(&'static str),
}

impl OfferedTool {
    fn name(&self) -> &str {
        match self {
            Self::Server(tool) => &tool.name,
            Self::Lookup(name) => name,
        }
    }
}

impl Agent {
    /// Offers the current tools of servers, and tells the model about changes.
    pub(super) fn offer_servers(
        &mut self,
        list: Option<&mut ServerList>,
        view: &mut RunView,
    ) -> Result<(), RunError> {
        let Some(list) = list else { return Ok(()) };
        let ServerOffer { tools, record } =
            decide_offer(list.known.as_ref(), self.transcript.state().servers());
        if let Some(record) = record {
            self.transcript.append(&record)?;
        }
        let version = list.known.as_ref().map(|known| known.version.clone());
        if list.offered == (version.clone(), tools.clone()) {
            return Ok(());
        }
        list.offered = (version, tools.clone());
        let servers = list.known.as_ref().map_or(&[][..], |known| &known.servers);
        let tools = tools.into_iter().filter_map(|tool| match tool {
            OfferedTool::Server(tool) => Some(Box::new(ServerTool::new(tool)) as Box<dyn RoleTool>),
            OfferedTool::Lookup(name) => lookup_tool(name, servers),
        });
        view.serve(tools.collect());
        Ok(())
    }
}

impl Agent {
    /// Admits recorded calls of servers' tools that are not offered now, so that they can be carried out.
    pub(super) fn admit_calls(&self, view: &mut RunView) {
        let answer = self.transcript.state().run().and_then(|run| run.answer.as_ref());
        let calls = answer.into_iter().flat_map(OpenAnswer::open_calls);
        let names = calls.map(|(_, call)| call.name.as_str());
        for name in names.filter(|name| name.starts_with(MCP_PREFIX)) {
            view.tools.admit(Box::new(ServerTool::unlisted(name)));
        }
    }
}

/// Decides the offer: tools keep their places, and new ones follow by name. Each notice is given once, and so are the
/// instructions of each server until it words them anew.
fn decide_offer(list: Option<&McpTools>, known: &KnownServers) -> ServerOffer {
    let mut names = known.names().to_vec();
    let mut tools = list.map(|list| offered_tools(list, known)).unwrap_or_default();
    let fresh = tools.iter().map(|tool| tool.name().to_owned());
    let fresh: Vec<_> = fresh.filter(|name| !names.contains(name)).collect();
    names.extend(fresh);
    if names.len() > MOST_NAMES {
        names.retain(|name| tools.iter().any(|tool| tool.name() == name));
    }
    let place = |tool: &OfferedTool| names.iter().position(|name| name == tool.name());
    tools.sort_by_key(place);
    let notices = list.map_or_else(|| vec![UNKNOWN.to_owned()], list_notices);
    let is_new = names != known.names() || notices != known.notices();
    let text = tell_notices(&notices, known.notices());
    let servers = list.map_or(&[][..], |list| &list.servers).iter();
    let untold =
        |server: &&McpServer| !server.instructions.trim().is_empty() && !known.has_told(server);
    let untold: Vec<_> = servers.filter(untold).collect();
    let is_change = untold.iter().any(|server| known.has_told_before(server));
    let instructions = show_instructions(&untold, is_change);
    let digests = untold.iter().map(|server| digest_instructions(server)).collect();
    let told: Vec<_> = untold.iter().map(|server| server.name.clone()).collect();
    let is_new = is_new || !told.is_empty();
    let record = is_new.then_some(TranscriptRecord::ServerTools {
        names,
        notices,
        text,
        told,
        digests,
        instructions,
    });
    ServerOffer { tools, record }
}

/// Orders the tools: lookup tools first, then those of servers by name.
fn offered_tools(list: &McpTools, known: &KnownServers) -> Vec<OfferedTool> {
    let resources = list.servers.iter().any(|server| server.resources);
    let prompts = list.servers.iter().any(|server| !server.prompts.is_empty());
    let lookups =
        [(FIND, list.hidden > 0), (LIST, resources), (READ, resources), (PROMPT, prompts)];
    let lookups = lookups.into_iter().filter(|(_, offered)| *offered);
    let listed = |name: &str| list.tools.iter().any(|tool| tool.name == name);
    let found = known.found().iter().filter(|tool| {
        list.hidden > 0 && !listed(&tool.name) && has_server(&list.servers, &tool.name)
    });
    let mut served: Vec<_> = list.tools.iter().chain(found).cloned().collect();
    served.sort_by(|one, other| one.name.cmp(&other.name));
    served.dedup_by(|one, other| one.name == other.name);
    // Whatever the gateway sends, no tool of a server may shadow another tool's name.
    served.retain(|tool| tool.name.starts_with(MCP_PREFIX));
    let lookups = lookups.map(|(name, _)| OfferedTool::Lookup(name));
    lookups.chain(served.into_iter().map(OfferedTool::Server)).collect()
}

fn has_server(servers: &[McpServer], tool: &str) -> bool {
    let rest = tool.strip_prefix(MCP_PREFIX).unwrap_or_default();
    servers.iter().any(|server| {
        rest.strip_prefix(server.name.as_str()).is_some_and(|rest| rest.starts_with("__"))
    })
}

/// The gateway's notices, and one for each unavailable server that they do not mention.
fn list_notices(list: &McpTools) -> Vec<String> {
    let line = |text: &str| clip_text(join_lines(text).trim(), MAX_NOTICE);
    let said: Vec<String> = list.notices.iter().map(|notice| line(notice)).collect();
    let away = list.servers.iter().filter(|server| !server.available);
    let quoted = |server: &McpServer| format!("`{}`", server.name);
    let unsaid = away.filter(|server| !said.iter().any(|text| text.contains(&quoted(server))));
    let unsaid = unsaid.map(|server| {
        format!("The server {} did not answer: go on without its tools.", quoted(server))
    });
    let unsaid: Vec<_> = unsaid.collect();
    said.into_iter().chain(unsaid).take(MOST_NOTICES).collect()
}

/// Text about notices that are new and notices that no longer hold.
fn tell_notices(now: &[String], before: &[String]) -> Option<String> {
    let new =
        now.iter().filter(|notice| !before.contains(notice)).map(|notice| format!("- {notice}"));
    let over = before.iter().filter(|notice| !now.contains(notice));
    let over = over.map(|notice| format!("- No longer so: {notice}"));
    let lines: Vec<_> = new.chain(over).collect();
    (!lines.is_empty()).then(|| format!("About the company's servers:\n{}", lines.join("\n")))
}

#[cfg(test)]
mod tests;
