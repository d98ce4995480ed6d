//! The guides that a repository keeps for CodeButler in `.codebutler/`, read and judged by one code: the agent works
//! by them, the gateway and `codebutler-agent validate` say what is wrong with them. Pure: nothing here asks the
//! network or runs anything.
//!
//! - [`pins`]: files that say what a set-up installs.
//! - [`policy`]: how much harm a command can do, and what `policy.json` says of it.
//! - [`skills`]: what people can ask for in a few words.
//! - [`seeds`]: the prompts and skills that CodeButler brings.
//! - [`validate`]: what is wrong with all of it, by file and line.
//! - [`text`]: shortening what comes from outside.
//! - [`voice`]: keeping what comes from outside from speaking as the system.

pub mod pins;
pub mod policy;
pub mod seeds;
pub mod skills;
pub mod text;
pub mod validate;
pub mod voice;

use serde::{Deserialize, Serialize};

/// Characters of one guide; the rest is cut.
pub const MAX_GUIDE: usize = 48 * 1024;

/// A file of a repository could not be read, for the reason in these words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{0}")]
pub struct UnreadFile(String);

impl UnreadFile {
    pub fn new(why: impl Into<String>) -> Self {
        Self(why.into())
    }
}
