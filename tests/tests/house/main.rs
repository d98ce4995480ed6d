//! Rules of the house that a machine can check: how long files are, what names are given twice, what imports
//! what, and how long the first page is. A limit is where things stand, or better: lower it with what gets better.

// Helpers of tests are tests too.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod errors;
mod events;
mod examples;
mod imports;
mod measuring;
mod pages;
mod prose;
mod quickstart;
mod unchecked;
mod walks;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use imports::Sources;
use regex::Regex;

/// Lines of a file, its tests included.
const LONGEST: usize = 510;
/// Most words in the README.
const WORDS: usize = 1200;
/// Of a hundred types that are private to their file, those whose name has one word.
const SHORT_PRIVATE: usize = 15;

/// A crate, and what is true of it.
struct Crate {
    folder: &'static str,
    /// Types of a hundred that share their name with another one.
    shared_names: usize,
    /// Public types whose name has one word.
    short_names: usize,
}

impl Crate {
    /// A crate in which none of that is found.
    const fn clean(folder: &'static str) -> Self {
        Self { folder, shared_names: 0, short_names: 0 }
    }
}

const CRATES: &[Crate] = &[
    Crate::clean("crds/src"),
    Crate::clean("crds/mcp-file/src"),
    Crate::clean("crds/redact/src"),
    Crate::clean("crds/roadmap/src"),
    Crate::clean("crds/wire/src"),
    Crate::clean("operator/description/src"),
    Crate::clean("operator/history/src"),
    Crate::clean("operator/kubectl/src"),
    Crate::clean("operator/markdown/src"),
    Crate::clean("operator/mcp/src"),
    Crate::clean("operator/pages/src"),
    Crate::clean("operator/slack-text/src"),
    Crate::clean("operator/src"),
    Crate { folder: "operator/controller/src", shared_names: 3, short_names: 0 },
    Crate::clean("operator/fuzz/src"),
    Crate { folder: "operator/gateway/src", shared_names: 3, short_names: 0 },
    // The remote: a word of the house.
    Crate { folder: "operator/gateway/core/src", shared_names: 3, short_names: 1 },
    Crate { folder: "operator/gateway/git/src", shared_names: 3, short_names: 0 },
    Crate { folder: "operator/gateway/mcp/src", shared_names: 3, short_names: 0 },
    // The ledger: a word of the house.
    Crate { folder: "operator/gateway/models/src", shared_names: 3, short_names: 1 },
    Crate { folder: "operator/gateway/slack/src", shared_names: 3, short_names: 0 },
    Crate { folder: "operator/runtime/src", shared_names: 3, short_names: 0 },
    Crate::clean("agent/browser/src"),
    Crate::clean("agent/documents/src"),
    Crate::clean("agent/guides/src"),
    Crate::clean("agent/textform/src"),
    Crate { folder: "agent/src", shared_names: 3, short_names: 0 },
    Crate { folder: "tests/src", shared_names: 3, short_names: 1 },
    Crate::clean("tests/start/src"),
    Crate { folder: "tests/product/src", shared_names: 3, short_names: 1 },
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

#[test]
fn no_crate_of_the_workspace_is_left_out() {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let (_, members) = manifest.split_once("members = [").unwrap();
    let members = members.split(']').next().unwrap().split('"').skip(1).step_by(2);
    let members: BTreeSet<String> = members.map(|member| format!("{member}/src")).collect();
    let listed: BTreeSet<String> = CRATES.iter().map(|one| one.folder.to_owned()).collect();
    assert_eq!(members, listed);
}

#[test]
fn no_file_is_too_long_to_read() {
    let mut long = Vec::new();
    for Crate { folder, .. } in CRATES {
        for (path, text) in &Sources::read(&root().join(folder)).files {
            let lines = text.lines().count();
            if lines > LONGEST {
                long.push(format!("{} has {lines} lines", path.display()));
            }
        }
    }
    assert!(long.is_empty(), "more than {LONGEST}: {long:?}");
}

#[test]
fn a_type_can_be_found_by_its_name() {
    let declared =
        Regex::new(r"(?m)^(?:pub(?:\([a-z ]+\))? )?(?:struct|enum|trait|type) (\w+)").unwrap();
    for Crate { folder, shared_names, .. } in CRATES {
        let mut places = BTreeMap::<String, Vec<String>>::new();
        for (path, text) in &Sources::read(&root().join(folder)).files {
            for found in declared.captures_iter(text) {
                places.entry(found[1].to_owned()).or_default().push(path.display().to_string());
            }
        }
        let all: usize = places.values().map(Vec::len).sum();
        places.retain(|_, files| files.len() > 1);
        let shared: usize = places.values().map(Vec::len).sum();
        assert!(
            shared * 100 <= all * shared_names,
            "{folder}: {shared} of {all} types share their name: {places:#?}"
        );
    }
}

#[test]
fn a_public_type_says_what_it_is_about() {
    let declared =
        Regex::new(r"(?m)^ *pub (?:struct|enum|trait|type|union) ([A-Z][a-z0-9]*)\b").unwrap();
    for Crate { folder, short_names, .. } in CRATES {
        let files = Sources::read(&root().join(folder)).files;
        let short: Vec<_> = files
            .iter()
            .flat_map(|(path, text)| {
                let names = declared.captures_iter(text);
                names.map(|found| format!("{} in {}", &found[1], path.display()))
            })
            .collect();
        assert!(short.len() <= *short_names, "{folder}: {short:#?}");
    }
}

#[test]
fn private_types_say_what_they_are_about() {
    let declared = Regex::new(r"(?m)^(?:struct|enum|trait|type|union) ([A-Z]\w*)").unwrap();
    let one_word = Regex::new(r"^[A-Z][a-z0-9]*$").unwrap();
    let (mut all, mut short) = (0, Vec::new());
    for Crate { folder, .. } in CRATES {
        for (path, text) in &Sources::read(&root().join(folder)).files {
            let names = declared.captures_iter(text).map(|found| found[1].to_owned());
            let names: Vec<_> = names.collect();
            all += names.len();
            let in_file = |name| format!("{name} in {folder}/{}", path.display());
            short.extend(names.into_iter().filter(|name| one_word.is_match(name)).map(in_file));
        }
    }
    assert!(short.len() * 100 <= all * SHORT_PRIVATE, "{} of {all}: {short:#?}", short.len());
}

#[test]
fn what_is_imported_does_not_import_back() {
    for Crate { folder, .. } in CRATES {
        let found = Sources::read(&root().join(folder)).circles();
        assert!(found.is_empty(), "{folder}: files import each other: {found:#?}");
    }
}

#[test]
fn folders_do_not_import_each_other_in_a_circle() {
    let mut worse = Vec::new();
    for Crate { folder, .. } in CRATES {
        // A folder counts as a whole, with all that is in it.
        let found = Sources::read(&root().join(folder)).folder_circles();
        if !found.is_empty() {
            worse.push(format!("{folder}: {found:#?}"));
        }
    }
    assert!(worse.is_empty(), "{}", worse.join("\n"));
}

#[test]
fn the_first_page_is_short() {
    let words = fs::read_to_string(root().join("README.md")).unwrap().split_whitespace().count();
    assert!(words <= WORDS, "README.md has {words} words, more than {WORDS}");
}
