//! Grants for remote servers as this process knows them. The Secret is the truth: another replica
//! may have written it.

use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;

use crate::repo_key::RepoKey;

/// A token so close to its end is renewed before it is sent.
const NEAR: i64 = 60;
/// Tokens of one server that are still masked after they were replaced.
const MASKED: usize = 8;

/// A server of a Repo.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct GrantKey {
    pub repo: RepoKey,
    /// Name of the server in `spec.mcpServers`.
    pub server: String,
}

/// An access token. No Debug: it is a secret.
#[derive(Clone, PartialEq, Eq)]
pub struct KnownToken {
    /// Access token for header `Authorization`.
    pub access: String,
    /// Expiry of the token, in seconds since 1970.
    pub until: Option<i64>,
    /// Seconds from its beginning to its end.
    pub lasts: Option<i64>,
}

impl KnownToken {
    /// True if it should be renewed before it is used.
    pub fn is_near_end(&self) -> bool {
        // A token that lasts a minute would otherwise be renewed with each request.
        let near = self.lasts.map_or(NEAR, |lasts| NEAR.min(lasts / 4));
        self.until.is_some_and(|until| until - near <= seconds_now())
    }

    /// True if its time is over.
    pub fn is_over(&self) -> bool {
        self.until.is_some_and(|until| until <= seconds_now())
    }
}

/// The grant of one server: its token, and the turn to renew it.
#[derive(Default)]
pub struct GrantCell {
    known: Mutex<Option<KnownToken>>,
    seen: Mutex<Vec<String>>,
    /// Lock for one renewal at a time: refresh tokens are good once.
    pub turn: tokio::sync::Mutex<()>,
}

impl GrantCell {
    /// The token that was used last.
    pub fn known(&self) -> Option<KnownToken> {
        self.known.lock().clone()
    }

    /// Keeps the token to use, or forgets it.
    pub fn keep(&self, token: Option<KnownToken>) {
        if let Some(token) = &token {
            self.mask(&token.access);
        }
        *self.known.lock() = token;
    }

    /// Remembers a secret that the server's words must not show.
    pub fn mask(&self, secret: &str) {
        codebutler_crds::redact::log::mask_issued(secret);
        let mut seen = self.seen.lock();
        if !seen.iter().any(|one| one == secret) {
            seen.push(secret.to_owned());
            let old = seen.len().saturating_sub(MASKED);
            seen.drain(..old);
        }
    }

    /// Secrets that the server's words must not show.
    pub fn secrets(&self) -> Vec<String> {
        self.seen.lock().clone()
    }
}

/// Grants by server. Cheap to clone; clones share them.
#[derive(Clone, Default)]
pub struct GrantBook(Arc<Mutex<HashMap<GrantKey, Arc<GrantCell>>>>);

impl std::fmt::Debug for GrantBook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GrantBook").finish_non_exhaustive()
    }
}

impl GrantBook {
    /// Returns the grant of a server; an empty one is added if there is none.
    pub fn cell(&self, key: &GrantKey) -> Arc<GrantCell> {
        Arc::clone(self.0.lock().entry(key.clone()).or_default())
    }

    /// Forgets Repos that are gone.
    pub fn keep_only(&self, is_kept: impl Fn(&RepoKey) -> bool) {
        self.0.lock().retain(|key, _| is_kept(&key.repo));
    }
}

/// Returns the current time in seconds since 1970.
pub fn seconds_now() -> i64 {
    Timestamp::now().as_second()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_renewed_a_minute_before_its_end_and_masked_after_it() {
        let ends_in = |seconds: i64| KnownToken {
            access: format!("access-{seconds}"),
            until: Some(seconds_now() + seconds),
            lasts: None,
        };
        assert!(!ends_in(NEAR + 30).is_near_end());
        assert!(ends_in(NEAR - 30).is_near_end() && !ends_in(NEAR - 30).is_over());
        assert!(ends_in(-1).is_over());
        // A regression: a token that lasts no longer than that was renewed with each request.
        let brief = |left| KnownToken { lasts: Some(60), ..ends_in(left) };
        assert!(!brief(40).is_near_end() && brief(10).is_near_end());
        let cell = GrantCell::default();
        for seconds in 1..=20 {
            cell.keep(Some(ends_in(seconds)));
        }
        cell.keep(None);
        assert!(cell.known().is_none());
        assert_eq!(
            (cell.secrets().len(), cell.secrets().last().map(String::as_str)),
            (MASKED, Some("access-20"))
        );
    }
}
