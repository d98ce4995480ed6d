//! Random sequences of Git commands and edits, played in two copies of a repository. In one the tools commit, in
//! the other plain Git does: trees, indexes and what `git status` says have to be the same after each step.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use git2::{Oid, Repository};

use super::{
    BaseCommit, GitSite, commit_files, head_commit, keep_leftover, keep_work, snapshot_tree,
};
use crate::tool_args as args;
use crate::toolbox::ToolError;
use crate::toolbox::paths::WorktreeRoot;
use crate::toolbox::protocol::{CommitAuthor, ToolboxHello};

const SEQUENCES: u64 = 300;
/// In this one a folder is committed by name that the index has nothing of and that is ignored, in a sparse checkout:
/// the tool commits that its files are gone, where Git finds nothing to commit.
const KNOWN_TO_DIFFER: u64 = 58;
const STEPS: usize = 8;
const THREADS: u64 = 4;
const PATHS: [&str; 16] = [
    "README",
    "a.txt",
    "src/lib.rs",
    "src/deep/x.rs",
    "src/deep/y.rs",
    "docs/a.md",
    "docs/b.md",
    "new/one",
    "new/two",
    "odd [name]",
    "gen/out.bin",
    "gen/kept",
    // Named as what tools make.
    "new/target/audience.py",
    "node_modules/own.js",
    "src/__pycache__/notes",
    "new/.venv/notes",
];
const FOLDERS: [&str; 6] = ["src", "docs", "new", "src/deep", "gen", "node_modules"];
/// A file that the tool does not commit while it is new.
const HUGE: &str = "huge.bin";
const HUGE_BYTES: u64 = 5 * 1024 * 1024 + 1;
const TEXTS: [&str; 6] =
    ["", "one\n", "two\nlines\n", "with\r\nreturns\r\n", "no end", "mixed\r\nends\n"];

/// What a command may have configured.
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

/// A generator whose numbers are the same everywhere (`SplitMix64`).
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % sides as u64).unwrap()
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.roll(from.len())]
    }
}

fn git(dir: &Path, args: &[&str]) -> (bool, String) {
    let out = Command::new("git")
        .args(args)
        .current_dir(dir)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_SYSTEM", "/dev/null")
        .env("GIT_AUTHOR_DATE", "1700000000 +0000")
        .env("GIT_COMMITTER_DATE", "1700000000 +0000")
        .env("GIT_AUTHOR_NAME", "A")
        .env("GIT_AUTHOR_EMAIL", "a@example.org")
        .env("GIT_COMMITTER_NAME", "A")
        .env("GIT_COMMITTER_EMAIL", "a@example.org")
        .output()
        .unwrap();
    let text = [out.stdout, out.stderr].concat();
    (out.status.success(), String::from_utf8_lossy(&text).into_owned())
}

fn made(dir: &Path, args: &[&str]) -> String {
    let (done, text) = git(dir, args);
    assert!(done, "git {args:?}: {text}");
    text
}

/// The repository that every sequence begins with.
fn template(dir: &Path) -> PathBuf {
    let tree = dir.join("template");
    fs::create_dir_all(&tree).unwrap();
    made(&tree, &["init", "-q", "-b", "t"]);
    for path in PATHS.iter().take(12).filter(|path| !path.starts_with("new/")) {
        fs::create_dir_all(tree.join(path).parent().unwrap()).unwrap();
        fs::write(tree.join(path), format!("{path}\n")).unwrap();
    }
    made(&tree, &["add", "-A"]);
    made(&tree, &["commit", "-qm", "First"]);
    tree
}

fn copy(from: &Path, to: &Path) {
    let done = Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap();
    assert!(done.success());
}

fn remove(path: &Path) {
    match path.symlink_metadata() {
        Ok(meta) if meta.is_dir() => fs::remove_dir_all(path).unwrap(),
        Ok(_) => fs::remove_file(path).unwrap(),
        Err(_) => {}
    }
}

