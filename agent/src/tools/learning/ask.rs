//! What a retrospective can't tell from the messages, the roles are asked: in the thread, each one question at
//! most.

use std::collections::BTreeSet;

use async_trait::async_trait;
use codebutler_wire as wire;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::tools::{
    CallRisk, Handler, LookBackFacts, StartedCall, ToolContext, ToolFailure, ToolOutcome,
};
use crate::transcript::{ResultKind, TranscriptRecord};
use codebutler_guides::text::clip_text;

/// Longest question, in characters.
const MAX_QUESTION: usize = 500;

/// `AskRoles`
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AskRolesArgs {
    /// One for each role that you have to hear.
    pub questions: Vec<RoleQuestion>,
}

/// A question to one role.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RoleQuestion {
    /// Such as `coder`: a role that worked in this conversation.
    pub role: String,
    /// One, about what happened and why, that it can answer from what it did.
    pub question: String,
}

pub(super) struct AskRoles;

#[async_trait]
impl Handler for AskRoles {
    type Args = AskRolesArgs;
    const NAME: &'static str = "AskRoles";
    const DESCRIPTION: &'static str = "Asks the roles that worked in this conversation for the retrospective: one call, one question per role, no second call. Your run ends and continues with their answers.";
    const RISK: CallRisk = CallRisk::Speaks;

    async fn call(
        &self,
        cx: &ToolContext,
        args: AskRolesArgs,
        call: StartedCall<'_>,
    ) -> Result<ToolOutcome, ToolFailure> {
        if !cx.thread.looks_back {
            let why = "there is no retrospective now: call AskRoles after the review and before ProposeLearnings";
            return Err(ToolFailure::Respond(why.to_owned()));
        }
        let text =
            check_questions(&args.questions, &cx.thread.look_back).map_err(ToolFailure::Respond)?;
        let key = call.key.to_owned();
        let message = wire::PostMessage { key, text, asks: true, ..wire::PostMessage::default() };
        let wire::PostedMessage { ts, .. } = cx.gateway.post(&message).await?;
        let roles = args.questions.into_iter().map(|one| one.role).collect();
        let text = format!(
            "Posted as message {ts}. Your run ends here and goes on with an answer; end it again with a line that \
             says whose answer is missing, as long as one is."
        );
        let record = Some(TranscriptRecord::RolesAsked { roles });
        Ok(ToolOutcome::of(text, ResultKind::Waits).recording(record))
    }
}

/// The message that asks them, a line each.
fn check_questions(questions: &[RoleQuestion], facts: &LookBackFacts) -> Result<String, String> {
    if facts.is_over {
        return Err("looking back has cost what it may: go on with what you know".to_owned());
    }
    let took_part: Vec<&str> = facts.took_part.iter().map(String::as_str).collect();
    let mut asked = BTreeSet::new();
    let mut lines =
        vec!["For the retrospective, one question each; answer me in a few lines.".to_owned()];
    for RoleQuestion { role, question } in questions {
        if !facts.took_part.contains(role) {
            return Err(format!(
                "`{role}` did not work in this conversation; {} did",
                took_part.join(", ")
            ));
        }
        if facts.asked.contains(role) || !asked.insert(role) {
            return Err(format!("`{role}` is asked one question, and no more"));
        }
        let question = question.split_whitespace().collect::<Vec<_>>().join(" ");
        if question.is_empty() {
            return Err(format!("the question to `{role}` is empty"));
        }
        lines.push(format!(
            "@codebutler.{role} {}",
            clip_text(&question.replace("@codebutler.", ""), MAX_QUESTION)
        ));
    }
    if asked.is_empty() { Err("`questions` is empty".to_owned()) } else { Ok(lines.join("\n")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asks(pairs: &[(&str, &str)], facts: &LookBackFacts) -> Result<String, String> {
        let one = |(role, question): &(&str, &str)| RoleQuestion {
            role: (*role).to_owned(),
            question: (*question).to_owned(),
        };
        check_questions(&pairs.iter().map(one).collect::<Vec<_>>(), facts)
    }

    #[test]
    fn each_role_that_took_part_is_asked_once() {
        let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let facts = LookBackFacts {
            took_part: set(&["coder", "pm", "reviewer"]),
            asked: set(&["reviewer"]),
            ..LookBackFacts::default()
        };
        let text = asks(&[("coder", "Why\ntwice? @codebutler.pm"), ("pm", "Who said so?")], &facts);
        assert_eq!(
            text.unwrap().lines().skip(1).collect::<Vec<_>>(),
            ["@codebutler.coder Why twice? pm", "@codebutler.pm Who said so?"]
        );
        for (pairs, why) in [
            (
                vec![("artist", "Why?")],
                "`artist` did not work in this conversation; coder, pm, reviewer did",
            ),
            (vec![("reviewer", "Why?")], "`reviewer` is asked one question, and no more"),
            (vec![("pm", "Why?"), ("pm", "Really?")], "`pm` is asked one question, and no more"),
            (vec![("pm", " ")], "the question to `pm` is empty"),
            (vec![], "`questions` is empty"),
        ] {
            assert_eq!(asks(&pairs, &facts).unwrap_err(), why);
        }
        let over = LookBackFacts { is_over: true, ..facts };
        assert!(asks(&[("pm", "Why?")], &over).unwrap_err().contains("has cost what it may"));
    }
}
