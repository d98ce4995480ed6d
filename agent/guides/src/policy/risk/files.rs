//! Judges commands by their effect on files: losses, and losses that no snapshot brings back.

use std::collections::HashMap;

use super::super::RiskVerdict;
use super::super::shell::{HOLE, PlainCommand, ShellWord, printed_text};
use super::super::spelling::{could_be, could_spell};

/// Parts of `.git` that hold the work itself, snapshots included.
const HOLDS: [&str; 6] = ["objects", "refs", "HEAD", "packed-refs", "logs", "worktrees"];
/// Path of the worktree in a pod.
const TREE: &str = "/work/tree";

/// Texts that a script writes to files before it goes on, by the file's name.
pub(super) fn written_files(found: &[PlainCommand]) -> HashMap<String, String> {
    let mut out = HashMap::new();
    for simple in found {
        let tee = simple.words.first().and_then(Option::as_deref) == Some("tee");
        let bare = PlainCommand { writes: Vec::new(), ..simple.clone() };
        let text = if tee {
            simple.input.clone().or_else(|| simple.fed.clone())
        } else {
            printed_text(&bare)
        };
        let Some(text) = text else { continue };
        let named = simple.words.iter().skip(1).filter(|_| tee);
        for file in simple.writes.iter().chain(named).flatten() {
            let file = file.trim_start_matches("./").to_owned();
            let before: String = out.remove(&file).unwrap_or_default();
            out.insert(file, format!("{before}\n{text}"));
        }
    }
    out
}

/// A file that a redirection writes.
pub(super) fn judge_redirect(simple: &PlainCommand, file: &ShellWord) -> RiskVerdict {
    match file.as_deref() {
        Some("/dev/null" | "/dev/stdout" | "/dev/stderr" | "/dev/tty") => {
            RiskVerdict::reads("it shows")
        }
        Some(file) if is_device(file) => {
            RiskVerdict::leaves(format!("it writes to the device `{file}`"))
        }
        Some(file) if holds_work(file) => {
            RiskVerdict::leaves("it writes over the repository's own data")
        }
        _ => {
            if !simple.replaces.contains(file) || file.as_deref().is_some_and(is_elsewhere) {
                return RiskVerdict::local("it writes a file");
            }
            let name = simple.words.first().and_then(Option::as_deref);
            let empties = matches!(name, None | Some(":" | "true"))
                || simple.words.iter().any(|word| word.as_deref() == Some("/dev/null"));
            if empties {
                RiskVerdict::loses("it empties a file")
            } else {
                RiskVerdict::overwrites("its output may write over a file")
            }
        }
    }
}

/// A file that no snapshot of the worktree has.
fn is_elsewhere(path: &str) -> bool {
    path.starts_with(['/', '~']) && !path.starts_with(TREE)
}

/// True if a script goes to where the worktree is a folder among others.
pub(super) fn goes_above(found: &[PlainCommand]) -> bool {
    found.iter().any(|simple| {
        let word = |n: usize| simple.words.get(n).and_then(Option::as_deref);
        let above = |path: &str| {
            let path = path.trim_end_matches('/');
            path == "/work" || path.rsplit('/').next() == Some("..")
        };
        matches!(word(0), Some("cd" | "pushd")) && word(1).is_some_and(above)
    })
}

/// A program that moves or removes files; nothing if it is none. `above`: it may do so from the folder
/// that the worktree is in.
pub(super) fn file_risk(
    name: &str,
    simple: &PlainCommand,
    texts: &[&str],
    above: bool,
) -> Option<RiskVerdict> {
    let short = |flag: char| {
        texts.iter().any(|text| {
            text.starts_with('-') && !text.starts_with("--") && text[1..].contains(flag)
        })
    };
    let plain = || simple.shapes.iter().skip(1).filter(|word| !word.starts_with('-'));
    match name {
        "rm" => {
            let recursive = short('r') || short('R') || texts.contains(&"--recursive");
            let all =
                plain().any(|path| (recursive && is_everything(path, above)) || holds_work(path));
            Some(if all {
                RiskVerdict::leaves("`rm` removes the repository itself, snapshots and all")
            } else {
                RiskVerdict::loses("`rm` removes files")
            })
        }
        // A file that lies there already is written over.
        "mv" | "cp" | "install" | "rsync" | "patch" | "sponge" | "rename"
            if !texts.iter().any(|text| matches!(*text, "--dry-run" | "--version" | "--help")) =>
        {
            Some(RiskVerdict::loses(format!("`{name}` may write over files")))
        }
        "svn" | "hg" | "jj" | "fossil" | "bzr" | "brz" | "sl" | "darcs"
            if throws_changes(name, texts) =>
        {
            Some(RiskVerdict::loses(format!("`{name}` throws changes away")))
        }
        "ln" if short('f') || texts.contains(&"--force") => {
            Some(RiskVerdict::loses("`ln` replaces a file"))
        }
        "unzip" | "7z" | "cpio" | "tar" if unpacks(name, simple) => {
            Some(RiskVerdict::loses(format!("`{name}` may write over files")))
        }
        "zip" if short('m') || texts.contains(&"--move") => {
            Some(RiskVerdict::loses("`zip` removes files"))
        }
        "sort" | "uniq" if short('o') || texts.iter().any(|text| text.starts_with("--output")) => {
            Some(RiskVerdict::loses(format!("`{name}` writes over a file")))
        }
        "gzip" | "gunzip" | "bzip2" | "xz" | "zstd" if short('f') || texts.contains(&"--rm") => {
            Some(RiskVerdict::loses(format!("`{name}` replaces files")))
        }
        "truncate" | "unlink" | "shred" | "trash" | "rimraf" | "del-cli" | "srm" => {
            Some(match plain().find(|path| is_device(path) || holds_work(path)) {
                Some(path) => RiskVerdict::leaves(format!("`{name}` destroys `{path}`")),
                None => RiskVerdict::loses(format!("`{name}` throws files away")),
            })
        }
        "dd" | "tee" => {
            Some(match texts.iter().find(|t| is_device(t.strip_prefix("of=").unwrap_or(t))) {
                Some(_) => RiskVerdict::leaves(format!("`{name}` writes to a device")),
                None if name == "dd" => RiskVerdict::loses("`dd` writes over files"),
                None if plain().all(|path| path.starts_with("/dev/")) || short('a') => {
                    RiskVerdict::local("`tee` shows, or adds to a file")
                }
                None => RiskVerdict::loses("`tee` writes over files"),
            })
        }
        "tar" if texts.contains(&"--remove-files") => {
            Some(RiskVerdict::loses("`tar` removes files"))
        }
        "wipefs" | "fdisk" | "sfdisk" | "parted" | "blkdiscard" => {
            Some(RiskVerdict::leaves(format!("`{name}` writes to a device")))
        }
        name if name.starts_with("mkfs") => {
            Some(RiskVerdict::leaves(format!("`{name}` writes to a device")))
        }
        _ => None,
    }
}