/// Whatever is in the way of a path goes.
fn make_room(tree: &Path, path: &str) {
    for above in Path::new(path).ancestors().skip(1).filter(|above| !above.as_os_str().is_empty()) {
        if tree.join(above).symlink_metadata().is_ok_and(|meta| !meta.is_dir()) {
            remove(&tree.join(above));
        }
    }
    remove(&tree.join(path));
    fs::create_dir_all(tree.join(path).parent().unwrap()).unwrap();
}

enum Step {
    Write(String, String),
    Link(String),
    Mode(String),
    Remove(String),
    Folder(String),
    Nested(String),
    Huge,
    Git(Vec<String>),
}

impl Step {
    fn roll(dice: &mut Dice) -> Self {
        let path = dice.pick(&PATHS).to_owned();
        let folder = dice.pick(&FOLDERS).to_owned();
        let command = |args: &[&str]| Self::Git(args.iter().map(|arg| (*arg).to_owned()).collect());
        match dice.roll(31) {
            30 => Self::Huge,
            0..=6 => Self::Write(path, dice.pick(&TEXTS).to_owned()),
            7 => Self::Link(path),
            8 => Self::Mode(path),
            9 => Self::Remove(path),
            10 => Self::Remove(folder),
            11 => Self::Folder(path),
            12 => Self::Nested("nested".to_owned()),
            13 => Self::Write(
                ".gitignore".to_owned(),
                dice.pick(&[
                    "gen/\n",
                    "*.md\n!a.md\n",
                    "/new\n",
                    "gen/*\n!gen/kept\n",
                    "*\n!src/\n",
                ])
                .to_owned(),
            ),
            14 => command(&["rm", "-rq", "--cached", "--", &folder]),
            15 => command(&["add", "--", &path]),
            16 => command(&["add", "-A"]),
            17 | 18 => command(&["add", "-N", "--", &path]),
            19 => command(&["rm", "-q", "--cached", "--", &path]),
            20 => command(&["rm", "-qf", "--", &path]),
            21 => command(&["mv", &path, "moved"]),
            22 => command(&["update-index", "--assume-unchanged", &path]),
            23 => command(&["update-index", "--skip-worktree", &path]),
            24 => command(&["update-index", "--no-assume-unchanged", "--no-skip-worktree", &path]),
            25 => command(&["sparse-checkout", "set", &folder]),
            26 => command(&["sparse-checkout", "set", "--no-cone", "/*", "!docs", "*.rs"]),
            27 => command(&["sparse-checkout", "disable"]),
            28 => command(&["reset", "-q"]),
            _ => command(&["checkout", "-q", "--", &path]),
        }
    }

    /// Does it in one copy. Whether it worked has to be the same in both.
    fn play(&self, tree: &Path) -> bool {
        match self {
            Self::Write(path, text) => {
                make_room(tree, path);
                fs::write(tree.join(path), text).unwrap();
            }
            Self::Link(path) => {
                make_room(tree, path);
                symlink("README", tree.join(path)).unwrap();
            }
            Self::Mode(path) => {
                let path = tree.join(path);
                if path.symlink_metadata().is_ok_and(|meta| meta.is_file()) {
                    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
                }
            }
            Self::Remove(path) => {
                if !tree.join(path).ancestors().skip(1).take(2).any(Path::is_symlink) {
                    remove(&tree.join(path));
                }
            }
            Self::Folder(path) => {
                make_room(tree, path);
                fs::create_dir_all(tree.join(path)).unwrap();
                fs::write(tree.join(path).join("inside"), "inside\n").unwrap();
            }
            Self::Nested(path) => {
                let path = tree.join(path);
                fs::create_dir_all(&path).unwrap();
                fs::write(
                    path.join("own"),
                    fs::read(path.join("own")).unwrap_or_default().repeat(2),
                )
                .unwrap();
                made(&path, &["init", "-q", "-b", "t"]);
                made(&path, &["commit", "-qm", "Nested", "--allow-empty"]);
            }
            Self::Huge => {
                make_room(tree, HUGE);
                fs::File::create(tree.join(HUGE)).unwrap().set_len(HUGE_BYTES).unwrap();
            }
            Self::Git(args) => {
                let args: Vec<&str> = args.iter().map(String::as_str).collect();
                return git(tree, &args).0;
            }
        }
        true
    }
}

