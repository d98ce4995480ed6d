//! The app's own conversation, as people open it, and what it suggests there.

use serde_json::json;

use super::SlackServer;
use super::actions::into_object;

impl SlackServer {
    /// A person opens the app's own conversation; answers its channel id.
    pub fn open_assistant(&self, user: &str) -> String {
        self.inner.update(|core| {
            let channel = core.world.direct(user);
            let ts = core.world.ts();
            let event = into_object(json!({
                "type": "assistant_thread_started",
                "assistant_thread": {
                    "user_id": user, "context": {}, "channel_id": channel, "thread_ts": ts,
                },
            }));
            core.emit(&channel, &ts, event);
            channel
        })
    }

    /// Messages that are suggested there.
    pub fn prompts(&self, channel: &str) -> Vec<String> {
        self.inner.read(|core| core.prompts.get(channel).cloned().unwrap_or_default())
    }
}
