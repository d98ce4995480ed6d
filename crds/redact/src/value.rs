//! Tells a secret from a stand-in in its place: a variable, a type, a word that says what belongs there.

/// Values that stand for a secret and are none, or for having none. Lower case.
const WORDS: &[&str] = &[
    "abcdef",
    "absent",
    "access",
    "account",
    "apikey",
    "array",
    "base64",
    "basic",
    "bearer",
    "bigint",
    "boolean",
    "buffer",
    "bytes32",
    "changeit",
    "changeme",
    "client",
    "confidential",
    "config",
    "confirm",
    "confirmation",
    "current",
    "default",
    "disabled",
    "enabled",
    "encrypted",
    "expired",
    "false",
    "float64",
    "foobar",
    "forbidden",
    "forgotten",
    "function",
    "generated",
    "header",
    "headers",
    "hidden",
    "ignored",
    "incorrect",
    "input",
    "integer",
    "internal",
    "invalid",
    "literal",
    "masked",
    "mismatch",
    "missing",
    "never",
    "nothing",
    "nullable",
    "number",
    "object",
    "omitted",
    "option",
    "optional",
    "params",
    "passphrase",
    "passwd",
    "password",
    "postgres",
    "prefix",
    "private",
    "provided",
    "public",
    "random",
    "readonly",
    "refresh",
    "removed",
    "request",
    "required",
    "result",
    "revoked",
    "secret",
    "secrets",
    "session",
    "sha256",
    "sha384",
    "sha512",
    "static",
    "stdin",
    "string",
    "suffix",
    "symbol",
    "symlink",
    "this",
    "token",
    "tokens",
    "true",
    "uint256",
    "undefined",
    "unknown",
    "update",
    "user",
    "username",
    "value",
    "varchar",
    "verify",
    "without",
];
/// Parts that only stand-ins contain. Lower case.
const HINTS: &[&str] = &[
    "...",
    "…",
    "***",
    "<",
    ">",
    "${",
    "{{",
    "}}",
    "$(",
    "%(",
    "%s",
    "xxxx",
    "____",
    "----",
    "example",
    "placeholder",
    "your_",
    "your-",
    "yourp",
    "yours",
    "my_pass",
    "change_me",
    "change-me",
    "changeme",
    "redacted",
    "dummy",
    "insert",
    "replace",
    "todo",
    "fixme",
    "sample",
    "goes_here",
    "goes-here",
    "process.env",
    "os.environ",
    "getenv",
    "secretref",
    "/secrets/",
    "://",
    "arn:",
    "••",
    "not_set",
    "not-set",
    "no_secret",
    "fake",
];
/// Beginnings of references that stand in place of a value.
const REFERENCES: &[&str] = &[
    ")",
    ",",
    ";",
    "]",
    "}",
    "$",
    "@",
    "&",
    "*",
    "/",
    "./",
    "../",
    "~/",
    "%",
    "#",
    "!",
    "{",
    "[",
    "(",
    "|",
    ">",
    "=",
    "-",
    "env:",
    "env.",
    "file:",
    "vault:",
    "ssm:",
    "sha1:",
    "sha256:",
    "sha512:",
    "sha1-",
    "sha256-",
    "sha384-",
    "sha512-",
    "enc[",
    "ref:",
    "keyring:",
    "op:",
    "u64",
    "self.",
    "this.",
    "config.",
    "settings.",
    "options.",
    "opts.",
    "args.",
    "params.",
    "props.",
    "ctx.",
    "req.",
    "request.",
    "res.",
    "response.",
    "state.",
    "data.",
    "env[",
    "&str",
    "vec!",
    "some(",
    "std::",
    "var.",
    "local.",
    "module.",
    "secrets.",
    "github.",
    "inputs.",
    "values.",
    ".values",
    "c.",
    "s.",
];

/// Context in which a value was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ValuePlace {
    /// The value stands between quotes.
    pub quoted: bool,
    /// True for a value that people choose (a password), false for one that is generated (a token).
    pub chosen: bool,
    /// `NAME=value`, as environments and command lines have it.
    pub shell: bool,
}

