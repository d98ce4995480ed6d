//! The tools that families of models were trained on, by their ids: no provider's list says it. Pure.

use codebutler_crds::wire::EditForm;

use crate::dialect::ApiDialect;

/// Makers before a name, as `OpenRouter`, Bedrock and Vertex write them.
const SEPARATORS: [char; 3] = ['/', '.', ':'];

/// The form in which a model changes files best. One of a family that is not known gets the plain one.
pub fn edit_form(dialect: ApiDialect, id: &str) -> EditForm {
    let name = bare_name(id);
    if name.starts_with("claude") || id.contains("anthropic.claude") {
        return EditForm::ClaudeNames;
    }
    if !takes_patches(&name) {
        return EditForm::Replacements;
    }
    // `gpt-5` and what came after it take tools of free text, in OpenAI's own API alone.
    let takes_text = !name.contains("-chat")
        && ["gpt-5", "gpt-6", "gpt-7", "codex"].iter().any(|first| name.starts_with(first));
    if dialect == ApiDialect::OpenAi && takes_text { EditForm::FreePatch } else { EditForm::Patch }
}

/// True for models that read `propertyOrdering`: without it Gemini sorts the keys of a schema by name.
pub fn wants_key_order(id: &str) -> bool {
    bare_name(id).starts_with("gemini")
}

/// True for models that OpenAI serves by its Responses API alone. Its list does not say so.
pub fn is_responses_only(id: &str) -> bool {
    const FIRST: [&str; 6] = ["gpt-", "o1", "o3", "o4", "codex", "computer-use"];
    const MARKS: [&str; 5] = ["pro", "codex", "research", "daybreak", "computer"];
    let name = bare_name(id);
    FIRST.iter().any(|first| name.starts_with(first))
        && name.split('-').any(|part| MARKS.contains(&part))
        && !name.starts_with("gpt-rosalind")
}

/// OpenAI's models from `gpt-4.1` on, that were trained with `apply_patch`.
fn takes_patches(name: &str) -> bool {
    const OLDER: [&str; 3] = ["gpt-3", "gpt-4o", "gpt-4-"];
    let thinks = ["o3", "o4"].iter().any(|first| {
        name.strip_prefix(first).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    });
    let is_gpt = name.starts_with("gpt-") && name != "gpt-4";
    (is_gpt && !OLDER.iter().any(|old| name.starts_with(old)))
        || name.starts_with("codex")
        || thinks
}

/// The name without its maker, in small letters.
fn bare_name(id: &str) -> String {
    let id = id.trim_start_matches('~').to_ascii_lowercase();
    let name = id.rsplit_once('/').map_or(id.as_str(), |(_, name)| name);
    // `us.anthropic.claude-opus-5-v1:0`, but not the point in `gpt-5.6`.
    let maker = ["anthropic", "openai", "google"].iter().find_map(|maker| {
        let (_, rest) = name.split_once(maker)?;
        rest.strip_prefix(SEPARATORS)
    });
    maker.unwrap_or(name).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_family_changes_files_as_it_was_trained() {
        let form = |id| edit_form(ApiDialect::OpenRouter, id);
        for id in ["anthropic/claude-opus-5", "~anthropic/claude-sonnet-latest", "claude-haiku-4-5"]
        {
            assert_eq!(form(id), EditForm::ClaudeNames, "{id}");
        }
        assert_eq!(form("us.anthropic.claude-opus-5-v1:0"), EditForm::ClaudeNames);
        for id in ["openai/gpt-5.6-terra", "gpt-4.1-mini", "openai/gpt-oss-120b", "o3", "o4-mini"] {
            assert_eq!(form(id), EditForm::Patch, "{id}");
        }
        assert_eq!(form("openai/gpt-5.2-codex"), EditForm::Patch);
        for id in
            ["moonshotai/kimi-k3", "google/gemini-3.1-pro", "openai/gpt-4o-mini", "o30", "mine"]
        {
            assert_eq!(form(id), EditForm::Replacements, "{id}");
        }
    }

    #[test]
    fn free_text_goes_to_the_api_that_has_it() {
        let form = |id| edit_form(ApiDialect::OpenAi, id);
        assert_eq!(form("gpt-5.6-terra"), EditForm::FreePatch);
        assert_eq!(form("gpt-5-chat-latest"), EditForm::Patch);
        assert_eq!(form("gpt-4.1"), EditForm::Patch);
        assert_eq!(edit_form(ApiDialect::Plain, "gpt-5.6-terra"), EditForm::Patch);
    }

    #[test]
    fn models_of_the_responses_api_are_known_by_their_names() {
        for id in [
            "gpt-5.5-pro-2026-04-23",
            "o1-pro",
            "o3-deep-research",
            "gpt-5.1-codex-max",
            "gpt-5.3-codex",
            "codex-mini-latest",
            "computer-use-preview",
        ] {
            assert!(is_responses_only(id), "{id}");
        }
        for id in ["gpt-5.5", "gpt-5.6-sol", "o3", "o4-mini", "gemini-3-pro", "gpt-oss-120b", "pro"]
        {
            assert!(!is_responses_only(id), "{id}");
        }
    }

    #[test]
    fn gemini_is_sent_the_order_of_keys() {
        assert!(wants_key_order("google/gemini-3.1-pro-preview"));
        assert!(wants_key_order("models/gemini-2.5-flash"));
        assert!(!wants_key_order("google/gemma-3-27b") && !wants_key_order("openai/gpt-5.6"));
    }
}
