//! Bounds of a session: the protocol and its SDKs have none.

use std::time::Duration;

/// Time limits and size limits of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionLimits {
    /// Time from the connection to the answer of `initialize`.
    pub start: Duration,
    /// Time for a short request, and for one page of a list where `call_idle` is shorter.
    pub request: Duration,
    /// A call, a resource or a prompt without an answer and without progress.
    pub call_idle: Duration,
    /// One of these, whatever progress it reports.
    pub call_total: Duration,
    /// Closing: cancelling what runs, and ending the session.
    pub close: Duration,
    /// Most pages of one list.
    pub pages: usize,
    /// Most items of one list.
    pub items: usize,
    /// Bytes of all items of one list together.
    pub list_bytes: usize,
    /// Most bytes of one message.
    pub message_bytes: usize,
    /// Bytes of a tool's input schema; output schemas above it are dropped.
    pub schema_bytes: usize,
    /// Characters of a tool's description.
    pub description_chars: usize,
    /// Events that wait for their reader; the oldest give way.
    pub events: usize,
    /// Requests of the server that wait for an answer.
    pub server_requests: usize,
}

impl Default for SessionLimits {
    fn default() -> Self {
        Self {
            start: Duration::from_secs(30),
            request: Duration::from_secs(10),
            // Browsers wait for 60 s before they give up on a page.
            call_idle: Duration::from_secs(90),
            call_total: Duration::from_mins(10),
            close: Duration::from_secs(5),
            pages: 50,
            items: 5000,
            list_bytes: 8 << 20,
            message_bytes: 16 << 20,
            schema_bytes: 64 << 10,
            description_chars: 8000,
            events: 256,
            server_requests: 32,
        }
    }
}
