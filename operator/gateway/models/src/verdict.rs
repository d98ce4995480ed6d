//! Judges a provider's refusal by its status and its words. Pure.

mod words;

use std::time::Duration;

use http::HeaderMap;
use jiff::Timestamp;

use self::words::{
    ANSWER, BAD_PICTURE, CONTENT, CONTENT_KINDS, CREDIT, CREDIT_KINDS, DENIED, DENIED_KINDS, FORM,
    FORM_KINDS, GENERATED, GENERATED_KINDS, INPUT_TOO_LONG, KEY, KEY_KINDS, LONG_TOOL, LOOKUP_KEY,
    NO_PATH, OTHER_API, OVERFLOW, OVERFLOW_KINDS, PASSING, PICTURE_KINDS, PICTURES, PLACE,
    TEMPLATE, TOOLS, UNKNOWN, UNKNOWN_KINDS,
};
use super::complaint::{self, ProviderComplaint};
use super::retry;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerVerdict {
    /// The call was not served, so it is not billed; asking again may help.
    Again,
    /// The call may have been served, and billed; the answer is lost.
    Unanswered,
    /// The conversation is longer than the model takes.
    Overflow,
    /// The content does not pass.
    Content,
    Key,
    /// The key is right, and does not carry the right to do this.
    Forbidden,
    /// The account has no money left.
    Credit,
    /// There is money for an answer of so many tokens.
    Affordable(u32),
    /// The model, or the address, is not known.
    UnknownModel,
    /// The model is served, and not by the API of chats.
    OtherApi,
    /// The model can't call tools.
    NoTools,
    /// The model can't be shown pictures.
    NoPictures,
    /// A picture of the conversation can't be used.
    BadPicture,
    /// The model's chat template does not take a conversation of this form.
    Template,
    /// The machine that serves the model is too small for it.
    TooSmall,
    /// The server is no model API, or has none at this path.
    WrongAddress,
    /// No provider of the model knows all parameters, which the role asks for.
    NoParameters,
    /// No provider of the model promises what the role, or the account, asks for.
    DataPolicy,
    /// The role leaves no provider of the model.
    NoProvider,
    /// The model gives no answers that long.
    AnswerTooLong,
    /// Fault is found with the request.
    Request,
    Strange,
}

/// A verdict, with what was said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelRefusal {
    pub verdict: AnswerVerdict,
    /// Wait before the next request, as the provider wants it.
    pub after: Option<Duration>,
    /// The provider's words, not masked.
    pub said: String,
    /// Tokens that the model takes, where it says so of a conversation that is too long.
    pub window: Option<u32>,
}

impl ModelRefusal {
    fn new(verdict: AnswerVerdict, after: Option<Duration>, complaint: ProviderComplaint) -> Self {
        let window = complaint.named_window().filter(|_| verdict == AnswerVerdict::Overflow);
        Self { verdict, after, said: complaint.told(), window }
    }
}

/// Judges an answer whose status is not 200.
pub fn classify_answer(
    status: u16,
    headers: &HeaderMap,
    body: &[u8],
    now: Timestamp,
) -> ModelRefusal {
    let complaint = complaint::read_complaint(body);
    let after = retry::asked_wait(headers, now).or_else(|| told_wait(status, &complaint, now));
    let verdict = judge_complaint(status, &complaint, after);
    ModelRefusal::new(verdict, after, complaint)
}

/// Judges an error that came with status 200: by the status that it names itself.
pub fn classify_inner(complaint: ProviderComplaint, now: Timestamp) -> ModelRefusal {
    let status = complaint.status.unwrap_or(if complaint.is_page { 200 } else { 0 });
    let after = told_wait(status, &complaint, now);
    let verdict = judge_words(status, &complaint, after).unwrap_or_else(|| {
        match judge_status(status, &complaint) {
            // It had begun. Nothing says that the next time is not better.
            AnswerVerdict::Strange | AnswerVerdict::Request if !(100..500).contains(&status) => {
                AnswerVerdict::Unanswered
            }
            verdict => verdict,
        }
    });
    ModelRefusal::new(verdict, after, complaint)
}

