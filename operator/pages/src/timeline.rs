//! Timeline of runs and waits, as bars. Pure.

use crate::summary::TimeSpan;

/// Width of the drawing, in its own units.
const WIDTH: u64 = 1000;
const ROW: u64 = 14;

/// Bar of one run or wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TimelineBar {
    pub x: u64,
    pub y: u64,
    pub width: u64,
    /// `ran`, `failed` or `waited`.
    pub class: &'static str,
}

/// Timeline of a page: bars and labels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PageTimeline {
    pub bars: Vec<TimelineBar>,
    pub height: u64,
    /// One for each row, from the top.
    pub rows: Vec<String>,
}

impl PageTimeline {
    /// Draws the spans between two times.
    pub(crate) fn of(spans: &[TimeSpan], began: u64, last: u64) -> Self {
        let whole = last.saturating_sub(began).max(1);
        let mut rows: Vec<String> = Vec::new();
        let place = |at: u64| at.clamp(began, last).saturating_sub(began) * WIDTH / whole;
        let bars = spans.iter().map(|span| {
            let name = if span.role.is_empty() { "waits" } else { &span.role };
            let row = rows.iter().position(|row| row == name).unwrap_or_else(|| {
                rows.push(name.to_owned());
                rows.len() - 1
            });
            let (x, end) = (place(span.began), place(span.ended.unwrap_or(last)));
            let class = match (span.role.as_str(), span.what.as_str()) {
                ("", _) => "waited",
                (_, "failed") => "failed",
                _ => "ran",
            };
            TimelineBar { x, y: row as u64 * ROW, width: (end - x.min(end)).max(2), class }
        });
        let bars = bars.collect();
        Self { bars, height: rows.len() as u64 * ROW, rows }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_role_has_a_row_and_a_bar_for_each_run() {
        let span = |role: &str, what: &str, began, ended| TimeSpan {
            role: role.to_owned(),
            what: what.to_owned(),
            began,
            ended,
            ..TimeSpan::default()
        };
        let spans = [
            span("pm", "idle", 100, Some(150)),
            span("", "AwaitingUser", 150, Some(160)),
            span("pm", "failed", 160, Some(160)),
            span("coder", "", 160, None),
        ];
        let drawn = PageTimeline::of(&spans, 100, 200);
        assert_eq!(drawn.rows, ["pm", "waits", "coder"]);
        let bars: Vec<_> = drawn.bars.iter().map(|b| (b.x, b.y, b.width, b.class)).collect();
        let expected = [
            (0, 0, 500, "ran"),
            (500, 14, 100, "waited"),
            (600, 0, 2, "failed"),
            (600, 28, 400, "ran"),
        ];
        assert_eq!(bars, expected);
        assert_eq!(PageTimeline::of(&[], 0, 0), PageTimeline::default());
    }
}
