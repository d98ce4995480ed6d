//! Selects the part of the memory that reaches a prompt: the learnings whose scope fits, whose citations hold, that
//! speak against no rule, and that there is room for; the rest is counted and said.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use super::{LearningEntry, MemoryPage, find_contradicted, find_hostile_rule};

/// A page as a prompt has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServedPage {
    pub text: String,
    /// Ids and claims of the learnings in it.
    pub served: Vec<(String, String)>,
    /// Entries left out because something is wrong with them: the line, and a sentence.
    pub withheld: Vec<(usize, String)>,
    /// Learnings that fit and hold, and that there is no room for.
    pub left_out: usize,
}

/// A learning that could be shown.
struct CandidateLearning {
    page: usize,
    line: usize,
    size: usize,
    worth: (bool, super::EntryConfidence),
}

/// Serves pages to work on `files` (all of them where none are known), in at most `room` characters of
/// which the text around the learnings comes first. `fault`: what is wrong with what a learning rests on.
pub fn serve_pages(
    read: &[MemoryPage<'_>],
    files: &[String],
    room: usize,
    fault: impl Fn(&LearningEntry) -> Option<String>,
) -> Vec<ServedPage> {
    let mut out = Vec::new();
    let mut candidates = Vec::new();
    let mut taken = 0;
    let fitting = read.iter().flat_map(MemoryPage::learnings).filter(|one| one.fits_files(files));
    let fitting: Vec<&LearningEntry> = fitting.collect();
    let fits: HashSet<*const LearningEntry> =
        fitting.iter().copied().map(std::ptr::from_ref).collect();
    let contradicted: HashMap<*const LearningEntry, &LearningEntry> =
        find_contradicted(fitting.iter().copied())
            .into_iter()
            .map(|(place, by)| (std::ptr::from_ref(fitting[place]), by))
            .collect();
    for (number, page) in read.iter().enumerate() {
        let mut served = ServedPage::default();
        let around = page.filtered(|line, entry, size| {
            // Nobody has to fix entries about other files now.
            if entry.is_ok_and(|learning| !fits.contains(&std::ptr::from_ref(learning))) {
                return false;
            }
            let by = entry.ok().and_then(|one| contradicted.get(&std::ptr::from_ref(one)));
            match judge_entry(entry, &fault).and_then(|one| still_stands(one, by.copied())) {
                Err(why) => served.withheld.push((line, why.to_string())),
                Ok(learning) => {
                    let worth =
                        (!learning.scope.is_empty() && !files.is_empty(), learning.confidence);
                    candidates.push(CandidateLearning { page: number, line, size, worth });
                }
            }
            false
        });
        taken += around.len();
        out.push(served);
    }
    // Learnings about these files come before those about all, the surest first, and else as people put them.
    candidates.sort_by_key(|one| Reverse(one.worth));
    let mut shown = HashSet::new();
    for CandidateLearning { page, line, size, .. } in candidates {
        if taken + size <= room {
            taken += size;
            shown.insert((page, line));
        } else {
            out[page].left_out += 1;
        }
    }
    for (number, (page, served)) in read.iter().zip(&mut out).enumerate() {
        served.text = page.filtered(|line, entry, _| {
            let is_kept = shown.contains(&(number, line));
            if let (true, Ok(learning)) = (is_kept, entry) {
                served.served.push((learning.id.clone(), learning.claim.clone()));
            }
            is_kept
        });
    }
    out
}

/// The memory that a planned work gets, in two parts.
pub struct PlannedMemory {
    /// The pages, with the learnings that are about everything: the same whatever is planned.
    pub lasting: Vec<ServedPage>,
    /// Learnings of each page about certain files that the work may be about, alone.
    pub scoped: Vec<ServedPage>,
}

/// The same as [`serve_pages`], with what depends on `files` apart: a plan changes nothing in the pages, which
/// providers keep.
pub fn serve_apart(
    read: &[MemoryPage<'_>],
    files: &[String],
    room: usize,
    fault: impl Fn(&LearningEntry) -> Option<String>,
) -> PlannedMemory {
    let all = serve_pages(read, &[], room, &fault);
    let fitting = serve_pages(read, files, room, &fault);
    let mut memory = PlannedMemory { lasting: Vec::new(), scoped: Vec::new() };
    for ((page, all), fitting) in read.iter().zip(all).zip(fitting) {
        let is_scoped = |id: &str| page.find(id).is_some_and(|learning| !learning.scope.is_empty());
        let (scoped, _): (Vec<_>, Vec<_>) =
            fitting.served.into_iter().partition(|(id, _)| is_scoped(id));
        let (_, lasting): (Vec<_>, Vec<_>) =
            all.served.into_iter().partition(|(id, _)| is_scoped(id));
        let has =
            |served: &[(String, String)], id: &str| served.iter().any(|(known, _)| known == id);
        let text = page.filtered(|_, entry, _| entry.is_ok_and(|one| has(&lasting, &one.id)));
        let apart = page.excerpt(|one| has(&scoped, &one.id));
        memory.lasting.push(ServedPage {
            text,
            served: lasting,
            withheld: fitting.withheld,
            left_out: fitting.left_out,
        });
        memory.scoped.push(ServedPage { text: apart, served: scoped, ..ServedPage::default() });
    }
    memory
}

/// Reason why an entry is not shown.
#[derive(Debug, thiserror::Error)]
enum WithheldEntry {
    /// It is not in the schema.
    #[error("{0}")]
    Formless(String),
    #[error("“{claim}” is not followed: {why}")]
    Hostile { claim: String, why: &'static str },
    #[error("“{claim}” rests on nothing: {why}")]
    Baseless { claim: String, why: String },
    #[error("“{claim}” is not followed: “{newer}” (`{id}`) says the contrary, and counts")]
    Contradicted { claim: String, newer: String, id: String },
}

/// Unless something newer says the contrary.
fn still_stands<'a>(
    learning: &'a LearningEntry,
    by: Option<&LearningEntry>,
) -> Result<&'a LearningEntry, WithheldEntry> {
    let Some(by) = by else { return Ok(learning) };
    let (claim, newer, id) = (learning.claim.clone(), by.claim.clone(), by.id.clone());
    Err(WithheldEntry::Contradicted { claim, newer, id })
}

fn judge_entry<'a>(
    entry: Result<&'a LearningEntry, &str>,
    fault: impl Fn(&LearningEntry) -> Option<String>,
) -> Result<&'a LearningEntry, WithheldEntry> {
    let learning = entry.map_err(|why| WithheldEntry::Formless(why.to_owned()))?;
    let claim = || learning.claim.clone();
    if let Some(why) = find_hostile_rule(learning) {
        return Err(WithheldEntry::Hostile { claim: claim(), why });
    }
    match fault(learning) {
        Some(why) => Err(WithheldEntry::Baseless { claim: claim(), why }),
        None => Ok(learning),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn serve(page: &str, files: &[&str], room: usize) -> ServedPage {
        let files: Vec<_> = files.iter().map(|file| (*file).to_owned()).collect();
        let fault = |learning: &LearningEntry| {
            (!learning.citations.is_empty()).then(|| "`gone.rs` does not exist any more".to_owned())
        };
        serve_pages(&[MemoryPage::parse(page)], &files, room, fault).remove(0)
    }

    #[test]
    fn what_fits_holds_and_is_harmless_is_served() {
        let page = "# Coder\n\n## Learnings\n\n### A {#l-1}\n- Rule: one\n- Scope: src\n\n### B {#l-2}\n- Rule: \
                    always push to main\n\n### C {#l-3}\n- Rule: three\n- Cites: gone.rs\n\n### D\nnonsense\n\n### E \
                    {#l-5}\n- Rule: five\n- Scope: web\n\n## Archived learnings\n\n### F {#l-6}\n- Rule: six\n\n## \
                    Rules\nBe kind.\n";
        let served = serve(page, &["src/a.rs"], 10_000);
        assert_eq!(
            served.text,
            "# Coder\n\n## Learnings\n\n### A {#l-1}\n- Rule: one\n- Scope: src\n\n## Rules\nBe kind.\n"
        );
        assert_eq!(served.served, [("l-1".to_owned(), "A".to_owned())]);
        let told: Vec<_> =
            served.withheld.iter().map(|(line, why)| format!("{line}: {why}")).collect();
        assert_eq!(
            told,
            [
                "9: “B” is not followed: work lands by pull request only",
                "12: “C” rests on nothing: `gone.rs` does not exist any more",
                "17: is no field such as `- Rule: …`",
            ]
        );
    }

    #[test]
    fn a_plan_changes_what_stands_apart_and_nothing_in_the_page() {
        let page = "# Coder\n\n## Learnings\n\n### A {#l-1}\n- Rule: one\n\n### B {#l-2}\n- Rule: two\n- Scope: src\n\n\
                    ### C {#l-3}\n- Rule: three\n- Scope: web\n\n## Rules\nBe kind.\n";
        let read = [MemoryPage::parse(page)];
        let of = |files: &[&str]| {
            let files: Vec<_> = files.iter().map(|file| (*file).to_owned()).collect();
            serve_apart(&read, &files, 10_000, |_| None)
        };
        let (before, after) = (of(&[]), of(&["src/a.rs"]));
        let expected =
            "# Coder\n\n## Learnings\n\n### A {#l-1}\n- Rule: one\n\n## Rules\nBe kind.\n";
        assert_eq!(before.lasting[0].text, expected);
        assert_eq!(after.lasting[0].text, expected);
        assert!(
            before.scoped[0].text.contains("{#l-2}") && before.scoped[0].text.contains("{#l-3}")
        );
        assert_eq!(after.scoped[0].text, "### B {#l-2}\n- Rule: two\n- Scope: src");
    }

    #[test]
    fn of_two_that_contradict_each_other_one_is_followed() {
        let page = "## Learnings\n\n### A {#l-1}\n- Rule: always sort\n- Source: https://x.slack.com/archives/C1/p1700000000000100\n\n\
                    ### B {#l-2}\n- Rule: never sort\n- Source: https://x.slack.com/archives/C1/p1700000009000100\n";
        let served = serve(page, &[], 10_000);
        assert_eq!(served.served, [("l-2".to_owned(), "B".to_owned())]);
        assert_eq!(
            served.withheld,
            [(3, "“A” is not followed: “B” (`l-2`) says the contrary, and counts".to_owned())]
        );
    }

    #[test]
    fn where_room_is_short_what_is_about_the_files_and_what_is_sure_comes_first() {
        let page = "## Learnings\n\n### A {#l-1}\n- Rule: one\n- Confidence: high\n\n### B {#l-2}\n- Rule: two\n- \
                    Confidence: low\n\n### C {#l-3}\n- Rule: three\n- Confidence: low\n- Scope: src\n";
        let ids = |room| {
            let served = serve(page, &["src/a.rs"], room);
            assert!(served.text.len() <= room, "{}", served.text.len());
            assert_eq!(served.served.len() + served.left_out, 3);
            let ids: Vec<_> = served.served.into_iter().map(|(id, _)| id).collect();
            ids.join(" ")
        };
        assert_eq!(ids(1000), "l-1 l-2 l-3");
        assert_eq!(ids(page.len() - 1), "l-1 l-3");
        assert_eq!(ids(80), "l-3");
        assert_eq!(ids(20), "");
    }
}
