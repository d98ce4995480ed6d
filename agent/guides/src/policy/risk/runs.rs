//! Programs that run what follows: wrappers, shells, `find`, `xargs`.

use super::super::RiskVerdict;
use super::super::programs::{RUNNERS, WRAPPERS};
use super::super::shell::{HOLE, PlainCommand, ShellWord, is_socket};
use super::search::{find_risk, judge_listed};
use super::{CommandScene, first_plain, is_shell, script_file};

/// Programs that bring code from elsewhere, or out of what hides it.
pub(super) const BRINGS: [&str; 17] = [
    "curl", "wget", "http", "https", "fetch", "nc", "ncat", "socat", "base64", "base32", "xxd",
    "openssl", "rev", "gpg", "gunzip", "zcat", "tr",
];

/// True if a program, or a connection, brings code.
pub(super) fn brings(name: &str) -> bool {
    is_socket(name) || BRINGS.contains(&name.rsplit('/').next().unwrap_or(name))
}

/// Judges the command that a program runs in turn; nothing if it runs none.
pub(super) fn in_turn(
    name: &str,
    simple: &PlainCommand,
    rest: &[ShellWord],
    scene: &CommandScene<'_>,
) -> Option<RiskVerdict> {
    if name == "busybox" {
        return Some(scene.inner(&simple.with_words(rest.to_vec())));
    }
    if is_shell(name) {
        return Some(judge_shell(name, simple, rest, scene));
    }
    if let Some(inner) = run_by_manager(name, rest) {
        return Some(scene.inner_words(inner, simple));
    }
    match name {
        "yarn" if matches!(first_plain(rest), Some(Some(verb)) if verb.starts_with("workspace")) => {
            let at = rest
                .iter()
                .position(|word| word.as_deref().is_some_and(|w| w.starts_with("workspace")));
            // A name, or how the workspaces are gone through; options of that are yarn's own, too.
            let inner = rest.get(at.unwrap_or(0) + 2..).unwrap_or_default().to_vec();
            let yarn = std::iter::once(Some("yarn".to_owned())).chain(inner).collect();
            (rest.len() > 2).then(|| scene.inner_words(yarn, simple))
        }
        "docker" | "podman" | "docker-compose" => in_container(simple, rest, scene),
        "go" | "deno" if rest.first().is_some_and(|word| word.as_deref() == Some("run")) => {
            let texts: Vec<&str> = rest[1..].iter().filter_map(Option::as_deref).collect();
            let file = texts.iter().position(|text| !text.starts_with('-'))?;
            Some(file_run(texts[file], &texts[file + 1..], scene))
        }
        "at" | "batch" => Some(judge_pipe(name, simple, scene)),
        "eval" => Some(judge_eval(rest, scene)),
        "trap" => Some(judge_text(rest.first().cloned().flatten(), scene)),
        "source" | "." => Some(judge_source(simple, rest, scene)),
        "find" | "fd" | "fdfind" => Some(find_risk(name, rest, simple, scene)),
        "command" | "builtin"
            if rest.first().is_some_and(|w| matches!(w.as_deref(), Some("-v" | "-V"))) =>
        {
            Some(RiskVerdict::reads("it only looks"))
        }
        // It runs the lines that it reads.
        "parallel" if first_plain(rest).is_none() => Some(judge_pipe(name, simple, scene)),
        "su" | "runuser" | "script" | "nix-shell" | "watch" | "hyperfine" | "concurrently"
        | "flock" | "parallel" | "nix" | "devbox" | "entr" | "tmux" | "screen" => {
            Some(judge_quoted(name, simple, rest, scene))
        }
        _ if WRAPPERS.contains(&name) => Some(judge_wrapped(name, simple, rest, scene)),
        _ => None,
    }
}

fn judge_text(text: Option<String>, scene: &CommandScene<'_>) -> RiskVerdict {
    match text {
        Some(text) => scene.script(&text),
        None => judge_unseen("it runs a script that is not known before", scene),
    }
}

/// Code that nobody has seen asks where it comes from elsewhere.
pub(super) fn judge_unseen(why: &str, scene: &CommandScene<'_>) -> RiskVerdict {
    match &scene.brings {
        Some(from) => {
            RiskVerdict::leaves(format!("it runs what `{from}` may bring, which nobody has seen"))
        }
        None => RiskVerdict::loses(why),
    }
}

