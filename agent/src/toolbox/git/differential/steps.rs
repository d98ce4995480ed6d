//! Steps that are done in both copies: edits, and commands of Git.

use std::fmt;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

pub(super) const PATHS: [&str; 16] = [
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
pub(super) const FOLDERS: [&str; 7] =
    ["src", "docs", "new", "src/deep", "gen", "node_modules", "lib"];
/// A file that the tool does not commit while it is new.
pub(super) const HUGE: &str = "huge.bin";
const HUGE_BYTES: u64 = 5 * 1024 * 1024 + 1;
const TEXTS: [&str; 6] =
    ["", "one\n", "two\nlines\n", "with\r\nreturns\r\n", "no end", "mixed\r\nends\n"];
const IGNORED: [&str; 5] =
    ["gen/\n", "*.md\n!a.md\n", "/new\n", "gen/*\n!gen/kept\n", "*\n!src/\n"];
/// Targets of links: a file, a folder, the folder that they are in, and nothing.
const TARGETS: [&str; 4] = ["README", "src", ".", "nowhere"];
/// A submodule of the template, which a copy begins without.
const MODULE: &str = "lib";

/// A generator whose numbers are the same everywhere (`SplitMix64`).
pub(in super::super) struct Dice(pub(in super::super) u64);

impl Dice {
    pub(in super::super) fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % sides as u64).unwrap()
    }

    pub(super) fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.roll(from.len())]
    }
}

fn run(dir: &Path, args: &[&str]) -> Output {
    Command::new("git")
        .args(["-c", "protocol.file.allow=always"])
        .args(args)
        .current_dir(dir)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_SYSTEM", "/dev/null")
        .env("GIT_EDITOR", "true")
        // Without the samples of hooks there is less to copy.
        .env("GIT_TEMPLATE_DIR", "")
        .env("GIT_AUTHOR_DATE", "1700000000 +0000")
        .env("GIT_COMMITTER_DATE", "1700000000 +0000")
        .env("GIT_AUTHOR_NAME", "A")
        .env("GIT_AUTHOR_EMAIL", "a@example.org")
        .env("GIT_COMMITTER_NAME", "A")
        .env("GIT_COMMITTER_EMAIL", "a@example.org")
        .output()
        .unwrap()
}

/// Runs a command; true if it succeeded, with its output.
pub(super) fn git(dir: &Path, args: &[&str]) -> (bool, String) {
    let out = run(dir, args);
    let text = [out.stdout, out.stderr].concat();
    (out.status.success(), String::from_utf8_lossy(&text).into_owned())
}

/// Runs a command of Git; the error is what it said.
fn succeed(dir: &Path, args: &[&str]) -> Result<(), String> {
    let (done, said) = git(dir, args);
    if done { Ok(()) } else { Err(said) }
}

