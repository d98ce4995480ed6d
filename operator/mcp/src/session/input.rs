//! Servers of stateless versions ask in the result of a request: it is answered by the same request, sent again with the
//! answers.

use std::time::Duration;

use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use super::handler::ServerAnswers;
use crate::error::McpError;
use crate::events::cut_text;
use crate::weight::weigh;

/// Most questions that one result may have.
const QUESTIONS: usize = 8;
/// Most bytes of what goes back to the server as it is: it is kept while people answer.
const STATE_BYTES: usize = 1 << 20;
/// Pause before a request is sent again whose server asked for nothing but that.
const PAUSE: Duration = Duration::from_millis(500);
/// Code of an error that says that a server's request was refused here.
const REFUSED: i64 = -1;

/// Input that a server wants before it goes on with a request.
pub(super) struct WantedInput {
    requests: Map<String, Value>,
    /// Goes back to the server as it is.
    state: Option<Value>,
}

impl WantedInput {
    /// Takes the questions out of a result that has some.
    pub(super) fn take(result: &mut Value) -> Option<Self> {
        if result.get("resultType").and_then(Value::as_str) != Some("input_required") {
            return None;
        }
        let requests = match result.get_mut("inputRequests").map(Value::take) {
            Some(Value::Object(requests)) => requests,
            _ => Map::new(),
        };
        let state = result.get_mut("requestState").map(Value::take);
        Some(Self { requests, state: state.filter(|state| !state.is_null()) })
    }

    /// Answers the questions, one after another, in the parameters of the request that is sent next.
    pub(super) async fn answer_in(
        self,
        params: &mut Map<String, Value>,
        answers: &ServerAnswers,
        cancel: &CancellationToken,
    ) -> Result<(), McpError> {
        let refuse = |message: String| McpError::Refused { code: REFUSED, message };
        if self.requests.len() > QUESTIONS {
            return Err(refuse(format!("more than {QUESTIONS} questions at once")));
        }
        if self.state.as_ref().is_some_and(|state| weigh(state) > STATE_BYTES) {
            return Err(refuse(format!("its `requestState` has more than {STATE_BYTES} bytes")));
        }
        if self.requests.is_empty() {
            if self.state.is_none() {
                return Err(refuse("it wants an answer, and has asked nothing".to_owned()));
            }
            tokio::time::sleep(PAUSE).await;
        }
        let mut given = Map::new();
        for (name, request) in self.requests {
            let method = request.get("method").and_then(Value::as_str).unwrap_or_default();
            let asked = request.get("params").unwrap_or(&Value::Null);
            let answer = answers.answer(method, asked, cancel).await;
            let answer = answer.map_err(|error| {
                let method = cut_text(method);
                refuse(format!("its question `{method}` is not answered: {}", error.message))
            })?;
            given.insert(name, answer);
        }
        for (field, value) in [
            ("inputResponses", (!given.is_empty()).then_some(Value::Object(given))),
            ("requestState", self.state),
        ] {
            match value {
                Some(value) => drop(params.insert(field.to_owned(), value)),
                None => drop(params.remove(field)),
            }
        }
        Ok(())
    }
}
