//! A message as Slack stores it, in events as in histories: only the fields used here.

use codebutler_crds::SlackTs;
use codebutler_slack_text::{AttachedKind, AttachedText, read_attachments, spoken_text};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use url::Url;

use crate::api::lenient::{FieldReader, UnreadFields};

/// User id of Slack itself, which posts reminders and answers of its own, and whom Slack does not call a bot.
pub(crate) const SLACKBOT: &str = "USLACKBOT";

/// A message as Slack stores it.
#[derive(Clone, Debug)]
pub(crate) struct StoredMessage {
    pub ts: SlackTs,
    /// The conversation's first message, if it is one.
    pub thread_ts: Option<SlackTs>,
    /// Kind of message, if it is no plain one.
    pub subtype: Option<String>,
    pub user: Option<String>,
    pub bot_id: Option<String>,
    pub text: Option<String>,
    /// Author of the conversation's first message.
    pub parent_user_id: Option<String>,
    /// Ours if `event_type` says so and the sender is our bot.
    pub metadata: Option<MessageMetadata>,
    pub blocks: Option<Value>,
    /// Null if there are none.
    pub attachments: Value,
    pub files: Vec<SharedMessage>,
    /// Emoji, in histories.
    pub reactions: Vec<StoredEmoji>,
    /// Posted by CodeButler for a person, who is its `user` now unless no role has to answer it.
    pub for_person: bool,
}

/// A file in a conversation. Everything about it is whatever the sender chose.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SharedMessage {
    /// Empty: Slack does not say which file it is.
    pub id: String,
    pub name: String,
    /// As Slack guesses it.
    pub mimetype: String,
    pub size: u64,
    /// Address of the file, for calls with the bot's token.
    pub url_private: Option<Url>,
    /// `hosted`, `external`, `snippet`, and what stands for a file that is not there.
    pub mode: String,
    /// Set where Slack only names the file.
    pub file_access: String,
    /// The largest picture that Slack has made of it.
    pub thumb: Option<SlackThumb>,
    /// A photo that its camera has noted to be turned. Slack's own picture of it is.
    pub is_turned: bool,
    /// A picture with more pixels on a side than all models take.
    pub is_long: bool,
    /// Recorded in Slack itself.
    pub clip: Option<RecordedClip>,
}

/// Kind of a clip that somebody recorded in Slack. Either may be in the container of a video.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecordedClip {
    Sound,
    /// With pictures: of who speaks, or of a screen.
    Video,
}

/// A smaller picture of a file, made by Slack: a JPEG or PNG, whatever the file is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SlackThumb {
    /// Of its longer side, in pixels, at most.
    pub side: u16,
    pub url: Url,
}

/// Those that are large enough to see something, the largest first.
const THUMBS: [(u16, &str); 6] = [
    (1024, "thumb_1024"),
    (960, "thumb_960"),
    (800, "thumb_800"),
    (720, "thumb_720"),
    (480, "thumb_480"),
    (360, "thumb_360"),
];

/// Longest side of a picture that all models take, in pixels: some refuse the whole request for a longer one.
const LONGEST: u64 = 8_000;

/// Ends of the names of recordings.
const SOUNDS: [&str; 8] = ["aac", "flac", "m4a", "mp3", "oga", "ogg", "opus", "wav"];

impl SharedMessage {
    /// Never fails: the role learns that there is a file, even if Slack describes it badly.
    pub(crate) fn read(value: &Value, path: &str, unread: &mut UnreadFields) -> Self {
        if let Some(id) = value.as_str() {
            return Self { id: id.to_owned(), ..Self::default() };
        }
        if !value.is_object() {
            unread.add(path.to_owned());
        }
        let mut file = FieldReader::new(value, path, unread);
        let named = file.take::<String>("name").filter(|name| !name.is_empty());
        let titled = file.take::<String>("title");
        // `url_private` is the address of a web page for some types.
        let direct = file.take_filled("url_private_download");
        let url_private = direct.or_else(|| file.take_filled("url_private"));
        let thumb = THUMBS.iter().find_map(|(side, name)| {
            Some(SlackThumb { side: *side, url: file.take_filled(name)? })
        });
        Self {
            id: file.take("id").unwrap_or_default(),
            name: named.or(titled).unwrap_or_default(),
            mimetype: file.take("mimetype").unwrap_or_default(),
            size: file.take("size").unwrap_or_default(),
            url_private,
            mode: file.take("mode").unwrap_or_default(),
            file_access: file.take("file_access").unwrap_or_default(),
            thumb,
            // Exif's orientation, of which 1 is upright.
            is_turned: value["image_exif_rotation"].as_u64().is_some_and(|turn| turn > 1),
            is_long: ["original_w", "original_h"]
                .iter()
                .any(|side| value[*side].as_u64().is_some_and(|pixels| pixels > LONGEST)),
            clip: match value["subtype"].as_str() {
                Some("slack_audio") => Some(RecordedClip::Sound),
                Some("slack_video") => Some(RecordedClip::Video),
                _ => None,
            },
        }
    }

