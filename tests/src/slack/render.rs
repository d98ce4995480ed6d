//! Slack's JSON for users, channels, files and messages.

use serde_json::{Map, Value, json};

use super::file_access::FileAccess;
use super::rich;
use super::world::{
    FileRecord, MessageReaction, MessageSender, SlackChannel, SlackMessage, SlackUser, SlackWorld,
};

/// Part of a message's metadata that a reader gets.
#[derive(Debug, Clone, Copy)]
pub(super) enum MetadataView<'a> {
    /// All of it: the answer to its own post, or `include_all_metadata`.
    Full,
    /// The payload only of event types that the app's manifest declares.
    Declared(&'a [String]),
}

pub(super) fn render_message(
    world: &SlackWorld,
    channel: &SlackChannel,
    message: &SlackMessage,
    metadata: MetadataView<'_>,
) -> Map<String, Value> {
    let mut out = Map::new();
    let mut put = |name: &str, value: Value| {
        out.insert(name.to_owned(), value);
    };
    put("type", json!("message"));
    put("ts", json!(message.ts));
    put("text", json!(message.text));
    for (name, value) in render_sender(world, message) {
        put(name, value);
    }
    if let MessageSender::User { id } = &message.sender
        && !world.strange_teams(channel).is_empty()
    {
        let team = world.team_of(id);
        put("user_team", json!(team));
        put("source_team", json!(team));
    }
    if let Some(subtype) = &message.subtype {
        put("subtype", json!(subtype));
    } else if message.broadcast {
        put("subtype", json!("thread_broadcast"));
    } else if !message.files.is_empty() {
        put("subtype", json!("file_share"));
    }
    if message.subtype.as_deref() == Some("tombstone") {
        put("hidden", json!(true));
    }
    if let Some(id) = &message.client_msg_id {
        put("client_msg_id", json!(id));
    }
    if !message.blocks.is_empty() {
        put("blocks", json!(message.blocks));
    } else if message.subtype.is_none() && !message.text.is_empty() {
        put("blocks", json!([rich::rich_text(&message.text, "t0")]));
    }
    if !message.attachments.is_empty() {
        put("attachments", json!(message.attachments));
    }
    if let Some(meant) = &message.metadata {
        let whole = match metadata {
            MetadataView::Full => true,
            MetadataView::Declared(types) => types.contains(&meant.event_type),
        };
        put(
            "metadata",
            if whole { json!(meant) } else { json!({ "event_type": meant.event_type }) },
        );
    }
    if let Some(edited) = &message.edited {
        put("edited", json!(edited));
    }
    if !message.files.is_empty() {
        let files: Vec<Value> = message
            .files
            .iter()
            .filter_map(|id| world.files.get(id))
            .map(|f| render_shared_file(world, f))
            .collect();
        put("files", json!(files));
        put("upload", json!(false));
        put("display_as_bot", json!(false));
    }
    if !message.reactions.is_empty() {
        put("reactions", render_reactions(&message.reactions));
    }
    for (name, value) in render_thread(world, channel, message) {
        put(name, value);
    }
    out
}

fn render_sender(world: &SlackWorld, message: &SlackMessage) -> Vec<(&'static str, Value)> {
    let app = &world.app;
    match &message.sender {
        MessageSender::User { id } => vec![("user", json!(id)), ("team", json!(world.team_of(id)))],
        MessageSender::App { username: None, icon_emoji: None, icon_url: None } => vec![
            ("user", json!(app.user_id)),
            ("team", json!(world.team.id)),
            ("bot_id", json!(app.bot_id)),
            ("app_id", json!(app.id)),
            ("bot_profile", bot_profile(world)),
        ],
        MessageSender::App { username, icon_emoji, icon_url } => {
            let icons = match (icon_emoji, icon_url) {
                (Some(emoji), _) => json!({ "emoji": emoji }),
                (None, Some(url)) => json!({ "image_48": url }),
                (None, None) => json!({}),
            };
            vec![
                ("subtype", json!("bot_message")),
                ("username", json!(username.as_ref().unwrap_or(&app.name))),
                ("icons", icons),
                ("bot_id", json!(app.bot_id)),
                ("app_id", json!(app.id)),
            ]
        }
        MessageSender::OtherBot { bot_id, app_id, name } => vec![
            ("subtype", json!("bot_message")),
            ("username", json!(name)),
            ("bot_id", json!(bot_id)),
            ("app_id", json!(app_id)),
        ],
    }
}

