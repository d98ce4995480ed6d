//! Compares what was found with what was expected: pure, one outcome for each expectation.

use codebutler_crds::NanoUsd;
use serde_json::Value;

use super::PlayableScenario;
use super::evidence::{
    CommandRun, ObservedWorld, ProviderAccount, RemoteState, ScenarioEvidence, SeenMessage,
};
use super::expect::{
    BranchExpect, CommitExpect, CostExpect, ExpectedCommand, FileExpect, FilesExpect, LengthExpect,
    MessageExpect, MessageOrder, ReactionExpect,
};
use crate::github::git::CommitObject;
use crate::models::TextMatch;

/// The result of checking one expectation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpectationOutcome {
    /// The expectation in words.
    pub what: String,
    /// True if the expectation held.
    pub ok: bool,
    /// The difference that was found; empty if the expectation held.
    pub detail: String,
}

impl ExpectationOutcome {
    /// An outcome from the difference that was found, if any.
    pub fn new(what: impl Into<String>, difference: Option<String>) -> Self {
        let ok = difference.is_none();
        Self { what: what.into(), ok, detail: difference.unwrap_or_default() }
    }
}

/// Judges every expectation of a scenario.
#[must_use]
pub fn evaluate_scenario(
    scenario: &PlayableScenario,
    evidence: &ScenarioEvidence,
) -> Vec<ExpectationOutcome> {
    let expect = &scenario.expect;
    let ScenarioEvidence { observed, remote, account, ran } = evidence;
    let mut outcomes = vec![judge_followed(observed), judge_played(scenario, account)];
    outcomes.extend(judge_messages(&expect.messages, &observed.messages));
    outcomes.extend(expect.length.map(|most| judge_length(most, &observed.messages)));
    outcomes.extend(expect.reactions.iter().map(|r| judge_reaction(r, &observed.messages)));
    outcomes.extend(judge_files(&expect.files, remote));
    outcomes.extend(judge_commits(&expect.commits, remote));
    for (n, command) in expect.commands.iter().enumerate() {
        outcomes.push(judge_command(command, ran.get(n)));
    }
    outcomes.extend(expect.branches.as_ref().map(|b| judge_branches(b, &remote.branches)));
    if let Some(wanted) = &expect.pull_request {
        let what = wanted.state.map_or("none".to_owned(), |s| format!("{s:?}").to_lowercase());
        let difference = wanted.difference(&observed.pull_requests);
        outcomes.push(ExpectationOutcome::new(format!("pull request: {what}"), difference));
    }
    if let Some(wanted) = &expect.pull_requests {
        let pulls = &observed.pull_requests;
        outcomes.push(judge_counted("pull requests", wanted.len(), pulls.len()));
        for (n, (wanted, found)) in wanted.iter().zip(pulls).enumerate() {
            let what = format!("pull request #{} of {}", n + 1, pulls.len());
            outcomes.push(ExpectationOutcome::new(what, wanted.differs(found)));
        }
    }
    if let Some(wanted) = &expect.threads {
        let threads = &observed.threads;
        outcomes.push(judge_counted("Threads", wanted.len(), threads.len()));
        for (n, (wanted, found)) in wanted.iter().zip(threads).enumerate() {
            let difference = wanted.differences(found).join("; ");
            let what = format!("Thread {} of {}", n + 1, threads.len());
            outcomes
                .push(ExpectationOutcome::new(what, Some(difference).filter(|d| !d.is_empty())));
        }
    }
    if let Some(wanted) = &expect.thread {
        // The conversation that the scenario is about is the first one.
        let difference = match observed.threads.first() {
            Some(thread) => Some(wanted.differences(thread).join("; ")).filter(|d| !d.is_empty()),
            None => Some("there is no Thread".to_owned()),
        };
        outcomes.push(ExpectationOutcome::new("thread", difference));
    }
    outcomes.extend(judge_cost(&expect.cost, &observed.threads, account));
    for (role, wanted) in &expect.turns {
        let found = account.bill.roles.get(role).map_or(0, |r| r.calls);
        outcomes.push(judge_count(&format!("model calls of {role}"), *wanted, found));
    }
    for (role, wanted) in &expect.tool_calls {
        let found = account.bill.roles.get(role).map_or(0, |r| r.tool_calls);
        outcomes.push(judge_count(&format!("tool calls of {role}"), *wanted, found));
    }
    let left = |what, wanted: Option<usize>, names: &[String]| {
        let differs = |n: usize| (names.len() != n).then(|| format!("found {names:?}"));
        wanted.map(|n| ExpectationOutcome::new(format!("{what}: {n}"), differs(n)))
    };
    outcomes.extend(left("pods", expect.pods, &observed.pods));
    outcomes.extend(left("volumes", expect.volumes, &observed.volumes));
    outcomes
}

