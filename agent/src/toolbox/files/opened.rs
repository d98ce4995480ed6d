//! A file as the text that an edit changes, and the bytes that it becomes: its form is kept, or it is left alone.

use std::fs;
use std::os::unix::fs::MetadataExt as _;

use codebutler_textform::{
    LinedText, NotebookText, SyntaxKind, TextEncoding, TextForm, UnfitText, UnmappableText,
    check_notebook, compare_syntax, is_notebook_path, label_encoding, read_text,
};

use super::super::ToolError;
use super::super::paths::{LocatedPath, WorktreeRoot};
use super::hints::{EncodingHints, wants_crlf};

/// Beginning of a Git LFS pointer, which stands for the real file.
const LFS_POINTER: &[u8] = b"version https://git-lfs.github.com/spec/v1\n";
/// JSON of a notebook without cells.
const NEW_NOTEBOOK: &str =
    "{\n \"cells\": [],\n \"metadata\": {},\n \"nbformat\": 4,\n \"nbformat_minor\": 5\n}\n";

/// A text file or a notebook.
#[derive(Debug)]
pub(super) struct OpenedFile {
    form: TextForm,
    /// Text as the file has it, with its line ends.
    raw: String,
    notebook: Option<NotebookText>,
    /// Text that is searched and changed.
    text: LinedText,
}

/// New content of a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NextContent {
    pub bytes: Vec<u8>,
    /// Notes on the change, for the model.
    pub notes: Vec<String>,
}

impl OpenedFile {
    /// Decodes a file for an edit; refuses one that can't be edited.
    pub(super) fn open(
        tree: &WorktreeRoot,
        at: &LocatedPath,
        bytes: &[u8],
    ) -> Result<Self, ToolError> {
        if is_lfs_pointer(bytes) {
            return Err(ToolError::refused(format!(
                "`{}` is kept by Git LFS, and only the pointer to it is here: get its content first with \
                 `git lfs pull`, if you have Bash, or ask for it",
                at.shown
            )));
        }
        let hints = EncodingHints::find(tree, at);
        let (form, raw) = read_text(bytes, &hints.as_form())
            .map_err(|unfit| refuse_unfit(at, &unfit, bytes.len()))?;
        Ok(Self::of_text(at, form, raw))
    }

    pub(super) fn of_text(at: &LocatedPath, form: TextForm, raw: String) -> Self {
        let notebook = is_notebook_path(&at.full).then(|| NotebookText::parse(&raw)).flatten();
        let text = LinedText::split(notebook.as_ref().map_or(&raw, NotebookText::view));
        Self { form, raw, notebook, text }
    }

    /// The text that is edited: of a notebook, its cells.
    pub(super) fn text(&self) -> &LinedText {
        &self.text
    }

    pub(super) fn notebook(&self) -> Option<&NotebookText> {
        self.notebook.as_ref()
    }

    /// The file with an edited text.
    pub(super) fn with_text(
        &self,
        at: &LocatedPath,
        text: &LinedText,
    ) -> Result<NextContent, ToolError> {
        let raw = match &self.notebook {
            None => text.raw(),
            Some(notebook) => notebook
                .with_view(text)
                .map_err(|fault| ToolError::refused(format!("`{}` {fault}", at.shown)))?,
        };
        self.with_raw(at, &raw)
    }

    /// The file with a new content as a whole, of which the form is kept.
    pub(super) fn with_content(
        &self,
        at: &LocatedPath,
        content: &str,
    ) -> Result<NextContent, ToolError> {
        if self.notebook.is_some() && NotebookText::is_view(content) {
            let mut view = self.text.clone();
            view.replace(0..view.text().len(), content, false);
            return self.with_text(at, &view);
        }
        let was_valid = check_notebook(&self.raw).is_ok();
        if self.notebook.is_some()
            && let Err(fault) = check_notebook(content)
            && (was_valid || NotebookText::parse(content).is_none())
        {
            return Err(refuse_notebook(at, &fault.to_string()));
        }
        let mut text = LinedText::split(&self.raw);
        let content = match content.strip_prefix('\u{feff}') {
            Some(bare) if self.form.mark => bare,
            _ => content,
        };
        let content = with_last_end(&self.raw, content);
        let as_given = content.contains('\r');
        text.replace(0..text.text().len(), &content, as_given);
        let mut next = self.with_raw(at, &text.raw())?;
        next.notes.extend(self.describe_kept(&text, as_given));
        Ok(next)
    }

