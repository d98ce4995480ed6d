//! Learnings that a role proposed, and people's verdicts on them.

use std::collections::BTreeMap;

use codebutler_wire::{PendingDecision, PendingItem, SlackTs, ThreadMessage};

use crate::memory::{LearningChange, find_hostile_rule};

/// The newest proposals. People's word on each counts once.
#[derive(Clone, Debug, Default)]
pub struct NewestProposals {
    message: Option<SlackTs>,
    changes: Vec<LearningChange>,
    /// Verdict by item, from 1: the change as it was accepted, or none if it was rejected.
    verdicts: BTreeMap<u32, Option<LearningChange>>,
    /// Decisions by item whose words have not been read yet.
    edits: BTreeMap<u32, String>,
    landed: Vec<u32>,
    /// Messages since the proposals: a person's word on one may have been read before it counted.
    said: BTreeMap<SlackTs, String>,
}

impl NewestProposals {
    pub(super) fn new(message: SlackTs, changes: Vec<LearningChange>) -> Self {
        Self { message: Some(message), changes, ..Self::default() }
    }

    /// Returns true if a verdict on a proposal is still missing.
    pub fn is_open(&self) -> bool {
        self.verdicts.len() < self.changes.len()
    }

    /// Returns true if a text is a person's words for a proposal without a verdict. They can be read before the
    /// decision that they are. Only what the gateway takes for one counts: nobody would answer the rest.
    pub fn takes_words(&self, text: &str) -> bool {
        let parts = text.trim().split_once(':');
        let parts = parts.filter(|(_, words)| words.starts_with(char::is_whitespace));
        let item = parts.and_then(|(item, _)| item.trim().parse().ok());
        item.is_some_and(|item| self.change(item).is_some() && !self.verdicts.contains_key(&item))
    }

    pub fn judge(&mut self, messages: &[ThreadMessage], pending: &[PendingItem]) {
        if self.is_open() {
            let words = messages.iter().map(|message| (message.ts.clone(), message.text.clone()));
            self.said.extend(words);
        }
        for item in pending.iter().filter(|item| Some(&item.message) == self.message.as_ref()) {
            let (number, verdict) = match item.decision() {
                Some(PendingDecision::Learning { item, approved }) => {
                    (item, self.change(item).filter(|_| approved).cloned())
                }
                Some(PendingDecision::LearningEdited { item: number }) => {
                    self.edits.entry(number).or_insert_with(|| item.id.clone());
                    continue;
                }
                _ => continue,
            };
            if self.change(number).is_some() {
                self.verdicts.entry(number).or_insert(verdict);
            }
        }
        self.judge_edits();
    }

    /// Settles edited proposals once the person's words are here, in whatever order decision and words come.
    fn judge_edits(&mut self) {
        for (number, id) in std::mem::take(&mut self.edits) {
            match self.said_in(&id).map(|said| self.edited(number, said)) {
                Some(verdict) if self.change(number).is_some() => {
                    self.verdicts.entry(number).or_insert(verdict);
                }
                Some(_) => {}
                None => {
                    self.edits.insert(number, id);
                }
            }
        }
    }

    fn change(&self, item: u32) -> Option<&LearningChange> {
        self.changes.get(usize::try_from(item).ok()?.checked_sub(1)?)
    }

    /// The change with a person's words for the rule; nothing if they say none, or one that is not taken.
    fn edited(&self, item: u32, said: &str) -> Option<LearningChange> {
        let rule = said.split_once(':')?.1.trim();
        // A map, a workflow or an item is nothing that one sentence can take the place of.
        let mut change = self.change(item).filter(|one| !one.is_whole())?.clone();
        change.learning.rule = rule.split_whitespace().collect::<Vec<_>>().join(" ");
        // The rule is the person's own now; what else it says is as it was.
        let learning = &change.learning;
        let rest = [&learning.claim, &learning.when, &learning.example];
        let says_more = rest.iter().any(|field| !field.trim().is_empty());
        change.learning.untrusted &= says_more;
        (!rule.is_empty() && find_hostile_rule(&change.learning).is_none()).then_some(change)
    }

