//! Texts with a meaning of their own: quantities, times, bytes. The server stores each in one form.

use serde_json::{Map, Value};

use super::schema::{SchemaNode, join_path};

/// The definition of quantities, which may be written as numbers.
pub(super) const QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";
const TIME: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Time";
const MICRO_TIME: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime";

/// Number of nano-units in one unit.
const ONE: i128 = 1_000_000_000;
const DECIMAL: &[(&str, i128)] = &[
    ("E", ONE * 1_000_000_000_000_000_000),
    ("P", ONE * 1_000_000_000_000_000),
    ("T", ONE * 1_000_000_000_000),
    ("G", ONE * 1_000_000_000),
    ("M", ONE * 1_000_000),
    ("k", ONE * 1_000),
    ("", ONE),
    ("m", 1_000_000),
    ("u", 1_000),
    ("n", 1),
];
const BINARY: &[(&str, i128)] = &[
    ("Ei", 1 << 60),
    ("Pi", 1 << 50),
    ("Ti", 1 << 40),
    ("Gi", 1 << 30),
    ("Mi", 1 << 20),
    ("Ki", 1 << 10),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum QuantityForm {
    Decimal,
    Binary,
    Exponent,
}

/// An amount of something, exact to a billionth.
#[derive(Clone, Copy, Debug)]
pub(super) struct ExactQuantity {
    nanos: i128,
    form: QuantityForm,
}

impl ExactQuantity {
    /// Reads a quantity such as `500m`, `1.5Gi` or `1e3`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (negative, rest) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, suffix) = rest.split_at(end);
        let (whole, part) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() && part.is_empty() || part.contains('.') {
            return None;
        }
        let (unit, form) = quantity_unit(suffix)?;
        let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
        let mut nanos = whole.checked_mul(unit)?;
        if !part.is_empty() {
            let digits: i128 = part.parse().ok()?;
            let scale = 10_i128.checked_pow(u32::try_from(part.len()).ok()?)?;
            let numerator = digits.checked_mul(unit)?;
            // Parts finer than a billionth are rounded up.
            nanos += (numerator + scale - 1) / scale;
        }
        Some(Self { nanos: if negative { -nanos } else { nanos }, form })
    }

    /// The amount in billionths.
    pub(super) const fn nanos(self) -> i128 {
        self.nanos
    }

    /// Adds another amount, in the notation of this one.
    pub(super) const fn plus(self, other: Self) -> Self {
        Self { nanos: self.nanos + other.nanos, form: self.form }
    }

    pub(super) fn is_negative(self) -> bool {
        self.nanos < 0
    }

    pub(super) fn is_positive(self) -> bool {
        self.nanos > 0
    }

    /// Order by amount, whatever the notation.
    pub(super) fn cmp(self, other: Self) -> std::cmp::Ordering {
        self.nanos.cmp(&other.nanos)
    }

    /// The form in which it is stored: no fraction, the largest suffix that loses nothing.
    pub(super) fn canonical(self) -> String {
        let nanos = self.nanos;
        if nanos == 0 {
            return "0".to_owned();
        }
        match self.form {
            QuantityForm::Binary if nanos.abs() >= 1024 * ONE => {
                let whole = (nanos + (ONE - 1) * nanos.signum().max(0)) / ONE;
                let fits = BINARY.iter().find(|(_, unit)| whole % unit == 0);
                fits.map_or_else(
                    || whole.to_string(),
                    |(suffix, unit)| format!("{}{suffix}", whole / unit),
                )
            }
            QuantityForm::Decimal | QuantityForm::Binary => DECIMAL
                .iter()
                .find(|(_, unit)| nanos % unit == 0)
                .map(|(suffix, unit)| format!("{}{suffix}", nanos / unit))
                .unwrap_or_default(),
            QuantityForm::Exponent => {
                let at = DECIMAL.iter().position(|(_, unit)| nanos % unit == 0).unwrap_or(9);
                let exponent = 18 - 3 * i32::try_from(at).unwrap_or(0);
                let number = nanos / DECIMAL[at].1;
                if exponent == 0 { number.to_string() } else { format!("{number}e{exponent}") }
            }
        }
    }
}

fn quantity_unit(suffix: &str) -> Option<(i128, QuantityForm)> {
    if let Some((_, unit)) = BINARY.iter().find(|(s, _)| *s == suffix) {
        return Some((unit * ONE, QuantityForm::Binary));
    }
    if let Some((_, unit)) = DECIMAL.iter().find(|(s, _)| *s == suffix) {
        return Some((*unit, QuantityForm::Decimal));
    }
    let exponent: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
    let power = 10_i128.checked_pow((exponent + 9).try_into().ok()?)?;
    Some((power, QuantityForm::Exponent))
}