    fn with_raw(&self, at: &LocatedPath, raw: &str) -> Result<NextContent, ToolError> {
        let bytes = self.form.encode(raw).map_err(|missing| refuse_character(at, &missing))?;
        let mut notes = Vec::new();
        if let Some(kind) = SyntaxKind::of_path(&at.full)
            && let Some(broken) = compare_syntax(kind, &self.raw, raw)
        {
            notes.push(format!("`{}` {broken}", at.shown));
        }
        notes.extend(describe_links(at));
        Ok(NextContent { bytes, notes })
    }

    /// Describes encoding and line ends of a file that is not plain, for the first line of Read's answer.
    pub(super) fn describe_form(&self) -> Option<String> {
        let lines = LinedText::split(&self.raw);
        let mut parts = Vec::new();
        if self.form != TextForm::PLAIN
            && !(self.raw.is_ascii() && self.form.encoding.extends_ascii() && !self.form.mark)
        {
            let mark = if self.form.mark { " with byte order mark" } else { "" };
            parts.push(format!("{} text{mark}", self.form.encoding));
        }
        let ends = lines.count_ends();
        if ends.crlf > 0 || ends.cr > 0 {
            parts.push(ends.to_string());
        }
        if self.notebook.is_none() && !self.raw.is_empty() && !lines.text().ends_with('\n') {
            parts.push("no newline at the end".to_owned());
        }
        (!parts.is_empty()).then(|| parts.join(", "))
    }

    /// Describes the form that Write kept, or the line ends that it was asked to change.
    fn describe_kept(&self, after: &LinedText, as_given: bool) -> Option<String> {
        let (old, new) = (LinedText::split(&self.raw).count_ends(), after.count_ends());
        if as_given && old.to_string() != new.to_string() {
            return Some(format!(
                "`\\r` in `content` changed its line ends: {new} now, {old} before"
            ));
        }
        let kept = Self { text: after.clone(), raw: after.raw(), notebook: None, form: self.form };
        kept.describe_form().map(|form| format!("kept as it was: {form}"))
    }
}

/// The content of a file that is not there yet, in the encoding and with the line ends that the repository asks for.
pub(super) fn encode_new(
    tree: &WorktreeRoot,
    at: &LocatedPath,
    content: &str,
) -> Result<NextContent, ToolError> {
    // A script that names its interpreter is none with a carriage return behind that name.
    let is_open = content.contains('\n') && !content.contains('\r') && !content.starts_with("#!");
    if !is_open || is_notebook_path(&at.full) || !wants_crlf(tree, at) {
        return encode_text(tree, at, content);
    }
    let mut next = encode_text(tree, at, &content.replace('\n', "\r\n"))?;
    next.notes.push("written with CRLF line ends, as `.editorconfig` asks for".to_owned());
    Ok(next)
}

fn encode_text(
    tree: &WorktreeRoot,
    at: &LocatedPath,
    content: &str,
) -> Result<NextContent, ToolError> {
    if is_notebook_path(&at.full) {
        if NotebookText::is_view(content) {
            let empty = OpenedFile::of_text(at, TextForm::PLAIN, NEW_NOTEBOOK.to_owned());
            return empty.with_text(at, &LinedText::split(content));
        }
        if !content.is_empty() {
            check_notebook(content).map_err(|fault| refuse_notebook(at, &fault.to_string()))?;
        }
    }
    let hints = EncodingHints::find(tree, at);
    let told = |form: TextForm, by: &str| match form {
        TextForm::PLAIN => Vec::new(),
        form => vec![format!("written as {form}, as {by} asks for")],
    };
    let bare = content.strip_prefix('\u{feff}').unwrap_or(content);
    if let Some(form) = hints.attribute().and_then(label_encoding) {
        let text = if form.mark { bare } else { content };
        // Git would refuse the file in any other encoding.
        let bytes = form.encode(text).map_err(|missing| refuse_character(at, &missing))?;
        return Ok(NextContent { bytes, notes: told(form, "`working-tree-encoding`") });
    }
    let Some(form) = hints.charset().and_then(label_encoding) else {
        return Ok(NextContent { bytes: content.as_bytes().to_vec(), notes: Vec::new() });
    };
    let text = if form.mark { bare } else { content };
    Ok(match form.encode(text) {
        Ok(bytes) if form.encoding.extends_ascii() && content.is_ascii() && !form.mark => {
            NextContent { bytes, notes: Vec::new() }
        }
        Ok(bytes) => NextContent { bytes, notes: told(form, "`.editorconfig`") },
        Err(missing) => NextContent {
            bytes: content.as_bytes().to_vec(),
            notes: vec![format!(
                "written as UTF-8 although `.editorconfig` asks for {form}: {missing}"
            )],
        },
    })
}

