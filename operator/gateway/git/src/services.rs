//! Repositories of Repos, as handlers and loops share them.

use std::sync::Arc;

use codebutler_gateway_core::conditions::ConditionWriter;
use codebutler_gateway_core::consent::EffectConsent;
use codebutler_gateway_core::context::GatewayContext;
use codebutler_gateway_core::metrics::GatewayMetrics;
use codebutler_gateway_core::notices::ThreadNotices;
use codebutler_gateway_core::thread_key::ThreadKey;
use codebutler_gateway_core::threads::ThreadWriter;
use codebutler_gateway_core::threads::keyed::KeyedLocks;
use codebutler_runtime::tasks::TaskGroup;
use tokio_util::sync::CancellationToken;

use super::branch_facts::BranchFacts;
use super::host_report::HostReports;
use super::mirror::RepoMirrors;

/// Services of one term of the leader.
pub struct GitServices {
    /// Caches and the gateway's own Kubernetes identity.
    pub context: GatewayContext,
    /// Writes statuses of Threads.
    pub threads: ThreadWriter,
    /// Writes conditions of Repos.
    pub conditions: ConditionWriter,
    /// Copies of the Repos' repositories.
    pub mirrors: RepoMirrors,
    /// Cache of facts about branches, and the queue of Repos whose branches are to be compared.
    pub branches: Arc<BranchFacts>,
    /// Locks by Thread: pictures of a Thread are pushed one at a time.
    pub pictures: KeyedLocks<ThreadKey>,
    /// Asks people before a push that the Repo wants approved.
    pub consent: Arc<dyn EffectConsent>,
    /// Posts lines of CodeButler's own.
    pub notices: Arc<dyn ThreadNotices>,
    /// Reports how the Git host stands.
    pub outcomes: HostReports,
    /// Counters and histograms of the gateway.
    pub metrics: GatewayMetrics,
    /// Work that has to end well even if its caller is gone.
    pub calls: TaskGroup,
    /// Cancelled at the end of the term.
    pub shutdown: CancellationToken,
}
