//! Lines that match, with as many around them as are wanted.

use std::io;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::SystemTime;

use grep_regex::RegexMatcherBuilder;
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkMatch};
use ignore::WalkState;
use ignore::types::{Types, TypesBuilder};

use super::{build_glob, is_match, modified_time, walk_files};
use crate::toolbox::paths::WorktreeRoot;
use crate::toolbox::{ToolError, files};
use crate::tools::args::{self, GrepMode};
use codebutler_guides::text::clip_text;

/// Lines that one Grep answers with: matches alone, and with the lines around them.
const MAX_LINES: usize = 250;
const MAX_LINES_AROUND: usize = 600;
/// Files that one Grep names.
const MAX_FILES: usize = 500;
/// Matches after which a search stops looking: enough to show the first ones by path.
const ENOUGH_MATCHES: usize = 10_000;
/// Matches taken from one file.
const MAX_PER_FILE: usize = 100;
const MAX_LINE_CHARS: usize = 400;
/// Most lines that are shown before and after a match.
const MAX_CONTEXT: u32 = 10;

/// What was found in a file.
#[derive(Default)]
struct FoundLines {
    path: String,
    lines: Vec<MatchedLine>,
    matches: usize,
    /// There is more in it.
    is_cut: bool,
    /// When it was changed, if that counts.
    modified: Option<SystemTime>,
    mode: GrepMode,
}

struct MatchedLine {
    number: u64,
    text: String,
    is_match: bool,
    /// Does not follow the line before it.
    starts: bool,
}

/// Lines that match, as `path:line:text`, by path; those around them as `path-line-text`, with `--`
/// where lines are left out, as ripgrep shows them.
pub fn grep_files(tree: &WorktreeRoot, args: &args::GrepArgs) -> Result<String, ToolError> {
    let multiline = args.multiline.unwrap_or(false);
    let mut matcher = RegexMatcherBuilder::new();
    matcher.case_insensitive(args.ignore_case.unwrap_or(false));
    if multiline {
        matcher.multi_line(true).dot_matches_new_line(true);
    } else {
        matcher.line_terminator(Some(b'\n'));
    }
    let matcher = matcher
        .build(&args.pattern)
        .map_err(|e| ToolError::refused(format!("`pattern` is not a regular expression: {e}")))?;
    let glob = args.glob.as_deref().map(build_glob).transpose()?;
    let kind = args.kind.as_deref().map(of_type).transpose()?;
    let at = tree.locate(args.path.as_deref().unwrap_or("."))?;
    if !at.full.exists() {
        return Err(files::not_found(tree, &at));
    }
    let inside = at.full.strip_prefix(tree.root()).unwrap_or(Path::new("")).to_owned();
    let mode = args.mode.unwrap_or_default();
    let around = |own: Option<u32>| match mode {
        GrepMode::Content => own.or(args.context).unwrap_or(0).min(MAX_CONTEXT) as usize,
        GrepMode::Files | GrepMode::Count => 0,
    };
    let (before, after) = (around(args.before), around(args.after));
    let found = Mutex::new(Vec::<FoundLines>::new());
    let count = AtomicUsize::new(0);
    // Its buffer serves all files of a thread.
    let searcher = SearcherBuilder::new()
        .line_number(true)
        .multi_line(multiline)
        .before_context(before)
        .after_context(after)
        .binary_detection(BinaryDetection::quit(0))
        .build();
    walk_files(tree, &at.full, &searcher, |searcher, relative| {
        let wanted = glob.as_ref().is_none_or(|glob| is_match(glob, &inside, relative));
        let typed = kind.as_ref().is_none_or(|kind| kind.matched(relative, false).is_whitelist());
        if !wanted || !typed {
            return WalkState::Continue;
        }
        let mut file = FoundLines { mode, ..FoundLines::default() };
        let path = tree.root().join(relative);
        // A file that vanished or can't be read has no matches.
        let _ = searcher.search_path(&matcher, &path, &mut file);
        if file.matches == 0 {
            return WalkState::Continue;
        }
        // Where only files are told, they are what there can be too many of.
        let counted = if mode == GrepMode::Content { file.matches } else { 1 };
        let total = count.fetch_add(counted, Ordering::Relaxed) + counted;
        file.path = relative.to_string_lossy().into_owned();
        if args.newest == Some(true) {
            file.modified = modified_time(&path);
        }
        if let Ok(mut found) = found.lock() {
            found.push(file);
        }
        if total > ENOUGH_MATCHES { WalkState::Quit } else { WalkState::Continue }
    });
    let mut found = found.into_inner().unwrap_or_default();
    found.sort_by(|a, b| b.modified.cmp(&a.modified).then_with(|| a.path.cmp(&b.path)));
    if found.is_empty() {
        return Ok("no match".to_owned());
    }
    let page = Page { offset: args.offset.unwrap_or(0) as usize, limit: args.limit };
    Ok(match mode {
        GrepMode::Content => shown_lines(&found, before + after > 0, &page),
        GrepMode::Files => page.of_files(found.iter().map(|file| file.path.clone()).collect()),
        GrepMode::Count => {
            let line = |file: &FoundLines| {
                let cut = if file.is_cut { "+" } else { "" };
                format!("{}:{}{cut}", file.path, file.matches)
            };
            page.of_files(found.iter().map(line).collect())
        }
    })
}

