//! Requests of a server to its client: questions to a person, and calls of a model.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use rmcp::model::{ClientConfig, CustomRequest, CustomResult, ErrorCode};
use rmcp::service::RequestContext;
use rmcp::{ClientHandler, ErrorData, RoleClient};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use url::Url;

use super::SessionSetup;
use super::sampling::{SamplingHandler, SamplingRefusal, read_sampling, write_answer};
use crate::events::cut_text;
use crate::wire::Intake;

/// Questions of one server that wait for people.
const QUESTIONS: usize = 4;
/// Requests of one server that wait for a model.
const SAMPLINGS: usize = 4;
/// Most bytes of a form's schema.
const FORM_BYTES: usize = 32 << 10;

/// A server's question to the person whose request it works on. Its words are untrusted.
#[derive(Clone, Debug, PartialEq)]
pub enum ServerQuestion {
    /// A form with values to fill in.
    Form {
        /// Reason for the question, in the server's words.
        message: String,
        /// JSON Schema of an object with plain values.
        schema: Value,
    },
    /// A page to visit. It may never be opened without the person's consent, nor fetched by us.
    Link {
        /// Reason for the question, in the server's words.
        message: String,
        /// Address of the page to visit.
        url: Url,
    },
}

/// A person's answer to a server's question.
#[derive(Clone, Debug, PartialEq)]
pub enum QuestionAnswer {
    /// The values of a form; null for a link.
    Accepted(Value),
    /// The person has said no.
    Declined,
    /// Nobody has given an answer.
    Cancelled,
}

/// Takes questions to people.
#[async_trait]
pub trait QuestionHandler: Send + Sync {
    /// Asks the person. The future is dropped when the server takes the question back.
    async fn ask(&self, question: ServerQuestion) -> QuestionAnswer;
}

pub(super) struct SessionHandler {
    config: ClientConfig,
    pub(super) answers: Arc<ServerAnswers>,
}

impl SessionHandler {
    pub(super) fn new(setup: &SessionSetup, config: ClientConfig, intake: &Arc<Intake>) -> Self {
        Self { config, answers: Arc::new(ServerAnswers::new(setup, intake)) }
    }
}

/// Answers requests of a server, whether they come by themselves or in the result of a request of ours.
pub(super) struct ServerAnswers {
    roots: Vec<Url>,
    questions: Option<Arc<dyn QuestionHandler>>,
    sampling: Option<Arc<dyn SamplingHandler>>,
    free: Semaphore,
    free_samplings: Semaphore,
    longest: Duration,
    intake: Arc<Intake>,
}

impl ServerAnswers {
    fn new(setup: &SessionSetup, intake: &Arc<Intake>) -> Self {
        Self {
            roots: setup.roots.clone(),
            questions: setup.questions.clone(),
            sampling: setup.sampling.clone(),
            free: Semaphore::new(QUESTIONS),
            free_samplings: Semaphore::new(SAMPLINGS),
            longest: setup.limits.call_total,
            intake: Arc::clone(intake),
        }
    }

    /// Answers one request, until the token takes it back.
    pub(super) async fn answer(
        &self,
        method: &str,
        params: &Value,
        stop: &CancellationToken,
    ) -> Result<Value, ErrorData> {
        match method {
            "elicitation/create" => Ok(self.answer_question(params, stop).await),
            "roots/list" => {
                let roots = self.roots.iter().map(|root| json!({"uri": root.as_str()}));
                Ok(json!({"roots": roots.collect::<Vec<_>>()}))
            }
            "sampling/createMessage" => self.answer_sampling(params, stop).await.map_err(|why| {
                self.intake.events.put_noise("a request for a model's answer was refused");
                ErrorData::new(ErrorCode(-1), why.0, None)
            }),
            method => Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, cut_text(method), None)),
        }
    }

    async fn answer_question(&self, params: &Value, stop: &CancellationToken) -> Value {
        let Some((handler, question)) = self.questions.as_ref().zip(read_question(params)) else {
            return json!({"action": "decline"});
        };
        let Ok(_permit) = self.free.try_acquire() else {
            self.intake
                .events
                .put_noise("more questions at once than a person can answer: declined");
            return json!({"action": "decline"});
        };
        let _waits = AnswerWait::begin(&self.intake);
        let is_form = matches!(question, ServerQuestion::Form { .. });
        let answer = tokio::select! {
            answer = handler.ask(question) => answer,
            () = tokio::time::sleep(self.longest) => QuestionAnswer::Cancelled,
            () = stop.cancelled() => QuestionAnswer::Cancelled,
        };
        match answer {
            QuestionAnswer::Accepted(values) if is_form => {
                json!({"action": "accept", "content": values})
            }
            QuestionAnswer::Accepted(_) => json!({"action": "accept"}),
            QuestionAnswer::Declined => json!({"action": "decline"}),
            QuestionAnswer::Cancelled => json!({"action": "cancel"}),
        }
    }

    async fn answer_sampling(
        &self,
        params: &Value,
        stop: &CancellationToken,
    ) -> Result<Value, SamplingRefusal> {
        let refuse = |why: &str| SamplingRefusal(why.to_owned());
        let handler = self.sampling.as_ref();
        let handler = handler.ok_or_else(|| refuse("sampling is not allowed here"))?;
        let request = read_sampling(params)?;
        let _permit = self
            .free_samplings
            .try_acquire()
            .map_err(|_| refuse("too many requests for a model at once"))?;
        let _waits = AnswerWait::begin(&self.intake);
        let answer = tokio::select! {
            answer = handler.sample(request) => answer?,
            () = tokio::time::sleep(self.longest) => return Err(refuse("the model took too long")),
            () = stop.cancelled() => return Err(refuse("taken back")),
        };
        Ok(write_answer(&answer))
    }
}

/// Counted while a person or a model is asked: the server's own call waits for that.
struct AnswerWait<'a>(&'a Intake);

impl<'a> AnswerWait<'a> {
    fn begin(intake: &'a Intake) -> Self {
        intake.questions.fetch_add(1, Ordering::SeqCst);
        Self(intake)
    }
}

impl Drop for AnswerWait<'_> {
    fn drop(&mut self) {
        self.0.questions.fetch_sub(1, Ordering::SeqCst);
    }
}

fn read_question(params: &Value) -> Option<ServerQuestion> {
    let message = cut_text(params.get("message").and_then(Value::as_str).unwrap_or_default());
    if params.get("mode").and_then(Value::as_str) == Some("url") {
        let url = Url::parse(params.get("url")?.as_str()?).ok()?;
        return matches!(url.scheme(), "https" | "http")
            .then_some(ServerQuestion::Link { message, url });
    }
    let schema = params.get("requestedSchema").filter(|schema| schema.is_object())?.clone();
    (schema.to_string().len() <= FORM_BYTES).then_some(ServerQuestion::Form { message, schema })
}

impl ClientHandler for SessionHandler {
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleClient>,
    ) -> Result<CustomResult, ErrorData> {
        let method =
            request.method.strip_prefix(crate::wire::RAW_METHOD).unwrap_or(&request.method);
        let params = request.params.as_ref().unwrap_or(&Value::Null);
        self.answers.answer(method, params, &context.ct).await.map(CustomResult)
    }

    fn get_info(&self) -> ClientConfig {
        self.config.clone()
    }
}
