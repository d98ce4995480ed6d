//! Output to Slack: a role's messages, CodeButler's own lines, pictures and files.
//!
//! Pure: [`blocks`], [`dates`], [`markdown`], [`message_parts`], [`mrkdwn`],
//! [`split_text`].

pub(crate) mod announce;
pub(crate) mod blocks;
pub(crate) mod compared;
pub(crate) mod dates;
pub(crate) mod drawn_images;
pub(crate) mod history_record;
pub(crate) mod markdown;
pub(crate) mod meaning;
pub(crate) mod message_parts;
pub(crate) mod mrkdwn;
pub(crate) mod notices;
pub(crate) mod opening;
pub mod page_reply;
pub(crate) mod personal;
pub(crate) mod pinned_plan;
pub(crate) mod post;
pub(crate) mod previews;
pub(crate) mod progress;
pub(crate) mod refused_blocks;
pub(crate) mod role_message;
pub(crate) mod split_text;
pub(crate) mod uploads;
pub mod usage;
