//! Values that a browser keeps for the gateway and can't forge: signed, for one purpose, with an expiry. Pure.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use ring::hmac::{HMAC_SHA256, Key, sign, verify};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Longest cookie that is looked at.
const LONGEST: usize = 4096;

/// Signs and checks. No Debug: it holds a key.
#[derive(Clone)]
pub(super) struct CookieSeal(Key);

#[derive(Serialize, Deserialize)]
struct SealedValue<T> {
    until: u64,
    what: T,
}

impl CookieSeal {
    /// Derives the signing key from the secret, which can't be recovered from it.
    pub(super) fn of(secret: &str) -> Self {
        let own = sign(&Key::new(HMAC_SHA256, secret.as_bytes()), b"codebutler pages 1");
        Self(Key::new(HMAC_SHA256, own.as_ref()))
    }

    fn text(purpose: &str, payload: &str) -> String {
        format!("{purpose}:{payload}")
    }

    /// A value that [`Self::open`] takes for the same purpose until then (seconds since 1970).
    pub(super) fn close<T: Serialize>(&self, purpose: &str, what: T, until: u64) -> Option<String> {
        let payload = BASE64.encode(serde_json::to_vec(&SealedValue { until, what }).ok()?);
        let mark = sign(&self.0, Self::text(purpose, &payload).as_bytes());
        Some(format!("{payload}.{}", BASE64.encode(mark)))
    }

    /// Returns the sealed value if its signature is valid and it has not expired.
    pub(super) fn open<T: DeserializeOwned>(
        &self,
        purpose: &str,
        value: &str,
        now: u64,
    ) -> Option<T> {
        let (payload, mark) = value.split_once('.').filter(|_| value.len() <= LONGEST)?;
        let mark = BASE64.decode(mark).ok()?;
        verify(&self.0, Self::text(purpose, payload).as_bytes(), &mark).ok()?;
        let sealed: SealedValue<T> = serde_json::from_slice(&BASE64.decode(payload).ok()?).ok()?;
        (now < sealed.until).then_some(sealed.what)
    }

    /// CSRF token of a session, required with every change: another site can't know it.
    pub(super) fn token(&self, session: &str) -> String {
        BASE64.encode(sign(&self.0, Self::text("change", session).as_bytes()))
    }

    /// True if `token` is the session's CSRF token.
    pub(super) fn takes(&self, session: &str, token: &str) -> bool {
        let mark = BASE64.decode(token).unwrap_or_default();
        verify(&self.0, Self::text("change", session).as_bytes(), &mark).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_but_what_was_sealed_for_a_purpose_opens_and_only_for_its_time() {
        let seal = CookieSeal::of("secret");
        let value = seal.close("session", "U1", 100).unwrap();
        assert_eq!(seal.open::<String>("session", &value, 99).as_deref(), Some("U1"));
        assert_eq!(seal.open::<String>("session", &value, 100), None, "its time is over");
        assert_eq!(seal.open::<String>("flow", &value, 99), None, "for something else");
        assert_eq!(CookieSeal::of("other").open::<String>("session", &value, 99), None);
        let forged = BASE64.encode(r#"{"until":999,"what":"U2"}"#);
        let (_, mark) = value.split_once('.').unwrap();
        for odd in [format!("{forged}.{mark}"), forged.clone(), format!("{forged}."), String::new()]
        {
            assert_eq!(seal.open::<String>("session", &odd, 1), None, "{odd}");
        }
    }

    #[test]
    fn a_change_needs_the_token_of_its_own_session() {
        let seal = CookieSeal::of("secret");
        let token = seal.token("one");
        assert!(seal.takes("one", &token) && !seal.takes("other", &token));
        assert!(!seal.takes("one", "") && !seal.takes("one", "%%%"));
    }
}
