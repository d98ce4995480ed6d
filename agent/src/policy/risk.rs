//! What programs do, as far as it is known. Pure.

use RiskTier::{Destructive, Read, WriteLocal, WriteVisible};
use codebutler_crds::policy::RiskTier;

use super::programs::{CODE, DANGEROUS, DATABASES, PACKAGES, QUERIES, READERS, SHELLS, WRAPPERS};
use super::shell::{Arg, Simple};
use super::{Policy, Verdict};

fn verdict(tier: RiskTier, why: impl Into<String>) -> Verdict {
    Verdict { tier, why: why.into() }
}

/// One command, and what it runs in turn.
pub fn of(simple: &Simple, policy: &Policy) -> Verdict {
    let own = program(simple, policy);
    let writes = simple.writes.iter().map(written).max().unwrap_or(Read);
    if writes > own.tier { verdict(writes, "it writes a file") } else { own }
}

fn written(file: &Arg) -> RiskTier {
    match file.as_deref() {
        Some("/dev/null" | "/dev/stdout" | "/dev/stderr") => Read,
        Some(file) if file.starts_with("/dev/") => Destructive,
        Some(file) if file.split('/').any(|part| part.eq_ignore_ascii_case(".git")) => Destructive,
        _ => WriteLocal,
    }
}

fn program(simple: &Simple, policy: &Policy) -> Verdict {
    let Some(first) = simple.words.first() else { return verdict(Read, "it runs nothing") };
    let Some(first) = first else { return verdict(WriteLocal, "its program is not known before") };
    let name = first.rsplit('/').next().unwrap_or(first);
    let rest = &simple.words[1..];
    let texts: Vec<&str> = rest.iter().filter_map(Option::as_deref).collect();
    let flag = |short: char, long: &str| {
        texts.iter().any(|text| {
            *text == long
                || (text.starts_with('-') && !text.starts_with("--") && text[1..].contains(short))
        })
    };
    let danger = |what: &str| verdict(Destructive, format!("`{name}` {what}"));
    if SHELLS.contains(&name) {
        return shell(name, simple, rest, policy);
    }
    match name {
        "eval" => {
            return script(
                rest.iter().cloned().collect::<Option<Vec<_>>>().map(|w| w.join(" ")),
                policy,
            );
        }
        "trap" => return script(rest.first().cloned().flatten(), policy),
        "find" => return find(rest, policy),
        "git" => return git(&texts),
        name if WRAPPERS.contains(&name) => return wrapped(name, simple, rest, policy),
        _ => {}
    }
    if DANGEROUS.contains(&name) || name.starts_with("mkfs") {
        return danger("reaches past the worktree, or can't be undone");
    }
    if name.starts_with("deploy") || texts.iter().take(3).any(|text| text.starts_with("deploy")) {
        return danger("deploys");
    }
    match name {
        "rm" if flag('r', "--recursive") || flag('R', "--recursive") => {
            return danger("removes folders");
        }
        "chmod" if !texts.iter().any(|mode| matches!(*mode, "+x" | "u+x" | "a+x" | "ug+x")) => {
            return danger("changes modes");
        }
        "sed" | "perl" | "ruby" if name == "sed" => {
            return if flag('i', "--in-place") {
                verdict(WriteLocal, "sed edits")
            } else {
                verdict(Read, "sed reads")
            };
        }
        "python" | "python3" if texts.windows(2).any(|two| two[0] == "-m" && two[1] == "pip") => {
            return danger("installs packages");
        }
        _ => {}
    }
    if let Some((_, verbs)) = PACKAGES.iter().find(|(known, _)| *known == name) {
        let bare = texts.is_empty() && name == "yarn";
        let verb = texts.iter().find(|text| !text.starts_with('-') || name == "pacman");
        if bare
            || verb.is_some_and(|verb| {
                verbs.iter().any(|v| {
                    v == verb || (v.len() == 2 && v.starts_with('-') && verb.starts_with(v))
                })
            })
        {
            return danger("installs, removes or publishes");
        }
    }
    let said =
        || texts.iter().copied().chain(simple.input.as_deref()).collect::<Vec<_>>().join(" ");
    if DATABASES.contains(&name) {
        let query = said().to_uppercase();
        let unseen = rest.iter().any(Option::is_none) || simple.piped;
        if unseen || QUERIES.iter().any(|word| query.contains(word)) {
            return danger("changes a database");
        }
    }
    if is_interpreter(name) {
        return inline(name, simple, rest);
    }
    if READERS.contains(&name) {
        verdict(Read, "it only looks")
    } else {
        verdict(WriteLocal, "it is not known")
    }
}

