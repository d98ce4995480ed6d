//! The files of a worktree as Git itself would stage them: one scan that commits, snapshots, receipts and
//! checkouts share. libgit2 stores and reads; where it differs from Git (sparse checkouts, files that Git was
//! told to pass over, intents to add, encodings, filters, split indexes), Git's own behaviour is what counts.

mod cone;
mod content;
mod encoding;
mod generated;
mod index;
mod left;
mod moving;
mod rules;
mod scan;
mod settings;
mod sparse;
mod sparse_add;
mod stat;
mod walk;

pub(super) use cone::{cone_folders, cone_patterns};
pub(super) use content::is_stored_as;
pub(super) use index::{
    ASSUMED, INTENT, SKIP, STAGE, conflicting_files, intents_left_out, leave_mended_note,
    open_index, show_mended_note, skip_sparse, take_mended_note,
};
pub(super) use left::{LeftAlone, LeftWhy, left_reasons, name_left};
pub(super) use moving::{MoveOutcome, encode_files, move_entries, move_files};
pub(super) use rules::{FlagUse, NewFile, NewFileVerdict, ScanLimit, ScanRules, ScanScope};
pub(super) use scan::{WorktreeChanges, WorktreeScanner, stage_changes};
pub(super) use settings::{carry_settings, read_configs, readable_path};
pub(super) use sparse::sparse_patterns;
pub(super) use sparse_add::check_out_more;
pub(super) use stat::{FileStat, index_written, written_at};
pub(super) use walk::GITLINK;
