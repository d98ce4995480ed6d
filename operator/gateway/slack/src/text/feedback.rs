//! Feedback on answers: the buttons under it, what a press of them changes in its Thread, and the question
//! why it did not. Pure: applied again, nothing changes.

use codebutler_crds::thread::{AnswerFeedback, MOST_FEEDBACK};
use codebutler_crds::wire::PostMessage;
use codebutler_crds::{SlackTs, ThreadStatus};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::api::attribution::FEEDBACK_KIND;
use crate::api::stored_message::StoredMessage;
use crate::own_metadata;

/// The `action_id` of the buttons.
pub(crate) const ACTION: &str = "feedback:answer";
/// The `callback_id` of the modal that asks why.
pub(crate) const CALLBACK: &str = "feedback:why";
/// Of the one field of the modal.
const FIELD: &str = "feedback:words";
const WORDS: usize = 300;
/// Told to who can't be shown the modal.
pub(crate) const ASK_WHY: &str = "Thank you. Please say in one sentence, as your next message in this thread, what was wrong or missing: \
     the lead reads it in the retrospective.";

/// A verdict on an answer, given by a button.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AnswerVerdict {
    pub message: SlackTs,
    pub role: String,
    pub user: String,
    pub helps: bool,
    /// Time of the press.
    pub at: SlackTs,
}

/// The outcome of a press.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VerdictTaken {
    /// It is this person's first word on the answer, or another one than before.
    News,
    /// They said so before.
    Again,
    /// Delivered twice, or too late.
    Old,
}

/// The answer that a modal asks about. Slack hands it back as it was given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DoubtedAnswer {
    pub channel: String,
    /// First message of the conversation.
    pub root: SlackTs,
    pub message: SlackTs,
    pub role: String,
    /// Time of the press.
    pub at: SlackTs,
}

/// A modal that was filled in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WhyGiven {
    pub about: DoubtedAnswer,
    pub user: String,
    pub words: String,
}

/// True for a message that gets feedback buttons: it is the end of an answer to a person, and asks nothing itself.
pub(crate) fn is_rated(message: &PostMessage, hands_over: bool) -> bool {
    let asks = message.asks
        || message.decision.is_some()
        || !message.choices.is_empty()
        || !message.learnings.is_empty()
        || !message.improvements.is_empty()
        || message.text.trim_end().ends_with(['?', '？', '؟']);
    message.answers && message.last && !asks && !hands_over
}

/// The block under an answer.
pub(crate) fn feedback_block(role: &str) -> Value {
    let button = |sign: &str, label: &str, helps: bool| {
        json!({
            "text": {"type": "plain_text", "text": sign, "emoji": true},
            "accessibility_label": label,
            "value": button_value(helps, role),
        })
    };
    json!({"type": "context_actions", "elements": [{
        "type": "feedback_buttons",
        "action_id": ACTION,
        "positive_button": button("👍", "Yes, this answer helped", true),
        "negative_button": button("👎", "No, this answer did not help", false),
    }]})
}

fn button_value(helps: bool, role: &str) -> String {
    format!("{} {role}", if helps { "yes" } else { "no" })
}

/// Reads from a button's value if the answer helped, and which role gave it.
pub(crate) fn read_value(value: &str) -> Option<(bool, &str)> {
    let (word, role) = value.split_once(' ')?;
    let helps = match word {
        "yes" => true,
        "no" => false,
        _ => return None,
    };
    let is_name = (1..=63).contains(&role.len())
        && role.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    is_name.then_some((helps, role))
}

/// The modal that asks for one sentence.
pub(crate) fn why_view(about: &DoubtedAnswer) -> Value {
    let plain = |text: &str| json!({"type": "plain_text", "text": text});
    let told = format!(
        "It is posted in this thread in your name. No role is started by it: the lead reads it in the retrospective \
         on what `{}` did.",
        about.role
    );
    json!({
        "type": "modal",
        "callback_id": CALLBACK,
        "private_metadata": json!(about).to_string(),
        "title": plain("What was wrong?"),
        "submit": plain("Send"),
        "close": plain("Cancel"),
        "blocks": [
            {"type": "input", "block_id": FIELD, "label": plain("What was wrong or missing, in one sentence?"),
                "element": {"type": "plain_text_input", "action_id": FIELD, "max_length": WORDS}},
            {"type": "context", "elements": [{"type": "mrkdwn", "text": told}]},
        ],
    })
}

