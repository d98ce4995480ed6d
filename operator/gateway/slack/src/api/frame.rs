//! Frames of a Socket Mode connection, before their payload is read.

use serde::Deserialize;
use serde_json::Value;

/// A frame as it came, before its payload is read.
#[derive(Debug, Deserialize)]
pub(crate) struct SocketFrame {
    /// `hello`, `disconnect`, `events_api`, `interactive` and what may come.
    #[serde(rename = "type", default)]
    pub kind: String,
    #[serde(default)]
    pub envelope_id: Option<String>,
    /// Reason that Slack gives, for `disconnect`.
    #[serde(default)]
    pub reason: Option<String>,
    /// Content of the envelope; its form depends on `kind`.
    #[serde(default)]
    pub payload: Value,
}
