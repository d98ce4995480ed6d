//! Programs that run what follows: wrappers, shells, `find`, `xargs`.

use super::super::RiskVerdict;
use super::super::programs::{RUNNERS, WRAPPERS};
use super::super::shell::{HOLE, PlainCommand, ShellWord};
use super::{CommandScene, files, first_plain, is_shell, script_file};

/// Programs that bring code from elsewhere, or out of what hides it.
pub(super) const BRINGS: [&str; 17] = [
    "curl", "wget", "http", "https", "fetch", "nc", "ncat", "socat", "base64", "base32", "xxd",
    "openssl", "rev", "gpg", "gunzip", "zcat", "tr",
];

/// What a program runs in turn; nothing if it runs nothing else.
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
        return Some(inner_of(inner, simple, scene));
    }
    match name {
        "yarn" if matches!(first_plain(rest), Some(Some(verb)) if verb.starts_with("workspace")) => {
            let at = rest
                .iter()
                .position(|word| word.as_deref().is_some_and(|w| w.starts_with("workspace")));
            // A name, or how the workspaces are gone through; options of that are yarn's own, too.
            let inner = rest.get(at.unwrap_or(0) + 2..).unwrap_or_default().to_vec();
            let yarn = std::iter::once(Some("yarn".to_owned())).chain(inner).collect();
            (rest.len() > 2).then(|| inner_of(yarn, simple, scene))
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
        "find" | "fd" | "fdfind" => Some(find_risk(rest, simple, scene)),
        "command" | "builtin"
            if rest.first().is_some_and(|w| matches!(w.as_deref(), Some("-v" | "-V"))) =>
        {
            Some(RiskVerdict::reads("it only looks"))
        }
        "su" | "runuser" | "script" | "nix-shell" | "watch" | "hyperfine" | "concurrently"
        | "flock" | "parallel" | "nix" | "devbox" | "entr" | "tmux" | "screen" => {
            Some(judge_quoted(simple, rest, scene))
        }
        _ if WRAPPERS.contains(&name) => Some(judge_wrapped(name, simple, rest, scene)),
        _ => None,
    }
}