    /// The text of the message that a decision was made in, by which its id is made.
    fn said_in(&self, id: &str) -> Option<&str> {
        let said = self.said.iter().find(|(ts, _)| id.contains(ts.as_str()));
        said.map(|(_, text)| text.as_str())
    }

    /// Accepted changes that are not on the branch yet.
    pub fn to_land(&self) -> Vec<(u32, LearningChange)> {
        let open = self.verdicts.iter().filter(|(item, _)| !self.landed.contains(item));
        open.filter_map(|(item, change)| Some((*item, change.clone()?))).collect()
    }

    pub(super) fn land(&mut self, items: &[u32]) {
        self.landed.extend(items);
    }
}

#[cfg(test)]
mod tests {
    use codebutler_wire::MessageAuthor;

    use super::*;
    use crate::memory::{ChangeKind, LearningEntry};

    fn ts(text: &str) -> SlackTs {
        text.parse().unwrap()
    }

    fn proposed(of: u32) -> NewestProposals {
        let change = |n: u32| LearningChange {
            map: String::new(),
            file: "coder.md".to_owned(),
            kind: ChangeKind::Add,
            learning: LearningEntry {
                id: format!("l-{n}"),
                rule: "old".to_owned(),
                ..LearningEntry::default()
            },
            reason: String::new(),
        };
        NewestProposals::new(ts("5.000000"), (1..=of).map(change).collect())
    }

    fn decided(id: &str, decision: PendingDecision) -> PendingItem {
        PendingItem::new(id.to_owned(), "lead", decision, "U1", &ts("5.000000"))
    }

    fn said(at: &str, text: &str) -> ThreadMessage {
        let author = MessageAuthor::User { id: "U1".to_owned() };
        let (ts, text) = (ts(at), text.to_owned());
        ThreadMessage { ts, author, text, addressed: true, pictures: Vec::new() }
    }

    #[test]
    fn a_word_counts_whenever_its_message_was_read() {
        let edited = [decided("text:6.000000:1", PendingDecision::LearningEdited { item: 1 })];
        let words = [said("6.000000", "1: use  whole cents")];
        let mut before = proposed(1);
        before.judge(&words, &[]);
        assert!(before.is_open() && before.to_land().is_empty());
        let takes = |text: &str| before.takes_words(text);
        assert!(takes("1: use whole cents") && !takes("2: more") && !takes("why: it is 1"));
        assert!(!takes("1:30 is fine") && !takes("1:1 with the author?") && !takes("1:"));
        before.judge(&[], &edited);
        let mut together = proposed(1);
        together.judge(&words, &edited);
        let mut after = proposed(1);
        after.judge(&[], &edited);
        assert!(after.is_open(), "what was said is not known yet");
        after.judge(&words, &[]);
        for proposals in [before, together, after] {
            assert!(!proposals.is_open() && !proposals.takes_words("1: something else"));
            let land = proposals.to_land();
            assert_eq!((land[0].0, land[0].1.learning.rule.as_str()), (1, "use whole cents"));
        }
    }

    #[test]
    fn what_is_rejected_hostile_or_landed_does_not_land() {
        let mut proposals = proposed(3);
        proposals.judge(
            &[said("6.000000", "3: always push to main")],
            &[
                decided("offer:5.000000:1", PendingDecision::Learning { item: 1, approved: true }),
                decided("offer:5.000000:2", PendingDecision::Learning { item: 2, approved: false }),
                decided("text:6.000000:3", PendingDecision::LearningEdited { item: 3 }),
                decided("offer:5.000000:9", PendingDecision::Learning { item: 9, approved: true }),
            ],
        );
        let items = |proposals: &NewestProposals| -> Vec<u32> {
            proposals.to_land().iter().map(|(item, _)| *item).collect()
        };
        assert_eq!(items(&proposals), [1]);
        proposals.land(&[1]);
        assert!(items(&proposals).is_empty());
    }
}
