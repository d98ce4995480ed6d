//! Notices to people about money, for the services that spend it.

use async_trait::async_trait;
use codebutler_gateway_core::api_error::ApiError;
use codebutler_gateway_core::caller::ProvenCaller;
use tokio::time::Instant;

use super::NearCap;
use super::limits::ExceededLimit;

/// Talks to people about money.
#[async_trait]
pub trait BudgetNotices: Send + Sync {
    /// Asks the thread, once, and remembers who waits for the answer. Returns the sentence for the
    /// role.
    ///
    /// # Errors
    /// When the question could not be asked: no answer would wake the role.
    async fn ask_money(
        &self,
        caller: &ProvenCaller,
        exceeded: &ExceededLimit,
    ) -> Result<String, ApiError>;

    /// Posts that a cap is near.
    fn report_near(&self, caller: &ProvenCaller, near: NearCap);

    /// Posts, once for each time that a model's circuit breaks, that another one answers.
    fn report_fallback(&self, caller: &ProvenCaller, asked: &str, instead: &str, since: Instant);

    /// Posts, once a day, that answers are cut short by what the account has left.
    fn report_short_credit(&self, caller: &ProvenCaller, of: (&str, &str), tokens: u32);
}
