//! What a call cost, read from the provider's own answer. Money never passes through a float.

use codebutler_crds::NanoUsd;
use codebutler_crds::thread::Usage;
use serde::Deserialize;
use serde_json::value::RawValue;

/// A provider's answer, as far as it is looked at.
#[derive(Debug, PartialEq, Eq)]
pub struct Bill {
    /// One call's tokens and money.
    pub usage: Usage,
    /// Whether the provider named a price. If not, the cost is zero because it is unknown.
    pub priced: bool,
    /// Whether the answer is a completion (some providers report failures with status 200).
    pub completed: bool,
}

#[derive(Deserialize)]
struct Answer<'a> {
    #[serde(borrow, default)]
    usage: Option<Reported<'a>>,
    #[serde(borrow, default)]
    choices: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Reported<'a> {
    #[serde(borrow, default)]
    cost: Option<&'a RawValue>,
    #[serde(default)]
    prompt_tokens: Option<u64>,
    #[serde(default)]
    completion_tokens: Option<u64>,
}

/// Reads an answer; nothing if it is no JSON object of a completion's form.
pub fn read(body: &[u8]) -> Option<Bill> {
    // To serde, an array would be a struct too.
    let answer: Answer<'_> = match body.trim_ascii_start().first() {
        Some(b'{') => serde_json::from_slice(body).ok()?,
        _ => return None,
    };
    let completed = answer.choices.is_some_and(|choices| choices.get().starts_with('['));
    let reported = answer.usage.as_ref();
    let cost = reported.and_then(|usage| usage.cost).and_then(|cost| {
        // A figure, or a figure in quotes.
        let text = cost.get();
        let text = text.strip_prefix('"').and_then(|t| t.strip_suffix('"')).unwrap_or(text);
        NanoUsd::parse(text).ok()
    });
    let usage = Usage {
        cost: cost.unwrap_or(NanoUsd::ZERO),
        prompt_tokens: reported.and_then(|usage| usage.prompt_tokens).unwrap_or(0),
        completion_tokens: reported.and_then(|usage| usage.completion_tokens).unwrap_or(0),
        calls: 1,
    };
    Some(Bill { usage, priced: cost.is_some(), completed })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bill(usage: &str) -> Bill {
        read(format!(r#"{{"id":"x","choices":[{{"a":1}}],"usage":{usage}}}"#).as_bytes()).unwrap()
    }

    #[test]
    fn cost_is_exact_to_the_nano_dollar() {
        for (text, nanos) in [
            ("0.1", 100_000_000),
            ("0.3", 300_000_000),
            ("0.000123457", 123_457),
            ("1.23457e-4", 123_457),
            ("12.000000001", 12_000_000_001),
            ("\"0.05\"", 50_000_000),
            ("0", 0),
        ] {
            let bill =
                bill(&format!(r#"{{"prompt_tokens":7,"completion_tokens":3,"cost":{text}}}"#));
            let cost = NanoUsd(nanos);
            let usage = Usage { cost, prompt_tokens: 7, completion_tokens: 3, calls: 1 };
            assert_eq!(bill, Bill { usage, priced: true, completed: true }, "{text}");
        }
    }

    #[test]
    fn an_unpriced_answer_says_so() {
        for usage in [r#"{"prompt_tokens":7}"#, r#"{"cost":null}"#, r#"{"cost":-1}"#, "null"] {
            let bill = bill(usage);
            assert!(!bill.priced && bill.completed, "{usage}");
            assert_eq!((bill.usage.cost, bill.usage.calls), (NanoUsd::ZERO, 1));
        }
    }

    #[test]
    fn failures_in_disguise_are_noticed() {
        let bill = read(br#"{"error":{"code":502,"message":"no provider"}}"#).unwrap();
        assert!(!bill.completed);
        assert!(!read(br#"{"choices":null}"#).unwrap().completed);
        assert_eq!(read(b"<html>"), None);
        assert_eq!(read(b"[]"), None);
    }
}
