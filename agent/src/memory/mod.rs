//! A team's learnings, as they stand in `.codebutler/*.md`: read, judged, changed entry by entry, and chosen for a
//! prompt. Pure: files are read and written in [`crate::toolbox`], changes are proposed in [`crate::tools`], and what
//! people accepted is landed in [`crate::run`].

mod change;
mod citation;
mod contrary;
mod entry;
mod foreign;
mod hostile;
mod map;
mod marks;
mod page;
mod prune;
mod serve;
mod used;
mod workflow;

use crate::tokens::count_characters;

pub use change::{ChangeKind, LearningChange, LearningChangeError};
pub use citation::MemoryCitation;
pub use contrary::{contradicts, find_contradicted};
pub use entry::{
    EntryConfidence, EntryFieldError, LearningEntry, MAX_CITATIONS, MAX_CLAIM, MAX_FIELD, MAX_SCOPE,
};
pub use foreign::{ForeignSource, ForeignTexts, split_quoted};
pub use hostile::find_hostile_rule;
pub use map::{MAX_MAP_LINES, MapError, check_map, find_map, named_paths, replace_map};
pub use marks::LearningMarks;
pub use page::MemoryPage;
pub use prune::{NamedPage, PastThread, PruneSignal, find_signals};
pub use serve::{PlannedMemory, serve_apart, serve_pages};
pub use used::{KnownLearning, find_ids, name_used};
pub use workflow::{
    POLICY, WORKFLOWS, WorkflowError, check_workflow, find_workflow, replace_workflow,
};

/// Most tokens of the memory that a role is shown.
pub const MAX_MEMORY_TOKENS: u32 = 30_000;
/// The same in characters.
pub const MAX_MEMORY_LENGTH: usize = count_characters(MAX_MEMORY_TOKENS);
