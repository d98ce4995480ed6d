//! Effects of a role's message on its Thread once it is in Slack: a decision asked, roles addressed.

use codebutler_crds::thread::{
    PlanDetails, PlanEstimate, PostedPlan, QueuedRole, RoleOffer, ThreadClosing,
};
use codebutler_crds::wire::{AskedDecision, PostMessage};
use codebutler_crds::{SlackTs, ThreadStatus};
use codebutler_gateway_core::dispatch::{RepoTeam, rounds};
use codebutler_gateway_core::threads;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use sha2::{Digest as _, Sha256};

use crate::outbound::post::{OutgoingText, SentPart, TextAsks};
use crate::questions::offers;
use crate::text::address;

/// Facts about a role's message that the gateway itself knows.
#[derive(Clone, Debug, Default)]
pub struct RoleContext {
    /// Head of the pull request that a merge is asked for.
    pub closing_head: Option<String>,
    /// A line of CodeButler's own under the message.
    pub note: Option<String>,
    /// Estimate of what a plan will come to.
    pub estimate: Option<PlanEstimate>,
    /// Slack user id of the only person who may answer.
    pub only: Option<String>,
}

/// Effects of a posted message on its Thread. Applied again, nothing changes.
pub(crate) struct PostMeaning {
    plan: Option<PostedPlan>,
    details: Option<PlanDetails>,
    closing: Option<ThreadClosing>,
    offer: Option<RoleOffer>,
    /// True if people are asked something, in whatever way.
    asks: bool,
    /// Role that says it, and its latest message.
    said: Option<(String, SlackTs)>,
    passing: FoundAddressees,
    now: Time,
}

impl PostMeaning {
    pub(crate) fn apply(&self, status: &mut ThreadStatus) {
        if let Some(plan) = &self.plan {
            threads::set_plan(status, plan);
        }
        if let Some(details) = &self.details {
            threads::set_plan_details(status, details);
        }
        if let Some(closing) = &self.closing {
            threads::set_closing(status, closing);
        }
        if let Some(offer) = &self.offer {
            offers::add_offer(status, offer);
        }
        if let Some((role, ts)) = &self.said {
            self.passing.apply(status, role, &self.now);
            let to = self.passing.first.as_ref().map(|(to, _)| to.as_str());
            threads::raise_said(status, role, ts, to);
            if self.asks {
                threads::raise_asked(status, ts);
            }
        }
        let decides = self.plan.as_ref().map(|plan| &plan.ts);
        let decides = decides.or(self.closing.as_ref().map(|closing| &closing.ts));
        if let Some(ts) = decides {
            // They came to something.
            status.rounds = status.rounds.take().filter(|rounds| rounds.ts > *ts);
        }
    }
}

#[derive(Default)]
struct FoundAddressees {
    /// The role that is woken, by which message.
    first: Option<(String, SlackTs)>,
    /// Roles that are addressed too: one at a time, as they share a worktree.
    others: Vec<(String, SlackTs)>,
    /// The one who is asked instead of another role, if there is one.
    asked: Option<(Option<String>, String, SlackTs)>,
    /// True if the message gives nobody anything to act on.
    idle: bool,
    /// True if all of them begin at once.
    together: bool,
}

/// Most roles that wait for their turn.
const QUEUED: usize = 8;

impl FoundAddressees {
    fn of(team: &RepoTeam, sent: &[SentPart], outgoing: &OutgoingText<'_>) -> Self {
        let sender = outgoing.role_name();
        let mut found = Self::default();
        for (part, text) in sent.iter().zip(&outgoing.parts) {
            let posted = || address::by_role(text, &team.roles, sender, false);
            for role in part.to.clone().unwrap_or_else(posted) {
                let known = found.others.iter().any(|(other, _)| *other == role);
                match &found.first {
                    None => found.first = Some((role, part.ts.clone())),
                    Some((first, _)) if *first == role || known => {}
                    Some(_) => found.others.push((role, part.ts.clone())),
                }
            }
        }
        let last = sent.last();
        if let Some(part) = last
            && let Some(held) = &part.held
        {
            found.asked = Some((team.leads.clone(), held.clone(), part.ts.clone()));
        }
        found.idle = outgoing.parts.iter().all(|part| rounds::says_nothing(part));
        found
    }

