//! The repository itself, which holds the snapshots: whatever could reach `.git` asks, since nothing brings back
//! what is lost there.

use std::sync::LazyLock;

use regex::Regex;

use super::super::RiskVerdict;
use super::super::shell::{HOLE, PlainCommand, is_root};
use super::super::spelling::could_be;
use super::files::{holds_work, is_git, unpacks};

/// Programs that change the files that they are given: move, remove, write over, take rights away.
const CHANGES: &str = "mv rm cp ln install rsync chmod chown chgrp chattr setfacl tar unzip patch sed gsed perl tee dd \
                       truncate unlink shred trash rimraf del-cli srm rmdir rename mmv zip gzip gunzip 7z cpio sponge";
/// Options that print where the repository is.
const PRINTS: [&str; 3] = ["--git-dir", "--absolute-git-dir", "--git-common-dir"];
/// Options after which, or joined to which, stands the file that a program writes.
const OUTPUTS: [&str; 6] =
    ["-o", "-O", "--output", "--output-document", "--outfile", "--output-dir"];
/// Programs for which `-o` is something else.
const SEARCHES: &str = "grep egrep fgrep rg ag ack git find ls ps";
/// Code that names the repository's folder and does something to files.
static NAMES_GIT: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r#"\.git(?:["'`/\\]|\s|$)"#).ok());
static CHANGES_FILES: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let calls = r"rmtree|remove_tree|rmtree|rm_rf|rm_r\b|rmSync|rmdir|\brm\s*\(|unlink|remove|rename|\bmove|chmod|truncate|writeFile|write_text|write_bytes|copyfile|copytree|cpSync";
    Regex::new(&format!(r#"(?i){calls}|open\s*\([^)]*["'][wax]"#)).ok()
});

/// Things that a script does around its commands and by which they reach the repository.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RepositoryReach {
    /// The script goes into `.git`.
    inside: bool,
    /// `*` means hidden files too.
    dotglob: bool,
    /// The script asks Git where the repository is.
    asked: bool,
}

impl RepositoryReach {
    pub(super) fn of(found: &[PlainCommand]) -> Self {
        let asks = |simple: &PlainCommand| {
            let mut words = simple.shapes.iter().skip(1);
            program_name(simple) == Some("git") && words.any(|word| PRINTS.contains(&word.as_str()))
        };
        let mut reach = Self { asked: found.iter().any(asks), ..Self::default() };
        for simple in found {
            let name = program_name(simple);
            let shapes = simple.shapes.get(1..).unwrap_or_default();
            let mut words = shapes.iter().map(String::as_str);
            match name {
                Some("cd" | "pushd") => {
                    let asked = reach.asked;
                    reach.inside |= words
                        .any(|path| path.split('/').any(could_be) || (asked && is_printed(path)));
                }
                Some("shopt" | "setopt" | "set") => {
                    reach.dotglob |= words
                        .any(|word| matches!(word, "dotglob" | "globdots" | "GLOB_DOTS"))
                        && !shapes.iter().any(|word| word == "-u");
                }
                _ => {}
            }
            // With such a list a star means hidden files, too.
            reach.dotglob |= simple.sets.iter().any(|(name, _)| name == "GLOBIGNORE");
        }
        reach
    }

    /// Files that a command's output goes to; nothing if it can't reach the repository.
    pub(super) fn judge_writes(self, simple: &PlainCommand) -> Option<RiskVerdict> {
        let near = self.inside && simple.writes.iter().flatten().any(|path| is_near(path));
        near.then(|| RiskVerdict::leaves("it writes into the repository itself, snapshots and all"))
    }

