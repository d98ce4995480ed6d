//! Puts the events of a streamed answer together to the whole that it is a stream of. Pure.
//!
//! Servers on slow machines are asked for streams although their caller wants a whole: then it can be seen
//! that something still comes, and how fast.

use std::collections::BTreeMap;

use memchr::memmem;
use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};

/// Longest line that is looked into: pictures come in one piece.
const LONGEST: usize = 32 * 1024 * 1024;
/// Texts that come in pieces.
const TEXTS: [&str; 5] = ["content", "refusal", "reasoning", "reasoning_content", "thinking"];
/// Texts of a block of reasoning that come in pieces.
const BLOCK_TEXTS: [&str; 4] = ["text", "summary", "data", "arguments"];
/// Fields that are the same for a whole answer.
const HEAD: [&str; 6] =
    ["id", "created", "model", "provider", "system_fingerprint", "service_tier"];

#[derive(Debug, Default)]
pub struct StreamedAnswer {
    /// A line that is not complete yet.
    line: Vec<u8>,
    head: Map<String, Value>,
    choices: BTreeMap<u64, StreamedChoice>,
    /// Usage as it came: money never passes through a float.
    usage: Option<Box<RawValue>>,
    error: Option<Value>,
    /// True if the end was announced.
    done: bool,
    /// Pieces with something of the answer in them: most servers send one for each token.
    pieces: u64,
}

#[derive(Debug, Default)]
struct StreamedChoice {
    message: Map<String, Value>,
    calls: Vec<StreamedCall>,
    /// Finish reason, and whatever else is said of its end.
    end: Map<String, Value>,
}

#[derive(Debug, Default)]
struct StreamedCall {
    index: Option<u64>,
    id: String,
    name: String,
    arguments: String,
    /// True if the argument is free text.
    custom: bool,
}

#[derive(Deserialize)]
struct WithUsage<'a> {
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
}

impl StreamedAnswer {
    /// Takes the next bytes of the stream.
    pub fn take(&mut self, mut bytes: &[u8]) {
        while let Some(end) = memchr::memchr2(b'\n', b'\r', bytes) {
            self.keep(&bytes[..end]);
            let line = std::mem::take(&mut self.line);
            self.read_line(&line);
            bytes = &bytes[end + 1..];
        }
        self.keep(bytes);
    }

    fn keep(&mut self, bytes: &[u8]) {
        if self.line.len() + bytes.len() <= LONGEST {
            self.line.extend_from_slice(bytes);
        }
    }

    /// The provider's id of the answer, once it is known.
    pub fn id(&self) -> Option<&str> {
        self.head.get("id")?.as_str()
    }

    /// Pieces that have come: zero until the answer has begun.
    pub const fn pieces(&self) -> u64 {
        self.pieces
    }

    /// The whole answer in OpenAI's form; nothing if the stream broke off.
    pub fn into_whole(mut self) -> Option<Vec<u8>> {
        let last = std::mem::take(&mut self.line);
        self.read_line(&last);
        let ended = self.choices.values().any(|choice| choice.end.contains_key("finish_reason"));
        if !self.done && !ended && self.error.is_none() {
            return None;
        }
        let said = self.choices.values().any(StreamedChoice::says_something);
        let mut fields: BTreeMap<&str, Box<RawValue>> = BTreeMap::new();
        let mut put = |name, value: &Value| {
            fields.insert(name, to_raw_value(value).ok()?);
            Some(())
        };
        for name in HEAD {
            if let Some(value) = self.head.get(name) {
                put(name, value)?;
            }
        }
        put("object", &"chat.completion".into())?;
        match self.error {
            // Words came before it: it is the end of this choice.
            Some(error) if said => {
                let choice = self.choices.values_mut().next()?;
                choice.end.insert("finish_reason".to_owned(), "error".into());
                choice.end.insert("error".to_owned(), error);
            }
            Some(error) => {
                put("error", &error)?;
                self.choices.clear();
            }
            None => {}
        }
        if !self.choices.is_empty() || self.done && !fields.contains_key("error") {
            let choices = self.choices.into_iter().map(|(index, choice)| choice.whole(index));
            fields.insert("choices", to_raw_value(&choices.collect::<Vec<_>>()).ok()?);
        }
        if let Some(usage) = self.usage {
            fields.insert("usage", usage);
        }
        serde_json::to_vec(&fields).ok()
    }