/// The wait that a complaint asks for in a field. A limit (429) may tell its end as a time instead, or in words.
fn told_wait(status: u16, complaint: &ProviderComplaint, now: Timestamp) -> Option<Duration> {
    let reset = complaint.reset.and_then(|reset| retry::wait_until(reset, now));
    let limit = || reset.or_else(|| retry::worded_wait(&complaint.text));
    complaint.after.or_else(|| limit().filter(|_| status == 429))
}

fn judge_complaint(
    status: u16,
    complaint: &ProviderComplaint,
    after: Option<Duration>,
) -> AnswerVerdict {
    let by_words = judge_words(status, complaint, after);
    by_words.unwrap_or_else(|| judge_status(status, complaint))
}

/// Judges by words and kinds, whatever the status: servers have refused requests with each of 200,
/// 400, 422 and 500.
fn judge_words(
    status: u16,
    complaint: &ProviderComplaint,
    after: Option<Duration>,
) -> Option<AnswerVerdict> {
    let text = complaint.text.to_lowercase();
    let says = |words: &[&str]| words.iter().any(|word| text.contains(word));
    let is = |kinds: &[&str]| kinds.iter().any(|kind| complaint.is(kind));
    match status {
        402 => return Some(judge_unpaid(complaint, &text, after)),
        400 | 401 | 403 | 404 if is(DENIED_KINDS) || says(DENIED) => {
            return Some(AnswerVerdict::Forbidden);
        }
        401 => return Some(AnswerVerdict::Key),
        413 => return Some(AnswerVerdict::Overflow),
        // Google's words for a limit of a minute or a day are those of OpenAI for an empty account.
        429 if is(&["resource_exhausted"]) && !has_no_quota(&text) => {
            return Some(AnswerVerdict::Again);
        }
        429 if is(CREDIT_KINDS) || says(CREDIT) => return Some(AnswerVerdict::Credit),
        429 if says(&["request too large", "must be reduced", "required for long context"])
            || is(OVERFLOW_KINDS) =>
        {
            return Some(AnswerVerdict::Overflow);
        }
        429 => return Some(AnswerVerdict::Again),
        520 | 524 => return Some(AnswerVerdict::Unanswered),
        200..500 if complaint.is_page => return Some(AnswerVerdict::WrongAddress),
        _ => {}
    }
    let found = if is(GENERATED_KINDS) || says(GENERATED) {
        // The model wrote no call that can be read, and may the next time. Its own words may stand in these.
        AnswerVerdict::Unanswered
    } else if is(&["max_tokens_exceeded"]) || says(ANSWER) {
        AnswerVerdict::AnswerTooLong
    } else if says(LONG_TOOL) {
        AnswerVerdict::Request
    } else if is(OVERFLOW_KINDS) || says(OVERFLOW) || (says(&["input"]) && says(INPUT_TOO_LONG)) {
        AnswerVerdict::Overflow
    } else if is(CONTENT_KINDS) || says(CONTENT) {
        AnswerVerdict::Content
    } else if is(&["payment_required"]) || is(CREDIT_KINDS) || says(CREDIT) {
        AnswerVerdict::Credit
    } else if says(OTHER_API) {
        AnswerVerdict::OtherApi
    } else if is(PICTURE_KINDS) || says(BAD_PICTURE) {
        AnswerVerdict::BadPicture
    } else if is(KEY_KINDS) || says(KEY) {
        AnswerVerdict::Key
    } else {
        return judge_routing(&text).or_else(|| judge_form(status, complaint, &text));
    };
    Some(found)
}

/// Returns true if the answer to a request that was no call says that the key is wrong, in the
/// words or codes that services document. A status alone says nothing of calls: keys may be good
/// for those and not for lists, and some want a list's key in another header. Where `asks_for_key`
/// is set, it was the key itself that was asked about.
pub fn refuses_key(status: u16, complaint: &ProviderComplaint, asks_for_key: bool) -> bool {
    let text = complaint.text.to_lowercase();
    let is_named = KEY_KINDS.iter().any(|kind| complaint.is(kind))
        || KEY.iter().chain(LOOKUP_KEY).any(|words| text.contains(words))
        // vLLM's, and nothing else.
        || text.trim_end_matches('.') == "unauthorized";
    match status {
        401 => is_named || asks_for_key,
        400 | 403 => is_named,
        _ => false,
    }
}

