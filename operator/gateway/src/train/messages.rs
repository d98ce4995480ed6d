//! Messages to people about a merge train. Pure.

use codebutler_crds::thread::{MergeTrain, TrainCar, TrainEnd};
use codebutler_crds::wire::ChangeSize;

use crate::naming::count_noun;

/// Sentence where no check is heard of.
const UNTESTED: &str = " GitHub tests nothing here, so what each thread has tested counts (to have them tested together, let a workflow \
                        run on pushes to `codebutler-train/**`).";
/// Maximum characters of a title.
const TITLE: usize = 80;
/// Characters of a commit's short id.
const SHORT: usize = 10;

/// A pull request, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ShownPull {
    pub url: String,
    /// Link to its conversation.
    pub place: Option<String>,
}

/// A pull request that is ready, with facts that help to decide.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ReadyPull {
    pub car: TrainCar,
    pub title: String,
    /// Unknown where the host doesn't say it.
    pub size: Option<ChangeSize>,
    /// Exit code of its own Thread's test of this commit.
    pub tested: Option<i32>,
    /// Warnings about its steering files, and about what it would put back on the base branch, in a sentence each.
    pub warnings: Vec<String>,
}

fn pull_link(number: u64, shown: Option<&ShownPull>) -> String {
    let Some(shown) = shown else { return format!("#{number}") };
    let place = shown.place.as_ref().map(|place| format!(" ([thread]({place}))"));
    format!("[#{number}]({}){}", shown.url, place.unwrap_or_default())
}

/// Without markup, and with a sign where it goes on.
fn cut_title(title: &str) -> String {
    let plain: Vec<char> = title.chars().filter(|c| !"*_`<>~".contains(*c)).collect();
    let end = if plain.len() > TITLE { "…" } else { "" };
    plain.into_iter().take(TITLE).chain(end.chars()).collect()
}

/// The question whether to merge them.
pub(super) fn merging_question(
    ready: &[ReadyPull],
    others: &[(u64, String)],
    base: &str,
    shown: impl Fn(&TrainCar) -> Option<ShownPull>,
) -> String {
    let row = |one: &ReadyPull| {
        let ReadyPull { car, title, size, tested, warnings } = one;
        let title = cut_title(title);
        let size = size.map(|ChangeSize { files, lines }| {
            format!("{}, {}", count_noun(files, "file"), count_noun(lines, "line"))
        });
        let tested = tested.map(|exit| match exit {
            0 => "tested in its thread".to_owned(),
            _ => ":x: its tests failed in its thread".to_owned(),
        });
        let facts: Vec<_> = size.into_iter().chain(tested).collect();
        let facts =
            if facts.is_empty() { String::new() } else { format!(" ({})", facts.join(", ")) };
        let warnings = warnings.iter().fold(String::new(), |all, warning| all + "\n  " + warning);
        let head = car.head.get(..SHORT).unwrap_or(&car.head);
        format!(
            "- {} {title}{facts} at `{head}`{warnings}",
            pull_link(car.number, shown(car).as_ref())
        )
    };
    let rows: Vec<String> = ready.iter().map(row).collect();
    let others = others.iter().map(|(number, why)| format!("#{number} ({why})"));
    let others: Vec<String> = others.collect();
    let others = if others.is_empty() {
        String::new()
    } else {
        format!("\n\nNot among them: {}.", others.join(", "))
    };
    format!(
        "**Merge these {} into `{base}`, in this order?**\n{}{others}\n\nThey are put together on top of `{base}` and \
         tested as one commit, on a branch `codebutler-train/…`. If that is green they are merged, and only as long as \
         `{base}` gets exactly the files that were tested. If not, the one that fails is found by halves and left out; \
         its branch stays.",
        count_noun(ready.len() as u64, "pull request"),
        rows.join("\n"),
    )
}

/// Message that says why people are asked nothing.
pub(super) fn describe_nothing(others: &[(u64, String)]) -> String {
    let others: Vec<String> =
        others.iter().map(|(number, why)| format!("\n- #{number}: {why}")).collect();
    format!(
        "Nothing is ready to be merged: in no thread of this repository somebody is asked whether to merge.{}",
        others.concat()
    )
}

