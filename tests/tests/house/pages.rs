//! Pages for people: links lead somewhere, fields and values exist, and no page is a wall.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use regex::Regex;
use serde_json::Value;

/// Words of a page that people read from top to bottom.
const WORDS: usize = 3000;
/// Pages that are looked things up in: lists that grow with the product.
const LISTS: [&str; 2] = ["charts/codebutler/CHANGELOG.md", "charts/codebutler/REASONS.md"];

pub(crate) fn top() -> PathBuf {
    Path::new(codebutler_testbed::FOLDER).join("..")
}

/// Every page with its text, by its path from the top.
pub(crate) fn pages() -> BTreeMap<String, String> {
    let mut git = Command::new("git");
    let listed = git.args(["ls-files", "-co", "--exclude-standard", "*.md"]).current_dir(top());
    let listed = listed.output().unwrap();
    let names = String::from_utf8(listed.stdout).unwrap();
    // Prompts and skills are for models, and the tasks of benches are others' repositories.
    let own = |name: &&str| !name.starts_with("seeds/") && !name.contains("/prompts/");
    let own = names.lines().filter(own).filter(|name| !name.starts_with("tests/bench/"));
    own.filter_map(|name| Some((name.to_owned(), fs::read_to_string(top().join(name)).ok()?)))
        .collect()
}

