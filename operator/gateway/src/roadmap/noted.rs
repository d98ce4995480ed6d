//! The note on an item that is being built: that it is in progress, or what it waits for, in commits on the item's
//! own branch. `done` is the implementer's to write, and from then on the file is left alone, so that nothing moves a
//! branch that people are asked about.

use codebutler_gateway_core::github::{GitHub, GitHubError};
use codebutler_roadmap::edit::{EditError, clear_field, set_field};
use codebutler_roadmap::{ItemField, ItemStatus, RoadmapFile};

use super::PATH;
use super::decide::{ItemStanding, WaitingReason, is_held_reason};
use super::messages::describe_reason;

/// Longest reason, in characters.
const REASON: usize = 200;

/// A status that the file is to have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotedStanding {
    InProgress,
    Blocked {
        why: String,
        /// Items that wait for it and have no branch of their own, each with why it is blocked, too.
        held: Vec<(String, String)>,
    },
}

impl NotedStanding {
    /// The note on an item whose Thread works on it; nothing where the file is somebody else's to change.
    pub fn of(standing: &ItemStanding) -> Option<Self> {
        match standing {
            ItemStanding::Works => Some(Self::InProgress),
            ItemStanding::Asks(
                why @ (WaitingReason::Question
                | WaitingReason::Failed
                | WaitingReason::Rests
                | WaitingReason::LostBase(_)),
                _,
            ) => {
                let why = describe_reason(why).chars().take(REASON).collect();
                Some(Self::Blocked { why, held: Vec::new() })
            }
            _ => None,
        }
    }

    /// The same with what waits for it.
    pub(super) fn holding(self, items: Vec<(String, String)>) -> Self {
        match self {
            Self::InProgress => self,
            Self::Blocked { why, .. } => Self::Blocked { why, held: items },
        }
    }

    const fn status(&self) -> ItemStatus {
        match self {
            Self::InProgress => ItemStatus::InProgress,
            Self::Blocked { .. } => ItemStatus::Blocked,
        }
    }

    fn reason(&self) -> Option<&str> {
        match self {
            Self::InProgress => None,
            Self::Blocked { why, .. } => Some(why),
        }
    }

    fn held(&self) -> &[(String, String)] {
        match self {
            Self::InProgress => &[],
            Self::Blocked { held, .. } => held,
        }
    }

    /// The file with it; nothing if it says so already, or if it is not to be changed. Pure.
    fn write(&self, text: &str, id: &str, branch: &str) -> Option<String> {
        let roadmap = RoadmapFile::read(text);
        let item = roadmap.item(id).filter(|item| item.is_sound)?;
        if item.status == ItemStatus::Done {
            return None;
        }
        let mut edited = set_field(text, id, ItemField::Status, self.status().as_str()).ok()?;
        if item.branch.as_deref() != Some(branch) {
            edited = set_field(&edited, id, ItemField::Branch, branch).ok()?;
        }
        edited = match self.reason() {
            Some(why) => set_field(&edited, id, ItemField::Reason, why),
            None => clear_field(&edited, id, ItemField::Reason),
        }
        .ok()?;
        edited = self.write_held(edited, id).ok()?;
        (edited != text).then_some(edited)
    }

    /// The file with what is blocked because this is, and without what was.
    fn write_held(&self, text: String, id: &str) -> Result<String, EditError> {
        let roadmap = RoadmapFile::read(&text);
        let mut edited = text;
        for item in roadmap.items.iter().filter(|item| item.id != id && item.is_sound) {
            let is_held = item.status == ItemStatus::Blocked
                && item.reason.as_deref().is_some_and(is_held_reason);
            let why = self.held().iter().find(|(held, _)| *held == item.id).map(|(_, why)| why);
            let reason = item.reason.as_ref();
            match why {
                Some(why)
                    if item.status == ItemStatus::Pending || is_held && reason != Some(why) =>
                {
                    let blocked = ItemStatus::Blocked.as_str();
                    edited = set_field(&edited, &item.id, ItemField::Status, blocked)?;
                    edited = set_field(&edited, &item.id, ItemField::Reason, why)?;
                }
                None if is_held => {
                    let pending = ItemStatus::Pending.as_str();
                    edited = set_field(&edited, &item.id, ItemField::Status, pending)?;
                    edited = clear_field(&edited, &item.id, ItemField::Reason)?;
                }
                _ => {}
            }
        }
        Ok(edited)
    }
}