    fn read_line(&mut self, line: &[u8]) {
        let Some(data) = line.strip_prefix(b"data:").map(<[u8]>::trim_ascii) else { return };
        if data == b"[DONE]" {
            self.done = true;
            return;
        }
        let Ok(Value::Object(mut chunk)) = serde_json::from_slice::<Value>(data) else { return };
        if memmem::find(data, b"\"usage\"").is_some()
            && let Ok(WithUsage { usage: Some(usage) }) = serde_json::from_slice(data)
            && usage.get().starts_with('{')
        {
            self.usage = Some(usage.to_owned());
        }
        for name in HEAD {
            match chunk.remove(name) {
                None | Some(Value::Null) => {}
                Some(value) => drop(self.head.entry(name).or_insert(value)),
            }
        }
        if let Some(error) = chunk.remove("error").filter(|error| !error.is_null()) {
            self.error = Some(error);
        }
        let Some(Value::Array(choices)) = chunk.remove("choices") else { return };
        for (place, choice) in choices.into_iter().enumerate() {
            let Value::Object(choice) = choice else { continue };
            let place = u64::try_from(place).unwrap_or(u64::MAX);
            let index = choice.get("index").and_then(Value::as_u64).unwrap_or(place);
            self.pieces += u64::from(self.choices.entry(index).or_default().take(choice));
        }
    }
}

impl StreamedChoice {
    /// Takes a piece, and says whether something of the answer is in it.
    fn take(&mut self, mut choice: Map<String, Value>) -> bool {
        let delta = choice.remove("delta").filter(|delta| !delta.is_null());
        let delta = delta.or_else(|| choice.remove("message"));
        choice.retain(|name, value| !value.is_null() && name != "index");
        self.end.append(&mut choice);
        let Some(Value::Object(delta)) = delta else { return false };
        let mut has_part = false;
        for (name, value) in delta {
            has_part |= self.take_part(&name, value);
        }
        has_part
    }

    fn take_part(&mut self, name: &str, value: Value) -> bool {
        match value {
            Value::Null => false,
            Value::String(text) if TEXTS.contains(&name) => {
                append_text(&mut self.message, name, &text);
                !text.is_empty()
            }
            Value::Array(calls) if name == "tool_calls" => {
                for call in &calls {
                    self.take_call(call);
                }
                !calls.is_empty()
            }
            Value::Array(blocks) if name == "reasoning_details" => {
                let known = self.message.entry(name).or_insert_with(|| json!([]));
                let Value::Array(known) = known else { return false };
                for block in blocks {
                    merge_block(known, block);
                }
                true
            }
            Value::Array(mut parts) => {
                match self.message.entry(name).or_insert_with(|| json!([])) {
                    Value::Array(known) => known.append(&mut parts),
                    other => *other = Value::Array(parts),
                }
                true
            }
            other => {
                self.message.insert(name.to_owned(), other);
                false
            }
        }
    }

    /// A piece of a call belongs to the one with its index, or its id, or to the last one.
    fn take_call(&mut self, piece: &Value) {
        let index = piece["index"].as_u64();
        let id = piece["id"].as_str().unwrap_or_default();
        let custom = piece["custom"].is_object();
        let function = &piece[if custom { "custom" } else { "function" }];
        let found = self.calls.iter().position(|call| match index {
            Some(_) => call.index == index,
            None => !id.is_empty() && call.id == id,
        });
        let is_next = index.is_none() && id.is_empty() && function["name"].is_null();
        let place = found.or_else(|| self.calls.len().checked_sub(1).filter(|_| is_next));
        let place = place.unwrap_or_else(|| {
            self.calls.push(StreamedCall { index, ..StreamedCall::default() });
            self.calls.len() - 1
        });
        let Some(call) = self.calls.get_mut(place) else { return };
        if call.id.is_empty() {
            id.clone_into(&mut call.id);
        }
        // Some repeat the name in each piece.
        if call.name.is_empty() {
            function["name"].as_str().unwrap_or_default().clone_into(&mut call.name);
        }
        call.custom |= custom;
        match &function[if custom { "input" } else { "arguments" }] {
            Value::String(text) => call.arguments.push_str(text),
            Value::Null => {}
            whole => call.arguments = whole.to_string(),
        }
    }

