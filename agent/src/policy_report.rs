//! `policy`: prints how a policy judges each command, for people who write a policy.json.

use std::io::{BufRead as _, Read as _, Write};
use std::path::Path;
use std::process::ExitCode;

use serde::{Deserialize, Serialize};

use crate::args::PolicyArgs;
use codebutler_guides::policy::rules::{RiskRules, RiskRulesError};
use codebutler_guides::policy::{CommandPolicy, RiskVerdict};

/// Verdict on one command, as it is printed.
#[derive(Debug, Serialize)]
pub(crate) struct CommandVerdict<'a> {
    command: &'a str,
    tier: codebutler_wire::RiskTier,
    asks: bool,
    /// True if a snapshot is taken before the command runs.
    snapshot: bool,
    why: &'a str,
}

/// A command of a list that is written as JSON.
#[derive(Deserialize)]
#[serde(untagged)]
enum ListedCommand {
    Command(String),
    Named { command: String },
}

/// Commands can't be judged.
#[derive(Debug, thiserror::Error)]
enum PolicyPrintError {
    #[error("{path} can't be read: {error}")]
    File { path: String, error: std::io::Error },
    #[error("{path}: {error}")]
    Rules { path: String, error: RiskRulesError },
    #[error("the list on stdin can't be read: {0}")]
    Stdin(std::io::Error),
    #[error("line {0} of the list is not UTF-8")]
    NotUtf8(usize),
    #[error("line {0} of the list begins like JSON and is neither a string nor {{\"command\": …}}")]
    NoCommand(usize),
    #[error("{0}")]
    Print(std::io::Error),
}

impl PolicyPrintError {
    fn unread(path: &Path, error: std::io::Error) -> Self {
        Self::File { path: path.display().to_string(), error }
    }
}

/// Prints a line for each command. 0: all were judged; 2: there is nothing to judge, or nothing to judge
/// it by.
pub(crate) fn run_policy(
    args: &PolicyArgs,
    out: &mut impl Write,
    errors: &mut impl Write,
) -> ExitCode {
    let judged = read_policy(args.policy.as_deref()).and_then(|policy| {
        let commands = read_commands(args)?;
        for command in &commands {
            print_verdict(command, &policy.bash(command), args.json, out)
                .map_err(PolicyPrintError::Print)?;
        }
        Ok(())
    });
    match judged {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            let _ = writeln!(errors, "error: {why}");
            ExitCode::from(2)
        }
    }
}

fn read_policy(file: Option<&Path>) -> Result<CommandPolicy, PolicyPrintError> {
    let Some(file) = file else { return Ok(CommandPolicy::default()) };
    let text =
        std::fs::read_to_string(file).map_err(|error| PolicyPrintError::unread(file, error))?;
    let rules = RiskRules::parse(&text)
        .map_err(|error| PolicyPrintError::Rules { path: file.display().to_string(), error })?;
    Ok(CommandPolicy { rules, ..CommandPolicy::default() })
}

fn read_commands(args: &PolicyArgs) -> Result<Vec<String>, PolicyPrintError> {
    let Some(file) = &args.file else { return Ok(args.command.iter().cloned().collect()) };
    let text = if file.as_os_str() == "-" {
        let mut text = Vec::new();
        let read = std::io::stdin().lock().read_to_end(&mut text);
        read.map_err(PolicyPrintError::Stdin)?;
        text
    } else {
        std::fs::read(file).map_err(|error| PolicyPrintError::unread(file, error))?
    };
    let mut out = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let line = line.map_err(|_| PolicyPrintError::NotUtf8(at + 1))?;
        let line = line.trim_end_matches('\r');
        if line.trim().is_empty() {
            continue;
        }
        out.push(one_line(line).ok_or(PolicyPrintError::NoCommand(at + 1))?);
    }
    Ok(out)
}

/// A line of a list: a JSON string or object, or the command itself.
fn one_line(line: &str) -> Option<String> {
    match serde_json::from_str::<ListedCommand>(line) {
        Ok(ListedCommand::Command(command) | ListedCommand::Named { command }) => Some(command),
        Err(_) if line.starts_with("{\"") => None,
        Err(_) => Some(line.to_owned()),
    }
}

fn print_verdict(
    command: &str,
    verdict: &RiskVerdict,
    json: bool,
    out: &mut impl Write,
) -> std::io::Result<()> {
    let printed = CommandVerdict {
        command,
        tier: verdict.tier,
        asks: verdict.asks(),
        snapshot: verdict.loses || verdict.overwrites,
        why: &verdict.why,
    };
    if json {
        let line = serde_json::to_string(&printed).map_err(std::io::Error::other)?;
        return writeln!(out, "{line}");
    }
    let first = match (printed.asks, printed.snapshot) {
        (true, _) => "asks",
        (false, true) => "runs, after a snapshot",
        (false, false) => "runs",
    };
    writeln!(out, "{first} ({:?}): {command}\n  {}", printed.tier, printed.why)
}
