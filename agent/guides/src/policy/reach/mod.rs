//! Programs whose purpose lies outside the sandbox, and what of them stays inside. Pure.
//!
//! Package managers mostly work here and publish with a few verbs; tools of clusters and clouds mostly
//! work there and look with a few. [`table`] has both, [`special`] what no table can say.

mod special;
mod table;

use super::shell::ShellWord;
pub(super) use special::{is_local_host, is_local_url};
use table::{KNOWN, KnownProgram, ProgramKind};

/// Effect that a known program would have outside the worktree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ProgramReach {
    /// The program changes nothing elsewhere.
    Stays,
    /// The program fetches packages from where the Repo allows.
    Installs,
    /// The program changes something elsewhere; the text says what.
    Leaves(String),
}

/// Words of a program that are looked at for its verbs.
const VERBS: usize = 5;
/// Verbs that install, by program.
const INSTALLS: &[(&str, &str)] = &[
    ("npm pnpm bun", "install i ci add update uninstall remove link"),
    ("yarn", "install add remove upgrade up"),
    ("pip pip3 pipx conda mamba micromamba", "install uninstall create update remove"),
    ("uv", "add remove sync pip tool"),
    ("poetry pdm rye pipenv hatch", "add install remove update sync lock"),
    ("cargo rustup", "add install uninstall fetch update toolchain component target"),
    ("go", "install get"),
    ("gem bundle composer", "install update add require uninstall remove"),
    (
        "apt apt-get apk dnf yum brew zypper",
        "install add remove update upgrade dist-upgrade del purge",
    ),
];

/// Returns the effect of a program known here with these arguments.
pub(super) fn reach_of(name: &str, rest: &[ShellWord]) -> Option<ProgramReach> {
    let texts: Vec<&str> = rest.iter().filter_map(Option::as_deref).collect();
    let known = KNOWN.iter().find(|known| known.names.split(' ').any(|one| one == name));
    if let Some(reach) = special::special_reach(name, rest, &texts) {
        return Some(reach);
    }
    let Some(known) = known else {
        let verb = positional_args(rest, "").into_iter().next().flatten();
        return verb_installs(name, verb, texts.is_empty()).then_some(ProgramReach::Installs);
    };
    if only_tells(&texts) {
        return Some(ProgramReach::Stays);
    }
    let verbs = positional_args(rest, known.values);
    if verb_leaves(known, rest, &verbs) {
        return Some(ProgramReach::Leaves(said_verbs(name, &verbs)));
    }
    let verb = verbs.first().copied().flatten();
    let installs = verb_installs(name, verb, texts.is_empty());
    Some(if installs { ProgramReach::Installs } else { ProgramReach::Stays })
}

fn verb_leaves(known: &KnownProgram, rest: &[ShellWord], verbs: &[Option<&str>]) -> bool {
    let any = |patterns: &str| patterns.split(", ").any(|pattern| matches_pattern(pattern, verbs));
    match known.kind {
        ProgramKind::Always => true,
        // A verb that is not known before may be any.
        ProgramKind::Asks(patterns) => {
            verbs.first() == Some(&None) || any(patterns) || {
                // An option that is not known here may have taken the first word as its value.
                let first = rest
                    .iter()
                    .position(|word| word.as_deref() == verbs.first().copied().flatten());
                let shifted = first.is_some_and(|at| {
                    at > 0 && rest[at - 1].as_deref().is_some_and(|word| word.starts_with("--"))
                });
                shifted
                    && patterns
                        .split(", ")
                        .any(|pattern| matches_pattern(pattern, verbs.get(1..).unwrap_or(&[])))
            }
        }
        ProgramKind::Spares(patterns) => !any(patterns),
    }
}

fn verb_installs(name: &str, verb: Option<&str>, bare: bool) -> bool {
    (name == "yarn" && bare)
        || INSTALLS.iter().any(|(names, verbs)| {
            names.split(' ').any(|one| one == name)
                && verb.is_some_and(|verb| verbs.split(' ').any(|one| one == verb))
        })
}

/// The program and its verbs, for people.
fn said_verbs(name: &str, verbs: &[Option<&str>]) -> String {
    let verbs = verbs.iter().map_while(|verb| *verb).take(2);
    let words: Vec<&str> = std::iter::once(name).chain(verbs).collect();
    words.join(" ")
}

/// True if the program is only asked what it could do, or would do.
pub(super) fn only_tells(texts: &[&str]) -> bool {
    let own: Vec<&str> = texts.iter().copied().take_while(|text| *text != "--").collect();
    let dry = |text: &str| {
        let value = text.strip_prefix("--dry-run").or_else(|| text.strip_prefix("--dryrun"));
        value.is_some_and(|value| matches!(value, "" | "=client" | "=server" | "=true"))
    };
    let wet = |text: &str| {
        text.starts_with("--no-dry") || matches!(text, "--dry-run=false" | "--dry-run=none")
    };
    // `--version 1.0` is what is meant, not asked.
    let tells =
        |text: &&str| *text == "--help" || (*text == "--version" && own.last() == Some(text));
    let alone = matches!(own.as_slice(), ["-h" | "-V" | "-v" | "version" | "help"]);
    alone || own.iter().any(tells) || (own.iter().any(|t| dry(t)) && !own.iter().any(|t| wet(t)))
}

/// Arguments that are no options nor their values.
pub(super) fn positional_args<'a>(rest: &'a [ShellWord], values: &str) -> Vec<Option<&'a str>> {
    let mut out = Vec::new();
    let mut words = rest.iter();
    while let Some(word) = words.next() {
        match word.as_deref() {
            Some("--") => {
                out.extend(words.by_ref().map(|word| word.as_deref()));
            }
            Some(text) if values.split(' ').any(|option| option == text) => drop(words.next()),
            Some(text) if text.starts_with('-') || text.starts_with('+') => {}
            text => out.push(text),
        }
        if out.len() >= VERBS {
            break;
        }
    }
    out
}

/// True if verbs begin with a pattern's words: `a|b` is one of them, `a*` any that begins so, `*` any, and `@a|b`
/// means that one of them stands anywhere among the first.
fn matches_pattern(pattern: &str, verbs: &[Option<&str>]) -> bool {
    let one = |word: &str, verb: &str| match word.strip_suffix('*') {
        Some(start) => verb.starts_with(start),
        None => word == verb,
    };
    let any = |words: &str, verb: &str| words.split('|').any(|word| one(word, verb));
    if let Some(words) = pattern.strip_prefix('@') {
        return verbs.iter().flatten().any(|verb| any(words, verb));
    }
    if pattern.is_empty() {
        return verbs.is_empty();
    }
    let mut verbs = verbs.iter();
    pattern.split(' ').all(|words| verbs.next().copied().flatten().is_some_and(|v| any(words, v)))
}
