//! Effects of a message or click that is stored: reactions, answered questions, hints. In the background, and never
//! in the way of an acknowledgement. Where Slack fails, an effect is retried for half a minute, unless it may be there.

use std::sync::Arc;
use std::time::Duration;

use codebutler_crds::thread::SlackThread;
use codebutler_crds::{Repo, SlackTs, Thread};
use codebutler_gateway_core::thread_key::ThreadKey;
use serde_json::{Value, json};
use tracing::Instrument as _;

use crate::Inner;
use crate::api::account::{AccessError, SlackAccount};
use crate::api::channel::RepoChannel;
use crate::api::web::EPHEMERAL;
use crate::inbound::emoji::EmojiReaction;
use crate::inbound::help::{self, HelpAnswer};
use crate::inbound::unnamed_bot::UnnamedBot;
use crate::outbound::post;
use crate::outbound::previews;
use crate::outbound::settled_messages;
use crate::people::access;
use crate::text::feedback::DoubtedAnswer;

/// Most repetitions of an effect, and the pause before the first one; each of the others is twice as long.
const RETRIES: u32 = 5;
const RETRY: Duration = Duration::from_secs(1);

/// Something visible that follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RouteEffect {
    /// A reaction beneath a message says that it was read.
    Seen {
        thread: ThreadKey,
        ts: SlackTs,
        /// Name of the emoji.
        sign: &'static str,
    },
    /// The buttons of settled questions go; who chose what is shown instead.
    Settled { thread: ThreadKey },
    /// A line that one person sees.
    Whisper { thread: ThreadKey, user: String, text: String },
    /// Somebody is asked why an answer did not help them.
    AskWhy {
        thread: ThreadKey,
        user: String,
        about: Box<DoubtedAnswer>,
        /// Lets a modal be opened.
        trigger: Option<String>,
    },
    /// A message was edited or deleted: who was woken by it may have nothing to do.
    Recheck { thread: ThreadKey, ts: SlackTs },
    /// What a thumb answers may be on record by now.
    LookAgain {
        channel: Box<RepoChannel>,
        /// First message of the conversation.
        root: SlackTs,
        reacted: Box<EmojiReaction>,
    },
    /// A line for somebody who may not steer; the conversation may have no Thread.
    Decline {
        /// Namespace and name of the Repo.
        repo: (String, String),
        /// First message of the conversation.
        root: SlackTs,
        user: String,
    },
    /// A line that one person sees, where the conversation may have no Thread.
    Tell {
        /// Namespace and name of the Repo that speaks.
        repo: (String, String),
        /// First message of the conversation.
        root: SlackTs,
        user: String,
        text: &'static str,
    },
    /// The answer to a request for help.
    Help(Box<HelpAnswer>),
    /// The answer to somebody who writes to the app alone.
    Direct {
        /// The conversation with the app.
        im: String,
        /// The message that is answered.
        asked: SlackTs,
        /// First message of its thread, if it is in one.
        root: Option<SlackTs>,
        channels: Vec<RepoChannel>,
    },
    /// Suggestions for somebody who opened the app's own conversation.
    Suggest { im: String, thread: Option<SlackTs>, channels: Vec<RepoChannel> },
    /// Links of a message are shown with what they lead to.
    Preview { channels: Vec<RepoChannel>, ts: SlackTs, links: Vec<String> },
    /// A bot that is not heard: whoever made it reads why.
    TellBot(Box<UnnamedBot>),
    /// The one answer of a closed thread.
    TellClosed { thread: ThreadKey },
}

impl RouteEffect {
    /// True if upkeep does what this one leaves undone, or nothing can be done any more a moment later.
    fn is_kept_up(&self) -> bool {
        match self {
            Self::Settled { .. } => true,
            Self::AskWhy { trigger, .. } => trigger.is_some(),
            Self::Help(answer) => answer.alone.is_some(),
            _ => false,
        }
    }
}

