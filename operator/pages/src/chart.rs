//! The cost of each day, as bars. Pure.

use std::collections::BTreeMap;

use codebutler_wire::NanoUsd;
use jiff::civil::Date;

/// Days that are drawn at most: the newest.
const MOST: usize = 366;
/// Height of the drawing, and what is drawn of the least that cost anything.
const HEIGHT: u64 = 100;
const LEAST: u64 = 1;
/// Width of one day's bar, in units of the drawing.
pub(crate) const WIDTH: usize = 10;

/// Bar of one day in the chart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChartBar {
    pub x: usize,
    pub y: u64,
    pub height: u64,
    /// Tooltip with the day and its cost.
    pub words: String,
}

/// Bar chart of the cost of each day.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DayChart {
    pub bars: Vec<ChartBar>,
    pub width: usize,
    pub first: String,
    pub last: String,
    /// Cost of the most expensive day.
    pub most: String,
    /// Position of the line of a day's budget, and the budget in words.
    pub cap: Option<(u64, String)>,
    /// The chart in one sentence, for screen readers.
    pub words: String,
}

impl DayChart {
    /// Draws each day from `first` to `last`, with a line at `cap`. `None` where there is hardly anything to
    /// compare.
    pub(crate) fn of(
        spent: &BTreeMap<Date, NanoUsd>,
        (first, last): (Date, Date),
        cap: Option<NanoUsd>,
    ) -> Option<Self> {
        let mut days = Vec::new();
        let mut day = last;
        while day >= first && days.len() < MOST {
            days.push(day);
            day = day.yesterday().ok()?;
        }
        days.reverse();
        let cost = |day: &Date| spent.get(day).copied().unwrap_or_default();
        let top = *days.iter().max_by_key(|day| cost(day))?;
        let most = cost(&top);
        if days.len() < 2 || most == NanoUsd::ZERO {
            return None;
        }
        let scale = cap.map_or(most, |cap| cap.max(most));
        let height_of = |money: NanoUsd| {
            let height = u128::from(money.0) * u128::from(HEIGHT) / u128::from(scale.0);
            u64::try_from(height).unwrap_or(HEIGHT)
        };
        let cap = cap.map(|cap| (HEIGHT - height_of(cap), cap.in_cents()));
        let bars = days.iter().enumerate().map(|(index, day)| {
            let cost = cost(day);
            let height = height_of(cost);
            let height = if cost.0 > 0 { height.max(LEAST) } else { 0 };
            let words = format!("{day}: {}", cost.in_cents());
            ChartBar { x: index * WIDTH, y: HEIGHT - height, height, words }
        });
        let (begin, most) = (days.first()?, most.in_cents());
        let words = format!("Cost by day from {begin} to {last}, at most {most} on {top}");
        Some(Self {
            bars: bars.collect(),
            width: days.len() * WIDTH,
            first: begin.to_string(),
            last: last.to_string(),
            most,
            cap,
            words,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::civil::date;

    #[test]
    fn every_day_has_a_bar_and_the_most_expensive_is_as_high_as_the_chart() {
        let spent = [
            (date(2026, 2, 27), NanoUsd(2_000_000_000)),
            (date(2026, 3, 1), NanoUsd(1_000_000_000)),
            (date(2026, 3, 2), NanoUsd(1)),
        ];
        let (first, last) = (date(2026, 2, 26), date(2026, 3, 2));
        let chart = DayChart::of(&spent.into(), (first, last), None).unwrap();
        let heights: Vec<_> = chart.bars.iter().map(|bar| (bar.y, bar.height)).collect();
        assert_eq!(heights, [(100, 0), (0, 100), (100, 0), (50, 50), (99, 1)]);
        assert_eq!(chart.bars[1].words, "2026-02-27: $2.00");
        assert_eq!(
            chart.words,
            "Cost by day from 2026-02-26 to 2026-03-02, at most $2.00 on 2026-02-27"
        );
        let long = DayChart::of(&spent.into(), (Date::MIN, last), None).unwrap();
        assert_eq!(long.bars.len(), MOST);
        assert_eq!(DayChart::of(&spent.into(), (last, last), None), None);
        assert_eq!(DayChart::of(&BTreeMap::new(), (first, last), None), None);
    }

    #[test]
    fn a_budget_is_a_line_and_bars_are_drawn_to_its_scale() {
        let spent = BTreeMap::from([(date(2026, 3, 1), NanoUsd(2_000_000_000))]);
        let days = (date(2026, 2, 27), date(2026, 3, 2));
        let with = |cap| DayChart::of(&spent, days, Some(NanoUsd(cap))).unwrap();
        let high = with(8_000_000_000);
        assert_eq!((high.cap, high.bars[2].height), (Some((0, "$8.00".to_owned())), 25));
        let low = with(1_000_000_000);
        assert_eq!((low.cap, low.bars[2].height), (Some((50, "$1.00".to_owned())), 100));
    }
}
