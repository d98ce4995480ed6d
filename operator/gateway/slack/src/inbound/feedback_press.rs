//! Taking in whether answers helped. A press is on record before it is acknowledged; who says no is asked why, in
//! a modal or, where Slack shows none, in the thread. Their sentence stands in the conversation as theirs.

use std::sync::Arc;

use codebutler_crds::{Repo, SlackTs, Thread, ThreadStatus};
use codebutler_gateway_core::masks;
use codebutler_gateway_core::thread_key::ThreadKey;
use codebutler_gateway_core::threads::WriteError;
use codebutler_runtime::metrics::repo_label;
use codebutler_runtime::step;
use serde_json::{Value, json};

use crate::Inner;
use crate::api::account::AccessError;
use crate::api::attribution::FEEDBACK_KIND;
use crate::api::channel::RepoChannel;
use crate::inbound::effects::RouteEffect;
use crate::inbound::take_error::TakeError;
use crate::outbound::post::{self, FileHanding, LIMIT, OutgoingText, TextAsks};
use crate::people::access;
use crate::text::feedback::{
    self, AnswerVerdict, DoubtedAnswer, PostedWhy, VerdictTaken, WhyGiven,
};
use crate::text::mrkdwn;
use crate::text::page_author::{AuthorPlace, ReplyAuthor};
use crate::text::split_text::split_text;

const GOING: &str = "This thread is being deleted in the cluster.";

/// A conversation in which somebody may say what they think.
struct RatedConversation {
    key: ThreadKey,
    thread: Arc<Thread>,
    repo: Arc<Repo>,
}

impl Inner {
    /// Takes in whether an answer helped.
    pub(crate) async fn take_feedback(
        &self,
        channel: &RepoChannel,
        root: &SlackTs,
        said: &AnswerVerdict,
        trigger: Option<&str>,
    ) -> Result<Vec<RouteEffect>, TakeError> {
        let RatedConversation { key, repo, .. } =
            match self.admit_feedback(channel, root, &said.user).await? {
                Ok(admitted) => admitted,
                Err(effects) => return Ok(effects),
            };
        let take = |status: &mut ThreadStatus| {
            let taken = feedback::take_verdict(status, said);
            Ok((taken, feedback::lacks_why(status, &said.message, &said.user)))
        };
        let (taken, lacks_why) = match self.threads.try_update(&key, take).await {
            Ok((_, taken)) => taken,
            Err(WriteError::Missing(_)) => return Ok(Vec::new()),
            Err(error) => return Err(error.into()),
        };
        step::point("it is on record whether an answer helped");
        // No label is made of what stands in a message.
        let is_role = self.role_names(&repo).contains(&said.role);
        if taken == VerdictTaken::News && is_role {
            self.metrics.feedback(&repo_label(&*repo), &said.role, said.helps);
        }
        if taken == VerdictTaken::Old || !lacks_why {
            return Ok(Vec::new());
        }
        let about = DoubtedAnswer {
            channel: channel.id.clone(),
            root: root.clone(),
            message: said.message.clone(),
            role: said.role.clone(),
            at: said.at.clone(),
        };
        let (user, trigger) = (said.user.clone(), trigger.map(str::to_owned));
        Ok(vec![RouteEffect::AskWhy { thread: key, user, about: Box::new(about), trigger }])
    }

    /// Takes in why an answer did not help: posted once, under its author's name.
    pub(crate) async fn take_why(
        &self,
        channel: &RepoChannel,
        given: &WhyGiven,
    ) -> Result<Vec<RouteEffect>, TakeError> {
        let admitted = self.admit_feedback(channel, &given.about.root, &given.user).await?;
        let RatedConversation { key, thread, repo } = match admitted {
            Ok(admitted) => admitted,
            Err(effects) => return Ok(effects),
        };
        let Some(ts) = self.post_why(&key, (&thread, &repo), given).await? else {
            return Ok(Vec::new());
        };
        step::point("a thread has why an answer did not help");
        let written =
            self.threads.update(&key, |status| feedback::take_why(status, given, &ts)).await;
        match written {
            Ok(_) | Err(WriteError::Missing(_)) => Ok(Vec::new()),
            Err(error) => Err(error.into()),
        }
    }

