//! The time, given rather than taken, so that decisions can be tested with values.

use std::sync::Arc;

use jiff::Timestamp;

/// Tells the time. Cheap to clone.
#[derive(Clone)]
pub(crate) struct ControllerClock(Arc<dyn Fn() -> Timestamp + Send + Sync>);

impl ControllerClock {
    pub(crate) fn system() -> Self {
        Self(Arc::new(Timestamp::now))
    }

    /// Now, in whole seconds: what Kubernetes' timestamps can hold.
    pub(crate) fn now(&self) -> Timestamp {
        (self.0)()
    }
}
