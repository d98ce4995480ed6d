//! Slack: the only part that talks to it. Messages and clicks come in over Socket Mode, become
//! marks on Threads and are acknowledged; roles read and post through the Web API.
//!
//! From below, and nothing imports what is above it: [`api`] has the calls and sockets, [`people`] who may do what,
//! [`text`] what messages say, [`questions`] what people are asked with buttons, [`outbound`] what goes out,
//! [`inbound`] what comes in and what it means for a Thread, and [`upkeep`] what has to happen without anybody
//! saying a word. All of them share [`inner`].

mod api;
mod background;
mod bounded_memory;
#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod hostile;
mod inbound;
mod inner;
mod leading;
pub mod metrics;
mod outbound;
mod people;
pub mod questions;
mod services;
mod text;
mod upkeep;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use codebutler_crds::wire::{
    ApprovalReply, ApprovalRequest, ErrorCode, PostMessage, PostedMessage, RoleInbox, RunProgress,
    VersionedInbox,
};
use codebutler_crds::{Repo, SlackTs, Thread, ThreadStatus};
use codebutler_gateway_core::api_error::ApiError;
use codebutler_gateway_core::caller::ProvenCaller;
use codebutler_gateway_core::context::GatewayContext;
use codebutler_gateway_core::dispatch;
use codebutler_gateway_core::speech::SpeechDesk;
use codebutler_gateway_core::thread_key::ThreadKey;
use codebutler_gateway_core::threads::{self, ThreadWriter, WriteError};
use codebutler_runtime::shards::GatewayShard;
use tokio_util::sync::CancellationToken;
use url::Url;

use self::api::stored_message::MessageMetadata;
use self::inbound::connections;
pub use self::inbound::file_contents::OpenedFile;
pub use self::inbound::inbox::{WantedInbox, closed_inbox};
pub use self::inbound::offered_work::{OfferedSkill, OfferedWork};
pub use self::inbound::page_reply;
use self::inbound::{catchup, file_contents, inbox, picture_files, repo_choice};
use self::inner::Inner;
pub use self::metrics::SlackMetrics;
use self::outbound::asking;
pub use self::outbound::asking::roadmap::ItemsQuestion;
pub use self::outbound::compared::ViewPictures;
pub use self::outbound::meaning::RoleContext;
pub use self::outbound::previews::{PreviewAsked, PreviewShown};
pub use self::outbound::usage;
use self::outbound::{post, progress, role_message};
pub use self::people::members::ProvenPerson;
pub use self::questions::action::{restore_approval, spend_approval};
use self::text::{markdown, split_text};
use self::upkeep::{handover, thread_upkeep};
pub use codebutler_markdown::{show_line, show_literally};

/// `event_type` of the metadata of our own messages.
const EVENT_TYPE: &str = "codebutler";

/// Slack in and out. Cheap to clone.
#[derive(Clone)]
pub struct SlackGateway {
    inner: Arc<Inner>,
}

impl SlackGateway {
    /// `api_url` is the base of the Web API, such as `https://slack.com/api`.
    pub fn new(
        context: GatewayContext,
        threads: ThreadWriter,
        api_url: &Url,
        metrics: SlackMetrics,
    ) -> Self {
        Self { inner: Arc::new(Inner::new(context, threads, api_url, metrics)) }
    }

    /// Holds the sockets of all Repos and catches up, until told to stop.
    ///
    /// # Errors
    /// When a watch cache ended that never should.
    pub async fn run(&self, shutdown: CancellationToken) -> anyhow::Result<()> {
        // An event that comes before the caches know its Repo would be dropped.
        let synced = shutdown.run_until_cancelled(self.inner.context.synced()).await;
        let Some(synced) = synced else { return Ok(()) };
        synced.context("a watch cache ended")?;
        let (inner, stop) = (Arc::clone(&self.inner), shutdown.clone());
        let tending = tokio::spawn(thread_upkeep::run_upkeep(inner, stop));
        connections::hold_connections(Arc::clone(&self.inner), shutdown).await;
        tending.abort();
        // Reactions and the like are worth a moment, not a hung shutdown.
        self.inner.background.finish(Duration::from_secs(5)).await;
        Ok(())
    }

