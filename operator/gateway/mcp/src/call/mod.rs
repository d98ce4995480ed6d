//! A call of a tool: checked, approved, counted, sent once, and put on record.

mod approval;
mod book;
mod forms;
mod price;
mod record;
mod usage;

use std::sync::Arc;
use std::time::{Duration, Instant};

use codebutler_crds::ThreadStatus;
use codebutler_crds::wire::{ErrorCode, MCP_PREFIX, McpCall, McpResult};
use codebutler_gateway_core::api_error::ApiError;
use codebutler_gateway_core::caller::ProvenCaller;
use codebutler_gateway_core::consent::{ConsentStanding, SpentYes};
use codebutler_gateway_core::thread_key::ThreadKey;
use codebutler_gateway_core::threads::explain_unwritten;
use codebutler_mcp::tools::{ServerTool, ToolRisk, name_tool, restore_arguments};
use codebutler_mcp::{McpError, ToolCall};
use kube::ResourceExt as _;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use self::approval::MOST_CHARS;
pub use self::approval::{CallApproval, WantedCall, approve_call, pin_scope};
pub use self::book::CallBook;
use self::book::{CallEnd, CallKey, NewCall};
pub use self::forms::ToolForms;
pub use self::price::PricedCall;
pub use self::record::{CallTaken, SentCall, record_call};
use self::usage::{CallStart, KeptForm, begin_call, check_start, mark_key, see_tool};
use super::McpServers;
use super::access::{RoleServer, RoleServers};
use super::answer::{AnswerSource, hand_on};
use super::link::LinkError;
use super::masking::{WordGuard, describe_nulls};
use super::offer::{choose_dialect, judge_tool};
use super::progress::{watch_call, watch_start};
use super::refusal::{McpRefusal, closest_names};
use super::sessions::{SessionUse, is_sign_in};
use super::turned_away::refuse_request;

/// Longest idempotency key of a call, in bytes.
const KEY: usize = 200;
/// Steps of progress that wait to be shown.
const STEPS: usize = 8;
/// Characters of the line about a start.
const START: usize = 160;
/// The wait of a call for a list of tools that has to be read anew.
const LISTED: Duration = Duration::from_secs(10);
/// Said with the first result of a server that begins anew.
const RENEWED: &str = "The server was started anew since it was last used: what it remembered of earlier calls, such as an open page or \
                       a sign-in, is gone";
/// Most bytes of a call's arguments.
const ARGUMENTS: usize = 1 << 20;

/// A call that has passed all checks and may be sent.
struct ReadyCall {
    open: SessionUse,
    tool: ServerTool,
    arguments: Map<String, Value>,
    guard: WordGuard,
    approval: CallApproval,
    priced: PricedCall,
    reads: bool,
}

/// A call of a caller, on its way.
struct CallRun {
    servers: Arc<McpServers>,
    caller: ProvenCaller,
    server: RoleServer,
    call: McpCall,
    arguments: Map<String, Value>,
    cancel: CancellationToken,
}

/// Carries out a call, or answers with the result of the one that has the same key.
///
/// # Errors
/// A sentence for the model.
pub async fn call_tool(
    servers: &Arc<McpServers>,
    caller: ProvenCaller,
    call: McpCall,
) -> Result<McpResult, ApiError> {
    let arguments = check_call(&call)?;
    let server = find_server(servers, &caller, &call.tool).await?;
    let key = CallKey {
        thread: caller.key(),
        uid: caller.thread.uid().unwrap_or_default(),
        role: caller.role_name().to_owned(),
        key: call.key.clone(),
    };
    let digest = hex::encode(Sha256::digest(json!([call.tool, call.arguments]).to_string()));
    let joined = servers.calls.join(&key, &digest);
    let (waiter, new) = joined.map_err(|_| {
        McpRefusal::Invalid(
            "this key stands for another call: a new call needs a key of its own".into(),
        )
    })?;
    if let Some(new) = new {
        let run = CallRun {
            servers: Arc::clone(servers),
            caller,
            server,
            call,
            arguments,
            cancel: new.cancel.clone(),
        };
        drop(servers.tasks.spawn(run.run(key, new)));
    }
    waiter.end().await.unwrap_or_else(|| {
        Err(ApiError::new(ErrorCode::Unavailable, "another gateway takes over: try again"))
    })
}

fn check_call(call: &McpCall) -> Result<Map<String, Value>, McpRefusal> {
    let invalid = |text: &str| McpRefusal::Invalid(text.to_owned());
    if call.key.is_empty() || call.key.len() > KEY {
        return Err(invalid("`key` has to have 1 to 200 characters"));
    }
    if call.arguments.to_string().len() > ARGUMENTS {
        return Err(invalid("the arguments are longer than 1 MiB: send less"));
    }
    match &call.arguments {
        Value::Object(arguments) => Ok(arguments.clone()),
        Value::Null => Ok(Map::new()),
        _ => Err(invalid("`arguments` has to be an object")),
    }
}

