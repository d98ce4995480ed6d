//! Random suffixes of names that the server generates.

/// Letters and digits of generated names: no vowels, so no words.
const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// Five characters that make a name unique.
pub(super) fn random_suffix() -> String {
    (0..5)
        .map(|_| {
            let at = rand::random_range(0..ALPHABET.len());
            char::from(ALPHABET[at])
        })
        .collect()
}
