//! Things around a command that run something: variables set for it, and subscripts that a shell computes in names
//! of variables.

use super::super::RiskVerdict;
use super::super::shell::PlainCommand;
use super::CommandScene;
use super::runs::{file_run, judge_unseen};

/// Variables whose value is a command line.
const COMMANDS: [&str; 16] = [
    "PAGER",
    "MANPAGER",
    "GIT_PAGER",
    "GH_PAGER",
    "EDITOR",
    "VISUAL",
    "GIT_EDITOR",
    "GIT_SEQUENCE_EDITOR",
    "GIT_EXTERNAL_DIFF",
    "GIT_SSH_COMMAND",
    "GIT_SSH",
    "GIT_ASKPASS",
    "SSH_ASKPASS",
    "BROWSER",
    "PROMPT_COMMAND",
    "GIT_PROXY_COMMAND",
];
/// Variables that name a file which is run first.
const FILES: [&str; 4] = ["BASH_ENV", "ENV", "PYTHONSTARTUP", "ZDOTDIR"];
/// Builtins that compute what stands in the brackets of a name.
const COMPUTES: [&str; 11] = [
    "let", "printf", "test", "[", "read", "unset", "declare", "typeset", "local", "export",
    "mapfile",
];

/// Variables that are set for a command.
pub(super) fn judge_assignments<'a>(
    assigned: impl Iterator<Item = (&'a str, Option<&'a str>)>,
    scene: &CommandScene<'_>,
) -> Option<RiskVerdict> {
    assigned
        .filter_map(|(name, value)| judge_assignment(name, value, scene))
        .reduce(RiskVerdict::or)
}

fn judge_assignment(
    name: &str,
    value: Option<&str>,
    scene: &CommandScene<'_>,
) -> Option<RiskVerdict> {
    let unseen = || judge_unseen("a variable makes it run what is not known before", scene);
    if COMMANDS.contains(&name) || name.starts_with("GIT_CONFIG_VALUE_") {
        return Some(value.map_or_else(unseen, |line| scene.script(line.trim_start_matches('!'))));
    }
    if matches!(name, "LESSOPEN" | "LESSCLOSE") {
        return Some(
            value.map_or_else(unseen, |line| scene.script(line.trim_start_matches(['|', '-']))),
        );
    }
    if FILES.contains(&name) || name.ends_with("_ENV") && name.starts_with("BASH") {
        return Some(value.map_or_else(unseen, |file| file_run(file, &[], scene)));
    }
    let loads = match name {
        "LD_PRELOAD" | "LD_AUDIT" | "LD_LIBRARY_PATH" | "DYLD_INSERT_LIBRARIES" => true,
        "NODE_OPTIONS" | "PERL5OPT" | "RUBYOPT" | "JAVA_TOOL_OPTIONS" | "_JAVA_OPTIONS" => value
            .is_none_or(|value| {
                ["require", "import", "loader", "-r", "-M", "agent", "-e"]
                    .iter()
                    .any(|word| value.contains(word))
            }),
        _ => false,
    };
    loads.then(unseen)
}

/// `printf -v 'a[$(…)]'`: a shell runs what stands in the brackets.
pub(super) fn judge_subscripts(
    name: &str,
    simple: &PlainCommand,
    scene: &CommandScene<'_>,
) -> Option<RiskVerdict> {
    if !COMPUTES.contains(&name) {
        return None;
    }
    let shapes = simple.shapes.get(1..).unwrap_or_default();
    let computed = shapes.iter().enumerate().filter(|(at, word)| {
        let named = word.contains('[') && (word.contains("$(") || word.contains('`'));
        let before = at.checked_sub(1).and_then(|at| shapes.get(at)).map(String::as_str);
        named
            && match name {
                "printf" | "test" | "[" => before == Some("-v"),
                _ => true,
            }
    });
    computed
        .map(|(_, word)| scene.script(&format!(": \"{}\"", word.replace('"', "\\\""))))
        .reduce(RiskVerdict::or)
}
