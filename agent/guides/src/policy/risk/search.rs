//! Programs that look for files and do something to what they find.

use super::super::RiskVerdict;
use super::super::shell::{HOLE, PlainCommand, ShellWord, finds_repository};
use super::repository::harms_given;
use super::{CommandScene, files};

/// Actions behind which a command stands.
const RUNS: [&str; 8] =
    ["-exec", "-execdir", "-ok", "-okdir", "-x", "-X", "--exec", "--exec-batch"];
/// Programs that only read the files that they are given.
const COPIES: [&str; 6] = ["cp", "install", "ln", "tar", "zip", "rsync"];

pub(super) fn find_risk(
    name: &str,
    rest: &[ShellWord],
    simple: &PlainCommand,
    scene: &CommandScene<'_>,
) -> RiskVerdict {
    let mut worst = RiskVerdict::reads("it looks for files");
    let shapes = simple.shapes.get(1..).unwrap_or_default();
    let begins = shapes.iter().skip_while(|word| matches!(word.as_str(), "-H" | "-L" | "-P"));
    let mut starts = begins.take_while(|word| !word.starts_with('-'));
    let inside = starts.any(|path| files::is_git(path) || files::holds_work(path));
    for (at, word) in rest.iter().enumerate() {
        let all = |shapes: &[String]| inside || comes_to_repository(name, shapes, at);
        let found = match word.as_deref() {
            Some("-delete") if all(&with_known_start(shapes)) => RiskVerdict::leaves(
                "`find -delete` removes the repository itself, snapshots and all: leave out `.git`",
            ),
            Some("-delete") => RiskVerdict::loses("`find -delete` removes files"),
            Some(run) if RUNS.contains(&run) => {
                let words =
                    rest[at + 1..].iter().take_while(|w| !matches!(w.as_deref(), Some(";" | "+")));
                let words: Vec<ShellWord> = words.cloned().collect();
                let inner = simple.with_words(words.clone());
                let found = scene.inner_words(words, simple);
                if all(shapes) { judge_listed(found, &inner) } else { found }
            }
            Some("-fprint" | "-fprintf" | "-fls") => RiskVerdict::loses("find writes over a file"),
            _ => continue,
        };
        worst = worst.or(found);
        if worst.asks() {
            break;
        }
    }
    worst
}

/// Judges a command that is run on every file, those of the repository among them.
pub(super) fn judge_listed(found: RiskVerdict, inner: &PlainCommand) -> RiskVerdict {
    let name = inner.program().unwrap_or_default();
    let harms = harms_given(name, inner) || (found.loses && !COPIES.contains(&name));
    if harms && !found.asks() {
        let why = format!(
            "`{name}` is given all files, the repository itself and its snapshots among them: leave out `.git`"
        );
        return RiskVerdict { loses: found.loses, ..RiskVerdict::leaves(why) };
    }
    found
}

/// True if the action at a place is done to the repository, too.
fn comes_to_repository(name: &str, shapes: &[String], at: usize) -> bool {
    if name == "find" {
        return finds_repository(shapes, Some(at));
    }
    // `fd` skips hidden files by default.
    let own = shapes.get(..at).unwrap_or_default();
    let has = |options: &[&str]| own.iter().any(|word| options.contains(&word.as_str()));
    let plain: Vec<&str> =
        own.iter().map(String::as_str).filter(|word| !word.starts_with('-')).collect();
    has(&["-H", "--hidden", "-u", "-uu", "--unrestricted", "-HI", "-IH"])
        && !has(&["-e", "--extension", "-E", "--exclude", "-g", "--glob"])
        && matches!(plain[..], [] | ["." | ""])
}

/// A start that is only known when it runs is taken for the worktree.
fn with_known_start(shapes: &[String]) -> Vec<String> {
    let mut shapes = shapes.to_vec();
    for word in shapes.iter_mut().take_while(|word| !word.starts_with('-')) {
        if word.starts_with(HOLE) {
            ".".clone_into(word);
        }
    }
    shapes
}
