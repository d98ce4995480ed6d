//! For whom or what a Thread waits, in one word of `kubectl get threads`. Pure.

use codebutler_crds::thread::PeopleQuestion;
use codebutler_crds::{ThreadStatus, condition};

use super::status::OwnThreadStatus;
use crate::health::ObjectHealth;

/// The reason of `Ready` while no node has room for a pod.
const NO_NODE: &str = "PodUnschedulable";

/// The word, if it waits at all.
pub(super) fn find_wait(
    status: &ThreadStatus,
    own: &OwnThreadStatus,
    verdict: &ObjectHealth,
) -> Option<&'static str> {
    let awaits = own
        .conditions
        .iter()
        .any(|condition| condition.type_ == condition::AWAITING_USER && condition.status == "True");
    if status.budget.as_ref().is_some_and(|budget| budget.ask.is_some()) {
        Some("budget")
    } else if own.queue_position.is_some() {
        Some("slot")
    } else if verdict.reason == NO_NODE {
        Some("node")
    } else if awaits || (own.active_role.is_none() && status.waits_for_people()) {
        Some("person")
    } else {
        None
    }
}

/// The reason of `AwaitingUser`.
pub(super) const fn reason_of(question: PeopleQuestion) -> &'static str {
    match question {
        PeopleQuestion::Plan => "PlanAsked",
        PeopleQuestion::Merge => "MergeAsked",
        PeopleQuestion::Action => "ActionAsked",
        PeopleQuestion::Choice => "ChoiceAsked",
        PeopleQuestion::Learnings => "LearningsAsked",
        PeopleQuestion::Roadmap => "RoadmapAsked",
        PeopleQuestion::Train => "TrainAsked",
        PeopleQuestion::Parts => "PartsAsked",
        PeopleQuestion::TakeBack => "TakeBackAsked",
        PeopleQuestion::SignIn => "SignInAsked",
        PeopleQuestion::Words => "Asked",
    }
}
