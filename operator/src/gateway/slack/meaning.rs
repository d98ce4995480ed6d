//! What a role's message means for its Thread once it is in Slack: a decision asked, roles addressed.

use codebutler_crds::thread::{Closing, Offer, Plan, PlanDetails};
use codebutler_crds::wire::{Decision, PostMessage};
use codebutler_crds::{SlackTs, ThreadStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use sha2::{Digest as _, Sha256};

use super::post::{Asks, Outgoing};
use super::{Inner, address, offer};
use crate::gateway::threads;

/// What a posted message means for its Thread. Applied again, nothing changes.
pub struct Meaning {
    plan: Option<Plan>,
    details: Option<PlanDetails>,
    closing: Option<Closing>,
    offer: Option<Offer>,
    /// Roles addressed, by the part that does.
    addressed: Vec<(Vec<String>, SlackTs)>,
    now: Time,
}

impl Meaning {
    pub fn apply(&self, status: &mut ThreadStatus) {
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
            offer::add(status, offer);
        }
        for (roles, ts) in &self.addressed {
            threads::raise_inbox(status, roles, ts, &self.now);
        }
    }
}

/// Reads it off a message whose parts are in Slack. `head` is the pull request's, for a merge.
pub fn of(
    inner: &Inner,
    outgoing: &Outgoing<'_>,
    sent: &[SlackTs],
    message: &PostMessage,
    head: Option<String>,
) -> Meaning {
    let role = outgoing.role_name().to_owned();
    let roles = inner.role_names(outgoing.repo);
    let addressed = outgoing
        .parts
        .iter()
        .zip(sent)
        .map(|(text, ts)| (address::by_role(text, &roles, &role), ts.clone()))
        .filter(|(roles, _)| !roles.is_empty())
        .collect();
    // The message with the buttons.
    let asked = sent.last().cloned();
    let of = |decision| asked.clone().filter(|_| message.decision == Some(decision));
    let offer = match outgoing.asks {
        Asks::Offer(shown) => asked.clone().map(|ts| Offer {
            ts,
            role: role.clone(),
            kind: shown.kind,
            of: shown.count(),
            answers: Vec::new(),
        }),
        _ => None,
    };
    Meaning {
        offer,
        plan: of(Decision::Plan).map(|ts| Plan {
            ts,
            hash: plan_hash(message),
            role: role.clone(),
            approved_by: None,
            declined_by: None,
        }),
        details: of(Decision::Plan).map(|plan| PlanDetails {
            plan,
            test: message.test.clone(),
            complexity: message.complexity,
            files: message.files.clone(),
        }),
        closing: of(Decision::Merge).map(|ts| Closing {
            ts,
            role: role.clone(),
            choice: None,
            decided_by: None,
            head,
        }),
        addressed,
        now: Time(jiff::Timestamp::now()),
    }
}

/// Of what is approved: the text, and what is shown under it.
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
