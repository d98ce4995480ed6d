//! Answers who asks what can be asked, once: an answer that everybody sees is found again in Slack by what it
//! answers, and one that only who asked sees is on record before it is shown.

use std::time::Duration;

use codebutler_crds::{SlackTs, ThreadStatus};
use codebutler_gateway_core::thread_key::ThreadKey;
use codebutler_gateway_core::threads::{ChangeRefusal, WriteError};
use codebutler_runtime::step;
use jiff::Timestamp;
use kube::ResourceExt as _;
use serde_json::{Value, json};

use crate::Inner;
use crate::api::account::{AccessError, SlackAccount};
use crate::api::channel::RepoChannel;
use crate::api::conversation_pages;
use crate::api::web::CallError;
use crate::inbound::access;
use crate::inbound::effects::RouteEffect;
use crate::inbound::help::{self, HelpAnswer, HelpWish};
use crate::inbound::person_message::PersonMessage;
use crate::inbound::take_error::TakeError;

/// Times that a post with unknown outcome is looked for and repeated.
const ATTEMPTS: u32 = 3;

impl Inner {
    /// Answers in a conversation that has nothing else yet, and alone to who asks in one that has.
    pub(crate) async fn take_help(
        &self,
        channel: &RepoChannel,
        root: &SlackTs,
        requested_by: &str,
        (said, wish): (&PersonMessage, HelpWish),
    ) -> Result<Vec<RouteEffect>, TakeError> {
        let Some(repo) = self.context.repo(&channel.namespace, &channel.repo) else {
            return Ok(Vec::new());
        };
        let ours = Some(requested_by) == channel.bot_user.as_deref();
        let thread = self.find(channel, root, ours).await?;
        // Where somebody works, a mention alone is a nudge, and a question is one for the roles.
        if !access::permits_user(&repo.spec.access.users, &said.user)
            || (thread.is_some() && wish != HelpWish::InWords)
        {
            return self.message(channel, root, requested_by, said).await;
        }
        if !help::is_fresh(&said.ts, Timestamp::now()) {
            return Ok(Vec::new());
        }
        let is_new = match &thread {
            Some(thread) => self.record_help(&ThreadKey::from(&**thread), &said.ts).await?,
            None => self.directly.first_time((channel.id.clone(), said.ts.clone())),
        };
        if !is_new {
            return Ok(Vec::new());
        }
        let text =
            help::help_text(&repo, help::place_name(&channel.git), self.context.pages.as_deref());
        Ok(vec![RouteEffect::Help(Box::new(HelpAnswer {
            repo: (channel.namespace.clone(), repo.name_any()),
            root: root.clone(),
            asked: said.ts.clone(),
            alone: thread.is_some().then(|| said.user.clone()),
            text,
        }))])
    }

    /// False if it was on record before.
    async fn record_help(&self, key: &ThreadKey, asked: &SlackTs) -> Result<bool, WriteError> {
        let record =
            |status: &mut ThreadStatus| Ok::<_, ChangeRefusal>(help::record_help(status, asked));
        match self.threads.try_update(key, record).await {
            Ok((_, is_new)) => {
                step::point("it is on record who asked what can be asked");
                Ok(is_new)
            }
            Err(WriteError::Missing(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Answers in a channel. An answer that stands there is enough, also for who asked before somebody worked there.
    pub(crate) async fn answer_help(&self, answer: &HelpAnswer) -> Result<(), AccessError> {
        let Some(repo) = self.context.repo(&answer.repo.0, &answer.repo.1) else { return Ok(()) };
        let account = self.account(&repo).await?;
        let Some(channel) = repo.channel() else { return Ok(()) };
        let mut body = json!({"channel": channel, "thread_ts": answer.root, "text": answer.text});
        let place = (channel, Some(&answer.root));
        let Some(user) = &answer.alone else {
            return self.post_help(&account, place, &answer.asked, body).await;
        };
        if !self.has_help(&account, place, &answer.asked).await? {
            body["user"] = json!(user);
            self.web.post::<Value>(&account.bot, "chat.postEphemeral", &body).await?;
            step::point("somebody alone is told what can be asked");
        }
        Ok(())
    }

    /// Posts an answer unless it is there. When the outcome is not known, Slack is asked before it is posted again.
    pub(crate) async fn post_help(
        &self,
        account: &SlackAccount,
        place: (&str, Option<&SlackTs>),
        asked: &SlackTs,
        mut body: Value,
    ) -> Result<(), AccessError> {
        body["metadata"] = help::build_metadata(asked);
        (body["unfurl_links"], body["unfurl_media"]) = (json!(false), json!(false));
        for attempt in 1.. {
            if self.has_help(account, place, asked).await? {
                break;
            }
            match self.web.post::<Value>(&account.bot, "chat.postMessage", &body).await {
                Ok(_) => break,
                Err(CallError::Failed { .. }) if attempt < ATTEMPTS => {
                    tokio::time::sleep(Duration::from_millis(250 << attempt)).await;
                }
                Err(error) => return Err(error.into()),
            }
        }
        step::point("somebody is told what can be asked");
        Ok(())
    }

    /// Whether an answer stands in a conversation, or in the app's own one, which has no root.
    async fn has_help(
        &self,
        account: &SlackAccount,
        (channel, root): (&str, Option<&SlackTs>),
        asked: &SlackTs,
    ) -> Result<bool, CallError> {
        let (web, token, after) = (&self.web, &account.bot, Some(asked));
        let read = match root {
            Some(root) => conversation_pages::read_replies(web, token, channel, root, after).await,
            None => conversation_pages::read_channel(web, token, channel, asked).await,
        };
        Ok(read?.iter().any(|message| help::is_answer(message, account, asked)))
    }
}
