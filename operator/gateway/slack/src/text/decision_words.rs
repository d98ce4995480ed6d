//! Words that are a decision, in English, Spanish and German: a whole message or nothing. Pure.

use codebutler_crds::NanoUsd;

use crate::text::courtesy::is_thanks;

/// Meaning of a whole message. A message that says anything more is not a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageIntent {
    /// Yes, to whatever is asked.
    Approve,
    /// Yes, to an action and to the same words of it for the rest of the thread.
    Always,
    /// Take such a yes for the rest of the thread back.
    Revoke,
    /// No to an action that was asked about.
    Deny,
    /// Merge the thread's pull request.
    Merge,
    /// End the thread without merging.
    Close,
    /// End what runs now, at once.
    Stop,
    /// Work off the whole roadmap, for at most so much.
    Develop(Option<NanoUsd>),
    /// Merge everything that is ready.
    MergeAll,
    /// Thanks: nothing is asked for.
    Thanks,
}

const APPROVE: &[&str] = &[
    "approve",
    "approved",
    "i approve",
    "lgtm",
    "looks good",
    "looks good to me",
    "go",
    "go ahead",
    "go for it",
    "ship it",
    "yes",
    "yes please",
    "yep",
    "ok",
    "okay",
    "do it",
    "si",
    "sí",
    "dale",
    "adelante",
    "apruebo",
    "aprobado",
    "aprobada",
    "hazlo",
    "vale",
    "de acuerdo",
    "perfecto",
    "yeah",
    "yup",
    "sure",
    "sounds good",
    "agreed",
    "proceed",
    "please do",
    "yes do it",
    "yes go ahead",
    "ok go",
    "ok go ahead",
    "ok do it",
    "ok yes",
    "yes ok",
    "claro",
    "venga",
    "sí dale",
    "si dale",
    "ok dale",
    "dale dale",
    "sí por favor",
    "si por favor",
    "correcto",
    "genial",
    "ja",
    "ja bitte",
    "ja gerne",
    "jo",
    "jup",
    "klar",
    "na klar",
    "passt",
    "passt so",
    "mach",
    "mach das",
    "mach es",
    "los",
    "los gehts",
    "leg los",
    "einverstanden",
    "genehmigt",
    "freigegeben",
    "in ordnung",
    "gerne",
    "ok passt",
    "ja passt",
];
const ALWAYS: &[&str] = &[
    "approve for this thread",
    "approve for the thread",
    "approved for this thread",
    "approve in this thread",
    "yes for this thread",
    "yes always",
    "always",
    "always approve",
    "approve always",
    "siempre",
    "sí siempre",
    "si siempre",
    "aprobar siempre",
    "apruebo siempre",
    "aprobar para este hilo",
    "apruebo para este hilo",
    "immer",
    "ja immer",
    "für diesen thread",
    "ja für diesen thread",
    "für diesen thread genehmigt",
];
const REVOKE: &[&str] = &[
    "revoke",
    "revoke it",
    "revoke approval",
    "revoke approvals",
    "revoke the approval",
    "revocar",
    "revoca",
    "revocar aprobación",
    "revocar aprobaciones",
    "widerrufen",
    "widerrufe",
    "zurücknehmen",
];
const DENY: &[&str] = &[
    "no",
    "no thanks",
    "no thank you",
    "no way",
    "nope",
    "nah",
    "deny",
    "denied",
    "dont",
    "do not",
    "dont do it",
    "do not do it",
    "rather not",
    "i refuse",
    "refused",
    "no gracias",
    "no lo hagas",
    "mejor no",
    "para nada",
    "ni hablar",
    "denegar",
    "denegado",
    "denegada",
    "rechazar",
    "rechazado",
    "rechazada",
    "please dont",
    "no dont",
    "nein",
    "nein danke",
    "nee",
    "nö",
    "lieber nicht",
    "auf keinen fall",
    "mach das nicht",
    "nicht machen",
    "abgelehnt",
];
const MERGE: &[&str] = &[
    "merge",
    "merge it",
    "please merge",
    "merge please",
    "fusiona",
    "fusionar",
    "fusiónalo",
    "fusionalo",
    "mergea",
    "mergéalo",
    "mergealo",
    "haz merge",
    "haz el merge",
    "yes merge",
    "yes merge it",
    "ok merge",
    "ok merge it",
    "sí mergea",
    "mergen",
    "bitte mergen",
    "ja mergen",
    "merge das",
];
const CLOSE: &[&str] = &[
    "close",
    "close it",
    "close this",
    "close this thread",
    "close the thread",
    "close thread",
    "cierra",
    "ciérralo",
    "cierralo",
    "cierra este hilo",
    "cierra el hilo",
    "cerrar",
    "cerrar este hilo",
    "cerrar hilo",
    "schließen",
    "schließ das",
    "schließe das",
    "thread schließen",
    "schließ den thread",
    "schließe den thread",
];

