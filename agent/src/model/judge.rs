//! Says whether a reply is an answer, before it is recorded as one. Pure.
//!
//! What is no answer is a [`ReplyFlaw`]: it is never posted, never carried out and never ends a run by
//! itself. The model is told of it and asked again, as often as the flaw deserves.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{FinishReason, ModelReply, leak, narration};
use codebutler_guides::text::clip_text;

/// Longest quote of what a model or provider said.
const MAX_SAID: usize = 300;

/// Odd characters can stand in any text; more than the tenth of one is no text.
const MOST_ODD: usize = 10;

/// End of a sentence about a model that can't do a role's work: the kind that can.
pub const FITTING: &str = "it takes a model that calls tools reliably, as small ones seldom do; `spec.model.default` of the \
                           AgentRole names it";

/// Defect that makes a reply no answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "flaw", rename_all = "snake_case")]
pub enum ReplyFlaw {
    /// The text reached the token limit, and goes on.
    CutOff {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tokens: Option<u64>,
    },
    CutCall {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tokens: Option<u64>,
        tool: String,
    },
    /// The reply has neither text nor calls.
    Empty,
    /// The reply holds reasoning alone.
    Thought,
    /// The model or its provider does not want to.
    Refused {
        /// Words of the refusal, if there were any.
        said: String,
    },
    /// The reply writes calls as words.
    Leaked {
        form: String,
    },
    /// The reply is no text: its characters stand for none.
    Garbled,
    /// The reply says what the model is about to do, and does not do it.
    Announced,
    Broken {
        said: String,
    },
}

/// Context of the judgement beside the reply.
#[derive(Clone, Debug, Default)]
pub struct ReplyCircumstances {
    /// Longest answer, in tokens, as far as that is known.
    pub cap: u64,
    /// Tools that could be called now.
    pub tools: Vec<String>,
    /// The run has just posted something: there may be nothing left to say.
    pub spoke: bool,
    /// Something is left to do, so far as anybody knows, and the model was not told yet that saying so
    /// is not doing it.
    pub can_nudge: bool,
}

/// Returns the defect of a reply that is no answer.
pub fn find_flaw(reply: &ModelReply, about: &ReplyCircumstances) -> Option<ReplyFlaw> {
    let message = &reply.message;
    if let Some(error) = &reply.error {
        return Some(ReplyFlaw::Broken { said: clip_text(error, MAX_SAID) });
    }
    if reply.finish == FinishReason::Error {
        return Some(ReplyFlaw::Broken { said: "it broke off with an error".to_owned() });
    }
    let tokens = completion_tokens(reply);
    let full = reply.finish == FinishReason::Length
        || tokens.is_some_and(|tokens| about.cap > 0 && tokens >= about.cap);
    if message.tool_calls.iter().any(|call| is_garbled(&call.name) || is_garbled(&call.arguments)) {
        return Some(ReplyFlaw::Garbled);
    }
    if let Some(last) = message.tool_calls.last() {
        // Arguments that are left out are none. Cut off, they are the beginning of some.
        let cut = full && !last.is_whole();
        return cut.then(|| ReplyFlaw::CutCall { tokens, tool: clip_text(&last.name, 60) });
    }
    if reply.finish == FinishReason::Filtered {
        let said = reply.refusal.clone().or_else(|| message.content.clone());
        return Some(ReplyFlaw::Refused { said: clip_text(&said.unwrap_or_default(), MAX_SAID) });
    }
    if reply.finish == FinishReason::Malformed {
        return Some(ReplyFlaw::Leaked { form: "a call that can't be read".to_owned() });
    }
    let Some(text) = &message.content else { return judge_wordless(reply, about, tokens) };
    if is_garbled(text) {
        return Some(ReplyFlaw::Garbled);
    }
    if let Some(form) = leak::leaked_call(text, &about.tools) {
        return Some(ReplyFlaw::Leaked { form: form.to_owned() });
    }
    if reply.finish == FinishReason::Length {
        return Some(ReplyFlaw::CutOff { tokens });
    }
    let announced = about.can_nudge && !about.tools.is_empty() && narration::announces_step(text);
    announced.then_some(ReplyFlaw::Announced)
}

fn judge_wordless(
    reply: &ModelReply,
    about: &ReplyCircumstances,
    tokens: Option<u64>,
) -> Option<ReplyFlaw> {
    if let Some(said) = &reply.refusal {
        return Some(ReplyFlaw::Refused { said: clip_text(said, MAX_SAID) });
    }
    if reply.finish == FinishReason::Length {
        return Some(ReplyFlaw::CutOff { tokens });
    }
    // A thought without an end may hide an answer that was never said.
    if about.spoke && !reply.is_unended {
        return None;
    }
    let thought = reply.has_thoughts || !reply.message.reasoning.is_empty();
    Some(if thought { ReplyFlaw::Thought } else { ReplyFlaw::Empty })
}

