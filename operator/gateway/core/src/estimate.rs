//! Estimates the highest cost of a call before it is made. Pure, and cheap: the request is not
//! parsed for it. The provider's own figure replaces the estimate afterwards.

use codebutler_crds::NanoUsd;
use codebutler_crds::limits::ModelPrice;
use codebutler_crds::thread::TokenUsage;
use codebutler_crds::wire::{ImageQuality, ImageSize};
use memchr::memmem;

/// A million: prices are for so many tokens.
const MILLION: u64 = 1_000_000;
/// Bytes of a request per token: more tokens than any usual text has.
const BYTES_PER_TOKEN: u64 = 3;
/// Begins a sound in a request, and the tokens that providers count for a second of it.
const SOUND: &[u8] = b"\"input_audio\":{\"data\":\"";
const SECOND: u64 = 32;
/// Tokens that providers count for a picture.
const PICTURE: u64 = 2_000;
/// Tokens of an answer whose length nobody limits.
const ANSWER: u64 = 16_000;
/// Bytes of a minute of speech, at the rate of the leanest recordings.
const BYTES_PER_MINUTE: u64 = 60 * 1_000;

/// Estimated price of one web search.
const SEARCH: NanoUsd = NanoUsd(40_000_000);
/// Prices where `spec.model.prices` does not name the model: those of a large one.
pub const UNKNOWN: ModelPrice = ModelPrice {
    prompt: NanoUsd(3_000_000_000),
    completion: NanoUsd(15_000_000_000),
    image: NanoUsd(100_000_000),
    image_prompt: None,
    audio_prompt: None,
    audio_minute: NanoUsd(10_000_000),
    search: None,
    cache_read: None,
    cache_write: None,
};

/// A chat completion of `body`, whose answer may have `max_tokens`.
pub fn estimate_chat(
    body: &[u8],
    max_tokens: Option<u64>,
    answers: u64,
    price: &ModelPrice,
) -> NanoUsd {
    // Writing to the provider's cache may cost more than the plain prompt.
    let marked = memmem::find(body, b"\"cache_control\"").and(price.cache_write);
    let heard = memmem::find(body, SOUND).and(price.audio_prompt);
    let dearest = price.prompt.max(marked.unwrap_or_default()).max(heard.unwrap_or_default());
    dearest.times(prompt_tokens(body), MILLION)
        + price.completion.times(max_tokens.unwrap_or(ANSWER).saturating_mul(answers), MILLION)
}

/// Prices the tokens of an answer: fresh, cached and newly cached ones each at their own price.
pub fn price_tokens(usage: &TokenUsage, price: &ModelPrice) -> NanoUsd {
    let TokenUsage { prompt_tokens, completion_tokens, cached_tokens, written_tokens, .. } = *usage;
    let fresh = prompt_tokens.saturating_sub(cached_tokens).saturating_sub(written_tokens);
    price.prompt.times(fresh, MILLION)
        + price.cache_read.unwrap_or(price.prompt).times(cached_tokens, MILLION)
        + price.cache_write.unwrap_or(price.prompt).times(written_tokens, MILLION)
        + price.completion.times(completion_tokens, MILLION)
}

/// Images that a model was sent.
pub fn price_sent_images(tokens: u64, price: &ModelPrice) -> NanoUsd {
    price.image_prompt.unwrap_or(price.prompt).times(tokens, MILLION)
}

/// Sounds that a model was sent, where they are billed by tokens.
pub fn price_sent_audio(tokens: u64, price: &ModelPrice) -> NanoUsd {
    price.audio_prompt.unwrap_or(price.prompt).times(tokens, MILLION)
}

/// Price of tokens that are kept for an hour, beside that of any others that are kept: twice that of the plain prompt,
/// as Anthropic has it.
pub fn price_hour(tokens: u64, price: &ModelPrice) -> NanoUsd {
    let usual = price.cache_write.unwrap_or(price.prompt);
    (price.prompt + price.prompt).less(usual).times(tokens, MILLION)
}

