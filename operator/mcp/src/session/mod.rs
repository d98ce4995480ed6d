//! A session with one server: from its greeting to its end.

mod handler;
mod input;
mod lists;
mod request;
mod sampling;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use http::HeaderMap;
use rmcp::model::{ClientCapabilities, ClientConfig, Implementation, ProtocolVersion};
use rmcp::service::{
    ClientInitializeError, ClientLifecycleMode, RunningService, serve_client_with_lifecycle,
};
use rmcp::transport::common::client_side_sse::ExponentialBackoff;
use rmcp::transport::streamable_http_client::{
    StreamableHttpClientTransportConfig, StreamableHttpClientWorker,
};
use rmcp::transport::{Transport, WorkerTransport};
use rmcp::{Peer, RoleClient};
use serde_json::{Map, Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Mutex;
use tokio::task::JoinHandle;
use url::Url;

pub use handler::{QuestionAnswer, QuestionHandler, ServerQuestion};
use handler::{ServerAnswers, SessionHandler};
pub use lists::{ListedItems, ListedPrompt, ListedResource, PromptArgument, ResourceTemplate};
pub use request::ToolCall;
pub use sampling::{
    SampledAnswer, SamplingHandler, SamplingRefusal, SamplingRequest, SamplingSpeaker,
};

use crate::error::McpError;
use crate::events::{EventStream, open_events};
use crate::limits::SessionLimits;
use crate::wire::events_http::EventsTransport;
use crate::wire::http::HttpChannel;
use crate::wire::{HttpDialer, Intake, PipeTransport, STATELESS, ServerGreeting, read_error_lines};

/// Calls that one session may have under way over HTTP; more wait.
const CONCURRENT: usize = 128;
/// JSON-RPC's code of servers that know no `initialize`, and the versions that have none.
const OTHER_VERSION: i64 = -32_022;
const WITHOUT_START: &str = "2026-07-28 or newer";
/// Version of servers that refuse 2026-07-28, too.
const OTHER_STATELESS: &str = "newer than 2026-07-28";
/// Wait for the last words of a server that ended.
const LAST_WORDS: std::time::Duration = std::time::Duration::from_millis(500);
/// Longest wait before a stream of events is opened again.
const LONGEST_WAIT: std::time::Duration = std::time::Duration::from_secs(30);

/// Transport to a server.
pub enum ServerLink {
    /// A pair of byte streams with a message in each line. Ending the process behind it is up to the caller.
    Pipe {
        /// Output of the server, which is read.
        reader: Box<dyn AsyncRead + Send + Unpin>,
        /// Input of the server, which is written.
        writer: Box<dyn AsyncWrite + Send + Unpin>,
        /// Standard error of the server, where there is one.
        errors: Option<Box<dyn AsyncRead + Send + Unpin>>,
    },
    /// Streamable HTTP, and where the server does not speak it, the older form with server-sent events.
    Http {
        /// Client that sends the requests.
        dialer: Arc<dyn HttpDialer>,
        /// URL of the server's endpoint.
        url: Url,
        /// Sent with each request to the server's origin, and nowhere else.
        headers: HeaderMap,
    },
}

/// Capabilities that a server is told of, of those that there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeclaredCapabilities {
    /// All, as the newest version of the protocol has them.
    #[default]
    All,
    /// All, in the form of older versions.
    Plain,
    /// Those of the oldest version alone.
    Least,
}

impl DeclaredCapabilities {
    /// A form that stricter servers take.
    pub const fn plainer(self) -> Option<Self> {
        match self {
            Self::All => Some(Self::Plain),
            Self::Plain => Some(Self::Least),
            Self::Least => None,
        }
    }
}

/// Options for a new session.
#[derive(Clone, Default)]
pub struct SessionSetup {
    /// Name of this client, for the server's log.
    pub client_name: String,
    /// Version of this client, for the server's log.
    pub client_version: String,
    /// Folders that the server may use, as `file:` URLs. Without any, the capability is not declared.
    pub roots: Vec<Url>,
    /// Takes the server's questions to people. Without it, the capability is not declared.
    pub questions: Option<Arc<dyn QuestionHandler>>,
    /// Answers the server's requests for a model's answer. Without it, the capability is not declared.
    pub sampling: Option<Arc<dyn SamplingHandler>>,
    /// Form in which all of that is declared. Over HTTP a plainer one is tried where the server refuses it; behind a pipe
    /// that takes a new link.
    pub declares: DeclaredCapabilities,
    /// True for a server that knows no `initialize`. Over HTTP that is found out; behind a pipe it takes a new link.
    pub is_stateless: bool,
    /// Limits of time and size for its messages.
    pub limits: SessionLimits,
}

