//! Documents, as Read shows them: numbered lines under a few words about what is where. Their readers are children
//! (`command/reading.rs`); what they said last is kept, as the next page is asked for soon.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use codebutler_documents::{DocumentContent, DocumentError, DocumentText, PartEntry, SectionStart};
use codebutler_guides::text::clip_text;
use parking_lot::Mutex;

use super::ToolError;
use super::command::CommandShell;
use super::files::{DocumentPlace, number_lines, show_bytes};
use super::protocol::ToolboxReply;
use crate::tool_args as args;

/// Size of the cache, in documents.
const KEPT: usize = 3;
/// Pages and pictures that are named, and how long that may be.
const NAMED: usize = 40;
const MAX_NAMES: usize = 1_500;
/// Bytes of a page where a document marks none: less than Read shows at once.
const PAGE: usize = 40_000;
/// Bytes that the number of a line takes.
const NUMBER: usize = 8;

/// Cache key of a document, with the file's identity, size and time, so that it changes when the file does.
#[derive(Clone, Debug, PartialEq, Eq)]
struct DocumentKey {
    path: PathBuf,
    part: Option<String>,
    file: (u64, u64, u64, i64, i64),
}

impl DocumentKey {
    fn of(place: &DocumentPlace) -> std::io::Result<Self> {
        let meta = place.file.metadata()?;
        let file = (meta.dev(), meta.ino(), meta.len(), meta.mtime(), meta.mtime_nsec());
        Ok(Self { path: place.at.full.clone(), part: place.part.clone(), file })
    }
}

/// Reads documents, one at a time: each may take much memory.
#[derive(Default)]
pub(super) struct DocumentReader {
    kept: Mutex<VecDeque<(DocumentKey, Arc<DocumentContent>)>>,
    turn: tokio::sync::Mutex<()>,
}

impl DocumentReader {
    /// A document, or a part of it, as Read shows it.
    pub(super) async fn read(
        &self,
        shell: &CommandShell,
        place: DocumentPlace,
        args: &args::ReadArgs,
    ) -> Result<ToolboxReply, ToolError> {
        let shown = match &place.part {
            Some(part) => format!("{}/{part}", place.at.shown),
            None => place.at.shown.clone(),
        };
        let refused =
            |why: DocumentError| ToolError::refused(explain(&place.at.shown, &shown, &why));
        let key = DocumentKey::of(&place).map_err(|error| {
            ToolError::refused(format!("`{shown}` can't be looked at: {error}"))
        })?;
        let _turn = self.turn.lock().await;
        let content = if let Some(known) = self.find(&key) {
            known
        } else {
            let file = place.file.try_clone();
            let file: File =
                file.map_err(|error| ToolError::Failed(format!("no file can be opened: {error}")))?;
            let name = place.at.full.file_name().map(|name| name.to_string_lossy().into_owned());
            let read =
                shell.read_document(file, &name.unwrap_or_default(), place.part.as_deref()).await?;
            let content = Arc::new(read.map_err(refused)?);
            self.keep(key, &content);
            content
        };
        match &*content {
            DocumentContent::Text(text) => {
                show_document(&shown, text, args).map(ToolboxReply::Text)
            }
            DocumentContent::Part { name, bytes } => {
                // A file that is compressed as a whole has a name of its own inside.
                let shown = if place.part.is_some() { shown } else { format!("{shown}/{name}") };
                show_bytes(&shown, bytes, args)
            }
        }
    }

    fn find(&self, key: &DocumentKey) -> Option<Arc<DocumentContent>> {
        let kept = self.kept.lock();
        kept.iter().find(|(known, _)| known == key).map(|(_, content)| content.clone())
    }

    fn keep(&self, key: DocumentKey, content: &Arc<DocumentContent>) {
        let mut kept = self.kept.lock();
        kept.push_front((key, content.clone()));
        kept.truncate(KEPT);
    }
}

fn explain(file: &str, shown: &str, why: &DocumentError) -> String {
    match why {
        DocumentError::NoPart(_) => format!("`{file}` {why}: Read `{file}` to see what it has"),
        why => format!("`{shown}` {why}"),
    }
}

