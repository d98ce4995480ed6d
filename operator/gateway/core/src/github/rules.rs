//! Conditions that rulesets set for changes to a branch.

use std::collections::BTreeSet;

use http::StatusCode;
use serde::Deserialize;

use super::{GitHub, GitHubError, branch_path};

/// Rules of a branch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BranchRules {
    /// Pull requests go through GitHub's own merge queue.
    pub queue: bool,
    /// Names of checks that have to be green.
    pub checks: BTreeSet<String>,
}

#[derive(Deserialize)]
struct BranchRule {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    parameters: RuleParameters,
}

#[derive(Default, Deserialize)]
struct RuleParameters {
    #[serde(default)]
    required_status_checks: Vec<RequiredCheck>,
}

#[derive(Deserialize)]
struct RequiredCheck {
    context: String,
}

#[derive(Deserialize)]
struct CommitObject {
    tree: TreeObject,
}

#[derive(Deserialize)]
struct TreeObject {
    sha: String,
}

impl GitHub {
    /// The rules of a branch. Those of the older branch protection are not among them: only owners may read
    /// them, and a merge that they forbid is refused in words. None where the host has no rulesets.
    ///
    /// # Errors
    /// When GitHub can't be asked.
    pub async fn branch_rules(&self, branch: &str) -> Result<BranchRules, GitHubError> {
        let path = self.client.repo(&branch_path("rules/branches", branch));
        match self.client.list(&path).await {
            Ok(rules) => Ok(read_rules(rules)),
            Err(GitHubError::NotFound { .. } | GitHubError::Permission { .. }) => {
                Ok(BranchRules::default())
            }
            Err(error) => Err(error),
        }
    }

    /// Id of a commit's tree.
    ///
    /// # Errors
    /// When GitHub can't be asked, or has no such commit.
    pub async fn tree_of(&self, commit: &str) -> Result<String, GitHubError> {
        let answer = self.client.get(&self.client.repo(&format!("git/commits/{commit}"))).await?;
        let CommitObject { tree } = self.client.expect(&answer, StatusCode::OK)?;
        Ok(tree.sha)
    }
}

fn read_rules(rules: Vec<BranchRule>) -> BranchRules {
    let mut found = BranchRules::default();
    for rule in rules {
        found.queue |= rule.kind == "merge_queue";
        let checks = rule.parameters.required_status_checks;
        found.checks.extend(checks.into_iter().map(|check| check.context));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_branchs_rules_are_read_as_github_writes_them() {
        let rules = json!([
            {"type": "deletion", "ruleset_source_type": "Repository", "ruleset_source": "acme/shop", "ruleset_id": 4},
            {"type": "required_status_checks", "ruleset_id": 4, "parameters": {
                "strict_required_status_checks_policy": false, "do_not_enforce_on_create": false,
                "required_status_checks": [{"context": "ci", "integration_id": 15368}, {"context": "lint"}]}},
            {"type": "merge_queue", "ruleset_id": 4, "parameters": {"merge_method": "SQUASH"}},
        ]);
        let found = read_rules(serde_json::from_value(rules).unwrap());
        assert!(found.queue);
        assert_eq!(found.checks, BTreeSet::from(["ci".to_owned(), "lint".to_owned()]));
        assert_eq!(read_rules(Vec::new()), BranchRules::default());
    }
}
