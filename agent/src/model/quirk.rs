//! Limitations of a provider, learned from the words of its refusal. Each is a way to send the same conversation
//! otherwise; none is tried twice.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// A way in which a conversation has to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelQuirk {
    /// Leaves out the reasoning of earlier answers: its signature is another's, or it is not known.
    NoReasoning,
    /// Sends a field for reasoning in each answer: with tools, DeepSeek's and Moonshot's APIs refuse one without.
    BlankReasoning,
    /// Sends a word in place of the signature of each call that has none of this model's.
    BlankSignatures,
    /// Puts words of the model between a tool's result and a person's message.
    Bridge,
    /// Leaves out the marks for the provider's cache.
    NoMarks,
    /// Puts each call of a tool in an answer of its own, and its result behind it.
    OneByOne,
    /// Sends calls and their results as words.
    ToldCalls,
    /// Sends ids of calls that are nine letters and digits.
    ShortIds,
    /// Puts the instructions in the first message of a person.
    NoSystem,
    /// Sends no content at all beside calls: an empty one is refused.
    NullContent,
    /// Offers functions alone: the provider takes no tool of free text.
    NoFreeText,
    /// Leaves it to the model whether to call a tool, without a word on it.
    NoToolChoice,
    /// Shortens the descriptions of tools to what the provider takes.
    BriefTools,
}

/// Words of a template that refuses a conversation for the sake of who speaks after whom, or without a reason.
const TEMPLATE: [&str; 5] = [
    "roles must alternate",
    "alternate user/assistant",
    "after the optional system message",
    "raise_exception(",
    "jinja exception",
];
/// Quirks that are tried then, one after the other.
const TURNS: [ModelQuirk; 5] = [
    ModelQuirk::Bridge,
    ModelQuirk::ShortIds,
    ModelQuirk::NoSystem,
    ModelQuirk::OneByOne,
    ModelQuirk::ToldCalls,
];

