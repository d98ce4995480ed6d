//! Reads from events why a pod does not start: if an autoscaler adds a node for one that finds none, and what keeps a
//! node from setting it up. They are asked for then, and at no other time: no event is watched.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use codebutler_runtime::apply::shorten_text;
use jiff::Timestamp;
use k8s_openapi::api::events::v1::Event;
use kube::api::ListParams;
use kube::{Api, Client};
use parking_lot::Mutex;
use tokio::time::timeout;

/// Lifetime of a cached answer.
pub(crate) const FRESH: Duration = Duration::from_secs(15);
/// Time for events to be listed: who does without them goes on soon, and no cached answer is old before the next one.
const PATIENCE: Duration = Duration::from_secs(3);
/// Events about one pod that are looked at.
const MOST: u32 = 100;
/// Karpenter's events of a scheduler's own reason.
const KARPENTER: &str = "karpenter";

/// An autoscaler's answer for a pod that finds no node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ScaleUp {
    /// No autoscaler has said anything about the pod, or events may not be read.
    Unknown,
    /// An autoscaler adds a node.
    Announced {
        /// Time of the event that announced it.
        at: Timestamp,
        said: String,
    },
    /// No node is added, with the autoscaler's reason.
    Declined { said: String },
}

impl ScaleUp {
    /// Takes the latest statement of an autoscaler from a pod's events. Pure.
    fn of(events: &[Event]) -> Self {
        let said =
            events.iter().filter_map(|event| Some((event_time(event)?, Self::from_event(event)?)));
        said.max_by_key(|(at, _)| *at).map_or(Self::Unknown, |(_, said)| said)
    }

    /// Recognizes events by the words of cluster-autoscaler, which others go on to use, and of Karpenter.
    fn from_event(event: &Event) -> Option<Self> {
        let note = event.note.as_deref().unwrap_or_default();
        let said = shorten_text(note.trim_end_matches(['.', ' ']), 300);
        match event.reason.as_deref()? {
            "TriggeredScaleUp" | "Nominated" => {
                Some(Self::Announced { at: event_time(event)?, said })
            }
            "NotTriggerScaleUp" | "FailedScaleUp" => Some(Self::Declined { said }),
            "FailedScheduling" if is_from(event, KARPENTER) => Some(Self::Declined { said }),
            _ => None,
        }
    }
}

/// Words of events about a pod that does not start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PodWords {
    pub scale_up: ScaleUp,
    /// Latest warning event about the pod's start on its node, with its reason.
    pub warning: Option<String>,
}

/// Finds the latest warning of a kubelet, or of who attaches volumes, unless something has succeeded since. A kubelet
/// that waits for a volume says less than who can't attach it.
fn find_warning(events: &[Event]) -> Option<String> {
    let is_warning = |event: &&Event| event.type_.as_deref() == Some("Warning");
    // Kubelets and controllers write whole seconds, and a scheduler parts of them: only seconds can be compared.
    let second = |event: &Event| event_time(event).map(Timestamp::as_second);
    let calm = events.iter().filter(|event| !is_warning(event)).filter_map(second).max();
    let reason_of = |event: &Event| event.reason.clone().unwrap_or_default();
    let about_node = |event: &&Event| {
        let reason = reason_of(event);
        let is_set_up = reason.starts_with("Failed") || reason == "NetworkNotReady";
        is_set_up && reason != "FailedScheduling"
    };
    let warnings = events.iter().filter(is_warning).filter(about_node);
    let fresh = warnings.filter(|event| second(event) >= calm);
    let telling = |event: &&Event| (reason_of(event) == "FailedAttachVolume", event_time(event));
    let latest = fresh.max_by_key(telling)?;
    let one_line = |text: &str, max| {
        let words: Vec<&str> = text.split_whitespace().collect();
        shorten_text(words.join(" ").trim_end_matches('.'), max)
    };
    let note = one_line(latest.note.as_deref().unwrap_or_default(), 300);
    Some(format!("{}: {note}", one_line(&reason_of(latest), 60)))
}

