//! The controller: observe → decide → apply.

use crate::args::ControllerArgs;

/// Runs until told to stop.
///
/// # Errors
/// When the Kubernetes API can't be used at all.
pub async fn run(_args: ControllerArgs) -> anyhow::Result<()> {
    anyhow::bail!("not here yet")
}
