//! What a server answered, for the model: its words in a fence, its pictures behind them, and all of a long text in a
//! file.

use std::fmt::Write as _;

use codebutler_guides::text::clip_text;
use codebutler_guides::voice::guard_fence;
use codebutler_wire::{McpPicture, McpResult, McpSound};

use super::super::{ToolContext, ToolFailure, ToolOutcome};
use crate::animation::model_url;
use crate::gateway::GatewayError;
use crate::gateway::mcp::explain_refusal;
use crate::toolbox::client::ToolboxError;
use crate::toolbox::protocol::{ImageRequest, ToolboxReply, ToolboxRequest, WorktreePicture};
use crate::transcript::{ModelPicture, TranscriptRecord};

/// The tag around words of a server.
const TAG: &str = "server-words";
/// Bytes of a text that are kept in a file: escaped, they fit a frame of the toolbox.
const MAX_WHOLE: usize = 3 * 1024 * 1024;
/// Pictures that models take.
const PICTURES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// Words of a server, marked as such.
pub(super) fn fence_words(text: &str) -> String {
    format!("<{TAG}>\n{}\n</{TAG}>", guard_fence(text.trim_end(), TAG))
}

/// What a call comes to that the gateway refused or could not carry out.
pub(super) fn explain_failure(error: GatewayError) -> ToolFailure {
    match explain_refusal(&error) {
        Some(why) => ToolFailure::Respond(why),
        None => error.into(),
    }
}

/// A result for the model, with remarks of our own behind it.
pub(super) async fn show_result(cx: &ToolContext, result: McpResult) -> ToolOutcome {
    let McpResult { text, failed, whole, pictures, sounds, notes } = result;
    let mut out = String::new();
    if failed {
        out.push_str("Error: the server says that this failed.\n");
    }
    if text.trim().is_empty() {
        let nothing = if pictures.is_empty() && sounds.is_empty() {
            "The server answered without a word.\n"
        } else {
            ""
        };
        out.push_str(nothing);
    } else {
        let _ = writeln!(out, "{}", fence_words(&text));
    }
    let mut remarks = Vec::new();
    if let Some(whole) = whole {
        remarks.push(keep_whole(cx, &whole).await);
    }
    let mut records = Vec::new();
    for (index, picture) in pictures.into_iter().enumerate() {
        match fit_picture(cx, index + 1, picture).await {
            Ok((picture, note)) => {
                let shown = &picture.shown;
                remarks.push(format!(
                    "`{shown}` follows as a picture, if you can be shown any.{note}"
                ));
                records.push(TranscriptRecord::Picture(picture));
            }
            Err(why) => remarks.push(why),
        }
    }
    for (index, sound) in sounds.into_iter().enumerate() {
        match read_sound(index + 1, sound) {
            Some(sound) => {
                remarks.push(format!("`{}` follows, if you can hear.", sound.shown));
                records.push(TranscriptRecord::Picture(sound));
            }
            None => remarks.push(format!("Sound {} is left out: it can't be read.", index + 1)),
        }
    }
    remarks.extend(notes.iter().map(|said| format!("{}.", said.trim_end_matches('.'))));
    ToolOutcome::plain(out.trim_end()).noting(remarks).recording(records)
}

/// Keeps a text in a file, and says where.
async fn keep_whole(cx: &ToolContext, whole: &str) -> String {
    let end = whole.floor_char_boundary(MAX_WHOLE);
    let cut = if end < whole.len() { "\n[the rest is not kept]\n" } else { "" };
    let text = format!("{}{cut}", &whole[..end]);
    let length = whole.len();
    match cx.toolbox.ask(ToolboxRequest::KeepOutput { text }).await {
        Ok(ToolboxReply::Text(path)) => {
            format!("All of it, {length} bytes, is in `{path}`: Read it from an offset.")
        }
        Ok(ToolboxReply::Refused(why) | ToolboxReply::Failed(why)) => {
            tracing::warn!(why, "result_write_failed");
            format!("All of it is {length} bytes, which could not be kept: ask for less.")
        }
        Ok(other) => {
            tracing::warn!(?other, "result_write_failed");
            format!("All of it is {length} bytes, which could not be kept: ask for less.")
        }
        Err(error) => {
            let why = match error {
                ToolboxError::TooLarge => "it is too long to be kept",
                _ => "it could not be kept",
            };
            tracing::warn!(%error, "result_write_failed");
            format!("All of it is {length} bytes: {why}. Ask for less.")
        }
    }
}

/// A sound for the transcript, which keeps it like a picture.
fn read_sound(number: usize, sound: McpSound) -> Option<ModelPicture> {
    let McpSound { format, data } = sound;
    let is_plain = !format.is_empty() && format.bytes().all(|b| b.is_ascii_alphanumeric());
    let can_be_read = is_plain && format.len() <= 8 && !data.is_empty() && is_base64(&data);
    let shown = format!("sound {number} of the result");
    can_be_read.then(|| ModelPicture { shown, url: format!("data:audio/{format};base64,{data}") })
}

fn is_base64(data: &str) -> bool {
    data.bytes().all(|b| b.is_ascii_alphanumeric() || b"+/=".contains(&b))
}

/// A picture for the transcript as providers take it, with a sentence on how it differs; or why there is none. It is
/// decoded where the worktree is read, since a stranger made it.
async fn fit_picture(
    cx: &ToolContext,
    number: usize,
    picture: McpPicture,
) -> Result<(ModelPicture, String), String> {
    let data = check_picture(number, picture)?;
    let asked = cx.toolbox.ask(ToolboxRequest::Image(ImageRequest::Fit { data })).await;
    let why = match asked {
        Ok(ToolboxReply::Picture(WorktreePicture { media_type, data, note, .. })) => {
            let shown = format!("picture {number} of the result");
            let (url, still) = model_url(&media_type, &data);
            return Ok((ModelPicture { shown, url }, still + &note));
        }
        Ok(ToolboxReply::Refused(why)) => why,
        Err(error) => {
            tracing::warn!(%error, "picture_unreadable");
            "it could not be read".to_owned()
        }
        Ok(_) => "it could not be read".to_owned(),
    };
    Err(format!("Picture {number} is left out: {why}."))
}

/// The data of a picture of a type that models take.
fn check_picture(number: usize, picture: McpPicture) -> Result<String, String> {
    let McpPicture { media_type, data } = picture;
    if !PICTURES.contains(&media_type.as_str()) {
        let kind: String = media_type.chars().filter(|c| !c.is_control() && *c != '`').collect();
        return Err(format!(
            "Picture {number} is left out: `{}` is no type that can be shown.",
            clip_text(&kind, 40)
        ));
    }
    if data.is_empty() || !is_base64(&data) {
        return Err(format!("Picture {number} is left out: it can't be read."));
    }
    Ok(data)
}
