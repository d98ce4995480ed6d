//! Takes a person's words out of histories: what they said, and what quotes it. A line keeps its length, so
//! that whoever reads or writes the history meanwhile finds everything where it was. Pure but for [`forget_person`].

use std::io;

use serde_json::Value;

use crate::lines::{KeptLine, LineWalk};
use crate::{HistoryStore, ThreadPlace};

/// Stands for words that are gone, and for who said them.
const GONE: &str = "[removed]";
const NOBODY: &str = "-";
/// Shorter words are everybody's.
const QUOTED: usize = 12;
/// Longest line that is looked at: no request that was ever taken was so long.
const LONGEST: usize = 64 * 1024 * 1024;

/// Lines, and their bytes, that are written back together.
const TOGETHER: (usize, usize) = (256, 8 * 1024 * 1024);

/// Somebody, and what they said in one conversation.
#[derive(Clone, Debug, Default)]
pub(crate) struct ForgottenSpeaker {
    user: String,
    /// Parts of the speaker's messages, longest first.
    said: Vec<String>,
}

impl ForgottenSpeaker {
    pub(crate) fn new(user: &str) -> Self {
        Self { user: user.to_owned(), said: Vec::new() }
    }

    fn is_by(&self, line: &Value) -> bool {
        line["event"] == "message" && line["author"]["id"] == self.user.as_str()
    }

    /// The file itself is Slack's to delete.
    fn is_picture_by(&self, line: &Value) -> bool {
        line["event"] == "picture" && line["author"]["id"] == self.user.as_str()
    }

    /// Takes in a line of the conversation.
    pub(crate) fn hear(&mut self, line: &[u8]) {
        let Ok(line) = serde_json::from_slice::<Value>(line) else { return };
        let Some(text) = line["text"].as_str().filter(|_| self.is_by(&line)) else { return };
        let parts = text.lines().chain([text]).map(str::trim);
        let parts = parts.filter(|part| part.chars().count() >= QUOTED);
        for part in parts {
            let escaped = Value::from(part).to_string();
            // In a tool's arguments it stands as JSON within JSON.
            let escaped = escaped.trim_matches('"').to_owned();
            self.said.extend([part.to_owned(), escaped]);
        }
        self.said.sort_by_key(|part| std::cmp::Reverse(part.len()));
        self.said.dedup();
    }

    /// The line without them, as long as it was; nothing if they are not in it.
    pub(crate) fn without(&self, line: &[u8]) -> Option<Vec<u8>> {
        let mut value: Value = serde_json::from_slice(line).ok()?;
        let before = value.clone();
        if self.is_by(&value)
            && let Some(text) = value["text"].as_str()
        {
            value["text"] = if text.len() < GONE.len() { "".into() } else { GONE.into() };
        }
        if self.is_picture_by(&value) {
            (value["name"], value["id"]) = ("".into(), "".into());
        }
        self.walk(&mut value);
        if value == before {
            return None;
        }
        let mut text = value.to_string().into_bytes();
        let whole = line.strip_suffix(b"\n").unwrap_or(line);
        // Shorter words stand for longer ones.
        text.resize(text.len().max(whole.len()), b' ');
        text.extend_from_slice(&line[whole.len()..]);
        (text.len() == line.len()).then_some(text)
    }

    fn walk(&self, value: &mut Value) {
        match value {
            Value::String(text) => {
                for part in &self.said {
                    if text.contains(part.as_str()) {
                        *text = text.replace(part.as_str(), GONE);
                    }
                }
                if !self.user.is_empty() && text.contains(&self.user) {
                    *text = text.replace(&self.user, NOBODY);
                }
            }
            Value::Array(values) => values.iter_mut().for_each(|value| self.walk(value)),
            Value::Object(fields) => fields.values_mut().for_each(|value| self.walk(value)),
            _ => {}
        }
    }
}

/// Takes somebody's words out of one history; how many lines had some. Done again, it finds what is left.
///
/// # Errors
/// When it can't be read or written; at the end, when a line is so long that it was not looked at.
pub fn forget_person(
    store: &mut impl HistoryStore,
    place: &ThreadPlace,
    user: &str,
) -> io::Result<usize> {
    let mut speaker = ForgottenSpeaker::new(user);
    replace_lines(store, place, |_, line| {
        speaker.hear(line);
        None
    })?;
    replace_lines(store, place, |_, line| speaker.without(line))
}

