//! Grep and Glob, with the libraries of ripgrep: `.gitignore` is respected, `.git` never entered,
//! symlinks not followed.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::SystemTime;

use ignore::WalkState;

use super::ToolError;
use super::file_walk::{self, build_walker, list_tracked, walk_files, walk_ignored};
use super::names::{self, escape_name, fold_name};
use super::outside;
use super::paths::WorktreeRoot;
use crate::tool_args as args;
use glob::PathPattern;

mod glob;
mod grep;
mod matched;

pub(super) use grep::grep_files;

/// Paths that one Glob answers with.
const MAX_PATHS: usize = 500;
/// Most ignored files that are searched where no other file matches.
const IGNORED: usize = 20_000;
/// Most look-alike names that are spelt out with escapes.
const SPELT: usize = 5;

/// Files whose path matches, by path.
pub(super) fn find_files(tree: &WorktreeRoot, args: &args::GlobArgs) -> Result<String, ToolError> {
    let glob = PathPattern::new(&args.pattern)?;
    let asked = args.path.as_deref();
    let (at, alike) = names::locate_existing(tree, asked.unwrap_or("."))?;
    if !at.full.is_dir() {
        let outside = outside::explain_outside(tree, &at);
        let other = || ToolError::refused(format!("`{}` is not a folder", at.shown));
        return Err(outside.unwrap_or_else(other));
    }
    if args.list == Some(true) {
        return Ok(list_folder(tree, &at.full));
    }
    let inside = at.full.strip_prefix(tree.root()).unwrap_or(Path::new("")).to_owned();
    let found = Mutex::new(Vec::<PathBuf>::new());
    let take = |(): &mut (), relative: &Path| {
        if glob.is_match(&inside, relative)
            && let Ok(mut found) = found.lock()
        {
            found.push(relative.to_owned());
        }
        WalkState::Continue
    };
    let walked = walk_files(tree, &at.full, true, &(), take);
    let mut notes: Vec<String> = alike.into_iter().collect();
    let mut outside = outside::list_outside(tree, &at.full);
    outside.retain(|path| glob.is_match(&inside, path));
    let outside = outside::outside_match_note(&outside);
    if found.lock().is_ok_and(|found| found.is_empty()) {
        let ignored = walk_ignored(tree, &at.full, (true, IGNORED), &walked, &(), take).first;
        let matched = found.lock().is_ok_and(|found| !found.is_empty());
        match (ignored, &glob.wrong) {
            (Some(_), _) if matched => {
                notes.push("(ignore files name these, and Git does not track them)".to_owned());
            }
            (_, Some(why)) => return Err(ToolError::refused(why.clone())),
            _ => {
                notes.insert(0, "no file matches".to_owned());
                notes.extend(outside.into_iter().chain(walked.note()));
                return Ok(notes.join("\n"));
            }
        }
    }
    let mut found = found.into_inner().unwrap_or_default();
    found.sort();
    if args.newest == Some(true) {
        found.sort_by_cached_key(|path| Reverse(modified_time(&tree.root().join(path))));
    }
    let total = found.len();
    let shown = found.iter().take(MAX_PATHS).map(|path| path.to_string_lossy().into_owned());
    let shown: Vec<String> = shown.collect();
    notes.extend(spell_names(&shown));
    notes.extend(outside.into_iter().chain(walked.note()));
    let mut text = joined_paths(&shown, total);
    for note in notes {
        text.push('\n');
        text.push_str(&note);
    }
    Ok(text)
}

/// Spells out names that can be taken for others, with escapes.
fn spell_names(paths: &[String]) -> Option<String> {
    let odd = paths.iter().filter(|path| is_deceptive(path));
    let spelt: Vec<String> =
        odd.take(SPELT).map(|path| format!("\"{}\"", escape_name(path))).collect();
    (!spelt.is_empty()).then(|| format!("(look like other names: {})", spelt.join(", ")))
}

/// Returns true if a name has characters that look like those of a keyboard, or accents apart from their letters.
fn is_deceptive(name: &str) -> bool {
    !name.is_ascii() && fold_name(name) != name
}

