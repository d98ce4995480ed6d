//! From what arrived to what is to be done: pure. State is looked at later, where it is changed.

use codebutler_crds::SlackTs;

use crate::EVENT_TYPE;
use crate::api::channel::RepoChannel;
use crate::api::stored_message::StoredMessage;
use crate::inbound::emoji::{EmojiReaction, EmojiSign};
use crate::inbound::event::{
    AssistantOpened, ButtonClick, LinksShared, MessageChange, MessageEvent, ReactionAdded,
    SessionStopped,
};
use crate::inbound::help::{self, HelpWish};
use crate::inbound::own_mention;
use crate::inbound::roadmap_words;
use crate::inbound::unnamed_bot::UnnamedBot;
use crate::questions::{self, ButtonPress};
use crate::text::address;
use crate::text::decision_words::{self, MessageIntent};
use crate::text::feedback::{self, AnswerVerdict, PostedWhy, WhyGiven};
use crate::text::numbered_reply;
use crate::text::person_message::PersonMessage;

/// Action that an envelope leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RouteAction {
    /// A person said something in a Repo's channel.
    Message {
        channel: RepoChannel,
        /// First message of the conversation.
        root: SlackTs,
        /// Who started the conversation, as far as it is known.
        requested_by: String,
        said: PersonMessage,
    },
    /// A person asks what can be asked.
    Help {
        channel: RepoChannel,
        /// First message of the conversation.
        root: SlackTs,
        /// Who started the conversation, as far as it is known.
        requested_by: String,
        said: PersonMessage,
        wish: HelpWish,
    },
    /// A person pressed a button of a question.
    Press {
        channel: RepoChannel,
        /// First message of the conversation.
        root: SlackTs,
        press: ButtonPress,
    },
    /// A person said whether an answer helped.
    Feedback {
        channel: RepoChannel,
        /// First message of the conversation.
        root: SlackTs,
        verdict: AnswerVerdict,
        /// Lets a modal be opened.
        trigger: Option<String>,
    },
    /// A person said why an answer did not.
    Why { channel: RepoChannel, given: WhyGiven },
    /// What somebody said so stands in the conversation, and may be on no record.
    WhyPosted { channel: RepoChannel, posted: PostedWhy },
    /// A person edited or deleted a message.
    Changed {
        channel: RepoChannel,
        /// First message of the conversation.
        root: SlackTs,
        ts: SlackTs,
        /// Time of the change, if Slack sends it.
        at: Option<SlackTs>,
        /// Its words now; None: they are the same, or it was deleted.
        said: Option<PersonMessage>,
    },
    /// A person reacted to a message with something that may be an answer.
    Reaction { channel: RepoChannel, reacted: EmojiReaction },
    /// A person pressed Slack's own stop button.
    Stop {
        channel: RepoChannel,
        /// First message of the conversation.
        root: SlackTs,
        at: SlackTs,
        user: String,
    },
    /// A message has links that may lead to pages.
    Linked {
        /// The app's own Repos there.
        channels: Vec<RepoChannel>,
        ts: SlackTs,
        links: Vec<String>,
    },
    /// A person wrote to the app alone, where nobody works.
    Direct {
        /// The conversation with the app.
        im: String,
        ts: SlackTs,
        /// First message of the thread in it, if it is a reply.
        root: Option<SlackTs>,
        /// Where the app's Repos are, the one that is named first.
        channels: Vec<RepoChannel>,
    },
    /// A person opened the app's own conversation.
    Suggest {
        im: String,
        thread: Option<SlackTs>,
        /// Where the app's Repos are.
        channels: Vec<RepoChannel>,
    },
    /// Nothing.
    Ignore(IgnoredReason),
}

/// Reason why an envelope leads to nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum IgnoredReason {
    /// No Repo of this app names the channel.
    Channel(String),
    /// Said by CodeButler in a channel that no Repo of this app names: another installation's.
    Shared { channel: String, bot: String },
    /// Not said by a person.
    NotAPerson,
    /// Said to CodeButler by a bot that may not write here.
    Unnamed(Box<UnnamedBot>),
    /// A button of somebody else.
    NotOurs,
}