    fn apply(&self, status: &mut ThreadStatus, sender: &str, now: &Time) {
        if self.together {
            let all = || self.first.iter().chain(&self.others);
            for (role, ts) in all() {
                threads::raise_inbox(status, std::slice::from_ref(role), ts, now);
            }
            let asked: Vec<_> = all().cloned().collect();
            threads::begin_joint(status, sender, &asked);
            return;
        }
        if let Some((role, ts)) = &self.first
            && !threads::answer_joint(status, sender, role, ts)
        {
            threads::raise_inbox(status, std::slice::from_ref(role), ts, now);
            rounds::count_round(status, sender, role, ts, self.idle);
        }
        for (role, ts) in &self.others {
            queue_role(status, sender, role, ts);
        }
        if let Some((lead, held, ts)) = &self.asked {
            let ends = self.idle && rounds::is_idle(status, sender, held);
            rounds::count_round(status, sender, held, ts, self.idle);
            match lead {
                Some(lead) if !ends => {
                    let question = rounds::lead_question(status, lead, sender, held, ts);
                    threads::add_handover(status, question);
                }
                _ => threads::add_handover(status, rounds::idle_notice(sender, held, ts)),
            }
        }
    }
}

fn queue_role(status: &mut ThreadStatus, from: &str, role: &str, ts: &SlackTs) {
    let heard = status.roles.get(role).and_then(|own| own.inbox.as_ref());
    let known = status.queued.iter().any(|next| next.role == role);
    if !known && heard.is_none_or(|heard| heard < ts) && status.queued.len() < QUEUED {
        let (role, from) = (role.to_owned(), from.to_owned());
        status.queued.push(QueuedRole { role, from, ts: ts.clone() });
    }
}

/// Reads the meaning off a message whose parts are in Slack.
pub(crate) fn read_meaning(
    team: &RepoTeam,
    outgoing: &OutgoingText<'_>,
    sent: &[SentPart],
    message: &PostMessage,
    beside: &RoleContext,
) -> PostMeaning {
    let role = outgoing.role_name().to_owned();
    // The message with the buttons.
    let asked = sent.last().map(|part| part.ts.clone());
    let of = |decision| asked.clone().filter(|_| message.decision == Some(decision));
    let offer = match outgoing.asks {
        TextAsks::Offer(shown) => asked.clone().map(|ts| RoleOffer {
            ts,
            role: role.clone(),
            kind: shown.kind,
            of: shown.count(),
            only: beside.only.clone(),
            optional: shown.optional,
            answers: Vec::new(),
        }),
        _ => None,
    };
    PostMeaning {
        offer,
        plan: of(AskedDecision::Plan).map(|ts| PostedPlan {
            ts,
            hash: plan_hash(message),
            role: role.clone(),
            approved_by: None,
            declined_by: None,
        }),
        details: of(AskedDecision::Plan).map(|plan| PlanDetails {
            plan,
            test: message.test.clone(),
            complexity: message.complexity,
            files: message.files.clone(),
            estimate: beside.estimate,
        }),
        closing: of(AskedDecision::Merge).map(|ts| ThreadClosing {
            ts,
            role: role.clone(),
            choice: None,
            decided_by: None,
            head: beside.closing_head.clone(),
            waits: None,
        }),
        asks: asks_people(message),
        said: asked.map(|ts| (role, ts)),
        passing: FoundAddressees {
            together: message.together,
            ..FoundAddressees::of(team, sent, outgoing)
        },
        now: Time(jiff::Timestamp::now()),
    }
}

/// True if a message asks people something, in whatever way: a yes after it may be for that.
fn asks_people(message: &PostMessage) -> bool {
    let words = message.text.split('`').step_by(2).flat_map(str::split_whitespace);
    let mut plain = words.filter(|word| !word.contains("://"));
    message.asks
        || message.decision.is_some()
        || !message.choices.is_empty()
        || !message.learnings.is_empty()
        || plain.any(|word| word.contains(['?', '¿', '？', '؟']))
}

/// Digest of all that people answer to in a message, if they are asked anything: also of the commit that they
/// would merge.
pub(crate) fn words_digest(message: &PostMessage, head: Option<&str>) -> Option<String> {
    let PostMessage { choices, learnings, improvements, .. } = message;
    let items = choices.iter().chain(learnings).chain(improvements);
    if message.decision.is_none() && items.clone().next().is_none() {
        return None;
    }
    let mut hash = Sha256::new_with_prefix(plan_hash(message));
    for item in items {
        hash.update([0]);
        hash.update(item);
    }
    hash.update([0, 0]);
    hash.update(head.unwrap_or_default());
    Some(hex::encode(&hash.finalize()[..16]))
}

/// Digest of what is approved: the text, and what is shown under it.
fn plan_hash(message: &PostMessage) -> String {
    let mut hash = Sha256::new_with_prefix(&message.text);
    if let Some(test) = &message.test {
        hash.update(format!("\ntest: {test}"));
    }
    if let Some(complexity) = message.complexity {
        hash.update(format!("\ncomplexity: {complexity:?}"));
    }
    for file in &message.files {
        hash.update(format!("\nfile: {file}"));
    }
    hex::encode(hash.finalize())
}
