//! Cells of tables, as far as Slack counts them.

use serde_json::Value;

/// Characters that a reader sees in the cells of a table.
pub(super) fn cells_length(block: &Value) -> usize {
    let rows = block["rows"].as_array().into_iter().flatten();
    rows.flat_map(|row| row.as_array().into_iter().flatten()).map(text_length).sum()
}

fn text_length(value: &Value) -> usize {
    let own = ["text", "url"].iter().find_map(|name| value[*name].as_str());
    let number = value["value"].as_number().map_or(0, |number| number.to_string().len());
    let inside = value["elements"].as_array().into_iter().flatten().map(text_length);
    own.map_or(number, |text| text.chars().count()) + inside.sum::<usize>()
}
