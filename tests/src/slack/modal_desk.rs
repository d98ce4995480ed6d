//! Modals of apps: what is open, and what may still be opened.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

/// Time in which an app may answer an interaction with a modal.
const TRIGGER: Duration = Duration::from_secs(3);

/// Triggers that apps can still exchange for a modal, and the modals that are open.
#[derive(Debug, Default)]
pub(super) struct ModalDesk {
    triggers: BTreeMap<String, ModalTrigger>,
    pub open: BTreeMap<String, OpenModal>,
}

#[derive(Debug)]
struct ModalTrigger {
    user: String,
    since: Instant,
    used: bool,
}

#[derive(Debug)]
pub(super) struct OpenModal {
    pub user: String,
    pub view: Value,
    /// The envelope that says what was filled in.
    pub submitted: Option<String>,
}

impl ModalDesk {
    /// A person did something that an app may answer with a modal.
    pub(super) fn trigger(&mut self, trigger: &str, user: &str) {
        let (user, since) = (user.to_owned(), Instant::now());
        self.triggers.insert(trigger.to_owned(), ModalTrigger { user, since, used: false });
    }

    /// Uses a trigger up, and returns the user to whom the modal may be shown.
    pub(super) fn exchange(&mut self, trigger: &str) -> Result<String, &'static str> {
        let Some(known) = self.triggers.get_mut(trigger) else { return Err("invalid_trigger_id") };
        if known.used {
            return Err("exchanged_trigger_id");
        }
        if known.since.elapsed() > TRIGGER {
            return Err("expired_trigger_id");
        }
        known.used = true;
        Ok(known.user.clone())
    }

    pub(super) fn show(&mut self, id: &str, user: String, view: Value) {
        self.open.insert(id.to_owned(), OpenModal { user, view, submitted: None });
    }

    /// The app has taken in what was filled in: the modal closes.
    pub(super) fn acked(&mut self, key: &str) {
        self.open.retain(|_, modal| modal.submitted.as_deref() != Some(key));
    }
}