/// Reads `view_submission`; None of any other modal.
pub(crate) fn read_why(payload: &Value) -> Option<WhyGiven> {
    let view = &payload["view"];
    if view["callback_id"] != CALLBACK {
        return None;
    }
    let about = serde_json::from_str(view["private_metadata"].as_str()?).ok()?;
    let said = view["state"]["values"][FIELD][FIELD]["value"].as_str()?;
    let words = said.split_whitespace().collect::<Vec<_>>().join(" ");
    let words: String = words.chars().take(WORDS).collect();
    let user = payload["user"]["id"].as_str()?.to_owned();
    (!words.is_empty()).then_some(WhyGiven { about, user, words })
}

/// A sentence about an answer that stands in its conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PostedWhy {
    pub about: DoubtedAnswer,
    pub user: String,
    /// Message with the sentence.
    pub ts: SlackTs,
}

fn find<'a>(
    status: &'a mut ThreadStatus,
    message: &SlackTs,
    user: &str,
) -> Option<&'a mut AnswerFeedback> {
    status.feedback.iter_mut().find(|one| one.message == *message && one.by == user)
}

fn remember(status: &mut ThreadStatus, one: AnswerFeedback) {
    if status.feedback.len() >= MOST_FEEDBACK {
        // Helpful answers are counted, and nobody reads their entries again.
        let place = status.feedback.iter().position(|known| known.helps);
        status.feedback.remove(place.unwrap_or_default());
    }
    status.feedback.push(one);
}

/// Takes a press in.
pub(crate) fn take_verdict(status: &mut ThreadStatus, said: &AnswerVerdict) -> VerdictTaken {
    let AnswerVerdict { message, role, user, helps, at } = said;
    let Some(known) = find(status, message, user) else {
        remember(
            status,
            AnswerFeedback {
                message: message.clone(),
                role: role.clone(),
                by: user.clone(),
                helps: *helps,
                at: at.clone(),
                why: None,
                asked: false,
            },
        );
        return VerdictTaken::News;
    };
    if known.at >= *at {
        return VerdictTaken::Old;
    }
    known.at = at.clone();
    if known.helps == *helps {
        return VerdictTaken::Again;
    }
    (known.helps, known.why, known.asked) = (*helps, None, false);
    VerdictTaken::News
}

/// True while somebody has still to say why an answer did not help them.
pub(crate) fn lacks_why(status: &ThreadStatus, message: &SlackTs, user: &str) -> bool {
    let mut feedback = status.feedback.iter();
    feedback.any(|one| one.message == *message && one.by == user && !one.helps && one.why.is_none())
}

/// Their next message says why.
pub(crate) fn await_reply(status: &mut ThreadStatus, message: &SlackTs, user: &str) {
    for known in status.feedback.iter_mut().filter(|known| known.by == user) {
        known.asked = known.message == *message && !known.helps && known.why.is_none();
    }
}

/// Takes in what somebody wrote who was asked why.
pub(crate) fn take_reply(status: &mut ThreadStatus, user: &str, said: &SlackTs) {
    let awaits = |one: &&mut AnswerFeedback| one.asked && one.by == user && one.at < *said;
    if let Some(known) = status.feedback.iter_mut().find(awaits) {
        (known.why, known.asked) = (Some(said.clone()), false);
    }
}

/// Takes in where it was said why. Who has changed their mind since has.
pub(crate) fn take_why(status: &mut ThreadStatus, given: &WhyGiven, why: &SlackTs) {
    let about = &given.about;
    let verdict = AnswerVerdict {
        message: about.message.clone(),
        role: about.role.clone(),
        user: given.user.clone(),
        helps: false,
        at: about.at.clone(),
    };
    take_verdict(status, &verdict);
    if let Some(known) = find(status, &about.message, &given.user).filter(|known| !known.helps) {
        (known.why, known.asked) = (Some(why.clone()), false);
    }
}

