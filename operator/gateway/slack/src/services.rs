//! Services that the gateway attaches once it has them: each knows what this crate does not.

use codebutler_gateway_core::speech::SpeechDesk;
use parking_lot::Mutex;

use crate::inbound::offered_work::WorkLookup;
use crate::outbound::previews::PreviewDesk;

#[derive(Default)]
pub(crate) struct AttachedServices {
    speech: Mutex<Option<SpeechDesk>>,
    previews: Mutex<Option<PreviewDesk>>,
    offered: Mutex<Option<WorkLookup>>,
}

impl AttachedServices {
    pub(crate) fn attach_speech(&self, desk: SpeechDesk) {
        *self.speech.lock() = Some(desk);
    }

    pub(crate) fn attach_previews(&self, desk: PreviewDesk) {
        *self.previews.lock() = Some(desk);
    }

    pub(crate) fn attach_offered(&self, lookup: WorkLookup) {
        *self.offered.lock() = Some(lookup);
    }

    /// Writes recordings down.
    pub(crate) fn speech(&self) -> Option<SpeechDesk> {
        self.speech.lock().clone()
    }

    /// Looks pages up.
    pub(crate) fn previews(&self) -> Option<PreviewDesk> {
        self.previews.lock().clone()
    }

    /// Looks up workflows and skills.
    pub(crate) fn offered(&self) -> Option<WorkLookup> {
        self.offered.lock().clone()
    }
}
