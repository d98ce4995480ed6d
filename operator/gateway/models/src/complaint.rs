//! Reads a provider's error bodies: the words and codes of OpenRouter, OpenAI, Anthropic, Google,
//! vLLM, Ollama and those who speak like them. Pure; what comes out is not masked yet.

mod minimax;

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

pub use self::minimax::is_failed;

/// Bytes of a refusal that are read.
pub const READ: usize = 8 * 1024;
/// Longest wait that is believed.
const LONGEST: u64 = 60 * 60;
/// Most entries of a list that are read.
const ENTRIES: usize = 5;
/// Most steps to a part of a request, and bytes of its name.
const PARAM_STEPS: usize = 8;
const LONGEST_PARAM: usize = 100;
/// Most levels of errors inside errors.
const DEPTH: usize = 10;

/// A provider's complaint. Empty if nothing could be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProviderComplaint {
    /// A status inside the body: what counts where the outer one says 200.
    pub status: Option<u16>,
    /// Codes and kinds, in lower case.
    pub kinds: Vec<String>,
    pub text: String,
    /// Wait before the next request, as asked for.
    pub after: Option<Duration>,
    /// End of the limit that was reached, where it is told as a time.
    pub reset: Option<Timestamp>,
    /// True if the body is a web page: what a proxy answers, and no model API.
    pub is_page: bool,
    /// Tokens that the model takes, where the refusal names them.
    pub window: Option<u32>,
    /// Part of the request that it is about, such as `max_tokens` or `messages.2.content`.
    pub param: Option<String>,
}

/// Reads a body, whole or cut off.
pub fn read_complaint(body: &[u8]) -> ProviderComplaint {
    let text = String::from_utf8_lossy(body);
    let Ok(value) = serde_json::from_str::<Value>(&text) else {
        let is_page = is_web_page(&text);
        return ProviderComplaint {
            text: plain_words(&text),
            is_page,
            ..ProviderComplaint::default()
        };
    };
    let mut complaint = ProviderComplaint::default();
    complaint.take(&value, DEPTH);
    complaint
}

/// Returns true if a body is a web page, which no model API answers with.
pub fn is_web_page(body: &str) -> bool {
    let beginning: String =
        body.trim_start_matches(['\u{feff}', ' ', '\t', '\r', '\n']).chars().take(15).collect();
    let beginning = beginning.to_ascii_lowercase();
    ["<!doctype html", "<html", "<head", "<!--"].iter().any(|tag| beginning.starts_with(tag))
}

/// Reads an error that stands inside an answer.
pub fn complaint_of(error: &Value) -> ProviderComplaint {
    let mut complaint = ProviderComplaint::default();
    complaint.take(error, DEPTH);
    complaint
}

impl ProviderComplaint {
    /// Returns true if one of the kinds is `kind`.
    pub fn is(&self, kind: &str) -> bool {
        self.kinds.iter().any(|known| known == kind)
    }

    /// The words, with the part of the request that they are about, where they do not name it: validators only say that
    /// something is not permitted.
    pub fn told(self) -> String {
        let Self { text, param, .. } = self;
        let param = param.filter(|param| !text.is_empty() && !text.contains(param.as_str()));
        match param {
            Some(param) => format!("{text} ({param})"),
            None => text,
        }
    }

    /// Returns the tokens that the model takes, from a field or from words.
    pub fn named_window(&self) -> Option<u32> {
        self.window.or_else(|| find_window(&self.text))
    }

