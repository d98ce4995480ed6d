//! The pod of a server of `spec.mcpServers`. Its program runs in the container of [`host`], in the server's own image,
//! behind a Unix socket; [`bridge`] has the pod's token and connects that socket to the gateway. Neither container has
//! what the other one has.

mod bridge;
mod host;
mod program;

use tokio::signal::unix::{SignalKind, signal};

pub use bridge::run_bridge;
pub use host::{ServerHost, host_server};
pub use program::ProgramPlan;

/// Waits for the kubelet's request to end. The first process of a container ignores it otherwise.
async fn await_end() -> std::io::Result<()> {
    let (mut term, mut int) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    tokio::select! {
        _ = term.recv() => {}
        _ = int.recv() => {}
    }
    Ok(())
}
