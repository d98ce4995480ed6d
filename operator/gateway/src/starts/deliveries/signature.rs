//! Verification of a delivery's signature, as Standard Webhooks has it: HMAC-SHA256 over id, time and the body's very
//! bytes. Pure.

use std::ops::RangeInclusive;

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use hmac::{Hmac, KeyInit as _, Mac as _};
use http::HeaderMap;
use sha2::Sha256;

use super::refusal::{DeliveryRefusal, TOLERANCE};

/// Header with the delivery's id, by which repetitions are known.
pub(super) const ID: &str = "webhook-id";
/// Header with the time of sending, in seconds since 1970.
pub(super) const TIMESTAMP: &str = "webhook-timestamp";
/// Signatures, separated by a space: a sender that changes its secret signs with both.
pub(super) const SIGNATURE: &str = "webhook-signature";

/// Longest id of a delivery, in bytes.
const LONGEST_ID: usize = 128;
/// Signatures that are looked at.
const MOST_SIGNATURES: usize = 8;
/// Prefix before the base64 of a secret.
const PREFIX: &str = "whsec_";
/// Bytes of a secret, as the standard has it.
const KEY_BYTES: RangeInclusive<usize> = 24..=64;

/// Some of those that make secrets and signatures leave padding out.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Key that deliveries are signed with. No Debug: it is a secret.
#[derive(Clone)]
pub(super) struct SigningKey(Hmac<Sha256>);

impl SigningKey {
    /// Parses a secret; nothing if it is not in the standard's form.
    pub(super) fn parse(secret: &str) -> Option<Self> {
        let bytes = BASE64.decode(secret.strip_prefix(PREFIX)?).ok()?;
        if !KEY_BYTES.contains(&bytes.len()) {
            return None;
        }
        Some(Self(Hmac::new_from_slice(&bytes).ok()?))
    }

    /// A key that nobody knows, to verify against where nobody may sign.
    pub(super) fn random() -> Self {
        Self(Hmac::new(&rand::random::<[u8; 64]>().into()))
    }
}

/// The signature's headers of a delivery.
pub(super) struct SignedHead {
    pub id: String,
    timestamp: String,
    signatures: Vec<Vec<u8>>,
}

impl SignedHead {
    /// Reads the headers, if they can be right at `now`, in seconds since 1970.
    ///
    /// # Errors
    /// Which one is missing, wrong or too old.
    pub(super) fn read(headers: &HeaderMap, now: i64) -> Result<Self, DeliveryRefusal> {
        let (id, timestamp) = (only_header(headers, ID)?, only_header(headers, TIMESTAMP)?);
        let signature = only_header(headers, SIGNATURE)?;
        let visible = id.bytes().all(|byte| byte.is_ascii_graphic());
        if !visible || !(1..=LONGEST_ID).contains(&id.len()) {
            return Err(DeliveryRefusal::Header(ID, "1 to 128 visible ASCII characters"));
        }
        let digits = timestamp.bytes().all(|byte| byte.is_ascii_digit());
        let sent = timestamp.parse::<i64>().ok().filter(|_| digits);
        let seconds = DeliveryRefusal::Header(TIMESTAMP, "seconds since 1970");
        if sent.ok_or(seconds)?.abs_diff(now) > TOLERANCE {
            return Err(DeliveryRefusal::Stale);
        }
        let ours = signature.split(' ').filter_map(|one| one.strip_prefix("v1,"));
        let signatures: Vec<_> =
            ours.take(MOST_SIGNATURES).filter_map(|one| BASE64.decode(one).ok()).collect();
        if signatures.is_empty() {
            return Err(DeliveryRefusal::Header(SIGNATURE, "`v1,` and a signature in base64"));
        }
        let (id, timestamp) = (id.to_owned(), timestamp.to_owned());
        Ok(Self { id, timestamp, signatures })
    }

    /// True if one of the signatures was made with this key, over these bytes.
    pub(super) fn is_of(&self, key: &SigningKey, body: &[u8]) -> bool {
        let mut code = key.0.clone();
        for part in [self.id.as_bytes(), b".", self.timestamp.as_bytes(), b".", body] {
            code.update(part);
        }
        // Each comparison takes the same time, wherever it differs.
        self.signatures.iter().any(|signature| code.clone().verify_slice(signature).is_ok())
    }
}

