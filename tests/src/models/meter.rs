//! Cost of a call by its model's card: tokens counted, cached prefixes sold for less, and newly cached ones for more.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::{Duration, Instant};

use codebutler_crds::NanoUsd;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::card::{CacheRule, ModelCard};
use super::reply::PlayedReply;
use super::usage::{ScriptUsage, WrittenCost};

/// Bytes that count as one token.
const TOKEN: u64 = 4;
/// Number of blocks before a mark in which an earlier cached prefix is looked for.
const LOOK_BACK: usize = 20;
/// Lifetime of a prefix that is cached without a mark.
const AUTOMATIC_LIFE: Duration = Duration::from_mins(10);
/// Automatic caching counts in steps of so many tokens.
const STEP: u64 = 128;

/// Prompt caches of all providers.
#[derive(Debug, Default)]
pub(super) struct KeptMeter {
    kept: HashMap<(String, u64, [u8; 32]), Instant>,
    /// Number of requests that named neither a session nor a provider.
    strays: u64,
}

/// A prefix of a request, by its length and digest.
struct PrefixBoundary {
    tokens: u64,
    digest: [u8; 32],
    marked: bool,
}

/// Tokens of a prompt by price: full, cached, and written to the cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct CountedTokens {
    prompt: u64,
    cached: u64,
    written: u64,
}

impl KeptMeter {
    /// Bills an answer to a request at `now`, by one of so many providers.
    pub(super) fn bill(
        &mut self,
        card: &ModelCard,
        request: &Value,
        reply: &PlayedReply,
        (providers, now): (u64, Instant),
    ) -> ScriptUsage {
        let provider = self.provider(request, providers);
        let boundaries = find_boundaries(request);
        let CountedTokens { prompt, cached, written } = match card.cache {
            CacheRule::None => count_boundaries(&boundaries),
            CacheRule::Automatic { minimum } => {
                self.automatic((&card.id, provider), &boundaries, minimum, now)
            }
            CacheRule::Marked { minimum, life } => {
                self.marked((&card.id, provider), &boundaries, minimum, (life, now))
            }
        };
        let reasoning = reply.reasoning.as_deref().map_or(0, count_tokens);
        let said = reply.content.as_deref().map_or(0, count_tokens);
        let called: u64 = reply
            .calls
            .iter()
            .map(|call| count_tokens(&call.name) + count_tokens(&call.arguments))
            .sum();
        let completion = reasoning + said + called;
        let rates = card.pricing.of(prompt);
        let amount = rates.prompt.times(prompt - cached - written)
            + rates.read.times(cached)
            + rates.write.times(written)
            + rates.completion.times(completion)
            + rates.request.times(1);
        let cost = WrittenCost { text: plain_amount(amount), amount };
        ScriptUsage { prompt, cached, written, completion, reasoning, cost, metered: false }
    }

    /// Picks the provider: always the same one for a session, or for a caller that names one.
    fn provider(&mut self, request: &Value, providers: u64) -> u64 {
        let pins = [
            &request["session_id"],
            &request["prompt_cache_key"],
            &request["provider"]["only"],
            &request["provider"]["order"],
        ];
        let mut hasher = DefaultHasher::new();
        if let Some(pin) = pins.iter().find(|pin| !pin.is_null()) {
            pin.to_string().hash(&mut hasher);
            return hasher.finish() % providers.max(1);
        }
        self.strays += 1;
        self.strays % providers.max(1)
    }

    fn is_kept(
        &self,
        (model, provider): (&str, u64),
        boundary: &PrefixBoundary,
        now: Instant,
    ) -> bool {
        let key = (model.to_owned(), provider, boundary.digest);
        self.kept.get(&key).is_some_and(|until| *until > now)
    }

    fn keep(&mut self, (model, provider): (&str, u64), boundary: &PrefixBoundary, until: Instant) {
        self.kept.insert((model.to_owned(), provider, boundary.digest), until);
    }