/// Commits what the file is to say of an item on its branch, if it does not say so yet. Answers whether it does.
///
/// # Errors
/// When GitHub refuses, or can't be asked.
pub async fn note_item(
    github: &GitHub,
    (id, branch): (&str, &str),
    standing: &NotedStanding,
) -> Result<bool, GitHubError> {
    let Some(file) = github.branch_file(PATH, branch).await? else { return Ok(true) };
    let Some(edited) = write_bytes(standing, &file.bytes, (id, branch)) else { return Ok(true) };
    let how = match standing {
        NotedStanding::InProgress => "is in progress",
        NotedStanding::Blocked { .. } => "is blocked",
    };
    let message = format!("Roadmap: item {id} {how}");
    github.replace_file((PATH, branch, &file.id), edited.as_bytes(), &message).await
}

/// The file with the note, from its bytes. One with bytes that are no UTF-8 is left alone: they would come back as
/// others. Pure.
fn write_bytes(
    standing: &NotedStanding,
    bytes: &[u8],
    (id, branch): (&str, &str),
) -> Option<String> {
    standing.write(std::str::from_utf8(bytes).ok()?, id, branch)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "# Roadmap\n\n## 1. A\n- Status: pending\n- Acceptance criteria: a\n\n## 2. B\n- Acceptance criteria: b\n";

    #[test]
    fn a_reader_of_the_file_sees_what_is_up_and_no_trace_of_what_is_over() {
        let write = |how: &NotedStanding, text: &str| how.write(text, "1", "codebutler/x");
        let working = write(&NotedStanding::InProgress, FILE).unwrap();
        assert!(
            working.contains("## 1. A\n- Status: in_progress\n- Branch: codebutler/x\n"),
            "{working}"
        );
        assert!(working.ends_with("## 2. B\n- Acceptance criteria: b\n"), "{working}");
        assert_eq!(write(&NotedStanding::InProgress, &working), None, "said once");
        let why = "a question waits".to_owned();
        let blocked = NotedStanding::Blocked { why: why.clone(), held: Vec::new() };
        let waiting = write(&blocked, &working).unwrap();
        let item = RoadmapFile::read(&waiting).item("1").unwrap().clone();
        assert_eq!(
            (item.status, item.reason.as_deref(), item.branch.as_deref()),
            (ItemStatus::Blocked, Some("a question waits"), Some("codebutler/x"))
        );
        assert_eq!(item.hash(), RoadmapFile::read(FILE).item("1").unwrap().hash());
        assert_eq!(write(&blocked, &waiting), None);
        // Byte for byte what work on the branch has seen: nothing there gets in its way.
        assert_eq!(write(&NotedStanding::InProgress, &waiting).unwrap(), working);
        // The items that wait for it are noted, too.
        let held = vec![("2".to_owned(), "waits for 1, which is blocked".to_owned())];
        let both = NotedStanding::Blocked { why, held };
        let file = working.replace("## 2. B\n", "## 2. B\n- Status: pending\n");
        let holding = write(&both, &file).unwrap();
        assert!(
            holding
                .contains("## 2. B\n- Status: blocked\n- Reason: waits for 1, which is blocked\n"),
            "{holding}"
        );
        assert_eq!(write(&both, &holding), None);
        assert_eq!(write(&NotedStanding::InProgress, &holding).unwrap(), file);
    }

    #[test]
    fn what_is_done_or_unknown_is_left_alone() {
        let done = FILE.replace("pending", "done");
        for (text, id) in [(&*done, "1"), (FILE, "7"), ("", "1")] {
            assert_eq!(NotedStanding::InProgress.write(text, id, "b"), None, "{id}");
        }
        let at = ("1", "codebutler/x");
        assert!(write_bytes(&NotedStanding::InProgress, FILE.as_bytes(), at).is_some());
        let latin = [FILE.as_bytes(), b"\nCaf\xe9\n"].concat();
        assert_eq!(write_bytes(&NotedStanding::InProgress, &latin, at), None, "another encoding");
        assert_eq!(NotedStanding::of(&ItemStanding::Ready), None);
        assert_eq!(NotedStanding::of(&ItemStanding::Asks(WaitingReason::Dropped, None)), None);
    }
}
