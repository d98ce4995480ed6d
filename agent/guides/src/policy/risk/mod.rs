//! Judges the effect of a command, as far as it is known. Pure.
//!
//! A command that stays in the sandbox never waits for people: what it could throw away is kept before.
//! [`runs`] finds what a command runs in turn, [`search`] what it does to all that it finds, [`targets`] what a
//! build tool is asked to do, [`git`], [`files`], [`edits`] and [`code`] what could be lost, [`send`] what reaches
//! others.

mod around;
mod code;
mod edits;
mod fetched;
mod files;
mod git;
mod repository;
mod runs;
mod search;
mod send;
mod targets;

use std::cell::Cell;
use std::collections::HashMap;

use self::fetched::FetchedFiles;
use self::repository::RepositoryReach;
use super::names::{is_handover_file, is_order, throws_away};
use super::programs::{FILERS, READERS, SHELLS};
use super::reach::{self, ProgramReach};
use super::rules::RuleVerdict;
use super::shell::{PlainCommand, ShellWord};
use super::{CommandPolicy, RiskVerdict};

/// Deepest nesting of scripts in scripts.
const DEEPEST: u32 = 12;
/// Deepest nesting of wrappers in wrappers.
const NESTED: u32 = 24;
/// Words of a command line among which an order is looked for.
const ORDERED: usize = 6;
/// Orders that a program which is not known may be given.
const ORDERS: [&str; 8] =
    ["publish", "deploy", "push", "apply", "delete", "destroy", "upload", "release"];

/// Context of a command while it is judged.
pub struct CommandScene<'a> {
    policy: &'a CommandPolicy,
    /// Files that the script brings from elsewhere.
    fetched: FetchedFiles,
    /// Reasons why its commands may reach the repository.
    repository: RepositoryReach,
    /// Files that the script writes before, by name.
    files: HashMap<String, String>,
    /// True if it goes to where the worktree is a folder among others.
    above: bool,
    depth: u32,
    /// Commands that run commands.
    nested: Cell<u32>,
    /// Program or socket by which the script fetches or unpacks something that it may then run.
    pub brings: Option<String>,
    /// Number of commands that may still be judged, in all scripts.
    left: &'a Cell<u32>,
}

impl<'a> CommandScene<'a> {
    pub fn new(
        policy: &'a CommandPolicy,
        found: &[PlainCommand],
        depth: u32,
        left: &'a Cell<u32>,
    ) -> Self {
        Self {
            policy,
            brings: runs::brings_code(found),
            fetched: FetchedFiles::of(found),
            repository: RepositoryReach::of(found),
            files: files::written_files(found),
            above: files::goes_above(found),
            depth,
            nested: Cell::new(0),
            left,
        }
    }

    /// A script inside of this one.
    fn script(&self, text: &str) -> RiskVerdict {
        if self.depth >= DEEPEST || self.is_tired() {
            return RiskVerdict::leaves("it hides what it runs in too many scripts");
        }
        self.policy.script(text, self.depth + 1, self.left)
    }

    /// One command, unless the repository says what it is.
    pub fn command(&self, simple: &PlainCommand) -> RiskVerdict {
        let own = judge_program(simple, self);
        let said = self.policy.rules.command(simple);
        let own = said.map_or(own.clone(), |said| self.as_said(simple, own, said));
        // A rule is about the program, and not about the files that its output goes to.
        let own = match self.repository.judge_writes(simple) {
            Some(writes) => own.or(writes),
            None => own,
        };
        let writes = simple.writes.iter().map(|file| files::judge_redirect(simple, file));
        writes.fold(own, RiskVerdict::or)
    }

    /// The repository's rule for a command. A safe command runs, unless the words behind those of the rule make it
    /// worse: a rule for `npm` does not cover `npm publish`. A snapshot is taken where it could lose work all the same.
    fn as_said(&self, simple: &PlainCommand, own: RiskVerdict, said: RuleVerdict) -> RiskVerdict {
        let RuleVerdict { verdict, words } = said;
        if verdict.tier < own.tier {
            let named = simple.with_words(words.into_iter().map(Some).collect());
            let named = PlainCommand {
                sets: Vec::new(),
                writes: Vec::new(),
                replaces: Vec::new(),
                ..named
            };
            let at_most = judge_program(&named, self).tier;
            if own.tier > at_most {
                return own;
            }
        }
        RiskVerdict { loses: own.loses, overwrites: own.overwrites, ..verdict }
    }