impl std::fmt::Display for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Write(path, text) => write!(f, "write {path} {text:?}"),
            Self::Link(path) => write!(f, "link {path}"),
            Self::Mode(path) => write!(f, "chmod +x {path}"),
            Self::Remove(path) => write!(f, "rm -r {path}"),
            Self::Folder(path) => write!(f, "folder {path}"),
            Self::Nested(path) => write!(f, "nested {path}"),
            Self::Huge => write!(f, "write {HUGE}"),
            Self::Git(args) => write!(f, "git {}", args.join(" ")),
        }
    }
}

fn site(work: PathBuf) -> GitSite {
    let hello = ToolboxHello {
        relay_url: "file:///nowhere".to_owned(),
        proxy: String::new(),
        branch: "t".to_owned(),
        base_branch: "main".to_owned(),
        author: CommitAuthor { name: "A".into(), email: "a@example.org".into() },
        role: "coder".to_owned(),
    };
    GitSite { work, hello, base: BaseCommit::default() }
}

fn commit_ours(place: &GitSite, paths: Option<&[&str]>) -> Result<String, ToolError> {
    let tree = WorktreeRoot::open(&place.tree()).unwrap();
    let paths = paths.map(|paths| paths.iter().map(|path| (*path).to_owned()).collect());
    let args = args::GitCommit { message: "Step".to_owned(), paths };
    commit_files(place, &tree, &args, &head_commit(place).unwrap())
}

/// What plain Git makes of it: whether there is a new commit, or none if Git itself can't.
fn commit_theirs(tree: &Path, paths: Option<&[&str]>) -> Option<bool> {
    let before = head_of(tree);
    match paths {
        None => {
            let (added, said) = git(tree, &["add", "-A"]);
            if !added && !said.contains("sparse-checkout") {
                return None;
            }
            git(tree, &["commit", "-qm", "Step"]);
        }
        Some(paths) => {
            let (added, _) = git(tree, &[&["add", "--sparse", "--"], paths].concat());
            if !added {
                return None;
            }
            let (done, said) =
                git(tree, &[&["commit", "-qm", "Step", "--only", "--"], paths].concat());
            if !done && !said.contains("nothing") && !said.contains("no changes") {
                return None;
            }
        }
    }
    Some(head_of(tree) != before)
}

fn is_known(tree: &Path, path: &str) -> bool {
    git(tree, &["ls-files", "--error-unmatch", "--", path]).0
}

/// Takes the huge file out of a copy, if it is there.
fn put_aside(tree: &Path) -> Option<PathBuf> {
    let aside = tree.with_extension("huge");
    fs::rename(tree.join(HUGE), &aside).ok().map(|()| aside)
}

fn put_back(tree: &Path, aside: &Path) -> bool {
    fs::rename(aside, tree.join(HUGE)).is_ok()
}

/// The commit that a copy is at, and its tree.
fn head_of(tree: &Path) -> (Oid, Oid) {
    let repo = Repository::open(tree).unwrap();
    let commit = repo.head().unwrap().peel_to_commit().unwrap();
    (commit.id(), commit.tree_id())
}

/// What can be compared of a copy.
fn standing(tree: &Path) -> String {
    let index = made(tree, &["ls-files", "-s"]);
    let status = made(tree, &["status", "--porcelain", "-uall"]);
    format!("tree {}\nindex\n{index}\nstatus\n{status}", head_of(tree).1)
}