/// Searches of the web, where nobody names their price: free ones would not be on the bill.
pub fn price_searches(count: u64, price: &ModelPrice) -> NanoUsd {
    price.search.unwrap_or(SEARCH).times(count, 1)
}

/// Tokens of an image that a model is sent, of the kind that is billed by tokens.
const IMAGE_SENT: u64 = 6_500;

/// Estimates the cost of images before they are made: by size and quality where they are billed by
/// tokens.
pub fn estimate_drawing(
    prompt_chars: u64,
    sent: u64,
    (count, size, quality): (u64, ImageSize, ImageQuality),
    price: &ModelPrice,
) -> NanoUsd {
    let tokens = match (quality, size) {
        (ImageQuality::Low, ImageSize::Square) => 272,
        (ImageQuality::Low, _) => 408,
        (ImageQuality::Medium, ImageSize::Square) => 1_056,
        (ImageQuality::Medium, _) => 1_584,
        (ImageQuality::High, ImageSize::Square) => 4_160,
        (ImageQuality::High, _) => 6_240,
    };
    estimate_images(count, price)
        + price.completion.times(tokens * count, MILLION)
        + price.prompt.times(prompt_chars.div_ceil(BYTES_PER_TOKEN), MILLION)
        + price.image_prompt.unwrap_or(price.prompt).times(sent * IMAGE_SENT, MILLION)
}

/// Estimates the cost of `count` images.
pub fn estimate_images(count: u64, price: &ModelPrice) -> NanoUsd {
    price.image.times(count, 1)
}

/// Estimates the cost of a recording of `bytes`.
pub fn estimate_recording(bytes: u64, price: &ModelPrice) -> NanoUsd {
    price.audio_minute.times(bytes, BYTES_PER_MINUTE)
}

/// Longest sound that so many bytes may be.
pub fn sound_seconds(bytes: u64) -> u64 {
    bytes.div_ceil(BYTES_PER_MINUTE / 60)
}

/// Prices `seconds` of sound.
pub fn price_sound(seconds: u64, price: &ModelPrice) -> NanoUsd {
    price.audio_minute.times(seconds, 60)
}