pub(crate) fn route_message(incoming: &MessageEvent, channels: &[RepoChannel]) -> RouteAction {
    match find_channel(&incoming.channel, channels) {
        Some(channel) => route_stored(&incoming.message, channel),
        None if incoming.channel_type == "im" => route_direct(incoming, channels),
        None => RouteAction::Ignore(ignore_foreign(incoming, channels)),
    }
}

fn route_direct(incoming: &MessageEvent, channels: &[RepoChannel]) -> RouteAction {
    let (im, message) = (incoming.channel.clone(), &incoming.message);
    let mut channels = own_channels(channels);
    let text = message.text.as_deref().unwrap_or_default().to_lowercase();
    channels.sort_by_key(|known| !text.contains(&help::place_name(&known.git).to_lowercase()));
    let own = channels.iter().find_map(|known| known.bot_user.as_deref());
    match message.person().filter(|user| Some(*user) != own) {
        Some(_) => {
            let (ts, root) = (message.ts.clone(), message.thread_ts.clone());
            RouteAction::Direct { im, ts, root, channels }
        }
        None => RouteAction::Ignore(IgnoredReason::NotAPerson),
    }
}

/// Routes the opening of the app's own conversation.
pub(crate) fn route_assistant(opened: &AssistantOpened, channels: &[RepoChannel]) -> RouteAction {
    let (im, thread) = (opened.channel.clone(), opened.thread_ts.clone());
    RouteAction::Suggest { im, thread, channels: own_channels(channels) }
}

fn own_channels(channels: &[RepoChannel]) -> Vec<RepoChannel> {
    channels.iter().filter(|known| known.is_own).cloned().collect()
}

fn ignore_foreign(incoming: &MessageEvent, channels: &[RepoChannel]) -> IgnoredReason {
    let (channel, message) = (incoming.channel.clone(), &incoming.message);
    let ours = message.metadata.as_ref().is_some_and(|m| m.event_type == EVENT_TYPE);
    let mut own = channels.iter().filter(|known| known.is_own);
    let bot = own.find_map(|known| known.bot_user.clone());
    match bot.filter(|bot| ours && message.user.as_ref() == Some(bot)) {
        Some(bot) => IgnoredReason::Shared { channel, bot },
        None => IgnoredReason::Channel(channel),
    }
}

/// Routes a message of a Repo's channel, whether it was pushed or read back.
pub(crate) fn route_stored(message: &StoredMessage, channel: &RepoChannel) -> RouteAction {
    let Some(user) = find_speaker(message, channel) else {
        return match feedback::read_posted(message, &channel.id).filter(|_| message.for_person) {
            Some(posted) => RouteAction::WhyPosted { channel: channel.clone(), posted },
            None => RouteAction::Ignore(
                UnnamedBot::of(message, channel).map_or(IgnoredReason::NotAPerson, |called| {
                    IgnoredReason::Unnamed(Box::new(called))
                }),
            ),
        };
    };
    let starter = message.parent_user_id.as_deref().filter(|_| message.thread_ts.is_some());
    let (channel, root) = (channel.clone(), message.root().clone());
    let requested_by = starter.unwrap_or(user).to_owned();
    let said = read_said(message, user, &channel);
    match find_wish(message, &channel).filter(|_| !said.is_bot) {
        Some(wish) => RouteAction::Help { channel, root, requested_by, said, wish },
        None => RouteAction::Message { channel, root, requested_by, said },
    }
}

/// One that brings files is about these.
fn find_wish(message: &StoredMessage, channel: &RepoChannel) -> Option<HelpWish> {
    let text = message.text.as_deref().filter(|_| message.files.is_empty())?;
    help::find_help(text, channel.bot_user.as_deref())
}

/// Finds the author of words that count: a person, or a bot that may write here.
pub(crate) fn find_speaker<'a>(
    message: &'a StoredMessage,
    channel: &RepoChannel,
) -> Option<&'a str> {
    let own = channel.bot_user.as_deref();
    if let Some(user) = message.person() {
        return (Some(user) != own).then_some(user);
    }
    let allowed = |id: &&str| channel.bots.iter().any(|bot| bot == id);
    let (bot, user) = (message.bot_id.as_deref(), message.user.as_deref());
    let known = bot.filter(allowed).or(user.filter(allowed))?;
    (message.is_said() && user.is_none_or(|user| Some(user) != own))
        .then_some(user.unwrap_or(known))
}

