//! A server of the Model Context Protocol over streamable HTTP, as strict as the official ones: it wants its token,
//! both media types, its session, the negotiated version and the end of the greeting before it answers anything.

mod answer;
mod asking;
pub mod authority;
mod content;
mod refusing;
mod requests;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use axum::Router;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::{broadcast, oneshot, watch};

use self::authority::{AuthorityState, SignInAuthority};
use self::requests::handle_request;
use crate::serving::RunningServer;

/// Changes that a stream of events can be behind.
const CHANGES: usize = 16;

/// The scripted answer of a tool.
#[derive(Clone, Debug)]
pub enum ToolAnswer {
    /// A result, as `tools/call` has it.
    Result(Value),
    /// A result with a single text.
    Text(String),
    /// It asks the person first, with these parameters of `elicitation/create`; its text is their answer.
    Asks(Value),
    /// The same with several questions, one after another; its text is the list of answers.
    AsksAll(Vec<Value>),
    /// An error of the protocol: `code`, `message` and `data`.
    Refuses(Value),
    /// It asks the client's model first, with each of these parameters of `sampling/createMessage` in turn; its
    /// text is the list of answers.
    Samples(Vec<Value>),
    /// No answer: the call hangs.
    Never,
    /// It hangs up in the middle of the answer.
    HangUp,
}

/// A call that reached the server.
#[derive(Clone, Debug, PartialEq)]
pub struct ReceivedCall {
    /// Name of the tool that was called.
    pub tool: String,
    /// Arguments that the call came with.
    pub arguments: Value,
}

struct PlayedServer {
    token: Mutex<Option<String>>,
    authority: Option<(Arc<AuthorityState>, OnceLock<String>)>,
    tools: Mutex<BTreeMap<String, (Value, ToolAnswer)>>,
    resources: Mutex<BTreeMap<String, String>>,
    /// Requests to the client's model with which reading such a resource begins.
    asking: Mutex<BTreeMap<String, Value>>,
    /// Calls of tools are refused like a token that is no longer good.
    refuses_calls: AtomicBool,
    /// The right that calls of tools take.
    wanted_right: Mutex<Option<String>>,
    /// Seconds after which it takes calls of tools again.
    limit: Mutex<Option<u32>>,
    /// Description that the server gives of itself.
    about: Mutex<String>,
    instructions: Mutex<Option<String>>,
    prompts: Mutex<BTreeMap<String, String>>,
    /// Sessions, with their version, and whether the greeting is over.
    sessions: Mutex<HashMap<String, (String, bool)>>,
    calls: Mutex<Vec<ReceivedCall>>,
    cancelled: Mutex<HashSet<String>>,
    lists: Mutex<usize>,
    asked_lists: Mutex<usize>,
    /// Method whose requests are not answered now.
    held: watch::Sender<Option<&'static str>>,
    /// Words with which it fails, and for how many messages.
    failing: Mutex<Option<(String, usize)>>,
    asked: Mutex<HashMap<String, oneshot::Sender<Value>>>,
    /// Capabilities of the client that greeted last.
    declared: Mutex<Value>,
    changes: broadcast::Sender<&'static str>,
}

/// A running MCP server, played by a script.
pub struct McpServer {
    state: Arc<PlayedServer>,
    running: RunningServer,
}

impl McpServer {
    /// Starts one without a tool. With a token, each request has to bear it: as its query, where it begins with `?`.
    ///
    /// # Errors
    /// When no port can be had.
    pub async fn start(token: Option<&str>) -> std::io::Result<Self> {
        Self::start_with(token, None).await
    }

    /// Starts one whose requests have to bear a token that the authority has given for it.
    ///
    /// # Errors
    /// When no port can be had.
    pub async fn start_signed(authority: &SignInAuthority) -> std::io::Result<Self> {
        Self::start_with(None, Some(authority.state())).await
    }

