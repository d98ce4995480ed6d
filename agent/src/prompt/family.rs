//! Instructions for families of models, from `seeds/families.md`: nothing here knows a model.

use codebutler_guides::seeds;

/// Finds the addendum for a model by its id, if its family needs one.
pub(super) fn family_addendum(model: &str) -> Option<&'static str> {
    family_text(seeds::find_seed("families.md")?, model)
}

/// Finds the text of the first section whose heading is a prefix of the id.
fn family_text<'t>(table: &'t str, model: &str) -> Option<&'t str> {
    let model = model.trim_start_matches('~').to_lowercase();
    let name = model.rsplit_once('/').map_or(model.as_str(), |(_, name)| name);
    let sections = table.split("\n## ").skip(1);
    let mut sections = sections.filter_map(|section| section.split_once('\n'));
    let (_, text) = sections.find(|(heading, _)| {
        heading
            .split_whitespace()
            .any(|begins| name.starts_with(begins) || model.starts_with(begins))
    })?;
    Some(text.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_is_found_by_how_ids_begin() {
        let table =
            "# Table\n\nWhat this is.\n\n## gpt- o3\n\n- Go on.\n\n## kimi- acme/\n\n- One call.\n";
        for (model, expected) in [
            ("openai/gpt-5.6-terra", Some("- Go on.")),
            ("o3", Some("- Go on.")),
            ("~moonshotai/Kimi-latest", Some("- One call.")),
            ("acme/anything", Some("- One call.")),
            ("anthropic/claude-opus-5", None),
            ("", None),
        ] {
            assert_eq!(family_text(table, model), expected, "{model}");
        }
    }

    #[test]
    fn the_shipped_table_can_be_read() {
        for model in ["openai/gpt-5.6-terra", "google/gemini-3.1-pro-preview", "z-ai/glm-5.2"] {
            let text = family_addendum(model).unwrap_or_default();
            assert!(text.starts_with("- ") && !text.contains("##"), "{model}: {text}");
        }
        assert_eq!(family_addendum("anthropic/claude-opus-5"), None);
    }
}
