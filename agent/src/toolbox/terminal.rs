//! Folds an output that comes in pieces to the text that a terminal would leave: a progress bar is one line, however
//! often it was drawn. A line that is drawn over is kept where it tells of trouble. Lines that end with a carriage
//! return and a line feed are lines. Pure.

use std::collections::VecDeque;
use std::sync::LazyLock;

use regex::Regex;

/// Lines above the newest that can still be drawn over: programs that draw several bars use a few.
const ROWS: usize = 64;
/// A longer line is passed on in pieces, in bytes.
const LONG: usize = 16 * 1024;
/// Words of a line that tells of trouble.
static TROUBLE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let words = "error|fail|warn|fatal|exception|traceback|panic|denied|refused|abort|cannot|can't|not found|killed";
    Regex::new(&format!("(?i){words}")).ok()
});

/// Control characters that move a cursor or end a line, but the line feed.
static CONTROL: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"[\x00-\x08\x0b-\x1f\x7f-\u{9f}]").ok());

/// Lines that report trouble.
pub(super) fn trouble_lines(text: &str) -> impl Iterator<Item = &str> {
    let mut from = 0;
    std::iter::from_fn(move || {
        let found = TROUBLE.as_ref()?.find_at(text, from)?;
        let start = text[..found.start()].rfind('\n').map_or(0, |end| end + 1);
        let end = text[found.end()..].find('\n').map_or(text.len(), |n| found.end() + n);
        from = end;
        Some(&text[start..end])
    })
}

/// True if the line reports trouble.
fn tells_trouble(line: &str) -> bool {
    trouble_lines(line).next().is_some()
}

/// Bytes before the first control character, a line feed aside.
fn plain_length(text: &str) -> usize {
    let found = CONTROL.as_ref().map_or(Some(0), |control| control.find(text).map(|m| m.start()));
    found.unwrap_or(text.len())
}

/// State of the parser of escape sequences.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum EscapeMode {
    #[default]
    Text,
    /// Behind an escape character (ESC).
    Escape,
    /// Behind ESC and a character that takes one more.
    Skip,
    /// Within a sequence with parameters, of which the first number is kept.
    Control { number: Option<u16>, first: bool },
    /// Within a string, such as a title or a link.
    Quoted { escaped: bool },
}

/// A terminal of a few lines. What leaves it at the top is final.
#[derive(Debug, Default)]
pub(super) struct FoldedTerminal {
    rows: VecDeque<DrawnRow>,
    /// The line that is written now.
    row: usize,
    /// True if the next text is drawn over the line.
    over: bool,
    mode: EscapeMode,
    /// Bytes of a character that is not whole yet.
    part: Vec<u8>,
    /// Lines that were drawn over.
    pub drawn_over: u64,
}

#[derive(Debug, Default)]
struct DrawnRow {
    text: String,
    /// A line that reported trouble and was drawn over. It stays unless it is the same, drawn again.
    covered: Option<String>,
}

impl DrawnRow {
    /// Takes the covered line, unless the text is the same line drawn again.
    fn settle(&mut self) -> Option<String> {
        let covered = self.covered.take()?;
        (letters_of(&covered) != letters_of(&self.text)).then_some(covered)
    }
}

impl FoldedTerminal {
    /// Takes in some more; hands on what can't change any more.
    pub(super) fn push(&mut self, bytes: &[u8], out: &mut impl FnMut(&str)) {
        let mut joined = std::mem::take(&mut self.part);
        joined.extend_from_slice(bytes);
        let mut rest: &[u8] = &joined;
        loop {
            match std::str::from_utf8(rest) {
                Ok(text) => return self.take(text, out),
                Err(error) => {
                    let (good, bad) = rest.split_at(error.valid_up_to());
                    self.take(&String::from_utf8_lossy(good), out);
                    let Some(length) = error.error_len() else {
                        self.part = bad.to_vec();
                        return;
                    };
                    self.take("\u{fffd}", out);
                    rest = &bad[length..];
                }
            }
        }
    }

