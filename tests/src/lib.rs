//! The embedded outside world: what CodeButler's own processes meet in the demo and in tests.

#![warn(missing_docs)]

pub mod apiserver;
pub mod cluster;
pub mod controllers;
pub mod corpus;
pub mod github;
pub mod kubelet;
pub mod llama;
pub mod mcp;
pub mod models;
pub mod nodetools;
pub mod openid;
pub mod place;
pub mod proxy;
pub mod pytools;
pub mod scenario;
pub mod seeds;
pub mod serving;
pub mod slack;
pub mod stack;

/// The folder of this crate, which holds scenarios, corpora, recordings and other projects' clients.
pub const FOLDER: &str = env!("CARGO_MANIFEST_DIR");