fn joined_paths(shown: &[String], total: usize) -> String {
    let more = if total > shown.len() {
        format!("\n({MAX_PATHS} of {total} files shown: narrow `pattern` or `path`)")
    } else {
        String::new()
    };
    format!("{}{more}", shown.join("\n"))
}

/// Lists the entries of a folder, folders with a slash behind them.
fn list_folder(tree: &WorktreeRoot, folder: &Path) -> String {
    if let Some(odd) = file_walk::explain_odd(tree, folder) {
        return odd;
    }
    let entries =
        build_walker(folder).max_depth(Some(1)).build().flatten().filter(|e| e.depth() == 1);
    let show = |path: &Path| {
        let shown = path.strip_prefix(tree.root()).ok()?.to_string_lossy().into_owned();
        let is_folder = path.symlink_metadata().is_ok_and(|meta| meta.is_dir());
        Some(shown + if is_folder { "/" } else { "" })
    };
    let mut names: BTreeSet<String> = entries.filter_map(|entry| show(entry.path())).collect();
    for path in list_tracked(tree, folder) {
        let below = tree.root().join(&path);
        let first = below.strip_prefix(folder).ok().and_then(|rest| rest.components().next());
        let there = first.map(|first| folder.join(first)).filter(|p| p.symlink_metadata().is_ok());
        names.extend(there.and_then(|path| show(&path)));
    }
    let all = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let all = all.filter(|entry| !entry.file_name().eq_ignore_ascii_case(".git")).count();
    let left = all.saturating_sub(names.len());
    let outside = outside::outside_note(&outside::list_outside(tree, folder));
    if names.is_empty() {
        let empty = "the folder is empty, or .gitignore names all that is in it";
        return outside.map_or_else(|| empty.to_owned(), |outside| format!("{empty}\n{outside}"));
    }
    let (total, mut names) = (names.len(), Vec::from_iter(names));
    names.truncate(MAX_PATHS);
    let mut text = joined_paths(&names, total);
    if left > 0 {
        let _ = write!(text, "\n({left} that ignore files name are left out)");
    }
    if let Some(outside) = outside {
        let _ = write!(text, "\n{outside}");
    }
    text
}

fn modified_time(path: &Path) -> Option<SystemTime> {
    path.symlink_metadata().and_then(|meta| meta.modified()).ok()
}

/// Note that ignore files leave files out, for a search without a result.
fn ignored_note(ignored: Option<PathBuf>) -> Option<String> {
    let first = ignored?;
    Some(format!(
        "(files that ignore files name are left out, such as `{}`: pass their folder as `path` to search them)",
        first.display()
    ))
}

/// The searches alone, for measuring.
pub mod bench {
    use std::path::Path;

    use super::super::{ToolError, paths::WorktreeRoot};
    use crate::tool_args as args;

    pub fn grep(tree: &Path, pattern: &str) -> Result<String, ToolError> {
        let args = args::GrepArgs { pattern: pattern.to_owned(), ..args::GrepArgs::default() };
        super::grep_files(&WorktreeRoot::open(tree)?, &args)
    }