/// The server of a tool, if the caller's role has it.
async fn find_server(
    servers: &McpServers,
    caller: &ProvenCaller,
    tool: &str,
) -> Result<RoleServer, McpRefusal> {
    let forbidden = || McpRefusal::Forbidden {
        role: caller.role_name().to_owned(),
        what: format!("the tool `{}`", tool.chars().take(100).collect::<String>()),
    };
    if !tool.starts_with(MCP_PREFIX) {
        return Err(McpRefusal::Invalid(
            "`tool` begins with `mcp__` and the name of a server".into(),
        ));
    }
    let role = RoleServers::of(servers, caller).await.ok_or_else(forbidden)?;
    let server = role.server_of(tool).cloned().ok_or_else(forbidden)?;
    if role.rights.allows(tool) { Ok(server) } else { Err(forbidden()) }
}

impl CallRun {
    async fn run(self, key: CallKey, new: NewCall) {
        let prepared =
            self.cancel.clone().run_until_cancelled_owned(Box::pin(self.prepare())).await;
        let end = match prepared {
            Some(Ok(ready)) => self.send(ready).await,
            Some(Err(error)) => CallEnd::Refused(error),
            None => {
                CallEnd::Refused(ApiError::new(ErrorCode::Unavailable, "the call was cancelled"))
            }
        };
        if matches!(end, CallEnd::Refused(_)) {
            self.servers.metrics.mcp_call(
                &self.caller.repo,
                &self.server.place.spec.name,
                "refused",
            );
        }
        self.servers.calls.finish(&key, &new, end);
    }

    fn name(&self) -> &str {
        &self.server.place.spec.name
    }

    /// Runs all checks that come before the call is sent.
    async fn prepare(&self) -> Result<ReadyCall, ApiError> {
        let Self { servers, caller, call, .. } = self;
        let redactor = servers.outcomes.redactor(caller).await?;
        let plain = WordGuard::new(redactor.clone(), &[]);
        if plain.finds_secret(&call.arguments) {
            return Err(McpRefusal::Secret(call.tool.clone()).into());
        }
        let away = |error: &dyn std::fmt::Display| {
            let secrets = servers.sessions.known_secrets(&self.server.place);
            let why = WordGuard::new(redactor.clone(), &secrets).error(error);
            McpRefusal::Away { server: self.name().to_owned(), why }
        };
        let (open, tool, names) = match self.find_tool(&plain).await {
            Ok(found) => found,
            Err(error) => {
                servers.sessions.post_trouble(&self.server.place, &error);
                let secrets = servers.sessions.known_secrets(&self.server.place);
                let guard = WordGuard::new(redactor.clone(), &secrets);
                return Err(self.refuse_away(&error, &guard).await);
            }
        };
        let guard = WordGuard::new(redactor.clone(), &open.secrets());
        let Some(tool) = tool else {
            let closest = closest_names(&call.tool, names.iter().map(String::as_str));
            return Err(McpRefusal::Unknown { name: call.tool.clone(), closest }.into());
        };
        let dialect = choose_dialect(caller);
        let restored = restore_arguments(&tool.input_schema, self.arguments.clone(), dialect);
        let arguments = Value::Object(restored.clone());
        // Parsing a text as JSON may have uncovered a secret that was escaped in it.
        if plain.finds_secret(&arguments) {
            return Err(McpRefusal::Secret(call.tool.clone()).into());
        }
        let judged = judge_tool(&tool, &self.server.place.spec);
        let judged = judged.map_err(|error| away(&error))?;
        let length =
            || serde_json::to_string_pretty(&arguments).map_or(0, |text| text.chars().count());
        if judged.risk == ToolRisk::AsksAlways && length() > MOST_CHARS {
            let text = format!(
                "people have to read the arguments of `{}` before it runs, and these are longer than {MOST_CHARS} \
                 characters: send less at once",
                call.tool
            );
            return Err(McpRefusal::Invalid(text).into());
        }
        let reads = judged.risk == ToolRisk::Runs;
        // People are asked about nothing that can't happen.
        self.check(reads)?;
        let wanted = WantedCall {
            name: &call.tool,
            server: self.name(),
            tool: &tool,
            arguments: &arguments,
            pin: pin_scope(&self.server.place.spec),
            judged: &judged,
            guard: &guard,
            is_reading: false,
        };
        let approval = approve_call(servers, caller, &wanted).await?;
        // A call that there is no money for leaves no key behind: it can be made once there is.
        let spec = &self.server.place.spec;
        let priced = PricedCall::grant(&servers.models, caller, spec, &call.tool).await?;
        self.begin(reads, approval.form.as_ref()).await?;
        Ok(ReadyCall { open, tool, arguments: restored, guard, approval, priced, reads })
    }