/// An overview, then the lines that were asked for.
fn show_document(
    shown: &str,
    text: &DocumentText,
    args: &args::ReadArgs,
) -> Result<String, ToolError> {
    let args = &choose_lines(shown, text, args)?;
    let mut out = format!("({}", text.kind);
    for note in &text.notes {
        let _ = write!(out, "; {}", clip_text(note, 500));
    }
    out.push_str(")\n");
    if text.text.is_empty() && !text.parts.is_empty() {
        let lines: Vec<String> =
            text.parts.iter().map(|part| format!("{} ({})", part.name, part.about)).collect();
        return Ok(out + &number_lines(shown, &lines.join("\n"), &[], args)?);
    }
    let begins = args.offset.is_none_or(|offset| offset <= 1);
    if begins && !text.places.is_empty() {
        let _ = writeln!(out, "({})", name_places(&text.places));
    }
    if begins && !text.parts.is_empty() {
        let _ = writeln!(out, "(pictures: {})", name_parts(shown, &text.parts));
    }
    if text.text.is_empty() {
        return Ok(out);
    }
    Ok(out + &number_lines(shown, &text.text, &[], args)?)
}

/// Turns the chosen pages into a range of lines.
fn choose_lines(
    shown: &str,
    text: &DocumentText,
    args: &args::ReadArgs,
) -> Result<args::ReadArgs, ToolError> {
    let Some(pages) = args.pages.as_deref().map(str::trim).filter(|pages| !pages.is_empty()) else {
        return Ok(args.clone());
    };
    // An archive is a list of names.
    if text.text.is_empty() {
        return Ok(args.clone());
    }
    let starts = page_starts(text);
    let total = starts.len();
    let number = |text: &str| text.trim().parse::<usize>().ok();
    let (first, last) = match pages.split_once('-') {
        Some((first, last)) => (number(first), number(last).or(Some(total))),
        None => (number(pages), number(pages)),
    };
    let (Some(first), Some(last)) = (first.filter(|first| *first > 0), last) else {
        return Err(ToolError::refused("`pages` is a number, or two such as `2-5`"));
    };
    let Some(start) = starts.get(first - 1).copied() else {
        return Err(ToolError::refused(format!(
            "`{shown}` has only {total} pages, slides or sheets"
        )));
    };
    let end = starts.get(last.max(first)).copied();
    let end = end.unwrap_or_else(|| text.text.lines().count() + 1);
    let narrow = |lines: usize| u32::try_from(lines).ok();
    Ok(args::ReadArgs {
        offset: narrow(start),
        limit: narrow(end.saturating_sub(start)),
        ..args.clone()
    })
}

/// First lines of the pages, slides or sheets, from 1. What stands before the first mark is pages, too: Word marks
/// the second page first, and other writers mark none.
fn page_starts(text: &DocumentText) -> Vec<usize> {
    let unmarked = text.places.first().map_or(usize::MAX, |place| place.line.saturating_sub(1));
    let (mut starts, mut size) = (Vec::new(), 0);
    for (index, line) in text.text.lines().take(unmarked).enumerate() {
        let length = line.len() + NUMBER;
        if starts.is_empty() || size + length > PAGE {
            starts.push(index + 1);
            size = 0;
        }
        size += length;
    }
    starts.extend(text.places.iter().map(|place| place.line));
    starts
}

fn name_places(places: &[SectionStart]) -> String {
    let named = places.iter().map(|place| format!("{} at line {}", place.title, place.line));
    join_names(named, places.len())
}

fn name_parts(shown: &str, parts: &[PartEntry]) -> String {
    let named = parts.iter().map(|part| format!("`{shown}/{}` {}", part.name, part.about));
    join_names(named, parts.len())
}

