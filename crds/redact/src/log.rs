//! A writer for logs: what must not leave is masked in every line, whoever wrote it, with the patterns
//! of all Repos.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::breadth::is_ordinary;
use crate::{RedactionRule, SecretRedactor};

/// Kind of finding that logs show: operators need to see where things run.
const SHOWN: &str = "internal-address";
/// Length of the shortest credential that is masked: shorter ones would mask ordinary words.
const SHORTEST: usize = 8;
/// Credentials that are kept; the oldest are forgotten first.
const MOST: usize = 512;
/// Lines of one credential that are masked. A private key has fewer.
const MOST_LINES: usize = 64;
/// Beginning of a line that is a JSON object.
const JSON_LINE: &str = "{\"timestamp\":\"";

/// Credentials that this process holds. A process has one log, and any part of it may write there.
static HELD: Mutex<Vec<HeldLine>> = Mutex::new(Vec::new());
/// Those of them that servers made up: however many they are, they take none of the others away.
static ISSUED: Mutex<Vec<HeldLine>> = Mutex::new(Vec::new());

/// A line of a credential, as it is and as a text of JSON has it.
struct HeldLine {
    plain: String,
    json: String,
}

/// Patterns of one Repo that are kept, also those that it has no more; its oldest are forgotten first.
const MOST_OWN: usize = 128;

/// Patterns that Repos want masked besides: a line does not say which Repo it speaks of.
static OWN: Mutex<OwnPatterns> = Mutex::new(OwnPatterns { by_owner: BTreeMap::new(), all: None });

struct OwnPatterns {
    by_owner: BTreeMap<String, OwnerPatterns>,
    /// Redactor with the patterns of all owners.
    all: Option<Arc<SecretRedactor>>,
}

#[derive(Default)]
struct OwnerPatterns {
    rules: Vec<RedactionRule>,
    redactor: SecretRedactor,
}

/// Masks what a Repo's own patterns find in all that is logged from now on. However many another Repo has, they
/// take none of `owner`'s away.
pub fn mask_patterns(owner: &str, rules: &[RedactionRule]) {
    let mut own = OWN.lock();
    let known = own.by_owner.get(owner);
    let is_new = |rule: &&RedactionRule| !known.is_some_and(|known| known.rules.contains(rule));
    let new: Vec<_> = rules.iter().filter(is_new).cloned().collect();
    if new.is_empty() {
        return;
    }
    let known = own.by_owner.entry(owner.to_owned()).or_default();
    known.rules.extend(new);
    let surplus = known.rules.len().saturating_sub(MOST_OWN);
    known.rules.drain(..surplus);
    known.redactor = SecretRedactor::new(&known.rules).0;
    let all = SecretRedactor::joined(own.by_owner.values().map(|owner| &owner.redactor));
    own.all = Some(Arc::new(all));
}

/// Masks a credential in all that is logged from now on, whatever it looks like. Of one with several
/// lines, each.
pub fn mask_secret(secret: &str) {
    hold_lines(&HELD, secret);
}

/// Masks a credential that a server made up. One without a digit and a capital could be any word of the log, and is
/// left alone.
pub fn mask_issued(secret: &str) {
    if secret.contains(|c: char| c.is_ascii_digit() || c.is_ascii_uppercase()) {
        hold_lines(&ISSUED, secret);
    }
}

fn hold_lines(known: &Mutex<Vec<HeldLine>>, secret: &str) {
    let mut known = known.lock();
    let lines = secret.lines().map(str::trim);
    let lines = lines.filter(|line| line.len() >= SHORTEST && !is_ordinary(line));
    for line in lines.take(MOST_LINES) {
        if known.iter().any(|held| held.plain == line) {
            continue;
        }
        if known.len() >= MOST {
            known.remove(0);
        }
        let json = line.replace('\\', "\\\\").replace('"', "\\\"");
        known.push(HeldLine { plain: line.to_owned(), json });
    }
}

/// Credentials in a text, in the form in which they stand there.
fn find_held(text: &str) -> Vec<String> {
    // There a quote that is none of a text's belongs to the line's own form.
    let is_json = text.starts_with(JSON_LINE);
    let mut found = Vec::new();
    for known in [&HELD, &ISSUED] {
        for held in known.lock().iter() {
            if !is_json && text.contains(&held.plain) {
                found.push(held.plain.clone());
            } else if text.contains(&held.json) {
                found.push(held.json.clone());
            }
        }
    }
    found
}

/// Passes each write on as one line: no text that is logged can look like a line of its own.
#[derive(Debug)]
pub struct OneLine<W>(pub W);

impl<W: Write> Write for OneLine<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(line);
        let mut out = String::with_capacity(text.len());
        for c in text.trim_end_matches('\n').chars() {
            if c.is_control() && c != '\t' {
                out.extend(c.escape_default());
            } else {
                out.push(c);
            }
        }
        out.push('\n');
        self.0.write_all(out.as_bytes())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Passes text on with everything masked that must not leave, and with the credentials of [`mask_secret`].
