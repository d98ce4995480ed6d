//! Clicks on buttons, and the response URL that comes with them.

use serde_json::{Value, json};
use tokio::time::Instant;

use super::actions::{MessageEdit, MetadataChange, into_object};
use super::args::MethodArgs;
use super::blocks;
use super::core::SlackCore;
use super::delivery::EnvelopeKind;
use super::failure::{MethodFailure, fail_with};
use super::methods::chat::{ChatContent, read_content};
use super::render::{MetadataView, ORIGIN, render_message};
use super::response_hook::ResponseHook;
use super::view::SlackChange;
use super::world::{MessageSender, SlackMessage};

/// Uses and life of a response URL.
const HOOK_USES: u8 = 5;
const HOOK_MINUTES: u64 = 30;

/// Reason why a click is impossible.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NoClick {
    Message,
    Button,
    Hidden,
}

impl SlackCore {
    /// A user clicks a button; returns the click's `action_ts`.
    pub(super) fn click(
        &mut self,
        user: &str,
        channel_id: &str,
        ts: &str,
        action_id: &str,
    ) -> Result<String, NoClick> {
        self.interact(user, (channel_id, ts, action_id), |message| {
            let found = blocks::find_buttons(&message.blocks);
            let button = found.into_iter().find(|button| button.action_id == action_id)?;
            let mut action = json!({
                "action_id": button.action_id,
                "block_id": button.block_id,
                "text": { "type": "plain_text", "text": button.text, "emoji": true },
                "type": "button",
            });
            for (name, value) in
                [("value", button.value), ("style", button.style), ("url", button.url)]
            {
                if let Some(value) = value {
                    action[name] = json!(value);
                }
            }
            Some(action)
        })
    }

    /// A user does something with an element of a message; returns the `action_ts`. `pick`: what Slack says of the
    /// element, if it is there.
    pub(super) fn interact(
        &mut self,
        user: &str,
        (channel_id, ts, action_id): (&str, &str, &str),
        pick: impl FnOnce(&SlackMessage) -> Option<Value>,
    ) -> Result<String, NoClick> {
        let channel = self.world.channels.get(channel_id).ok_or(NoClick::Message)?;
        let message = channel.any_message(ts).ok_or(NoClick::Message)?.clone();
        if !channel.members.contains(user)
            || message.ephemeral_for.as_deref().is_some_and(|only| only != user)
        {
            return Err(NoClick::Hidden);
        }
        let mut action = pick(&message).ok_or(NoClick::Button)?;
        let channel_name = channel.name.clone();
        let mut shown = render_message(
            &self.world,
            channel,
            &message,
            MetadataView::Declared(&self.options.metadata_subscriptions),
        );
        shown.remove("reactions");
        let name = self.world.users.get(user).map(|user| user.name.clone());
        let action_ts = self.world.ts();
        let hook = uuid::Uuid::new_v4().simple().to_string();
        self.hooks.insert(
            hook.clone(),
            ResponseHook {
                channel: channel_id.to_owned(),
                ts: ts.to_owned(),
                user: user.to_owned(),
                uses: HOOK_USES,
                created: Instant::now(),
            },
        );
        let mut container = json!({
            "type": "message",
            "message_ts": ts,
            "channel_id": channel_id,
            "is_ephemeral": message.ephemeral_for.is_some(),
        });
        if let Some(root) = &message.thread_ts {
            container["thread_ts"] = json!(root);
        }
        action["action_ts"] = json!(action_ts);
        let trigger = self.issue_trigger(user, &action_ts);
        let mut payload = into_object(json!({
            "type": "block_actions",
            "user": { "id": user, "username": name, "name": name, "team_id": self.world.team_of(user) },
            "api_app_id": self.world.app.id,
            "token": "verification-token",
            "container": container,
            "trigger_id": trigger,
            "team": { "id": self.world.team.id, "domain": self.world.team.domain },
            "enterprise": null,
            "is_enterprise_install": false,
            "channel": { "id": channel_id, "name": channel_name },
            "state": { "values": {} },
            "response_url": format!("{ORIGIN}/actions/{hook}"),
            "actions": [action],
        }));
        // Slack does not show the app an ephemeral message again.
        if message.ephemeral_for.is_none() {
            payload.insert("message".to_owned(), Value::Object(shown));
        }
        self.announce(SlackChange::Clicked {
            channel: channel_id.to_owned(),
            ts: ts.to_owned(),
            user: user.to_owned(),
            action_id: action_id.to_owned(),
            action_ts: action_ts.clone(),
        });
        let kind = EnvelopeKind::Interactive;
        self.dispatcher.emit(kind, "block_actions", &action_ts, None, Value::Object(payload));
        Ok(action_ts)
    }

    /// A call of a response URL.
    pub(super) fn respond(&mut self, token: &str, args: &MethodArgs) -> Result<(), MethodFailure> {
        let Some(hook) = self.hooks.get_mut(token) else { return fail_with("no_such_url") };
        if hook.created.elapsed().as_secs() > HOOK_MINUTES * 60 {
            return fail_with("expired_url");
        }
        if hook.uses == 0 {
            return fail_with("used_url");
        }
        hook.uses -= 1;
        let hook = hook.clone();
        let ephemeral = self
            .world
            .channels
            .get(&hook.channel)
            .is_some_and(|channel| channel.ephemerals.contains_key(&hook.ts));
        if args.flag("delete_original") {
            if ephemeral && let Some(channel) = self.world.channels.get_mut(&hook.channel) {
                channel.ephemerals.remove(&hook.ts);
            } else {
                self.delete(&hook.channel, &hook.ts);
            }
            return Ok(());
        }
        let content = read_content(args)?;
        if args.flag("replace_original") {
            self.replace_original(&hook, ephemeral, content);
            return Ok(());
        }
        let sender = MessageSender::App { username: None, icon_emoji: None, icon_url: None };
        let mut message = SlackMessage::draft(sender, content.text.unwrap_or_default());
        message.blocks = content.blocks.unwrap_or_default();
        message.attachments = content.attachments.unwrap_or_default();
        message.thread_ts = args.text("thread_ts");
        if args.text("response_type").as_deref() != Some("in_channel") {
            message.ephemeral_for = Some(hook.user);
        }
        self.post(&hook.channel, message);
        Ok(())
    }

    fn replace_original(&mut self, hook: &ResponseHook, ephemeral: bool, content: ChatContent) {
        if !ephemeral {
            let marked = content.blocks.is_none();
            let edit = MessageEdit {
                text: Some(content.text.unwrap_or_default()),
                blocks: Some(content.blocks.unwrap_or_default()),
                attachments: content.attachments,
                metadata: MetadataChange::Keep,
                marked,
            };
            self.edit(&hook.channel, &hook.ts, edit);
            return;
        }
        let channel = self.world.channels.get_mut(&hook.channel);
        let message = channel.and_then(|channel| channel.ephemerals.get_mut(&hook.ts));
        let Some(message) = message else { return };
        message.text = content.text.unwrap_or_default();
        message.blocks = content.blocks.unwrap_or_default();
        let message = message.clone();
        if let Some(channel) = self.world.channels.get(&hook.channel) {
            let message = self.view(channel, &message);
            self.announce(SlackChange::Ephemeral { message });
        }
    }
}