/// A server's description of itself. All of it is untrusted.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerFacts {
    /// Version of the protocol that both speak.
    pub protocol: String,
    /// The server's name for itself.
    pub name: String,
    /// Version of the server; empty where it says none.
    pub version: String,
    /// Purpose of the server; empty where it says none.
    pub about: String,
    /// Instructions for its use.
    pub instructions: Option<String>,
    capabilities: Map<String, Value>,
}

impl ServerFacts {
    fn new(greeting: ServerGreeting) -> Self {
        let ServerGreeting { protocol, name, version, about, instructions, capabilities } =
            greeting;
        Self { protocol, name, version, about, instructions, capabilities }
    }

    /// Its purpose in a few words: its own description, or else the beginning of its instructions.
    pub fn purpose(&self) -> &str {
        let about = self.about.trim();
        if !about.is_empty() {
            return about;
        }
        let text = self.instructions.as_deref().unwrap_or_default();
        let lines = text.lines().map(|line| line.trim_start_matches(['#', ' ']).trim());
        let line = lines.into_iter().find(|line| !line.is_empty()).unwrap_or_default();
        line.split_inclusive(". ").next().unwrap_or_default().trim()
    }

    /// True if it declares that it announces changes of `tools`, `resources` or `prompts`.
    fn declares_changes(&self, capability: &str) -> bool {
        let declared = self.capabilities.get(capability);
        declared.and_then(|declared| declared.get("listChanged")) == Some(&Value::Bool(true))
    }

    /// True if it declares `tools`, `resources`, `prompts`, `logging` or `completions`.
    pub fn has(&self, capability: &str) -> bool {
        // Some servers write `true`, and some null, where the protocol has an object.
        self.capabilities.get(capability).is_some_and(|value| *value != Value::Bool(false))
    }
}

/// A session. Dropping it ends it without a word; [`ServerSession::close`] is the polite way.
pub struct ServerSession {
    facts: ServerFacts,
    peer: Peer<RoleClient>,
    running: Mutex<Option<RunningService<RoleClient, SessionHandler>>>,
    questions: Option<Arc<dyn QuestionHandler>>,
    answers: Arc<ServerAnswers>,
    /// Reads its standard error, where there is one.
    errors: Mutex<Option<JoinHandle<()>>>,
    intake: Arc<Intake>,
    limits: SessionLimits,
}

impl std::fmt::Debug for ServerSession {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerSession").field("facts", &self.facts).finish_non_exhaustive()
    }
}

impl ServerSession {
    /// Greets the server. The stream has what the server does by itself; it has to be read, or it forgets the oldest.
    pub async fn open(
        link: ServerLink,
        setup: SessionSetup,
    ) -> Result<(Self, EventStream), McpError> {
        let (sink, stream) = open_events(setup.limits.events);
        let intake = Arc::new(Intake::new(sink.clone(), setup.limits.server_requests));
        let limit = setup.limits.start;
        let greeting = greet_server(link, &setup, &intake);
        let opened = match tokio::time::timeout(limit, greeting).await {
            Ok(opened) => opened,
            Err(_) => Err(McpError::StartTimeout { limit, said: sink.last_words() }),
        };
        let opened = match (opened, intake.strange_version()) {
            (Err(_), Some(version)) => Err(McpError::Version(version)),
            (opened, _) => opened,
        };
        let (running, errors) = opened.inspect_err(|_| sink.close())?;
        let facts = ServerFacts::new(intake.greeting().unwrap_or_default());
        let (peer, answers) = (running.peer().clone(), Arc::clone(&running.service().answers));
        let session = Self {
            facts,
            peer,
            answers,
            running: Mutex::new(Some(running)),
            questions: setup.questions,
            errors: Mutex::new(errors),
            intake,
            limits: setup.limits,
        };
        Ok((session, stream))
    }

    /// The server's description of itself.
    pub fn facts(&self) -> &ServerFacts {
        &self.facts
    }

    /// True if it announces changes of a list, and has a way on which that is heard: over HTTP it needs a stream of its
    /// own for them, which not every server has.
    pub fn announces_changes(&self, capability: &str) -> bool {
        !self.is_stateless()
            && self.facts.declares_changes(capability)
            && self.intake.is_heard.load(Ordering::SeqCst)
    }

    /// True where each request stands for itself: the server can ask and announce nothing outside of its answers.
    fn is_stateless(&self) -> bool {
        self.facts.protocol == STATELESS
    }

    /// Time limit of one page of a list.
    pub fn page_limit(&self) -> std::time::Duration {
        self.limits.request.max(self.limits.call_idle)
    }

    /// True if the connection is gone.
    pub fn is_closed(&self) -> bool {
        self.peer.is_transport_closed()
    }

