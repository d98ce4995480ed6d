//! `.codebutler/policy.json` on the base branch, as far as it is the gateway's: patterns of the
//! repository's own to mask.
//!
//! ```json
//! {"redaction": [{"name": "customer", "pattern": "cust_[a-z0-9]{20,}"}]}
//! ```

use codebutler_crds::policy::RedactionRule;
use serde::Deserialize;

use super::command::{CommandError, GitRepository};
use crate::gateway::redact::SecretRedactor;

pub const FILE: &str = ".codebutler/policy.json";
/// Longest file that is read, in bytes.
const MAX_FILE: usize = 64 * 1024;
/// Most patterns, and the longest of them.
const MAX_RULES: usize = 64;
const MAX_PATTERN: usize = 1024;
const MAX_NAME: usize = 32;

#[derive(Default, Deserialize)]
struct File {
    #[serde(default)]
    redaction: Vec<RedactionRule>,
}

/// What a repository wants masked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WantedMasking {
    /// Patterns that can be used.
    pub rules: Vec<RedactionRule>,
    /// What is wrong with the others, for people.
    pub problems: Vec<String>,
}

/// Reads the file of a commit.
pub async fn read_policy(git: &GitRepository, commit: &str) -> Result<WantedMasking, CommandError> {
    let name = format!("{commit}:{FILE}");
    if !git.asks(&["cat-file", "-e", commit]).await? {
        return Ok(WantedMasking::default());
    }
    match git.run(&["cat-file", "blob", &name], b"").await {
        Ok(bytes) => Ok(parse_policy(&bytes)),
        // There is none.
        Err(CommandError::Failed { code: 128, .. }) => Ok(WantedMasking::default()),
        Err(error) => Err(error),
    }
}

pub fn parse_policy(bytes: &[u8]) -> WantedMasking {
    let nothing = |why: String| WantedMasking { rules: Vec::new(), problems: vec![why] };
    if bytes.len() > MAX_FILE {
        return nothing(format!("it is longer than {} KiB", MAX_FILE / 1024));
    }
    let File { redaction } = match serde_json::from_slice(bytes) {
        Ok(file) => file,
        Err(error) => return nothing(error.to_string()),
    };
    let mut problems = Vec::new();
    if redaction.len() > MAX_RULES {
        problems
            .push(format!("redaction has more than {MAX_RULES} patterns: the others are left out"));
    }
    let mut rules: Vec<RedactionRule> = redaction.into_iter().take(MAX_RULES).collect();
    let formed = |rule: &RedactionRule| {
        let letter = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        (1..=MAX_NAME).contains(&rule.name.len())
            && rule.name.bytes().all(letter)
            && (3..=MAX_PATTERN).contains(&rule.pattern.len())
    };
    let (_, bad) = SecretRedactor::new(&rules);
    problems.extend(bad.iter().map(ToString::to_string));
    let unformed = rules.iter().enumerate().filter(|(_, rule)| !formed(rule));
    problems.extend(unformed.map(|(index, _)| {
        format!(
            "redaction[{index}] needs a `name` of a-z, 0-9 and `-` (up to {MAX_NAME}) and a `pattern` of 3 to {MAX_PATTERN} characters"
        )
    }));
    let mut index = 0;
    rules.retain(|rule| {
        let usable = formed(rule) && !bad.iter().any(|bad| bad.index == index);
        index += 1;
        usable
    });
    WantedMasking { rules, problems }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_used_is_used_and_the_rest_is_told() {
        let wanted = parse_policy(
            br#"{"tool_overrides": {}, "redaction": [
                {"name": "customer", "pattern": "cust_[a-z0-9]{20,}"},
                {"name": "broken", "pattern": "(unclosed"},
                {"name": "No Name", "pattern": "abc"}]}"#,
        );
        assert_eq!(wanted.rules.len(), 1);
        assert_eq!(wanted.problems.len(), 2, "{:?}", wanted.problems);
        assert!(wanted.problems[0].starts_with("redaction[1].pattern (`broken`) can't be used"));
        assert!(wanted.problems[1].starts_with("redaction[2] needs a `name`"));
        assert_eq!(parse_policy(b"{}"), WantedMasking::default());
        assert_eq!(parse_policy(b"{").problems.len(), 1);
        assert!(parse_policy(&vec![b' '; MAX_FILE + 1]).problems[0].contains("64 KiB"));
    }
}
