//! What a call cost, read from the provider's own answer. Money never passes through a float.

use codebutler_crds::NanoUsd;
use codebutler_crds::limits::Price;
use codebutler_crds::thread::Usage;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::gateway::budget::estimate;

/// A provider's answer, as far as it is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bill {
    /// One call's tokens and money.
    pub usage: Usage,
    /// Whether the provider named a price, or the Repo's table has one. If not, the cost is zero
    /// because it is unknown.
    pub priced: bool,
    /// Whether the answer says anything of its usage.
    pub reported: bool,
    /// Whether the answer is a completion (some providers report failures with status 200).
    pub completed: bool,
    /// Images in it.
    pub images: u64,
    /// Seconds of sound that were heard, rounded up.
    pub seconds: Option<u64>,
}

#[derive(Deserialize)]
struct Answer<'a> {
    #[serde(borrow, default)]
    usage: Option<Reported<'a>>,
    #[serde(borrow, default)]
    choices: Option<&'a RawValue>,
    /// Images.
    #[serde(borrow, default)]
    data: Option<Vec<&'a RawValue>>,
    /// A transcription.
    #[serde(borrow, default)]
    text: Option<&'a RawValue>,
    /// Seconds of a transcription.
    #[serde(default)]
    duration: Option<f64>,
}

#[derive(Deserialize)]
struct Reported<'a> {
    #[serde(borrow, default)]
    cost: Option<&'a RawValue>,
    #[serde(default, alias = "input_tokens")]
    prompt_tokens: Option<u64>,
    #[serde(default, alias = "output_tokens")]
    completion_tokens: Option<u64>,
    #[serde(default)]
    seconds: Option<f64>,
}

/// Reads an answer; nothing if it is no JSON object of a completion's form.
pub fn read(body: &[u8]) -> Option<Bill> {
    // To serde, an array would be a struct too.
    let answer: Answer<'_> = match body.trim_ascii_start().first() {
        Some(b'{') => serde_json::from_slice(body).ok()?,
        _ => return None,
    };
    let choices = answer.choices.is_some_and(|choices| choices.get().starts_with('['));
    let text = answer.text.is_some_and(|text| text.get().starts_with('"'));
    let completed = choices || text || answer.data.is_some();
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
        ..Usage::default()
    };
    let images =
        answer.choices.map_or(0, |choices| choices.get().matches("\"image_url\":{").count());
    let images = images + answer.data.map_or(0, |data| data.len());
    Some(Bill {
        usage,
        priced: cost.is_some(),
        reported: answer.usage.is_some(),
        completed,
        images: u64::try_from(images).unwrap_or(u64::MAX),
        seconds: reported.and_then(|usage| usage.seconds).or(answer.duration).and_then(whole),
    })
}

/// Seconds, rounded up.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // checked just before
fn whole(seconds: f64) -> Option<u64> {
    (0.0..1e9).contains(&seconds).then(|| seconds.ceil() as u64)
}

impl Bill {
    /// With the Repo's price where the provider named none.
    #[must_use]
    pub fn at(mut self, price: Option<&Price>) -> Self {
        let Some(price) = price.filter(|_| !self.priced) else { return self };
        let Usage { prompt_tokens, completion_tokens, .. } = self.usage;
        self.usage.cost = estimate::tokens(prompt_tokens, completion_tokens, price)
            + estimate::images(self.images, price)
            + estimate::sound(self.seconds.unwrap_or(0), price);
        self.priced = true;
        self
    }
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
            let usage = Usage {
                cost,
                prompt_tokens: 7,
                completion_tokens: 3,
                calls: 1,
                ..Usage::default()
            };
            let expected = Bill {
                usage,
                priced: true,
                reported: true,
                completed: true,
                images: 0,
                seconds: None,
            };
            assert_eq!(bill, expected, "{text}");
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
    fn a_table_of_prices_fills_in_where_the_provider_says_nothing() {
        let price = Price {
            prompt: NanoUsd(1_000_000_000),
            completion: NanoUsd(2_000_000_000),
            image: NanoUsd(40_000_000),
            audio_minute: NanoUsd(6_000_000),
        };
        let cost = |body: &str| read(body.as_bytes()).unwrap().at(Some(&price)).usage.cost.0;
        let tokens = r#"{"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":2}}"#;
        assert_eq!(cost(tokens), 10_000 + 4_000);
        let own = r#"{"choices":[],"usage":{"prompt_tokens":10,"cost":0.5}}"#;
        assert_eq!(cost(own), 500_000_000);
        assert_eq!(cost(r#"{"data":[{"b64_json":"x"},{"b64_json":"y"}]}"#), 80_000_000);
        assert_eq!(cost(r#"{"text":"hi","usage":{"type":"duration","seconds":30}}"#), 3_000_000);
        assert_eq!(cost(r#"{"text":"hi","duration":59.2}"#), 6_000_000);
        let drawn = r#"{"choices":[{"message":{"images":[{"image_url":{"url":"data:"}}]}}]}"#;
        assert_eq!((read(drawn.as_bytes()).unwrap().images, cost(drawn)), (1, 40_000_000));
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
