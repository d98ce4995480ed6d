//! Lines that match, with as many around them as are wanted.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::SystemTime;

use grep_matcher::Matcher as _;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkMatch};
use ignore::WalkState;
use ignore::types::{Types, TypesBuilder};

use super::glob::PathPattern;
use super::walk::{describe_error, walk_files, walk_ignored};
use super::{ignored_note, modified_time};
use crate::tool_args::{self as args, GrepMode};
use crate::toolbox::names::{locate_existing, unicode_forms};
use crate::toolbox::paths::{LocatedPath, WorktreeRoot};
use crate::toolbox::{ToolError, files};
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

/// How a search goes through a file.
struct FileSearch {
    matcher: RegexMatcher,
    glob: Option<PathPattern>,
    kind: Option<Types>,
    inside: PathBuf,
    mode: GrepMode,
    newest: bool,
}

/// What a search found.
#[derive(Default)]
struct FoundFiles {
    files: Vec<FoundLines>,
    unreadable: Vec<String>,
    /// Files without text that were not gone through.
    binary: usize,
}

/// What was found in a file.
struct FoundLines {
    matcher: RegexMatcher,
    path: String,
    lines: Vec<MatchedLine>,
    matches: usize,
    /// There is more in it.
    is_cut: bool,
    /// From this byte on it is no text, and was not gone through.
    binary: Option<u64>,
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
pub(crate) fn grep_files(tree: &WorktreeRoot, args: &args::GrepArgs) -> Result<String, ToolError> {
    let matcher = build_matcher(args)?;
    let glob = args.glob.as_deref().map(PathPattern::new).transpose()?;
    let kind = args.kind.as_deref().map(of_type).transpose()?;
    let (at, alike) = locate_existing(tree, args.path.as_deref().unwrap_or("."))?;
    if !at.full.exists() {
        return Err(files::not_found(tree, &at));
    }
    let mode = args.mode.unwrap_or_default();
    let around = |own: Option<u32>| match mode {
        GrepMode::Content => own.or(args.context).unwrap_or(0).min(MAX_CONTEXT) as usize,
        GrepMode::Files | GrepMode::Count => 0,
    };
    let (before, after) = (around(args.before), around(args.after));
    // Whoever names one file wants it searched, text or not.
    let binary =
        if at.full.is_file() { BinaryDetection::convert(0) } else { BinaryDetection::quit(0) };
    // Its buffer serves all files of a thread.
    let searcher = SearcherBuilder::new()
        .line_number(true)
        .multi_line(args.multiline.unwrap_or(false))
        .before_context(before)
        .after_context(after)
        .binary_detection(binary)
        .build();
    let inside = at.full.strip_prefix(tree.root()).unwrap_or(Path::new("")).to_owned();
    let search =
        FileSearch { matcher, glob, kind, inside, mode, newest: args.newest == Some(true) };
    let (found, mut notes) = search.run(tree, &at, &searcher)?;
    notes.splice(..0, alike);
    let page = Page { offset: args.offset.unwrap_or(0) as usize, limit: args.limit };
    let text = match mode {
        _ if found.is_empty() => "no match".to_owned(),
        GrepMode::Content => shown_lines(&found, before + after > 0, &page),
        GrepMode::Files => page.of_files(found.iter().map(|file| file.path.clone()).collect()),
        GrepMode::Count => {
            let line = |file: &FoundLines| {
                let cut = if file.is_cut { "+" } else { "" };
                format!("{}:{}{cut}", file.path, file.matches)
            };
            page.of_files(found.iter().map(line).collect())
        }
    };
    notes.insert(0, text);
    Ok(notes.join("\n"))
}

fn build_matcher(args: &args::GrepArgs) -> Result<RegexMatcher, ToolError> {
    let mut matcher = RegexMatcherBuilder::new();
    matcher.case_insensitive(args.ignore_case.unwrap_or(false));
    if args.multiline.unwrap_or(false) {
        matcher.multi_line(true).dot_matches_new_line(true);
    } else {
        matcher.line_terminator(Some(b'\n'));
    }
    let [composed, apart] = unicode_forms(&args.pattern);
    // Within a class, an accent that stands apart would be a character of its own.
    let both = composed != apart && !args.pattern.contains('[');
    let either = if both { format!("(?:{composed})|(?:{apart})") } else { args.pattern.clone() };
    matcher
        .build(&either)
        .or_else(|_| matcher.build(&args.pattern))
        .map_err(|e| ToolError::refused(format!("`pattern` is not a regular expression: {e}")))
}

impl FileSearch {
    /// What is found, by path, and what is to be said of it.
    fn run(
        &self,
        tree: &WorktreeRoot,
        at: &LocatedPath,
        searcher: &Searcher,
    ) -> Result<(Vec<FoundLines>, Vec<String>), ToolError> {
        let found = Mutex::new(FoundFiles::default());
        let count = AtomicUsize::new(0);
        let visit = |searcher: &mut Searcher, relative: &Path| {
            self.visit(tree, searcher, relative, (&found, &count))
        };
        let mut walked = walk_files(tree, &at.full, false, searcher, visit);
        let is_empty = || found.lock().is_ok_and(|found| found.files.is_empty());
        let mut notes = Vec::new();
        if is_empty() {
            let named = at.full != tree.root();
            let look = |searcher: &mut Searcher, relative: &Path| {
                if named { visit(searcher, relative) } else { WalkState::Quit }
            };
            let ignored = walk_ignored(tree, &at.full, false, &walked, searcher, look);
            if !is_empty() {
                notes.push("(ignore files name these, and Git does not track them)".to_owned());
            } else if let Some(why) = self.glob.as_ref().and_then(|glob| glob.wrong.clone()) {
                return Err(ToolError::refused(why));
            } else if !named {
                notes.extend(ignored_note(ignored));
            }
        }
        let mut found = found.into_inner().unwrap_or_default();
        if found.files.is_empty() && found.binary > 0 {
            notes.push(format!(
                "({} binary file(s) were not searched: name one as `path` to search it)",
                found.binary
            ));
        }
        let odd = found.files.iter().find_map(|file| Some((&file.path, file.binary?)));
        if let Some((path, byte)) = odd {
            notes.push(format!("(`{path}` is no text from byte {byte} on)"));
        }
        walked.unreadable.append(&mut found.unreadable);
        notes.extend(walked.note());
        found.files.sort_by(|a, b| b.modified.cmp(&a.modified).then_with(|| a.path.cmp(&b.path)));
        Ok((found.files, notes))
    }