    /// Hands on all that is there: nothing of it is drawn over any more.
    pub(super) fn flush(&mut self, out: &mut impl FnMut(&str)) {
        if !std::mem::take(&mut self.part).is_empty() {
            self.take("\u{fffd}", out);
        }
        let rows = std::mem::take(&mut self.rows);
        let last = rows.len().saturating_sub(1);
        for (n, mut row) in rows.into_iter().enumerate() {
            if let Some(mut covered) = row.settle() {
                covered.push('\n');
                out(&covered);
            }
            if n < last {
                row.text.push('\n');
            }
            out(&row.text);
        }
        (self.row, self.over) = (0, false);
    }

    fn take(&mut self, text: &str, out: &mut impl FnMut(&str)) {
        let mut rest = text;
        while !rest.is_empty() {
            if self.mode == EscapeMode::Text {
                let plain = &rest[..plain_length(rest)];
                // Lines above those that can still be drawn over are final.
                if let Some((above, _)) = plain.rmatch_indices('\n').nth(ROWS)
                    && !self.over
                    && self.row + 1 >= self.rows.len()
                {
                    self.pass_lines(&plain[..=above], out);
                    rest = &rest[above + 1..];
                    continue;
                }
                let line = plain.find('\n').unwrap_or(plain.len());
                if line > 0 {
                    self.write(&rest[..line], out);
                    rest = &rest[line..];
                    continue;
                }
            }
            let Some(c) = rest.chars().next() else { return };
            rest = &rest[c.len_utf8()..];
            self.step(c, out);
        }
    }

    /// Hands on whole lines behind which enough others follow.
    fn pass_lines(&mut self, lines: &str, out: &mut impl FnMut(&str)) {
        let (first, others) = lines.split_once('\n').unwrap_or((lines, ""));
        // The first line feed ends the line that is written now.
        self.write(first, out);
        self.end_line(out);
        while self.row > 0 {
            self.leave(out);
        }
        if !others.is_empty() {
            out(others);
        }
    }

    fn step(&mut self, c: char, out: &mut impl FnMut(&str)) {
        match self.mode {
            EscapeMode::Text => self.control(c, out),
            EscapeMode::Escape => {
                self.mode = match c {
                    '[' => EscapeMode::Control { number: None, first: true },
                    ']' | 'P' | 'X' | '^' | '_' => EscapeMode::Quoted { escaped: false },
                    '(' | ')' | '#' | '%' | ' ' => EscapeMode::Skip,
                    _ => EscapeMode::Text,
                };
            }
            EscapeMode::Skip => self.mode = EscapeMode::Text,
            EscapeMode::Control { number, first } => match c {
                '0'..='9' if first => {
                    let digit = u16::try_from(u32::from(c) - u32::from('0')).unwrap_or(0);
                    let number = number.unwrap_or(0).saturating_mul(10).saturating_add(digit);
                    self.mode = EscapeMode::Control { number: Some(number), first };
                }
                '@'..='~' => {
                    self.mode = EscapeMode::Text;
                    self.command(c, number, out);
                }
                '\n' => {
                    // The escape sequence was cut off by a line feed.
                    self.mode = EscapeMode::Text;
                    self.control(c, out);
                }
                ';' | ':' => self.mode = EscapeMode::Control { number, first: false },
                _ => {}
            },
            EscapeMode::Quoted { escaped } => match c {
                '\u{7}' => self.mode = EscapeMode::Text,
                '\\' if escaped => self.mode = EscapeMode::Text,
                '\n' => {
                    self.mode = EscapeMode::Text;
                    self.control(c, out);
                }
                c => self.mode = EscapeMode::Quoted { escaped: c == '\u{1b}' },
            },
        }
    }

    fn control(&mut self, c: char, out: &mut impl FnMut(&str)) {
        match c {
            '\n' => self.end_line(out),
            // A carriage return before a line feed is a part of the line's end.
            '\r' => self.over = true,
            '\u{8}' => {
                self.current().pop();
            }
            '\u{1b}' => self.mode = EscapeMode::Escape,
            '\u{9b}' => self.mode = EscapeMode::Control { number: None, first: true },
            _ => {}
        }
    }

