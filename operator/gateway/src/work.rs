//! The parts of the gateway that carry conversations on: merge trains, roadmaps, requests in parts, the conflict
//! radar, schedules, the watch over GitHub, and the end of a Thread.

use std::cmp::Reverse;
use std::sync::Arc;

use codebutler_crds::thread::ThreadState;
use codebutler_crds::{Repo, Thread};
use codebutler_gateway_core::conditions::ConditionWriter;
use codebutler_gateway_core::consent::EffectConsent;
use codebutler_gateway_core::context::GatewayContext;
use codebutler_gateway_core::metrics::GatewayMetrics;
use codebutler_gateway_core::thread_key::ThreadKey;
use codebutler_gateway_core::threads::ThreadWriter;
use codebutler_git::BranchFacts;
use codebutler_git::services::GitServices;
use codebutler_models::budget::Ledger;
use codebutler_runtime::tasks::TaskGroup;
use codebutler_slack::SlackGateway;
use kube::ResourceExt as _;
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
    pub branches: Arc<BranchFacts>,
    /// Asks people before an effect.
    pub consent: Arc<dyn EffectConsent>,
    /// Metrics that the gateway exports.
    pub metrics: GatewayMetrics,
    /// Work that has to end well even if its caller is gone.
    pub calls: TaskGroup,
    /// Cancelled at the end of the term.
    pub shutdown: CancellationToken,
}

impl WorkServices {
    /// Open Threads of a Repo, the newest first.
    pub(crate) fn open_threads(&self, repo: &Repo, except: Option<&ThreadKey>) -> Vec<Arc<Thread>> {
        let of_repo = |thread: &Thread| {
            thread.spec.repo == repo.name_any() && thread.namespace() == repo.namespace()
        };
        let open = |thread: &Thread| thread.spec.state == ThreadState::Active && !thread.is_going();
        let all = self.context.attended.all().into_iter();
        let mut threads: Vec<_> = all
            .filter(|thread| of_repo(thread))
            .filter(|thread| except.is_none_or(|key| key.name != thread.name_any()))
            .filter_map(|thread| self.threads.freshest(&ThreadKey::from(&*thread), Some(thread)))
            .filter(|thread| open(thread))
            .collect();
        threads.sort_by_key(|thread| Reverse(thread.creation_timestamp()));
        threads
    }
}
