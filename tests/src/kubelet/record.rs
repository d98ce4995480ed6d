//! What the kubelet remembers of a pod: the source of its status.

use std::collections::BTreeMap;
use std::net::IpAddr;

use jiff::Timestamp;

/// A pod as this kubelet runs it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PodRecord {
    /// When this kubelet first saw it.
    pub start_time: Option<Timestamp>,
    /// Its address, once it has a network.
    pub ip: Option<IpAddr>,
    /// Every init container is done, every sidecar started.
    pub initialized: bool,
    /// Nothing of it runs any more, nor will.
    pub finished: bool,
    /// Why the pod as a whole failed: reason and message.
    pub failure: Option<(String, String)>,
    /// Containers of all kinds by name; absent ones have not been looked at yet.
    pub containers: BTreeMap<String, ContainerRecord>,
}

/// A container over all its restarts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ContainerRecord {
    /// What it does now.
    pub state: RecordedState,
    /// How it ended before that.
    pub last: Option<TerminatedRecord>,
    /// Its readiness probe says so, or it has none and is started.
    pub ready: bool,
    /// Its startup probe has succeeded, or it has none and runs.
    pub started: bool,
    /// Starts after the first.
    pub restarts: i32,
    /// Identity of the newest run.
    pub id: Option<String>,
}

/// The state of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RecordedState {
    /// Not running, but will be.
    Waiting {
        /// One word.
        reason: String,
        /// A sentence, or empty.
        message: String,
    },
    /// Its command runs.
    Running {
        /// Since when.
        since: Timestamp,
    },
    /// Its command has ended.
    Terminated(TerminatedRecord),
}

/// The end of a container's command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TerminatedRecord {
    /// Exit code, or 128 and the number of the signal that ended it.
    pub exit_code: i32,
    /// One word.
    pub reason: String,
    /// A sentence, or empty.
    pub message: String,
    /// When it was started.
    pub started: Timestamp,
    /// When it ended.
    pub finished: Timestamp,
    /// Identity of this run.
    pub id: Option<String>,
}

impl Default for RecordedState {
    fn default() -> Self {
        Self::waiting("PodInitializing", "")
    }
}

impl RecordedState {
    /// Waiting, for `reason`.
    pub(crate) fn waiting(reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Waiting { reason: reason.into(), message: message.into() }
    }
}

impl ContainerRecord {
    /// A run begins.
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

    /// A run is over.
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