fn inner_of(words: Vec<ShellWord>, simple: &PlainCommand, scene: &CommandScene<'_>) -> RiskVerdict {
    match words.as_slice() {
        [] => RiskVerdict::local("it runs nothing"),
        // A whole command line in one word.
        [Some(line)] if line.contains(char::is_whitespace) => scene.script(line),
        _ => scene.inner(&simple.with_words(words)),
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
    let names = found.iter().filter_map(|one| one.words.first()?.as_deref());
    let mut names = names.map(|name| name.rsplit('/').next().unwrap_or(name));
    names
        .find(|name| BRINGS.contains(name) && !matches!(*name, "tr" | "gunzip" | "zcat" | "gpg"))
        .map(str::to_owned)
}

/// Whether a program takes something out of what hides it.
pub(super) fn hides_code(name: &str) -> bool {
    matches!(name, "base64" | "base32" | "xxd" | "openssl" | "rev")
}

/// What is run in a container, as far as it leaves that.
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

/// A script by its file: what is known to be in it, or what its name promises.
pub(super) fn file_run(file: &str, texts: &[&str], scene: &CommandScene<'_>) -> RiskVerdict {
    if scene.has_fetched(file) {
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
    let options =
        rest.iter().take_while(|w| w.as_deref().is_some_and(|w| w.starts_with(['-', '+'])));
    let options = options.count();
    if rest[..options].iter().any(|word| flag(word, 'n')) {
        return RiskVerdict::reads(format!("`{name}` only checks a script"));
    }
    if let Some(at) = rest[..options].iter().position(|word| flag(word, 'c')) {
        let code = rest[at + 1..].iter().find(|w| w.as_deref().is_none_or(|w| !w.starts_with('-')));
        return judge_text(code.cloned().flatten(), scene);
    }
    // With `-s` the words that follow are the script's arguments.
    let stdin = rest[..options].iter().any(|word| flag(word, 's'));
    let file = rest[options..].first().filter(|_| !stdin);
    match file {
        Some(Some(file)) if !matches!(file.as_str(), "-" | "/dev/stdin") => {
            let texts: Vec<&str> =
                rest[options + 1..].iter().filter_map(Option::as_deref).collect();
            file_run(file, &texts, scene)
        }
        Some(None) => judge_substitution(simple, scene),
        _ => judge_pipe(name, simple, scene),
    }
}

/// What comes through a pipe or a here-document.
pub(super) fn judge_pipe(
    name: &str,
    simple: &PlainCommand,
    scene: &CommandScene<'_>,
) -> RiskVerdict {
    if let Some(code) = simple.input.as_ref().or(simple.fed.as_ref()) {
        return scene.script(code);
    }
    let brings =
        simple.from.iter().find(|from| BRINGS.contains(&from.rsplit('/').next().unwrap_or(from)));
    match brings {
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

/// What a package manager runs: `npm exec x`, `uv run x`, `bundle exec x`.
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
    simple: &PlainCommand,
    rest: &[ShellWord],
    scene: &CommandScene<'_>,
) -> RiskVerdict {
    let lines = rest.iter().flatten().filter(|word| word.contains(char::is_whitespace));
    let own = lines.map(|line| scene.script(line)).reduce(RiskVerdict::or);
    let words = (0..rest.len())
        .filter(|at| rest[*at].as_deref().is_some_and(|w| !w.starts_with('-')))
        .take(4)
        .map(|at| scene.inner(&simple.with_words(rest[at..].to_vec())))
        .find(RiskVerdict::asks);
    own.into_iter()
        .chain(words)
        .fold(RiskVerdict::local("it runs what it is given, in the sandbox"), RiskVerdict::or)
}

/// What a wrapper runs: the words from the first one that can be a program.
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
        // What comes through the pipe is appended.
        let come = simple.input.as_ref().or(simple.fed.as_ref());
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
    inner_of(words, &simple, scene)
}

fn find_risk(rest: &[ShellWord], simple: &PlainCommand, scene: &CommandScene<'_>) -> RiskVerdict {
    let mut worst = RiskVerdict::reads("it looks for files");
    let has = |known: &[&str]| rest.iter().flatten().any(|word| known.contains(&word.as_str()));
    let named = has(&["-name", "-iname", "-path", "-wholename", "-regex", "-iregex", "-empty"]);
    // The repository itself is looked for, and not left out.
    let git = rest
        .windows(2)
        .any(|two| two[0].as_deref() == Some("-name") && two[1].as_deref() == Some(".git"))
        && !has(&["-prune", "-not", "!"]);
    let begins = rest.iter().map(Option::as_deref);
    let begins = begins.skip_while(|word| matches!(word, Some("-H" | "-L" | "-P")));
    let mut starts = begins.map_while(|word| word.filter(|word| !word.starts_with('-')));
    let inside = starts.any(|path| files::is_git(path) || files::holds_work(path));
    let all = git || inside || (!named && is_all(rest));
    for (at, word) in rest.iter().enumerate() {
        let found = match word.as_deref() {
            Some("-delete") if all => RiskVerdict::leaves(
                "`find -delete` removes the repository itself, snapshots and all",
            ),
            Some("-delete") => RiskVerdict::loses("`find -delete` removes files"),
            Some(
                "-exec" | "-execdir" | "-ok" | "-okdir" | "-x" | "-X" | "--exec" | "--exec-batch",
            ) => {
                let words =
                    rest[at + 1..].iter().take_while(|w| !matches!(w.as_deref(), Some(";" | "+")));
                let found = inner_of(words.cloned().collect(), simple, scene);
                if (git || inside) && found.loses {
                    RiskVerdict::leaves("it removes the repository itself, snapshots and all")
                } else {
                    found
                }
            }
            Some("-fprint" | "-fprintf" | "-fls") => RiskVerdict::local("find writes"),
            _ => continue,
        };
        worst = worst.or(found);
        if worst.asks() {
            break;
        }
    }
    worst
}

/// Whether a search begins at the root of the worktree.
fn is_all(rest: &[ShellWord]) -> bool {
    first_plain(rest).is_none_or(|first| {
        first.as_deref().is_none_or(|path| matches!(path, "." | "./" | ".." | "/" | "~"))
    })
}
