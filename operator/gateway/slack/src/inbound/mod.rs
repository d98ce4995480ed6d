//! What comes in: events, what they mean for a Thread, and what a role reads of a conversation.
//!
//! Pure: [`access`], [`address`], [`courtesy`], [`decision_words`], [`emoji`], [`event`], [`numbered_reply`],
//! [`page_author`], [`person_message`], [`quoting`], [`roadmap_words`], [`route`].

pub mod access;
pub mod address;
pub mod audio;
pub mod catchup;
pub mod content;
pub mod courtesy;
pub mod decision_words;
pub mod deferral;
pub mod edits;
pub mod effects;
pub mod emoji;
pub mod event;
pub mod feedback;
pub mod feedback_press;
pub mod file_contents;
pub mod files;
pub mod inbox;
pub mod ingest;
pub mod links;
pub mod message_outcome;
pub mod numbered_reply;
pub mod page_author;
pub mod person_message;
pub mod picture_files;
pub mod pictures;
pub mod quoting;
pub mod reaction;
pub mod repo_choice;
pub mod roadmap_words;
pub mod route;
pub mod take_error;
