//! Random sequences of Git commands and edits, played in two copies of a repository. In one the tools commit, in
//! the other plain Git does: trees, indexes and what `git status` says have to be the same after each step.

mod steps;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use git2::{Oid, Repository};

use super::{
    BaseCommit, GitSite, ToldHooks, commit_files, head_commit, keep_leftover, keep_work,
    snapshot_tree,
};
use crate::tool_args as args;
use crate::toolbox::ToolError;
use crate::toolbox::paths::WorktreeRoot;
use crate::toolbox::protocol::{CommitAuthor, ToolboxHello};
pub(super) use steps::Dice;
use steps::{FOLDERS, HUGE, PATHS, Step, copy, git, made, template, to_wide};

const SEQUENCES: u64 = 300;
const STEPS: usize = 8;
const THREADS: u64 = 4;

/// Settings that a command may have configured.
const SETTINGS: [&str; 8] = [
    "",
    "",
    "core.autocrlf=true",
    "core.autocrlf=input",
    "core.fileMode=false",
    "core.eol=crlf",
    "core.excludesFile=*.md\ngen/\n",
    "core.attributesFile=/nowhere",
];

/// Contents of `.gitattributes`.
const ATTRIBUTES: [&str; 9] = [
    "",
    "",
    "* text=auto\n",
    "*.txt eol=crlf\n",
    "*.md -text\n",
    "*.rs text eol=lf\n",
    "*.md working-tree-encoding=UTF-16LE-BOM\n",
    "*.md text eol=crlf working-tree-encoding=UTF-16LE-BOM\n*.rs text=auto\n",
    "*.txt filter=upper\n",
];

/// Plain Git commits here, and the tools refuse with these words, on purpose.
const REFUSALS: [(&str, &str); 7] = [
    (
        "can't be converted from that",
        "text in another encoding than it is said to be in would be garbled",
    ),
    (
        "is in progress",
        "a cherry-pick, revert or rebase is ended by who began it, with its own message",
    ),
    ("holds both sides", "no marker of a conflict is committed"),
    ("HEAD is on", "work goes on the thread's branch alone"),
    ("in conflict", "nobody has settled the files yet"),
    ("which is not run here", "a filter is a program of the repository's"),
    ("set aside", "plain Git ends such a merge by putting changes back, and may fail with that"),
];

fn site(work: PathBuf) -> GitSite {
    let hello = ToolboxHello {
        relay_url: "file:///nowhere".to_owned(),
        proxy: String::new(),
        branch: "t".to_owned(),
        base_branch: "main".to_owned(),
        sparse: Vec::new(),
        author: CommitAuthor { name: "A".into(), email: "a@example.org".into() },
        role: "coder".to_owned(),
    };
    GitSite { work, hello, base: BaseCommit::default(), hooks: ToldHooks::default() }
}

/// Commits with our tools. True if there is a new commit, with the answer. `is_leftover`: as a run's work in progress
/// is committed.
fn commit_ours(
    place: &GitSite,
    is_leftover: bool,
    paths: Option<&[&str]>,
) -> (Result<bool, ToolError>, String) {
    let done = if is_leftover {
        keep_leftover(place, "Step").map(|left| (left.committed, left.left))
    } else {
        call_commit(place, paths).map(|said| (true, said))
    };
    match done {
        Ok((moved, said)) => (Ok(moved), said),
        Err(error) => (Err(error), String::new()),
    }
}

fn call_commit(place: &GitSite, paths: Option<&[&str]>) -> Result<String, ToolError> {
    let tree = WorktreeRoot::open(&place.tree()).unwrap();
    let paths = paths.map(|paths| paths.iter().map(|path| (*path).to_owned()).collect());
    let args = args::GitCommit { message: "Step".to_owned(), paths };
    commit_files(place, &tree, &args, &head_commit(place)?)
}