fn is_from(event: &Event, component: &str) -> bool {
    let source = event.deprecated_source.as_ref().and_then(|source| source.component.as_deref());
    let reporter = event.reporting_controller.as_deref();
    source.into_iter().chain(reporter).any(|name| name.contains(component))
}

/// Time at which an event was last seen. Writers of the older form leave the newer fields empty, so the latest of all
/// counts.
fn event_time(event: &Event) -> Option<Timestamp> {
    let series = event.series.as_ref().map(|series| series.last_observed_time.0);
    let first = event.event_time.as_ref().map(|time| time.0);
    let older = event.deprecated_last_timestamp.as_ref().map(|time| time.0);
    let made = event.metadata.creation_timestamp.as_ref().map(|time| time.0);
    series.max(first).max(older).or(made)
}

/// Cache of what events say, by the UID of the pod.
pub(crate) struct ScaleUps {
    client: Client,
    known: Mutex<HashMap<String, (PodWords, Instant)>>,
}

impl ScaleUps {
    /// Creates an empty cache; questions are asked with the controller's rights.
    pub(crate) fn new(client: Client) -> Self {
        Self { client, known: Mutex::default() }
    }

    /// Returns the cached answer about a pod, if it is still fresh.
    pub(crate) fn of(&self, pod_uid: &str) -> Option<PodWords> {
        let known = self.known.lock();
        let (said, at) = known.get(pod_uid)?;
        (at.elapsed() < FRESH).then(|| said.clone())
    }

    /// Asks the API server. A lack of rights, or of an answer in time, is cached as an answer, too.
    pub(crate) async fn look(&self, namespace: &str, pod_uid: &str) {
        self.look_within(namespace, pod_uid, PATIENCE).await;
    }

    async fn look_within(&self, namespace: &str, pod_uid: &str, limit: Duration) {
        let events = Api::<Event>::namespaced(self.client.clone(), namespace);
        let about = ListParams::default().fields(&format!("regarding.uid={pod_uid}")).limit(MOST);
        let why = match timeout(limit, events.list(&about)).await {
            Ok(Ok(found)) => {
                let (scale_up, warning) = (ScaleUp::of(&found.items), find_warning(&found.items));
                return self.keep(pod_uid, PodWords { scale_up, warning });
            }
            Ok(Err(error)) => error.to_string(),
            Err(late) => late.to_string(),
        };
        tracing::debug!(namespace, error = why, "autoscaler_status_unknown");
        self.keep(pod_uid, PodWords { scale_up: ScaleUp::Unknown, warning: None });
    }