    fn says_something(&self) -> bool {
        let text = |name: &str| self.message.get(name).and_then(Value::as_str);
        !self.calls.is_empty() || text("content").is_some_and(|text| !text.trim().is_empty())
    }

    fn whole(self, index: u64) -> Value {
        let Self { mut message, calls, end } = self;
        message.entry("role").or_insert_with(|| "assistant".into());
        message.entry("content").or_insert(Value::Null);
        if !calls.is_empty() {
            let calls = calls.into_iter().map(StreamedCall::whole);
            message.insert("tool_calls".to_owned(), calls.collect());
        }
        let mut choice = end;
        choice.insert("index".to_owned(), index.into());
        choice.insert("message".to_owned(), message.into());
        choice.entry("finish_reason").or_insert(Value::Null);
        choice.into()
    }
}

impl StreamedCall {
    fn whole(self) -> Value {
        let mut call = if self.custom {
            json!({"type": "custom", "custom": {"name": self.name, "input": self.arguments}})
        } else {
            let function = json!({"name": self.name, "arguments": self.arguments});
            json!({"type": "function", "function": function})
        };
        if !self.id.is_empty() {
            call["id"] = self.id.into();
        }
        call
    }
}

fn append_text(message: &mut Map<String, Value>, name: &str, text: &str) {
    match message.entry(name).or_insert_with(|| "".into()) {
        Value::String(known) => known.push_str(text),
        other => *other = text.into(),
    }
}

