//! The testbed's parts, each driven by the client that real users drive the real thing with, and
//! the whole product on top of them.

// Helpers of tests are tests too.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod apiserver;
mod approvals;
mod at_once;
mod bench;
mod boundaries;
mod browser;
mod chaos;
mod charts;
mod chatting;
mod clusters;
mod conformance;
mod controller;
mod controllers;
mod demo;
mod egress;
mod expectations;
mod faults;
mod files;
mod forecast;
mod gateway;
mod github;
mod gitops;
mod handover;
mod hanging;
mod house_rules;
mod images;
mod ingest;
mod kubelet;
mod kubelet_end;
mod learning;
mod marks;
mod mischief;
mod model_trouble;
mod models;
mod money;
mod monitoring;
mod overlaps;
mod own_nodes;
mod own_repository;
mod page;
mod product;
mod provider;
mod python;
mod rbac;
mod reasons;
mod receipts;
mod recordings;
mod redact;
mod resources;
mod review;
mod sandbox;
mod scenario;
mod seeds;
mod skills;
mod slack;
mod soak;
mod stop;
mod support;
mod switching;
mod webhooks;
mod worktrees;
mod world;
