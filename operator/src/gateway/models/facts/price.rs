//! What a model's tokens cost, on which condition. Pure.

use codebutler_crds::NanoUsd;
use codebutler_crds::limits::ModelPrice;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Deserialize;
use serde_json::Value;

use crate::gateway::budget::estimate;

const DAY: u32 = 24 * 60;

/// A price, and what it is instead under conditions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelPrices {
    base: ModelPrice,
    overrides: Vec<Override>,
}

/// Applies if all of its conditions do; what is absent stays as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Override {
    from_tokens: u64,
    /// From and until which minute of a UTC day; past midnight if the first is the later one.
    between: Option<(u32, u32)>,
    change: PriceChange,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct PriceChange {
    prompt: Option<NanoUsd>,
    completion: Option<NanoUsd>,
    cache_read: Option<NanoUsd>,
    cache_write: Option<NanoUsd>,
}

impl From<ModelPrice> for ModelPrices {
    fn from(base: ModelPrice) -> Self {
        Self { base, overrides: Vec::new() }
    }
}

impl ModelPrices {
    /// What holds for a request of so many tokens.
    pub fn at(&self, prompt_tokens: u64, now: Timestamp) -> ModelPrice {
        let now = now.to_zoned(TimeZone::UTC);
        let minute = u32::try_from(i32::from(now.hour()) * 60 + i32::from(now.minute()));
        let minute = minute.unwrap_or_default();
        let holds = |entry: &&Override| {
            prompt_tokens >= entry.from_tokens
                && entry.between.is_none_or(|(from, until)| {
                    if from <= until {
                        (from..until).contains(&minute)
                    } else {
                        minute >= from || minute < until
                    }
                })
        };
        self.overrides.iter().filter(holds).fold(self.base, |price, entry| entry.change.on(price))
    }
}

impl PriceChange {
    fn on(self, price: ModelPrice) -> ModelPrice {
        ModelPrice {
            prompt: self.prompt.unwrap_or(price.prompt),
            completion: self.completion.unwrap_or(price.completion),
            cache_read: self.cache_read.or(price.cache_read),
            cache_write: self.cache_write.or(price.cache_write),
            ..price
        }
    }
}

/// OpenRouter's form: dollars for one token, as text.
#[derive(Deserialize)]
pub struct PriceEntry {
    #[serde(flatten)]
    base: ListedPrice,
    #[serde(default)]
    overrides: Vec<Value>,
}

#[derive(Deserialize)]
struct ListedPrice {
    prompt: Option<Value>,
    completion: Option<Value>,
    input_cache_read: Option<Value>,
    input_cache_write: Option<Value>,
}

#[derive(Deserialize)]
struct ListedOverride {
    #[serde(flatten)]
    price: ListedPrice,
    min_prompt_tokens: Option<u64>,
    utc_start: Option<Value>,
    utc_end: Option<Value>,
}

impl ListedPrice {
    fn change(&self) -> PriceChange {
        let tokens = |value: &Option<Value>| price_amount(value.as_ref()?);
        PriceChange {
            prompt: tokens(&self.prompt),
            completion: tokens(&self.completion),
            cache_read: tokens(&self.input_cache_read),
            cache_write: tokens(&self.input_cache_write),
        }
    }
}

impl PriceEntry {
    /// Nothing where the two figures that every call needs are not told, or change from call to call
    /// (a router's `-1`).
    pub fn prices(&self) -> Option<ModelPrices> {
        let base = self.base.change();
        base.prompt.and(base.completion)?;
        let overrides = self.overrides.iter().filter_map(Override::read).collect();
        // It says what a picture costs that is seen, and nothing of those that are made.
        Some(ModelPrices { base: base.on(estimate::UNKNOWN), overrides })
    }
}

impl Override {
    /// One whose conditions can't be read counts as none: it would hold always.
    fn read(value: &Value) -> Option<Self> {
        let listed = ListedOverride::deserialize(value).ok()?;
        let between = match (&listed.utc_start, &listed.utc_end) {
            (None, None) => None,
            (Some(from), Some(until)) => Some((read_minute(from)?, read_minute(until)?)),
            _ => return None,
        };
        let from_tokens = listed.min_prompt_tokens.unwrap_or(0);
        Some(Self { from_tokens, between, change: listed.price.change() })
    }
}

