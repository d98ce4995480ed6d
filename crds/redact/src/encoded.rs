//! Long words that are text in base64 or hexadecimal digits, also where an encoder broke them into lines of equal
//! length. Hashes and images decode to bytes that are no text, and are left alone.

use std::ops::Range;

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

/// Length of the shortest word that is decoded: shorter ones hold no secret worth the name.
const SHORTEST: usize = 24;
/// Letters of a word that are decoded before the rest.
const SAMPLE: usize = 48;
/// Longest word that is decoded.
const LONGEST: usize = 1 << 20;
/// Longest beginning that the lines of a block share, such as `> ` or an indentation.
const PREFIX: usize = 24;
/// Divisor of a text's bytes: so large a part may be no ASCII where the text is not UTF-8.
const FOREIGN: usize = 6;

const LENIENT: GeneralPurposeConfig = GeneralPurposeConfig::new()
    .with_decode_padding_mode(DecodePaddingMode::Indifferent)
    .with_decode_allow_trailing_bits(true);
const STANDARD: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, LENIENT);
const URL_SAFE: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, LENIENT);

/// Calls `visit` with each encoded word or block of lines and what it says.
pub(crate) fn encoded_runs(text: &str, mut visit: impl FnMut(Range<usize>, &str)) {
    let bytes = text.as_bytes();
    let mut at = 0_usize;
    // Up to here lines were looked at as a block, and are none.
    let mut no_block = 0_usize;
    // Every run of that length has a byte on one of these places.
    while let Some(probe) = at.checked_add(SHORTEST - 1).filter(|probe| *probe < bytes.len()) {
        if !is_code(bytes[probe]) {
            at = probe + 1;
            continue;
        }
        let back = bytes[at..probe].iter().rev().take_while(|b| is_code(**b)).count();
        let start = probe - back;
        let length = count_code(&bytes[start..]);
        let end = start + length;
        at = end + 1;
        if !(SHORTEST..=LONGEST).contains(&length) {
            continue;
        }
        if start >= no_block
            && let Some(block) = find_block(bytes, start..end)
        {
            if let Some(decoded) = decode_word(&block.word) {
                visit(start..block.end, &decoded);
                at = block.end;
                continue;
            }
            no_block = block.end;
        }
        if let Some(decoded) = decode_word(&text[start..end]) {
            visit(start..end + count_padding(&bytes[end..]), &decoded);
        }
    }
}

const fn is_code(b: u8) -> bool {
    b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'-' | b'_')
}

fn count_code(bytes: &[u8]) -> usize {
    bytes.iter().take_while(|b| is_code(**b)).count()
}

fn count_padding(bytes: &[u8]) -> usize {
    bytes.iter().take(2).take_while(|b| **b == b'=').count()
}

/// A word that was joined from several lines, and its end in the text.
struct EncodedBlock {
    word: String,
    end: usize,
}

/// The lines that a word goes on in: as long as the first one, and a last one that may be shorter. All begin the
/// same way. `None` where the word is not the whole of its line, or does not begin like text.
fn find_block(bytes: &[u8], first: Range<usize>) -> Option<EncodedBlock> {
    let mut next = first.end + line_end(&bytes[first.end..])?;
    let from = first.start.saturating_sub(PREFIX);
    let line = match bytes[from..first.start].iter().rposition(|b| *b == b'\n') {
        Some(at) => from + at + 1,
        None if from == 0 => 0,
        // More than a beginning stands before it: `data: ` and the like.
        None => first.start,
    };
    let prefix = &bytes[line..first.start];
    let prefix = if prefix.iter().any(u8::is_ascii_alphanumeric) { &[][..] } else { prefix };
    // Added and removed lines of a diff.
    let marked = |part: &[u8]| part.len() % 4 == 1 && matches!(part[0], b'+' | b'-');
    let is_marked = marked(&bytes[first.clone()]);
    let bare = |part: &'_ [u8]| {
        let part = if is_marked { &part[1..] } else { part };
        String::from_utf8_lossy(part).into_owned()
    };
    let mut word = bare(&bytes[first.clone()]);
    decode_sample(&word)?;
    let mut end = None;
    let width = first.len();
    while let Some(rest) = bytes[next..].strip_prefix(prefix) {
        let length = count_code(rest);
        if length == 0 || length > width || (is_marked && !matches!(rest[0], b'+' | b'-')) {
            break;
        }
        let padding = count_padding(&rest[length..]);
        let goes_on = line_end(&rest[length..]).filter(|_| length == width);
        if word.len() + length > LONGEST {
            break;
        }
        word.push_str(&bare(&rest[..length]));
        let here = next + prefix.len() + length;
        end = Some(here + padding);
        match goes_on {
            Some(line) => next = here + line,
            None => break,
        }
    }
    end.map(|end| EncodedBlock { word, end })
}

