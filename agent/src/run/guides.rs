//! What the repository says of how to work: guides, skills and policy, read anew for each run. What
//! can't be used is told in the thread once, and something else stands in.

use codebutler_crds::wire::{ErrorCode, PostMessage};
use sha2::{Digest as _, Sha256};

use super::{Agent, RunError};
use crate::decisions::Kind;
use crate::gateway::GatewayError;
use crate::policy::Policy;
use crate::policy::rules::Rules;
use crate::prompt::Guides;
use crate::seeds;
use crate::skills;
use crate::text::clip;
use crate::toolbox::protocol::{Reply, Request};

impl Agent {
    /// Which model answers in this run, out of which, and why.
    pub(super) fn note_model(&mut self) {
        let state = self.transcript.state();
        let run = state.run().map(|run| run.id.clone()).unwrap_or_default();
        let (chosen, why) = match (state.model(), self.session.complexity) {
            (Some(model), _) => (model.to_owned(), "a user chose it".to_owned()),
            (None, Some(complexity)) => {
                (self.session.model.clone(), format!("the approved plan says: {complexity:?} work"))
            }
            (None, None) => (self.session.model.clone(), "the role's default".to_owned()),
        };
        let others: Vec<_> = self.session.models.iter().filter(|model| **model != chosen).collect();
        let others: Vec<&str> = others.into_iter().map(String::as_str).collect();
        if !others.is_empty() {
            self.log.note(&run, Kind::Model, &chosen, &others, &why);
        }
    }

    /// The repository's own guides, and the seeds where it has none. What can't be used is told.
    pub(super) async fn guides(&self, set_up: Option<String>) -> Result<Guides, RunError> {
        let first = self.session.roles.first().is_some_and(|card| card.role == self.session.role);
        let role = format!("{}.md", self.session.role);
        let (role, global) = tokio::try_join!(self.guide(&role), self.guide("global.md"))?;
        let workflows = if first { self.guide("workflows.md").await? } else { None };
        let skills = if first { self.skills().await? } else { None };
        Ok(Guides { role, global, workflows, skills, set_up })
    }

    async fn guide(&self, file: &str) -> Result<Option<String>, RunError> {
        let seed = || seeds::seed(file).map(ToOwned::to_owned);
        match self.tools.toolbox.ask(Request::Guide { file: file.to_owned() }).await? {
            Reply::Guide(own) => Ok(own.or_else(seed)),
            Reply::Refused(why) | Reply::Failed(why) => {
                let base = Request::BaseGuide { file: file.to_owned() };
                let (kept, which) = match self.tools.toolbox.ask(base).await? {
                    Reply::Guide(Some(text)) => (Some(text), "the base branch's"),
                    _ => (seed(), "the one that CodeButler brings"),
                };
                let text = format!(
                    "`.codebutler/{file}` can't be used: {why}. I go by {which} until it is mended."
                );
                self.tell_once("guide", &text).await?;
                Ok(kept)
            }
            other => {
                tracing::warn!(file, ?other, "a guide of the repository can't be used");
                Ok(seed())
            }
        }
    }

    /// The index of skills. Those that can't be used are told, and left out.
    async fn skills(&self) -> Result<Option<String>, RunError> {
        let Reply::Files(files) = self.tools.toolbox.ask(Request::Skills).await? else {
            return Ok(None);
        };
        let (index, wrong) = skills::index(&files);
        if !wrong.is_empty() {
            let lines: Vec<_> = wrong
                .iter()
                .map(|(file, why)| {
                    format!("- `.codebutler/skills/{file}`: {}", clip(&why.to_string(), 200))
                })
                .collect();
            let text = format!("Some skills can't be used and are left out:\n{}", lines.join("\n"));
            self.tell_once("skills", &text).await?;
        }
        Ok(index)
    }

    /// Says something in the thread that is wrong with the repository: the same words once.
    pub(super) async fn tell_once(&self, what: &str, text: &str) -> Result<(), RunError> {
        tracing::warn!(what, "something of the repository can't be used");
        let key = format!("{what}.{}", &hex::encode(Sha256::digest(text))[..16]);
        let message = PostMessage { key, text: text.to_owned(), ..PostMessage::default() };
        match self.tools.gateway.post(&message).await {
            // A role that may not speak: it is in the log.
            Ok(_) | Err(GatewayError::Refused { code: ErrorCode::Forbidden, .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// The base branch's `policy.json`. One that can't be used is told once, and counts as none.
    pub(super) async fn read_policy(&self) -> Result<Policy, RunError> {
        let file = Request::BaseGuide { file: "policy.json".to_owned() };
        let text = match self.tools.toolbox.ask(file).await? {
            Reply::Guide(text) => text.unwrap_or_else(|| "{}".to_owned()),
            _ => "{}".to_owned(),
        };
        let rules = match Rules::parse(&text) {
            Ok(rules) => rules,
            Err(why) => {
                let text = format!(
                    "`.codebutler/policy.json` can't be used: {why}. Until it is mended on the base branch, \
                     the built-in rules count alone."
                );
                self.tell_once("policy", &text).await?;
                Rules::default()
            }
        };
        Ok(Policy { rules, overrides: self.session.tool_overrides.clone() })
    }
}
