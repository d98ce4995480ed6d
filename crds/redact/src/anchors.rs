//! The one pass over a text: an automaton that knows how everything begins, and what to ask where.

use std::borrow::Cow;
use std::sync::{LazyLock, OnceLock};

use aho_corasick::{AhoCorasick, AhoCorasickKind};
use regex_automata::meta::Regex;
use regex_automata::{Anchored, Input};

use super::providers::{PEM, PROVIDERS, private_key};
use super::{FoundSecret, NameWeight, address, assignment};

/// Kind of finding that an anchor is the beginning (or a part) of.
#[derive(Clone, Copy)]
enum AnchorKind {
    /// An entry of [`PROVIDERS`].
    Provider(usize),
    Assignment(assignment::NameKind),
    Connection,
    InternalAddress,
    InternalHost,
}

struct AnchorSet {
    automaton: AhoCorasick,
    kinds: Vec<AnchorKind>,
    /// By index of [`PROVIDERS`]. Each is built when it is asked for, which most never are: all of
    /// them take 30 ms and 10 MiB, and whoever writes one line of a log would pay that.
    forms: Vec<OnceLock<Option<Regex>>>,
}

impl AnchorSet {
    fn form(&self, index: usize) -> Option<&Regex> {
        self.forms[index].get_or_init(|| Regex::new(PROVIDERS[index].form).ok()).as_ref()
    }
}

/// Automaton of all anchors. It is built from constants; a test shows that it can be.
static ANCHORS: LazyLock<Option<AnchorSet>> = LazyLock::new(|| {
    let mut words = Vec::new();
    let mut kinds = Vec::new();
    for (index, provider) in PROVIDERS.iter().enumerate() {
        words.push(provider.begins);
        kinds.push(AnchorKind::Provider(index));
    }
    for (word, key) in assignment::KEYS {
        words.push(word);
        kinds.push(AnchorKind::Assignment(key));
    }
    words.push("://");
    kinds.push(AnchorKind::Connection);
    for begins in address::BEGINS {
        words.push(begins);
        kinds.push(AnchorKind::InternalAddress);
    }
    for ends in address::HOST_ENDS {
        words.push(ends);
        kinds.push(AnchorKind::InternalHost);
    }
    let automaton = AhoCorasick::builder()
        .kind(Some(AhoCorasickKind::DFA))
        .ascii_case_insensitive(true)
        .build(&words)
        .ok()?;
    let forms = PROVIDERS.iter().map(|_| OnceLock::new()).collect();
    Some(AnchorSet { automaton, kinds, forms })
});

/// Everything of the built-in kinds, in no order.
pub(crate) fn find_anchored(text: &str) -> Vec<FoundSecret> {
    let mut found: Vec<FoundSecret> = Vec::new();
    let Some(anchors) = ANCHORS.as_ref() else { return found };
    // Anchors inside a token that has matched already are skipped; that also keeps this linear.
    let mut formed = 0;
    for hit in anchors.automaton.find_overlapping_iter(text) {
        let (start, end) = (hit.start(), hit.end());
        if start < formed {
            continue;
        }
        let kind = anchors.kinds[hit.pattern().as_usize()];
        let (name, weight, range) = match kind {
            AnchorKind::Provider(index) => {
                let provider = &PROVIDERS[index];
                if provider.bounded && !free_before(text, start) {
                    continue;
                }
                let input = Input::new(text).range(start..).anchored(Anchored::Yes);
                let form = anchors.form(index);
                let Some(mut matched) = form.and_then(|form| form.find(input)).map(|m| m.range())
                else {
                    continue;
                };
                matched.end = if provider.begins == PEM {
                    private_key(text, matched.end)
                } else {
                    whole_word(text, matched.end)
                };
                formed = matched.end;
                (provider.name, NameWeight::Formed, matched)
            }
            AnchorKind::Assignment(key) => match assignment::find_assigned(text, start..end, key) {
                Some((name, range)) => (name, NameWeight::Assigned, range),
                None => continue,
            },
            AnchorKind::Connection => match address::find_credentials(text, start) {
                Some(range) => ("connection-string", NameWeight::Formed, range),
                None => continue,
            },
            AnchorKind::InternalAddress => match address::find_internal(text, start) {
                Some(range) => ("internal-address", NameWeight::Formed, range),
                None => continue,
            },
            AnchorKind::InternalHost => match address::internal_host(text, start..end) {
                Some(range) => ("internal-address", NameWeight::Formed, range),
                None => continue,
            },
        };
        found.push(FoundSecret { name: Cow::Borrowed(name), weight, range });
    }
    found
}

/// True if a token may begin here: not in the middle of a word.
fn free_before(text: &str, at: usize) -> bool {
    let before = at.checked_sub(1).and_then(|i| text.as_bytes().get(i));
    // An escaped line break (`\n`) before it is no word.
    let escaped =
        at >= 2 && text.as_bytes()[at - 2] == b'\\' && matches!(before, Some(b'n' | b't' | b'r'));
    escaped || !before.is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_')
}

/// End of the word at `end`: forms are bounded, so the rest of the same word is masked with them.
fn whole_word(text: &str, end: usize) -> usize {
    let rest = text.as_bytes()[end..].iter();
    end + rest.take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-')).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_constants_make_an_automaton() {
        assert!(ANCHORS.is_some());
        for provider in PROVIDERS {
            Regex::new(provider.form).unwrap();
        }
    }
}
