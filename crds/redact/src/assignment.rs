//! `password = …`, `"apiKey": "…"`, `--token …`: a name that says what follows.

use std::ops::Range;
use std::sync::LazyLock;

use regex_automata::meta::Regex;
use regex_automata::{Anchored, Input};

use super::value::{self, ValuePlace};

/// Kind of value that a name announces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NameKind {
    /// A value that people choose.
    Password,
    /// A value that people choose, behind a name that is a part of many other words.
    Pass,
    /// A generated value, behind a name with `secret`.
    Secret,
    /// A generated value, behind a name with `token`.
    Token,
    /// A generated value, behind another name of a credential.
    Named,
    /// A generated or encoded value, behind a name such as `credentials` or `_auth`.
    Auth,
}

impl NameKind {
    const fn name(self) -> &'static str {
        match self {
            Self::Password | Self::Pass => "password",
            Self::Secret => "secret",
            Self::Token => "token",
            Self::Named => "api-key",
            Self::Auth => "credential",
        }
    }

    const fn chosen(self) -> bool {
        matches!(self, Self::Password | Self::Pass)
    }
}

/// The names, as parts of longer ones: `DB_PASSWORD`, `clientSecret`.
pub(crate) const KEYS: [(&str, NameKind); 36] = [
    ("password", NameKind::Password),
    ("passwd", NameKind::Password),
    ("passphrase", NameKind::Password),
    ("passcode", NameKind::Password),
    ("contraseña", NameKind::Password),
    ("pwd", NameKind::Pass),
    ("pass", NameKind::Pass),
    ("secret", NameKind::Secret),
    ("token", NameKind::Token),
    ("credential", NameKind::Auth),
    ("credentials", NameKind::Auth),
    ("_auth", NameKind::Auth),
    ("api_key", NameKind::Named),
    ("api-key", NameKind::Named),
    ("api key", NameKind::Named),
    ("apikey", NameKind::Named),
    ("access_key", NameKind::Named),
    ("access-key", NameKind::Named),
    ("accesskey", NameKind::Named),
    ("account_key", NameKind::Named),
    ("accountkey", NameKind::Named),
    ("auth_key", NameKind::Named),
    ("auth-key", NameKind::Named),
    ("authkey", NameKind::Named),
    ("private_key", NameKind::Named),
    ("private-key", NameKind::Named),
    ("privatekey", NameKind::Named),
    ("master_key", NameKind::Named),
    ("master-key", NameKind::Named),
    ("signing_key", NameKind::Named),
    ("signing-key", NameKind::Named),
    ("signingkey", NameKind::Named),
    ("encryption_key", NameKind::Named),
    ("encryption-key", NameKind::Named),
    ("encryptionkey", NameKind::Named),
    ("app_key", NameKind::Named),
];

/// Longest name's end, operator and value that are looked at.
const LONGEST: usize = 640;
/// Names that begin so hold places in lists, or guards of forms, and no credentials.
const HARMLESS: [&str; 10] = [
    "next",
    "page",
    "continuation",
    "sync",
    "cancel",
    "cancellation",
    "resume",
    "cursor",
    "idempotency",
    "eos",
];

/// Pattern of an assignment, from behind the name to the end of the value.
static SHAPE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(concat!(
        // The rest of the name, and its closing quote or bracket.
        r#"(?i:[_-]?(?:access[_-]?key|key|base|value|token|secret)){0,2}(?:_?[0-9]{1,2})?"#,
        r#"(\\{0,3}["'`])?(\]?)"#,
        // Between name and value: 3 = an operator, 4 = spaces only, 5 = a comma.
        r#"(?:([ \t]{0,8}(?:=>|:=|={1,3}|:[ \t]{0,4}[&A-Za-z][A-Za-z0-9_<>'&]{0,24}[ \t]{0,4}=|:|>)[ \t]{0,8}|[ \t]is[ \t]{1,3}(?:set to )?|[ \t]+(?:string|str|String)[ \t]*=[ \t]*|["']?[ \t]*\r?\n[ \t-]{0,24}"?value"?:[ \t]*)|([ \t]{1,4})|(,[ \t]{0,4}))"#,
        // 6, 7, 8 = quoted, 9 = bare.
        r#"(?:(?:[bfru]{0,2}\\{0,3}"([^"\\\r\n]+))|(?:[bfru]{0,2}\\{0,3}'([^'\\\r\n]+))|(?:`([^`\r\n]+))|([^\s"'`<>,;(){}\[\]&|\\]+))"#,
    ))
    .ok()
});

