//! Prices of a model's tokens, and the conditions on which they apply. Pure.

use codebutler_crds::NanoUsd;
use codebutler_crds::limits::ModelPrice;
use codebutler_gateway_core::estimate;
use jiff::Timestamp;
use jiff::civil::Weekday;
use jiff::tz::TimeZone;
use serde_json::{Map, Value};

/// The clock number of the end of a day.
const MIDNIGHT: u32 = 2400;
/// Nano-dollars for a million tokens in one of xAI's whole numbers.
const SCALE: u64 = 100_000;
/// The whole of a price, in the parts that discounts are counted in.
const WHOLE: u64 = 1_000_000_000;
/// No image is that cheap: a lower price is a token's.
const LEAST_IMAGE: NanoUsd = NanoUsd(1_000_000);
/// Tokens of an image of models that chat.
const IMAGE_TOKENS: u64 = 1_500;
/// Prices that an override may change, as OpenRouter declares them. Most are of nothing that is counted
/// here, but an entry that has one of them is no less understood.
pub const PRICE_KEYS: [&str; 14] = [
    "prompt",
    "completion",
    "input_cache_read",
    "input_cache_write",
    "input_cache_write_1h",
    "input_audio_cache",
    "audio",
    "audio_output",
    "image",
    "image_output",
    "image_token",
    "internal_reasoning",
    "request",
    "web_search",
];
/// Conditions of an override, as OpenRouter declares them.
pub const CONDITION_KEYS: [&str; 4] = ["min_prompt_tokens", "utc_start", "utc_end", "utc_days"];

/// A price, and what it is instead under conditions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelPrices {
    base: ModelPrice,
    /// Price of a call, whatever its tokens.
    request: NanoUsd,
    overrides: Vec<PriceOverride>,
}

/// Applies if all of its conditions do; what is absent stays as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
struct PriceOverride {
    /// Number of the prompt's tokens above which it applies.
    above_tokens: Option<u64>,
    /// Clock numbers of a UTC day between which it applies; past midnight if the first is the later
    /// one.
    between: Option<(u32, u32)>,
    /// The UTC days that it is for.
    days: Option<Vec<Weekday>>,
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
        Self { base, request: NanoUsd::ZERO, overrides: Vec::new() }
    }
}

impl ModelPrices {
    /// Returns the token prices of a request of so many tokens.
    pub fn at(&self, prompt_tokens: u64, now: Timestamp) -> ModelPrice {
        let applying = self.overrides.iter().filter(|entry| entry.applies(prompt_tokens, now));
        applying.fold(self.base, |price, entry| entry.change.on(price))
    }

    /// Returns the price of a request besides its tokens.
    pub const fn per_request(&self) -> NanoUsd {
        self.request
    }
}