/// `HH:MM`, with or without seconds or `Z`, or a whole hour.
fn read_minute(value: &Value) -> Option<u32> {
    let minutes = match value {
        Value::Number(hour) => u32::try_from(hour.as_u64()?).ok()?.checked_mul(60)?,
        Value::String(text) => {
            let mut parts = text.trim_end_matches('Z').split(':');
            let hour: u32 = parts.next()?.parse().ok()?;
            let minute: u32 = parts.next().map_or(Some(0), |part| part.parse().ok())?;
            (minute < 60).then_some(())?;
            hour.checked_mul(60)?.checked_add(minute)?
        }
        _ => return None,
    };
    (minutes <= DAY).then_some(minutes)
}

/// For a million of what this is the price of one. Never through a float.
fn price_amount(value: &Value) -> Option<NanoUsd> {
    let text = match value {
        Value::String(text) => text.trim().to_owned(),
        Value::Number(number) => number.to_string(),
        _ => return None,
    };
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().ok()?;
    NanoUsd::parse(&format!("{mantissa}e{}", exponent.checked_add(6)?)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn prices(value: Value) -> Option<ModelPrices> {
        serde_json::from_value::<PriceEntry>(value).unwrap().prices()
    }

    fn at(prices: &ModelPrices, tokens: u64, time: &str) -> [u64; 4] {
        let ModelPrice { prompt, completion, cache_read, cache_write, .. } =
            prices.at(tokens, format!("2026-11-22T{time}:00Z").parse().unwrap());
        [prompt, completion, cache_read.unwrap_or_default(), cache_write.unwrap_or_default()]
            .map(|usd| usd.0 / 1_000)
    }

    #[test]
    fn a_list_price_is_for_a_million_tokens_and_exact() {
        let listed = json!({
            "prompt": "0.000005", "completion": "2.5e-5", "image": "0.0048",
            "input_cache_read": "0.0000005", "input_cache_write": "0.00000625", "web_search": "0.01"
        });
        let prices = prices(listed).unwrap();
        assert_eq!(at(&prices, 1, "10:00"), [5_000_000, 25_000_000, 500_000, 6_250_000]);
        let fine = price_amount(&json!("0.0000000125"));
        assert_eq!(fine, Some(NanoUsd(12_500_000)), "finer than a nano-dollar for one token");
    }

    #[test]
    fn what_has_no_fixed_price_has_none() {
        assert_eq!(prices(json!({"prompt": "-1", "completion": "-1"})), None);
        assert_eq!(prices(json!({"prompt": "0.1"})), None);
        assert_eq!(prices(json!({})), None);
        assert!(prices(json!({"prompt": "0", "completion": "0"})).is_some(), "free is a price");
    }

    #[test]
    fn conditions_change_prices_and_later_ones_win() {
        let prices = prices(json!({
            "prompt": "0.000002", "completion": "0.00001", "input_cache_read": "0.0000002",
            "overrides": [
                {"min_prompt_tokens": 200_000, "prompt": "0.000004"},
                {"utc_start": "16:30", "utc_end": "00:30", "prompt": "0.000001"},
                {"min_prompt_tokens": 500_000, "utc_start": 9, "utc_end": 10, "completion": "0.00003"},
                {"utc_start": "whenever", "prompt": "9"},
            ],
        }))
        .unwrap();
        let prompt = |tokens, time| at(&prices, tokens, time)[0];
        assert_eq!(prompt(199_999, "12:00"), 2_000_000);
        assert_eq!(prompt(200_000, "12:00"), 4_000_000);
        assert_eq!(prompt(200_000, "16:30"), 1_000_000, "the later entry wins");
        assert_eq!(prompt(1, "00:29"), 1_000_000, "past midnight");
        assert_eq!(prompt(1, "00:30"), 2_000_000);
        assert_eq!(at(&prices, 500_000, "09:59"), [4_000_000, 30_000_000, 200_000, 0]);
        assert_eq!(at(&prices, 500_000, "10:00")[1], 10_000_000);
    }
}
