//! Parameters of CodeButler's own that some models of an API take and others refuse. No list says it: it is learned from
//! their refusals. Pure.

use codebutler_crds::role::ReasoningEffort;

/// Words of a refusal that is about a parameter's name.
const UNFIT: &[&str] = &[
    "unsupported param",
    "not supported",
    "unrecognized",
    "unknown param",
    "extra inputs",
    "not permitted",
    "unexpected keyword",
];

/// The form in which a model is sent the parameters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SentParams {
    /// True if the bound on an answer has the name that it does not usually have at this API.
    pub has_other_cap: bool,
    pub effort: SentEffort,
    pub blanks: SentBlanks,
}

/// Parts that a model wants in each answer of a conversation, and that those of another model do not have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SentBlanks {
    /// Reasoning: DeepSeek's and Moonshot's APIs.
    pub reasoning: bool,
    /// Signatures of calls: Google's.
    pub signatures: bool,
}

/// The form in which a model is told how much to think.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SentEffort {
    /// As the role wants it.
    #[default]
    Wanted,
    /// Not at all.
    Unsaid,
    /// By the word `none`: there are models that think unless told otherwise, and are refused functions then.
    Off,
}

impl SentParams {
    /// The form to try after a refusal in these words. Nothing where they are about none of these parameters, or each
    /// form was tried.
    pub fn after_refusal(self, said: &str) -> Option<Self> {
        let said = said.to_lowercase();
        let names = |words: &[&str]| words.iter().any(|word| said.contains(word));
        if names(&["reasoning_effort", "reasoning.effort"]) {
            let is_off_wanted = names(&["to 'none'", "to `none`", "to none"]);
            let effort = match self.effort {
                SentEffort::Wanted if !is_off_wanted => SentEffort::Unsaid,
                SentEffort::Wanted | SentEffort::Unsaid => SentEffort::Off,
                SentEffort::Off => return None,
            };
            return Some(Self { effort, ..self });
        }
        let is_about_cap = names(&["max_tokens", "max_completion_tokens"]) && names(UNFIT);
        (is_about_cap && !self.has_other_cap).then_some(Self { has_other_cap: true, ..self })
    }

    /// The form to try after a refusal in these words, where a model stands in for the one that the conversation was held
    /// with.
    pub fn after_lack(self, said: &str) -> Option<Self> {
        let said = said.to_lowercase();
        let names = |words: &[&str]| words.iter().any(|word| said.contains(word));
        let blanks = if names(&["thought_signature"]) && names(&["missing"]) {
            SentBlanks { signatures: true, ..self.blanks }
        } else if names(&["reasoning_content"])
            && names(&["missing", "must be", "required"])
            && !names(UNFIT)
        {
            SentBlanks { reasoning: true, ..self.blanks }
        } else {
            return None;
        };
        (blanks != self.blanks).then_some(Self { blanks, ..self })
    }
}

/// Ranks an effort among the others, the least one first.
pub(crate) const fn rank_effort(effort: ReasoningEffort) -> u8 {
    match effort {
        ReasoningEffort::None => 0,
        ReasoningEffort::Minimal => 1,
        ReasoningEffort::Low => 2,
        ReasoningEffort::Medium => 3,
        ReasoningEffort::High => 4,
        ReasoningEffort::Xhigh => 5,
        ReasoningEffort::Max => 6,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_form_is_tried_once() {
        let usual = SentParams::default();
        let unsaid = SentParams { effort: SentEffort::Unsaid, ..usual };
        let off = SentParams { effort: SentEffort::Off, ..usual };
        let functions = "Function tools with reasoning_effort are not supported for gpt-5.4 in /v1/chat/completions. Please use \
             /v1/responses instead.";
        assert_eq!(usual.after_refusal(functions), Some(unsaid));
        assert_eq!(unsaid.after_refusal(functions), Some(off));
        assert_eq!(off.after_refusal(functions), None);
        let told = "Please use /v1/responses or set reasoning_effort to 'none'.";
        assert_eq!(usual.after_refusal(told), Some(off));
        let value = "Unsupported value: 'reasoning_effort' does not support 'low' with this model. Supported values are: \
                     'medium'.";
        assert_eq!(usual.after_refusal(value), Some(unsaid));
    }

    #[test]
    fn a_model_that_stands_in_says_what_it_misses() {
        let usual = SentParams::default();
        let with = |reasoning, signatures| SentParams {
            blanks: SentBlanks { reasoning, signatures },
            ..usual
        };
        let google = "Function call is missing a thought_signature in functionCall parts.";
        let deepseek =
            "The `reasoning_content` in the thinking mode must be passed back to the API.";
        assert_eq!(usual.after_lack(google), Some(with(false, true)));
        assert_eq!(usual.after_lack(deepseek), Some(with(true, false)));
        assert_eq!(with(false, true).after_lack(deepseek), Some(with(true, true)));
        assert_eq!(with(true, false).after_lack(deepseek), None);
        assert_eq!(usual.after_lack("property 'reasoning_content' is unsupported"), None);
        assert_eq!(usual.after_lack("reasoning_content: Extra inputs are not permitted"), None);
    }

    #[test]
    fn an_answer_is_bounded_by_the_name_that_the_model_knows() {
        let usual = SentParams::default();
        let other = SentParams { has_other_cap: true, ..usual };
        for said in [
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
            "Unrecognized request argument supplied: max_completion_tokens",
            "max_completion_tokens: Extra inputs are not permitted",
        ] {
            assert_eq!(usual.after_refusal(said), Some(other), "{said}");
            assert_eq!(other.after_refusal(said), None, "{said}");
        }
        for said in ["max_tokens is too large: 100000", "Extra inputs are not permitted", "odd"] {
            assert_eq!(usual.after_refusal(said), None, "{said}");
        }
    }
}
