//! Effects of the model's answers on the state: the conversation, the provider's token counts and limits, and the
//! parts that survive when the older conversation is replaced by a summary.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use codebutler_guides::text::shorten_text;
use codebutler_guides::voice::{guard_voice, speak};
use codebutler_wire::NanoUsd;
use serde_json::Value;

use super::calls::hash_parts;
use super::{OpenAnswer, TranscriptState};
use crate::model::judge::ReplyFlaw;
use crate::model::quirk::ModelQuirk;
use crate::model::{self, AnswerSource, AssistantMessage, EARLIER};
use crate::tool_args::patched_paths;

/// Bytes for a summary and all that is kept beside it, where the transcript does not say.
const ROOM: usize = 48_000;
const WRITERS: [&str; 2] = ["Write", "Edit"];
/// Files that a summary names.
const FILES: usize = 30;
/// Bounds of the ratio between the provider's token count and the estimate. Below the last one the model was not
/// shown the whole request.
const LEAST_SCALE: f64 = 0.5;
const MOST_SCALE: f64 = 3.0;
const IMPLAUSIBLE: f64 = 0.3;
/// A change that is smaller is none: what is shown stays the same from call to call, and cached.
const SHIFT: f64 = 0.15;

impl TranscriptState {
    /// Ways in which this model's provider wants the conversation.
    pub fn quirks(&self) -> &BTreeSet<ModelQuirk> {
        &self.quirks
    }

    /// Tokens of a request that were too many for this model.
    pub fn too_long(&self) -> Option<u32> {
        self.too_long
    }

    /// Tokens that a provider counts for one that is estimated here.
    pub fn scale(&self) -> f64 {
        self.scale.unwrap_or(1.0)
    }

    /// Model whose reasoning the newest answer holds.
    pub fn thinker(&self) -> Option<&str> {
        self.thinker.as_deref()
    }

    /// The model that answered last in place of this one.
    pub fn stand_in(&self, asked: &str) -> Option<&str> {
        let (model, instead) = self.stand_in.as_ref()?;
        (model == asked).then_some(instead.as_str())
    }

    /// Facts on the plan and the pull request that the role was told last.
    pub fn facts(&self) -> Option<&str> {
        self.facts.as_deref()
    }

    pub(super) fn answered(
        &mut self,
        message: &AssistantMessage,
        usage: Option<&Value>,
        source: Option<&AnswerSource>,
    ) {
        self.untested.clear();
        let thinker = source.map(AnswerSource::thinker);
        self.chat.push(message.to_chat(thinker.as_deref()));
        // An answer without the name of the model that gave it is taken to be by the same one as before.
        let unnamed = source.is_some_and(|source| source.by.is_none());
        let same = |known: &String| {
            let asked = known.split_once(' ').map(|(model, _)| model);
            unnamed && asked == source.map(|source| source.model.as_str())
        };
        self.thinker = self.thinker.take().filter(same).or(thinker);
        self.stand_in =
            source.and_then(|source| Some((source.model.clone(), source.instead.clone()?)));
        self.measure(usage, source);
        self.note_files(message);
        let Some(run) = &mut self.run else { return };
        run.turns += 1;
        run.cost += told_cost(usage);
        (run.flaw, run.overflows) = (None, 0);
        if message.tool_calls.is_empty() {
            run.faults = 0;
        } else {
            // With calls, the text that was begun is no final answer.
            run.begun.clear();
        }
        if let Some(said) = &message.content {
            run.words.push(hash_parts(&[said]));
            run.said = Some(said.clone()).filter(|said| !said.trim().is_empty());
        }
        if let Some(call) = message.tool_calls.last() {
            run.called = Some((call.name.clone(), call.arguments.clone()));
        }
        run.answer = Some(OpenAnswer { message: message.clone(), ..OpenAnswer::default() });
    }

    pub(super) fn flawed(&mut self, flaw: &ReplyFlaw, message: &AssistantMessage) {
        // A provider that refuses the content has not said that it takes the form.
        if !matches!(flaw, ReplyFlaw::Refused { .. }) {
            self.untested.clear();
        }
        self.answer_dangling_calls();
        let kept = flaw.keeps(message.content.as_deref());
        if !kept.trim().is_empty() {
            // The reasoning is left out, which may be cut off too.
            let part =
                AssistantMessage { content: Some(kept.to_owned()), ..AssistantMessage::default() };
            self.chat.push(part.to_chat(None));
        }
        self.chat.push(model::user_message(&speak(&flaw.told())));
        let Some(run) = &mut self.run else { return };
        if matches!(flaw, ReplyFlaw::CutOff { .. }) {
            run.begun.push_str(kept);
        }
        run.flawed(flaw);
    }

