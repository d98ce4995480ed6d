//! What Slack itself shows of an agent at work, with its stop button: for apps that are declared
//! agents. What Slack refuses is not missed: the messages say the same.
//!
//! That a conversation waits for people goes on record before Slack hears it, so that whoever comes next takes it back.
//! A process can die in between: the next one tells Slack once more.

use std::sync::Arc;

use codebutler_crds::budgets::is_slack_user;
use codebutler_crds::thread::{SlackThread, ThreadState};
use codebutler_crds::{Repo, Thread, ThreadStatus};
use codebutler_gateway_core::masks;
use codebutler_gateway_core::thread_key::ThreadKey;
use serde_json::{Value, json};

use crate::Inner;
use crate::api::account::{AccessError, SlackAccount};
use crate::api::deferral::LaterError;
use crate::api::web::CallError;
use crate::api::{conversation_pages, explain, scopes};
use crate::text::content;
use crate::text::mrkdwn;

/// Characters that Slack takes as a title.
const TITLE: usize = 200;

/// State of a conversation's session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConversationSession {
    Processing,
    /// Nobody does, and nobody has to.
    Active,
    /// It waits for people.
    Suspended,
    /// The conversation is over.
    Closed,
}

impl ConversationSession {
    const fn name(self) -> &'static str {
        match self {
            Self::Processing => "processing",
            Self::Active => "active",
            Self::Suspended => "suspended",
            Self::Closed => "closed",
        }
    }

    /// Of a conversation in which nobody works.
    pub(super) fn at_rest(thread: &Thread) -> Self {
        if is_over(thread) {
            Self::Closed
        } else if thread.status.as_ref().is_some_and(is_asking) {
            Self::Suspended
        } else {
            Self::Active
        }
    }
}

/// True while people have to answer something; what they have decided, such as a merge that waits for its checks, is no
/// question any more.
fn is_asking(status: &ThreadStatus) -> bool {
    status.waits_for_people() || status.asks_for_money()
}

fn is_over(thread: &Thread) -> bool {
    thread.spec.state == ThreadState::Closed || thread.is_going()
}

fn is_at_work(thread: &Thread) -> bool {
    let mut roles = thread.status.iter().flat_map(|status| status.roles.values());
    roles.any(|role| role.shown.is_some())
}

/// True if the record lags behind: it says that a conversation waits for people and it does not, or the reverse.
pub(super) fn is_behind(thread: &Thread) -> bool {
    let is_shown = thread.status.as_ref().is_some_and(|status| status.suspended);
    is_shown != waits(thread)
}

/// True if people have to answer and nobody works.
pub(super) fn waits(thread: &Thread) -> bool {
    !is_at_work(thread) && ConversationSession::at_rest(thread) == ConversationSession::Suspended
}

/// Lets Slack show whether a conversation waits for people.
pub(super) async fn show_waiting(inner: &Arc<Inner>, thread: &Thread) -> Result<(), LaterError> {
    let (key, waits) = (ThreadKey::from(thread), waits(thread));
    let (Some((_, repo)), Some(slack)) = (inner.known(&key), thread.conversation()) else {
        return Ok(());
    };
    let account = &*inner.account(&repo).await?;
    if !account.is_agent() {
        return Ok(());
    }
    let place = SessionPlace { inner, account, repo: &repo, thread, slack };
    let is_known = thread.status.as_ref().is_some_and(|status| status.suspended);
    let record = |suspended| move |status: &mut ThreadStatus| status.suspended = suspended;
    if waits {
        inner.threads.update(&key, record(true)).await?;
    }
    // A role at work is shown as such already.
    if !is_at_work(thread) {
        let rests = ConversationSession::at_rest(thread);
        let told =
            if waits && is_known { place.show_again(rests).await } else { place.show(rests).await };
        if waits && told.is_err() {
            inner.threads.update(&key, record(false)).await?;
        }
        told.map_err(AccessError::from)?;
    }
    if !waits {
        inner.threads.update(&key, record(false)).await?;
    }
    Ok(())
}

