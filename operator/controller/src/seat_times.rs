//! Measures how long pods wait as seats. A Thread takes one, the controller gives it up, somebody deletes it, or its
//! node or its Repo goes: all of it is seen in the watch of seats, which a pod leaves when it is taken.

use std::collections::HashMap;
use std::sync::OnceLock;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::runtime::watcher::Event;

use super::index::{IndexProjection, ObjectKey};

/// Takes a Repo, and for how long a seat of it has waited.
type SeatSink = Box<dyn Fn(&ObjectKey, Duration) + Send + Sync>;

/// Reports for how long seats have waited, once the metrics exist.
#[derive(Default)]
pub(crate) struct EndedSeats(OnceLock<SeatSink>);

impl EndedSeats {
    /// Reports all seats that end from now on. Called once.
    pub(crate) fn report_to(&self, sink: impl Fn(&ObjectKey, Duration) + Send + Sync + 'static) {
        let _ = self.0.set(Box::new(sink));
    }

    /// Reports that a seat of a Repo has waited for so long.
    pub(crate) fn report(&self, repo: &ObjectKey, waited: Duration) {
        if let Some(sink) = self.0.get() {
            sink(repo, waited);
        }
    }
}

/// Seats that wait, by the UID of their pod: their Repo, and when they were made.
type WaitingSeats = HashMap<String, (ObjectKey, Timestamp)>;

/// Follows the watch of seats.
pub(crate) struct SeatTimes {
    project: IndexProjection<Pod, Pod>,
    waiting: WaitingSeats,
    /// Seats that a list in progress has brought so far.
    listing: WaitingSeats,
}

impl SeatTimes {
    /// Follows those pods for which `project` gives a Repo.
    pub(crate) fn new(project: IndexProjection<Pod, Pod>) -> Self {
        Self { project, waiting: HashMap::new(), listing: HashMap::new() }
    }

    /// Takes in what the watch says. Answers whose seats wait no more, and for how long each of them did.
    pub(crate) fn note(
        &mut self,
        event: &Event<Pod>,
        now: Timestamp,
    ) -> Vec<(ObjectKey, Duration)> {
        let ended: Vec<_> = match event {
            Event::Apply(pod) => match self.read(pod, now) {
                Some((uid, seat)) => {
                    self.waiting.insert(uid, seat);
                    Vec::new()
                }
                None => self.end(pod).into_iter().collect(),
            },
            Event::Delete(pod) => self.end(pod).into_iter().collect(),
            Event::Init => {
                self.listing.clear();
                Vec::new()
            }
            Event::InitApply(pod) => {
                let seat = self.read(pod, now);
                self.listing.extend(seat);
                Vec::new()
            }
            Event::InitDone => {
                let listed = std::mem::take(&mut self.listing);
                let before = std::mem::replace(&mut self.waiting, listed);
                let is_gone = |uid: &String| !self.waiting.contains_key(uid);
                before.into_iter().filter(|(uid, _)| is_gone(uid)).map(|(_, seat)| seat).collect()
            }
        };
        let waited =
            |made: Timestamp| Duration::try_from(now.duration_since(made)).unwrap_or_default();
        ended.into_iter().map(|(repo, made)| (repo, waited(made))).collect()
    }

    /// The seat that a pod is; none for one that is on its way out.
    fn read(&self, pod: &Pod, now: Timestamp) -> Option<(String, (ObjectKey, Timestamp))> {
        if pod.metadata.deletion_timestamp.is_some() {
            return None;
        }
        let (repo, _) = (self.project)(pod)?;
        let made = pod.metadata.creation_timestamp.as_ref().map_or(now, |made| made.0);
        Some((pod.uid()?, (repo, made)))
    }

    fn end(&mut self, pod: &Pod) -> Option<(ObjectKey, Timestamp)> {
        self.waiting.remove(&pod.uid()?)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::testing;

    fn seat(uid: &str, fields: &Value) -> Pod {
        let mut metadata = json!({
            "namespace": "team", "name": uid, "uid": uid, "labels": {"repo": "shop"},
            "creationTimestamp": "2026-01-01T11:59:00Z",
        });
        json_patch::merge(&mut metadata, fields);
        serde_json::from_value(json!({"metadata": metadata})).unwrap()
    }

    fn times() -> SeatTimes {
        SeatTimes::new(|pod| {
            let repo = pod.labels().get("repo")?;
            Some((ObjectKey::new(pod.namespace()?, repo.clone()), Some(pod.clone())))
        })
    }

    /// Seconds for which seats had waited at each of these events.
    fn noted(times: &mut SeatTimes, events: Vec<Event<Pod>>) -> Vec<Vec<u64>> {
        let note = |event: Event<Pod>| {
            let ended = times.note(&event, testing::now()).into_iter();
            let waited = ended.map(|(repo, waited)| {
                assert_eq!(repo, ObjectKey::new("team", "shop"));
                waited.as_secs()
            });
            waited.collect::<Vec<_>>()
        };
        events.into_iter().map(note).collect()
    }

    #[test]
    fn a_seat_counts_once_no_matter_what_ends_it() {
        let (none, leaving) = (json!({}), json!({"deletionTimestamp": "2026-01-01T12:00:30Z"}));
        let other = json!({"labels": {"repo": null}});
        let events = vec![
            Event::Apply(seat("taken", &none)),
            Event::Apply(seat("deleted", &none)),
            Event::Apply(seat("server", &other)),
            // A pod that a Thread takes leaves the watch.
            Event::Delete(seat("taken", &none)),
            // Somebody deleted it: it has some time to end.
            Event::Apply(seat("deleted", &leaving)),
            Event::Apply(seat("deleted", &leaving)),
            Event::Delete(seat("deleted", &leaving)),
            Event::Delete(seat("server", &other)),
        ];
        let expected: [&[u64]; 8] = [&[], &[], &[], &[60], &[60], &[], &[], &[]];
        assert_eq!(noted(&mut times(), events), expected);
    }

    #[test]
    fn a_seat_that_went_unheard_counts_with_the_next_list() {
        let none = json!({});
        let leaving = json!({"deletionTimestamp": "2026-01-01T12:00:30Z"});
        let list = |seats: Vec<Pod>| {
            let seats = seats.into_iter().map(Event::InitApply);
            [Event::Init].into_iter().chain(seats).chain([Event::InitDone]).collect::<Vec<_>>()
        };
        let mut times = times();
        let first = list(vec![seat("a", &none), seat("b", &none), seat("c", &none)]);
        assert!(noted(&mut times, first).iter().all(Vec::is_empty));
        let second = noted(&mut times, list(vec![seat("a", &none), seat("b", &leaving)]));
        assert_eq!(second.last().unwrap(), &[60, 60]);
        let third = noted(&mut times, list(vec![seat("a", &none)]));
        assert!(third.iter().all(Vec::is_empty));
    }

    #[test]
    fn nothing_is_reported_before_the_metrics_exist() {
        let (ended, seconds) =
            (EndedSeats::default(), std::sync::Arc::new(parking_lot::Mutex::new(0)));
        let repo = ObjectKey::new("team", "shop");
        ended.report(&repo, Duration::from_secs(1));
        let sink = seconds.clone();
        ended.report_to(move |_, waited| *sink.lock() += waited.as_secs());
        ended.report(&repo, Duration::from_secs(2));
        assert_eq!(*seconds.lock(), 2);
    }
}
