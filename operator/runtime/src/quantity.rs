//! Kubernetes' quantities of bytes: `20Gi`. Pure.

/// Parses a quantity into bytes; None for what is no quantity.
pub fn parse_bytes(quantity: &str) -> Option<u128> {
    let digits = quantity.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match quantity.get(digits.len()..)? {
        "" => 1,
        "k" => 1000,
        "M" => 1000_u128.pow(2),
        "G" => 1000_u128.pow(3),
        "T" => 1000_u128.pow(4),
        "Ki" => 1024,
        "Mi" => 1024_u128.pow(2),
        "Gi" => 1024_u128.pow(3),
        "Ti" => 1024_u128.pow(4),
        _ => return None,
    };
    digits.parse::<u128>().ok()?.checked_mul(unit)
}

/// The value of a flag is no quantity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no amount of bytes such as 20Gi")]
pub struct QuantityError(String);

/// Parses the value of a flag.
///
/// # Errors
/// When it is no quantity, or more bytes than can be counted.
pub fn parse_flag(text: &str) -> Result<u64, QuantityError> {
    let bytes = parse_bytes(text).and_then(|bytes| u64::try_from(bytes).ok());
    bytes.ok_or_else(|| QuantityError(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_read_as_kubernetes_reads_them() {
        assert_eq!(parse_flag("20Gi"), Ok(20 << 30));
        assert_eq!((parse_flag("5M"), parse_flag("7")), (Ok(5_000_000), Ok(7)));
        for wrong in ["", "Gi", "20GiB", "-1", "1.5Gi", "99999999999999999999Ti"] {
            assert!(parse_flag(wrong).is_err(), "{wrong}");
        }
    }
}
