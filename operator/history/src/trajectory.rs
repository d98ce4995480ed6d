//! A history in the Agent Trajectory Interchange Format, which other tools read. Takes in lines one after
//! the other. Pure.
//!
//! What people and the gateway say are steps of the user and the system; each answer of a model is a step
//! of the agent, with what the tools said that it asked for and with what it cost. The role is in `extra`,
//! and so is the exact price: the format's own is a float.

use std::collections::BTreeMap;

use codebutler_wire::history::{HistoryEvent, HistoryLine, ModelCall, ToolUse};
use codebutler_wire::{MessageAuthor, NanoUsd};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

/// The version of the format.
const FORMAT: &str = "ATIF-v1.7";

/// A trajectory under construction, built line by line.
#[derive(Debug)]
pub struct RunTrajectory {
    session: String,
    steps: Vec<Value>,
    /// The newest answer of each source, by its place, with its calls that nothing came of yet.
    open: BTreeMap<String, (usize, Vec<(String, ToolUse)>)>,
    /// Answers of each role: when, and their places.
    answers: BTreeMap<String, Vec<(u64, usize)>>,
    /// Calls of each role that were paid for. They are told at once, and answers in batches: only the time says
    /// which belong together.
    paid: BTreeMap<String, Vec<(u64, ModelCall)>>,
    total: ModelCall,
    calls: u64,
}

impl RunTrajectory {
    /// Begins the trajectory of a conversation: NAMESPACE/THREAD.
    pub fn new(session: &str) -> Self {
        Self {
            session: session.to_owned(),
            steps: Vec::new(),
            open: BTreeMap::new(),
            answers: BTreeMap::new(),
            paid: BTreeMap::new(),
            total: ModelCall::default(),
            calls: 0,
        }
    }

    /// Takes in the next line of the history.
    pub fn add(&mut self, line: &HistoryLine) {
        match &line.event {
            // A role's own messages are in its answers already.
            HistoryEvent::Message { author, text, .. }
                if !matches!(author, MessageAuthor::Role { .. }) =>
            {
                let user =
                    matches!(author, MessageAuthor::User { .. } | MessageAuthor::Prompt { .. });
                let source = if user { "user" } else { "system" };
                self.push(line, source, text, &json!({"by": author}));
            }
            HistoryEvent::Answer { .. } => self.answer(line),
            HistoryEvent::Tool { .. } => self.result(line),
            HistoryEvent::ModelCall(call) => {
                self.calls += 1;
                add_call(&mut self.total, call);
                let role = line.role.clone().unwrap_or_default();
                self.paid.entry(role).or_default().push((line.at, call.clone()));
            }
            HistoryEvent::Decision { kind, choice, user, .. } => {
                let text = format!("{kind}: {choice}");
                self.push(line, "user", &text, &json!({"by": {"kind": "user", "id": user}}));
            }
            HistoryEvent::Picture { name, author, id } => {
                let source =
                    if matches!(author, MessageAuthor::User { .. }) { "user" } else { "system" };
                let extra = json!({"by": author, "picture": id});
                self.push(line, source, &format!("[picture {name}]"), &extra);
            }
            HistoryEvent::Compared { page, views, author } => {
                let pictures = views
                    .iter()
                    .flat_map(|view| view.before.iter().chain([&view.after]).collect::<Vec<_>>());
                let extra = json!({"by": author, "pictures": pictures.collect::<Vec<_>>()});
                let text = format!("[pictures of {page} before and after the change]");
                self.push(line, "system", &text, &extra);
            }
            HistoryEvent::Note { text } | HistoryEvent::Flawed { why: text } => {
                self.push(line, "system", text, &json!({}));
            }
            _ => {}
        }
    }

    fn push(&mut self, line: &HistoryLine, source: &str, message: &str, extra: &Value) -> usize {
        let at = i64::try_from(line.at).ok().and_then(|at| Timestamp::from_millisecond(at).ok());
        let mut step = json!({
            "step_id": self.steps.len() + 1,
            "source": source,
            "message": message,
            "extra": extra,
        });
        if let Some(at) = at {
            step["timestamp"] = json!(at.to_string());
        }
        if let Some(role) = &line.role {
            step["extra"]["role"] = json!(role);
        }
        self.steps.push(step);
        self.steps.len() - 1
    }