fn is_interpreter(name: &str) -> bool {
    [
        "python", "node", "nodejs", "perl", "ruby", "php", "deno", "lua", "awk", "gawk", "mawk",
        "Rscript",
    ]
    .iter()
    .any(|known| name == *known || (*known == "python" && name.starts_with("python")))
}

/// Code on the command line or from a here-document.
fn inline(name: &str, simple: &Simple, rest: &[Arg]) -> Verdict {
    let awk = name.ends_with("awk");
    let at = rest.iter().position(|word| {
        word.as_deref().is_some_and(|w| {
            matches!(w, "-c" | "-e" | "-r" | "--eval" | "-p" | "eval")
                || (name == "perl"
                    && w.starts_with('-')
                    && !w.starts_with("--")
                    && w.ends_with('e'))
        })
    });
    let mut code: Vec<&Arg> = rest[at.map_or(0, |at| at + 1).min(rest.len())..].iter().collect();
    if at.is_none() && !awk {
        code.clear();
    }
    let unseen = code.first().is_some_and(|word| word.is_none())
        || (simple.piped && at.is_none() && rest.iter().all(|w| w.as_deref() == Some("-")) && !awk);
    if unseen {
        return verdict(Destructive, format!("`{name}` runs code that is not known before"));
    }
    let text: String =
        code.iter().filter_map(|word| word.as_deref()).chain(simple.input.as_deref()).collect();
    let low = text.to_lowercase();
    if let Some(word) = CODE.iter().find(|word| low.contains(*word)) {
        return verdict(Destructive, format!("`{name}` runs code with `{word}`"));
    }
    verdict(WriteLocal, format!("`{name}` runs code"))
}

fn script(text: Option<String>, policy: &Policy) -> Verdict {
    match text {
        Some(text) => policy.bash(&text),
        None => verdict(Destructive, "it runs a script that is not known before"),
    }
}

fn shell(name: &str, simple: &Simple, rest: &[Arg], policy: &Policy) -> Verdict {
    if name == "busybox" {
        let inner = Simple { words: rest.to_vec(), ..simple.clone() };
        return program(&inner, policy);
    }
    let inline = rest.iter().position(|word| {
        word.as_deref()
            .is_some_and(|w| w.starts_with('-') && !w.starts_with("--") && w.contains('c'))
    });
    if let Some(at) = inline {
        return script(rest.get(at + 1).cloned().flatten(), policy);
    }
    // With `-s` the words that follow are the script's arguments.
    let stdin = rest.iter().any(|word| word.as_deref() == Some("-s"));
    let file =
        !stdin && rest.iter().any(|word| word.as_deref().is_none_or(|w| !w.starts_with('-')));
    match (&simple.input, file) {
        (_, true) => {
            let deploys = rest
                .iter()
                .flatten()
                .any(|w| w.rsplit('/').next().is_some_and(|n| n.starts_with("deploy")));
            if deploys {
                verdict(Destructive, "it deploys")
            } else {
                verdict(WriteLocal, "it runs a script")
            }
        }
        (Some(text), false) => policy.bash(text),
        (None, false) if simple.piped => {
            verdict(Destructive, format!("`{name}` runs what a pipe brings"))
        }
        (None, false) => verdict(WriteLocal, "it runs nothing"),
    }
}