    /// A server's last words can come after its end.
    async fn await_last_words(&self) {
        let mut errors = self.errors.lock().await;
        if let Some(reading) = errors.as_mut() {
            let _ = tokio::time::timeout(LAST_WORDS, reading).await;
            *errors = None;
        }
    }

    /// Ends the session: over HTTP with a DELETE, a pipe by closing it.
    pub async fn close(&self) {
        let running = self.running.lock().await.take();
        if let Some(mut running) = running {
            let _ = running.close_with_timeout(self.limits.close).await;
        }
        self.intake.events.close();
    }
}

/// A session's service, and what reads the server's standard error.
type GreetedServer = (RunningService<RoleClient, SessionHandler>, Option<JoinHandle<()>>);

async fn greet_server(
    link: ServerLink,
    setup: &SessionSetup,
    intake: &Arc<Intake>,
) -> Result<GreetedServer, McpError> {
    let message_bytes = setup.limits.message_bytes;
    let (dialer, url, headers) = match link {
        ServerLink::Pipe { reader, writer, errors } => {
            let errors = errors.map(|errors| read_error_lines(errors, &intake.events));
            let transport = PipeTransport::start(reader, writer, Arc::clone(intake), message_bytes);
            return match (serve(transport, setup, intake).await, errors) {
                // The server's last words may come after its end.
                (Err(McpError::EndedAtStart { .. }), Some(reading)) => {
                    let _ = tokio::time::timeout(LAST_WORDS, reading).await;
                    Err(McpError::EndedAtStart { said: intake.events.last_words() })
                }
                (opened, errors) => opened.map(|running| (running, errors)),
            };
        }
        ServerLink::Http { dialer, url, headers } => (dialer, url, headers),
    };
    let mut setup = setup.clone();
    let channel = || HttpChannel {
        dialer: Arc::clone(&dialer),
        headers: headers.clone(),
        intake: Arc::clone(intake),
        message_bytes,
        is_bad_request: Arc::default(),
    };
    loop {
        let error = match greet_http(channel(), &url, &setup, intake).await {
            Ok(greeted) if may_ask_only_stateless(&setup, intake) => {
                let trying = Box::pin(try_stateless(channel(), &url, setup, intake));
                return Ok(trying.await.unwrap_or(greeted));
            }
            Ok(greeted) => return Ok(greeted),
            Err(error) => error,
        };
        match setup.declares.plainer().filter(|_| error.refuses_capabilities()) {
            Some(plainer) => setup.declares = plainer,
            None if error.may_be_stateless() || intake.strange_version().is_some() => {
                // What it said first is the better reason.
                let trying = Box::pin(try_stateless(channel(), &url, setup, intake));
                return trying.await.ok_or(error);
            }
            None => return Err(error),
        }
    }
}

/// True for a remote server without sessions: the same SDKs speak the newer version at the same address, and only there
/// can such a server ask people or models.
fn may_ask_only_stateless(setup: &SessionSetup, intake: &Intake) -> bool {
    let has_way =
        intake.has_session.load(Ordering::SeqCst) || intake.is_heard.load(Ordering::SeqCst);
    !setup.is_stateless && !has_way && (setup.questions.is_some() || setup.sampling.is_some())
}

/// Speaks to a remote server in the version without sessions, if it knows it.
async fn try_stateless(
    channel: HttpChannel,
    url: &Url,
    mut setup: SessionSetup,
    intake: &Arc<Intake>,
) -> Option<GreetedServer> {
    setup.is_stateless = true;
    let transport = WorkerTransport::spawn(http_worker(channel, url, &setup));
    let greeting = serve(transport, &setup, intake);
    // A server may leave a request unanswered that it does not know.
    let greeted = tokio::time::timeout(setup.limits.start / 3, greeting).await;
    greeted.ok()?.ok().map(|running| (running, None))
}

/// The SDK's side of streamable HTTP.
fn http_worker(
    channel: HttpChannel,
    url: &Url,
    setup: &SessionSetup,
) -> StreamableHttpClientWorker<HttpChannel> {
    let mut config = StreamableHttpClientTransportConfig::with_uri(url.as_str())
        .max_concurrent_requests(CONCURRENT)
        .session_recovery_timeout(setup.limits.request);
    let mut backoff = ExponentialBackoff::default();
    backoff.max_delay = Some(LONGEST_WAIT);
    config.retry_config = Arc::new(backoff);
    config.max_sse_event_size = channel.message_bytes;
    config.max_json_response_size = channel.message_bytes;
    StreamableHttpClientWorker::new(channel, config)
}

