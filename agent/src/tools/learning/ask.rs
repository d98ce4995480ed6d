//! Questions to the roles, in the thread and at most one each, about what a retrospective can't tell from the
//! messages.

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

/// First line of tasks to look around. It speaks of learning, whatever language people speak: a role is offered
/// `WriteMap` where its conversation does.
const EXPLORING: &str = "To learn this project, one task each, all at the same time: change no file, and tell me when you are done.";

/// `AskRoles`
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct AskRolesArgs {
    /// One for each role that you have to hear.
    pub questions: Vec<RoleQuestion>,
}

/// A question to one role.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RoleQuestion {
    /// Such as `coder`.
    pub role: String,
    /// About what happened and why, so that it can answer from what it did; or what it is to look at.
    pub question: String,
}

pub(super) struct AskRoles;

#[async_trait]
impl Handler for AskRoles {
    type Args = AskRolesArgs;
    const NAME: &'static str = "AskRoles";
    const DESCRIPTION: &'static str = "Asks several roles at the same time, one question each: for the retrospective those that worked in this conversation, in one call; or, as long as nothing is approved to be built, any role to look around. Your run ends and continues once, when all have answered.";
    const RISK: CallRisk = CallRisk::Speaks;

    async fn call(
        &self,
        cx: &ToolContext,
        args: AskRolesArgs,
        call: StartedCall<'_>,
    ) -> Result<ToolOutcome, ToolFailure> {
        let (facts, explores) = (&cx.thread.look_back, cx.thread.explores);
        if !cx.thread.looks_back && !explores {
            let why = "there is no retrospective now: call AskRoles after the review and before ProposeLearnings";
            return Err(ToolFailure::Respond(why.to_owned()));
        }
        let others: Vec<&str> = if explores {
            let others = cx.thread.roles.iter().filter(|role| **role != cx.thread.role);
            others.map(String::as_str).collect()
        } else {
            facts.took_part.iter().map(String::as_str).collect()
        };
        let text = check_questions(&args.questions, facts, (&others, explores))?;
        let message = wire::PostMessage {
            key: call.key.to_owned(),
            text,
            together: true,
            ..wire::PostMessage::default()
        };
        let wire::PostedMessage { ts, .. } = cx.gateway.post(&message).await?;
        let roles = args.questions.into_iter().map(|one| one.role).collect();
        let text = format!(
            "Posted as message {ts}. Your run ends here and goes on once, when all of them have answered."
        );
        let record = (!explores).then_some(TranscriptRecord::RolesAsked { roles });
        Ok(ToolOutcome::of(text, ResultKind::Waits).recording(record))
    }
}

/// Reason for which questions are not posted, in words for the model.
#[derive(Debug, thiserror::Error)]
enum QuestionFault {
    #[error("the retrospective has cost what it may: go on with what you know")]
    Spent,
    #[error("`{role}` is no other role of this team; {others} are")]
    NoRole { role: String, others: String },
    #[error("`{role}` did not work in this conversation; {others} did")]
    NoPart { role: String, others: String },
    #[error("`{0}` is asked one question, and no more")]
    Again(String),
    #[error("the question to `{0}` is empty")]
    Empty(String),
    #[error("`questions` is empty")]
    Nothing,
}

impl From<QuestionFault> for ToolFailure {
    fn from(fault: QuestionFault) -> Self {
        Self::Respond(fault.to_string())
    }
}

/// Checks the questions and builds the message that asks them, one line each.
fn check_questions(
    questions: &[RoleQuestion],
    facts: &LookBackFacts,
    (others, explores): (&[&str], bool),
) -> Result<String, QuestionFault> {
    if facts.is_over && !explores {
        return Err(QuestionFault::Spent);
    }
    let head = if explores {
        EXPLORING
    } else {
        "For the retrospective, one question each; answer me in a few lines."
    };
    let mut asked = BTreeSet::new();
    let mut lines = vec![head.to_owned()];
    for RoleQuestion { role, question } in questions {
        if !others.contains(&role.as_str()) {
            let (role, others) = (role.clone(), others.join(", "));
            return Err(if explores {
                QuestionFault::NoRole { role, others }
            } else {
                QuestionFault::NoPart { role, others }
            });
        }
        let again = facts.asked.contains(role) && !explores;
        if !asked.insert(role) || again {
            return Err(QuestionFault::Again(role.clone()));
        }
        let question = question.split_whitespace().collect::<Vec<_>>().join(" ");
        if question.is_empty() {
            return Err(QuestionFault::Empty(role.clone()));
        }
        lines.push(format!(
            "@codebutler.{role} {}",
            clip_text(&question.replace("@codebutler.", ""), MAX_QUESTION)
        ));
    }
    if asked.is_empty() { Err(QuestionFault::Nothing) } else { Ok(lines.join("\n")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asks(pairs: &[(&str, &str)], facts: &LookBackFacts) -> Result<String, QuestionFault> {
        let one = |(role, question): &(&str, &str)| RoleQuestion {
            role: (*role).to_owned(),
            question: (*question).to_owned(),
        };
        let others: Vec<&str> = facts.took_part.iter().map(String::as_str).collect();
        check_questions(&pairs.iter().map(one).collect::<Vec<_>>(), facts, (&others, false))
    }

    #[test]
    fn who_looks_around_is_offered_what_it_is_to_answer_with() {
        let task = RoleQuestion { role: "coder".into(), question: "¿Qué hay aquí?".into() };
        let text = check_questions(&[task], &LookBackFacts::default(), (&["coder"], true)).unwrap();
        assert!(text.contains("learn") && text.ends_with("@codebutler.coder ¿Qué hay aquí?"));
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
            assert_eq!(asks(&pairs, &facts).unwrap_err().to_string(), why);
        }
        let over = LookBackFacts { is_over: true, ..facts };
        let spent = asks(&[("pm", "Why?")], &over).unwrap_err().to_string();
        assert!(spent.contains("has cost what it may"), "{spent}");
    }
}
