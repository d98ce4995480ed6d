//! The model proxy, as its handlers and loops share it.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::pool::ModelPool;
use crate::gateway::budget::Ledger;
use crate::gateway::budget::notices::BudgetNotices;
use crate::gateway::conditions::ConditionWriter;
use crate::gateway::context::GatewayContext;
use crate::gateway::git::outcome::HostOutcomes;
use crate::gateway::metrics::GatewayMetrics;
use crate::tasks::TaskGroup;

/// Services of one term of the leader.
pub struct ModelServices {
    /// Caches and the gateway's own Kubernetes identity.
    pub context: GatewayContext,
    /// Writes conditions of Repos.
    pub conditions: ConditionWriter,
    /// What is granted and spent.
    pub ledger: Ledger,
    /// What is known of providers and their models.
    pub models: ModelPool,
    /// Talks to people about money.
    pub budget: Arc<dyn BudgetNotices>,
    /// Masks what may not leave.
    pub outcomes: HostOutcomes,
    /// What the gateway counts.
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
