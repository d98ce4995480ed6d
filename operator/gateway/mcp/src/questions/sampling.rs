//! Requests of a server for a model's answer (sampling), where the Repo allows them: calls of the model of the role
//! whose tool call the server works on, within that role's budget.

use std::sync::Arc;

use async_trait::async_trait;
use codebutler_crds::mcp::McpSampling;
use codebutler_gateway_core::asker::ModelAsker;
use codebutler_mcp::session::{
    SampledAnswer, SamplingHandler, SamplingRefusal, SamplingRequest, SamplingSpeaker,
};
use serde_json::{Value, json};

use super::callers::SessionCallers;

/// Last message of a conversation that ends with a model's own words: newer models of Anthropic refuse it without one,
/// and templates of others show it as the beginning of the answer.
const GO_ON: &str = "Go on.";

/// Answers the sampling requests of one session.
pub(crate) struct SessionSampling {
    /// Name of the server that asks.
    pub server: String,
    /// Limits on samplings from the Repo's entry.
    pub limits: McpSampling,
    /// Calls that the session works on.
    pub callers: Arc<SessionCallers>,
    /// Sends the request to a model.
    pub asker: ModelAsker,
}

#[async_trait]
impl SamplingHandler for SessionSampling {
    async fn sample(&self, request: SamplingRequest) -> Result<SampledAnswer, SamplingRefusal> {
        let refuse = |why: &str| SamplingRefusal(why.to_owned());
        let (caller, guard, count) = self.callers.count_sampling().ok_or_else(|| {
            refuse("a model is asked only during a tool call, and for one caller")
        })?;
        if count > self.limits.max_calls {
            let most = self.limits.max_calls;
            return Err(refuse(&format!("a tool call may ask a model {most} times")));
        }
        tracing::info!(
            server = self.server,
            thread = %caller.key(),
            role = caller.role_name(),
            count,
            "sampling_requested"
        );
        let body = write_request(&request, self.limits.max_tokens, |text| guard.mask(text));
        let answer = (self.asker)(caller.clone(), body).await;
        let answer = answer.map_err(|error| SamplingRefusal(guard.error(&error)))?;
        self.callers.count_answer(&caller, answer.cost);
        Ok(SampledAnswer {
            text: guard.mask(&answer.text),
            model: answer.model,
            is_cut: answer.is_cut,
        })
    }
}

fn write_request(request: &SamplingRequest, most: u32, mask: impl Fn(&str) -> String) -> Value {
    let system = request.system.iter().map(|text| json!({"role": "system", "content": mask(text)}));
    let said = request.messages.iter().map(|(speaker, text)| {
        let role = match speaker {
            SamplingSpeaker::User => "user",
            SamplingSpeaker::Assistant => "assistant",
        };
        json!({"role": role, "content": mask(text)})
    });
    let is_last_word =
        request.messages.last().is_some_and(|(by, _)| *by == SamplingSpeaker::Assistant);
    let go_on = is_last_word.then(|| json!({"role": "user", "content": GO_ON}));
    let messages: Vec<Value> = system.chain(said).chain(go_on).collect();
    let mut body = json!({"messages": messages, "max_tokens": request.max_tokens.min(most)});
    if let Some(temperature) = request.temperature {
        body["temperature"] = json!(temperature);
    }
    if !request.stop.is_empty() {
        body["stop"] = json!(request.stop);
    }
    body
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_keeps_its_bounds_and_masks_its_texts() {
        let request = SamplingRequest {
            system: Some("s".into()),
            messages: vec![
                (SamplingSpeaker::User, "key".into()),
                (SamplingSpeaker::Assistant, "ok".into()),
            ],
            max_tokens: 9_000,
            temperature: None,
            stop: vec!["END".into()],
        };
        let body = write_request(&request, 500, |text| text.replace("key", "***"));
        let expected = json!({
            "messages": [
                {"role": "system", "content": "s"},
                {"role": "user", "content": "***"},
                {"role": "assistant", "content": "ok"},
                {"role": "user", "content": GO_ON},
            ],
            "max_tokens": 500,
            "stop": ["END"],
        });
        assert_eq!(body, expected);
        let asked =
            SamplingRequest { messages: vec![(SamplingSpeaker::User, "why?".into())], ..request };
        let body = write_request(&asked, 500, ToOwned::to_owned);
        assert_eq!(body["messages"].as_array().map(Vec::len), Some(2), "a question ends it");
    }
}