/// The program of a script that brings code from elsewhere, or out of what hides it.
pub(super) fn brings_code(found: &[PlainCommand]) -> Option<String> {
    let is_one = |name: &&str| brings(name) && !matches!(*name, "tr" | "gunzip" | "zcat" | "gpg");
    found.iter().find_map(|one| {
        let files = one.reads.iter().chain(&one.writes).flatten().map(String::as_str);
        let mut files = files.filter(|file| is_socket(file));
        one.program().filter(is_one).or_else(|| files.next()).map(str::to_owned)
    })
}

/// The program that brings what is among the words of a command, or is fed to it.
pub(super) fn brought_within(simple: &PlainCommand) -> Option<&str> {
    simple.within.iter().map(String::as_str).find(|name| brings(name) && *name != "tr")
}

/// True if a program decodes hidden code.
pub(super) fn hides_code(name: &str) -> bool {
    matches!(name, "base64" | "base32" | "xxd" | "openssl" | "rev")
}

/// Judges the command that runs in a container, as far as its effect leaves the container.
fn in_container(
    simple: &PlainCommand,
    rest: &[ShellWord],
    scene: &CommandScene<'_>,
) -> Option<RiskVerdict> {
    let runs = rest.iter().take(6).position(|w| matches!(w.as_deref(), Some("run" | "exec")))?;
    let is_option = |at: usize| rest[at].as_deref().is_some_and(|word| word.starts_with('-'));
    (runs + 2..rest.len())
        .filter(|at| !is_option(*at) && !is_option(at - 1))
        .take(8)
        .map(|at| scene.inner(&simple.with_words(rest[at..].to_vec())))
        .find(RiskVerdict::asks)
}

fn judge_eval(rest: &[ShellWord], scene: &CommandScene<'_>) -> RiskVerdict {
    let words = rest.iter().cloned().collect::<Option<Vec<_>>>().map(|words| words.join(" "));
    judge_text(words, scene)
}

fn judge_source(
    simple: &PlainCommand,
    rest: &[ShellWord],
    scene: &CommandScene<'_>,
) -> RiskVerdict {
    match rest.first() {
        Some(Some(file)) if is_input(file) => judge_pipe("source", simple, scene),
        Some(Some(file)) => file_run(file, &[], scene),
        _ => judge_substitution(simple, scene),
    }
}

/// `bash <(…)`: what that puts out, or what another command of the script brings.
fn judge_substitution(simple: &PlainCommand, scene: &CommandScene<'_>) -> RiskVerdict {
    match &simple.fed {
        Some(text) => scene.script(text),
        None => judge_unseen("it runs a script that is not known before", scene),
    }
}

/// True for a name of what a command reads.
pub(super) fn is_input(file: &str) -> bool {
    matches!(file, "-" | "/dev/stdin" | "/dev/fd/0" | "/proc/self/fd/0")
}

/// A script by its file: what is known to be in it, or what its name promises.
pub(super) fn file_run(file: &str, texts: &[&str], scene: &CommandScene<'_>) -> RiskVerdict {
    if is_socket(file) || scene.has_fetched(file) {
        return RiskVerdict::leaves(format!(
            "it runs `{file}`, which it has just brought from elsewhere"
        ));
    }
    let own = script_file(file, texts);
    match scene.files.get(file.trim_start_matches("./")) {
        Some(text) => own.or(scene.script(text)),
        None => own,
    }
}

fn judge_shell(
    name: &str,
    simple: &PlainCommand,
    rest: &[ShellWord],
    scene: &CommandScene<'_>,
) -> RiskVerdict {
    let flag = |word: &ShellWord, flag: char| {
        word.as_deref()
            .is_some_and(|w| w.starts_with('-') && !w.starts_with("--") && w.contains(flag))
    };
    let mut options = 0;
    while let Some(Some(word)) = rest.get(options).filter(|w| {
        w.as_deref().is_some_and(|w| w.starts_with(['-', '+']) && w.len() > 1 || w == "-")
    }) {
        options += 1 + usize::from(takes_value(word));
    }
    let options = options.min(rest.len());
    let hidden = rest[..options].windows(2).any(|two| is_dotglob(&two[0], &two[1]))
        || simple.sets.iter().any(|(name, value)| {
            name == "BASHOPTS" && value.as_deref().is_none_or(|value| value.contains("dotglob"))
        });
    if rest[..options].iter().any(|word| flag(word, 'n')) {
        return RiskVerdict::reads(format!("`{name}` only checks a script"));
    }
    if let Some(at) = rest[..options].iter().position(|word| flag(word, 'c')) {
        let code = rest[at + 1..].iter().find(|w| w.as_deref().is_none_or(|w| !w.starts_with('-')));
        let code = code.cloned().flatten();
        // As if the script itself set the option.
        let code = code.map(|code| if hidden { format!("shopt -s dotglob\n{code}") } else { code });
        return judge_text(code, scene);
    }
    // With `-s` the words that follow are the script's arguments.
    let stdin = rest[..options].iter().any(|word| flag(word, 's'));
    let file = rest[options..].first().filter(|_| !stdin);
    match file {
        Some(Some(file)) if !is_input(file) => {
            let texts: Vec<&str> =
                rest[options + 1..].iter().filter_map(Option::as_deref).collect();
            file_run(file, &texts, scene)
        }
        Some(None) => judge_substitution(simple, scene),
        _ => judge_pipe(name, simple, scene),
    }
}

