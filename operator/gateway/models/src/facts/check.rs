//! Checks that the provider has the roles' models, and that they can do the roles' work. Pure.

use std::collections::BTreeMap;

use codebutler_crds::AgentRole;
use codebutler_crds::model::{DEFAULT_PROVIDER, ModelSpec};
use jiff::civil::Date;
use kube::ResourceExt as _;

use super::{KnownModelFacts, family};

/// Tokens that the guides and tools of a role and a little work take at least.
const LEAST: u32 = 12_000;
/// Names that are proposed for one that does not exist.
const PROPOSED: usize = 3;
/// Least similarity of two names.
const ALIKE: f64 = 0.55;
/// Faults that a sentence tells; the others are counted.
const TOLD: usize = 5;
/// Suffixes that may follow an id at `OpenRouter`, whatever the model.
const VARIANTS: [&str; 5] = ["nitro", "floor", "online", "exacto", "thinking"];

/// The provider's models by id.
pub type CheckedModels = BTreeMap<String, KnownModelFacts>;

/// A role that works for the Repo.
pub struct RepoWorker<'a> {
    pub role: &'a AgentRole,
    /// Facts about the role's models, the Repo's own word included.
    pub facts: &'a dyn Fn(&str) -> KnownModelFacts,
}

/// A model as the providers' lists have it.
pub enum ListedModel {
    /// A provider has the model, or the list that would tell is not known.
    Usable,
    /// No provider has the model: with the name of whose model it would be, and names that are like
    /// it, in code marks.
    Missing { of: String, nearest: Vec<String> },
    /// The provider serves the model by another API than that of chats: with names of its models of chats that are like
    /// it.
    OtherApi { nearest: Vec<String> },
}

/// Tells all faults in one sentence; None if there are none.
pub fn find_faults(
    workers: &[RepoWorker<'_>],
    find_listed: &dyn Fn(&str) -> ListedModel,
    today: Date,
) -> Option<String> {
    let mut faults: Vec<String> = Vec::new();
    for RepoWorker { role, facts } in workers {
        let has_tools = role.spec.tools.offered().next().is_some();
        let spec = &role.spec.model;
        let talking = spec.talking().map(|(field, model)| (field, model, has_tools));
        let image = spec.image.as_deref().map(|model| ("image", model, false));
        let audio = spec.audio.as_deref().map(|model| ("audio", model, false));
        for (field, model, has_tools) in talking.chain(image).chain(audio) {
            let fault = match find_listed(model) {
                ListedModel::Missing { of, nearest } => Some(missing_sentence(&of, &nearest)),
                ListedModel::OtherApi { nearest } => Some(other_api_sentence(&nearest)),
                ListedModel::Usable => find_fault(&facts(model), has_tools, today),
            };
            let Some(fault) = fault else { continue };
            faults.push(format!(
                "`{model}` in spec.model.{field} of AgentRole `{}` {fault}",
                role.name_any()
            ));
        }
    }
    faults.dedup();
    let more = faults.len().saturating_sub(TOLD);
    faults.truncate(TOLD);
    let rest = if more > 0 { format!("; and {more} more") } else { String::new() };
    (!faults.is_empty()).then(|| faults.join("; ") + &rest)
}

fn missing_sentence(of: &str, nearest: &[String]) -> String {
    if nearest.is_empty() {
        format!("is no model of {of}: choose one of its list")
    } else {
        format!("is no model of {of}: nearest are {}", nearest.join(", "))
    }
}

fn other_api_sentence(nearest: &[String]) -> String {
    let nearest = if nearest.is_empty() {
        String::new()
    } else {
        format!(" (nearest are {})", nearest.join(", "))
    };
    format!(
        "is served by OpenAI's Responses API alone, which is spoken for searches only: choose another{nearest}, or reach \
         it by OpenRouter, in spec.model.providers of the Repo"
    )
}

/// Tells how models are counted for which neither the provider nor the Repo has a price: without
/// it, a bill would look like one. `is_free` says whether a model is served in the own network.
pub fn tell_unpriced(workers: &[RepoWorker<'_>], is_free: &dyn Fn(&str) -> bool) -> Option<String> {
    let mut models: Vec<&str> = Vec::new();
    for RepoWorker { role, facts } in workers {
        let talking = role.spec.model.talking().map(|(_, model)| model);
        models.extend(talking.filter(|model| facts(model).prices.is_none()));
    }
    models.sort_unstable();
    models.dedup();
    let (free, paid): (Vec<&str>, Vec<&str>) = models.into_iter().partition(|model| is_free(model));
    let told = [
        tell_counted(&free, "count as free, since they are served in your own network"),
        tell_counted(&paid, "are estimated as those of a large model"),
    ];
    let told: Vec<String> = told.into_iter().flatten().collect();
    (!told.is_empty()).then(|| told.join("; "))
}

/// Tells which models are not asked to think as much as their roles want: nothing else would show it.
pub fn tell_untold(models: &[String]) -> Option<String> {
    let more = models.len().saturating_sub(TOLD);
    let named = models.iter().take(TOLD).map(String::as_str).collect::<Vec<_>>().join(", ");
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    (!models.is_empty()).then(|| {
        format!(
            "spec.model.reasoning is not sent to {named}{rest}, whose API has refused it: another provider of the \
             same model may take it"
        )
    })
}

fn tell_counted(models: &[&str], counted: &str) -> Option<String> {
    let more = models.len().saturating_sub(TOLD);
    let named: Vec<String> = models.iter().take(TOLD).map(|model| format!("`{model}`")).collect();
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    (!models.is_empty()).then(|| {
        format!(
            "it names no prices for {}{rest}: their calls {counted}, until spec.model.prices names them",
            named.join(", ")
        )
    })
}

fn find_fault(facts: &KnownModelFacts, has_tools: bool, today: Date) -> Option<String> {
    if has_tools && facts.is_template_toolless {
        return Some(
            "is served with a chat template that knows no tools, which the role has: have it served \
             with one that does (--jinja, --chat-template-file), or choose another"
                .to_owned(),
        );
    }
    if has_tools && facts.tools == Some(false) {
        return Some("can't call tools, which the role has: choose one that can".to_owned());
    }
    if let Some(window) = facts.window.filter(|window| has_tools && *window < LEAST) {
        return Some(format!(
            "takes {window} tokens, too few for work with tools: choose one that takes more, or \
             have it served with a larger window (spec.model.models of the Repo says which)"
        ));
    }
    let ended = |day: &&String| day.parse::<Date>().is_ok_and(|day| day < today);
    let day = facts.expires.as_ref().filter(ended)?;
    Some(format!("has ended on {day}: choose another"))
}

/// A model by the name that somebody wrote down.
pub fn find_model<'a>(model: &str, listed: &'a CheckedModels) -> Option<&'a KnownModelFacts> {
    let plain = |model: &str| listed.get(model);
    plain(model)
        .or_else(|| {
            let (bare, variant) = model.rsplit_once(':')?;
            VARIANTS.contains(&variant).then(|| plain(bare))?
        })
        // Ollama's name for what has no tag; Google's list, in its own words.
        .or_else(|| plain(&format!("{model}:latest")))
        .or_else(|| plain(&format!("models/{model}")))
}