    fn command(&mut self, c: char, number: Option<u16>, out: &mut impl FnMut(&str)) {
        let times = usize::from(number.unwrap_or(1).max(1));
        match c {
            'A' | 'F' => {
                self.row = self.row.saturating_sub(times);
                self.over = true;
            }
            'B' | 'E' => {
                self.row = (self.row + times).min(self.rows.len().saturating_sub(1));
                self.over = true;
            }
            'G' if times == 1 => self.over = true,
            'K' if number.unwrap_or(0) > 0 || self.over => self.draw_over(),
            'J' if number.unwrap_or(0) == 0 => {
                if self.over {
                    self.draw_over();
                }
                self.rows.truncate(self.row + 1);
            }
            // A new page.
            'J' | 'H' => {
                self.end_line_if_begun(out);
                self.flush(out);
            }
            _ => {}
        }
    }

    fn current(&mut self) -> &mut String {
        while self.rows.len() <= self.row {
            self.rows.push_back(DrawnRow::default());
        }
        &mut self.rows[self.row].text
    }

    fn write(&mut self, text: &str, out: &mut impl FnMut(&str)) {
        if std::mem::take(&mut self.over) {
            self.draw_over();
        }
        self.current().push_str(text);
        if self.current().len() > LONG {
            // Nobody draws over so long a line.
            let newest = self.row;
            for _ in 0..newest {
                self.leave(out);
            }
            if let Some(long) = self.rows.front_mut() {
                out(&std::mem::take(&mut long.text));
            }
        }
    }

    /// The line is blank from now on; what it said stays if it tells of trouble.
    fn draw_over(&mut self) {
        if self.current().is_empty() {
            return;
        }
        self.drawn_over += 1;
        let row = &mut self.rows[self.row];
        let stays = row.settle();
        let before = std::mem::take(&mut row.text);
        if tells_trouble(&before) {
            row.covered = Some(before);
        }
        if let Some(text) = stays {
            self.rows.insert(self.row, DrawnRow { text, covered: None });
            self.row += 1;
        }
    }

    fn end_line(&mut self, out: &mut impl FnMut(&str)) {
        self.current();
        self.over = false;
        self.row += 1;
        if self.row < self.rows.len() {
            // The line below has text already, which is drawn over.
            self.over = true;
            return;
        }
        self.current();
        while self.rows.len() > ROWS {
            self.leave(out);
        }
    }

    fn end_line_if_begun(&mut self, out: &mut impl FnMut(&str)) {
        if self.rows.back().is_some_and(|last| !last.text.is_empty()) {
            self.row = self.rows.len() - 1;
            self.end_line(out);
        }
    }

    /// Hands on the first line, which is final.
    fn leave(&mut self, out: &mut impl FnMut(&str)) {
        if let Some(mut first) = self.rows.pop_front() {
            if let Some(mut covered) = first.settle() {
                covered.push('\n');
                out(&covered);
            }
            first.text.push('\n');
            out(&first.text);
            self.row = self.row.saturating_sub(1);
        }
    }
}

