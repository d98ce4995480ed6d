//! Foundation of both processes of the operator: a queue, a leader's lease, metrics, logs and
//! spans, and the one place that writes Kubernetes objects. Nothing in here knows what a controller
//! or a gateway does.

pub mod apply;
pub mod args;
pub mod calendar;
pub mod definitions;
pub mod lease;
pub mod listen;
mod log_targets;
pub mod metrics;
pub mod notice;
pub mod platform;
pub mod quantity;
pub mod queue;
pub mod recent;
pub mod schedule;
pub mod scope;
pub mod server_spec;
pub mod shards;
pub mod step;
pub mod tasks;
pub mod telemetry;
pub mod traces;
