//! Puts the events of a streamed answer together to the whole that it is a stream of. Pure.
//!
//! Servers on slow machines are asked for streams although their caller wants a whole: then it can be seen
//! that something still comes, and how fast.

mod block;
mod piece;

use std::collections::BTreeMap;

use memchr::memmem;
use serde::de::IgnoredAny;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};

use self::block::{append_text, merge_block};
pub(crate) use self::piece::find_usage;
use self::piece::read_piece;
use super::billing::{self, ProviderBill};
use super::complaint;
use super::request::SIGNATURES;

/// Longest line that is looked into: pictures come in one piece.
const LONGEST: usize = 32 * 1024 * 1024;
/// Texts that come in pieces.
const TEXTS: [&str; 5] = ["content", "refusal", "reasoning", "reasoning_content", "thinking"];
/// Lists of such blocks: OpenRouter's, and LiteLLM's.
const BLOCKS: [&str; 2] = ["reasoning_details", "thinking_blocks"];
/// Fields that are the same for a whole answer.
const HEAD: [&str; 6] =
    ["id", "created", "model", "provider", "system_fingerprint", "service_tier"];

#[derive(Debug, Default)]
pub struct StreamedAnswer {
    /// A line that is not complete yet.
    line: Vec<u8>,
    /// True if the last line ended with the first half of CRLF.
    after_return: bool,
    /// Lines of data of an event that goes on: none of them is JSON by itself.
    event: Vec<u8>,
    head: Map<String, Value>,
    choices: BTreeMap<u64, StreamedChoice>,
    usage: Option<StreamedUsage>,
    error: Option<Value>,
    /// True if the end was announced.
    done: bool,
    /// True if a piece could not be read: what stands around it is not the answer.
    has_gap: bool,
    /// Pieces with something of the answer in them: most servers send one for each token.
    pieces: u64,
}

#[derive(Debug)]
struct StreamedUsage {
    /// Usage as it came: money never passes through a float.
    told: Box<RawValue>,
    /// True if it came without a piece of the answer, or with its end, or after that.
    is_final: bool,
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
    /// Fields that have to come back with it.
    signature: Map<String, Value>,
}