    /// Text of a Thread's approved plan, and names of its people.
    pub async fn told(
        &self,
        repo: &Repo,
        thread: &Thread,
    ) -> (Option<String>, BTreeMap<String, String>) {
        tokio::join!(self.inner.plan_text(repo, thread), self.inner.names(repo, thread))
    }

    /// Has recordings written down from now on.
    pub fn hear_with(&self, desk: SpeechDesk) {
        self.inner.services.attach_speech(desk);
    }

    /// Shows in their threads what runs do, and who goes on after them, and reads back what no socket
    /// delivered, until told to stop. One replica does: the one that agents of this shard speak to. What is about
    /// channels, and not about Threads, is the first shard's. All share what Slack allows.
    pub async fn show_runs(&self, shard: GatewayShard, stop: CancellationToken) {
        self.inner.kept.take_over();
        let _duty = catchup::LeaderDuty::begin(&self.inner, shard);
        let attended = self.inner.context.attended.of_shard(shard);
        let shown = progress::run_progress(Arc::clone(&self.inner), &attended, stop.clone());
        let asking = repo_choice::ask::run_asking(Arc::clone(&self.inner), stop.clone());
        let asked = async {
            if shard.is_first() {
                asking.await;
            }
        };
        let handed = handover::run_handovers(Arc::clone(&self.inner), &attended, stop);
        tokio::join!(shown, asked, handed);
    }

    /// Reason why a role's run should not end with these words yet, for the model.
    pub fn nudge(&self, caller: &ProvenCaller, words: &str) -> Option<String> {
        let thread = self.inner.thread(&caller.key())?;
        let (team, role) = (self.inner.team(&caller.repo), caller.role_name());
        let parts = split_text::split_text(&markdown::render_inline(words), post::LIMIT);
        let status = thread.status.clone().unwrap_or_default();
        let handing = post::FileHanding::of(&parts, &team, &status, role, true);
        dispatch::find_nudge(&team, &status, role, words, &handing.names())
    }

    /// A role said something of its end: what people answer may be for it.
    ///
    /// # Errors
    /// When the Thread can't be written.
    pub async fn said(
        &self,
        thread: &ThreadKey,
        role: &str,
        ts: &SlackTs,
    ) -> Result<(), WriteError> {
        let raise = |status: &mut ThreadStatus| threads::raise_said(status, role, ts, None);
        self.inner.threads.update(thread, raise).await.map(drop)
    }

    /// Takes in what a role says that it does.
    ///
    /// # Errors
    /// When it is nothing that can be shown.
    pub fn progress(&self, caller: &ProvenCaller, progress: &RunProgress) -> Result<(), ApiError> {
        if !progress::is_valid(progress) {
            let message = "`run` has to be 1 to 32 of a-z and 0-9, `doing` at most 1000 bytes";
            return Err(ApiError::new(ErrorCode::InvalidRequest, message));
        }
        self.inner.progress.hear(caller.key(), caller.role_name(), progress);
        Ok(())
    }

    /// Progress of the calls that a Thread's roles wait for, by role.
    pub async fn call_progress(&self, thread: &ThreadKey) -> BTreeMap<String, String> {
        progress::call_progress(&self.inner, thread).await
    }

    /// A run has begun or ended, as its Thread says.
    pub fn run_changed(&self) {
        self.inner.progress.changed();
    }

    /// A picture in a message that the caller's role can read: its type and bytes.
    ///
    /// # Errors
    /// A sentence for the role.
    pub async fn picture(
        &self,
        caller: &ProvenCaller,
        message: &SlackTs,
        id: &str,
    ) -> Result<(&'static str, Vec<u8>), ApiError> {
        picture_files::read_offered(&self.inner, caller, message, id).await
    }

