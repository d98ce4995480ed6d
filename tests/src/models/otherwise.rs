//! Answers of a scripted model that has left its script: they say what it is and what it can do.
//!
//! Such an answer is no step of a script. It carries a mark by which later requests show it, so that
//! the place in the script is found as if it had not been given.

use serde_json::{Value, json};

use super::play::PlayPlace;
use super::played::{FilledAnswer, MARK, PlayedCall, text_of};
use super::script::ScriptStep;

/// Answers instead of failing when a conversation leaves the script.
#[derive(Clone, Debug)]
pub struct OtherwiseAnswers {
    /// Abilities of the scripts, in Markdown, for whoever asked for something else.
    pub can: String,
}

/// Reason why the script has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LostScript<'a> {
    /// No script begins as this conversation does.
    Unknown,
    /// All steps of the script are played.
    Over,
    /// The message is not what the step waits for, which is this.
    Unexpected(&'a str),
}

/// Names the event that a step waits for, in words for people.
pub(super) fn waits_for(step: &ScriptStep) -> &'static str {
    let expected: Vec<String> =
        step.expect.iter().map(|text| text.to_string().to_lowercase()).collect();
    let about = |word: &str| expected.iter().any(|text| text.contains(word));
    if about("approve") {
        "*Approve* on the plan"
    } else if about("merge") {
        "*Merge*"
    } else {
        "the next hand-over or the answer that it was written for"
    }
}

impl OtherwiseAnswers {
    /// Builds the answer that admits that the script has none.
    pub(super) fn admit(&self, why: LostScript<'_>) -> FilledAnswer {
        let text = match why {
            LostScript::Unknown => format!(
                "{MARK} I am a scripted model: I replay what was written for me beforehand and can't \
                 think about anything else.\n\n{}",
                self.can
            ),
            LostScript::Over => format!(
                "{MARK} That is all that my script has for me in this thread. I am a scripted model \
                 and can't take up anything new here; `close` ends the thread.\n\n{}",
                self.can
            ),
            LostScript::Unexpected(next) => format!(
                "{MARK} I am a scripted model and can't act on that: my script has nothing for it. It \
                 goes on with {next}. `close` ends the thread."
            ),
        };
        FilledAnswer::say(&text)
    }
}

/// Answers a person who has just said something in the middle of the work, which no script can have foreseen, before
/// the script goes on.
pub(super) fn answer_aside(place: &PlayPlace<'_>, request: &Value) -> Option<FilledAnswer> {
    let said = spoken_in_between(request)?;
    let offered = request["tools"].as_array()?;
    offered.iter().find(|tool| tool["function"]["name"] == "SendMessage")?;
    let message = format!(
        "{MARK} I have read “{said}”, in the middle of my work. A real model would act on it now; \
         I am a scripted one and go on as it was written. `close` ends the thread."
    );
    let arguments = json!({ "message": message }).to_string();
    let turn = request_messages(request).len();
    let id = format!("call_{:016x}_aside_{turn}", place.conversation);
    let call = PlayedCall { id, name: "SendMessage".to_owned(), arguments };
    Some(FilledAnswer { tools: vec![call], ..FilledAnswer::default() })
}

fn request_messages(request: &Value) -> &[Value] {
    request["messages"].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Text that a person wrote since the last answer, if that answer did not wait for it.
fn spoken_in_between(request: &Value) -> Option<String> {
    let messages = request_messages(request);
    let last = messages.iter().rposition(|message| message["role"] == "assistant")?;
    let calls = messages[last]["tool_calls"].as_array().map(Vec::as_slice).unwrap_or_default();
    let waits = calls.iter().any(|call| {
        let arguments = call["function"]["arguments"].as_str().unwrap_or_default();
        arguments.contains("waitForReply") || arguments.contains("\"decision\"")
    });
    if calls.is_empty() || waits {
        return None;
    }
    let new = messages[last + 1..].iter().filter(|message| message["role"] == "user");
    new.map(text_of).find_map(|mail| said_by_a_person(&mail))
}

/// Finds the first line of the first message of a person in a role's mail.
fn said_by_a_person(mail: &str) -> Option<String> {
    let mut lines = mail.lines();
    lines.find(|line| {
        line.starts_with("[message ") && line.contains(" from user ") && line.ends_with(", to you]")
    })?;
    let line = lines.next()?.trim_start_matches("> ").trim();
    let mut shown: String = line.chars().take(80).collect();
    if shown.len() < line.len() {
        shown.push('…');
    }
    Some(shown)
}

#[cfg(test)]
mod tests {
    use super::super::follow::FollowMemory;
    use super::super::play::{self, PlayPlace};
    use super::super::played::is_aside;
    use super::super::script::ModelScript;
    use super::*;

    fn locate<'a>(script: &'a ModelScript, request: &Value) -> Option<PlayPlace<'a>> {
        play::locate_request(script, "coder", request, &FollowMemory::default())
    }

    fn mail(text: &str) -> Value {
        json!({"role": "user", "content": format!("[message 1.0 from user U1, to you]\n> {text}")})
    }

    fn request(messages: &[Value]) -> Value {
        json!({"model": "scripted/coder", "messages": messages,
            "tools": [{"type": "function", "function": {"name": "SendMessage"}}]})
    }

    fn answered(answer: &FilledAnswer) -> Value {
        let calls: Vec<Value> = answer
            .tools
            .iter()
            .map(|c| json!({"id": c.id, "function": {"name": c.name, "arguments": c.arguments}}))
            .collect();
        json!({"role": "assistant", "content": answer.say, "tool_calls": calls})
    }

    #[test]
    fn a_word_in_between_is_answered_once_and_the_script_goes_on() {
        let script = ModelScript::of(
            "coder",
            vec![
                ScriptStep::tool("Read", json!({"path": "a"})),
                ScriptStep::say("done").expecting("fn main"),
            ],
        );
        let read = json!({"role": "assistant", "content": null, "tool_calls": [
            {"id": "c", "function": {"name": "Read", "arguments": "{\"path\":\"a\"}"}}]});
        let result = json!({"role": "tool", "tool_call_id": "c", "content": "fn main"});
        let mut chat = vec![mail("go"), read, result];
        let before = request(&chat);
        assert_eq!(answer_aside(&locate(&script, &before).unwrap(), &before), None);

        chat.push(mail("use a table, please"));
        let between = request(&chat);
        let said = answer_aside(&locate(&script, &between).unwrap(), &between).unwrap();
        assert!(said.tools[0].arguments.contains("use a table, please"), "{said:?}");

        chat.push(answered(&said));
        chat.push(json!({"role": "tool", "tool_call_id": "x", "content": "sent"}));
        let after = request(&chat);
        let place = locate(&script, &after).unwrap();
        assert_eq!((answer_aside(&place, &after), place.index), (None, 1));
        let answer = place.answer(place.step().unwrap().unwrap()).unwrap();
        assert_eq!(answer.say.as_deref(), Some("done"));
    }

    #[test]
    fn an_answer_that_admits_it_is_no_step() {
        let otherwise = OtherwiseAnswers { can: "- sort the shelves".to_owned() };
        for why in [LostScript::Unknown, LostScript::Over, LostScript::Unexpected("`yes`")] {
            let answer = otherwise.admit(why);
            assert!(is_aside(&answered(&answer)), "{why:?}");
        }
        assert!(otherwise.admit(LostScript::Unknown).say.unwrap().ends_with("- sort the shelves"));
        assert!(!is_aside(&json!({"role": "assistant", "content": "done"})));
    }
}
