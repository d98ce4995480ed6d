//! How much harm a tool call can do, and who may say otherwise. Pure.
//!
//! [`builds`] tells which commands build. [`shell`] finds the commands of a script, [`risk`] judges them by what `programs` knows, [`rules`] is what the repository
//! says in `.codebutler/policy.json`. This keeps a model from breaking things that people care about
//! by accident; the walls against a hostile one are the sandbox and the gateway.

pub mod builds;
mod programs;
pub mod risk;
pub mod rules;
pub mod shell;

use std::collections::BTreeMap;

use codebutler_crds::policy::RiskTier;
use rules::Rules;

/// Everything that decides about a call.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    /// The repository's own.
    pub rules: Rules,
    /// The Repo's: can only make a tool stricter.
    pub overrides: BTreeMap<String, RiskTier>,
}

/// A tier, and what it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// How much harm.
    pub tier: RiskTier,
    /// For people: which command, which rule.
    pub why: String,
}

impl Policy {
    /// A call of a tool whose own tier is `own`.
    pub fn tool(&self, name: &str, own: RiskTier) -> Verdict {
        let verdict = match self.rules.tool(name) {
            Some(tier) if tier > own => {
                Verdict { tier, why: format!("policy.json says so of {name}") }
            }
            _ => Verdict { tier: own, why: format!("{name} is like that") },
        };
        self.stricter(name, verdict)
    }

    /// A Bash call: the worst of its commands.
    pub fn bash(&self, script: &str) -> Verdict {
        let verdict = match shell::commands(script) {
            Err(shell::Unparsed) => Verdict {
                tier: RiskTier::Destructive,
                why: "it can't be told what this runs".to_owned(),
            },
            Ok(found) => found
                .iter()
                .map(|simple| self.rules.command(simple).unwrap_or_else(|| risk::of(simple, self)))
                .max_by_key(|verdict| verdict.tier)
                .unwrap_or(Verdict { tier: RiskTier::Read, why: "it runs nothing".to_owned() }),
        };
        self.stricter("Bash", verdict)
    }

    fn stricter(&self, name: &str, verdict: Verdict) -> Verdict {
        match self.overrides.get(name) {
            Some(tier) if *tier > verdict.tier => {
                Verdict { tier: *tier, why: format!("the Repo's policy says so of {name}") }
            }
            _ => verdict,
        }
    }
}
