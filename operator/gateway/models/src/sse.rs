//! Looks into a stream of server-sent events while it passes by: what it is billed, and by which id
//! the provider knows it. Pure; nothing is held back or changed.

use std::collections::BTreeMap;

use memchr::memmem;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use super::billing::{self, ProviderBill};
use super::collect::find_usage;

/// Longest event that is looked into: pictures come in one piece.
const LONGEST: usize = 32 * 1024 * 1024;

/// Choices that are followed: no more are asked for.
const MOST_CHOICES: usize = 32;

#[derive(Debug, Default)]
pub struct EventTap {
    /// A line that is not complete yet.
    line: Vec<u8>,
    /// The line is too long to look into.
    skipping: bool,
    /// True if the last line ended with the first half of CRLF.
    after_return: bool,
    /// Lines of data of an event that goes on: none of them is JSON by itself.
    event: Vec<u8>,
    usage: Option<ToldUsage>,
    /// Choices of the answer, by their number: true if one has come to its end.
    choices: BTreeMap<u64, bool>,
    /// The provider's id of the answer.
    pub id: Option<String>,
    /// True if the end was announced.
    pub done: bool,
    /// Number of images in the answer.
    pub images: u64,
}

/// The usage that the stream reported.
#[derive(Clone, Copy, Debug)]
struct ToldUsage {
    bill: ProviderBill,
    /// True if it came with the end of the answer, or after it. Some providers report the usage so far with each piece.
    is_final: bool,
}

#[derive(Deserialize)]
struct StreamChunk {
    id: Option<String>,
}

#[derive(Deserialize)]
struct ToldChoices<'a> {
    #[serde(borrow, default)]
    choices: Option<Vec<ToldChoice<'a>>>,
}

#[derive(Deserialize)]
struct ToldChoice<'a> {
    #[serde(borrow, default)]
    index: Option<&'a RawValue>,
    #[serde(borrow, default)]
    finish_reason: Option<&'a RawValue>,
}

impl ToldChoice<'_> {
    /// Some servers have an empty reason in all pieces but the last one.
    fn is_last(&self) -> bool {
        self.finish_reason.is_some_and(|reason| !matches!(reason.get(), "null" | "\"\""))
    }
}

impl EventTap {
    /// The bill that the stream has told: nothing where it broke off before its end, since less than what is billed was
    /// told there.
    pub fn bill(&self) -> Option<ProviderBill> {
        let told = self.usage.filter(|told| told.is_final || self.done)?;
        Some(ProviderBill { images: told.bill.images.max(self.images), ..told.bill })
    }

    /// Inspects the next bytes of the stream.
    pub fn pass(&mut self, mut bytes: &[u8]) {
        while let Some(end) = memchr::memchr2(b'\n', b'\r', bytes) {
            let (line, rest) = bytes.split_at(end);
            let is_begun = !self.line.is_empty() || self.skipping;
            let is_rest = self.after_return && rest[0] == b'\n' && line.is_empty() && !is_begun;
            self.after_return = rest[0] == b'\r';
            bytes = &rest[1..];
            if is_rest {
                continue;
            }
            if is_begun {
                self.keep(line);
                let mut whole = std::mem::take(&mut self.line);
                if !self.skipping {
                    self.read_line(&whole);
                }
                whole.clear();
                self.line = whole;
                self.skipping = false;
            } else {
                // Most often a line is in one piece: it is not copied.
                self.read_line(line);
            }
        }
        self.keep(bytes);
    }

    /// Reads what is left at the end of the stream.
    pub fn end(&mut self) {
        let last = std::mem::take(&mut self.line);
        if !self.skipping {
            self.read_line(&last);
        }
        self.end_event();
    }

    fn keep(&mut self, bytes: &[u8]) {
        if self.line.len() + bytes.len() > LONGEST {
            self.skipping = true;
            self.line.clear();
        } else if !self.skipping {
            self.line.extend_from_slice(bytes);
        }
    }

    fn read_line(&mut self, line: &[u8]) {
        if line.is_empty() {
            self.end_event();
            return;
        }
        let Some(data) = line.strip_prefix(b"data:").map(<[u8]>::trim_ascii) else { return };
        if data == b"[DONE]" {
            self.end_event();
            self.done = true;
        } else if !self.event.is_empty() {
            if self.event.len() + data.len() < LONGEST {
                self.event.push(b'\n');
                self.event.extend_from_slice(data);
            } else {
                self.event.clear();
            }
        } else if is_whole(data) {
            self.look(data);
        } else {
            // As in any stream of events, the next line may be the rest of it.
            self.event.extend_from_slice(data);
        }
    }

    fn end_event(&mut self) {
        let event = std::mem::take(&mut self.event);
        if event.is_empty() {
            return;
        }
        if is_whole(&event) {
            self.look(&event);
            return;
        }
        // Of a server that leaves out empty lines these are events of their own: one may have the bill.
        for line in event.split(|byte| *byte == b'\n') {
            self.look(line);
        }
    }