/// True if another version control takes back changes.
fn throws_changes(name: &str, texts: &[&str]) -> bool {
    let verbs: &[&str] = match name {
        "svn" => &["revert", "cleanup", "switch", "rm", "delete", "remove", "del"],
        "jj" => &["restore", "abandon", "undo", "op", "operation"],
        _ => &[
            "revert",
            "purge",
            "clean",
            "shelve",
            "strip",
            "rollback",
            "remove",
            "rm",
            "clean-tree",
        ],
    };
    let updates = ["update", "up", "co", "checkout", "goto"];
    let cleans = texts.iter().any(|text| matches!(*text, "-C" | "--clean" | "--force"));
    let verb = texts.iter().find(|text| !text.starts_with('-'));
    verb.is_some_and(|verb| verbs.contains(verb) || (updates.contains(verb) && cleans))
}

/// A disk; memory, terminals and the like hold nothing.
fn is_device(path: &str) -> bool {
    let disks = ["sd", "hd", "vd", "xvd", "nvme", "mmcblk", "dm-", "mapper/", "disk", "loop", "md"];
    path.strip_prefix("/dev/").is_some_and(|name| disks.iter().any(|disk| name.starts_with(disk)))
}

/// True if removing a path with all below it takes the repository along.
fn is_everything(path: &str, above: bool) -> bool {
    let path = path.replace("//", "/");
    let path = path.strip_prefix(TREE).map_or(path.clone(), |rest| format!(".{rest}"));
    let plain =
        path.strip_suffix("/*").filter(|path| path.starts_with(['/', '~'])).unwrap_or(&path);
    let parts: Vec<&str> = plain.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    let up = parts.iter().all(|part| *part == "..");
    let beside = parts.iter().skip_while(|part| **part == "..").collect::<Vec<_>>();
    let tree = matches!(beside[..], [&"tree" | &"*"]) && (above || parts.len() > 1);
    let hidden = matches!(parts.as_slice(), [".*" | ".?*" | ".[!.]*" | ".g*" | ".??*"]);
    let system =
        path.starts_with('/') && matches!(parts.as_slice(), ["work" | "home" | "root" | "*"]);
    !path.contains(HOLE)
        && !path.is_empty()
        && (up || tree || hidden || system || parts == ["~"] || is_git(&path))
}

pub(super) fn is_git(path: &str) -> bool {
    path.trim_end_matches(['/', '*'])
        .rsplit('/')
        .next()
        .is_some_and(|last| last.eq_ignore_ascii_case(".git"))
}

/// True if a path is one of those in `.git` that hold what snapshots hold.
pub(super) fn holds_work(path: &str) -> bool {
    let mut parts = path.split('/').skip_while(|part| !could_be(part)).skip(1);
    parts.next().is_some_and(|part| {
        HOLDS.iter().any(|held| part.eq_ignore_ascii_case(held) || could_spell(part, held))
    })
}

pub(super) fn unpacks(name: &str, simple: &PlainCommand) -> bool {
    let first = simple.shapes.get(1).map_or("", String::as_str);
    match name {
        "tar" => {
            let short = |word: &String| word.starts_with('-') && !word.starts_with("--");
            simple.shapes.iter().any(|w| matches!(w.as_str(), "--extract" | "--get"))
                || simple.shapes.iter().skip(1).any(|w| short(w) && w.contains('x'))
                || first.contains('x') && !first.contains('/') && !first.contains('.')
        }
        "unzip" => !simple.shapes.iter().any(|w| matches!(w.as_str(), "-l" | "-t" | "-v" | "-Z")),
        "7z" => matches!(first, "x" | "e"),
        _ => simple.shapes.iter().any(|w| w == "-i" || w == "--extract"),
    }
}