/// Names of models that are like one that no provider knows, in code marks, as a role would write them.
/// `lists` are the providers' lists by name.
pub fn nearest_names<'a>(
    spec: &ModelSpec,
    model: &str,
    lists: impl Iterator<Item = (&'a str, &'a CheckedModels)>,
) -> Vec<String> {
    let wanted = spec.split_name(model);
    let names = lists.flat_map(|(provider, models)| {
        let is_wanted = wanted.as_ref().is_none_or(|(wanted, _)| wanted.name == provider);
        let names = models.keys().filter(move |_| is_wanted);
        names.map(move |id| match provider {
            DEFAULT_PROVIDER => id.clone(),
            provider => format!("{provider}/{id}"),
        })
    });
    let names: Vec<String> = names.collect();
    nearest_models(model, names.iter())
}

/// The names of a provider's models of chats that are most like one that is none, in code marks.
pub fn nearest_chats(provider: &str, model: &str, listed: &CheckedModels) -> Vec<String> {
    let chats = listed.keys().filter(|id| !family::is_responses_only(id));
    let names: Vec<String> = chats
        .map(|id| match provider {
            DEFAULT_PROVIDER => id.clone(),
            provider => format!("{provider}/{id}"),
        })
        .collect();
    nearest_models(model, names.iter())
}

/// The names most like one that does not exist, in code marks.
fn nearest_models<'a>(model: &str, known: impl Iterator<Item = &'a String>) -> Vec<String> {
    let wanted = fold_spelling(model);
    let mut scored: Vec<(f64, &String)> = known
        .map(|id| (name_likeness(&wanted, &fold_spelling(id)), id))
        .filter(|(score, _)| *score >= ALIKE)
        .collect();
    scored.sort_by(|(a, x), (b, y)| b.total_cmp(a).then_with(|| x.cmp(y)));
    scored.into_iter().take(PROPOSED).map(|(_, id)| format!("`{id}`")).collect()
}