/// Which part of what was found is shown.
struct Page {
    offset: usize,
    limit: Option<u32>,
}

impl Page {
    fn most(&self, most: usize) -> usize {
        self.limit.map_or(most, |limit| (limit.max(1) as usize).min(most))
    }

    fn of_files(&self, lines: Vec<String>) -> String {
        let (total, most) = (lines.len(), self.most(MAX_FILES));
        let mut part: Vec<String> = lines.into_iter().skip(self.offset).take(most).collect();
        if self.offset + part.len() < total || self.offset > 0 {
            part.push(format!(
                "({} of {total} files shown, from {} on: narrow `pattern`, `path` or `glob`, or pass `offset`)",
                part.len(),
                self.offset + 1
            ));
        }
        part.join("\n")
    }
}

/// The files of a type that ripgrep knows.
fn of_type(name: &str) -> Result<Types, ToolError> {
    let mut types = TypesBuilder::new();
    types.add_defaults();
    let wanted = match name.trim_start_matches('.') {
        "rs" => "rust",
        "javascript" | "jsx" | "mjs" => "js",
        "typescript" | "tsx" => "ts",
        "golang" => "go",
        "python3" => "py",
        "yml" => "yaml",
        name => name,
    };
    types.select(wanted);
    types.build().map_err(|_| {
        ToolError::refused(format!("`type`: ripgrep knows no `{name}`: pass a `glob` instead"))
    })
}

impl FoundLines {
    fn push(&mut self, number: Option<u64>, bytes: &[u8], is_match: bool) {
        let number = number.unwrap_or_default();
        let text = String::from_utf8_lossy(bytes);
        let text = clip_text(text.trim_end_matches(['\n', '\r']), MAX_LINE_CHARS);
        let starts = self.lines.last().is_none_or(|before| before.number + 1 != number);
        self.lines.push(MatchedLine { number, text, is_match, starts });
    }
}

impl Sink for FoundLines {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, line: &SinkMatch<'_>) -> io::Result<bool> {
        let most = if self.mode == GrepMode::Content { MAX_PER_FILE } else { ENOUGH_MATCHES };
        if self.matches == most {
            self.is_cut = true;
            return Ok(false);
        }
        self.matches += 1;
        if self.mode == GrepMode::Content {
            // A match of several lines is shown line by line.
            let first = line.line_number();
            for (more, part) in line.lines().enumerate() {
                self.push(first.map(|number| number + more as u64), part, true);
            }
        }
        Ok(self.mode != GrepMode::Files)
    }

    fn context(&mut self, _: &Searcher, line: &SinkContext<'_>) -> io::Result<bool> {
        self.push(line.line_number(), line.bytes(), false);
        Ok(true)
    }
}

fn shown_lines(found: &[FoundLines], around: bool, page: &Page) -> String {
    let most = page.most(if around { MAX_LINES_AROUND } else { MAX_LINES });
    let all = || found.iter().flat_map(|file| file.lines.iter().map(move |line| (file, line)));
    let mut text = Vec::new();
    let mut matches = 0;
    for (file, line) in all().skip(page.offset).take(most) {
        if around && line.starts && !text.is_empty() {
            text.push("--".to_owned());
        }
        matches += usize::from(line.is_match);
        let mark = if line.is_match { ':' } else { '-' };
        text.push(format!("{}{mark}{}{mark}{}", file.path, line.number, line.text));
    }
    let total: usize = found.iter().map(|file| file.matches).sum();
    if total > matches {
        let many = if total > ENOUGH_MATCHES { "more than " } else { "" };
        let total = total.min(ENOUGH_MATCHES);
        text.push(format!(
            "({matches} of {many}{total} matches shown: narrow `pattern`, `path` or `glob`)"
        ));
    } else if let Some(file) = found.iter().find(|file| file.is_cut) {
        text.push(format!(
            "(of `{}` only the first {MAX_PER_FILE} matches: narrow `pattern`, or Read it)",
            file.path
        ));
    }
    text.join("\n")
}
