//! Messages and edits that a Thread's marks do not show, noted for the replica that keeps readings. Pure.

use codebutler_crds::{SlackTs, ThreadStatus};

/// Messages without a mark that are remembered.
const UNMARKED: usize = 16;

/// Notes a message that a replica without readings has received. Its mark alone would not do: a newer message may
/// move the mark on before the replica that keeps readings has seen it.
pub fn note_unmarked(status: &mut ThreadStatus, ts: &SlackTs) {
    if status.unmarked.contains(ts) {
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
    fn messages_of_another_replica_are_noted_once_and_bounded() {
        let mut status = ThreadStatus::default();
        status.roles.entry("pm".to_owned()).or_default().inbox = Some(ts(9));
        for _ in 0..2 {
            note_unmarked(&mut status, &ts(9));
            note_unmarked(&mut status, &ts(8));
            note_unmarked(&mut status, &ts(7));
        }
        assert_eq!(status.unmarked, [ts(7), ts(8), ts(9)], "a newer mark may hide it");
        for n in 10..40 {
            note_unmarked(&mut status, &ts(n));
        }
        assert_eq!((status.unmarked.len(), &status.unmarked[0]), (UNMARKED, &ts(24)));
        note_edited(&mut status, &ts(50));
        note_edited(&mut status, &ts(49));
        assert_eq!(status.edited, Some(ts(50)));
    }
}