    fn keep(&self, pod_uid: &str, said: PodWords) {
        let mut known = self.known.lock();
        known.retain(|_, (_, at)| at.elapsed() < FRESH);
        known.insert(pod_uid.to_owned(), (said, Instant::now()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn event(reason: &str, component: &str, at: &str, note: &str) -> Event {
        serde_json::from_value(json!({
            "metadata": {"name": "x"}, "eventTime": null, "reason": reason, "note": note,
            "deprecatedSource": {"component": component}, "deprecatedLastTimestamp": at,
        }))
        .unwrap()
    }

    fn at(minute: u32) -> String {
        format!("2026-01-01T11:{minute:02}:00Z")
    }

    #[test]
    fn what_an_autoscaler_said_last_counts() {
        let scheduler = event("FailedScheduling", "default-scheduler", &at(9), "0/3 nodes");
        assert_eq!(ScaleUp::of(&[]), ScaleUp::Unknown);
        assert_eq!(ScaleUp::of(std::slice::from_ref(&scheduler)), ScaleUp::Unknown);
        let full = "pod didn't trigger scale-up: 1 max node group size reached";
        let declined = event("NotTriggerScaleUp", "cluster-autoscaler", &at(2), full);
        let more = "pod triggered scale-up: [{workers 1->2 (max: 4)}]";
        let announced = event("TriggeredScaleUp", "cluster-autoscaler", &at(4), more);
        let all = [announced.clone(), declined.clone(), scheduler];
        let expected = ScaleUp::Announced { at: at(4).parse().unwrap(), said: more.into() };
        assert_eq!(ScaleUp::of(&all), expected);
        let later = event("NotTriggerScaleUp", "cluster-autoscaler", &at(5), full);
        assert_eq!(ScaleUp::of(&[announced, later]), ScaleUp::Declined { said: full.into() });
    }

    #[test]
    fn what_keeps_a_node_from_setting_a_pod_up_is_its_latest_warning() {
        let said = |type_: &str, reason: &str, minute: u32, note: &str| {
            let mut event = event(reason, "kubelet", &at(minute), note);
            event.type_ = Some(type_.to_owned());
            event
        };
        let scheduled = said("Normal", "Scheduled", 2, "Successfully assigned team/p to n");
        let before = said("Warning", "FailedScheduling", 2, "0/3 nodes are available");
        let attach =
            "Multi-Attach error for volume \"pvc-1\" Volume is already used by pod(s) other";
        let attach = said("Warning", "FailedAttachVolume", 2, attach);
        let mount = "Unable to attach or mount volumes: timed out waiting for the condition.";
        let mount = said("Warning", "FailedMount", 4, mount);
        let of =
            |events: &[&Event]| find_warning(&events.iter().copied().cloned().collect::<Vec<_>>());
        assert_eq!(of(&[&scheduled, &before]), None);
        let told = of(&[&scheduled, &before, &mount]).unwrap();
        assert_eq!(
            told,
            "FailedMount: Unable to attach or mount volumes: timed out waiting for the condition"
        );
        let told = of(&[&scheduled, &attach, &mount]).unwrap();
        assert!(told.starts_with("FailedAttachVolume: Multi-Attach error"), "{told}");
        let pulling = said("Normal", "Pulling", 5, "Pulling image \"debian:13\"");
        assert_eq!(of(&[&scheduled, &attach, &mount, &pulling]), None, "a large image takes long");
        let probe = said("Warning", "Unhealthy", 6, "Liveness probe failed");
        assert_eq!(of(&[&scheduled, &probe]), None);
        // The event about a volume that is attached elsewhere comes once, within the second in which the pod was scheduled.
        let mut at_once = scheduled;
        at_once.event_time = serde_json::from_value(json!("2026-01-01T11:02:00.345678Z")).unwrap();
        let told = of(&[&at_once, &attach]).unwrap();
        assert!(told.starts_with("FailedAttachVolume: Multi-Attach error"), "{told}");
    }

    #[test]
    fn whoever_writes_an_event_says_no_more_than_a_line() {
        let mut event =
            event(&format!("Failed{}", "X".repeat(999)), "kubelet", &at(1), "a\n\tb  c.");
        event.type_ = Some("Warning".to_owned());
        let told = find_warning(&[event]).unwrap();
        assert!(told.ends_with("…: a b c") && told.len() < 80, "{told}");
    }

    #[tokio::test]
    async fn events_that_are_not_listed_hold_nothing_up() {
        let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", silent.local_addr().unwrap());
        let client = Client::try_from(kube::Config::new(url.parse().unwrap())).unwrap();
        let said = ScaleUps::new(client);
        let looked = said.look_within("team", "u", Duration::from_millis(20));
        assert!(timeout(Duration::from_mins(1), looked).await.is_ok());
        let nothing = PodWords { scale_up: ScaleUp::Unknown, warning: None };
        assert_eq!(said.of("u"), Some(nothing));
    }

    #[test]
    fn karpenter_speaks_in_words_of_its_own() {
        let nominated = "Pod should schedule on: nodeclaim/general-x7";
        let told = ScaleUp::of(&[event("Nominated", "karpenter", &at(3), nominated)]);
        assert!(matches!(told, ScaleUp::Announced { said, .. } if said == nominated));
        let why = "Failed to schedule pod, incompatible with nodepool \"general\"";
        let told = ScaleUp::of(&[event("FailedScheduling", "karpenter", &at(3), why)]);
        assert_eq!(told, ScaleUp::Declined { said: why.into() });
    }
}
