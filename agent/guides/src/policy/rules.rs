//! `.codebutler/policy.json` of the base branch: what a repository thinks of its own commands.
//!
//! ```json
//! {"tool_overrides": {
//!   "bash": {
//!     "destructive": ["./scripts/migrate.sh"],
//!     "safe": [{"command": "npm ci", "matches": ["npm ci --offline"], "spares": ["npm install"]}]},
//!   "tools": {"GitPush": "Destructive"}}}
//! ```

use std::collections::BTreeMap;

use codebutler_wire::RiskTier;

use super::RiskVerdict;
use super::file::{CommandRule, Overrides, PolicyFile, PolicyMistake};
use super::shell::{self, PlainCommand};

#[derive(Clone, Debug, Default)]
pub struct RiskRules {
    destructive: Vec<Vec<String>>,
    safe: Vec<Vec<String>>,
    tools: BTreeMap<String, RiskTier>,
}

/// A rule's verdict, and the words that it is about.
#[derive(Clone, Debug)]
pub struct RuleVerdict {
    pub verdict: RiskVerdict,
    pub words: Vec<String>,
}

/// Rules that can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RiskRulesError {
    #[error(transparent)]
    File(#[from] PolicyMistake),
    #[error("`{0}` is not one plain command")]
    NotPlain(String),
    #[error("`{0}` is no command")]
    NoCommand(String),
    #[error("the rule `{command}` does not match its own example `{example}`")]
    Misses { command: String, example: String },
    #[error("the rule `{command}` matches its own example `{example}`")]
    Matches { command: String, example: String },
}

impl RiskRules {
    /// Reads the file. A rule that contradicts its own examples makes all of it unusable: what it
    /// means is not known then.
    pub fn parse(text: &str) -> Result<Self, RiskRulesError> {
        let file = PolicyFile::parse(text)?;
        let Overrides { bash, tools } = file.tool_overrides;
        let all = |rules: Vec<CommandRule>| {
            rules.into_iter().map(check_rule).collect::<Result<Vec<_>, _>>()
        };
        Ok(Self { destructive: all(bash.destructive)?, safe: all(bash.safe)?, tools })
    }

    pub fn tool(&self, name: &str) -> Option<RiskTier> {
        self.tools.get(name).copied()
    }

    /// Names of the tools that have a tier of their own.
    pub fn tool_names(&self) -> impl Iterator<Item = &str> {
        self.tools.keys().map(String::as_str)
    }

    /// Commands that the policy calls safe, as words.
    pub fn safe_commands(&self) -> &[Vec<String>] {
        &self.safe
    }

    /// Returns the verdict of the repository's rules on a command; the stricter rule wins.
    pub fn command(&self, simple: &PlainCommand) -> Option<RuleVerdict> {
        let find = |rules: &[Vec<String>], tier, word: &str| {
            let fitting = rules.iter().filter(|rule| rule_applies(rule, simple));
            // The one that says most.
            fitting.max_by_key(|rule| rule.len()).map(|rule| RuleVerdict {
                verdict: RiskVerdict {
                    loses: false,
                    overwrites: false,
                    tier,
                    why: format!("policy.json calls `{}` {word}", rule.join(" ")),
                },
                words: rule.clone(),
            })
        };
        find(&self.destructive, RiskTier::Destructive, "destructive")
            .or_else(|| find(&self.safe, RiskTier::WriteLocal, "safe"))
    }
}

/// True if the command begins with the rule's words.
fn rule_applies(rule: &[String], simple: &PlainCommand) -> bool {
    simple.words.len() >= rule.len()
        && rule.iter().zip(&simple.words).all(|(rule, word)| word.as_deref() == Some(rule))
}

fn check_rule(rule: CommandRule) -> Result<Vec<String>, RiskRulesError> {
    let CommandRule { command, matches, spares } = rule;
    let words = match shell::parse_commands(&command).as_deref() {
        Ok([simple]) if !simple.words.is_empty() => {
            simple.words.iter().cloned().collect::<Option<Vec<_>>>()
        }
        _ => None,
    };
    let Some(words) = words else { return Err(RiskRulesError::NotPlain(command)) };
    for (examples, expected) in [(matches, true), (spares, false)] {
        for example in examples {
            let Ok(found) = shell::parse_commands(&example) else {
                return Err(RiskRulesError::NoCommand(example));
            };
            match (found.iter().any(|simple| rule_applies(&words, simple)), expected) {
                (false, true) => return Err(RiskRulesError::Misses { command, example }),
                (true, false) => return Err(RiskRulesError::Matches { command, example }),
                (true, true) | (false, false) => {}
            }
        }
    }
    Ok(words)
}
