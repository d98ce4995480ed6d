//! The fixed form in which a retrospective is shown.

use std::fmt::Write as _;

use codebutler_wire::NanoUsd;

use super::checks::ToldVerdict;
use super::{FrictionSeverity, GoodObservation, ProposeArgs, ProposedImprovement, ThreadFriction};
use crate::memory::{ChangeKind, ForeignSource, LearningChange, PruneSignal};
use crate::tools::ThreadFacts;
use crate::transcript::improvements::{ImprovementKind, SuggestedImprovement};
use codebutler_guides::text::clip_text;

/// Longest sentence of a point, in characters.
const MAX_POINT: usize = 300;
/// Entries that should go, as they are listed.
const MAX_STALE: usize = 30;
/// Where a section has nothing.
const NO_POINT: &str = "None worth a line.";
const WENT_WELL: &str = "Went well";

/// Place at which the whole of a retrospective is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum JournalPlace {
    /// On the branch, at this path below `.codebutler/`.
    Page(String),
    /// Not on the branch, for this reason.
    Missing(String),
    /// This team keeps no journal.
    Nowhere,
}

const fn severity_word(severity: FrictionSeverity) -> &'static str {
    match severity {
        FrictionSeverity::Low => "low",
        FrictionSeverity::Medium => "medium",
        FrictionSeverity::High => "high",
    }
}

/// As the journal keeps it: with the exact cost of each role. The cost is the ledger's, no model writes it.
pub(super) fn show_retrospective(args: &ProposeArgs, thread: &ThreadFacts) -> String {
    let mut out = String::from("**Retrospective**\n");
    for (title, points) in list_points(args) {
        let _ = writeln!(out, "\n**{title}**");
        for (n, point) in points.iter().enumerate() {
            let _ = writeln!(out, "{}. {point}", n + 1);
        }
        if points.is_empty() {
            let _ = writeln!(out, "{NO_POINT}");
        }
    }
    for improvement in list_improvements(args) {
        let _ = writeln!(out, "\n{}", improvement.text);
    }
    let roles: Vec<_> = thread
        .usage
        .iter()
        .filter(|(_, usage)| usage.calls > 0)
        .map(|(role, usage)| format!("{role} ${} in {} calls", usage.cost, usage.calls))
        .collect();
    let _ = write!(out, "\n**Cost so far** ${}: {}", total_cost(thread), roles.join(", "));
    if let Some(limit) = thread.look_back.limit {
        let cost = thread.look_back.cost;
        let _ = write!(out, "\n**Retrospective** ${cost} of at most ${limit}");
    }
    out
}

/// As people read it on a phone: a section of one point is a line. What went well and what it has cost, by which nobody decides,
/// is in the journal; here only where there is none.
pub(super) fn show_summary(
    args: &ProposeArgs,
    thread: &ThreadFacts,
    journal: &JournalPlace,
) -> String {
    let mut out = String::from("**Retrospective**");
    let is_kept = matches!(journal, JournalPlace::Page(_));
    let _ = match journal {
        JournalPlace::Page(page) => write!(out, " · **Journal** `.codebutler/{page}`"),
        JournalPlace::Missing(why) => {
            write!(out, " · **Journal** not on the branch: {}", clip_text(why, 300))
        }
        JournalPlace::Nowhere => Ok(()),
    };
    let sections = list_points(args).into_iter();
    for (title, points) in sections.filter(|(title, _)| !is_kept || *title != WENT_WELL) {
        let _ = write!(out, "\n**{title}**");
        match &points[..] {
            [] => {
                let _ = write!(out, " {NO_POINT}");
            }
            [point] => {
                let _ = write!(out, " {point}");
            }
            points => {
                for (n, point) in points.iter().enumerate() {
                    let _ = write!(out, "\n{}. {point}", n + 1);
                }
            }
        }
    }
    if is_kept {
        return out;
    }
    let _ = write!(out, "\n**Cost so far** {}", total_cost(thread).in_cents());
    if thread.look_back.limit.is_some() {
        let _ = write!(out, ", {} of it for this", thread.look_back.cost.in_cents());
    }
    out
}

/// Sections and what stands in them; without tips there is no section of them.
fn list_points(args: &ProposeArgs) -> Vec<(&'static str, Vec<String>)> {
    let good = args.went_well.iter();
    let good = good.map(|GoodObservation { what, evidence }| {
        format!("{} ({})", one_point(what), one_point(evidence))
    });
    let frictions = args.frictions.iter();
    let frictions = frictions.map(|ThreadFriction { what, cause, evidence, severity }| {
        let (severity, evidence) = (severity_word(*severity), one_point(evidence));
        format!("[{severity}] {} Cause: {} ({evidence})", one_sentence(what), one_sentence(cause))
    });
    let tips: Vec<_> = args.tips.iter().map(|tip| one_sentence(tip)).collect();
    let mut all = vec![(WENT_WELL, good.collect()), ("Friction", frictions.collect())];
    if !tips.is_empty() {
        all.push(("For the next request", tips));
    }
    all
}

