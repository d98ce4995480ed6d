//! Code on the command line of an interpreter, or fed to it.

use std::sync::LazyLock;

use regex::Regex;

use super::super::RiskVerdict;
use super::super::programs::CODE;
use super::super::reach;
use super::super::shell::{PlainCommand, ShellWord};
use super::repository::code_reaches;
use super::runs::{brought_within, is_input, judge_pipe};
use super::{CommandScene, first_plain, script_file};

/// Interpreters, and the letters of options after which code follows.
const INTERPRETERS: [(&str, &str); 13] = [
    ("python", "c"),
    ("pypy", "c"),
    ("node", "ep"),
    ("nodejs", "ep"),
    ("bun", "e"),
    ("perl", "eE"),
    ("ruby", "e"),
    ("php", "r"),
    ("lua", "e"),
    ("rscript", "e"),
    ("tsx", "e"),
    ("ts-node", "e"),
    ("osascript", "e"),
];
/// Code that starts other programs.
const STARTS: &str = r"(?i)system\s*\(|subprocess|popen|exec\w*\s*\(|spawn\w*\s*\(|child_process|\bqx\b|%x|`|\bsystem\b|Deno\.Command|\bexec\b";
/// Code that is hidden in other text.
const HIDES: &str = r"(?i)b64decode|fromhex|unhexlify|\batob\s*\(|,\s*.base64.\s*\)|decode_base64|base64_decode|codecs\.decode|pack\s*\(|zlib\.decompress|marshal\.loads";
const RUNS: &str =
    r"(?i)(^|[^.\w])(exec|eval)\s*\(|\bsystem\s*\(|subprocess|execSync|new\s+Function|\beval\b";
/// Requests that change something.
const SENDS: &str = r#"(?i)(requests|httpx|axios|session|client|http)\.(post|put|patch|delete)\s*\(|method\s*[=:]\s*["'](post|put|patch|delete)|\.request\s*\(\s*["'](post|put|patch|delete)|urlopen\s*\([^)]*,|urlopen\s*\(.*data\s*=|Request\s*\(.*data\s*="#;

/// Code that fetches something.
const FETCHES: &str = r"(?i)\bfetch\s*\(|\bhttps?\.get\s*\(|urlopen|urlretrieve|\b(requests|httpx|axios)\b|Net::HTTP|open-uri|\bURI\.open|\bLWP\b|HTTP::Tiny|file_get_contents|curl_exec|\bsocket\b";
/// Code that runs other code which it has as text.
const EVALS: &str = r"(^|[^.\w])(exec|eval)\s*[()]|(^|[;{]\s*)eval\s+[$\w]|(globalThis|window|builtins)\.(eval|exec)\b|new\s+Function\b|\bvm\.\w*run|InThisContext|(instance|class|module)_eval|\bloadstring\b";

static STRINGS: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r#""((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|`([^`]*)`"#).ok());
static STARTING: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(STARTS).ok());
/// Programs that awk starts through a pipe.
static PIPED: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    [r#"\|&?\s*"((?:[^"\\]|\\.)*)""#, r#""((?:[^"\\]|\\.)*)"\s*\|&?\s*getline"#]
        .iter()
        .filter_map(|pattern| Regex::new(pattern).ok())
        .collect()
});
static HIDING: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(HIDES).ok());
static RUNNING: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(RUNS).ok());
static FETCHING: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(FETCHES).ok());
static EVALUATING: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(EVALS).ok());
static SENDING: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(SENDS).ok());
static ADDRESSES: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r#"https?://[^\s"'`)]+"#).ok());