/// Routes an edit or a deletion.
pub(crate) fn route_change(changed: &MessageChange, channels: &[RepoChannel]) -> RouteAction {
    let Some(channel) = find_channel(&changed.channel, channels) else {
        return RouteAction::Ignore(IgnoredReason::Channel(changed.channel.clone()));
    };
    let Some(user) = find_speaker(&changed.before, channel) else {
        return RouteAction::Ignore(IgnoredReason::NotAPerson);
    };
    let before = &changed.before;
    // Nobody asks for what Slack adds by itself. A decision stays as it is where only something beside its words
    // changes.
    let is_decided = read_said(before, user, channel).intent.is_some();
    let says_more = |now: &&StoredMessage| {
        let is_same = is_decided && now.text == before.text;
        !is_same && !now.says_like(before)
    };
    let now = changed.now.as_ref().filter(says_more);
    RouteAction::Changed {
        channel: channel.clone(),
        root: changed.before.root().clone(),
        ts: changed.before.ts.clone(),
        at: changed.at.clone(),
        // An edit is never a decision.
        said: now.map(|now| PersonMessage {
            intent: None,
            verdict: None,
            ..read_said(now, user, channel)
        }),
    }
}

/// Reads a person's message: the roles that it addresses, and its wish.
pub(crate) fn read_said(
    message: &StoredMessage,
    user: &str,
    channel: &RepoChannel,
) -> PersonMessage {
    let text = message.text.as_deref().unwrap_or_default();
    let is_bot = message.person().is_none();
    let spoken = message.spoken();
    let mentioned = address::by_person(&spoken, &channel.team.roles, channel.bot_user.as_deref());
    // Said to nobody, or to CodeButler: it is for no role.
    let wish = roadmap_words::find_wish(text, channel.bot_user.as_deref());
    let mentioned = if wish.is_some() { Vec::new() } else { mentioned };
    let words = own_mention::without_own_mention(text, channel.bot_user.as_deref());
    // Decisions are people's.
    let intent = wish.or_else(|| decision_words::read_intent(words)).filter(|_| !is_bot);
    // A yes beside a file, a table or a forwarded message says more than yes. A stop counts all the same.
    let is_whole = !message.brings_more();
    let takes_back =
        |intent: &MessageIntent| matches!(intent, MessageIntent::Stop | MessageIntent::Revoke);
    let verdict = numbered_reply::item_verdict(words).filter(|_| !is_bot);
    let asks_more = intent.filter(|intent| !takes_back(intent) && *intent != MessageIntent::Thanks);
    let is_overlooked = !is_whole && (asks_more.is_some() || verdict.is_some());
    let intent = intent.filter(|intent| is_whole || takes_back(intent));
    let verdict = verdict.filter(|_| is_whole);
    let decides = intent.is_some() || verdict.is_some();
    PersonMessage {
        ts: message.ts.clone(),
        user: user.to_owned(),
        mentioned,
        intent,
        verdict,
        words: decides.then(|| text.to_owned()),
        is_bot,
        is_overlooked,
    }
}

pub(crate) fn route_click(click: &ButtonClick, channels: &[RepoChannel]) -> RouteAction {
    let Some(channel) = find_channel(&click.channel, channels) else {
        return RouteAction::Ignore(IgnoredReason::Channel(click.channel.clone()));
    };
    if click.action_id == feedback::ACTION {
        return route_feedback(click, channel);
    }
    if questions::find_kind(&click.action_id).is_none() && click.action_id != questions::LEARN {
        return RouteAction::Ignore(IgnoredReason::NotOurs);
    }
    RouteAction::Press {
        channel: channel.clone(),
        root: click.root.clone(),
        press: ButtonPress {
            message: click.message.clone(),
            action_id: click.action_id.clone(),
            user: click.user.clone(),
        },
    }
}

fn route_feedback(click: &ButtonClick, channel: &RepoChannel) -> RouteAction {
    let Some((helps, role)) = click.value.as_deref().and_then(feedback::read_value) else {
        return RouteAction::Ignore(IgnoredReason::NotOurs);
    };
    RouteAction::Feedback {
        channel: channel.clone(),
        root: click.root.clone(),
        verdict: AnswerVerdict {
            message: click.message.clone(),
            role: role.to_owned(),
            user: click.user.clone(),
            helps,
            // Without a time, the first press counts.
            at: click.at.clone().unwrap_or_else(|| click.message.clone()),
        },
        trigger: click.trigger.clone(),
    }
}

