//! The words of everything that a model reads: prompts, skills, descriptions of tools and of their arguments, and each
//! sentence that stands in the sources, such as results, errors, facts and notices.

use std::fs;
use std::path::Path;

use codebutler_guides::seeds;
use codebutler_wire::EditForm;

use super::*;
use crate::tools::RoleTools;

/// Words that only people who wrote CodeButler know, or that nobody says any more.
const PRIVATE: [&str; 10] =
    ["harness", "receipt", "receipts", "map", "maps", "desk", "whoever", "mended", "meet", "meets"];
const PRIVATE_PHRASES: [&str; 3] = ["looks back", "look back", "looked back"];

/// The private words in a text. The heading of pages of a repository stands for itself.
fn private_words(text: &str) -> Vec<&'static str> {
    let plain = text.to_lowercase().replace("project map", "");
    let words: Vec<&str> = plain.split(|c: char| !c.is_alphanumeric()).collect();
    let single = PRIVATE.into_iter().filter(|word| words.contains(word));
    single.chain(PRIVATE_PHRASES.into_iter().filter(|phrase| plain.contains(phrase))).collect()
}

/// All descriptions in a schema, at any depth.
fn descriptions(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            found.extend(fields.get("description").and_then(Value::as_str).map(str::to_owned));
            fields.values().for_each(|field| descriptions(field, found));
        }
        Value::Array(items) => items.iter().for_each(|item| descriptions(item, found)),
        _ => {}
    }
}

/// Texts in double quotes of a source file, up to its tests.
fn literals(source: &str) -> Vec<String> {
    let source = source.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let (mut found, mut rest) = (Vec::new(), source);
    while let Some(at) = rest.find(['"', '/', '\'', 'r']) {
        let (before, here) = rest.split_at(at);
        let in_word = before.ends_with(|c: char| c.is_alphanumeric() || c == '_');
        let hashes = here.strip_prefix('r').filter(|_| !in_word);
        let hashes = hashes.map_or(0, |raw| raw.len() - raw.trim_start_matches('#').len());
        let opened =
            here.strip_prefix('r').filter(|raw| !in_word && raw[hashes..].starts_with('"'));
        if let Some(raw) = opened {
            let (text, after) =
                raw[hashes + 1..].split_once(&format!("\"{}", "#".repeat(hashes))).unwrap();
            found.push(text.to_owned());
            rest = after;
        } else if here.starts_with("//") {
            rest = here.split_once('\n').map_or("", |(_, after)| after);
        } else if let Some(text) = here.strip_prefix('"') {
            let mut escaped = false;
            let end = text.find(|c| {
                let ends = c == '"' && !escaped;
                escaped = c == '\\' && !escaped;
                ends
            });
            let (text, after) = text.split_at(end.unwrap());
            let lines: Vec<&str> = text.split("\\\n").map(str::trim_start).collect();
            found.push(lines.concat().replace("\\n", "\n"));
            rest = &after[1..];
        } else if let Some(sign) = here.strip_prefix('\'') {
            // A character, which may be a quote; otherwise the name of a lifetime.
            let escaped = sign.starts_with('\\');
            let from = if escaped { 2 } else { 0 };
            let length = sign.get(from..).and_then(|rest| rest.find('\'')).map(|end| end + from);
            let is_sign = length.is_some_and(|end| escaped || sign[..end].chars().count() == 1);
            rest = if is_sign { &sign[length.unwrap_or_default() + 1..] } else { sign };
        } else {
            rest = &here[1..];
        }
    }
    found
}

fn source_files(folder: &Path, found: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            if name != "tests" {
                source_files(&path, found);
            }
        } else if path.extension().is_some_and(|end| end == "rs") && !name.ends_with("tests.rs") {
            found.push((path.display().to_string(), fs::read_to_string(&path).unwrap()));
        }
    }
}

/// A sentence without what is filled in, which has names of its own.
fn without_places(text: &str) -> String {
    let mut parts = text.split('{');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |out, part| out + " " + part.split_once('}').map_or(part, |(_, rest)| rest))
}

