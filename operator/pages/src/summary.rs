//! What a history adds up to. Takes in its lines one after the other.

use std::collections::BTreeMap;

use codebutler_wire::NanoUsd;
use codebutler_wire::history::{Event, Line};

/// What calls used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    pub calls: u64,
    pub fresh: u64,
    pub cached: u64,
    pub answered: u64,
    pub cost: NanoUsd,
}

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    pub lines: u64,
    /// The first words of the first message.
    pub title: String,
    pub by_role: BTreeMap<String, Totals>,
    pub total: Totals,
    /// Milliseconds since 1970.
    pub began: u64,
    pub last: u64,
    pub state: &'static str,
}

impl Summary {
    /// Takes in the next line; one that can't be read counts as a line.
    pub fn add(&mut self, line: Option<&Line>) {
        self.lines += 1;
        let Some(line) = line else { return };
        if self.began == 0 || line.at < self.began {
            self.began = line.at;
        }
        self.last = self.last.max(line.at);
        match &line.event {
            Event::Message { text, .. } if self.title.is_empty() => {
                let first = text.lines().next().unwrap_or_default();
                first[..first.floor_char_boundary(120)].clone_into(&mut self.title);
            }
            Event::ModelCall(call) => {
                let role = line.role.clone().unwrap_or_default();
                for totals in [&mut self.total, self.by_role.entry(role).or_default()] {
                    totals.calls += 1;
                    totals.fresh += call.fresh;
                    totals.cached += call.cached;
                    totals.answered += call.answered;
                    totals.cost += call.cost;
                }
            }
            Event::RunStarted => self.state = "running",
            Event::RunEnded { outcome, .. } if self.state != "closed" => {
                self.state = match outcome.as_str() {
                    "waiting" => "waiting for you",
                    "failed" => "stopped",
                    _ => "resting",
                };
            }
            Event::Waiting { what, now: true, .. } if what == "Queued" => self.state = "queued",
            Event::Closed { .. } => self.state = "closed",
            _ => {}
        }
    }
}
