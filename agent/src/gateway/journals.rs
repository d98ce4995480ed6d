//! Journals of roles, and the history that the gateway keeps of them.

use std::time::Duration;

use codebutler_wire::{HistoryBatch, HistoryKept, HistoryLines, PastConversations, path};
use reqwest::Method;

use super::{GatewayClient, GatewayError, parse_answer, send_once};

/// Retry budget of a reading that a run can do without.
const HISTORY_PATIENCE: Duration = Duration::from_secs(10);

impl GatewayClient {
    /// Reads how far the gateway has kept the role's journals. Tried once.
    pub async fn history_kept(&self) -> Result<HistoryKept, GatewayError> {
        let request = self.request(Method::GET, path::HISTORY)?;
        parse_answer(&send_once(Ok(request)).await?.body)
    }

    /// Sends the next lines of a journal. Tried once.
    pub async fn tell_history(&self, batch: &HistoryBatch) -> Result<HistoryKept, GatewayError> {
        let request = self.request(Method::POST, path::HISTORY)?.json(batch);
        parse_answer(&send_once(Ok(request)).await?.body)
    }

    /// Reads the kept lines of the conversation after line number `behind`.
    pub async fn history_lines(&self, behind: u64) -> Result<HistoryLines, GatewayError> {
        let query = [("behind", behind)];
        let answer = self.retried(HISTORY_PATIENCE, || {
            Ok(self.request(Method::GET, path::HISTORY_LINES)?.query(&query))
        });
        parse_answer(&answer.await?)
    }

    /// Reads the first requests of earlier conversations of the Repo. Tried once: nothing waits for them.
    pub async fn past_conversations(&self) -> Result<PastConversations, GatewayError> {
        let request = self.request(Method::GET, path::HISTORY_REQUESTS)?;
        parse_answer(&send_once(Ok(request)).await?.body)
    }
}