/// Commits with plain Git. True if there is a new commit; its error where it refuses. `filtered` are files that
/// the tool leaves as they are.
fn commit_theirs(tree: &Path, paths: Option<&[&str]>, filtered: &[String]) -> Result<bool, String> {
    let before = head_of(tree).0;
    let except: Vec<String> =
        filtered.iter().map(|path| format!(":(exclude,literal){path}")).collect();
    let except: Vec<&str> = except.iter().map(String::as_str).collect();
    let (add, commit): (Vec<&str>, Vec<&str>) = match paths {
        None if except.is_empty() => (vec!["add", "-A"], vec!["commit", "-qm", "Step"]),
        None => ([&["add", "-A", "--", "."], &*except].concat(), vec!["commit", "-qm", "Step"]),
        Some(paths) => (
            [&["add", "--sparse", "--"], paths, &except].concat(),
            [&["commit", "-qm", "Step", "--only", "--"], paths, &except].concat(),
        ),
    };
    let (added, said) = git(tree, &add);
    let left_sparse = paths.is_none() && said.contains("sparse-checkout");
    if !added && !left_sparse {
        return Err(said);
    }
    let (done, said) = git(tree, &commit);
    if !done && !is_nothing(&said) {
        return Err(said);
    }
    Ok(head_of(tree).0 != before)
}

fn is_nothing(said: &str) -> bool {
    said.contains("nothing") || said.contains("no changes")
}

/// Files that the tool leaves as they are: a filter would have to convert them, or they are not in the encoding that
/// they are said to be in.
fn unconvertible_files(tree: &Path, attributes: &str) -> Vec<String> {
    if !["filter=", "UTF-16"].iter().any(|kind| attributes.contains(kind)) {
        return Vec::new();
    }
    let names = made(tree, &["ls-files", "-z", "--cached", "--others"]);
    let names: Vec<&str> = names.split('\0').filter(|name| !name.is_empty()).collect();
    let asked = ["check-attr", "-z", "filter", "working-tree-encoding", "--"];
    let said = made(tree, &[&asked, &*names].concat());
    let fields: Vec<&str> = said.split('\0').collect();
    let found = fields.chunks_exact(3).filter(|line| {
        let path = tree.join(line[0]);
        let is_file = path.symlink_metadata().is_ok_and(|meta| meta.is_file());
        is_file && (line[2] == "upper" || line[2].starts_with("UTF-16") && !is_wide(&path))
    });
    found.map(|line| line[0].to_owned()).collect()
}

fn is_wide(path: &Path) -> bool {
    let bytes = fs::read(path).unwrap();
    bytes.is_empty() || bytes.starts_with(&to_wide(""))
}

/// Files that a commit of work in progress leaves out and names: the huge file, and repositories of their own, if Git
/// was not told of them.
fn left_out(tree: &Path) -> Vec<String> {
    let names = made(tree, &["ls-files", "-z", "--others", "--exclude-standard"]);
    let left = names.split('\0').filter(|name| *name == HUGE || name.ends_with('/'));
    left.map(|name| name.trim_end_matches('/').to_owned()).collect()
}

/// Takes what is left out of a copy.
fn put_aside(tree: &Path, paths: &[String]) {
    let aside = tree.with_extension("aside");
    fs::create_dir_all(&aside).unwrap();
    for (at, path) in paths.iter().enumerate() {
        fs::rename(tree.join(path), aside.join(at.to_string())).unwrap();
    }
}

fn put_back(tree: &Path, paths: &[String]) {
    let aside = tree.with_extension("aside");
    for (at, path) in paths.iter().enumerate() {
        let path = tree.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::rename(aside.join(at.to_string()), path).unwrap();
    }
}

/// The commit that a copy is at, and its tree.
fn head_of(tree: &Path) -> (Oid, Oid) {
    let repo = Repository::open(tree).unwrap();
    let commit = repo.head().unwrap().peel_to_commit().unwrap();
    (commit.id(), commit.tree_id())
}

/// State of a copy as text, for comparison.
fn standing(tree: &Path) -> String {
    let index = made(tree, &["ls-files", "-s", "-v"]);
    let status = made(tree, &["status", "--porcelain", "-uall"]);
    let repo = Repository::open(tree).unwrap();
    let commit = repo.head().unwrap().peel_to_commit().unwrap();
    let (head, parents) = (commit.tree_id(), commit.parent_count());
    let merges = tree.join(".git/MERGE_HEAD").exists();
    format!("tree {head}, {parents} parents, merges: {merges}\nindex\n{index}\nstatus\n{status}")
}

