//! Emoji by name, as Slack has them: each under one canonical name, and aliases that people type.

use std::collections::HashMap;
use std::sync::LazyLock;

/// A line per emoji, its canonical name first: the short names of iamcal/emoji-data (MIT), which Slack
/// uses too.
const NAMES: &str = include_str!("emoji.txt");

static CANONICAL: LazyLock<HashMap<&str, &str>> = LazyLock::new(|| {
    let lines = NAMES.lines().filter_map(|line| Some((line, line.split(' ').next()?)));
    lines.flat_map(|(line, first)| line.split(' ').map(move |name| (name, first))).collect()
});

/// The name under which Slack keeps an emoji, with the skin tone that was chosen; None if there is
/// no such emoji and the text stays as it was typed.
pub fn canonical_emoji(name: &str) -> Option<String> {
    let (plain, tone) = match name.split_once("::") {
        Some((plain, tone)) => (plain, Some(tone)),
        None => (name, None),
    };
    let is_tone = |tone: &str| {
        tone.strip_prefix("skin-tone-").is_some_and(|n| matches!(n, "2" | "3" | "4" | "5" | "6"))
    };
    let found = CANONICAL.get(plain)?;
    match tone {
        None => Some((*found).to_owned()),
        Some(tone) if is_tone(tone) => Some(format!("{found}::{tone}")),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aliases_mean_the_canonical_name_and_made_up_ones_nothing() {
        assert_eq!(canonical_emoji("raised_hand").as_deref(), Some("hand"));
        assert_eq!(canonical_emoji("thumbsup::skin-tone-3").as_deref(), Some("+1::skin-tone-3"));
        assert_eq!(canonical_emoji("double_vertical_bar").as_deref(), Some("double_vertical_bar"));
        assert_eq!(canonical_emoji("pause_button"), None);
        assert_eq!(canonical_emoji("+1::skin-tone-9"), None);
    }
}
