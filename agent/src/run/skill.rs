//! Detects which skill users ask for: the harness decides from their words before the model is asked. It happens
//! here, in the run of the role that they talk to: that run has the skills of the base branch as they are now, its
//! transcript makes the answer the same after a crash, and people can be asked in the thread. Behind the gateway's
//! ingest it would need a second copy of the repository, and hold up a message that asks for nothing.

use codebutler_wire::{ErrorCode, PastConversation, PostMessage, SlackTs};

use super::view::RunEnding;
use super::{Agent, RunError};
use crate::decisions::LoggedKind;
use crate::gateway::GatewayError;
use crate::toolbox::protocol::{ToolboxReply, ToolboxRequest};
use crate::transcript::state::wishes::{SkillOffer, UserWish};
use crate::transcript::{RunOutcome, TranscriptRecord};
use codebutler_guides::skills::{self, AskedSkill, PastRequest, SkillCall, SkillGuide};
use codebutler_guides::text::clip_text;

impl Agent {
    /// Reads the skills of the base branch, for the role that users talk to first. Invalid ones are reported once,
    /// and left out.
    pub(super) async fn read_skills(&self) -> Result<Vec<SkillGuide>, RunError> {
        let first = self.session.roles.first().is_some_and(|card| card.role == self.session.role);
        if !first {
            return Ok(Vec::new());
        }
        let files = match self.tools.toolbox.ask(ToolboxRequest::Skills).await? {
            ToolboxReply::Skills(files) => files,
            ToolboxReply::Failed(why) => return Err(RunError::Repository(why)),
            other => {
                tracing::warn!(?other, request = "skills", "toolbox_request_failed");
                Vec::new()
            }
        };
        let roles: Vec<String> = self.session.roles.iter().map(|card| card.role.clone()).collect();
        let (skills, wrong) = skills::collect_skills(&files, &roles);
        if !wrong.is_empty() {
            let line = |(file, why): &(String, skills::SkillFault)| {
                format!("- `{file}`: {}", clip_text(&why.to_string(), 300))
            };
            let lines: Vec<_> = wrong.iter().map(line).collect();
            let text = format!("Some skills can't be used and are left out:\n{}", lines.join("\n"));
            self.tell_once("skills", &text).await?;
        }
        Ok(skills)
    }

    /// Compares the users' words with the skills, once. Returns the run's end where people have to choose a skill.
    pub(super) async fn find_skills(&mut self) -> Result<Option<RunEnding>, RunError> {
        if self.rules.skills.is_empty() {
            return Ok(None);
        }
        let wishes = self.transcript.state().wishes();
        if let Some((wish, choice)) = wishes.chosen() {
            let (wish, choice) = (wish.clone(), choice.to_owned());
            self.choose_skill(&wish, &choice)?;
        }
        let fresh = self.transcript.state().wishes().fresh().to_vec();
        let alone = fresh.len() == 1;
        for wish in fresh {
            let calls = match self.skill_in(&wish) {
                AskedSkill::OneOf(calls) if alone => calls,
                AskedSkill::One(call) => {
                    self.call_skill(&wish, &call)?;
                    continue;
                }
                AskedSkill::Nothing | AskedSkill::OneOf(_) => {
                    let text = match self.correction_in(&wish) {
                        None if alone => self.repeat_in(&wish).await?,
                        correction => correction,
                    };
                    self.transcript
                        .append(&TranscriptRecord::Skill { message: wish.message, text })?;
                    continue;
                }
            };
            if self.offer_skills(&wish, &calls).await? {
                return Ok(Some((RunOutcome::Waiting, None)));
            }
        }
        Ok(None)
    }

    /// Finds the skill that a wish asks for. Messages from before the role was woken are done with; after a question
    /// of the role's own, the next message counts as the answer, unless it names a skill word for word.
    fn skill_in(&self, wish: &UserWish) -> AskedSkill {
        if self.position.is_done(&wish.message) {
            return AskedSkill::Nothing;
        }
        let last = self.transcript.state().last();
        let answers = last.is_some_and(|last| last.outcome == RunOutcome::Waiting);
        match skills::find_asked(&wish.text, &self.rules.skills) {
            AskedSkill::One(call) if answers && !call.exact => AskedSkill::Nothing,
            AskedSkill::OneOf(_) if answers => AskedSkill::Nothing,
            asked => asked,
        }
    }

    /// Brief for the model when somebody says that its answer is wrong.
    fn correction_in(&self, wish: &UserWish) -> Option<String> {
        let session = &self.session;
        // While a plan awaits approval, corrections are about the plan.
        let decides = session.plan.as_ref().is_some_and(|plan| plan.approved_by.is_none());
        let has_answered = self.transcript.state().last().is_some();
        let is_old = self.position.is_done(&wish.message);
        if decides || !has_answered || is_old || !skills::is_correction(&wish.text) {
            return None;
        }
        let lead = session.roles.iter().find(|card| card.leads).map(|card| card.role.as_str());
        Some(skills::correction_brief(wish.message.as_str(), lead))
    }