    /// A program that changes files; nothing if it can't reach the repository.
    pub(super) fn judge(self, name: &str, simple: &PlainCommand) -> Option<RiskVerdict> {
        let leaves =
            |why: &str| Some(RiskVerdict::leaves(format!("`{name}` {why}, snapshots and all")));
        let writes = |path: &String| holds_work(path) || (self.inside && is_near(path));
        if !SEARCHES.split(' ').any(|one| one == name)
            && outputs_of(simple).any(|path| writes(&path))
        {
            return leaves("writes into the repository itself");
        }
        if !CHANGES.split(' ').any(|one| one == name) {
            return None;
        }
        let mut shapes = simple.shapes.iter().skip(1).map(String::as_str);
        // A copy out of the repository is none of those.
        let fills = || match simple.shapes.last() {
            _ if matches!(name, "tar" | "tee" | "zip") => true,
            Some(last) => matches!(name, "cp" | "ln") && is_near(last),
            None => false,
        };
        if self.inside && (takes_away(name, simple) || fills()) {
            return leaves("works inside the repository itself");
        }
        if simple.lists && harms_given(name, simple) && simple.shapes.iter().any(|w| takes_list(w))
        {
            return leaves("is given all files, the repository itself among them");
        }
        if let Some(path) = shapes.find(|word| reaches(name, simple, word)) {
            let shown = path.replace(HOLE, "…");
            return leaves(&format!("reaches the repository itself (`{shown}`)"));
        }
        let mut shapes = simple.shapes.iter().skip(1).map(String::as_str);
        if takes_away(name, simple)
            && shapes.any(|word| {
                (self.asked && is_printed(word)) || (self.dotglob && matches!(word, "*" | "./*"))
            })
        {
            return leaves("may take the repository itself along");
        }
        None
    }
}