#[test]
fn no_role_has_to_guess_a_private_word() {
    let own = seeds::role_names().filter_map(|role| seeds::find_seed(&format!("{role}.md")));
    let skills =
        seeds::list_skills().map(|(_, text)| text.split("## Agent").nth(1).unwrap_or(text));
    let texts = [HOUSE, SERVERS].into_iter().chain(own).chain(seeds::find_seed("workflows.md"));
    let mut texts: Vec<(String, String)> =
        texts.chain(skills).map(|text| ("a prompt".to_owned(), text.to_owned())).collect();
    let all: Vec<String> = codebutler_wire::TOOLS.map(str::to_owned).to_vec();
    let mut tools = RoleTools::new(&all);
    for form in [EditForm::Replacements, EditForm::ClaudeNames, EditForm::Patch] {
        tools.suit(form, Vec::new());
        let mut described = Vec::new();
        for spec in tools.specs().iter().chain([&tools.back_spec()]) {
            descriptions(spec, &mut described);
        }
        assert!(described.len() > 150, "{}", described.len());
        texts.extend(described.into_iter().map(|text| ("a tool".to_owned(), text)));
    }
    let mut files = Vec::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for folder in ["src", "guides/src"] {
        source_files(&root.join(folder), &mut files);
    }
    let mut sentences = 0;
    for (path, source) in &files {
        // A word alone is a name.
        for text in literals(source).iter().filter(|text| text.trim().contains(' ')) {
            sentences += 1;
            texts.push((path.clone(), without_places(text)));
        }
    }
    assert!(sentences > 1_500, "{sentences} sentences in {} files", files.len());
    let found: Vec<_> = texts
        .iter()
        .map(|(place, text)| (private_words(text), place, text))
        .filter(|(words, ..)| !words.is_empty())
        .collect();
    assert!(found.is_empty(), "{found:#?}");
}

/// These sources have the sentences that people read in Slack, on pages and in their cluster. Some of them models read,
/// too.
#[test]
fn nobody_has_to_guess_a_private_word_of_the_operator() {
    // The first is for models to avoid, and the others are keywords of languages that pages colour.
    let plain = ["whoever", "map", "maps"];
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut files = Vec::new();
    for folder in ["operator", "crds"] {
        source_files(&root.join(folder), &mut files);
    }
    let texts = files.iter().flat_map(|(path, source)| {
        let said = literals(source).into_iter().filter(|text| text.trim().contains(' '));
        said.map(move |text| (path.as_str(), text))
    });
    let texts: Vec<(&str, String)> = texts.collect();
    assert!(texts.len() > 3_000, "{} sentences in {} files", texts.len(), files.len());
    let is_private = |text: &String| {
        private_words(&without_places(text)).iter().any(|word| !plain.contains(word))
    };
    let found: Vec<_> = texts.iter().filter(|(_, text)| is_private(text)).collect();
    assert!(found.is_empty(), "{found:#?}");
}

/// Roles without Bash read and search, too: none of them is sent there for what a file does not show.
#[test]
fn remedies_for_files_say_who_can_carry_them_out() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    for folder in ["documents/src", "src/toolbox/files"] {
        source_files(&root.join(folder), &mut files);
    }
    for file in ["answers.rs", "names.rs", "outside.rs", "show.rs"] {
        let source = fs::read_to_string(root.join("src/toolbox").join(file)).unwrap();
        files.push((file.to_owned(), source));
    }
    let mut found = 0;
    for (path, source) in &files {
        for text in literals(source).iter().filter(|text| text.contains("Bash")) {
            found += 1;
            assert!(text.to_lowercase().contains("if you have bash"), "{path}: {text}");
        }
    }
    assert!(found > 10, "{found} sentences");
}

#[test]
fn texts_of_a_source_are_found_wherever_they_stand() {
    let source = r##"
        // "not this"
        let c = ['"', '\'', '\\']; fn x<'a>(a: &'a str) {}
        let a = "one \"two\" \
                 three"; let r = r#"raw "four" x"#; let s = "five";
#[cfg(test)]
mod tests { "not this" }"##;
    assert_eq!(literals(source), ["one \\\"two\\\" three", "raw \"four\" x", "five"]);
    assert_eq!(without_places("a {map} b {desk:?}"), "a   b  ");
    assert_eq!(private_words("MEETS the Project map"), ["meets"]);
}
