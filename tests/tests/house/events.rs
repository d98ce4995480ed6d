//! Lines of the log are events: each has one name for good, and the page that lists them knows it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use regex::Regex;

use super::imports::Sources;
use super::root;

/// Folders of product code; what lies below is read with them.
const FOLDERS: [&str; 3] = ["operator", "agent", "crds"];
const PAGE: &str = "charts/codebutler/LOGS.md";
/// Fields of a log line in JSON that an event's own fields stand beside, so their names are taken.
const RESERVED: [&str; 6] = ["level", "message", "span", "spans", "target", "timestamp"];

/// A use of one of `tracing`'s macros for events.
#[derive(Debug, PartialEq, Eq)]
struct LoggedEvent {
    level: String,
    /// Arguments of the macro as source text: escapes in strings are not interpreted.
    arguments: Vec<String>,
}

impl LoggedEvent {
    /// Name of the event: the last argument, if it is a plain string.
    fn name(&self) -> Option<&str> {
        let text = self.arguments.last()?.strip_prefix('"')?.strip_suffix('"')?;
        (!text.contains('"')).then_some(text)
    }

    fn fields(&self) -> impl Iterator<Item = &str> {
        let fields = self.arguments.iter().rev().skip(1);
        fields.map(|field| {
            let name = field.split('=').next().unwrap_or_default();
            name.trim().trim_start_matches(['%', '?'])
        })
    }
}

/// All events of a file that are not in its tests.
fn events_of(text: &str) -> Vec<LoggedEvent> {
    let tests = Regex::new(r"#\[cfg\(test\)\]\s*(?:#\[[^\n]*\]\s*)*mod \w+ \{").unwrap();
    let end = tests.find(text).map_or(text.len(), |found| found.start());
    let begins = Regex::new(r"\btracing::(error|warn|info|debug|trace)!\s*\(").unwrap();
    let found = begins.captures_iter(&text[..end]);
    found
        .map(|found| LoggedEvent {
            level: found[1].to_owned(),
            arguments: arguments_of(&text[found.get(0).map_or(end, |all| all.end())..]),
        })
        .collect()
}

/// Splits a macro call's arguments at their commas, up to the parenthesis that ends the call.
fn arguments_of(text: &str) -> Vec<String> {
    let (mut depth, mut arguments, mut argument) = (0, Vec::new(), String::new());
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '"' => {
                argument.push(letter);
                while let Some(inner) = letters.next() {
                    argument.push(inner);
                    match inner {
                        '\\' => argument.extend(letters.next()),
                        '"' => break,
                        _ => {}
                    }
                }
                continue;
            }
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' if depth == 0 => break,
            ')' | ']' | '}' => depth -= 1,
            ',' if depth == 0 => {
                arguments.push(std::mem::take(&mut argument));
                continue;
            }
            _ => {}
        }
        argument.push(letter);
    }
    arguments.push(argument);
    let arguments = arguments.iter().map(|text| text.trim().to_owned());
    arguments.filter(|text| !text.is_empty()).collect()
}

#[test]
fn arguments_of_an_event_are_told_apart() {
    let text = r#"
        tracing::warn!(target: "audit", %error, at = f(a, "b, )"), ?why, "page_failed");
        tracing::info!(
            a = "\", x",
            "page_shown",
        );
        tracing::debug!("{}", TEXT);
        #[cfg(test)]
        mod tests {
            tracing::info!("no event");
        }
    "#;
    let events = events_of(text);
    let names: Vec<_> = events.iter().map(LoggedEvent::name).collect();
    assert_eq!(names, [Some("page_failed"), Some("page_shown"), None]);
    let fields: Vec<_> = events[0].fields().collect();
    assert_eq!(fields, ["why", "at", "error", "target: \"audit\""]);
    assert_eq!(events[1].arguments, [r#"a = "\", x""#, r#""page_shown""#]);
}

/// Events of all product code with where they are logged.
fn logged_events() -> Vec<(String, LoggedEvent)> {
    let mut all = Vec::new();
    for folder in FOLDERS {
        for (path, text) in Sources::read(&root().join(folder)).files {
            let path = Path::new(folder).join(path).display().to_string();
            all.extend(events_of(&text).into_iter().map(|event| (path.clone(), event)));
        }
    }
    all
}

#[test]
fn a_line_of_the_log_is_an_event_with_fields() {
    let name = Regex::new("^[a-z][a-z0-9]*(_[a-z0-9]+)+$").unwrap();
    let all = logged_events();
    assert!(all.len() > 400, "{}", all.len());
    let wrong: Vec<_> = all
        .iter()
        .filter(|(_, event)| {
            let named = event.name().is_some_and(|text| name.is_match(text));
            !named || event.fields().any(|field| RESERVED.contains(&field))
        })
        .collect();
    assert!(
        wrong.is_empty(),
        "a message is one name such as `lease_lost`, all else is a field, and none is called {RESERVED:?}: {wrong:#?}"
    );
}

#[test]
fn the_page_of_events_lists_those_there_are() {
    let page = fs::read_to_string(root().join(PAGE)).unwrap();
    let row = Regex::new(r"(?m)^\|`([a-z0-9_]+)`\|").unwrap();
    let mut listed = BTreeMap::<&str, Vec<String>>::new();
    for (title, level) in [("Errors", "error"), ("Warnings", "warn"), ("Information", "info")] {
        let part = page.split(&format!("\n## {title}\n")).nth(1).unwrap_or_default();
        let part = part.split("\n## ").next().unwrap_or_default();
        let names = row.captures_iter(part).map(|found| found[1].to_owned()).collect();
        listed.insert(level, names);
    }
    for (level, names) in &listed {
        assert!(names.is_sorted(), "{PAGE}: `{level}` is sorted");
    }
    let order = ["error", "warn", "info"];
    let mut logged = BTreeMap::<String, usize>::new();
    for (_, event) in logged_events() {
        let level = order.iter().position(|level| *level == event.level);
        if let (Some(name), Some(level)) = (event.name(), level) {
            let known = logged.entry(name.to_owned()).or_insert(level);
            *known = level.min(*known);
        }
    }
    for (at, level) in order.iter().enumerate() {
        let own = logged.iter().filter(|(_, level)| **level == at).map(|(name, _)| name.clone());
        let own: BTreeSet<String> = own.collect();
        let page: BTreeSet<String> = listed[level].iter().cloned().collect();
        let missing: Vec<_> = own.difference(&page).collect();
        let gone: Vec<_> = page.difference(&own).collect();
        assert!(missing.is_empty(), "{PAGE} does not list under `{level}`: {missing:?}");
        assert!(gone.is_empty(), "{PAGE} lists under `{level}` what is not logged so: {gone:?}");
    }
}
