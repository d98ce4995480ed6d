//! Grep and Glob, with the libraries of ripgrep: `.gitignore` is respected, `.git` never entered,
//! symlinks not followed.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use grep_regex::RegexMatcherBuilder;
use grep_searcher::sinks::Lossy;
use grep_searcher::{BinaryDetection, SearcherBuilder};
use ignore::{DirEntry, WalkBuilder, WalkState};

use super::ToolError;
use super::paths::Tree;
use crate::text::clip;
use crate::tools::args;

/// Lines that one Grep answers with.
const MAX_MATCHES: usize = 250;
/// Matches after which a search stops looking: enough to show the first ones by path.
const ENOUGH_MATCHES: usize = 10_000;
/// Matches taken from one file.
const MAX_PER_FILE: usize = 100;
const MAX_LINE_CHARS: usize = 400;
/// Paths that one Glob answers with.
const MAX_PATHS: usize = 500;
const THREADS: usize = 4;

struct Found {
    path: String,
    lines: Vec<(u64, String)>,
}

/// Lines that match, as `path:line:text`, by path.
pub(super) fn grep(tree: &Tree, args: &args::Grep) -> Result<String, ToolError> {
    let matcher = RegexMatcherBuilder::new()
        .line_terminator(Some(b'\n'))
        .build(&args.pattern)
        .map_err(|e| ToolError::refused(format!("`pattern` is not a regular expression: {e}")))?;
    let glob = args.glob.as_deref().map(glob).transpose()?;
    let at = tree.locate(args.path.as_deref().unwrap_or("."))?;
    if !at.full.exists() {
        return Err(ToolError::refused(format!("`{}` does not exist", at.shown)));
    }
    let found = Mutex::new(Vec::<Found>::new());
    let count = AtomicUsize::new(0);
    // Its buffer serves all files of a thread.
    let searcher =
        SearcherBuilder::new().line_number(true).binary_detection(BinaryDetection::quit(0)).build();
    walk(tree, &at.full, &searcher, |searcher, relative| {
        if glob.as_ref().is_some_and(|glob| !glob.is_match(relative)) {
            return WalkState::Continue;
        }
        let mut lines = Vec::new();
        let sink = Lossy(|number, line| {
            lines.push((number, clip(line.trim_end_matches(['\n', '\r']), MAX_LINE_CHARS)));
            Ok(lines.len() < MAX_PER_FILE)
        });
        // A file that vanished or can't be read has no matches.
        let _ = searcher.search_path(&matcher, tree.root().join(relative), sink);
        if lines.is_empty() {
            return WalkState::Continue;
        }
        let total = count.fetch_add(lines.len(), Ordering::Relaxed) + lines.len();
        if let Ok(mut found) = found.lock() {
            found.push(Found { path: relative.to_string_lossy().into_owned(), lines });
        }
        if total > ENOUGH_MATCHES { WalkState::Quit } else { WalkState::Continue }
    });
    let mut found = found.into_inner().unwrap_or_default();
    found.sort_by(|a, b| a.path.cmp(&b.path));
    let total: usize = found.iter().map(|f| f.lines.len()).sum();
    if total == 0 {
        return Ok("no match".to_owned());
    }
    let lines: Vec<String> = found
        .iter()
        .flat_map(|f| {
            f.lines.iter().map(move |(number, line)| format!("{}:{number}:{line}", f.path))
        })
        .take(MAX_MATCHES)
        .collect();
    let more = if total > MAX_MATCHES {
        let many = if total > ENOUGH_MATCHES { "more than " } else { "" };
        let total = total.min(ENOUGH_MATCHES);
        format!(
            "\n({MAX_MATCHES} of {many}{total} matches shown: narrow `pattern`, `path` or `glob`)"
        )
    } else {
        String::new()
    };
    Ok(format!("{}{more}", lines.join("\n")))
}

/// Files whose path matches, by path.
pub(super) fn find(tree: &Tree, args: &args::Glob) -> Result<String, ToolError> {
    let glob = glob(&args.pattern)?;
    let at = tree.locate(args.path.as_deref().unwrap_or("."))?;
    if !at.full.is_dir() {
        return Err(ToolError::refused(format!("`{}` is not a folder", at.shown)));
    }
    let inside = at.full.strip_prefix(tree.root()).unwrap_or(Path::new("")).to_owned();
    let found = Mutex::new(Vec::<PathBuf>::new());
    walk(tree, &at.full, &(), |(), relative| {
        let below = relative.strip_prefix(&inside).unwrap_or(relative);
        let matches = glob.is_match(below) || (below != relative && glob.is_match(relative));
        if matches && let Ok(mut found) = found.lock() {
            found.push(relative.to_owned());
        }
        WalkState::Continue
    });
    let mut found = found.into_inner().unwrap_or_default();
    found.sort();
    if found.is_empty() {
        return Ok("no file matches".to_owned());
    }
    let shown: Vec<_> = found.iter().take(MAX_PATHS).map(|p| p.to_string_lossy()).collect();
    let more = if found.len() > MAX_PATHS {
        format!("\n({MAX_PATHS} of {} files shown: narrow `pattern` or `path`)", found.len())
    } else {
        String::new()
    };
    Ok(format!("{}{more}", shown.join("\n")))
}

