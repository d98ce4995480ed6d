//! Response URLs, which come with clicks.

use tokio::time::Instant;

/// Target and creation time of a response URL.
#[derive(Debug, Clone)]
pub(super) struct ResponseHook {
    pub channel: String,
    pub ts: String,
    pub user: String,
    pub uses: u8,
    pub created: Instant,
}
