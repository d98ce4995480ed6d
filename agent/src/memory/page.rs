//! A file such as `.codebutler/coder.md`: whatever people wrote, and in it the sections `## Learnings` and
//! `## Archived learnings`, each a list of entries. All but the entry that is changed stays as it is, byte
//! for byte.

use std::ops::Range;

use super::LearningEntry;

const LEARNINGS: &str = "learnings";
const ARCHIVED: &str = "archived learnings";

/// A page of learnings, parsed.
pub struct MemoryPage<'a> {
    text: &'a str,
    /// The bytes of a section's body, its heading not included.
    learnings: Option<Range<usize>>,
    archived: Option<Range<usize>>,
    entries: Vec<PlacedEntry>,
}

struct PlacedEntry {
    bytes: Range<usize>,
    /// Line number of the entry's heading, counted from 1.
    line: usize,
    archived: bool,
    read: Result<LearningEntry, (usize, String)>,
}

struct PageHeading<'a> {
    at: usize,
    /// Line number of the heading, counted from 1.
    number: usize,
    level: usize,
    text: &'a str,
}

fn find_headings(text: &str) -> Vec<PageHeading<'_>> {
    let mut at = 0;
    let mut headings = Vec::new();
    let mut fenced = false;
    for (number, line) in text.split_inclusive('\n').enumerate() {
        let bare = line.trim_end();
        fenced ^= bare.trim_start().starts_with("```");
        // A heading in an example is none.
        if let Some(level) = heading_level(bare).filter(|_| !fenced) {
            headings.push(PageHeading { at, number: number + 1, level, text: bare });
        }
        at += line.len();
    }
    headings
}

fn heading_level(line: &str) -> Option<usize> {
    let hashes = line.bytes().take_while(|byte| *byte == b'#').count();
    (hashes > 0 && line[hashes..].starts_with(' ')).then_some(hashes)
}

impl<'a> MemoryPage<'a> {
    /// Reads a page. What is no entry in a section of entries is a [fault](Self::faults).
    pub fn parse(text: &'a str) -> Self {
        let mut page = Self { text, learnings: None, archived: None, entries: Vec::new() };
        let headings = find_headings(text);
        // The next heading as a rule ends the section: a page of entries is read in one go.
        let end_of = |place: usize| {
            let level = headings[place].level;
            let mut next = headings[place + 1..].iter();
            next.find(|next| next.level <= level).map_or(text.len(), |next| next.at)
        };
        for (place, heading) in headings.iter().enumerate().filter(|(_, one)| one.level == 2) {
            let title = heading.text.trim_start_matches('#').trim().to_lowercase();
            let body = (heading.at + line_length(text, heading.at))..end_of(place);
            match title.as_str() {
                LEARNINGS if page.learnings.is_none() => page.learnings = Some(body),
                ARCHIVED if page.archived.is_none() => page.archived = Some(body),
                _ => {}
            }
        }
        for (place, heading) in headings.iter().enumerate().filter(|(_, one)| one.level == 3) {
            let within = |section: &Option<Range<usize>>| {
                section.as_ref().is_some_and(|body| body.contains(&heading.at))
            };
            let archived = within(&page.archived);
            if !archived && !within(&page.learnings) {
                continue;
            }
            let bytes = heading.at..end_of(place);
            let read = LearningEntry::parse(&text[bytes.clone()]);
            page.entries.push(PlacedEntry { bytes, line: heading.number, archived, read });
        }
        page
    }

    /// The learnings that count, in their order.
    pub fn learnings(&self) -> impl Iterator<Item = &LearningEntry> {
        self.current().filter_map(|entry| entry.read.as_ref().ok())
    }

    /// The learnings that are to be kept, alone.
    pub(super) fn excerpt(&self, keep: impl Fn(&LearningEntry) -> bool) -> String {
        let kept = self.current().filter(|entry| entry.read.as_ref().is_ok_and(&keep));
        let texts: Vec<&str> = kept.map(|entry| self.text[entry.bytes.clone()].trim()).collect();
        texts.join("\n\n")
    }

    fn current(&self) -> impl Iterator<Item = &PlacedEntry> {
        self.entries.iter().filter(|entry| !entry.archived)
    }

    fn placed(&self, id: &str) -> Option<&PlacedEntry> {
        let is = |entry: &&PlacedEntry| entry.read.as_ref().is_ok_and(|one| one.id == id);
        self.current().find(is).filter(|_| !id.is_empty())
    }

