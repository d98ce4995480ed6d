//! State that all parts share, and lookups in it: a conversation, its Repo and app, and what a failed call
//! means for both.

use std::sync::Arc;

use codebutler_crds::wire::ErrorCode;
use codebutler_crds::{Repo, Thread};
use codebutler_gateway_core::api_error::ApiError;
use codebutler_gateway_core::conditions::ConditionWriter;
use codebutler_gateway_core::context::GatewayContext;
use codebutler_gateway_core::dispatch::RepoTeam;
use codebutler_gateway_core::thread_key::ThreadKey;
use codebutler_gateway_core::threads::ThreadWriter;
use codebutler_gateway_core::threads::keyed::KeyedLocks;
use kube::ResourceExt as _;
use url::Url;

use crate::api::account::{AccessError, SlackAccount, SlackAccounts};
use crate::api::channel::RepoChannel;
use crate::api::channel_names;
use crate::api::conversation_pages;
use crate::api::explain;
use crate::api::groups_read;
use crate::api::known_channels::KnownChannels;
use crate::api::reachability::{self, SlackReach};
use crate::api::reading;
use crate::api::scopes::{self, TokenScopes};
use crate::api::web::{CallError, SlackWeb};
use crate::background::BackgroundTasks;
use crate::inbound::files;
use crate::inbound::handled::HandledInputs;
use crate::inbound::hearing;
use crate::inbound::picture_files;
use crate::inbound::repo_choice;
use crate::leading::LeadingShard;
use crate::metrics::SlackMetrics;
use crate::outbound::opening;
use crate::outbound::pinned_plan;
use crate::outbound::post::SentKeys;
use crate::outbound::progress;
use crate::outbound::refused_blocks;
use crate::people::access;
use crate::people::members;
use crate::people::person;
use crate::services::AttachedServices;
use crate::upkeep::deleted_conversations;

/// State shared by all modules of this crate: a list of what owns it.
pub(crate) struct Inner {
    pub(crate) context: GatewayContext,
    pub(crate) threads: ThreadWriter,
    pub(crate) web: SlackWeb,
    pub(crate) metrics: SlackMetrics,
    pub(crate) accounts: SlackAccounts,
    pub(crate) reach: SlackReach,
    /// Messages that are in Slack already, by key.
    pub(crate) sent: SentKeys,
    /// Conversations as they were last read.
    pub(crate) kept: reading::KeptConversations,
    pub(crate) plans: pinned_plan::PinnedPlans,
    pub(crate) persons: person::KnownPeople,
    /// Members of each channel, and users by e-mail address.
    pub(crate) people: members::MemberLookups,
    pub(crate) channels: KnownChannels,
    /// Cache of user groups that were looked up.
    pub(crate) groups: groups_read::GroupLookups,
    /// Cache of texts that came as files.
    pub(crate) contents: files::FileContents,
    /// Cache of files that Slack only named.
    pub(crate) described: files::DescribedFiles,
    pub(crate) shown_pictures: picture_files::ShownPictures,
    pub(crate) services: AttachedServices,
    pub(crate) hearings: hearing::HearingBook,
    /// Conversations that were opened for a prompt.
    pub(crate) opened: opening::OpenedThread,
    /// Conversations whose Threads were deleted.
    pub(crate) ends: deleted_conversations::ToldEnds,
    /// Name of this process in claims.
    pub(crate) name: String,
    /// Locks for one post at a time per thread, so that a key is looked for and posted in one go.
    pub(crate) posting: KeyedLocks<ThreadKey>,
    /// Apps whose feedback buttons Slack refused.
    pub(crate) refused_blocks: refused_blocks::RefusedBlocks,
    /// Progress of runs, as agents report it.
    pub(crate) progress: progress::ProgressBoard,
    pub(crate) handled: HandledInputs,
    /// Names of channels that were looked up.
    pub(crate) lookups: channel_names::NameLookups,
    pub(crate) leading: LeadingShard,
    pub(crate) background: BackgroundTasks,
}