const STOP: &[&str] = &[
    "stop",
    "stop it",
    "stop now",
    "please stop",
    "halt",
    "abort",
    "para",
    "detente",
    "basta",
    "alto",
    "stopp",
    "anhalten",
    "abbrechen",
    "aufhören",
    "hör auf",
];
const STOP_SIGNS: [&str; 5] = ["🛑", ":octagonal_sign:", "✋", ":hand:", ":raised_hand:"];
/// Emoji that agree, and those that say no. Beside words, any other one may say anything.
const GOOD: &[&str] = &[
    "+1",
    "thumbsup",
    "👍",
    "ok_hand",
    "👌",
    "white_check_mark",
    "✅",
    "heavy_check_mark",
    "✔",
    "rocket",
    "🚀",
    "ship",
    "🚢",
    "tada",
    "🎉",
    "smile",
    "😄",
    "slightly_smiling_face",
    "🙂",
    "grinning",
    "😀",
    "blush",
    "😊",
    "pray",
    "🙏",
    "clap",
    "👏",
    "raised_hands",
    "🙌",
    "muscle",
    "💪",
    "fire",
    "🔥",
    "heart",
    "❤",
    "sparkles",
    "✨",
    "100",
    "💯",
    "zap",
    "⚡",
];
const BAD: &[&str] = &[
    "-1",
    "thumbsdown",
    "👎",
    "x",
    "❌",
    "no_entry",
    "⛔",
    "no_entry_sign",
    "🚫",
    "octagonal_sign",
    "🛑",
    "hand",
    "raised_hand",
    "✋",
    "no_good",
    "🙅",
];

/// Opinion that the emoji beside words express.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum EmojiMood {
    /// No emoji beside the words.
    #[default]
    None,
    Good,
    Bad,
    /// Emoji that say more than one thing, or nothing that is known.
    Mixed,
}

impl EmojiMood {
    fn of(emoji: &str) -> Self {
        // Cut off the colour of the hand.
        let name = emoji.split("::").next().unwrap_or_default();
        match (GOOD.contains(&name), BAD.contains(&name)) {
            (true, _) => Self::Good,
            (_, true) => Self::Bad,
            _ => Self::Mixed,
        }
    }

    fn and(self, other: Self) -> Self {
        if self == Self::None || self == other { other } else { Self::Mixed }
    }
}

/// The decision that a text is, if it is exactly one decision and nothing else.
pub(crate) fn read_intent(text: &str) -> Option<MessageIntent> {
    if text.contains(['?', '¿']) {
        return None;
    }
    if STOP_SIGNS.contains(&text.trim()) {
        return Some(MessageIntent::Stop);
    }
    let (words, mood) = part_emoji(text.trim())?;
    // Punctuation around the words says nothing; anything between them says more.
    let trimmed = words.trim_matches(|c: char| c.is_whitespace() || ".,!¡…*_".contains(c));
    let trimmed = trimmed.replace(['\'', '’'], "").replace(", ", " ");
    let kept = |c: char| c.is_alphanumeric() || c.is_whitespace();
    if trimmed.len() > 40 || !trimmed.chars().all(kept) {
        return None;
    }
    let words = trimmed.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase();
    if words.is_empty() {
        return match mood {
            EmojiMood::Good if is_thumb(text) => Some(MessageIntent::Approve),
            EmojiMood::Bad if is_thumb(text) => Some(MessageIntent::Deny),
            _ => None,
        };
    }
    read_list(&words).filter(|intent| match intent {
        MessageIntent::Stop | MessageIntent::Revoke => true,
        MessageIntent::Deny => matches!(mood, EmojiMood::None | EmojiMood::Bad),
        _ => matches!(mood, EmojiMood::None | EmojiMood::Good),
    })
}

fn read_list(words: &str) -> Option<MessageIntent> {
    let lists = [
        (APPROVE, MessageIntent::Approve),
        (ALWAYS, MessageIntent::Always),
        (REVOKE, MessageIntent::Revoke),
        (DENY, MessageIntent::Deny),
        (MERGE, MessageIntent::Merge),
        (CLOSE, MessageIntent::Close),
        (STOP, MessageIntent::Stop),
    ];
    let found = lists.into_iter().find(|(list, _)| list.contains(&words));
    found.map(|(_, intent)| intent).or_else(|| is_thanks(words).then_some(MessageIntent::Thanks))
}

