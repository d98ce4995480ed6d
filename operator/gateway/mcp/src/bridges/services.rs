//! Services that sessions with servers in pods share.

use std::sync::Arc;
use std::time::Duration;

use codebutler_gateway_core::context::GatewayContext;
use codebutler_gateway_core::revisions::PolledRevisions;
use tokio_util::sync::CancellationToken;

use super::waiting::WaitingBridges;

/// Services for sessions with servers in pods, for one term of the leader.
#[derive(Clone)]
pub struct BridgeServices {
    /// Caches and the gateway's own Kubernetes identity.
    pub context: GatewayContext,
    /// Connections that wait for a session.
    pub waiting: WaitingBridges,
    /// Time limits of waiting for a pod.
    pub patience: StartPatience,
    /// Tells when Secrets have changed.
    pub revisions: Arc<PolledRevisions>,
    /// Cancelled at the end of the term.
    pub shutdown: CancellationToken,
}

/// Time limits of waiting for a pod.
#[derive(Clone, Copy, Debug)]
pub struct StartPatience {
    /// Limit until the pod is made, and until it connects once it runs.
    pub step: Duration,
    /// Limit while the cluster works on the pod: it pulls an image, attaches a volume, adds a node.
    pub whole: Duration,
}

impl Default for StartPatience {
    fn default() -> Self {
        Self { step: Duration::from_mins(1), whole: Duration::from_mins(4) }
    }
}
