//! Tries to leave the pod by a way that must be closed: the API server's address, which every pod is
//! told. Where that works, nothing keeps commands to the gateway.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::TcpStream;

/// A wall that drops packets answers nothing; one without a wall answers in a moment.
const PATIENCE: Duration = Duration::from_millis(800);

/// Whether the forbidden address accepts a connection.
pub async fn reached(forbidden: SocketAddr) -> bool {
    matches!(tokio::time::timeout(PATIENCE, TcpStream::connect(forbidden)).await, Ok(Ok(_)))
}