/// True if a text of emoji alone begins with a thumb.
fn is_thumb(text: &str) -> bool {
    let thumbs = [":+1:", "👍", ":-1:", "👎"];
    thumbs.iter().any(|thumb| text.trim().starts_with(thumb))
}

/// The words of a text, and what the emoji behind them say; nothing where an emoji stands elsewhere.
fn part_emoji(text: &str) -> Option<(String, EmojiMood)> {
    let (mut rest, mut mood) = (text, EmojiMood::None);
    loop {
        rest = rest.trim_end();
        if let Some((before, emoji)) = last_name(rest) {
            (rest, mood) = (before, mood.and(EmojiMood::of(emoji)));
            continue;
        }
        let Some(last) = rest.chars().next_back() else { break };
        let modifies = matches!(last, '\u{fe0f}' | '\u{1f3fb}'..='\u{1f3ff}');
        if !modifies && !is_pictured(last) {
            break;
        }
        let at = rest.len() - last.len_utf8();
        if !modifies {
            mood = mood.and(EmojiMood::of(&rest[at..]));
        }
        rest = &rest[..at];
    }
    (!rest.chars().any(is_pictured)).then(|| (rest.to_owned(), mood))
}

/// A `:emoji:` of Slack's at the end, with the colour of its skin.
fn last_name(text: &str) -> Option<(&str, &str)> {
    let name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '+');
    let (before, emoji) = text.strip_suffix(':')?.rsplit_once(':')?;
    if emoji.is_empty() || !emoji.chars().all(name) {
        return None;
    }
    if !emoji.starts_with("skin-tone-") {
        return Some((before, emoji));
    }
    let (before, hand) = before.strip_suffix(':')?.rsplit_once(':')?;
    Some((before, hand))
}

/// True for a character that is neither a letter nor a sign that stands in a sentence.
fn is_pictured(c: char) -> bool {
    matches!(u32::from(c), 0x2190..=0x2bff | 0x1f000..=0x1faff)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_say_means_what_they_mean() {
        use MessageIntent::{Always, Approve, Close, Deny, Merge, Stop};
        for (text, expected) in [
            ("yes", Some(Approve)),
            ("Yes, please!", Some(Approve)),
            ("ok", Some(Approve)),
            ("OK…", Some(Approve)),
            ("ok go ahead", Some(Approve)),
            ("sounds good", Some(Approve)),
            ("lgtm :rocket: :tada:", Some(Approve)),
            ("yes 👍🏽", Some(Approve)),
            ("ok ✔️", Some(Approve)),
            ("*yes*", Some(Approve)),
            ("👍", Some(Approve)),
            (":+1::skin-tone-3:", Some(Approve)),
            ("dale", Some(Approve)),
            ("¡Sí, dale!", Some(Approve)),
            ("claro", Some(Approve)),
            ("ja", Some(Approve)),
            ("Ja, bitte.", Some(Approve)),
            ("passt :+1:", Some(Approve)),
            ("einverstanden", Some(Approve)),
            ("Los geht's!", Some(Approve)),
            ("immer", Some(Always)),
            ("no", Some(Deny)),
            ("no :x:", Some(Deny)),
            ("nein danke", Some(Deny)),
            (":-1:", Some(Deny)),
            ("mejor no", Some(Deny)),
            ("bitte mergen", Some(Merge)),
            ("yes, merge it", Some(Merge)),
            ("Thread schließen", Some(Close)),
            ("stopp", Some(Stop)),
            ("stop :x:", Some(Stop)),
            // A no in a yes, or more than it.
            ("ok :x:", None),
            ("yes :-1:", None),
            ("go :octagonal_sign:", None),
            ("yes 👎", None),
            ("yes 🤔", None),
            ("yes :thinking_face:", None),
            ("yes :+1: :-1:", None),
            ("no :+1:", None),
            ("~yes~", None),
            ("`yes`", None),
            ("&gt; yes", None),
            ("\"yes\"", None),
            ("👎 yes", None),
            ("ok but rename it", None),
            ("ok, but…", None),
            ("yes and no", None),
            ("ja, aber nicht so", None),
            ("sí pero no", None),
            ("not ok", None),
            ("ok?", None),
            ("🎉", None),
            (":eyes:", None),
        ] {
            assert_eq!(read_intent(text), expected, "{text}");
        }
    }
}
