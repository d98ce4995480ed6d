//! Finds learnings that should go, and says why: found by looking, proposed by the lead, decided by people. Pure.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{EntryConfidence, LearningEntry, LearningMarks, MemoryPage, contradicts};

/// Conversations without a use after which an uncertain learning should go.
const UNUSED_FOR: usize = 10;
/// The page that counts for all roles.
const SHARED: &str = "global.md";

/// A learning that should be archived or said anew.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PruneSignal {
    /// Path of the page below `.codebutler/`.
    pub file: String,
    pub id: String,
    pub claim: String,
    pub why: String,
}

/// A page by its name below `.codebutler/`.
pub struct NamedPage<'a> {
    pub file: &'a str,
    pub page: MemoryPage<'a>,
}

/// A conversation that is over: when it began, in Slack's seconds, and what it says of learnings.
pub struct PastThread {
    pub began: u64,
    pub marks: LearningMarks,
}

/// Finds signals, page by page. `fault` says what is wrong with the evidence of a learning, or with what it names.
pub fn find_signals(
    pages: &[NamedPage<'_>],
    past: &[PastThread],
    fault: impl Fn(&LearningEntry) -> Option<String>,
) -> Vec<PruneSignal> {
    let shared: Vec<&LearningEntry> = pages
        .iter()
        .filter(|page| page.file == SHARED)
        .flat_map(|page| page.page.learnings())
        .collect();
    let mut found = Vec::new();
    for NamedPage { file, page } in pages {
        for learning in page.learnings().filter(|one| !one.id.is_empty()) {
            let others = page.learnings().chain(shared.iter().copied());
            let why = fault(learning)
                .or_else(|| find_harm(learning, past))
                .or_else(|| find_newer_contradiction(learning, others))
                .or_else(|| (*file != SHARED).then(|| find_repetition(learning, &shared)).flatten())
                .or_else(|| find_disuse(learning, past));
            if let Some(why) = why {
                let (id, claim) = (learning.id.clone(), learning.claim.clone());
                found.push(PruneSignal { file: (*file).to_owned(), id, claim, why });
            }
        }
    }
    found
}

fn find_harm(learning: &LearningEntry, past: &[PastThread]) -> Option<String> {
    let count = |of: fn(&LearningMarks) -> &BTreeSet<String>| {
        past.iter().filter(|thread| of(&thread.marks).contains(&learning.id)).count()
    };
    let (misled, helped) = (count(|marks| &marks.misled), count(|marks| &marks.helped));
    (misled > helped).then(|| format!("it misled more often than it helped ({misled} : {helped})"))
}

fn find_newer_contradiction<'a>(
    learning: &LearningEntry,
    others: impl Iterator<Item = &'a LearningEntry>,
) -> Option<String> {
    let mut others = others.filter(|other| other.id != learning.id);
    let other =
        others.find(|other| contradicts(learning, other) && other.began() >= learning.began())?;
    Some(format!("“{}” (`{}`) says the contrary, and is newer", other.claim, other.id))
}

fn find_repetition(learning: &LearningEntry, shared: &[&LearningEntry]) -> Option<String> {
    let same = shared.iter().find(|other| learning.repeats(other))?;
    Some(format!("`{SHARED}` says it to everybody (“{}”)", same.claim))
}

fn find_disuse(learning: &LearningEntry, past: &[PastThread]) -> Option<String> {
    let since = learning.began()?;
    let later: Vec<_> = past.iter().filter(|thread| thread.began > since).collect();
    let is_used = later.iter().any(|thread| {
        thread.marks.used.contains(&learning.id) || thread.marks.helped.contains(&learning.id)
    });
    let is_unused =
        learning.confidence == EntryConfidence::Low && later.len() >= UNUSED_FOR && !is_used;
    is_unused.then(|| {
        format!("nobody was sure of it, and none of {} conversations since went by it", later.len())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(id: u32, rule: &str, confidence: &str, began: u64) -> String {
        format!(
            "### C{id} {{#l-{id:08x}}}\n- Rule: {rule}\n- Confidence: {confidence}\n- Source: \
             https://acme.slack.com/archives/C1/p{began}000100\n\n"
        )
    }

    fn page(entries: &[String]) -> String {
        format!("## Learnings\n\n{}", entries.concat())
    }

    fn thread(began: u64, journal: &str) -> PastThread {
        PastThread { began, marks: LearningMarks::parse(journal) }
    }

    fn signals(coder: &str, global: &str, past: &[PastThread]) -> Vec<String> {
        let pages = [
            NamedPage { file: "coder.md", page: MemoryPage::parse(coder) },
            NamedPage { file: "global.md", page: MemoryPage::parse(global) },
        ];
        let fault =
            |one: &LearningEntry| one.rule.contains("gone").then(|| "`a` is gone".to_owned());
        find_signals(&pages, past, fault)
            .into_iter()
            .map(|one| format!("{} {}: {}", one.file, one.id, one.why))
            .collect()
    }

    const THEN: u64 = 1_700_000_000;

    #[test]
    fn each_signal_is_found_and_what_is_fine_is_left() {
        let coder = page(&[
            entry(1, "use cents", "low", THEN),
            entry(2, "look at what is gone", "high", THEN),
            entry(3, "always sort the lines", "high", THEN),
            entry(4, "never sort the lines", "high", THEN + 9),
            entry(5, "Write tests.", "high", THEN),
            entry(6, "ask twice", "high", THEN),
            entry(7, "trust it", "low", THEN),
        ]);
        let global = page(&[entry(8, "write tests", "high", THEN)]);
        let mut past: Vec<_> = (1..=10).map(|n| thread(THEN + n, "")).collect();
        past.push(thread(
            THEN + 20,
            "- Learnings used: l-00000007\n- Learnings that misled: l-00000006",
        ));
        assert_eq!(
            signals(&coder, &global, &past),
            [
                "coder.md l-00000001: nobody was sure of it, and none of 11 conversations since went by it",
                "coder.md l-00000002: `a` is gone",
                "coder.md l-00000003: “C4” (`l-00000004`) says the contrary, and is newer",
                "coder.md l-00000005: `global.md` says it to everybody (“C8”)",
                "coder.md l-00000006: it misled more often than it helped (1 : 0)",
            ]
        );
        past.truncate(9);
        let left = signals(&coder, &global, &past);
        assert!(!left.iter().any(|one| one.contains("00000001")), "nine are too few: {left:?}");
    }
}