/// Without a slash a glob matches names in every folder, as in `.gitignore`. A set of one: for most
/// patterns it compares names, where a single glob is always a regular expression.
fn glob(pattern: &str) -> Result<GlobSet, ToolError> {
    let anywhere = if pattern.contains('/') {
        pattern.trim_start_matches("./").trim_start_matches('/').to_owned()
    } else {
        format!("**/{pattern}")
    };
    GlobBuilder::new(&anywhere)
        .literal_separator(true)
        .build()
        .and_then(|glob| GlobSetBuilder::new().add(glob).build())
        .map_err(|e| ToolError::refused(format!("`{pattern}` is not a glob: {e}")))
}

/// Calls `visit` with the relative path of every file under `from`, from several threads, each with
/// its own copy of `with`.
pub(super) fn walk<T: Clone + Send>(
    tree: &Tree,
    from: &Path,
    with: &T,
    visit: impl Fn(&mut T, &Path) -> WalkState + Send + Sync,
) {
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get().min(THREADS));
    let walker = WalkBuilder::new(from)
        .hidden(false)
        .require_git(false)
        .git_global(false)
        .filter_entry(|entry: &DirEntry| !entry.file_name().eq_ignore_ascii_case(".git"))
        .threads(threads)
        .build_parallel();
    let visit = &visit;
    walker.run(|| {
        let mut own = with.clone();
        Box::new(move |entry| {
            let Ok(entry) = entry else { return WalkState::Continue };
            if !entry.file_type().is_some_and(|kind| kind.is_file()) {
                return WalkState::Continue;
            }
            let relative = entry.path().strip_prefix(tree.root());
            relative.map_or(WalkState::Continue, |relative| visit(&mut own, relative))
        })
    });
}

/// The searches alone, for measuring.
pub mod bench {
    use std::path::Path;

    use super::super::{ToolError, paths::Tree};
    use crate::tools::args;

    /// Grep over all of a tree.
    pub fn grep(tree: &Path, pattern: &str) -> Result<String, ToolError> {
        let args = args::Grep { pattern: pattern.to_owned(), path: None, glob: None };
        super::grep(&Tree::open(tree)?, &args)
    }

    /// Glob over all of a tree.
    pub fn glob(tree: &Path, pattern: &str) -> Result<String, ToolError> {
        super::find(&Tree::open(tree)?, &args::Glob { pattern: pattern.to_owned(), path: None })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn tree() -> (tempfile::TempDir, Tree) {
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
        let tree = Tree::open(dir.path()).unwrap();
        (dir, tree)
    }

    fn grep_for(tree: &Tree, pattern: &str, path: Option<&str>, glob: Option<&str>) -> String {
        let args = args::Grep {
            pattern: pattern.into(),
            path: path.map(Into::into),
            glob: glob.map(Into::into),
        };
        grep(tree, &args).unwrap_or_else(|e| format!("refused: {e}"))
    }

    fn files(tree: &Tree, pattern: &str, path: Option<&str>) -> String {
        let args = args::Glob { pattern: pattern.into(), path: path.map(Into::into) };
        find(tree, &args).unwrap_or_else(|e| format!("refused: {e}"))
    }

    #[test]
    fn grep_respects_gitignore_and_git() {
        let (_dir, tree) = tree();
        assert_eq!(
            grep_for(&tree, "needle", None, None),
            ".github/ci.yml:1:run: needle\nsrc/a.rs:2:needle two\nsrc/deep/b.py:1:needle = 1"
        );
        assert_eq!(grep_for(&tree, "(?i)needle$", None, Some("*.rs")), "src/deep/b.rs:1:Needle");
        assert_eq!(grep_for(&tree, "needle", Some("src/deep"), None), "src/deep/b.py:1:needle = 1");
        assert_eq!(grep_for(&tree, "needle", Some("src/a.rs"), None), "src/a.rs:2:needle two");
        assert_eq!(grep_for(&tree, "nothing", None, None), "no match");
        assert!(grep_for(&tree, "(", None, None).starts_with("refused: `pattern`"));
        assert!(grep_for(&tree, "x", Some("../"), None).starts_with("refused"));
        assert!(grep_for(&tree, "x", Some("nowhere"), None).contains("does not exist"));
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
    }
}
