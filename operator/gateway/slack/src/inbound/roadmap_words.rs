//! Requests for a whole repository, in English, Spanish and German: the roadmap carried out, with what that may
//! cost or without, and everything merged that is ready. A whole message or nothing. Pure.

use codebutler_crds::NanoUsd;

use crate::text::decision_words::MessageIntent;

const DEVELOP: &[&str] = &[
    "develop everything",
    "develop all",
    "develop all items",
    "develop the roadmap",
    "develop the whole roadmap",
    "develop everything on the roadmap",
    "implement everything",
    "implement all items",
    "implement the roadmap",
    "implement the whole roadmap",
    "implement everything on the roadmap",
    "start all",
    "start all items",
    "start everything",
    "start the roadmap",
    "work off the roadmap",
    "desarrolla todo",
    "desarrolla el roadmap",
    "implementa todo",
    "implementa el roadmap",
    "entwickle alles",
    "setze die roadmap um",
    "setz die roadmap um",
    "arbeite die roadmap ab",
];
const MERGE_ALL: &[&str] = &[
    "merge all that are ready",
    "merge all that is ready",
    "merge everything that is ready",
    "merge everything thats ready",
    "merge all ready pull requests",
    "merge all ready prs",
    "merge whatever is ready",
    "merge what is ready",
    "merge all",
    "merge everything",
    "start a merge train",
    "merge train",
    "mergea todo lo que esté listo",
    "mergea todo lo que este listo",
    "mergea todo",
    "fusiona todo lo que esté listo",
    "fusiona todo lo que este listo",
    "fusiona todo",
    "merge alles was fertig ist",
    "merge alles",
    "führe alles zusammen was fertig ist",
];
/// Words that stand before an amount of money.
const FOR: &[&str] = &[" for ", " with ", " up to ", " por ", " für ", " mit "];
/// Polite words around a wish, which say nothing.
const POLITE: &[&str] = &["please ", "por favor ", "bitte "];

/// The wish that a text is, if it is nothing else.
pub(crate) fn find_wish(text: &str, bot: Option<&str>) -> Option<MessageIntent> {
    let text = text.trim();
    let own = bot.map(|bot| format!("<@{bot}>"));
    let text = own.and_then(|own| text.strip_prefix(own.as_str())).unwrap_or(text);
    let text = text.trim_matches(|c: char| c.is_whitespace() || ".,!:*_".contains(c));
    let lower = text.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase();
    let mut words = lower.as_str();
    for polite in POLITE {
        words = words.strip_prefix(polite).unwrap_or(words);
        words = words.strip_suffix(polite.trim_end()).unwrap_or(words);
    }
    let words = words.trim_matches(|c: char| c.is_whitespace() || c == ',');
    if DEVELOP.contains(&words) {
        return Some(MessageIntent::Develop(None));
    }
    let plain = words.replace(['\'', '’', ','], "");
    if MERGE_ALL.contains(&plain.as_str()) {
        return Some(MessageIntent::MergeAll);
    }
    let parts = FOR.iter().filter_map(|word| words.split_once(word));
    let (_, amount) = parts.into_iter().find(|(wish, _)| DEVELOP.contains(wish))?;
    let amount = amount.strip_prefix("at most ").unwrap_or(amount);
    find_dollars(amount).map(|budget| MessageIntent::Develop(Some(budget)))
}

/// Parses an amount such as `$20`, `20 dollars` or `20.50 usd`.
fn find_dollars(text: &str) -> Option<NanoUsd> {
    let units = ["dollars", "dollar", "usd", "$"];
    let number =
        text.strip_prefix('$').or_else(|| units.iter().find_map(|unit| text.strip_suffix(unit)))?;
    let amount: NanoUsd = number.trim().parse().ok()?;
    (amount > NanoUsd::ZERO).then_some(amount)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wish_is_these_words_and_no_others() {
        let dollars = |n: u64| Some(MessageIntent::Develop(Some(NanoUsd(n * 1_000_000_000))));
        for (text, expected) in [
            ("develop everything", Some(MessageIntent::Develop(None))),
            ("<@U0BOT> Develop everything, please!", Some(MessageIntent::Develop(None))),
            ("Please implement the roadmap.", Some(MessageIntent::Develop(None))),
            ("start  all", Some(MessageIntent::Develop(None))),
            ("Entwickle alles", Some(MessageIntent::Develop(None))),
            ("develop everything for $20", dollars(20)),
            ("develop everything for at most 20 dollars", dollars(20)),
            ("implement the roadmap with 5 usd", dollars(5)),
            ("develop everything for $0", None),
            ("develop everything for Ana", None),
            ("develop everything for $20 and more", None),
            ("don't develop everything", None),
            ("merge all that are ready", Some(MessageIntent::MergeAll)),
            ("<@U0BOT> please merge everything that's ready!", Some(MessageIntent::MergeAll)),
            ("Merge alles, was fertig ist.", Some(MessageIntent::MergeAll)),
            ("merge all that are ready?", None),
            ("merge all the files into one", None),
            ("don't merge all", None),
            ("develop everything?", None),
            ("<@U0ANA> develop everything", None),
            ("develop the login", None),
            ("", None),
        ] {
            assert_eq!(find_wish(text, Some("U0BOT")), expected, "{text}");
        }
    }
}