/// A text of a built-in kind has no stored form, in Go's words.
#[derive(Debug, thiserror::Error)]
pub(super) enum StoredFormError {
    #[error(
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
    )]
    Quantity,
    #[error("parsing time \"{text}\" as \"{layout}\": cannot parse \"{text}\" as \"2006\"")]
    Time { text: String, layout: &'static str },
    #[error("parsing time \"{text}\" as \"{layout}\": cannot parse \"{rest}\" as \".000000\"")]
    Fraction { text: String, layout: &'static str, rest: String },
    #[error("illegal base64 data at input byte {0}")]
    Base64(usize),
}

/// Brings every text of a built-in kind into its stored form, or says as Go would why it has none.
pub(super) fn normalize_value(
    value: &mut Value,
    node: SchemaNode<'_>,
    path: &str,
) -> Result<(), StoredFormError> {
    if node.keeps_unknown() {
        return Ok(());
    }
    match value {
        Value::Object(map) => normalize_fields(map, node, path),
        Value::Array(items) => {
            let Some(schema) = node.items() else { return Ok(()) };
            items.iter_mut().try_for_each(|item| normalize_value(item, schema, path))
        }
        Value::String(text) if node.is(QUANTITY) => {
            *value = normal_quantity(text)?.into();
            Ok(())
        }
        Value::Number(number) if node.is(QUANTITY) => {
            *value = normal_quantity(&number.to_string())?.into();
            Ok(())
        }
        Value::String(text) if node.is(TIME) => {
            let at = parse_moment(text, "2006-01-02T15:04:05Z07:00")?;
            *value = super::object::whole_seconds(at).into();
            Ok(())
        }
        Value::String(text) if node.is(MICRO_TIME) => {
            let layout = "2006-01-02T15:04:05.000000Z07:00";
            let at = parse_moment(text, layout)?;
            let fraction = text.split_once('.').map_or("", |(_, rest)| rest);
            if fraction.bytes().take_while(u8::is_ascii_digit).count() != 6 {
                let rest = text.get(19..).unwrap_or_default().to_owned();
                return Err(StoredFormError::Fraction { text: text.clone(), layout, rest });
            }
            *value = at.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string().into();
            Ok(())
        }
        Value::String(text) if node.keyword("format").and_then(Value::as_str) == Some("byte") => {
            check_base64(text)
        }
        _ => Ok(()),
    }
}

fn normalize_fields(
    map: &mut Map<String, Value>,
    node: SchemaNode<'_>,
    path: &str,
) -> Result<(), StoredFormError> {
    for (name, child) in map.iter_mut() {
        if let Some(schema) = node.field(name) {
            normalize_value(child, schema, &join_path(path, name))?;
        }
    }
    let required = node.keyword("required").and_then(Value::as_array);
    let kept = |name: &str| {
        // Go writes these even when they are empty.
        name == "rules" || required.is_some_and(|r| r.iter().any(|field| field == name))
    };
    map.retain(|name, child| {
        let empty = match child {
            Value::Array(items) => items.is_empty(),
            Value::Object(map) => {
                map.is_empty() && node.property(name).is_some_and(|n| n.additional().is_some())
            }
            _ => false,
        };
        !empty || kept(name)
    });
    Ok(())
}

fn normal_quantity(text: &str) -> Result<String, StoredFormError> {
    let quantity = ExactQuantity::parse(text.trim()).ok_or(StoredFormError::Quantity)?;
    Ok(quantity.canonical())
}

fn parse_moment(text: &str, layout: &'static str) -> Result<jiff::Timestamp, StoredFormError> {
    let sound = text.as_bytes().get(10).is_some_and(|b| *b == b'T');
    let moment = text.parse().ok().filter(|_| sound);
    moment.ok_or_else(|| StoredFormError::Time { text: text.to_owned(), layout })
}

fn check_base64(text: &str) -> Result<(), StoredFormError> {
    use base64::Engine as _;
    let compact: String = text.chars().filter(|c| !matches!(c, '\n' | '\r')).collect();
    let decoded = base64::engine::general_purpose::STANDARD.decode(&compact);
    let at = match decoded {
        Ok(_) => return Ok(()),
        Err(
            base64::DecodeError::InvalidByte(at, _)
            | base64::DecodeError::InvalidLastSymbol { offset: at, .. },
        ) => at,
        Err(_) => compact.len() / 4 * 4,
    };
    Err(StoredFormError::Base64(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_have_one_canonical_form() {
        for (written, stored) in [
            ("0.5", "500m"),
            ("1000m", "1"),
            ("1024Mi", "1Gi"),
            ("1.5Gi", "1536Mi"),
            ("2000Mi", "2000Mi"),
            ("1000k", "1M"),
            ("1e3", "1e3"),
            ("12e2", "1200"),
            ("0.5Mi", "512Ki"),
            ("0.5Ki", "512"),
            ("0", "0"),
            ("0Gi", "0"),
            ("-1", "-1"),
            ("+3k", "3k"),
            (".5", "500m"),
            ("1.", "1"),
            ("0.1n", "1n"),
            ("7Ei", "7Ei"),
        ] {
            let found = ExactQuantity::parse(written).map(ExactQuantity::canonical);
            assert_eq!(found.as_deref(), Some(stored), "{written}");
        }
        for none in ["", "lots", "1 Gi", "1GiB", "Gi", ".", "1..2", "1K", "0x1"] {
            assert!(ExactQuantity::parse(none).is_none(), "{none}");
        }
    }
}
