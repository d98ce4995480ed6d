//! How a model server is set up.

use super::{Otherwise, RandomMischief};

/// How the server is set up.
#[derive(Clone, Debug)]
pub struct ModelOptions {
    /// The one API key that is accepted.
    pub api_key: String,
    /// How to answer where the script does not know how to; else it is a failure of the script.
    pub otherwise: Option<Otherwise>,
    /// Port to listen at if it is free.
    pub port: Option<u16>,
    /// What goes wrong anywhere.
    pub mischief: Option<RandomMischief>,
    /// Whether it refuses what any of the real ones refuses.
    pub strict: bool,
}

impl Default for ModelOptions {
    fn default() -> Self {
        let api_key = format!("sk-or-v1-{}", uuid::Uuid::new_v4().simple());
        Self { api_key, otherwise: None, port: None, mischief: None, strict: true }
    }
}
