//! Explains a refusal to people and agents: one sentence that names the field to change, and the
//! provider's own words behind it. Pure.

use codebutler_crds::wire::ErrorCode;
use codebutler_gateway_core::redact::SecretRedactor;

use super::verdict::AnswerVerdict;

/// Characters of a provider's words that are passed on, and how many of them are the last ones.
const SAID: usize = 300;
const SAID_LAST: usize = 120;

/// A refusal that asking again does not help against.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedModel {
    pub verdict: AnswerVerdict,
    pub sentence: String,
    /// Tokens that the provider says the model takes, of a conversation that is too long.
    pub window: Option<u32>,
}

#[derive(Clone, Copy, Debug)]
pub struct RefusalSubject<'a> {
    pub secret: &'a str,
    /// The field of the Repo that describes the provider.
    pub field: &'a str,
    /// The model that was asked for.
    pub model: &'a str,
    /// Name of the `AgentRole`.
    pub role: &'a str,
    /// Models of the provider with similar names, in code marks.
    pub nearest: &'a [String],
    pub status: u16,
    /// Tokens that the provider says the model takes.
    pub window: Option<u32>,
}

impl RefusedModel {
    /// Builds the refusal with its sentence. `said` is masked.
    pub fn new(verdict: AnswerVerdict, about: &RefusalSubject<'_>, said: &str) -> Self {
        let sentence = with_words(refusal_sentence(verdict, about), said);
        Self { verdict, sentence, window: about.window }
    }

    /// The code that the agent acts on.
    pub const fn code(&self) -> ErrorCode {
        match self.verdict {
            AnswerVerdict::Again => ErrorCode::Unavailable,
            AnswerVerdict::Unanswered => ErrorCode::Unanswered,
            AnswerVerdict::Overflow => ErrorCode::ContextOverflow,
            AnswerVerdict::Content => ErrorCode::ContentRefused,
            AnswerVerdict::Request
            | AnswerVerdict::Template
            | AnswerVerdict::NoPictures
            | AnswerVerdict::BadPicture => ErrorCode::InvalidRequest,
            AnswerVerdict::Key
            | AnswerVerdict::Forbidden
            | AnswerVerdict::Credit
            | AnswerVerdict::Affordable(_)
            | AnswerVerdict::UnknownModel
            | AnswerVerdict::OtherApi
            | AnswerVerdict::NoTools
            | AnswerVerdict::NoParameters
            | AnswerVerdict::DataPolicy
            | AnswerVerdict::NoProvider
            | AnswerVerdict::AnswerTooLong
            | AnswerVerdict::TooSmall
            | AnswerVerdict::WrongAddress
            | AnswerVerdict::Strange => ErrorCode::Upstream,
        }
    }

    /// Returns true if no call of the Repo will be answered until somebody fixes it.
    pub const fn is_about_account(&self) -> bool {
        matches!(
            self.verdict,
            AnswerVerdict::Key | AnswerVerdict::Credit | AnswerVerdict::Affordable(_)
        )
    }

    /// Returns true if a person has to change something before the same call is answered.
    pub const fn is_for_people(&self) -> bool {
        !matches!(
            self.verdict,
            AnswerVerdict::Again
                | AnswerVerdict::Unanswered
                | AnswerVerdict::Overflow
                | AnswerVerdict::Content
                | AnswerVerdict::NoPictures
                | AnswerVerdict::BadPicture
        )
    }

    pub const fn outcome(&self) -> &'static str {
        match self.verdict {
            AnswerVerdict::Again => "unavailable",
            AnswerVerdict::Unanswered => "lost",
            AnswerVerdict::Key
            | AnswerVerdict::Forbidden
            | AnswerVerdict::Credit
            | AnswerVerdict::Affordable(_)
            | AnswerVerdict::Content => "refused",
            _ => "rejected",
        }
    }
}

/// A sentence with the provider's words behind it, if there are any.
pub fn with_words(sentence: String, said: &str) -> String {
    if said.is_empty() { sentence } else { format!("{sentence}. The provider says: {said}") }
}