/// Buttons are no words to read.
fn judge_length(most: LengthExpect, messages: &[SeenMessage]) -> ExpectationOutcome {
    let lines: usize = messages.iter().map(|message| message.text.lines().count()).sum();
    let words: usize = messages.iter().map(|message| message.text.split_whitespace().count()).sum();
    let LengthExpect { lines: most_lines, words: most_words } = most;
    let fits = lines <= most_lines && words <= most_words;
    let found = format!("found {lines} lines and {words} words");
    let what = format!("at most {most_lines} lines and {most_words} words to read");
    ExpectationOutcome::new(what, (!fits).then_some(found))
}

fn judge_count(what: &str, wanted: u64, found: u64) -> ExpectationOutcome {
    let difference = (wanted != found).then(|| format!("found {found}"));
    ExpectationOutcome::new(format!("{what}: {wanted}"), difference)
}

fn judge_counted(what: &str, wanted: usize, found: usize) -> ExpectationOutcome {
    let difference = (wanted != found).then(|| format!("found {found}"));
    ExpectationOutcome::new(format!("{what}: {wanted}"), difference)
}

fn judge_followed(observed: &ObservedWorld) -> ExpectationOutcome {
    let failures = observed.script_failures.join("\n");
    let difference = Some(failures).filter(|f| !f.is_empty());
    ExpectationOutcome::new("the models were asked what the script expects", difference)
}

fn judge_played(scenario: &PlayableScenario, account: &ProviderAccount) -> ExpectationOutcome {
    let mut missing = Vec::new();
    for (role, script) in &scenario.models.0 {
        for (list, conversation) in script.conversations.iter().enumerate() {
            let steps = conversation.steps.len();
            let served = account.served.iter().filter(|s| s.role == *role && s.list == list);
            let played = served.map(|s| s.step + 1).max().unwrap_or(0);
            let which = match &conversation.thread {
                Some(marker) => format!(" in the conversation with {marker}"),
                None => String::new(),
            };
            if played < steps {
                missing.push(format!("{role} got to step {played} of {steps}{which}"));
            }
            if played > steps {
                missing.push(format!("{role} was asked again after its last step{which}"));
            }
        }
    }
    let difference = Some(missing.join("; ")).filter(|m| !m.is_empty());
    ExpectationOutcome::new("the models' script was played to its end", difference)
}

fn judge_messages(expected: &[MessageExpect], found: &[SeenMessage]) -> Vec<ExpectationOutcome> {
    // Index of the message at which the search for the next one in order begins.
    let mut from = 0;
    let mut outcomes = Vec::new();
    for wanted in expected {
        let pattern = wanted.pattern();
        let fitting: Vec<usize> = (0..found.len()).filter(|n| pattern.fits(&found[*n])).collect();
        let (what, difference) = match wanted.count {
            Some(count) => {
                let differs = fitting.len() != count;
                (
                    format!("{count} × {pattern}"),
                    differs.then(|| format!("found {}", fitting.len())),
                )
            }
            None if wanted.order == MessageOrder::Any => {
                (pattern.to_string(), fitting.is_empty().then(|| "not found".to_owned()))
            }
            None => {
                let next = fitting.iter().find(|n| **n >= from);
                from = next.map_or(from, |n| n + 1);
                let said = if fitting.is_empty() { "not found" } else { "found only earlier" };
                (pattern.to_string(), next.is_none().then(|| said.to_owned()))
            }
        };
        outcomes.push(ExpectationOutcome::new(what, difference));
    }
    outcomes
}

