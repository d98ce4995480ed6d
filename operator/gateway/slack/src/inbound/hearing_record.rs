//! Record in a Thread of the recordings that are being written down. Pure: a gateway learns from it if another one has
//! begun, is gone, or has given the words to roles.

use std::time::Duration;

use codebutler_crds::ThreadStatus;
use codebutler_crds::thread::BegunRecording;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// Most recordings in a Thread's record.
const MOST: usize = 16;
/// Age of a record that nobody has renewed, from which on its gateway counts as gone.
const SILENT: Duration = Duration::from_secs(30);
/// The same, of a record by a version that renews none.
const OTHERS: Duration = Duration::from_mins(3);

/// State of a recording by its record in the Thread.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum RecordStanding {
    /// Nothing was: it is on record now.
    New,
    /// Another gateway writes it down.
    Begun,
    /// A gateway that is gone has begun it.
    Abandoned,
    /// It was written down, and roles could read it; only its words could not be shown.
    Heard,
}

/// Notes that roles have the words of a recording, which the thread does not show.
pub(crate) fn mark_heard(status: &mut ThreadStatus, file: &str) {
    for begun in status.hearing.iter_mut().filter(|begun| begun.file == file) {
        begun.heard = true;
    }
}

/// Records that this process begins, unless the record says that another one did.
pub(crate) fn begin_record(
    status: &mut ThreadStatus,
    file: &str,
    now: Timestamp,
) -> RecordStanding {
    if let Some(begun) = status.hearing.iter().find(|begun| begun.file == file) {
        if begun.heard {
            return RecordStanding::Heard;
        }
        let (since, most) = match &begun.renewed {
            Some(renewed) => (renewed.0, SILENT),
            None => (begun.since.0, OTHERS),
        };
        let age = Duration::try_from(now.duration_since(since)).unwrap_or_default();
        return if age < most { RecordStanding::Begun } else { RecordStanding::Abandoned };
    }
    let old = (status.hearing.len() + 1).saturating_sub(MOST);
    status.hearing.drain(..old);
    let (file, since) = (file.to_owned(), Time(now));
    status.hearing.push(BegunRecording { file, since, renewed: Some(Time(now)), heard: false });
    RecordStanding::New
}

/// Notes that the process that writes a recording down is still alive.
pub(crate) fn mark_renewed(status: &mut ThreadStatus, file: &str, now: Timestamp) {
    for begun in status.hearing.iter_mut().filter(|begun| begun.file == file) {
        begun.renewed = Some(Time(now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recording_is_begun_once_and_old_records_go() {
        let mut status = ThreadStatus::default();
        let at = |second: i64| Timestamp::from_second(second).unwrap();
        assert_eq!(begin_record(&mut status, "F0", at(100)), RecordStanding::New);
        assert_eq!(begin_record(&mut status, "F0", at(129)), RecordStanding::Begun);
        for file in 1..=MOST {
            let standing = begin_record(&mut status, &format!("F{file}"), at(140));
            assert_eq!(standing, RecordStanding::New);
        }
        assert_eq!(status.hearing.len(), MOST);
        assert_eq!(begin_record(&mut status, "F1", at(150)), RecordStanding::Begun);
        // Its words were given to roles, and Slack did not take them.
        mark_heard(&mut status, "F1");
        assert_eq!(begin_record(&mut status, "F1", at(900)), RecordStanding::Heard);
        assert_eq!(begin_record(&mut status, "F2", at(150)), RecordStanding::Begun);
    }

    #[test]
    fn a_recording_is_waited_for_as_long_as_its_gateway_says_that_it_is_at_it() {
        let mut status = ThreadStatus::default();
        let at = |second: i64| Timestamp::from_second(second).unwrap();
        assert_eq!(begin_record(&mut status, "F0", at(100)), RecordStanding::New);
        // Ten minutes of sound take longer than any call of an agent for its mail.
        for second in (108..=700).step_by(8) {
            mark_renewed(&mut status, "F0", at(second));
            mark_renewed(&mut status, "F1", at(second));
            assert_eq!(begin_record(&mut status, "F0", at(second + 7)), RecordStanding::Begun);
        }
        assert_eq!(status.hearing.len(), 1, "nothing is renewed that was not begun");
        // The last renewal was at 700: its gateway ended after that.
        assert_eq!(begin_record(&mut status, "F0", at(729)), RecordStanding::Begun);
        assert_eq!(begin_record(&mut status, "F0", at(730)), RecordStanding::Abandoned);
        // An earlier version renews nothing.
        status.hearing[0].renewed = None;
        assert_eq!(begin_record(&mut status, "F0", at(279)), RecordStanding::Begun);
        assert_eq!(begin_record(&mut status, "F0", at(280)), RecordStanding::Abandoned);
    }
}
