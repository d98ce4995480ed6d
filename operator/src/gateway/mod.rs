//! The gateway: the one process that holds external secrets.

pub mod context;
pub mod slack;
pub mod threads;

use crate::args::GatewayArgs;

/// Runs until told to stop.
///
/// # Errors
/// When the Kubernetes API can't be used at all, or a port is taken.
pub async fn run(_args: GatewayArgs) -> anyhow::Result<()> {
    anyhow::bail!("not here yet")
}
