//! The testbed's parts, each driven by the client that real users drive the real thing with, and
//! the whole product on top of them.

// Helpers of tests are tests too.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod apiserver;
mod boundaries;
mod charts;
mod controller;
mod controllers;
mod demo;
mod egress;
mod expectations;
mod gateway;
mod github;
mod ingest;
mod kubelet;
mod kubelet_end;
mod marks;
mod models;
mod page;
mod product;
mod python;
mod redact;
mod sandbox;
mod scenario;
mod seeds;
mod slack;
mod support;
mod world;
