//! The form of a text file, apart from its words: encoding, byte order mark, line ends, syntax, and the cells
//! of notebooks. Whatever edits a file reads it here, changes its text, and gets back bytes that differ only
//! where the text does. Nothing here touches a disk.

mod detect;
mod encoding;
mod lines;
mod notebook;
mod pieces;
mod syntax;

pub use detect::{FormHints, UnfitText, label_encoding, read_text};
pub use encoding::{TextEncoding, TextForm, UnmappableText};
pub use lines::{EndCounts, LineEnd, LinedText};
pub use notebook::{CellOutput, NotebookFault, NotebookText, check_notebook, is_notebook_path};
pub use pieces::align_pieces;
pub use syntax::{BrokenSyntax, SyntaxKind, compare_syntax};
