//! A record as a line of the file: with the time at which it was written.

use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::TranscriptRecord;

/// A record with the time at which it was written.
#[derive(Debug)]
pub struct DatedRecord {
    /// Milliseconds since 1970; absent in transcripts of earlier versions.
    pub at: Option<u64>,
    pub record: TranscriptRecord,
}

#[derive(Serialize)]
struct DatedLine<'a> {
    #[serde(flatten)]
    record: &'a TranscriptRecord,
    ms: u64,
}

/// Parses a line; none if it can't be read.
pub fn read_line(line: &[u8]) -> Option<DatedRecord> {
    #[derive(Deserialize)]
    struct At {
        #[serde(default)]
        ms: Option<u64>,
    }
    let record = serde_json::from_slice(line).ok()?;
    Some(DatedRecord { at: serde_json::from_slice::<At>(line).ok()?.ms, record })
}

/// A record as a line, of now.
pub(super) fn write_line(record: &TranscriptRecord) -> serde_json::Result<Vec<u8>> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let ms = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
    let mut line = serde_json::to_vec(&DatedLine { record, ms })?;
    line.push(b'\n');
    Ok(line)
}