    /// Returns the entry with this id.
    pub fn find(&self, id: &str) -> Option<&LearningEntry> {
        self.placed(id).and_then(|entry| entry.read.as_ref().ok())
    }

    pub(super) fn has_archived(&self, id: &str) -> bool {
        let is = |entry: &PlacedEntry| entry.read.as_ref().is_ok_and(|one| one.id == id);
        self.entries.iter().any(|entry| entry.archived && is(entry))
    }

    /// Entries that are not in the schema: line, and what is wrong.
    pub fn faults(&self) -> impl Iterator<Item = (usize, &str)> {
        self.current().filter_map(|entry| {
            let (line, why) = entry.read.as_ref().err()?;
            Some((entry.line + line, why.as_str()))
        })
    }

    /// Adds an entry in the order of ids, which is none that anybody wants: two threads that each add one seldom do
    /// so at the same place, and so seldom conflict.
    pub(super) fn with_added(&self, id: &str, entry: &str) -> String {
        let later = |entry: &&PlacedEntry| entry.read.as_ref().is_ok_and(|one| *one.id > *id);
        match (&self.learnings, &self.archived) {
            (Some(body), _) => {
                let next = self.current().find(later).map_or(body.end, |entry| entry.bytes.start);
                self.inserted(next, entry, "")
            }
            (None, Some(archived)) => {
                let heading =
                    self.text[..archived.start].trim_end().rfind('\n').map_or(0, |at| at + 1);
                self.inserted(heading, entry, "## Learnings\n\n")
            }
            (None, None) => self.inserted(self.text.len(), entry, "## Learnings\n\n"),
        }
    }

    pub(super) fn with_replaced(&self, id: &str, entry: &str) -> Option<String> {
        let place = self.placed(id)?;
        let (before, after) = (&self.text[..place.bytes.start], &self.text[place.bytes.end..]);
        let gap = if after.is_empty() { "" } else { "\n" };
        Some(format!("{before}{entry}{gap}{after}"))
    }

    pub(super) fn with_archived(&self, id: &str) -> Option<String> {
        let place = self.placed(id)?;
        let entry = format!("{}\n", self.text[place.bytes.clone()].trim_end());
        let (before, after) = (&self.text[..place.bytes.start], &self.text[place.bytes.end..]);
        let rest = format!("{before}{after}");
        let page = MemoryPage::parse(&rest);
        Some(match &page.archived {
            Some(body) => page.inserted(body.end, &entry, ""),
            None => page.inserted(rest.len(), &entry, "## Archived learnings\n\n"),
        })
    }

    /// The text with something at a place, apart from what stands around it by an empty line.
    fn inserted(&self, at: usize, entry: &str, heading: &str) -> String {
        let before = self.text[..at].trim_end();
        let after = self.text[at..].trim_start_matches('\n');
        let gap = if before.is_empty() { "" } else { "\n\n" };
        let end = if after.is_empty() { "" } else { "\n" };
        format!("{before}{gap}{heading}{entry}{end}{after}")
    }

    /// The page without its archive, and without the entries that `keep` does not want: each is told what
    /// it is, or why it can't be read, its line, and its length.
    pub fn filtered(
        &self,
        mut keep: impl FnMut(usize, Result<&LearningEntry, &str>, usize) -> bool,
    ) -> String {
        let mut out = String::new();
        let mut from = 0;
        let leave_out = |bytes: &Range<usize>, out: &mut String, from: &mut usize| {
            if bytes.start >= *from {
                out.push_str(&self.text[*from..bytes.start]);
                *from = bytes.end;
            }
        };
        let archive = self.archived.as_ref().map(|body| {
            let heading = self.text[..body.start].trim_end().rfind('\n').map_or(0, |at| at + 1);
            heading..body.end
        });
        let mut gone: Vec<Range<usize>> = archive.into_iter().collect();
        for entry in self.current() {
            let read = entry.read.as_ref().map_err(|(_, why)| why.as_str());
            let line = entry.line + entry.read.as_ref().err().map_or(0, |(line, _)| *line);
            if !keep(line, read, entry.bytes.len()) {
                gone.push(entry.bytes.clone());
            }
        }
        gone.sort_by_key(|bytes| bytes.start);
        for bytes in &gone {
            leave_out(bytes, &mut out, &mut from);
        }
        out.push_str(&self.text[from..]);
        out
    }
}

fn line_length(text: &str, at: usize) -> usize {
    text[at..].find('\n').map_or(text.len() - at, |end| end + 1)
}

#[cfg(test)]
mod tests {
    use super::super::{ChangeKind, LearningChange};
    use super::*;

