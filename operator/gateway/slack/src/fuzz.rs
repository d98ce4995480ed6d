//! Hostile bytes for what reads Slack's socket.

use codebutler_fuzz::{corpus_lines, fuzz_corpus};

use crate::api::frame::SocketFrame;
use crate::api::lenient::UnreadFields;

const SLACK: &str = include_str!("../../../../tests/corpus/slack.txt");

#[test]
fn payloads_from_slack_of_any_kind_are_read_or_ignored() {
    fuzz_corpus("Slack", &corpus_lines(SLACK), |bytes| {
        if let Ok(frame) = serde_json::from_slice::<SocketFrame>(bytes) {
            drop(frame.payload(&mut UnreadFields::default()));
        }
    });
}