fn bot_profile(world: &SlackWorld) -> Value {
    json!({
        "id": world.app.bot_id,
        "app_id": world.app.id,
        "user_id": world.app.user_id,
        "name": world.app.name,
        "icons": {},
        "deleted": false,
        "updated": 1_700_000_000,
        "team_id": world.team.id,
    })
}

fn render_thread(
    world: &SlackWorld,
    channel: &SlackChannel,
    message: &SlackMessage,
) -> Vec<(&'static str, Value)> {
    if let Some(root) = &message.thread_ts {
        let parent = channel.messages.get(root).and_then(|parent| world.named_author(parent));
        let parent = parent.map(|parent| ("parent_user_id", json!(parent)));
        return std::iter::once(("thread_ts", json!(root))).chain(parent).collect();
    }
    let Some(replies) = channel.threads.get(&message.ts).filter(|replies| !replies.is_empty())
    else {
        return Vec::new();
    };
    let mut users: Vec<String> = Vec::new();
    for reply in replies.iter().filter_map(|ts| channel.messages.get(ts)) {
        let author = world.author(reply).unwrap_or_else(|| world.app.bot_id.clone());
        if !users.contains(&author) {
            users.push(author);
        }
    }
    vec![
        ("thread_ts", json!(message.ts)),
        ("reply_count", json!(replies.len())),
        ("reply_users_count", json!(users.len())),
        ("reply_users", json!(users)),
        ("latest_reply", json!(replies.last())),
        ("is_locked", json!(false)),
        ("subscribed", json!(true)),
    ]
}

pub(super) fn render_reactions(reactions: &[MessageReaction]) -> Value {
    reactions
        .iter()
        .map(|r| json!({ "name": r.name, "count": r.users.len(), "users": r.users }))
        .collect()
}

pub(super) fn render_user(world: &SlackWorld, user: &SlackUser) -> Value {
    let (first, last) = user.real_name.split_once(' ').unwrap_or((&user.real_name, ""));
    json!({
        "id": user.id,
        "team_id": world.team_of(&user.id),
        "name": user.name,
        "real_name": user.real_name,
        "deleted": user.is_deleted,
        "color": "9f69e7",
        "tz": "Europe/London",
        "tz_label": "Greenwich Mean Time",
        "tz_offset": 0,
        "is_admin": false,
        "is_owner": false,
        "is_primary_owner": false,
        "is_restricted": user.is_restricted,
        "is_ultra_restricted": false,
        "is_bot": user.is_bot,
        "is_app_user": false,
        // True only for people of another company who share no channel with the app.
        "is_stranger": false,
        "updated": 1_700_000_000,
        "profile": {
            "display_name": user.name,
            "display_name_normalized": user.name,
            "real_name": user.real_name,
            "real_name_normalized": user.real_name,
            "first_name": first,
            "last_name": last,
            "title": "",
            "phone": "",
            "status_text": "",
            "status_emoji": "",
            "team": world.team_of(&user.id),
        },
    })
}

pub(super) fn render_channel(world: &SlackWorld, channel: &SlackChannel) -> Value {
    let strange = world.strange_teams(channel);
    let shared = !strange.is_empty();
    json!({
        "id": channel.id,
        "name": channel.name,
        "name_normalized": channel.name,
        "created": channel.created,
        "updated": channel.created * 1000,
        "creator": channel.creator,
        "context_team_id": world.team.id,
        "is_channel": !channel.is_private && !channel.is_im,
        "is_group": false,
        "is_im": channel.is_im,
        "is_mpim": false,
        "is_private": channel.is_private,
        "is_archived": channel.is_archived,
        "is_general": false,
        "is_shared": shared,
        "is_org_shared": false,
        "is_ext_shared": shared,
        "connected_team_ids": strange,
        "is_member": world.bot_in(channel),
        "unlinked": 0,
        "topic": { "value": "", "creator": "", "last_set": 0 },
        "purpose": { "value": "", "creator": "", "last_set": 0 },
        "previous_names": [],
        "num_members": channel.members.len(),
    })
}

