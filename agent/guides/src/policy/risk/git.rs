//! Git: what it could lose, and what it sends elsewhere than to the thread's branch.

use super::super::RiskVerdict;
use super::super::shell::{HOLE, ShellWord};
use super::CommandScene;

/// Branches that are not the thread's.
const SHARED: [&str; 10] = [
    "main",
    "master",
    "trunk",
    "develop",
    "production",
    "prod",
    "staging",
    "release",
    "gh-pages",
    "stable",
];
/// Git verbs that only read.
const LOOKS: &str = "log diff status show blame ls-files ls-tree ls-remote rev-parse rev-list describe shortlog cat-file grep \
                     name-rev merge-base for-each-ref show-ref var count-objects fsck whatchanged annotate range-diff \
                     check-ignore check-attr diff-tree diff-index diff-files cherry show-branch verify-commit help version";

pub(super) fn git_risk(texts: &[&str], all: &[ShellWord], scene: &CommandScene<'_>) -> RiskVerdict {
    let (config, verb, rest) = git_parts(texts);
    let commands = config.iter().chain(&rest).copied();
    let run = commands.filter_map(run_by).chain(run_by_options(verb, &rest));
    let runs = run.map(|line| scene.script(line)).reduce(RiskVerdict::or);
    let unseen = all.iter().any(Option::is_none);
    let own = verb_of(verb, &rest, unseen, scene);
    runs.map_or(own.clone(), |runs| own.or(runs))
}

/// Settings, the verb, and what follows it.
fn git_parts<'a>(texts: &[&'a str]) -> (Vec<&'a str>, &'a str, Vec<&'a str>) {
    let mut rest = texts.iter().copied();
    let mut config = Vec::new();
    while let Some(word) = rest.next() {
        match word {
            "-c" => config.extend(rest.next()),
            "-C" | "--git-dir" | "--work-tree" | "--namespace" => drop(rest.next()),
            word if word.starts_with('-') => {}
            verb => return (config, verb, rest.collect()),
        }
    }
    (config, "", Vec::new())
}

/// Command lines that options of a verb name.
fn run_by_options<'a>(verb: &str, rest: &[&'a str]) -> Vec<&'a str> {
    let (long, short): (&[&str], &[&str]) = match verb {
        "fetch" | "pull" | "clone" | "ls-remote" | "fetch-pack" => (&["--upload-pack"], &["-u"]),
        "push" | "send-pack" => (&["--receive-pack", "--exec"], &[]),
        "archive" => (&["--exec"], &[]),
        "grep" => (&["--open-files-in-pager"], &["-O"]),
        "difftool" => (&["--extcmd"], &["-x"]),
        "filter-branch" => {
            (&["--tree-filter", "--index-filter", "--env-filter", "--msg-filter", "--setup"], &[])
        }
        _ => return Vec::new(),
    };
    let mut found = Vec::new();
    for (at, word) in rest.iter().enumerate() {
        if let Some((option, line)) = word.split_once('=')
            && long.contains(&option)
        {
            found.push(line);
        } else if long.contains(word) && *word != "--open-files-in-pager" {
            found.extend(rest.get(at + 1).copied());
        } else if let Some(short) = short.iter().find(|short| word.starts_with(**short)) {
            let joined = &word[short.len()..];
            if !joined.is_empty() {
                found.push(joined);
            } else if *short != "-O" && !(verb == "pull" || verb == "fetch" && *short == "-u") {
                found.extend(rest.get(at + 1).copied());
            }
        }
    }
    found
}

/// The command line in a setting or an alias.
fn run_by(word: &str) -> Option<&str> {
    if let Some(line) = word.strip_prefix('!') {
        return Some(line);
    }
    let (name, value) = word.split_once('=')?;
    if let Some(line) = value.strip_prefix('!') {
        return Some(line);
    }
    let name = name.to_lowercase();
    let runs = [
        "core.sshcommand",
        "core.pager",
        "core.editor",
        "core.fsmonitor",
        "diff.external",
        "sequence.editor",
    ];
    let last = name.rsplit('.').next();
    (runs.contains(&name.as_str()) || matches!(last, Some("cmd" | "command"))).then_some(value)
}

