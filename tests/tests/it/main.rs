//! Integration tests of the testbed, one binary.

mod controllers;
mod kubelet;
mod sandbox;
mod world;
