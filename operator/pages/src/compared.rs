//! Pictures of a page before and after a change, beside each other.

use codebutler_wire::describe_view;
use codebutler_wire::history::{HistoryEvent, ViewShown};

/// A page at one width, in one set of colours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PicturePair {
    /// Variant that both show, such as `phone, dark`.
    pub caption: String,
    pub before: Option<PairPicture>,
    pub after: PairPicture,
}

/// The picture of before or of after the change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PairPicture {
    /// Index among the pictures of the line.
    pub place: usize,
    /// Description for people who do not see the picture.
    pub words: String,
}

impl PicturePair {
    pub fn title(page: &str, views: &[ViewShown]) -> String {
        if views.iter().any(|view| view.before.is_some()) {
            format!("shows {page} before and after the change")
        } else {
            format!("shows the new page {page}")
        }
    }

    pub fn of(page: &str, views: &[ViewShown]) -> Vec<Self> {
        let pair = |(index, view): (usize, &ViewShown)| {
            let caption = describe_view(view.width, view.colors);
            let picture = |place, when: &str| PairPicture {
                place,
                words: format!("{when}: {page}, {caption}"),
            };
            let before = view.before.as_ref().map(|_| picture(2 * index, "Before"));
            let after = picture(2 * index + 1, "After");
            Self { caption, before, after }
        };
        views.iter().enumerate().map(pair).collect()
    }
}

/// Slack's id of a picture of a line, by its number.
pub fn find_picture(event: &HistoryEvent, place: usize) -> Option<&str> {
    let HistoryEvent::Compared { views, .. } = event else { return None };
    let view = views.get(place / 2)?;
    if place.is_multiple_of(2) { view.before.as_deref() } else { Some(&view.after) }
}

#[cfg(test)]
mod tests {
    use codebutler_wire::{MessageAuthor, PageColors, PageWidth};

    use super::*;

    fn view(before: Option<&str>, after: &str) -> ViewShown {
        ViewShown {
            width: PageWidth::Phone,
            colors: PageColors::Dark,
            before: before.map(str::to_owned),
            after: after.to_owned(),
        }
    }

    #[test]
    fn each_picture_of_a_pair_has_an_address_of_its_own() {
        let views = vec![view(Some("F1"), "F2"), view(None, "F3")];
        let pairs = PicturePair::of("/cart", &views);
        assert_eq!(pairs[0].caption, "phone, dark");
        let before = pairs[0].before.as_ref().unwrap();
        assert_eq!(before.words, "Before: /cart, phone, dark");
        assert_eq!(pairs[1].before, None);
        let author = MessageAuthor::System;
        let event = HistoryEvent::Compared { page: "/cart".into(), views, author };
        let shown = [before.place, pairs[0].after.place, pairs[1].after.place];
        assert_eq!(
            shown.map(|place| find_picture(&event, place)),
            [Some("F1"), Some("F2"), Some("F3")]
        );
        assert_eq!([2, 4, usize::MAX].map(|place| find_picture(&event, place)), [None; 3]);
        assert_eq!(find_picture(&HistoryEvent::RunStarted, 1), None);
    }
}
