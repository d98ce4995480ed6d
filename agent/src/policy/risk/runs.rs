//! Programs that run what follows: wrappers, shells, `find`, `xargs`.

use super::super::Verdict;
use super::super::programs::{RUNNERS, WRAPPERS};
use super::super::shell::{Arg, Simple};
use super::{Scene, first_plain, is_shell, script_file};

/// Programs that bring code from elsewhere, or out of what hides it.
const BRINGS: [&str; 17] = [
    "curl", "wget", "http", "https", "fetch", "nc", "ncat", "socat", "base64", "base32", "xxd",
    "openssl", "rev", "gpg", "gunzip", "zcat", "tr",
];

/// What a program runs in turn; nothing if it runs nothing else.
pub fn in_turn(name: &str, simple: &Simple, rest: &[Arg], scene: &Scene<'_>) -> Option<Verdict> {
    if name == "busybox" {
        return Some(scene.inner(&simple.with_words(rest.to_vec())));
    }
    if is_shell(name) {
        return Some(shell(name, simple, rest, scene));
    }
    if let Some(inner) = run_by_manager(name, rest) {
        return Some(inner_of(inner, simple, scene));
    }
    match name {
        "eval" => Some(evaluated(rest, scene)),
        "trap" => Some(text(rest.first().cloned().flatten(), scene)),
        "source" | "." => Some(sourced(rest, scene)),
        "find" | "fd" | "fdfind" => Some(find(rest, simple, scene)),
        "command" | "builtin"
            if rest.first().is_some_and(|w| matches!(w.as_deref(), Some("-v" | "-V"))) =>
        {
            Some(Verdict::reads("it only looks"))
        }
        "su" | "runuser" | "script" | "nix-shell" | "watch" | "hyperfine" | "concurrently"
        | "flock" | "parallel" | "nix" | "devbox" | "entr" => Some(quoted(simple, rest, scene)),
        _ if WRAPPERS.contains(&name) => Some(wrapped(name, simple, rest, scene)),
        _ => None,
    }
}

fn inner_of(words: Vec<Arg>, simple: &Simple, scene: &Scene<'_>) -> Verdict {
    match words.as_slice() {
        [] => Verdict::local("it runs nothing"),
        // A whole command line in one word.
        [Some(line)] if line.contains(char::is_whitespace) => scene.script(line),
        _ => scene.inner(&simple.with_words(words)),
    }
}

fn text(text: Option<String>, scene: &Scene<'_>) -> Verdict {
    match text {
        Some(text) => scene.script(&text),
        None => Verdict::loses("it runs a script that is not known before"),
    }
}

fn evaluated(rest: &[Arg], scene: &Scene<'_>) -> Verdict {
    let words = rest.iter().cloned().collect::<Option<Vec<_>>>().map(|words| words.join(" "));
    text(words, scene)
}

fn sourced(rest: &[Arg], scene: &Scene<'_>) -> Verdict {
    match rest.first() {
        Some(Some(file)) => file_run(file, &[], scene),
        _ => Verdict::loses("it runs a script that is not known before"),
    }
}

/// A script by its file: what is known to be in it, or what its name promises.
fn file_run(file: &str, texts: &[&str], scene: &Scene<'_>) -> Verdict {
    let own = script_file(file, texts);
    match scene.files.get(file.trim_start_matches("./")) {
        Some(text) => own.or(scene.script(text)),
        None => own,
    }
}

fn shell(name: &str, simple: &Simple, rest: &[Arg], scene: &Scene<'_>) -> Verdict {
    let flag = |word: &Arg, flag: char| {
        word.as_deref()
            .is_some_and(|w| w.starts_with('-') && !w.starts_with("--") && w.contains(flag))
    };
    let options =
        rest.iter().take_while(|w| w.as_deref().is_some_and(|w| w.starts_with(['-', '+'])));
    let options = options.count();
    if rest[..options].iter().any(|word| flag(word, 'n')) {
        return Verdict::reads(format!("`{name}` only checks a script"));
    }
    if let Some(at) = rest[..options].iter().position(|word| flag(word, 'c')) {
        let code = rest[at + 1..].iter().find(|w| w.as_deref().is_none_or(|w| !w.starts_with('-')));
        return text(code.cloned().flatten(), scene);
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
        Some(None) => {
            // `bash <(curl …)`: what brings it is another command of the script.
            Verdict::loses(format!("`{name}` runs a script that is not known before"))
        }
        _ => piped(name, simple, scene),
    }
}

