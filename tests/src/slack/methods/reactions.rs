//! `reactions.*`.

use serde_json::{Value, json};

use super::super::args::Args;
use super::super::core::Core;
use super::super::failure::{Failure, Reply, answer, fail};
use super::super::render::{self, MetadataView};

fn item(core: &Core, args: &Args) -> Result<(String, String), Failure> {
    let (Some(channel), Some(ts)) = (args.text("channel"), args.text("timestamp")) else {
        return fail("no_item_specified");
    };
    core.writable(&channel)?;
    Ok((channel, ts))
}

pub(super) fn add(core: &mut Core, args: &Args) -> Reply {
    change(core, args, true)
}

pub(super) fn remove(core: &mut Core, args: &Args) -> Reply {
    change(core, args, false)
}

fn change(core: &mut Core, args: &Args, added: bool) -> Reply {
    let name = args.need("name")?;
    let (channel, ts) = item(core, args)?;
    let bot = core.world.app.user_id.clone();
    core.react(&channel, &ts, &bot, &name, added)?;
    answer(json!({}))
}

pub(super) fn get(core: &mut Core, args: &Args) -> Reply {
    let (channel, ts) = item(core, args)?;
    let found = core.joined(&channel)?;
    let Some(message) = found.messages.get(&ts) else { return fail("message_not_found") };
    let declared = MetadataView::Declared(&core.options.metadata_subscriptions);
    let message = render::message(&core.world, found, message, declared);
    answer(json!({ "type": "message", "channel": channel, "message": Value::Object(message) }))
}
