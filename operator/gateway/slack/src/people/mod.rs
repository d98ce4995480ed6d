//! People of a workspace and a channel: who they are, what they may do, and how they are called.
//!
//! Pure: [`access`], [`mentions`].

pub(crate) mod access;
pub(crate) mod members;
pub(crate) mod mentions;
pub(crate) mod person;
