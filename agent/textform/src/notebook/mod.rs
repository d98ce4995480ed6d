//! Jupyter notebooks: their cells as one text that can be edited, and the file with what was changed in it.
//!
//! The text has a header for each cell, `# [code 2]`, and its source below. What was edited is found again by
//! the headers: one that is gone takes its cell with it, one without a number begins a new cell. Outside the
//! cells that changed, the file stays as it is to the byte.

mod cells;
mod check;
mod literal;
mod outputs;
mod rewrite;
mod view;

pub use cells::{NotebookFault, NotebookText, is_notebook_path};
pub use check::check_notebook;
pub(crate) use literal::with_finite_numbers;
pub use outputs::CellOutput;

#[cfg(test)]
mod tests;