fn verb_of(verb: &str, rest: &[&str], unseen: bool, scene: &CommandScene<'_>) -> RiskVerdict {
    let has = |flags: &[&str]| rest.iter().any(|word| flags.contains(word));
    let first = rest.iter().find(|word| !word.starts_with('-')).copied();
    let loses = |what: &str| RiskVerdict::loses(format!("`git {verb}` {what}"));
    let aborts = has(&["--abort", "--quit", "--skip"]);
    // References that come through a pipe, or are known only at run time, may be the snapshots.
    let any = has(&["--stdin"]) || (unseen && has(&["-d", "--delete"]));
    if verb == "update-ref" && any {
        return RiskVerdict::leaves("`git update-ref` on references that are not known before");
    }
    if rest.iter().any(|word| word.contains("refs/codebutler"))
        && matches!(verb, "update-ref" | "push")
    {
        return RiskVerdict::leaves(format!("`git {verb}` on the snapshots themselves"));
    }
    if LOOKS.split_whitespace().any(|look| look == verb) || verb.is_empty() {
        return RiskVerdict::reads("git looks");
    }
    match verb {
        "push" => judge_push(rest, unseen),
        "init" if rest.iter().any(|word| word.starts_with("--separate-git-dir")) => {
            RiskVerdict::leaves("`git init` moves the repository itself, snapshots and all")
        }
        "send-email" | "svn" | "p4" | "request-pull" | "imap-send"
            if verb != "svn" && verb != "p4" || has(&["dcommit", "submit"]) =>
        {
            RiskVerdict::leaves(format!("`git {verb}` sends work elsewhere"))
        }
        "lfs" | "annex" if first == Some("push") || first == Some("copy") => {
            RiskVerdict::leaves(format!("`git {verb}` sends files elsewhere"))
        }
        "subtree" if first == Some("push") => {
            RiskVerdict::leaves("`git subtree push` pushes elsewhere")
        }
        "reset" if has(&["--hard", "--merge", "--keep"]) => loses("throws changes away"),
        "clean" if !has(&["-n", "--dry-run", "-nd", "-dn", "-ndx", "-nfd"]) => {
            loses("removes files")
        }
        "branch" if has(&["-D", "-d", "--delete", "-f", "--force", "-M", "-C"]) => {
            loses("removes a branch")
        }
        "branch" | "tag" | "remote" | "config" | "stash" | "reflog" | "worktree" | "notes"
        | "submodule"
            if matches!(first, None | Some("list" | "show" | "get"))
                && (verb != "stash" || first.is_some())
                && rest.iter().all(|w| !matches!(*w, "-m" | "-u")) =>
        {
            RiskVerdict::reads("git looks")
        }
        "checkout" => judge_checkout(rest),
        "switch" if has(&["-f", "--force", "--discard-changes", "-C"]) => {
            loses("throws changes away")
        }
        "restore" if !has(&["--staged", "-S"]) || has(&["--worktree", "-W"]) => {
            loses("throws changes away")
        }
        "stash" if matches!(first, Some("drop" | "clear" | "pop")) => {
            loses("removes what was put aside")
        }
        "rm" | "filter-branch" | "filter-repo" | "read-tree" | "checkout-index" | "update-ref"
        | "symbolic-ref" | "replace" => loses("removes or rewrites"),
        "merge" | "rebase" | "cherry-pick" | "revert" | "am" | "bisect" if aborts => {
            loses("throws a merge away")
        }
        "rebase" => runs_of(rest, &["--exec", "-x"], scene).or(loses("rewrites commits")),
        "worktree" if first == Some("remove") => loses("removes a worktree"),
        "prune" | "gc" | "reflog" => judge_collect(verb, rest, first),
        "submodule" if first == Some("foreach") => judge_after(rest, "foreach", scene),
        "submodule" if has(&["deinit", "--force", "-f"]) => loses("removes files"),
        "bisect" if first == Some("run") => judge_after(rest, "run", scene),
        _ => RiskVerdict::local("git works in the worktree"),
    }
}

/// Judges garbage collection: commits that only the reflog holds are lost once it is collected.
fn judge_collect(verb: &str, rest: &[&str], first: Option<&str>) -> RiskVerdict {
    let dry = rest.iter().any(|word| matches!(*word, "-n" | "--dry-run"));
    let now = rest.iter().any(|word| {
        matches!(*word, "--prune=now" | "--prune=all" | "--expire=now" | "--expire=all")
    });
    let forgets = verb == "reflog" && matches!(first, Some("expire" | "delete" | "drop"));
    if !dry && (now || forgets || verb == "prune") {
        return RiskVerdict::leaves(format!(
            "`git {verb}` removes commits for good that only the reflog holds"
        ));
    }
    if verb == "reflog" { RiskVerdict::reads("git looks") } else { RiskVerdict::local("git packs") }
}

