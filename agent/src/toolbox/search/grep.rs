//! Lines that match, with as many around them as are wanted.

use std::io;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use grep_regex::RegexMatcherBuilder;
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkMatch};
use ignore::WalkState;

use super::{glob, is_match, walk};
use crate::text::clip;
use crate::toolbox::paths::Tree;
use crate::toolbox::{ToolError, files};
use crate::tools::args;

/// Lines that one Grep answers with: matches alone, and with the lines around them.
const MAX_LINES: usize = 250;
const MAX_LINES_AROUND: usize = 600;
/// Matches after which a search stops looking: enough to show the first ones by path.
const ENOUGH_MATCHES: usize = 10_000;
/// Matches taken from one file.
const MAX_PER_FILE: usize = 100;
const MAX_LINE_CHARS: usize = 400;
/// Most lines that are shown before and after a match.
const MAX_CONTEXT: u32 = 10;

/// What was found in a file.
#[derive(Default)]
struct Found {
    path: String,
    lines: Vec<Line>,
    matches: usize,
    /// There is more in it.
    is_cut: bool,
}

struct Line {
    number: u64,
    text: String,
    is_match: bool,
    /// Does not follow the line before it.
    starts: bool,
}

/// Lines that match, as `path:line:text`, by path; those around them as `path-line-text`, with `--`
/// where lines are left out, as ripgrep shows them.
pub fn grep(tree: &Tree, args: &args::Grep) -> Result<String, ToolError> {
    let matcher = RegexMatcherBuilder::new()
        .line_terminator(Some(b'\n'))
        .build(&args.pattern)
        .map_err(|e| ToolError::refused(format!("`pattern` is not a regular expression: {e}")))?;
    let glob = args.glob.as_deref().map(glob).transpose()?;
    let at = tree.locate(args.path.as_deref().unwrap_or("."))?;
    if !at.full.exists() {
        return Err(files::not_found(tree, &at));
    }
    let inside = at.full.strip_prefix(tree.root()).unwrap_or(Path::new("")).to_owned();
    let around = args.context.unwrap_or(0).min(MAX_CONTEXT) as usize;
    let found = Mutex::new(Vec::<Found>::new());
    let count = AtomicUsize::new(0);
    // Its buffer serves all files of a thread.
    let searcher = SearcherBuilder::new()
        .line_number(true)
        .before_context(around)
        .after_context(around)
        .binary_detection(BinaryDetection::quit(0))
        .build();
    walk(tree, &at.full, &searcher, |searcher, relative| {
        if glob.as_ref().is_some_and(|glob| !is_match(glob, &inside, relative)) {
            return WalkState::Continue;
        }
        let mut file = Found::default();
        // A file that vanished or can't be read has no matches.
        let _ = searcher.search_path(&matcher, tree.root().join(relative), &mut file);
        if file.matches == 0 {
            return WalkState::Continue;
        }
        let total = count.fetch_add(file.matches, Ordering::Relaxed) + file.matches;
        file.path = relative.to_string_lossy().into_owned();
        if let Ok(mut found) = found.lock() {
            found.push(file);
        }
        if total > ENOUGH_MATCHES { WalkState::Quit } else { WalkState::Continue }
    });
    let mut found = found.into_inner().unwrap_or_default();
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(if found.is_empty() { "no match".to_owned() } else { shown(&found, around > 0) })
}

impl Found {
    fn push(&mut self, number: Option<u64>, bytes: &[u8], is_match: bool) {
        let number = number.unwrap_or_default();
        let text = String::from_utf8_lossy(bytes);
        let text = clip(text.trim_end_matches(['\n', '\r']), MAX_LINE_CHARS);
        let starts = self.lines.last().is_none_or(|before| before.number + 1 != number);
        self.lines.push(Line { number, text, is_match, starts });
    }
}

impl Sink for Found {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, line: &SinkMatch<'_>) -> io::Result<bool> {
        if self.matches == MAX_PER_FILE {
            self.is_cut = true;
            return Ok(false);
        }
        self.matches += 1;
        self.push(line.line_number(), line.bytes(), true);
        Ok(true)
    }

    fn context(&mut self, _: &Searcher, line: &SinkContext<'_>) -> io::Result<bool> {
        self.push(line.line_number(), line.bytes(), false);
        Ok(true)
    }
}

fn shown(found: &[Found], around: bool) -> String {
    let most = if around { MAX_LINES_AROUND } else { MAX_LINES };
    let all = || found.iter().flat_map(|file| file.lines.iter().map(move |line| (file, line)));
    let mut text = Vec::new();
    let mut matches = 0;
    for (file, line) in all().take(most) {
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