/// Letters of a line: they are the same in two drawings of one progress bar.
fn letters_of(line: &str) -> String {
    line.chars().filter(|c| c.is_alphabetic()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folded(text: &str, piece: usize) -> String {
        let (mut terminal, mut out) = (FoldedTerminal::default(), String::new());
        let mut take = |text: &str| out.push_str(text);
        for part in text.as_bytes().chunks(piece) {
            terminal.push(part, &mut take);
        }
        terminal.flush(&mut take);
        out
    }

    #[test]
    fn what_is_left_is_what_stands_in_the_end_however_it_comes() {
        for (raw, left) in [
            ("plain\ntext", "plain\ntext"),
            ("a\r\nb\r\n\r\nc\r\n", "a\nb\n\nc\n"),
            ("10%\r50%\r100%\r\ndone\n", "100%\ndone\n"),
            ("\u{1b}[31mred\u{1b}[0m\ttab\n", "red\ttab\n"),
            ("\u{1b}]0;title\u{7}a\u{1b}]8;;http://x\u{1b}\\link\n", "alink\n"),
            ("-\u{8}\\\u{8}|\u{8}done\n", "done\n"),
            ("one\ntwo\n\u{1b}[2A\u{1b}[2Kuno\n\u{1b}[2Kdos\nend", "uno\ndos\nend"),
            ("a: 1\nb: 1\n\u{1b}[1A\r\u{1b}[Kb: 2\n\u{1b}[1Fb: 3\n", "a: 1\nb: 3\n"),
            ("12%\u{1b}[1G99%\u{1b}[K\n", "99%\n"),
            ("wait…\u{1b}[2K\rok\n", "ok\n"),
            ("x\n\u{1b}[1A\u{1b}[Jy\n", "y\n"),
            ("page one\u{1b}[2J\u{1b}[Hpage two\n", "page one\npage two\n"),
            ("cut \u{1b}[3", "cut "),
            ("cut \u{1b}]0;x\nnext", "cut \nnext"),
            ("5%\rERROR: disk full\r6%\r7%\n", "ERROR: disk full\n7%\n"),
            ("ok 1, failed 0\rok 2, failed 0\rok 3, failed 0\n", "ok 3, failed 0\n"),
            ("ñ\u{0}🎉\n", "ñ🎉\n"),
        ] {
            for piece in [1, 2, 3, 7, 1000] {
                assert_eq!(folded(raw, piece), left, "{raw:?} by {piece}");
            }
        }
        let mut odd = FoldedTerminal::default();
        let mut out = String::new();
        odd.push(b"caf\xe9 \xf0\x9f", &mut |text: &str| out.push_str(text));
        odd.flush(&mut |text: &str| out.push_str(text));
        assert_eq!(out, "caf\u{fffd} \u{fffd}");
    }

    #[test]
    fn thousands_of_frames_are_a_line_each_and_the_error_between_them_stays() {
        let bar = |name: &str| -> String {
            let frame = |n: usize| format!("\r{name} [{}>] {n}/3000", "=".repeat(n / 60));
            (0..3000).map(frame).collect::<Vec<_>>().concat()
        };
        let text =
            format!("{}\nERROR: checksum of layer 0 is wrong\n{}\n", bar("pull"), bar("extract"));
        let left = folded(&text, 4096);
        assert_eq!(left.lines().count(), 3, "{left}");
        assert!(left.contains("ERROR: checksum of layer 0 is wrong\n"), "{left}");
        let docker = (0..500)
            .map(|n| format!("\u{1b}[2A\u{1b}[2K\rlayer a {n}\n\u{1b}[2K\rlayer b {n}\n"))
            .collect::<Vec<_>>()
            .concat();
        let left = folded(&format!("Pulling\n\n\n{docker}denied: no access\n"), 1000);
        assert_eq!(left, "Pulling\nlayer a 499\nlayer b 499\ndenied: no access\n");
    }

    #[test]
    fn lines_far_above_are_final_and_the_last_ones_can_be_drawn_over() {
        let many = (0..1000).map(|n| format!("line {n}\n")).collect::<Vec<_>>().concat();
        let text = format!("5%\rERROR: no space\r6%{many}\u{1b}[2A\u{1b}[2Knew\n\u{1b}[1Bend");
        let lines: Vec<_> = (1..998).map(|n| format!("line {n}\n")).collect();
        let left = format!("ERROR: no space\n6%line 0\n{}new\nline 999\nend", lines.concat());
        for piece in [1, 64, 5000, 1_000_000] {
            assert_eq!(folded(&text, piece), left, "by {piece}");
        }
    }

    #[test]
    fn each_line_of_trouble_is_found_once() {
        let text = "ok\nerror: a failed\nfine\n\nWARN b\nkilled";
        let found: Vec<_> = trouble_lines(text).collect();
        assert_eq!(found, ["error: a failed", "WARN b", "killed"]);
    }

    #[test]
    fn long_lines_and_many_lines_pass_through() {
        let lines = (0..50_000).map(|n| format!("{n}\n")).collect::<Vec<_>>().concat();
        assert_eq!(folded(&lines, 5000), lines);
        let long = "x".repeat(1_000_000) + "\nend\n";
        assert_eq!(folded(&long, 7000), long);
    }
}
