//! Everyday commands and dangerous ones, by the hundred. `⏎` in a list is a new line.

use super::super::CommandPolicy;

const EIGHTY: &str = include_str!("corpus/eighty.txt");
const RUNS: &str = include_str!("corpus/runs.txt");
const ASKS: &str = include_str!("corpus/asks.txt");

fn listed_commands(list: &str) -> impl Iterator<Item = String> + '_ {
    let lines = list.lines().filter(|line| !line.starts_with("# "));
    lines.map(|line| line.replace('⏎', "\n"))
}

fn wrong_verdicts(list: &str, asks: bool) -> Vec<String> {
    let policy = CommandPolicy::default();
    let judged = listed_commands(list).map(|command| (policy.bash(&command), command));
    let wrong = judged.filter(|(verdict, _)| verdict.asks() != asks);
    wrong.map(|(verdict, command)| format!("{command}: {verdict:?}")).collect()
}

#[test]
fn of_the_commands_of_a_day_none_asks() {
    assert_eq!(listed_commands(EIGHTY).count(), 80);
    let wrong = wrong_verdicts(EIGHTY, false);
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn what_stays_in_the_sandbox_does_not_ask() {
    assert!(listed_commands(RUNS).count() >= 150);
    let wrong = wrong_verdicts(RUNS, false);
    assert!(wrong.is_empty(), "{} of {}: {wrong:#?}", wrong.len(), listed_commands(RUNS).count());
}

#[test]
fn what_leaves_it_or_can_not_be_undone_asks() {
    assert!(listed_commands(ASKS).count() >= 60);
    let wrong = wrong_verdicts(ASKS, true);
    assert!(wrong.is_empty(), "{} of {}: {wrong:#?}", wrong.len(), listed_commands(ASKS).count());
}