    /// True for a file that the script has brought from elsewhere.
    fn has_fetched(&self, file: &str) -> bool {
        self.fetched.has(file)
    }

    /// Takes one command off the budget, and returns true if there was none left.
    fn is_tired(&self) -> bool {
        let left = self.left.get();
        self.left.set(left.saturating_sub(1));
        left == 0
    }

    /// The command that stands behind an option, or behind the words of another one.
    fn inner_words(&self, words: Vec<ShellWord>, simple: &PlainCommand) -> RiskVerdict {
        match words.as_slice() {
            [] => RiskVerdict::local("it runs nothing"),
            // A whole command line in one word.
            [Some(line)] if line.contains(char::is_whitespace) => self.script(line),
            _ => self.inner(&simple.with_words(words)),
        }
    }

    /// A command that another one runs.
    fn inner(&self, simple: &PlainCommand) -> RiskVerdict {
        let nested = self.nested.get() + 1;
        if nested > NESTED || self.is_tired() {
            return RiskVerdict::leaves("it hides what it runs behind too many programs");
        }
        self.nested.set(nested);
        let verdict = self.command(simple);
        self.nested.set(nested - 1);
        verdict
    }
}

/// One command, what it runs in turn, and what the variables run that are set for it.
fn judge_program(simple: &PlainCommand, scene: &CommandScene<'_>) -> RiskVerdict {
    let own = judge_words(simple, scene);
    let sets = simple.sets.iter().map(|(name, value)| (name.as_str(), value.as_deref()));
    match around::judge_assignments(sets, scene) {
        Some(around) => own.or(around),
        None => own,
    }
}

fn judge_words(simple: &PlainCommand, scene: &CommandScene<'_>) -> RiskVerdict {
    let Some(first) = simple.words.first() else { return RiskVerdict::reads("it runs nothing") };
    let rest = &simple.words[1..];
    let texts: Vec<&str> = rest.iter().filter_map(Option::as_deref).collect();
    let Some(first) = first else {
        if let Some(from) = runs::brought_within(simple) {
            return RiskVerdict::leaves(format!(
                "it runs what `{from}` brings, which nobody has seen"
            ));
        }
        return judge_unknown(&texts, scene);
    };
    if first.trim().contains(char::is_whitespace) {
        // `$CMD x`, where the variable holds more than a name.
        let words = simple.words.iter().cloned().collect::<Option<Vec<_>>>();
        return words.map_or_else(|| scene.script(first), |words| scene.script(&words.join(" ")));
    }
    let name = first.rsplit('/').next().unwrap_or(first);
    if let Some(verdict) = scene.repository.judge(name, simple) {
        return verdict;
    }
    if first.contains('/') && scene.has_fetched(first) {
        return RiskVerdict::leaves(format!(
            "it runs `{name}`, which it has just brought from elsewhere"
        ));
    }
    if let Some(verdict) = around::judge_subscripts(name, simple, scene).filter(RiskVerdict::asks) {
        return verdict;
    }
    if let Some(verdict) = runs::in_turn(name, simple, rest, scene) {
        return verdict;
    }
    let reach = reach::reach_of(name, rest);
    match &reach {
        Some(ProgramReach::Leaves(what)) => {
            return RiskVerdict::leaves(format!(
                "`{what}` changes something outside of the sandbox"
            ));
        }
        Some(ProgramReach::Installs) => {
            return RiskVerdict::visible(format!(
                "`{name}` installs, from hosts that the Repo allows"
            ));
        }
        Some(ProgramReach::Stays) | None => {}
    }
    let own = match name {
        "git" => git::git_risk(&texts, rest, scene),
        "sed" | "gsed" => edits::judge_sed(&texts, scene),
        _ => edits::edit_risk(name, &texts)
            .or_else(|| files::file_risk(name, simple, &texts, scene.above))
            .or_else(|| edits::database_risk(name, simple, &texts))
            .or_else(|| send::send_risk(name, simple, &texts))
            .or_else(|| code::code_risk(name, simple, rest, scene))
            .or_else(|| targets::target_risk(name, rest))
            .or_else(|| reach.map(|_| RiskVerdict::local(format!("`{name}` works in the sandbox"))))
            .unwrap_or_else(|| judge_other(first, name, &texts)),
    };
    let own = match texts.iter().take(ORDERED).find(|text| throws_away(text)) {
        Some(order) if !matches!(name, "git" | "sed") && !READERS.contains(&name) => {
            own.or(RiskVerdict::loses(format!("`{name}` is told to {order}")))
        }
        _ => own,
    };
    match scene.files.get(first.trim_start_matches("./")) {
        Some(text) if first.contains('/') => own.or(scene.script(text)),
        _ => own,
    }
}

