//! Lands accepted proposals of a role on the thread's branch, before anything else of a run: in one commit that
//! changes nothing but the memory, pushed through the same checks as any other. Idempotent.

use codebutler_wire::{OpenPullRequest, PendingDecision, SlackTs};

use super::mail::RoleMail;
use super::{Agent, RunError};
use crate::decisions::LoggedKind;
use crate::gateway::GatewayError;
use crate::journal::JournalFacts;
use crate::memory::{ChangeKind, LearningChange};
use crate::step;
use crate::toolbox::git::UNDER_WAY;
use crate::toolbox::protocol::{ToolboxReply, ToolboxRequest};
use crate::tools::{PushResult, ThreadFacts, ToolFailure};
use crate::transcript::TranscriptRecord;
use codebutler_guides::text::clip_text;

/// End of an attempt to commit and push what was accepted.
enum LandedLearnings {
    /// It is on the branch; the text says where.
    OnBranch(String),
    /// It is not, for this reason.
    Refused(String),
}

impl Agent {
    /// True if mail holds verdicts on some of the proposals only: the run continues once the last verdict is in.
    pub(super) fn awaits_verdicts(&self, mail: &RoleMail) -> bool {
        let judges = |decision| {
            matches!(
                decision,
                Some(PendingDecision::Learning { .. } | PendingDecision::LearningEdited { .. })
            )
        };
        let before = self.transcript.state().proposals();
        let mut after = before.clone();
        after.judge(&mail.messages, &mail.pending);
        let is_word = |ts: &SlackTs| {
            let said = mail.messages.iter().find(|message| message.ts == *ts);
            said.is_some_and(|message| before.takes_words(&message.text))
        };
        !(mail.pending.is_empty() && mail.requests.is_empty())
            && mail.pending.iter().all(|item| judges(item.decision()))
            && mail.requests.iter().all(is_word)
            && after.is_open()
    }

    /// Refreshes the facts about the conversation that tools need.
    pub(super) fn look_at_thread(&mut self) {
        let learns = self.session.tools.iter().any(|tool| tool == "ProposeLearnings");
        self.tools.thread = ThreadFacts {
            name: self.session.thread.clone(),
            role: self.session.role.clone(),
            link: self.session.link.clone(),
            state_dir: self.state_dir.clone(),
            transcript: self.transcript.path().to_owned(),
            usage: self.session.usage.clone(),
            review: self.review_gate(),
            journal: self.session.keeps_journal.then(|| self.journal_facts()),
            looks_back: learns
                && self.session.looks_back
                && !self.transcript.state().look_back().is_done(),
            look_back: self.look_back_facts(),
            learns_later: self.session.learns_later,
            stacked_on: self.session.stacked_on.as_ref().map(|on| on.commit.clone()),
            explores: learns
                && self.session.plan.as_ref().is_none_or(|plan| plan.approved_by.is_none()),
            roles: self.session.roles.iter().map(|card| card.role.clone()).collect(),
        };
    }

    fn journal_facts(&self) -> JournalFacts {
        let session = &self.session;
        let approved_by = session.plan.as_ref().and_then(|plan| plan.approved_by.clone());
        let name = |id: String| session.people.get(&id).cloned().unwrap_or(id);
        JournalFacts {
            root: Some(session.root.clone()),
            link: session.link.clone(),
            asked: self.transcript.state().wishes().first().map(|wish| wish.text.clone()),
            plan: session.plan_text.clone(),
            approved_by: approved_by.map(name),
            pull_request: session.pull_request.clone(),
            ..JournalFacts::default()
        }
    }

    /// Commits and pushes accepted proposals. A failure is reported, once, and the run continues.
    pub(super) async fn land_learnings(&mut self) -> Result<(), RunError> {
        let accepted = self.transcript.state().proposals().to_land();
        if accepted.is_empty() {
            return Ok(());
        }
        let (items, changes): (Vec<u32>, Vec<LearningChange>) = accepted.into_iter().unzip();
        let text = match self.land(&changes).await? {
            LandedLearnings::OnBranch(text) => text,
            // Ending that merge or rebase is up to another role: what is not on record is retried in the next run.
            LandedLearnings::Refused(why) if why.contains(UNDER_WAY) => {
                tracing::info!(why, "learning_delayed");
                let text = format!("What is to be remembered waits: {UNDER_WAY}.");
                return self.tell_once("learn-later", &text).await;
            }
            LandedLearnings::Refused(why) => {
                let text = format!("What was to be remembered is not on the branch: {why}.");
                self.tell_once("not-learned", &text).await?;
                text
            }
        };
        Ok(self.transcript.append(&TranscriptRecord::Landed { items, text })?)
    }

