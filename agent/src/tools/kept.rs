//! History of the conversation at the gateway, for the tools that look back on it.

use super::ToolContext;
use crate::history::KeptHistory;

/// Most pages of a history that are read.
const MAX_PAGES: usize = 200;

impl ToolContext {
    /// Reads the gateway's history of the conversation. A part that can't be read is left out: no work waits for it.
    pub(super) async fn kept_history(&self) -> KeptHistory {
        let (mut kept, mut behind) = (KeptHistory::default(), 0);
        for _ in 0..MAX_PAGES {
            let page = match self.gateway.history_lines(behind).await {
                Ok(page) => page,
                Err(error) => {
                    tracing::warn!(%error, "history_read_failed");
                    kept.miss(error.to_string());
                    return kept;
                }
            };
            page.lines.into_iter().for_each(|line| kept.add(line));
            match page.behind {
                Some(next) if next > behind => behind = next,
                _ => return kept,
            }
        }
        kept.miss("the history is longer than what is read of one".to_owned());
        kept
    }
}