/// An interpreter; nothing if it is none.
pub(super) fn code_risk(
    name: &str,
    simple: &PlainCommand,
    rest: &[ShellWord],
    scene: &CommandScene<'_>,
) -> Option<RiskVerdict> {
    if matches!(name, "awk" | "gawk" | "mawk") {
        let program = first_plain(rest).cloned().flatten().unwrap_or_default();
        return Some(judge_awk(name, &program, scene));
    }
    let base = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.').to_lowercase();
    let (_, letters) = INTERPRETERS.iter().find(|(known, _)| *known == base)?;
    if base == "bun" && !rest.first().is_some_and(|w| matches!(w.as_deref(), Some("-e" | "--eval")))
    {
        return None;
    }
    if base == "python"
        && let Some(found) = judge_module(simple, rest, scene)
    {
        return Some(found);
    }
    let is_code = |word: &ShellWord| {
        word.as_deref().is_some_and(|w| {
            matches!(w, "--eval" | "--print" | "-pe")
                || (w.starts_with('-')
                    && !w.starts_with("--")
                    && w.ends_with(|c| letters.contains(c)))
        })
    };
    let joined = rest.iter().take_while(|word| word.as_deref().is_none_or(|w| w.starts_with('-')));
    let mut joined = joined.flatten().filter(|word| !is_code(&Some((*word).clone())));
    if let Some(code) = joined.find_map(|word| joined_code(word, letters)) {
        return Some(judge_code(name, code, scene));
    }
    if let Some(at) = rest.iter().position(is_code) {
        return Some(match rest.get(at + 1) {
            Some(Some(code)) => judge_code(name, code, scene),
            _ => judge_unknown_code(name, simple),
        });
    }
    let file = first_plain(rest).filter(|word| !word.as_deref().is_some_and(is_input));
    Some(match file {
        Some(Some(file)) => run_file(name, file, rest, scene),
        Some(None) => match &simple.fed {
            Some(code) if !simple.piped => judge_code(name, code, scene),
            _ => judge_unknown_code(name, simple),
        },
        None => match simple.input.as_ref().or(simple.fed.as_ref()) {
            Some(code) => judge_code(name, code, scene),
            None => judge_pipe(name, simple, scene),
        },
    })
}

/// Code that is only known when it runs.
fn judge_unknown_code(name: &str, simple: &PlainCommand) -> RiskVerdict {
    match brought_within(simple) {
        Some(from) => RiskVerdict::leaves(format!(
            "`{name}` runs what `{from}` brings, which nobody has seen"
        )),
        None => RiskVerdict::loses(format!("`{name}` runs code that is not known before")),
    }
}

/// Judges the programs that awk starts through a pipe, and the files that it writes.
fn judge_awk(name: &str, program: &str, scene: &CommandScene<'_>) -> RiskVerdict {
    let own = if program.contains("system(") || program.contains("| getline") {
        judge_code(name, program, scene)
    } else {
        RiskVerdict::local("awk computes")
    };
    let lines = PIPED.iter().flat_map(|regex| regex.captures_iter(program));
    let lines = lines.filter_map(|found| found.iter().skip(1).flatten().next().map(|m| m.as_str()));
    let piped = lines.map(|line| scene.script(&line.replace("\\\"", "\""))).reduce(RiskVerdict::or);
    let own = piped.map_or(own.clone(), |piped| own.or(piped));
    // A comparison has no name of a file behind it.
    if program.contains("> \"") || program.contains(">\"") {
        return own.or(RiskVerdict::loses("awk writes over files"));
    }
    own
}

/// Code in the same word as its option: `-e'…'`, `--eval=…`.
fn joined_code<'a>(word: &'a str, letters: &str) -> Option<&'a str> {
    if let Some(code) = word.strip_prefix("--eval=").or(word.strip_prefix("--print=")) {
        return Some(code);
    }
    let flags = word.strip_prefix('-').filter(|rest| !rest.starts_with('-'))?;
    // A library, module or folder, in one word with its option.
    if flags.len() > 1 && flags.starts_with(|c| "rMICF".contains(c) && !letters.contains(c)) {
        return None;
    }
    let at = flags.find(|c| letters.contains(c))?;
    let (before, code) = (&flags[..at], &flags[at + 1..]);
    let plain = before.chars().all(|c| "abdlnpqswtTWEIOuvx0".contains(c));
    (plain && !code.is_empty()).then_some(code)
}

/// `python -m x`: as the program of that name.
fn judge_module(
    simple: &PlainCommand,
    rest: &[ShellWord],
    scene: &CommandScene<'_>,
) -> Option<RiskVerdict> {
    let is_module = |word: &ShellWord| word.as_deref().is_some_and(|w| w.starts_with("-m"));
    let at = rest.iter().position(is_module)?;
    let before = rest[..at].iter().all(|word| word.as_deref().is_some_and(|w| w.starts_with('-')));
    let mut words = rest.get(at + 1..)?.to_vec();
    // In one word with the option.
    let joined = rest[at].as_deref().and_then(|word| word.strip_prefix("-m"));
    if let Some(module) = joined.filter(|module| !module.is_empty()) {
        words.insert(0, Some(module.to_owned()));
    }
    let known = matches!(
        words.first()?.as_deref(),
        Some("pip" | "twine" | "awscli" | "poetry" | "flit" | "hatch" | "invoke")
    );
    (before && !words.is_empty()).then(|| {
        if known {
            scene.inner(&simple.with_words(words))
        } else {
            script_file(words[0].as_deref().unwrap_or_default(), &[])
        }
    })
}

