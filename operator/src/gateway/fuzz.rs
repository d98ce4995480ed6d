//! Hostile bytes for what reads bytes from outside: a kept corpus, changed at random from a seed
//! that is printed, for as long as `CODEBUTLER_FUZZ_SECONDS` says (a second each otherwise). What
//! breaks something is printed as it has to be added to the corpus.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use codebutler_crds::policy::RedactionRule;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rand::{RngExt as _, SeedableRng as _};

use super::git::{self, pktline, push};
use super::models::collect::StreamedAnswer;
use super::models::sse::EventTap;
use super::redact::SecretRedactor;
use super::slack::fuzz_frame;

const PKTLINE: &str = include_str!("../../../tests/corpus/pktline.txt");
const HOST: &str = include_str!("../../../tests/corpus/git-host.txt");
const SSE: &str = include_str!("../../../tests/corpus/sse.txt");
const SLACK: &str = include_str!("../../../tests/corpus/slack.txt");
const REDACTION: &str = include_str!("../../../tests/corpus/redaction.txt");

/// The corpus' lines, as Rust writes bytes (`\\x00`, `\\n`).
fn corpus_lines(corpus: &str) -> Vec<Vec<u8>> {
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

/// One of the corpus, changed in a few places, or two of them joined.
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

fn fuzz_corpus(name: &str, corpus: &[Vec<u8>], check: impl Fn(&[u8])) {
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

#[test]
fn packets_of_any_kind_are_read_or_refused() {
    fuzz_corpus("pkt-line", &corpus_lines(PKTLINE), |bytes| {
        let mut rest = bytes;
        while let Ok(Some((packet, taken))) = pktline::read_packet(rest) {
            assert!((4..=pktline::MAX_PACKET).contains(&taken) && taken <= rest.len());
            if let pktline::PktLine::Data(payload) = packet {
                assert_eq!(payload.len() + 4, taken);
            }
            rest = &rest[taken..];
        }
    });
}

#[test]
fn pushes_of_any_kind_are_read_or_refused() {
    fuzz_corpus("push", &corpus_lines(PKTLINE), |bytes| {
        if let Ok(Some((push, used))) = push::parse_push(bytes) {
            assert!(used <= bytes.len() && used <= push::MAX_COMMANDS);
            assert!(
                push.commands.iter().all(|c| push::is_object(&c.old) && push::is_object(&c.new))
            );
            // What is complete stays the same, whatever follows.
            assert_eq!(push::parse_push(&bytes[..used]), Ok(Some((push, used))));
        }
    });
}

#[test]
fn answers_of_a_git_host_of_any_kind_are_read_or_refused() {
    fuzz_corpus("Git host", &corpus_lines(HOST), git::fuzz_talk);
}

#[test]
fn streams_of_any_kind_say_the_same_in_pieces() {
    fuzz_corpus("SSE", &corpus_lines(SSE), |bytes| {
        let told = |pieces: &mut dyn Iterator<Item = &[u8]>| {
            let mut tap = EventTap::default();
            pieces.for_each(|piece| tap.pass(piece));
            (tap.bill, tap.id, tap.done, tap.images)
        };
        let whole = told(&mut std::iter::once(bytes));
        assert_eq!(told(&mut bytes.chunks(1)), whole);
        let (head, tail) = bytes.split_at(bytes.len() / 2);
        assert_eq!(told(&mut [head, tail].into_iter()), whole);
        let collected = |pieces: &mut dyn Iterator<Item = &[u8]>| {
            let mut answer = StreamedAnswer::default();
            pieces.for_each(|piece| answer.take(piece));
            answer.into_whole()
        };
        let whole = collected(&mut std::iter::once(bytes));
        assert_eq!(collected(&mut bytes.chunks(1)), whole);
        assert_eq!(collected(&mut [head, tail].into_iter()), whole);
    });
}

#[test]
fn payloads_from_slack_of_any_kind_are_read_or_ignored() {
    fuzz_corpus("Slack", &corpus_lines(SLACK), |bytes| {
        if let Ok(text) = std::str::from_utf8(bytes) {
            fuzz_frame(text);
        }
    });
}

#[test]
fn texts_of_any_kind_are_masked_in_whole_characters() {
    let corpus: Vec<Vec<u8>> = REDACTION
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.replace(['¦', '⟦', '⟧'], "").replace('␤', "\n").into_bytes())
        .collect();
    let rule = RedactionRule { name: "own".to_owned(), pattern: r"cust_\w+".to_owned() };
    let (redactor, _) = SecretRedactor::new(&[rule]);
    fuzz_corpus("redaction", &corpus, |bytes| {
        let text = String::from_utf8_lossy(bytes);
        let found = redactor.find(&text);
        let mut end = 0;
        for finding in &found {
            assert!(finding.range.start >= end && finding.range.end > finding.range.start);
            assert!(text.get(finding.range.clone()).is_some(), "in the middle of a character");
            end = finding.range.end;
        }
        let masked = redactor.mask(&text);
        assert_eq!(masked == text, found.is_empty());
    });
}
