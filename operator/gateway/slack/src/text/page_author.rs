//! Authors of messages that CodeButler posted for people who wrote on a page or in a modal. Pure.

use serde_json::{Value, json};

use crate::text::feedback::{self, DoubtedAnswer};
use crate::text::mrkdwn;

/// The person for whom a message is posted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReplyAuthor<'a> {
    pub user: &'a str,
    pub name: &'a str,
    pub place: AuthorPlace<'a>,
}

/// Place in which a person wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AuthorPlace<'a> {
    Page,
    /// In the modal that asks why this answer did not help.
    Feedback(&'a DoubtedAnswer),
}

impl ReplyAuthor<'_> {
    /// Adds the author to a message's body.
    pub(crate) fn sign(&self, body: &mut Value, customize: bool) {
        if customize {
            // No name of a person passes for a role's.
            let place = match self.place {
                AuthorPlace::Page => "on the page",
                AuthorPlace::Feedback(_) => "about an answer",
            };
            body["username"] = json!(format!("{} ({place})", self.name));
            body["icon_emoji"] = json!(":speech_balloon:");
        } else {
            let text = body["text"].as_str().unwrap_or_default();
            let place = match self.place {
                AuthorPlace::Page => "wrote on the page",
                AuthorPlace::Feedback(_) => "wrote about an answer",
            };
            let name = mrkdwn::escape_text(self.name);
            body["text"] = json!(format!("*{name}* {place}:\n{text}"));
        }
        let payload = &mut body["metadata"]["event_payload"];
        payload["by"] = json!(self.user);
        payload["headed"] = json!(if customize { "no" } else { "yes" });
        if let AuthorPlace::Feedback(about) = self.place {
            feedback::write_about(about, payload);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EVENT_TYPE;
    use crate::api::account::SlackAccount;
    use crate::api::attribution::{
        FEEDBACK_KIND, PAGE_KIND, attribute_reply, attribute_words, is_feedback,
    };
    use crate::api::stored_message::StoredMessage;

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
            "metadata": {"event_type": EVENT_TYPE, "event_payload": {"kind": PAGE_KIND, "role": ""}},
        });
        ReplyAuthor { user: "U7", name: "Ana & co", place: AuthorPlace::Page }
            .sign(&mut body, customize);
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
    fn what_was_said_of_an_answer_is_read_as_its_authors_and_is_no_request() {
        let mut value = posted(true);
        value["metadata"]["event_payload"]["kind"] = json!(FEEDBACK_KIND);
        let mut heard = message(value.clone());
        attribute_reply(&mut heard, &account());
        assert_eq!((heard.person(), heard.for_person), (None, true));
        let mut read = message(value);
        attribute_words(&mut read, &account());
        assert_eq!((read.person(), is_feedback(&read)), (Some("U7"), true));
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