/// A file as messages show it: perhaps not at all.
pub(super) fn render_shared_file(world: &SlackWorld, file: &FileRecord) -> Value {
    let stands_for = |mode: &str| json!({ "id": file.id, "mode": mode });
    match file.access {
        Some(FileAccess::CheckFileInfo) => json!({
            "id": file.id, "created": file.created, "timestamp": file.created, "user": file.user,
            "mode": "file_access", "file_access": "check_file_info",
        }),
        Some(FileAccess::HiddenByLimit) => stands_for("hidden_by_limit"),
        Some(FileAccess::Tombstone) => stands_for("tombstone"),
        Some(FileAccess::Nameless) => {
            let mut shown = render_file(world, file);
            (shown["name"], shown["title"]) = (Value::Null, Value::Null);
            shown
        }
        None => render_file(world, file),
    }
}

/// A file as `files.info` describes it.
pub(super) fn render_file(world: &SlackWorld, file: &FileRecord) -> Value {
    let extension = file.name.rsplit_once('.').map_or("", |(_, end)| end).to_lowercase();
    let (mimetype, filetype, pretty) = match extension.as_str() {
        "png" => ("image/png", "png", "PNG"),
        "jpg" | "jpeg" => ("image/jpeg", "jpg", "JPEG"),
        "gif" => ("image/gif", "gif", "GIF"),
        "heic" => ("image/heic", "heic", "HEIC"),
        "rs" => ("text/plain", "rust", "Rust"),
        "py" => ("text/plain", "python", "Python"),
        "sh" => ("text/plain", "shell", "Shell"),
        "diff" => ("text/plain", "diff", "Diff"),
        "yaml" => ("text/plain", "yaml", "YAML"),
        "md" => ("text/plain", "markdown", "Markdown (raw)"),
        "txt" | "log" => ("text/plain", "text", "Plain Text"),
        "json" => ("application/json", "json", "JSON"),
        "m4a" => ("audio/mp4", "m4a", "MPEG 4 Audio"),
        "pdf" => ("application/pdf", "pdf", "PDF"),
        _ => ("application/octet-stream", "binary", "Binary"),
    };
    let path = format!("{}-{}/{}", world.team.id, file.id, file.name);
    let shares = render_shares(world, file);
    let is_public = shares["private"].is_null() || shares["public"].is_object();
    let mut shown = json!({
        "id": file.id,
        "created": file.created,
        "timestamp": file.created,
        "name": file.name,
        "title": file.title,
        "mimetype": mimetype,
        "filetype": filetype,
        "pretty_type": pretty,
        "user": file.user,
        "size": file.content.as_ref().map_or(file.size, Vec::len),
        "mode": "hosted",
        "editable": false,
        "is_external": false,
        "external_type": "",
        "is_public": is_public,
        "public_url_shared": false,
        "display_as_bot": false,
        "username": "",
        "channels": file.channels,
        "groups": [],
        "ims": [],
        "shares": shares,
        // The server's own address is put in front when the answer leaves.
        "url_private": format!("{ORIGIN}/files-pri/{path}"),
        "url_private_download": format!("{ORIGIN}/files-pri/{path}?download=1"),
        "permalink": format!("{ORIGIN}/files/{}/{}/{}", file.user, file.id, file.name),
    });
    if mimetype.starts_with("image/") {
        let stem = file.name.rsplit_once('.').map_or(&*file.name, |(stem, _)| stem);
        for side in [64, 360, 720, 1024] {
            let path = format!("{}-{}/{stem}_{side}.png", world.team.id, file.id);
            shown[format!("thumb_{side}")] = json!(format!("{ORIGIN}/files-tmb/{path}"));
        }
    }
    shown
}

/// The messages that have a file, by kind of channel and by channel.
fn render_shares(world: &SlackWorld, file: &FileRecord) -> Value {
    let mut all = json!({});
    for share in &file.shares {
        let Some(channel) = world.channels.get(&share.channel) else { continue };
        let kind = if channel.is_private || channel.is_im { "private" } else { "public" };
        let mut one = json!({
            "ts": share.ts,
            "channel_name": channel.name,
            "team_id": world.team.id,
            "share_user_id": file.user,
            "reply_users": [],
            "reply_users_count": 0,
            "reply_count": 0,
        });
        if let Some(root) = &share.thread_ts {
            one["thread_ts"] = json!(root);
        }
        if all[kind][&share.channel].is_null() {
            all[kind][&share.channel] = json!([]);
        }
        if let Some(list) = all[kind][&share.channel].as_array_mut() {
            list.push(one);
        }
    }
    all
}

