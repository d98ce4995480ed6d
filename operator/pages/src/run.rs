//! Steps as a page shows them: the conversation, and each run of a role as one line that opens to its steps.
//! Pure.

use crate::moment::format_moment;
use crate::step::{StepPlace, StepView, describe_outcome};
use crate::summary::{ThreadSummary, TimeSpan};
use crate::text::{format_count, format_duration, show_money};

/// An entry of a page: a step, or a run with its steps.
#[derive(Clone, Debug)]
pub(crate) enum PageItem {
    Step(Box<StepView>),
    Run(Box<RunView>),
}

/// A role's run, as it is shown.
#[derive(Clone, Debug, Default)]
pub(crate) struct RunView {
    /// Stable key of the run, the same on every page that shows a part of it.
    pub key: String,
    pub role: String,
    /// Start of the run: machine-readable, and as people read it.
    pub at: String,
    pub clock: String,
    /// `on`, `waits`, `bad`, `over` or `loose`.
    pub class: &'static str,
    pub outcome: &'static str,
    /// Current activity, or the reason of a failure.
    pub about: String,
    /// Details in small print, such as the duration.
    pub meta: Vec<String>,
    /// Cost of the run, as HTML.
    pub cost: String,
    pub steps: Vec<StepView>,
    /// Start of the run, or time of the first loose step, in milliseconds since 1970.
    millis: u64,
}

/// Steps, oldest first, as items, oldest first.
pub(crate) fn group_steps(mut steps: Vec<StepView>, summary: &ThreadSummary) -> Vec<PageItem> {
    // Several processes write the history, so their lines are not in order of time.
    steps.sort_by_key(|step| step.millis);
    let mut items: Vec<PageItem> = Vec::new();
    for step in steps {
        match step.place {
            StepPlace::Aside => {}
            StepPlace::Talk => items.push(PageItem::Step(Box::new(step))),
            StepPlace::Run | StepPlace::Edge => add_to_run(&mut items, step, summary),
        }
    }
    items.retain(|item| !matches!(item, PageItem::Run(run) if run.is_empty()));
    items.sort_by_key(PageItem::millis);
    items
}

/// Runs that have stopped without an end: nothing new was told of them.
pub(crate) fn add_lost_runs(items: &mut Vec<PageItem>, summary: &ThreadSummary) {
    let shown = |items: &[PageItem], key: &str| {
        items.iter().any(|item| matches!(item, PageItem::Run(run) if run.key == key))
    };
    for run in summary.lost_runs().map(|span| RunView::of(span, summary)) {
        if !shown(items, &run.key) {
            items.push(PageItem::Run(Box::new(run)));
        }
    }
}

fn add_to_run(items: &mut Vec<PageItem>, step: StepView, summary: &ThreadSummary) {
    let spans = summary.spans.iter().rev().filter(|span| !span.role.is_empty());
    let span = spans.into_iter().find(|span| span.covers(&step.role, step.millis));
    let key = span.map(|span| format!("r{}", span.first));
    let own = |item: &PageItem| match (item, &key) {
        (PageItem::Run(run), Some(key)) => run.key == *key,
        (PageItem::Run(run), None) => run.is_loose() && run.role == step.role,
        (PageItem::Step(_), _) => false,
    };
    let place = items.iter().rposition(own).unwrap_or_else(|| {
        let run = span.map_or_else(|| RunView::loose(&step), |span| RunView::of(span, summary));
        items.push(PageItem::Run(Box::new(run)));
        items.len() - 1
    });
    if let (StepPlace::Run, Some(PageItem::Run(run))) = (step.place, items.get_mut(place)) {
        run.steps.push(step);
    }
}

impl PageItem {
    fn millis(&self) -> u64 {
        match self {
            Self::Step(step) => step.millis,
            Self::Run(run) => run.millis,
        }
    }
}

impl RunView {
    fn of(span: &TimeSpan, summary: &ThreadSummary) -> Self {
        let outcome = if span.ended.is_none() { "" } else { span.what.as_str() };
        let lasted = span.ended.unwrap_or(summary.last).saturating_sub(span.began);
        let tools = (span.tools > 0).then(|| format_count(span.tools, "tool call"));
        let class = match outcome {
            "" => "on",
            "waiting" => "waits",
            "failed" => "bad",
            _ => "over",
        };
        Self {
            key: format!("r{}", span.first),
            role: span.role.clone(),
            at: format_moment(span.began, "%Y-%m-%dT%H:%M:%S%.3fZ"),
            clock: format_moment(span.began, "%H:%M:%S"),
            class,
            outcome: describe_outcome(outcome),
            about: span.reason.clone().unwrap_or_else(|| span.doing.clone()),
            meta: tools.into_iter().chain([format_duration(lasted)]).collect(),
            cost: show_money(span.calls.cost),
            steps: Vec::new(),
            millis: span.began,
        }
    }