/// A provider's words as they may be shown: without secrets, and not too many.
pub fn shown_refusal(said: &str, key: &str, redactor: &SecretRedactor) -> String {
    let said =
        if key.len() < 4 { said.to_owned() } else { said.replace(key, "[redacted:api-key]") };
    let masked = redactor.mask(&said);
    let chars: Vec<char> = masked.chars().collect();
    if chars.len() <= SAID {
        return masked.into_owned();
    }
    // Where a server shows how it came to an error, the error itself is the end.
    let (beginning, rest) = chars.split_at(SAID - SAID_LAST);
    let end = &rest[rest.len() - SAID_LAST..];
    let text = |part: &[char]| part.iter().collect::<String>();
    format!("{} … {}", text(beginning).trim_end(), text(end).trim_start())
}

fn refusal_sentence(verdict: AnswerVerdict, about: &RefusalSubject<'_>) -> String {
    let RefusalSubject { secret, field: place, model, role, status, window, .. } = *about;
    let field = |field: &str| format!("{field} of AgentRole `{role}`");
    match verdict {
        AnswerVerdict::Again => "the provider is not available right now: try again".to_owned(),
        AnswerVerdict::Unanswered => {
            "the provider failed in the middle of its answer; it may have been billed".to_owned()
        }
        AnswerVerdict::Overflow => format!(
            "the conversation is longer than the model `{model}` takes{}: it has to be shorter, \
             the model served with a larger window, or one that has it chosen in {}",
            window
                .map(|tokens| format!(" (its context length is {tokens} tokens)"))
                .unwrap_or_default(),
            field("spec.model")
        ),
        AnswerVerdict::Content => format!(
            "the provider of `{model}` does not let this content pass: say it differently, or \
             choose another model in {}",
            field("spec.model")
        ),
        AnswerVerdict::Key => {
            format!("the provider refused the key of Secret `{secret}`: put a valid one into it")
        }
        AnswerVerdict::Forbidden => format!(
            "the provider does not permit this to the key of Secret `{secret}`: give the key the \
             right to use `{model}` there, or choose another model in {}",
            field("spec.model")
        ),
        AnswerVerdict::Credit => format!(
            "the provider says that the account of Secret `{secret}` has no credit left: add \
             some, or put another key into it"
        ),
        AnswerVerdict::Affordable(tokens) => format!(
            "the credit of Secret `{secret}` is enough for an answer of {tokens} tokens and no \
             more: add some"
        ),
        AnswerVerdict::WrongAddress => format!(
            "what answers at {place}.baseURL of the Repo is no model API (status {status}): \
             correct the address, or have the proxy on the way let these requests through"
        ),
        AnswerVerdict::Request => {
            format!("the provider of `{model}` finds fault with the request (status {status})")
        }
        AnswerVerdict::Strange => {
            format!("the provider of `{model}` answered with the unexpected status {status}")
        }
        about_model => model_sentence(about_model, about),
    }
}