fn join_names(names: impl Iterator<Item = String>, total: usize) -> String {
    let (mut out, mut count) = (String::new(), 0);
    for name in names.take(NAMED) {
        if out.len() + name.len() > MAX_NAMES {
            break;
        }
        if count > 0 {
            out.push_str("; ");
        }
        out.push_str(&name);
        count += 1;
    }
    if count < total {
        let _ = write!(out, "; and {} more", total - count);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document() -> DocumentText {
        let pages = (1..=5)
            .map(|n| format!("== Page {n} of 5 ==\nwords {n}\n"))
            .collect::<Vec<_>>()
            .join("\n");
        let places =
            (0..5).map(|n| SectionStart { title: format!("Page {} of 5", n + 1), line: 3 * n + 1 });
        DocumentText {
            kind: "PDF".to_owned(),
            notes: vec!["pages without text: 9".to_owned()],
            places: places.collect(),
            parts: vec![PartEntry {
                name: "picture-1".to_owned(),
                about: "page 2, 64 x 64".to_owned(),
            }],
            text: pages,
        }
    }

    #[allow(clippy::needless_pass_by_value, reason = "it is made for the call")]
    fn show(args: args::ReadArgs) -> Result<String, String> {
        show_document("a.pdf", &document(), &args).map_err(|error| error.to_string())
    }

    #[test]
    fn a_document_says_what_is_where() {
        let all = show(args::ReadArgs::default()).unwrap();
        assert!(
            all.starts_with(
                "(PDF; pages without text: 9)\n(Page 1 of 5 at line 1; Page 2 of 5 at line 4;"
            ),
            "{all}"
        );
        assert!(
            all.contains(
                "(pictures: `a.pdf/picture-1` page 2, 64 x 64)\n     1\t== Page 1 of 5 ==\n"
            ),
            "{all}"
        );
        let later =
            show(args::ReadArgs { offset: Some(4), limit: Some(2), ..Default::default() }).unwrap();
        assert_eq!(
            later,
            "(PDF; pages without text: 9)\n     4\t== Page 2 of 5 ==\n     5\twords 2\n(lines 4 to 5 of 14; read on with offset 6)\n"
        );
    }

    #[test]
    fn pages_can_be_named() {
        let page = |pages: &str| {
            show(args::ReadArgs { pages: Some(pages.to_owned()), ..Default::default() })
        };
        let two = page("2").unwrap();
        assert!(
            two.contains("words 2") && !two.contains("words 1") && !two.contains("words 3"),
            "{two}"
        );
        let some = page("4-9").unwrap();
        assert!(
            some.contains("words 4") && some.contains("words 5") && !some.contains("words 3"),
            "{some}"
        );
        assert!(page("6").unwrap_err().contains("only 5"));
        assert!(page("x").unwrap_err().contains("`pages`"));
    }

    #[test]
    fn what_stands_before_the_first_mark_is_pages_too() {
        let place = |title: &str, line| SectionStart { title: title.to_owned(), line };
        let page = |text: &DocumentText, pages: &str| {
            let args = args::ReadArgs { pages: Some(pages.to_owned()), ..Default::default() };
            show_document("a.docx", text, &args).map_err(|error| error.to_string())
        };
        // Word marks where the second page began.
        let word = DocumentText {
            places: vec![place("Page 2 as Word last laid it out", 2), place("Headers", 4)],
            text: "first\n== Page 2 ==\nsecond\n== Headers ==\ndraft\n".to_owned(),
            ..DocumentText::default()
        };
        let [one, two, three] = ["1", "2", "3"].map(|pages| page(&word, pages).unwrap());
        assert!(one.contains("\tfirst") && !one.contains("second"), "{one}");
        assert!(two.contains("\tsecond") && !two.contains("first"), "{two}");
        assert!(three.contains("\tdraft") && !three.contains("second"), "{three}");
        // Others mark nothing: each page is as much as is shown at once, and none is lost between them.
        let line = "x".repeat(990);
        let lines: Vec<String> = (0..100).map(|n| format!("{n} {line}")).collect();
        let long = DocumentText { text: lines.join("\n"), ..DocumentText::default() };
        let shown: Vec<String> = (1..=3).map(|n| page(&long, &n.to_string()).unwrap()).collect();
        for n in 0..100 {
            let found = shown.iter().filter(|text| text.contains(&format!("\t{n} x")));
            assert_eq!(found.count(), 1, "line {n}");
        }
        assert!(page(&long, "4").unwrap_err().contains("only 3"));
        // An archive has names and no pages.
        let archive = DocumentText { parts: document().parts, ..DocumentText::default() };
        assert!(page(&archive, "1").unwrap().contains("picture-1"));
    }
}
