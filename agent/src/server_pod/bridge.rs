//! The container that connects a server to the gateway. One connection always waits there for the beginning of a
//! session; the server's container does the rest. The relay that it serves is the server's only way out.

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use codebutler_wire::{BRIDGE_SILENCE_SECONDS, BRIDGE_UPGRADE, FrameKind, path};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::time::timeout;

use super::await_end;
use crate::args::BridgeArgs;
use crate::gateway::GatewayClient;
use crate::relay::GitRelay;

const SILENCE: Duration = Duration::from_secs(BRIDGE_SILENCE_SECONDS);
/// Interval at which the server's socket is looked for: its image may still be on its way.
const LOOK: Duration = Duration::from_millis(100);
/// Time for the server's container to accept a connection.
const CONNECT: Duration = Duration::from_secs(10);
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Connects the server to the gateway until it is asked to end.
pub async fn run_bridge(args: BridgeArgs) -> anyhow::Result<ExitCode> {
    let address = args.gateway_address;
    let gateway = GatewayClient::new(&args.gateway, address, &args.ca_file, &args.token_file)?;
    let _relay = GitRelay::start(args.relay, gateway.clone()).await?;
    tokio::select! {
        ended = await_end() => ended?,
        () = keep_bridge(&gateway, &args.socket) => {}
    }
    Ok(ExitCode::SUCCESS)
}

/// Keeps a connection at the gateway, whichever of its replicas serves.
async fn keep_bridge(gateway: &GatewayClient, socket: &Path) {
    let mut pause = FIRST_PAUSE;
    loop {
        while !socket.exists() {
            tokio::time::sleep(LOOK).await;
        }
        let begun = Instant::now();
        match gateway.upgrade(path::MCP_BRIDGE, &[], BRIDGE_UPGRADE).await {
            Ok(mut line) => {
                tracing::info!("gateway_connected");
                if await_start(&mut line).await {
                    let socket = socket.to_owned();
                    tokio::spawn(async move { couple_session(line, &socket).await });
                    pause = FIRST_PAUSE;
                    continue;
                }
                tracing::info!("gateway_disconnected");
            }
            Err(error) => tracing::warn!(%error, "gateway_connect_failed"),
        }
        if begun.elapsed() > LONGEST_PAUSE {
            pause = FIRST_PAUSE;
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// False once the gateway is gone, or says something else.
async fn await_start(line: &mut (impl AsyncRead + Unpin)) -> bool {
    loop {
        // Frames without bytes only, read one by one: what follows belongs to the server's container.
        let mut head = [0; 5];
        match timeout(SILENCE, line.read_exact(&mut head)).await {
            Ok(Ok(_)) if head == [FrameKind::Ping as u8, 0, 0, 0, 0] => {}
            Ok(Ok(_)) => return head == [FrameKind::Start as u8, 0, 0, 0, 0],
            _ => return false,
        }
    }
}

/// Carries bytes both ways until either side ends. The other one sees its connection closed then.
async fn couple_session(line: impl AsyncRead + AsyncWrite, socket: &Path) {
    let server = match timeout(CONNECT, UnixStream::connect(socket)).await {
        Ok(Ok(server)) => server,
        Ok(Err(error)) => return tracing::warn!(%error, "server_container_unreachable"),
        Err(_) => return tracing::warn!("server_container_unreachable"),
    };
    let (line_read, line_write) = tokio::io::split(line);
    let (server_read, server_write) = server.into_split();
    tokio::select! {
        () = carry_bytes(line_read, server_write) => {}
        () = carry_bytes(server_read, line_write) => {}
    }
}

async fn carry_bytes(mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin) {
    let mut buffer = vec![0; 16 * 1024];
    while let Ok(Ok(count @ 1..)) = timeout(SILENCE, from.read(&mut buffer)).await {
        if to.write_all(&buffer[..count]).await.is_err() || to.flush().await.is_err() {
            return;
        }
    }
    let _ = to.shutdown().await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_a_start_begins_a_session() {
        for (sent, begins) in [
            (&[0, 0, 0, 0, 0, 1, 0, 0, 0, 0][..], true),
            (&[3, 0, 0, 0, 1, 7], false),
            (&[0, 0, 0], false),
        ] {
            let (mut gateway, mut bridge) = tokio::io::duplex(64);
            gateway.write_all(sent).await.unwrap();
            drop(gateway);
            assert_eq!(await_start(&mut bridge).await, begins, "{sent:?}");
        }
    }
}
