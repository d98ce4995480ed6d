//! Sessions with real servers, which are installed from npm and PyPI, and with hostile ones of our own.

// Helpers of tests are tests too.
#![allow(clippy::expect_used, clippy::panic, clippy::print_stderr, clippy::unwrap_used)]

mod dialer;
mod everything;
mod hostile;
mod hostile_http;
mod oauth;
mod python;
mod scripted;
mod servers;
