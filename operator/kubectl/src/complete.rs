//! Candidates for the next word of a command line, as kubectl asks `kubectl_complete-codebutler`: a line for each
//! with its description, and a last one with the directive for the shell.

use clap::Command;

use crate::{PluginError, PluginTerminal};

/// Directive for the shell: offer no files.
const NO_FILES: &str = ":4";

/// Prints the candidates for the last of `words`.
pub(crate) fn run_complete(
    command: &Command,
    words: &[String],
    terminal: &mut PluginTerminal<'_>,
) -> Result<(), PluginError> {
    let (begun, before) = words.split_last().map_or(("", &[][..]), |(last, rest)| (&**last, rest));
    for (word, about) in candidates(command, before, begun) {
        terminal.say(&format!("{word}\t{about}"))?;
    }
    terminal.say(NO_FILES)
}

fn candidates(command: &Command, before: &[String], begun: &str) -> Vec<(String, String)> {
    let mut at = command;
    for word in before {
        if let Some(next) = at.find_subcommand(word) {
            at = next;
        }
    }
    let about = |text: Option<&clap::builder::StyledStr>| {
        text.map(ToString::to_string)
            .unwrap_or_default()
            .lines()
            .next()
            .unwrap_or_default()
            .to_owned()
    };
    let commands = at
        .get_subcommands()
        .filter(|one| !one.is_hide_set())
        .map(|one| (one.get_name().to_owned(), about(one.get_about())));
    let own = at.get_arguments();
    let wide = command.get_arguments().filter(|one| one.is_global_set());
    let flags = own
        .chain(wide)
        .filter(|_| begun.starts_with('-'))
        .filter_map(|one| Some((format!("--{}", one.get_long()?), about(one.get_help()))));
    // Words of an argument without a name, such as shells.
    let values = at.get_positionals().flat_map(clap::Arg::get_possible_values);
    let values = values.map(|value| (value.get_name().to_owned(), about(value.get_help())));
    let mut found: Vec<_> =
        commands.chain(flags).chain(values).filter(|(word, _)| word.starts_with(begun)).collect();
    found.sort();
    found.dedup_by(|a, b| a.0 == b.0);
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::PluginArgs;
    use clap::CommandFactory as _;

    fn offered(line: &str) -> Vec<String> {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let (begun, before) = words.split_last().unwrap();
        let found = candidates(&PluginArgs::command(), before, begun);
        found.into_iter().map(|(word, _)| word).collect()
    }

    #[test]
    fn commands_flags_and_shells_are_offered_where_they_may_stand() {
        assert_eq!(offered("th"), ["threads"]);
        assert!(offered("").contains(&"doctor".to_owned()));
        assert!(!offered("").iter().any(|word| word.starts_with('_') || word.starts_with('-')));
        assert_eq!(offered("threads --al"), ["--all", "--all-namespaces"]);
        assert_eq!(offered("completions z"), ["zsh"]);
        assert!(offered("threads th").is_empty());
    }
}