impl Inner {
    /// Lets effects happen in the background.
    pub(crate) fn follow_up(self: &Arc<Self>, effects: Vec<RouteEffect>) {
        for effect in effects {
            let inner = Arc::clone(self);
            self.background.spawn(async move { inner.perform(effect).await }.in_current_span());
        }
    }

    /// Takes the buttons off a Thread's settled questions, in the background.
    pub(crate) fn settle_soon(self: &Arc<Self>, thread: ThreadKey) {
        self.follow_up(vec![RouteEffect::Settled { thread }]);
    }

    /// Shows with an emoji that a message was read, in the background.
    pub(crate) fn mark_seen_soon(
        self: &Arc<Self>,
        thread: ThreadKey,
        ts: SlackTs,
        sign: &'static str,
    ) {
        self.follow_up(vec![RouteEffect::Seen { thread, ts, sign }]);
    }

    /// Does it, and again for a while where Slack fails.
    async fn perform(&self, effect: RouteEffect) {
        let mut pause = RETRY;
        for attempt in 0.. {
            let Err(error) = Box::pin(self.try_effect(&effect)).await else { return };
            let is_last = attempt == RETRIES || !error.may_repeat() || effect.is_kept_up();
            if is_last || !self.background.pause(pause).await {
                tracing::warn!(%error, "slack_effect_failed");
                return;
            }
            pause *= 2;
        }
    }

    async fn try_effect(&self, effect: &RouteEffect) -> Result<(), AccessError> {
        match effect {
            RouteEffect::Seen { thread, ts, sign } => self.show_seen(thread, ts, sign).await,
            RouteEffect::Settled { thread } => settled_messages::settle_all(self, thread).await,
            RouteEffect::AskWhy { thread, user, about, trigger } => {
                self.ask_why(thread, user, about, trigger.as_deref()).await
            }
            RouteEffect::Recheck { thread, ts } => self.recheck(thread, ts).await,
            RouteEffect::Whisper { thread, user, text } => self.whisper(thread, user, text).await,
            RouteEffect::Decline { repo, root, user } => {
                self.tell_one(repo, root, user, access::NOT_PERMITTED).await
            }
            RouteEffect::Tell { repo, root, user, text } => {
                self.tell_one(repo, root, user, text).await
            }
            RouteEffect::LookAgain { channel, root, reacted } => {
                for effect in self.look_again(channel, root, reacted).await {
                    Box::pin(self.perform(effect)).await;
                }
                Ok(())
            }
            RouteEffect::Help(answer) => self.answer_help(answer).await,
            RouteEffect::TellBot(called) => self.tell_bot(called).await,
            RouteEffect::Direct { im, asked, root, channels } => {
                self.direct((im, root.as_ref()), asked, channels).await
            }
            RouteEffect::Suggest { im, thread, channels } => {
                self.suggest_prompts(im, thread.as_ref(), channels).await
            }
            RouteEffect::Preview { channels, ts, links } => {
                previews::show_previews(self, channels, ts, links).await
            }
            RouteEffect::TellClosed { thread } => {
                let text = "This thread is closed. Start a new one for anything else.";
                if let Err(error) = post::post_line(self, thread, "closed", text, &[]).await {
                    tracing::warn!(%error, thread = thread.name, notice = "closed", "notice_post_failed");
                }
                Ok(())
            }
        }
    }

    async fn show_seen(
        &self,
        key: &ThreadKey,
        ts: &SlackTs,
        sign: &str,
    ) -> Result<(), AccessError> {
        let Some((thread, repo)) = self.known(key) else { return Ok(()) };
        let account = self.account(&repo).await?;
        let Some(SlackThread { channel, .. }) = thread.conversation() else { return Ok(()) };
        let body = json!({"channel": channel, "timestamp": ts, "name": sign});
        match self.web.post::<Value>(&account.bot, "reactions.add", &body).await {
            Err(error) if error.code() == Some("already_reacted") => Ok(()),
            result => Ok(result.map(drop)?),
        }
    }

