//! What goes out: a role's messages, CodeButler's own lines, pictures and files.
//!
//! Pure: [`blocks`], [`literal`], [`markdown`], [`mentions`], [`mrkdwn`], [`split_text`].

pub mod announce;
pub mod blocks;
pub mod compared;
pub mod drawn_images;
pub mod history_record;
pub mod literal;
pub mod markdown;
pub mod meaning;
pub mod mentions;
pub mod mrkdwn;
pub mod notices;
pub mod opening;
pub mod page_reply;
pub mod personal;
pub mod pinned_plan;
pub mod post;
pub mod previews;
pub mod progress;
pub mod refused_blocks;
pub mod role_message;
pub mod split_text;
pub mod uploads;
pub mod usage;