/// A program that is in no table.
fn judge_other(first: &str, name: &str, texts: &[&str]) -> RiskVerdict {
    if READERS.contains(&name) {
        return RiskVerdict::reads("it only looks");
    }
    if FILERS.contains(&name) || name.ends_with("lint") {
        return RiskVerdict::local("it works in the worktree");
    }
    script_file(first, texts)
}

/// A script or program by its name and its first argument.
fn script_file(path: &str, texts: &[&str]) -> RiskVerdict {
    let name = path.rsplit('/').next().unwrap_or(path);
    if matches!(texts, ["--help" | "-h" | "--version"]) {
        return RiskVerdict::local(format!("`{name}` tells what it could do"));
    }
    if is_handover_file(path) {
        return RiskVerdict::leaves(format!("`{name}` hands something over, by its name"));
    }
    let order = texts.iter().find(|text| !text.starts_with('-')).filter(|text| is_order(text));
    match order {
        Some(order) => RiskVerdict::leaves(format!("`{name}` is told to {order}")),
        None => RiskVerdict::local(format!("`{name}` runs in the sandbox")),
    }
}

/// A program that is only known when it runs.
fn judge_unknown(texts: &[&str], scene: &CommandScene<'_>) -> RiskVerdict {
    if let Some(hides) = scene.brings.as_deref().filter(|from| runs::hides_code(from)) {
        return RiskVerdict::leaves(format!("its program may be what `{hides}` brings"));
    }
    let order = texts.iter().find(|text| !text.starts_with('-'));
    match order.filter(|order| ORDERS.contains(order)) {
        Some(order) => {
            RiskVerdict::leaves(format!("a program that is not known before does `{order}`"))
        }
        None => RiskVerdict::loses("its program is not known before"),
    }
}

/// A part of a script that can't be parsed as a whole: only what is sure to leave the sandbox.
pub fn judge_fragment(simple: &PlainCommand, scene: &CommandScene<'_>) -> Option<RiskVerdict> {
    let name = simple.words.first()?.as_deref()?.rsplit('/').next()?;
    let said = scene.policy.rules.command(simple);
    let leaves = matches!(reach::reach_of(name, &simple.words[1..]), Some(ProgramReach::Leaves(_)))
        || (name == "git" && judge_program(simple, scene).asks());
    let own = leaves.then(|| RiskVerdict::leaves(format!("`{name}` changes something elsewhere")));
    match (said, own) {
        (Some(said), Some(own)) => Some(scene.as_said(simple, own, said)),
        (Some(said), None) => Some(said.verdict),
        (None, own) => own,
    }
}

fn is_shell(name: &str) -> bool {
    SHELLS.contains(&name)
}

/// The first argument that is no option.
fn first_plain(rest: &[ShellWord]) -> Option<&ShellWord> {
    rest.iter().find(|word| word.as_deref().is_none_or(|word| !word.starts_with('-')))
}

#[cfg(test)]
mod corpus;
#[cfg(test)]
mod overlooked;
#[cfg(test)]
mod tests;
