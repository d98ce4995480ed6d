//! The question whether a plan is carried out.

use codebutler_crds::thread::{HandOver, HandOverReason, PendingItem, PostedPlan, SettledQuestion};
use codebutler_crds::wire::{PendingDecision, PlanChoice};
use codebutler_crds::{SlackTs, ThreadStatus};
use codebutler_gateway_core::dispatch::RepoTeam;
use codebutler_gateway_core::threads::{self, ChangeRefusal};

use super::{AnswerContext, AnswerOutcome, ButtonPress, ButtonStyle, QuestionButton, QuestionKind};

pub struct PlanQuestion;

const APPROVE: &str = "plan:approve";
const MODIFY: &str = "plan:modify";
const REJECT: &str = "plan:reject";

pub static BUTTONS: [QuestionButton; 3] = [
    QuestionButton::fixed(
        APPROVE,
        "Approve",
        ButtonStyle::Primary,
        ":white_check_mark: Approved by",
    ),
    QuestionButton::fixed(MODIFY, "Modify", ButtonStyle::Plain, ":pencil2: Changes wanted by"),
    QuestionButton::fixed(REJECT, "Reject", ButtonStyle::Danger, ":x: Rejected by"),
];

fn read_choice(action_id: &str) -> Option<PlanChoice> {
    match action_id {
        APPROVE => Some(PlanChoice::Approve),
        MODIFY => Some(PlanChoice::Modify),
        REJECT => Some(PlanChoice::Reject),
        _ => None,
    }
}

const fn action_id(choice: PlanChoice) -> &'static str {
    match choice {
        PlanChoice::Approve => APPROVE,
        PlanChoice::Modify => MODIFY,
        PlanChoice::Reject => REJECT,
    }
}

impl QuestionKind for PlanQuestion {
    fn fixed_buttons(&self) -> &'static [QuestionButton] {
        &BUTTONS
    }

    fn takes_thumb(&self, status: &ThreadStatus, message: &SlackTs) -> bool {
        status.plan.as_ref().is_some_and(|plan| plan.ts == *message)
    }

    fn take_press(
        &self,
        status: &mut ThreadStatus,
        press: &ButtonPress,
        context: &AnswerContext<'_>,
    ) -> Result<AnswerOutcome, ChangeRefusal> {
        let Some(choice) = read_choice(&press.action_id) else { return Ok(AnswerOutcome::Unknown) };
        let ButtonPress { message, user, .. } = press;
        let id = press.pending_id(PendingDecision::Plan(choice));
        if status.pending.iter().any(|pending| pending.id == id) {
            return Ok(AnswerOutcome::Counts);
        }
        let Some(plan) = status.plan.as_ref().filter(|plan| plan.ts >= *message) else {
            return Ok(AnswerOutcome::Unknown);
        };
        let again = choice == PlanChoice::Approve && plan.approved_by.as_ref() == Some(user);
        if plan.ts == *message && again {
            return Ok(AnswerOutcome::Counts);
        }
        if plan.ts != *message || !is_open(plan) {
            return Ok(AnswerOutcome::Stale);
        }
        let role = match choice {
            PlanChoice::Approve => carries_out(context.team, status, &plan.role).to_owned(),
            PlanChoice::Modify | PlanChoice::Reject => plan.role.clone(),
        };
        record_answer(status, message, choice, (user, &role), id, context.team)?;
        Ok(AnswerOutcome::Counts)
    }

    fn thumb_buttons(&self) -> Option<(&'static str, &'static str)> {
        Some((APPROVE, REJECT))
    }
}

/// True while a plan waits for an answer. A declined one does not: a later "yes" is about something else, and
/// what is to be built after all is posted anew.
pub const fn is_open(plan: &PostedPlan) -> bool {
    plan.approved_by.is_none() && plan.declined_by.is_none()
}

/// The role that goes on once a plan is approved: nobody in between has to pass it on.
pub fn carries_out<'a>(team: &'a RepoTeam, status: &ThreadStatus, planner: &'a str) -> &'a str {
    team.implements_plan(status).unwrap_or(planner)
}

/// Records a decision for everybody, and for the role that goes on.
///
/// # Errors
/// When too many decisions wait already.
pub fn record_answer(
    status: &mut ThreadStatus,
    asked: &SlackTs,
    choice: PlanChoice,
    (user, role): (&str, &str),
    id: String,
    team: &RepoTeam,
) -> Result<(), ChangeRefusal> {
    let decision = PendingDecision::Plan(choice);
    threads::add_pending(status, &PendingItem::new(id, role, decision, user, asked))?;
    match choice {
        PlanChoice::Approve => {
            threads::approve_plan(status, asked, user);
            if team.implements_plan(status) == Some(role) {
                hand_over(status, asked, role);
            }
        }
        PlanChoice::Modify | PlanChoice::Reject => threads::decline_plan(status, asked, user),
    }
    let (ts, choice) = (asked.clone(), Some(action_id(choice).to_owned()));
    threads::settle_question(status, SettledQuestion { ts, choice, user: Some(user.to_owned()) });
    Ok(())
}

/// Hands the plan to the role that carries it out, in the same write as the approval. The role that proposed it
/// has nothing to wait for any more.
fn hand_over(status: &mut ThreadStatus, plan: &SlackTs, role: &str) {
    let planner = status.plan.as_ref().map(|plan| plan.role.clone()).filter(|own| own != role);
    threads::release_planner(status);
    let told = HandOver {
        id: format!("on:approved:{role}:{plan}"),
        role: Some(role.to_owned()),
        from: planner,
        with: None,
        why: HandOverReason::Approved,
        views: Vec::new(),
    };
    threads::add_handover(status, told);
}