/// Explains what a model, or those who serve it, can't do.
fn model_sentence(verdict: AnswerVerdict, about: &RefusalSubject<'_>) -> String {
    let RefusalSubject { field: place, model, role, nearest, .. } = *about;
    let field = |field: &str| format!("{field} of AgentRole `{role}`");
    match verdict {
        AnswerVerdict::UnknownModel if !nearest.is_empty() => format!(
            "the provider does not know the model `{model}`: correct {}. Nearest are {}",
            field("spec.model"),
            nearest.join(", ")
        ),
        AnswerVerdict::OtherApi => format!(
            "the provider does not serve the model `{model}` by chat completions, in which it is asked: choose \
             another one in {}, or reach it by a provider that does (OpenRouter)",
            field("spec.model")
        ),
        AnswerVerdict::NoTools => format!(
            "the model `{model}` can't call tools there: choose one that can in {}, or have it \
             served with tools",
            field("spec.model")
        ),
        AnswerVerdict::NoPictures => format!("the model `{model}` can't be shown pictures there"),
        AnswerVerdict::BadPicture => {
            format!("the provider of `{model}` can't use a picture (image) of this conversation")
        }
        AnswerVerdict::NoParameters => format!(
            "no provider of `{model}` knows all parameters of the request: choose another model, \
             or unset {}",
            field("spec.model.routing.requireParameters")
        ),
        AnswerVerdict::DataPolicy => format!(
            "no provider of `{model}` keeps to the data policy that is asked for: change {} (or \
             zdr), or the account's privacy settings, or choose another model",
            field("spec.model.routing.dataCollection")
        ),
        AnswerVerdict::NoProvider => format!(
            "no provider of `{model}` is left: change {} (only, ignore, order, allowFallbacks), \
             or choose another model",
            field("spec.model.routing")
        ),
        AnswerVerdict::AnswerTooLong => format!(
            "the model `{model}` gives no answers that long: lower {}",
            field("spec.model.maxTokens")
        ),
        AnswerVerdict::Template => format!(
            "the chat template of `{model}` does not take this conversation: have it served with \
             another template, or choose another model in {}",
            field("spec.model")
        ),
        AnswerVerdict::TooSmall => format!(
            "the machine that serves `{model}` is too small for it: have a smaller one served, and \
             name it in {}",
            field("spec.model")
        ),
        _ => format!(
            "the provider does not know the model `{model}`: correct {}, or {place}.baseURL \
             of the Repo",
            field("spec.model")
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ABOUT: RefusalSubject<'static> = RefusalSubject {
        secret: "model",
        field: "spec.model",
        model: "x/y",
        role: "coder",
        nearest: &[],
        status: 400,
        window: None,
    };

    #[test]
    fn a_sentence_names_what_to_change_and_what_was_said() {
        let near = ["`x/z`".to_owned()];
        let of = |verdict| RefusedModel::new(verdict, &ABOUT, "").sentence;
        assert!(of(AnswerVerdict::UnknownModel).contains("spec.model.baseURL"));
        let about = RefusalSubject { nearest: &near, ..ABOUT };
        assert_eq!(
            RefusedModel::new(AnswerVerdict::UnknownModel, &about, "x/y is not a valid model ID")
                .sentence,
            "the provider does not know the model `x/y`: correct spec.model of AgentRole `coder`. \
             Nearest are `x/z`. The provider says: x/y is not a valid model ID"
        );
        for (verdict, named) in [
            (AnswerVerdict::Key, "Secret `model`"),
            (AnswerVerdict::Credit, "Secret `model`"),
            (AnswerVerdict::NoTools, "spec.model of AgentRole `coder`"),
            (AnswerVerdict::OtherApi, "spec.model of AgentRole `coder`"),
            (AnswerVerdict::DataPolicy, "spec.model.routing.dataCollection"),
            (AnswerVerdict::NoParameters, "spec.model.routing.requireParameters"),
            (AnswerVerdict::NoProvider, "spec.model.routing of"),
            (AnswerVerdict::AnswerTooLong, "spec.model.maxTokens"),
            (AnswerVerdict::Forbidden, "Secret `model`"),
            (AnswerVerdict::Template, "spec.model of AgentRole `coder`"),
            (AnswerVerdict::TooSmall, "spec.model of AgentRole `coder`"),
            (AnswerVerdict::WrongAddress, "spec.model.baseURL"),
        ] {
            assert!(of(verdict).contains(named), "{verdict:?}");
        }
    }

    #[test]
    fn what_is_shown_has_no_secret_and_an_end() {
        let redactor = SecretRedactor::default();
        let key = "k3y-of-no-known-form";
        let github = ["ghp", &"a1B2".repeat(9)].join("_");
        let masked = |said: &str| shown_refusal(said, key, &redactor);
        assert_eq!(masked(&format!("bad key {key}!")), "bad key [redacted:api-key]!");
        assert!(!masked(&format!("you sent {github}")).contains(&github));
        let cut = masked(&format!("{}{github}", "ä".repeat(290)));
        assert!(
            cut.chars().count() <= 303 && !cut.contains("ghp_"),
            "masked before it is cut: {cut}"
        );
        let long = format!("While executing {} Error: roles must alternate", "x ".repeat(400));
        let cut = masked(&long);
        assert!(cut.starts_with("While executing") && cut.ends_with("Error: roles must alternate"));
        assert_eq!(shown_refusal("a b", "", &redactor), "a b");
    }
}