/// True if a sentence that stands in the conversation is on no record yet: its process died in between.
pub(crate) fn lacks_posted(status: &ThreadStatus, posted: &PostedWhy) -> bool {
    let about = &posted.about;
    let is_it = |one: &AnswerFeedback| {
        // One that was asked for by an earlier press is over.
        one.message == about.message && one.by == posted.user && one.at == about.at
    };
    status.feedback.iter().any(|one| is_it(one) && !one.helps && one.why.is_none())
}

/// Takes it in.
pub(crate) fn take_posted(status: &mut ThreadStatus, posted: &PostedWhy) {
    if lacks_posted(status, posted)
        && let Some(known) = find(status, &posted.about.message, &posted.user)
    {
        (known.why, known.asked) = (Some(posted.ts.clone()), false);
    }
}

/// Time of the earliest press whose sentence may stand in the conversation without being on record.
pub(crate) fn unexplained_since(status: &ThreadStatus) -> Option<&SlackTs> {
    let lacking = status.feedback.iter().filter(|one| !one.helps && one.why.is_none());
    lacking.map(|one| &one.at).min()
}

/// Writes into a message's metadata which answer it is about.
pub(crate) fn write_about(about: &DoubtedAnswer, payload: &mut Value) {
    payload["answer"] = json!(about.message);
    payload["answered_by"] = json!(about.role);
    payload["pressed"] = json!(about.at);
}

