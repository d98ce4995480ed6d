//! Questions of a server to the person whose call it works on (elicitation), with buttons and words in the thread. A
//! question that belongs to no one person, asks for a secret or can't be answered so is declined, and the thread says
//! why.

mod callers;
mod form;
pub(crate) mod sampling;
mod secrets;
mod typed;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use codebutler_gateway_core::caller::ProvenCaller;
use codebutler_gateway_core::personal::{PersonAnswer, PersonQuestion, PersonalNotices};
use codebutler_mcp::session::{QuestionAnswer, QuestionHandler, ServerQuestion};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;
use url::Url;

pub(crate) use self::callers::{CallerMark, ModelUse, SessionCallers};
use self::form::{FieldAnswers, FormField, ReadForm, read_form};
use self::typed::WordsRule;
use super::masking::WordGuard;

/// Time for one answer; without one the question is declined.
const PATIENCE: Duration = Duration::from_mins(5);
/// Characters of a server's reason, of a field, and of an answer.
const REASON: usize = 500;
const LABEL: usize = 300;
const ANSWER: usize = 60;
/// Characters of what a field takes.
const RULE: usize = 900;
/// Questions that a server may ask in one call.
const QUESTIONS: u32 = 5;
/// Attempts to answer a field in words: an answer that does not fit is asked for again.
const TRIES: usize = 3;
/// Reason for keeping an answer back.
const SECRET_ANSWER: &str = "the answer holds a secret, or something that looks like one, and was not sent: delete the \
                             message, and replace the secret if others could read it";
/// The button of a person who does not want to answer.
const DECLINE: &str = "Decline";
/// The button of a person who closes a question that they need not decline.
const NOT_NOW: &str = "Not now";
/// The button of a field that may be left out.
const LEAVE_OUT: &str = "Leave it out";

/// Takes the questions of one session to people.
pub(crate) struct SessionQuestions {
    /// Name of the server, as people see it.
    pub server: String,
    /// Calls that the session works on.
    pub callers: Arc<SessionCallers>,
    /// Posts questions to people.
    pub people: Arc<dyn PersonalNotices>,
}

#[async_trait]
impl QuestionHandler for SessionQuestions {
    async fn ask(&self, question: ServerQuestion) -> QuestionAnswer {
        let Some((caller, guard, count)) = self.callers.count_question() else {
            tracing::info!(
                server = self.server,
                why = "it belongs to no single call",
                "server_question_declined"
            );
            return QuestionAnswer::Declined;
        };
        let over = CancellationToken::new();
        let asking = QuestionRun {
            server: self.server.clone(),
            people: Arc::clone(&self.people),
            callers: Arc::clone(&self.callers),
            caller: caller.clone(),
            guard,
            over: over.clone(),
        };
        if count > QUESTIONS {
            return asking.decline(&format!("it asks more than {QUESTIONS} in one call")).await;
        }
        // A question that the server takes back, or whose call has ended, still loses its buttons.
        let _ends = over.drop_guard();
        let asked = tokio::spawn(asking.run(question));
        tokio::select! {
            answer = asked => answer.unwrap_or(QuestionAnswer::Cancelled),
            () = self.callers.await_end(&caller) => QuestionAnswer::Cancelled,
        }
    }
}

struct QuestionRun {
    server: String,
    people: Arc<dyn PersonalNotices>,
    callers: Arc<SessionCallers>,
    caller: ProvenCaller,
    guard: WordGuard,
    /// Cancelled when nobody waits for the answer any more.
    over: CancellationToken,
}

/// Question for one field of a form.
struct AskedQuestion<'a> {
    text: &'a str,
    quote: String,
    takes_words: bool,
}

impl QuestionRun {
    async fn run(self, question: ServerQuestion) -> QuestionAnswer {
        let thread = self.caller.key();
        let Some(user) = self.people.find_decider(&thread).await else {
            return self.decline("no person who may decide has written here").await;
        };
        match question {
            ServerQuestion::Link { message, url } => self.ask_link(&user, &message, &url).await,
            ServerQuestion::Form { message, schema } => match read_form(&message, &schema) {
                Ok(form) => self.ask_form(&user, &message, &form).await,
                Err(refusal) => self.decline(&self.guard.error(&refusal)).await,
            },
        }
    }

    async fn ask_form(&self, user: &str, message: &str, form: &ReadForm) -> QuestionAnswer {
        let reason = self.guard.line(message, REASON);
        let intro = format!("The server `{}` asks, for the call that it works on:", self.server);
        if form.fields.is_empty() {
            let choices = vec!["Accept".to_owned()];
            return match self.choose(user, &intro, reason, choices).await {
                Ok(_) => QuestionAnswer::Accepted(Value::Object(Map::new())),
                Err(answer) => answer,
            };
        }
        let mut values = Map::new();
        for (at, field) in form.fields.iter().enumerate() {
            let place = match form.fields.len() {
                1 => intro.clone(),
                count => format!("{intro} ({} of {count})", at + 1),
            };
            match self.ask_field(user, &place, &reason, field).await {
                Ok(Some(value)) => drop(values.insert(field.name.clone(), value)),
                Ok(None) => {}
                Err(answer) => return answer,
            }
        }
        if form.left_out > 0 {
            tracing::info!(server = self.server, left_out = form.left_out, "form_fields_skipped");
        }
        QuestionAnswer::Accepted(Value::Object(values))
    }