/// Returns the quirk that the words of a refusal ask for, if they say so.
pub fn learn_quirk(words: &str, known: &BTreeSet<ModelQuirk>) -> Option<ModelQuirk> {
    let words = words.to_lowercase();
    let all = |parts: &[&str]| parts.iter().all(|part| words.contains(part));
    let any = |parts: &[&str]| parts.iter().any(|part| words.contains(part));
    let found = if all(&["tools", "description", "too long"]) {
        ModelQuirk::BriefTools
    } else if all(&["missing a", "thought_signature"]) {
        ModelQuirk::BlankSignatures
    } else if all(&["reasoning_content"])
        && any(&["missing", "must be", "required"])
        && !any(&["unsupported", "not supported"])
    {
        ModelQuirk::BlankReasoning
    } else if all(&["signature", "thinking"])
        || all(&["invalid", "signature"])
        || all(&["reasoning", "encrypted"])
        || all(&["thinking block"])
        || all(&["reasoning_details"])
        || all(&["reasoning_content"])
        || all(&["property 'reasoning'"])
        || all(&["reasoning is not supported"])
        || all(&["thinking_blocks"])
    {
        ModelQuirk::NoReasoning
    } else if all(&["unexpected role", "after role"]) || all(&["role 'user' after role 'tool'"]) {
        ModelQuirk::Bridge
    } else if all(&["tool call ids should be"]) || all(&["tool call id", "length of 9"]) {
        ModelQuirk::ShortIds
    } else if all(&["system role not supported"]) || all(&["system role is not supported"]) {
        ModelQuirk::NoSystem
    } else if TEMPLATE.iter().any(|part| words.contains(part)) {
        // Templates count who speaks, each in its own way, and what they say is cut off.
        return TURNS.into_iter().find(|quirk| !known.contains(quirk));
    } else if all(&["content", "must be non-empty"])
        || all(&["text field", "is blank"])
        || all(&["content", "cannot be empty"])
    {
        ModelQuirk::NullContent
    } else if all(&["custom", "tool"]) || all(&["'custom'"]) {
        ModelQuirk::NoFreeText
    } else if all(&["tool_choice"]) {
        ModelQuirk::NoToolChoice
    } else if all(&["cache_control"]) {
        ModelQuirk::NoMarks
    } else {
        return None;
    };
    (!known.contains(&found)).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_in_providers_own_words_say_what_to_do() {
        for (words, expected) in [
            (
                "messages.1.content.0: Invalid `signature` in `thinking` block",
                Some(ModelQuirk::NoReasoning),
            ),
            (
                "thinking is enabled but reasoning_content is missing in assistant tool call message at index 2",
                Some(ModelQuirk::BlankReasoning),
            ),
            (
                "Function call is missing a thought_signature in functionCall parts. This is required for tools to work correctly",
                Some(ModelQuirk::BlankSignatures),
            ),
            (
                "function call `default_api:Read` in the 2. content block is missing a `thought_signature`. Learn more: \
                 https://example.com/models/thinking/thought-signatures",
                Some(ModelQuirk::BlankSignatures),
            ),
            (
                "'messages.2' : for 'role:assistant' the following must be satisfied[('messages.2' : property \
                 'reasoning_content' is unsupported)]",
                Some(ModelQuirk::NoReasoning),
            ),
            ("property 'reasoning' is unsupported", Some(ModelQuirk::NoReasoning)),
            (
                "Extra inputs are not permitted (messages.3.assistant.reasoning_content)",
                Some(ModelQuirk::NoReasoning),
            ),
            (
                "messages[2].reasoning: reasoning is not supported with this model",
                Some(ModelQuirk::NoReasoning),
            ),
            ("Unexpected role 'user' after role 'tool'", Some(ModelQuirk::Bridge)),
            (
                "Jinja Exception: Conversation roles must alternate user/assistant/user/assistant/...",
                Some(ModelQuirk::Bridge),
            ),
            (
                "...9 %} {{- raise_exception(\"Tool call IDs should be alphanumeric s...",
                Some(ModelQuirk::ShortIds),
            ),
            (
                "Tool call id was call_0123456789abcdef but must be a-z, A-Z, 0-9, with a length of 9.",
                Some(ModelQuirk::ShortIds),
            ),
            ("raise_exception('System role not supported')", Some(ModelQuirk::NoSystem)),
            ("messages: text content blocks must be non-empty", Some(ModelQuirk::NullContent)),
            (
                "Bedrock doesn't support tool_choice=none. To drop it from the call, set `litellm.drop_params = True`",
                Some(ModelQuirk::NoToolChoice),
            ),
            (
                "The `reasoning_content` in the thinking mode must be passed back to the API.",
                Some(ModelQuirk::BlankReasoning),
            ),
            ("cache_control: Extra inputs are not permitted", Some(ModelQuirk::NoMarks)),
            (
                "Invalid 'tools[13].function.description': string too long. Expected a string with maximum length 1024, \
                 but got a string with length 1103 instead.",
                Some(ModelQuirk::BriefTools),
            ),
            ("messages: at least one message is required", None),
            ("the model is overloaded", None),
        ] {
            assert_eq!(learn_quirk(words, &BTreeSet::new()), expected, "{words}");
        }
        let known = BTreeSet::from([ModelQuirk::Bridge]);
        assert_eq!(learn_quirk("Unexpected role 'user' after role 'tool'", &known), None);
        // As llama.cpp's server says it, and the gateway passes on.
        let said = "Unable to generate parser for this template. Automatic parser generation failed: While executing \
                    CallExpression at line 6, column 32 in source: ...== 0) %} {{- raise_exception(\"After the \
                    optional system message, con...";
        let mut known = BTreeSet::new();
        while let Some(quirk) = learn_quirk(said, &known) {
            known.insert(quirk);
        }
        assert_eq!(known, BTreeSet::from(TURNS), "each is tried once");
    }
}
