//! What sessions with servers in pods share.

use std::sync::Arc;
use std::time::Duration;

use codebutler_gateway_core::context::GatewayContext;
use codebutler_gateway_core::revisions::PolledRevisions;
use tokio_util::sync::CancellationToken;

use super::desk::BridgeDesk;

/// What sessions with servers in pods need, for one term of the leader.
#[derive(Clone)]
pub struct BridgeServices {
    /// Caches and the gateway's own Kubernetes identity.
    pub context: GatewayContext,
    /// Connections that wait for a session.
    pub desk: BridgeDesk,
    /// How long a pod is waited for.
    pub patience: StartPatience,
    /// When Secrets have changed.
    pub revisions: Arc<PolledRevisions>,
    /// Cancelled at the end of the term.
    pub shutdown: CancellationToken,
}

/// How long a pod is waited for.
#[derive(Clone, Copy, Debug)]
pub struct StartPatience {
    /// Until it is made, or until it connects once it runs.
    pub step: Duration,
    /// While the cluster is at work on it: it pulls an image, attaches a volume, adds a node.
    pub whole: Duration,
}

impl Default for StartPatience {
    fn default() -> Self {
        Self { step: Duration::from_mins(1), whole: Duration::from_mins(4) }
    }
}