/// Gives a copy one of the attributes and one of the settings.
fn configure(tree: &Path, attributes: &str, setting: &str) {
    fs::write(tree.join(".gitattributes"), attributes).unwrap();
    if attributes.contains("UTF-16") {
        // Git converts a file that is not in the encoding that its attribute names to something else, so these are.
        for path in ["docs/a.md", "docs/b.md"] {
            let text = fs::read_to_string(tree.join(path)).unwrap();
            fs::write(tree.join(path), to_wide(&text)).unwrap();
            // Git reads a file again that is no older than its index, by the second. Once a rebase has taken the
            // attributes away, that is a change: in one copy only, where a second ends between both.
            let file = fs::File::options().write(true).open(tree.join(path)).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_mins(1)).unwrap();
        }
    }
    if attributes.contains("filter=") {
        made(tree, &["config", "filter.upper.clean", "tr a-z A-Z"]);
        made(tree, &["config", "filter.upper.smudge", "tr A-Z a-z"]);
    }
    match setting.split_once('=') {
        Some(("core.excludesFile", patterns)) => {
            let list = tree.join(".git/own-excludes");
            fs::write(&list, patterns).unwrap();
            made(tree, &["config", "core.excludesFile", list.to_str().unwrap()]);
        }
        Some((key, value)) => drop(made(tree, &["config", key, value])),
        None => {}
    }
}

/// Counts of events, by their reason.
type Tally = BTreeMap<&'static str, usize>;

/// Plays one sequence; what differed, with the steps that led to it.
fn play(seed: u64, dir: &Path, template: &Path, tally: &mut Tally) -> Result<(), String> {
    let mut dice = Dice(seed);
    let (ours, theirs) = (dir.join("ours"), dir.join("theirs"));
    fs::create_dir_all(&ours).unwrap();
    copy(template, &ours.join("tree"));
    copy(template, &theirs);
    let place = site(ours);
    let tree = place.tree();
    // Attributes come before any file that they concern: what they change of one that Git knows already
    // depends on the clock.
    let (attributes, setting) = (dice.pick(&ATTRIBUTES), dice.pick(&SETTINGS));
    configure(&tree, attributes, setting);
    configure(&theirs, attributes, setting);
    let mut log = format!("seed {seed}, attributes {attributes:?}, setting {setting:?}\n");
    let mut told = false;
    for _ in 0..STEPS {
        let step = Step::roll(&mut dice);
        told |= step.tells_git();
        let _ = writeln!(log, "  {step}");
        let done = (step.play(&tree), step.play(&theirs));
        if done.0.is_ok() != done.1.is_ok() {
            return Err(format!("{log}worked in one copy only: {done:?}"));
        }
        if dice.roll(4) > 0 {
            continue;
        }
        let named = [dice.pick(&PATHS), dice.pick(&FOLDERS)];
        let kind = dice.roll(4);
        let paths = (kind > 1).then(|| if kind == 2 { &named[..1] } else { &named[1..] });
        let _ = writeln!(log, "  commit {paths:?} (kind {kind})");
        if dice.roll(3) == 0 {
            let before = standing(&tree);
            keep_work(&place).map_err(|e| format!("{log}snapshot: {e}"))?;
            let after = standing(&tree);
            if before != after {
                return Err(format!("{log}before a snapshot:\n{before}\nbehind it:\n{after}"));
            }
        }
        let receipt = snapshot_tree(&place, &tree).map_err(|e| format!("{log}tested tree: {e}"))?;
        let filtered = unconvertible_files(&tree, attributes);
        let aside = if kind == 1 { left_out(&theirs) } else { Vec::new() };
        put_aside(&theirs, &aside);
        let (done, said) = commit_ours(&place, kind == 1, paths);
        if let Err(ToolError::Refused(why)) = &done
            && let Some((_, reason)) = REFUSALS.iter().find(|(words, _)| why.contains(words))
        {
            put_back(&theirs, &aside);
            let (after, before) = (standing(&tree), standing(&theirs));
            if before != after {
                return Err(format!("{log}refused ({why}) and changed:\n{before}\nto:\n{after}"));
            }
            *tally.entry(reason).or_default() += 1;
            continue;
        }
        let theirs_done = commit_theirs(&theirs, paths, &filtered);
        put_back(&theirs, &aside);
        let moved = match theirs_done {
            Ok(moved) => moved,
            // Git itself can't: the tool may say the same, or do what it can. It goes on from there.
            Err(why) => {
                if let Err(ToolError::Failed(error)) = done {
                    return Err(format!("{log}plain Git: {why}; the tool broke: {error}"));
                }
                fs::remove_dir_all(&theirs).unwrap();
                copy(&tree, &theirs);
                // Else what the index remembers of files is another in the copy.
                let (a, b) = (standing(&tree), standing(&theirs));
                assert_eq!(a, b, "{log}a copy is another");
                *tally.entry("plain Git can't").or_default() += 1;
                continue;
            }
        };
        // Whatever plain Git would still commit is named.
        let status = made(&theirs, &["status", "--porcelain", "-uall"]);
        let missed =
            |path: &&String| status.contains(path.as_str()) && !said.contains(path.as_str());
        if done.is_ok()
            && let Some(path) = aside.iter().find(missed)
        {
            return Err(format!("{log}{path} is left out and not named: {said}"));
        }
        match done {
            Ok(done) if done == moved => {}
            Err(ToolError::Refused(_)) if !moved => {}
            other => return Err(format!("{log}plain Git committed: {moved}; the tool: {other:?}")),
        }
        let (a, b) = (standing(&tree), standing(&theirs));
        if a != b {
            return Err(format!("{log}ours:\n{a}\nplain Git:\n{b}"));
        }
        *tally.entry(if moved { "the same commit" } else { "nothing to commit" }).or_default() += 1;
        if paths.is_none() && moved && !told && aside.is_empty() && filtered.is_empty() {
            let head = head_of(&tree).1.to_string();
            if head != receipt {
                return Err(format!("{log}tested is {receipt}, committed {head}"));
            }
        }
    }
    Ok(())
}