impl PriceChange {
    /// Prices of tokens, for a million of them each, after the discount.
    fn read(entry: &Map<String, Value>, share: u64) -> Self {
        let tokens = |name: &str| Some(price_amount(entry.get(name)?, 6)?.times(share, WHOLE));
        Self {
            prompt: tokens("prompt"),
            completion: tokens("completion"),
            cache_read: tokens("input_cache_read"),
            cache_write: tokens("input_cache_write"),
        }
    }

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

/// Reads OpenRouter's form: dollars for one token, as text. Nothing where the two figures that every
/// call needs are not there, or change from call to call (a router's `-1`).
pub fn read_prices(listed: &Value) -> Option<ModelPrices> {
    let listed = listed.as_object()?;
    let share = remaining_share(listed.get("discount"));
    let change = PriceChange::read(listed, share);
    change.prompt.and(change.completion)?;
    let mut base = change.on(estimate::UNKNOWN);
    let each = |name: &str| Some(price_amount(listed.get(name)?, 0)?.times(share, WHOLE));
    base.image = each("image_output").map_or(base.image, image_price);
    let audio = listed.get("audio").and_then(|audio| price_amount(audio, 6));
    // Nothing is a price that nobody has named: then sound costs what text does.
    let audio = audio.filter(|price| *price > NanoUsd::ZERO);
    base.audio_prompt = audio.map(|price| price.times(share, WHOLE));
    let overrides = listed.get("overrides").and_then(Value::as_array).into_iter().flatten();
    let overrides = overrides.filter_map(|entry| PriceOverride::read(entry.as_object()?, share));
    let request = each("request").unwrap_or_default();
    Some(ModelPrices { base, request, overrides: overrides.collect() })
}

/// Reads xAI's form: whole numbers beside the model's id, of which ten thousand are a dollar for a million tokens.
pub fn read_scaled_prices(listed: &Value) -> Option<ModelPrices> {
    let change = |suffix: &str| {
        let price = |name: &str| {
            let figure = listed.get(format!("{name}{suffix}"))?.as_u64()?;
            Some(NanoUsd(figure.checked_mul(SCALE)?)).filter(|price| *price > NanoUsd::ZERO)
        };
        PriceChange {
            prompt: price("prompt_text_token_price"),
            completion: price("completion_text_token_price"),
            cache_read: price("cached_prompt_text_token_price"),
            cache_write: None,
        }
    };
    let usual = change("");
    usual.prompt.and(usual.completion)?;
    let threshold = listed.get("long_context_threshold").and_then(Value::as_u64);
    let long = threshold.filter(|tokens| *tokens > 0).map(|tokens| PriceOverride {
        above_tokens: Some(tokens),
        between: None,
        days: None,
        change: change("_long_context"),
    });
    let base = usual.on(estimate::UNKNOWN);
    Some(ModelPrices { base, request: NanoUsd::ZERO, overrides: long.into_iter().collect() })
}

/// The price of one image. Most lists tell that of a token of it.
fn image_price(listed: NanoUsd) -> NanoUsd {
    if listed < LEAST_IMAGE { listed.times(IMAGE_TOKENS, 1) } else { listed }
}

/// Returns the rest of a price after a discount, in parts of [`WHOLE`].
fn remaining_share(discount: Option<&Value>) -> u64 {
    let discount = discount.and_then(|discount| price_amount(discount, 0)).unwrap_or_default();
    WHOLE.checked_sub(discount.0).unwrap_or(WHOLE)
}

impl PriceOverride {
    /// Reads an override. One with a condition that can't be understood counts as none: it would
    /// apply always.
    fn read(entry: &Map<String, Value>, share: u64) -> Option<Self> {
        let understood = |(name, value): (&String, &Value)| {
            let known = PRICE_KEYS.iter().chain(&CONDITION_KEYS).any(|known| known == name);
            known || value.is_null()
        };
        if !entry.iter().all(understood) {
            return None;
        }
        let given = |name: &str| entry.get(name).filter(|value| !value.is_null());
        let between = match (given("utc_start"), given("utc_end")) {
            (None, None) => None,
            (Some(from), Some(until)) => Some((read_clock(from)?, read_clock(until)?)),
            _ => return None,
        };
        let above_tokens = match given("min_prompt_tokens") {
            Some(tokens) => Some(read_threshold(tokens)?),
            None => None,
        };
        let days = match given("utc_days") {
            Some(days) => Some(days.as_array()?.iter().filter_map(read_weekday).collect()),
            None => None,
        };
        Some(Self { above_tokens, between, days, change: PriceChange::read(entry, share) })
    }

