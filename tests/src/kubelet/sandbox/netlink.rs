//! Just enough of rtnetlink to bring the loopback up and to put addresses on it.

use std::io;
use std::net::IpAddr;
use std::os::fd::AsRawFd;

use nix::libc;
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, recv, sendto, socket,
};

/// The loopback is the first interface of every network namespace.
const LOOPBACK: u32 = 1;
const HEADER: usize = 16;

/// Sets the loopback up and adds `addresses` to it, each for this host alone.
pub(super) fn loopback_up(addresses: &[IpAddr]) -> io::Result<()> {
    let link = socket(
        AddressFamily::Netlink,
        SockType::Raw,
        SockFlag::SOCK_CLOEXEC,
        SockProtocol::NetlinkRoute,
    )?;
    send_request(&link, &link_up())?;
    for address in addresses {
        send_request(&link, &new_address(*address))?;
    }
    Ok(())
}

fn send_request(link: &impl AsRawFd, message: &[u8]) -> io::Result<()> {
    sendto(link.as_raw_fd(), message, &NetlinkAddr::new(0, 0), MsgFlags::empty())?;
    let mut answer = [0; 1024];
    let length = recv(link.as_raw_fd(), &mut answer, MsgFlags::empty())?;
    match read_acknowledgement(&answer[..length]) {
        Some(0) => Ok(()),
        Some(code) => Err(io::Error::from_raw_os_error(-code)),
        None => Err(io::Error::other("netlink answered with something else than an ack")),
    }
}

/// The error code of an `NLMSG_ERROR`, zero in an acknowledgement.
fn read_acknowledgement(answer: &[u8]) -> Option<i32> {
    let kind = u16::from_ne_bytes(answer.get(4..6)?.try_into().ok()?);
    let code = i32::from_ne_bytes(answer.get(HEADER..HEADER + 4)?.try_into().ok()?);
    (i32::from(kind) == libc::NLMSG_ERROR).then_some(code)
}

fn link_up() -> Vec<u8> {
    let up = libc::IFF_UP.cast_unsigned().to_ne_bytes();
    let mut body = vec![0; 4];
    body.extend(LOOPBACK.to_ne_bytes());
    body.extend(up);
    body.extend(up);
    netlink_message(libc::RTM_NEWLINK, 0, &body)
}

fn new_address(address: IpAddr) -> Vec<u8> {
    let (family, bytes) = match address {
        IpAddr::V4(v4) => (2_u8, v4.octets().to_vec()),
        IpAddr::V6(v6) => (10, v6.octets().to_vec()),
    };
    let prefix = if bytes.len() == 4 { 32 } else { 128 };
    let mut body = vec![family, prefix, 0, 0];
    body.extend(LOOPBACK.to_ne_bytes());
    for kind in [libc::IFA_LOCAL, libc::IFA_ADDRESS] {
        body.extend(u16::try_from(bytes.len() + 4).unwrap_or(0).to_ne_bytes());
        body.extend(kind.to_ne_bytes());
        body.extend(&bytes);
    }
    let flags = libc::NLM_F_CREATE | libc::NLM_F_REPLACE;
    netlink_message(libc::RTM_NEWADDR, flags, &body)
}

fn netlink_message(kind: u16, flags: i32, body: &[u8]) -> Vec<u8> {
    let flags = libc::NLM_F_REQUEST | libc::NLM_F_ACK | flags;
    let mut bytes = u32::try_from(HEADER + body.len()).unwrap_or(0).to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(u16::try_from(flags).unwrap_or(0).to_ne_bytes());
    bytes.extend([0; 8]);
    bytes.extend(body);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_as_long_as_they_say() {
        for bytes in [link_up(), new_address([10, 0, 0, 1].into()), new_address([0_u16; 8].into())]
        {
            let said = u32::from_ne_bytes(bytes[..4].try_into().unwrap());
            assert_eq!(said as usize, bytes.len());
            assert_eq!(bytes.len() % 4, 0);
        }
    }
}
