//! The gateway as handlers and loops share it: all of its parts, and what is under way in them.

use std::ops::Deref;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::budget::Ledger;
use super::builds::Builds;
use super::conditions::Conditions;
use super::context::Context;
use super::egress::Egress;
use super::git::mirror::Mirrors;
use super::identity::Identity;
use super::metrics::Metrics;
use super::models::Models;
use super::pulse::Pulse;
use super::radar::BranchDesk;
use super::slack::Slack;
use super::threads::Threads;
use super::web::Search;
use crate::tasks::Tasks;

pub struct Gateway {
    /// Caches and the gateway's own Kubernetes identity.
    pub context: Context,
    pub identity: Identity,
    pub threads: Threads,
    pub slack: Slack,
    /// Writes conditions of Repos.
    pub conditions: Conditions,
    /// What is granted and spent.
    pub ledger: Ledger,
    pub builds: Builds,
    pub pulse: Pulse,
    /// What is known of branches, and which are to be compared.
    pub branches: BranchDesk,
    pub models: Models,
    /// Copies of the Repos' repositories.
    pub mirrors: Mirrors,
    /// Connections of workspaces and web tools to the outside.
    pub egress: Egress,
    pub search: Search,
    pub metrics: Metrics,
    /// Requests that are no model calls: only one gateway serves them.
    pub requests: Tasks,
    /// Work that they have begun, and that has to end well even if its caller is gone.
    pub calls: Tasks,
    /// Model calls, which are served to their end.
    pub answers: Tasks,
    pub connections: Tasks,
    pub shutdown: CancellationToken,
}

impl Gateway {
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
            builds: Builds::default(),
            pulse: Pulse::default(),
            branches: BranchDesk::default(),
            models: Models::default(),
            mirrors: mirrors.clone(),
            egress: self.egress.clone(),
            search: self.search.clone(),
            metrics: self.metrics.clone(),
            requests: Tasks::default(),
            calls: Tasks::default(),
            answers: Tasks::default(),
            connections: Tasks::default(),
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
pub struct Shared(Arc<Gateway>);

impl From<Gateway> for Shared {
    fn from(gateway: Gateway) -> Self {
        Self(Arc::new(gateway))
    }
}

impl Deref for Shared {
    type Target = Gateway;
    fn deref(&self) -> &Gateway {
        &self.0
    }
}
