//! An error that leaves its module has a type: code can tell its cases apart, and its words stand in one place. A text
//! is an error only where it is written for a model, which reads it as the result of its call.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::imports::Sources;

/// Folders with code that is not a test.
const FOLDERS: [&str; 7] =
    ["agent", "crds", "operator", "operator/fuzz", "tests/src", "tests/start", "tests/product"];

const CALL: &str = "says to a model what is wrong with the arguments of its call";
const EDIT: &str = "says to a model which part of its edit fits nowhere";
const RESULT: &str = "is shown to a model in the result of its call";

/// Files with errors that are texts, how many there are of them, and what such a text is.
const ALLOWED: &[(&str, usize, &str)] = &[
    ("agent/src/toolbox/files/patch.rs", 4, EDIT),
    ("agent/src/toolbox/files/replace.rs", 2, EDIT),
    ("agent/src/tools/canonical/coerce.rs", 4, CALL),
    ("agent/src/tools/canonical/forms.rs", 4, CALL),
    ("agent/src/tools/canonical/json.rs", 3, CALL),
    ("agent/src/tools/mcp/result.rs", 2, RESULT),
    ("agent/src/tools/roadmap.rs", 1, CALL),
    ("agent/src/tools/section.rs", 1, CALL),
];

#[test]
fn an_error_that_no_model_reads_has_a_type() {
    let mut found = BTreeMap::new();
    for folder in FOLDERS {
        let files = Sources::read(&crate::root().join(folder)).files;
        let tests = test_modules(&files);
        for (path, text) in &files {
            let is_test =
                tests.iter().any(|test| path.starts_with(test) || path.with_extension("") == *test);
            let count = count_text_errors(text);
            if count > 0 && !is_test {
                found.insert(format!("{folder}/{}", path.display()), count);
            }
        }
    }
    let allowed: BTreeMap<String, usize> =
        ALLOWED.iter().map(|(path, count, _)| ((*path).to_owned(), *count)).collect();
    assert_eq!(found, allowed, "give an error a type, or say here for which model its text is");
}

#[test]
fn errors_that_are_texts_are_counted() {
    for (text, count) in [
        ("fn a() -> Result<(), String> {", 1),
        ("fn a() -> io::Result<Result<(), String>> {", 1),
        ("fn a(\n) -> Result<\n    Vec<(u8, u8)>,\n    String,\n> {", 1),
        ("fn a(read: impl Fn() -> Result<u8, String>) -> Result<u8, String> {", 2),
        ("impl FromStr for A {\n    type Err = String;", 1),
        ("fn a() -> Result<BTreeMap<String, String>, AError> {", 0),
        ("fn a() -> Result<String, (usize, String)> {", 0),
        ("fn a() -> LogResult<u8, String> {", 0),
        ("/// As a `Result<u8, String>`.", 0),
        ("#[cfg(test)]\nmod tests;\nfn a() -> Result<u8, String> {", 1),
        ("#[cfg(test)]\nmod tests {\n    fn a() -> Result<u8, String> {", 0),
    ] {
        assert_eq!(count_text_errors(text), count, "{text}");
    }
}

/// Number of the types with a text as their error.
fn count_text_errors(text: &str) -> usize {
    let begin = "#[cfg(test)]\nmod ";
    let is_inline =
        |at: usize| text[at + begin.len()..].lines().next().is_some_and(|line| line.ends_with('{'));
    let tests = text.match_indices(begin).map(|(at, _)| at).find(|at| is_inline(*at));
    let lines = text[..tests.unwrap_or(text.len())].lines();
    let code: Vec<&str> =
        lines.map(|line| line.split("//").next().unwrap_or_default().trim()).collect();
    let kinds = ["type Err = String;", "type Error = String;"];
    let kinds = code.iter().filter(|line| kinds.contains(line)).count();
    let code = code.join("\n");
    let results = code.match_indices("Result<").filter(|(at, begin)| {
        let is_longer = code[..*at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
        !is_longer && second_type(&code[at + begin.len()..]) == Some("String")
    });
    kinds + results.count()
}

/// The second one of the types of a list that ends with the first `>` too many.
fn second_type(types: &str) -> Option<&str> {
    let (mut depth, mut commas, mut before) = (0, Vec::<usize>::new(), ' ');
    for (at, letter) in types.char_indices() {
        match letter {
            '<' | '(' | '[' => depth += 1,
            '>' if before == '-' => {}
            '>' if depth == 0 => {
                let from = commas.first().copied()? + 1;
                let to = commas.get(1).copied().unwrap_or(at);
                return Some(types[from..to].trim());
            }
            '>' | ')' | ']' => depth -= 1,
            ',' if depth == 0 => commas.push(at),
            _ => {}
        }
        before = letter;
    }
    None
}

/// Modules of tests in files of their own, as paths without an ending.
fn test_modules(files: &BTreeMap<PathBuf, String>) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for (path, text) in files {
        let folder = match path.file_stem().and_then(|stem| stem.to_str()) {
            Some("lib" | "main" | "mod") => path.parent().unwrap_or(Path::new("")).to_owned(),
            _ => path.with_extension(""),
        };
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        for pair in lines.windows(2).filter(|pair| pair[0] == "#[cfg(test)]") {
            let module = pair[1].strip_suffix(';').and_then(|line| line.split_once("mod "));
            found.extend(module.map(|(_, name)| folder.join(name)));
        }
    }
    found
}
