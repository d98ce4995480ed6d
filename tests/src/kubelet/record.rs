//! The kubelet's record of a pod: the source of the pod's status.

use std::collections::BTreeMap;
use std::net::IpAddr;

use jiff::Timestamp;

/// A pod as this kubelet runs it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PodRecord {
    /// Time at which this kubelet first saw the pod.
    pub start_time: Option<Timestamp>,
    /// Address of the pod, once it has a network.
    pub ip: Option<IpAddr>,
    /// Every init container is done, every sidecar started.
    pub initialized: bool,
    /// True once nothing of the pod runs any more, nor will.
    pub finished: bool,
    /// Failure of the pod as a whole: reason and message.
    pub failure: Option<(String, String)>,
    /// Containers of all kinds by name; absent ones have not been looked at yet.
    pub containers: BTreeMap<String, ContainerRecord>,
}

/// A container over all its restarts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ContainerRecord {
    pub state: RecordedState,
    /// End of the previous run, if there was one.
    pub last: Option<TerminatedRecord>,
    /// True if the readiness probe succeeds, or the container has none and is started.
    pub ready: bool,
    /// True once the startup probe has succeeded, or the container has none and runs.
    pub started: bool,
    /// Number of starts after the first.
    pub restarts: i32,
    /// Identity of the newest run.
    pub id: Option<String>,
}

/// The state of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RecordedState {
    /// The container does not run, but will.
    Waiting {
        /// Reason in one word, as in the pod's status.
        reason: String,
        /// A sentence for people, or empty.
        message: String,
    },
    /// The container's command runs.
    Running {
        /// Time of the command's start.
        since: Timestamp,
    },
    /// The container's command has ended.
    Terminated(TerminatedRecord),
}

/// The end of a container's command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TerminatedRecord {
    /// Exit code, or 128 and the number of the signal that ended it.
    pub exit_code: i32,
    /// Reason in one word, as in the pod's status.
    pub reason: String,
    /// A sentence for people, or empty.
    pub message: String,
    /// Time of the command's start.
    pub started: Timestamp,
    /// Time of the command's end.
    pub finished: Timestamp,
    /// Container id of this run.
    pub id: Option<String>,
}

impl Default for RecordedState {
    fn default() -> Self {
        Self::waiting("PodInitializing", "")
    }
}

impl RecordedState {
    /// Makes the state of a container that waits for `reason`.
    pub(crate) fn waiting(reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Waiting { reason: reason.into(), message: message.into() }
    }
}

impl ContainerRecord {
    /// Records that a run begins.
    pub(crate) fn run(&mut self, id: String, now: Timestamp) {
        if let RecordedState::Terminated(end) = &self.state {
            self.last = Some(end.clone());
        }
        if self.last.is_some() {
            self.restarts += 1;
        }
        self.state = RecordedState::Running { since: now };
        self.id = Some(id);
        (self.started, self.ready) = (false, false);
    }

    /// Records that a run has ended.
    pub(crate) fn end(&mut self, exit_code: i32, reason: &str, message: String, now: Timestamp) {
        let started = if let RecordedState::Running { since } = self.state { since } else { now };
        self.state = RecordedState::Terminated(TerminatedRecord {
            exit_code,
            reason: reason.to_owned(),
            message,
            started,
            finished: now,
            id: self.id.clone(),
        });
        (self.started, self.ready) = (false, false);
    }

    /// Another run will follow, later.
    pub(crate) fn wait(&mut self, reason: &str, message: String) {
        if let RecordedState::Terminated(end) = &self.state {
            self.last = Some(end.clone());
        }
        self.state = RecordedState::waiting(reason, message);
    }

    /// The exit code, if the container has ended for now.
    pub(crate) fn exit_code(&self) -> Option<i32> {
        match &self.state {
            RecordedState::Terminated(end) => Some(end.exit_code),
            _ => None,
        }
    }
}