    const PAGE: &str = "# Coder\n\nBe kind.\n\n## Learnings\n\n### One {#l-1}\n- Rule: first\n\n### Two {#l-2}\n- Rule: second\n\n## Rules\n\n### Not an entry\nwords\n";

    fn change(kind: ChangeKind, id: &str, rule: &str) -> LearningChange {
        let (id, rule) = (id.to_owned(), rule.to_owned());
        let learning =
            LearningEntry { id, claim: "New".to_owned(), rule, ..LearningEntry::default() };
        let (reason, map) = (String::new(), String::new());
        LearningChange { file: "coder.md".to_owned(), kind, learning, reason, map }
    }

    fn ids(text: &str) -> Vec<String> {
        MemoryPage::parse(text).learnings().map(|one| one.id.clone()).collect()
    }

    #[test]
    fn one_entry_comes_and_all_else_stays() {
        let added = change(ChangeKind::Add, "l-3", "third");
        let after = added.apply(Some(PAGE)).unwrap();
        assert_eq!(ids(&after), ["l-1", "l-2", "l-3"]);
        let entry = "### New {#l-3}\n- Rule: third\n- Confidence: medium\n\n";
        assert_eq!(after.replace(entry, ""), PAGE);
        assert_eq!(added.apply(Some(&after)).unwrap(), after, "twice is once");
        let same = change(ChangeKind::Add, "l-4", "Third!").apply(Some(&after)).unwrap_err();
        let same = same.to_string();
        assert!(
            same.starts_with("`.codebutler/coder.md` says that already: “New” (`l-3`)"),
            "{same}"
        );
    }

    #[test]
    fn a_page_that_is_not_there_begins_with_it() {
        let page = change(ChangeKind::Add, "l-3", "third").apply(None).unwrap();
        assert_eq!(
            page,
            "# coder\n\n## Learnings\n\n### New {#l-3}\n- Rule: third\n- Confidence: medium\n"
        );
        let archived = change(ChangeKind::Archive, "l-3", "").apply(Some(&page)).unwrap();
        assert!(ids(&archived).is_empty(), "{archived}");
        let again = change(ChangeKind::Add, "l-5", "fifth").apply(Some(&archived)).unwrap();
        assert_eq!(ids(&again), ["l-5"], "{again}");
        assert!(again.contains("## Archived learnings\n\n### New {#l-3}"), "{again}");
    }

    #[test]
    fn one_is_said_anew_and_one_becomes_history() {
        let after = change(ChangeKind::Replace, "l-1", "better").apply(Some(PAGE)).unwrap();
        assert_eq!(
            after,
            PAGE.replace(
                "### One {#l-1}\n- Rule: first\n",
                "### New {#l-1}\n- Rule: better\n- Confidence: medium\n"
            )
        );
        let archive = change(ChangeKind::Archive, "l-1", "");
        let after = archive.apply(Some(PAGE)).unwrap();
        assert_eq!(ids(&after), ["l-2"]);
        assert!(
            after.ends_with("## Archived learnings\n\n### One {#l-1}\n- Rule: first\n"),
            "{after}"
        );
        assert_eq!(archive.apply(Some(&after)).unwrap(), after, "twice is once");
        let none = change(ChangeKind::Replace, "l-9", "x").apply(Some(PAGE)).unwrap_err();
        let says = "`.codebutler/coder.md` has no learning `l-9`; it has l-1, l-2";
        assert_eq!(none.to_string(), says);
    }

    #[test]
    fn people_see_the_lines_that_go_and_come() {
        let diff = change(ChangeKind::Replace, "l-1", "better").show_diff(Some(PAGE));
        assert!(diff.starts_with("- ### One {#l-1}\n- - Rule: first\n"), "{diff}");
        assert!(diff.contains("\n+ ### New {#l-1}\n+ - Rule: better"), "{diff}");
    }

    #[test]
    fn nonsense_of_people_is_named_with_its_line_and_harms_nothing_else() {
        let broken = PAGE.replace("- Rule: first", "no field at all");
        let page = MemoryPage::parse(&broken);
        let faults: Vec<_> = page.faults().collect();
        assert_eq!(faults, [(8, "is no field such as `- Rule: …`")]);
        assert_eq!(ids(&broken), ["l-2"]);
        let fenced = "## Learnings\n\n### A {#l-1}\n- Rule: x\n\n```\n## Learnings\n### B\n```\n";
        assert_eq!(MemoryPage::parse(fenced).entries.len(), 1);
    }
}
