//! Slack's Web API and sockets: calls within their limits, what is connected, and who and what is there.

pub mod account;
pub mod channel;
pub mod channel_names;
pub mod clock;
pub mod connections;
pub mod conversation;
pub mod conversation_pages;
pub mod cursor;
pub mod explain;
pub mod groups_read;
pub mod lenient;
pub mod members;
pub mod person;
pub mod queue;
pub mod reading;
pub mod scopes;
pub mod socket;
pub mod stored_message;
pub mod web;
