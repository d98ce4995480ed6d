//! Output to Slack: a role's messages, CodeButler's own lines, pictures and files.
//!
//! Pure: [`dates`], [`message_parts`].

pub(crate) mod announce;
pub(crate) mod asking;
pub(crate) mod compared;
pub(crate) mod dates;
pub(crate) mod drawn_images;
pub(crate) mod history_record;
pub(crate) mod meaning;
pub(crate) mod message_parts;
pub(crate) mod notices;
pub(crate) mod opening;
pub(crate) mod personal;
pub(crate) mod pictures;
pub(crate) mod pinned_plan;
pub(crate) mod post;
pub(crate) mod previews;
pub(crate) mod progress;
pub(crate) mod refused_blocks;
pub(crate) mod role_message;
pub(crate) mod settled_messages;
pub(crate) mod uploads;
pub mod usage;
