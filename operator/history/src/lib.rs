//! Histories of conversations, as they are kept: [`Log`] says what a line may be added for, a [`Store`]
//! keeps the lines, [`Index`] finds them again. What a line says is [`codebutler_wire::history`]'s.

mod index;
mod log;
mod store;

pub use index::{Index, Page};
pub use log::{Log, Refused};
pub use store::{Kept, Place, Store, Volume};