/// Estimates the tokens of a request. Pictures and sounds in it are long, and cheap for their
/// length.
pub fn prompt_tokens(body: &[u8]) -> u64 {
    let (mut text, mut pictures, mut seconds, mut rest) = (0, 0, 0, body);
    let begin = |rest: &[u8]| {
        let picture = memmem::find(rest, b"\"data:image/").map(|at| (at, 1));
        let sound = memmem::find(rest, SOUND).map(|at| (at, SOUND.len()));
        [picture, sound].into_iter().flatten().min()
    };
    while let Some((at, mark)) = begin(rest) {
        text += at;
        rest = &rest[at + mark..];
        let end = memchr::memchr(b'"', rest).unwrap_or(rest.len());
        rest = &rest[end..];
        if mark == 1 {
            pictures += 1;
        } else {
            seconds += sound_seconds(u64::try_from(end / 4 * 3).unwrap_or(u64::MAX));
        }
    }
    let bytes = u64::try_from(text + rest.len()).unwrap_or(u64::MAX);
    let sounds = seconds.saturating_mul(SECOND);
    bytes.div_ceil(BYTES_PER_TOKEN) + pictures * PICTURE + sounds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_counts_by_its_length_and_pictures_by_their_number() {
        assert_eq!(prompt_tokens(&[b'x'; 3000]), 1000);
        let picture = format!(r#"{{"url":"data:image/png;base64,{}"}}"#, "A".repeat(1_000_000));
        let tokens = prompt_tokens(picture.as_bytes());
        assert!((2_000..2_020).contains(&tokens), "{tokens}");
        assert_eq!(prompt_tokens(b"\"data:image/"), 2_000);
        let sound =
            format!(r#"{{"input_audio":{{"data":"{}","format":"mp3"}}}}"#, "A".repeat(400_000));
        let tokens = prompt_tokens(sound.as_bytes());
        assert!((100..40_000).contains(&tokens), "{tokens}");
    }

    #[test]
    fn an_image_is_estimated_by_its_size_and_quality() {
        let price = ModelPrice {
            prompt: NanoUsd(5_000_000_000),
            completion: NanoUsd(40_000_000_000),
            image_prompt: Some(NanoUsd(10_000_000_000)),
            ..ModelPrice::default()
        };
        let of = |sent, count, size, quality| {
            estimate_drawing(300, sent, (count, size, quality), &price).0
        };
        let words = 100 * 5_000;
        assert_eq!(of(0, 1, ImageSize::Square, ImageQuality::Low), words + 272 * 40_000);
        assert_eq!(of(0, 3, ImageSize::Portrait, ImageQuality::High), words + 18_720 * 40_000);
        let sent = 2 * 6_500 * 10_000;
        assert_eq!(of(2, 1, ImageSize::Square, ImageQuality::Medium), words + 42_240_000 + sent);
        let each = ModelPrice { image: NanoUsd(40_000_000), ..ModelPrice::default() };
        let low = (2, ImageSize::Square, ImageQuality::Low);
        assert_eq!(estimate_drawing(300, 1, low, &each), NanoUsd(80_000_000));
    }

    #[test]
    fn an_estimate_is_prompt_and_longest_answer() {
        let price = ModelPrice {
            prompt: NanoUsd(3_000_000_000),
            completion: NanoUsd(15_000_000_000),
            ..ModelPrice::default()
        };
        let cost = estimate_chat(&[b'x'; 3000], Some(100), 1, &price);
        assert_eq!(cost, NanoUsd(1000 * 3_000 + 100 * 15_000));
        assert_eq!(estimate_chat(&[], None, 2, &price), NanoUsd(2 * 16_000 * 15_000));
        let usage = |prompt_tokens, cached_tokens, written_tokens| TokenUsage {
            prompt_tokens,
            completion_tokens: 1,
            cached_tokens,
            written_tokens,
            ..TokenUsage::default()
        };
        assert_eq!(price_tokens(&usage(10, 0, 0), &price), NanoUsd(45_000));
        assert_eq!(
            price_tokens(&usage(10, 6, 3), &price),
            NanoUsd(45_000),
            "no price of their own"
        );
        let kept = ModelPrice {
            cache_read: Some(NanoUsd(300_000_000)),
            cache_write: Some(NanoUsd(3_750_000_000)),
            ..price
        };
        assert_eq!(price_tokens(&usage(10, 6, 3), &kept), NanoUsd(3_000 + 1_800 + 11_250 + 15_000));
        assert_eq!(price_hour(2, &kept), NanoUsd(2 * (6_000 - 3_750)));
        assert_eq!(price_hour(2, &price), NanoUsd(2 * 3_000), "twice the prompt's in all");
        let heard = ModelPrice { audio_prompt: Some(NanoUsd(40_000_000_000)), ..price };
        assert_eq!(price_sent_audio(3, &heard), NanoUsd(3 * 40_000));
        assert_eq!(price_sent_audio(3, &price), NanoUsd(3 * 3_000));
        let sound = br#"{"input_audio":{"data":"","format":"mp3"}}"#;
        let tokens = prompt_tokens(sound);
        assert_eq!(estimate_chat(sound, Some(0), 1, &heard), NanoUsd(tokens * 40_000));
        let marked = br#"{"cache_control":1}"#;
        assert_eq!(estimate_chat(marked, Some(0), 1, &kept), NanoUsd(7 * 3_750));
        assert_eq!(estimate_chat(marked, Some(0), 1, &price), NanoUsd(7 * 3_000));
        let price = ModelPrice { audio_minute: NanoUsd(6_000_000), ..ModelPrice::default() };
        assert_eq!(price_sound(90, &price), NanoUsd(9_000_000));
    }
}
