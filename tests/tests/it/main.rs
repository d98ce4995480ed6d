//! The testbed's parts, each driven by the client that real users drive the real thing with, and
//! the whole product on top of them.

// Helpers of tests are tests too.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod boundaries;
mod gateway;
mod github;
mod marks;
mod models;
mod sandbox;
mod slack;
mod support;