    async fn land(&mut self, changes: &[LearningChange]) -> Result<LandedLearnings, RunError> {
        let message = commit_message(changes, self.session.link.as_deref());
        let request = ToolboxRequest::CommitLearnings {
            changes: changes.to_vec(),
            message,
            pages: Vec::new(),
        };
        step::point("before learnings");
        let commit = match self.tools.toolbox.ask(request).await? {
            ToolboxReply::Text(commit) => commit,
            ToolboxReply::Refused(why) | ToolboxReply::Failed(why) => {
                return Ok(LandedLearnings::Refused(why));
            }
            other => {
                let why = format!("the toolbox gave a strange answer: {other:?}");
                return Ok(LandedLearnings::Refused(why));
            }
        };
        step::point("learnings are committed");
        match self.tools.push(&commit).await {
            Ok(PushResult::Done(_)) => {}
            Ok(PushResult::Conflict(why)) => return Ok(LandedLearnings::Refused(why)),
            Err(ToolFailure::Respond(why) | ToolFailure::Fault(why) | ToolFailure::Stop(why)) => {
                return Ok(LandedLearnings::Refused(why));
            }
            Err(ToolFailure::Closed) => return Err(RunError::Closed),
            Err(ToolFailure::Gateway(error)) => return Err(RunError::Gateway(error)),
            Err(ToolFailure::Toolbox(error)) => return Err(RunError::Toolbox(error)),
        }
        let opened = match &self.session.pull_request {
            Some(_) => String::new(),
            None => self.open_pull_request(changes).await?,
        };
        let files: Vec<_> = changes.iter().map(|change| format!("`{}`", change.file)).collect();
        let claims: Vec<_> =
            changes.iter().map(|change| format!("“{}”", change.learning.claim)).collect();
        let short = clip_text(&commit, 10);
        let done = if is_roadmap(changes) { "Planned" } else { "Remembered" };
        let text = format!(
            "{done} on this branch as {short}, in {}: {}.{opened}",
            files.join(", "),
            claims.join(", ")
        );
        let run = self.transcript.state().run().map(|run| run.id.clone()).unwrap_or_default();
        self.log.note(&run, LoggedKind::Learning, "landed", &[], &text);
        self.tell_once("learned", &text).await?;
        Ok(LandedLearnings::OnBranch(text))
    }
}

impl Agent {
    /// Opens a pull request for learnings alone, in a thread with nothing else to merge.
    async fn open_pull_request(&self, changes: &[LearningChange]) -> Result<String, RunError> {
        let message = commit_message(changes, self.session.link.as_deref());
        let (title, body) = message.split_once('\n').unwrap_or((&message, ""));
        let (title, body) = (title.to_owned(), body.trim().to_owned());
        let request = OpenPullRequest { title, body, proof: None };
        match self.tools.gateway.open_pull_request(&request).await {
            Ok(_) => Ok(" It has a pull request of its own: ask whether to merge.".to_owned()),
            Err(GatewayError::Refused { message, .. }) => {
                Ok(format!(" There is no pull request for it: {message}."))
            }
            Err(error) => Err(RunError::Gateway(error)),
        }
    }
}

fn is_roadmap(changes: &[LearningChange]) -> bool {
    changes.iter().all(|one| one.kind == ChangeKind::Item)
}

fn commit_message(changes: &[LearningChange], link: Option<&str>) -> String {
    let subject = match changes {
        _ if is_roadmap(changes) => match changes {
            [one] => format!("Plan: {}", clip_text(&one.learning.claim, 60)),
            several => format!("Plan {} items of the roadmap", several.len()),
        },
        [one] => format!("Learn: {}", clip_text(&one.learning.claim, 60)),
        several => format!("Learn {} things from this conversation", several.len()),
    };
    let lines: Vec<_> = changes
        .iter()
        .map(|change| format!("- {}: {} {}", change.file, change.learning.claim, change.reason))
        .collect();
    let source = link.map(|link| format!("\n\nThread: {link}")).unwrap_or_default();
    format!("{subject}\n\n{}{source}\n", lines.join("\n"))
}
