//! Connections of the gateway, which can be away.

use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::Gateway;

pub(super) struct Tls {
    pub(super) tcp: TcpListener,
    pub(super) acceptor: TlsAcceptor,
    pub(super) gateway: Gateway,
}

impl axum::serve::Listener for Tls {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let Ok((stream, from)) = self.tcp.accept().await else { continue };
            if self.gateway.lock().is_away() {
                continue;
            }
            // One slow client at a time is enough here.
            if let Ok(stream) = self.acceptor.accept(stream).await {
                return (stream, from);
            }
        }
    }

    fn local_addr(&self) -> std::io::Result<Self::Addr> {
        self.tcp.local_addr()
    }
}
