//! Questions of a server to the person whose call it works on (elicitation), as buttons in the thread. A question that
//! belongs to no one person, asks for a secret or can't be answered with buttons is declined, and the thread says why.

mod form;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use codebutler_mcp::session::{QuestionAnswer, QuestionHandler, ServerQuestion};
use parking_lot::Mutex;
use serde_json::{Map, Value};
use url::Url;

use self::form::{ChoiceField, read_form};
use super::words::WordGuard;
use crate::gateway::caller::ProvenCaller;
use crate::gateway::personal::{PersonQuestion, PersonalNotices};

/// Time for one answer; without one the question is declined.
const PATIENCE: Duration = Duration::from_mins(5);
/// Characters of a server's reason, of a field, and of an answer.
const REASON: usize = 500;
const LABEL: usize = 300;
const ANSWER: usize = 60;
/// The button of a person who does not want to answer.
const DECLINE: &str = "Decline";

/// Calls that one session works on.
#[derive(Default)]
pub struct SessionCallers {
    next: AtomicU64,
    running: Mutex<Vec<(u64, ProvenCaller, WordGuard)>>,
}

/// A call under way: its caller is known to the session until this is dropped.
pub struct CallerMark {
    callers: Arc<SessionCallers>,
    id: u64,
}

impl SessionCallers {
    /// A call begins.
    pub fn begin(self: &Arc<Self>, caller: &ProvenCaller, guard: &WordGuard) -> CallerMark {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        self.running.lock().push((id, caller.clone(), guard.clone()));
        CallerMark { callers: Arc::clone(self), id }
    }

    /// The caller of all calls under way, if they have one: a server does not say which call a question is about.
    pub fn only_one(&self) -> Option<(ProvenCaller, WordGuard)> {
        let running = self.running.lock();
        let (_, caller, guard) = running.first()?;
        let is_same = |other: &ProvenCaller| {
            other.key() == caller.key() && other.role_name() == caller.role_name()
        };
        let all = running.iter().all(|(_, other, _)| is_same(other));
        all.then(|| (caller.clone(), guard.clone()))
    }
}

impl Drop for CallerMark {
    fn drop(&mut self) {
        self.callers.running.lock().retain(|(id, _, _)| *id != self.id);
    }
}

/// Takes the questions of one session to people.
pub struct SessionQuestions {
    /// Name of the server.
    pub server: String,
    /// Calls that the session works on.
    pub callers: Arc<SessionCallers>,
    /// The way to people.
    pub people: Arc<dyn PersonalNotices>,
}

#[async_trait]
impl QuestionHandler for SessionQuestions {
    async fn ask(&self, question: ServerQuestion) -> QuestionAnswer {
        let Some((caller, guard)) = self.callers.only_one() else {
            tracing::info!(
                server = self.server,
                "a question of a server is about no one person's call: declined"
            );
            return QuestionAnswer::Declined;
        };
        let asking = QuestionRun {
            server: self.server.clone(),
            people: Arc::clone(&self.people),
            caller,
            guard,
        };
        // A question that the server takes back still loses its buttons.
        tokio::spawn(asking.run(question)).await.unwrap_or(QuestionAnswer::Cancelled)
    }
}

struct QuestionRun {
    server: String,
    people: Arc<dyn PersonalNotices>,
    caller: ProvenCaller,
    guard: WordGuard,
}

impl QuestionRun {
    async fn run(self, question: ServerQuestion) -> QuestionAnswer {
        let thread = self.caller.key();
        let Some(user) = self.people.find_decider(&thread).await else {
            return self.decline("no person who may decide has written here").await;
        };
        match question {
            ServerQuestion::Link { message, url } => self.ask_link(&user, &message, &url).await,
            ServerQuestion::Form { message, schema } => match read_form(&schema) {
                Ok(fields) => self.ask_form(&user, &message, &fields).await,
                Err(refusal) => self.decline(&self.guard.error(&refusal)).await,
            },
        }
    }

    async fn ask_form(&self, user: &str, message: &str, fields: &[ChoiceField]) -> QuestionAnswer {
        let reason = self.guard.line(message, REASON);
        let intro = format!("The server `{}` asks, for the call that it works on:", self.server);
        if fields.is_empty() {
            let choices = vec!["Accept".to_owned()];
            return match self.choose(user, &intro, reason, choices).await {
                Ok(_) => QuestionAnswer::Accepted(Value::Object(Map::new())),
                Err(answer) => answer,
            };
        }
        let mut values = Map::new();
        for field in fields {
            let label = self.guard.line(&field.label, LABEL);
            let words = field.options.iter().map(|(_, words)| self.guard.line(words, ANSWER));
            match self.choose(user, &intro, format!("{reason}\n{label}"), words.collect()).await {
                Ok(item) => {
                    let value = field.options.get(item).map(|(value, _)| value.clone());
                    values.insert(field.name.clone(), value.unwrap_or_default());
                }
                Err(answer) => return answer,
            }
        }
        QuestionAnswer::Accepted(Value::Object(values))
    }

    /// A page that the person visits, or not: its address is shown to them alone, after their yes.
    async fn ask_link(&self, user: &str, message: &str, url: &Url) -> QuestionAnswer {
        let host = url.host_str().unwrap_or_default();
        if url.scheme() != "https" {
            return self
                .decline(&format!("it wants a page on `{host}` to be opened without TLS"))
                .await;
        }
        let reason = self.guard.line(message, REASON);
        let text = format!(
            "The server `{}` wants you to open a page on `{host}`; the link is shown to you alone. It says:",
            self.server
        );
        if let Err(answer) =
            self.choose(user, &text, reason, vec!["Show me the link".to_owned()]).await
        {
            return answer;
        }
        // An address may not end the link that it stands in.
        let address = url.as_str().replace('|', "%7C").replace('>', "%3E").replace('<', "%3C");
        let text = format!("The page of the server `{}` on `{host}`: <{address}>", self.server);
        match self.people.whisper(&self.caller.key(), user, &text).await {
            Ok(()) => QuestionAnswer::Accepted(Value::Null),
            Err(error) => {
                tracing::warn!(server = self.server, %error, "a link is not shown to its person");
                QuestionAnswer::Cancelled
            }
        }
    }

    /// The answer that was chosen, from 0.
    async fn choose(
        &self,
        user: &str,
        text: &str,
        quote: String,
        mut choices: Vec<String>,
    ) -> Result<usize, QuestionAnswer> {
        let declines = choices.len();
        choices.push(DECLINE.to_owned());
        let key = format!("mcp-q-{:016x}", rand::random::<u64>());
        let question =
            PersonQuestion { key, text: text.to_owned(), quote, choices, to: user.to_owned() };
        match self.people.choose(&self.caller, &question, PATIENCE).await {
            Ok(Some(item)) if item < declines => Ok(item),
            Ok(Some(_)) => Err(QuestionAnswer::Declined),
            Ok(None) => Err(self.decline("no answer came within 5 minutes").await),
            Err(error) => {
                tracing::warn!(server = self.server, %error, "a question of a server is not asked");
                Err(QuestionAnswer::Cancelled)
            }
        }
    }

    async fn decline(&self, why: &str) -> QuestionAnswer {
        let text = format!("A question of the server `{}` was declined: {why}.", self.server);
        let key = format!("mcp-no-{:016x}", rand::random::<u64>());
        if let Err(error) = self.people.post_notice(&self.caller.key(), &key, &text).await {
            tracing::warn!(server = self.server, %error, "a declined question is not said in the thread");
        }
        QuestionAnswer::Declined
    }
}