/// Looks at every whole line, and writes back what is told; how many were.
fn replace_lines(
    store: &mut impl HistoryStore,
    place: &ThreadPlace,
    mut what: impl FnMut(u64, &[u8]) -> Option<Vec<u8>>,
) -> io::Result<usize> {
    let (mut next, mut count, mut unread) = (0, 0, None);
    loop {
        // Lines to write back are collected before more are read.
        let (mut new, mut ended) = (Vec::new(), true);
        let mut walk = LineWalk::new(&*store, place, next).up_to(LONGEST);
        while let Some(line) = walk.next_line()? {
            match line {
                KeptLine::Whole(at, line) => {
                    next = at + line.len() as u64;
                    new.extend(what(at, &line).map(|text| (at, text)));
                }
                KeptLine::Long(at, bytes, _) => {
                    next = at + bytes;
                    unread.get_or_insert((at, bytes));
                }
            }
            if new.len() >= TOGETHER.0
                || new.iter().map(|(_, text)| text.len()).sum::<usize>() > TOGETHER.1
            {
                ended = false;
                break;
            }
        }
        for (at, text) in new {
            store.replace(place, at, &text)?;
            count += 1;
        }
        if ended {
            break;
        }
    }
    match unread {
        None => Ok(count),
        Some((at, bytes)) => Err(io::Error::other(format!(
            "all lines were looked at but those of more than {} MiB: the first one is at byte {at} and has \
             {bytes} bytes. Remove it by hand, or the whole history",
            LONGEST >> 20
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HistoryVolume, LineIndex};
    use codebutler_wire::MessageAuthor;
    use codebutler_wire::history::{HistoryEvent, HistoryLine, ToolUse};

    fn line(event: HistoryEvent) -> String {
        let source = "gateway".to_owned();
        let line =
            HistoryLine { v: 1, at: 1, source, seq: None, key: None, role: None, run: None, event };
        serde_json::to_string(&line).unwrap() + "\n"
    }

    fn said(by: &str, text: &str) -> String {
        let author = MessageAuthor::User { id: by.into() };
        line(HistoryEvent::Message { ts: "1.000000".parse().unwrap(), author, text: text.into() })
    }

    #[test]
    fn a_persons_words_go_wherever_they_are_and_no_line_moves() {
        let dir = tempfile::tempdir().unwrap();
        let place = ThreadPlace::new("team", "shop-1").unwrap();
        let mut volume = HistoryVolume::new(dir.path());
        let words = "My \"own\" address is 5 Lake Road";
        let arguments = serde_json::json!({"message": format!("> {words}")}).to_string();
        let call = ToolUse { tool: "SendMessage".into(), arguments };
        let output = format!("U0ANA said: {words}");
        let text = [
            said("U0ANA", words),
            said("U0BEN", "hello there, everybody"),
            line(HistoryEvent::Tool { call, output, ok: true, exit_code: None, millis: None }),
            said("U0ANA", "yes!"),
            line(HistoryEvent::Picture {
                id: "F0SHOT".into(),
                name: "home.png".into(),
                author: MessageAuthor::User { id: "U0ANA".into() },
            }),
        ];
        let whole = text.concat();
        assert!(volume.append(&place, 0, whole.as_bytes()).unwrap());
        let mut index = LineIndex::default();
        index.refresh(&volume, &place).unwrap();
        assert_eq!(forget_person(&mut volume, &place, "U0ANA").unwrap(), 4);
        assert_eq!(volume.length(&place).unwrap(), whole.len() as u64);
        let lines = index.page(&volume, &place, 1, (9, 9999)).unwrap().lines;
        for gone in ["Lake Road", "U0ANA", "yes!", "F0SHOT", "home.png"] {
            assert!(!lines.concat().contains(gone), "{gone}: {lines:?}");
        }
        assert!(lines[1].contains("hello there") && lines[2].contains(GONE));
        for line in &lines {
            let line: HistoryLine = serde_json::from_str(line).unwrap();
            assert_ne!(line.event, HistoryEvent::Unknown);
        }
        assert_eq!(
            forget_person(&mut volume, &place, "U0ANA").unwrap(),
            0,
            "done again, nothing is left"
        );
    }

    #[test]
    fn words_in_and_behind_a_long_line_go_too() {
        let dir = tempfile::tempdir().unwrap();
        let place = ThreadPlace::new("team", "shop-1").unwrap();
        let mut volume = HistoryVolume::new(dir.path());
        let words = "My own address is 5 Lake Road";
        let long = format!("{words} {}", "x".repeat(5 << 20));
        let quoted = HistoryEvent::Note { text: format!("> {words}") };
        let text = [said("U0ANA", &long), said("U0ANA", words), line(quoted)].concat();
        assert!(volume.append(&place, 0, text.as_bytes()).unwrap());
        assert_eq!(forget_person(&mut volume, &place, "U0ANA").unwrap(), 3);
        let left = volume.read(&place, 0, u64::MAX).unwrap();
        assert_eq!(left.len(), text.len());
        assert!(!String::from_utf8(left).unwrap().contains("Lake Road"));
    }
}