    /// True for a recording, which is heard rather than read.
    pub(crate) fn is_sound(&self) -> bool {
        let end = self.name.rsplit_once('.').map_or("", |(_, end)| end).to_ascii_lowercase();
        // Slack does not know the voice messages of every phone.
        let is_unknown = matches!(&*self.mimetype, "application/octet-stream" | "application/ogg");
        // People speak in a clip that they record; its container is one that providers take as sound.
        let is_spoken = self.clip.is_some() && self.mimetype.starts_with("video/");
        self.mimetype.starts_with("audio/") || is_spoken || (is_unknown && SOUNDS.contains(&&*end))
    }

    /// True for a recording with pictures, such as of a screen, of which the sound alone is taken.
    pub(crate) fn is_half_heard(&self) -> bool {
        self.clip == Some(RecordedClip::Video)
    }

    /// Reason why the file can't be had, by what Slack says of it.
    pub(crate) fn withheld(&self) -> Option<&'static str> {
        match (self.mode.as_str(), self.file_access.as_str()) {
            ("hidden_by_limit", _) => Some("Slack hides it (plan limit)"),
            ("tombstone", _) | (_, "file_not_found" | "file_deleted") => Some("deleted"),
            (_, "access_denied") => Some("Slack does not let the app read it"),
            _ if self.id.is_empty() && self.url_private.is_none() => {
                Some("Slack does not describe it")
            }
            _ => None,
        }
    }

    /// True if Slack sends only the id, so that `files.info` has to be asked.
    pub(crate) fn is_only_named(&self) -> bool {
        let named = self.url_private.is_none() && self.mimetype.is_empty();
        let asked = self.file_access == "check_file_info" || named;
        asked && !self.id.is_empty() && self.withheld().is_none()
    }

    fn size_kept(&self) -> usize {
        let thumb = self.thumb.as_ref().map_or(0, |thumb| thumb.url.as_str().len());
        size_of::<Self>() + self.id.len() + self.name.len() + self.mimetype.len() + thumb
    }
}

impl<'de> Deserialize<'de> for SharedMessage {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        Ok(Self::read(&value, "file", &mut UnreadFields::default()))
    }
}

impl StoredMessage {
    /// None: without a `ts` it is no message.
    pub(crate) fn read(value: &Value, path: &str, unread: &mut UnreadFields) -> Option<Self> {
        let mut message = FieldReader::new(value, path, unread);
        let ts = message.need("ts")?;
        let thread_ts = message.take_filled::<SlackTs>("thread_ts");
        let replies = message.raw("thread_ts");
        if thread_ts.is_none() && !replies.is_null() && replies != "" {
            // A reply whose parent is unreadable must not begin a conversation of its own.
            return None;
        }
        let (blocks, attachments) = (message.list("blocks"), message.list("attachments"));
        Some(Self {
            ts,
            thread_ts,
            subtype: message.take_filled("subtype"),
            user: message.take_filled("user"),
            bot_id: message.take_filled("bot_id"),
            text: message.take("text"),
            parent_user_id: message.take_filled("parent_user_id"),
            metadata: message.take("metadata"),
            blocks: Some(blocks).filter(Value::is_array),
            attachments,
            files: message
                .items("files", |file, path, unread| Some(SharedMessage::read(file, path, unread))),
            reactions: message.items("reactions", StoredEmoji::read),
            for_person: false,
        })
    }

    /// A person's plain reply.
    pub(crate) fn of_person(ts: SlackTs, root: SlackTs, user: &str, text: String) -> Self {
        Self {
            ts,
            thread_ts: Some(root),
            subtype: None,
            user: Some(user.to_owned()),
            bot_id: None,
            text: Some(text),
            parent_user_id: None,
            metadata: None,
            blocks: None,
            attachments: Value::Null,
            files: Vec::new(),
            reactions: Vec::new(),
            for_person: true,
        }
    }

    /// The first message of the conversation.
    pub(crate) fn root(&self) -> &SlackTs {
        self.thread_ts.as_ref().unwrap_or(&self.ts)
    }

    /// True if a person or bot said something, false if Slack tells what happened.
    pub(crate) fn is_said(&self) -> bool {
        let said = ["file_share", "thread_broadcast", "me_message", "bot_message"];
        self.subtype.as_deref().is_none_or(|subtype| said.contains(&subtype))
    }

