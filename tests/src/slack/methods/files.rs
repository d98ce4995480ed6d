//! `files.*`: uploads in three steps.

use serde_json::{Value, json};

use super::super::args::MethodArgs;
use super::super::core::SlackCore;
use super::super::delivery::DeliveryTimer;
use super::super::failure::{MethodFailure, MethodReply, answer_ok, fail_with};
use super::super::file_access::FileAccess;
use super::super::render::{self, ORIGIN};
use super::super::text;
use super::super::world::{FileRecord, MessageSender, SlackMessage, unix_now};

pub(super) fn get_upload_url(core: &mut SlackCore, args: &MethodArgs) -> MethodReply {
    let name = args.need("filename")?;
    let length = args.need("length")?;
    let size = match length.parse::<usize>() {
        Ok(size) if size > 0 => size,
        _ => return fail_with("invalid_arguments"),
    };
    let id = core.world.id('F');
    let file = FileRecord {
        id: id.clone(),
        title: name.clone(),
        name,
        user: core.world.app.user_id.clone(),
        created: unix_now(),
        size,
        content: None,
        complete: false,
        channels: Vec::new(),
        shares: Vec::new(),
        access: None,
    };
    core.world.files.insert(id.clone(), file);
    answer_ok(json!({ "upload_url": format!("{ORIGIN}/upload/v1/{id}"), "file_id": id }))
}

pub(super) fn complete_upload(core: &mut SlackCore, args: &MethodArgs) -> MethodReply {
    let Some(Value::Array(given)) = args.json("files", "invalid_arguments")? else {
        return Err(MethodFailure::missing_argument("files"));
    };
    let uploaded = |id: &str| {
        let file = core.world.files.get(id)?;
        (file.content.is_some() && !file.complete).then(|| id.to_owned())
    };
    let ids: Option<Vec<String>> =
        given.iter().map(|file| file["id"].as_str().and_then(uploaded)).collect();
    let Some(ids) = ids.filter(|ids| !ids.is_empty()) else { return fail_with("file_not_found") };
    let listed = args.text("channels").or_else(|| args.text("channel_id")).unwrap_or_default();
    let channels: Vec<String> =
        listed.split(',').filter(|id| !id.is_empty()).map(str::to_owned).collect();
    let thread_ts = args.text("thread_ts");
    for channel in &channels {
        core.writable(channel)?;
        if let Some(root) = &thread_ts {
            core.thread_root(channel, root)?;
        }
    }
    for (id, given) in ids.iter().zip(&given) {
        if let Some(file) = core.world.files.get_mut(id) {
            file.complete = true;
            if let Some(title) = given["title"].as_str() {
                title.clone_into(&mut file.title);
            }
        }
    }
    // Slack answers first and shares then; now and then it forgets to.
    if core.limits.ordered("files.share").is_none() {
        let sender = MessageSender::App { username: None, icon_emoji: None, icon_url: None };
        let comment = args.text("initial_comment").unwrap_or_default();
        let mut message = SlackMessage::draft(sender, text::posted_text(&comment, false));
        message.files.clone_from(&ids);
        message.thread_ts = thread_ts;
        let share = DeliveryTimer::Share { channels, message: Box::new(message) };
        core.dispatcher.later(core.options.timing.sharing, share);
    }
    let files: Vec<Value> = ids
        .iter()
        .filter_map(|id| core.world.files.get(id))
        .map(|file| render::render_file(&core.world, file))
        .collect();
    answer_ok(json!({ "files": files }))
}

pub(super) fn file_info(core: &mut SlackCore, args: &MethodArgs) -> MethodReply {
    let id = args.need("file")?;
    let Some(file) = core.world.files.get(&id).filter(|file| file.complete) else {
        return fail_with("file_not_found");
    };
    match file.access {
        Some(FileAccess::Tombstone) => return fail_with("file_deleted"),
        Some(FileAccess::HiddenByLimit) => return fail_with("file_not_found"),
        Some(FileAccess::CheckFileInfo | FileAccess::Nameless) | None => {}
    }
    answer_ok(json!({
        "file": render::render_file(&core.world, file),
        "comments": [],
        "response_metadata": { "next_cursor": "" },
    }))
}