/// A conversation and whose it is.
pub(super) struct SessionPlace<'a> {
    pub inner: &'a Arc<Inner>,
    pub account: &'a SlackAccount,
    pub repo: &'a Repo,
    pub thread: &'a Thread,
    pub slack: &'a SlackThread,
}

impl SessionPlace<'_> {
    /// Tells Slack.
    ///
    /// # Errors
    /// When it may not have heard it: what it shows does not end by itself.
    pub(super) async fn show(&self, session: ConversationSession) -> Result<(), CallError> {
        let progress = &self.inner.progress;
        if !self.account.is_agent() || progress.sessions.current(self.account).is_some() {
            return Ok(());
        }
        let plain = self.body(session);
        let key = ThreadKey::from(self.thread);
        let is_known = progress.introduced.contains(&key);
        let mut body = plain.clone();
        if !is_known {
            self.introduce(&mut body).await;
        }
        let told = match self.tell(&body).await {
            // Such as somebody who has left the channel.
            Err(error) if error.code().is_some() && body != plain => self.tell(&plain).await,
            other => other,
        };
        if told.is_ok() {
            progress.note_introduced(self.account, key);
        }
        accept_refusal(told)
    }

    /// Tells Slack what it may have heard already, without what the session is about: for that a message is read.
    async fn show_again(&self, session: ConversationSession) -> Result<(), CallError> {
        accept_refusal(self.tell(&self.body(session)).await)
    }

    fn body(&self, session: ConversationSession) -> Value {
        json!({
            "channel_id": self.slack.channel, "thread_ts": self.slack.ts, "status": session.name(),
        })
    }

    async fn tell(&self, body: &Value) -> Result<(), CallError> {
        let refusals = &self.inner.progress.sessions;
        if refusals.current(self.account).is_some() {
            return Ok(());
        }
        let web = self.inner.web.upkeep();
        let told = web.post::<Value>(&self.account.bot, "agents.sessions.setStatus", body).await;
        let Err(error) = told else { return Ok(()) };
        let Some(why) = app_refusal(&error) else { return Err(error) };
        if refusals.note(self.account, &why) {
            tracing::info!(%error, "session_status_failed");
            self.inner.reach.tell(self.repo, self.inner.standing(self.account, self.repo)).await;
        }
        Ok(())
    }

    /// Adds what a session is about and who began it: Slack takes both when it first hears of one.
    async fn introduce(&self, body: &mut Value) {
        if let Some(title) = self.title().await {
            body["title"] = json!(title);
        }
        let by = self.thread.spec.requested_by.as_deref();
        if let Some(user) = by.filter(|by| is_slack_user(by)) {
            body["initiator_user_id"] = json!(user);
        }
    }

    async fn title(&self) -> Option<String> {
        let text = match &self.thread.spec.prompt {
            Some(prompt) => prompt.clone(),
            None => self.first_words().await?,
        };
        let redactor = masks::as_known(&self.inner.context, self.repo).await;
        make_title(&redactor.mask(&text))
    }

    async fn first_words(&self) -> Option<String> {
        let (token, SlackThread { channel, ts: root }) = (&self.account.bot, self.slack);
        let web = self.inner.web.upkeep();
        match conversation_pages::read_message(&web, token, channel, root, root).await {
            Ok(first) => {
                let words = content::message_words(&first?);
                let own = format!("<@{}>", self.account.user.as_deref().unwrap_or_default());
                Some(mrkdwn::to_text(&words.replace(&own, "")))
            }
            Err(error) => {
                tracing::info!(%error, "session_title_unread");
                None
            }
        }
    }
}

/// A sentence about what Slack refuses the app in all conversations.
fn app_refusal(error: &CallError) -> Option<String> {
    let CallError::Refused { code, needed, .. } = error else { return None };
    let is_apps = scopes::is_ungranted(code) || code == "unknown_method";
    is_apps.then(|| explain::no_session(code, needed.as_deref()))
}

/// Takes what Slack refuses as done: it will not take it later either.
fn accept_refusal(told: Result<(), CallError>) -> Result<(), CallError> {
    match told {
        Err(error) if error.code().is_some() => {
            tracing::info!(%error, "session_status_failed");
            Ok(())
        }
        told => told,
    }
}

