//! The gateway as handlers and loops share it: all of its parts, and what is under way in them.

use std::ops::Deref;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::budget::Ledger;
use super::builds::BuildPlaces;
use super::conditions::ConditionWriter;
use super::context::GatewayContext;
use super::egress::ThreadEgress;
use super::git::mirror::RepoMirrors;
use super::identity::CallerIdentity;
use super::metrics::GatewayMetrics;
use super::models::ModelPool;
use super::pulse::AgentHeartbeats;
use super::radar::BranchDesk;
use super::slack::SlackGateway;
use super::threads::ThreadWriter;
use super::web::SearchEngine;
use crate::tasks::TaskGroup;

pub struct GatewayParts {
    /// Caches and the gateway's own Kubernetes identity.
    pub context: GatewayContext,
    pub identity: CallerIdentity,
    pub threads: ThreadWriter,
    pub slack: SlackGateway,
    /// Writes conditions of Repos.
    pub conditions: ConditionWriter,
    /// What is granted and spent.
    pub ledger: Ledger,
    pub builds: BuildPlaces,
    pub pulse: AgentHeartbeats,
    /// What is known of branches, and which are to be compared.
    pub branches: BranchDesk,
    pub models: ModelPool,
    /// Copies of the Repos' repositories.
    pub mirrors: RepoMirrors,
    /// Connections of workspaces and web tools to the outside.
    pub egress: ThreadEgress,
    pub search: SearchEngine,
    pub metrics: GatewayMetrics,
    /// Requests that are no model calls: only one gateway serves them.
    pub requests: TaskGroup,
    /// Work that they have begun, and that has to end well even if its caller is gone.
    pub calls: TaskGroup,
    /// Model calls, which are served to their end.
    pub answers: TaskGroup,
    pub connections: TaskGroup,
    pub shutdown: CancellationToken,
}

impl GatewayParts {
    /// The same for a new term: nothing of an earlier one is in its books, or under way.
    #[must_use]
    pub fn begin_term(&self) -> Self {
        let Self { context, identity, threads, slack, conditions, mirrors, .. } = self;
        let ledger = Ledger::new(context.clone(), threads.clone(), self.metrics.clone());
        Self {
            context: context.clone(),
            identity: identity.clone(),
            threads: threads.clone(),
            slack: slack.clone(),
            conditions: conditions.clone(),
            ledger,
            builds: BuildPlaces::default(),
            pulse: AgentHeartbeats::default(),
            branches: BranchDesk::default(),
            models: ModelPool::default(),
            mirrors: mirrors.clone(),
            egress: self.egress.clone(),
            search: self.search.clone(),
            metrics: self.metrics.clone(),
            requests: TaskGroup::default(),
            calls: TaskGroup::default(),
            answers: TaskGroup::default(),
            connections: TaskGroup::default(),
            shutdown: self.shutdown.child_token(),
        }
    }

    /// Ends all that is under way, where it is: the right to act is lost. Returns when nothing of it
    /// can write any more.
    pub async fn cut(&self) {
        // The books first: what ends a call gives its grant back, which is not this one's to write any more.
        self.ledger.cut().await;
        self.shutdown.cancel();
        let Self { requests, calls, answers, connections, .. } = self;
        tokio::join!(requests.cut(), calls.cut(), answers.cut(), connections.cut());
    }
}

/// The gateway as handlers share it.
#[derive(Clone)]
pub struct SharedGateway(Arc<GatewayParts>);

impl From<GatewayParts> for SharedGateway {
    fn from(gateway: GatewayParts) -> Self {
        Self(Arc::new(gateway))
    }
}

impl Deref for SharedGateway {
    type Target = GatewayParts;
    fn deref(&self) -> &GatewayParts {
        &self.0
    }
}