    async fn start_with(
        token: Option<&str>,
        authority: Option<Arc<AuthorityState>>,
    ) -> std::io::Result<Self> {
        let state = Arc::new(PlayedServer {
            token: Mutex::new(token.map(str::to_owned)),
            authority: authority.map(|authority| (authority, OnceLock::new())),
            tools: Mutex::default(),
            resources: Mutex::default(),
            asking: Mutex::default(),
            refuses_calls: AtomicBool::new(false),
            wanted_right: Mutex::default(),
            limit: Mutex::default(),
            about: Mutex::default(),
            instructions: Mutex::default(),
            prompts: Mutex::default(),
            sessions: Mutex::default(),
            calls: Mutex::default(),
            cancelled: Mutex::default(),
            lists: Mutex::default(),
            asked_lists: Mutex::default(),
            held: watch::channel(None).0,
            failing: Mutex::default(),
            declared: Mutex::default(),
            asked: Mutex::default(),
            changes: broadcast::channel(CHANGES).0,
        });
        let router = Router::new().fallback(handle_request).with_state(Arc::clone(&state));
        let running = RunningServer::start(router).await?;
        if let Some((authority, own)) = &state.authority {
            authority.protect(own.get_or_init(|| format!("{}/mcp", running.url())));
        }
        Ok(Self { state, running })
    }

    /// URL of the server's endpoint.
    #[must_use]
    pub fn url(&self) -> String {
        format!("{}/mcp", self.running.url())
    }

    /// Adds a tool, or puts it in place of the one with its name, and announces that.
    pub fn set_tool(&self, tool: Value, answer: ToolAnswer) {
        self.set_tools([(tool, answer)]);
    }

    /// Adds tools, and announces that once.
    pub fn set_tools(&self, tools: impl IntoIterator<Item = (Value, ToolAnswer)>) {
        let named = tools.into_iter().map(|(tool, answer)| {
            (tool["name"].as_str().unwrap_or_default().to_owned(), (tool, answer))
        });
        self.state.tools.lock().extend(named);
        let _ = self.state.changes.send("notifications/tools/list_changed");
    }

    /// Adds a resource with a text.
    pub fn set_resource(&self, uri: &str, text: &str) {
        self.state.resources.lock().insert(uri.to_owned(), text.to_owned());
    }

    /// Adds a resource whose reading asks the client's model first, with these parameters of
    /// `sampling/createMessage`; its text is the answer.
    pub fn set_asking_resource(&self, uri: &str, request: Value) {
        self.set_resource(uri, "");
        self.state.asking.lock().insert(uri.to_owned(), request);
    }

    /// Answers calls of tools with 401 from now on, whatever token comes with them, or no more.
    pub fn refuse_calls(&self, refuses: bool) {
        self.state.refuses_calls.store(refuses, Ordering::SeqCst);
    }

    /// Answers calls of tools with 403 from now on, unless their token gives this right.
    pub fn want_right(&self, right: &str) {
        *self.state.wanted_right.lock() = Some(right.to_owned());
    }

    /// Answers calls of tools with 429 from now on, and says after how many seconds to come again; or no more.
    pub fn limit_calls(&self, seconds: Option<u32>) {
        *self.state.limit.lock() = seconds;
    }

    /// Sets the server's description of itself, from the next session on.
    pub fn set_purpose(&self, about: &str) {
        about.clone_into(&mut self.state.about.lock());
    }

    /// Adds a prompt with a text, in which `{topic}` is its argument.
    pub fn set_prompt(&self, name: &str, text: &str) {
        self.state.prompts.lock().insert(name.to_owned(), text.to_owned());
    }

    /// Wants another token from now on.
    pub fn set_token(&self, token: &str) {
        *self.state.token.lock() = Some(token.to_owned());
    }

    /// Answers so many messages with a status 500 and these words.
    pub fn fail(&self, words: &str, messages: usize) {
        *self.state.failing.lock() = (messages > 0).then(|| (words.to_owned(), messages));
    }

    /// True until it has failed as often as it should.
    #[must_use]
    pub fn is_failing(&self) -> bool {
        self.state.failing.lock().is_some()
    }

    /// Calls of tools that it received, oldest first.
    #[must_use]
    pub fn calls(&self) -> Vec<ReceivedCall> {
        self.state.calls.lock().clone()
    }

    /// Requests that were taken back.
    #[must_use]
    pub fn cancelled(&self) -> usize {
        self.state.cancelled.lock().len()
    }

    /// Number of sessions that are open.
    #[must_use]
    pub fn sessions(&self) -> usize {
        self.state.sessions.lock().len()
    }

    /// First pages of its list of tools that were read.
    #[must_use]
    pub fn lists(&self) -> usize {
        *self.state.lists.lock()
    }
}
