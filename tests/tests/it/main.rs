//! The testbed's parts, each driven by the client that real users drive the real thing with, and
//! the whole product on top of them.

// Helpers of tests are tests too.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod apiserver;
mod boundaries;
mod browser;
mod chaos;
mod charts;
mod chatting;
mod conformance;
mod controller;
mod controllers;
mod demo;
mod egress;
mod expectations;
mod faults;
mod gateway;
mod github;
mod ingest;
mod kubelet;
mod kubelet_end;
mod marks;
mod model_trouble;
mod models;
mod money;
mod own_repository;
mod page;
mod product;
mod python;
mod rbac;
mod redact;
mod sandbox;
mod scenario;
mod seeds;
mod slack;
mod support;
mod world;
