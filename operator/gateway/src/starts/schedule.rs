//! Decides the next step of a schedule. Pure: from its times, what became of it, and the Thread of its last run. A
//! gateway that takes over after a crash between a Thread and its record decides the same.

use codebutler_crds::starts::{ConcurrencyPolicy, ScheduleSpec, ScheduleStatus};
use codebutler_runtime::schedule::{DueRuns, ScheduleClock};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// A step of a schedule that is due now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ScheduleStep {
    /// The schedule is seen for the first time, or its times have changed: it begins to count.
    Watch,
    /// The newest run has its Thread already, which is not on record: whoever made it died.
    Adopt(LateRuns),
    /// These runs pass without a Thread, as nobody wants them.
    Pass(DueRuns),
    /// A Thread begins for the newest.
    Begin(LateRuns),
    /// No run begins, as the Thread of the last one is open.
    Skip(LateRuns),
    /// No run begins, as it is too late for them.
    Miss(DueRuns),
}

/// Runs that are due, and why those before the newest do not begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LateRuns {
    pub due: DueRuns,
    /// Number of them that are later than the deadline.
    pub too_late: u32,
}

impl LateRuns {
    /// Number of runs that could begin still, were the newest not begun instead.
    pub(super) const fn replaced(&self) -> u32 {
        self.in_time().saturating_sub(1)
    }

    /// Number of runs that are not too late, the newest among them.
    pub(super) const fn in_time(&self) -> u32 {
        self.due.count.saturating_sub(self.too_late)
    }
}

/// Facts that the step of a schedule is decided from.
#[derive(Clone, Copy, Debug)]
pub(super) struct ScheduleFacts<'a> {
    pub spec: &'a ScheduleSpec,
    pub clock: &'a ScheduleClock,
    /// The schedule's times and zone, as they are read.
    pub cron: &'a str,
    pub status: Option<&'a ScheduleStatus>,
    /// True if the Repo is suspended: nothing begins in it.
    pub suspended: bool,
    /// The Thread of its last run is at work, or waits for people.
    pub open: bool,
    /// The newest run after what is settled that has a Thread.
    pub begun: Option<Timestamp>,
}

/// The step that is due now, if any.
pub(super) fn decide_schedule(facts: &ScheduleFacts<'_>, now: Timestamp) -> Option<ScheduleStep> {
    let known = facts.status.filter(|status| status.cron == facts.cron);
    let Some(settled) = known.and_then(|status| status.settled.as_ref()) else {
        return Some(ScheduleStep::Watch);
    };
    let due = facts.clock.due(settled.0, now)?;
    let deadline = SignedDuration::from_secs(facts.spec.starting_deadline_seconds.into());
    // Count the runs before the newest that were due too long ago.
    let late = |due: DueRuns| {
        let before = due.newest - SignedDuration::from_secs(1);
        let until = (now - deadline).min(before);
        let too_late = facts.clock.due(settled.0, until).map_or(0, |late| late.count);
        LateRuns { due, too_late }
    };
    if let Some(newest) = facts.begun {
        let count = facts.clock.due(settled.0, newest).map_or(1, |due| due.count);
        return Some(ScheduleStep::Adopt(late(DueRuns { newest, count })));
    }
    if facts.suspended || facts.spec.suspend {
        return Some(ScheduleStep::Pass(due));
    }
    if now.duration_since(due.newest) > deadline || due.is_beyond_count() {
        return Some(ScheduleStep::Miss(due));
    }
    if facts.open && facts.spec.concurrency_policy == ConcurrencyPolicy::Forbid {
        return Some(ScheduleStep::Skip(late(due)));
    }
    Some(ScheduleStep::Begin(late(due)))
}