/// Routes a modal that was filled in.
pub(crate) fn route_why(given: &WhyGiven, channels: &[RepoChannel]) -> RouteAction {
    match find_channel(&given.about.channel, channels) {
        Some(channel) => RouteAction::Why { channel: channel.clone(), given: given.clone() },
        None => RouteAction::Ignore(IgnoredReason::Channel(given.about.channel.clone())),
    }
}

/// Routes Slack's own stop button.
pub(crate) fn route_stop(stopped: &SessionStopped, channels: &[RepoChannel]) -> RouteAction {
    match find_channel(&stopped.channel, channels) {
        Some(channel) => RouteAction::Stop {
            channel: channel.clone(),
            root: stopped.thread_ts.clone(),
            at: stopped.event_ts.clone(),
            user: stopped.user.clone(),
        },
        None => RouteAction::Ignore(IgnoredReason::Channel(stopped.channel.clone())),
    }
}

/// Routes links to the app's domains.
pub(crate) fn route_links(linked: &LinksShared, channels: &[RepoChannel]) -> RouteAction {
    let here = channels.iter().filter(|known| known.id == linked.channel && known.is_own);
    let channels: Vec<RepoChannel> = here.cloned().collect();
    if channels.is_empty() {
        return RouteAction::Ignore(IgnoredReason::NotOurs);
    }
    RouteAction::Linked { channels, ts: linked.message.clone(), links: linked.links.clone() }
}

pub(crate) fn route_reaction(reaction: &ReactionAdded, channels: &[RepoChannel]) -> RouteAction {
    let Some(channel) = find_channel(&reaction.channel, channels) else {
        return RouteAction::Ignore(IgnoredReason::Channel(reaction.channel.clone()));
    };
    let own = channel.bot_user.as_deref();
    match EmojiSign::by_name(&reaction.name) {
        Some(sign) if own != Some(&*reaction.user) => RouteAction::Reaction {
            channel: channel.clone(),
            reacted: EmojiReaction {
                message: reaction.message.clone(),
                sign,
                user: reaction.user.clone(),
                on_ours: reaction.author.is_none() || own == reaction.author.as_deref(),
                at: reaction.at.clone(),
            },
        },
        _ => RouteAction::Ignore(IgnoredReason::NotOurs),
    }
}