    fn answer(&mut self, line: &HistoryLine) {
        let HistoryEvent::Answer { model, text, thoughts, calls } = &line.event else { return };
        let place = self.push(line, "agent", text.as_deref().unwrap_or_default(), &json!({}));
        let step = &mut self.steps[place];
        if let Some(model) = model {
            step["model_name"] = json!(model);
        }
        if let Some(thoughts) = thoughts {
            step["reasoning_content"] = json!(thoughts);
        }
        let named = calls.iter().enumerate();
        let named = named.map(|(n, call)| (format!("call_{}_{}", place + 1, n + 1), call.clone()));
        let named: Vec<_> = named.collect();
        if !named.is_empty() {
            let shown = named.iter().map(|(id, call)| {
                let arguments = serde_json::from_str::<Map<String, Value>>(&call.arguments);
                let arguments =
                    arguments.map_or_else(|_| json!({"text": call.arguments}), Value::Object);
                json!({"tool_call_id": id, "function_name": call.tool, "arguments": arguments})
            });
            step["tool_calls"] = shown.collect();
        }
        self.open.insert(line.source.clone(), (place, named));
        let role = line.role.clone().unwrap_or_default();
        self.answers.entry(role).or_default().push((line.at, place));
    }

    fn result(&mut self, line: &HistoryLine) {
        let HistoryEvent::Tool { call, output, ok, exit_code, millis } = &line.event else {
            return;
        };
        let Some((place, open)) = self.open.get_mut(&line.source) else { return };
        let found = open.iter().position(|(_, one)| one == call);
        let id = found.map(|found| open.remove(found).0);
        let mut extra = json!({"ok": ok});
        if let Some(code) = exit_code {
            extra["exit_code"] = json!(code);
        }
        if let Some(millis) = millis {
            extra["duration_ms"] = json!(millis);
        }
        let mut result = json!({"content": output, "extra": extra});
        if let Some(id) = id {
            result["source_call_id"] = json!(id);
        }
        let step = &mut self.steps[*place];
        match step["observation"]["results"].as_array_mut() {
            Some(results) => results.push(result),
            None => step["observation"] = json!({"results": [result]}),
        }
    }

    fn meter(&mut self, place: usize, paid: &[ModelCall]) {
        let mut sum = ModelCall::default();
        for call in paid {
            add_call(&mut sum, call);
        }
        let last = paid.last();
        let mut extra = meter_json(&sum);
        if let Some(provider) = last.and_then(|call| call.provider.as_ref()) {
            extra["provider"] = json!(provider);
        }
        let step = &mut self.steps[place];
        if let Some(effort) = last.and_then(|call| call.effort.as_ref()) {
            step["reasoning_effort"] = json!(effort);
        }
        step["metrics"] = json!({
            "prompt_tokens": sum.fresh + sum.cached,
            "completion_tokens": sum.answered,
            "cached_tokens": sum.cached,
            "cost_usd": sum.cost.as_f64(),
            "extra": extra,
        });
        step["llm_call_count"] = json!(paid.len());
    }

    /// The whole, as one JSON object.
    pub fn finish(mut self) -> Value {
        for (role, answers) in std::mem::take(&mut self.answers) {
            let paid = self.paid.remove(&role).unwrap_or_default();
            for (place, calls) in pair_calls(answers, paid) {
                self.meter(place, &calls);
            }
        }
        if self.steps.is_empty() {
            // The format has no trajectory without a step.
            let text = "Nothing has happened yet.";
            self.steps.push(json!({"step_id": 1, "source": "system", "message": text}));
        }
        let mut extra = meter_json(&self.total);
        extra["model_calls"] = json!(self.calls);
        json!({
            "schema_version": FORMAT,
            "session_id": self.session,
            "trajectory_id": self.session,
            "agent": {"name": "codebutler", "version": env!("CARGO_PKG_VERSION")},
            "final_metrics": {
                "total_prompt_tokens": self.total.fresh + self.total.cached,
                "total_completion_tokens": self.total.answered,
                "total_cached_tokens": self.total.cached,
                "total_cost_usd": self.total.cost.as_f64(),
                "total_steps": self.steps.len(),
                "extra": extra,
            },
            "steps": self.steps,
        })
    }
}

