//! Decides who goes on when a run ends: models propose, this disposes. Pure: from the plan, the
//! pull request, the marks and the last words to a decision. It never lets a conversation rest
//! while something that people approved is unfinished and nobody was told.
//!
//! [`team`] says what the roles are for, [`words`] what last words say, [`heard`] what a conversation
//! says of a run, [`rounds`] when two roles don't come to an end, [`reply`] whom a person answers.

pub mod heard;
pub mod reply;
pub mod rounds;
mod team;
#[cfg(test)]
mod tests;
mod words;

use codebutler_crds::thread::{
    ClosingChoice, HandOver, HandOverReason, OfferKind, PullState, QueuedRole, RoleState,
    ThreadClosing, ThreadStatus,
};

use self::heard::HeardConversation;
pub use self::team::RepoTeam;
use self::words::ReviewVerdict;

/// Next step after a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DispatchStep {
    /// Somebody goes on already, people are asked, or there is nothing left to do.
    Rest,
    /// Somebody goes on, or people are told that nobody does.
    Pass(HandOver),
}

/// Input of a decision after a run of `role`.
pub struct DispatchFacts<'a> {
    pub team: &'a RepoTeam,
    pub status: &'a ThreadStatus,
    pub role: &'a str,
    /// The conversation so far.
    pub heard: &'a HeardConversation,
}

/// Returns true if a role other than `but` is at work or about to be, or somebody is about to be
/// told to go on.
pub fn goes_on(status: &ThreadStatus, but: Option<&str>) -> bool {
    let works = |name: &str| status.is_running(name) || status.wants(name);
    !status.handovers.is_empty()
        || status.roles.keys().any(|name| Some(name.as_str()) != but && works(name))
}

/// Returns true if a question to people is open.
pub fn asks_people(status: &ThreadStatus) -> bool {
    let plan = status.plan.as_ref();
    plan.is_some_and(|plan| plan.approved_by.is_none() && plan.declined_by.is_none())
        || status.closing.is_some()
        || status.approvals.iter().any(|question| question.answer.is_none())
        || status.offers.iter().any(|offer| offer.kind == OfferKind::Choice && offer.is_open())
        || status.budget.as_ref().is_some_and(|budget| budget.ask.is_some())
}

/// Returns true if people approved something that is neither merged nor given up.
pub fn is_unfinished(status: &ThreadStatus) -> bool {
    let approved = status.plan.as_ref().is_some_and(|plan| plan.approved_by.is_some());
    let decided = status.closing.as_ref().is_some_and(|closing| closing.choice.is_some());
    let ended = status.pull_request.as_ref().is_some_and(|pull| {
        pull.merge_commit.is_some()
            || matches!(pull.state, Some(PullState::Merged | PullState::Closed))
    });
    approved && !decided && !ended
}

/// Returns the reason why a run of `role` should not end with these words yet, for the model; given
/// once in a run. `to`: the roles that the words address.
pub fn find_nudge(
    team: &RepoTeam,
    status: &ThreadStatus,
    role: &str,
    words: &str,
    to: &[String],
) -> Option<String> {
    let (team, wish) = (&*team.for_plan(status), undone_wish(status, role));
    if !to.is_empty() || goes_on(status, Some(role)) || (asks_people(status) && wish.is_none()) {
        return None;
    }
    let pull = status.pull_request.as_ref();
    let unfinished = is_unfinished(status);
    let why = if let Some(wish) = wish {
        format!(
            "{wish}, and the thread is still open. Call CloseThread now. If it was refused, say why and what people can do about it"
        )
    } else if unfinished && team.is_implementer(role) && pull.is_none() {
        "the plan is approved, and there is no pull request. If the work is done, commit, push, open the pull request and hand over; otherwise continue. If you cannot, ask the people with SendMessage and `waitForReply`"
            .to_owned()
    } else if unfinished
        && team.is_reviewer(role)
        && words::review_of(words) == ReviewVerdict::Unclear
    {
        let to = |role: &Option<String>, what| {
            role.as_ref().map(|role| format!("@codebutler.{role} if {what}"))
        };
        let to =
            [to(&team.implements, "something has to change"), to(&team.leads, "nothing has to")];
        let to: Vec<_> = to.into_iter().flatten().collect();
        format!("it contains no verdict. Begin a line with {}", to.join(", or with "))
    } else if unfinished && team.is_lead(role) && pull.is_some() {
        "the pull request is open, and the people were not asked whether to merge it. If it is ready, ask with SendMessage and `decision: merge`; otherwise begin a line with the address of the role that continues"
            .to_owned()
    } else if !unfinished
        && !team.is_implementer(role)
        && is_new_plan(status)
        && words::is_plan(words)
    {
        "it looks like a plan without buttons to approve it. Post it with SendMessage and `decision: plan`"
            .to_owned()
    } else {
        return None;
    };
    Some(format!("Your answer was not posted: {why}. To post it unchanged, repeat it."))
}

