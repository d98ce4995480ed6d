//! Servers that run in pods of their own: connections of their bridges ([`waiting`]), the endpoint where those arrive
//! ([`endpoint`]), sessions over them ([`link`]), and how a pod comes to be ([`pod_link`]).

mod check;
pub mod endpoint;
mod link;
mod pod_link;
mod services;
mod waiting;

pub use self::check::{ServerSecretError, ServerSecrets, check_secrets};
pub use self::pod_link::{
    PodLink, PodLinkError, find_new_secrets, has_pod, keep_pod, open_pod_link, release_pod,
};
pub use self::services::{BridgeServices, StartPatience};
pub use self::waiting::WaitingBridges;
