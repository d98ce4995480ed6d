//! Tools of a company's own servers (Model Context Protocol), offered to agents. The gateway alone holds the sessions
//! and the credentials; an agent sees one endpoint, and every word of a server is masked and guarded on its way.
//!
//! [`access`] decides which servers and tools a role has, [`offer`] what a model is shown of them, [`call`] carries a
//! call out, [`reads`] has resources and prompts. [`sessions`] keeps one session for each key, over a [`link`],
//! with the tokens of people's [`sign_in`]s.
//! [`probe`] looks at servers in the background, for people who read the Repo's status.

pub mod access;
mod answer;
pub mod ask;
pub mod bridges;
pub mod call;
mod check;
pub mod choose;
mod dialer;
mod health_check;
pub mod link;
mod list_store;
mod masking;
pub mod offer;
pub mod pods;
pub mod probe;
mod problem_notices;
mod progress;
mod questions;
pub mod reads;
mod refusal;
mod result;
pub mod session_key;
pub mod sessions;
pub mod sign_in;
mod status;
#[cfg(test)]
mod testing;
mod turned_away;

use std::sync::Arc;

use codebutler_gateway_core::consent::EffectConsent;
use codebutler_gateway_core::context::GatewayContext;
use codebutler_gateway_core::metrics::GatewayMetrics;
use codebutler_gateway_core::personal::PersonalNotices;
use codebutler_gateway_core::speech::SpeechScribe;
use codebutler_gateway_core::threads::ThreadWriter;
use codebutler_git::host_report::HostReports;
use codebutler_models::services::ModelServices;
use codebutler_runtime::tasks::TaskGroup;

pub use self::link::{LinkError, OpenedLink, PodLinks};
pub use self::list_store::ListStore;
pub use self::problem_notices::ProblemNotices;
pub use self::session_key::{ServerPlace, SessionKey};
pub use self::sessions::{ServerList, SessionPool, SessionWays};

/// Services of one term of the leader.
pub struct McpServers {
    /// Caches and the gateway's own Kubernetes identity.
    pub context: GatewayContext,
    /// Writes statuses of Threads.
    pub threads: ThreadWriter,
    /// Asks people before calls that need approval.
    pub consent: Arc<dyn EffectConsent>,
    /// Reports outcomes of the Git host, and has the redactor of a caller.
    pub outcomes: HostReports,
    /// Knows which models see pictures.
    pub models: Arc<ModelServices>,
    /// Writes sounds down for models that do not hear.
    pub scribe: SpeechScribe,
    /// Speaks with people of threads.
    pub people: Arc<dyn PersonalNotices>,
    /// People who were asked to sign in.
    pub asks: ask::SignInAsks,
    /// Counters and histograms of the gateway.
    pub metrics: GatewayMetrics,
    /// Open sessions, and the latest lists of tools.
    pub sessions: SessionPool,
    /// Calls under way, and the latest results.
    pub calls: call::CallBook,
    /// Forms of tools that people have allowed.
    pub forms: call::ToolForms,
    /// Sessions, questions in the background, and calls: cut at the end of the term.
    pub tasks: TaskGroup,
}

impl McpServers {
    /// Ends all calls and sessions where they are.
    pub async fn cut(&self) {
        self.tasks.cut().await;
        self.sessions.forget_all();
    }
}
