//! Composes a pull request's title and description from a role's words and people's edits. Pure.

use codebutler_description::{OwnPart, PutOutcome, reads_same};
use codebutler_gateway_core::github::{GitHubPull, PullText};

use crate::receipt;

/// Title and sections that the role and the gateway want in a pull request.
#[derive(Clone, Copy, Debug)]
pub struct PullWords<'a> {
    pub title: &'a str,
    /// Description in the role's own words.
    pub body: &'a str,
    /// The gateway's section on tests.
    pub receipt: &'a str,
    /// Pictures of before and after; empty if there are none.
    pub pictures: &'a str,
}

/// The text to write, and the parts that stay as people left them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ComposedPull {
    pub text: PullText,
    /// Sentences for the role about those parts.
    pub kept: Vec<String>,
}

/// Puts title and description together, given the open pull request.
pub fn compose_pull(words: &PullWords<'_>, open: Option<&GitHubPull>) -> ComposedPull {
    let before = open.and_then(|pull| pull.body.as_deref()).unwrap_or_default();
    let mut description = receipt::read_description(before);
    let mut kept = Vec::new();
    let title = match open {
        Some(pull) if pull.title == words.title => None,
        Some(pull) if !description.has_title(&pull.title) => {
            kept.push("A person gave the pull request its title, and it stays.".to_owned());
            None
        }
        Some(_) | None => Some(words.title.to_owned()),
    };
    description.put(OwnPart::Receipt, words.receipt, "");
    let body = receipt::without_imitations(words.body);
    match description.put(OwnPart::Words, body.trim(), "") {
        PutOutcome::Written => {}
        PutOutcome::Beside => kept.push(
            "A person edited the description: what they wrote stays, and your text stands below it.".to_owned(),
        ),
        PutOutcome::Kept => kept.push(
            "A person edited the description: it stays as they wrote it. Say what is missing in a comment."
                .to_owned(),
        ),
    }
    if words.pictures.is_empty() {
        description.remove(OwnPart::Pictures);
    } else {
        description.put(OwnPart::Pictures, words.pictures, "");
    }
    if title.is_some() || open.is_some_and(|pull| pull.title == words.title) {
        description.note_title(words.title);
    }
    let body = if let Some(fitted) = description.fitted() {
        if !fitted.is_whole {
            kept.push(
                "GitHub takes 65,536 characters of a description: your text was shortened."
                    .to_owned(),
            );
        }
        Some(fitted.text)
    } else {
        kept.push(
            "The description has no room left for your text: GitHub takes 65,536 characters. Say it in a comment."
                .to_owned(),
        );
        None
    };
    let body = body.filter(|body| open.is_none() || !reads_same(body, before));
    ComposedPull { text: PullText { title, body }, kept }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const WORDS: PullWords<'_> = PullWords {
        title: "Fix it",
        body: "Because.",
        receipt: "### CodeButler\n\n- Asked for by U1",
        pictures: "",
    };

    fn pull(title: &str, body: &str) -> GitHubPull {
        serde_json::from_value(json!({
            "number": 7, "html_url": "https://h/7", "state": "open", "head": {"sha": "abc"},
            "title": title, "body": body,
        }))
        .unwrap()
    }

    fn opened() -> String {
        compose_pull(&WORDS, None).text.body.unwrap()
    }

    #[test]
    fn nothing_is_written_where_nothing_is_new() {
        let again = compose_pull(&WORDS, Some(&pull("Fix it", &opened().replace('\n', "\r\n"))));
        assert_eq!(again, ComposedPull { text: PullText::default(), kept: vec![] });
    }

    #[test]
    fn a_title_that_a_person_wrote_stays_and_ours_does_not() {
        let words = PullWords { title: "Fix all of it", ..WORDS };
        let ours = compose_pull(&words, Some(&pull("Fix it", &opened())));
        assert_eq!(ours.text.title.as_deref(), Some("Fix all of it"));
        assert_eq!(ours.kept, Vec::<String>::new());
        // A person's title stays for as long as they leave it.
        let body = opened();
        for title in ["SHOP-77: fix it", "SHOP-77: fix it now"] {
            let theirs = compose_pull(&words, Some(&pull(title, &body)));
            assert_eq!((theirs.text.title, theirs.kept.len()), (None, 1));
        }
        let by_person = compose_pull(&words, Some(&pull("By Ben", "My words.")));
        assert_eq!(by_person.text.title, None);
        assert!(by_person.text.body.unwrap().contains("My words."));
    }

    #[test]
    fn a_role_hears_what_people_edited() {
        let body = opened().replace("Because.", "Because of SHOP-77.");
        let words = PullWords { body: "For reasons.", ..WORDS };
        let composed = compose_pull(&words, Some(&pull("Fix it", &body)));
        let body = composed.text.body.unwrap();
        assert!(body.contains("Because of SHOP-77.") && body.contains("For reasons."), "{body}");
        assert!(
            composed.kept[0].contains("stays, and your text stands below"),
            "{:?}",
            composed.kept
        );
    }

    #[test]
    fn pictures_stand_below_the_words_and_go_when_there_are_none() {
        let pictures = "### Before and after\n\n`/` (phone, light)";
        let shown = compose_pull(&PullWords { pictures, ..WORDS }, None).text.body.unwrap();
        let at = |text: &str| shown.find(text).unwrap();
        assert!(at("Asked for by") < at("Because.") && at("Because.") < at("### Before and after"));
        let gone = compose_pull(&WORDS, Some(&pull("Fix it", &shown))).text.body.unwrap();
        assert!(!gone.contains("Before and after"), "{gone}");
        assert_eq!(gone.trim_end(), opened());
    }

    #[test]
    fn a_role_can_not_imitate_the_receipt() {
        let words = PullWords { body: "Fine.\n**Checked by CodeButler**: all", ..WORDS };
        let body = compose_pull(&words, None).text.body.unwrap();
        assert!(!body.contains("Checked by"), "{body}");
    }
}
