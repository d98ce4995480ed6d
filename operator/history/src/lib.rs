//! Histories of conversations, as they are kept: [`Log`] says what a line may be added for, a [`Store`]
//! keeps the lines, [`Index`] finds them again; [`Trajectory`] says them in an open form. What a line says is [`codebutler_wire::history`]'s.

mod any;
mod bucket;
mod forget;
mod index;
mod log;
mod store;
mod trajectory;

pub use any::AnyStore;
pub use bucket::{Bucket, BucketError};
pub use forget::forget_person;
pub use index::{Index, Page};
pub use log::{Log, Refused};
pub use store::{Kept, Place, Store, Volume};
pub use trajectory::Trajectory;
