//! Runs a pod's containers as local processes in namespaces of their own.

pub mod sandbox;

pub use sandbox::helper::main as pause_main;