    fn take(&mut self, value: &Value, depth: usize) {
        let Some(depth) = depth.checked_sub(1) else { return };
        match value {
            Value::String(text) => self.say(text, depth),
            // Google's, and validators' lists.
            Value::Array(values) => {
                values.iter().take(ENTRIES).for_each(|value| self.take(value, depth));
            }
            Value::Object(fields) => {
                for name in ["code", "type", "status", "error_type", "reason", "limit_source"] {
                    self.kind(&value[name]);
                }
                // The second is Google's.
                for name in ["retry_after", "retryDelay"] {
                    self.wait(&value[name]);
                }
                let base = &value["base_resp"];
                if let Some((status, kind)) = minimax::read_failure(base) {
                    self.status = self.status.or(Some(status));
                    self.kinds.push(kind.to_owned());
                    self.take(&base["status_msg"], depth);
                }
                self.param = self.param.take().or_else(|| read_param(value));
                self.window = self.window.or_else(|| read_window(&value["n_ctx"]));
                // The second is Amazon's.
                for name in ["message", "Message", "msg", "error", "detail", "errors"] {
                    if let Some(inner) = fields.get(name) {
                        self.take(inner, depth);
                    }
                }
                for name in ["availability", "details", "innererror"] {
                    if value[name].is_object() || value[name].is_array() {
                        self.quietly(&value[name], depth);
                    }
                }
                self.metadata(&value["metadata"], depth);
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// OpenRouter's: what the provider behind it said.
    fn metadata(&mut self, metadata: &Value, depth: usize) {
        for name in ["error_type", "provider_code", "limit_source"] {
            self.kind(&metadata[name]);
        }
        self.wait(&metadata["retry_after"]);
        let reset = read_reset(&metadata["headers"]["X-RateLimit-Reset"]);
        self.reset = self.reset.or(reset);
        let flagged = metadata["reasons"].as_array().is_some_and(|reasons| !reasons.is_empty());
        if flagged || metadata["flagged_input"].is_string() {
            self.kinds.push("flagged".to_owned());
        }
        if !metadata["raw"].is_null() {
            // The status of the provider behind is not OpenRouter's.
            let status = self.status;
            self.take(&metadata["raw"], depth);
            self.status = status.or(self.status);
        }
    }

    /// Reads codes, without words.
    fn quietly(&mut self, value: &Value, depth: usize) {
        let mut inner = Self::default();
        inner.take(value, depth);
        self.kinds.append(&mut inner.kinds);
        self.after = self.after.or(inner.after);
    }

    fn kind(&mut self, value: &Value) {
        match value {
            Value::Number(code) => self.code(code.as_u64()),
            Value::String(text) => match text.parse() {
                Ok(code) => self.code(Some(code)),
                Err(_) if text.len() <= 64 => self.kinds.push(text.to_ascii_lowercase()),
                Err(_) => {}
            },
            _ => {}
        }
    }

    fn code(&mut self, code: Option<u64>) {
        let code = code.and_then(|code| u16::try_from(code).ok());
        self.status = self.status.or(code.filter(|code| (200..600).contains(code)));
    }

    fn wait(&mut self, value: &Value) {
        let text = value.as_str().and_then(|text| text.trim_end_matches('s').parse().ok());
        let seconds = value.as_f64().or(text).filter(|seconds| (0.0..1e9).contains(seconds));
        if let Some(seconds) = seconds {
            self.after =
                Some(Duration::from_secs_f64(seconds.ceil()).min(Duration::from_secs(LONGEST)));
        }
    }

    /// A sentence, or JSON in a string.
    fn say(&mut self, text: &str, depth: usize) {
        if text.trim_start().starts_with(['{', '['])
            && let Ok(inner) = serde_json::from_str::<Value>(text)
        {
            return self.take(&inner, depth);
        }
        let said = plain_words(text);
        if said.is_empty() || self.text.contains(&said) {
            return;
        }
        if !self.text.is_empty() {
            self.text.push_str(": ");
        }
        self.text.push_str(&said);
    }
}

/// Words alone: of a page of HTML its title, and no control characters.
fn plain_words(text: &str) -> String {
    let trimmed = text.trim_start();
    let is_page = trimmed.get(..1) == Some("<");
    let text = if is_page {
        let lower = trimmed.to_ascii_lowercase();
        let title = lower.find("<title>").zip(lower.find("</title>"));
        title.and_then(|(from, to)| trimmed.get(from + 7..to)).unwrap_or_default()
    } else {
        trimmed
    };
    let spaced = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect::<String>();
    spaced.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The part of a request that an error names: OpenAI's `param`, or the `loc` of a validator.
fn read_param(error: &Value) -> Option<String> {
    let steps = error["loc"].as_array().into_iter().flatten().map(|step| match step {
        Value::String(name) => name.clone(),
        other => other.to_string(),
    });
    let steps: Vec<String> = steps.filter(|step| step != "body").take(PARAM_STEPS).collect();
    let param = error["param"].as_str().map_or_else(|| steps.join("."), ToOwned::to_owned);
    Some(plain_words(&param)).filter(|param| !param.is_empty() && param.len() <= LONGEST_PARAM)
}

/// A time in milliseconds since 1970, in quotes or not.
fn read_reset(value: &Value) -> Option<Timestamp> {
    let quoted = value.as_str().and_then(|text| text.parse().ok());
    Timestamp::from_millisecond(value.as_i64().or(quoted)?).ok()
}

fn read_window(value: &Value) -> Option<u32> {
    value.as_u64().and_then(|tokens| u32::try_from(tokens).ok()).filter(|tokens| *tokens > 0)
}

/// Finds the tokens that a model takes in the words of a refusal.
fn find_window(text: &str) -> Option<u32> {
    const BEFORE: [&str; 8] = [
        "maximum context length is ",
        "maximum context length of ",
        "context length of only ",
        "available context size (",
        "maximum prompt length is ",
        "context window of ",
        "tokens allowed (",
        "model token limit: ",
    ];
    const BETWEEN: [(&str, &str); 2] = [("exceed context limit: ", " > "), (" tokens > ", "")];
    let lower = text.to_lowercase();
    let digits = |rest: &str| {
        let digits: String = rest.chars().take_while(|c| c.is_ascii_digit() || *c == ',').collect();
        digits.replace(',', "").parse().ok().filter(|tokens| *tokens >= 256)
    };
    let plain = BEFORE.iter().find_map(|words| digits(lower.split_once(words)?.1));
    plain.or_else(|| {
        BETWEEN.iter().find_map(|(from, to)| {
            let rest = lower.split_once(from)?.1;
            digits(if to.is_empty() { rest } else { rest.split_once(to)?.1 })
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(body: &str) -> ProviderComplaint {
        read_complaint(body.as_bytes())
    }

    #[test]
    fn every_providers_form_gives_its_sentence() {
        for (body, text) in [
            (r#"{"error":{"message":"a b","type":"t","param":null,"code":"c"}}"#, "a b"),
            (r#"{"type":"error","error":{"type":"t","message":"a b"},"request_id":"r"}"#, "a b"),
            (r#"[{"error":{"code":400,"message":"a b","status":"INVALID_ARGUMENT"}}]"#, "a b"),
            (r#"{"object":"error","message":"a b","type":"BadRequestError","code":400}"#, "a b"),
            (r#"{"error":"a b"}"#, "a b"),
            (r#"{"Message":"a b"}"#, "a b"),
            (r#"{"base_resp":{"status_code":1004,"status_msg":"a b"}}"#, "a b"),
            (r#"{"base_resp":{"status_code":0,"status_msg":"success"}}"#, ""),
            (r#"{"detail":"a b"}"#, "a b"),
            (
                r#"{"detail":[{"loc":["body","usage"],"msg":"a b","type":"extra_forbidden"}]}"#,
                "a b",
            ),
            (r#"{"object":"error","message":{"detail":[{"msg":"a b"}]}}"#, "a b"),
            (
                r#"{"error":{"message":"Provider returned error","code":400,"metadata":{"raw":"{\"error\":{\"message\":\"a b\",\"code\":503}}","provider_name":"X"}}}"#,
                "Provider returned error: a b",
            ),
            ("a\n\tb\u{7}", "a b"),
            ("<html><head><title>520: a b</title></head>…", "520: a b"),
            ("<html>", ""),
            ("", ""),
            (r#"{"error":{"message":"cut o"#, r#"{"error":{"message":"cut o"#),
        ] {
            assert_eq!(of(body).text, text, "{body}");
        }
    }

    #[test]
    fn codes_are_numbers_or_words_and_waits_are_seconds() {
        let complaint = of(
            r#"{"error":{"code":"429","message":"m","metadata":{"error_type":"rate_limit_exceeded","raw":"{\"error\":{\"code\":503}}"},
                "availability":{"code":"overloaded","retry_after":1.5}}}"#,
        );
        assert_eq!(complaint.status, Some(429), "the outer one");
        assert!(complaint.is("rate_limit_exceeded") && complaint.is("overloaded"));
        assert_eq!(complaint.after, Some(Duration::from_secs(2)));
        let delayed = of(
            r#"[{"error":{"code":429,"message":"m","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.Help"},{"@type":"type.googleapis.com/google.rpc.QuotaFailure"},{"@type":"x"},{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"36.6s"}]}}]"#,
        );
        assert_eq!(delayed.after, Some(Duration::from_secs(37)));
        let google = of(
            r#"{"error":{"code":400,"message":"m","status":"INVALID_ARGUMENT","details":[{"reason":"API_KEY_INVALID"}]}}"#,
        );
        assert!(google.is("api_key_invalid") && google.is("invalid_argument"), "{google:?}");
        let moderated =
            of(r#"{"error":{"code":403,"message":"m","metadata":{"reasons":["violence"]}}}"#);
        assert!(moderated.is("flagged"));
        assert_eq!(
            of(r#"{"error":{"retry_after":"99999999s"}}"#).after,
            Some(Duration::from_hours(1))
        );
    }

    #[test]
    fn the_part_of_a_request_is_told_where_the_words_do_not_name_it() {
        let forbidden = |place: &str| {
            format!(
                r#"{{"object":"error","message":{{"detail":[{{"type":"extra_forbidden","loc":["body",{place}],"msg":"Extra inputs are not permitted","input":1}}]}}}}"#
            )
        };
        for (body, told) in [
            (
                forbidden(r#""max_completion_tokens""#),
                "Extra inputs are not permitted (max_completion_tokens)",
            ),
            (
                forbidden(r#""messages",3,"assistant","reasoning_content""#),
                "Extra inputs are not permitted (messages.3.assistant.reasoning_content)",
            ),
            (
                r#"{"error":{"message":"Invalid value","param":"tools[0].type"}}"#.to_owned(),
                "Invalid value (tools[0].type)",
            ),
            (
                r#"{"error":{"message":"Invalid 'max_tokens'","param":"max_tokens"}}"#.to_owned(),
                "Invalid 'max_tokens'",
            ),
            (r#"{"error":{"message":"m","param":null}}"#.to_owned(), "m"),
            (r#"{"error":{"param":"x"}}"#.to_owned(), ""),
        ] {
            assert_eq!(of(&body).told(), told, "{body}");
        }
    }

    #[test]
    fn a_refusal_for_its_length_names_what_the_model_takes() {
        for (body, window) in [
            (
                r#"{"error":{"code":400,"message":"m","n_prompt_tokens":4614,"n_ctx":2048}}"#,
                Some(2_048),
            ),
            (
                "request (4614 tokens) exceeds the available context size (2048 tokens), try increasing it",
                Some(2_048),
            ),
            (
                "This model's maximum context length is 128000 tokens. However, you sent 129015",
                Some(128_000),
            ),
            ("prompt is too long: 213462 tokens > 200,000 maximum", Some(200_000)),
            (
                "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000",
                Some(200_000),
            ),
            ("Requested tokens (5000) exceed context window of 4096", Some(4_096)),
            (
                "The input token count (1196265) exceeds the maximum number of tokens allowed (1048576).",
                Some(1_048_576),
            ),
            ("loaded with context length of only 4096 tokens, which is not enough", Some(4_096)),
            ("Your input exceeds the context window of this model.", None),
            ("maximum context length is 12 tokens", None),
        ] {
            assert_eq!(of(body).named_window(), window, "{body}");
        }
    }

    #[test]
    fn a_web_page_is_told_from_an_apis_words() {
        for body in [
            "<!DOCTYPE html>\n<html>",
            "\u{feff}<html lang=en>",
            "  <HTML><head><title>Sign in</title>",
        ] {
            assert!(of(body).is_page, "{body}");
        }
        for body in [r#"{"error":"<html>"}"#, "", "gateway timeout", "<think>hm</think>"] {
            assert!(!of(body).is_page, "{body}");
        }
    }
}
