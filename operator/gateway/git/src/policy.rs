//! Reads `.codebutler/policy.json` of a commit.

use codebutler_gateway_core::policy::{FILE, WantedMasking, parse_policy};

use super::command::{CommandError, GitRepository};

/// Reads the file of a commit.
pub async fn read_policy(git: &GitRepository, commit: &str) -> Result<WantedMasking, CommandError> {
    let name = format!("{commit}:{FILE}");
    if !git.asks(&["cat-file", "-e", commit]).await? {
        return Ok(WantedMasking::default());
    }
    match git.run(&["cat-file", "blob", &name], b"").await {
        Ok(bytes) => Ok(parse_policy(&bytes)),
        // The file does not exist in the commit.
        Err(CommandError::Failed { code: 128, .. }) => Ok(WantedMasking::default()),
        Err(error) => Err(error),
    }
}
