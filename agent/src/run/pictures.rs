//! Pictures that came with messages: got once, when the messages are taken, and kept with them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use codebutler_wire::{SharedPicture, ThreadMessage};

use super::{Agent, RunError};
use crate::gateway::GatewayError;
use crate::transcript::ModelPicture;
use codebutler_guides::text::clip_text;

/// Pictures that are got at once: the newest.
const AT_ONCE: usize = 4;

impl Agent {
    /// What the messages show, oldest first. What can't be got is left out: its name stands in the
    /// message.
    pub(super) async fn pictures(
        &self,
        messages: &[ThreadMessage],
    ) -> Result<Vec<ModelPicture>, RunError> {
        let all = messages
            .iter()
            .flat_map(|message| message.pictures.iter().map(|picture| (&message.ts, picture)));
        let all: Vec<_> = all.collect();
        let mut got = Vec::new();
        for (ts, SharedPicture { id, name }) in &all[all.len().saturating_sub(AT_ONCE)..] {
            let (media_type, bytes) = match self.tools.gateway.picture(ts, id).await {
                Ok(picture) => picture,
                Err(GatewayError::Refused { code, message }) => {
                    tracing::warn!(?code, message, "a picture can't be shown");
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            if !media_type.starts_with("image/") || media_type.len() > 40 {
                tracing::warn!(media_type = clip_text(&media_type, 40), "a picture that is none");
                continue;
            }
            let url = format!("data:{media_type};base64,{}", STANDARD.encode(&bytes));
            got.push(ModelPicture { shown: clip_text(name, 80), url });
        }
        Ok(got)
    }
}