/// The secret that is assigned to the name, a part of which was found at `at`.
pub(crate) fn find_assigned(
    text: &str,
    at: Range<usize>,
    key: NameKind,
) -> Option<(&'static str, Range<usize>)> {
    let bytes = text.as_bytes();
    let named = |b: &&u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.');
    let start = at.start - bytes[..at.start].iter().rev().take(64).take_while(named).count();
    let name = &text.get(start..at.end)?;
    if key == NameKind::Pass && !is_own_word(bytes, at.start) {
        return None;
    }
    let lower = name.trim_start_matches('-').to_ascii_lowercase();
    if HARMLESS.iter().any(|harmless| lower.starts_with(harmless)) {
        return None;
    }
    // `_authToken` is a token.
    if name.ends_with("_auth") && bytes.get(at.end).is_some_and(|b| matches!(b, b't' | b'T')) {
        return None;
    }
    // Cheap first: most mentions are followed by a word.
    let next = bytes.get(at.end)?;
    if next.is_ascii_lowercase() && !matches!(next, b'k' | b'v' | b't' | b's' | b'b' | b'a') {
        return None;
    }
    let shape = SHAPE.as_ref()?;
    let mut found = shape.create_captures();
    let until = text.floor_char_boundary(at.end + LONGEST);
    let input = Input::new(&text[..until]).range(at.end..).anchored(Anchored::Yes);
    shape.search_captures(&input, &mut found);
    let group = |n| found.get_group(n).map(|span| span.range());
    let (quoted, range) = match (group(6).or(group(7)).or(group(8)), group(9)) {
        (Some(range), _) => (true, range),
        (None, Some(range)) => (false, trim_sentence(text, range)),
        (None, None) => return None,
    };
    let (between, spaces, comma) = (group(3), group(4).is_some(), group(5).is_some());
    let shouted = is_shouted(&text[start..at.end]);
    if spaces && !is_argument(text, start, shouted, quoted) {
        return None;
    }
    // A pair in a call, such as define('DB_PASSWORD', '…').
    if comma && !(quoted && shouted && group(1).is_some()) {
        return None;
    }
    let operator = between.map_or("", |range| text[range].trim());
    let wide = text[at.end..range.start].contains(' ');
    let place = ValuePlace {
        quoted,
        chosen: key.chosen(),
        shell: !quoted && (operator == "=" && !wide || spaces),
    };
    let value = &text[range.clone()];
    if !quoted {
        // A call, an index or a generic type: code.
        let after = bytes.get(range.end);
        let opens = |b: &u8| matches!(b, b'(' | b'[' | b'{') || *b == b'<' && operator != ">";
        if after.is_some_and(opens) {
            return None;
        }
        // `password = password1` in code: a variable.
        let computed = operator.contains('=') && wide;
        if computed && !shouted && is_variable(value) {
            return None;
        }
    }
    value::is_secret(value, place).then(|| (key.name(), range))
}

/// `pass` and `pwd` are parts of many words: only whole ones count.
fn is_own_word(bytes: &[u8], at: usize) -> bool {
    let before = at.checked_sub(1).map(|i| bytes[i]);
    before.is_none_or(|b| !b.is_ascii_alphabetic())
        || (bytes[at].is_ascii_uppercase() && before.is_some_and(|b| b.is_ascii_lowercase()))
}

/// `--token x`, `ENV TOKEN x`, `login me password x`.
fn is_argument(text: &str, start: usize, shouted: bool, quoted: bool) -> bool {
    let before = &text[..start];
    let flag = text[start..].starts_with("--") || text[start..].starts_with('-');
    let line = before.rsplit('\n').next().unwrap_or_default();
    let netrc = || {
        let mut words = line.split_whitespace().rev();
        words.next().is_some() && words.next() == Some("login")
    };
    flag || shouted && line.trim_start().starts_with("ENV ") || !quoted && netrc()
}

fn is_shouted(name: &str) -> bool {
    name.bytes().any(|b| b.is_ascii_uppercase()) && !name.bytes().any(|b| b.is_ascii_lowercase())
}

fn is_variable(value: &str) -> bool {
    let lower = value.to_ascii_lowercase();
    let names = ["pass", "pwd", "secret", "token", "key", "cred", "auth"];
    value.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        && (names.iter().any(|name| lower.contains(name)) || value.len() < 12)
}

/// Range without the punctuation that ends a sentence.
fn trim_sentence(text: &str, range: Range<usize>) -> Range<usize> {
    let value = &text[range.clone()];
    let kept = value.trim_end_matches(['.', ':', '?', '…', '*', '_', '~']);
    range.start..range.start + kept.len()
}
