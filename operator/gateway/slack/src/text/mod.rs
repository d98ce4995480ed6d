//! Texts of messages: what people mean by theirs, and the markup and the parts of ours.
//!
//! Pure: all but [`content`].

pub(crate) mod address;
pub(crate) mod content;
pub(crate) mod courtesy;
pub(crate) mod decision_words;
pub(crate) mod feedback;
pub(crate) mod markdown;
pub(crate) mod mrkdwn;
pub(crate) mod numbered_reply;
pub(crate) mod page_author;
pub(crate) mod person_message;
pub(crate) mod quoting;
pub(crate) mod split_text;