    fn visit(
        &self,
        tree: &WorktreeRoot,
        searcher: &mut Searcher,
        relative: &Path,
        (found, count): (&Mutex<FoundFiles>, &AtomicUsize),
    ) -> WalkState {
        let wanted = self.glob.as_ref().is_none_or(|glob| glob.is_match(&self.inside, relative));
        let typed =
            self.kind.as_ref().is_none_or(|kind| kind.matched(relative, false).is_whitelist());
        if !wanted || !typed {
            return WalkState::Continue;
        }
        let mut file = FoundLines::new(self.matcher.clone(), self.mode);
        let path = tree.root().join(relative);
        let ended = searcher.search_path(&self.matcher, &path, &mut file);
        let shown = relative.to_string_lossy();
        let vanished = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
        let failed = ended.err().filter(|error| !vanished(error));
        if file.matches == 0 {
            if let Ok(mut found) = found.lock() {
                found.binary += usize::from(file.binary.is_some());
                found.unreadable.extend(
                    failed.map(|e| format!("{shown}: {}", describe_error(tree, &e.to_string()))),
                );
            }
            return WalkState::Continue;
        }
        // Where only files are told, they are what there can be too many of.
        let counted = if self.mode == GrepMode::Content { file.matches } else { 1 };
        let total = count.fetch_add(counted, Ordering::Relaxed) + counted;
        file.path = shown.into_owned();
        if self.newest {
            file.modified = modified_time(&path);
        }
        if let Ok(mut found) = found.lock() {
            found.files.push(file);
        }
        if total > ENOUGH_MATCHES { WalkState::Quit } else { WalkState::Continue }
    }
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
    fn new(matcher: RegexMatcher, mode: GrepMode) -> Self {
        Self {
            matcher,
            path: String::new(),
            lines: Vec::new(),
            matches: 0,
            is_cut: false,
            binary: None,
            modified: None,
            mode,
        }
    }

    fn push(&mut self, number: Option<u64>, bytes: &[u8], is_match: bool) {
        let number = number.unwrap_or_default();
        let text = String::from_utf8_lossy(bytes);
        let text = text.trim_end_matches(['\n', '\r']);
        let found = is_match.then(|| self.matcher.find(bytes).ok().flatten()).flatten();
        let text = match found {
            Some(found) if text.len() > MAX_LINE_CHARS => {
                let times = self.count_matches(bytes);
                cut_around(bytes, (found.start(), found.end()), times)
            }
            _ => clip_text(text, MAX_LINE_CHARS),
        };
        // Of a binary file, what could move a terminal's cursor is no text.
        let text = if self.binary.is_some() || text.contains('\0') {
            text.replace(|c: char| c.is_control() && c != '\t', "\u{fffd}")
        } else {
            text
        };
        let starts = self.lines.last().is_none_or(|before| before.number + 1 != number);
        self.lines.push(MatchedLine { number, text, is_match, starts });
    }

    fn count_matches(&self, bytes: &[u8]) -> usize {
        let mut times = 0;
        let _ = self.matcher.find_iter(bytes, |_| {
            times += 1;
            times < MAX_PER_FILE
        });
        times
    }
}

/// A long line around its first match, with the place of that.
fn cut_around(line: &[u8], (start, end): (usize, usize), times: usize) -> String {
    let before = String::from_utf8_lossy(&line[..start]);
    let all = String::from_utf8_lossy(line);
    let all = all.trim_end_matches(['\n', '\r']);
    let column = before.chars().count();
    let total = all.chars().count();
    let length = String::from_utf8_lossy(&line[start..end]).chars().count().min(MAX_LINE_CHARS);
    let first = column.saturating_sub((MAX_LINE_CHARS - length) / 2);
    let shown: String = all.chars().skip(first).take(MAX_LINE_CHARS).collect();
    let left = if first > 0 { "…" } else { "" };
    let right = if first + MAX_LINE_CHARS < total { "…" } else { "" };
    let many = match times {
        0 | 1 => String::new(),
        MAX_PER_FILE.. => format!("; {MAX_PER_FILE} or more matches in it"),
        times => format!("; {times} matches in it"),
    };
    format!("{left}{shown}{right} [column {} of {total}{many}]", column + 1)
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

    fn binary_data(&mut self, searcher: &Searcher, offset: u64) -> io::Result<bool> {
        self.binary = self.binary.or(Some(offset));
        // Where it is no text, it is gone through only if it was asked for.
        Ok(searcher.binary_detection().convert_byte().is_some())
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
