//! Sums and averages over many results.

use std::fmt::Write as _;

use codebutler_crds::NanoUsd;
use serde::Serialize;

use super::results::{TrialCell, TrialVerdict};
use super::scan::ScanKind;
use super::traces::TeamHabits;
use crate::bench_args::wishes::WishFate;

/// Standard normal deviate of a two-sided 95 % interval.
const Z: f64 = 1.959_964;

/// Wilson's interval for a share, at 95 %: honest where there are few trials or all go one way.
#[must_use]
#[allow(clippy::cast_precision_loss, reason = "trials are counted in hundreds")]
pub(super) fn wilson_interval(solved: usize, trials: usize) -> (f64, f64) {
    if trials == 0 {
        return (0.0, 1.0);
    }
    let (n, share) = (trials as f64, solved as f64 / trials as f64);
    let z2 = Z * Z;
    let middle = (share + z2 / (2.0 * n)) / (1.0 + z2 / n);
    let spread = Z / (1.0 + z2 / n) * (share * (1.0 - share) / n + z2 / (4.0 * n * n)).sqrt();
    ((middle - spread).max(0.0), (middle + spread).min(1.0))
}

/// The aggregated results of a model.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ModelFigures {
    /// Kind of the record, always `summary`.
    pub record: &'static str,
    /// Id of the model, or the name that stands for it.
    pub model: String,
    /// Results that count: solved or not.
    pub trials: usize,
    /// Number of trials that were solved.
    pub solved: usize,
    /// Share of solved trials in those that count.
    pub share: f64,
    /// Lower end of the share's interval (Wilson, 95 %).
    pub low: f64,
    /// Upper end of the same interval.
    pub high: f64,
    /// USD for everything, failures too.
    pub dollars: NanoUsd,
    /// USD for everything by what was solved; absent if nothing was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dollars_per_solve: Option<NanoUsd>,
    /// Seconds a trial, on average.
    pub seconds: f64,
    /// Model calls a trial, on average.
    pub turns: f64,
    /// Messages that the person had to write, on average: 1 is the issue itself.
    pub messages: f64,
    /// Share of tool calls that were wrong in themselves.
    pub tool_error_share: f64,
    /// Tool calls that were wrong in themselves.
    pub wrong_calls: u64,
    /// Counts of mistakes on the way and of messages, in all trials together.
    #[serde(flatten)]
    pub habits: TeamHabits,
    /// Trials in which a role did what a forged voice asked for.
    pub fooled: usize,
    /// Trials in which the person had a wish in the middle of the work.
    pub wishes: usize,
    /// Those in which a plan or a message names it.
    pub heard: usize,
    /// Trials in which a rule was said first.
    pub rules: usize,
    /// Those whose change keeps it.
    pub rules_kept: usize,
    /// Trials whose scan found cheating.
    pub cheated: usize,
    /// Results that don't count, because of the machine or a registry.
    pub skipped: usize,
    /// Results that don't count, because the bench itself broke.
    pub failed: usize,
}

impl ModelFigures {
    /// Aggregates the results of a model.
    #[must_use]
    #[allow(clippy::cast_precision_loss, reason = "counts are small")]
    pub(super) fn of(model: &str, cells: &[&TrialCell]) -> Self {
        let counted: Vec<&&TrialCell> = cells.iter().filter(|cell| cell.verdict.counts()).collect();
        let (trials, of) =
            (counted.len(), |verdict| cells.iter().filter(|c| c.verdict == verdict).count());
        let solved = of(TrialVerdict::Solved);
        let (low, high) = wilson_interval(solved, trials);
        let dollars: NanoUsd = cells.iter().map(|cell| cell.dollars).sum();
        let mean = |figure: &dyn Fn(&TrialCell) -> f64| {
            counted.iter().map(|cell| figure(cell)).sum::<f64>() / trials.max(1) as f64
        };
        let called: u64 = counted.iter().map(|cell| cell.tool_calls).sum();
        let errors: u64 = counted.iter().map(|cell| cell.tool_errors).sum();
        Self {
            record: "summary",
            model: model.to_owned(),
            trials,
            solved,
            share: solved as f64 / trials.max(1) as f64,
            low,
            high,
            dollars,
            dollars_per_solve: (dollars.0).checked_div(solved as u64).map(NanoUsd),
            seconds: mean(&|cell| cell.seconds),
            turns: mean(&|cell| cell.turns as f64),
            messages: mean(&|cell| f64::from(cell.human.messages)),
            tool_error_share: errors as f64 / called.max(1) as f64,
            wrong_calls: errors,
            habits: add_habits(&counted),
            fooled: counted.iter().filter(|cell| is_fooled(cell)).count(),
            wishes: counted.iter().filter(|cell| cell.wish.is_some()).count(),
            heard: counted.iter().filter(|cell| cell.wish.is_some_and(WishFate::is_heard)).count(),
            rules: counted.iter().filter(|cell| cell.rule_kept.is_some()).count(),
            rules_kept: counted.iter().filter(|cell| cell.rule_kept == Some(true)).count(),
            cheated: of(TrialVerdict::Cheated),
            skipped: of(TrialVerdict::Skipped),
            failed: of(TrialVerdict::Failed),
        }
    }
}

fn is_fooled(cell: &TrialCell) -> bool {
    cell.findings.iter().any(|finding| finding.kind == ScanKind::ForgedVoice)
}

fn add_habits(cells: &[&&TrialCell]) -> TeamHabits {
    cells.iter().map(|cell| cell.habits).fold(TeamHabits::default(), |sum, one| TeamHabits {
        edits: sum.edits + one.edits,
        edits_failed: sum.edits_failed + one.edits_failed,
        refusals: sum.refusals + one.refusals,
        corrections: sum.corrections + one.corrections,
        said: sum.said + one.said,
        compactions: sum.compactions + one.compactions,
    })
}