    /// A file in a message that the caller's role can read.
    ///
    /// # Errors
    /// A sentence for the role.
    pub async fn file(&self, caller: &ProvenCaller, id: &str) -> Result<OpenedFile, ApiError> {
        file_contents::open_file(&self.inner, caller, id).await
    }

    /// Posts a role's message under its own name; the same key posts once. `closing_head` is the
    /// pull request's head commit, for `decision: merge`.
    ///
    /// # Errors
    /// A sentence for the role.
    pub async fn post(
        &self,
        caller: &ProvenCaller,
        message: &PostMessage,
        closing_head: Option<String>,
    ) -> Result<PostedMessage, ApiError> {
        let beside = RoleContext { closing_head, ..RoleContext::default() };
        self.post_noted(caller, message, beside).await
    }

    /// As [`Self::post`], with a line of CodeButler's own under the message.
    ///
    /// # Errors
    /// A sentence for the role.
    pub async fn post_noted(
        &self,
        caller: &ProvenCaller,
        message: &PostMessage,
        beside: RoleContext,
    ) -> Result<PostedMessage, ApiError> {
        let posted = role_message::of_role(&self.inner, caller, message, beside).await?;
        if message.decision.is_some() {
            // Settles the question that this decision replaced.
            self.inner.settle_soon(caller.key());
        }
        Ok(posted)
    }

    /// Waits at most `wait` for mail of a role. Slack is read only if there is some that was not read.
    ///
    /// # Errors
    /// A sentence for the role.
    pub async fn inbox(
        &self,
        caller: &ProvenCaller,
        after: Option<&SlackTs>,
        wait: Duration,
    ) -> Result<RoleInbox, ApiError> {
        let wanted = WantedInbox { after: after.cloned(), seen: None };
        self.inbox_news(caller, &wanted, wait).await.map(|found| found.inbox)
    }

    /// The same; an answer that the role has already is none.
    ///
    /// # Errors
    /// A sentence for the role.
    pub async fn inbox_news(
        &self,
        caller: &ProvenCaller,
        wanted: &WantedInbox,
        wait: Duration,
    ) -> Result<VersionedInbox, ApiError> {
        Box::pin(inbox::await_inbox(&self.inner, caller, wanted, wait)).await
    }

    /// Asks the people of a thread whether exactly one action may happen, unless they were asked, and
    /// answers how it stands after at most `wait`.
    ///
    /// # Errors
    /// A sentence for the role.
    pub async fn approval(
        &self,
        caller: &ProvenCaller,
        request: &ApprovalRequest,
        wait: Duration,
    ) -> Result<ApprovalReply, ApiError> {
        Box::pin(asking::action::ask_action(&self.inner, caller, request, wait)).await
    }

    /// Asks the people of a thread about money and records the question; the same key asks once. Beside them it calls
    /// those whom the text mentions, if they come with it, as Slack's ids.
    ///
    /// # Errors
    /// A sentence for the log.
    pub async fn ask_money(
        &self,
        thread: &ThreadKey,
        key: &str,
        text: (&str, &[String]),
        ask: &questions::budget::BudgetAsked,
    ) -> Result<(), ApiError> {
        asking::ask_money(&self.inner, thread, key, text, ask).await
    }

    /// Asks the people of a thread whether a roadmap's items are to be built; the same key asks once. `whole`:
    /// all that they say, which goes into a file. `draft`: the question, given the name of that file, or
    /// nothing where Slack takes no files.
    ///
    /// # Errors
    /// A sentence for the log.
    pub async fn ask_roadmap(
        &self,
        thread: &ThreadKey,
        key: &str,
        whole: &str,
        draft: impl Fn(Option<&str>) -> ItemsQuestion,
    ) -> Result<(), ApiError> {
        asking::roadmap::ask_items(&self.inner, thread, key, whole, draft).await
    }

    /// Posts a line of CodeButler itself that names everybody whom the conversation concerns; the same key
    /// once.
    ///
    /// # Errors
    /// A sentence for the log.
    pub async fn alert(&self, thread: &ThreadKey, key: &str, text: &str) -> Result<(), ApiError> {
        asking::roadmap::alert_people(&self.inner, thread, key, text).await
    }

