//! The gateway as its top shares it: the services of one term of a leader, put together in one place.

use std::ops::Deref;
use std::sync::Arc;

use axum::extract::FromRef;
use codebutler_crds::wire::{DrawnImages, WebResults};
use codebutler_gateway_core::bodies::BodyBudget;
use codebutler_gateway_core::conditions::ConditionWriter;
use codebutler_gateway_core::consent::EffectConsent;
use codebutler_gateway_core::context::GatewayContext;
use codebutler_gateway_core::egress::ThreadEgress;
use codebutler_gateway_core::extract::CallerGate;
use codebutler_gateway_core::identity::CallerIdentity;
use codebutler_gateway_core::metrics::GatewayMetrics;
use codebutler_gateway_core::notices::ThreadNotices;
use codebutler_gateway_core::personal::PersonalNotices;
use codebutler_gateway_core::pulse::AgentHeartbeats;
use codebutler_gateway_core::threads::ThreadWriter;
use codebutler_gateway_core::threads::keyed::KeyedLocks;
use codebutler_git::BranchFacts;
use codebutler_git::host_report::HostReports;
use codebutler_git::mirror::RepoMirrors;
use codebutler_git::services::GitServices;
use codebutler_mcp_servers::ask::SignInAsks;
use codebutler_mcp_servers::bridges::{BridgeServices, StartPatience, WaitingBridges};
use codebutler_mcp_servers::call::{CallBook, ToolForms};
use codebutler_mcp_servers::pods::BridgedPods;
use codebutler_mcp_servers::{
    ListStore, McpServers, PodLinks, ProblemNotices, SessionPool, SessionWays,
};
use codebutler_models::budget::Ledger;
use codebutler_models::services::ModelServices;
use codebutler_models::{ModelPool, build_asker, build_scribe, build_searcher};
use codebutler_runtime::shards::GatewayShard;
use codebutler_runtime::tasks::TaskGroup;
use codebutler_slack::SlackGateway;
use tokio_util::sync::CancellationToken;

use crate::budget_pause::SlackBudget;
use crate::builds::BuildPlaces;
use crate::cgroup;
use crate::paid_calls::PaidCalls;
use crate::slack_consent::SlackConsent;
use crate::web::services::EgressServices;
use crate::web::{FoundPages, OpenedPages, RobotsCache, SearchEngine};
use crate::work::WorkServices;

/// Parts of a gateway that outlive a term of the leader.
pub struct GatewayBase {
    /// Caches and the gateway's own Kubernetes identity.
    pub context: GatewayContext,
    /// Authenticates callers.
    pub identity: CallerIdentity,
    /// Writes statuses of Threads.
    pub threads: ThreadWriter,
    /// The only client of Slack.
    pub slack: SlackGateway,
    /// Writes conditions of Repos.
    pub conditions: ConditionWriter,
    /// Copies of the Repos' repositories.
    pub mirrors: RepoMirrors,
    /// Lists of tools of servers, for the next process.
    pub tool_lists: ListStore,
    /// Connections of workspaces and web tools to the outside.
    pub egress: ThreadEgress,
    /// The search provider of the installation.
    pub search: SearchEngine,
    /// Metrics that the gateway exports.
    pub metrics: GatewayMetrics,
    /// Cancelled when the process stops.
    pub shutdown: CancellationToken,
}

/// Services of one term: nothing of an earlier one is in its books, or under way.
pub struct GatewayParts {
    pub gate: Arc<CallerGate>,
    pub git: Arc<GitServices>,
    pub models: Arc<ModelServices>,
    pub egress: Arc<EgressServices>,
    pub work: Arc<WorkServices>,
    pub bridges: Arc<BridgeServices>,
    pub builds: BuildPlaces,
    pub drawings: PaidCalls<DrawnImages>,
    pub searches: PaidCalls<WebResults>,
    pub mcp: Arc<McpServers>,
    pub connections: TaskGroup,
}