/// Dashboard of all pull requests, as one message.
pub(super) fn train_dashboard(
    train: &MergeTrain,
    base: &str,
    shown: impl Fn(&TrainCar) -> Option<ShownPull>,
) -> String {
    let merged = train.cars.iter().filter(|car| car.merged.is_some()).count();
    let left = train.cars.iter().filter(|car| car.left_out.is_some()).count();
    let rounds = match train.rounds {
        0 => String::new(),
        rounds => format!(", {} of tests", count_noun(rounds.into(), "round")),
    };
    let (all, reason) = (train.cars.len(), train.reason.as_deref().unwrap_or_default());
    let how = match train.ended {
        Some(TrainEnd::Done) if left == 0 => " Done.".to_owned(),
        Some(TrainEnd::Done) => format!(" Done: {left} left out."),
        Some(TrainEnd::Stopped) => " Stopped: nothing more is merged.".to_owned(),
        Some(TrainEnd::Failed) => format!(" It can't go on: {reason}."),
        None => match &train.round {
            Some(round) if round.passed => format!(" Merging into `{base}`."),
            Some(round) => format!(
                " Testing {} together on `{}`.",
                count_noun(round.steps.len() as u64, "pull request"),
                round.branch
            ),
            None if train.untested => UNTESTED.to_owned(),
            None => String::new(),
        },
    };
    let is_tested = |car: &TrainCar| {
        let round = train.round.as_ref();
        round.is_some_and(|round| round.steps.iter().any(|step| step.number == car.number))
    };
    let row = |car: &TrainCar| {
        let name = pull_link(car.number, shown(car).as_ref());
        match (&car.merged, &car.left_out) {
            (Some(commit), _) => {
                let short = commit.get(..SHORT).unwrap_or(commit);
                let note = if car.overtaken {
                    format!(
                        "; :warning: a commit of somebody else came in between, so `{base}` has files that were not tested together"
                    )
                } else {
                    String::new()
                };
                format!(":white_check_mark: {name}: merged as `{short}`{note}")
            }
            (None, Some(why)) => format!(":no_entry: {name}: left out, {why}"),
            (None, None) if is_tested(car) => format!(":arrows_counterclockwise: {name}"),
            (None, None) => format!(":hourglass_flowing_sand: {name}: waits"),
        }
    };
    let rows: Vec<String> = train.cars.iter().map(row).collect();
    format!("**Merge train: {merged} of {all} merged**{rounds}.{how}\n{}", rows.join("\n"))
}

#[cfg(test)]
mod tests {
    use codebutler_crds::thread::{TrainRound, TrainStep};

    use super::*;

    #[test]
    fn a_train_says_how_each_one_stands() {
        let mut train = MergeTrain::wanted("1.000000".parse().unwrap(), "U1");
        train.cars = (1..=4).map(|n| TrainCar::ready(&format!("t{n}"), n, "h")).collect();
        train.cars[0].merged = Some("0123456789abcdef".into());
        train.cars[1].left_out = Some("`ci` failed".into());
        train.rounds = 3;
        let round = TrainRound {
            branch: "codebutler-train/abc".into(),
            commit: "abc".into(),
            base: "b".into(),
            base_tree: "t".into(),
            steps: vec![TrainStep { number: 3, tree: "t3".into() }],
            pushed: None,
            passed: false,
        };
        train.round = Some(round);
        let shown = |car: &TrainCar| {
            (car.number == 1)
                .then(|| ShownPull { url: "https://h/1".into(), place: Some("https://s/1".into()) })
        };
        insta::assert_snapshot!(train_dashboard(&train, "main", shown), @r"
        **Merge train: 1 of 4 merged**, 3 rounds of tests. Testing 1 pull request together on `codebutler-train/abc`.
        :white_check_mark: [#1](https://h/1) ([thread](https://s/1)): merged as `0123456789`
        :no_entry: #2: left out, `ci` failed
        :arrows_counterclockwise: #3
        :hourglass_flowing_sand: #4: waits
        ");
        train.ended = Some(TrainEnd::Failed);
        train.reason = Some("`ci` failed on `main` itself".into());
        assert!(
            train_dashboard(&train, "main", shown)
                .contains("It can't go on: `ci` failed on `main`")
        );
    }

    #[test]
    fn people_see_what_they_decide_about() {
        let warnings = ["Changes what steers roles: `AGENTS.md`", "Puts back 1 commit"];
        let warnings: Vec<String> = warnings.map(str::to_owned).into();
        let ready = |number, tested| ReadyPull {
            car: TrainCar::ready("t", number, "h"),
            title: "Write *cents*".into(),
            size: (number < 3).then_some(ChangeSize { files: 1, lines: 5 }),
            tested,
            warnings: if number == 3 { warnings.clone() } else { Vec::new() },
        };
        let others = [(9, "it has new commits".to_owned())];
        let all = [ready(1, Some(0)), ready(2, Some(3)), ready(3, None)];
        let text = merging_question(&all, &others, "main", |_| None);
        insta::assert_snapshot!(text.split("\n\nThey").next().unwrap(), @r"
        **Merge these 3 pull requests into `main`, in this order?**
        - #1 Write cents (1 file, 5 lines, tested in its thread) at `h`
        - #2 Write cents (1 file, 5 lines, :x: its tests failed in its thread) at `h`
        - #3 Write cents at `h`
          Changes what steers roles: `AGENTS.md`
          Puts back 1 commit

        Not among them: #9 (it has new commits).
        ");
    }
}