fn find_channel<'a>(channel: &str, channels: &'a [RepoChannel]) -> Option<&'a RepoChannel> {
    channels.iter().find(|known| known.id == channel)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::api::frame::SocketFrame;
    use crate::api::lenient::UnreadFields;
    use crate::inbound::event::EnvelopePayload;

    fn channels() -> Vec<RepoChannel> {
        vec![RepoChannel { bots: vec!["B7".to_owned()], ..RepoChannel::test() }]
    }

    fn route(event: Value) -> RouteAction {
        let mut event = event;
        event["type"] = "message".into();
        let frame = json!({"type": "events_api", "payload": {"event": event}});
        let frame: SocketFrame = serde_json::from_value(frame).unwrap();
        let payload = frame.payload(&mut UnreadFields::default());
        let EnvelopePayload::Message(incoming) = payload else { panic!("{payload:?}") };
        route_message(&incoming, &channels())
    }

    #[test]
    fn a_persons_message_goes_to_its_conversation() {
        let root = route(json!({"channel": "C01", "ts": "5.000000", "user": "U1", "text": "hi"}));
        let RouteAction::Message { channel, root, requested_by, said } = root else {
            panic!("{root:?}")
        };
        assert_eq!(channel.thread(&root).name, "shop-5-000000");
        assert_eq!((&*requested_by, &said.mentioned, said.intent), ("U1", &vec![], None));

        let reply = route(json!({"channel": "C01", "ts": "9.000000", "thread_ts": "5.000000",
            "parent_user_id": "U7", "user": "U1", "text": "@codebutler.coder go"}));
        let RouteAction::Message { root, requested_by, said, .. } = reply else {
            panic!("{reply:?}")
        };
        assert_eq!((root.as_str(), &*requested_by), ("5.000000", "U7"));
        assert_eq!(said.mentioned, ["coder"]);
    }

    #[test]
    fn who_asks_for_help_asks_no_role() {
        for text in ["help", "<@U0BOT>"] {
            let asked =
                route(json!({"channel": "C01", "ts": "5.000000", "user": "U1", "text": text}));
            assert!(matches!(asked, RouteAction::Help { .. }), "{text}: {asked:?}");
        }
        let bot = json!({"channel": "C01", "ts": "5.000000", "bot_id": "B7", "text": "help"});
        assert!(matches!(route(bot), RouteAction::Message { .. }));
    }

    #[test]
    fn a_bot_that_may_write_is_heard_and_decides_nothing() {
        let event = json!({"channel": "C01", "ts": "5.000000", "bot_id": "B7", "user": "U7",
            "subtype": "bot_message", "text": "approve"});
        let RouteAction::Message { said, .. } = route(event) else { panic!() };
        assert_eq!((&*said.user, said.intent, said.is_bot), ("U7", None, true));
        let own = json!({"channel": "C01", "ts": "5.000000", "bot_id": "B7", "user": "U0BOT"});
        assert_eq!(route(own), RouteAction::Ignore(IgnoredReason::NotAPerson));
    }

    #[test]
    fn a_yes_beside_something_else_is_no_decision() {
        let heard = |text: &str, more: &Value| {
            let mut event = json!({"channel": "C01", "ts": "9.000000", "thread_ts": "5.000000",
                "user": "U1", "text": text});
            for (name, value) in more.as_object().unwrap() {
                event[name] = value.clone();
            }
            let RouteAction::Message { said, .. } = route(event) else { panic!("{more}") };
            said
        };
        let table = json!({"type": "table", "rows": [[{"type": "raw_text", "text": "a"}]]});
        for more in [
            json!({"subtype": "file_share", "files": [{"id": "F1", "name": "instead.md"}]}),
            json!({"attachments": [{"is_share": true, "text": "no"}]}),
            json!({"attachments": [{"blocks": [table]}]}),
            json!({"blocks": [table]}),
        ] {
            for text in ["approve", "merge", "1 and 3", "merge everything"] {
                let said = heard(text, &more);
                assert_eq!((said.intent, said.verdict, said.words), (None, None, None), "{more}");
                assert!(said.is_overlooked, "{text} {more}");
            }
            assert_eq!(heard("stop", &more).intent, Some(MessageIntent::Stop));
        }
        let alone = json!({});
        assert_eq!(heard("<@U0BOT> approve", &alone).intent, Some(MessageIntent::Approve));
        assert_eq!(heard("@codebutler stop", &alone).intent, Some(MessageIntent::Stop));
        let preview = json!({"attachments": [{"from_url": "https://x/1", "title": "t"}]});
        assert_eq!(heard("approve", &preview).intent, Some(MessageIntent::Approve));
    }

    #[test]
    fn what_no_person_said_in_a_repos_channel_is_ignored() {
        for (event, why) in [
            (
                json!({"channel": "C99", "ts": "5.000000", "user": "U1"}),
                IgnoredReason::Channel("C99".to_owned()),
            ),
            (
                json!({"channel": "C01", "ts": "5.000000", "user": "U0BOT"}),
                IgnoredReason::NotAPerson,
            ),
            (
                json!({"channel": "C01", "ts": "5.000000", "user": "U2", "bot_id": "B2"}),
                IgnoredReason::NotAPerson,
            ),
            (
                json!({"channel": "C01", "ts": "5.000000", "user": "USLACKBOT", "text": "Reminder: @codebutler.coder go."}),
                IgnoredReason::NotAPerson,
            ),
            (
                json!({"channel": "C01", "ts": "5.000000", "bot_id": "B2", "subtype": "bot_message"}),
                IgnoredReason::NotAPerson,
            ),
            (
                json!({"channel": "C01", "ts": "5.000000", "user": "U1", "subtype": "channel_join"}),
                IgnoredReason::NotAPerson,
            ),
            (json!({"channel": "C01", "ts": "5.000000"}), IgnoredReason::NotAPerson),
        ] {
            assert_eq!(route(event.clone()), RouteAction::Ignore(why), "{event}");
        }
    }
}