/// The output of a command that must not fail.
pub(super) fn made(dir: &Path, args: &[&str]) -> String {
    let out = run(dir, args);
    assert!(out.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8_lossy(&out.stdout).into_owned()
}

fn write(tree: &Path, path: &str, text: &[u8]) {
    make_room(tree, path);
    fs::write(tree.join(path), text).unwrap();
}

/// The repository that every sequence begins with: with a submodule, a branch that merges without a conflict and
/// one with. Its text is what the filter makes of it: else what `git status` says of a file that Git has just written
/// would depend on the clock.
pub(super) fn template(dir: &Path) -> PathBuf {
    let (tree, module) = (dir.join("template"), dir.join("module"));
    for new in [&tree, &module] {
        fs::create_dir_all(new).unwrap();
        made(new, &["init", "-q", "-b", "t"]);
    }
    for text in ["first\n", "second\n"] {
        write(&module, "inside", text.as_bytes());
        made(&module, &["add", "-A"]);
        made(&module, &["commit", "-qm", "Module"]);
    }
    let commit = |message: &str| {
        made(&tree, &["add", "-A"]);
        made(&tree, &["commit", "-qm", message]);
    };
    for path in PATHS.iter().take(12).filter(|path| !path.starts_with("new/")) {
        write(&tree, path, format!("{}\n", path.to_uppercase()).as_bytes());
    }
    made(&tree, &["submodule", "add", "-q", module.to_str().unwrap(), MODULE]);
    commit("First");
    made(&tree, &["checkout", "-q", "-b", "calm"]);
    write(&tree, "calm.txt", b"CALM\n");
    made(&tree, &["mv", "src/deep/x.rs", "src/deep/z.rs"]);
    commit("Calm");
    made(&tree, &["checkout", "-q", "-b", "other", "t"]);
    write(&tree, "a.txt", b"THEIRS\n");
    write(&tree, "new/one", b"THEIRS\n");
    remove(&tree.join("docs/b.md"));
    made(&tree, &["mv", "docs/a.md", "docs/c.md"]);
    fs::set_permissions(tree.join("README"), fs::Permissions::from_mode(0o755)).unwrap();
    commit("Other");
    made(&tree, &["checkout", "-q", "t"]);
    write(&tree, "a.txt", b"OURS\n");
    write(&tree, "docs/b.md", b"OURS\n");
    commit("Second");
    made(&tree, &["submodule", "deinit", "-q", "-f", MODULE]);
    made(&tree, &["repack", "-adq"]);
    tree
}

pub(super) fn copy(from: &Path, to: &Path) {
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

fn is_beyond_link(tree: &Path, path: &str) -> bool {
    tree.join(path).ancestors().skip(1).take(2).any(Path::is_symlink)
}

pub(super) enum Step {
    Write(String, Vec<u8>),
    Link(String, String),
    Mode(String, u32),
    Remove(String),
    Rename(String, String),
    Folder(String),
    Nested(String),
    /// A commit in the submodule, if that is there.
    InModule,
    /// The files in conflict are settled.
    Settle,
    Huge,
    Git(Vec<String>),
}

impl Step {
    pub(super) fn roll(dice: &mut Dice) -> Self {
        let path = dice.pick(&PATHS).to_owned();
        let folder = dice.pick(&FOLDERS).to_owned();
        match dice.roll(100) {
            0..=9 => Self::Write(path, dice.pick(&TEXTS).into()),
            10..=12 => Self::Write(path, to_wide(dice.pick(&TEXTS))),
            13 => Self::Write(folder, b"in place of a folder\n".to_vec()),
            14..=15 => Self::Link(path, dice.pick(&TARGETS).to_owned()),
            16 => Self::Link(folder, dice.pick(&TARGETS).to_owned()),
            17..=18 => Self::Mode(path, 0o755),
            19 => Self::Mode(path, 0o644),
            20..=21 => Self::Remove(path),
            22..=23 => Self::Remove(folder),
            24..=25 => Self::Rename(path, dice.pick(&PATHS).to_owned()),
            26 => Self::Rename(folder, "moved".to_owned()),
            27..=28 => Self::Rename(path.clone(), other_case(&path)),
            29..=30 => Self::Folder(path),
            31 => Self::Nested("nested".to_owned()),
            32..=33 => Self::Write(".gitignore".to_owned(), dice.pick(&IGNORED).into()),
            34..=35 => Self::Huge,
            36..=38 => Self::InModule,
            39..=41 => Self::Settle,
            42 => Self::Write(format!("{MODULE}/more"), b"more\n".to_vec()),
            number => Self::command(number, &path, &folder),
        }
    }

    fn command(number: usize, path: &str, folder: &str) -> Self {
        let upper = other_case(path);
        let args: &[&str] = match number {
            43 => &["rm", "-rq", "--cached", "--", folder],
            44 => &["add", "--", path],
            45 => &["add", "--", folder],
            46 => &["add", "-A"],
            47..=48 => &["add", "-N", "--", path],
            49 => &["rm", "-q", "--cached", "--", path],
            50 => &["rm", "-qf", "--", path],
            51 => &["mv", path, "moved"],
            52 => &["mv", path, &upper],
            53 => &["mv", folder, "elsewhere"],
            54..=55 => &["update-index", "--assume-unchanged", path],
            56..=57 => &["update-index", "--skip-worktree", path],
            58 => &["update-index", "--no-assume-unchanged", "--no-skip-worktree", path],
            59 => &["update-index", "--chmod=+x", path],
            60..=61 => &["sparse-checkout", "set", folder],
            62..=63 => &["sparse-checkout", "set", "--no-cone", "/*", "!docs", "*.rs"],
            64 => &["sparse-checkout", "disable"],
            65 => &["reset", "-q"],
            66 => &["reset", "-q", "--hard"],
            67 => &["reset", "-q", "--soft", "HEAD~1"],
            68..=69 => &["stash", "-q"],
            70 => &["stash", "-q", "-u"],
            71..=73 => &["stash", "pop", "-q"],
            74 => &["stash", "apply", "-q", "--index"],
            75..=76 => &["merge", "-q", "--no-commit", "--no-ff", "calm"],
            77 => &["merge", "-q", "--no-edit", "calm"],
            78..=79 => &["merge", "-q", "--no-edit", "other"],
            80 => &["merge", "-q", "--squash", "other"],
            81 => &["merge", "--abort"],
            82 => &["cherry-pick", "other"],
            83 => &["cherry-pick", "--abort"],
            84 => &["revert", "--no-edit", "HEAD"],
            85 => &["revert", "--no-commit", "HEAD"],
            86 => &["rebase", "-q", "calm"],
            96 => &["rebase", "--abort"],
            87..=89 => &["submodule", "update", "-q", "--init"],
            90 => &["submodule", "deinit", "-q", "-f", MODULE],
            91 => &["rm", "-q", "--cached", MODULE],
            92 => &["checkout", "-q", "other", "--", "docs"],
            93 => &["commit", "-qam", "By hand"],
            94 => &["clean", "-fdq"],
            95 => &["merge", "-q", "--autostash", "--no-commit", "--no-ff", "calm"],
            _ => &["checkout", "-q", "--", path],
        };
        Self::Git(args.iter().map(|arg| (*arg).to_owned()).collect())
    }

    /// Does it in one copy. Whether it worked has to be the same in both.
    pub(super) fn play(&self, tree: &Path) -> Result<(), String> {
        match self {
            Self::Write(path, text) => write(tree, path, text),
            Self::Link(path, target) => {
                make_room(tree, path);
                symlink(target, tree.join(path)).unwrap();
            }
            Self::Mode(path, mode) => {
                let path = tree.join(path);
                if path.symlink_metadata().is_ok_and(|meta| meta.is_file()) {
                    fs::set_permissions(path, fs::Permissions::from_mode(*mode)).unwrap();
                }
            }
            Self::Remove(path) => {
                if !is_beyond_link(tree, path) {
                    remove(&tree.join(path));
                }
            }
            Self::Rename(from, to) => {
                let is_there = tree.join(from).symlink_metadata().is_ok();
                if from != to && is_there && !is_beyond_link(tree, from) {
                    let aside = tree.join(".git/aside");
                    fs::rename(tree.join(from), &aside).unwrap();
                    make_room(tree, to);
                    fs::rename(aside, tree.join(to)).unwrap();
                }
            }
            Self::Folder(path) => write(tree, &format!("{path}/inside"), b"inside\n"),
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
            Self::InModule => {
                let module = tree.join(MODULE);
                if module.join(".git").is_file() {
                    return succeed(&module, &["commit", "-q", "--allow-empty", "-m", "More"]);
                }
            }
            Self::Settle => {
                let names = made(tree, &["diff", "--name-only", "-z", "--diff-filter=U"]);
                for path in names.split('\0').filter(|path| !path.is_empty()) {
                    write(tree, path, b"settled\n");
                }
            }
            Self::Huge => {
                make_room(tree, HUGE);
                fs::File::create(tree.join(HUGE)).unwrap().set_len(HUGE_BYTES).unwrap();
            }
            Self::Git(args) => {
                let args: Vec<&str> = args.iter().map(String::as_str).collect();
                return succeed(tree, &args);
            }
        }
        Ok(())
    }

    /// Returns true for a step that has Git take files for what they are not.
    pub(super) fn tells_git(&self) -> bool {
        matches!(self, Self::Git(args) if ["update-index", "sparse-checkout"].contains(&&*args[0]))
    }
}

/// UTF-16 with a byte order mark.
pub(super) fn to_wide(text: &str) -> Vec<u8> {
    let text = text.encode_utf16().flat_map(u16::to_le_bytes);
    [0xff, 0xfe].into_iter().chain(text).collect()
}

/// The same name in the other case.
fn other_case(path: &str) -> String {
    let swap = |c: char| {
        if c.is_ascii_uppercase() { c.to_ascii_lowercase() } else { c.to_ascii_uppercase() }
    };
    path.chars().map(swap).collect()
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Write(path, text) => {
                write!(f, "write {path} {:?}", String::from_utf8_lossy(text))
            }
            Self::Link(path, to) => write!(f, "link {path} to {to}"),
            Self::Mode(path, mode) => write!(f, "chmod {mode:o} {path}"),
            Self::Remove(path) => write!(f, "rm -r {path}"),
            Self::Rename(from, to) => write!(f, "mv {from} {to}"),
            Self::Folder(path) => write!(f, "folder {path}"),
            Self::Nested(path) => write!(f, "nested {path}"),
            Self::InModule => f.write_str("commit in the submodule"),
            Self::Settle => f.write_str("settle what is in conflict"),
            Self::Huge => write!(f, "write {HUGE}"),
            Self::Git(args) => write!(f, "git {}", args.join(" ")),
        }
    }
}