#[test]
fn whatever_was_done_with_git_a_commit_holds_what_plain_git_would_commit() {
    super::init_libgit();
    let dir = tempfile::tempdir().unwrap();
    let template = template(dir.path());
    let number = |name: &str, usual: u64| {
        std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(usual)
    };
    let first = number("GIT_SEED", 0);
    let last = first + number("GIT_SEQUENCES", SEQUENCES);
    let played: Vec<(Vec<String>, Tally)> = std::thread::scope(|scope| {
        let players: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (dir, template) = (dir.path(), &template);
                scope.spawn(move || {
                    let (mut failed, mut tally) = (Vec::new(), Tally::new());
                    for seed in (first..last).filter(|seed| seed % THREADS == thread) {
                        let own = dir.join(format!("{seed}"));
                        let played = catch_unwind(AssertUnwindSafe(|| {
                            play(seed, &own, template, &mut tally)
                        }));
                        failed.extend(match played {
                            Ok(played) => played.err(),
                            Err(_) => Some(format!("seed {seed}: a panic, as told above")),
                        });
                        fs::remove_dir_all(own).unwrap();
                    }
                    (failed, tally)
                })
            })
            .collect();
        players.into_iter().map(|player| player.join().unwrap()).collect()
    });
    let mut tally = Tally::new();
    for (reason, times) in played.iter().flat_map(|(_, tally)| tally) {
        *tally.entry(reason).or_default() += times;
    }
    let failed: Vec<&String> = played.iter().flat_map(|(failed, _)| failed).collect();
    let shown = failed.iter().take(6).map(|one| one.as_str()).collect::<Vec<_>>().join("\n");
    assert!(
        failed.is_empty(),
        "{} of {} differ ({tally:?}), such as:\n{shown}",
        failed.len(),
        last - first
    );
    // Of what is compared, most has to be commits.
    assert!(
        last - first < SEQUENCES || tally["the same commit"] > 150,
        "the sequences compare too little: {tally:?}"
    );
}
