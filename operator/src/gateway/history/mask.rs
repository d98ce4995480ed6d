//! Masks and bounds every text of an event before it is written. Pure.

use std::borrow::Cow;

use codebutler_crds::wire::history::{HistoryEvent, MAX_TEXT};
use serde_json::Value;

use crate::gateway::redact::SecretRedactor;

/// Longest event, in bytes of text: what is behind that is cut to [`LEAST`] bytes each.
const MOST: usize = 1024 * 1024;
const LEAST: usize = 256;
const CUT: &str = "\n[…]\n";

/// The event as it is kept.
pub fn mask_event(event: &HistoryEvent, redactor: &SecretRedactor) -> HistoryEvent {
    let mut room = MOST;
    let masked = serde_json::to_value(event).and_then(|mut value| {
        mask_value(&mut value, redactor, &mut room);
        serde_json::from_value(value)
    });
    masked.unwrap_or(HistoryEvent::Unknown)
}

fn mask_value(value: &mut Value, redactor: &SecretRedactor, room: &mut usize) {
    match value {
        Value::String(text) => {
            if let Cow::Owned(masked) = redactor.mask(text) {
                *text = masked;
            }
            let most = MAX_TEXT.min((*room).max(LEAST));
            if text.len() > most {
                *text = bound_text(text, most);
            }
            *room = room.saturating_sub(text.len());
        }
        Value::Array(values) => {
            for value in values {
                mask_value(value, redactor, room);
            }
        }
        Value::Object(fields) => {
            for value in fields.values_mut() {
                mask_value(value, redactor, room);
            }
        }
        _ => {}
    }
}

/// Beginning and end.
fn bound_text(text: &str, most: usize) -> String {
    let half = (most - CUT.len()) / 2;
    let head = text.floor_char_boundary(half);
    let tail = text.ceil_char_boundary(text.len() - half);
    format!("{}{CUT}{}", &text[..head], &text[tail..])
}

/// Whether an agent may tell it. All else the gateway knows better.
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
    use codebutler_crds::wire::history::ToolUse;

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
}
