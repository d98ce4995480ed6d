//! Programs that edit files where they are, and databases that are files: what they throw away without a word.

use std::sync::LazyLock;

use regex::Regex;

use super::super::RiskVerdict;
use super::super::shell::PlainCommand;

/// Substitutions and lists of letters, in which every sign is text.
static TEXTS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    // Each with what may stand between its two ends.
    ["/", "|", ",", "#", "@", "!", ":", "~", "%", "_", "+"]
        .iter()
        .filter_map(|end| {
            let end = regex::escape(end);
            let text = format!(r"(?:\\.|[^\\{end}\n])*");
            Regex::new(&format!("[sy]{end}{text}{end}{text}{end}[a-zA-Z0-9]*")).ok()
        })
        .collect()
});
/// A command that removes lines, behind its address.
static REMOVES: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let one = r"(?:\d+(?:~\d+)?|\$|/(?:\\.|[^/\\\n])*/I?)";
    let address = format!(r"(?:{one}(?:\s*,\s*(?:[+~]?\d+|{one}))?)?");
    Regex::new(&format!(r"(?m)(?:^|[;{{}}\n])\s*{address}\s*!?\s*[dDqQc](?:[\s;}}\\\d]|$)")).ok()
});
/// A substitution that leaves nothing of a line.
static EMPTIES: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"s(?:/\^?\.\*\$?//|\|\^?\.\*\$?\|\||#\^?\.\*\$?##)").ok());
/// Words of a query that throws away what is there.
static DELETES: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"(?i)\b(delete|drop|truncate|update|replace|alter|vacuum)\b|^\.(restore|read|import|clone)").ok()
});

fn matches(regex: Option<&Regex>, text: &str) -> bool {
    regex.is_some_and(|regex| regex.is_match(text))
}

/// `sed`.
pub fn judge_sed(texts: &[&str]) -> RiskVerdict {
    let short = |flag: char| {
        texts
            .iter()
            .any(|text| text.starts_with('-') && !text.starts_with("--") && text.contains(flag))
    };
    let edits = short('i') || texts.iter().any(|text| text.starts_with("--in-place"));
    if !edits {
        return RiskVerdict::reads("sed reads");
    }
    let silent = short('n') || texts.iter().any(|text| matches!(*text, "--quiet" | "--silent"));
    let removes = texts.iter().filter(|text| !text.starts_with('-')).any(|text| {
        let bare = TEXTS
            .iter()
            .fold((*text).to_owned(), |text, regex| regex.replace_all(&text, "s").into_owned());
        matches(REMOVES.as_ref(), &bare) || matches(EMPTIES.as_ref(), text)
    });
    if silent || removes || texts.iter().any(|text| matches!(*text, "-f" | "--file")) {
        return RiskVerdict::loses("sed removes lines of files");
    }
    RiskVerdict::local("sed edits")
}

/// Other programs that edit files where they are, as far as they can drop lines; nothing if it is none.
pub fn edit_risk(name: &str, texts: &[&str]) -> Option<RiskVerdict> {
    let short = |flag: char| {
        let mut options = texts.iter().take_while(|text| text.starts_with('-'));
        options.any(|text| !text.starts_with("--") && text.contains(flag))
    };
    let drops = match name {
        "perl" | "ruby" => short('i') && short('n'),
        "awk" | "gawk" => texts.windows(2).any(|two| two == ["-i", "inplace"]),
        "ex" | "ed" | "vim" | "vi" | "nvim" => {
            name.starts_with('e') || texts.iter().any(|text| matches!(*text, "-c" | "-es" | "-s"))
        }
        "sponge" => true,
        _ => false,
    };
    drops.then(|| RiskVerdict::loses(format!("`{name}` rewrites files")))
}

/// A database that is a file; nothing if it is none.
pub fn database_risk(name: &str, simple: &PlainCommand, texts: &[&str]) -> Option<RiskVerdict> {
    if !matches!(name, "sqlite3" | "sqlite" | "duckdb" | "litecli") {
        return None;
    }
    let plain = texts.iter().filter(|text| !text.starts_with('-')).count();
    let fed = simple.input.as_deref().or(simple.fed.as_deref());
    let deletes = texts.iter().copied().chain(fed).any(|text| matches(DELETES.as_ref(), text));
    // Without a query, what comes in is not known before.
    let unseen = plain < 2 && fed.is_none();
    Some(if deletes || unseen {
        RiskVerdict::loses(format!("`{name}` changes a database"))
    } else {
        RiskVerdict::local(format!("`{name}` works on a database in the sandbox"))
    })
}