/// Returns the decision of people about the end of the thread, if it is this role's to carry out
/// and not done yet.
fn undone_wish(status: &ThreadStatus, role: &str) -> Option<&'static str> {
    // A merge that waits at GitHub is done without the role.
    let own = |closing: &&ThreadClosing| closing.role == role && closing.waits.is_none();
    let closing = status.closing.as_deref().filter(own)?;
    Some(match closing.choice? {
        ClosingChoice::Merge => "it was decided to merge",
        ClosingChoice::Discard => "it was decided to close without merging",
    })
}

/// Returns true if a plan posted now would be one that nobody has seen.
fn is_new_plan(status: &ThreadStatus) -> bool {
    status.plan.as_ref().is_none_or(|plan| plan.declined_by.is_some())
}

/// Decides who goes on after a run.
pub fn decide_dispatch(facts: &DispatchFacts<'_>) -> DispatchStep {
    let team = facts.team.for_plan(facts.status);
    let facts = &DispatchFacts { team: &team, ..*facts };
    let DispatchFacts { team, status, role, .. } = facts;
    if goes_on(status, None) {
        return DispatchStep::Rest;
    }
    let heard = |role: &str| status.roles.get(role).and_then(|own| own.inbox.as_ref());
    let waits = |next: &&QueuedRole| {
        team.has(&next.role) && heard(&next.role).is_none_or(|heard| *heard < next.ts)
    };
    if let Some(next) = status.queued.iter().find(waits) {
        let (to, about) = (&next.role, next.ts.as_str());
        let (id, from) =
            (decision_id(HandOverReason::AlsoAddressed, to, about), Some(next.from.clone()));
        let (role, why) = (Some(to.clone()), HandOverReason::AlsoAddressed);
        return DispatchStep::Pass(HandOver { id, role, from, why, with: None, views: Vec::new() });
    }
    if asks_people(status) || facts.needs_people(role) {
        return DispatchStep::Rest;
    }
    // Told while the run was still at its end: whoever it answers would begin one more round.
    if facts.heard.is_told_idle(role) {
        return DispatchStep::Rest;
    }
    if team.is_lead(role) && facts.heard.is_to_decide(role) {
        return facts.tell(None, HandOverReason::Rounds);
    }
    let unfinished = is_unfinished(status);
    let asker = facts.heard.asker(role).map(|(asker, _)| asker);
    let answers_lead = asker.is_some() && asker == team.leads.as_deref();
    let own = if !unfinished {
        None
    } else if team.is_implementer(role) {
        Some(facts.after_implementing())
    } else if team.is_reviewer(role) && facts.pull().is_some() && !answers_lead {
        facts.after_review()
    } else {
        None
    };
    let back = || {
        let (asker, ts) = facts.heard.asker(role)?;
        team.has(asker).then(|| facts.pass(asker, HandOverReason::Answered, ts.as_str()))
    };
    own.or_else(back)
        .or_else(|| unfinished.then(|| facts.keep_going()))
        .unwrap_or(DispatchStep::Rest)
}

