//! The parts of the gateway that carry conversations on: merge trains, roadmaps, requests in parts, the conflict
//! radar, schedules, the watch over GitHub, and the end of a Thread.

use std::sync::Arc;

use codebutler_gateway_core::conditions::ConditionWriter;
use codebutler_gateway_core::consent::EffectConsent;
use codebutler_gateway_core::context::GatewayContext;
use codebutler_gateway_core::metrics::GatewayMetrics;
use codebutler_gateway_core::threads::ThreadWriter;
use codebutler_git::BranchDesk;
use codebutler_git::services::GitServices;
use codebutler_models::budget::Ledger;
use codebutler_runtime::tasks::TaskGroup;
use codebutler_slack::SlackGateway;
use tokio_util::sync::CancellationToken;

/// Services of one term of the leader.
pub struct WorkServices {
    /// Caches and the gateway's own Kubernetes identity.
    pub context: GatewayContext,
    /// Writes statuses of Threads.
    pub threads: ThreadWriter,
    /// The only client of Slack.
    pub slack: SlackGateway,
    /// Writes conditions of Repos.
    pub conditions: ConditionWriter,
    /// Ledger of grants and spending.
    pub ledger: Ledger,
    /// Copies of repositories, and what is done in them.
    pub git: Arc<GitServices>,
    /// Queue of Repos whose branches are to be compared, and cache of the results.
    pub branches: Arc<BranchDesk>,
    /// Asks people before an effect.
    pub consent: Arc<dyn EffectConsent>,
    /// Metrics that the gateway exports.
    pub metrics: GatewayMetrics,
    /// Work that has to end well even if its caller is gone.
    pub calls: TaskGroup,
    /// Cancelled at the end of the term.
    pub shutdown: CancellationToken,
}
