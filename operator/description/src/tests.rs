use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use super::*;

fn is_receipt_line(line: &str) -> bool {
    let line = line.trim();
    line == "### CodeButler" || line.starts_with("- Asked for by ") || line.contains("Not checked")
}

const RECEIPT: &str = "### CodeButler\n\n- Asked for by U1\n- Not checked";

fn read(body: &str) -> SharedDescription {
    SharedDescription::read(body, is_receipt_line)
}

fn text(description: &SharedDescription) -> String {
    description.fitted().unwrap().text
}

fn opened(words: &str) -> String {
    let mut new = read("");
    new.put(OwnPart::Receipt, RECEIPT, "");
    new.put(OwnPart::Words, words, "");
    new.note_title("Fix it");
    text(&new)
}

/// Applies a role's update to a body, and renders the result.
fn updated(body: &str, words: &str) -> String {
    let mut now = read(body);
    now.put(OwnPart::Receipt, &format!("{RECEIPT} again"), "");
    now.put(OwnPart::Words, words, "");
    text(&now)
}

fn ended(body: &str, summary: &str) -> String {
    let mut now = read(body);
    now.put(OwnPart::Summary, summary, "```\nrole\n```");
    text(&now)
}

/// Renders a body without its marks, as a page shows it.
fn shown(body: &str) -> String {
    let tokens = split_marks(body);
    let text: String = tokens
        .iter()
        .map(|token| if let MarkToken::Text(text) = token { text } else { "" })
        .collect();
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn our_parts_are_replaced_and_peoples_words_stay_byte_for_byte() {
    let first = opened("Because.");
    assert!(read(&first).has_title(" Fix  it") && !read(&first).has_title("Fix this"));
    for added in ["\r\n\r\n## Checklist (by Ben)\r\n- [x] SHOP-77  \r\n", "\tend", "\n\n\n x\n"] {
        let body = format!("{first}{added}");
        let body = updated(&updated(&body, "More."), "Even more.");
        let body = ended(&ended(&body, "Nearly done."), "Done.");
        assert!(body.contains(added.trim_matches(['\r', '\n'])), "{body:?}");
        let expected = format!(
            "{RECEIPT} again\nEven more.\n{}\nDone.\n```\nrole\n```",
            added.trim_matches(['\r', '\n']).replace('\r', "")
        );
        assert_eq!(shown(&body), expected.replace("\n\n", "\n"));
    }
}

#[test]
fn a_description_of_somebody_else_is_kept_whole() {
    let theirs = "My own words.\r\n\r\n* a\r\n<!-- a template's note -->\r\n";
    let body = ended(&updated(theirs, "Because."), "Done.");
    assert!(body.contains(theirs), "{body:?}");
    assert!(shown(&body).starts_with("### CodeButler"));
    assert!(!read(theirs).has_title("Fix it"));
}

#[test]
fn what_a_browser_saves_is_still_ours() {
    let body = opened("Because.\n\n- [ ] tested").replace('\n', "\r\n");
    let body = updated(&body, "Other words.");
    assert_eq!(shown(&body), shown(&updated(&opened("x"), "Other words.")));
}

#[test]
fn an_edit_inside_stays_and_ours_stands_below() {
    let body = opened("Because.\n\n- [ ] tested").replace("- [ ] tested", "- [x] tested by Ben");
    let mut same = read(&body);
    assert_eq!(same.put(OwnPart::Words, "Because.\n\n- [ ] tested", ""), PutOutcome::Kept);
    assert_eq!(text(&same), body);
    let mut other = read(&body);
    assert_eq!(other.put(OwnPart::Words, "Now more.", ""), PutOutcome::Beside);
    let body = text(&other);
    assert!(shown(&body).ends_with("Because.\n- [x] tested by Ben\nNow more."), "{body}");
    assert!(shown(&updated(&body, "Even more.")).ends_with("tested by Ben\nEven more."), "{body}");

    let body = opened("Because.").replace("- Not checked", "- Not checked\n- But I did: Ben");
    let body = updated(&body, "Because.");
    assert_eq!(shown(&body), shown(&format!("{RECEIPT} again\n- But I did: Ben\nBecause.")));
    let body = ended(&opened("Because."), "Done.").replace("Done.", "Done, says Ben.");
    assert!(read(&body).part(OwnPart::Summary).unwrap().starts_with("Done, says Ben."));
    assert!(shown(&ended(&body, "All is done.")).contains("Done, says Ben."));
    // Written back as a person left it, it is ours again.
    let mut again = read(&body);
    let theirs = again.part(OwnPart::Summary).unwrap();
    assert_eq!(again.put(OwnPart::Summary, &theirs, ""), PutOutcome::Written);
}

#[test]
fn marks_that_people_delete_double_or_move_lose_nothing() {
    let first = opened("Because.\n\nOf this.");
    let marks: Vec<String> = first
        .match_indices("<!--")
        .map(|(at, _)| first[at..=at + first[at..].find('>').unwrap()].to_owned())
        .collect();
    assert_eq!(marks.len(), 4);
    let again = shown(&updated(&first, "New."));
    for mark in &marks {
        let gone = updated(&first.replace(mark, ""), "New.");
        assert_eq!(shown(&gone), again, "without {mark}");
        let doubled = updated(&first.replace(mark, &format!("{mark}\n{mark}")), "New.");
        assert_eq!(shown(&doubled), again, "doubled {mark}");
        let added = first.replace(mark, &format!("by Ben {mark} by Ana"));
        let body = updated(&added, "New.");
        assert!(body.contains("by Ben") && body.contains("by Ana"), "{body}");
        assert_eq!(body.matches("New.").count(), 1, "{body}");
    }
    // A copy of all of it, of which one is changed.
    let copied = format!("{first}\n\n{}", first.replace("Of this.", "Of that."));
    let body = shown(&updated(&copied, "New."));
    assert!(body.contains("Of that.") && !body.contains("Of this."), "{body}");
    assert_eq!((body.matches("### CodeButler").count(), body.matches("New.").count()), (1, 1));
    // An end that nobody has, of a text that is a person's.
    let body = updated(&first.replace(&marks[2], "").replace("Of this.", "Of these."), "New.");
    assert!(
        shown(&body).contains("Because.\nOf these.") && shown(&body).contains("New."),
        "{body}"
    );
}

#[test]
fn whatever_people_do_their_lines_stay() {
    let mut random = StdRng::seed_from_u64(7);
    for round in 0..2000 {
        let mut body = ended(&opened("One.\n\nTwo.\n- three"), "Four.\n\nFive.");
        let mut theirs = Vec::new();
        for step in 0..random.random_range(1..6) {
            let mut lines: Vec<String> = body.split('\n').map(str::to_owned).collect();
            let at = random.random_range(0..lines.len());
            match random.random_range(0..6) {
                0 => drop(lines.remove(at)),
                1 => lines.insert(at, lines[at].clone()),
                2 => {
                    let other = random.random_range(0..lines.len());
                    lines.swap(at, other);
                }
                3 => lines = lines.into_iter().map(|line| format!("{line}\r")).collect(),
                _ => {
                    theirs.push(format!("Ben {round}.{step} was here"));
                    lines.insert(at, theirs[theirs.len() - 1].clone());
                }
            }
            body = lines.join("\n");
            // Lines that are there still are to stay.
            if random.random_bool(0.5) {
                body = updated(&body, &format!("Words {step}."));
            } else {
                body = ended(&body, &format!("Summary {step}."));
            }
        }
        let (words, end) = (updated(&body, "Last words."), ended(&body, "Last summary."));
        for line in theirs.iter().filter(|line| body.contains(*line)) {
            assert!(words.contains(line) && end.contains(line), "{line}: {body}");
        }
        assert_eq!(words.matches("Last words.").count(), 1, "{words}");
        assert_eq!(end.matches("Last summary.").count(), 1, "{end}");
        assert_eq!(updated(&words, "Last words."), words, "again");
    }
}

#[test]
fn our_words_are_shortened_where_there_is_no_room_and_peoples_never() {
    let limit = 4000;
    let theirs = "Ünicode 🙂 by Ben. ".repeat(100);
    let mut long = read(&theirs);
    long.put(OwnPart::Words, &format!("{}\n\nCloses #7", "word ".repeat(600)), "");
    long.put(OwnPart::Summary, &"summary ".repeat(600), "```\nrole\n```");
    let fitted = long.fitted_within(limit).unwrap();
    assert!(!fitted.is_whole && fitted.text.encode_utf16().count() <= limit);
    assert!(
        fitted.text.contains(&theirs) && fitted.text.contains("\nCloses #7\n"),
        "{}",
        fitted.text
    );
    assert!(fitted.text.contains("_(shortened:"), "{}", fitted.text);
    let mut room = read("by Ben");
    room.put(OwnPart::Summary, &"summary ".repeat(600), "```\nrole\n```");
    let fitted = room.fitted_within(limit).unwrap();
    assert!(fitted.text.contains("```\nrole\n```\n\n<!--"), "the tail is whole: {}", fitted.text);
    // None of our parts fits any more, and all words of people stay.
    let mut full = read(&"x".repeat(limit - 10));
    full.put(OwnPart::Summary, "Done.", "");
    let fitted = full.fitted_within(limit).unwrap();
    assert_eq!((fitted.text.len(), fitted.is_whole), (limit - 10, false));
    assert_eq!(read(&"x".repeat(limit + 1)).fitted_within(limit), None);
}