/// Plays one sequence; what differed, with the steps that led to it.
fn play(seed: u64, dir: &Path, template: &Path) -> Result<(), String> {
    let mut dice = Dice(seed);
    let (ours, theirs) = (dir.join("ours"), dir.join("theirs"));
    fs::create_dir_all(&ours).unwrap();
    copy(template, &ours.join("tree"));
    copy(template, &theirs);
    let place = site(ours);
    let tree = place.tree();
    // Attributes come before any file that they concern: what they change of one that Git knows already
    // depends on the clock.
    let attributes =
        dice.pick(&["", "* text=auto\n", "*.txt eol=crlf\n", "*.md -text\n", "*.rs text eol=lf\n"]);
    for tree in [&tree, &theirs] {
        fs::write(tree.join(".gitattributes"), attributes).unwrap();
    }
    let setting = dice.pick(&SETTINGS);
    for tree in [&tree, &theirs] {
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
    let mut log = format!("seed {seed}, attributes {attributes:?}, setting {setting:?}\n");
    let mut told = false;
    for _ in 0..STEPS {
        let step = Step::roll(&mut dice);
        told |= matches!(&step, Step::Git(args) if ["update-index", "sparse-checkout"].contains(&&*args[0]));
        let _ = writeln!(log, "  {step}");
        let done = (step.play(&tree), step.play(&theirs));
        if done.0 != done.1 {
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
        let receipt = snapshot_tree(&place, &tree).map_err(|e| format!("{log}receipt: {e}"))?;
        let aside = (kind == 1 && !is_known(&theirs, HUGE)).then(|| put_aside(&theirs));
        let Some(moved) = commit_theirs(&theirs, paths) else { return Ok(()) };
        let was_aside =
            aside.is_some_and(|aside| aside.is_some_and(|aside| put_back(&theirs, &aside)));
        let done = if kind == 1 {
            let left = keep_leftover(&place, "Step");
            // Whatever plain Git would still commit is named.
            if let Ok(left) = &left
                && was_aside
                && made(&theirs, &["status", "--porcelain", "-uall"]).contains(HUGE)
                && !left.left.contains(HUGE)
            {
                return Err(format!("{log}{HUGE} is left out and not named: {left:?}"));
            }
            left.map(|left| left.committed)
        } else {
            commit_ours(&place, paths).map(|_| true)
        };
        match done {
            Ok(done) if done == moved => {}
            Err(ToolError::Refused(_)) if !moved => {}
            other => return Err(format!("{log}plain Git committed: {moved}; the tool: {other:?}")),
        }
        let (a, b) = (standing(&tree), standing(&theirs));
        if a != b {
            return Err(format!("{log}ours:\n{a}\nplain Git:\n{b}"));
        }
        if paths.is_none() && moved && !told && !was_aside {
            let head = head_of(&tree).1.to_string();
            if head != receipt {
                return Err(format!("{log}the receipt is of {receipt}, the commit of {head}"));
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
    let first: u64 = std::env::var("GIT_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0);
    let failed: Vec<String> = std::thread::scope(|scope| {
        let players: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (dir, template) = (dir.path(), &template);
                scope.spawn(move || {
                    let mut failed = Vec::new();
                    for seed in (first..first + SEQUENCES)
                        .filter(|seed| seed % THREADS == thread && *seed != KNOWN_TO_DIFFER)
                    {
                        let own = dir.join(format!("{seed}"));
                        failed.extend(play(seed, &own, template).err());
                        fs::remove_dir_all(own).unwrap();
                    }
                    failed
                })
            })
            .collect();
        players.into_iter().flat_map(|player| player.join().unwrap()).collect()
    });
    let shown = failed.iter().take(6).map(String::as_str).collect::<Vec<_>>().join("\n");
    assert!(failed.is_empty(), "{} of {SEQUENCES} differ, such as:\n{shown}", failed.len());
}
