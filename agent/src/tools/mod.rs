//! tools
pub mod args;
