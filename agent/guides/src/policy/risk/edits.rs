//! Programs that edit files where they are, and databases that are files: what they throw away without a word.

use std::sync::LazyLock;

use regex::Regex;

use super::super::RiskVerdict;
use super::super::shell::PlainCommand;
use super::CommandScene;
use super::runs::judge_unseen;

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
/// A command that runs a program, behind its address.
static RUNS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let one = r"(?:\d+(?:~\d+)?|\$|/(?:\\.|[^/\\\n])*/I?)";
    let address = format!(r"(?:{one}(?:\s*,\s*(?:[+~]?\d+|{one}))?)?");
    Regex::new(&format!(r"(?m)(?:^|[;{{}}\n])\s*{address}\s*!?\s*e(\s[^\n]*|$)")).ok()
});
/// A command, or a flag of a substitution, that writes a file.
static WRITES: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"(?m)(?:^|[;{}\n$/\d])\s*s?\s*[wW]\s+\S").ok());
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

/// Judges `sed` with its scripts.
pub(super) fn judge_sed(texts: &[&str], scene: &CommandScene<'_>) -> RiskVerdict {
    let own = judge_edits(texts);
    sed_scripts(texts).into_iter().fold(own, |worst, script| {
        let found = TEXTS.iter().flat_map(|regex| regex.find_iter(script));
        let flags = found.filter(|found| found.as_str().starts_with('s')).filter_map(|found| {
            let end = found.as_str().chars().nth(1)?;
            found.as_str().rsplit(end).next()
        });
        let (mut runs, mut writes) = (false, false);
        for flags in flags {
            runs |= flags.contains('e');
            writes |= flags.contains('w');
        }
        let bare = TEXTS
            .iter()
            .fold(script.to_owned(), |text, regex| regex.replace_all(&text, "s").into_owned());
        writes |= matches(WRITES.as_ref(), &bare);
        let line = RUNS.as_ref().and_then(|regex| regex.captures(&bare)?.get(1));
        let worst = match line.map(|line| line.as_str().trim()) {
            Some("") => worst.or(judge_unseen("sed runs the lines of a file", scene)),
            Some(line) => worst.or(scene.script(line)).or(RiskVerdict::loses("sed runs a program")),
            None if runs => worst.or(judge_unseen("sed runs what a line holds", scene)),
            None => worst,
        };
        if writes { worst.or(RiskVerdict::loses("sed writes over a file")) } else { worst }
    })
}

/// The scripts among the arguments.
fn sed_scripts<'a>(texts: &[&'a str]) -> Vec<&'a str> {
    let mut named = Vec::new();
    for (at, text) in texts.iter().enumerate() {
        if let Some(script) = text.strip_prefix("--expression=") {
            named.push(script);
        } else if *text == "--expression"
            || text.starts_with('-') && !text.starts_with("--") && text.ends_with('e')
        {
            named.extend(texts.get(at + 1).copied());
        } else if let Some(script) = text.strip_prefix("-e") {
            named.push(script);
        }
    }
    if named.is_empty() && !texts.iter().any(|text| matches!(*text, "-f" | "--file")) {
        named.extend(texts.iter().find(|text| !text.starts_with('-')).copied());
    }
    named
}

fn judge_edits(texts: &[&str]) -> RiskVerdict {
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
pub(super) fn edit_risk(name: &str, texts: &[&str]) -> Option<RiskVerdict> {
    let short = |flag: char| {
        let mut options = texts.iter().take_while(|text| text.starts_with('-'));
        // A library or folder may stand behind its option in one word.
        let names = |text: &str| text.len() > 2 && text[1..].starts_with(['r', 'M', 'I', 'C']);
        options.any(|text| !text.starts_with("--") && !names(text) && text.contains(flag))
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
pub(super) fn database_risk(
    name: &str,
    simple: &PlainCommand,
    texts: &[&str],
) -> Option<RiskVerdict> {
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