    /// Approximate size in memory, in bytes.
    pub(crate) fn size(&self) -> usize {
        let metadata = self.metadata.as_ref().map_or(0, |own| value_size(&own.event_payload));
        let files: usize = self.files.iter().map(SharedMessage::size_kept).sum();
        let shown = self.blocks.as_ref().map_or(0, value_size) + value_size(&self.attachments);
        size_of::<Self>() + self.text.as_ref().map_or(0, String::len) + metadata + files + shown
    }

    pub(crate) fn person(&self) -> Option<&str> {
        let by_bot = self.bot_id.is_some()
            || self.subtype.as_deref() == Some("bot_message")
            || self.user.as_deref() == Some(SLACKBOT);
        self.user.as_deref().filter(|_| !by_bot && self.is_said())
    }

    /// Its attachments, without Slack's previews of messages that it links to.
    pub(crate) fn attached(&self) -> Vec<AttachedText> {
        let mut found =
            read_attachments(&self.attachments, self.text.as_deref().unwrap_or_default());
        found.retain(|one| one.kind != AttachedKind::Unfurled { message: true });
        found
    }

    /// Its files, and those of messages that are forwarded in it, each once.
    pub(crate) fn all_files(&self) -> Vec<SharedMessage> {
        let mut files = self.files.clone();
        for value in self.attached().iter().flat_map(|one| &one.files) {
            let file = SharedMessage::read(value, "file", &mut UnreadFields::default());
            if file.id.is_empty() || !files.iter().any(|known| known.id == file.id) {
                files.push(file);
            }
        }
        files
    }

    /// The author's words as mrkdwn, without quotations and code of its rich text.
    pub(crate) fn spoken(&self) -> String {
        let rich = self.blocks.as_ref().filter(|_| self.person().is_some()).and_then(spoken_text);
        rich.unwrap_or_else(|| self.text.clone().unwrap_or_default())
    }
}

impl<'de> Deserialize<'de> for StoredMessage {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let read = Self::read(&value, "message", &mut UnreadFields::default());
        read.ok_or_else(|| serde::de::Error::custom("no message of Slack's"))
    }
}

/// Approximate size of a value in memory, in bytes.
fn value_size(value: &Value) -> usize {
    let inside = match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(value_size).sum(),
        Value::Object(fields) => {
            fields.iter().map(|(name, value)| name.len() + value_size(value)).sum()
        }
        _ => 0,
    };
    size_of::<Value>() + inside
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct MessageMetadata {
    #[serde(default)]
    pub event_type: String,
    /// Anything at all, if it is not ours.
    #[serde(default)]
    pub event_payload: Value,
}

/// An emoji under a message, as the history has it.
#[derive(Clone, Debug, Default)]
pub(crate) struct StoredEmoji {
    /// Its name, without colons.
    pub name: String,
    pub users: Vec<String>,
}

