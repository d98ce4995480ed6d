//! Lines that match, with as many around them as are wanted.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use grep_matcher::LineTerminator;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder};
use ignore::WalkState;
use ignore::types::{Types, TypesBuilder};

use super::glob::PathPattern;
use super::matched::{ENOUGH_MATCHES, FoundLines, Page, shown_lines};
use super::{IGNORED, ignored_note, modified_time};
use crate::tool_args::{self as args, GrepMode};
use crate::toolbox::file_walk::{describe_error, walk_files, walk_ignored};
use crate::toolbox::files::{DecodedFile, decode_file};
use crate::toolbox::names::{locate_existing, unicode_forms};
use crate::toolbox::paths::{LocatedPath, WorktreeRoot};
use crate::toolbox::{ToolError, files, outside};

/// Files that ignore files name and that are gone through where others match.
const IGNORED_TOO: usize = 1_000;
/// Most lines that are shown before and after a match.
const MAX_CONTEXT: u32 = 10;
/// An end of a line in a search across lines.
const LINE_END: &str = r"(?:\r?\n)";

/// Options of a search through files.
struct FileSearch {
    matcher: RegexMatcher,
    /// The pattern is of more than ASCII: files in other encodings are decoded.
    decodes: bool,
    glob: Option<PathPattern>,
    kind: Option<Types>,
    inside: PathBuf,
    mode: GrepMode,
    newest: bool,
}

/// Matches of a search, and the files that it left out.
#[derive(Default)]
struct FoundFiles {
    files: Vec<FoundLines>,
    unreadable: Vec<String>,
    /// Files without text that were not gone through.
    binary: usize,
    /// Files in other encodings that were not gone through.
    undecoded: usize,
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
    // A searcher's buffer serves all files of a thread.
    let line_end =
        if ends_before_return(args) { LineTerminator::crlf() } else { LineTerminator::byte(b'\n') };
    let searcher = SearcherBuilder::new()
        .line_number(true)
        .line_terminator(line_end)
        .multi_line(args.multiline.unwrap_or(false))
        .before_context(before)
        .after_context(after)
        .binary_detection(binary)
        .build();
    let inside = at.full.strip_prefix(tree.root()).unwrap_or(Path::new("")).to_owned();
    let decodes = wants_more_than_ascii(&args.pattern);
    let newest = args.newest == Some(true);
    let search = FileSearch { matcher, decodes, glob, kind, inside, mode, newest };
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
    matcher.case_insensitive(args.ignore_case.unwrap_or(false)).multi_line(true);
    let (returns, several) = (ends_before_return(args), args.multiline.unwrap_or(false));
    matcher.crlf(returns).dot_matches_new_line(several);
    if several {
        matcher.line_terminator(None);
    } else if !returns {
        matcher.line_terminator(Some(b'\n'));
    }
    let pattern =
        if several && returns { accept_returns(&args.pattern) } else { args.pattern.clone() };
    let [composed, apart] = unicode_forms(&pattern);
    // Within a class, an accent that stands apart would be a character of its own.
    let both = composed != apart && !pattern.contains('[');
    let either = if both { format!("(?:{composed})|(?:{apart})") } else { pattern.clone() };
    matcher
        .build(&either)
        .or_else(|_| matcher.build(&args.pattern))
        .map_err(|e| ToolError::refused(format!("`pattern` is not a regular expression: {e}")))
}

/// True if a line that ends in CRLF ends before the carriage return, as Read and Edit have it. A pattern that names one
/// looks for it.
fn ends_before_return(args: &args::GrepArgs) -> bool {
    let names = ["\r", r"\r", r"\x0d", r"\x0D"];
    !names.iter().any(|name| args.pattern.contains(name))
}

/// The pattern of a search across lines, where a carriage return may stand before each end of a line that it names. A
/// class stays as it is.
fn accept_returns(pattern: &str) -> String {
    let flags =
        |part: &str| part.chars().take_while(char::is_ascii_alphabetic).any(|flag| flag == 'x');
    let is_verbose = pattern.split("(?").skip(1).any(flags);
    let (mut accepted, mut depth, mut is_first) = (String::new(), 0_usize, false);
    let mut rest = pattern.chars();
    while let Some(next) = rest.next() {
        let was_first = std::mem::take(&mut is_first);
        match next {
            '\\' => match rest.next() {
                Some('n') if depth == 0 => accepted.push_str(LINE_END),
                escaped => accepted.extend(std::iter::once(next).chain(escaped)),
            },
            '\n' if depth == 0 && !is_verbose => accepted.push_str(LINE_END),
            _ => {
                match next {
                    '[' => (depth, is_first) = (depth + 1, true),
                    '^' => is_first = was_first,
                    ']' if !was_first => depth = depth.saturating_sub(1),
                    _ => {}
                }
                accepted.push(next);
            }
        }
    }
    accepted
}

/// True if a match may hold characters that are other bytes in other encodings.
fn wants_more_than_ascii(pattern: &str) -> bool {
    let classes = [".", "[^", r"\w", r"\W", r"\S", r"\D", r"\p", r"\P", r"\x", r"\u", r"\U"];
    !pattern.is_ascii() || classes.iter().any(|class| pattern.contains(class))
}

