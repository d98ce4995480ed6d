//! Detects agents that no longer live. One that has something to do is heard of all the time: it
//! asks for mail, and tells what its run does. Of one that is not, its Thread says so, and the
//! controller makes another pod.
//!
//! Only time in which this process has listened counts as silence: nobody is blamed for what nobody
//! could hear.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use codebutler_crds::thread::{AgentSilence, ThreadState};
use codebutler_crds::{Thread, ThreadStatus};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use parking_lot::{Mutex, MutexGuard};
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use crate::caller::ProvenCaller;
use crate::context::GatewayContext;
use crate::thread_key::ThreadKey;
use crate::threads::{ThreadWriter, change};

/// Looks until a silence is too long, and the shortest and longest interval between them.
const LOOKS: u32 = 20;
const OFTEN: Duration = Duration::from_millis(500);
const SELDOM: Duration = Duration::from_secs(15);

/// Silence of each agent that should be heard of. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct AgentHeartbeats(Arc<Mutex<HashMap<String, Duration>>>);

impl AgentHeartbeats {
    /// An agent has asked for something itself.
    pub fn heard(&self, caller: &ProvenCaller) {
        let roles = caller.thread.status.as_ref().map(|status| &status.roles);
        let own = roles.and_then(|roles| roles.get(caller.role_name()));
        if let Some(pod) = own.and_then(|own| own.pod_uid.as_ref()) {
            self.lock().entry(pod.clone()).and_modify(|silent| *silent = Duration::ZERO);
        }
    }

    /// Adds time to the silence of these pods, and forgets all others: nothing is expected of them.
    fn pass<'a>(&self, pods: impl Iterator<Item = &'a str>, time: Duration) {
        let mut all = self.lock();
        let next = pods.map(|pod| {
            let silent = all.get(pod).map_or(Duration::ZERO, |before| *before + time);
            (pod.to_owned(), silent)
        });
        let next = next.collect();
        *all = next;
    }

    /// Returns the silence of a pod of which something is expected.
    fn silence(&self, pod: &str) -> Duration {
        self.lock().get(pod).copied().unwrap_or_default()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Duration>> {
        self.0.lock()
    }
}

/// Listens until the gateway stops.
pub async fn watch_pulses(
    context: &GatewayContext,
    threads: &ThreadWriter,
    pulse: &AgentHeartbeats,
    (limit, stop): (Duration, &CancellationToken),
) {
    let every = (limit / LOOKS).clamp(OFTEN, SELDOM);
    pulse.pass(std::iter::empty(), Duration::ZERO);
    let mut due = tokio::time::interval(every);
    due.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut candidates = context.attended.candidates(is_heard_of);
    let mut last = Instant::now();
    while stop.run_until_cancelled(due.tick()).await.is_some() {
        // A process that was held up itself has heard nobody.
        let passed = last.elapsed().min(every * 2);
        last = Instant::now();
        let all = candidates.list();
        let expected = all.iter().flat_map(|thread| expected_pods(thread).into_values());
        pulse.pass(expected, passed);
        for thread in &all {
            note_silence(threads, pulse, thread, limit).await;
        }
    }
}

/// Returns true if something is expected of the Thread's agents, or was in vain.
fn is_heard_of(thread: &Thread) -> bool {
    let silent = |status: &ThreadStatus| status.roles.values().any(|role| role.silent.is_some());
    thread.status.as_ref().is_some_and(silent) || !expected_pods(thread).is_empty()
}

/// Pods of which something has to be heard, by role.
fn expected_pods(thread: &Thread) -> BTreeMap<&str, &str> {
    let open = thread.spec.state == ThreadState::Active && !thread.is_going();
    let Some(status) = thread.status.as_ref().filter(|_| open) else { return BTreeMap::new() };
    let busy =
        |role: &str| status.is_running(role) || (status.wants(role) && status.may_run(role, false));
    let pods = status.roles.iter().filter(|(role, _)| busy(role));
    pods.filter_map(|(role, own)| Some((role.as_str(), own.pod_uid.as_deref()?))).collect()
}

/// Writes down which agents are not heard of, and which are again.
async fn note_silence(
    threads: &ThreadWriter,
    pulse: &AgentHeartbeats,
    thread: &Thread,
    limit: Duration,
) {
    let key = ThreadKey::from(thread);
    for (role, own) in thread.status.iter().flat_map(|status| &status.roles) {
        let Some(pod) = own.pod_uid.as_deref() else { continue };
        let silence = Some(pulse.silence(pod)).filter(|silence| *silence >= limit);
        let marked = own.silent.as_ref();
        let next = match (silence, marked) {
            (Some(_), Some(mark)) if mark.pod == pod => continue,
            (None, None) => continue,
            (Some(silence), _) => {
                tracing::warn!(thread = key.name, role, ?silence, "agent_silent");
                Some(silence_mark(pod, silence))
            }
            (None, Some(_)) => None,
        };
        let change = |status: &mut _| change::set_silence(status, role, pod, next.as_ref());
        if let Err(error) = threads.update(&key, change).await {
            tracing::warn!(thread = key.name, role, %error, part = "silence", "thread_status_write_failed");
        }
    }
}

fn silence_mark(pod: &str, silence: Duration) -> AgentSilence {
    let seconds = u32::try_from(silence.as_secs()).unwrap_or(u32::MAX);
    AgentSilence { pod: pod.to_owned(), since: Time(Timestamp::now()), seconds }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn thread(roles: &serde_json::Value) -> Thread {
        serde_json::from_value(json!({
            "apiVersion": "codebutler.dev/v1alpha1", "kind": "Thread",
            "metadata": {"name": "shop-1", "namespace": "team"},
            "spec": {"repo": "shop", "slack": {"channel": "C0TEAM", "ts": "1767268700.000100"}},
            "status": {"roles": roles},
        }))
        .unwrap()
    }

    #[test]
    fn something_is_expected_of_who_works_or_has_to() {
        let thread = thread(&json!({
            "pm": {"podUID": "a", "state": "Running"},
            "coder": {"podUID": "b", "state": "Idle", "inbox": "1.000001", "done": "1.000001"},
            "lead": {"podUID": "c", "inbox": "1.000001", "admitted": true},
            "reviewer": {"podUID": "d", "inbox": "1.000001"},
            "artist": {"inbox": "1.000001", "admitted": true},
        }));
        let expected: Vec<_> = expected_pods(&thread).into_iter().collect();
        assert_eq!(expected, [("lead", "c"), ("pm", "a")]);
    }

    #[test]
    fn silence_counts_from_when_somebody_listens_and_ends_with_a_word() {
        let (pulse, second) = (AgentHeartbeats::default(), Duration::from_secs(1));
        pulse.pass(["a", "b"].into_iter(), second);
        assert_eq!(pulse.silence("a"), Duration::ZERO, "nothing is known of before");
        pulse.pass(["a", "b"].into_iter(), second);
        pulse.lock().entry("b".to_owned()).and_modify(|silent| *silent = Duration::ZERO);
        pulse.pass(["a", "b"].into_iter(), second);
        assert_eq!((pulse.silence("a"), pulse.silence("b")), (second * 2, second));
        pulse.pass(["b"].into_iter(), second);
        assert_eq!(pulse.silence("a"), Duration::ZERO, "nothing is expected of it");
    }
}