/// True if so many characters of a text stand for none that it can't be text: a server with the wrong template, or a
/// damaged model, answers so.
fn is_garbled(text: &str) -> bool {
    let odd = |c: &char| {
        // Colours of a terminal may be quoted.
        let blank = matches!(c, '\n' | '\r' | '\t' | '\u{1b}');
        *c == char::REPLACEMENT_CHARACTER || (c.is_control() && !blank)
    };
    let (all, odd) = (text.chars().count(), text.chars().filter(odd).count());
    odd * MOST_ODD > all
}

fn completion_tokens(reply: &ModelReply) -> Option<u64> {
    reply.usage.as_ref().and_then(|usage: &Value| usage["completion_tokens"].as_u64())
}

/// Cut-off answers in a row after which it is given up.
const CUTS: u32 = 4;
/// The same for answers that are written in the wrong way.
const LEAKS: u32 = 4;
/// And for what a model rarely does better the third time.
const AGAIN: u32 = 2;

impl ReplyFlaw {
    /// Number of times in a row that it may come before the run ends.
    pub const fn limit(&self) -> u32 {
        match self {
            Self::CutOff { .. } | Self::CutCall { .. } => CUTS,
            Self::Leaked { .. } => LEAKS,
            Self::Announced => u32::MAX,
            Self::Empty
            | Self::Thought
            | Self::Refused { .. }
            | Self::Garbled
            | Self::Broken { .. } => AGAIN,
        }
    }

    /// True if it is the same trouble again.
    pub fn is_like(&self, other: &Self) -> bool {
        let cut = |flaw: &Self| matches!(flaw, Self::CutOff { .. } | Self::CutCall { .. });
        let nothing = |flaw: &Self| matches!(flaw, Self::Empty | Self::Thought);
        std::mem::discriminant(self) == std::mem::discriminant(other)
            || (cut(self) && cut(other))
            || (nothing(self) && nothing(other))
    }

    /// Part of the reply that the conversation keeps.
    pub fn keeps<'a>(&self, content: Option<&'a str>) -> &'a str {
        match self {
            Self::CutOff { .. } => kept_text(content.unwrap_or_default()),
            Self::CutCall { .. } | Self::Announced => content.unwrap_or_default(),
            _ => "",
        }
    }

    pub fn told(&self) -> String {
        let text = match self {
            Self::CutOff { tokens } => format!(
                "Your answer was cut off{}. The part that arrived is kept above. Continue exactly where it ends, without repeating it, in smaller pieces.",
                at_tokens(*tokens)
            ),
            Self::CutCall { tokens, tool } => format!(
                "Your answer was cut off{}, in the middle of a call of `{tool}`: nothing of it was carried \
                 out. Do it in parts: write the first part of a long file, then add to it with further \
                 calls, each at most half as long as this one.",
                at_tokens(*tokens)
            ),
            Self::Empty => {
                "Your answer was empty. Call a tool, or give your final answer.".to_owned()
            }
            Self::Thought => "Your answer contained only reasoning, which is not shown and does nothing. Call a tool, or give your final answer."
                .to_owned(),
            Self::Refused { .. } => "Your last answer was withheld, by you or by your provider, and not shown. Answer once more. If something cannot be done, say what, and why."
                .to_owned(),
            Self::Leaked { form } => format!(
                "Your answer wrote a tool call as text (`{form}`): it was not carried out and not shown. Make the call through your tool interface."
            ),
            Self::Announced => "You announced what you will do and called no tool: nothing was done, and the answer was not shown. An answer without a call ends your run. Do it now, or say what people or another role have to know."
                .to_owned(),
            Self::Garbled => "Your last answer was unreadable: it was not shown, and nothing was carried out. Answer again."
                .to_owned(),
            Self::Broken { said } => format!("Your last answer broke off ({said}). Answer again."),
        };
        format!("[CodeButler] {text}")
    }

    /// Message for the thread when it came too often. `model` names who said it.
    pub fn reason(&self, model: &str) -> String {
        match self {
            Self::CutOff { tokens } | Self::CutCall { tokens, .. } => format!(
                "the answers of the model `{model}` were cut off {CUTS} times in a row{}: a larger \
                 `model.maxTokens` of the AgentRole lets it say more",
                at_tokens(*tokens)
            ),
            Self::Empty => format!(
                "the model `{model}` answered with nothing, and again when it was asked again"
            ),
            Self::Thought => format!(
                "the model `{model}` only thought and said nothing, and again when it was asked again"
            ),
            Self::Refused { said } if said.trim().is_empty() => format!(
                "the model `{model}` or its provider refused to answer, without a word, and again when it \
                 was asked again: say it in other words"
            ),
            Self::Refused { said } => format!(
                "the model `{model}` or its provider refused to answer, and again when it was asked again: \
                 “{}”. Say it in other words",
                said.trim()
            ),
            Self::Leaked { .. } => format!(
                "the model `{model}` wrote its tool calls as text {LEAKS} times in a row, where nothing \
                 can carry them out: {FITTING}"
            ),
            Self::Announced => {
                format!("the model `{model}` says what it will do and does not do it")
            }
            Self::Garbled => format!(
                "the model `{model}` answered unreadably, and again when it was asked again: check that its \
                 server uses the model's own chat template, and that the model's file, or its quantisation, is \
                 whole"
            ),
            Self::Broken { said } => {
                format!("the answers of the model `{model}` broke off: {said}")
            }
        }
    }
}

