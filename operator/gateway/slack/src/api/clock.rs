//! The present moment and other times as Slack's timestamps.

use codebutler_crds::SlackTs;

pub(crate) fn slack_now() -> SlackTs {
    let now = jiff::Timestamp::now();
    make_timestamp(now.as_second(), now.subsec_microsecond())
}

pub(crate) fn make_timestamp(seconds: i64, micros: i32) -> SlackTs {
    let text = format!("{}.{:06}", seconds.max(0), micros.max(0));
    text.parse().unwrap_or_else(|_| SlackTs::zero())
}