    fn applies(&self, prompt_tokens: u64, now: Timestamp) -> bool {
        let now = now.to_zoned(TimeZone::UTC);
        let clock = i32::from(now.hour()) * 100 + i32::from(now.minute());
        let clock = u32::try_from(clock).unwrap_or_default();
        let in_window = |(from, until): (u32, u32)| {
            if from <= until {
                (from..until).contains(&clock)
            } else {
                clock >= from || clock < until
            }
        };
        self.above_tokens.is_none_or(|tokens| prompt_tokens > tokens)
            && self.between.is_none_or(in_window)
            && self.days.as_ref().is_none_or(|days| days.contains(&now.weekday()))
    }
}

/// A clock number: 100 is 01:00 and 1030 is 10:30.
fn read_clock(value: &Value) -> Option<u32> {
    let number = value.as_f64().filter(|number| number.fract() == 0.0)?;
    let clock: u32 = format!("{number:.0}").parse().ok()?;
    (clock <= MIDNIGHT && clock % 100 < 60).then_some(clock)
}

/// A number of tokens. Whole ones are counted, so what is behind the point changes nothing.
fn read_threshold(value: &Value) -> Option<u64> {
    let number = value.as_f64().filter(|number| (0.0..1e12).contains(number))?;
    format!("{:.0}", number.floor()).parse().ok()
}

fn read_weekday(value: &Value) -> Option<Weekday> {
    Some(match value.as_str()?.to_ascii_lowercase().as_str() {
        "monday" => Weekday::Monday,
        "tuesday" => Weekday::Tuesday,
        "wednesday" => Weekday::Wednesday,
        "thursday" => Weekday::Thursday,
        "friday" => Weekday::Friday,
        "saturday" => Weekday::Saturday,
        "sunday" => Weekday::Sunday,
        _ => return None,
    })
}

/// Returns the price of ten to the power of `places`, given the price of one. Never through a
/// float.
fn price_amount(value: &Value, places: i32) -> Option<NanoUsd> {
    let text = match value {
        Value::String(text) => text.trim().to_owned(),
        Value::Number(number) => number.to_string(),
        _ => return None,
    };
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().ok()?;
    NanoUsd::parse(&format!("{mantissa}e{}", exponent.checked_add(places)?)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn at(prices: &ModelPrices, tokens: u64, time: &str) -> [u64; 4] {
        let ModelPrice { prompt, completion, cache_read, cache_write, .. } =
            prices.at(tokens, format!("2026-11-{time}:00Z").parse().unwrap());
        [prompt, completion, cache_read.unwrap_or_default(), cache_write.unwrap_or_default()]
            .map(|usd| usd.0 / 1_000)
    }

    /// Returns true if an override of the price of the prompt applies. 2026-11-27 is a Friday.
    fn applies(conditions: &Value, tokens: u64, time: &str) -> bool {
        let mut entry = conditions.clone();
        entry["prompt"] = "0.000009".into();
        let listed = json!({"prompt": "0.000001", "completion": "0", "overrides": [entry]});
        at(&read_prices(&listed).unwrap(), tokens, time)[0] == 9_000_000
    }

    #[test]
    fn a_list_price_is_for_a_million_tokens_and_exact() {
        let prices = read_prices(&json!({
            "prompt": "0.000005", "completion": 2.5e-5, "image": "0.0048", "image_output": "0.039",
            "input_cache_read": "0.0000005", "input_cache_write": "0.00000625", "web_search": "0.01",
            "input_cache_write_1h": "0.00001", "request": "0.005",
        }))
        .unwrap();
        assert_eq!(at(&prices, 1, "22T10:00"), [5_000_000, 25_000_000, 500_000, 6_250_000]);
        assert_eq!(prices.base.image, NanoUsd(39_000_000), "of one that is made");
        assert_eq!(image_price(NanoUsd(30_000)), NanoUsd(45_000_000), "by a token's price");
        assert_eq!(prices.per_request(), NanoUsd(5_000_000));
        let fine = price_amount(&json!("0.0000000125"), 6);
        assert_eq!(fine, Some(NanoUsd(12_500_000)), "finer than a nano-dollar for one token");
    }

    #[test]
    fn sound_has_a_price_of_its_own_where_one_is_listed() {
        let of = |audio: Value, discount: f64| {
            let listed = json!({"prompt": "0.000001", "completion": "0.000002", "audio": audio, "discount": discount});
            read_prices(&listed).unwrap().base.audio_prompt
        };
        assert_eq!(of("0.00004".into(), 0.0), Some(NanoUsd(40_000_000_000)));
        assert_eq!(of("0.00004".into(), 0.5), Some(NanoUsd(20_000_000_000)));
        for nothing in [json!("0"), json!(0), json!("-1"), json!(null)] {
            assert_eq!(of(nothing.clone(), 0.0), None, "{nothing}");
        }
    }

    #[test]
    fn whole_numbers_beside_the_id_are_ten_thousandths_of_a_dollar() {
        let listed = json!({"id": "grok-4", "prompt_text_token_price": 12_500, "completion_text_token_price": 25_000,
            "cached_prompt_text_token_price": 2_000, "long_context_threshold": 200_000,
            "prompt_text_token_price_long_context": 25_000, "completion_text_token_price_long_context": 50_000});
        let prices = read_scaled_prices(&listed).unwrap();
        assert_eq!(at(&prices, 200_000, "22T10:00"), [1_250_000, 2_500_000, 200_000, 0]);
        assert_eq!(at(&prices, 200_001, "22T10:00"), [2_500_000, 5_000_000, 200_000, 0]);
        for none in [
            json!({"id": "m"}),
            json!("m"),
            json!({"prompt_text_token_price": 0, "completion_text_token_price": 0}),
            json!({"prompt_text_token_price": 12_500}),
            json!({"prompt_text_token_price": "12500", "completion_text_token_price": -1}),
        ] {
            assert_eq!(read_scaled_prices(&none), None, "{none}");
        }
    }

    #[test]
    fn what_has_no_fixed_price_has_none() {
        for listed in [
            json!({"prompt": "-1", "completion": "-1"}),
            json!({"prompt": -1, "completion": "0"}),
            json!({"prompt": "0.1"}),
            json!({"prompt": null, "completion": "0.1"}),
            json!({}),
            json!("free"),
            Value::Null,
        ] {
            assert_eq!(read_prices(&listed), None, "{listed}");
        }
        let free = json!({"prompt": "0", "completion": 0, "overrides": null});
        assert!(read_prices(&free).is_some(), "free is a price");
    }

    #[test]
    fn a_discount_is_a_share_of_every_price() {
        let of = |discount: Value| {
            let listed = json!({"prompt": "0.000004", "completion": "0.000008", "image_output": "0.1",
                "discount": discount, "overrides": [{"min_prompt_tokens": 10, "prompt": "0.000002"}]});
            let prices = read_prices(&listed).unwrap();
            let long = at(&prices, 11, "22T10:00")[0];
            (at(&prices, 1, "22T10:00")[0], long, prices.base.image.0 / 1_000_000)
        };
        assert_eq!(of(json!(0.25)), (3_000_000, 1_500_000, 75));
        assert_eq!(of(json!("0.5")), (2_000_000, 1_000_000, 50));
        assert_eq!(of(json!(1)), (0, 0, 0));
        for none in [json!(0), json!(null), json!(-0.5), json!(1.5), json!("much")] {
            assert_eq!(of(none.clone()), (4_000_000, 2_000_000, 100), "{none}");
        }
    }

    #[test]
    fn a_longer_prompt_is_one_of_more_tokens_than_the_threshold() {
        for (threshold, tokens, expected) in [
            (json!(200_000), 200_000, false),
            (json!(200_000), 200_001, true),
            (json!(200_000.0), 200_001, true),
            (json!(0), 1, true),
            (json!(null), 1, true),
            (json!("many"), 1_000_000, false),
            (json!(-1), 1_000_000, false),
        ] {
            let conditions = json!({"min_prompt_tokens": threshold});
            assert_eq!(applies(&conditions, tokens, "27T10:00"), expected, "{threshold} {tokens}");
        }
    }

    #[test]
    fn a_window_is_of_clock_numbers_and_may_wrap() {
        for (from, until, time, expected) in [
            (json!(1630), json!(30), "27T16:29", false),
            (json!(1630), json!(30), "27T16:30", true),
            (json!(1630), json!(30), "27T00:29", true),
            (json!(1630), json!(30), "27T00:30", false),
            (json!(0), json!(2400), "27T23:59", true),
            (json!(0), json!(2359), "27T07:06", true),
            (json!(100), json!(400), "27T01:00", true),
            (json!(100.0), json!(400), "27T04:00", false),
            (json!(900), json!(900), "27T09:00", false),
            (json!(1060), json!(1200), "27T11:30", false),
            (json!(0), json!(2500), "27T11:30", false),
            (json!("16:30"), json!("18:30"), "27T17:30", false),
            (json!(0), json!(null), "27T11:30", false),
            (json!(null), json!(null), "27T11:30", true),
        ] {
            let conditions = json!({"utc_start": from, "utc_end": until});
            assert_eq!(applies(&conditions, 1, time), expected, "{conditions} {time}");
        }
    }

    #[test]
    fn days_are_those_of_the_instant_and_limit_the_window() {
        for (conditions, time, expected) in [
            (json!({"utc_days": ["saturday"]}), "27T10:00", false),
            (json!({"utc_days": ["saturday"]}), "28T00:00", true),
            (json!({"utc_days": ["friday", "holiday"]}), "27T23:59", true),
            (json!({"utc_days": ["holiday"]}), "27T10:00", false),
            (json!({"utc_days": []}), "27T10:00", false),
            (json!({"utc_days": null}), "27T10:00", true),
            (json!({"utc_days": "friday"}), "27T10:00", false),
            (json!({"utc_days": ["friday"], "utc_start": 2200, "utc_end": 200}), "27T23:00", true),
            (json!({"utc_days": ["friday"], "utc_start": 2200, "utc_end": 200}), "28T01:00", false),
            (json!({"utc_days": ["friday"], "utc_start": 2200, "utc_end": 200}), "27T01:00", true),
        ] {
            assert_eq!(applies(&conditions, 1, time), expected, "{conditions} {time}");
        }
    }

    #[test]
    fn an_override_with_an_unknown_condition_counts_as_none() {
        let now = "27T10:00";
        assert!(!applies(&json!({"region": "eu"}), 1, now));
        assert!(!applies(&json!({"max_prompt_tokens": 10}), 1, now));
        assert!(applies(&json!({"region": null}), 1, now), "nothing is asked for");
        for price in PRICE_KEYS {
            assert!(applies(&json!({price: "0.5"}), 1, now), "{price} is a price");
        }
    }

    #[test]
    fn all_conditions_of_an_entry_have_to_hold_and_later_entries_win() {
        let prices = read_prices(&json!({
            "prompt": "0.000002", "completion": "0.00001", "input_cache_read": "0.0000002",
            "overrides": [
                {"min_prompt_tokens": 200_000, "prompt": "0.000004", "completion": "-1"},
                {"utc_start": 1630, "utc_end": 30, "prompt": "0.000001"},
                {"min_prompt_tokens": 500_000, "utc_start": 900, "utc_end": 1000, "completion": "0.00003"},
                7,
            ],
        }))
        .unwrap();
        assert_eq!(at(&prices, 200_001, "22T12:00"), [4_000_000, 10_000_000, 200_000, 0]);
        assert_eq!(at(&prices, 200_001, "22T16:30")[0], 1_000_000, "the later entry wins");
        assert_eq!(at(&prices, 500_001, "22T09:59"), [4_000_000, 30_000_000, 200_000, 0]);
        assert_eq!(at(&prices, 500_001, "22T10:00")[1], 10_000_000);
        assert_eq!(at(&prices, 400_000, "22T09:59")[1], 10_000_000);
    }

    /// Checks against the provider's declaration, as it was taken from its own types.
    #[test]
    fn every_declared_price_and_condition_is_known() {
        let declared = include_str!("../../../../../tests/corpus/openrouter-types.json");
        let declared: Value = serde_json::from_str(declared).unwrap();
        let names =
            |of: &str| -> Vec<String> { serde_json::from_value(declared[of].clone()).unwrap() };
        for name in names("PricingOverride") {
            let known = PRICE_KEYS.iter().chain(&CONDITION_KEYS).any(|known| *known == name);
            assert!(known, "an override's `{name}` is read neither as a price nor as a condition");
        }
        for day in names("UtcDay") {
            assert!(read_weekday(&json!(day)).is_some(), "{day}");
        }
        let known = |name: &String| PRICE_KEYS.contains(&name.as_str());
        let unread: Vec<_> =
            names("PublicPricing").into_iter().filter(|name| !known(name)).collect();
        assert_eq!(unread, ["discount", "overrides"], "which are read apart");
    }
}
