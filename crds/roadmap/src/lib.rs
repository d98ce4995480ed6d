//! `.codebutler/roadmap.md`: what a team plans to build, item by item, with what each one waits for.
//!
//! People write the file, so it is read strictly ([`RoadmapFile::read`]): what is wrong is a [`RoadmapFault`] with its
//! line, and an item that has one is not worked on while the others are. Edits ([`edit`]) change lines of one
//! item and leave everything else as people wrote it. Pure: nothing here reads a file.

#![warn(missing_docs)]

mod draft;
pub mod edit;
mod graph;
mod item;
mod line;
mod read;

pub use self::draft::{DraftError, DraftItem, fresh_id};
pub use self::item::{ItemField, ItemStatus, RoadmapFault, RoadmapItem, is_item_id};
pub use self::read::{MAX_FILE, MAX_ITEMS, RoadmapFile};

/// The file, in a repository's folder for CodeButler.
pub const FILE: &str = "roadmap.md";