/// What a wrapper runs: the words from the first one that can be a program.
fn wrapped(name: &str, simple: &Simple, rest: &[Arg], policy: &Policy) -> Verdict {
    let mut at = 0;
    let takes_value: &[&str] = match name {
        "env" => &["-u", "-C", "--unset", "--chdir"],
        "nice" => &["-n"],
        "timeout" => &["-s", "-k", "--signal"],
        "xargs" => &["-I", "-n", "-P", "-L", "-d", "-a", "-s", "-E"],
        "ionice" => &["-c", "-n", "-p"],
        "stdbuf" => &["-i", "-o", "-e"],
        _ => &[],
    };
    while let Some(word) = rest.get(at) {
        let Some(word) = word.as_deref() else { break };
        if name == "env" && (word == "-S" || word.starts_with("--split-string")) {
            return script(rest.get(at + 1).cloned().flatten(), policy);
        }
        if takes_value.contains(&word) {
            at += 2;
        } else if word.starts_with('-') || (name == "env" && word.contains('=')) {
            at += 1;
        } else {
            break;
        }
    }
    // The time, or the mask.
    if matches!(name, "timeout" | "taskset") {
        at += 1;
    }
    if name == "script" {
        return verdict(Destructive, "`script` runs a shell");
    }
    let words = rest.get(at..).unwrap_or_default().to_vec();
    if words.is_empty() {
        return verdict(Read, "it runs nothing");
    }
    let mut inner = Simple { words, ..simple.clone() };
    if name == "xargs" {
        // What comes through the pipe is appended.
        inner.words.push(None);
    }
    policy.rules.command(&inner).unwrap_or_else(|| program(&inner, policy))
}

fn find(rest: &[Arg], policy: &Policy) -> Verdict {
    let mut worst = verdict(Read, "find looks");
    for (at, word) in rest.iter().enumerate() {
        let found = match word.as_deref() {
            Some("-delete") => verdict(Destructive, "`find -delete` removes files"),
            Some("-exec" | "-execdir" | "-ok" | "-okdir") => {
                let words =
                    rest[at + 1..].iter().take_while(|w| !matches!(w.as_deref(), Some(";" | "+")));
                let inner = Simple { words: words.cloned().collect(), ..Simple::default() };
                policy.rules.command(&inner).unwrap_or_else(|| program(&inner, policy))
            }
            Some("-fprint" | "-fprintf" | "-fls") => verdict(WriteLocal, "find writes"),
            _ => continue,
        };
        if found.tier > worst.tier {
            worst = found;
        }
    }
    worst
}

fn git(texts: &[&str]) -> Verdict {
    // Options before the verb; `-c alias.x=!cmd` can run anything.
    if texts.iter().any(|text| text.starts_with("alias.") || text.contains("=!")) {
        return verdict(Destructive, "git runs an alias");
    }
    let mut rest = texts.iter().copied();
    let mut verb = "";
    while let Some(word) = rest.next() {
        match word {
            "-C" | "-c" | "--git-dir" | "--work-tree" => drop(rest.next()),
            word if word.starts_with('-') => {}
            word => {
                verb = word;
                break;
            }
        }
    }
    let rest: Vec<&str> = rest.collect();
    let has = |flags: &[&str]| rest.iter().any(|word| flags.contains(word));
    match verb {
        "log" | "diff" | "status" | "show" | "blame" | "ls-files" | "rev-parse" | "describe"
        | "shortlog" | "" | "cat-file" | "grep" => verdict(Read, "git looks"),
        "push" => verdict(WriteVisible, "git pushes"),
        "reset" if has(&["--hard"]) => verdict(Destructive, "`git reset --hard` loses changes"),
        "clean" if !has(&["-n", "--dry-run"]) => verdict(Destructive, "`git clean` removes files"),
        "branch" if has(&["-D", "-d", "--delete"]) => verdict(Destructive, "git removes a branch"),
        "checkout" | "restore" if has(&[".", "--force", "-f"]) => {
            verdict(Destructive, "git throws changes away")
        }
        "filter-branch" | "update-ref" | "reflog" | "gc" | "prune" => {
            verdict(Destructive, "git rewrites history")
        }
        _ => verdict(WriteLocal, "git changes the worktree"),
    }
}

#[cfg(test)]
mod tests;