/// True if the value of an assignment is a secret.
pub(crate) fn is_secret(value: &str, place: ValuePlace) -> bool {
    let least = if place.chosen { 6 } else { 8 };
    if value.chars().count() < least || !value.is_ascii() && value.contains(char::is_whitespace) {
        return false;
    }
    // `root:x:0:0:…` is a line of /etc/passwd.
    if value.contains(char::is_whitespace) || value.matches(':').count() > 3 || stands_in(value) {
        return false;
    }
    let letters = value.bytes().filter(u8::is_ascii_alphabetic).count();
    let digits = value.bytes().filter(u8::is_ascii_digit).count();
    let others = value.len() - letters - digits;
    if !place.quoted && is_path(value) {
        return false;
    }
    if digits == 0 {
        let titled = value.starts_with(|c: char| c.is_ascii_uppercase())
            && value[1..].bytes().all(|b| b.is_ascii_lowercase());
        let symbols = value.bytes().any(|b| b.is_ascii_punctuation() && !b"_-.".contains(&b));
        let word = letters == value.len();
        return place.chosen
            && !titled
            && (symbols || word && !looks_mixed(value) && (place.quoted || place.shell));
    }
    if letters == 0 {
        return place.chosen && (others > 0 || place.quoted || place.shell || digits >= 6);
    }
    !is_slug(value, place.chosen)
}

/// True if the password in a URL is a secret.
pub(crate) fn is_password(user: &str, password: &str) -> bool {
    let lower = password.to_ascii_lowercase();
    let common = matches!(
        &*lower,
        "pass" | "pwd" | "pw" | "p" | "root" | "admin" | "guest" | "test" | "postgres"
    );
    !password.is_empty()
        && !common
        && lower != user.to_ascii_lowercase()
        && !stands_in(password)
        && !(password.bytes().all(|b| b == b'x' || b == b'X'))
        && password.bytes().all(|b| b > b' ')
}

/// True if a value only says what belongs in its place.
fn stands_in(value: &str) -> bool {
    let lower = value.to_ascii_lowercase();
    let plain = lower.trim_matches(|c: char| c.is_ascii_punctuation());
    let first = value.chars().next();
    REFERENCES.iter().any(|r| lower.starts_with(r) && (r.len() > 1 || !looks_strong(value)))
        || WORDS.binary_search(&plain).is_ok()
        || HINTS.iter().any(|hint| lower.contains(hint))
        || value.chars().all(|c| Some(c) == first)
}

/// A password may begin with a sign; a reference is made of names.
fn looks_strong(value: &str) -> bool {
    let rest = &value[1..];
    let symbols =
        rest.bytes().filter(|b| b.is_ascii_punctuation() && !b"_-./:[]{}()".contains(b)).count();
    let digits = rest.bytes().filter(u8::is_ascii_digit).count();
    symbols > 0 && digits > 0 && !value.starts_with(['/', '{', '(', '['])
}

/// `config.api.token`, `Self::TOKEN`: a path of names.
fn is_path(value: &str) -> bool {
    let name = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
    };
    let dotted = value.contains('.') && value.split('.').all(name);
    dotted || value.contains("::") || value.contains("->")
}

/// `my-app-v2`, `step2_done`: words and small numbers, as names have them. What people choose may
/// look like that.
fn is_slug(value: &str, chosen: bool) -> bool {
    let mut parts = value.split(['-', '_', '.', '/', ':']);
    let wordy = |part: &str| {
        let digits = part.bytes().filter(u8::is_ascii_digit).count();
        let trailing = part.bytes().rev().take_while(u8::is_ascii_digit).count();
        let leading = part.bytes().take_while(u8::is_ascii_digit).count();
        part.bytes().all(|b| b.is_ascii_alphanumeric())
            && digits <= 3
            && (digits == trailing || digits == leading)
            && part.len() <= 14
            && !looks_shuffled(part)
    };
    let count = value.split(['-', '_', '.', '/', ':']).count();
    let lower = value.to_ascii_lowercase();
    let named = ["pass", "pwd", "secret", "cred", "token"].iter().any(|name| lower.contains(name));
    (!chosen || count >= 2 && named) && parts.all(wordy)
}

/// True if upper and lower case alternate as in no word.
fn looks_shuffled(part: &str) -> bool {
    let bytes = part.as_bytes();
    let changes =
        bytes.windows(2).filter(|w| w[0].is_ascii_lowercase() && w[1].is_ascii_uppercase()).count();
    let upper = bytes.iter().filter(|b| b.is_ascii_uppercase()).count();
    let lower = bytes.iter().filter(|b| b.is_ascii_lowercase()).count();
    changes >= 2 && upper >= 2 && lower >= 2 && bytes.len() < 4 * changes
}

fn looks_mixed(value: &str) -> bool {
    value.bytes().any(|b| b.is_ascii_uppercase()) && value.bytes().any(|b| b.is_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_are_sorted() {
        assert!(WORDS.is_sorted(), "{:?}", WORDS.windows(2).find(|w| w[0] > w[1]));
    }
}
