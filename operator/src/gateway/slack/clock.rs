//! Times as Slack names them.

use codebutler_crds::SlackTs;

pub fn now() -> SlackTs {
    let now = jiff::Timestamp::now();
    timestamp(now.as_second(), now.subsec_microsecond())
}

pub fn timestamp(seconds: i64, micros: i32) -> SlackTs {
    let text = format!("{}.{:06}", seconds.max(0), micros.max(0));
    text.parse().unwrap_or_else(|_| SlackTs::zero())
}
