//! Sessions with real servers, which are installed from npm and PyPI, and with hostile ones of our own.

// Helpers of tests are tests too.
#![allow(clippy::expect_used, clippy::panic, clippy::print_stderr, clippy::unwrap_used)]
// Values written in place read better than borrowed ones.
#![allow(clippy::needless_pass_by_value)]

mod dialer;
mod endings;
mod everything;
mod hostile;
mod hostile_http;
mod hostile_memory;
mod oauth;
mod pages;
mod python;
mod scripted;
mod servers;
mod slow;
mod stateless;
mod taken_back;