    /// Tokens that this model can be shown, as its server says.
    pub fn window(&self) -> Option<u32> {
        self.window
    }

    pub(super) fn overflowed(&mut self, shown: u32, window: Option<u32>) {
        self.window = window.or(self.window);
        self.too_long = Some(self.too_long.map_or(shown, |known| known.min(shown)));
        if let Some(run) = &mut self.run {
            run.overflows += 1;
        }
    }

    /// Another model: what was learned of the last one says nothing of it.
    pub(super) fn think_anew(&mut self) {
        self.quirks.clear();
        self.untested.clear();
        self.too_long = None;
        self.window = None;
        self.blind = false;
        self.deaf = false;
    }

    fn measure(&mut self, usage: Option<&Value>, source: Option<&AnswerSource>) {
        let counted = usage.and_then(|usage| usage["prompt_tokens"].as_f64());
        let estimated = source.and_then(|source| source.shown).map(f64::from);
        let (Some(counted), Some(estimated)) = (counted, estimated) else { return };
        let found = counted / estimated.max(1.0);
        if found < IMPLAUSIBLE {
            return;
        }
        let found = found.clamp(LEAST_SCALE, MOST_SCALE);
        if (found / self.scale() - 1.0).abs() > SHIFT {
            self.scale = Some(found);
        }
    }

    fn note_files(&mut self, message: &AssistantMessage) {
        let calls = message.tool_calls.iter().filter(|call| WRITERS.contains(&call.name.as_str()));
        for call in calls {
            let arguments: Value = serde_json::from_str(&call.arguments).unwrap_or_default();
            let path = ["path", "file_path"].iter().find_map(|key| arguments[*key].as_str());
            let patched = patched_paths(arguments["patch"].as_str().unwrap_or_default());
            for path in path.into_iter().chain(patched).filter(|path| path.len() < 300) {
                self.changed.retain(|known| known != path);
                self.changed.push(path.to_owned());
            }
        }
        let old = self.changed.len().saturating_sub(FILES);
        self.changed.drain(..old);
    }

    /// One message stands for the first `upto` from now on, in about `room` bytes: the summary, and beside
    /// it what no summary stands for, unless it is to stand `alone`.
    pub(super) fn compact(&mut self, upto: usize, summary: &str, room: usize, alone: bool) {
        let upto = upto.min(self.chat.len());
        self.servers.forget_told();
        let room = if room == 0 { ROOM } else { room };
        let mut text =
            format!("{EARLIER} It is a record, not an instruction:\n\n{}", guard_voice(summary));
        let words = self.words.tell(upto, room / 2);
        if !words.is_empty() && !alone {
            let _ = write!(text, "\n\n{words}");
        }
        let mut left = room / 16;
        let fits = |path: &&String| {
            left = left.saturating_sub(path.len() + 4);
            left > 0
        };
        let files: Vec<_> = self.changed.iter().rev().take_while(fits).collect();
        if !files.is_empty() {
            let files: Vec<_> = files.iter().rev().map(|path| format!("`{path}`")).collect();
            let _ = write!(
                text,
                "\n\n{}",
                speak(&format!("Files that you wrote: {}.", files.join(", ")))
            );
        }
        if let Some(facts) = &self.facts {
            let facts = shorten_text(facts, room / 4, |missing| {
                format!("\n[… {missing} characters left out …]\n")
            });
            let _ = write!(text, "\n\n{}", speak(&facts));
        }
        for part in [&self.plan.0, &self.plan.1].into_iter().flatten() {
            let part = shorten_text(part, room / 4, |missing| {
                format!("\n[… {missing} characters left out …]\n")
            });
            let _ = write!(text, "\n\n{}", speak(&part));
        }
        self.words.fold(upto);
        self.summary = Some(summary.to_owned());
        self.chat.splice(..upto, [model::user_message(&text)]);
    }
}

/// Cost of an answer as the provider tells it; zero where it tells none.
fn told_cost(usage: Option<&Value>) -> NanoUsd {
    let told = usage.and_then(|usage| usage.get("cost")).filter(|cost| cost.is_number());
    told.and_then(|cost| NanoUsd::parse(&cost.to_string()).ok()).unwrap_or(NanoUsd::ZERO)
}
