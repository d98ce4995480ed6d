//! Rotation of the certificate authority. Pure: what is kept now and the time in, what is kept next out.
//!
//! A new authority is published long before it signs anything, and an old one stays published until
//! what it could have signed has expired: at no time does an agent meet a certificate of an
//! authority that it was not told of.

use jiff::{SignedDuration, Timestamp};

/// Validity of an authority, in days.
pub(super) const LIFE_DAYS: i64 = 3650;
/// Age at which its successor is made.
const REPLACED_AFTER: SignedDuration = SignedDuration::from_hours(365 * 24);
/// Time for which the successor is published before it signs: longer than any pod lives or any volume takes to be
/// refreshed.
const PUBLISHED: SignedDuration = SignedDuration::from_hours(14 * 24);
/// Time for which the predecessor stays published: longer than a server's certificate is valid.
const KEPT: SignedDuration = SignedDuration::from_hours(120 * 24);

/// Certificate and private key as PEM, and since when they are kept in their place.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct KeyPairPem {
    pub certificate: String,
    /// The private half. No Debug on purpose.
    pub key: String,
    pub since: Timestamp,
}

/// All certificate authorities of an installation.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct KnownAuthorities {
    pub current: KeyPairPem,
    /// Published, to sign later.
    pub next: Option<KeyPairPem>,
    /// Published, signs no more: the certificate, and since when.
    pub previous: Option<(String, Timestamp)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RotationDue {
    /// No step is due.
    Nothing,
    /// A successor has to be made.
    Successor,
    /// The successor takes over.
    Promotion,
    /// The predecessor can be forgotten.
    Forgetting,
}

impl KnownAuthorities {
    /// The step that is due at `now`.
    pub(super) fn due(&self, now: Timestamp) -> RotationDue {
        let age = |since: Timestamp| now.duration_since(since);
        if self.previous.as_ref().is_some_and(|(_, since)| age(*since) >= KEPT) {
            return RotationDue::Forgetting;
        }
        match &self.next {
            Some(next) if age(next.since) >= PUBLISHED => RotationDue::Promotion,
            None if age(self.current.since) >= REPLACED_AFTER => RotationDue::Successor,
            _ => RotationDue::Nothing,
        }
    }

    /// The authorities after the successor has taken over.
    #[must_use]
    pub(super) fn promoted(self, now: Timestamp) -> Self {
        match self.next {
            Some(next) => Self {
                previous: Some((self.current.certificate, now)),
                current: KeyPairPem { since: now, ..next },
                next: None,
            },
            None => self,
        }
    }

    /// Everything that agents are to trust, the signing one first.
    pub(super) fn bundle(&self) -> String {
        let next = self.next.iter().map(|next| next.certificate.as_str());
        let previous = self.previous.iter().map(|(certificate, _)| certificate.as_str());
        let all = std::iter::once(self.current.certificate.as_str()).chain(next).chain(previous);
        all.fold(String::new(), |bundle, pem| bundle + pem.trim_end() + "\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(name: &str, since: Timestamp) -> KeyPairPem {
        KeyPairPem { certificate: name.to_owned(), key: String::new(), since }
    }

    #[test]
    fn a_successor_is_published_before_it_signs_and_its_predecessor_after() {
        let day = |n: i64| Timestamp::UNIX_EPOCH + SignedDuration::from_hours(24 * n);
        let mut kept = KnownAuthorities { current: pair("a", day(0)), next: None, previous: None };
        assert_eq!(kept.due(day(364)), RotationDue::Nothing);
        assert_eq!(kept.due(day(365)), RotationDue::Successor);
        kept.next = Some(pair("b", day(365)));
        assert_eq!(kept.bundle(), "a\nb\n");
        assert_eq!(kept.due(day(378)), RotationDue::Nothing);
        assert_eq!(kept.due(day(379)), RotationDue::Promotion);
        let mut kept = kept.promoted(day(379));
        assert_eq!(kept.bundle(), "b\na\n");
        assert_eq!(kept.due(day(379 + 119)), RotationDue::Nothing);
        assert_eq!(kept.due(day(379 + 120)), RotationDue::Forgetting);
        kept.previous = None;
        assert_eq!(kept.due(day(379 + 121)), RotationDue::Nothing);
        assert_eq!(kept.due(day(379 + 365)), RotationDue::Successor);
    }
}