impl Inner {
    pub(crate) fn new(
        context: GatewayContext,
        threads: ThreadWriter,
        api_url: &Url,
        metrics: SlackMetrics,
    ) -> Self {
        let web = SlackWeb::new(api_url, metrics.clone(), &context.dialer);
        let conditions = ConditionWriter::new(context.client.clone(), context.redactors.clone());
        Self {
            context,
            threads,
            web,
            metrics,
            accounts: SlackAccounts::default(),
            reach: SlackReach::new(conditions),
            sent: SentKeys::default(),
            kept: reading::KeptConversations::default(),
            plans: pinned_plan::PinnedPlans::default(),
            persons: person::KnownPeople::default(),
            people: members::MemberLookups::default(),
            channels: KnownChannels::default(),
            groups: groups_read::GroupLookups::default(),
            contents: files::FileContents::default(),
            described: files::DescribedFiles::default(),
            shown_pictures: picture_files::ShownPictures::default(),
            services: AttachedServices::default(),
            hearings: hearing::HearingBook::default(),
            opened: opening::OpenedThread::default(),
            ends: deleted_conversations::ToldEnds::default(),
            name: format!("{:016x}", rand::random::<u64>()),
            posting: KeyedLocks::default(),
            refused_blocks: refused_blocks::RefusedBlocks::default(),
            progress: progress::ProgressBoard::default(),
            handled: HandledInputs::default(),
            lookups: channel_names::NameLookups::default(),
            leading: LeadingShard::default(),
            background: BackgroundTasks::default(),
        }
    }

    /// Returns the newest known state of a Thread.
    pub(crate) fn thread(&self, key: &ThreadKey) -> Option<Arc<Thread>> {
        self.threads.freshest(key, self.context.thread(key))
    }

    pub(crate) async fn account(&self, repo: &Repo) -> Result<Arc<SlackAccount>, AccessError> {
        let account = self.accounts.of(&self.context, &self.web, repo).await;
        // Readers of the condition count on it that the channel's messages are shared out accordingly.
        if let Err(error) = &account
            && self.channels.is_listed(repo)
        {
            self.reach.tell(repo, Err(explain::explain_condition(error, repo))).await;
        }
        account
    }

    /// State to report for an app that works.
    pub(crate) fn standing(&self, account: &SlackAccount, repo: &Repo) -> reachability::ReachState {
        let lacks = account.scopes.as_ref().map(TokenScopes::lacks).unwrap_or_default();
        if !lacks.is_empty() {
            return Err(explain::explain_scopes(&lacks, repo));
        }
        if let Some(error) = self.channels.socket_trouble(&account.app) {
            return Err(explain::explain_condition(&error.into(), repo));
        }
        if account.user.as_ref().is_some_and(|user| self.channels.is_shared_app(user)) {
            return Err(explain::shared_app(repo));
        }
        let is_open = repo.spec.access.users.is_empty();
        let channel = repo.channel().filter(|_| is_open);
        let shared = channel.is_some_and(|channel| self.channels.is_outside(channel));
        let limits = account.scopes.as_ref().and_then(TokenScopes::limits);
        let others = self.sharing(repo.channel().unwrap_or_default());
        let told: Vec<String> = limits
            .into_iter()
            .chain(self.progress.refused_stream(account).map(|code| explain::no_stream(&code)))
            .chain(self.progress.refused_session(account))
            .chain(self.context.pages.as_ref().and_then(|_| {
                let lacks = account.scopes.as_ref().is_some_and(|own| !own.has(scopes::UNFURL));
                lacks.then(|| explain::NO_PREVIEWS.to_owned())
            }))
            .chain(self.groups.told(repo))
            .chain(shared.then(|| access::SHARED.to_owned()))
            .chain(explain::explain_sharing(repo, &others))
            .collect();
        Ok((!told.is_empty()).then(|| told.join("; ")))
    }

