//! The mention of the app around a person's words: it says whom they are for, and adds nothing to them. Pure.

/// Name by which people write to the app without completing its mention.
const TYPED: &str = "@codebutler";

/// The words without a mention of the app before or behind them. `bot` is the app's own user id.
pub(crate) fn without_own_mention<'a>(text: &'a str, bot: Option<&str>) -> &'a str {
    let text = text.trim();
    let own = bot.map(|bot| format!("<@{bot}>")).filter(|own| text.len() > own.len());
    if let Some(own) = own {
        if let Some(after) = text.strip_prefix(own.as_str()).and_then(words_after) {
            return after;
        }
        if let Some(before) = text.strip_suffix(own.as_str()) {
            return before.trim_end().trim_end_matches(',').trim_end();
        }
    }
    let is_typed = text.get(..TYPED.len()).is_some_and(|head| head.eq_ignore_ascii_case(TYPED));
    text.get(TYPED.len()..).filter(|_| is_typed).and_then(words_after).unwrap_or(text)
}

/// Words behind a mention, if that ends there: of a role's name it is only a part.
fn words_after(rest: &str) -> Option<&str> {
    let words = rest.strip_prefix([',', ':']).unwrap_or(rest);
    words.starts_with(char::is_whitespace).then(|| words.trim_start())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mention_of_the_app_is_no_part_of_the_words() {
        for (text, expected) in [
            ("<@U0BOT> stop", "stop"),
            ("<@U0BOT>, yes please", "yes please"),
            ("<@U0BOT>: 1 and 3", "1 and 3"),
            ("<@U0BOT> :+1:", ":+1:"),
            ("yes, <@U0BOT>", "yes"),
            ("@CodeButler stop", "stop"),
            ("stop", "stop"),
            ("<@U0BOT>", "<@U0BOT>"),
            ("<@U0BOT>.coder stop", "<@U0BOT>.coder stop"),
            ("@codebutler.coder stop", "@codebutler.coder stop"),
            ("@codebutlers stop", "@codebutlers stop"),
            ("<@U0ANA> stop", "<@U0ANA> stop"),
            ("é@codebutle", "é@codebutle"),
        ] {
            assert_eq!(without_own_mention(text, Some("U0BOT")), expected, "{text}");
        }
        assert_eq!(without_own_mention("<@U0BOT> stop", None), "<@U0BOT> stop");
    }
}
