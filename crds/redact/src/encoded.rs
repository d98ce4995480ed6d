//! Long words that are text in base64 or hexadecimal digits. Hashes and images decode to bytes that
//! are no text, and are left alone.

use std::ops::Range;

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

/// Shorter ones hold no secret worth the name.
const SHORTEST: usize = 24;
/// How much of a word is decoded before the rest.
const SAMPLE: usize = 48;
/// Longest word that is decoded.
const LONGEST: usize = 1 << 20;

const LENIENT: GeneralPurposeConfig = GeneralPurposeConfig::new()
    .with_decode_padding_mode(DecodePaddingMode::Indifferent)
    .with_decode_allow_trailing_bits(true);
const STANDARD: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, LENIENT);
const URL_SAFE: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, LENIENT);

/// Calls `visit` with each encoded word and what it says.
pub fn encoded_runs(text: &str, mut visit: impl FnMut(Range<usize>, &str)) {
    let bytes = text.as_bytes();
    let mut at = 0_usize;
    // Every run of that length has a byte on one of these places.
    while let Some(probe) = at.checked_add(SHORTEST - 1).filter(|probe| *probe < bytes.len()) {
        if !is_code(bytes[probe]) {
            at = probe + 1;
            continue;
        }
        let back = bytes[at..probe].iter().rev().take_while(|b| is_code(**b)).count();
        let start = probe - back;
        let length = bytes[start..].iter().take_while(|b| is_code(**b)).count();
        let end = start + length;
        if (SHORTEST..=LONGEST).contains(&length) {
            let padding = bytes[end..].iter().take(2).take_while(|b| **b == b'=').count();
            if let Some(decoded) = decode_word(&text[start..end]) {
                visit(start..end + padding, &decoded);
            }
        }
        at = end + 1;
    }
}

const fn is_code(b: u8) -> bool {
    b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'-' | b'_')
}

fn decode_word(word: &str) -> Option<String> {
    let hexadecimal = word.bytes().take(SAMPLE).all(|b| b.is_ascii_hexdigit());
    if hexadecimal && let Some(text) = decode_hex(word) {
        return Some(text);
    }
    let engine = if word.bytes().any(|b| matches!(b, b'-' | b'_')) { URL_SAFE } else { STANDARD };
    let sample = engine.decode(&word[..word.len().min(SAMPLE)]).ok()?;
    if !is_text(&sample) {
        return None;
    }
    // A length that no encoder produces: the last letter is not part of it.
    let whole = if word.len() % 4 == 1 { &word[..word.len() - 1] } else { word };
    visible_text(engine.decode(whole).ok()?)
}

fn decode_hex(word: &str) -> Option<String> {
    let even = &word[..word.len() & !1];
    visible_text(hex::decode(even).ok()?)
}

fn visible_text(bytes: Vec<u8>) -> Option<String> {
    is_text(&bytes).then(|| String::from_utf8(bytes).ok()).flatten()
}

fn is_text(bytes: &[u8]) -> bool {
    bytes.iter().all(|b| matches!(b, b' '..=b'~' | b'\t' | b'\r' | b'\n'))
}