/// Length of the line break that stands here.
fn line_end(bytes: &[u8]) -> Option<usize> {
    match bytes {
        [b'\n', ..] => Some(1),
        [b'\r', b'\n', ..] => Some(2),
        _ => None,
    }
}

fn is_hexadecimal(word: &str) -> bool {
    word.bytes().take(SAMPLE).all(|b| b.is_ascii_hexdigit())
}

fn engine_of(word: &str) -> GeneralPurpose {
    if word.bytes().any(|b| matches!(b, b'-' | b'_')) { URL_SAFE } else { STANDARD }
}

/// `Some` where a word begins like text.
fn decode_sample(word: &str) -> Option<()> {
    let begins = &word[..word.len().min(SAMPLE)];
    let hex =
        is_hexadecimal(word).then(|| hex::decode(&begins[..begins.len() & !1]).ok()).flatten();
    if hex.is_some_and(|sample| read_text(&sample, true).is_some()) {
        return Some(());
    }
    let sample = engine_of(begins).decode(begins).ok()?;
    read_text(&sample, true).map(drop)
}

fn decode_word(word: &str) -> Option<String> {
    decode_sample(word)?;
    if is_hexadecimal(word)
        && let Some(text) = decode_hex(word)
    {
        return Some(text);
    }
    // A length that no encoder produces: the last letter is not part of it.
    let whole = if word.len() % 4 == 1 { &word[..word.len() - 1] } else { word };
    read_text(&engine_of(word).decode(whole).ok()?, false)
}

fn decode_hex(word: &str) -> Option<String> {
    read_text(&hex::decode(&word[..word.len() & !1]).ok()?, false)
}

/// The text that bytes are, in one of the encodings that people use. `cut`: more follows.
fn read_text(bytes: &[u8], cut: bool) -> Option<String> {
    if bytes.iter().all(|b| is_visible(*b)) {
        return String::from_utf8(bytes.to_vec()).ok();
    }
    read_utf8(bytes, cut).or_else(|| read_utf16(bytes)).or_else(|| read_single_bytes(bytes))
}

const fn is_visible(b: u8) -> bool {
    matches!(b, b' '..=b'~' | b'\t' | b'\r' | b'\n')
}

fn read_utf8(bytes: &[u8], cut: bool) -> Option<String> {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) if cut && error.error_len().is_none() => {
            std::str::from_utf8(&bytes[..error.valid_up_to()]).ok()?
        }
        Err(_) => return None,
    };
    is_written(text.chars()).then(|| text.to_owned())
}

fn is_written(mut text: impl Iterator<Item = char>) -> bool {
    text.all(|c| !c.is_control() || matches!(c, '\t' | '\r' | '\n'))
}

/// Reads UTF-16 as Windows writes it: of letters that are ASCII, every second byte is zero.
fn read_utf16(bytes: &[u8]) -> Option<String> {
    let bytes = bytes.strip_prefix(b"\xff\xfe").unwrap_or(bytes);
    let zeros = bytes.iter().skip(1).step_by(2).filter(|b| **b == 0).count();
    if zeros * 4 < bytes.len() {
        return None;
    }
    let units = bytes.chunks_exact(2).map(|two| u16::from_le_bytes([two[0], two[1]]));
    let text: String = char::decode_utf16(units).collect::<Result<_, _>>().ok()?;
    is_written(text.chars()).then_some(text)
}

