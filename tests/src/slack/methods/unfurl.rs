//! `link_shared` and `chat.unfurl`: an app shows what is behind links to its own domains.

use serde_json::{Value, json};
use url::Url;

use super::super::SlackServer;
use super::super::actions::{MessageEdit, into_object};
use super::super::args::MethodArgs;
use super::super::blocks;
use super::super::core::SlackCore;
use super::super::failure::{MethodFailure, MethodReply, answer_ok, fail_with};
use super::super::text;
use super::super::world::{MessageSender, SlackMessage};

impl SlackCore {
    /// The links of a message that are of the app's domains.
    fn own_links(&self, message: &SlackMessage) -> Vec<(String, String)> {
        let elements = text::inline_elements(&message.text);
        let urls = elements.iter().filter_map(|one| one["url"].as_str());
        urls.filter_map(|url| Some((self.unfurl_domain(url)?, url.to_owned()))).collect()
    }

    fn unfurl_domain(&self, url: &str) -> Option<String> {
        let host = Url::parse(url).ok()?.host_str()?.to_owned();
        let mut domains = self.options.unfurl_domains.iter();
        domains.find(|own| host == **own || host.ends_with(&format!(".{own}"))).cloned()
    }

    /// Tells the app of links in a message of a person or of another app; its own messages are none of it.
    pub(crate) fn emit_links(&mut self, channel_id: &str, message: &SlackMessage) {
        let links = self.own_links(message);
        let from_app = matches!(message.sender, MessageSender::App { .. });
        let granted = self.options.scopes.iter().any(|scope| scope == "links:read");
        let Some(channel) = self.world.channels.get(channel_id) else { return };
        if links.is_empty() || from_app || !granted {
            return;
        }
        let member = self.world.bot_in(channel);
        let event = json!({
            "type": "link_shared",
            "channel": channel_id,
            "is_bot_user_member": member,
            "user": self.world.author(message),
            "message_ts": message.ts,
            "thread_ts": message.thread_ts,
            "unfurl_id": unfurl_id(channel_id, &message.ts),
            "source": "conversations_history",
            "links": links.iter().map(|(domain, url)| json!({ "domain": domain, "url": url }))
                .collect::<Vec<_>>(),
        });
        let key = self.world.ts();
        self.emit(channel_id, &key, into_object(event));
    }
}

fn unfurl_id(channel: &str, ts: &str) -> String {
    format!("{channel}.{ts}.unfurl")
}

pub(super) fn unfurl_links(core: &mut SlackCore, args: &MethodArgs) -> MethodReply {
    let (channel, ts) = find_place(args)?;
    let Some(found) = core.world.channels.get(&channel) else {
        return fail_with("cannot_find_channel");
    };
    let Some(message) = found.messages.get(&ts) else { return fail_with("cannot_find_message") };
    let Some(Value::Object(unfurls)) = args.json("unfurls", "missing_unfurls")? else {
        return fail_with("missing_unfurls");
    };
    if unfurls.is_empty() {
        return fail_with("missing_unfurls");
    }
    let links: Vec<String> = core.own_links(message).into_iter().map(|(_, url)| url).collect();
    let mut attachments = message.attachments.clone();
    for (url, shown) in unfurls {
        if core.unfurl_domain(&url).is_none() {
            return fail_with("cannot_unfurl_url");
        }
        if !links.contains(&url) {
            return fail_with("cannot_unfurl_message");
        }
        let mut attachment = match shown.get("blocks") {
            Some(given) => json!({ "blocks": blocks::accept_blocks(given)? }),
            None if shown.is_object() => shown,
            None => return fail_with("cannot_parse_attachment"),
        };
        for (name, value) in [
            ("from_url", json!(url)),
            ("app_unfurl_url", json!(url)),
            ("is_app_unfurl", json!(true)),
            ("app_id", json!(core.world.app.id)),
            ("bot_id", json!(core.world.app.bot_id)),
            ("fallback", json!("[no preview available]")),
        ] {
            attachment[name] = value;
        }
        attachments.retain(|known| known["from_url"] != json!(url));
        attachments.push(attachment);
    }
    let edit = MessageEdit { attachments: Some(attachments), ..MessageEdit::default() };
    core.edit(&channel, &ts, edit);
    answer_ok(json!({}))
}

/// Finds the message by channel and ts, or by the ids of the event; a mix of both is refused.
fn find_place(args: &MethodArgs) -> Result<(String, String), MethodFailure> {
    match (args.text("channel"), args.text("ts"), args.text("unfurl_id"), args.text("source")) {
        (Some(channel), Some(ts), None, None) => Ok((channel, ts)),
        (None, None, Some(id), Some(source)) if source == "conversations_history" => {
            let named = id.strip_suffix(".unfurl").and_then(|named| named.split_once('.'));
            let (channel, ts) = named.ok_or_else(|| MethodFailure::new("invalid_unfurl_id"))?;
            Ok((channel.to_owned(), ts.to_owned()))
        }
        (None, Some(_), ..) => fail_with("missing_channel"),
        (Some(_), None, ..) => fail_with("missing_ts"),
        _ => fail_with("invalid_arguments"),
    }
}

impl SlackServer {
    /// The app's configuration names a domain whose links it shows.
    pub fn show_links_of(&self, domain: &str) {
        self.inner.update(|core| core.options.unfurl_domains.push(domain.to_owned()));
    }
}
