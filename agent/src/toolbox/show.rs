//! What Read shows of files that are not plain text: pictures for models that see, and notebooks.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::ToolError;
use super::paths::LocatedPath;
use super::protocol::WorktreePicture;

/// Largest picture, in bytes.
const MAX_PICTURE: usize = 3 * 1024 * 1024;
/// Characters of one output of a notebook.
const MAX_OUTPUT: usize = 2_000;

/// The media type of a picture that models take, by its first bytes.
pub fn media_type(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0x89, b'P', b'N', b'G', 0x0d, 0x0a, 0x1a, 0x0a, ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}

/// A picture.
///
/// # Errors
/// When it is too large.
pub fn read_picture(
    at: &LocatedPath,
    media_type: &str,
    bytes: &[u8],
) -> Result<WorktreePicture, ToolError> {
    let (shown, size) = (&at.shown, bytes.len());
    if size > MAX_PICTURE {
        return Err(ToolError::refused(format!(
            "`{shown}` is a picture of {size} bytes, and {MAX_PICTURE} can be shown: make a smaller copy with \
             Bash, and Read that"
        )));
    }
    Ok(WorktreePicture {
        media_type: media_type.to_owned(),
        data: STANDARD.encode(bytes),
        shown: shown.clone(),
    })
}

/// A Jupyter notebook as text: its cells with what they put out. Pictures in it are named only.
pub fn show_notebook(text: &str) -> Option<String> {
    let notebook: Value = serde_json::from_str(text).ok()?;
    let mut out = String::new();
    for (index, cell) in notebook.get("cells")?.as_array()?.iter().enumerate() {
        let kind = cell["cell_type"].as_str().unwrap_or("cell");
        let _ =
            writeln!(out, "# [{kind} {}]\n{}", index + 1, join_lines(&cell["source"]).trim_end());
        for output in cell["outputs"].as_array().into_iter().flatten() {
            let shown = show_output(output);
            if !shown.trim().is_empty() {
                let shown = codebutler_guides::text::head_and_tail(shown.trim_end(), MAX_OUTPUT);
                let _ = writeln!(out, "# [output]\n{shown}");
            }
        }
        out.push('\n');
    }
    Some(out)
}

fn show_output(output: &Value) -> String {
    if let Some(name) = output["ename"].as_str() {
        return format!("{name}: {}", output["evalue"].as_str().unwrap_or_default());
    }
    let text = join_lines(&output["text"]);
    if !text.is_empty() {
        return text;
    }
    let plain = join_lines(&output["data"]["text/plain"]);
    let others = output["data"].as_object().into_iter().flatten();
    let pictures = others
        .filter(|(kind, _)| kind.starts_with("image/"))
        .map(|(kind, _)| format!("[{kind}]\n"));
    pictures.collect::<String>() + &plain
}

/// Notebooks write text as one string or as a list of lines.
fn join_lines(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(lines) => lines.iter().filter_map(Value::as_str).collect(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_notebook_reads_as_its_cells() {
        let text = json!({"cells": [
            {"cell_type": "markdown", "source": ["# Title\n", "Words"]},
            {"cell_type": "code", "source": "1 + 1", "outputs": [
                {"data": {"text/plain": ["2"], "image/png": "aGk="}}, {"text": "printed\n"},
                {"ename": "ValueError", "evalue": "no"}]},
        ]});
        insta::assert_snapshot!(show_notebook(&text.to_string()).unwrap().trim(), @r"
        # [markdown 1]
        # Title
        Words

        # [code 2]
        1 + 1
        # [output]
        [image/png]
        2
        # [output]
        printed
        # [output]
        ValueError: no
        ");
        assert_eq!(show_notebook("{}"), None);
        assert_eq!(show_notebook("not JSON"), None);
    }
}