    fn marked(
        &mut self,
        at: (&str, u64),
        boundaries: &[PrefixBoundary],
        minimum: u64,
        (life, now): (Duration, Instant),
    ) -> CountedTokens {
        let marks: Vec<usize> = (0..boundaries.len()).filter(|n| boundaries[*n].marked).collect();
        let near = |mark: &usize| (mark.saturating_sub(LOOK_BACK)..=*mark).rev();
        let found = marks
            .iter()
            .rev()
            .flat_map(near)
            .filter(|n| self.is_kept(at, &boundaries[*n], now))
            .max();
        let cached = found.map_or(0, |n| boundaries[n].tokens);
        if let Some(n) = found {
            // Each use extends the lifetime.
            self.keep(at, &boundaries[n], now + life);
        }
        let long = marks.into_iter().filter(|n| boundaries[*n].tokens >= minimum);
        let mut end = 0;
        for n in long {
            end = boundaries[n].tokens;
            self.keep(at, &boundaries[n], now + life);
        }
        CountedTokens {
            cached,
            written: end.saturating_sub(cached),
            ..count_boundaries(boundaries)
        }
    }

    fn automatic(
        &mut self,
        at: (&str, u64),
        boundaries: &[PrefixBoundary],
        minimum: u64,
        now: Instant,
    ) -> CountedTokens {
        let found = boundaries.iter().filter(|b| self.is_kept(at, b, now)).map(|b| b.tokens).max();
        let cached = found.unwrap_or(0) / STEP * STEP;
        for boundary in boundaries.iter().filter(|b| b.tokens >= minimum) {
            self.keep(at, boundary, now + AUTOMATIC_LIFE);
        }
        CountedTokens { cached, ..count_boundaries(boundaries) }
    }
}

fn count_boundaries(boundaries: &[PrefixBoundary]) -> CountedTokens {
    let prompt = boundaries.last().map_or(0, |b| b.tokens);
    CountedTokens { prompt, ..CountedTokens::default() }
}

/// Formats an amount as a plain decimal number.
fn plain_amount(amount: NanoUsd) -> String {
    amount.to_string()
}

/// Counts the tokens of a text as the provider does.
#[must_use]
pub fn count_tokens(text: &str) -> u64 {
    u64::try_from(text.len()).unwrap_or(u64::MAX).div_ceil(TOKEN)
}