/// The calls of each answer, by its place. An answer follows its own call at once; a call that has no answer of its
/// own, as one that was repeated, belongs to the next one.
fn pair_calls(
    mut answers: Vec<(u64, usize)>,
    mut calls: Vec<(u64, ModelCall)>,
) -> BTreeMap<usize, Vec<ModelCall>> {
    answers.sort_unstable();
    calls.sort_by_key(|(at, _)| *at);
    let mut owners: Vec<Option<usize>> = vec![None; calls.len()];
    if answers.len() == calls.len() {
        // Whatever their clocks say.
        owners = (0..answers.len()).map(Some).collect();
    }
    for (answer, (at, _)) in answers.iter().enumerate() {
        if owners.contains(&Some(answer)) {
            continue;
        }
        let before = calls.partition_point(|(paid, _)| paid <= at);
        if let Some(own) = (0..before).rev().find(|call| owners[*call].is_none()) {
            owners[own] = Some(answer);
        }
    }
    let mut found: BTreeMap<usize, Vec<ModelCall>> = BTreeMap::new();
    for ((at, call), owner) in calls.into_iter().zip(owners) {
        let next = answers.partition_point(|(answered, _)| *answered < at);
        let owner = owner.unwrap_or_else(|| next.min(answers.len().saturating_sub(1)));
        if let Some((_, place)) = answers.get(owner) {
            found.entry(*place).or_default().push(call);
        }
    }
    found
}

fn add_call(sum: &mut ModelCall, call: &ModelCall) {
    sum.fresh += call.fresh;
    sum.cached += call.cached;
    sum.written += call.written;
    sum.answered += call.answered;
    sum.reasoning += call.reasoning;
    sum.cost += call.cost;
}