/// True for a path that begins with something which is only known when it runs.
fn is_printed(path: &str) -> bool {
    path.strip_prefix(HOLE).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// True for a path that doesn't lead out of the folder in which the script is.
fn is_near(path: &str) -> bool {
    !path.starts_with(['/', '~', HOLE]) && !path.split('/').any(|part| part == "..")
}

/// Output files that the options of a program name.
fn outputs_of(simple: &PlainCommand) -> impl Iterator<Item = String> {
    let shapes = simple.shapes.get(1..).unwrap_or_default();
    shapes.iter().enumerate().filter_map(|(at, word)| {
        if OUTPUTS.contains(&word.as_str()) {
            return shapes.get(at + 1).cloned();
        }
        let joined = word.split_once('=').filter(|(option, _)| OUTPUTS.contains(option));
        let short = word.strip_prefix("-o").or_else(|| word.strip_prefix("-O"));
        joined.map(|(_, path)| path).or(short).map(str::to_owned)
    })
}

fn program_name(simple: &PlainCommand) -> Option<&str> {
    let name = simple.words.first()?.as_deref()?;
    Some(name.rsplit('/').next().unwrap_or(name))
}

/// True for a word in which names stand that are only known when it runs.
fn takes_list(word: &str) -> bool {
    word.contains(HOLE) || word.contains("{}")
}

/// True if a program does harm to every file that it is given.
pub(super) fn harms_given(name: &str, simple: &PlainCommand) -> bool {
    let has = |options: &[&str]| simple.shapes.iter().any(|word| options.contains(&word.as_str()));
    match name {
        "rm" | "mv" | "truncate" | "unlink" | "shred" | "trash" | "rimraf" | "del-cli" | "srm"
        | "rename" | "mmv" => true,
        "chmod" => mode_of(simple).is_none_or(|mode| takes_reading(mode)),
        "sed" | "gsed" | "perl" => is_in_place(simple),
        "tar" => has(&["--remove-files"]),
        "zip" => has(&["-m", "--move"]),
        "rsync" => has(&["--remove-source-files"]),
        _ => false,
    }
}

fn is_in_place(simple: &PlainCommand) -> bool {
    simple.shapes.iter().any(|word| {
        word.starts_with("--in-place")
            || (word.starts_with('-') && !word.starts_with("--") && word.contains('i'))
    })
}

/// Copies and archives only read what they are given first.
fn takes_away(name: &str, simple: &PlainCommand) -> bool {
    !matches!(name, "cp" | "tar" | "zip" | "tee" | "ln")
        || simple.shapes.iter().any(|word| word == "--remove-files")
}

/// True where a program changes the repository at `word`.
fn reaches(name: &str, simple: &PlainCommand, word: &str) -> bool {
    let path = word.rsplit_once('=').map_or(word, |(_, path)| path);
    if word.starts_with('-') && !word.contains('=') {
        // Such as `tar -C.git`.
        return name == "tar" && word.strip_prefix("-C").is_some_and(is_whole);
    }
    let is_last = simple.shapes.last().is_some_and(|last| last == word);
    match name {
        // The place where it writes.
        "cp" | "ln" | "install" | "rsync" => {
            let deletes = simple.shapes.iter().any(|w| w.starts_with("--delete"));
            let target = is_last || target_of(simple).is_some_and(|target| target == word);
            let brings = || {
                let mut shapes = simple.shapes.iter().skip(1);
                // With a slash at its end, `rsync` takes what is in a folder.
                shapes.any(|w| is_whole(w) && !(name == "rsync" && w.ends_with('/')))
            };
            let replaces = target && could_hold(path) && (deletes || brings());
            (target && (holds_work(path) || is_whole(path)) || replaces)
                || simple.shapes.iter().any(|w| w == "--remove-source-files") && is_whole(path)
        }
        "tar" | "unzip" | "7z" | "cpio" => {
            let writes = unpacks(name, simple);
            writes && (is_whole(path) || holds_work(path))
                || simple.shapes.iter().any(|w| w == "--remove-files") && is_whole(path)
        }
        "sed" | "gsed" | "perl" => is_in_place(simple) && holds_work(path),
        "chmod" => (is_whole(path) || holds_work(path) || is_root(path)) && takes_rights(simple),
        "chattr" | "setfacl" => is_whole(path) || holds_work(path) || is_root(path),
        // Without its option it takes no folder.
        "rm" => {
            let recursive = simple.shapes.iter().any(|w| {
                w == "--recursive"
                    || w.starts_with('-') && !w.starts_with("--") && w.contains(['r', 'R'])
            });
            (recursive && is_whole(path)) || holds_work(path)
        }
        // A file that is put into an archive is read.
        "zip" => simple.shapes.iter().any(|w| w == "-m" || w == "--move") && is_whole(path),
        _ => is_whole(path) || holds_work(path),
    }
}

/// Returns the folder after `-t`.
fn target_of(simple: &PlainCommand) -> Option<&String> {
    let at = simple.shapes.iter().position(|word| word == "-t" || word == "--target-directory")?;
    simple.shapes.get(at + 1)
}

/// The mode that `chmod` is given.
fn mode_of(simple: &PlainCommand) -> Option<&String> {
    let is_option = |word: &str| {
        let letters = word.strip_prefix('-').filter(|letters| !letters.is_empty());
        word.starts_with("--") || letters.is_some_and(|l| l.chars().all(|c| "Rvfc".contains(c)))
    };
    simple.shapes.iter().skip(1).find(|word| !is_option(word))
}

fn is_numeric(mode: &str) -> bool {
    !mode.is_empty() && mode.bytes().all(|b| b.is_ascii_digit())
}

/// True for a mode that leaves the owner less than everything.
fn takes_rights(simple: &PlainCommand) -> bool {
    mode_of(simple).is_none_or(|mode| {
        let digits = mode.trim_start_matches('0');
        if is_numeric(mode) {
            digits.len() < 3 || !digits.starts_with('7')
        } else {
            !mode.starts_with("u+")
                && !mode.starts_with('+')
                && !mode.starts_with("a+")
                && !mode.starts_with('g')
                && !mode.starts_with('o')
        }
    })
}

/// True for a mode with which the owner can't read and write a file.
fn takes_reading(mode: &str) -> bool {
    if is_numeric(mode) {
        let owner = mode.len().checked_sub(3).and_then(|at| mode.as_bytes().get(at));
        return owner.is_none_or(|digit| !matches!(digit, b'6' | b'7'));
    }
    mode.split(',').any(|clause| {
        let Some(at) = clause.find(['+', '-', '=']) else { return true };
        let (who, rights) = (&clause[..at], &clause[at + 1..]);
        let is_owners = who.is_empty() || who.contains(['u', 'a']);
        let takes = match clause.as_bytes()[at] {
            b'-' => rights.contains(['r', 'w']),
            b'=' => !(rights.contains('r') && rights.contains('w')),
            _ => false,
        };
        is_owners && takes
    })
}

/// True for a path that names the repository's folder, or could.
fn is_whole(path: &str) -> bool {
    is_git(path)
        || path
            .trim_end_matches('/')
            .trim_end_matches("/*")
            .rsplit('/')
            .next()
            .is_some_and(could_be)
}

/// True for a folder that may hold the repository: the worktree's own.
fn could_hold(path: &str) -> bool {
    matches!(path.trim_end_matches('/'), "." | "" | "/work/tree")
}

/// Code that changes files of the repository's folder by its name.
pub(super) fn code_reaches(code: &str) -> bool {
    let has = |regex: &Option<Regex>| regex.as_ref().is_some_and(|regex| regex.is_match(code));
    has(&NAMES_GIT) && has(&CHANGES_FILES)
}

#[cfg(test)]
mod tests {
    use crate::policy::CommandPolicy;

    #[test]
    fn whatever_could_reach_the_repository_asks() {
        let policy = CommandPolicy::default();
        let missed: Vec<&str> = [
            "mv .git away",
            "mv .git /tmp/x && ls",
            "chmod -R 000 .git",
            "chmod a-rwx .git",
            "chmod 0 .git/objects",
            "rm -rf .gi?",
            "rm -rf .[g]it",
            "rm -rf .{git,cache}",
            "rm -rf .g*",
            "mv .gi[t] x",
            "rm -rf \"$(git rev-parse --git-dir)\"",
            "mv $(git rev-parse --absolute-git-dir) /tmp",
            "rm -rf \"$(git rev-parse --git-dir)/refs\"",
            "cd \"$(git rev-parse --git-dir)\" && rm -rf refs",
            "find .git/refs -delete",
            "find ./.git/refs/codebutler -type f -delete",
            "find src .git/refs -name '*' -delete",
            "find .git/refs -exec rm {} +",
            "cd .git && >packed-refs",
            "cd .git && : > packed-refs",
            "cd .git && echo x > HEAD",
            "cd .git && cp /dev/null packed-refs",
            "cd .git && tar xf /tmp/a.tar",
            "cd .git && ln -sf /tmp/x HEAD",
            "cd .git && curl -o HEAD https://example.org/",
            "curl -o .git/HEAD https://example.org/",
            "sort -o .git/packed-refs x",
            "sort --output=.git/packed-refs x",
            "cd .git && rm -rf *",
            "cd ./.git; rm -r objects",
            "pushd .git/refs; rm -rf heads",
            "shopt -s dotglob; rm -rf *",
            "shopt -s dotglob && mv * /tmp/x",
            "rsync -a --delete empty/ .git/",
            "rsync -a --delete empty/ ./",
            "cp other .git/refs/heads/main",
            "cp -f x .git/packed-refs",
            "sed -i d .git/packed-refs",
            "tar xf a.tar -C .git",
            "ln -sf x .git/HEAD",
            "install x .git/HEAD",
            "python3 -c 'import shutil; shutil.rmtree(\".git\")'",
            "node -e 'fs.rmSync(\".git\", {recursive: true})'",
            "perl -e 'use File::Path; remove_tree(\".git\")'",
            "ruby -e 'FileUtils.rm_rf(\".git\")'",
            "git for-each-ref --format='delete %(refname)' | git update-ref --stdin",
            "git for-each-ref refs/codebutler | xargs -n1 git update-ref -d",
        ]
        .into_iter()
        .filter(|script| !policy.bash(script).asks())
        .collect();
        assert!(missed.is_empty(), "{missed:#?}");
    }

    #[test]
    fn what_only_looks_like_the_repository_does_not_ask() {
        let policy = CommandPolicy::default();
        let asked: Vec<String> = [
            "mv .gitignore x",
            "cp .git/hooks/pre-commit.sample x",
            "cp hook .git/hooks/pre-commit && chmod +x .git/hooks/pre-commit",
            "chmod 755 .git/hooks/pre-commit",
            "tar czf backup.tgz .git",
            "cp -r .git /tmp/backup",
            "cd .git && ls > /tmp/files && cp HEAD /tmp/head && wc -l < packed-refs 2>/dev/null",
            "grep -o ref .git/HEAD",
            "find .git -name '*.sample'",
            "sort -o out.txt in.txt; curl -o page.html https://example.org/",
            "rm -rf *",
            "rm -f *.log",
            "mv *.md docs/",
            "rm -rf build && cp -r src build",
            "cd \"$(git rev-parse --show-toplevel)\" && rm -rf build",
            "rsync -a --delete src/ build/",
            "sed -i s/a/b/ .gitignore .github/workflows/x.yml",
            "cat .git/HEAD && ls .git",
            "python3 -c 'print(open(\".git/HEAD\").read())'",
            "rm -rf .github/workflows .gitlab-ci.yml .cache",
        ]
        .into_iter()
        .map(|script| (policy.bash(script), script))
        .filter(|(verdict, _)| verdict.asks())
        .map(|(verdict, script)| format!("{script}: {}", verdict.why))
        .collect();
        assert!(asked.is_empty(), "{asked:#?}");
    }
}
