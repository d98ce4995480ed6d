//! `users.*` and `bots.*`.

use serde_json::{Value, json};

use super::super::args::MethodArgs;
use super::super::core::SlackCore;
use super::super::failure::{MethodReply, answer_ok, fail_with};
use super::super::render;
use super::super::world::{SlackUser, unix_now};

pub(super) fn user_info(core: &mut SlackCore, args: &MethodArgs) -> MethodReply {
    let id = args.need("user")?;
    let Some(user) = core.world.users.get(&id) else { return fail_with("user_not_found") };
    answer_ok(json!({ "user": render::render_user(&core.world, user) }))
}

pub(super) fn lookup_by_email(core: &mut SlackCore, args: &MethodArgs) -> MethodReply {
    let email = args.need("email")?;
    let person = |user: &&SlackUser| !user.is_bot && format!("{}@example.com", user.name) == email;
    match core.world.users.values().find(person) {
        Some(user) => answer_ok(json!({ "user": render::render_user(&core.world, user) })),
        None => fail_with("users_not_found"),
    }
}

pub(super) fn list_users(core: &mut SlackCore, args: &MethodArgs) -> MethodReply {
    let limit = args.limit(1000, 1000)?;
    let after = args.text("cursor");
    let found = core.world.users.values();
    let mut found = found.filter(|user| after.as_ref().is_none_or(|after| user.id > *after));
    let page: Vec<_> = found.by_ref().take(limit).collect();
    let more = found.next().is_some();
    let next = page.last().filter(|_| more).map(|user| user.id.clone());
    let members: Vec<Value> =
        page.iter().map(|user| render::render_user(&core.world, user)).collect();
    answer_ok(json!({
        "members": members,
        "cache_ts": unix_now(),
        "response_metadata": { "next_cursor": next.unwrap_or_default() },
    }))
}

pub(super) fn bot_info(core: &mut SlackCore, args: &MethodArgs) -> MethodReply {
    let app = &core.world.app;
    match args.text("bot") {
        Some(bot) if bot == app.bot_id => answer_ok(json!({ "bot": {
            "id": app.bot_id,
            "app_id": app.id,
            "user_id": app.user_id,
            "name": app.name,
            "deleted": false,
            "updated": 1_700_000_000,
            "icons": {},
        }})),
        _ => fail_with("bot_not_found"),
    }
}
