//! Services for connections to the outside, of pages, searches and workspaces.

use std::sync::Arc;

use codebutler_gateway_core::conditions::ConditionWriter;
use codebutler_gateway_core::context::GatewayContext;
use codebutler_gateway_core::egress::ThreadEgress;
use codebutler_gateway_core::metrics::GatewayMetrics;
use codebutler_gateway_core::notices::ThreadNotices;
use codebutler_gateway_core::searcher::WebSearcher;
use codebutler_git::host_report::HostReports;
use tokio_util::sync::CancellationToken;

use super::cited::OpenedPages;
use super::found::FoundPages;
use super::robots::RobotsCache;
use super::search::SearchEngine;

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
    /// Search by a role's model, where the installation has no provider.
    pub searcher: WebSearcher,
    /// Pages that searches have found.
    pub found: FoundPages,
    /// Pages that roles have opened.
    pub opened: OpenedPages,
    /// The `robots.txt` of sites, as they were last read.
    pub robots: RobotsCache,
    /// Posts lines of CodeButler's own.
    pub notices: Arc<dyn ThreadNotices>,
    /// Reports if the Git hosts of Repos can be worked with.
    pub outcomes: HostReports,
    /// Metrics that the gateway exports.
    pub metrics: GatewayMetrics,
    /// Cancelled at the end of the term.
    pub shutdown: CancellationToken,
}