/// Finds all prefixes of what the model reads: tools, then the messages, part by part.
fn find_boundaries(request: &Value) -> Vec<PrefixBoundary> {
    let mut found = Vec::new();
    let mut hasher = Sha256::new();
    let mut bytes = 0;
    let mut block = |text: &str, marked: bool| {
        hasher.update(text.as_bytes());
        hasher.update([0]);
        bytes += u64::try_from(text.len()).unwrap_or(0);
        let digest = hasher.clone().finalize().into();
        found.push(PrefixBoundary { tokens: bytes.div_ceil(TOKEN), digest, marked });
    };
    if request["tools"].is_array() {
        block(&request["tools"].to_string(), false);
    }
    let messages = request["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
    for (n, message) in messages.iter().enumerate() {
        let whole = !request["cache_control"].is_null() && n + 1 == messages.len();
        let blocks = message_blocks(message);
        let last = blocks.len();
        for (at, (text, marked)) in blocks.into_iter().enumerate() {
            block(&text, marked || (whole && at + 1 == last));
        }
    }
    found
}

/// Splits a message into blocks, each with a flag for a cache mark. A text alone is as good as a list with one.
fn message_blocks(message: &Value) -> Vec<(String, bool)> {
    let role = message["role"].as_str().unwrap_or_default();
    let id = message["tool_call_id"].as_str().unwrap_or_default();
    let mut blocks = Vec::new();
    for detail in message["reasoning_details"].as_array().into_iter().flatten() {
        blocks.push((format!("{role}:{detail}"), false));
    }
    match &message["content"] {
        Value::String(text) => {
            let part = json!({"type": "text", "text": text});
            blocks.push((format!("{role}:{id}:{part}"), false));
        }
        Value::Array(parts) => {
            for part in parts {
                let mut part = part.clone();
                let mark = part.as_object_mut().and_then(|part| part.remove("cache_control"));
                blocks.push((
                    format!("{role}:{id}:{part}"),
                    mark.is_some_and(|mark| !mark.is_null()),
                ));
            }
        }
        _ => {}
    }
    for call in message["tool_calls"].as_array().into_iter().flatten() {
        blocks.push((format!("{role}:{call}"), false));
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Builds a conversation of so many turns of 4,000 bytes, with or without marks at system and end.
    fn request(turns: usize, marks: bool) -> Value {
        let part = |text: &str, marked: bool| {
            let mut part = json!({"type": "text", "text": text});
            if marked {
                part["cache_control"] = json!({"type": "ephemeral"});
            }
            part
        };
        let mut messages =
            vec![json!({"role": "system", "content": [part(&"s".repeat(8000), marks)]})];
        for turn in 0..turns {
            let text = format!("{turn} {}", "x".repeat(4000));
            messages.push(json!({"role": "user", "content": text}));
        }
        let text = messages.last().map(super::super::played::text_of).unwrap_or_default();
        if let Some(last) = messages.last_mut() {
            last["content"] = json!([part(&text, marks)]);
        }
        json!({"model": "anthropic/x", "messages": messages})
    }

    fn reply() -> PlayedReply {
        PlayedReply::from(&super::super::played::FilledAnswer::say("done"))
    }

    fn bill(
        meter: &mut KeptMeter,
        card: &ModelCard,
        request: &Value,
        at: Instant,
    ) -> (u64, u64, u64) {
        let usage = meter.bill(card, request, &reply(), (1, at));
        (usage.prompt, usage.cached, usage.written)
    }

    #[test]
    fn marks_write_once_and_read_for_five_minutes_after_the_last_use() {
        let (card, mut meter, start) =
            (ModelCard::new("anthropic/x"), KeptMeter::default(), Instant::now());
        let mins = |n| start + Duration::from_mins(n);
        let (first, cached, written) = bill(&mut meter, &card, &request(1, true), start);
        assert_eq!((cached, written), (0, first));
        let (second, cached, written) = bill(&mut meter, &card, &request(2, true), mins(4));
        assert_eq!((cached, written), (first, second - first));
        // The older prefix was used four minutes ago.
        let (_, cached, _) = bill(&mut meter, &card, &request(1, true), mins(8));
        assert_eq!(cached, first);
        let (_, cached, written) = bill(&mut meter, &card, &request(2, true), mins(20));
        assert_eq!((cached, written), (0, second));
        let (_, cached, written) = bill(&mut meter, &card, &request(2, false), mins(20));
        assert_eq!((cached, written), (0, 0));
    }

    #[test]
    fn what_is_short_or_changed_is_not_kept() {
        let (mut card, now) = (ModelCard::new("anthropic/x"), Instant::now());
        card.cache = CacheRule::Marked { minimum: 4096, life: Duration::from_mins(5) };
        let mut meter = KeptMeter::default();
        for _ in 0..2 {
            let (_, cached, written) = bill(&mut meter, &card, &request(1, true), now);
            assert_eq!((cached, written), (0, 0));
        }
        let card = ModelCard::new("anthropic/x");
        bill(&mut meter, &card, &request(1, true), now);
        let mut changed = request(1, true);
        changed["messages"][0]["content"][0]["text"] = "t".repeat(8000).into();
        assert_eq!(bill(&mut meter, &card, &changed, now).1, 0);
        changed = request(1, true);
        changed["tools"] = json!([{}]);
        assert_eq!(bill(&mut meter, &card, &changed, now).1, 0);
    }

    #[test]
    fn automatic_caches_need_no_marks_and_sessions_find_theirs() {
        let (card, now) = (ModelCard::new("openai/x"), Instant::now());
        let mut meter = KeptMeter::default();
        let (first, ..) = bill(&mut meter, &card, &request(1, false), now);
        let (_, cached, written) = bill(&mut meter, &card, &request(2, false), now);
        assert_eq!((cached, written), (first / STEP * STEP, 0));

        let share = |session: bool| {
            let mut meter = KeptMeter::default();
            let cached = (1..10).map(|turn| {
                let mut request = request(turn, false);
                if session {
                    request["session_id"] = "s".into();
                }
                meter.bill(&card, &request, &reply(), (50, now)).cached
            });
            cached.sum::<u64>()
        };
        assert!(share(true) > 0);
        assert_eq!(share(false), 0);
    }

    #[test]
    fn the_bill_is_exact() {
        let card = ModelCard::new("anthropic/x");
        let mut meter = KeptMeter::default();
        meter.bill(&card, &request(1, true), &reply(), (1, Instant::now()));
        let usage = meter.bill(&card, &request(2, true), &reply(), (1, Instant::now()));
        let fresh = usage.prompt - usage.cached - usage.written;
        let expected =
            fresh * 3000 + usage.cached * 300 + usage.written * 3750 + usage.completion * 15_000;
        assert_eq!(usage.cost.amount, NanoUsd(expected));
        assert_eq!(usage.cost.text.parse(), Ok(usage.cost.amount));
    }
}
