//! Server-sent events out of bytes. Unlike the SDK's reader, a field without a colon or with an unknown name does not
//! end the stream (the standard says to ignore it), and an event that is too large is skipped alone.

use std::sync::Arc;

use futures::stream::{self, BoxStream, StreamExt as _};
use rmcp::transport::streamable_http_client::SseError;
use serde_json::Value;
use sse_stream::Sse;

use super::dialer::BodyStream;
use super::intake::Intake;
use super::repair::too_large;

/// Bytes of an oversized event's end that are kept.
const TAIL: usize = 4096;

/// One event of a stream of server-sent events.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct ServerEvent {
    pub name: Option<String>,
    pub data: Vec<u8>,
    /// End of the data, where they were too large and `data` is only their beginning.
    pub cut: Option<Vec<u8>>,
    pub id: Option<String>,
    pub retry: Option<u64>,
}

pub(crate) struct EventReader {
    limit: usize,
    line: Vec<u8>,
    after_return: bool,
    is_begun: bool,
    event: ServerEvent,
    has_data: bool,
}

impl EventReader {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            limit,
            line: Vec::new(),
            after_return: false,
            is_begun: false,
            event: ServerEvent::default(),
            has_data: false,
        }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) -> Vec<ServerEvent> {
        let mut events = Vec::new();
        let mut rest = bytes;
        while let Some(end) = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
            let (part, byte) = (&rest[..end], rest[end]);
            rest = &rest[end + 1..];
            let is_pair = byte == b'\n' && std::mem::take(&mut self.after_return) && end == 0;
            if is_pair {
                continue;
            }
            self.after_return = byte == b'\r';
            self.extend(part);
            events.extend(self.finish_line());
        }
        if !rest.is_empty() {
            self.after_return = false;
            self.extend(rest);
        }
        events
    }

    fn extend(&mut self, bytes: &[u8]) {
        let room = (self.limit + TAIL).saturating_sub(self.line.len()).min(bytes.len());
        self.line.extend_from_slice(&bytes[..room]);
        if room < bytes.len() {
            let tail = self.event.cut.get_or_insert_default();
            tail.extend_from_slice(&bytes[room..]);
            let extra = tail.len().saturating_sub(TAIL);
            tail.drain(..extra);
        }
    }

    fn finish_line(&mut self) -> Option<ServerEvent> {
        let line = std::mem::take(&mut self.line);
        let mut line = &*line;
        if !std::mem::replace(&mut self.is_begun, true) {
            line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
        }
        if line.is_empty() {
            let event = std::mem::take(&mut self.event);
            let has_data = std::mem::take(&mut self.has_data);
            let is_worth = has_data || event.id.is_some() || event.retry.is_some();
            return is_worth.then_some(event);
        }
        let (name, value) = match line.iter().position(|byte| *byte == b':') {
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (line, &b""[..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        let text = || String::from_utf8_lossy(value).into_owned();
        match name {
            b"data" => self.add_data(value),
            b"event" => self.event.name = Some(text()),
            b"id" if !value.contains(&0) => self.event.id = Some(text()),
            b"retry" => self.event.retry = text().trim().parse().ok().or(self.event.retry),
            _ => {}
        }
        None
    }

    fn add_data(&mut self, value: &[u8]) {
        if std::mem::replace(&mut self.has_data, true) {
            self.event.data.push(b'\n');
        }
        let is_cut = self.event.cut.is_some();
        if !is_cut && self.event.data.len() + value.len() <= self.limit {
            self.event.data.extend_from_slice(value);
            return;
        }
        if !is_cut {
            self.event.cut = Some(value[value.len().saturating_sub(TAIL)..].to_vec());
        }
        self.event.data.truncate(TAIL);
        let room = (TAIL - self.event.data.len()).min(value.len());
        self.event.data.extend_from_slice(&value[..room]);
    }
}

/// Reads the messages that an event carries.
pub(crate) fn messages_in(event: &ServerEvent, intake: &Intake, limit: usize) -> Vec<Value> {
    match &event.cut {
        None => intake.read(&event.data),
        Some(tail) => {
            let reason = too_large(limit);
            intake.read_failed(&event.data, tail, &reason)
        }
    }
}

/// A body's events in the form that the SDK reads, with messages as the intake passes them on.
pub(crate) fn events_for_sdk(
    body: BodyStream,
    intake: Arc<Intake>,
    limit: usize,
) -> BoxStream<'static, Result<Sse, SseError>> {
    let mut reader = EventReader::new(limit);
    let events = body.map(move |chunk| match chunk {
        Err(error) => vec![Err(SseError::Body(Box::new(error)))],
        Ok(bytes) => {
            let events = reader.push(&bytes);
            events.iter().flat_map(|event| for_sdk(event, &intake, limit)).map(Ok).collect()
        }
    });
    events.flat_map(stream::iter).boxed()
}

fn for_sdk(event: &ServerEvent, intake: &Intake, limit: usize) -> Vec<Sse> {
    let is_message = event.name.as_deref().is_none_or(|name| name == "message");
    let messages = if is_message { messages_in(event, intake, limit) } else { Vec::new() };
    let bare = |data| Sse { event: None, data, id: None, retry: None };
    let mut found: Vec<Sse> = messages.iter().map(|one| bare(Some(one.to_string()))).collect();
    if found.is_empty() {
        found.push(bare(None));
    }
    if let Some(last) = found.last_mut() {
        last.id.clone_from(&event.id);
        last.retry = event.retry;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(limit: usize, chunks: &[&[u8]]) -> Vec<ServerEvent> {
        let mut reader = EventReader::new(limit);
        chunks.iter().flat_map(|chunk| reader.push(chunk)).collect()
    }

    #[test]
    fn lines_end_in_three_ways_and_strange_fields_are_ignored() {
        let bytes =
            b"\xef\xbb\xbf: hello\r\nevent: message\r\ndata: {\"a\":\r\ndata:1}\r\nid: 7\r\n\r\n\
            nonsense\nfoo: bar\nretry: 20\ndata: x\n\ndata: y\r\rdata: lost at the end";
        let whole = read(1000, &[bytes]);
        let bytewise: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(read(1000, &bytewise), whole);
        assert_eq!(whole.len(), 3, "{whole:?}");
        assert_eq!((&*whole[0].data, whole[0].id.as_deref()), (&b"{\"a\":\n1}"[..], Some("7")));
        assert_eq!((&*whole[1].data, whole[1].retry), (&b"x"[..], Some(20)));
        assert_eq!(&*whole[2].data, b"y");
    }

    #[test]
    fn an_event_that_is_too_large_is_cut_and_the_next_one_is_whole() {
        let mut bytes = b"data: {\"jsonrpc\":\"2.0\",\"id\":3,\"result\":\"".to_vec();
        bytes.extend(std::iter::repeat_n(b'x', 200_000));
        bytes.extend(b"\"}\n\ndata: next\n\n");
        for size in [1000, 1 << 20] {
            let chunks: Vec<&[u8]> = bytes.chunks(size).collect();
            let events = read(50_000, &chunks);
            assert_eq!(events.len(), 2);
            assert!(events[0].cut.is_some() && events[0].data.len() <= 60_000);
            assert_eq!((&*events[1].data, &events[1].cut), (&b"next"[..], &None));
        }
    }
}