    /// Looks into the data of an event.
    fn look(&mut self, data: &[u8]) {
        if self.id.is_none()
            && let Ok(StreamChunk { id: Some(id) }) = serde_json::from_slice(data)
        {
            self.id = Some(id);
        }
        if memmem::find(data, b"\"images\"").is_some() {
            self.images += u64::try_from(memmem::find_iter(data, b"\"image_url\":{").count())
                .unwrap_or(u64::MAX);
        }
        let has_usage = memmem::find(data, b"\"usage\"").is_some();
        if !has_usage && !may_end(data) {
            return;
        }
        let told = serde_json::from_slice::<ToldChoices<'_>>(data);
        let choices = told.map(|told| told.choices.unwrap_or_default());
        let is_alone = choices.as_ref().is_ok_and(Vec::is_empty);
        self.follow(&choices.unwrap_or_default());
        let usage = if has_usage { find_usage(data) } else { None };
        if let Some(bill) = usage.and_then(read_usage).filter(ProviderBill::says_something) {
            let is_final = is_alone || self.has_ended();
            let bill = self.usage.map_or(bill, |told| add_missing(bill, &told));
            self.usage = Some(ToldUsage { bill, is_final });
        }
    }

    fn follow(&mut self, choices: &[ToldChoice<'_>]) {
        for (choice, place) in choices.iter().zip(0_u64..) {
            let index = choice.index.and_then(|index| index.get().parse().ok()).unwrap_or(place);
            if self.choices.len() < MOST_CHOICES {
                *self.choices.entry(index).or_default() |= choice.is_last();
            }
        }
    }

    /// True if all choices have come to their end.
    fn has_ended(&self) -> bool {
        !self.choices.is_empty() && self.choices.values().all(|is_over| *is_over)
    }
}

/// The bill of the usage alone, wherever it stood.
fn read_usage(usage: &RawValue) -> Option<ProviderBill> {
    billing::read_bill(format!("{{\"choices\":[],\"usage\":{usage}}}").as_bytes())
}

/// True unless it is an object of which a part is missing.
fn is_whole(data: &[u8]) -> bool {
    !data.starts_with(b"{")
        || data.ends_with(b"}") && serde_json::from_slice::<IgnoredAny>(data).is_ok()
}

/// True if a finish reason may be in it that says something. In a text its quotes would be escaped.
fn may_end(data: &[u8]) -> bool {
    const FIELD: &[u8] = b"\"finish_reason\"";
    memmem::find_iter(data, FIELD).any(|at| {
        let value = data[at + FIELD.len()..].trim_ascii_start();
        let value = value.strip_prefix(b":").map(<[u8]>::trim_ascii_start);
        value.is_some_and(|value| !value.starts_with(b"null") && !value.starts_with(b"\"\""))
    })
}

/// Usage that is spread over several events: each figure as it was told last.
fn add_missing(mut bill: ProviderBill, told: &ToldUsage) -> ProviderBill {
    let earlier = &told.bill;
    let (usage, known) = (&mut bill.usage, &earlier.usage);
    if usage.prompt_tokens == 0 {
        usage.prompt_tokens = known.prompt_tokens;
        usage.cached_tokens = known.cached_tokens;
        usage.written_tokens = known.written_tokens;
        bill.image_tokens = earlier.image_tokens;
        bill.audio_tokens = earlier.audio_tokens;
        bill.hour_tokens = earlier.hour_tokens;
    }
    if usage.completion_tokens == 0 {
        usage.completion_tokens = known.completion_tokens;
        usage.reasoning_tokens = known.reasoning_tokens;
    }
    // A cost so far is no price of the whole.
    if !bill.priced && told.is_final {
        usage.cost = known.cost;
        bill.priced = earlier.priced;
    }
    bill
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
            let bill = tap.bill().unwrap();
            assert_eq!((bill.usage.cost, bill.usage.prompt_tokens), (NanoUsd(250_000_000), 7));
            assert_eq!((tap.id.as_deref(), tap.done, bill.priced), (Some("gen-1"), true, true));
        }
    }

    #[test]
    fn a_cut_stream_has_an_id_and_no_bill() {
        let mut tap = EventTap::default();
        tap.pass(&STREAM.as_bytes()[..STREAM.len() / 2]);
        assert_eq!((tap.bill(), tap.id.as_deref(), tap.done), (None, Some("gen-1"), false));
    }

    #[test]
    fn a_line_without_end_is_not_kept() {
        let mut tap = EventTap::default();
        let piece = vec![b'x'; 1 << 20];
        (0..40).for_each(|_| tap.pass(&piece));
        assert!(tap.line.len() <= LONGEST);
        assert!(tap.event.is_empty());
        tap.pass(b"\ndata: [DONE]\n");
        assert!(tap.done);
    }

    /// Prompt and completion that a stream of these lines bills, also where it is cut into pieces.
    fn billed(stream: &str) -> Option<(u64, u64)> {
        let read = |size: usize| {
            let mut tap = EventTap::default();
            stream.as_bytes().chunks(size).for_each(|piece| tap.pass(piece));
            tap.end();
            tap.bill().map(|bill| (bill.usage.prompt_tokens, bill.usage.completion_tokens))
        };
        let whole = read(stream.len());
        assert_eq!(read(1), whole, "{stream}");
        whole
    }

    const TEXT: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"},\"finish_reason\":null}],\
        \"usage\":{\"prompt_tokens\":7,\"completion_tokens\":1}}\n\n";
    const END: &str =
        "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}],\"usage\":null}\n\n";
    const USAGE: &str =
        "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":9}}\n\n";

    #[test]
    fn the_usage_so_far_is_the_bill_of_no_stream_that_breaks_off() {
        assert_eq!(billed(TEXT), None);
        assert_eq!(billed(&format!("{TEXT}{END}")), None, "the sum did not come");
        assert_eq!(billed(&format!("{TEXT}{END}{USAGE}")), Some((7, 9)));
        assert_eq!(billed(&format!("{TEXT}{USAGE}")), Some((7, 9)));
        assert_eq!(billed(&format!("{TEXT}{TEXT}data: [DONE]\n\n")), Some((7, 1)));
        // DeepSeek, Gemini and Mistral bill with the end, OpenRouter behind it with an empty piece.
        let with_end = TEXT.replace(":null", ":\"stop\"");
        assert_eq!(billed(&with_end), Some((7, 1)));
        assert_eq!(billed(&format!("{END}{TEXT}")), Some((7, 1)));
        // Moonshot bills in the choice that ends.
        let inside = with_end.replace("},\"finish", "},\"usage\":{\"prompt_tokens\":8},\"finish");
        let inside = inside.replace(",\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":1}", "");
        assert_eq!(billed(&inside), Some((8, 0)), "{inside}");
        assert_eq!(billed(&TEXT.replace(":null", ":\"\"")), None, "it goes on");
        let quoted = TEXT.replace("\"a\"", r#""\"finish_reason\":\"stop\"""#);
        assert_eq!(billed(&quoted), None, "it is a text");
    }

    #[test]
    fn an_answer_with_several_choices_ends_with_the_last_of_them() {
        let choice = |index: u64, end: &str, count: u64| {
            format!(
                "data: {{\"choices\":[{{\"index\":{index},\"delta\":{{}},\"finish_reason\":{end}}}],\
                 \"usage\":{{\"prompt_tokens\":7,\"completion_tokens\":{count}}}}}\n\n"
            )
        };
        let begun = choice(0, "null", 1) + &choice(1, "null", 2) + &choice(0, "\"stop\"", 3);
        assert_eq!(billed(&begun), None, "the other one goes on");
        assert_eq!(billed(&format!("{begun}{}", choice(1, "\"stop\"", 9))), Some((7, 9)));
        assert_eq!(billed(&format!("{begun}{USAGE}")), Some((7, 9)));
    }

    #[test]
    fn zeros_are_no_usage() {
        // LocalAI has them in each piece, and with tools in the last one.
        let zeros = USAGE.replace(['7', '9'], "0");
        assert_eq!(billed(&format!("{zeros}{END}{zeros}data: [DONE]\n\n")), None);
        assert_eq!(billed(&format!("{zeros}{END}{USAGE}{zeros}")), Some((7, 9)));
        let nothing = USAGE.replace("\"prompt_tokens\":7,\"completion_tokens\":9", "");
        assert_eq!(billed(&format!("{END}{nothing}data: [DONE]\n\n")), None);
        let free = nothing.replace("{}", "{\"cost\":0}");
        assert_eq!(billed(&format!("{END}{free}")), Some((0, 0)), "it costs nothing");
    }

    #[test]
    fn the_price_of_what_came_first_is_none_of_the_whole() {
        let mut tap = EventTap::default();
        tap.pass(TEXT.replace("\"prompt", "\"cost\":0.5,\"prompt").as_bytes());
        tap.pass(format!("{END}{USAGE}").as_bytes());
        assert!(tap.bill().is_some_and(|bill| !bill.priced && bill.usage.completion_tokens == 9));
    }

    #[test]
    fn usage_in_an_event_of_several_lines_is_found() {
        let lines = "data: {\"choices\":[],\ndata: \"usage\":{\ndata: \"prompt_tokens\":7,\n\
            data: \"completion_tokens\":9}\ndata: }\n\n";
        assert_eq!(billed(lines), Some((7, 9)));
        assert_eq!(billed(&lines.replace('\n', "\r\n")), Some((7, 9)));
        let broken = format!("data: {{\"choices\":\n{}", USAGE.trim_end());
        assert_eq!(billed(&broken), Some((7, 9)), "neither an empty line nor the end of one");
    }

    #[test]
    fn usage_that_is_spread_over_several_events_is_put_together() {
        let spread = "data: {\"choices\":[],\"usage\":{\"input_tokens\":7}}\n\n\
            data: {\"choices\":[],\"usage\":{\"output_tokens\":4}}\n\n\
            data: {\"choices\":[],\"usage\":{\"output_tokens\":9}}\n\n";
        assert_eq!(billed(spread), Some((7, 9)));
    }
}
