//! Slack's Web API and sockets: calls within their limits, what is connected, and who and what is there.

pub(crate) mod account;
pub(crate) mod attribution;
pub(crate) mod call_error;
pub(crate) mod channel;
pub(crate) mod channel_names;
pub(crate) mod clock;
pub(crate) mod conversation;
pub(crate) mod conversation_pages;
pub(crate) mod cursor;
pub(crate) mod deferral;
pub(crate) mod download_error;
pub(crate) mod explain;
pub(crate) mod file_place;
pub(crate) mod frame;
pub(crate) mod groups_read;
pub(crate) mod known_channels;
pub(crate) mod lenient;
pub(crate) mod literal;
mod message_content;
pub(crate) mod queue;
pub(crate) mod reachability;
pub(crate) mod reading;
pub(crate) mod scopes;
pub(crate) mod socket;
pub(crate) mod stored_message;
pub(crate) mod web;