/// Options of a shell that take the word behind them.
fn takes_value(option: &str) -> bool {
    let cluster = option.starts_with(['-', '+']) && !option.starts_with("--");
    cluster && option.ends_with(['o', 'O']) || matches!(option, "--rcfile" | "--init-file")
}

/// True if an option makes a star mean hidden files, too.
fn is_dotglob(option: &ShellWord, value: &ShellWord) -> bool {
    option.as_deref().is_some_and(|option| option.starts_with('-') && takes_value(option))
        && value.as_deref().is_some_and(|value| {
            matches!(value.to_ascii_lowercase().replace('_', "").as_str(), "dotglob" | "globdots")
        })
}

/// Judges the code that a shell reads from a pipe or a here-document.
pub(super) fn judge_pipe(
    name: &str,
    simple: &PlainCommand,
    scene: &CommandScene<'_>,
) -> RiskVerdict {
    if let Some(code) = simple.input.as_ref().or(simple.fed.as_ref()) {
        return scene.script(code);
    }
    match simple.from.iter().find(|from| brings(from)) {
        Some(from) => RiskVerdict::leaves(format!(
            "`{name}` runs what `{from}` brings, which nobody has seen"
        )),
        None if simple.piped => RiskVerdict::loses(format!("`{name}` runs what a pipe brings")),
        None if !simple.reads.is_empty() => match simple.reads.last() {
            Some(Some(file)) => file_run(file, &[], scene),
            _ => judge_unseen("it runs a script that is not known before", scene),
        },
        None => RiskVerdict::local("it runs nothing"),
    }
}

/// Returns the command that a package manager runs: `npm exec x`, `uv run x`, `bundle exec x`.
fn run_by_manager(name: &str, rest: &[ShellWord]) -> Option<Vec<ShellWord>> {
    if matches!(name, "npx" | "bunx" | "pnpx" | "uvx" | "dlx") {
        return Some(after_options(rest, "-p --package --from --with --python -c --call"));
    }
    let (_, verbs) = RUNNERS.iter().find(|(names, _)| names.split(' ').any(|one| one == name))?;
    let values = "--group --with --extra --python --directory --project -C -p --package --env-file -E --environment --filter";
    let at = rest.iter().position(|word| word.as_deref().is_some_and(|w| !w.starts_with('-')))?;
    let verb = rest[at].as_deref()?;
    verbs.split(' ').any(|one| one == verb).then(|| after_options(&rest[at + 1..], values))
}

fn after_options(rest: &[ShellWord], values: &str) -> Vec<ShellWord> {
    let mut at = 0;
    while let Some(Some(word)) = rest.get(at) {
        if word == "--" {
            at += 1;
            break;
        }
        if matches!(word.as_str(), "-c" | "--call") {
            return rest.get(at + 1).cloned().into_iter().collect();
        }
        if values.split(' ').any(|option| option == word) {
            at += 2;
        } else if word.starts_with('-') {
            at += 1;
        } else {
            break;
        }
    }
    rest.get(at..).unwrap_or_default().to_vec()
}

/// Programs that take a command line as one argument, after `-c` or as it is, or as words.
fn judge_quoted(
    name: &str,
    simple: &PlainCommand,
    rest: &[ShellWord],
    scene: &CommandScene<'_>,
) -> RiskVerdict {
    let lines = rest.iter().flatten().filter(|word| word.contains(char::is_whitespace));
    let own = lines.map(|line| scene.script(line)).reduce(RiskVerdict::or);
    // The words that come through the pipe are appended.
    let come = (name == "parallel").then_some(None);
    let mut words = (0..rest.len())
        .filter(|at| rest[*at].as_deref().is_some_and(|w| !w.starts_with('-')))
        .take(4)
        .map(|at| rest[at..].iter().cloned().chain(come.clone()).collect())
        .map(|words| scene.inner(&simple.with_words(words)));
    let words = if name == "parallel" {
        words.reduce(RiskVerdict::or)
    } else {
        words.find(RiskVerdict::asks)
    };
    own.into_iter()
        .chain(words)
        .fold(RiskVerdict::local("it runs what it is given, in the sandbox"), RiskVerdict::or)
}