async fn greet_http(
    channel: HttpChannel,
    url: &Url,
    setup: &SessionSetup,
    intake: &Arc<Intake>,
) -> Result<GreetedServer, McpError> {
    let is_bad_request = Arc::clone(&channel.is_bad_request);
    let worker = http_worker(channel.clone(), url, setup);
    let first = serve(WorkerTransport::spawn(worker), setup, intake).await;
    let may_be_older = match &first {
        // It has read the greeting.
        Err(error) if error.refuses_capabilities() => false,
        // Servers of the older form know no POST here. Some refuse it with an error of the protocol.
        Err(McpError::Status { status: 400 | 404 | 405, .. }) => true,
        Err(McpError::Refused { .. }) => is_bad_request.load(Ordering::SeqCst),
        _ => false,
    };
    if !may_be_older {
        return first.map(|running| (running, None));
    }
    // A server of the newer form may open a stream that never names an address.
    let opening = EventsTransport::open(channel, url);
    match tokio::time::timeout(setup.limits.start / 3, opening).await {
        Ok(Ok(transport)) => serve(transport, setup, intake).await.map(|running| (running, None)),
        // The answer to the newer form is the better reason, unless a sign-in can help.
        Ok(Err(fault)) if fault.is_about_credentials() => Err(fault.into()),
        Ok(Err(_)) | Err(_) => first.map(|running| (running, None)),
    }
}

async fn serve<T>(
    transport: T,
    setup: &SessionSetup,
    intake: &Arc<Intake>,
) -> Result<RunningService<RoleClient, SessionHandler>, McpError>
where
    T: Transport<RoleClient> + 'static,
{
    let handler = SessionHandler::new(setup, client_config(setup)?, intake);
    let lifecycle = if setup.is_stateless {
        ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] }
    } else {
        ClientLifecycleMode::Initialize
    };
    let serving = serve_client_with_lifecycle(handler, transport, lifecycle);
    serving.await.map_err(|error| read_start_error(error, intake))
}

fn client_config(setup: &SessionSetup) -> Result<ClientConfig, McpError> {
    let mut capabilities = json!({});
    if !setup.roots.is_empty() {
        capabilities["roots"] = json!({});
    }
    match setup.declares {
        _ if setup.questions.is_none() => {}
        DeclaredCapabilities::All => {
            capabilities["elicitation"] = json!({"form": {}, "url": {}});
        }
        DeclaredCapabilities::Plain => capabilities["elicitation"] = json!({}),
        DeclaredCapabilities::Least => {}
    }
    if setup.sampling.is_some() {
        capabilities["sampling"] = json!({});
    }
    let capabilities: ClientCapabilities =
        serde_json::from_value(capabilities).map_err(|error| McpError::Unreadable {
            method: "initialize".to_owned(),
            reason: error.to_string(),
        })?;
    let client = Implementation::new(setup.client_name.clone(), setup.client_version.clone());
    Ok(ClientConfig::new(capabilities, client).with_protocol_version(ProtocolVersion::V_2025_11_25))
}

fn read_start_error(error: ClientInitializeError, intake: &Intake) -> McpError {
    match error {
        ClientInitializeError::TransportError { error, .. } => {
            request::read_transport_error(&*error.error)
                .unwrap_or_else(|| McpError::EndedAtStart { said: intake.events.last_words() })
        }
        ClientInitializeError::JsonRpcError(error) if i64::from(error.code.0) == OTHER_VERSION => {
            McpError::Version(WITHOUT_START.to_owned())
        }
        ClientInitializeError::NoCompatibleProtocolVersion { .. } => {
            McpError::Version(OTHER_STATELESS.to_owned())
        }
        ClientInitializeError::JsonRpcError(error) => {
            McpError::Refused { code: i64::from(error.code.0), message: error.message.into_owned() }
        }
        ClientInitializeError::ConnectionClosed(_)
        | ClientInitializeError::ExpectedInitResponse(None) => {
            McpError::EndedAtStart { said: intake.events.last_words() }
        }
        other => {
            let reason = crate::events::cut_text(&other.to_string());
            McpError::Unreadable { method: "initialize".to_owned(), reason }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_purpose_is_what_a_server_says_of_itself_or_begins_its_instructions_with() {
        let purpose = |about: &str, instructions: Option<&str>| {
            let greeting = ServerGreeting {
                protocol: String::new(),
                name: "x".to_owned(),
                version: String::new(),
                about: about.to_owned(),
                instructions: instructions.map(str::to_owned),
                capabilities: Map::new(),
            };
            ServerFacts::new(greeting).purpose().to_owned()
        };
        assert_eq!(purpose(" Issues. ", Some("Use it well.")), "Issues.");
        let long = "\n# Tracker of issues. Call `search` first.\nMore.";
        assert_eq!(purpose("", Some(long)), "Tracker of issues.");
        assert_eq!(purpose("", Some("one line")), "one line");
        assert_eq!(purpose("", None), "");
    }
}
