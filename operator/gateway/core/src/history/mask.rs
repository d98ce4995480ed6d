//! Masks and bounds every text of an event before it is written. Pure.

use std::borrow::Cow;

use codebutler_crds::wire::history::{HistoryEvent, MAX_LIST, MAX_TEXT};
use serde_json::Value;

use crate::redact::SecretRedactor;

/// Longest event, in bytes of text as it is written: what is behind that is cut to [`LEAST`] bytes each.
const MOST: usize = 1024 * 1024;
/// Size behind which lists end.
const WHOLE: usize = MOST + MOST / 2;
const LEAST: usize = 256;
/// Bytes counted for each element of a list, beside its texts.
const ELEMENT: usize = 64;
const CUT: &str = "\n[…]\n";

/// Masks and shortens an event for the history.
pub fn mask_event(event: &HistoryEvent, redactor: &SecretRedactor) -> HistoryEvent {
    let mut used = 0;
    let masked = serde_json::to_value(event).and_then(|mut value| {
        mask_value(&mut value, redactor, &mut used);
        serde_json::from_value(value)
    });
    masked.unwrap_or(HistoryEvent::Unknown)
}

fn mask_value(value: &mut Value, redactor: &SecretRedactor, used: &mut usize) {
    match value {
        Value::String(text) => {
            if let Cow::Owned(masked) = redactor.mask(text) {
                *text = masked;
            }
            let most = MAX_TEXT.min(MOST.saturating_sub(*used).max(LEAST));
            let mut cut = most;
            loop {
                if text.len() > cut {
                    *text = bound_text(text, cut);
                }
                // Control characters are written as six.
                if written_length(text) <= 2 * most || cut <= LEAST {
                    break;
                }
                cut = (cut / 2).max(LEAST);
            }
            *used += written_length(text);
        }
        Value::Array(values) => {
            let mut kept = 0;
            for value in values.iter_mut().take(MAX_LIST) {
                if *used >= WHOLE {
                    break;
                }
                mask_value(value, redactor, used);
                *used += ELEMENT;
                kept += 1;
            }
            cut_list(values, kept);
        }
        Value::Object(fields) => {
            for value in fields.values_mut() {
                mask_value(value, redactor, used);
            }
        }
        _ => {}
    }
}

/// Keeps the first ones; where there is room for words, the last of them says how many went.
fn cut_list(values: &mut Vec<Value>, kept: usize) {
    let gone = values.len() - kept;
    values.truncate(kept);
    if gone > 0
        && let Some(Value::Object(fields)) = values.last_mut()
    {
        let texts = fields.values_mut().filter(|value| value.is_string());
        texts.for_each(|value| *value = format!("[{} more]", gone + 1).into());
    }
}

/// Counts the bytes of a text in JSON.
fn written_length(text: &str) -> usize {
    let length = |byte: u8| match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 8 | 12 => 2,
        0..=31 => 6,
        _ => 1,
    };
    text.bytes().map(length).sum()
}

/// Shortens a text to its beginning and its end.
fn bound_text(text: &str, most: usize) -> String {
    let half = (most - CUT.len()) / 2;
    let head = text.floor_char_boundary(half);
    let tail = text.ceil_char_boundary(text.len() - half);
    format!("{}{CUT}{}", &text[..head], &text[tail..])
}

/// Returns true if an agent may tell this event. All others the gateway knows better.
pub const fn is_agents(event: &HistoryEvent) -> bool {
    matches!(
        event,
        HistoryEvent::RunStarted
            | HistoryEvent::Taken { .. }
            | HistoryEvent::Answer { .. }
            | HistoryEvent::Flawed { .. }
            | HistoryEvent::Tool { .. }
            | HistoryEvent::Tested { .. }
            | HistoryEvent::Todo { .. }
            | HistoryEvent::Asked { .. }
            | HistoryEvent::Model { .. }
            | HistoryEvent::Note { .. }
            | HistoryEvent::RunEnded { .. }
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use codebutler_crds::wire::history::{TodoEntry, ToolUse};

    #[test]
    fn every_text_is_masked_and_none_is_too_long() {
        let secret = format!("ghp_{}", "a1B2".repeat(9));
        let call = ToolUse { tool: "Bash".into(), arguments: format!("{{\"t\":\"{secret}\"}}") };
        let output = format!("{secret}{}ß", "ñ".repeat(MAX_TEXT));
        let told = HistoryEvent::Tool { call, output, ok: true, exit_code: None, millis: None };
        let HistoryEvent::Tool { call, output, .. } = mask_event(&told, &SecretRedactor::default())
        else {
            panic!()
        };
        assert!(!call.arguments.contains(&secret) && call.arguments.contains("[redacted"));
        assert!(!output.contains(&secret) && output.ends_with("ñß") && output.len() <= MAX_TEXT);
        let calls = vec![ToolUse { tool: "X".into(), arguments: "y".repeat(MAX_TEXT) }; 100];
        let told = HistoryEvent::Answer { model: None, text: None, thoughts: None, calls };
        let kept = serde_json::to_string(&mask_event(&told, &SecretRedactor::default())).unwrap();
        assert!(kept.len() < 2 * MOST, "{}", kept.len());
    }

    #[test]
    fn a_list_and_what_is_written_of_it_have_bounds() {
        let kept = |event: &HistoryEvent| {
            let kept = mask_event(event, &SecretRedactor::default());
            assert_ne!(kept, HistoryEvent::Unknown);
            serde_json::to_string(&kept).unwrap()
        };
        let answer =
            |calls| HistoryEvent::Answer { model: None, text: None, thoughts: None, calls };
        let call = |text: &str| ToolUse { tool: "X".into(), arguments: text.repeat(256) };
        let many = kept(&answer(vec![call("y"); 60_000]));
        assert!(many.len() < 2 * MOST && many.contains("[59001 more]"), "{}", many.len());
        let control = kept(&answer(vec![call("\u{1}"); 60_000]));
        assert!(control.len() < 2 * MOST, "{}", control.len());
        let text = Some("\u{1}".repeat(MAX_TEXT));
        let event = HistoryEvent::Answer { model: None, text, thoughts: None, calls: Vec::new() };
        assert!(kept(&event).len() < 2 * MAX_TEXT + 1000);
        let messages = vec!["1.000001".parse().unwrap(); 20_000];
        let decisions = vec!["x".repeat(MAX_TEXT); 500];
        let taken = kept(&HistoryEvent::Taken { messages, decisions });
        assert!(taken.len() < 2 * MOST, "{}", taken.len());
        let items = vec![TodoEntry { text: "t".into(), state: "open".into() }; 100_000];
        assert!(kept(&HistoryEvent::Todo { items }).len() < 2 * MOST);
    }
}