    /// The value of a field, or none if it is left out.
    async fn ask_field(
        &self,
        user: &str,
        intro: &str,
        reason: &str,
        field: &FormField,
    ) -> Result<Option<Value>, QuestionAnswer> {
        let label = self.guard.line(&field.label, LABEL);
        let quote = format!("{reason}\n{label}");
        match &field.answers {
            FieldAnswers::Buttons(options) => {
                let words = options.iter().map(|(_, words)| self.guard.line(words, ANSWER));
                let mut choices: Vec<String> = words.collect();
                if !field.is_required {
                    choices.push(LEAVE_OUT.to_owned());
                }
                let item = self.choose(user, intro, quote, choices).await?;
                Ok(options.get(item).map(|(value, _)| value.clone()))
            }
            FieldAnswers::Words(rule) => self.ask_words(user, (intro, quote), field, rule).await,
        }
    }

    async fn ask_words(
        &self,
        user: &str,
        (intro, quote): (&str, String),
        field: &FormField,
        rule: &WordsRule,
    ) -> Result<Option<Value>, QuestionAnswer> {
        let wanted = self.guard.line(&rule.to_string(), RULE);
        let quote = format!("{quote}\n({wanted})");
        let mut text = format!(
            "{intro} answer with your next message here, which everybody in this thread sees."
        );
        for _ in 0..TRIES {
            let other = if field.is_required { NOT_NOW } else { LEAVE_OUT };
            let choices = vec![other.to_owned()];
            let asked = AskedQuestion { text: &text, quote: quote.clone(), takes_words: true };
            match self.ask_person(user, asked, choices).await? {
                PersonAnswer::Choice(_) if field.is_required => {
                    return Err(QuestionAnswer::Cancelled);
                }
                PersonAnswer::Choice(_) => return Ok(None),
                // The message is in the thread already, and goes no further.
                PersonAnswer::Words(words) if self.guard.holds_secret(&words) => {
                    return Err(self.decline(SECRET_ANSWER).await);
                }
                PersonAnswer::Words(words) => {
                    if let Some(value) = rule.read(&words) {
                        return Ok(Some(value));
                    }
                    text = format!(
                        "That is no answer to what the server `{}` asks. Please answer once more with a message \
                         here, in the form that stands in brackets:",
                        self.server
                    );
                }
            }
        }
        Err(self.decline(&format!("{TRIES} answers did not have the form that it asks for")).await)
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
        // Escaped, so that the address can't end the link that it stands in.
        let address = url.as_str().replace('|', "%7C").replace('>', "%3E").replace('<', "%3C");
        let text = format!("The page of the server `{}` on `{host}`: <{address}>", self.server);
        match self.people.whisper(&self.caller.key(), user, &text).await {
            Ok(()) => QuestionAnswer::Accepted(Value::Null),
            Err(error) => {
                tracing::warn!(server = self.server, %error, "server_link_post_failed");
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
        choices: Vec<String>,
    ) -> Result<usize, QuestionAnswer> {
        match self
            .ask_person(user, AskedQuestion { text, quote, takes_words: false }, choices)
            .await?
        {
            PersonAnswer::Choice(item) => Ok(item),
            PersonAnswer::Words(_) => Err(QuestionAnswer::Cancelled),
        }
    }

    /// The answer that is given, if it is one.
    async fn ask_person(
        &self,
        user: &str,
        asked: AskedQuestion<'_>,
        mut choices: Vec<String>,
    ) -> Result<PersonAnswer, QuestionAnswer> {
        if self.over.is_cancelled() {
            return Err(QuestionAnswer::Cancelled);
        }
        let declines = choices.len();
        choices.push(DECLINE.to_owned());
        let question = PersonQuestion {
            key: format!("mcp-q-{:016x}", rand::random::<u64>()),
            text: asked.text.to_owned(),
            quote: asked.quote,
            choices,
            takes_words: asked.takes_words,
            to: user.to_owned(),
        };
        match self.people.choose(&self.caller, &question, PATIENCE, &self.over).await {
            Ok(Some(PersonAnswer::Choice(item))) if item >= declines => {
                Err(QuestionAnswer::Declined)
            }
            Ok(Some(answer)) => Ok(answer),
            Ok(None) if self.over.is_cancelled() => Err(QuestionAnswer::Cancelled),
            Ok(None) => Err(self.decline("no answer came within 5 minutes").await),
            Err(error) => {
                tracing::warn!(server = self.server, %error, "server_question_failed");
                Err(QuestionAnswer::Cancelled)
            }
        }
    }

    /// Declines, and says so in the thread once per call: a server can't fill a thread with such lines.
    async fn decline(&self, why: &str) -> QuestionAnswer {
        if !self.callers.begin_decline(&self.caller) {
            tracing::info!(server = self.server, why, "server_question_declined");
            return QuestionAnswer::Declined;
        }
        let text = format!("A question of the server `{}` was declined: {why}.", self.server);
        let key = format!("mcp-no-{:016x}", rand::random::<u64>());
        if let Err(error) = self.people.post_notice(&self.caller.key(), &key, &text).await {
            tracing::warn!(server = self.server, %error, notice = "question_declined", "notice_post_failed");
        }
        QuestionAnswer::Declined
    }
}
