//! The model proxy, as its handlers and loops share it.

use std::sync::Arc;

use codebutler_gateway_core::conditions::ConditionWriter;
use codebutler_gateway_core::context::GatewayContext;
use codebutler_gateway_core::metrics::GatewayMetrics;
use codebutler_git::host_report::HostReports;
use codebutler_runtime::tasks::TaskGroup;
use tokio_util::sync::CancellationToken;

use super::pool::ModelPool;
use crate::budget::Ledger;
use crate::budget::notices::BudgetNotices;

/// Services of one term of the leader.
pub struct ModelServices {
    /// Caches and the gateway's own Kubernetes identity.
    pub context: GatewayContext,
    /// Writes conditions of Repos.
    pub conditions: ConditionWriter,
    /// Books of what is granted and spent.
    pub ledger: Ledger,
    /// Known facts about providers and their models.
    pub models: ModelPool,
    /// Talks to people about money.
    pub budget: Arc<dyn BudgetNotices>,
    /// Masks what may not leave.
    pub outcomes: HostReports,
    pub metrics: GatewayMetrics,
    /// Requests that are no model calls: cut when another gateway serves agents.
    pub requests: TaskGroup,
    /// Work that has to end well even if its caller is gone.
    pub calls: TaskGroup,
    /// Model calls, which are served to their end.
    pub answers: TaskGroup,
    /// Cancelled at the end of the term.
    pub shutdown: CancellationToken,
}
