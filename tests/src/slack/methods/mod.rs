//! The Web API's methods, by name, with what each needs.

use serde_json::{Value, json};

use super::args::MethodArgs;
use super::core::SlackCore;
use super::failure::{MethodReply, answer_ok, fail_with};
use super::limits::RateTier;
use super::render::ORIGIN;

pub(super) mod chat;
mod conversations;
mod files;
mod groups;
mod people;
mod reactions;
mod sessions;
mod streams;
mod unfurl;
mod views;

/// Token that a method requires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NeededToken {
    Nothing,
    BotToken,
    AppToken,
}

/// A Web API method of the emulated Slack.
pub(super) struct SlackMethod {
    pub name: &'static str,
    pub needs: NeededToken,
    /// All of these; methods whose scope depends on the channel ask for it themselves.
    pub scopes: &'static [&'static str],
    pub tier: RateTier,
    /// True if JSON bodies are read; Slack ignores them in the others.
    pub json: bool,
    pub run: fn(&mut SlackCore, &MethodArgs) -> MethodReply,
}

const fn define_method(
    name: &'static str,
    scopes: &'static [&'static str],
    tier: RateTier,
    json: bool,
    run: fn(&mut SlackCore, &MethodArgs) -> MethodReply,
) -> SlackMethod {
    SlackMethod { name, needs: NeededToken::BotToken, scopes, tier, json, run }
}

const FORM: bool = false;
const JSON: bool = true;

const METHODS: &[SlackMethod] = &[
    SlackMethod {
        name: "api.test",
        needs: NeededToken::Nothing,
        scopes: &[],
        tier: RateTier::Four,
        json: true,
        run: api_test,
    },
    SlackMethod {
        name: "apps.connections.open",
        needs: NeededToken::AppToken,
        scopes: &[],
        tier: RateTier::One,
        json: true,
        run: connections_open,
    },
    define_method("auth.test", &[], RateTier::Unlimited, JSON, auth_test),
    define_method("assistant.threads.setStatus", &["chat:write"], RateTier::Four, JSON, set_status),
    define_method(
        "assistant.threads.setSuggestedPrompts",
        &["assistant:write"],
        RateTier::Four,
        JSON,
        sessions::set_prompts,
    ),
    define_method(
        "agents.sessions.setStatus",
        &["chat:write"],
        RateTier::Three,
        JSON,
        sessions::set_status,
    ),
    define_method("chat.postMessage", &["chat:write"], RateTier::Posting, JSON, chat::post_message),
    define_method(
        "chat.postEphemeral",
        &["chat:write"],
        RateTier::Four,
        JSON,
        chat::post_ephemeral,
    ),
    define_method("chat.update", &["chat:write"], RateTier::Three, JSON, chat::update_message),
    define_method("chat.delete", &["chat:write"], RateTier::Three, JSON, chat::delete_message),
    define_method("chat.startStream", &["chat:write"], RateTier::Two, JSON, streams::start_stream),
    define_method(
        "chat.appendStream",
        &["chat:write"],
        RateTier::Four,
        JSON,
        streams::append_stream,
    ),
    define_method("chat.stopStream", &["chat:write"], RateTier::Two, JSON, streams::stop_stream),
    define_method("chat.unfurl", &["links:write"], RateTier::Three, JSON, unfurl::unfurl_links),
    define_method("chat.getPermalink", &[], RateTier::Unlimited, FORM, chat::get_permalink),
    define_method(
        "conversations.create",
        &["channels:manage"],
        RateTier::Two,
        JSON,
        conversations::create_channel,
    ),
    define_method(
        "conversations.history",
        &[],
        RateTier::Reading,
        JSON,
        conversations::read_history,
    ),
    define_method(
        "conversations.replies",
        &[],
        RateTier::Reading,
        FORM,
        conversations::read_replies,
    ),
    define_method("conversations.info", &[], RateTier::Three, FORM, conversations::channel_info),
    define_method("conversations.list", &[], RateTier::Two, FORM, conversations::list_channels),
    define_method("users.conversations", &[], RateTier::Three, FORM, conversations::of_user),
    define_method("conversations.members", &[], RateTier::Four, FORM, conversations::list_members),
    define_method(
        "conversations.join",
        &["channels:join"],
        RateTier::Three,
        JSON,
        conversations::join_channel,
    ),
    define_method(
        "files.getUploadURLExternal",
        &["files:write"],
        RateTier::Four,
        FORM,
        files::get_upload_url,
    ),
    define_method(
        "files.completeUploadExternal",
        &["files:write"],
        RateTier::Four,
        JSON,
        files::complete_upload,
    ),
    define_method("files.upload", &[], RateTier::Two, FORM, |_, _| fail_with("method_deprecated")),
    define_method("files.info", &["files:read"], RateTier::Four, FORM, files::file_info),
    define_method(
        "reactions.add",
        &["reactions:write"],
        RateTier::Three,
        JSON,
        reactions::add_reaction,
    ),
    define_method(
        "reactions.remove",
        &["reactions:write"],
        RateTier::Two,
        JSON,
        reactions::remove_reaction,
    ),
    define_method(
        "reactions.get",
        &["reactions:read"],
        RateTier::Three,
        FORM,
        reactions::get_reactions,
    ),
    define_method("users.info", &["users:read"], RateTier::Four, FORM, people::user_info),
    define_method(
        "users.lookupByEmail",
        &["users:read.email"],
        RateTier::Three,
        FORM,
        people::lookup_by_email,
    ),
    define_method("users.list", &["users:read"], RateTier::Two, FORM, people::list_users),
    define_method(
        "usergroups.users.list",
        &["usergroups:read"],
        RateTier::Two,
        FORM,
        groups::list_users,
    ),
    define_method("views.open", &[], RateTier::Four, JSON, views::open_view),
    define_method("bots.info", &["users:read"], RateTier::Three, FORM, people::bot_info),
];

/// Finds a Web API method by its name.
pub(super) fn find_method(name: &str) -> Option<&'static SlackMethod> {
    METHODS.iter().find(|method| method.name == name)
}

fn api_test(_: &mut SlackCore, args: &MethodArgs) -> MethodReply {
    match args.text("error") {
        Some(code) => fail_with(&code),
        None => answer_ok(json!({ "args": args.0 })),
    }
}

fn auth_test(core: &mut SlackCore, _: &MethodArgs) -> MethodReply {
    let world = &core.world;
    answer_ok(json!({
        "url": format!("{ORIGIN}/"),
        "team": world.team.name,
        "user": world.app.name,
        "team_id": world.team.id,
        "user_id": world.app.user_id,
        "bot_id": world.app.bot_id,
        "is_enterprise_install": false,
    }))
}

fn connections_open(core: &mut SlackCore, _: &MethodArgs) -> MethodReply {
    if core.link_disabled {
        return fail_with("socket_mode_not_enabled");
    }
    let ticket = core.dispatcher.issue_ticket();
    let origin = ORIGIN.replacen("http", "ws", 1);
    answer_ok(
        json!({ "url": format!("{origin}/socket/?ticket={ticket}&app_id={}", core.world.app.id) }),
    )
}

fn set_status(core: &mut SlackCore, args: &MethodArgs) -> MethodReply {
    let channel = args.need("channel_id")?;
    let thread_ts = args.need("thread_ts")?;
    let Some(status) = args.0.get("status").and_then(Value::as_str) else {
        return Err(super::failure::MethodFailure::missing_argument("status"));
    };
    core.writable(&channel)?;
    core.thread_root(&channel, &thread_ts)?;
    core.set_status(&channel, &thread_ts, status);
    answer_ok(json!({}))
}