/// The sentence about an answer that a message of our own is, in a channel.
pub(crate) fn read_posted(message: &StoredMessage, channel: &str) -> Option<PostedWhy> {
    let payload = own_metadata(message.metadata.as_ref())?;
    let text = |name: &str| payload[name].as_str();
    if text("kind")? != FEEDBACK_KIND {
        return None;
    }
    let about = DoubtedAnswer {
        channel: channel.to_owned(),
        root: message.root().clone(),
        message: text("answer")?.parse().ok()?,
        role: text("answered_by")?.to_owned(),
        at: text("pressed")?.parse().ok()?,
    };
    Some(PostedWhy { about, user: text("by")?.to_owned(), ts: message.ts.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ts(text: &str) -> SlackTs {
        text.parse().unwrap()
    }

    fn verdict(user: &str, helps: bool, at: &str) -> AnswerVerdict {
        let (message, role, user) = (ts("5.000000"), "pm".to_owned(), user.to_owned());
        AnswerVerdict { message, role, user, helps, at: ts(at) }
    }

    fn given(at: &str) -> WhyGiven {
        let (channel, role) = ("C1".to_owned(), "pm".to_owned());
        let about = DoubtedAnswer {
            channel,
            root: ts("1.000000"),
            message: ts("5.000000"),
            role,
            at: ts(at),
        };
        WhyGiven { about, user: "U1".to_owned(), words: "too long".to_owned() }
    }

    #[test]
    fn each_person_has_one_word_on_an_answer_and_may_change_it() {
        let mut status = ThreadStatus::default();
        let mut take = |user, helps, at| take_verdict(&mut status, &verdict(user, helps, at));
        assert_eq!(take("U1", true, "6.000000"), VerdictTaken::News);
        assert_eq!(take("U1", true, "6.000000"), VerdictTaken::Old);
        assert_eq!(take("U1", true, "7.000000"), VerdictTaken::Again);
        assert_eq!(take("U1", false, "8.000000"), VerdictTaken::News);
        // Delivered late, it takes nothing back.
        assert_eq!(take("U1", true, "7.500000"), VerdictTaken::Old);
        assert_eq!(take("U2", true, "7.000000"), VerdictTaken::News);
        let shown: Vec<_> = status.feedback.iter().map(|one| (&*one.by, one.helps)).collect();
        assert_eq!(shown, [("U1", false), ("U2", true)]);
    }

    #[test]
    fn why_is_kept_as_long_as_it_did_not_help() {
        let mut status = ThreadStatus::default();
        take_verdict(&mut status, &verdict("U1", false, "6.000000"));
        assert!(lacks_why(&status, &ts("5.000000"), "U1"));
        await_reply(&mut status, &ts("5.000000"), "U1");
        take_reply(&mut status, "U2", &ts("9.000000"));
        take_reply(&mut status, "U1", &ts("5.500000"));
        assert!(status.feedback[0].asked);
        take_reply(&mut status, "U1", &ts("9.000000"));
        take_reply(&mut status, "U1", &ts("10.000000"));
        assert_eq!(status.feedback[0].why, Some(ts("9.000000")));
        take_verdict(&mut status, &verdict("U1", true, "11.000000"));
        assert_eq!(status.feedback[0].why, None);
        // A modal that stood open meanwhile.
        take_why(&mut status, &given("6.000000"), &ts("12.000000"));
        assert_eq!((status.feedback[0].helps, &status.feedback[0].why), (true, &None));
        take_verdict(&mut status, &verdict("U1", false, "13.000000"));
        take_why(&mut status, &given("13.000000"), &ts("14.000000"));
        assert_eq!(status.feedback[0].why, Some(ts("14.000000")));
    }

    #[test]
    fn a_sentence_that_stands_in_the_conversation_is_found_again() {
        let about = given("6.000000").about;
        let mut payload = json!({"kind": FEEDBACK_KIND, "by": "U1"});
        write_about(&about, &mut payload);
        let metadata = json!({"event_type": crate::EVENT_TYPE, "event_payload": payload});
        let message = json!({"ts": "9.000000", "thread_ts": "1.000000", "metadata": metadata});
        let posted = read_posted(&serde_json::from_value(message).unwrap(), "C1").unwrap();
        let expected = PostedWhy { about, user: "U1".to_owned(), ts: ts("9.000000") };
        assert_eq!(posted, expected);

        let mut status = ThreadStatus::default();
        assert!(!lacks_posted(&status, &posted), "nobody pressed anything");
        take_verdict(&mut status, &verdict("U1", false, "6.000000"));
        assert_eq!(unexplained_since(&status), Some(&ts("6.000000")));
        assert!(lacks_posted(&status, &posted));
        take_posted(&mut status, &posted);
        assert_eq!(status.feedback[0].why, Some(ts("9.000000")));
        assert!(!lacks_posted(&status, &posted) && unexplained_since(&status).is_none());
        // Of another press, it says nothing.
        take_verdict(&mut status, &verdict("U1", true, "10.000000"));
        take_verdict(&mut status, &verdict("U1", false, "11.000000"));
        take_posted(&mut status, &posted);
        assert_eq!(status.feedback[0].why, None);
    }

    #[test]
    fn what_helped_is_forgotten_first() {
        let mut status = ThreadStatus::default();
        take_verdict(&mut status, &verdict("U0", false, "6.000000"));
        for n in 0..40 {
            take_verdict(&mut status, &verdict(&format!("V{n}"), true, "6.000000"));
        }
        assert_eq!(status.feedback.len(), MOST_FEEDBACK);
        assert_eq!(status.feedback[0].by, "U0");
    }

    #[test]
    fn a_filled_in_modal_is_read_and_nothing_else() {
        let about = given("6.000000").about;
        let view = why_view(&about);
        let values = json!({FIELD: {FIELD: {"type": "plain_text_input", "value": " too\nlong "}}});
        let mut payload = json!({"type": "view_submission", "user": {"id": "U1"}, "view": view});
        assert_eq!(read_why(&payload), None);
        payload["view"]["state"] = json!({ "values": values });
        assert_eq!(read_why(&payload), Some(given("6.000000")));
        payload["view"]["callback_id"] = json!("other");
        assert_eq!(read_why(&payload), None);
        assert_eq!(read_value("yes pm"), Some((true, "pm")));
        for odd in ["yes", "maybe pm", "no ", "no a b"] {
            assert_eq!(read_value(odd), None, "{odd}");
        }
    }

    #[test]
    fn only_the_end_of_an_answer_is_asked_about() {
        let answer = PostMessage {
            text: "It is 20.".to_owned(),
            answers: true,
            last: true,
            ..PostMessage::default()
        };
        assert!(is_rated(&answer, false));
        assert!(!is_rated(&answer, true), "it hands over");
        for other in [
            PostMessage { answers: false, ..answer.clone() },
            PostMessage { last: false, ..answer.clone() },
            PostMessage { asks: true, ..answer.clone() },
            PostMessage { text: "Which file?".to_owned(), ..answer.clone() },
            PostMessage { choices: vec!["a".to_owned(), "b".to_owned()], ..answer.clone() },
        ] {
            assert!(!is_rated(&other, false), "{other:?}");
        }
    }
}
