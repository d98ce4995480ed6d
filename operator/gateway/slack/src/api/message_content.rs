//! Content of a message beside its text, and the changes of an edit to it. Pure.

use codebutler_slack_text::{AttachedKind, AttachedText, is_table_block, shown_text};
use serde_json::Value;

use crate::api::stored_message::StoredMessage;

impl StoredMessage {
    /// True if it brings more than its text: files, a table, or a message that is forwarded.
    pub(crate) fn brings_more(&self) -> bool {
        let mut blocks = self.blocks.iter().filter_map(Value::as_array).flatten();
        !self.files.is_empty() || blocks.any(is_table_block) || !self.own_attachments().is_empty()
    }

    /// True if an edit has left what its author says: previews of links are none of it.
    pub(crate) fn says_like(&self, before: &Self) -> bool {
        let shown = |message: &Self| message.blocks.as_ref().map(shown_text).unwrap_or_default();
        let files = |message: &Self| -> Vec<_> {
            message.files.iter().map(|file| (file.id.clone(), file.withheld())).collect()
        };
        self.text == before.text
            && shown(self) == shown(before)
            && files(self) == files(before)
            && self.own_attachments() == before.own_attachments()
    }

    /// True if an edit has left the smaller pictures of its files: Slack makes those some time after the message.
    pub(crate) fn shows_like(&self, before: &Self) -> bool {
        let sides = |message: &Self| -> Vec<Option<u16>> {
            let thumbs = message.files.iter().map(|file| file.thumb.as_ref());
            thumbs.map(|thumb| thumb.map(|thumb| thumb.side)).collect()
        };
        sides(self) == sides(before)
    }

    fn own_attachments(&self) -> Vec<AttachedText> {
        let mut found = self.attached();
        found.retain(|one| !matches!(one.kind, AttachedKind::Unfurled { .. }));
        found
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::api::lenient::UnreadFields;

    #[test]
    fn an_edit_is_one_of_words_files_or_what_an_app_attaches() {
        let of = |change: Value| {
            let mut said = json!({"ts": "1.000000", "user": "U1", "text": "see <https://x/1>",
                "blocks": [{"type": "section", "block_id": "a", "text": {"text": "see"}}],
                "files": [{"id": "F1", "mode": "hosted"}],
                "attachments": [{"title": "Disk full"}]});
            for (name, value) in change.as_object().unwrap() {
                said[name] = value.clone();
            }
            StoredMessage::read(&said, "message", &mut UnreadFields::default()).unwrap()
        };
        let before = of(json!({}));
        let preview = json!({"is_app_unfurl": true, "app_unfurl_url": "https://x/1", "title": "t"});
        for same in [
            json!({"attachments": [{"title": "Disk full"}, preview]}),
            json!({"thread_ts": "1.000000", "reactions": [{"name": "eyes", "users": ["U2"]}]}),
            json!({"blocks": [{"type": "section", "block_id": "b", "text": {"text": "see"}}]}),
        ] {
            assert!(of(same.clone()).says_like(&before), "{same}");
        }
        for other in [
            json!({"attachments": [{"title": "Disk is fine again"}]}),
            json!({"blocks": [{"type": "table", "rows": [[{"type": "raw_text", "text": "1"}]]}]}),
            json!({"files": [{"id": "F1", "mode": "tombstone"}]}),
        ] {
            assert!(!of(other.clone()).says_like(&before), "{other}");
        }
        let pictured =
            json!({"files": [{"id": "F1", "mode": "hosted", "thumb_360": "https://x/t"}]});
        assert!(of(pictured.clone()).says_like(&before) && before.shows_like(&before));
        assert!(!of(pictured).shows_like(&before));
    }
}
