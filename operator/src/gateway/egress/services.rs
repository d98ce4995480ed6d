//! Connections to the outside, as handlers share them.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::ThreadEgress;
use crate::gateway::conditions::ConditionWriter;
use crate::gateway::context::GatewayContext;
use crate::gateway::git::outcome::HostOutcomes;
use crate::gateway::metrics::GatewayMetrics;
use crate::gateway::notices::ThreadNotices;
use crate::gateway::searcher::WebSearcher;
use crate::gateway::web::{FoundPages, OpenedPages, SearchEngine};

/// Services of one term of the leader.
pub struct EgressServices {
    /// Caches and the gateway's own Kubernetes identity.
    pub context: GatewayContext,
    /// Writes conditions of Repos.
    pub conditions: ConditionWriter,
    /// Connections of workspaces and web tools.
    pub egress: ThreadEgress,
    /// The search provider of the installation.
    pub search: SearchEngine,
    /// Searches where the installation has none.
    pub searcher: WebSearcher,
    /// Pages that searches have found.
    pub found: FoundPages,
    /// Pages that roles have opened.
    pub opened: OpenedPages,
    /// Posts lines of CodeButler's own.
    pub notices: Arc<dyn ThreadNotices>,
    /// Masks what may not leave.
    pub outcomes: HostOutcomes,
    /// What the gateway counts.
    pub metrics: GatewayMetrics,
    /// Cancelled at the end of the term.
    pub shutdown: CancellationToken,
}
