//! Images that models made: in a folder of the worktree that is in no commit, until people choose one.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use codebutler_wire::{MAX_IMAGE, MAX_SOURCE};

use super::ToolError;
use super::attachments::KeptAttachments;
use super::exclude::exclude_paths;
use super::files::{self, load_file};
use super::kinds::media_type;
use super::paths::WorktreeRoot;
use super::pixels::picture_sides;
use super::protocol::WorktreePicture;

/// Folder of the images, in the worktree.
const FOLDER: &str = ".codebutler/images";

/// An image that a model is to change.
pub(super) fn load_image(tree: &WorktreeRoot, path: &str) -> Result<WorktreePicture, ToolError> {
    let at = tree.locate(path)?;
    let bytes = load_file(&at)?;
    let shown = at.shown;
    let Some(media_type) = media_type(&bytes) else {
        return Err(ToolError::refused(format!(
            "`{shown}` is not an image, whatever its name says: PNG, JPEG and WebP can be changed"
        )));
    };
    if bytes.len() > MAX_SOURCE {
        return Err(ToolError::refused(format!(
            "`{shown}` has {} bytes, and {MAX_SOURCE} can be changed: a smaller copy has to be made first",
            bytes.len()
        )));
    }
    Ok(WorktreePicture {
        media_type: media_type.to_owned(),
        sides: picture_sides(&bytes),
        data: STANDARD.encode(bytes),
        shown,
        note: String::new(),
    })
}

/// Puts a kept file of the conversation into the folder of images; its path there.
pub(super) fn keep_image(
    (tree, scratch): (&WorktreeRoot, &Path),
    kept: &KeptAttachments,
    (id, name): (&str, &str),
) -> Result<String, ToolError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if name.is_empty() || name.starts_with('.') || !name.chars().all(plain) {
        return Err(ToolError::refused(format!("`{name}` is not the name of an image")));
    }
    let bytes = kept.load(id)?;
    if media_type(&bytes).is_none() || bytes.len() > MAX_IMAGE {
        return Err(ToolError::refused("the file is not an image, or is too large".to_owned()));
    }
    exclude_paths(&tree.root().join(".git"), &[&format!("/{FOLDER}/")]);
    let path = format!("{FOLDER}/{name}");
    files::save_file(tree, scratch, (&path, true), &bytes)?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::toolbox::kinds::check_ending;
    use crate::toolbox::protocol::AttachmentPart;

    const PNG: &[u8] = b"\x89PNG\r\n\x1a\nrest";

    #[test]
    fn images_are_kept_out_of_commits_and_are_what_their_bytes_say() {
        let dir = tempfile::tempdir().unwrap();
        for folder in ["tree/.git/info", "scratch", "build"] {
            std::fs::create_dir_all(dir.path().join(folder)).unwrap();
        }
        let tree = WorktreeRoot::open(&dir.path().join("tree")).unwrap();
        let scratch = dir.path().join("scratch");
        let kept = KeptAttachments::of(&dir.path().join("build"));
        for (id, bytes) in [("F1", PNG), ("F2", b"<svg onload=x>")] {
            let data = STANDARD.encode(bytes);
            let name = "image-ab-1.png".to_owned();
            kept.keep(&AttachmentPart { id: id.to_owned(), name, offset: 0, data, last: true })
                .unwrap();
        }
        let keep = |id: &str, name: &str| keep_image((&tree, &scratch), &kept, (id, name));
        for _ in 0..2 {
            assert_eq!(keep("F1", "image-ab-1.png").unwrap(), ".codebutler/images/image-ab-1.png");
        }
        let exclude = std::fs::read_to_string(dir.path().join("tree/.git/info/exclude")).unwrap();
        assert_eq!(exclude, "/.codebutler/images/\n");
        assert!(keep("F2", "x.png").is_err() && keep("F1", "../x.png").is_err());
        let loaded = load_image(&tree, ".codebutler/images/image-ab-1.png").unwrap();
        assert_eq!(
            (loaded.media_type.as_str(), STANDARD.decode(loaded.data).unwrap()),
            ("image/png", PNG.to_vec())
        );
        std::fs::write(tree.root().join("a.png"), "<html>").unwrap();
        assert!(
            load_image(&tree, "a.png").unwrap_err().to_string().contains("whatever its name says")
        );
        assert!(check_ending(PNG, "public/logo.PNG").is_ok());
        let wrong = check_ending(PNG, "favicon.svg").unwrap_err().to_string();
        assert!(wrong.contains("ends in .png"), "{wrong}");
    }
}
