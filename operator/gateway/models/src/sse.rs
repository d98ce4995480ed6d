//! Looks into a stream of server-sent events while it passes by: what it is billed, and by which id
//! the provider knows it. Pure; nothing is held back or changed.

use memchr::memmem;
use serde::Deserialize;

use super::billing::{self, ProviderBill};

/// Longest event that is looked into: pictures come in one piece.
const LONGEST: usize = 32 * 1024 * 1024;

#[derive(Debug, Default)]
pub struct EventTap {
    /// A line that is not complete yet.
    line: Vec<u8>,
    /// The line is too long to look into.
    skipping: bool,
    /// The usage that the stream reported, if it did.
    pub bill: Option<ProviderBill>,
    /// The provider's id of the answer.
    pub id: Option<String>,
    /// True if the end was announced.
    pub done: bool,
    /// Number of images in the answer.
    pub images: u64,
}

#[derive(Deserialize)]
struct Chunk {
    id: Option<String>,
}

impl EventTap {
    /// Inspects the next bytes of the stream.
    pub fn pass(&mut self, mut bytes: &[u8]) {
        while let Some(end) = memchr::memchr2(b'\n', b'\r', bytes) {
            let (line, rest) = bytes.split_at(end);
            if self.line.is_empty() {
                // Most often a line is in one piece: it is not copied.
                self.look(line);
            } else {
                self.keep(line);
                let whole = std::mem::take(&mut self.line);
                if !self.skipping {
                    self.look(&whole);
                }
                self.line = whole;
                self.line.clear();
            }
            self.skipping = false;
            bytes = &rest[1..];
        }
        self.keep(bytes);
    }

    fn keep(&mut self, bytes: &[u8]) {
        if self.line.len() + bytes.len() > LONGEST {
            self.skipping = true;
            self.line.truncate(1);
        } else {
            self.line.extend_from_slice(bytes);
        }
    }

    fn look(&mut self, line: &[u8]) {
        let Some(data) = line.strip_prefix(b"data:").map(<[u8]>::trim_ascii) else { return };
        if data == b"[DONE]" {
            self.done = true;
            return;
        }
        if self.id.is_none()
            && let Ok(Chunk { id: Some(id) }) = serde_json::from_slice(data)
        {
            self.id = Some(id);
        }
        if memmem::find(data, b"\"images\"").is_some() {
            self.images += u64::try_from(memmem::find_iter(data, b"\"image_url\":{").count())
                .unwrap_or(u64::MAX);
        }
        if memmem::find(data, b"\"usage\"").is_some()
            && let Some(bill) = billing::read_bill(data)
            && bill.reported
        {
            self.bill = Some(bill);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use codebutler_crds::NanoUsd;

    const STREAM: &str = concat!(
        ": OPENROUTER PROCESSING\n\n",
        "data: {\"id\":\"gen-1\",\"choices\":[{\"delta\":{\"content\":\"say \\\"usage\\\"\"}}],\"usage\":null}\n\n",
        "data: {\"id\":\"gen-2\",\"choices\":[{\"delta\":{\"content\":\"h\u{e9}\"}}]}\r\n\r\n",
        "data:{\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":3,\"cost\":0.25}}\n\n",
        "data: [DONE]\n\n",
    );

    #[test]
    fn usage_is_found_wherever_the_stream_is_cut_into_pieces() {
        for size in [1, 2, 3, 7, 64, 10_000] {
            let mut tap = EventTap::default();
            STREAM.as_bytes().chunks(size).for_each(|piece| tap.pass(piece));
            let bill = tap.bill.unwrap();
            assert_eq!((bill.usage.cost, bill.usage.prompt_tokens), (NanoUsd(250_000_000), 7));
            assert_eq!((tap.id.as_deref(), tap.done, bill.priced), (Some("gen-1"), true, true));
        }
    }

    #[test]
    fn a_cut_stream_has_an_id_and_no_bill() {
        let mut tap = EventTap::default();
        tap.pass(&STREAM.as_bytes()[..STREAM.len() / 2]);
        assert_eq!((tap.bill, tap.id.as_deref(), tap.done), (None, Some("gen-1"), false));
    }

    #[test]
    fn a_line_without_end_is_not_kept() {
        let mut tap = EventTap::default();
        let piece = vec![b'x'; 1 << 20];
        (0..40).for_each(|_| tap.pass(&piece));
        assert!(tap.line.len() <= LONGEST);
        tap.pass(b"\ndata: [DONE]\n");
        assert!(tap.done);
    }
}
