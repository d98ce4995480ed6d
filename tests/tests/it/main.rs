//! Integration tests of the testbed, one binary.

mod controllers;
mod kubelet;
mod kubelet_end;
mod sandbox;
mod world;
