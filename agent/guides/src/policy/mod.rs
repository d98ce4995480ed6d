//! Risk of a tool call: the harm that it can do, and who may say otherwise. Pure.
//!
//! [`builds`] tells which commands build. [`shell`] finds the commands of a script, [`risk`] judges them by
//! what `programs`, `reach` and `names` know, [`rules`] is what the repository says in
//! `.codebutler/policy.json`. This keeps a model
//! from breaking things that people care about by accident; the walls against a hostile one are the sandbox
//! and the gateway.

pub mod builds;
pub mod file;
mod names;
mod programs;
mod reach;
pub mod risk;
pub mod rules;
pub mod shell;
mod spelling;

use std::cell::Cell;
use std::collections::BTreeMap;

use codebutler_wire::RiskTier;
use rules::RiskRules;

/// Commands that other commands run, in one call.
const MOST: u32 = 500;
/// Pieces of a script that can't be parsed as a whole.
const PIECES: usize = 500;

/// Everything that decides about a call.
#[derive(Clone, Debug, Default)]
pub struct CommandPolicy {
    pub rules: RiskRules,
    /// The Repo's: can only make a tool stricter.
    pub overrides: BTreeMap<String, RiskTier>,
}

/// A tier, and what it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RiskVerdict {
    pub tier: RiskTier,
    /// True if the command could throw away what nothing else has: a snapshot of the worktree comes first.
    pub loses: bool,
    /// True if its output may write over a file: a snapshot is kept where one can be, without a word.
    pub overwrites: bool,
    /// Reason shown to people: which command, which rule.
    pub why: String,
}

impl RiskVerdict {
    fn of(tier: RiskTier, loses: bool, why: impl Into<String>) -> Self {
        Self { tier, loses, overwrites: false, why: why.into() }
    }

    fn reads(why: impl Into<String>) -> Self {
        Self::of(RiskTier::Read, false, why)
    }

    /// Verdict on a command that changes what lies in the sandbox.
    fn local(why: impl Into<String>) -> Self {
        Self::of(RiskTier::WriteLocal, false, why)
    }

    /// The same, and work could be lost.
    fn loses(why: impl Into<String>) -> Self {
        Self::of(RiskTier::WriteLocal, true, why)
    }

    /// The same, where only what it writes to can be.
    fn overwrites(why: impl Into<String>) -> Self {
        Self { overwrites: true, ..Self::local(why) }
    }

    fn visible(why: impl Into<String>) -> Self {
        Self::of(RiskTier::WriteVisible, false, why)
    }

    /// Verdict on a command that leaves the sandbox, or whose effect nothing brings back.
    fn leaves(why: impl Into<String>) -> Self {
        Self::of(RiskTier::Destructive, false, why)
    }

    /// True if people are asked first.
    pub fn asks(&self) -> bool {
        self.tier == RiskTier::Destructive
    }

    /// Both: the worse tier and its reason, and what either could lose.
    fn or(self, other: Self) -> Self {
        let loses = self.loses || other.loses;
        let overwrites = self.overwrites || other.overwrites;
        let worse = (other.tier, other.loses) > (self.tier, self.loses);
        Self { loses, overwrites, ..if worse { other } else { self } }
    }
}

impl CommandPolicy {
    /// A call of a tool whose own tier is `own`.
    pub fn tool(&self, name: &str, own: RiskTier) -> RiskVerdict {
        let verdict = match self.rules.tool(name) {
            Some(tier) if tier > own => {
                RiskVerdict::of(tier, false, format!("policy.json says so of {name}"))
            }
            _ => RiskVerdict::of(own, false, format!("{name} is like that")),
        };
        self.stricter(name, verdict)
    }

    /// A Bash call: the worst of its commands.
    pub fn bash(&self, script: &str) -> RiskVerdict {
        let verdict = self.script(script, 0, &Cell::new(MOST));
        let verdict = match self.rules.tool("Bash") {
            Some(tier) if tier > verdict.tier => {
                RiskVerdict { tier, why: "policy.json says so of Bash".to_owned(), ..verdict }
            }
            _ => verdict,
        };
        self.stricter("Bash", verdict)
    }

    /// A script, `depth` scripts deep, of which so many commands more are looked at.
    fn script(&self, script: &str, depth: u32, left: &Cell<u32>) -> RiskVerdict {
        let Ok(found) = shell::parse_commands(script) else {
            return self.unparsed(script, depth, left);
        };
        let scene = risk::CommandScene::new(self, &found, depth, left);
        found
            .iter()
            .map(|simple| scene.command(simple))
            .reduce(RiskVerdict::or)
            .unwrap_or_else(|| RiskVerdict::reads("it runs nothing"))
    }

    /// Judges a script that can't be parsed: it may run nothing, or anything in the sandbox. What is plainly meant to
    /// leave that is found.
    fn unparsed(&self, script: &str, depth: u32, left: &Cell<u32>) -> RiskVerdict {
        let scene = risk::CommandScene::new(self, &[], depth, left);
        let pieces = script.split(['\n', ';', '|', '&', '(', ')', '`']).take(PIECES);
        let commands = |piece: &str| {
            let whole = shell::parse_commands(piece.trim());
            whole.or_else(|_| shell::parse_commands(&piece.replace(['\'', '"'], ""))).ok()
        };
        let found = pieces.filter_map(commands).flatten();
        found
            .filter_map(|simple| risk::judge_fragment(&simple, &scene))
            .fold(RiskVerdict::loses("it can't be told what this runs"), RiskVerdict::or)
    }

    fn stricter(&self, name: &str, verdict: RiskVerdict) -> RiskVerdict {
        match self.overrides.get(name) {
            Some(tier) if *tier > verdict.tier => RiskVerdict {
                tier: *tier,
                why: format!("the Repo's policy says so of {name}"),
                ..verdict
            },
            _ => verdict,
        }
    }
}