    pub fn glob(tree: &Path, pattern: &str) -> Result<String, ToolError> {
        super::find_files(
            &WorktreeRoot::open(tree)?,
            &args::GlobArgs { pattern: pattern.to_owned(), ..args::GlobArgs::default() },
        )
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn tree() -> (tempfile::TempDir, WorktreeRoot) {
        let dir = tempfile::tempdir().unwrap();
        for (path, content) in [
            (".gitignore", "target/\n*.log\n"),
            (".git/config", "needle\n"),
            (".github/ci.yml", "run: needle\n"),
            ("src/a.rs", "one\nneedle two\r\n"),
            ("src/deep/b.rs", "Needle\n"),
            ("src/deep/b.py", "needle = 1\n"),
            ("target/c.rs", "needle\n"),
            ("x.log", "needle\n"),
            ("binary", "needle\0\n"),
        ] {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        symlink("/etc", dir.path().join("etc")).unwrap();
        let tree = WorktreeRoot::open(dir.path()).unwrap();
        (dir, tree)
    }

    fn grep_for(
        tree: &WorktreeRoot,
        pattern: &str,
        path: Option<&str>,
        glob: Option<&str>,
    ) -> String {
        let args = args::GrepArgs {
            pattern: pattern.into(),
            path: path.map(Into::into),
            glob: glob.map(Into::into),
            ..args::GrepArgs::default()
        };
        grep_files(tree, &args).unwrap_or_else(|e| format!("refused: {e}"))
    }

    fn files(tree: &WorktreeRoot, pattern: &str, path: Option<&str>) -> String {
        let args = args::GlobArgs {
            pattern: pattern.into(),
            path: path.map(Into::into),
            ..args::GlobArgs::default()
        };
        find_files(tree, &args).unwrap_or_else(|e| format!("refused: {e}"))
    }

    /// Notes for a search that matches in `target/c.rs` and `x.log` too, and in the first alone.
    const BOTH_TOO: &str = "(2 files that ignore files name match too, such as `target/c.rs`: pass their folder as `path`)";
    const ONE_TOO: &str =
        "(1 file that ignore files name matches too, `target/c.rs`: pass its folder as `path`)";

    #[test]
    fn grep_respects_gitignore_and_git() {
        let (_dir, tree) = tree();
        assert_eq!(
            grep_for(&tree, "needle", None, None),
            format!(
                ".github/ci.yml:1:run: needle\nsrc/a.rs:2:needle two\nsrc/deep/b.py:1:needle = 1\n{BOTH_TOO}"
            )
        );
        let rust = grep_for(&tree, "(?i)needle$", None, Some("*.rs"));
        assert_eq!(rust, format!("src/deep/b.rs:1:Needle\n{ONE_TOO}"));
        assert_eq!(grep_for(&tree, "needle", Some("src/deep"), None), "src/deep/b.py:1:needle = 1");
        assert_eq!(grep_for(&tree, "needle", Some("src/a.rs"), None), "src/a.rs:2:needle two");
        assert!(grep_for(&tree, "nothing", None, None).starts_with("no match\n(files that ignore"));
        let ignored = grep_for(&tree, "needle", Some("target"), None);
        assert!(ignored.starts_with("target/c.rs:1:needle"), "{ignored}");
        assert!(grep_for(&tree, "(", None, None).starts_with("refused: `pattern`"));
        assert!(grep_for(&tree, "x", Some("../"), None).starts_with("refused"));
        assert!(grep_for(&tree, "x", Some("nowhere"), None).contains("does not exist"));
    }

    #[test]
    fn a_line_ends_before_its_carriage_return() {
        let (_dir, tree) = tree();
        fs::write(tree.root().join("dos.txt"), "a;\r\nb;x\r\nc;\n").unwrap();
        let found = |pattern: &str| grep_for(&tree, pattern, Some("dos.txt"), None);
        assert_eq!(found(";$"), "dos.txt:1:a;\ndos.txt:3:c;");
        assert_eq!(found("[^;]$"), "dos.txt:2:b;x");
        assert_eq!(found(r"\r$"), "dos.txt:1:a;\ndos.txt:2:b;x", "one that is looked for is found");
        let several = args::GrepArgs {
            pattern: "a;$.*x$".into(),
            path: Some("dos.txt".into()),
            multiline: Some(true),
            ..args::GrepArgs::default()
        };
        assert_eq!(grep_files(&tree, &several).unwrap(), "dos.txt:1:a;\ndos.txt:2:b;x");
        for (pattern, expected) in [
            (r"a;\nb", "dos.txt:1:a;\ndos.txt:2:b;x"),
            ("a;\nb", "dos.txt:1:a;\ndos.txt:2:b;x"),
            (r"x\n+[^\n;]", "dos.txt:2:b;x\ndos.txt:3:c;"),
            ("(?x) a ; \\n b # and more\n", "dos.txt:1:a;\ndos.txt:2:b;x"),
            (r"[];]\nb", "dos.txt:1:a;\ndos.txt:2:b;x"),
        ] {
            let several = args::GrepArgs { pattern: pattern.into(), ..several.clone() };
            assert_eq!(grep_files(&tree, &several).unwrap(), expected, "{pattern}");
        }
    }

    #[test]
    fn glob_matches_names_or_paths() {
        let (_dir, tree) = tree();
        assert_eq!(files(&tree, "*.rs", None), "src/a.rs\nsrc/deep/b.rs");
        assert_eq!(files(&tree, "src/*.rs", None), "src/a.rs");
        assert_eq!(
            files(&tree, "src/**/*.{rs,py}", None),
            "src/a.rs\nsrc/deep/b.py\nsrc/deep/b.rs"
        );
        assert_eq!(files(&tree, "deep/*", Some("src")), "src/deep/b.py\nsrc/deep/b.rs");
        assert_eq!(files(&tree, "config", None), "no file matches");
        assert!(files(&tree, "[", None).starts_with("refused"));
    }

    #[test]
    fn many_matches_are_cut_with_a_note() {
        let (_dir, tree) = tree();
        for n in 0..30 {
            fs::write(tree.root().join(format!("many{n:02}.txt")), "needle\n".repeat(20)).unwrap();
        }
        let text = grep_for(&tree, "needle", None, Some("many*"));
        assert!(
            text.ends_with("(250 of 600 matches shown: narrow `pattern`, `path` or `glob`)"),
            "{text}"
        );
        assert!(text.starts_with("many00.txt:1:needle\n"));
        fs::write(tree.root().join("one.txt"), "needle\n".repeat(130)).unwrap();
        fs::write(tree.root().join("one2.txt"), "needle\n".repeat(100)).unwrap();
        let text = grep_for(&tree, "needle", None, Some("one*"));
        let note = "(200 of 230 matches shown, of `one.txt` only the first 100: narrow `pattern`, `path` or `glob`)";
        assert!(text.ends_with(note), "{text}");
        assert_eq!(text.lines().count(), 201);
        for n in 0..3 {
            let path = tree.root().join(format!("huge{n}.txt"));
            fs::write(path, "needle\n".repeat(3_000 * (n + 1))).unwrap();
        }
        let text = grep_for(&tree, "needle", None, Some("huge*"));
        let note =
            "(250 of 18000 matches shown, of `huge0.txt` and 2 more only the first 100: narrow";
        assert!(text.contains(note), "{}", text.lines().last().unwrap());
        fs::write(tree.root().join("huge0.txt"), "needle\n".repeat(12_000)).unwrap();
        let text = grep_for(&tree, "needle", None, Some("huge0*"));
        assert!(text.contains("(100 of more than 10000 matches shown"), "{text}");
    }

    #[test]
    fn a_long_line_within_a_match_of_several_is_shown_around_it() {
        let (_dir, tree) = tree();
        let text =
            format!("{}begin\nmiddle\n{}end{}\n", "a".repeat(900), "b".repeat(2), "c".repeat(900));
        fs::write(tree.root().join("long.txt"), text).unwrap();
        let args = args::GrepArgs {
            pattern: "begin.middle.b*end".into(),
            multiline: Some(true),
            ..args::GrepArgs::default()
        };
        let shown = grep_files(&tree, &args).unwrap();
        let lines: Vec<&str> = shown.lines().collect();
        assert!(lines[0].ends_with("abegin [column 901 of 905]"), "{shown}");
        assert_eq!(lines[1], "long.txt:2:middle");
        assert!(
            lines[2].starts_with("long.txt:3:bbendc") && lines[2].ends_with("[column 1 of 905]"),
            "{shown}"
        );
    }

    #[test]
    fn matches_are_shown_with_the_lines_around_them() {
        let (_dir, tree) = tree();
        let lines: Vec<String> = (1..=12).map(|n| format!("line {n}")).collect();
        fs::write(tree.root().join("many.txt"), lines.join("\n")).unwrap();
        let shown = |pattern: &str, context| {
            let glob = Some("*.txt".to_owned());
            let pattern = pattern.to_owned();
            grep_files(
                &tree,
                &args::GrepArgs {
                    pattern,
                    glob,
                    context: Some(context),
                    ..args::GrepArgs::default()
                },
            )
            .unwrap()
        };
        assert_eq!(
            shown("line [37]$", 1),
            "many.txt-2-line 2\nmany.txt:3:line 3\nmany.txt-4-line 4\n--\n\
             many.txt-6-line 6\nmany.txt:7:line 7\nmany.txt-8-line 8"
        );
        // Adjacent ones are one piece.
        assert_eq!(shown("line [35]$", 1).matches("--").count(), 0);
        assert_eq!(shown("line 1$", 99).lines().count(), 11, "ten at most");
        fs::write(tree.root().join("other.txt"), "line 1\n").unwrap();
        assert!(shown("line 1$", 1).ends_with("line 2\n--\nother.txt:1:line 1"));
    }

    #[test]
    fn a_glob_holds_in_the_folder_that_is_searched_too() {
        let (_dir, tree) = tree();
        for glob in ["deep/*.py", "src/deep/*.py", "*.py"] {
            let found = grep_for(&tree, "needle", Some("src"), Some(glob));
            assert_eq!(found, "src/deep/b.py:1:needle = 1", "{glob}");
        }
    }

    #[test]
    fn files_counts_types_and_case() {
        let (_dir, tree) = tree();
        let of = |args: args::GrepArgs| {
            grep_files(&tree, &args).unwrap_or_else(|e| format!("refused: {e}"))
        };
        let needle = || args::GrepArgs { pattern: "needle".into(), ..args::GrepArgs::default() };
        let files = || args::GrepArgs { mode: Some(args::GrepMode::Files), ..needle() };
        let all = format!(".github/ci.yml\nsrc/a.rs\nsrc/deep/b.py\n{BOTH_TOO}");
        assert_eq!(of(files()), all);
        let first = of(args::GrepArgs { limit: Some(1), ..files() });
        assert!(first.starts_with(".github/ci.yml\n(1 of 3 files shown, from 1 on"), "{first}");
        assert!(of(args::GrepArgs { offset: Some(2), ..files() }).starts_with("src/deep/b.py\n("));
        let rust = args::GrepArgs { kind: Some("rust".into()), ignore_case: Some(true), ..files() };
        assert_eq!(of(rust), format!("src/a.rs\nsrc/deep/b.rs\n{ONE_TOO}"));
        let unknown = args::GrepArgs { kind: Some("klingon".into()), ..needle() };
        assert!(of(unknown).starts_with("refused: `type`"));
        let count = args::GrepArgs {
            mode: Some(args::GrepMode::Count),
            pattern: "e".into(),
            glob: Some("a.rs".into()),
            ..needle()
        };
        assert_eq!(of(count), "src/a.rs:2");
        let lines =
            args::GrepArgs { pattern: "one.needle".into(), multiline: Some(true), ..needle() };
        assert_eq!(of(lines), "src/a.rs:1:one\nsrc/a.rs:2:needle two");
        let after = args::GrepArgs { pattern: "^one".into(), after: Some(1), ..needle() };
        assert_eq!(of(after), "src/a.rs:1:one\nsrc/a.rs-2-needle two");
    }

    #[test]
    fn what_was_changed_last_can_come_first_and_a_folder_be_listed() {
        let (_dir, tree) = tree();
        let old = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000);
        for path in ["src/a.rs", ".github/ci.yml"] {
            let file = fs::File::options().write(true).open(tree.root().join(path)).unwrap();
            file.set_modified(old).unwrap();
        }
        let glob = args::GlobArgs {
            pattern: "*.rs".into(),
            newest: Some(true),
            ..args::GlobArgs::default()
        };
        assert_eq!(find_files(&tree, &glob).unwrap(), "src/deep/b.rs\nsrc/a.rs");
        let newest = args::GrepArgs {
            pattern: "needle".into(),
            newest: Some(true),
            mode: Some(args::GrepMode::Files),
            ..args::GrepArgs::default()
        };
        assert_eq!(grep_files(&tree, &newest).unwrap().lines().next(), Some("src/deep/b.py"));
        let list = |path: Option<&str>| {
            let path = path.map(Into::into);
            find_files(
                &tree,
                &args::GlobArgs { pattern: "*".into(), path, list: Some(true), newest: None },
            )
        };
        assert_eq!(list(Some("src")).unwrap(), "src/a.rs\nsrc/deep/");
        assert_eq!(
            list(None).unwrap(),
            ".github/\n.gitignore\nbinary\netc\nsrc/\n(2 that ignore files name are left out)"
        );
        assert!(list(Some("../")).is_err());
    }
}
