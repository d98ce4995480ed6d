//! Attributes messages that CodeButler posted for people to their authors. Pure.

use crate::api::account::SlackAccount;
use crate::api::stored_message::StoredMessage;
use crate::own_metadata;

/// `kind` of a message that CodeButler posted for a person who wrote on a page.
pub(crate) const PAGE_KIND: &str = "page";
/// `kind` of the message that says why an answer did not help.
pub(crate) const FEEDBACK_KIND: &str = "feedback";

/// Turns a reply that CodeButler posted for a person into that person's message: it is for roles like any other. What
/// says why an answer did not help is nobody's request.
pub(crate) fn attribute_reply(message: &mut StoredMessage, account: &SlackAccount) {
    if is_feedback(message) {
        message.for_person = account.wrote(message);
    } else {
        attribute_words(message, account);
    }
}

/// True if a message says why an answer did not help: no role has to answer it.
pub(crate) fn is_feedback(message: &StoredMessage) -> bool {
    own_metadata(message.metadata.as_ref()).is_some_and(|payload| payload["kind"] == FEEDBACK_KIND)
}

/// Turns everything that CodeButler posted for people into messages of theirs, for readers of a conversation. That
/// includes why an answer did not help.
pub(crate) fn attribute_words(message: &mut StoredMessage, account: &SlackAccount) {
    if !account.wrote(message) {
        return;
    }
    let Some(payload) = own_metadata(message.metadata.as_ref()) else { return };
    let is_persons = payload["kind"] == PAGE_KIND || payload["kind"] == FEEDBACK_KIND;
    let (true, Some(user)) = (is_persons, payload["by"].as_str()) else { return };
    let (user, headed) = (user.to_owned(), payload["headed"] == "yes");
    if headed && let Some((_, words)) = message.text.as_deref().and_then(|t| t.split_once('\n')) {
        message.text = Some(words.to_owned());
    }
    (message.user, message.bot_id, message.subtype) = (Some(user), None, None);
    (message.blocks, message.for_person) = (None, true);
}
