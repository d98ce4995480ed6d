//! Messages and edits that a Thread's marks do not show, noted for the replica that keeps readings. Pure.

use codebutler_crds::{SlackTs, ThreadStatus};

/// Messages without a mark that are remembered.
const UNMARKED: usize = 16;

/// Notes a message that is the newest one of no role, so that no mark speaks of it.
pub fn note_unmarked(status: &mut ThreadStatus, ts: &SlackTs) {
    let marked = status.roles.values().any(|role| role.inbox.as_ref() == Some(ts));
    if marked || status.unmarked.contains(ts) {
        return;
    }
    let at = status.unmarked.partition_point(|known| known < ts);
    status.unmarked.insert(at, ts.clone());
    if status.unmarked.len() > UNMARKED {
        status.unmarked.remove(0);
    }
}

/// Notes when a message was edited or deleted. Only grows.
pub fn note_edited(status: &mut ThreadStatus, at: &SlackTs) {
    status.edited = status.edited.take().max(Some(at.clone()));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ts(n: u32) -> SlackTs {
        format!("{n}.000000").parse().unwrap()
    }

    #[test]
    fn messages_that_move_no_mark_are_noted_once_and_bounded() {
        let mut status = ThreadStatus::default();
        status.roles.entry("pm".to_owned()).or_default().inbox = Some(ts(9));
        note_unmarked(&mut status, &ts(9));
        assert!(status.unmarked.is_empty(), "the mark says so");
        for _ in 0..2 {
            note_unmarked(&mut status, &ts(8));
            note_unmarked(&mut status, &ts(7));
        }
        assert_eq!(status.unmarked, [ts(7), ts(8)]);
        for n in 10..40 {
            note_unmarked(&mut status, &ts(n));
        }
        assert_eq!((status.unmarked.len(), &status.unmarked[0]), (UNMARKED, &ts(24)));
        note_edited(&mut status, &ts(50));
        note_edited(&mut status, &ts(49));
        assert_eq!(status.edited, Some(ts(50)));
    }
}