/// A request that would be refused again, however the server calls that.
fn judge_form(status: u16, complaint: &ProviderComplaint, text: &str) -> Option<AnswerVerdict> {
    let says = |words: &[&str]| words.iter().any(|word| text.contains(word));
    let is = |kinds: &[&str]| kinds.iter().any(|kind| complaint.is(kind));
    let about_request = matches!(status, 0 | 200 | 400 | 405..=412 | 415..=428 | 500..=599);
    let no_path = matches!(status, 404 | 405) && NO_PATH.contains(&text) && !is(&["not_found"]);
    if no_path || says(&["unexpected endpoint"]) {
        Some(AnswerVerdict::WrongAddress)
    } else if about_request && says(TEMPLATE) {
        Some(AnswerVerdict::Template)
    } else if says(&["requires more system memory"]) {
        Some(AnswerVerdict::TooSmall)
    } else if about_request && (is(UNKNOWN_KINDS) || says(UNKNOWN)) {
        Some(AnswerVerdict::UnknownModel)
    } else if about_request && says(FORM) {
        Some(AnswerVerdict::Request)
    } else if is(PASSING) {
        None
    } else if is(&["permission_denied", "permission_error"]) && !says(PLACE) {
        Some(AnswerVerdict::Forbidden)
    } else if about_request && is(FORM_KINDS) {
        Some(AnswerVerdict::Request)
    } else {
        None
    }
}

/// True if the limit that was reached is zero, as for models that an account without payment does not get.
fn has_no_quota(text: &str) -> bool {
    text.split("limit: 0").skip(1).any(|rest| !rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// 402 has three causes, and each its own remedy.
fn judge_unpaid(
    complaint: &ProviderComplaint,
    text: &str,
    after: Option<Duration>,
) -> AnswerVerdict {
    let afford = text.split_once("can only afford ").and_then(|(_, rest)| {
        let digits: String = rest.chars().take_while(|c| c.is_ascii_digit() || *c == ',').collect();
        digits.replace(',', "").parse().ok()
    });
    let in_flight = complaint.is("openrouter_in_flight_budget") || text.contains("in-flight");
    match afford {
        _ if in_flight || after.is_some() => AnswerVerdict::Again,
        Some(tokens) => AnswerVerdict::Affordable(tokens),
        None => AnswerVerdict::Credit,
    }
}

/// Judges refusals that leave no provider to ask.
fn judge_routing(text: &str) -> Option<AnswerVerdict> {
    let says = |words: &[&str]| words.iter().any(|word| text.contains(word));
    if says(TOOLS) {
        Some(AnswerVerdict::NoTools)
    } else if says(PICTURES) {
        Some(AnswerVerdict::NoPictures)
    } else if says(&["data policy", "zero data retention", "guardrail restrictions", "zdr"]) {
        Some(AnswerVerdict::DataPolicy)
    } else if says(&["requested parameters"]) {
        Some(AnswerVerdict::NoParameters)
    } else if says(&["no allowed providers", "no endpoints found", "no endpoints available"]) {
        // With a model's name behind it: nobody offers that model (any more).
        let named = text.contains("no endpoints found for");
        Some(if named { AnswerVerdict::UnknownModel } else { AnswerVerdict::NoProvider })
    } else {
        None
    }
}

/// Judges by the status alone, where no word is known.
fn judge_status(status: u16, complaint: &ProviderComplaint) -> AnswerVerdict {
    let text = complaint.text.to_lowercase();
    match status {
        // Not for the key's sake.
        403 if PLACE.iter().any(|word| text.contains(word)) => AnswerVerdict::Strange,
        403 => AnswerVerdict::Key,
        404 => AnswerVerdict::UnknownModel,
        _ if PASSING.iter().any(|kind| complaint.is(kind)) => AnswerVerdict::Again,
        400 | 405..=407 | 409 | 412 | 415 | 422 | 501 => AnswerVerdict::Request,
        408 | 425 | 500..=599 => AnswerVerdict::Again,
        _ => AnswerVerdict::Strange,
    }
}

#[cfg(test)]
mod tests;