/// Message about runs that do not begin; nothing where all of them do, or wait for a conversation.
pub(super) fn describe_unbegun(spec: &ScheduleSpec, step: &ScheduleStep) -> Option<String> {
    let (too_late, replaced, newest) = match step {
        ScheduleStep::Miss(due) => (due.count, 0, due.newest),
        ScheduleStep::Begin(late) | ScheduleStep::Adopt(late) => {
            (late.too_late, late.replaced(), late.due.newest)
        }
        ScheduleStep::Skip(late) => (late.too_late, 0, late.due.newest),
        ScheduleStep::Watch | ScheduleStep::Pass(_) => return None,
    };
    let seconds = spec.starting_deadline_seconds;
    let is_missed = matches!(step, ScheduleStep::Miss(_));
    let which = |count: u32| match (count, is_missed) {
        (1, true) => format!("the run of {newest}"),
        (count, true) => format!("{count} runs until {newest}"),
        (1, false) => format!("1 run before that of {newest}"),
        (count, false) => format!("{count} runs before that of {newest}"),
    };
    let mut parts = Vec::new();
    if too_late > 0 {
        parts.push(format!(
            "{} did not begin within {seconds} seconds, and will not",
            which(too_late)
        ));
    }
    if let ScheduleStep::Skip(late) = step {
        let runs = match late.in_time() {
            1 => format!("the run of {newest}"),
            count => format!("{count} runs until {newest}"),
        };
        parts.push(format!(
            "{runs} did not begin, as the conversation of an earlier one is at work, or waits for people"
        ));
    }
    if replaced > 0 {
        parts.push(format!(
            "{} did not begin in time, and of several that are late only the newest begins",
            which(replaced)
        ));
    }
    let own = format!("spec.schedules `{}`: ", spec.name);
    (!parts.is_empty()).then(|| own + &parts.join("; "))
}

/// True if a step is on record already: another gateway took it at the same moment.
pub(super) fn is_settled(status: &ScheduleStatus, cron: &str, step: &ScheduleStep) -> bool {
    let settled = status.settled.as_ref().filter(|_| status.cron == cron).map(|time| time.0);
    match step {
        ScheduleStep::Watch => settled.is_some(),
        ScheduleStep::Adopt(LateRuns { due, .. })
        | ScheduleStep::Begin(LateRuns { due, .. })
        | ScheduleStep::Skip(LateRuns { due, .. })
        | ScheduleStep::Pass(due)
        | ScheduleStep::Miss(due) => settled.is_some_and(|settled| settled >= due.newest),
    }
}

/// The record after a step is done.
pub(super) fn record_step(
    before: Option<&ScheduleStatus>,
    facts: (&str, &str),
    step: &ScheduleStep,
    thread: Option<&str>,
    now: Timestamp,
) -> ScheduleStatus {
    let (name, cron) = facts;
    let empty = || ScheduleStatus { name: name.to_owned(), ..ScheduleStatus::default() };
    let mut status = before.cloned().unwrap_or_else(empty);
    cron.clone_into(&mut status.cron);
    let settled = match step {
        ScheduleStep::Watch => now,
        ScheduleStep::Adopt(LateRuns { due, .. })
        | ScheduleStep::Begin(LateRuns { due, .. })
        | ScheduleStep::Skip(LateRuns { due, .. })
        | ScheduleStep::Pass(due)
        | ScheduleStep::Miss(due) => due.newest,
    };
    status.settled = Some(Time(settled));
    match step {
        ScheduleStep::Adopt(LateRuns { due, .. }) | ScheduleStep::Begin(LateRuns { due, .. }) => {
            status.last_schedule_time = Some(Time(due.newest));
            status.last_thread = thread.map(str::to_owned);
            (status.missed, status.skipped) = (0, 0);
        }
        ScheduleStep::Skip(late) => {
            status.missed = status.missed.saturating_add(late.too_late);
            status.skipped = status.skipped.saturating_add(late.in_time());
        }
        ScheduleStep::Miss(due) => status.missed = status.missed.saturating_add(due.count),
        ScheduleStep::Watch | ScheduleStep::Pass(_) => {}
    }
    status
}