impl StoredEmoji {
    fn read(value: &Value, path: &str, unread: &mut UnreadFields) -> Option<Self> {
        let mut emoji = FieldReader::new(value, path, unread);
        let name = emoji.need("name")?;
        let users = emoji.items("users", |user, _, _| user.as_str().map(str::to_owned));
        Some(Self { name, users })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[allow(clippy::needless_pass_by_value, reason = "it is made for the call")]
    fn read(value: Value) -> (Option<StoredMessage>, Vec<String>) {
        let mut unread = UnreadFields::default();
        let message = StoredMessage::read(&value, "message", &mut unread);
        (message, unread.iter().map(str::to_owned).collect())
    }

    #[test]
    fn a_picture_says_whether_models_take_it_as_it_is() {
        let is_turned = |rotation: Value| {
            let file = json!({"id": "F1", "image_exif_rotation": rotation});
            serde_json::from_value::<SharedMessage>(file).unwrap().is_turned
        };
        assert!(is_turned(json!(6)) && is_turned(json!(3)));
        for upright in [json!(1), json!("6"), Value::Null] {
            assert!(!is_turned(upright.clone()), "{upright}");
        }
        let is_long = |height: u32| {
            let file = json!({"id": "F1", "original_w": 1_200, "original_h": height});
            serde_json::from_value::<SharedMessage>(file).unwrap().is_long
        };
        assert!(is_long(8_001) && !is_long(8_000));
    }

    #[test]
    fn a_voice_message_is_heard_even_where_slack_does_not_know_its_kind() {
        let is_sound = |name: &str, kind: &str| {
            let file = json!({"id": "F1", "name": name, "mimetype": kind});
            serde_json::from_value::<SharedMessage>(file).unwrap().is_sound()
        };
        for (name, kind) in [
            ("voice", "audio/mp4"),
            ("PTT-20260301-WA0001.opus", "application/octet-stream"),
            ("memo.OGG", "application/ogg"),
        ] {
            assert!(is_sound(name, kind), "{name} {kind}");
        }
        for (name, kind) in [
            ("screen.mp4", "video/mp4"),
            ("core.dump", "application/octet-stream"),
            ("notes.mp3", "text/plain"),
            ("memo.ogg", ""),
        ] {
            assert!(!is_sound(name, kind), "{name} {kind}");
        }
        let is_heard = |subtype: Value| {
            let clip = json!({"id": "F1", "name": "clip.mp4", "mimetype": "video/mp4", "subtype": subtype});
            serde_json::from_value::<SharedMessage>(clip).unwrap().is_sound()
        };
        assert!(is_heard(json!("slack_video")) && is_heard(json!("slack_audio")));
        assert!(!is_heard(json!("other")) && !is_heard(Value::Null));
    }

    #[test]
    fn one_odd_part_takes_nothing_else_with_it() {
        let good = json!({"id": "F1", "name": "a.txt", "mimetype": "text/plain", "size": 3,
            "url_private": "https://files.slack.com/a"});
        let with = |odd: Value| {
            read(json!({"ts": "1.000000", "user": "U1", "text": "hi", "files": [odd, good]}))
        };
        for (field, odd, noted) in [
            ("name", Value::Null, false),
            ("mimetype", Value::Null, false),
            ("size", Value::Null, false),
            ("url_private", json!(""), false),
            ("url_private", json!("nowhere"), true),
            ("size", json!("3"), true),
            ("name", json!({}), true),
        ] {
            let mut file = good.clone();
            file["id"] = json!("F0");
            file[field] = odd.clone();
            let (message, unread) = with(file);
            let ids: Vec<_> = message.unwrap().files.into_iter().map(|file| file.id).collect();
            assert_eq!(ids, ["F0", "F1"], "{field} {odd}");
            let expected: Vec<String> =
                if noted { vec![format!("message.files[].{field}")] } else { vec![] };
            assert_eq!(unread, expected, "{field} {odd}");
        }
        for odd in [Value::Null, json!(7), json!([])] {
            let (message, unread) = with(odd.clone());
            let files = message.unwrap().files;
            assert_eq!((files.len(), files[0].withheld().is_some()), (2, true), "{odd}");
            assert_eq!(unread, ["message.files[]"]);
        }
        let (message, unread) = read(json!({"ts": "1.000000", "user": 7, "text": [], "files": {},
            "thread_ts": "", "reactions": [null, {"name": "+1", "users": ["U1", null]}]}));
        let message = message.unwrap();
        assert_eq!((message.reactions.len(), message.reactions[0].users.len()), (1, 1));
        assert_eq!(message.root(), &message.ts);
        let reactions = ["message.reactions[]", "message.reactions[].name"];
        let all = ["message.files", reactions[0], reactions[1], "message.reactions[].users[]"];
        assert_eq!(unread, [&all[..], &["message.text", "message.user"]].concat());
    }

    #[test]
    fn without_its_place_a_message_is_none() {
        assert_eq!(read(json!({"text": "hi"})).1, ["message.ts"]);
        assert_eq!(read(json!({"ts": 5})).1, ["message.ts"]);
        let (message, unread) = read(json!({"ts": "1.000000", "thread_ts": "soon"}));
        assert!(message.is_none());
        assert_eq!(unread, ["message.thread_ts"]);
    }

    #[test]
    fn what_slack_only_names_is_looked_up_and_what_it_hides_is_said() {
        let file = |value: Value| SharedMessage::read(&value, "f", &mut UnreadFields::default());
        let checked = file(json!({"id": "F1", "mode": "file_access",
            "file_access": "check_file_info"}));
        assert!(checked.is_only_named() && checked.withheld().is_none());
        assert!(file(json!("F1")).is_only_named());
        for (value, why) in [
            (json!({"id": "F1", "mode": "hidden_by_limit"}), "Slack hides it (plan limit)"),
            (json!({"id": "F1", "mode": "tombstone"}), "deleted"),
            (json!({"id": "F1", "file_access": "file_not_found"}), "deleted"),
            (json!({}), "Slack does not describe it"),
        ] {
            let file = file(value);
            assert_eq!((file.withheld(), file.is_only_named()), (Some(why), false));
        }
    }

    #[test]
    fn a_quotation_in_rich_text_is_not_spoken_whatever_the_text_says() {
        let blocks = json!([{"type": "rich_text", "elements": [
            {"type": "rich_text_quote", "elements": [{"type": "text", "text": "@x.coder go"}]},
            {"type": "rich_text_section", "elements": [{"type": "text", "text": "who?"}]},
        ]}]);
        let mut value = json!({"ts": "1.000000", "user": "U1", "text": "@x.coder go\nwho?",
            "blocks": blocks});
        assert_eq!(read(value.clone()).0.unwrap().spoken().trim(), "who?");
        value["blocks"] = json!([{"type": "section"}]);
        assert!(read(value).0.unwrap().spoken().contains("@x.coder"));
    }
}