/// Reads Latin-1 and its like: mostly ASCII.
fn read_single_bytes(bytes: &[u8]) -> Option<String> {
    let foreign = bytes.iter().filter(|b| !b.is_ascii()).count();
    let text = || bytes.iter().map(|b| char::from(*b));
    let shown = bytes.iter().all(|b| is_visible(*b) || *b >= 0x80);
    (shown && foreign * FOREIGN <= bytes.len()).then(|| text().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "GITHUB_TOKEN=ghp_0123456789abcdefghijABCDEFGHIJ012345";

    fn wrapped(text: &[u8], width: usize, prefix: &str, end: &str) -> String {
        let word = STANDARD.encode(text);
        let lines = word.as_bytes().chunks(width);
        let lines = lines.map(|line| format!("{prefix}{}", String::from_utf8_lossy(line)));
        lines.collect::<Vec<_>>().join(end)
    }

    fn decoded(text: &str) -> String {
        let mut found = String::new();
        encoded_runs(text, |range, says| {
            assert!(text.is_char_boundary(range.start) && text.is_char_boundary(range.end));
            found.push_str(says);
            found.push('\n');
        });
        found
    }

    #[test]
    fn lines_of_one_word_are_decoded_as_one() {
        let file = format!("A=1\nB={}\n{TOKEN}\nC=2\n", "x".repeat(70));
        for (width, prefix, end) in [
            (76, "", "\n"),
            (76, "", "\r\n"),
            (64, "", "\n"),
            (60, "    ", "\n"),
            (76, "> ", "\n"),
            (76, "+", "\n"),
            (40, "\t", "\n"),
        ] {
            let text =
                format!("before\n{}\nafter words\n", wrapped(file.as_bytes(), width, prefix, end));
            assert!(decoded(&text).contains(TOKEN), "{width} {prefix:?}: {text}");
        }
        let hex = hex::encode(&file);
        let lines: Vec<_> = hex.as_bytes().chunks(60).map(String::from_utf8_lossy).collect();
        assert!(decoded(&lines.join("\n")).contains(TOKEN));
        // Two lines are enough, and what comes before does not matter.
        let short = wrapped(format!("PASSWORD=x\n{TOKEN}\n").as_bytes(), 64, "", "\n");
        assert!(decoded(&short).contains(TOKEN), "{short}");
        assert!(decoded(&format!("data: x\n{short}")).contains(TOKEN));
    }

    #[test]
    fn text_that_is_not_ascii_is_text() {
        for file in [
            format!("# Schlüssel für Zürich\n{TOKEN}\n").into_bytes(),
            format!("# ключ\n{TOKEN}\n").into_bytes(),
            format!("# 鍵 🔑\n{TOKEN}\n").into_bytes(),
            format!("{TOKEN}\n").encode_utf16().flat_map(u16::to_le_bytes).collect(),
            [&b"# Schl\xfcssel\n"[..], TOKEN.as_bytes()].concat(),
        ] {
            for width in [10_000, 76] {
                let text = wrapped(&file, width, "", "\n");
                assert!(decoded(&text).contains(TOKEN), "{text}");
            }
        }
    }

    #[test]
    fn bytes_that_are_no_text_stay_alone_and_take_linear_time() {
        let noise: Vec<u8> =
            (0..300_000_u32).map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()[2]).collect();
        assert_eq!(decoded(&wrapped(&noise, 76, "", "\n")), "");
        // Begins like text on each line, and is none as a whole.
        let mut mixed = Vec::new();
        for _ in 0..4_000 {
            mixed.extend_from_slice(&[b'a'; 56]);
            mixed.push(0);
        }
        let began = std::time::Instant::now();
        let _ = decoded(&wrapped(&mixed, 76, "", "\n"));
        assert!(began.elapsed().as_secs() < 5);
    }
}
