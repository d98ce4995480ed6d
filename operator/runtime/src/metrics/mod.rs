//! Metrics of both processes, and the port that serves them.
//!
//! [`catalog`] is the one table of all families: the processes register from it and the page for
//! users is written from it ([`page`]), so that neither can differ from the other. [`family`] is how
//! a family is counted in. Labels are names of resources and fixed words: never a thread, user or
//! message id, and never anything that a caller may choose freely.

pub mod catalog;
pub mod family;
pub mod page;
mod server;

use kube::{Resource, ResourceExt as _};
use prometheus_client::registry::Registry;

pub use server::{MetricsError, MetricsServer, ReadyFlag};

/// Prefix of all families' names.
pub const PREFIX: &str = "codebutler";

/// An empty registry whose families all begin with `codebutler_`.
pub fn build_registry() -> Registry {
    Registry::with_prefix(PREFIX)
}

/// The label of a Repo: `namespace/name`, since two teams may choose one name.
pub fn repo_label<K: Resource>(repo: &K) -> String {
    repo_of(&repo.namespace().unwrap_or_default(), &repo.name_any())
}

pub fn repo_of(namespace: &str, name: &str) -> String {
    format!("{namespace}/{name}")
}