fn judge_checkout(rest: &[&str]) -> RiskVerdict {
    let paths =
        rest.contains(&"--") || rest.iter().any(|word| *word == "." || word.starts_with("./"));
    let forced = rest
        .iter()
        .any(|w| matches!(*w, "-f" | "--force" | "--ours" | "--theirs" | "-p" | "-B" | "-m"));
    let plain = rest.iter().filter(|word| !word.starts_with('-')).count();
    let creates = rest.iter().any(|word| matches!(*word, "-b" | "--orphan" | "-t" | "--track"));
    // Two names are a commit and a path; one with a dot in its last part is a file.
    let file = rest.iter().any(|word| {
        !word.starts_with('-')
            && word
                .rsplit('/')
                .next()
                .is_some_and(|last| last.trim_start_matches('.').contains('.'))
    });
    if forced || paths || (!creates && (plain > 1 || file)) {
        RiskVerdict::loses("`git checkout` throws changes away")
    } else {
        RiskVerdict::local("git works in the worktree")
    }
}

fn judge_push(rest: &[&str], unseen: bool) -> RiskVerdict {
    let leaves = |what: &str| RiskVerdict::leaves(format!("`git push` {what}"));
    if rest.iter().any(|word| matches!(*word, "-n" | "--dry-run")) {
        return RiskVerdict::local("git tells what it would push");
    }
    for word in rest {
        let short = word.starts_with('-') && !word.starts_with("--");
        if word.starts_with("--force") || (short && word.contains('f')) {
            return leaves("replaces what others may have");
        }
        if matches!(*word, "--delete" | "--mirror" | "--prune") || (short && word.contains('d')) {
            return leaves("removes branches of the remote");
        }
        if matches!(*word, "--tags" | "--follow-tags" | "--all" | "--branches") {
            return leaves("pushes more than the thread's branch");
        }
    }
    let mut plain = Vec::new();
    let mut words = rest.iter();
    while let Some(word) = words.next() {
        match *word {
            "-o" | "--push-option" | "--receive-pack" | "--exec" | "--repo" => drop(words.next()),
            word if word.starts_with('-') => {}
            word => plain.push(word),
        }
    }
    let (remote, specs) =
        plain.split_first().map_or((None, &[][..]), |(first, rest)| (Some(*first), rest));
    if remote.is_some_and(|remote| remote != "origin") {
        return leaves("goes to another remote");
    }
    if unseen && remote.is_none() {
        return RiskVerdict::visible("git pushes");
    }
    specs
        .iter()
        .map(|spec| judge_refspec(spec))
        .fold(RiskVerdict::visible("git pushes"), RiskVerdict::or)
}

fn judge_refspec(spec: &str) -> RiskVerdict {
    let leaves = |what: &str| RiskVerdict::leaves(format!("`git push` {what}"));
    if spec.starts_with('+') {
        return leaves("replaces what others may have");
    }
    if spec.starts_with(':') || spec == "tag" {
        return leaves("removes a branch of the remote, or sets a tag");
    }
    let to = spec.rsplit(':').next().unwrap_or(spec);
    let name = to.strip_prefix("refs/heads/").unwrap_or(to);
    let version =
        name.strip_prefix('v').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    if to.starts_with("refs/tags/") || version {
        return leaves("sets a tag");
    }
    let shared = name.split('/').next().is_some_and(|first| SHARED.contains(&first));
    if shared && !name.contains(HOLE) {
        return leaves("goes to a branch that is not the thread's");
    }
    RiskVerdict::visible("git pushes")
}

/// Judges the commands that are the values of these options.
fn runs_of(rest: &[&str], options: &[&str], scene: &CommandScene<'_>) -> RiskVerdict {
    let values = rest.windows(2).filter(|two| options.contains(&two[0])).map(|two| two[1]);
    values
        .map(|line| scene.script(line))
        .fold(RiskVerdict::local("git works in the worktree"), RiskVerdict::or)
}

/// Judges the command that follows `verb`.
fn judge_after(rest: &[&str], verb: &str, scene: &CommandScene<'_>) -> RiskVerdict {
    let words = rest.iter().skip_while(|word| **word != verb).skip(1);
    let words: Vec<&str> = words.copied().skip_while(|word| word.starts_with('-')).collect();
    scene.script(&words.join(" ")).or(RiskVerdict::local("git runs a command"))
}