impl StreamedAnswer {
    /// Takes the next bytes of the stream.
    pub fn take(&mut self, mut bytes: &[u8]) {
        while let Some(end) = memchr::memchr2(b'\n', b'\r', bytes) {
            self.keep(&bytes[..end]);
            let is_rest = self.after_return && bytes[end] == b'\n' && self.line.is_empty();
            self.after_return = bytes[end] == b'\r';
            bytes = &bytes[end + 1..];
            if !is_rest {
                let line = std::mem::take(&mut self.line);
                self.read_line(&line);
            }
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

    /// True if a piece could not be read.
    pub const fn has_gap(&self) -> bool {
        self.has_gap
    }

    /// The bill that the stream has told, whatever became of the answer. Some providers report the usage so far with each
    /// piece: of an answer that broke off, that is less than what is billed.
    pub fn bill(&self) -> Option<ProviderBill> {
        let usage = self.usage.as_ref()?;
        if !(usage.is_final || self.done) {
            return None;
        }
        let usage = usage.told.get();
        let bill = billing::read_bill(format!("{{\"choices\":[],\"usage\":{usage}}}").as_bytes());
        bill.filter(ProviderBill::says_something)
    }

    /// True if all choices have come to their end.
    fn has_ended(&self) -> bool {
        let mut all = self.choices.values();
        !self.choices.is_empty() && all.all(|choice| choice.end.contains_key("finish_reason"))
    }

    /// Reads what is left at the end of the stream.
    pub fn end(&mut self) {
        let last = std::mem::take(&mut self.line);
        self.read_line(&last);
        self.end_event();
    }

    /// The whole answer in OpenAI's form; nothing if the stream broke off.
    pub fn into_whole(mut self) -> Option<Vec<u8>> {
        self.end();
        if self.error.is_none() && (self.has_gap || !self.done && !self.has_ended()) {
            return None;
        }
        let said = self.choices.values().any(StreamedChoice::says_something);
        let is_billed = self.bill().is_some();
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
        // Tokens that came before an error are not for nothing.
        let is_answered = if fields.contains_key("error") { self.pieces > 0 } else { self.done };
        if !self.choices.is_empty() || is_answered {
            let choices = self.choices.into_iter().map(|(index, choice)| choice.whole(index));
            fields.insert("choices", to_raw_value(&choices.collect::<Vec<_>>()).ok()?);
        }
        if let Some(usage) = self.usage.filter(|_| is_billed) {
            fields.insert("usage", usage.told);
        }
        serde_json::to_vec(&fields).ok()
    }

    fn read_line(&mut self, line: &[u8]) {
        if line.is_empty() {
            self.end_event();
            return;
        }
        // Older servers of llama.cpp put an error in a field of its own.
        if let Some(Ok(error)) = line.strip_prefix(b"error:").map(serde_json::from_slice::<Value>) {
            self.error = Some(error);
            return;
        }
        // Some write an error as it is, without any field of an event.
        if line.starts_with(b"{\"error\"")
            && let Some(Value::Object(mut chunk)) = read_piece(line)
        {
            let error = chunk.remove("error").filter(|error| !error.is_null());
            self.error = error.or_else(|| self.error.take());
            return;
        }
        let Some(data) = line.strip_prefix(b"data:").map(<[u8]>::trim_ascii) else { return };
        if data == b"[DONE]" {
            self.end_event();
            self.done = true;
        } else if self.event.is_empty() {
            if !self.take_data(data) {
                // As in any stream of events, the next line may be the rest of it.
                self.event.extend_from_slice(data);
            }
        } else if self.event.len() + data.len() < LONGEST {
            self.event.push(b'\n');
            self.event.extend_from_slice(data);
        } else {
            self.event.clear();
            self.has_gap = true;
        }
    }

    /// Reads an event of several lines. Only the whole is tried: each of many lines would be read again and again.
    fn end_event(&mut self) {
        let event = std::mem::take(&mut self.event);
        if event.is_empty() || self.take_data(&event) {
            return;
        }
        self.has_gap = true;
        // Of a server that leaves out empty lines these are events of their own: one may have the bill.
        for line in event.split(|byte| *byte == b'\n') {
            self.take_data(line);
        }
    }

    /// Takes the data of an event; false for an object that can't be read. What is none, such as `ping`, keeps the
    /// connection open.
    fn take_data(&mut self, data: &[u8]) -> bool {
        match read_piece(data) {
            Some(Value::Object(chunk)) => {
                self.take_chunk(chunk, data);
                true
            }
            Some(_) => true,
            None => !data.starts_with(b"{"),
        }
    }

    fn take_chunk(&mut self, mut chunk: Map<String, Value>, data: &[u8]) {
        // vLLM's form of an error.
        if chunk.get("object").is_some_and(|object| object == "error") {
            self.error = Some(chunk.into());
            return;
        }
        if let Some(base) = chunk.get("base_resp").filter(|base| complaint::is_failed(base)) {
            self.error = Some(json!({"message": base["status_msg"], "base_resp": base}));
        }
        let mut has_usage = false;
        if memmem::find(data, b"\"usage\"").is_some()
            && let Some(usage) = find_usage(data)
        {
            let choices = chunk.get("choices").and_then(Value::as_array);
            let is_final = choices.is_none_or(Vec::is_empty);
            self.usage = Some(StreamedUsage { told: usage.to_owned(), is_final });
            has_usage = true;
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
        let has_ended = self.has_ended();
        if let Some(usage) = self.usage.as_mut().filter(|_| has_usage) {
            usage.is_final |= has_ended;
        }
    }
}

impl StreamedChoice {
    /// Takes a piece, and says whether something of the answer is in it.
    fn take(&mut self, mut choice: Map<String, Value>) -> bool {
        let delta = choice.remove("delta").filter(|delta| !delta.is_null());
        let is_last = choice.get("finish_reason").is_some_and(|end| !end.is_null() && *end != "");
        let message = choice.remove("message");
        let message = message.map(|whole| if is_last { self.unsaid(whole) } else { whole });
        let delta = delta.or(message);
        choice.retain(|name, value| !value.is_null() && *value != "" && name != "index");
        self.end.append(&mut choice);
        let Some(Value::Object(delta)) = delta else { return false };
        let mut has_part = false;
        for (name, value) in delta {
            has_part |= self.take_part(&name, value);
        }
        has_part
    }

    /// A message without what has come in pieces: MiniMax and others end a stream with the whole of it.
    fn unsaid(&self, whole: Value) -> Value {
        let Value::Object(mut whole) = whole else { return whole };
        for name in TEXTS {
            let said = self.message.get(name).and_then(Value::as_str).unwrap_or_default();
            let again = whole.get(name).and_then(Value::as_str).unwrap_or_default();
            let is_same = again.trim() == said.trim();
            let rest = if is_same { Some("") } else { again.strip_prefix(said) };
            if let Some(rest) = rest.filter(|_| !said.is_empty()).map(Value::from) {
                whole.insert(name.to_owned(), rest);
            }
        }
        if let Some(Value::Array(calls)) = whole.get_mut("tool_calls") {
            calls.retain(|call| !self.calls.iter().any(|known| known.is_again(call)));
        }
        let has_come = |name: &str| BLOCKS.contains(&name) && self.message.contains_key(name);
        whole.retain(|name, _| !has_come(name));
        whole.into()
    }

    fn take_part(&mut self, name: &str, value: Value) -> bool {
        match value {
            Value::Null => false,
            // As older servers of Hugging Face (TGI) have it.
            Value::Object(call) if name == "tool_calls" => {
                self.take_call(&call.into());
                true
            }
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
            Value::Array(blocks) if BLOCKS.contains(&name) => {
                let known = self.message.entry(name).or_insert_with(|| json!([]));
                let Value::Array(known) = known else { return false };
                for block in blocks {
                    merge_block(known, block);
                }
                true
            }
            Value::Array(mut parts) => {
                let known = self.message.entry(name).or_insert_with(|| json!([]));
                if let Value::String(text) = known {
                    let text = std::mem::take(text);
                    let said = Some(text).filter(|text| !text.is_empty());
                    let said = said.map(|text| json!({"type": "text", "text": text}));
                    *known = said.into_iter().collect();
                }
                match known {
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
        let name = function["name"].as_str().unwrap_or_default();
        let begins = match &function["arguments"] {
            Value::String(text) => text.trim_start().starts_with('{'),
            whole => whole.is_object(),
        };
        // The newest first: some give all calls of an answer the same index.
        let found = self.calls.iter().rposition(|call| match index {
            Some(_) => call.index == index && !call.is_followed_by(id, name, begins),
            None => !id.is_empty() && call.id == id,
        });
        let is_next = id.is_empty() && function["name"].is_null();
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
            name.clone_into(&mut call.name);
        }
        call.custom |= custom;
        for name in SIGNATURES {
            let mut places = [&piece[name], &function[name]].into_iter();
            if let Some(fields) = places.find(|fields| fields.is_object()) {
                call.signature.insert(name.to_owned(), fields.clone());
            }
        }
        match &function[if custom { "input" } else { "arguments" }] {
            Value::String(text) => call.arguments.push_str(text),
            Value::Null => {}
            whole => call.arguments = whole.to_string(),
        }
    }

    fn says_something(&self) -> bool {
        let is_said = |text: &Value| text.as_str().is_some_and(|text| !text.trim().is_empty());
        let content = self.message.get("content").unwrap_or(&Value::Null);
        let mut parts = content.as_array().into_iter().flatten();
        !self.calls.is_empty() || is_said(content) || parts.any(|part| is_said(&part["text"]))
    }

    fn whole(self, index: u64) -> Value {
        let Self { mut message, calls, end } = self;
        let blocks = message.get_mut(BLOCKS[1]).and_then(Value::as_array_mut);
        for block in blocks.into_iter().flatten().filter_map(Value::as_object_mut) {
            // It tells the pieces of a stream apart, and is no field of a whole block.
            block.shift_remove("index");
        }
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
    /// True if a whole call is this one, which has come in pieces. Some give no ids.
    fn is_again(&self, call: &Value) -> bool {
        let id = call["id"].as_str().unwrap_or_default();
        let function = &call["function"];
        let is_same = || {
            function["name"] == self.name.as_str()
                && function["arguments"] == self.arguments.as_str()
        };
        if id.is_empty() { is_same() } else { self.id == id }
    }

    /// True if a piece with this id and name begins another call, since this one is whole. Some give no ids: there
    /// it has to begin with arguments.
    fn is_followed_by(&self, id: &str, name: &str, begins: bool) -> bool {
        if name.is_empty() || !id.is_empty() && id == self.id {
            return false;
        }
        let is_other = !id.is_empty() && !self.id.is_empty();
        match self.arguments.trim() {
            "" => is_other && name != self.name,
            arguments => {
                (is_other || begins) && serde_json::from_str::<IgnoredAny>(arguments).is_ok()
            }
        }
    }

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
        if let Some(call) = call.as_object_mut() {
            call.extend(self.signature);
        }
        call
    }
}

#[cfg(test)]
mod tests;
