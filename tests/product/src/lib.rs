//! CodeButler on the testbed: the demo, the bench that compares teams, and the figures.
//!
//! The testbed knows the resources and what travels on the wire, never the product; here both meet. A program of this
//! crate is every process of the product, see [`programs`].

#![warn(missing_docs)]

pub mod bench;
pub mod bench_args;
pub mod demo;
pub mod demo_program;
pub mod figures;
pub mod programs;
