//! The testbed's parts, each driven by the client that real users drive the real thing with.

// Helpers of tests are tests too.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod controller;
