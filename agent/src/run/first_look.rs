//! The first look at a conversation, by a cheaper model: it answers what needs no plan. Where more is needed, the
//! role's own model goes on with the whole conversation, once, and a line in the thread says so.

use codebutler_wire::{ErrorCode, PostMessage};
use serde_json::Value;

use super::act::{Open, is_harmless};
use super::{Agent, RunError, stuck};
use crate::decisions::LoggedKind;
use crate::mentions::{addresses_role, hands_over};
use crate::model::media::MediaKinds;
use crate::step;
use crate::tools::hand_up::HAND_UP;
use crate::tools::{CallRisk, RoleTools};
use crate::transcript::TranscriptRecord;
use crate::transcript::state::OpenRun;
use codebutler_guides::text::clip_text;
use codebutler_guides::voice::join_lines;
use codebutler_wire::RiskTier;

/// Most model calls of a first look; a longer one is handed over.
const MOST_CALLS: u32 = 6;
/// Longest reason that the model gives for handing over, in characters.
const MAX_WHY: usize = 160;
/// Tools whose effects only the role sees.
const OWN_USE: [&str; 2] = ["Bash", "Todo"];
/// The tool by which a role speaks to people.
const SPEAKS: &str = "SendMessage";

/// Note for the model that takes over, where the first model's last words were not said.
const UNSAID: &str = "A smaller model took the first look and wanted to hand this to another role. Its words were not \
     posted. You take over: do what the people asked for.";

impl Agent {
    /// True while the cheaper model answers the run.
    pub(super) fn looks_first(&self) -> bool {
        self.transcript.state().run().is_some_and(OpenRun::looks_first)
    }

    /// Starts a run that people caused with the cheaper model, as long as nothing has needed the other one.
    pub(super) fn begin_first_look(&mut self) -> Result<(), RunError> {
        let Some(first) = self.session.first_look.clone() else { return Ok(()) };
        let state = self.transcript.state();
        let by_people =
            state.run().is_some_and(|run| run.turns == 0 && run.review.asked_by.is_none());
        let sees = self.session.facts.get(&first).and_then(|facts| facts.sees) == Some(true);
        let is_shown = sees || MediaKinds::held(state.chat()).is_empty();
        if !by_people || !is_shown || state.is_handed_up() || state.model().is_some() {
            return Ok(());
        }
        let own = self.model().to_owned();
        let run = state.run().map(|run| run.id.clone()).unwrap_or_default();
        self.log.note(&run, LoggedKind::Model, &first, &[&own], "it takes the first look");
        Ok(self.transcript.append(&TranscriptRecord::FirstLook { model: first })?)
    }

    /// Hands over when the first look takes too many calls.
    pub(super) async fn end_long_look(&mut self) -> Result<(), RunError> {
        let run = self.transcript.state().run().filter(|run| run.looks_first());
        let why = match run {
            Some(run) if run.turns >= MOST_CALLS => "the first look found no answer",
            Some(run) if stuck::find_circle(&run.steps, &run.words).is_some() => {
                "the first look went in circles"
            }
            _ => return Ok(()),
        };
        self.hand_up(why.to_owned(), None).await
    }

    /// Hands over where the cheaper model asks for it, or calls a tool that is not for it. Its calls are not carried
    /// out.
    pub(super) async fn hand_up_calls(&mut self, tools: &RoleTools) -> Result<bool, RunError> {
        if !self.looks_first() {
            return Ok(false);
        }
        let open = self.open_calls(tools);
        let answer = self.transcript.state().run().and_then(|run| run.answer.as_ref());
        // Calls that people allowed, or that may have been carried out, stay.
        let is_settled = answer.is_some_and(|answer| answer.allowed.is_some());
        if is_settled || open.iter().any(|open| open.intent.is_some()) {
            return Ok(false);
        }
        let Some(why) = open.iter().find_map(|open| self.why_stronger(tools, open)) else {
            return Ok(false);
        };
        self.hand_up(why, None).await?;
        Ok(true)
    }

    /// Hands over where the cheaper model wants to pass the work on.
    pub(super) async fn hand_up_words(&mut self, text: &str) -> Result<bool, RunError> {
        if !self.looks_first() || !hands_over(text) {
            return Ok(false);
        }
        self.hand_up("another role is needed".to_owned(), Some(UNSAID.to_owned())).await?;
        Ok(true)
    }

    /// Hands over when the cheaper model's replies are unusable.
    pub(super) async fn hand_up_faults(&mut self) -> Result<bool, RunError> {
        if !self.looks_first() {
            return Ok(false);
        }
        self.hand_up("its answers could not be used".to_owned(), None).await?;
        Ok(true)
    }

    /// Hands over where the cheaper model's provider does not take the request: a team's own one may not have it.
    pub(super) async fn hand_up_refused(&mut self, code: ErrorCode) -> Result<bool, RunError> {
        let refused = [ErrorCode::InvalidRequest, ErrorCode::Upstream, ErrorCode::ContentRefused];
        if !self.looks_first() || !refused.contains(&code) {
            return Ok(false);
        }
        let why = format!("`{}` can't be used here", self.model());
        self.hand_up(why, None).await?;
        Ok(true)
    }

    fn why_stronger(&self, tools: &RoleTools, open: &Open) -> Option<String> {
        let (name, arguments) = (open.call.name.as_str(), &open.call.arguments);
        let args = serde_json::from_str::<Value>(arguments).unwrap_or_default();
        if name == HAND_UP {
            let why = clip_text(&join_lines(args["why"].as_str().unwrap_or_default()), MAX_WHY);
            let why = why.trim().trim_end_matches('.').to_owned();
            return Some(if why.is_empty() {
                "it is not sure of the answer".to_owned()
            } else {
                why
            });
        }
        if name == SPEAKS {
            return match args["decision"].as_str() {
                Some("plan") => Some("a plan is needed".to_owned()),
                Some(_) => Some("something has to be decided".to_owned()),
                None => addresses_role(arguments).then(|| "another role is needed".to_owned()),
            };
        }
        let is_own = OWN_USE.contains(&name)
            && tools.find(name).is_ok_and(|tool| {
                let tier = tool.verdict(&self.rules.policy, arguments).tier;
                tool.risk() != CallRisk::Speaks && tier <= RiskTier::WriteLocal
            });
        (!is_own && !is_harmless(tools, &self.rules.policy, open))
            .then(|| format!("`{name}` is needed"))
    }

    /// Posts the line before it records the change: repeated after a crash, the same key posts nothing again.
    async fn hand_up(&mut self, why: String, text: Option<String>) -> Result<(), RunError> {
        let model = self.session.model.clone();
        let first = self.model().to_owned();
        let run = self.transcript.state().run().map(|run| run.id.clone()).unwrap_or_default();
        let key = format!("{}.hand-up", self.session.role);
        let said = format!("`{model}` goes on from here: {why}.");
        step::point("before hand-up");
        self.tools.gateway.post(&PostMessage { key, text: said, ..PostMessage::default() }).await?;
        step::point("hand-up posted");
        self.log.note(&run, LoggedKind::Model, &model, &[&first], &why);
        Ok(self.transcript.append(&TranscriptRecord::HandedUp { model, why, text })?)
    }
}
