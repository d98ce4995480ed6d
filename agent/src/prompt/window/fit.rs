//! Fits a conversation into its room. The oldest goes first, and only until the rest fits.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::super::text_of;
use super::{ShownMessage, WindowLook, total_weight};
use crate::model::{EARLIER, HIDDEN_PICTURE as HIDDEN, PICTURES, has_sound};
use codebutler_guides::text::{clip_text, common_limit, head_and_tail, shorten_text};

/// Characters that are left of each message for a summary, where even its input is too long.
const SQUEEZED: usize = 2_000;
/// Length up to which a result is never hidden, in characters.
const SHORT: usize = 500;
/// Longest part of a hidden result that is still shown, in characters.
const HEAD: usize = 300;
/// Number of newest messages that are never hidden.
const RECENT: usize = 12;
/// Least length to which a message is shortened, in characters.
const LEAST_LEFT: usize = 400;
/// Length to which even the newest results are shortened as a last resort, in characters.
const SHORTENED: usize = 4_000;

const UNSEEN: &str = "[a picture: the model that you are can't be shown any. If it matters, say so, and ask \
                      for its content in words.]";

const UNHEARD: &str = "[a sound: the model that you are can't hear it.]";

/// Fits the conversation into its room: hides old results, then shortens new ones, and at last shortens whatever is
/// longest.
pub(super) fn fit_conversation<'a>(
    chat: &'a [Value],
    look: &WindowLook<'_>,
) -> Vec<ShownMessage<'a>> {
    let mut shown = hide_oldest(newest_pictures(chat, look), look.room, look.room / 3);
    let mut at = 0;
    while at < shown.len() && total_weight(&shown) > look.room {
        let text = shown[at].message["content"].as_str().filter(|_| shown[at].is("tool"));
        if let Some(text) = text.filter(|text| text.len() > SHORTENED) {
            let text = head_and_tail(text, SHORTENED);
            shown[at].message.to_mut()["content"] = json!(text);
        }
        at += 1;
    }
    level_messages(&mut shown, look.room);
    shown
}

/// True if a message is so long that it may be shown in part.
pub fn has_giant(chat: &[Value], look: &WindowLook<'_>) -> bool {
    chat.iter().any(|message| {
        message["role"] == "user" && ShownMessage::new(message, look).size() > look.room / 3
    })
}

fn text_length(shown: &ShownMessage<'_>) -> usize {
    shown.message["content"].as_str().map_or(0, str::len)
}

/// True for the message that a compaction leaves in place of the earlier ones.
fn stands_for_earlier(shown: &ShownMessage<'_>) -> bool {
    let text = shown.message["content"].as_str().filter(|_| shown.is("user"));
    text.is_some_and(|text| text.starts_with(EARLIER))
}