    /// Steps of an unknown run: its start is older than the history, or has not arrived yet.
    fn loose(step: &StepView) -> Self {
        Self {
            key: format!("l{}", step.n),
            role: step.role.clone(),
            at: step.at.clone(),
            clock: step.clock.clone(),
            class: "loose",
            outcome: "at work",
            millis: step.millis,
            ..Self::default()
        }
    }

    fn is_loose(&self) -> bool {
        self.class == "loose"
    }

    /// True if it groups loose steps and has none.
    fn is_empty(&self) -> bool {
        self.is_loose() && self.steps.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::UserNames;
    use codebutler_wire::history::{HistoryEvent, HistoryLine, ModelCall, ToolUse};
    use codebutler_wire::{MessageAuthor, NanoUsd};

    fn items(events: Vec<(u64, &str, HistoryEvent)>) -> Vec<String> {
        let (mut summary, mut lines) = (ThreadSummary::default(), Vec::new());
        for (at, role, event) in events {
            let (source, role) = ("gateway".to_owned(), Some(role.to_owned()));
            let line =
                HistoryLine { v: 1, at, source, seq: None, key: None, role, run: None, event };
            summary.add(Some(&line));
            lines.push(line);
        }
        let names = UserNames::new();
        let steps = lines.iter().zip(1..);
        let steps = steps.filter_map(|(line, n)| StepView::of(n, line, &names, false)).collect();
        let shown = |item| match item {
            PageItem::Step(step) => format!("{}: {}", step.who, step.title),
            PageItem::Run(run) => {
                let steps: Vec<_> = run.steps.iter().map(|step| step.title.clone()).collect();
                format!("{} {} {} [{}]", run.key, run.role, run.outcome, steps.join(", "))
            }
        };
        group_steps(steps, &summary).into_iter().map(shown).collect()
    }

    fn tool(name: &str) -> HistoryEvent {
        let call = ToolUse { tool: name.into(), arguments: "{}".into() };
        HistoryEvent::Tool { call, output: String::new(), ok: true, exit_code: None, millis: None }
    }

    fn call(model: &str) -> HistoryEvent {
        let (model, cost) = (model.to_owned(), NanoUsd(1));
        HistoryEvent::ModelCall(ModelCall { model, cost, ..ModelCall::default() })
    }

    fn ended(outcome: &str) -> HistoryEvent {
        HistoryEvent::RunEnded { outcome: outcome.into(), reason: None }
    }

    #[test]
    fn a_run_is_one_line_and_roles_that_work_at_once_have_one_each() {
        let said = HistoryEvent::Message {
            ts: "1.000000".parse().unwrap(),
            author: MessageAuthor::User { id: "ana".into() },
            text: "hi".into(),
        };
        let asked = HistoryEvent::Answer {
            model: None,
            text: None,
            thoughts: None,
            calls: vec![ToolUse { tool: "Grep".into(), arguments: "{}".into() }],
        };
        let waits = |now| HistoryEvent::Waiting {
            what: "AwaitingUser".into(),
            now,
            why: "no role waits for a person".into(),
        };
        let opened = HistoryEvent::Opened { repo: "shop".into(), channel: "C1".into(), by: None };
        let shown = items(vec![
            (1, "", opened),
            (2, "", said),
            (3, "", waits(false)),
            (5, "pm", HistoryEvent::RunStarted),
            (6, "pm", asked),
            (7, "pm", tool("Grep")),
            // The gateway records a call before the role reports the start of its run.
            (9, "coder", call("m1")),
            (8, "coder", HistoryEvent::RunStarted),
            (10, "pm", tool("Glob")),
            (11, "coder", tool("Bash")),
            (12, "pm", ended("waiting")),
            (13, "", waits(true)),
            (14, "coder", tool("Edit")),
        ]);
        assert_eq!(
            shown,
            [
                "ana: ",
                "r4 pm waits for an answer [Grep, Glob]",
                "r8 coder is working [m1, Bash, Edit]",
            ]
        );
    }

    #[test]
    fn steps_of_a_run_that_is_not_known_stand_together() {
        let shown = items(vec![
            (1, "coder", tool("Bash")),
            (2, "coder", tool("Read")),
            (3, "pm", tool("Grep")),
        ]);
        assert_eq!(shown, ["l1 coder at work [Bash, Read]", "l3 pm at work [Grep]"]);
    }
}
