//! Names of what a line of code defines, in most languages: by keyword and place, without parsing. What it
//! says is a hint for people and models, and nothing is decided by it.

/// File extensions of prose and data, in which words that look like the start of a definition mean something else.
const PROSE: [&str; 20] = [
    "md", "txt", "rst", "adoc", "json", "yaml", "yml", "toml", "lock", "html", "htm", "css",
    "scss", "svg", "csv", "xml", "snap", "po", "ipynb", "log",
];
/// Languages in which a function needs no keyword.
const WITHOUT_KEYWORD: [&str; 11] =
    ["c", "h", "cc", "cpp", "cxx", "hpp", "java", "cs", "m", "mm", "groovy"];
/// Words before the one that says what is defined.
const MODIFIERS: [&str; 27] = [
    "pub",
    "export",
    "default",
    "declare",
    "async",
    "static",
    "public",
    "private",
    "protected",
    "internal",
    "final",
    "abstract",
    "override",
    "virtual",
    "unsafe",
    "extern",
    "open",
    "data",
    "sealed",
    "suspend",
    "inline",
    "case",
    "local",
    "readonly",
    "partial",
    "mut",
    "\"C\"",
];
const KEYWORDS: [&str; 20] = [
    "fn",
    "def",
    "class",
    "struct",
    "enum",
    "union",
    "trait",
    "interface",
    "protocol",
    "func",
    "fun",
    "function",
    "module",
    "namespace",
    "object",
    "record",
    "type",
    "sub",
    "proc",
    "macro_rules!",
];
/// Keywords of values: others see these only at the left margin, or where they are exported.
const VALUES: [&str; 5] = ["const", "static", "let", "var", "val"];
/// Keywords that begin a statement, not a definition, in those languages.
const STATEMENTS: [&str; 12] = [
    "if", "for", "while", "switch", "return", "else", "catch", "new", "throw", "do", "using",
    "await",
];

/// The lines that Git names above a change, as its `xfuncname` wants them: a superset of those in which
/// [`defined_name`] finds something.
pub(crate) const HEADERS: &str = "^([[:space:]]*(([a-z]+(\\([a-z: ]+\\))?|\"C\")[[:space:]]+)*(fn|def|class|struct|enum|\
     union|trait|interface|protocol|func|fun|function|module|namespace|object|record|type|sub|proc|\
     macro_rules!|const|static|let|var|val)[[:space:]].*|[A-Za-z_][A-Za-z0-9_<>,*&: ]*\\(.*|\
     [[:space:]]*(public|private|protected|internal|static)[[:space:]].*\\(.*)$";

/// True if a file holds code, judged by its extension.
pub(crate) fn is_code(path: &str) -> bool {
    let (_, name) = path.rsplit_once('/').unwrap_or(("", path));
    name.rsplit_once('.').is_some_and(|(stem, kind)| !stem.is_empty() && !PROSE.contains(&kind))
}

/// Returns the name that a line of a file defines, if any.
pub(crate) fn defined_name<'l>(path: &str, line: &'l str) -> Option<&'l str> {
    let code = line.trim();
    let margin = !line.starts_with([' ', '\t']);
    let kind = path.rsplit_once('.').map_or("", |(_, kind)| kind);
    let plain = WITHOUT_KEYWORD.contains(&kind) && code.contains('(');
    let (mut rest, mut exported) = (code, false);
    loop {
        let (word, after) = next_word(rest)?;
        if KEYWORDS.contains(&word) {
            return leading_name(skip_receiver(word, after));
        }
        if VALUES.contains(&word) && (margin || exported) && !plain {
            let found = after.strip_prefix("mut ").unwrap_or(after);
            let found = found.strip_prefix("fn ").unwrap_or(found);
            if let Some(found) = leading_name(found).filter(|found| !MODIFIERS.contains(found)) {
                return Some(found);
            }
        }
        if !MODIFIERS.contains(&word) {
            break;
        }
        exported |= matches!(word, "pub" | "export");
        rest = after;
    }
    if plain { function_name(code, margin) } else { None }
}

/// The next word, without what is in parentheses directly behind it, and what follows.
fn next_word(text: &str) -> Option<(&str, &str)> {
    let end = text.find(|c: char| c.is_whitespace() || c == '(').unwrap_or(text.len());
    let (word, mut after) = text.split_at(end);
    if word == "pub" && after.starts_with('(') {
        after = after.split_once(')').map_or("", |(_, after)| after);
    }
    (!word.is_empty()).then(|| (word, after.trim_start()))
}

/// Returns the text after a Go method's receiver, which holds its name.
fn skip_receiver<'l>(word: &str, after: &'l str) -> &'l str {
    match after.strip_prefix('(') {
        Some(of) if word == "func" => {
            of.split_once(')').map_or("", |(_, after)| after.trim_start())
        }
        _ => after,
    }
}

fn leading_name(text: &str) -> Option<&str> {
    let end = text.find(|c: char| !is_word(c)).unwrap_or(text.len());
    let name = &text[..end];
    (!name.is_empty() && !name.starts_with(|c: char| c.is_ascii_digit())).then_some(name)
}

/// `int total(…) {` and the like.
fn function_name(code: &str, margin: bool) -> Option<&str> {
    let (head, _) = code.split_once('(')?;
    let (first, _) = next_word(code)?;
    let opens = code.ends_with(['{', ')', ',']);
    let typed = head.trim_end().contains([' ', '*']);
    if !opens || !typed || STATEMENTS.contains(&first) || head.contains(['=', '.', '"']) {
        return None;
    }
    if !margin && !MODIFIERS.contains(&first) {
        return None;
    }
    let head = head.trim_end();
    let start = head.rfind(|c: char| !is_word(c)).map_or(0, |at| at + 1);
    leading_name(&head[start..])
}

pub(crate) fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '$'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_are_found_in_most_languages() {
        for (path, line, name) in [
            ("a.rs", "    pub(crate) async fn total(&self) -> u32 {", "total"),
            ("a.rs", "pub struct Cart<T> {", "Cart"),
            ("a.rs", "pub const MAX: usize = 3;", "MAX"),
            ("a.rs", "pub const fn most() -> usize {", "most"),
            ("a.rs", "macro_rules! shown {", "shown"),
            ("a.py", "    def add_item(self, item):", "add_item"),
            ("a.py", "class Cart(Base):", "Cart"),
            ("a.ts", "export default async function load() {", "load"),
            ("a.ts", "export const total = (items) => {", "total"),
            ("a.go", "func (c *Cart) Total() int {", "Total"),
            ("a.go", "type Cart struct {", "Cart"),
            ("a.java", "    public static int total(List<Item> items) {", "total"),
            ("a.c", "static int total(int n)", "total"),
            ("a.kt", "suspend fun load(): Cart {", "load"),
        ] {
            assert_eq!(defined_name(path, line), Some(name), "{path}: {line}");
        }
        for (path, line) in [
            ("a.rs", "    let total = 1;"),
            ("a.rs", "    self.total(x)"),
            ("a.ts", "  const x = total(1);"),
            ("a.java", "        total(items);"),
            ("a.c", "\tif (total(n)) {"),
            ("a.c", "int total(int n);"),
            ("a.rs", ""),
            ("a.py", "# define the class"),
        ] {
            assert_eq!(defined_name(path, line), None, "{path}: {line}");
        }
        assert!(is_code("src/a.rs") && !is_code("README.md") && !is_code("LICENSE"));
        assert!(!is_code(".gitignore") && !is_code("Cargo.lock"));
    }
}
