//! The walks through the code name files, functions and types that there are.

use std::fs;
use std::path::{Path, PathBuf};

use regex::Regex;

use super::imports::Sources;
use super::root;

/// Folders in which a walk's paths begin.
const BASES: [&str; 9] = [
    "",
    "operator",
    "operator/controller/src",
    "operator/gateway/src",
    "operator/gateway/mcp/src",
    "operator/gateway/models/src",
    "operator/gateway/slack/src",
    "agent/src",
    "agent/src/run",
];

#[test]
fn walks_name_what_there_is() {
    let root = root();
    let page = fs::read_to_string(root.join("operator/README.md")).unwrap();
    let walks: Vec<&str> = page.split("\n## ").filter(|part| part.starts_with("From ")).collect();
    assert_eq!(walks.len(), 8, "walks begin with `## From`");
    let folders = ["operator", "agent/src", "agent/guides/src", "crds/src", "crds/wire/src"];
    let read = |folder: &&str| Sources::read(&root.join(folder)).files.into_iter();
    let sources: Vec<(PathBuf, String)> = folders.iter().flat_map(read).collect();
    let quoted = Regex::new("`([^`]+)`").unwrap();
    let names =
        walks.iter().flat_map(|walk| quoted.captures_iter(walk)).map(|found| found[1].to_owned());
    let missing: Vec<String> = names.filter(|name| !is_found(&root, &sources, name)).collect();
    assert!(missing.is_empty(), "operator/README.md names what is not there: {missing:?}");
}

fn is_found(root: &Path, sources: &[(PathBuf, String)], name: &str) -> bool {
    if name.contains('/') || Path::new(name).extension().is_some_and(|end| end == "rs") {
        let below = |base: &&str| root.join(base).join(name).exists();
        let anywhere = |(path, _): &(PathBuf, String)| path.ends_with(name);
        return BASES.iter().any(below) || sources.iter().any(anywhere);
    }
    if name.contains(' ') || name.contains('<') || name.contains("_total") {
        // A command, a field of an object, or a metric: those have tests of their own.
        return true;
    }
    let last = name.rsplit("::").next().unwrap_or(name);
    let defined =
        Regex::new(&format!(r"\b(fn|struct|enum|trait|type|const) {}\b", regex::escape(last)));
    let defined = defined.unwrap();
    sources.iter().any(|(_, text)| defined.is_match(text))
}
