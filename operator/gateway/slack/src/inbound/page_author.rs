//! Whose words a message has that CodeButler posted for somebody who wrote on a page. Pure.

use serde_json::{Value, json};

use crate::api::account::SlackAccount;
use crate::api::stored_message::StoredMessage;
use crate::outbound::mrkdwn;
use crate::own_metadata;

/// `kind` of a message that CodeButler posted for a person.
pub const KIND: &str = "page";

/// The person for whom a message is posted.
#[derive(Clone, Copy, Debug)]
pub struct ReplyAuthor<'a> {
    pub user: &'a str,
    pub name: &'a str,
}

impl ReplyAuthor<'_> {
    /// Adds the author to a message's body.
    pub(crate) fn sign(&self, body: &mut Value, customize: bool) {
        if customize {
            // No name of a person passes for a role's.
            body["username"] = json!(format!("{} (on the page)", self.name));
            body["icon_emoji"] = json!(":speech_balloon:");
        } else {
            let text = body["text"].as_str().unwrap_or_default();
            body["text"] =
                json!(format!("*{}* wrote on the page:\n{text}", mrkdwn::escape_text(self.name)));
        }
        let payload = &mut body["metadata"]["event_payload"];
        payload["by"] = json!(self.user);
        payload["headed"] = json!(if customize { "no" } else { "yes" });
    }
}

/// Turns a message that CodeButler posted for a person into that person's message.
pub fn attribute_reply(message: &mut StoredMessage, account: &SlackAccount) {
    if !account.wrote(message) {
        return;
    }
    let Some(payload) = own_metadata(message.metadata.as_ref()) else { return };
    let (true, Some(user)) = (payload["kind"] == KIND, payload["by"].as_str()) else { return };
    let (user, headed) = (user.to_owned(), payload["headed"] == "yes");
    if headed && let Some((_, words)) = message.text.as_deref().and_then(|t| t.split_once('\n')) {
        message.text = Some(words.to_owned());
    }
    (message.user, message.bot_id, message.subtype) = (Some(user), None, None);
    (message.blocks, message.for_person) = (None, true);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EVENT_TYPE;

    fn message(value: Value) -> StoredMessage {
        serde_json::from_value(value).unwrap()
    }

    fn account() -> SlackAccount {
        SlackAccount::test("U0BOT", "B0BOT")
    }

    fn posted(customize: bool) -> Value {
        let mut body = json!({
            "ts": "2.000000", "thread_ts": "1.000000", "bot_id": "B0BOT", "subtype": "bot_message",
            "text": "one\ntwo",
            "metadata": {"event_type": EVENT_TYPE, "event_payload": {"kind": KIND, "role": ""}},
        });
        ReplyAuthor { user: "U7", name: "Ana & co" }.sign(&mut body, customize);
        body
    }

    #[test]
    fn words_that_were_posted_for_a_person_are_that_persons() {
        for customize in [true, false] {
            let mut read = message(posted(customize));
            attribute_reply(&mut read, &account());
            assert_eq!(read.person(), Some("U7"), "{customize}");
            assert_eq!(read.text.as_deref(), Some("one\ntwo"), "{customize}");
            assert!(!account().wrote(&read));
        }
        assert_eq!(posted(true)["username"], "Ana & co (on the page)");
        assert!(
            posted(false)["text"]
                .as_str()
                .unwrap()
                .starts_with("*Ana &amp; co* wrote on the page:\n")
        );
    }

    #[test]
    fn nobody_else_speaks_for_a_person() {
        let mut other_app = posted(true);
        other_app["bot_id"] = json!("B9");
        let mut other_kind = posted(true);
        other_kind["metadata"]["event_payload"]["kind"] = json!("message");
        let mut other_type = posted(true);
        other_type["metadata"]["event_type"] = json!("other");
        let mut nobody = posted(true);
        nobody["metadata"]["event_payload"]["by"] = Value::Null;
        for value in [other_app, other_kind, other_type, nobody] {
            let mut read = message(value.clone());
            attribute_reply(&mut read, &account());
            assert_eq!(read.person(), None, "{value}");
        }
    }
}
