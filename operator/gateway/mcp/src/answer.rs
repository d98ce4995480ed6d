//! An answer of a server on its way to those who are to have it: the model of the caller, and the people of its
//! thread for what the server means for them alone.

use std::time::Duration;

use bytes::Bytes;
use codebutler_crds::wire::McpResult;
use codebutler_gateway_core::caller::ProvenCaller;
use codebutler_gateway_core::personal::StrangersWords;
use codebutler_gateway_core::sound::{SoundKind, detect_sound};
use codebutler_gateway_core::speech::SoundRecording;
use codebutler_mcp::{ContentBody, ResultPart, ToolResult};
use sha2::{Digest as _, Sha256};
use tokio::time::timeout;

use super::McpServers;
use super::masking::WordGuard;
use super::result::{ReadResult, find_abilities, read_result};

/// Sounds of one result that are written down, and bytes of one.
const SOUNDS: usize = 2;
const SOUND: usize = 5 << 20;
/// The wait for what people are shown.
const PATIENCE: Duration = Duration::from_secs(20);
/// Characters of the name of a tool.
const NAME: usize = 80;

/// The request that an answer is for.
pub(crate) struct AnswerSource<'a> {
    /// Name of the server that answered.
    pub server: &'a str,
    /// The server's own name of the tool, or the method.
    pub tool: &'a str,
    /// The agent's key of the call.
    pub key: &'a str,
}

/// Makes an answer fit for the caller's model, and shows people what is for them.
pub(crate) async fn hand_on(
    servers: &McpServers,
    caller: &ProvenCaller,
    guard: &WordGuard,
    source: &AnswerSource<'_>,
    mut answer: ToolResult,
) -> McpResult {
    let abilities = find_abilities(servers, caller);
    if !abilities.audio {
        write_sounds_down(servers, caller, &mut answer).await;
    }
    let ReadResult { mut result, for_people } = read_result(answer, guard, abilities);
    if !for_people.is_empty() {
        result.notes.push(show_people(servers, caller, guard, source, for_people).await);
    }
    result
}

/// Sounds as words, for a model that does not hear, where its role has a model that does.
async fn write_sounds_down(servers: &McpServers, caller: &ProvenCaller, answer: &mut ToolResult) {
    if caller.role.spec.model.audio.is_none() {
        return;
    }
    let for_model = answer.items.iter_mut().filter(|item| !item.is_for_people);
    let mut left = SOUNDS;
    for item in for_model {
        let ContentBody::Binary { media_type, data, .. } = &item.body else { continue };
        let SoundKind::Sound(format) = detect_sound(data) else { continue };
        if left == 0 || data.len() > SOUND {
            continue;
        }
        left -= 1;
        let recording = SoundRecording {
            name: format!("sound.{}", format.name()),
            kind: media_type.clone(),
            bytes: Bytes::copy_from_slice(data),
        };
        let size = data.len();
        item.body = ContentBody::Text(match (servers.scribe)(caller.clone(), recording).await {
            Ok(words) => format!("[a sound of {size} bytes, written down]\n{words}"),
            Err(error) => {
                format!(
                    "[left out: a sound of {size} bytes, which could not be written down: {error}]"
                )
            }
        });
    }
}

/// Shows people what is for them alone, and answers a sentence for the model.
async fn show_people(
    servers: &McpServers,
    caller: &ProvenCaller,
    guard: &WordGuard,
    source: &AnswerSource<'_>,
    parts: Vec<ResultPart>,
) -> String {
    let (mut words, mut pictures) = (Vec::new(), Vec::new());
    for part in parts {
        match part {
            ResultPart::Text(text) => words.push(text),
            ResultPart::Image { data, .. } => pictures.push(Bytes::from(data)),
            ResultPart::Audio { .. } => {}
        }
    }
    let AnswerSource { server, tool, key } = source;
    let tool = guard.line(tool, NAME).replace('`', "'");
    let id = Sha256::digest(format!("{}\0{key}", caller.role_name()));
    let shown = StrangersWords {
        key: format!("mcp-people-{}", hex::encode(&id[..8])),
        text: format!(
            "The server `{server}` means this for the people here (`{tool}`, called by {}):",
            caller.role_name()
        ),
        quote: guard.text(&words.join("\n")),
        pictures,
    };
    match timeout(PATIENCE, servers.people.show_words(caller, &shown)).await {
        Ok(Ok(())) => {
            "a part of this result is for people alone: it was shown to them in the thread"
                .to_owned()
        }
        failed => {
            let why = match failed {
                Ok(Err(error)) => error.to_string(),
                _ => "it took too long".to_owned(),
            };
            tracing::warn!(%server, why, "server_result_post_failed");
            "a part of this result is for people alone, and could not be shown in the thread"
                .to_owned()
        }
    }
}
