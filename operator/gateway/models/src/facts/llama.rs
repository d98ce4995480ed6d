//! Reads what llama.cpp says of its model outside of the list: its chat template's abilities, and
//! the window of one conversation. Pure.

use serde_json::Value;

use super::KnownModelFacts;

/// Answer to `GET /props`. Absent fields are not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LlamaProps {
    /// True if the chat template shows a model its tools.
    pub tools: Option<bool>,
    /// True if the model can be shown pictures.
    pub sees: Option<bool>,
    /// Tokens that a conversation may have: those of the server, shared among its slots.
    pub window: Option<u32>,
}

impl LlamaProps {
    /// Reads the answer; what can't be read is not known.
    pub fn read(body: &[u8]) -> Self {
        let props: Value = serde_json::from_slice(body).unwrap_or_default();
        let window = props["default_generation_settings"]["n_ctx"].as_u64();
        Self {
            tools: props["chat_template_caps"]["supports_tools"].as_bool(),
            sees: props["modalities"]["vision"].as_bool(),
            window: window
                .and_then(|tokens| u32::try_from(tokens).ok())
                .filter(|tokens| *tokens > 0),
        }
    }

    /// Adds what it says to what the list says.
    pub fn apply(self, facts: &mut KnownModelFacts) {
        facts.tools = self.tools.or(facts.tools);
        facts.is_template_toolless = self.tools == Some(false);
        facts.sees = self.sees.or(facts.sees);
        facts.window = facts.window.into_iter().chain(self.window).min();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_that_knows_no_tools_is_told_from_one_that_says_nothing() {
        let served = include_bytes!("../../../../../tests/corpus/llama-cpp-props.json");
        let props = LlamaProps::read(served);
        let expected = LlamaProps { tools: Some(false), sees: Some(false), window: Some(65_536) };
        assert_eq!(props, expected);
        let mut facts = KnownModelFacts { window: Some(9_000), ..KnownModelFacts::default() };
        props.apply(&mut facts);
        assert_eq!((facts.tools, facts.is_template_toolless), (Some(false), true));
        assert_eq!(facts.window, Some(9_000));
        assert_eq!(LlamaProps::read(b"<html>"), LlamaProps::default());
        let mut facts = KnownModelFacts { tools: Some(true), ..KnownModelFacts::default() };
        LlamaProps::default().apply(&mut facts);
        assert_eq!((facts.tools, facts.is_template_toolless), (Some(true), false));
    }
}
