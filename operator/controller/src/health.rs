//! One verdict on an object, written as the conditions that kstatus reads, and the events that its
//! change is worth.

use codebutler_crds::condition::{self, READY, RECONCILING, STALLED, SUSPENDED};
use codebutler_runtime::notice::EventNotice;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::runtime::events::EventType;
use serde::Serialize;

/// Health of an object. Ordered: the worst of several verdicts is the greatest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) enum HealthLevel {
    /// The object is in its desired state.
    Ready,
    Held,
    Reconciling,
    /// Something outside has to change; it is retried by itself.
    Trouble,
    /// Retrying does not help: a person has to act.
    Stalled,
}

/// A verdict with its reason (one CamelCase word) and a sentence that says what to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct ObjectHealth {
    pub level: HealthLevel,
    /// Condition reason, in CamelCase, for machines.
    pub reason: &'static str,
    /// Condition message: a sentence for people.
    pub message: String,
}

impl ObjectHealth {
    pub(crate) fn new(
        level: HealthLevel,
        reason: &'static str,
        message: impl Into<String>,
    ) -> Self {
        Self { level, reason, message: message.into() }
    }

    /// The worst of several verdicts; what is equally bad is told in one message.
    pub(crate) fn worst(all: Vec<Self>, otherwise: Self) -> Self {
        let Some(level) = all.iter().map(|health| health.level).max() else { return otherwise };
        let mut worst = all.into_iter().filter(|health| health.level == level);
        let Some(mut first) = worst.next() else { return otherwise };
        for other in worst.take(3) {
            first.message = format!("{}; {}", first.message, other.message);
        }
        first
    }

    /// Writes the verdict into `conditions`: `Ready` always, `Reconciling` and `Stalled` only
    /// while they are true.
    pub(crate) fn write(
        &self,
        conditions: &mut Vec<Condition>,
        generation: Option<i64>,
        now: Timestamp,
    ) {
        let time = Time(now);
        let mut set = |type_, status| {
            condition::set_condition(
                conditions,
                type_,
                status,
                self.reason,
                self.message.clone(),
                generation,
                &time,
            )
        };
        // A held object counts as ready: it is as somebody wants it, and whoever waits for more would wait forever.
        set(READY, matches!(self.level, HealthLevel::Ready | HealthLevel::Held));
        let moving = matches!(self.level, HealthLevel::Reconciling | HealthLevel::Trouble);
        if moving {
            set(RECONCILING, true);
        }
        if self.level == HealthLevel::Stalled {
            set(STALLED, true);
        }
        if !moving {
            condition::clear_condition(conditions, RECONCILING);
        }
        if self.level != HealthLevel::Stalled {
            condition::clear_condition(conditions, STALLED);
        }
    }

    /// Writes that it is held into `conditions`.
    pub(crate) fn hold(
        &self,
        conditions: &mut Vec<Condition>,
        generation: Option<i64>,
        now: Timestamp,
    ) {
        let (reason, message, time) = (self.reason, self.message.clone(), Time(now));
        condition::set_condition(conditions, SUSPENDED, true, reason, message, generation, &time);
    }

    /// The event that is due when this verdict follows on what `before` says. A warning when it
    /// got bad or bad in another way, a normal event when it got good again.
    pub(crate) fn notice(&self, before: &[Condition]) -> Option<EventNotice> {
        let ready = before.iter().find(|c| c.type_ == READY);
        let was_bad =
            |c: &Condition| c.status != "True" && !condition::is_true(before, RECONCILING);
        match self.level {
            HealthLevel::Trouble | HealthLevel::Stalled => {
                let same = |c: &Condition| {
                    c.status != "True" && c.reason == self.reason && c.message == self.message
                };
                (!ready.is_some_and(same)).then(|| self.told(EventType::Warning))
            }
            HealthLevel::Ready => ready.is_some_and(was_bad).then(|| self.told(EventType::Normal)),
            HealthLevel::Held | HealthLevel::Reconciling => None,
        }
    }

    fn told(&self, type_: EventType) -> EventNotice {
        EventNotice {
            warning: type_ == EventType::Warning,
            reason: self.reason,
            note: self.message.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(history: &[ObjectHealth]) -> (Vec<Condition>, Vec<String>) {
        let (mut conditions, mut told) = (Vec::new(), Vec::new());
        for health in history {
            told.extend(health.notice(&conditions).map(|notice| notice.reason.to_owned()));
            health.write(&mut conditions, Some(1), Timestamp::UNIX_EPOCH);
        }
        (conditions, told)
    }

    #[test]
    fn abnormal_conditions_exist_only_while_they_hold() {
        let stalled = ObjectHealth::new(HealthLevel::Stalled, "Gone", "it is gone");
        let moving = ObjectHealth::new(HealthLevel::Reconciling, "Moving", "it moves");
        let ready = ObjectHealth::new(HealthLevel::Ready, "Done", "it is done");
        let (conditions, told) = after(&[stalled.clone(), stalled.clone(), moving.clone()]);
        let types: Vec<_> =
            conditions.iter().map(|c| (c.type_.as_str(), c.status.as_str())).collect();
        assert_eq!(types, [("Ready", "False"), ("Reconciling", "True")]);
        assert_eq!(told, ["Gone"]);
        let (conditions, told) = after(&[moving, ready.clone(), stalled, ready]);
        assert_eq!(conditions.len(), 1);
        assert_eq!(told, ["Gone", "Done"]);
    }

    #[test]
    fn the_worst_verdict_wins_and_gathers_its_equals() {
        let ready = ObjectHealth::new(HealthLevel::Ready, "Idle", "nothing to do");
        let one = ObjectHealth::new(HealthLevel::Trouble, "Pull", "one");
        let two = ObjectHealth::new(HealthLevel::Trouble, "Pull", "two");
        let moving = ObjectHealth::new(HealthLevel::Reconciling, "Moving", "it moves");
        let worst = ObjectHealth::worst(vec![moving, one, two], ready.clone());
        assert_eq!((worst.reason, worst.message.as_str()), ("Pull", "one; two"));
        assert_eq!(ObjectHealth::worst(Vec::new(), ready.clone()), ready);
    }
}