    /// Takes in a sentence that stands in its conversation already, unless it is on record.
    pub(crate) async fn take_posted_why(
        &self,
        channel: &RepoChannel,
        posted: &PostedWhy,
    ) -> Result<Vec<RouteEffect>, TakeError> {
        let Some(thread) = self.find(channel, &posted.about.root, true).await? else {
            return Ok(Vec::new());
        };
        let take = |status: &mut ThreadStatus| feedback::take_posted(status, posted);
        match self.threads.update(&ThreadKey::from(&*thread), take).await {
            Ok(_) | Err(WriteError::Missing(_)) => Ok(Vec::new()),
            Err(error) => Err(error.into()),
        }
    }

    async fn post_why(
        &self,
        key: &ThreadKey,
        (thread, repo): (&Thread, &Repo),
        given: &WhyGiven,
    ) -> Result<Option<SlackTs>, AccessError> {
        let Some(slack) = thread.conversation() else { return Ok(None) };
        let account = self.account(repo).await?;
        let person = self.person((repo, &account), &given.user).await.ok();
        let name = person.and_then(|person| person.name).unwrap_or_else(|| given.user.clone());
        let redactor = masks::as_known(&self.context, repo).await;
        let words = mrkdwn::escape_text(&redactor.mask(&given.words));
        let DoubtedAnswer { message, at, role, .. } = &given.about;
        let id = format!("{message}.{at}.{}", given.user);
        let outgoing = OutgoingText {
            repo,
            thread,
            slack,
            key: &id,
            role: None,
            by: Some(ReplyAuthor {
                user: &given.user,
                name: &name,
                place: AuthorPlace::Feedback(&given.about),
            }),
            kind: FEEDBACK_KIND,
            asks: TextAsks::Nothing,
            digest: None,
            parts: split_text(&format!(":-1: About the answer of {role}: {words}"), LIMIT),
            note: None,
            tables: Vec::new(),
            handing: FileHanding::default(),
        };
        let _turn = self.posting.lock(key).await;
        Ok(post::post_once(self, &outgoing).await?.into_iter().next())
    }

    /// Admits feedback by people who may speak in the conversation. It may be closed.
    async fn admit_feedback(
        &self,
        channel: &RepoChannel,
        root: &SlackTs,
        user: &str,
    ) -> Result<Result<RatedConversation, Vec<RouteEffect>>, TakeError> {
        let Some(thread) = self.find(channel, root, false).await? else {
            return Ok(Err(Vec::new()));
        };
        let key = ThreadKey::from(&*thread);
        let repo = self.context.repo(&channel.namespace, &channel.repo);
        let text = match repo {
            Some(repo) if !access::permits_user(&repo.spec.access.users, user) => {
                access::NOT_PERMITTED
            }
            Some(_) if thread.is_going() => GOING,
            Some(repo) => return Ok(Ok(RatedConversation { key, thread, repo })),
            None => return Ok(Err(Vec::new())),
        };
        let (user, text) = (user.to_owned(), text.to_owned());
        Ok(Err(vec![RouteEffect::Whisper { thread: key, user, text }]))
    }

    /// Asks why an answer did not help. A modal has to be open within three seconds of the press; whoever can't be
    /// shown one is asked in the thread.
    pub(crate) async fn ask_why(
        &self,
        key: &ThreadKey,
        user: &str,
        about: &DoubtedAnswer,
        trigger: Option<&str>,
    ) -> Result<(), AccessError> {
        let Some((thread, repo)) = self.known(key) else { return Ok(()) };
        let account = self.account(&repo).await?;
        if let Some(trigger) = trigger {
            let body = json!({"trigger_id": trigger, "view": feedback::why_view(about)});
            match self.web.post::<Value>(&account.bot, "views.open", &body).await {
                Ok(_) => return Ok(()),
                Err(error) => tracing::info!(%error, "modal_open_failed"),
            }
        }
        let Some(slack) = thread.conversation() else { return Ok(()) };
        self.ephemeral(&account, slack, user, feedback::ASK_WHY).await?;
        let awaits =
            |status: &mut ThreadStatus| feedback::await_reply(status, &about.message, user);
        if let Err(error) = self.threads.update(key, awaits).await {
            tracing::warn!(%error, thread = key.name, part = "feedback_reply", "thread_status_write_failed");
        }
        Ok(())
    }
}