impl GatewayBase {
    /// Begins a term of a shard's leader.
    #[must_use]
    pub fn begin_term(&self, shard: GatewayShard) -> SharedGateway {
        let Self { threads, slack, conditions, metrics, .. } = self;
        let context = &self.context.of_shard(shard);
        let (calls, shutdown) = (TaskGroup::default(), self.shutdown.child_token());
        let ledger = Ledger::new(context.clone(), threads.clone(), metrics.clone());
        let branches = Arc::<BranchFacts>::default();
        let notices: Arc<dyn ThreadNotices> = Arc::new(slack.clone());
        let consent: Arc<dyn EffectConsent> =
            Arc::new(SlackConsent::new(slack.clone(), threads.clone()));
        let outcomes = HostReports::new(context.clone(), conditions.clone(), Arc::clone(&notices));
        let gate = CallerGate {
            bodies: BodyBudget::within(cgroup::memory_limit()),
            identity: self.identity.of_shard(shard),
            pulse: AgentHeartbeats::default(),
            metrics: metrics.clone(),
        };
        let git = Arc::new(GitServices {
            context: context.clone(),
            threads: threads.clone(),
            conditions: conditions.clone(),
            mirrors: self.mirrors.clone(),
            branches: Arc::clone(&branches),
            pictures: KeyedLocks::default(),
            consent: Arc::clone(&consent),
            notices: Arc::clone(&notices),
            outcomes: outcomes.clone(),
            metrics: metrics.clone(),
            calls: calls.clone(),
            shutdown: shutdown.clone(),
        });
        let models = ModelServices {
            context: context.clone(),
            conditions: conditions.clone(),
            ledger: ledger.clone(),
            models: ModelPool::default(),
            budget: Arc::new(SlackBudget::new(
                ledger.clone(),
                threads.clone(),
                slack.clone(),
                calls.clone(),
            )),
            outcomes: outcomes.clone(),
            metrics: metrics.clone(),
            requests: TaskGroup::default(),
            calls: calls.clone(),
            answers: TaskGroup::default(),
            shutdown: shutdown.clone(),
        };
        let bridges = Arc::new(BridgeServices {
            context: context.clone(),
            waiting: WaitingBridges::default(),
            patience: StartPatience::default(),
            revisions: Arc::default(),
            shutdown: shutdown.clone(),
        });
        let pods = Arc::new(BridgedPods(Arc::clone(&bridges)));
        let models = Arc::new(models);
        let egress = EgressServices {
            context: context.clone(),
            conditions: conditions.clone(),
            egress: self.egress.clone(),
            search: self.search.clone(),
            searcher: build_searcher(&models),
            found: FoundPages::default(),
            opened: OpenedPages::default(),
            robots: RobotsCache::default(),
            notices,
            outcomes: outcomes.clone(),
            metrics: metrics.clone(),
            shutdown: shutdown.clone(),
        };
        let mcp = Arc::new(self.begin_servers(context, &models, (&consent, &outcomes), pods));
        let work = WorkServices {
            context: context.clone(),
            threads: threads.clone(),
            slack: slack.clone(),
            conditions: conditions.clone(),
            ledger,
            git: Arc::clone(&git),
            branches,
            consent,
            metrics: metrics.clone(),
            calls,
            shutdown,
        };
        SharedGateway(Arc::new(GatewayParts {
            gate: Arc::new(gate),
            git,
            models,
            mcp,
            egress: Arc::new(egress),
            work: Arc::new(work),
            bridges,
            builds: BuildPlaces::default(),
            drawings: PaidCalls::default(),
            searches: PaidCalls::default(),
            connections: TaskGroup::default(),
        }))
    }
}

impl GatewayBase {
    fn begin_servers(
        &self,
        context: &GatewayContext,
        models: &Arc<ModelServices>,
        (consent, outcomes): (&Arc<dyn EffectConsent>, &HostReports),
        pods: Arc<dyn PodLinks>,
    ) -> McpServers {
        let (context, metrics, tasks) =
            (context.clone(), self.metrics.clone(), TaskGroup::default());
        let people: Arc<dyn PersonalNotices> = Arc::new(self.slack.clone());
        let trouble = ProblemNotices::new(Arc::new(self.slack.clone()), tasks.clone());
        let ways = SessionWays {
            context: context.clone(),
            pods,
            trouble,
            people: Arc::clone(&people),
            asker: build_asker(models),
            stored: self.tool_lists.clone(),
        };
        McpServers {
            sessions: SessionPool::new(ways, metrics.clone(), tasks.clone()),
            context,
            threads: self.threads.clone(),
            consent: Arc::clone(consent),
            outcomes: outcomes.clone(),
            people,
            scribe: build_scribe(models),
            asks: SignInAsks::default(),
            models: Arc::clone(models),
            metrics,
            calls: CallBook::default(),
            forms: ToolForms::default(),
            tasks,
        }
    }
}

impl GatewayParts {
    /// Ends all that is under way, where it is: the right to act is lost. Returns when nothing of it
    /// can write any more.
    pub async fn cut(&self) {
        let (work, models) = (&self.work, &self.models);
        // The books first: what ends a call gives its grant back, which is not this one's to write any more.
        work.ledger.cut().await;
        work.shutdown.cancel();
        tokio::join!(
            models.requests.cut(),
            work.calls.cut(),
            models.answers.cut(),
            self.mcp.cut(),
            self.connections.cut()
        );
    }
}

/// A term's services as the top of the gateway shares them.
#[derive(Clone)]
pub struct SharedGateway(Arc<GatewayParts>);

impl Deref for SharedGateway {
    type Target = GatewayParts;
    fn deref(&self) -> &GatewayParts {
        &self.0
    }
}

impl FromRef<SharedGateway> for Arc<CallerGate> {
    fn from_ref(gateway: &SharedGateway) -> Self {
        Self::clone(&gateway.gate)
    }
}

impl FromRef<SharedGateway> for Arc<GitServices> {
    fn from_ref(gateway: &SharedGateway) -> Self {
        Self::clone(&gateway.git)
    }
}

impl FromRef<SharedGateway> for Arc<ModelServices> {
    fn from_ref(gateway: &SharedGateway) -> Self {
        Self::clone(&gateway.models)
    }
}

impl FromRef<SharedGateway> for Arc<EgressServices> {
    fn from_ref(gateway: &SharedGateway) -> Self {
        Self::clone(&gateway.egress)
    }
}

impl FromRef<SharedGateway> for Arc<WorkServices> {
    fn from_ref(gateway: &SharedGateway) -> Self {
        Self::clone(&gateway.work)
    }
}

impl FromRef<SharedGateway> for Arc<BridgeServices> {
    fn from_ref(gateway: &SharedGateway) -> Self {
        Self::clone(&gateway.bridges)
    }
}
