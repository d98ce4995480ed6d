//! Feedback of conversations on learnings: each journal has a line of those that were gone by, that helped, and that
//! misled. Counting is reading the journals: no number is kept anywhere that could be wrong.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::used::find_ids;

const USED: &str = "Learnings used";
const HELPED: &str = "Learnings that helped";
const MISLED: &str = "Learnings that misled";
/// A journal says it in its first lines.
const MAX_HEAD: usize = 40;

/// Ids of learnings, as one conversation met them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LearningMarks {
    pub used: BTreeSet<String>,
    pub helped: BTreeSet<String>,
    pub misled: BTreeSet<String>,
}

impl LearningMarks {
    /// The lines of a journal's head; nothing where there is nothing.
    pub fn render(&self) -> String {
        let mut out = String::new();
        for (name, ids) in [(USED, &self.used), (HELPED, &self.helped), (MISLED, &self.misled)] {
            if !ids.is_empty() {
                let ids: Vec<_> = ids.iter().map(String::as_str).collect();
                let _ = writeln!(out, "- {name}: {}", ids.join(", "));
            }
        }
        out
    }

    /// Reads the marks in a journal's text.
    pub fn parse(journal: &str) -> Self {
        let mut marks = Self::default();
        let head = journal.lines().take(MAX_HEAD).take_while(|line| !line.starts_with("## "));
        for (name, ids) in head.filter_map(|line| line.strip_prefix("- ")?.split_once(':')) {
            let of = match name {
                USED => &mut marks.used,
                HELPED => &mut marks.helped,
                MISLED => &mut marks.misled,
                _ => continue,
            };
            of.extend(find_ids(ids).map(str::to_owned));
        }
        marks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_read_as_they_were_written_and_from_the_head_alone() {
        let ids = |text: &str| find_ids(text).map(str::to_owned).collect();
        let marks = LearningMarks {
            used: ids("l-00000001 l-00000002"),
            helped: BTreeSet::new(),
            misled: ids("l-00000002"),
        };
        let journal =
            format!("# A\n\n- Thread: x\n{}\n## Plan\n\n- {HELPED}: l-00000003\n", marks.render());
        assert!(
            journal.contains("- Learnings used: l-00000001, l-00000002\n- Learnings that misled:")
        );
        assert_eq!(LearningMarks::parse(&journal), marks);
    }
}
