//! The Web API's methods, by name, with what each needs.

use serde_json::{Value, json};

use super::args::Args;
use super::core::Core;
use super::failure::{Reply, answer, fail};
use super::limits::Tier;
use super::render::ORIGIN;

pub(super) mod chat;
mod conversations;
mod files;
mod people;
mod reactions;
mod sessions;

/// Which token a method takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Needs {
    Nothing,
    BotToken,
    AppToken,
}

/// One method.
pub(super) struct Method {
    pub name: &'static str,
    pub needs: Needs,
    /// All of these; methods whose scope depends on the channel ask for it themselves.
    pub scopes: &'static [&'static str],
    pub tier: Tier,
    /// Whether JSON bodies are read; Slack ignores them in the others.
    pub json: bool,
    pub run: fn(&mut Core, &Args) -> Reply,
}

const fn method(
    name: &'static str,
    scopes: &'static [&'static str],
    tier: Tier,
    json: bool,
    run: fn(&mut Core, &Args) -> Reply,
) -> Method {
    Method { name, needs: Needs::BotToken, scopes, tier, json, run }
}

const FORM: bool = false;
const JSON: bool = true;

const METHODS: &[Method] = &[
    Method {
        name: "api.test",
        needs: Needs::Nothing,
        scopes: &[],
        tier: Tier::Four,
        json: true,
        run: api_test,
    },
    Method {
        name: "apps.connections.open",
        needs: Needs::AppToken,
        scopes: &[],
        tier: Tier::One,
        json: true,
        run: connections_open,
    },
    method("auth.test", &[], Tier::Unlimited, JSON, auth_test),
    method("assistant.threads.setStatus", &["chat:write"], Tier::Four, JSON, set_status),
    method("agents.sessions.setStatus", &["chat:write"], Tier::Three, JSON, sessions::set_status),
    method("chat.postMessage", &["chat:write"], Tier::Posting, JSON, chat::post_message),
    method("chat.postEphemeral", &["chat:write"], Tier::Four, JSON, chat::post_ephemeral),
    method("chat.update", &["chat:write"], Tier::Three, JSON, chat::update),
    method("chat.delete", &["chat:write"], Tier::Three, JSON, chat::delete),
    method("chat.getPermalink", &[], Tier::Unlimited, FORM, chat::get_permalink),
    method("conversations.create", &["channels:manage"], Tier::Two, JSON, conversations::create),
    method("conversations.history", &[], Tier::Reading, JSON, conversations::history),
    method("conversations.replies", &[], Tier::Reading, FORM, conversations::replies),
    method("conversations.info", &[], Tier::Three, FORM, conversations::info),
    method("conversations.list", &[], Tier::Two, FORM, conversations::list),
    method("users.conversations", &[], Tier::Three, FORM, conversations::of_user),
    method("conversations.members", &[], Tier::Four, FORM, conversations::members),
    method("conversations.join", &["channels:join"], Tier::Three, JSON, conversations::join),
    method("files.getUploadURLExternal", &["files:write"], Tier::Four, FORM, files::get_upload_url),
    method(
        "files.completeUploadExternal",
        &["files:write"],
        Tier::Four,
        JSON,
        files::complete_upload,
    ),
    method("files.upload", &[], Tier::Two, FORM, |_, _| fail("method_deprecated")),
    method("files.info", &["files:read"], Tier::Four, FORM, files::info),
    method("reactions.add", &["reactions:write"], Tier::Three, JSON, reactions::add),
    method("reactions.remove", &["reactions:write"], Tier::Two, JSON, reactions::remove),
    method("reactions.get", &["reactions:read"], Tier::Three, FORM, reactions::get),
    method("users.info", &["users:read"], Tier::Four, FORM, people::info),
    method(
        "users.lookupByEmail",
        &["users:read.email"],
        Tier::Three,
        FORM,
        people::lookup_by_email,
    ),
    method("users.list", &["users:read"], Tier::Two, FORM, people::list),
    method("bots.info", &["users:read"], Tier::Three, FORM, people::bot_info),
];

/// A method by its name.
pub(super) fn find(name: &str) -> Option<&'static Method> {
    METHODS.iter().find(|method| method.name == name)
}

fn api_test(_: &mut Core, args: &Args) -> Reply {
    match args.text("error") {
        Some(code) => fail(&code),
        None => answer(json!({ "args": args.0 })),
    }
}

fn auth_test(core: &mut Core, _: &Args) -> Reply {
    let world = &core.world;
    answer(json!({
        "url": format!("{ORIGIN}/"),
        "team": world.team.name,
        "user": world.app.name,
        "team_id": world.team.id,
        "user_id": world.app.user_id,
        "bot_id": world.app.bot_id,
        "is_enterprise_install": false,
    }))
}

fn connections_open(core: &mut Core, _: &Args) -> Reply {
    if core.link_disabled {
        return fail("socket_mode_not_enabled");
    }
    let ticket = core.dispatcher.issue_ticket();
    let origin = ORIGIN.replacen("http", "ws", 1);
    answer(
        json!({ "url": format!("{origin}/socket/?ticket={ticket}&app_id={}", core.world.app.id) }),
    )
}

fn set_status(core: &mut Core, args: &Args) -> Reply {
    let channel = args.need("channel_id")?;
    let thread_ts = args.need("thread_ts")?;
    let Some(status) = args.0.get("status").and_then(Value::as_str) else {
        return Err(super::failure::Failure::missing_argument("status"));
    };
    core.writable(&channel)?;
    core.thread_root(&channel, &thread_ts)?;
    core.set_status(&channel, &thread_ts, status);
    answer(json!({}))
}
