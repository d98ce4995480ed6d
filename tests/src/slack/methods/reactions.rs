//! `reactions.*`.

use serde_json::{Value, json};

use super::super::args::MethodArgs;
use super::super::core::SlackCore;
use super::super::failure::{MethodFailure, MethodReply, answer_ok, fail_with};
use super::super::render::{self, MetadataView};

fn reaction_item(core: &SlackCore, args: &MethodArgs) -> Result<(String, String), MethodFailure> {
    let (Some(channel), Some(ts)) = (args.text("channel"), args.text("timestamp")) else {
        return fail_with("no_item_specified");
    };
    core.writable(&channel)?;
    Ok((channel, ts))
}

pub(super) fn add_reaction(core: &mut SlackCore, args: &MethodArgs) -> MethodReply {
    change_reaction(core, args, true)
}

pub(super) fn remove_reaction(core: &mut SlackCore, args: &MethodArgs) -> MethodReply {
    change_reaction(core, args, false)
}

fn change_reaction(core: &mut SlackCore, args: &MethodArgs, added: bool) -> MethodReply {
    let name = args.need("name")?;
    let (channel, ts) = reaction_item(core, args)?;
    let bot = core.world.app.user_id.clone();
    core.react(&channel, &ts, &bot, &name, added)?;
    answer_ok(json!({}))
}

pub(super) fn get_reactions(core: &mut SlackCore, args: &MethodArgs) -> MethodReply {
    let (channel, ts) = reaction_item(core, args)?;
    let found = core.joined(&channel)?;
    let Some(message) = found.messages.get(&ts) else { return fail_with("message_not_found") };
    let declared = MetadataView::Declared(&core.options.metadata_subscriptions);
    let message = render::render_message(&core.world, found, message, declared);
    answer_ok(json!({ "type": "message", "channel": channel, "message": Value::Object(message) }))
}