/// Prompt of a run: that of the schedule, and a note on runs that did not begin since the last one.
pub(super) fn prompt_of(
    spec: &ScheduleSpec,
    status: Option<&ScheduleStatus>,
    late: LateRuns,
) -> String {
    let missed = status.map_or(0, |status| status.missed) + late.too_late;
    let skipped = status.map_or(0, |status| status.skipped);
    let told = |count: u32, why: &str| {
        let runs = if count == 1 { "run".to_owned() } else { format!("{count} runs") };
        (count > 0).then(|| format!("_The {runs} before this one did not begin: {why}._"))
    };
    let own = Some(spec.prompt.trim_end().to_owned());
    let it = if missed == 1 { "it" } else { "them" };
    let missed = told(missed, &format!("it was too late for {it}"));
    let skipped =
        told(skipped, "the conversation of an earlier one was at work, or waited for people");
    let replaced = told(late.replaced(), "of several that are late only the newest begins");
    let parts: Vec<String> = own.into_iter().chain(missed).chain(skipped).chain(replaced).collect();
    parts.join("\n\n")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn spec() -> ScheduleSpec {
        serde_json::from_value(json!({"name": "nightly", "cron": "0 2 * * *", "prompt": "Update."}))
            .unwrap()
    }

    const CRON: &str = "0 2 * * * UTC";

    fn step(
        spec: &ScheduleSpec,
        status: Option<&ScheduleStatus>,
        (suspended, open): (bool, bool),
        now: &str,
    ) -> Option<ScheduleStep> {
        let clock = ScheduleClock::read(CRON, at(now)).unwrap();
        let begun = None;
        let facts =
            ScheduleFacts { spec, clock: &clock, cron: CRON, status, suspended, open, begun };
        // A Thread that is not on record is put there before anything else is decided.
        let adopted = ScheduleFacts { begun: Some(at("2026-11-24T02:00:00Z")), ..facts };
        if let Some(ScheduleStep::Begin(_)) = decide_schedule(&facts, at(now)) {
            assert!(matches!(decide_schedule(&adopted, at(now)), Some(ScheduleStep::Adopt(_))));
        }
        decide_schedule(&facts, at(now))
    }

    fn settled(text: &str) -> ScheduleStatus {
        ScheduleStatus {
            name: "nightly".into(),
            cron: CRON.into(),
            settled: Some(Time(at(text))),
            ..ScheduleStatus::default()
        }
    }

    #[test]
    fn a_run_begins_once_and_what_is_too_late_is_missed() {
        let spec = spec();
        let status = settled("2026-11-25T01:00:00Z");
        let run = |count| DueRuns { newest: at("2026-11-25T02:00:00Z"), count };
        let late = |count: u32| LateRuns { due: run(count), too_late: count - 1 };
        let free = (false, false);
        assert_eq!(step(&spec, None, free, "2026-11-25T02:00:00Z"), Some(ScheduleStep::Watch));
        assert_eq!(step(&spec, Some(&status), free, "2026-11-25T01:59:59Z"), None);
        let now = "2026-11-25T02:30:00Z";
        assert_eq!(step(&spec, Some(&status), free, now), Some(ScheduleStep::Begin(late(1))));
        assert_eq!(
            step(&spec, Some(&status), (true, false), now),
            Some(ScheduleStep::Pass(run(1)))
        );
        assert_eq!(
            step(&spec, Some(&status), (false, true), now),
            Some(ScheduleStep::Skip(late(1)))
        );
        let mut beside = spec.clone();
        beside.concurrency_policy = ConcurrencyPolicy::Allow;
        assert_eq!(
            step(&beside, Some(&status), (false, true), now),
            Some(ScheduleStep::Begin(late(1)))
        );
        assert_eq!(
            step(&spec, Some(&status), free, "2026-11-25T03:00:01Z"),
            Some(ScheduleStep::Miss(run(1)))
        );
        let old = settled("2026-11-22T03:00:00Z");
        assert_eq!(step(&spec, Some(&old), free, now), Some(ScheduleStep::Begin(late(3))));
        // Other times count from when they are seen.
        let mut other = status.clone();
        other.cron = "0 1 * * * UTC".into();
        assert_eq!(step(&spec, Some(&other), free, now), Some(ScheduleStep::Watch));
    }

    #[test]
    fn of_several_late_runs_each_is_told_with_its_reason() {
        let often = ScheduleSpec { cron: "*/10 * * * *".into(), ..spec() };
        let often = ScheduleSpec { starting_deadline_seconds: 1200, ..often };
        let cron = "*/10 * * * * UTC";
        let now = at("2026-11-25T10:35:00Z");
        let clock = ScheduleClock::read(cron, now).unwrap();
        let mut status = settled("2026-11-25T10:00:00Z");
        status.cron = cron.into();
        let facts = ScheduleFacts {
            spec: &often,
            clock: &clock,
            cron,
            status: Some(&status),
            suspended: false,
            open: false,
            begun: None,
        };
        let step = decide_schedule(&facts, now).unwrap();
        let ScheduleStep::Begin(late) = step else { panic!("{step:?}") };
        assert_eq!((late.due.count, late.too_late, late.replaced()), (3, 1, 1));
        insta::assert_snapshot!(describe_unbegun(&often, &step).unwrap(), @"spec.schedules `nightly`: 1 run before that of 2026-11-25T10:30:00Z did not begin within 1200 seconds, and will not; 1 run before that of 2026-11-25T10:30:00Z did not begin in time, and of several that are late only the newest begins");
        let prompt = prompt_of(&often, Some(&status), late);
        assert!(
            prompt.contains("_The run before this one did not begin: it was too late for it._")
        );
        assert!(
            prompt.contains("_The run before this one did not begin: of several that are late")
        );

        // Whoever made the Thread died: those before it are told by who finds it.
        let begun = Some(at("2026-11-25T10:20:00Z"));
        let adopted = decide_schedule(&ScheduleFacts { begun, ..facts }, now).unwrap();
        let ScheduleStep::Adopt(found) = adopted else { panic!("{adopted:?}") };
        assert_eq!((found.due.count, found.too_late, found.replaced()), (2, 1, 0));
        // No run begins while the conversation of an earlier one is open: that is told, too.
        let skipped = decide_schedule(&ScheduleFacts { open: true, ..facts }, now).unwrap();
        insta::assert_snapshot!(describe_unbegun(&often, &skipped).unwrap(), @"spec.schedules `nightly`: 1 run before that of 2026-11-25T10:30:00Z did not begin within 1200 seconds, and will not; 2 runs until 2026-11-25T10:30:00Z did not begin, as the conversation of an earlier one is at work, or waits for people");
        // In time, there is nothing to tell.
        let due = DueRuns { newest: at("2026-11-25T10:30:00Z"), count: 1 };
        let only = ScheduleStep::Begin(LateRuns { due, too_late: 0 });
        assert_eq!(describe_unbegun(&often, &only), None);
    }

    #[test]
    fn what_did_not_begin_is_counted_and_told_by_the_next_run() {
        let (now, spec) = (at("2026-11-25T05:00:00Z"), spec());
        let due = DueRuns { newest: at("2026-11-25T02:00:00Z"), count: 2 };
        let mut status = settled("2026-11-23T03:00:00Z");
        let late = |count, too_late| LateRuns { due: DueRuns { count, ..due }, too_late };
        for (step, counts) in [
            (ScheduleStep::Miss(due), (2, 0)),
            (ScheduleStep::Skip(late(2, 0)), (2, 2)),
            (ScheduleStep::Pass(due), (2, 2)),
        ] {
            status = record_step(Some(&status), ("nightly", CRON), &step, None, now);
            assert_eq!((status.missed, status.skipped), counts, "{step:?}");
            assert_eq!(status.settled, Some(Time(due.newest)));
            assert!(is_settled(&status, CRON, &step) && !is_settled(&status, "", &step));
        }
        let prompt = prompt_of(&spec, Some(&status), late(1, 0));
        assert!(prompt.starts_with("Update."), "{prompt}");
        assert!(
            prompt.contains("The 2 runs before this one did not begin: it was too late"),
            "{prompt}"
        );
        assert!(prompt.contains("an earlier one was at work"), "{prompt}");
        let step = ScheduleStep::Begin(late(2, 1));
        let begun = record_step(Some(&status), ("nightly", CRON), &step, Some("t"), now);
        assert_eq!((begun.missed, begun.skipped), (0, 0));
        assert_eq!(begun.last_thread.as_deref(), Some("t"));
        assert_eq!(prompt_of(&spec, Some(&begun), late(1, 0)), "Update.");
    }
}
