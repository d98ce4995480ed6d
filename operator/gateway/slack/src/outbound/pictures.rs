//! Pictures that people put into a conversation, for models that see, and those that roles show there.
//!
//! What Slack says of a file decides whether it is offered; what its first bytes say, whether it is
//! handed out. A role gets only what is in a message of its own conversation that it can read.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use codebutler_crds::Thread;
use codebutler_crds::wire::{ErrorCode, MAX_PICTURE, MAX_PICTURES, OwnPicture, SharedPicture};
use codebutler_gateway_core::api_error::ApiError;
use codebutler_gateway_core::image_kind::{IMAGE_TYPES, media_type};
use url::Url;

use crate::api::stored_message::{SharedMessage, SlackThumb};
use crate::outbound::uploads;
use crate::outbound::uploads::FileAttachment;

/// Most pictures of one message that are offered.
pub(crate) const OFFERED: usize = 4;
/// Longest name that is told, in characters.
const MAX_NAME: usize = 80;

/// The form in which models are shown a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PictureForm<'a> {
    /// The file itself, from this address.
    Original(&'a Url),
    /// The version that Slack has made: the file is too large or long, of a kind that models don't take, or not
    /// upright.
    Thumb(&'a SlackThumb),
    /// Nothing, for this reason.
    Unseen(&'static str),
}

/// Form in which a file is shown, if it is a picture, as far as Slack says.
pub(crate) fn picture_form(file: &SharedMessage) -> Option<PictureForm<'_>> {
    let kind = file.mimetype.as_str();
    if !kind.starts_with("image/") || kind.starts_with("image/svg") {
        return None;
    }
    let is_taken = IMAGE_TYPES.contains(&kind);
    let is_unfit = (file.is_turned || file.is_long) && !file.id.is_empty();
    if let Some(thumb) = file.thumb.as_ref().filter(|_| is_unfit) {
        return Some(PictureForm::Thumb(thumb));
    }
    Some(match (&file.url_private, &file.thumb) {
        _ if file.id.is_empty() => PictureForm::Unseen("Slack does not describe it"),
        // A model may refuse the whole request for it, in this turn and in each that follows.
        (Some(_), None) if file.is_long => PictureForm::Unseen(
            "it has more than 8,000 px on a side, and Slack has no smaller one: you do not see it",
        ),
        (Some(url), _) if is_taken && file.size <= MAX_PICTURE => PictureForm::Original(url),
        (_, Some(thumb)) => PictureForm::Thumb(thumb),
        (None, None) => PictureForm::Unseen("Slack does not hand it out"),
        (Some(_), None) if is_taken => PictureForm::Unseen(
            "it has more than 3 MiB, and Slack has no smaller one: you do not see it",
        ),
        (Some(_), None) => PictureForm::Unseen(
            "models take PNG, JPEG, GIF and WebP, and Slack has no such copy of it: you do not see it",
        ),
    })
}

/// The pictures among the files of a message that can be asked for.
pub(crate) fn offered_pictures(files: &[SharedMessage]) -> Vec<SharedPicture> {
    let offered = files.iter().filter(|file| can_be_shown(file)).take(OFFERED);
    let plain = |name: &str| {
        let shown = |c: &char| !c.is_control() && !matches!(c, '`' | '[' | ']');
        name.chars().filter(shown).take(MAX_NAME).collect()
    };
    offered.map(|file| SharedPicture { id: file.id.clone(), name: plain(&file.name) }).collect()
}

pub(crate) fn can_be_shown(file: &SharedMessage) -> bool {
    shown_url(file).is_some()
}

/// Address of the picture that is shown of a file.
pub(crate) fn shown_url(file: &SharedMessage) -> Option<&Url> {
    match picture_form(file)? {
        PictureForm::Original(url) => Some(url),
        PictureForm::Thumb(thumb) => Some(&thumb.url),
        PictureForm::Unseen(_) => None,
    }
}

/// Turns the pictures that a role shows with a message into files of that message.
///
/// # Errors
/// A sentence for the role.
pub(crate) fn shown_pictures(
    thread: &Thread,
    role: &str,
    key: &str,
    pictures: &[OwnPicture],
) -> Result<Vec<FileAttachment>, ApiError> {
    let refused = |why: String| Err(ApiError::new(ErrorCode::InvalidRequest, why));
    if pictures.len() > MAX_PICTURES {
        return refused(format!("a message shows at most {MAX_PICTURES} pictures"));
    }
    let mut files = Vec::new();
    for (index, OwnPicture { data }) in pictures.iter().enumerate() {
        let most = usize::try_from(MAX_PICTURE).unwrap_or(usize::MAX);
        let content = match STANDARD.decode(data) {
            Ok(content) if content.len() <= most => content,
            Ok(_) => return refused("a picture has at most 3 MiB: make it smaller".to_owned()),
            Err(_) => return refused("a picture's `data` has to be base64".to_owned()),
        };
        let Some(media_type) = media_type(&content) else {
            return refused("a picture has to be PNG, JPEG, GIF or WebP".to_owned());
        };
        let extension = media_type.rsplit('/').next().unwrap_or_default();
        let name = uploads::file_name("picture", thread, role, key, (index, extension));
        files.push(FileAttachment::new(name, content));
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::stored_message::StoredMessage;

    #[test]
    fn what_is_too_large_or_of_another_kind_is_shown_as_slack_shows_it() {
        let file = |kind: &str, size: u64, thumbs: &[&str]| -> SharedMessage {
            let mut file = serde_json::json!({"id": "F1", "name": "a", "mimetype": kind, "size": size,
                "url_private": "https://files.slack.com/x"});
            for thumb in thumbs {
                file[*thumb] = format!("https://files.slack.com/{thumb}").into();
            }
            serde_json::from_value(file).unwrap()
        };
        let all = ["thumb_64", "thumb_360", "thumb_960", "thumb_1024"];
        for (file, end) in [
            (file("image/png", 10, &all), "/x"),
            (file("image/png", MAX_PICTURE + 1, &all), "/thumb_1024"),
            (file("image/heic", 10, &all[..3]), "/thumb_960"),
            (file("image/tiff", MAX_PICTURE + 1, &all[..2]), "/thumb_360"),
        ] {
            let url = shown_url(&file).unwrap();
            assert!(url.as_str().ends_with(end), "{url}");
        }
        let mut photo = file("image/jpeg", 10, &all);
        photo.is_turned = true;
        assert!(shown_url(&photo).unwrap().as_str().ends_with("/thumb_1024"), "upright");
        photo.thumb = None;
        assert!(shown_url(&photo).unwrap().as_str().ends_with("/x"));
        let mut long = file("image/png", 10, &all[..3]);
        long.is_long = true;
        assert!(shown_url(&long).unwrap().as_str().ends_with("/thumb_960"));
        // Of the largest ones Slack makes no smaller one.
        long.thumb = None;
        for (unseen, why) in [
            (long, "more than 8,000 px"),
            (file("image/jpeg", MAX_PICTURE + 1, &all[..1]), "more than 3 MiB"),
            (file("image/heic", 10, &[]), "models take PNG"),
        ] {
            let Some(PictureForm::Unseen(said)) = picture_form(&unseen) else { panic!() };
            assert!(said.contains(why), "{said}");
        }
        for kind in ["image/svg+xml", "application/pdf"] {
            assert_eq!(picture_form(&file(kind, 10, &all)), None);
        }
    }

    #[test]
    fn only_pictures_of_a_size_that_fits_are_offered() {
        let file = |id: &str, kind: &str, size: u64| {
            serde_json::json!({"id": id, "name": "a`b]\n.png", "mimetype": kind, "size": size,
                "url_private": "https://files.slack.com/x"})
        };
        let message: StoredMessage = serde_json::from_value(serde_json::json!({
            "ts": "1.000000", "user": "U1", "text": "look",
            "files": [
                file("F1", "image/png", 10),
                file("F2", "image/svg+xml", 10),
                file("F3", "image/png", MAX_PICTURE + 1),
                file("F4", "application/zip", 10),
                file("F5", "image/webp", MAX_PICTURE),
                {"id": "F6", "mimetype": "image/png", "size": 1},
            ],
        }))
        .unwrap();
        let offered: Vec<_> =
            offered_pictures(&message.files).into_iter().map(|p| (p.id, p.name)).collect();
        let named = |id: &str| (id.to_owned(), "ab.png".to_owned());
        assert_eq!(offered, [named("F1"), named("F5")]);
    }
}