/// A block of reasoning that goes on, or another one: what is signed has to come back as it was.
fn merge_block(known: &mut Vec<Value>, block: Value) {
    let same = |other: &Value| {
        other["type"] == block["type"]
            && !block["index"].is_null()
            && other["index"] == block["index"]
    };
    let Some(Value::Object(target)) = known.iter_mut().find(|other| same(other)) else {
        known.push(block);
        return;
    };
    let Value::Object(block) = block else { return };
    for (name, value) in block {
        match value {
            Value::Null => {}
            Value::String(text) if BLOCK_TEXTS.contains(&name.as_str()) => {
                append_text(target, &name, &text);
            }
            value => drop(target.insert(name, value)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(events: &[Value], end: &str) -> Option<Value> {
        let mut stream = ": a remark\n\n".to_owned();
        stream.extend(events.iter().map(|event| format!("data: {event}\r\n\r\n")));
        stream.push_str(end);
        let wholes = [1, 7, 10_000].map(|size| {
            let mut answer = StreamedAnswer::default();
            stream.as_bytes().chunks(size).for_each(|piece| answer.take(piece));
            answer.into_whole()
        });
        assert!(wholes.iter().all(|whole| *whole == wholes[0]), "wherever it is cut");
        wholes.into_iter().next()?.map(|whole| serde_json::from_slice(&whole).unwrap())
    }

    fn piece(delta: &Value) -> Value {
        json!({"id": "c1", "model": "m", "object": "chat.completion.chunk",
            "choices": [{"index": 0, "delta": delta, "finish_reason": null}]})
    }

    fn finish(reason: &str) -> Value {
        json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
    }

    #[test]
    fn pieces_add_up_to_the_whole_answer() {
        let events = [
            piece(&json!({"role": "assistant", "content": null})),
            piece(&json!({"reasoning_content": "hm"})),
            piece(&json!({"content": "I read"})),
            piece(&json!({"content": " it."})),
            piece(&json!({"tool_calls": [{"index": 0, "id": "a", "type": "function",
                "function": {"name": "Read", "arguments": ""}}]})),
            piece(&json!({"tool_calls": [{"index": 0, "function": {"arguments": "{\"path\":"}}]})),
            piece(
                &json!({"tool_calls": [{"index": 1, "id": "b", "function": {"name": "Glob", "arguments": {"x": 1}}}]}),
            ),
            piece(
                &json!({"tool_calls": [{"index": 0, "function": {"name": "Read", "arguments": "\"é\"}"}}]}),
            ),
            finish("tool_calls"),
        ];
        let usage = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"cost\":0.0123456789}}\n\ndata: [DONE]\n\n";
        let answer = whole(&events, usage).unwrap();
        assert_eq!(
            answer["choices"],
            json!([{"index": 0, "finish_reason": "tool_calls", "message": {
            "role": "assistant", "content": "I read it.", "reasoning_content": "hm",
            "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "Read", "arguments": "{\"path\":\"é\"}"}},
                {"id": "b", "type": "function", "function": {"name": "Glob", "arguments": "{\"x\":1}"}},
            ]}}])
        );
        assert_eq!((&answer["id"], &answer["model"]), (&json!("c1"), &json!("m")));
        assert_eq!(answer["object"], "chat.completion");
        let mut exact = StreamedAnswer::default();
        exact.take(usage.as_bytes());
        let text = String::from_utf8(exact.into_whole().unwrap()).unwrap();
        assert!(text.contains("\"cost\":0.0123456789"), "{text}");
    }

    #[test]
    fn calls_without_indexes_go_by_their_ids_and_their_order() {
        let events = [
            piece(
                &json!({"tool_calls": [{"id": "a", "function": {"name": "Read", "arguments": "{}"}}]}),
            ),
            piece(
                &json!({"tool_calls": [{"id": "b", "function": {"name": "Glob", "arguments": "{"}}]}),
            ),
            piece(&json!({"tool_calls": [{"function": {"arguments": "}"}}]})),
            finish("stop"),
        ];
        let answer = whole(&events, "").unwrap();
        let calls = answer["choices"][0]["message"]["tool_calls"].as_array().unwrap();
        let named = |n: usize| (&calls[n]["id"], &calls[n]["function"]["arguments"]);
        assert_eq!(calls.len(), 2);
        assert_eq!(named(0), (&json!("a"), &json!("{}")));
        assert_eq!(named(1), (&json!("b"), &json!("{}")));
    }

    #[test]
    fn signed_thoughts_stay_as_they_were() {
        let block = |text: &str| {
            json!({"reasoning_details": [
            {"type": "reasoning.text", "index": 0, "text": text, "signature": null}]})
        };
        let signed = json!({"reasoning_details": [
            {"type": "reasoning.text", "index": 0, "signature": "s"},
            {"type": "reasoning.encrypted", "index": 1, "data": "x"}]});
        let events = [piece(&block("I ")), piece(&block("think")), piece(&signed), finish("stop")];
        let answer = whole(&events, "data: [DONE]\n").unwrap();
        assert_eq!(
            answer["choices"][0]["message"]["reasoning_details"],
            json!([{"type": "reasoning.text", "index": 0, "text": "I think", "signature": "s"},
                {"type": "reasoning.encrypted", "index": 1, "data": "x"}])
        );
    }

    #[test]
    fn what_broke_off_is_no_answer_and_an_error_is_one() {
        let words = || piece(&json!({"content": "half"}));
        assert_eq!(whole(&[words()], ""), None, "no end");
        assert_eq!(whole(&[], ""), None);
        let failed = json!({"error": {"code": 502, "message": "gone"}, "choices": [
            {"index": 0, "delta": {"content": ""}, "finish_reason": "error"}]});
        let after_words = whole(&[words(), failed.clone()], "").unwrap();
        assert_eq!(after_words["choices"][0]["error"]["code"], 502);
        assert_eq!(after_words["choices"][0]["finish_reason"], "error");
        let at_once = whole(&[failed], "").unwrap();
        assert_eq!((&at_once["error"]["code"], &at_once["choices"]), (&json!(502), &Value::Null));
        let no_end_but_a_finish = whole(&[words(), finish("length")], "").unwrap();
        assert_eq!(no_end_but_a_finish["choices"][0]["finish_reason"], "length");
    }

    #[test]
    fn an_answer_has_begun_with_its_first_words() {
        let mut answer = StreamedAnswer::default();
        answer.take(
            format!("data: {}\n\n", piece(&json!({"role": "assistant", "content": ""}))).as_bytes(),
        );
        assert_eq!((answer.pieces(), answer.id()), (0, Some("c1")));
        answer.take(format!("data: {}\n\n", piece(&json!({"content": "a"}))).as_bytes());
        assert_eq!(answer.pieces(), 1);
    }
}