fn meter_json(sum: &ModelCall) -> Value {
    let cost: NanoUsd = sum.cost;
    json!({
        "cost_usd": cost.to_string(),
        "cache_write_tokens": sum.written,
        "reasoning_tokens": sum.reasoning,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(role: &str, event: HistoryEvent) -> HistoryLine {
        let (source, role) = (format!("agent/{role}/j"), Some(role.to_owned()));
        HistoryLine {
            v: 1,
            at: 1_700_000_000_000,
            source,
            seq: None,
            key: None,
            role,
            run: None,
            event,
        }
    }

    #[test]
    fn answers_have_what_their_tools_said_and_what_they_cost() {
        let call = |n: u32| ToolUse { tool: "Bash".into(), arguments: format!("{{\"n\":{n}}}") };
        let paid = |nanos| {
            let cost = NanoUsd(nanos);
            HistoryEvent::ModelCall(ModelCall {
                fresh: 10,
                cached: 5,
                cost,
                ..ModelCall::default()
            })
        };
        let answer = |calls| {
            let (model, text) = (Some("m".to_owned()), Some("look".to_owned()));
            HistoryEvent::Answer { model, text, thoughts: Some("hm".into()), calls }
        };
        let result = |n: u32| {
            let output = format!("out {n}");
            HistoryEvent::Tool { call: call(n), output, ok: true, exit_code: None, millis: None }
        };
        let author = MessageAuthor::User { id: "U1".into() };
        let said =
            HistoryEvent::Message { ts: "1.000000".parse().unwrap(), author, text: "hi".into() };
        let mut trajectory = RunTrajectory::new("team/shop-1");
        for (role, event) in [
            ("pm", said),
            ("pm", paid(123_457)),
            ("pm", answer(vec![call(1), call(2)])),
            ("coder", answer(vec![call(1)])),
            ("pm", result(2)),
            ("pm", result(1)),
            ("coder", result(1)),
            ("coder", paid(1)),
        ] {
            trajectory.add(&line(role, event));
        }
        let whole = trajectory.finish();
        let steps = whole["steps"].as_array().unwrap();
        let ids: Vec<_> = steps.iter().map(|step| step["step_id"].as_u64().unwrap()).collect();
        assert_eq!(ids, [1, 2, 3]);
        assert_eq!(
            (steps[0]["source"].as_str(), steps[1]["source"].as_str()),
            (Some("user"), Some("agent"))
        );
        let results = &steps[1]["observation"]["results"];
        assert_eq!(results[0]["source_call_id"], "call_2_2");
        assert_eq!(results[1]["source_call_id"], "call_2_1");
        assert_eq!(results[0]["extra"], json!({"ok": true}));
        assert_eq!(steps[1]["metrics"]["prompt_tokens"], 15);
        assert_eq!(
            (&steps[1]["llm_call_count"], &steps[2]["llm_call_count"]),
            (&json!(1), &json!(1))
        );
        assert_eq!(flaws(&RunTrajectory::new("team/empty-1").finish()), Vec::<String>::new());
        assert_eq!(steps[2]["metrics"]["extra"]["cost_usd"], "0.000000001");
        assert_eq!(steps[2]["observation"]["results"][0]["source_call_id"], "call_3_1");
        assert_eq!(steps[1]["tool_calls"][1]["arguments"], json!({"n": 2}));
        assert_eq!(whole["final_metrics"]["extra"]["cost_usd"], "0.000123458");
        assert_eq!(whole["schema_version"], FORMAT);
        assert!(steps[0].get("tool_calls").is_none() && steps[0].get("metrics").is_none());
        assert_eq!(flaws(&whole), Vec::<String>::new());
    }

    #[test]
    fn each_answer_has_the_cost_of_its_own_call_however_late_it_is_told() {
        let call =
            |at: u64, nanos: u64| (at, ModelCall { cost: NanoUsd(nanos), ..ModelCall::default() });
        let costs = |answers: &[u64], calls: &[(u64, u64)]| {
            let answers = answers.iter().enumerate().map(|(place, at)| (*at, place)).collect();
            let calls = calls.iter().map(|(at, nanos)| call(*at, *nanos)).collect();
            let found = pair_calls(answers, calls).into_iter();
            let costs = |calls: Vec<ModelCall>| calls.iter().map(|one| one.cost.0).collect();
            found.map(|(place, calls)| (place, costs(calls))).collect::<Vec<(usize, Vec<u64>)>>()
        };
        assert_eq!(costs(&[15, 25], &[(10, 1), (20, 2)]), [(0, vec![1]), (1, vec![2])]);
        // A clock that is behind.
        assert_eq!(costs(&[8, 18], &[(10, 1), (20, 2)]), [(0, vec![1]), (1, vec![2])]);
        // A call that was repeated, and one whose answer never came.
        let repeated = [(10, 1), (20, 2), (22, 3), (30, 4)];
        assert_eq!(costs(&[11, 23], &repeated), [(0, vec![1]), (1, vec![2, 3, 4])]);
        // Two at the same time.
        assert_eq!(costs(&[12, 13], &[(10, 1), (11, 2), (13, 3)]), [(0, vec![1, 2]), (1, vec![3])]);
        assert_eq!(costs(&[11, 12], &[(10, 1)]), [(0, vec![1])]);
        assert_eq!(costs(&[], &[(10, 1)]), []);
    }

    /// Lists the fields of a value that the format doesn't have, and those that it needs and the
    /// value lacks.
    fn fields(at: &str, value: &Value, needed: &[&str], known: &[&str]) -> Vec<String> {
        let Some(object) = value.as_object() else { return vec![format!("{at} is no object")] };
        let lacking = needed.iter().filter(|name| object.get(**name).is_none_or(Value::is_null));
        let odd = object.keys().filter(|name| {
            let name = name.as_str();
            !needed.contains(&name) && !known.contains(&name) && name != "extra"
        });
        let lacking = lacking.map(|name| format!("{at} lacks {name}"));
        lacking.chain(odd.map(|name| format!("{at} has {name}"))).collect()
    }

    /// Lists the flaws of a trajectory: only the format's fields are allowed, steps are counted
    /// from one, the model's fields are in steps of the agent alone, and results belong to calls of
    /// the same step.
    fn flaws(whole: &Value) -> Vec<String> {
        const AGENT: [&str; 5] =
            ["model_name", "reasoning_effort", "reasoning_content", "tool_calls", "metrics"];
        const ANY: [&str; 3] = ["timestamp", "observation", "llm_call_count"];
        let root = ["schema_version", "session_id", "trajectory_id", "agent", "steps"];
        let mut flaws = fields("root", whole, &root, &["notes", "final_metrics"]);
        flaws.extend(fields("agent", &whole["agent"], &["name", "version"], &["model_name"]));
        let steps = whole["steps"].as_array().cloned().unwrap_or_default();
        if steps.is_empty() {
            flaws.push("there are no steps".to_owned());
        }
        if whole["final_metrics"]["total_steps"] != json!(steps.len()) {
            flaws.push("total_steps is another number".to_owned());
        }
        for (n, step) in steps.iter().enumerate() {
            let at = format!("step {}", n + 1);
            let known = [&AGENT[..], &ANY].concat();
            flaws.extend(fields(&at, step, &["step_id", "source", "message"], &known));
            if step["step_id"] != json!(n + 1) {
                flaws.push(format!("{at} is counted wrongly"));
            }
            match step["source"].as_str() {
                Some("agent") => {}
                Some("user" | "system") => {
                    let own = AGENT.iter().filter(|name| step.get(**name).is_some());
                    flaws.extend(own.map(|name| format!("{at} has {name} and is not the agent's")));
                }
                _ => flaws.push(format!("{at} is of nobody")),
            }
            let asked = step.get("llm_call_count").and_then(Value::as_u64);
            if asked.is_some_and(|asked| asked > 0) != step.get("metrics").is_some() {
                flaws.push(format!("{at} has another number of calls than it has metrics of"));
            }
            let time = step.get("timestamp").and_then(Value::as_str);
            if step.get("timestamp").is_some()
                && time.is_none_or(|time| time.parse::<Timestamp>().is_err())
            {
                flaws.push(format!("{at} is at no time"));
            }
            let calls = step["tool_calls"].as_array().cloned().unwrap_or_default();
            for call in &calls {
                let needed = ["tool_call_id", "function_name", "arguments"];
                flaws.extend(fields(&format!("a call of {at}"), call, &needed, &[]));
                if !call["arguments"].is_object() {
                    flaws.push(format!("a call of {at} has no arguments by name"));
                }
            }
            for result in step["observation"]["results"].as_array().into_iter().flatten() {
                let known = ["source_call_id", "content", "subagent_trajectory_ref"];
                flaws.extend(fields(&format!("a result of {at}"), result, &[], &known));
                let of = result.get("source_call_id");
                if of.is_some_and(|of| !calls.iter().any(|call| call["tool_call_id"] == *of)) {
                    flaws.push(format!("a result of {at} is of no call of it"));
                }
            }
            for count in ["prompt_tokens", "completion_tokens", "cached_tokens"] {
                if step.get("metrics").is_some_and(|metrics| !metrics[count].is_u64()) {
                    flaws.push(format!("{at} has no whole number of {count}"));
                }
            }
        }
        flaws
    }

    #[test]
    fn whatever_comes_in_whatever_order_is_a_trajectory_and_a_flawed_one_is_found() {
        let call = ToolUse { tool: "Bash".into(), arguments: "no JSON".into() };
        let result = HistoryEvent::Tool {
            call: call.clone(),
            output: "x".into(),
            ok: false,
            exit_code: None,
            millis: None,
        };
        let answer =
            HistoryEvent::Answer { model: None, text: None, thoughts: None, calls: vec![call] };
        let mut trajectory = RunTrajectory::new("team/shop-1");
        for (role, event) in [
            ("pm", result.clone()),
            ("pm", HistoryEvent::Note { text: String::new() }),
            ("pm", answer),
            ("pm", result.clone()),
            ("pm", result),
            ("pm", HistoryEvent::ModelCall(ModelCall::default())),
            ("pm", HistoryEvent::ModelCall(ModelCall::default())),
            ("coder", HistoryEvent::Flawed { why: "cut".into() }),
        ] {
            trajectory.add(&line(role, event));
        }
        let whole = trajectory.finish();
        assert_eq!(flaws(&whole), Vec::<String>::new());
        let agent = whole["steps"].as_array().unwrap().iter().position(|s| s["source"] == "agent");
        let agent = agent.unwrap();
        for (path, value) in [
            ("surprise", json!(1)),
            ("step_id", json!(9)),
            ("source", json!("user")),
            ("timestamp", json!("yesterday")),
            ("tool_calls", json!([])),
            ("metrics", json!({"prompt_tokens": 1.5})),
        ] {
            let mut flawed = whole.clone();
            flawed["steps"][agent][path] = value;
            assert!(!flaws(&flawed).is_empty(), "{path}");
        }
    }
}