/// Judges the command that a wrapper runs: the words from the first one that can be a program.
fn judge_wrapped(
    name: &str,
    simple: &PlainCommand,
    rest: &[ShellWord],
    scene: &CommandScene<'_>,
) -> RiskVerdict {
    let mut at = 0;
    let takes_value: &str = match name {
        "env" | "cross-env" => "-u -C --unset --chdir",
        "sudo" | "doas" => "-u -g -h -p -C -D -R -T -U --user --group --prompt --host --chdir",
        "nice" => "-n --adjustment",
        "timeout" | "gtimeout" => "-s -k --signal --kill-after",
        "xargs" => {
            "-I -n -P -L -d -a -s -E --max-args --max-procs --replace --delimiter --arg-file"
        }
        "ionice" => "-c -n -p",
        "stdbuf" => "-i -o -e",
        "time" => "-f -o --format --output",
        "strace" | "ltrace" => "-e -o -p -s",
        "dotenv" | "doppler" | "op" | "direnv" | "mise" | "asdf" => "-e -f --env-file -p -c",
        "exec" => "-a",
        _ => "",
    };
    let shapes =
        simple.shapes.get(simple.shapes.len().saturating_sub(rest.len())..).unwrap_or_default();
    while let Some(word) = shapes.get(at) {
        if name == "env" && word.len() > 2 && word.starts_with("-S") {
            return judge_text(
                Some(word[2..].to_owned()).filter(|line| !line.contains(HOLE)),
                scene,
            );
        }
        if name == "env" && (word == "-S" || word.starts_with("--split-string")) {
            let line = word.split_once('=').map(|(_, line)| Some(line.to_owned()));
            return judge_text(line.unwrap_or_else(|| rest.get(at + 1).cloned().flatten()), scene);
        }
        let assigns = matches!(name, "env" | "cross-env" | "sudo") && word.contains('=');
        if word == "--" {
            at += 1;
            break;
        }
        if takes_value.split(' ').any(|option| option == word) {
            at += 2;
        } else if (word.starts_with('-') && rest[at].is_some()) || assigns {
            at += 1;
        } else {
            break;
        }
    }
    // The time, the mask, the folder, or the word that says that something runs.
    let verbs = matches!(
        name,
        "doppler" | "op" | "direnv" | "mise" | "asdf" | "rustup" | "pyenv" | "rbenv" | "volta"
    );
    if matches!(name, "timeout" | "gtimeout" | "taskset" | "chroot") || (verbs && rest.len() > at) {
        at += 1;
    }
    if name == "direnv" {
        at += 1;
    }
    if verbs && rest.get(at).is_some_and(|word| word.as_deref() == Some("--")) {
        at += 1;
    }
    let mut words = rest.get(at.min(rest.len())..).unwrap_or_default().to_vec();
    if words.is_empty() {
        return RiskVerdict::reads("it runs nothing");
    }
    if name == "xargs" {
        let come = simple.input.as_ref().or(simple.fed.as_ref());
        if let Some(mark) = replaced_mark(shapes.get(..at).unwrap_or_default()) {
            for word in words.iter_mut().filter(|word| word.as_deref() == Some(mark)) {
                *word = come.map(|text| text.trim_end().to_owned());
            }
        }
        // The words that come through the pipe are appended.
        match come {
            Some(text) => words.extend(text.split_whitespace().map(|word| Some(word.to_owned()))),
            None => words.push(None),
        }
    }
    // Variables that are set for the inner command.
    let assigned = shapes.iter().take(at).filter_map(|word| {
        let (name, value) = word.split_once('=')?;
        Some((name.to_owned(), (!value.contains(HOLE)).then(|| value.to_owned())))
    });
    let mut simple = simple.clone();
    simple.sets.extend(assigned);
    if name == "xargs" && simple.lists {
        let inner = simple.with_words(words.clone());
        return judge_listed(scene.inner_words(words, &simple), &inner);
    }
    scene.inner_words(words, &simple)
}

/// The word for which `xargs` puts what it reads.
fn replaced_mark(options: &[String]) -> Option<&str> {
    options.iter().enumerate().find_map(|(at, option)| match option.as_str() {
        "-I" => options.get(at + 1).map(String::as_str),
        "-i" | "--replace" => Some("{}"),
        option => {
            let joined = option.strip_prefix("-I").or(option.strip_prefix("--replace="));
            joined.or(option.strip_prefix("-i"))
        }
    })
}