    async fn whisper(&self, key: &ThreadKey, user: &str, text: &str) -> Result<(), AccessError> {
        let Some((thread, repo)) = self.known(key) else { return Ok(()) };
        let account = self.account(&repo).await?;
        let Some(slack) = thread.conversation() else { return Ok(()) };
        self.ephemeral(&account, slack, user, text).await
    }

    async fn tell_one(
        &self,
        (namespace, name): &(String, String),
        root: &SlackTs,
        user: &str,
        text: &str,
    ) -> Result<(), AccessError> {
        let Some(repo) = self.context.repo(namespace, name) else { return Ok(()) };
        let account = self.account(&repo).await?;
        let Some(channel) = repo.channel() else { return Ok(()) };
        let slack = SlackThread { channel: channel.to_owned(), ts: root.clone() };
        self.ephemeral(&account, &slack, user, text).await
    }

    async fn tell_bot(&self, called: &UnnamedBot) -> Result<(), AccessError> {
        let UnnamedBot { repo: (namespace, name), channel, root, asked, .. } = called;
        let Some(repo) = self.context.repo(namespace, name) else { return Ok(()) };
        let account = self.account(&repo).await?;
        let body = json!({"channel": channel, "thread_ts": root, "text": called.explain()});
        self.post_help(&account, (channel, Some(root)), asked, body).await
    }

    async fn direct(
        &self,
        (im, root): (&str, Option<&SlackTs>),
        asked: &SlackTs,
        channels: &[RepoChannel],
    ) -> Result<(), AccessError> {
        let repos = channels.iter().filter_map(|one| self.context.repo(&one.namespace, &one.repo));
        let Some(repo) = repos.into_iter().next() else { return Ok(()) };
        let account = self.account(&repo).await?;
        let places: Vec<String> = channels.iter().map(|one| format!("<#{}>", one.id)).collect();
        let git = channels.first().map_or("", |one| one.git.as_str());
        // Whoever writes here need not be in that channel.
        let help = self.general_help(&repo, git);
        let text = format!("Nobody works here: write to {} instead.\n{help}", places.join(" or "));
        let mut body = json!({"channel": im, "text": text});
        // In Slack's view of an agent a request opens a thread, and answers stand in it. Otherwise people read a plain
        // conversation.
        let root = root.or_else(|| account.is_agent().then_some(asked));
        if let Some(root) = root {
            body["thread_ts"] = json!(root);
        }
        self.post_help(&account, (im, root), asked, body).await
    }

    /// Shows what can be asked to somebody who opened the app's own conversation.
    pub(crate) async fn suggest_prompts(
        &self,
        im: &str,
        thread: Option<&SlackTs>,
        channels: &[RepoChannel],
    ) -> Result<(), AccessError> {
        let found = |one: &RepoChannel| self.context.repo(&one.namespace, &one.repo);
        let Some(repo) = channels.iter().find_map(found) else { return Ok(()) };
        let account = self.account(&repo).await?;
        let mut body = json!({"channel_id": im, "prompts": help::prompts(channels)});
        if let Some(thread) = thread {
            body["thread_ts"] = json!(thread);
        }
        self.web
            .post::<Value>(&account.bot, "assistant.threads.setSuggestedPrompts", &body)
            .await?;
        Ok(())
    }

    pub(crate) async fn ephemeral(
        &self,
        account: &SlackAccount,
        slack: &SlackThread,
        user: &str,
        text: &str,
    ) -> Result<(), AccessError> {
        let body = json!({
            "channel": slack.channel, "thread_ts": slack.ts, "user": user, "text": text,
        });
        self.web.post::<Value>(&account.bot, EPHEMERAL, &body).await?;
        Ok(())
    }

    pub(crate) fn known(&self, key: &ThreadKey) -> Option<(Arc<Thread>, Arc<Repo>)> {
        self.conversation(key).ok()
    }
}