/// The value of a header that may stand there once.
fn only_header<'a>(headers: &'a HeaderMap, name: &'static str) -> Result<&'a str, DeliveryRefusal> {
    let mut values = headers.get_all(name).iter();
    let value = values.next().ok_or(DeliveryRefusal::Missing(name))?;
    match (value.to_str(), values.next()) {
        (Ok(value), None) => Ok(value.trim()),
        _ => Err(DeliveryRefusal::Header(name, "one value of ASCII characters")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of Standard Webhooks.
    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const SENT: i64 = 1_614_265_330;
    const BODY: &[u8] = br#"{"test": 2432232314}"#;
    const SIGNED: &str = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";

    fn headers(signature: &str) -> HeaderMap {
        let sent = SENT.to_string();
        let all =
            [(ID, "msg_p5jXN8AQM9LWM0D4loKWxJek"), (TIMESTAMP, &sent), (SIGNATURE, signature)];
        all.into_iter()
            .map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()))
            .collect()
    }

    fn refused(headers: &HeaderMap, now: i64) -> String {
        SignedHead::read(headers, now).err().unwrap().to_string()
    }

    #[test]
    fn the_example_of_the_standard_is_signed() {
        let key = SigningKey::parse(SECRET).unwrap();
        for signature in
            [SIGNED, &format!("v1,c29tZW9uZQ== v2,x {SIGNED}"), SIGNED.trim_end_matches('=')]
        {
            let head = SignedHead::read(&headers(signature), SENT).unwrap();
            assert!(head.is_of(&key, BODY), "{signature}");
            assert!(!head.is_of(&key, br#"{"test":2432232314}"#));
            assert!(!head.is_of(&SigningKey::random(), BODY));
        }
        let cut = SignedHead::read(&headers(&SIGNED[..30]), SENT).unwrap();
        assert!(!cut.is_of(&key, BODY), "a part of a signature is none");
    }

    #[test]
    fn another_id_or_time_is_not_signed() {
        let key = SigningKey::parse(SECRET).unwrap();
        for (name, value) in [(ID, "msg_other"), (TIMESTAMP, "1614265331")] {
            let mut headers = headers(SIGNED);
            headers.insert(name, value.parse().unwrap());
            assert!(!SignedHead::read(&headers, SENT).unwrap().is_of(&key, BODY), "{name}");
        }
    }

    #[test]
    fn what_was_sent_long_ago_or_has_yet_to_be_is_refused() {
        for now in [SENT - 300, SENT, SENT + 300] {
            assert!(SignedHead::read(&headers(SIGNED), now).is_ok(), "{now}");
        }
        for now in [SENT - 301, SENT + 301, i64::MAX, i64::MIN] {
            assert!(refused(&headers(SIGNED), now).contains("clock"), "{now}");
        }
        for sent in ["", "-1", "+1614265330", "16e8", "99999999999999999999"] {
            let mut headers = headers(SIGNED);
            headers.insert(TIMESTAMP, sent.parse().unwrap());
            assert!(refused(&headers, SENT).contains("seconds since 1970"), "{sent}");
        }
    }

    #[test]
    fn a_header_that_is_missing_or_wrong_is_named() {
        for name in [ID, TIMESTAMP, SIGNATURE] {
            let mut lacks = headers(SIGNED);
            lacks.remove(name);
            assert!(refused(&lacks, SENT).contains(name));
            let mut twice = headers(SIGNED);
            twice.append(name, "x".parse().unwrap());
            assert!(refused(&twice, SENT).contains(name));
        }
        for id in [String::new(), "a b".to_owned(), "x".repeat(129)] {
            let mut headers = headers(SIGNED);
            headers.insert(ID, id.parse().unwrap());
            assert!(refused(&headers, SENT).contains(ID), "{id}");
        }
        for signature in ["v2,abc", "v1,!", "abc"] {
            assert!(refused(&headers(signature), SENT).contains(SIGNATURE), "{signature}");
        }
    }

    #[test]
    fn a_secret_is_long_enough_and_written_as_the_standard_has_it() {
        use base64::engine::general_purpose::STANDARD;
        let of = |bytes: usize| format!("whsec_{}", STANDARD.encode(vec![7; bytes]));
        for (secret, good) in [
            (of(24), true),
            (of(32), true),
            (of(64), true),
            (of(16), false),
            (of(65), false),
            (STANDARD.encode([7; 32]), false),
            ("whsec_not base64!".to_owned(), false),
            (String::new(), false),
        ] {
            assert_eq!(SigningKey::parse(&secret).is_some(), good, "{secret}");
        }
    }
}