fn total_cost(thread: &ThreadFacts) -> NanoUsd {
    thread.usage.iter().map(|(_, usage)| usage.cost).sum()
}

/// All that a retrospective would do otherwise, as people see it.
pub(super) fn list_improvements(args: &ProposeArgs) -> Vec<SuggestedImprovement> {
    let all = [
        (ImprovementKind::Process, &args.process_change),
        (ImprovementKind::Prompt, &args.prompt_change),
        (ImprovementKind::Skill, &args.skill),
        (ImprovementKind::Guardrail, &args.guardrail),
    ];
    let shown = all.into_iter().filter_map(|(kind, improvement)| {
        let text = show_improvement(kind, improvement.as_ref()?);
        Some(SuggestedImprovement { kind, text })
    });
    shown.collect()
}

/// Something to do otherwise, in one line.
fn show_improvement(kind: ImprovementKind, improvement: &ProposedImprovement) -> String {
    let ProposedImprovement { what, effect, place, severity } = improvement;
    format!(
        "**{}** [{}] {} Expected: {} (`{}`)",
        kind.title(),
        severity_word(*severity),
        one_sentence(what),
        one_sentence(effect),
        clip_text(place.trim(), 120).replace('`', "'")
    )
}

/// What became of entries of the memory; nothing where none is judged.
pub(super) fn show_marks(told: &[ToldVerdict]) -> String {
    let mut out = String::new();
    for (title, misled) in [("Helped", false), ("Misled", true)] {
        let of: Vec<_> = told
            .iter()
            .filter(|one| one.misled == misled)
            .map(|one| format!("“{}” ({})", one_point(&one.claim), one_point(&one.why)))
            .collect();
        if !of.is_empty() {
            let _ = write!(out, "\n**{title}** {}", of.join(", "));
        }
    }
    out
}

/// What of the memory should go, for the model.
pub(super) fn show_stale(stale: &[PruneSignal]) -> String {
    if stale.is_empty() {
        return String::new();
    }
    let mut out = String::from("## Memory\nEntries to archive, or to say anew:\n");
    for PruneSignal { file, id, claim, why } in stale.iter().take(MAX_STALE) {
        let id = if id.is_empty() { String::new() } else { format!(" `{id}`") };
        let _ = writeln!(out, "- `{file}`{id} “{}”: {why}", one_point(claim));
    }
    if stale.len() > MAX_STALE {
        let _ = writeln!(out, "- and {} more", stale.len() - MAX_STALE);
    }
    out
}

/// One proposal, as people judge it: the lines that go and come.
pub(super) fn show_change(
    change: &LearningChange,
    page: Option<&str>,
    source: Option<ForeignSource>,
) -> String {
    let LearningChange { file, kind, learning, reason, .. } = change;
    let verb = match kind {
        ChangeKind::Add => "Add to",
        ChangeKind::Replace => "Change in",
        ChangeKind::Archive => "Archive in",
        ChangeKind::Map => "Project map in",
        ChangeKind::Item => "Item in",
        ChangeKind::Workflow => "Workflow in",
        ChangeKind::File => "All of",
    };
    let warning = match source {
        Some(source) => format!(" :warning: {}", source.warning()),
        None if learning.untrusted => {
            " :warning: It comes from text that was not written by the team.".to_owned()
        }
        None => String::new(),
    };
    let diff = show_lines(change, page).replace("```", "'''");
    // Where not all of it is shown, what comes is more than what goes.
    let diff = if exceeds_card(&diff) { put_added_first(&diff) } else { diff };
    format!(
        "**{verb} `{file}`: {}** {}{warning}\n```\n{}\n```",
        learning.claim.replace('*', ""),
        one_sentence(reason),
        clip_text(&diff, MAX_CARD)
    )
}

/// The lines that go and come. Those of a new entry that people know are left out: its heading, if the claim above shows it as it is,
/// and the link to this thread.
fn show_lines(change: &LearningChange, page: Option<&str>) -> String {
    let diff = change.show_diff(page);
    if change.kind != ChangeKind::Add {
        return diff;
    }
    let is_plain = is_shown_as_written(&change.learning.claim);
    let is_known =
        |line: &&str| (is_plain && line.starts_with("+ ### ")) || line.starts_with("+ - Source: ");
    diff.lines().filter(|line| !is_known(line)).collect::<Vec<_>>().join("\n")
}

/// True for one line in which nothing is markup or a link.
fn is_shown_as_written(claim: &str) -> bool {
    let is_markup = |c: char| c.is_control() || "*_~`[]<>&\\|#".contains(c);
    !claim.contains(is_markup) && !claim.contains("://")
}

