//! A Service's address inside a pod, served by the host.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// Passes every connection that comes in through `listener` on to `target`. Connections end with
/// the future.
pub async fn serve(listener: TcpListener, target: SocketAddr) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((inside, _)) => {
                    connections.spawn(pass(inside, target));
                }
                Err(error) => {
                    tracing::debug!(%error, "accept");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn pass(mut inside: TcpStream, target: SocketAddr) {
    let result = async {
        let mut outside = TcpStream::connect(target).await?;
        // What is small must not wait for more: these are requests and their answers.
        inside.set_nodelay(true)?;
        outside.set_nodelay(true)?;
        tokio::io::copy_bidirectional(&mut inside, &mut outside).await
    };
    if let Err(error) = result.await {
        tracing::debug!(%target, %error, "forwarded connection");
    }
}