/// A table of mistakes on the way, of all models, for people.
#[must_use]
pub(super) fn habits_table(all: &[ModelFigures]) -> String {
    let mut text = format!(
        "{:<34} {:>12} {:>12} {:>10} {:>12} {:>9} {:>10} {:>8} {:>7} {:>7}",
        "model",
        "failed edits",
        "wrong calls",
        "refusals",
        "corrections",
        "messages",
        "summed up",
        "fooled",
        "heard",
        "kept"
    );
    let part = |count: usize, of: usize| match of {
        0 => "-".to_owned(),
        of => format!("{count}/{of}"),
    };
    for figures in all {
        let habits = &figures.habits;
        let _ = write!(
            text,
            "\n{:<34} {:>12} {:>12} {:>10} {:>12} {:>9} {:>10} {:>8} {:>7} {:>7}",
            figures.model,
            format!("{}/{}", habits.edits_failed, habits.edits),
            figures.wrong_calls,
            habits.refusals,
            habits.corrections,
            habits.said,
            habits.compactions,
            figures.fooled,
            part(figures.heard, figures.wishes),
            part(figures.rules_kept, figures.rules),
        );
    }
    text
}

/// A table of all models, for people.
#[must_use]
pub(super) fn models_table(all: &[ModelFigures]) -> String {
    let mut text = format!(
        "{:<34} {:>9} {:>6} {:>13} {:>10} {:>8} {:>6} {:>9} {:>6}",
        "model", "solved", "share", "95 %", "USD", "USD/fix", "min", "messages", "turns"
    );
    for figures in all {
        let per = figures.dollars_per_solve.map_or_else(|| "-".to_owned(), format_cents);
        let _ = write!(
            text,
            "\n{:<34} {:>9} {:>5.0}% {:>13} {:>10} {:>8} {:>6.1} {:>9.1} {:>6.1}",
            figures.model,
            format!("{}/{}", figures.solved, figures.trials),
            figures.share * 100.0,
            format!("{:.0}% to {:.0}%", figures.low * 100.0, figures.high * 100.0),
            format_cents(figures.dollars),
            per,
            figures.seconds / 60.0,
            figures.messages,
            figures.turns,
        );
        for (count, what) in [
            (figures.cheated, "cheated (not solved; see the findings)"),
            (figures.skipped, "skipped (not counted)"),
            (figures.failed, "failed in the bench itself (not counted)"),
        ] {
            if count > 0 {
                let _ = write!(text, "\n{:<34} {count} {what}", "");
            }
        }
    }
    text
}

/// USD with four digits after the point.
#[must_use]
pub(super) fn format_cents(usd: NanoUsd) -> String {
    format!("{:.4}", usd.as_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_wilson_s() {
        for (solved, trials, low, high) in [
            (0, 0, 0.0, 1.0),
            (0, 10, 0.0, 0.2775),
            (10, 10, 0.7225, 1.0),
            (5, 10, 0.2366, 0.7634),
            (370, 500, 0.6998, 0.7766),
        ] {
            let found = wilson_interval(solved, trials);
            assert!(
                (found.0 - low).abs() < 1e-3 && (found.1 - high).abs() < 1e-3,
                "{solved}/{trials}: {found:?}"
            );
        }
    }

    #[test]
    fn what_does_not_count_is_not_in_the_share_but_in_the_price() {
        let cell = |verdict, usd: u64| TrialCell {
            verdict,
            dollars: NanoUsd(usd),
            ..TrialCell::default()
        };
        let cells = [
            cell(TrialVerdict::Solved, 30),
            cell(TrialVerdict::Unsolved, 10),
            cell(TrialVerdict::Cheated, 10),
            cell(TrialVerdict::Skipped, 0),
            cell(TrialVerdict::Failed, 5),
        ];
        let figures = ModelFigures::of("m", &cells.iter().collect::<Vec<_>>());
        assert_eq!((figures.solved, figures.trials), (1, 3));
        assert_eq!((figures.cheated, figures.skipped, figures.failed), (1, 1, 1));
        assert_eq!(figures.dollars, NanoUsd(55));
        assert_eq!(figures.dollars_per_solve, Some(NanoUsd(55)));
        assert_eq!((figures.wishes, figures.rules), (0, 0));
        let none = ModelFigures::of("m", &[]);
        assert_eq!(none.dollars_per_solve, None);
        assert!(models_table(&[figures, none]).contains("1/3"));
    }

    #[test]
    fn wishes_that_were_heard_and_rules_that_were_kept_are_counted() {
        let cell = |wish, rule_kept| TrialCell { wish, rule_kept, ..TrialCell::default() };
        let cells = [
            cell(Some(WishFate::Planned), Some(true)),
            cell(Some(WishFate::Named), Some(false)),
            cell(Some(WishFate::Silent), Some(true)),
            cell(Some(WishFate::Lost), None),
            cell(None, None),
        ];
        let figures = ModelFigures::of("m", &cells.iter().collect::<Vec<_>>());
        assert_eq!((figures.heard, figures.wishes), (2, 4));
        assert_eq!((figures.rules_kept, figures.rules), (2, 3));
        let none = ModelFigures::of("n", &[]);
        let table = habits_table(&[figures, none]);
        let rows: Vec<Vec<&str>> =
            table.lines().skip(1).map(|row| row.split_whitespace().collect()).collect();
        assert!(rows[0].ends_with(&["2/4", "2/3"]) && rows[1].ends_with(&["-", "-"]), "{table}");
    }
}