fn judge_reaction(wanted: &ReactionExpect, messages: &[SeenMessage]) -> ExpectationOutcome {
    let fits = |message: &SeenMessage| {
        let by = |name: &str| wanted.by.as_ref().is_none_or(|by| by == name);
        message.reactions.iter().any(|r| r.emoji == wanted.emoji && by(&r.by))
    };
    let found = messages.iter().any(|m| wanted.on.fits(m) && fits(m));
    let not = if wanted.absent { "no " } else { "" };
    let difference = (found == wanted.absent)
        .then(|| if found { "it is there".to_owned() } else { "it is not there".to_owned() });
    ExpectationOutcome::new(format!("{not}:{}: on {}", wanted.emoji, wanted.on), difference)
}

fn judge_files(expected: &FilesExpect, remote: &RemoteState) -> Vec<ExpectationOutcome> {
    match expected {
        FilesExpect::Unchanged => {
            let changed = &remote.changed;
            let difference = (!changed.is_empty()).then(|| format!("changed: {changed:?}"));
            vec![ExpectationOutcome::new("files: unchanged", difference)]
        }
        FilesExpect::ByPath(files) => {
            let one = |(path, wanted): (&String, &FileExpect)| {
                let difference = file_difference(wanted, remote.files.get(path));
                ExpectationOutcome::new(format!("file {path}"), difference)
            };
            files.iter().map(one).collect()
        }
    }
}

fn file_difference(wanted: &FileExpect, found: Option<&String>) -> Option<String> {
    let content = match (found, wanted.absent) {
        (None, true) => return None,
        (None, false) => return Some("it is not there".to_owned()),
        (Some(_), true) => return Some("it is there".to_owned()),
        (Some(content), false) => content,
    };
    if wanted.equals.as_ref().is_some_and(|text| text != content) {
        return Some(format!("it is:\n{content}"));
    }
    if let Some(part) = wanted.contains.iter().find(|part| !content.contains(*part)) {
        return Some(format!("it lacks `{part}`"));
    }
    if let Some(part) = wanted.lacks.iter().find(|part| content.contains(*part)) {
        return Some(format!("it contains `{part}`"));
    }
    let pattern = wanted.matches.as_ref().filter(|p| !p.0.is_match(content));
    pattern.map(|p| format!("it does not match /{}/", p.0))
}

fn judge_commits(wanted: &CommitExpect, remote: &RemoteState) -> Vec<ExpectationOutcome> {
    let found = &remote.commits;
    let subjects: Vec<&str> = found.iter().map(CommitObject::subject).collect();
    let differs = (found.len() != wanted.count).then(|| format!("found {subjects:?}"));
    let mut outcomes = vec![ExpectationOutcome::new(format!("commits: {}", wanted.count), differs)];
    let newest = found.first();
    let says = |text: &TextMatch, part: Option<&str>| match part {
        Some(part) if text.is_in(part) => None,
        Some(part) => Some(format!("it is `{part}`")),
        None => Some("there is none".to_owned()),
    };
    if let Some(text) = &wanted.subject {
        let difference = says(text, newest.map(CommitObject::subject));
        outcomes
            .push(ExpectationOutcome::new(format!("the commit's subject says {text}"), difference));
    }
    for text in &wanted.message {
        let difference = says(text, newest.map(|c| c.message.as_str()));
        outcomes
            .push(ExpectationOutcome::new(format!("the commit's message says {text}"), difference));
    }
    if wanted.squash {
        let merge = found.iter().find(|c| c.parents.len() != 1);
        let difference = match (merge, newest) {
            (Some(c), _) => Some(format!("{} has {} parents", c.sha, c.parents.len())),
            // A fast-forward would show the branch's own commits: their committer is a role.
            (None, Some(c)) if c.committer.0 != "GitHub" => {
                Some(format!("{} was committed by {}", c.sha, c.committer.0))
            }
            (None, Some(_)) => None,
            (None, None) => Some("there is no commit".to_owned()),
        };
        outcomes.push(ExpectationOutcome::new("the commit is a squash", difference));
    }
    outcomes
}