    /// The session, and the tool as its server describes it now; else the names of those that it has.
    async fn find_tool(
        &self,
        plain: &WordGuard,
    ) -> Result<(SessionUse, Option<ServerTool>, Vec<String>), Arc<LinkError>> {
        let place = &self.server.place;
        let sessions = &self.servers.sessions;
        let find_start = || {
            let waits = sessions.start_of(place)?;
            Some(plain.line(&format!("{} is starting: {waits}", self.name()), START))
        };
        let (people, opening) =
            (&self.servers.people, Box::pin(sessions.open_listed(place, LISTED)));
        let (open, list) = watch_start(people, &self.caller, find_start, opening).await?;
        let list = list.map_err(|error| Arc::new(LinkError::of_session(error, &place.spec)))?;
        let usable = || list.tools.iter().filter(|tool| self.server.filter.allows(&tool.name));
        let full_name = |tool: &ServerTool| name_tool(self.name(), &tool.name);
        let tool = usable().find(|tool| full_name(tool) == self.call.tool).cloned();
        let others = if tool.is_none() { usable().map(full_name).collect() } else { Vec::new() };
        Ok((open, tool, others))
    }

    fn mark(&self, reads: bool) -> Option<String> {
        (!reads).then(|| mark_key(self.caller.role_name(), &self.call.key))
    }

    fn check(&self, reads: bool) -> Result<(), McpRefusal> {
        let thread = self.caller.thread.clone();
        let thread = self.servers.threads.freshest(&self.caller.key(), Some(thread));
        let status = thread.as_ref().and_then(|thread| thread.status.as_ref());
        let (mark, most) = (self.mark(reads), self.server.place.spec.max_calls);
        self.started(check_start(status, self.name(), mark.as_deref(), most))
    }

    fn started(&self, start: CallStart) -> Result<(), McpRefusal> {
        match start {
            CallStart::Begins => Ok(()),
            CallStart::Repeated => Err(McpRefusal::Repeated(self.call.tool.clone())),
            CallStart::UsedUp => Err(McpRefusal::UsedUp {
                server: self.name().to_owned(),
                most: self.server.place.spec.max_calls.unwrap_or_default(),
            }),
        }
    }

    /// Counts the call, and keeps the tool's form where it is new, and that the call was begun if it may change
    /// something.
    async fn begin(&self, reads: bool, form: Option<&KeptForm>) -> Result<(), ApiError> {
        let (servers, thread, most) =
            (&self.servers, self.caller.key(), self.server.place.spec.max_calls);
        let mark = self.mark(reads);
        if reads && most.is_none() && form.is_none() {
            count_later(servers, thread, self.name());
            return Ok(());
        }
        let count = |status: &mut ThreadStatus| {
            let start = begin_call(status, self.name(), mark.as_deref(), most);
            if let Some(form) = form.filter(|_| start == CallStart::Begins) {
                see_tool(status, self.name(), form);
            }
            Ok(start)
        };
        let counted = servers.threads.try_update(&thread, count).await;
        let (_, start) = counted.map_err(|error| explain_unwritten(&error))?;
        Ok(self.started(start)?)
    }

