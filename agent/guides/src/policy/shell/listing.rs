//! Lists of all files of the worktree, the repository's own folder among them. Pure.

use regex::Regex;

use super::super::spelling::{could_be, could_spell, glob_spells};
use super::known::HOLE;

/// Programs that put out what they are given, whole or in part.
const PASSES: &str = "sort uniq cat tac head tail tee tr cut shuf nl column sponge";
/// Paths by which `find` comes to the repository's folder and to what it holds.
const INSIDE: [&str; 4] = ["./.git", "./.git/HEAD", "./.git/refs/heads/a", ".git"];
/// Names that lie in a repository's folder, and whether they are files.
const HELD: [(&str, bool); 9] = [
    (".git", false),
    ("objects", false),
    ("refs", false),
    ("logs", false),
    ("worktrees", false),
    ("HEAD", true),
    ("packed-refs", true),
    ("pack-0.pack", true),
    ("pack-0.idx", true),
];
const NAMES: [&str; 2] = ["-name", "-iname"];
const PATHS: [&str; 4] = ["-path", "-ipath", "-wholename", "-iwholename"];
/// Actions of `find` behind which a command stands.
const RUNS: [&str; 4] = ["-exec", "-execdir", "-ok", "-okdir"];

/// True for a path that is the worktree, or holds it.
pub fn is_root(path: &str) -> bool {
    let plain = path.trim_end_matches('/').trim_end_matches("/.");
    matches!(plain, "." | ".." | "~" | "" | "/work" | "/work/tree") && !path.is_empty()
}

/// True if a program puts out the names of all files, hidden ones too. `fed`: what it reads or is given is such a
/// list.
pub(super) fn prints_all(shapes: &[String], fed: bool) -> bool {
    let Some((name, rest)) = shapes.split_first() else { return false };
    let name = name.rsplit('/').next().unwrap_or(name);
    let mut plain = rest.iter().filter(|word| !word.starts_with('-'));
    match name {
        "ls" | "dir" | "eza" | "exa" => {
            let all = rest.iter().any(|word| {
                let short = word.starts_with('-') && !word.starts_with("--");
                matches!(word.as_str(), "--all" | "--almost-all")
                    || (short && word.contains(['a', 'A', 'f']))
            });
            let mut paths = plain.peekable();
            match paths.peek() {
                None => all,
                Some(_) => paths.any(|path| (all && is_root(path)) || could_be(path)),
            }
        }
        "echo" | "printf" => plain.any(|word| could_be(word) || (fed && word.contains(HOLE))),
        "find" => finds_repository(rest, None),
        "grep" | "egrep" | "fgrep" | "rg" => fed && passes_pattern(name, rest),
        // A first word that only cuts or changes lines.
        "sed" => fed && plain.next().is_some_and(|s| s.starts_with('s') && !s.contains("git")),
        "awk" | "gawk" => {
            fed && plain.next().is_some_and(|s| !s.contains(['/', '~', '=']) && !s.contains("git"))
        }
        "xargs" => fed && plain.next().is_none_or(|inner| matches!(&**inner, "echo" | "printf")),
        _ => fed && PASSES.split(' ').any(|one| one == name),
    }
}

/// True if `grep` lets the repository's folder through.
fn passes_pattern(name: &str, rest: &[String]) -> bool {
    let short = |flag: char| {
        rest.iter().any(|w| w.starts_with('-') && !w.starts_with("--") && w.contains(flag))
    };
    let inverted = short('v') || rest.iter().any(|word| word == "--invert-match");
    let Some(pattern) = rest.iter().find(|word| !word.starts_with('-')) else { return false };
    let basic = name == "grep" && !short('E') && !short('P');
    let regex = if basic { pattern.replace("\\|", "|") } else { pattern.clone() };
    let named = Regex::new(&regex)
        .map_or(pattern.contains("git"), |regex| INSIDE.iter().any(|path| regex.is_match(path)));
    named != inverted
}