    /// Brief for the model when a conversation begins with a request that people make again and again.
    async fn repeat_in(&mut self, wish: &UserWish) -> Result<Option<String>, RunError> {
        let begins = self.transcript.state().wishes().first() == Some(wish);
        if !begins || self.transcript.state().last().is_some() {
            return Ok(None);
        }
        let files = match self.tools.toolbox.ask(ToolboxRequest::PastRequests).await? {
            ToolboxReply::Files(files) => files,
            other => {
                tracing::warn!(?other, request = "openings", "toolbox_request_failed");
                return Ok(None);
            }
        };
        let kept = match self.tools.gateway.past_conversations().await {
            Ok(kept) => kept.conversations,
            Err(error) => {
                tracing::warn!(%error, "history_read_failed");
                Vec::new()
            }
        };
        let past = join_requests(kept, files);
        let repeats = skills::find_repeats(&wish.text, &past);
        if repeats.is_empty() {
            return Ok(None);
        }
        let text = skills::repeat_brief(wish.message.as_str(), &repeats);
        let places: Vec<&str> = repeats.iter().map(|one| one.place.as_str()).collect();
        let evidence =
            format!("message {} asks for the same as {}", wish.message, places.join(", "));
        let run = self.transcript.state().run().map(|run| run.id.clone()).unwrap_or_default();
        self.log.note(&run, LoggedKind::Skill, "suggest one", &[], &evidence);
        Ok(Some(text))
    }

    fn call_skill(&mut self, wish: &UserWish, call: &SkillCall) -> Result<(), RunError> {
        let Some(skill) = self.rules.skills.iter().find(|skill| skill.name == call.skill) else {
            return self.note_skill(&wish.message, None);
        };
        let text = skills::write_brief(skill, call, &wish.message, &self.session.role);
        let how = if call.exact { "word for word" } else { "nearly" };
        let evidence = format!("message {} says `{}`, {how}", wish.message, call.trigger);
        let run = self.transcript.state().run().map(|run| run.id.clone()).unwrap_or_default();
        self.log.note(&run, LoggedKind::Skill, &call.skill, &[], &evidence);
        self.note_skill(&wish.message, Some(text))
    }

    fn choose_skill(&mut self, wish: &UserWish, choice: &str) -> Result<(), RunError> {
        let calls = match skills::find_asked(&wish.text, &self.rules.skills) {
            AskedSkill::OneOf(calls) => calls,
            AskedSkill::One(call) => vec![call],
            AskedSkill::Nothing => Vec::new(),
        };
        if let Some(call) = calls.into_iter().find(|call| call.skill == choice) {
            return self.call_skill(wish, &call);
        }
        let text = format!(
            "[CodeButler] Message {} asks for no skill: the answer was \"{choice}\". Read it as it stands.",
            wish.message
        );
        self.note_skill(&wish.message, Some(text))
    }

    fn note_skill(&mut self, message: &SlackTs, text: Option<String>) -> Result<(), RunError> {
        Ok(self.transcript.append(&TranscriptRecord::Skill { message: message.clone(), text })?)
    }

    /// Asks people which skill they mean. Returns true if they are asked.
    async fn offer_skills(
        &mut self,
        wish: &UserWish,
        calls: &[SkillCall],
    ) -> Result<bool, RunError> {
        let (text, choices) = skills::skills_question(calls, &self.rules.skills);
        let key = format!("{}.skill.{}", self.session.role, wish.message);
        let message = PostMessage {
            key,
            text,
            choices: choices.clone(),
            asks: true,
            ..PostMessage::default()
        };
        match self.tools.gateway.post(&message).await {
            Ok(posted) => {
                let offer = SkillOffer { posted: posted.ts, wish: wish.clone(), choices };
                self.transcript.append(&TranscriptRecord::Offered(offer))?;
                Ok(true)
            }
            // A role that may not ask reads the message itself.
            Err(GatewayError::Refused {
                code: ErrorCode::Forbidden | ErrorCode::InvalidRequest,
                ..
            }) => {
                self.note_skill(&wish.message, None)?;
                Ok(false)
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// Joins the opening requests of earlier conversations: those of the history, which knows all, and those that only
/// their journals tell of.
fn join_requests(kept: Vec<PastConversation>, journals: Vec<(String, String)>) -> Vec<PastRequest> {
    let is_kept = |page: &str| {
        let ts = page.strip_prefix("journals/thread-").and_then(|page| page.strip_suffix(".md"));
        ts.is_some_and(|ts| kept.iter().any(|one| one.thread.ends_with(ts)))
    };
    let journals: Vec<_> = journals.into_iter().filter(|(page, _)| !is_kept(page)).collect();
    let kept = kept.into_iter().map(|one| (format!("thread {}", one.thread), one.asked));
    kept.chain(journals).map(|(place, asked)| PastRequest { place, asked }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conversation_with_a_journal_counts_once() {
        let kept = |thread: &str| PastConversation { thread: thread.into(), asked: "bump".into() };
        let journal = |ts: &str| (format!("journals/thread-{ts}.md"), "bump".to_owned());
        let kept = vec![kept("shop-1700000009-000100"), kept("shop-1700000005-000100")];
        let past =
            join_requests(kept, vec![journal("1700000005-000100"), journal("1600000000-000100")]);
        let places: Vec<_> = past.iter().map(|one| one.place.as_str()).collect();
        assert_eq!(
            places,
            [
                "thread shop-1700000009-000100",
                "thread shop-1700000005-000100",
                "journals/thread-1600000000-000100.md",
            ]
        );
    }
}