fn at_tokens(tokens: Option<u64>) -> String {
    tokens.map(|tokens| format!(" at {tokens} tokens")).unwrap_or_default()
}

/// Part of a text that was cut off that can be kept so that the rest joins it: up to the end of its last whole line,
/// or else of its last whole word.
pub fn kept_text(text: &str) -> &str {
    let line = text.rfind('\n').map(|at| at + 1).filter(|at| *at * 2 > text.len());
    let word = text.rfind(char::is_whitespace).map(|at| at + 1);
    line.or(word).map_or(text, |at| &text[..at])
}

/// Two parts of an answer as one.
pub fn join_parts(begun: &str, rest: &str) -> String {
    if begun.is_empty() {
        return rest.to_owned();
    }
    format!("{begun}{}", rest.trim_start_matches([' ', '\n']))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::model::parse_reply;

    fn about() -> ReplyCircumstances {
        ReplyCircumstances {
            cap: 16_000,
            tools: vec!["Read".to_owned()],
            spoke: false,
            can_nudge: true,
        }
    }

    fn judged(choice: &Value, about: &ReplyCircumstances) -> Option<ReplyFlaw> {
        let body = json!({"choices": [choice], "usage": {"completion_tokens": 40}});
        find_flaw(&parse_reply(body.to_string().as_bytes()).unwrap(), about)
    }

    fn calls(arguments: &str) -> Value {
        json!([{"id": "c", "function": {"name": "Read", "arguments": arguments}}])
    }

    #[test]
    fn what_is_an_answer_is_left_alone() {
        for choice in [
            json!({"message": {"content": "The bug is in `a.rs:3`."}, "finish_reason": "stop"}),
            json!({"message": {"content": "Fine.", "refusal": null, "reasoning": "hm"}}),
            json!({"message": {"content": "x"}, "finish_reason": "end_turn"}),
            json!({"message": {"tool_calls": calls("{}")}, "finish_reason": "tool_calls"}),
            json!({"message": {"tool_calls": calls("")}, "finish_reason": "tool_calls"}),
            // The limit was reached behind the last call.
            json!({"message": {"tool_calls": calls("{\"path\": \"x\"}")}, "finish_reason": "length"}),
            // A wrong call is the tool's to judge.
            json!({"message": {"tool_calls": calls("{\"path\": ")}, "finish_reason": "stop"}),
            json!({"message": {"content": "Let me look.", "tool_calls": calls("{}")}}),
        ] {
            assert_eq!(judged(&choice, &about()), None, "{choice}");
        }
    }

    #[test]
    fn what_is_none_has_a_name() {
        let refused = |said: &str| ReplyFlaw::Refused { said: said.into() };
        let (tokens, tool) = (Some(40), "Read".to_owned());
        for (choice, expected) in [
            (json!({"message": {"content": null}}), ReplyFlaw::Empty),
            (json!({"message": {"content": " \n"}, "finish_reason": "stop"}), ReplyFlaw::Empty),
            (json!({"message": {"content": "", "reasoning": "hm"}}), ReplyFlaw::Thought),
            (json!({"message": {"reasoning_content": "hm"}}), ReplyFlaw::Thought),
            (json!({"message": {"content": "<think>\nhm"}}), ReplyFlaw::Thought),
            (json!({"message": {"content": null, "refusal": "I can't."}}), refused("I can't.")),
            (
                json!({"message": {"content": "Sure, first"}, "finish_reason": "content_filter"}),
                refused("Sure, first"),
            ),
            (json!({"message": {"content": null}, "finish_reason": "content_filter"}), refused("")),
            (
                json!({"message": {"content": "abc"}, "finish_reason": "length"}),
                ReplyFlaw::CutOff { tokens },
            ),
            (
                json!({"message": {"reasoning": "hm"}, "finish_reason": "length"}),
                ReplyFlaw::CutOff { tokens },
            ),
            (
                json!({"message": {"tool_calls": calls("{\"path\": \"x")}, "finish_reason": "length"}),
                ReplyFlaw::CutCall { tokens, tool: tool.clone() },
            ),
            (
                json!({"message": {"tool_calls": calls("")}, "finish_reason": "length"}),
                ReplyFlaw::CutCall { tokens, tool },
            ),
            (
                json!({"message": {"content": "half"}, "error": {"message": "upstream broke"}}),
                ReplyFlaw::Broken { said: "upstream broke".into() },
            ),
            (json!({"message": {"content": "Let me run the tests."}}), ReplyFlaw::Announced),
        ] {
            assert_eq!(judged(&choice, &about()), Some(expected), "{choice}");
        }
    }

    #[test]
    fn what_is_no_text_is_garbled_and_what_quotes_some_is_not() {
        for text in [
            "\u{1}\u{fffd}\u{7}k\u{fffd}\u{2}",
            "Hello \u{fffd}\u{fffd}\u{fffd} you",
            "\u{0}\u{0}",
            "a\u{9c}\u{80}b",
            "xb,\u{fffd}u",
            "\u{fffd}",
        ] {
            for finish in ["stop", "length"] {
                let choice = json!({"message": {"content": text}, "finish_reason": finish});
                assert_eq!(judged(&choice, &about()), Some(ReplyFlaw::Garbled), "{text:?}");
            }
        }
        let call = json!({"message": {"tool_calls": calls("\u{fffd}\u{fffd}\u{1}")}});
        assert_eq!(judged(&call, &about()), Some(ReplyFlaw::Garbled));
        for text in [
            "The file holds U+FFFD (\u{fffd}), where `é` was meant.",
            "一二三四五六七八九十",
            "a\tb\r\nc\td",
            "🎉",
            "It is U+FFFD: \u{fffd}",
        ] {
            assert_eq!(judged(&json!({"message": {"content": text}}), &about()), None, "{text:?}");
        }
        let reason = ReplyFlaw::Garbled.reason("m");
        assert!(reason.contains("chat template") && reason.contains("quantisation"), "{reason}");
        let reason = ReplyFlaw::Leaked { form: "<tool_call>".to_owned() }.reason("m");
        assert!(reason.contains("calls tools reliably"), "which kind would do: {reason}");
    }

    #[test]
    fn a_call_that_ends_at_the_limit_was_cut_off_whatever_the_provider_calls_it() {
        let choice =
            json!({"message": {"tool_calls": calls("{\"path\": \"x")}, "finish_reason": "stop"});
        let about = ReplyCircumstances { cap: 40, ..about() };
        let expected = ReplyFlaw::CutCall { tokens: Some(40), tool: "Read".into() };
        assert_eq!(judged(&choice, &about), Some(expected));
    }

    #[test]
    fn who_has_just_posted_need_not_say_more() {
        let about = ReplyCircumstances { spoke: true, can_nudge: false, ..about() };
        assert_eq!(judged(&json!({"message": {"content": null, "reasoning": "hm"}}), &about), None);
        assert_eq!(judged(&json!({"message": {"content": "Let me run the tests."}}), &about), None);
        let thinks = |text: &str| judged(&json!({"message": {"content": text}}), &about);
        assert_eq!(thinks("<think>hm</think>"), None);
        let lost = thinks("<think>hm. It is in `a.rs`.");
        assert_eq!(lost, Some(ReplyFlaw::Thought), "the answer may be behind it");
    }

    #[test]
    fn parts_join_at_a_line_or_a_word() {
        for (text, rest, whole) in [
            ("one\ntwo\nthr", "three\nfour", "one\ntwo\nthree\nfour"),
            ("a long sentence that en", " ends here.", "a long sentence that ends here."),
            (
                "one\nand a much longer last line en",
                "ends",
                "one\nand a much longer last line ends",
            ),
            ("unbroken", "!", "unbroken!"),
            ("", "all", "all"),
        ] {
            assert_eq!(join_parts(kept_text(text), rest), whole);
        }
    }
}