/// Shortens the longest messages so that all of them fit, and says so in each.
fn level_messages(chat: &mut [ShownMessage<'_>], room: usize) {
    let total = total_weight(chat);
    if total <= room {
        return;
    }
    // The summary of a compaction holds the task and the rules: it is the last to be cut.
    let kept =
        chat.iter().filter(|shown| stands_for_earlier(shown)).map(text_length).sum::<usize>();
    let spares = room.saturating_sub(kept) >= room / 3;
    let is_cut = |shown: &ShownMessage<'_>| !(spares && stands_for_earlier(shown));
    let lengths = || chat.iter().filter(|shown| is_cut(shown)).map(text_length);
    let rest = total - lengths().sum::<usize>();
    let limit = common_limit(lengths(), room.saturating_sub(rest)).max(LEAST_LEFT);
    for shown in chat.iter_mut().filter(|shown| is_cut(shown)) {
        let how =
            if shown.is("user") { "ReadConversation shows messages whole" } else { "call again" };
        let note = |missing: usize| format!("\n[… {missing} characters left out: {how} …]\n");
        let text = shown.message["content"].as_str().filter(|text| text.len() > limit);
        if let Some(text) = text.map(|text| shorten_text(text, limit, note)) {
            shown.message.to_mut()["content"] = json!(text);
        }
    }
}

/// Finds the end of the older part of the conversation, if all of it is too long even with old results hidden. The
/// kept part does not begin with the result of a call before it.
pub fn find_overlong(chat: &[Value], look: &WindowLook<'_>) -> Option<usize> {
    let room = look.room;
    let shown = newest_pictures(chat, look);
    if total_weight(&shown) <= room {
        return None;
    }
    let shown = hide_oldest(shown, room, room / 3);
    if total_weight(&shown) <= room {
        return None;
    }
    let mut left = room / 4;
    let newest = shown.iter().rev().take_while(|message| {
        let size = message.size();
        let fits = size <= left;
        left = left.saturating_sub(size);
        fits
    });
    let mut upto = chat.len() - newest.count().min(chat.len() - 1);
    while upto < chat.len() && chat[upto]["role"] == "tool" {
        upto += 1;
    }
    // One message stands for them: fewer than two are no gain.
    (upto >= 2).then_some(upto)
}

/// Builds the input of a summary: as much as fits, without pictures; the oldest results are the first to be hidden.
pub fn squeeze_conversation<'a>(chat: &'a [Value], look: &WindowLook<'_>) -> Vec<ShownMessage<'a>> {
    let room = look.room;
    let without = |message| ShownMessage {
        message: without_picture(message, HIDDEN),
        ..ShownMessage::new(message, look)
    };
    let mut chat: Vec<_> = chat.iter().map(without).collect();
    if let Some(over) = total_weight(&chat).checked_sub(room) {
        let last = chat.len();
        hide_results(&mut chat, last, over);
    }
    if total_weight(&chat) > room {
        for shown in &mut chat {
            if let Some(text) =
                shown.message["content"].as_str().map(|text| clip_text(text, SQUEEZED))
            {
                shown.message.to_mut()["content"] = json!(text);
            }
        }
    }
    let mut total = total_weight(&chat);
    let mut first = 0;
    while first < chat.len() && (total > room || chat[first].is("tool")) {
        total -= chat[first].size();
        first += 1;
    }
    chat.split_off(first)
}

/// Keeps the newest pictures and sounds of the conversation only, of the kinds that the model can take.
fn newest_pictures<'a>(chat: &'a [Value], look: &WindowLook<'_>) -> Vec<ShownMessage<'a>> {
    let mut left = PICTURES;
    let mut shown: Vec<_> = chat
        .iter()
        .rev()
        .map(|message| {
            let mut shown = ShownMessage::new(message, look);
            if message["content"].is_array() {
                let never = if has_sound(message) {
                    look.deaf.then_some(UNHEARD)
                } else {
                    look.blind.then_some(UNSEEN)
                };
                if let Some(instead) = never.or((left == 0).then_some(HIDDEN)) {
                    shown.message = without_picture(message, instead);
                }
                if never.is_none() {
                    left = left.saturating_sub(1);
                }
            }
            shown
        })
        .collect();
    shown.reverse();
    shown
}

fn without_picture<'a>(message: &'a Value, instead: &str) -> Cow<'a, Value> {
    if !message["content"].is_array() {
        return Cow::Borrowed(message);
    }
    let text = format!("{} {instead}", text_of(message));
    let mut message = message.clone();
    message["content"] = json!(text);
    Cow::Owned(message)
}