/// The text without blocks of code.
pub(crate) fn prose(text: &str) -> String {
    let mut code = false;
    let lines = text.lines().filter(|line| {
        let fence = line.trim_start().starts_with("```");
        code ^= fence;
        !code && !fence
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn no_page_holds_what_a_conflict_left() {
    let left =
        |line: &&str| ["<<<<<<< ", "||||||| ", ">>>>>>> "].iter().any(|m| line.starts_with(m));
    let all = pages();
    let found: Vec<_> =
        all.iter().filter_map(|(name, text)| Some((name, text.lines().find(left)?))).collect();
    assert!(found.is_empty(), "{found:#?}");
}

/// Anchors of a page's headings, as GitHub makes them.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = prose(text);
    let headings = headings.lines().filter(|line| line.starts_with('#'));
    let slug = |line: &str| {
        let words = line.trim_start_matches('#').trim().to_lowercase();
        let kept = words.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    headings.map(slug).collect()
}

#[test]
fn links_lead_somewhere() {
    let pages = pages();
    let link = Regex::new(r"\[[^\]]*\]\(([^)\s]+)\)").unwrap();
    let mut wrong = Vec::new();
    for (name, text) in &pages {
        for found in link.captures_iter(&prose(text)) {
            let to = &found[1];
            if to.contains("://") || to.starts_with("mailto:") {
                continue;
            }
            let (path, anchor) = to.split_once('#').unwrap_or((to, ""));
            let folder = Path::new(name).parent().unwrap();
            let file = if path.is_empty() { PathBuf::from(name) } else { folder.join(path) };
            let there = top().join(&file);
            let known = there.exists() && {
                anchor.is_empty()
                    || fs::read_to_string(&there).is_ok_and(|t| anchors(&t).contains(anchor))
            };
            if !known {
                wrong.push(format!("{name}: {to}"));
            }
        }
    }
    assert!(pages.len() > 20, "{}", pages.len());
    assert!(wrong.is_empty(), "links that lead nowhere: {wrong:#?}");
}

/// The three resources by their kind, each with its schema.
pub(crate) fn definitions() -> Vec<(String, Value)> {
    let folder = top().join("charts/codebutler-crds/files/crds");
    let files = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let read = |path: PathBuf| {
        let text = fs::read_to_string(path).unwrap();
        let crd: Value = serde_saphyr::from_str(&text).unwrap();
        let kind = crd["spec"]["names"]["kind"].as_str().unwrap().to_owned();
        (kind, crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone())
    };
    files.map(read).collect()
}

/// True if a path such as `spec.model.providers.credentials` leads to a field: through lists, and by any key of
/// a map.
fn has_field(schema: &Value, path: &[&str]) -> bool {
    let Some((first, rest)) = path.split_first() else { return true };
    if let Some(items) = schema.get("items") {
        return has_field(items, path);
    }
    if let Some(field) = schema["properties"].get(first) {
        return has_field(field, rest);
    }
    match schema.get("additionalProperties") {
        Some(Value::Bool(open)) => *open,
        Some(any) => has_field(any, rest),
        None => schema["x-kubernetes-preserve-unknown-fields"] == true,
    }
}

#[test]
fn fields_that_pages_name_exist() {
    let schemas: Vec<Value> = definitions().into_iter().map(|(_, schema)| schema).collect();
    assert_eq!(schemas.len(), 3);
    let field = Regex::new(r"`\.?((?:spec|status)(?:\.(?:[A-Za-z]+|\*|<[a-z]+>))+)").unwrap();
    let mut wrong = BTreeSet::new();
    let mut seen = 0;
    for (name, text) in pages() {
        for found in field.captures_iter(&prose(&text)) {
            let path: Vec<&str> = found[1].split('.').collect();
            seen += 1;
            // Of a pod's own spec there is nothing here.
            if !schemas.iter().any(|schema| has_field(schema, &path)) {
                wrong.insert(format!("{name}: {}", &found[1]));
            }
        }
    }
    assert!(seen > 100, "{seen}");
    assert!(wrong.is_empty(), "no such field: {wrong:#?}");
}

/// Ends of names of files and hosts, which have the form of a path of fields.
const NO_FIELDS: [&str; 6] = ["com", "json", "md", "org", "rs", "yaml"];

#[test]
fn fields_that_pages_name_in_short_exist() {
    let specs: Vec<Value> =
        definitions().into_iter().map(|(_, schema)| schema["properties"]["spec"].clone()).collect();
    let values = fs::read_to_string(top().join("charts/codebutler/values.yaml")).unwrap();
    let values: Value = serde_saphyr::from_str(&values).unwrap();
    // Such as `limits.timeZone`: a page about Repos leaves `spec` out.
    let short = Regex::new(r"`([a-z][A-Za-z]+(?:\.(?:[A-Za-z]+|\*|<[a-z]+>))+)[`:= ]").unwrap();
    let mut wrong = BTreeSet::new();
    let mut seen = 0;
    for (name, text) in pages().into_iter().filter(|(name, _)| name.starts_with("charts/")) {
        for found in short.captures_iter(&prose(&text)) {
            let path: Vec<&str> = found[1].split('.').collect();
            let begins = specs.iter().any(|spec| spec["properties"].get(path[0]).is_some());
            if !begins || path.last().is_some_and(|end| NO_FIELDS.contains(end)) {
                continue;
            }
            seen += 1;
            if !specs.iter().any(|spec| has_field(spec, &path)) && !has_value(&values, &path) {
                wrong.insert(format!("{name}: {}", &found[1]));
            }
        }
    }
    assert!(seen > 20, "{seen}");
    assert!(wrong.is_empty(), "no such field: {wrong:#?}");
}

pub(crate) fn has_value(values: &Value, path: &[&str]) -> bool {
    let Some((first, rest)) = path.split_first() else { return true };
    match values.get(first) {
        Some(found) => has_value(found, rest),
        // Maps that are empty by default take any key.
        None => values.as_object().is_some_and(serde_json::Map::is_empty),
    }
}

#[test]
fn values_that_pages_name_exist() {
    let read = |chart: &str| -> Value {
        let text = fs::read_to_string(top().join(format!("charts/{chart}/values.yaml"))).unwrap();
        serde_saphyr::from_str(&text).unwrap()
    };
    let charts = [read("codebutler"), read("codebutler-crds")];
    let set = Regex::new(r"--set[= ]([A-Za-z.]+)=").unwrap();
    let tick = Regex::new(r"`([a-z][A-Za-z]+(?:\.[A-Za-z]+)+)[`:=]").unwrap();
    let mut wrong = BTreeSet::new();
    let mut seen = 0;
    for (name, text) in pages() {
        let is_value = |path: &str| {
            let path: Vec<&str> = path.split('.').collect();
            charts.iter().any(|values| has_value(values, &path))
        };
        let set = set.captures_iter(&text).map(|found| found[1].to_owned());
        let prose = prose(&text);
        // Only what begins like one, on pages about the chart.
        let named = tick.captures_iter(&prose).map(|found| found[1].to_owned()).filter(|path| {
            let begins = path.split('.').next().unwrap_or_default();
            let first = &charts[0];
            name.starts_with("charts/")
                && [
                    "gateway",
                    "controller",
                    "history",
                    "pages",
                    "agents",
                    "networkPolicy",
                    "deliveries",
                ]
                .contains(&begins)
                && first.get(begins).is_some()
                // The names of files.
                && !path.rsplit('.').next().is_some_and(|end| ["rs", "yaml"].contains(&end))
        });
        for path in set.chain(named) {
            seen += 1;
            if !is_value(&path) {
                wrong.insert(format!("{name}: {path}"));
            }
        }
    }
    assert!(seen > 30, "{seen}");
    assert!(wrong.is_empty(), "no such value: {wrong:#?}");
}

#[test]
fn no_page_is_a_wall() {
    let words = |text: &str| text.split_whitespace().count();
    let long: Vec<_> = pages()
        .into_iter()
        .filter(|(name, text)| {
            name.starts_with("charts/") && !LISTS.contains(&&**name) && words(text) > WORDS
        })
        .map(|(name, text)| format!("{name}: {} words", words(&text)))
        .collect();
    assert!(long.is_empty(), "more than {WORDS} words, split them by reader: {long:#?}");
}

#[test]
fn the_troubleshooting_names_reasons_that_there_are() {
    let page = fs::read_to_string(top().join("charts/codebutler/TROUBLESHOOTING.md")).unwrap();
    let catalog = fs::read_to_string(top().join("charts/codebutler/REASONS.md")).unwrap();
    let word = Regex::new(r"`([A-Z][a-z]+(?:[A-Z][a-z]+)+)`").unwrap();
    let known = |text: &str| -> BTreeSet<String> {
        word.captures_iter(text).map(|found| found[1].to_owned()).collect()
    };
    // Conditions stand in the second column, without ticks.
    let unknown: Vec<_> = known(&page)
        .into_iter()
        .filter(|name| !catalog.contains(&format!("`{name}`")) && !catalog.contains(name.as_str()))
        // Kubernetes' own words.
        .filter(|name| !["ReadWriteMany", "ContainerCreating"].contains(&name.as_str()))
        .collect();
    assert!(unknown.is_empty(), "not in REASONS.md: {unknown:?}");
}