impl DispatchFacts<'_> {
    /// Returns true if the role waits for people: a waiting role has asked, and a failed one has
    /// said so. Both go on when somebody writes.
    fn needs_people(&self, role: &str) -> bool {
        self.status.roles.get(role).is_some_and(|own| match own.state {
            Some(RoleState::Failed) => true,
            Some(RoleState::Waiting) => own.addressed.is_none(),
            _ => false,
        })
    }

    fn pull(&self) -> Option<u64> {
        self.status.pull_request.as_ref().map(|pull| pull.number)
    }

    /// Returns the subject, a plan or a pull request, about which a decision is told once.
    fn subject(&self) -> String {
        let plan = self.status.plan.as_ref().map(|plan| plan.ts.to_string()).unwrap_or_default();
        match self.pull() {
            Some(number) => format!("{plan}.{number}"),
            None => plan,
        }
    }

    /// Hands over, unless that was done about the same since a person spoke and came to nothing.
    fn pass(&self, to: &str, why: HandOverReason, about: &str) -> DispatchStep {
        let said = self.heard.last_words(self.role);
        let lead = rounds::lead_instead(self.team, self.status, self.role, to);
        if let (Some(lead), Some(said)) = (lead, said) {
            let asked = rounds::lead_question(self.status, &lead, self.role, to, &said.ts);
            return self.once(asked);
        }
        let (role, from) = (Some(to.to_owned()), Some(self.role.to_owned()));
        let id = decision_id(why, to, about);
        self.once(HandOver { id, role, from, why, with: None, views: Vec::new() })
    }

    /// Tells people that nobody goes on by itself, and which role does if they write.
    fn tell(&self, who: Option<&String>, why: HandOverReason) -> DispatchStep {
        let from = who.map_or(self.role, String::as_str).to_owned();
        let id = decision_id(why, "", &self.subject());
        self.once(HandOver { id, role: None, from: Some(from), why, with: None, views: Vec::new() })
    }

    fn once(&self, decided: HandOver) -> DispatchStep {
        if self.heard.was_told(&decided.id) {
            return DispatchStep::Rest;
        }
        DispatchStep::Pass(HandOver { id: self.heard.anew(&decided.id), ..decided })
    }

    fn after_implementing(&self) -> DispatchStep {
        let subject = self.subject();
        if self.pull().is_none() {
            return self.tell(None, HandOverReason::NoPullRequest);
        }
        let asker = self.heard.asker(self.role).filter(|(asker, _)| self.team.has(asker));
        match (asker, &self.team.reviews) {
            // The role that asked for a change to reviewed work checks whether it is the right one.
            (Some((asker, ts)), _)
                if self.heard.has_reviewed(self.team) && Some(asker) != self.team.first() =>
            {
                self.pass(asker, HandOverReason::Answered, ts.as_str())
            }
            (_, Some(reviewer)) => {
                // Each time that it has ended with something new.
                let about = self.heard.last_words(self.role).map_or(subject, |w| w.ts.to_string());
                self.pass(reviewer, HandOverReason::NotReviewed, &about)
            }
            (_, None) => self.close(),
        }
    }

    fn after_review(&self) -> Option<DispatchStep> {
        let words = self.heard.last_words(self.role)?;
        let about = words.ts.as_str();
        match words::review_of(&words.text) {
            ReviewVerdict::Passed => Some(match &self.team.leads {
                Some(lead) => self.pass(lead, HandOverReason::ReviewPassed, about),
                None => self.close(),
            }),
            ReviewVerdict::Found => {
                let to = self.team.implements.as_ref()?;
                Some(self.pass(to, HandOverReason::ReviewFound, about))
            }
            ReviewVerdict::Unclear => None,
        }
    }

    /// Goes on with approved work that is unfinished when the run that ended was about something
    /// else.
    fn keep_going(&self) -> DispatchStep {
        let subject = self.subject();
        if self.pull().is_none() {
            return match self.team.implements.as_deref().filter(|role| *role != self.role) {
                Some(role) if self.needs_people(role) => DispatchStep::Rest,
                // It was woken for this already and came to nothing: people hear of it.
                Some(role) => match self.pass(role, HandOverReason::PlanWaits, &subject) {
                    DispatchStep::Rest => {
                        self.tell(self.team.implements.as_ref(), HandOverReason::NoPullRequest)
                    }
                    passed @ DispatchStep::Pass(_) => passed,
                },
                None => self.tell(None, HandOverReason::NoPullRequest),
            };
        }
        match self.team.reviews.as_deref().filter(|role| *role != self.role) {
            Some(reviewer) if self.needs_people(reviewer) => DispatchStep::Rest,
            Some(reviewer) if !self.heard.has_reviewed(self.team) => {
                self.pass(reviewer, HandOverReason::NotReviewed, &subject)
            }
            _ => self.close(),
        }
    }

    /// The lead is to ask whether to merge; where it did not, or there is none, people are told.
    fn close(&self) -> DispatchStep {
        let subject = self.subject();
        let lead = self.team.leads.as_deref().filter(|lead| *lead != self.role);
        let asked = lead.map(|lead| self.pass(lead, HandOverReason::NotClosed, &subject));
        match asked {
            Some(DispatchStep::Pass(asked)) => DispatchStep::Pass(asked),
            _ => self.tell(self.team.leads.as_ref(), HandOverReason::NotClosed),
        }
    }
}

/// Returns the key that identifies a decision, by which it is told once.
fn decision_id(why: HandOverReason, to: &str, about: &str) -> String {
    let why = match why {
        HandOverReason::Approved => "approved",
        HandOverReason::PlanWaits => "plan",
        HandOverReason::NotReviewed => "review",
        HandOverReason::ReviewPassed => "passed",
        HandOverReason::ReviewFound => "found",
        HandOverReason::Answered => "answer",
        HandOverReason::AlsoAddressed => "also",
        HandOverReason::Rounds => "rounds",
        HandOverReason::NotClosed => "close",
        HandOverReason::NoPullRequest => "none",
    };
    format!("on:{why}:{to}:{about}")
}
