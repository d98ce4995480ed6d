//! One binary for all integration tests: one link, and helpers that all share.

mod apiserver;