/// Returns true for a Git LFS pointer, which only stands for the real file.
pub(super) fn is_lfs_pointer(bytes: &[u8]) -> bool {
    bytes.len() < 1024 && bytes.starts_with(LFS_POINTER)
}

/// The last line is ended as it was.
fn with_last_end(old: &str, content: &str) -> String {
    let is_ended = |text: &str| text.ends_with(['\n', '\r']);
    match (is_ended(old), is_ended(content)) {
        _ if old.is_empty() || content.is_empty() => content.to_owned(),
        (true, false) => {
            let end = match content {
                content if content.contains("\r\n") => "\r\n",
                content if content.contains('\r') => "\r",
                _ => "\n",
            };
            format!("{content}{end}")
        }
        (false, true) => {
            let bare = content.strip_suffix('\n').unwrap_or(content);
            bare.strip_suffix('\r').unwrap_or(bare).to_owned()
        }
        _ => content.to_owned(),
    }
}

fn refuse_unfit(at: &LocatedPath, unfit: &UnfitText, size: usize) -> ToolError {
    let shown = &at.shown;
    ToolError::refused(match unfit {
        UnfitText::Binary => format!(
            "`{shown}` is a binary file of {size} bytes: change it with a program of the workspace, if you have Bash; \
             remove it first if text is to take its place"
        ),
        unfit => format!(
            "`{shown}` {unfit}, so it can't be edited without changing the rest of it: {CONVERT}"
        ),
    })
}

/// Remedy for a text that its file's encoding can't hold.
pub(super) const CONVERT: &str =
    "convert it to UTF-8 first, in a commit of its own, such as with `iconv`, if you have Bash";

fn refuse_character(at: &LocatedPath, missing: &UnmappableText) -> ToolError {
    ToolError::refused(format!(
        "`{}` was not changed: its encoding {missing}. Write it differently, or convert the file first, in a \
         commit of its own (`iconv -f {} -t UTF-8`, if you have Bash)",
        at.shown,
        missing.encoding.iconv_name()
    ))
}

fn refuse_notebook(at: &LocatedPath, fault: &str) -> ToolError {
    ToolError::refused(format!(
        "`{}` was not written: as a notebook it {fault}. Pass all of its JSON, or its cells as Read shows them: \
         a line `# [code]` or `# [markdown]`, the cell's text, and an empty line between two cells",
        at.shown
    ))
}

/// Replacing a file takes it out of the names that it shares.
fn describe_links(at: &LocatedPath) -> Option<String> {
    let names = fs::metadata(&at.full).ok()?.nlink();
    (names > 1).then(|| {
        format!(
            "`{}` was one of {names} hard links to the same file: the others keep the old content",
            at.shown
        )
    })
}

/// Explains that Git keeps a file in another encoding than the one that it has in the worktree.
pub(super) fn describe_mismatch(form: TextForm, hints: &EncodingHints) -> Option<String> {
    let label = hints.attribute()?;
    let wanted = label_encoding(label)?;
    (form.encoding == TextEncoding::Utf8 && wanted.encoding != TextEncoding::Utf8).then(|| {
        format!("`.gitattributes` says `working-tree-encoding={label}`, but it is UTF-8 here and stays so")
    })
}