/// Providers spell versions with dots or dashes, and some append a date.
fn fold_spelling(id: &str) -> String {
    let lower = id.to_ascii_lowercase().replace(['.', '_'], "-");
    match lower.rsplit_once('-') {
        Some((name, date)) if date.len() == 8 && date.bytes().all(|b| b.is_ascii_digit()) => {
            name.to_owned()
        }
        _ => lower,
    }
}

/// Compares two names, with or without the maker's name.
fn name_likeness(wanted: &str, id: &str) -> f64 {
    let name =
        |id: &str| id.rsplit_once('/').map_or_else(|| id.to_owned(), |(_, name)| name.into());
    let whole = strsim::normalized_damerau_levenshtein(wanted, id);
    let bare = strsim::normalized_damerau_levenshtein(&name(wanted), &name(id));
    whole.max(bare * 0.95)
}

#[cfg(test)]
#[allow(clippy::needless_pass_by_value)] // so that what is expected reads well
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn role(name: &str, tools: &[&str], model: Value) -> AgentRole {
        serde_json::from_value(json!({
            "apiVersion": "codebutler.dev/v1alpha1", "kind": "AgentRole",
            "metadata": {"name": name, "namespace": "team"},
            "spec": {"role": name, "display": {"name": "X", "icon": ":x:"}, "model": model,
                     "tools": {"allow": tools}},
        }))
        .unwrap()
    }

    fn listed() -> CheckedModels {
        let with = |tools, expires: Option<&str>| KnownModelFacts {
            tools,
            expires: expires.map(str::to_owned),
            ..KnownModelFacts::default()
        };
        [
            ("anthropic/claude-opus-4.6", with(Some(true), None)),
            ("anthropic/claude-opus-5", with(Some(true), None)),
            ("anthropic/claude-sonnet-4.5", with(Some(true), None)),
            ("moonshotai/kimi-k3", with(Some(true), Some("2026-11-21"))),
            ("deepseek/deepseek-r1", with(Some(false), Some("2026-11-22"))),
            ("qwen3:latest", with(None, None)),
        ]
        .into_iter()
        .map(|(id, facts)| (id.to_owned(), facts))
        .collect()
    }

    fn found(roles: &[AgentRole]) -> Option<String> {
        let listed = listed();
        let facts = |model: &str| find_model(model, &listed).cloned().unwrap_or_default();
        let workers: Vec<_> = roles.iter().map(|role| RepoWorker { role, facts: &facts }).collect();
        find_faults(&workers, &find_in(&listed), "2026-11-22".parse().unwrap())
    }

    fn find_in(listed: &CheckedModels) -> impl Fn(&str) -> ListedModel {
        |model| match find_model(model, listed) {
            Some(_) => ListedModel::Usable,
            None => ListedModel::Missing {
                of: "the provider".to_owned(),
                nearest: nearest_models(model, listed.keys()),
            },
        }
    }

    #[test]
    fn a_name_that_does_not_exist_is_named_with_its_field_and_the_nearest() {
        let coder = role(
            "coder",
            &["Bash"],
            json!({"default": "anthropic/claude-opus-4-6", "pool": ["claude-sonnet-4-5-20250929"],
                   "tiers": {"complex": "zzz"}, "image": "unlisted/brush", "audio": "unlisted/ear"}),
        );
        insta::assert_snapshot!(found(&[coder]).unwrap().replace("; ", "\n"), @r"
        `anthropic/claude-opus-4-6` in spec.model.default of AgentRole `coder` is no model of the provider: nearest are `anthropic/claude-opus-4.6`, `anthropic/claude-opus-5`, `anthropic/claude-sonnet-4.5`
        `claude-sonnet-4-5-20250929` in spec.model.pool of AgentRole `coder` is no model of the provider: nearest are `anthropic/claude-sonnet-4.5`, `anthropic/claude-opus-4.6`, `anthropic/claude-opus-5`
        `zzz` in spec.model.tiers.complex of AgentRole `coder` is no model of the provider: choose one of its list
        `unlisted/brush` in spec.model.image of AgentRole `coder` is no model of the provider: choose one of its list
        `unlisted/ear` in spec.model.audio of AgentRole `coder` is no model of the provider: choose one of its list
        ");
    }

    #[test]
    fn a_model_of_the_responses_api_is_told_with_those_of_chats() {
        let ids = ["gpt-5.5", "gpt-5.5-pro", "gpt-5.5-pro-2026-04-23", "gpt-5-codex"];
        let known = |id: &str| (id.to_owned(), KnownModelFacts::default());
        let listed: CheckedModels = ids.into_iter().map(known).collect();
        let role = role("coder", &["Bash"], json!({"default": "gpt-5.5-pro"}));
        let facts = |_: &str| KnownModelFacts::default();
        let told = |provider: &str| {
            let find = |model: &str| ListedModel::OtherApi {
                nearest: nearest_chats(provider, model, &listed),
            };
            let workers = [RepoWorker { role: &role, facts: &facts }];
            find_faults(&workers, &find, "2026-11-22".parse().unwrap()).unwrap()
        };
        assert!(
            told(DEFAULT_PROVIDER).starts_with(
                "`gpt-5.5-pro` in spec.model.default of AgentRole `coder` is served by OpenAI's Responses API alone"
            )
        );
        assert!(told(DEFAULT_PROVIDER).contains("choose another (nearest are `gpt-5.5`)"));
        assert!(told("openai").contains("nearest are `openai/gpt-5.5`"));
    }

    #[test]
    fn a_model_without_tools_is_none_for_a_role_with_tools() {
        let talker = role("talker", &[], json!({"default": "deepseek/deepseek-r1"}));
        assert_eq!(found(&[talker]), None);
        let coder = role("coder", &["Bash"], json!({"default": "deepseek/deepseek-r1"}));
        assert!(found(&[coder]).unwrap().contains("AgentRole `coder` can't call tools"));
    }

    #[test]
    fn a_window_that_the_prompt_alone_fills_is_told() {
        let listed = CheckedModels::from([(
            "m".to_owned(),
            KnownModelFacts { window: Some(4_096), ..KnownModelFacts::default() },
        )]);
        let facts = |model: &str| listed[model].clone();
        let told = |tools: &[&str]| {
            let role = role("coder", tools, json!({"default": "m"}));
            let workers = [RepoWorker { role: &role, facts: &facts }];
            find_faults(&workers, &find_in(&listed), "2026-11-22".parse().unwrap())
        };
        assert!(told(&["Bash"]).unwrap().contains("AgentRole `coder` takes 4096 tokens, too few"));
        assert_eq!(told(&[]), None);
    }

    #[test]
    fn a_model_whose_template_knows_no_tools_is_told() {
        let facts = KnownModelFacts {
            tools: Some(false),
            is_template_toolless: true,
            ..KnownModelFacts::default()
        };
        let listed = CheckedModels::from([("m".to_owned(), facts)]);
        let facts = |model: &str| listed[model].clone();
        let role = role("coder", &["Bash"], json!({"default": "m"}));
        let workers = [RepoWorker { role: &role, facts: &facts }];
        let found =
            find_faults(&workers, &find_in(&listed), "2026-11-22".parse().unwrap()).unwrap();
        assert!(found.contains("a chat template that knows no tools"), "{found}");
    }

    #[test]
    fn what_has_no_price_is_told_with_what_it_counts_as() {
        let priced = KnownModelFacts {
            prices: Some(codebutler_crds::limits::ModelPrice::default().into()),
            ..KnownModelFacts::default()
        };
        let facts =
            |model: &str| if model == "a" { priced.clone() } else { KnownModelFacts::default() };
        let role = role("pm", &[], json!({"default": "a", "pool": ["b", "c", "b"]}));
        let workers = [RepoWorker { role: &role, facts: &facts }];
        let told = |free| tell_unpriced(&workers, &|_: &str| free).unwrap();
        assert!(
            told(true).starts_with("it names no prices for `b`, `c`: their calls count as free")
        );
        assert!(
            told(false)
                .contains("are estimated as those of a large model, until spec.model.prices")
        );
        let known = |_: &str| priced.clone();
        let workers = [RepoWorker { role: &role, facts: &known }];
        assert_eq!(tell_unpriced(&workers, &|_| true), None);
    }

    #[test]
    fn a_model_that_has_ended_is_told_and_its_last_day_is_not() {
        let pm = role("pm", &[], json!({"default": "moonshotai/kimi-k3"}));
        assert!(found(&[pm]).unwrap().ends_with("has ended on 2026-11-21: choose another"));
    }

    #[test]
    fn known_ways_of_writing_a_name_are_right() {
        for id in ["anthropic/claude-opus-5:nitro", "qwen3", "anthropic/claude-opus-5"] {
            assert_eq!(found(&[role("pm", &["Read"], json!({"default": id}))]), None, "{id}");
        }
        let free = role("pm", &[], json!({"default": "anthropic/claude-opus-5:free"}));
        assert!(found(&[free]).is_some(), "a model of its own, which is not there");
    }

    #[test]
    fn many_faults_are_counted() {
        let pool: Vec<String> = (0..9).map(|n| format!("none/{n}")).collect();
        let pm = role("pm", &[], json!({"default": "anthropic/claude-opus-5", "pool": pool}));
        assert!(found(&[pm]).unwrap().ends_with("; and 4 more"));
    }
}
