//! Hostile bytes for what reads bytes from outside: a kept corpus, changed at random from a seed that is
//! printed, for as long as `CODEBUTLER_FUZZ_SECONDS` says (a second each otherwise). For tests alone.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rand::{RngExt as _, SeedableRng as _};

/// The corpus' lines, as Rust writes bytes (`\\x00`, `\\n`).
pub fn corpus_lines(corpus: &str) -> Vec<Vec<u8>> {
    let kept = corpus.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    kept.map(unescape_line).collect()
}

fn unescape_line(line: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = line.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        match (first, after) {
            (b'\\', [b'n', more @ ..]) => (bytes.push(b'\n'), rest = more).1,
            (b'\\', [b'x', a, b, more @ ..]) => {
                let digit = |d: &u8| {
                    char::from(*d).to_digit(16).and_then(|d| u8::try_from(d).ok()).unwrap_or(0)
                };
                bytes.push(digit(a) << 4 | digit(b));
                rest = more;
            }
            _ => bytes.push(*first),
        }
    }
    bytes
}

/// Makes an input: one of the corpus, changed in a few places, or two of them joined.
fn change_bytes(corpus: &[Vec<u8>], rng: &mut StdRng) -> Vec<u8> {
    let mut bytes = corpus.choose(rng).cloned().unwrap_or_default();
    for _ in 0..rng.random_range(0..6) {
        let at = rng.random_range(0..=bytes.len());
        match rng.random_range(0..6) {
            0 => bytes.truncate(at),
            1 => bytes.insert(at, rng.random()),
            2 if at < bytes.len() => bytes[at] ^= 1 << rng.random_range(0..8),
            3 => {
                let other = corpus.choose(rng).cloned().unwrap_or_default();
                let from = rng.random_range(0..=other.len());
                bytes.splice(at..at, other[from..].iter().copied());
            }
            4 => {
                let end = rng.random_range(at..=bytes.len());
                let again = bytes[at..end].repeat(rng.random_range(0..4));
                bytes.splice(at..end, again);
            }
            _ => {
                let odd: [&[u8]; 8] = [
                    b"0000",
                    b"ffff",
                    "\u{200b}".as_bytes(),
                    b"%41",
                    b"://",
                    "é".as_bytes(),
                    b"null",
                    b"[redacted:x]",
                ];
                let odd = odd.choose(rng).copied().unwrap_or_default();
                bytes.splice(at..at, odd.iter().copied());
            }
        }
        bytes.truncate(8192);
    }
    bytes
}

/// Checks each of the corpus, and then what chance makes of them until the time is over.
///
/// # Panics
/// When the check does: with the seed and the bytes, as they have to be added to the corpus.
pub fn fuzz_corpus(name: &str, corpus: &[Vec<u8>], check: impl Fn(&[u8])) {
    let seconds = std::env::var("CODEBUTLER_FUZZ_SECONDS").ok().and_then(|s| s.parse().ok());
    let until = Instant::now() + Duration::from_secs(seconds.unwrap_or(1));
    for bytes in corpus {
        check(bytes);
    }
    let seed: u64 = rand::random();
    let mut rng = StdRng::seed_from_u64(seed);
    while Instant::now() < until {
        let bytes = change_bytes(corpus, &mut rng);
        let outcome = catch_unwind(AssertUnwindSafe(|| check(&bytes)));
        assert!(outcome.is_ok(), "{name}, seed {seed}: {}", bytes.escape_ascii());
    }
}
