//! What sessions with servers in pods share.

use codebutler_gateway_core::context::GatewayContext;
use tokio_util::sync::CancellationToken;

use super::desk::BridgeDesk;

/// What sessions with servers in pods need, for one term of the leader.
#[derive(Clone)]
pub struct BridgeServices {
    /// Caches and the gateway's own Kubernetes identity.
    pub context: GatewayContext,
    /// Connections that wait for a session.
    pub desk: BridgeDesk,
    /// Cancelled at the end of the term.
    pub shutdown: CancellationToken,
}