/// What comes through a pipe or a here-document.
pub fn piped(name: &str, simple: &Simple, scene: &Scene<'_>) -> Verdict {
    if let Some(code) = simple.input.as_ref().or(simple.fed.as_ref()) {
        return scene.script(code);
    }
    let brings =
        simple.from.iter().find(|from| BRINGS.contains(&from.rsplit('/').next().unwrap_or(from)));
    match brings {
        Some(from) => {
            Verdict::leaves(format!("`{name}` runs what `{from}` brings, which nobody has seen"))
        }
        None if simple.piped => Verdict::loses(format!("`{name}` runs what a pipe brings")),
        None => Verdict::local("it runs nothing"),
    }
}

/// What a package manager runs: `npm exec x`, `uv run x`, `bundle exec x`.
fn run_by_manager(name: &str, rest: &[Arg]) -> Option<Vec<Arg>> {
    if matches!(name, "npx" | "bunx" | "pnpx" | "uvx" | "dlx") {
        return Some(after_options(rest, "-p --package --from --with --python -c --call"));
    }
    let (_, verbs) = RUNNERS.iter().find(|(names, _)| names.split(' ').any(|one| one == name))?;
    let values = "--group --with --extra --python --directory --project -C -p --package --env-file -E --environment --filter";
    let at = rest.iter().position(|word| word.as_deref().is_some_and(|w| !w.starts_with('-')))?;
    let verb = rest[at].as_deref()?;
    verbs.split(' ').any(|one| one == verb).then(|| after_options(&rest[at + 1..], values))
}

fn after_options(rest: &[Arg], values: &str) -> Vec<Arg> {
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
fn quoted(simple: &Simple, rest: &[Arg], scene: &Scene<'_>) -> Verdict {
    let lines = rest.iter().flatten().filter(|word| word.contains(char::is_whitespace));
    let own = lines.map(|line| scene.script(line)).reduce(Verdict::or);
    let words = (0..rest.len())
        .filter(|at| rest[*at].as_deref().is_some_and(|w| !w.starts_with('-')))
        .take(4)
        .map(|at| scene.inner(&simple.with_words(rest[at..].to_vec())))
        .find(Verdict::asks);
    own.into_iter()
        .chain(words)
        .fold(Verdict::local("it runs what it is given, in the sandbox"), Verdict::or)
}

/// What a wrapper runs: the words from the first one that can be a program.
fn wrapped(name: &str, simple: &Simple, rest: &[Arg], scene: &Scene<'_>) -> Verdict {
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
    while let Some(Some(word)) = rest.get(at) {
        if name == "env" && (word == "-S" || word.starts_with("--split-string")) {
            let line = word.split_once('=').map(|(_, line)| Some(line.to_owned()));
            return text(line.unwrap_or_else(|| rest.get(at + 1).cloned().flatten()), scene);
        }
        let assigns = matches!(name, "env" | "cross-env" | "sudo") && word.contains('=');
        if word == "--" {
            at += 1;
            break;
        }
        if takes_value.split(' ').any(|option| option == word) {
            at += 2;
        } else if word.starts_with('-') || assigns {
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
        return Verdict::reads("it runs nothing");
    }
    if name == "xargs" {
        // What comes through the pipe is appended.
        let come = simple.input.as_ref().or(simple.fed.as_ref());
        match come {
            Some(text) => words.extend(text.split_whitespace().map(|word| Some(word.to_owned()))),
            None => words.push(None),
        }
    }
    inner_of(words, simple, scene)
}

fn find(rest: &[Arg], simple: &Simple, scene: &Scene<'_>) -> Verdict {
    let mut worst = Verdict::reads("it looks for files");
    let named = rest.iter().flatten().any(|word| {
        matches!(
            word.as_str(),
            "-name" | "-iname" | "-path" | "-wholename" | "-regex" | "-iregex" | "-empty"
        )
    });
    for (at, word) in rest.iter().enumerate() {
        let found = match word.as_deref() {
            Some("-delete") if !named && is_all(rest) => {
                Verdict::leaves("`find -delete` removes the repository itself, snapshots and all")
            }
            Some("-delete") => Verdict::loses("`find -delete` removes files"),
            Some(
                "-exec" | "-execdir" | "-ok" | "-okdir" | "-x" | "-X" | "--exec" | "--exec-batch",
            ) => {
                let words =
                    rest[at + 1..].iter().take_while(|w| !matches!(w.as_deref(), Some(";" | "+")));
                inner_of(words.cloned().collect(), simple, scene)
            }
            Some("-fprint" | "-fprintf" | "-fls") => Verdict::local("find writes"),
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
fn is_all(rest: &[Arg]) -> bool {
    first_plain(rest).is_none_or(|first| {
        first.as_deref().is_none_or(|path| matches!(path, "." | "./" | ".." | "/" | "~"))
    })
}