    /// Has one message of CodeButler itself say this from now on: it is posted, or edited in place.
    ///
    /// # Errors
    /// A sentence for the log.
    pub async fn show(&self, thread: &ThreadKey, key: &str, text: &str) -> Result<(), ApiError> {
        asking::roadmap::show_message(&self.inner, thread, key, text).await
    }

    /// True if somebody may decide in a Repo now.
    ///
    /// # Errors
    /// When Slack can't be asked.
    pub async fn may_decide(&self, repo: &Repo, user: &str) -> Result<bool, ApiError> {
        match self.inner.standing_refusal(repo, user).await {
            Ok(refusal) => Ok(refusal.is_none()),
            Err(error) => Err(self.inner.failed(error, repo).await),
        }
    }

    /// A picture of a channel, as its pages show it: its type and bytes.
    ///
    /// # Errors
    /// A sentence for who looks at the page.
    pub async fn show_picture(
        &self,
        repo: &Repo,
        channel: &str,
        id: &str,
    ) -> Result<(&'static str, bytes::Bytes), ApiError> {
        picture_files::read_shown(&self.inner, repo, channel, id).await
    }

    /// Warns the people of a thread that it will be closed, with Keep and Close; the same key once.
    ///
    /// # Errors
    /// A sentence for the log.
    pub async fn warn(&self, thread: &ThreadKey, key: &str, text: &str) -> Result<(), ApiError> {
        asking::ask_inactivity(&self.inner, thread, key, text).await
    }

    /// Reminds the people of a thread of what it waits for; the same key once.
    ///
    /// # Errors
    /// A sentence for the log.
    pub async fn remind(&self, thread: &ThreadKey, key: &str, text: &str) -> Result<(), ApiError> {
        asking::remind_people(&self.inner, thread, key, text).await
    }

    /// Posts a line of CodeButler itself, which calls nobody; the same key posts once.
    ///
    /// # Errors
    /// A sentence for the log.
    pub async fn notice(
        &self,
        thread: &ThreadKey,
        key: &str,
        text: &str,
    ) -> Result<SlackTs, ApiError> {
        self.notice_to(thread, key, text, &[]).await
    }

    /// The same, and it calls those of `people`, Slack's ids, whom it mentions.
    ///
    /// # Errors
    /// A sentence for the log.
    pub async fn notice_to(
        &self,
        thread: &ThreadKey,
        key: &str,
        text: &str,
        people: &[String],
    ) -> Result<SlackTs, ApiError> {
        post::post_line(&self.inner, thread, key, text, people).await
    }

    /// The same with mail for a role: what a person said elsewhere. It wakes the role.
    ///
    /// # Errors
    /// A sentence for the log.
    pub async fn remark(
        &self,
        thread: &ThreadKey,
        key: &str,
        text: &str,
        role: &str,
    ) -> Result<(), ApiError> {
        self.remark_to(thread, key, (text, &[]), role).await
    }

    /// The same, and it calls those of `people`, Slack's ids, whom it mentions.
    ///
    /// # Errors
    /// A sentence for the log.
    pub async fn remark_to(
        &self,
        thread: &ThreadKey,
        key: &str,
        (text, people): (&str, &[String]),
        role: &str,
    ) -> Result<(), ApiError> {
        let key = post::key_for(role, key);
        let ts = self.notice_to(thread, &key, text, people).await?;
        let raised = self.inner.threads.raise_inbox(thread, &[role.to_owned()], &ts).await;
        raised.map_err(|error| ApiError::new(ErrorCode::Unavailable, error.to_string()))
    }
}

/// The metadata of one of our own messages.
fn own_metadata(metadata: Option<&MessageMetadata>) -> Option<&serde_json::Value> {
    metadata.filter(|m| m.event_type == EVENT_TYPE).map(|m| &m.event_payload)
}
