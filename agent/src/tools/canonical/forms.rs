//! Argument shapes of other agents: one replacement beside the path, lists of words as a command, ranges of lines,
//! one tool for several things.

use serde_json::{Map, Value, json};

use super::bare_name;
use super::names::MeantTool;

type Given = Map<String, Value>;

/// Largest timeout that is read as seconds.
const MAX_SECONDS: u64 = 3600;
/// Names that other agents give the parts of one replacement.
const OLD: [&str; 5] = ["old", "oldstring", "oldstr", "oldtext", "oldcode"];
const NEW: [&str; 5] = ["new", "newstring", "newstr", "newtext", "newcode"];
const ALL: [&str; 3] = ["all", "replaceall", "allowmultiple"];

/// Picks the tool that is meant, where the name or the arguments point to another tool or another use of it.
pub(super) fn choose_tool(
    meant: &mut MeantTool,
    given: &mut Given,
    has: impl Fn(&str) -> bool,
) -> Result<(), String> {
    match (meant.tool, meant.by.as_str()) {
        ("Edit", "strreplaceeditor" | "strreplacebasededittool" | "fileeditor") => {
            let Some(command) = take_named(given, &["command"]).filter(Value::is_string) else {
                return Ok(());
            };
            meant.tool = match command.as_str().unwrap_or_default() {
                "view" => "Read",
                "create" => "Write",
                "str_replace" => "Edit",
                other => {
                    return Err(format!(
                        "there is no `{other}` here: use Edit with `path`, and `edits` of `old` and `new`"
                    ));
                }
            };
        }
        ("Glob", "ls" | "list" | "listdir" | "listdirectory" | "folderls" | "listfiles") => {
            unfold_listing(given);
        }
        ("Bash", by) => {
            unfold_jobs(by, given)?;
            if has("Edit")
                && let Some(patch) = patch_of(given)
            {
                meant.tool = "Edit";
                given.clear();
                given.insert("patch".to_owned(), patch.into());
            }
        }
        _ => {}
    }
    Ok(())
}

