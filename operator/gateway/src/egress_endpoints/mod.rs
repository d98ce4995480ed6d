//! Endpoints of agents' egress: [`tunnel`] carries a workspace's bytes, [`check`] hears what a pod reaches without
//! it. The rules are in [`egress`](codebutler_gateway_core::egress).

pub mod check;
mod tunnel;

pub use self::tunnel::open_tunnel;
