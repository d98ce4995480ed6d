//! Histories of conversations, as they are kept: [`HistoryLog`] says what a line may be added for,
//! a [`HistoryStore`] keeps the lines, [`LineIndex`] finds them again; [`RunTrajectory`] says them
//! in an open form. What a line says is [`codebutler_wire::history`]'s.

mod any;
mod bucket;
mod forget;
mod index;
mod lines;
mod log;
mod store;
mod trajectory;

pub use any::AnyStore;
pub use bucket::{BucketError, HistoryBucket};
pub use forget::forget_person;
pub use index::{LineIndex, LinePage, ThreadBegin};
pub use lines::{KeptLine, LineWalk};
pub use log::{HistoryLog, RefusedBatch};
pub use store::{HistoryStore, HistoryVolume, StoredHistory, ThreadPlace, ThreadPlaceError};
pub use trajectory::RunTrajectory;
