//! Histories as pages for people: lines in, HTML out. Pure; who serves it and to whom is the gateway's.
//!
//! Every text is untrusted, and escaped by the templates: none of it is ever markup. [`step`] says what a
//! line looks like, [`text`] folds and colours, [`summary`] adds up, [`page`] puts them together.

mod page;
mod step;
mod summary;
#[cfg(test)]
mod tests;
mod text;

pub use page::{Filter, Listed, ThreadPage, list, one_step, steps, thread};
pub use step::Step;
pub use summary::{Summary, Totals};

/// Styles of all pages.
pub const STYLE: &str = include_str!("../assets/page.css");
/// Keeps a page up to date; without it, a page is as of its loading.
pub const SCRIPT: &str = include_str!("../assets/page.js");