/// Characters of a change that stand beside its buttons.
const MAX_CARD: usize = 1_400;

/// Whether people see only a part of a change where they judge it: all of it is posted before.
pub(super) fn exceeds_card(diff: &str) -> bool {
    diff.chars().count() > MAX_CARD
}

fn put_added_first(diff: &str) -> String {
    let is_gone = |line: &&str| line.starts_with('-');
    let (gone, rest): (Vec<&str>, Vec<&str>) = diff.lines().partition(is_gone);
    rest.into_iter().chain(gone).collect::<Vec<_>>().join("\n")
}

fn one_point(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    clip_text(text.trim_end_matches('.'), MAX_POINT)
}

fn one_sentence(text: &str) -> String {
    format!("{}.", one_point(text))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::memory::LearningEntry;

    fn retrospective() -> ProposeArgs {
        let point = |what: &str| json!({"what": what, "evidence": "a.rs:1"});
        let mut friction = point("It was a float");
        friction["cause"] = json!("nobody had said so");
        friction["severity"] = json!("medium");
        serde_json::from_value(json!({"wentWell": [point("Found")], "frictions": [friction]}))
            .unwrap()
    }

    #[test]
    fn people_read_what_they_decide_by_and_the_rest_is_in_the_journal() {
        let (args, thread) = (retrospective(), ThreadFacts::default());
        let friction = "**Friction** [medium] It was a float. Cause: nobody had said so. (a.rs:1)";
        let page = JournalPlace::Page("journals/thread-1.md".to_owned());
        assert_eq!(
            show_summary(&args, &thread, &page),
            format!(
                "**Retrospective** · **Journal** `.codebutler/journals/thread-1.md`\n{friction}"
            )
        );
        let whole = show_retrospective(&args, &thread);
        assert!(whole.contains("**Went well**\n1. Found (a.rs:1)"), "{whole}");
        assert!(whole.contains("**Cost so far** $"), "{whole}");
        // Without a journal nothing is left out.
        let rest = format!("\n**Went well** Found (a.rs:1)\n{friction}\n**Cost so far** $0.00");
        let nowhere = show_summary(&args, &thread, &JournalPlace::Nowhere);
        assert_eq!(nowhere, format!("**Retrospective**{rest}"));
        let missing = show_summary(&args, &thread, &JournalPlace::Missing("it moved".to_owned()));
        let why = " · **Journal** not on the branch: it moved";
        assert_eq!(missing, format!("**Retrospective**{why}{rest}"));
    }

    #[test]
    fn a_new_entry_is_shown_without_what_people_know() {
        let change = |claim: &str| LearningChange {
            file: "coder.md".to_owned(),
            kind: ChangeKind::Add,
            learning: LearningEntry {
                id: "l-1".to_owned(),
                claim: claim.to_owned(),
                when: "a price is written".to_owned(),
                rule: "write whole cents".to_owned(),
                source: "https://x/p1".to_owned(),
                ..LearningEntry::default()
            },
            reason: "The review asked for it".to_owned(),
            map: String::new(),
        };
        let lines =
            "+ - When: a price is written\n+ - Rule: write whole cents\n+ - Confidence: medium";
        assert_eq!(
            show_change(&change("Prices are cents"), None, None),
            format!(
                "**Add to `coder.md`: Prices are cents** The review asked for it.\n```\n{lines}\n```"
            )
        );
        // What is shown otherwise than it is written stands there as it is written, too.
        for claim in ["See [it](https://x)", "Use `u64`", "Never * by 2", "https://x", "a\nb"] {
            let shown = show_change(&change(claim), None, None);
            assert!(shown.contains("\n+ ### ") && !shown.contains("Source"), "{claim}: {shown}");
        }
    }

    #[test]
    fn what_comes_is_shown_where_not_all_of_a_change_is() {
        let entry = |rule: &str| LearningEntry {
            id: "a".to_owned(),
            claim: "Prices are whole cents".to_owned(),
            when: "w".repeat(400),
            rule: rule.to_owned(),
            example: "e".repeat(400),
            ..LearningEntry::default()
        };
        let old = entry(&format!("The old rule {}", "o".repeat(380)));
        let page = format!("# Coder\n\n## Learnings\n\n{}\n", old.render());
        let new = format!("The new rule {}", "n".repeat(380));
        let change = LearningChange {
            file: "coder.md".to_owned(),
            kind: ChangeKind::Replace,
            learning: entry(&new),
            reason: "People said so".to_owned(),
            map: String::new(),
        };
        let diff = change.show_diff(Some(&page));
        let shown = show_change(&change, Some(&page), None);
        assert!(shown.contains(&new), "{shown}");
        // All of it is posted before where a part is left out.
        assert!(exceeds_card(&"x".repeat(1_500)) && !exceeds_card("short"));
        assert_eq!(exceeds_card(&diff), diff.chars().count() > MAX_CARD);
    }
}
