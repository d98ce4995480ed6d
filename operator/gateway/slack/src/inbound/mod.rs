//! Input from Slack: events, what they mean for a Thread, and what a role reads of a conversation.
//!
//! Pure: [`emoji`], [`event`], [`hearing_record`], [`help`], [`own_mention`], [`roadmap_words`], [`route`],
//! [`unnamed_bot`].

pub(crate) mod answering;
pub(crate) mod audio;
pub(crate) mod catchup;
pub(crate) mod connections;
pub(crate) mod edits;
pub(crate) mod effects;
pub(crate) mod emoji;
pub(crate) mod event;
pub(crate) mod feedback_press;
pub(crate) mod file_contents;
pub(crate) mod files;
pub(crate) mod handled;
pub(crate) mod hearing;
mod hearing_record;
pub(crate) mod help;
mod help_taking;
pub(crate) mod in_flight;
pub(crate) mod inbox;
pub(crate) mod ingest;
mod linked_files;
pub(crate) mod links;
pub(crate) mod message_outcome;
pub(crate) mod offered_work;
pub(crate) mod own_mention;
pub mod page_reply;
pub(crate) mod picture_files;
pub(crate) mod reaction;
pub(crate) mod repo_choice;
pub(crate) mod roadmap_words;
pub(crate) mod route;
pub(crate) mod take_error;
pub(crate) mod unnamed_bot;