fn judge_command(wanted: &ExpectedCommand, ran: Option<&CommandRun>) -> ExpectationOutcome {
    let difference = match ran {
        None => Some("it was not run".to_owned()),
        Some(ran) if ran.exit != Some(wanted.exit) => {
            let exit = ran.exit.map_or("killed".to_owned(), |code| format!("exit code {code}"));
            Some(format!("{exit}\n{}", ran.output))
        }
        Some(ran) => {
            let missing = wanted.output.iter().find(|text| !text.is_in(&ran.output));
            missing.map(|text| format!("its output is without {text}:\n{}", ran.output))
        }
    };
    ExpectationOutcome::new(format!("`{}` ends with {}", wanted.run, wanted.exit), difference)
}

fn judge_branches(wanted: &BranchExpect, found: &[String]) -> ExpectationOutcome {
    let named = |text: &TextMatch, branch: &str| match text {
        TextMatch::Contains(name) => name == branch,
        TextMatch::Matches(_) => text.is_in(branch),
    };
    let listed = |list: &[TextMatch], branch: &str| list.iter().any(|text| named(text, branch));
    let stray = found.iter().find(|b| !wanted.only.is_empty() && !listed(&wanted.only, b));
    let forbidden = found.iter().find(|b| listed(&wanted.absent, b));
    let miscounted = wanted.count.is_some_and(|count| count != found.len());
    let differs = stray.is_some() || forbidden.is_some() || miscounted;
    ExpectationOutcome::new("branches", differs.then(|| format!("found {found:?}")))
}

fn judge_cost(
    wanted: &CostExpect,
    threads: &[Value],
    account: &ProviderAccount,
) -> Vec<ExpectationOutcome> {
    let amount = |value: &Value, pointer: &str| {
        let text = value.pointer(pointer).and_then(Value::as_str);
        text.and_then(|t| t.parse::<NanoUsd>().ok()).unwrap_or_default()
    };
    let recorded: NanoUsd = threads.iter().map(|t| amount(t, "/status/cost")).sum();
    let mut outcomes = vec![
        judge_exact("cost on the Thread", wanted.total, recorded),
        judge_exact("cost billed by the provider", wanted.total, account.bill.total()),
    ];
    for (role, wanted) in &wanted.roles {
        let pointer = format!("/status/roles/{role}/usage/cost");
        let recorded = threads.iter().map(|t| amount(t, &pointer)).sum();
        let billed = account.bill.roles.get(role).map(|r| r.cost).unwrap_or_default();
        outcomes.push(judge_exact(&format!("cost of {role} on the Thread"), *wanted, recorded));
        outcomes.push(judge_exact(&format!("cost of {role} billed"), *wanted, billed));
    }
    if !wanted.roles.is_empty() {
        let costly = account.bill.roles.iter().filter(|(_, bill)| bill.cost > NanoUsd::ZERO);
        let others: Vec<&String> =
            costly.map(|(role, _)| role).filter(|r| !wanted.roles.contains_key(*r)).collect();
        let difference = (!others.is_empty()).then(|| format!("found {others:?}"));
        outcomes.push(ExpectationOutcome::new("no other role cost anything", difference));
    }
    let repeats: u64 = account.bill.roles.values().map(|r| r.repeats).sum();
    outcomes.push(judge_count("answers paid for twice", wanted.repeats, repeats));
    outcomes
}

fn judge_exact(what: &str, wanted: NanoUsd, found: NanoUsd) -> ExpectationOutcome {
    let difference = (wanted != found).then(|| format!("found {found}"));
    ExpectationOutcome::new(format!("{what}: {wanted} USD"), difference)
}