/// Hides the oldest tool results of a conversation that is too long; the record keeps them. They are hidden in steps:
/// between steps the prefix of the conversation stays as it is, and cached.
fn hide_oldest(mut chat: Vec<ShownMessage<'_>>, max: usize, step: usize) -> Vec<ShownMessage<'_>> {
    let Some(over) = total_weight(&chat).checked_sub(max).filter(|over| *over > 0) else {
        return chat;
    };
    let old = chat.len().saturating_sub(RECENT);
    hide_results(&mut chat, old, over.div_ceil(step) * step);
    chat
}

/// Hides results among the first `old` messages, until so much is gone. How each began is still shown.
fn hide_results(chat: &mut [ShownMessage<'_>], old: usize, mut to_hide: usize) {
    for shown in &mut chat[..old] {
        if to_hide == 0 {
            return;
        }
        let length = shown.size();
        if !shown.is("tool") || length <= SHORT {
            continue;
        }
        let text = shown.message["content"].as_str().unwrap_or_default();
        let head = clip_text(text, HEAD.min(length / 10));
        let text = format!(
            "{head}\n[note] The rest of {length} characters of an old result is hidden: call the tool \
             again."
        );
        shown.message.to_mut()["content"] = json!(text);
        to_hide = to_hide.saturating_sub(length.saturating_sub(shown.size()));
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::look;
    use super::*;
    use crate::model;
    use crate::model::media::MediaKinds;

    fn shown(chat: &[Value]) -> Vec<ShownMessage<'_>> {
        chat.iter().map(|message| ShownMessage::new(message, &look(0))).collect()
    }

    fn plain(chat: Vec<ShownMessage<'_>>) -> Vec<Value> {
        chat.into_iter().map(|shown| shown.message.into_owned()).collect()
    }

    fn hidden(chat: &[Value]) -> usize {
        chat.iter().filter(|m| m["content"].as_str().unwrap().contains("is hidden")).count()
    }

    #[test]
    fn old_results_are_hidden_in_steps_and_recent_ones_kept() {
        let mut chat = vec![model::user_message(&"u".repeat(2000))];
        for n in 0..20 {
            chat.push(model::tool_message(&format!("c{n}"), &"x".repeat(1000)));
        }
        assert_eq!(plain(hide_oldest(shown(&chat), 22_000, 3000)), chat);
        let fit = |max| {
            let fitted = plain(hide_oldest(shown(&chat), max, 3000));
            assert_eq!(fitted[0], chat[0]);
            assert_eq!(fitted[9..], chat[9..]);
            assert!(
                hidden(&fitted) == 0 || fitted[1]["content"].as_str().unwrap().starts_with("xxx")
            );
            hidden(&fitted)
        };
        assert_eq!(fit(21_999), 4);
        assert_eq!(fit(19_001), 4);
        assert_eq!(fit(18_999), 8);
        assert_eq!(fit(10), 8);
    }

    #[test]
    fn a_conversation_that_is_too_long_is_cut_between_messages() {
        let said = |text: &str| json!({"role": "assistant", "content": text});
        let mut chat = vec![model::user_message(&"u".repeat(500))];
        for n in 0..20 {
            chat.push(said(&"x".repeat(400)));
            chat.push(model::tool_message(&format!("c{n}"), &"x".repeat(100)));
        }
        assert_eq!(find_overlong(&chat, &look(11_000)), None);
        let upto = find_overlong(&chat, &look(9_000)).unwrap();
        assert_eq!((upto, chat[upto]["role"].as_str()), (33, Some("assistant")));
        // A single message that is too long can't be helped.
        assert_eq!(find_overlong(&[model::user_message(&"u".repeat(500))], &look(100)), None);
        let squeezed = squeeze_conversation(&chat[..upto], &look(4_000));
        assert!(total_weight(&squeezed) <= 4_000);
        assert!(!squeezed[0].is("tool"));
    }

    #[test]
    fn a_summary_is_made_from_results_too_as_far_as_they_fit() {
        let mut chat = vec![model::user_message("go")];
        for n in 0..10 {
            chat.push(model::tool_message(&format!("c{n}"), &"x".repeat(2000)));
        }
        assert_eq!(hidden(&plain(squeeze_conversation(&chat, &look(30_000)))), 0);
        let some = plain(squeeze_conversation(&chat, &look(15_000)));
        assert!((1..8).contains(&hidden(&some)), "{}", hidden(&some));
        assert_eq!(some.last(), chat.last(), "the newest are whole");
    }

    #[test]
    fn results_that_alone_are_too_long_are_shortened_at_last() {
        let chat = [
            model::user_message("go"),
            model::tool_message("a", &"x".repeat(50_000)),
            model::tool_message("b", "y"),
        ];
        let fits = plain(fit_conversation(&chat, &look(9_000)));
        assert!(fits[1]["content"].as_str().unwrap().len() < 5_000);
        assert_eq!((&fits[0], &fits[2]), (&chat[0], &chat[2]));
        assert_eq!(plain(fit_conversation(&chat, &look(60_000))), chat);
    }

    #[test]
    fn one_message_of_any_length_fits_and_says_that_it_is_cut() {
        for room in [3_000, 12_000, 300_000] {
            for text in ["> word ".repeat(200_000), "ñ".repeat(700_000)] {
                let chat = [
                    model::user_message(&format!("[message 1]\n{text}END")),
                    model::user_message("[CodeButler] facts"),
                ];
                let look = look(room);
                assert!(has_giant(&chat, &look) && !has_giant(&chat[1..], &look));
                let shown = fit_conversation(&chat, &look);
                assert!(total_weight(&shown) <= room, "{}", total_weight(&shown));
                let shown = plain(shown);
                let text = shown[0]["content"].as_str().unwrap();
                assert!(text.starts_with("[message 1]") && text.ends_with("END"));
                assert!(text.contains("characters left out: ReadConversation shows"), "{room}");
                assert_eq!(shown[1], chat[1]);
            }
        }
    }

    #[test]
    fn the_newest_pictures_are_shown_to_models_that_see() {
        let picture =
            |n: u32| model::picture_message(&format!("p{n}"), "data:image/png;base64,AA==");
        let chat: Vec<_> = (0..6).map(picture).collect();
        let blind = WindowLook { blind: true, ..look(0) };
        assert!(MediaKinds::held(&chat).pictures);
        assert!(MediaKinds::held(&plain(newest_pictures(&chat, &blind))).is_empty());
        let shown = plain(newest_pictures(&chat, &look(0)));
        assert_eq!(shown[0]["content"], "p0 [a picture that is not shown here]");
        assert_eq!(shown[2..], chat[2..]);
    }

    #[test]
    fn a_model_is_shown_the_kinds_that_it_can_take() {
        let chat = [
            model::picture_message("p", "data:image/png;base64,AA=="),
            model::picture_message("s", "data:audio/mp3;base64,AA=="),
        ];
        for (blind, deaf) in [(false, false), (true, false), (false, true), (true, true)] {
            let look = WindowLook { blind, deaf, ..look(0) };
            let held = MediaKinds::held(&plain(newest_pictures(&chat, &look)));
            assert_eq!(held, MediaKinds { pictures: !blind, sounds: !deaf });
        }
    }
}