/// The first line that says something, as far as Slack takes it.
fn make_title(text: &str) -> Option<String> {
    let line = text.lines().map(str::trim).find(|line| line.chars().any(char::is_alphanumeric))?;
    let words = line.split_whitespace().collect::<Vec<_>>().join(" ");
    if words.chars().count() <= TITLE {
        return Some(words);
    }
    let kept: String = words.chars().take(TITLE - 1).collect();
    Some(format!("{}…", kept.trim_end()))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A Thread with this status.
    pub(in crate::outbound::progress) fn thread(status: &Value) -> Thread {
        serde_json::from_value(json!({
            "apiVersion": "codebutler.dev/v1alpha1", "kind": "Thread",
            "metadata": {"name": "shop-1-000000"}, "spec": {"repo": "shop"}, "status": status,
        }))
        .unwrap()
    }

    #[test]
    fn a_title_is_one_line_that_slack_takes() {
        assert_eq!(
            make_title("\n --\n  The total  is wrong\nmore"),
            Some("The total is wrong".to_owned())
        );
        assert_eq!(make_title("\n ?!\n"), None);
        let long = make_title(&"word ".repeat(100)).unwrap();
        assert!(long.chars().count() <= TITLE && long.ends_with("word…"), "{long}");
    }

    #[test]
    fn a_refusal_counts_for_the_app_where_its_manifest_is_the_cause() {
        let refused = |code: &str, needed: Option<&str>| {
            app_refusal(&CallError::Refused {
                method: "agents.sessions.setStatus",
                code: code.to_owned(),
                needed: needed.map(str::to_owned),
                said: None,
            })
        };
        let scope = refused("missing_scope", Some("agents:write")).unwrap();
        assert!(scope.contains("(missing_scope)"), "{scope}");
        assert!(scope.ends_with("needs agents:write in oauth_config.scopes.bot"), "{scope}");
        let unknown = refused("unknown_method", None).unwrap();
        assert!(unknown.ends_with("needs features.agent_view"), "{unknown}");
        for code in ["user_not_found", "not_in_channel", "invalid_thread_ts", "internal_error"] {
            assert_eq!(refused(code, None), None, "{code}");
        }
    }

    #[test]
    fn a_conversation_waits_while_a_question_is_open_and_nobody_works() {
        let plan = json!({"ts": "5.000000", "hash": "h", "role": "pm"});
        let asking = thread(&json!({"plan": plan}));
        assert_eq!(ConversationSession::at_rest(&asking), ConversationSession::Suspended);
        assert!(is_behind(&asking));
        assert!(!is_behind(&thread(&json!({"plan": plan, "suspended": true}))));
        assert!(is_behind(&thread(&json!({"suspended": true}))), "nobody is asked any more");
        let closing = json!({"ts": "6.000000", "role": "lead"});
        assert!(is_behind(&thread(&json!({"closing": closing}))));
        let mut decided = closing;
        (decided["choice"], decided["decidedBy"]) = (json!("merge"), json!("U1"));
        let merging = thread(&json!({"closing": decided}));
        assert_eq!(ConversationSession::at_rest(&merging), ConversationSession::Active);
        let money = json!({"ask": {"ts": "7.000000", "limit": "perThread"}});
        assert!(is_behind(&thread(&json!({"budget": money}))));
        let calls = json!({"ask": {"ts": "7.000000", "limit": "callsPerHour"}});
        assert!(!is_behind(&thread(&json!({"budget": calls}))), "nobody can answer that");
        let mut closed = asking;
        closed.spec.state = ThreadState::Closed;
        assert_eq!(ConversationSession::at_rest(&closed), ConversationSession::Closed);
        assert!(!is_behind(&closed));
        let run = json!({"run": "r", "since": "2026-01-01T00:00:00Z", "cost": "0"});
        let working = thread(&json!({"plan": plan, "roles": {"pm": {"shown": run}}}));
        assert!(!is_behind(&working));
    }
}