#[derive(Debug)]
pub struct MaskedLog<W>(pub W);

impl<W: Write> Write for MaskedLog<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(bytes);
        self.0.write_all(mask_logged(&text).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

fn mask_logged(text: &str) -> Cow<'_, str> {
    let held = find_held(text);
    let own = OWN.lock().all.clone();
    let redactor = own.unwrap_or_default();
    if held.is_empty() {
        return redactor.mask_but(text, SHOWN);
    }
    let text = held.iter().fold(text.to_owned(), |text, secret| {
        text.replace(secret.as_str(), "[redacted:credential]")
    });
    Cow::Owned(redactor.mask_but(&text, SHOWN).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn logged(text: &str) -> String {
        let mut out = Vec::new();
        MaskedLog(&mut out).write_all(text.as_bytes()).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn what_is_logged_stays_in_its_line() {
        let mut out = Vec::new();
        OneLine(&mut out).write_all(b"INFO a\nERROR forged \x1b[2K\r\n").unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "INFO a\\nERROR forged \\u{1b}[2K\\r\n");
    }

    #[test]
    fn a_line_is_masked_but_says_where_things_run() {
        let key = ["ghp", &"a1B2".repeat(9)].join("_");
        assert_eq!(
            logged(&format!("WARN host=10.0.0.7:6443 got {key}\n")),
            "WARN host=10.0.0.7:6443 got [redacted:github-token]\n"
        );
        let jwt = ["eyJhbGciOiJSUzI1NiJ9", "eyJzdWIiOiJhIn0", &"aB3_".repeat(12)].join(".");
        assert!(!logged(&format!("{{\"fields\":{{\"error\":\"{jwt}\"}}}}\n")).contains(&jwt));
        let url = ["postgres://app:", "hV7kq2Lm9x", "@db.example.com/app"].concat();
        assert!(!logged(&url).contains("hV7kq2Lm9x"));
    }

    #[test]
    fn what_a_repo_wants_masked_is_masked_too() {
        let line = "the Git host says: no such customer cust_0123456789";
        assert_eq!(logged(line), line);
        let rule = |name: &str, pattern: &str| RedactionRule {
            name: name.to_owned(),
            pattern: pattern.to_owned(),
        };
        mask_patterns("team/shop", &[rule("customer", "cust_[0-9]{10}"), rule("broken", "(")]);
        mask_patterns("team/web", &[rule("order", "order_[0-9]{10}"), rule("all", ".+")]);
        // Another Repo has more patterns than are kept of one.
        for round in 0..2 {
            let many = (0..MOST_OWN).map(|n| rule("many", &format!("many_{round}_{n}_[0-9]{{4}}")));
            mask_patterns("other/many", &many.collect::<Vec<_>>());
        }
        assert_eq!(
            logged("no cust_0123456789 for order_0123456789"),
            "no [redacted:customer] for [redacted:order]"
        );
    }

    #[test]
    fn a_credential_that_looks_like_nothing_is_masked_once_it_is_held() {
        let odd = "correct horse battery";
        assert_eq!(logged(odd), odd);
        mask_secret(&format!("{odd}\nstaple of the second line\nshort"));
        assert_eq!(
            logged("use correct horse battery, a short one"),
            "use [redacted:credential], a short one"
        );
        assert_eq!(logged("staple of the second line"), "[redacted:credential]");
    }

    #[test]
    fn a_credential_of_one_team_takes_nothing_out_of_the_log_of_all() {
        mask_secret("held-before-the-others");
        let many = |from: usize| (from..from + 600).map(|n| format!("many-lines-{n:05}"));
        mask_secret(&many(0).collect::<Vec<_>>().join("\n"));
        for token in many(1000) {
            mask_issued(&token);
        }
        assert_eq!(logged("held-before-the-others"), "[redacted:credential]");
        assert_eq!(logged("many-lines-01599"), "[redacted:credential]");
        for word in ["timestamp", "namespace", "codebutler_operator"] {
            mask_secret(word);
            mask_issued(word);
            assert_eq!(logged(word), word);
        }
        mask_issued("question_declined");
        assert_eq!(logged("question_declined"), "question_declined");
    }

    #[test]
    fn a_credential_with_quotes_is_masked_in_texts_of_json_and_breaks_none() {
        mask_secret("pa\"ss\\wo\"rd 7");
        mask_secret("\",\"level\":\"");
        let line = r#"{"timestamp":"1","level":"INFO","message":"got pa\"ss\\wo\"rd 7"}"#;
        assert_eq!(
            logged(line),
            r#"{"timestamp":"1","level":"INFO","message":"got [redacted:credential]"}"#
        );
        assert_eq!(logged("got pa\"ss\\wo\"rd 7"), "got [redacted:credential]");
    }
}