    /// Handles a failed call: reports on the Repo what concerns it, and returns a masked error for the caller.
    pub(crate) async fn failed(&self, error: impl Into<AccessError>, repo: &Repo) -> ApiError {
        let error = Box::pin(self.find_archived(error.into(), repo)).await;
        if let AccessError::Call(call) = &error
            && let Some(code) = call.code()
        {
            if matches!(
                code,
                "invalid_auth" | "token_revoked" | "account_inactive" | "app_uninstalled"
            ) {
                self.accounts.forget(repo);
            }
            if reachability::concerns_repo(code) {
                self.reach.note_refusal();
                self.reach.tell(repo, Err(explain::explain_condition(&error, repo))).await;
            }
        }
        let told = explain::explain_api(&error, repo);
        // Masked, as Slack may repeat what it was sent.
        let message = self.context.redactors.of(repo).mask(&told.message).into_owned();
        ApiError { message, ..told }
    }

    /// The error itself, or that the channel is archived: Slack takes the app out of such a channel, and then only says
    /// that it is not in there.
    pub(crate) async fn find_archived(&self, error: AccessError, repo: &Repo) -> AccessError {
        let AccessError::Call(CallError::Refused { method, code, .. }) = &error else {
            return error;
        };
        let (method, is_out) = (*method, code == "not_in_channel");
        let (true, Some(channel)) = (is_out, repo.channel()) else { return error };
        let is_archived = match self.channels.was_archived(channel) {
            Some(known) => known,
            None => self.ask_archived(repo, channel).await,
        };
        if !is_archived {
            return error;
        }
        let (code, needed, said) = ("is_archived".to_owned(), None, None);
        CallError::Refused { method, code, needed, said }.into()
    }

    /// Asks Slack if a channel is archived, which all its threads want to know at once.
    async fn ask_archived(&self, repo: &Repo, channel: &str) -> bool {
        let Ok(account) = self.account(repo).await else { return false };
        let asked = conversation_pages::is_archived(&self.web, &account.bot, channel).await;
        let is_archived = matches!(asked, Ok(true));
        self.channels.note_archived(channel, is_archived);
        is_archived
    }

    /// Thread and Repo of a conversation.
    pub(crate) fn conversation(
        &self,
        key: &ThreadKey,
    ) -> Result<(Arc<Thread>, Arc<Repo>), ApiError> {
        let gone = |what: &str| ApiError::new(ErrorCode::Unavailable, format!("no such {what}"));
        let thread = self.thread(key).ok_or_else(|| gone("Thread"))?;
        let repo = self.context.repo(&key.namespace, &thread.spec.repo);
        Ok((thread, repo.ok_or_else(|| gone("Repo"))?))
    }

    /// Short names of a Repo's roles, in its order.
    pub(crate) fn role_names(&self, repo: &Repo) -> Vec<String> {
        self.context.roles_of(repo).iter().map(|role| role.spec.role.clone()).collect()
    }

    /// A Repo's roles, and what each is for.
    pub(crate) fn team(&self, repo: &Repo) -> RepoTeam {
        RepoTeam::of(&self.context.roles_of(repo))
    }

    /// A Repo as the router sees it.
    pub(crate) fn channel(&self, repo: &Repo, account: &SlackAccount) -> RepoChannel {
        self.place(repo, Some(account))
    }

    /// A Repo as the router sees it; without an app it hears nothing.
    pub(crate) fn place(&self, repo: &Repo, account: Option<&SlackAccount>) -> RepoChannel {
        RepoChannel {
            namespace: repo.namespace().unwrap_or_default(),
            repo: repo.name_any(),
            uid: repo.uid().unwrap_or_default(),
            id: repo.channel().unwrap_or_default().to_owned(),
            git: repo_choice::fold_address(&repo.spec.git.url),
            secret: repo.spec.slack.credentials.name.clone(),
            team: self.team(repo),
            bot_user: account.and_then(|account| account.user.clone()),
            bots: repo.spec.slack.allow_bots.clone(),
            is_own: true,
            deaf: account.is_none(),
        }
    }
}
