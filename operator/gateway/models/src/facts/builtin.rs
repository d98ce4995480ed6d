//! Built-in facts about models whose providers' lists tell next to nothing. Pure.

use codebutler_crds::role::ReasoningEffort::{self, High, Low, Medium};
use codebutler_crds::wire::CacheForm;

use super::{KnownModelFacts, ThinkingFacts};
use crate::dialect::ApiDialect;

/// Ollama takes a few thousand tokens unless it is told otherwise, and cuts the rest in silence. An
/// agent can't work with less than this.
const OLLAMA: u32 = 32_000;

pub fn builtin_facts(dialect: ApiDialect, id: &str) -> KnownModelFacts {
    let facts = match dialect {
        ApiDialect::OpenAi => openai_facts(id),
        ApiDialect::Azure | ApiDialect::Anthropic | ApiDialect::OpenRouter | ApiDialect::Plain => {
            KnownModelFacts::default()
        }
    };
    KnownModelFacts { cache: cache_form(dialect, id), ..facts }
}

/// Returns the facts about a model that Ollama serves.
pub fn ollama_facts() -> KnownModelFacts {
    KnownModelFacts { window: Some(OLLAMA), ..KnownModelFacts::default() }
}

/// Anthropic keeps what is marked, whoever passes it on; so does Alibaba, by way of `OpenRouter`.
fn cache_form(dialect: ApiDialect, id: &str) -> CacheForm {
    let id = id.strip_prefix('~').unwrap_or(id);
    let alibaba = || id.starts_with("qwen/") || id == "deepseek/deepseek-v3.2";
    if id.starts_with("anthropic/") || (dialect == ApiDialect::OpenRouter && alibaba()) {
        CacheForm::Marked
    } else {
        CacheForm::Automatic
    }
}

/// Returns the facts of a model's family: the longest matching prefix counts.
fn openai_facts(id: &str) -> KnownModelFacts {
    const FAMILIES: [(&str, u32, u32, bool); 9] = [
        ("gpt-3.5", 16_385, 4_096, false),
        ("gpt-4-", 128_000, 4_096, false),
        ("gpt-4.1", 1_047_576, 32_768, false),
        ("gpt-4o", 128_000, 16_384, false),
        ("gpt-5", 400_000, 128_000, true),
        ("gpt-5-chat", 128_000, 16_384, false),
        ("o1", 200_000, 100_000, true),
        ("o3", 200_000, 100_000, true),
        ("o4-mini", 200_000, 100_000, true),
    ];
    let known = FAMILIES.iter().filter(|(family, ..)| id.starts_with(family));
    let Some(&(family, window, longest, thinks)) = known.max_by_key(|(family, ..)| family.len())
    else {
        return KnownModelFacts::default();
    };
    KnownModelFacts {
        window: Some(window),
        max_tokens: Some(longest),
        tools: Some(true),
        sees: Some(family != "gpt-3.5"),
        thinking: thinks
            .then(|| ThinkingFacts { efforts: known_efforts(), ..ThinkingFacts::default() }),
        ..KnownModelFacts::default()
    }
}

/// Returns the efforts that each of the families that think knows.
fn known_efforts() -> Vec<ReasoningEffort> {
    vec![Low, Medium, High]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_are_known_where_the_list_is_bare() {
        let of = |id| builtin_facts(ApiDialect::OpenAi, id);
        assert_eq!(of("gpt-5.5").window, Some(400_000));
        assert!(of("gpt-5.5").thinking.is_some() && of("gpt-5-chat-latest").thinking.is_none());
        assert_eq!(of("gpt-4o-mini").max_tokens, Some(16_384));
        assert_eq!(of("my-model"), KnownModelFacts::default());
        assert_eq!(
            builtin_facts(ApiDialect::Plain, "gpt-5.5"),
            KnownModelFacts::default(),
            "anybody may call it so"
        );
    }

    #[test]
    fn marks_are_for_those_who_keep_by_them() {
        for (id, form) in [
            ("anthropic/claude-opus-5", CacheForm::Marked),
            ("~anthropic/claude-sonnet-latest", CacheForm::Marked),
            ("qwen/qwen3-coder-plus", CacheForm::Marked),
            ("deepseek/deepseek-v3.2", CacheForm::Marked),
            ("deepseek/deepseek-v4-flash", CacheForm::Automatic),
            ("openai/gpt-5.6-sol", CacheForm::Automatic),
            ("claude-opus-5", CacheForm::Automatic),
        ] {
            assert_eq!(builtin_facts(ApiDialect::OpenRouter, id).cache, form, "{id}");
        }
        let plain = |id| builtin_facts(ApiDialect::Plain, id).cache;
        assert_eq!(plain("anthropic/claude-opus-5"), CacheForm::Marked);
        assert_eq!(plain("qwen/qwen3-32b"), CacheForm::Automatic, "others serve it, too");
    }
}