/// True if a search comes to the repository's folder or to what it holds, and does there what stands at `action`: a
/// place among `rest`, or none for what it puts out.
pub fn finds_repository(rest: &[String], action: Option<usize>) -> bool {
    let words = search_words(rest);
    let starts = words.iter().map(|(_, word)| *word);
    let mut starts = starts
        .skip_while(|word| matches!(*word, "-H" | "-L" | "-P"))
        .take_while(|word| !word.starts_with('-') && !matches!(*word, "(" | "!"))
        .peekable();
    if starts.peek().is_some() && !starts.any(is_root) {
        return false;
    }
    let texts: Vec<&str> = words.iter().map(|(_, word)| *word).collect();
    let pruned =
        texts.contains(&"-prune") && texts.windows(2).any(|two| names_folder(two[0], two[1]));
    if pruned {
        return false;
    }
    // The part of the expression in which the action stands.
    let is_or = |word: &str| matches!(word, "-o" | "-or");
    let mut parts = words.split(|(_, word)| is_or(word));
    let part = match action {
        Some(action) => parts.find(|part| part.iter().any(|(at, _)| *at >= action)),
        None => parts.next_back(),
    };
    let part: Vec<&str> = part.unwrap_or_default().iter().map(|(_, word)| *word).collect();
    !is_filtered(&part)
}

/// The words of a search without the commands that it runs, with their places.
fn search_words(rest: &[String]) -> Vec<(usize, &str)> {
    let mut words = Vec::new();
    let mut runs = false;
    for (at, word) in rest.iter().enumerate() {
        if !runs {
            words.push((at, word.as_str()));
        }
        runs = match word.as_str() {
            ";" | "+" => false,
            word => runs || RUNS.contains(&word),
        };
    }
    words
}

/// True if a pattern for names is, or can be, that of the repository's folder.
fn spells(pattern: &str, name: &str) -> bool {
    pattern.eq_ignore_ascii_case(name) || could_spell(pattern, name)
}

/// True if a test names the repository's folder, by whatever pattern.
fn names_folder(test: &str, pattern: &str) -> bool {
    match test {
        test if NAMES.contains(&test) => spells(pattern, ".git"),
        test => PATHS.contains(&test) && reaches(test, pattern, false),
    }
}

/// True if a test of `find` holds for the repository's folder or for something in it.
fn reaches(test: &str, pattern: &str, files: bool) -> bool {
    if NAMES.contains(&test) {
        HELD.iter().any(|(held, is_file)| (*is_file || !files) && spells(pattern, held))
    } else {
        INSIDE.iter().any(|path| glob_spells(pattern, path))
    }
}

/// True if tests keep a search away from the repository.
fn is_filtered(part: &[&str]) -> bool {
    let files = part.windows(2).any(|two| two == ["-type", "f"]);
    let is_not = |word: &&str| matches!(*word, "!" | "-not");
    (0..part.len()).any(|at| {
        let before = part[..at].iter().rev().find(|word| **word != "(");
        let negated = before.is_some_and(is_not);
        let Some(value) = part.get(at + 1) else { return part[at] == "-empty" };
        match part[at] {
            "-empty" => !negated,
            test if NAMES.contains(&test) => {
                // A folder that has that name is passed over, and what is in it is not.
                if negated {
                    spells(value, ".git") && is_shallow(part)
                } else {
                    !reaches(test, value, files)
                }
            }
            test if PATHS.contains(&test) => reaches(test, value, files) == negated,
            "-regex" | "-iregex" => {
                let all = Regex::new(&format!("^(?:{value})$"))
                    .is_ok_and(|regex| INSIDE.iter().any(|path| regex.is_match(path)));
                all == negated
            }
            _ => false,
        }
    })
}

/// True if a search goes into no folder.
fn is_shallow(part: &[&str]) -> bool {
    part.windows(2).any(|two| two == ["-maxdepth", "1"])
}