    /// Sends it. From here on it may have run, whatever comes back.
    async fn send(&self, ready: ReadyCall) -> CallEnd {
        let ReadyCall { open, tool, arguments, guard, approval, mut priced, reads } = ready;
        let recorded = json!(arguments).to_string();
        // A call that changes something may have been meant to empty it.
        let nulls = describe_nulls(&self.arguments, &arguments).filter(|_| !reads);
        let mut used_yes = None;
        if let Some(standing) = approval.standing {
            // Spent before the call is sent: an approval is for one call, even if its answer is lost.
            match self.servers.consent.spend(&self.caller, &standing).await.require() {
                Ok(spent) => used_yes = (spent == SpentYes::Now).then_some(standing),
                Err(error) => return CallEnd::Sent(Err(error)),
            }
        }
        let begun = Instant::now();
        let (sender, steps) = mpsc::channel(STEPS);
        let request = ToolCall {
            name: tool.name.clone(),
            arguments,
            progress: Some(sender),
            cancel: self.cancel.clone(),
        };
        priced.send();
        let mark = open.begin_call(&self.caller, &guard);
        let calling = Box::pin(open.session().call_tool(request));
        let people = &self.servers.people;
        let answer = watch_call(people, &self.caller, &guard, calling, steps).await;
        let model = mark.end();
        let took = begun.elapsed();
        let is_cancelled = matches!(answer, Err(McpError::Cancelled(_)));
        let price = priced.end(&self.servers.models, &self.caller, answer.as_ref().err());
        if let Err(error) = &answer
            && (error.is_lost_connection() || is_sign_in(error))
        {
            self.servers.sessions.drop_session(&open);
        }
        let source = AnswerSource { server: self.name(), tool: &tool.name, key: &self.call.key };
        let mut outcome = match answer {
            Ok(result) => {
                let handing = hand_on(&self.servers, &self.caller, &guard, &source, result);
                Ok(Box::pin(handing).await)
            }
            Err(error) if error.is_answer() => {
                let text = guard.text(&error.to_string());
                Ok(McpResult { text, failed: true, ..McpResult::default() })
            }
            Err(error) => Err(self.no_result(error, &guard, reads, used_yes.as_ref()).await),
        };
        if let Ok(result) = &mut outcome {
            result.notes.extend(nulls);
            result.notes.extend(open.take_renewal().then(|| RENEWED.to_owned()));
        }
        let sent = SentCall {
            key: &self.call.key,
            server: self.name(),
            tool: &tool.name,
            arguments: recorded,
            approved_by: approval.by,
            model,
            price,
        };
        let taken = CallTaken::of(outcome.as_ref().ok(), is_cancelled, took);
        record_call(&self.servers, &self.caller, &guard, &sent, &taken);
        CallEnd::Sent(outcome)
    }

    /// The server can't be used now.
    async fn refuse_away(&self, error: &LinkError, guard: &WordGuard) -> ApiError {
        let (servers, caller, place) = (&self.servers, &self.caller, &self.server.place);
        refuse_request(servers, caller, place, (self.call.tool.as_str(), error), guard).await.into()
    }

    /// `used_yes`: the yes that this call has used up.
    async fn no_result(
        &self,
        error: McpError,
        guard: &WordGuard,
        reads: bool,
        used_yes: Option<&ConsentStanding>,
    ) -> ApiError {
        let error = LinkError::of_session(error, &self.server.place.spec);
        // The server has refused it before it looked at it: the yes is for a call that runs.
        if error.is_turned_away() {
            if let Some(standing) = used_yes {
                self.servers.consent.restore(&self.caller, standing).await;
            }
            self.servers.sessions.post_trouble(&self.server.place, &error);
            return self.refuse_away(&error, guard).await;
        }
        let tool = self.call.tool.clone();
        McpRefusal::NoResult { tool, why: guard.error(&error), reads }.into()
    }
}

/// Counts a call that nothing depends on: it does not wait for that.
fn count_later(servers: &Arc<McpServers>, thread: ThreadKey, name: &str) {
    let (own, name) = (Arc::clone(servers), name.to_owned());
    drop(servers.tasks.spawn(async move {
        let count = |status: &mut ThreadStatus| {
            begin_call(status, &name, None, None);
        };
        if let Err(error) = own.threads.update(&thread, count).await {
            tracing::warn!(%error, thread = thread.name, part = "tool_calls", "thread_status_write_failed");
        }
    }));
}

/// Passes while the budget of calls is not used up.
///
/// # Errors
/// When it is.
pub fn check_reading(
    servers: &McpServers,
    caller: &ProvenCaller,
    server: &RoleServer,
) -> Result<(), McpRefusal> {
    let spec = &server.place.spec;
    let thread = servers.threads.freshest(&caller.key(), Some(caller.thread.clone()));
    let status = thread.as_ref().and_then(|thread| thread.status.as_ref());
    match (check_start(status, &spec.name, None, spec.max_calls), spec.max_calls) {
        (CallStart::UsedUp, Some(most)) => {
            Err(McpRefusal::UsedUp { server: spec.name.clone(), most })
        }
        _ => Ok(()),
    }
}

/// Counts the reading of a resource or a prompt like a call.
///
/// # Errors
/// When the budget of calls is used up.
pub async fn begin_reading(
    servers: &Arc<McpServers>,
    caller: &ProvenCaller,
    server: &RoleServer,
) -> Result<(), ApiError> {
    let spec = &server.place.spec;
    let Some(most) = spec.max_calls else {
        count_later(servers, caller.key(), &spec.name);
        return Ok(());
    };
    let count = |status: &mut ThreadStatus| Ok(begin_call(status, &spec.name, None, Some(most)));
    let counted = servers.threads.try_update(&caller.key(), count).await;
    match counted.map_err(|error| explain_unwritten(&error))?.1 {
        CallStart::Begins => Ok(()),
        _ => Err(McpRefusal::UsedUp { server: spec.name.clone(), most }.into()),
    }
}
