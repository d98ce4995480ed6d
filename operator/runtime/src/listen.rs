//! Listening on an address of this machine.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use socket2::SockRef;
use tokio::net::{TcpListener, TcpSocket};

/// Connections that wait to be taken.
const BACKLOG: u32 = 1024;

/// Listens. `[::]` is every address of both families, and of IPv4 alone where the node has no IPv6.
///
/// # Errors
/// When the address is taken, or not this machine's.
pub fn listen_on(address: SocketAddr) -> io::Result<TcpListener> {
    let all = address.is_ipv6() && address.ip().is_unspecified();
    match bind_listener(address) {
        Err(error) if all && error.kind() != io::ErrorKind::AddrInUse => {
            bind_listener(SocketAddr::from((Ipv4Addr::UNSPECIFIED, address.port())))
        }
        bound => bound,
    }
}

fn bind_listener(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv6() { TcpSocket::new_v6()? } else { TcpSocket::new_v4()? };
    if address.ip() == Ipv6Addr::UNSPECIFIED {
        // Whatever the node's setting is.
        SockRef::from(&socket).set_only_v6(false)?;
    }
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpStream;

    #[tokio::test]
    async fn one_address_is_reached_over_both_families() {
        let all = listen_on("[::]:0".parse().unwrap()).unwrap();
        let port = all.local_addr().unwrap().port();
        TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.unwrap();
        // A machine without IPv6 has the other half alone.
        if std::net::TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_ok() {
            TcpStream::connect((Ipv6Addr::LOCALHOST, port)).await.unwrap();
        }
        let taken = listen_on(SocketAddr::from((Ipv6Addr::UNSPECIFIED, port))).unwrap_err();
        assert_eq!(taken.kind(), io::ErrorKind::AddrInUse);
        let own = listen_on("127.0.0.1:0".parse().unwrap()).unwrap();
        assert!(own.local_addr().unwrap().ip().is_loopback());
    }
}