/// Reshapes the arguments to the tool's own schema.
pub(super) fn unfold_call(tool: &str, given: &mut Given) -> Result<(), String> {
    match tool {
        "Bash" => unfold_command(given),
        "Edit" => {
            unfold_edit(given);
            Ok(())
        }
        "Read" => {
            unfold_lines(given, "offset", |from, to| ("limit", to.saturating_sub(from) + 1));
            Ok(())
        }
        "GitBlame" => {
            unfold_lines(given, "from", |_, to| ("to", to));
            Ok(())
        }
        "Grep" => {
            if let Some(Value::Bool(sensitive)) = take_named(given, &["casesensitive"]) {
                given.entry("ignoreCase").or_insert(Value::Bool(!sensitive));
            }
            Ok(())
        }
        "Todo" => {
            let words = |item: &mut Value| {
                if let Value::String(text) = item {
                    *item = json!({ "text": text });
                }
            };
            for list in given.values_mut().filter_map(Value::as_array_mut) {
                list.iter_mut().for_each(words);
            }
            Ok(())
        }
        "GHReview" => {
            if let Some(Value::String(event)) = take_named(given, &["event"]) {
                let changes = bare_name(&event) == "requestchanges";
                given.entry("requestChanges").or_insert(Value::Bool(changes));
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Removes the argument that has one of these names, and returns it.
fn take_named(given: &mut Given, names: &[&str]) -> Option<Value> {
    let key = given.keys().find(|key| names.contains(&bare_name(key).as_str()))?.clone();
    given.remove(&key)
}

fn unfold_listing(given: &mut Given) {
    if take_named(given, &["recursive"]).is_some_and(|value| value == true || value == "true") {
        given.entry("pattern").or_insert("**/*".into());
        return;
    }
    if !given
        .keys()
        .any(|key| ["pattern", "glob", "globpattern"].contains(&bare_name(key).as_str()))
    {
        given.insert("pattern".to_owned(), "*".into());
        given.insert("list".to_owned(), true.into());
    }
}

/// Maps other agents' tools for background commands.
fn unfold_jobs(by: &str, given: &mut Given) -> Result<(), String> {
    match by {
        "writestdin" => {
            let typed = take_named(given, &["chars", "input"]);
            if typed.and_then(|typed| typed.as_str().map(str::is_empty)) == Some(false) {
                return Err("a command gets no input here: pass it in the command line".to_owned());
            }
            if let Some(wait) = take_named(given, &["yieldtimems"]).and_then(|ms| whole_number(&ms))
            {
                given.insert("wait".to_owned(), wait.div_ceil(1000).into());
            }
        }
        "killshell" | "killbash" | "taskstop" => {
            given.insert("kill".to_owned(), true.into());
        }
        "taskoutput" | "bashoutput" => {
            let waits = take_named(given, &["block"]).is_some_and(|value| value == true);
            let most =
                take_named(given, &["timeout"]).and_then(|ms| whole_number(&ms)).unwrap_or(30_000);
            if waits {
                given.insert("wait".to_owned(), most.div_ceil(1000).into());
            }
        }
        _ => {}
    }
    Ok(())
}

/// Extracts the patch of a command that is nothing but a patch for Codex' own program.
fn patch_of(given: &Given) -> Option<String> {
    const BEGIN: &str = "*** Begin Patch";
    const END: &str = "*** End Patch";
    let (_, command) = given.iter().find(|(key, _)| ["command", "cmd"].contains(&key.as_str()))?;
    let words: Vec<&str> = match command {
        Value::String(line) => vec![line],
        Value::Array(words) => words.iter().map(Value::as_str).collect::<Option<_>>()?,
        _ => return None,
    };
    let line = match words[..] {
        ["apply_patch" | "applypatch", patch] => return Some(patch.to_owned()),
        [line] | ["bash" | "sh" | "zsh", "-c" | "-lc", line] => line.trim(),
        _ => return None,
    };
    // `apply_patch <<'EOF'`, the patch, `EOF`, and not a word more.
    let rest = line.strip_prefix("apply_patch").or_else(|| line.strip_prefix("applypatch"))?;
    let rest = rest.trim_start().strip_prefix("<<")?.trim_start();
    let (word, body) = rest.split_once('\n')?;
    let word = word.trim().trim_matches(['\'', '"']);
    let plain = !word.is_empty() && word.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    let patch = body.strip_suffix(word)?.strip_suffix('\n')?;
    let once = patch.matches(END).count() == 1 && !patch.lines().any(|line| line == word);
    let whole = patch.trim().starts_with(BEGIN) && patch.trim().ends_with(END);
    (plain && once && whole).then(|| patch.to_owned())
}

fn unfold_command(given: &mut Given) -> Result<(), String> {
    if take_named(given, &["isinput"]).is_some_and(|value| value == true || value == "true") {
        return Err("a command gets no input here: pass it in the command line".to_owned());
    }
    if let Some(ms) = take_named(given, &["timeoutms", "timeoutmillis", "timeoutmilliseconds"]) {
        let seconds = whole_number(&ms).ok_or("`timeout_ms` is not a whole number")?;
        given.entry("timeout").or_insert(seconds.div_ceil(1000).min(MAX_SECONDS).into());
    }
    for (key, value) in given.iter_mut() {
        if ["command", "cmd"].contains(&bare_name(key).as_str())
            && let Value::Array(words) = value
        {
            let words: Option<Vec<&str>> = words.iter().map(Value::as_str).collect();
            let words = words.filter(|words| !words.is_empty());
            let words = words.ok_or("`command` is a list of something else than words")?;
            *value = command_line(&words).into();
        }
    }
    Ok(())
}

/// Joins a list of words to a command line; of a shell with a script, only the script is kept.
fn command_line(words: &[&str]) -> String {
    match words {
        [line] => (*line).to_owned(),
        [shell, "-c" | "-lc" | "-ic", line]
            if ["bash", "sh", "/bin/bash", "/bin/sh", "zsh"].contains(shell) =>
        {
            (*line).to_owned()
        }
        words => words.iter().map(|word| quote_word(word)).collect::<Vec<_>>().join(" "),
    }
}

fn quote_word(word: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"_@%+:,./-".contains(&b);
    if !word.is_empty() && word.bytes().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Moves a replacement beside the path, as most other agents have it, into the list of edits.
fn unfold_edit(given: &mut Given) {
    if take_named(given, &["expectedreplacements"])
        .and_then(|n| whole_number(&n))
        .is_some_and(|n| n > 1)
    {
        given.insert("replaceall".to_owned(), true.into());
    }
    let keys: Vec<String> = given
        .keys()
        .filter(|key| {
            let bare = bare_name(key);
            [&OLD[..], &NEW, &ALL].iter().any(|names| names.contains(&bare.as_str()))
        })
        .cloned()
        .collect();
    let one: Given = keys.iter().filter_map(|key| given.remove_entry(key)).collect();
    if one.keys().any(|key| OLD.contains(&bare_name(key).as_str())) {
        match given.get_mut("edits") {
            Some(Value::Array(edits)) => edits.push(Value::Object(one)),
            _ => {
                given.insert("edits".to_owned(), json!([one]));
            }
        }
    }
}

/// Reads a range of lines: two numbers in one argument, or first and last.
fn unfold_lines(given: &mut Given, first: &str, rest: impl Fn(u64, u64) -> (&'static str, u64)) {
    let range = take_named(given, &["viewrange", "linerange", "lines", "range"]);
    let numbers: Option<Vec<u64>> = match &range {
        // In `[10, -1]`, the end is open.
        Some(Value::Array(numbers)) => Some(numbers.iter().map_while(whole_number).collect()),
        Some(Value::String(text)) => {
            text.split(['-', ',', ':']).map(|part| part.trim().parse().ok()).collect()
        }
        Some(Value::Number(_)) if first == "offset" => {
            // A single number counts lines.
            given.entry("limit").or_insert(range.unwrap_or_default());
            None
        }
        _ => None,
    };
    let end = match numbers.as_deref() {
        Some([from, to]) => Some((*from, *to)),
        Some([from]) => {
            given.entry(first.to_owned()).or_insert((*from).into());
            None
        }
        _ => None,
    };
    let end = end.or_else(|| {
        let to = take_named(given, &["endline", "lineend", "endlineoneindexedinclusive"]);
        let to = to.and_then(|to| whole_number(&to))?;
        let names = [first, "startline", "linestart", "startlineoneindexed"];
        let from = given.iter().find(|(key, _)| names.contains(&bare_name(key).as_str()));
        Some((from.and_then(|(_, from)| whole_number(from)).unwrap_or(1), to))
    });
    if let Some((from, to)) = end {
        let starts = |key: &String| ["startline", "linestart"].contains(&bare_name(key).as_str());
        for key in given.keys().filter(|key| starts(key)).cloned().collect::<Vec<_>>() {
            given.remove(&key);
        }
        given.entry(first.to_owned()).or_insert(from.into());
        let (key, value) = rest(from, to);
        given.entry(key).or_insert(value.into());
    }
}

fn whole_number(value: &Value) -> Option<u64> {
    match value {
        Value::Number(number) => number.as_u64().or_else(|| {
            let float = number.as_f64().filter(|n| n.fract() == 0.0 && *n >= 0.0)?;
            format!("{float:.0}").parse().ok()
        }),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}