fn run_file(name: &str, file: &str, rest: &[ShellWord], scene: &CommandScene<'_>) -> RiskVerdict {
    let texts: Vec<&str> = rest.iter().filter_map(Option::as_deref).collect();
    let after: Vec<&str> = texts.iter().copied().skip_while(|text| *text != file).skip(1).collect();
    if file.ends_with("setup.py") && after.iter().any(|word| matches!(*word, "upload" | "register"))
    {
        return RiskVerdict::leaves("`setup.py upload` publishes");
    }
    if file.ends_with("manage.py")
        && after.first().is_some_and(|word| matches!(*word, "flush" | "reset_db" | "sqlflush"))
    {
        return RiskVerdict::loses("it empties a database");
    }
    if scene.has_fetched(file) {
        return RiskVerdict::leaves(format!(
            "`{name}` runs `{file}`, which has just been brought from elsewhere"
        ));
    }
    let own = script_file(file, &after);
    match scene.files.get(file.trim_start_matches("./")) {
        Some(code) => own.or(judge_code(name, code, scene)),
        None => own,
    }
}

/// Code whose text is known.
fn judge_code(name: &str, code: &str, scene: &CommandScene<'_>) -> RiskVerdict {
    let has = |regex: &Option<Regex>| regex.as_ref().is_some_and(|regex| regex.is_match(code));
    if has(&HIDING) && has(&RUNNING) {
        return RiskVerdict::leaves(format!("`{name}` runs code that is hidden in other text"));
    }
    let remote = || {
        ADDRESSES.as_ref().is_some_and(|regex| {
            regex.find_iter(code).any(|url| !reach::is_local_url(url.as_str()))
        })
    };
    let local = || ADDRESSES.as_ref().is_some_and(|regex| regex.is_match(code)) && !remote();
    if has(&FETCHING) && has(&EVALUATING) && !local() {
        return RiskVerdict::leaves(format!(
            "`{name}` runs what it fetches, which nobody has seen"
        ));
    }
    if code_reaches(code) {
        return RiskVerdict::leaves(format!(
            "`{name}` runs code that changes the repository itself, snapshots and all"
        ));
    }
    if has(&SENDING) && remote() {
        return RiskVerdict::leaves(format!("`{name}` sends something to another host"));
    }
    if has(&STARTING)
        && let Some(asks) = started_commands(code)
            .into_iter()
            .map(|line| scene.script(&line))
            .find(RiskVerdict::asks)
    {
        return asks;
    }
    let low = code.to_lowercase();
    match CODE.iter().find(|word| low.contains(*word)) {
        Some(word) => RiskVerdict::loses(format!("`{name}` runs code with `{word}`")),
        None => RiskVerdict::local(format!("`{name}` runs code")),
    }
}

/// Command lines that code may start: strings with more than one word, and lists of strings.
fn started_commands(code: &str) -> Vec<String> {
    let Some(regex) = STRINGS.as_ref() else { return Vec::new() };
    let mut lines = Vec::new();
    let mut list: Vec<String> = Vec::new();
    let (mut begin, mut end) = (0, 0);
    for found in regex.captures_iter(code) {
        let Some(whole) = found.get(0) else { continue };
        let text =
            found.iter().skip(1).flatten().next().map(|text| text.as_str()).unwrap_or_default();
        let between = code.get(end..whole.start()).unwrap_or_default();
        if !between.chars().all(|c| c.is_whitespace() || matches!(c, ',' | '[')) {
            lines.push(joined_words(&list[begin..]));
            lines.push(joined_words(&list));
            list.clear();
            begin = 0;
        } else if between.contains('[') {
            // `execvp("npm", ["npm", "publish"])` names the program twice, `spawn("npm", ["publish"])` once.
            begin = list.len();
        }
        if text.contains(char::is_whitespace) {
            lines.push(text.replace("\\n", "\n").replace("\\\"", "\""));
        }
        list.push(text.to_owned());
        end = whole.end();
    }
    lines.push(joined_words(&list[begin..]));
    lines.push(joined_words(&list));
    lines.retain(|line| !line.is_empty());
    lines
}

/// The words of a list as a command line; one word alone is no program's call.
fn joined_words(list: &[String]) -> String {
    let quoted = |word: &String| format!("'{}'", word.replace('\'', "'\\''"));
    if list.len() < 2 {
        String::new()
    } else {
        list.iter().map(quoted).collect::<Vec<_>>().join(" ")
    }
}