impl FileSearch {
    /// Searches all files; returns the matches by path, and notes for the model.
    fn run(
        &self,
        tree: &WorktreeRoot,
        at: &LocatedPath,
        searcher: &Searcher,
    ) -> Result<(Vec<FoundLines>, Vec<String>), ToolError> {
        let found = Mutex::new(FoundFiles::default());
        let count = AtomicUsize::new(0);
        let visit = |searcher: &mut Searcher, relative: &Path| {
            self.visit(tree, searcher, relative, (&found, &count), self.mode)
        };
        let mut walked = walk_files(tree, &at.full, false, searcher, visit);
        let is_empty = || found.lock().is_ok_and(|found| found.files.is_empty());
        let mut notes = Vec::new();
        let named = at.full != tree.root();
        if is_empty() {
            let look = |searcher: &mut Searcher, relative: &Path| {
                if named { visit(searcher, relative) } else { WalkState::Quit }
            };
            let ignored = walk_ignored(tree, &at.full, (false, IGNORED), &walked, searcher, look);
            if !is_empty() {
                notes.push("(ignore files name these, and Git does not track them)".to_owned());
            } else if let Some(why) = self.glob.as_ref().and_then(|glob| glob.wrong.clone()) {
                return Err(ToolError::refused(why));
            } else if !named {
                notes.extend(ignored_note(ignored.first));
            }
        } else if at.full.is_dir() {
            let other = Mutex::new(FoundFiles::default());
            let look = |searcher: &mut Searcher, relative: &Path| {
                let to = (&other, &AtomicUsize::new(0));
                self.visit(tree, searcher, relative, to, GrepMode::Files)
            };
            let ignored =
                walk_ignored(tree, &at.full, (false, IGNORED_TOO), &walked, searcher, look);
            notes.extend(matched_too(&other.into_inner().unwrap_or_default(), ignored.is_cut));
        }
        let mut outside = outside::list_outside(tree, &at.full);
        outside.retain(|path| self.is_wanted(path));
        notes.extend(outside::outside_note(&outside));
        let mut found = found.into_inner().unwrap_or_default();
        if found.files.is_empty() && found.binary > 0 {
            notes.push(format!(
                "({} binary file(s) were not searched: name one as `path` to search it)",
                found.binary
            ));
        }
        match found.undecoded {
            0 => {}
            1 => notes.push("(1 file in another encoding was not searched)".to_owned()),
            n => notes.push(format!("({n} files in other encodings were not searched)")),
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

    /// True for a file whose name and type are searched.
    fn is_wanted(&self, relative: &Path) -> bool {
        let named = self.glob.as_ref().is_none_or(|glob| glob.is_match(&self.inside, relative));
        let typed =
            self.kind.as_ref().is_none_or(|kind| kind.matched(relative, false).is_whitelist());
        named && typed
    }

    fn visit(
        &self,
        tree: &WorktreeRoot,
        searcher: &mut Searcher,
        relative: &Path,
        (found, count): (&Mutex<FoundFiles>, &AtomicUsize),
        mode: GrepMode,
    ) -> WalkState {
        if !self.is_wanted(relative) {
            return WalkState::Continue;
        }
        let mut file = FoundLines::new(self.matcher.clone(), mode);
        let path = tree.root().join(relative);
        let mut ended = searcher.search_path(&self.matcher, &path, &mut file);
        let shown = relative.to_string_lossy();
        // UTF-16 looks like no text, and what is shown of a match has to be what Read shows.
        if self.decodes || file.binary.is_some() || file.is_lossy {
            match decode_file(tree, &path, &shown) {
                DecodedFile::Text(text) => {
                    file = FoundLines::new(self.matcher.clone(), mode);
                    ended = searcher.search_slice(&self.matcher, text.as_bytes(), &mut file);
                }
                DecodedFile::Unknown if file.matches == 0 => {
                    if let Ok(mut found) = found.lock() {
                        found.undecoded += 1;
                    }
                    return WalkState::Continue;
                }
                DecodedFile::Unknown | DecodedFile::AsItIs => {}
            }
        }
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
        // In a list of files the limit counts files, not lines.
        let counted = if mode == GrepMode::Content { file.kept } else { 1 };
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

/// Note that files match too which ignore files leave out.
fn matched_too(other: &FoundFiles, is_cut: bool) -> Option<String> {
    let first = other.files.iter().map(|file| file.path.as_str()).min();
    match (other.files.len(), first) {
        (1, Some(first)) if !is_cut => Some(format!(
            "(1 file that ignore files name matches too, `{first}`: pass its folder as `path`)"
        )),
        (0, _) | (_, None) => is_cut
            .then(|| "(of the files that ignore files name only some were searched)".to_owned()),
        (n, Some(first)) => {
            let least = if is_cut { "at least " } else { "" };
            Some(format!(
                "({least}{n} files that ignore files name match too, such as `{first}`: pass their folder as `path`)"
            ))
        }
    }
}
