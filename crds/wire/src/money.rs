//! US dollars as whole nano-dollars: exact sums, no floating point on the way in or out.

use std::borrow::Cow;
use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign};
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

const NANOS: u64 = 1_000_000_000;

/// An amount of money in nano-dollars (10⁻⁹ USD), written as a decimal string such as `"0.00125"`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NanoUsd(pub u64);

/// Error of reading an amount.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("`{0}` is not an amount in US dollars: write a plain decimal such as 0.25")]
pub struct ParseAmountError(String);

impl NanoUsd {
    /// Zero dollars, as where nothing was spent.
    pub const ZERO: Self = Self(0);

    /// The amount as US dollars, for gauges and counters only; sums stay in integers.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn as_f64(self) -> f64 {
        self.0 as f64 / NANOS as f64
    }

    /// The amount that is left after taking `other` away; zero if that is more.
    #[must_use]
    pub const fn less(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// `count` of what costs this much for every `per`, rounded up.
    #[must_use]
    pub fn times(self, count: u64, per: u64) -> Self {
        let nanos = (u128::from(self.0) * u128::from(count)).div_ceil(u128::from(per.max(1)));
        Self(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// An amount that was spent, as people read it everywhere: `$0.73`, rounded to the nearest cent. What costs less
    /// than a cent costs something all the same: `<$0.01`. Limits are shown as somebody wrote them, and exact amounts
    /// stay in exports, the API and the pages' titles.
    #[must_use]
    pub fn in_cents(self) -> String {
        const CENT: u64 = NANOS / 100;
        match self.0 {
            0 => "$0.00".to_owned(),
            1..CENT => "<$0.01".to_owned(),
            nanos => {
                let cents = nanos / CENT + u64::from(nanos % CENT >= CENT / 2);
                let dollars = (cents / 100).to_string();
                let mut grouped = String::new();
                for (index, digit) in dollars.char_indices() {
                    if index > 0 && (dollars.len() - index).is_multiple_of(3) {
                        grouped.push(',');
                    }
                    grouped.push(digit);
                }
                format!("${grouped}.{:02}", cents % 100)
            }
        }
    }

    /// Reads a provider's figure from its JSON text (`0.00125`, `1.25e-3`), rounding up what is
    /// finer than a nano-dollar, so that nothing billed is lost.
    ///
    /// # Errors
    /// When the text is no decimal number, is negative, or does not fit.
    pub fn parse(text: &str) -> Result<Self, ParseAmountError> {
        let error = || ParseAmountError(text.chars().take(40).collect());
        let (mantissa, exponent) = match text.split_once(['e', 'E']) {
            Some((m, e)) => (m, e.parse::<i32>().map_err(|_| error())?),
            None => (text, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let digits = format!("{whole}{fraction}");
        if digits.is_empty() || digits.len() > 36 || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return Err(error());
        }
        let value: u128 = digits.parse().map_err(|_| error())?;
        let scale = i64::from(exponent) - i64::try_from(fraction.len()).map_err(|_| error())? + 9;
        let power = |n: i64| u32::try_from(n).ok().and_then(|n| 10u128.checked_pow(n));
        let nanos = if value == 0 {
            0
        } else if scale >= 0 {
            power(scale).and_then(|p| value.checked_mul(p)).ok_or_else(error)?
        } else {
            power(-scale).map_or(1, |p| value.div_ceil(p))
        };
        u64::try_from(nanos).map(Self).map_err(|_| error())
    }
}

impl fmt::Display for NanoUsd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fraction = format!("{:09}", self.0 % NANOS);
        let fraction = fraction.trim_end_matches('0');
        write!(f, "{}.{fraction:0<2}", self.0 / NANOS)
    }
}

impl FromStr for NanoUsd {
    type Err = ParseAmountError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

impl Add for NanoUsd {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for NanoUsd {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sum for NanoUsd {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::ZERO, Add::add)
    }
}

impl Serialize for NanoUsd {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for NanoUsd {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for NanoUsd {
    fn schema_name() -> Cow<'static, str> {
        "NanoUsd".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "pattern": r"^[0-9]{1,10}(\.[0-9]{1,9})?$",
            "maxLength": 20,
        })
    }
    fn inline_schema() -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_providers_text_is_read_exactly() {
        for (text, nanos) in [
            ("0", 0),
            ("0.00125", 1_250_000),
            ("1.25e-3", 1_250_000),
            ("2E1", 20_000_000_000),
            ("0.1", 100_000_000),
            ("0.0000000001", 1),
            ("1e-30", 1),
            ("12", 12_000_000_000),
        ] {
            assert_eq!(NanoUsd::parse(text), Ok(NanoUsd(nanos)), "{text}");
        }
        for text in ["", "-1", "1,5", "NaN", "1e99", ".", "0x1", "99999999999999999999"] {
            assert!(NanoUsd::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn an_amount_for_people_is_in_cents_and_never_shows_a_cost_as_nothing() {
        for (nanos, shown) in [
            (0, "$0.00"),
            (1, "<$0.01"),
            (9_999_999, "<$0.01"),
            (10_000_000, "$0.01"),
            (14_999_999, "$0.01"),
            (727_483_960, "$0.73"),
            (725_000_000, "$0.73"),
            (12_000_000_000, "$12.00"),
            (1_234_567_000_000, "$1,234.57"),
            (u64::MAX, "$18,446,744,073.71"),
        ] {
            assert_eq!(NanoUsd(nanos).in_cents(), shown);
        }
    }

    #[test]
    fn parts_are_rounded_up_and_never_overflow() {
        assert_eq!(NanoUsd(3_000_000_000).times(1, 1_000_000), NanoUsd(3000));
        assert_eq!(NanoUsd(1).times(1, 1_000_000), NanoUsd(1));
        assert_eq!(NanoUsd(1).times(0, 0), NanoUsd::ZERO);
        assert_eq!(NanoUsd(u64::MAX).times(u64::MAX, 1), NanoUsd(u64::MAX));
        assert_eq!(NanoUsd(1).less(NanoUsd(2)), NanoUsd::ZERO);
    }

    #[test]
    fn what_is_shown_reads_back() {
        for nanos in [0, 1, 10_000_000, 1_250_000, 1_000_000_001, u64::MAX] {
            let shown = NanoUsd(nanos).to_string();
            assert_eq!(shown.parse(), Ok(NanoUsd(nanos)), "{shown}");
        }
        assert_eq!(NanoUsd(1_250_000).to_string(), "0.00125");
        assert_eq!(NanoUsd(2_000_000_000).to_string(), "2.00");
    }
}
