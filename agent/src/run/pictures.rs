//! Pictures that came with messages: fetched once, when the messages are taken, and stored with them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use codebutler_wire::{ErrorCode, SharedPicture, SlackTs, ThreadMessage};

use super::{Agent, RunError};
use crate::animation::model_url;
use crate::gateway::GatewayError;
use crate::transcript::ModelPicture;
use codebutler_guides::text::clip_text;

/// Most pictures fetched at once: the newest.
const AT_ONCE: usize = 4;

/// A picture of a message, as far as it could be fetched.
enum FetchedPicture {
    /// It is shown; with a sentence where that is not all of it.
    Shown(ModelPicture, String),
    /// It can't be shown, for this reason.
    Unseen(String),
}

impl Agent {
    /// Fetches the pictures of the messages, oldest first. If one can't be fetched, or shown whole, its message says so.
    pub(super) async fn pictures(
        &self,
        messages: &mut [ThreadMessage],
    ) -> Result<Vec<ModelPicture>, RunError> {
        let count: usize = messages.iter().map(|message| message.pictures.len()).sum();
        let mut older = count.saturating_sub(AT_ONCE);
        let mut got = Vec::new();
        for message in messages {
            for picture in &message.pictures {
                let unseen = if older > 0 {
                    older -= 1;
                    Some(format!("only the newest {AT_ONCE} are{}", read_hint(&picture.id)))
                } else {
                    match self.picture(&message.ts, picture).await? {
                        FetchedPicture::Shown(shown, note) => {
                            got.push(shown);
                            if !note.is_empty() {
                                let name = clip_text(&picture.name, 80);
                                message.text =
                                    format!("{}\n\n[picture {name}:{note}]", message.text);
                            }
                            None
                        }
                        FetchedPicture::Unseen(why) => Some(why),
                    }
                };
                if let Some(why) = unseen {
                    let name = clip_text(&picture.name, 80);
                    let note = format!("[picture {name}: not shown: {why}]");
                    message.text = format!("{}\n\n{note}", message.text);
                }
            }
        }
        Ok(got)
    }

    /// Fetches a picture, or the reason why it can't be shown.
    async fn picture(
        &self,
        ts: &SlackTs,
        SharedPicture { id, name }: &SharedPicture,
    ) -> Result<FetchedPicture, RunError> {
        let (media_type, bytes) = match self.tools.gateway.picture(ts, id).await {
            Ok(picture) => picture,
            Err(GatewayError::Refused { code, message }) => {
                tracing::warn!(?code, detail = message, "picture_unreadable");
                let why = clip_text(message.trim_end_matches('.'), 200);
                // Read cannot show these files either: they are no pictures, or are gone.
                let is_lost = matches!(code, ErrorCode::InvalidRequest);
                let hint = if is_lost { String::new() } else { read_hint(id) };
                return Ok(FetchedPicture::Unseen(why + &hint));
            }
            Err(error) => return Err(error.into()),
        };
        if !media_type.starts_with("image/") || media_type.len() > 40 {
            tracing::warn!(media_type = clip_text(&media_type, 40), "picture_invalid");
            return Ok(FetchedPicture::Unseen("it is no picture".to_owned()));
        }
        let (url, note) = model_url(&media_type, &STANDARD.encode(&bytes));
        Ok(FetchedPicture::Shown(ModelPicture { shown: clip_text(name, 80), url }, note))
    }
}

/// The way to a picture that was left out.
fn read_hint(id: &str) -> String {
    format!(". Read `slack:{id}` to see it")
}
