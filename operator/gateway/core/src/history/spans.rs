//! Converts the runs that agents tell into spans, with the attributes that OpenTelemetry has for
//! generative AI: each run an `invoke_agent`, and within it each use of a tool an `execute_tool`.
//! Arguments and outputs are no attributes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use codebutler_crds::wire::HistoryBatch;
use codebutler_crds::wire::history::{HistoryEvent, ToldEntry};
use codebutler_runtime::traces::{SPAN_KEY, SPAN_PARENT, THREAD, TRACER};
use opentelemetry::trace::{Span as _, SpanBuilder, Status, Tracer as _};
use opentelemetry::{KeyValue, global};

use super::lock;

/// Runs whose beginning is remembered.
const MOST: usize = 4096;

/// Start times of runs, by their keys. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct RunBeginnings(Arc<Mutex<HashMap<String, u64>>>);

/// Owner of spans.
pub(super) struct SpanOwner<'a> {
    /// Thread, as `namespace/name`.
    pub thread: String,
    pub conversation: &'a str,
    pub role: &'a str,
}

/// A span, before it is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ToldSpan {
    name: String,
    operation: &'static str,
    /// Key by which the span is the same when it is told again.
    key: String,
    /// Key of the run that the span is part of.
    parent: Option<String>,
    tool: Option<String>,
    began: u64,
    ended: u64,
    error: Option<&'static str>,
}

impl RunBeginnings {
    /// Converts a journal's events to spans.
    pub(super) fn spans_of(&self, owner: &SpanOwner<'_>, batch: &HistoryBatch) -> Vec<ToldSpan> {
        let spans = batch.events.iter().map(|told| self.span_of(owner, &batch.journal, told));
        spans.flatten().collect()
    }

    /// Sends them, where spans go anywhere. What is told again is the same span again.
    pub(super) fn send(owner: &SpanOwner<'_>, spans: Vec<ToldSpan>) {
        let tracer = global::tracer(TRACER);
        for own in spans {
            let mut attributes = vec![
                KeyValue::new(THREAD, owner.thread.clone()),
                KeyValue::new(SPAN_KEY, own.key),
                KeyValue::new("gen_ai.operation.name", own.operation),
                KeyValue::new("gen_ai.agent.name", owner.role.to_owned()),
                KeyValue::new("gen_ai.conversation.id", owner.conversation.to_owned()),
            ];
            attributes.extend(own.parent.map(|parent| KeyValue::new(SPAN_PARENT, parent)));
            if let Some(tool) = own.tool {
                attributes.push(KeyValue::new("gen_ai.tool.name", tool));
                attributes.push(KeyValue::new("gen_ai.tool.type", "function"));
            }
            attributes.extend(own.error.map(|error| KeyValue::new("error.type", error)));
            let builder = SpanBuilder::from_name(own.name)
                .with_start_time(system_time(own.began))
                .with_attributes(attributes);
            let mut span = tracer.build_with_context(builder, &opentelemetry::Context::new());
            if own.error.is_some() {
                span.set_status(Status::error(""));
            }
            span.end_with_timestamp(system_time(own.ended));
        }
    }

    fn span_of(&self, owner: &SpanOwner<'_>, journal: &str, told: &ToldEntry) -> Option<ToldSpan> {
        let run = told.run.as_deref().unwrap_or_default();
        let parent = format!("{}/{}/{journal}/run/{run}", owner.thread, owner.role);
        match &told.event {
            HistoryEvent::RunStarted => {
                let mut known = lock(&self.0);
                if known.len() >= MOST {
                    let mut times: Vec<u64> = known.values().copied().collect();
                    times.sort_unstable();
                    let middle = times[times.len() / 2];
                    known.retain(|_, began| *began > middle);
                }
                known.insert(parent, told.at);
                None
            }
            HistoryEvent::RunEnded { outcome, .. } => {
                // One that began before this process did has no beginning here.
                let began = *lock(&self.0).get(&parent)?;
                Some(ToldSpan {
                    name: format!("invoke_agent {}", owner.role),
                    operation: "invoke_agent",
                    key: parent,
                    parent: None,
                    tool: None,
                    began: began.min(told.at),
                    ended: told.at,
                    error: (outcome == "failed").then_some("failed"),
                })
            }
            HistoryEvent::Tool { call, ok, exit_code, millis, .. } => {
                let tool = tool_name(&call.tool);
                let error = match exit_code {
                    Some(code) if *code != 0 => Some("exit_code"),
                    _ if !ok => Some("tool_error"),
                    _ => None,
                };
                Some(ToldSpan {
                    name: format!("execute_tool {tool}"),
                    operation: "execute_tool",
                    key: format!("{}/{}/{journal}/{}", owner.thread, owner.role, told.seq),
                    parent: Some(parent).filter(|_| !run.is_empty()),
                    tool: Some(tool.to_owned()),
                    began: told.at.saturating_sub(millis.unwrap_or(0)),
                    ended: told.at,
                    error,
                })
            }
            _ => None,
        }
    }
}

/// A model may have wanted anything.
fn tool_name(name: &str) -> &str {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"_-".contains(&b);
    let is_name = (1..=64).contains(&name.len()) && name.bytes().all(plain);
    if is_name { name } else { "unknown" }
}

fn system_time(millis: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(millis)
}

#[cfg(test)]
mod tests {
    use codebutler_crds::wire::history::ToolUse;

    use super::*;

    fn told(seq: u64, at: u64, event: HistoryEvent) -> ToldEntry {
        ToldEntry { seq, at, run: Some("r1".to_owned()), event }
    }

    fn tool(name: &str, ok: bool, exit_code: Option<i32>) -> HistoryEvent {
        let call = ToolUse { tool: name.to_owned(), arguments: "{\"secret\":1}".to_owned() };
        HistoryEvent::Tool { call, output: "words".to_owned(), ok, exit_code, millis: Some(40) }
    }

    #[test]
    fn a_run_holds_its_tools_and_what_is_told_again_is_the_same() {
        let (runs, thread) = (RunBeginnings::default(), "team/shop-1".to_owned());
        let owner = SpanOwner { thread, conversation: "shop-1", role: "coder" };
        let span = |told: &ToldEntry| runs.span_of(&owner, "0a", told);
        assert_eq!(span(&told(1, 100, HistoryEvent::RunStarted)), None);
        let bash = told(2, 150, tool("Bash", true, Some(7)));
        let first = span(&bash).unwrap();
        assert_eq!((first.began, first.ended, first.error), (110, 150, Some("exit_code")));
        assert_eq!(span(&bash).unwrap(), first);
        let odd = span(&told(3, 151, tool("rm -rf /; echo", false, None))).unwrap();
        assert_eq!((&*odd.name, odd.error), ("execute_tool unknown", Some("tool_error")));
        let ended = HistoryEvent::RunEnded { outcome: "idle".to_owned(), reason: None };
        let last = told(4, 200, ended);
        let run = span(&last).unwrap();
        assert_eq!((&*run.name, run.began, run.ended), ("invoke_agent coder", 100, 200));
        assert_eq!(first.parent.as_ref(), Some(&run.key));
        assert_eq!(span(&last).unwrap(), run);
        let other = SpanOwner { thread: owner.thread.clone(), conversation: "shop-1", role: "pm" };
        assert_eq!(runs.span_of(&other, "0a", &last), None, "it began before this process");
        assert!(!format!("{first:?}{odd:?}").contains("secret"));
    }
}
