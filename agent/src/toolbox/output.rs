//! What is kept of a command's output.

use std::collections::VecDeque;

use crate::text::plain;

/// Bytes kept of the beginning and of the end.
const HALF_OUTPUT: usize = 15_000;

/// The beginning and the end of an output of any length.
#[derive(Default)]
pub struct Kept {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    dropped: u64,
}

impl Kept {
    /// Takes in some more.
    pub fn push(&mut self, bytes: &[u8]) {
        let room = HALF_OUTPUT.saturating_sub(self.head.len()).min(bytes.len());
        let (head, rest) = bytes.split_at(room);
        self.head.extend_from_slice(head);
        self.tail.extend(rest);
        let over = self.tail.len().saturating_sub(HALF_OUTPUT);
        self.tail.drain(..over);
        self.dropped += over as u64;
    }

    /// All of it, or both ends and how much is missing; without what would move a terminal's cursor.
    pub fn text(mut self) -> String {
        if self.dropped == 0 {
            self.head.extend(self.tail);
            return plain(&String::from_utf8_lossy(&self.head));
        }
        let tail: Vec<u8> = self.tail.into();
        format!(
            "{}\n[… {} bytes of output left out: pipe it through head, tail or grep to see them …]\n{}",
            plain(&String::from_utf8_lossy(&self.head)),
            self.dropped,
            plain(&String::from_utf8_lossy(&tail))
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_output_keeps_both_ends() {
        let mut kept = Kept::default();
        kept.push(b"begin ");
        for _ in 0..10 {
            kept.push(&[b'x'; 9999]);
        }
        kept.push(b" end");
        let text = kept.text();
        assert!(text.starts_with("begin xx") && text.ends_with("xx end"));
        assert!(text.contains("[… 70000 bytes of output left out"), "{}", &text[14_990..15_100]);
    }
}