/// Placeholder for the server's address in rendered JSON; replaced when it is sent.
pub(super) const ORIGIN: &str = "http://slack.invalid";

#[cfg(test)]
mod tests {
    use super::*;

    /// A workspace with a channel of Ana's.
    fn world() -> (SlackWorld, String, String) {
        let mut world = SlackWorld::new("Acme", "codebutler");
        let ana = world.add_user("ana", "Ana Example", false);
        let channel = world.add_channel("shop", false, &[&ana]);
        (world, ana, channel)
    }

    fn said(
        world: &mut SlackWorld,
        channel: &str,
        sender: MessageSender,
        root: Option<&str>,
    ) -> SlackMessage {
        let mut said = SlackMessage::draft(sender, "hello".to_owned());
        said.ts = world.ts();
        said.thread_ts = root.map(str::to_owned);
        world.channels.get_mut(channel).unwrap().insert(said.clone());
        said
    }

    #[test]
    fn guests_are_said_to_be_some_and_strangers_to_be_of_elsewhere() {
        let (mut world, ana, channel) = world();
        let guest = world.add_user("gus", "Gus Guest", false);
        world.users.get_mut(&guest).unwrap().is_restricted = true;
        let about = |world: &SlackWorld, id: &str| render_user(world, &world.users[id]);
        assert_eq!(about(&world, &guest)["is_restricted"], true);
        assert_eq!(about(&world, &guest)["team_id"], *world.team.id);
        assert_eq!(about(&world, &ana)["is_restricted"], false);
        let by = |id: &String| MessageSender::User { id: id.clone() };
        let plain = said(&mut world, &channel, by(&ana), None);
        let shown = |world: &SlackWorld, one: &SlackMessage| {
            let channel = &world.channels[&channel];
            Value::Object(render_message(world, channel, one, MetadataView::Full))
        };
        // In a channel of one workspace the team of an author is not named.
        assert!(shown(&world, &plain).get("user_team").is_none());
        assert_eq!(render_channel(&world, &world.channels[&channel])["is_ext_shared"], false);

        let eve = world.add_user("eve", "Eve Else", false);
        world.users.get_mut(&eve).unwrap().team = Some("T0ELSE".to_owned());
        world.channels.get_mut(&channel).unwrap().members.insert(eve.clone());
        let theirs = said(&mut world, &channel, by(&eve), None);
        assert_eq!(shown(&world, &theirs)["user_team"], "T0ELSE");
        assert_eq!(shown(&world, &theirs)["source_team"], "T0ELSE");
        assert_eq!(shown(&world, &plain)["user_team"], *world.team.id);
        assert_eq!(about(&world, &eve)["team_id"], "T0ELSE");
        let told = render_channel(&world, &world.channels[&channel]);
        assert_eq!((&told["is_ext_shared"], &told["is_shared"]), (&json!(true), &json!(true)));
        assert_eq!(told["connected_team_ids"], json!(["T0ELSE"]));
    }

    #[test]
    fn a_reply_names_who_began_only_where_the_first_message_does() {
        let (mut world, ana, channel) = world();
        let own = |name: Option<&str>| MessageSender::App {
            username: name.map(str::to_owned),
            icon_emoji: None,
            icon_url: None,
        };
        let bot = world.app.user_id.clone();
        let roots = [
            (MessageSender::User { id: ana.clone() }, Some(&ana)),
            (own(None), Some(&bot)),
            (own(Some("The coder")), None),
        ];
        for (sender, named) in roots {
            let root = said(&mut world, &channel, sender.clone(), None);
            let reply = MessageSender::User { id: ana.clone() };
            let reply = said(&mut world, &channel, reply, Some(&root.ts));
            let shown =
                render_message(&world, &world.channels[&channel], &reply, MetadataView::Full);
            assert_eq!(
                shown.get("parent_user_id"),
                named.map(|id| json!(id)).as_ref(),
                "{sender:?}"
            );
        }
    }
}
