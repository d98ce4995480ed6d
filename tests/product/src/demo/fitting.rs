//! A model for all roles at a provider that has none of those that the roles name.

use codebutler_crds::AgentRole;

/// Families that can do every role's work, the better first: what stands before and behind a version.
const FAMILIES: [(&str, &str); 3] = [("claude-sonnet-", ""), ("gpt-", ""), ("gemini-", "-flash")];
/// Prefix of the models' names in Google's list.
const GOOGLE: &str = "models/";
/// Parts of a version from here on are dates.
const DATES: u32 = 1000;
/// Hosts of providers, and how the names of their models begin elsewhere.
const VENDORS: [(&str, &str); 3] = [
    ("api.anthropic.com", "anthropic/"),
    ("api.openai.com", "openai/"),
    ("generativelanguage.googleapis.com", "google/"),
];

/// The newest model of the first family that is there.
pub(super) fn fit_model(offered: &[String]) -> Option<&str> {
    FAMILIES.into_iter().find_map(|family| {
        let versions = offered.iter().filter_map(|id| Some((version_of(id, family)?, id.as_str())));
        versions.max().map(|(_, id)| id)
    })
}

/// A role's own model that comes from this provider, by its name there.
pub(super) fn vendor_model(host: &str, roles: &[AgentRole]) -> Option<String> {
    let (_, vendor) = VENDORS.into_iter().find(|(known, _)| *known == host)?;
    let models = roles.iter().flat_map(|role| role.spec.model.talking());
    let own: Vec<String> =
        models.filter_map(|(_, model)| model.strip_prefix(vendor)).map(str::to_owned).collect();
    fit_model(&own).map(str::to_owned).or_else(|| own.first().cloned())
}

/// The figures of a version; nothing of another family, or of a smaller or special model of this one.
fn version_of(id: &str, (before, behind): (&str, &str)) -> Option<Vec<u32>> {
    let id = id.strip_prefix(GOOGLE).unwrap_or(id);
    let version = id.strip_prefix(before)?.strip_suffix(behind)?;
    let parts: Option<Vec<u32>> = version.split(['.', '-']).map(|part| part.parse().ok()).collect();
    let mut parts = parts?;
    // A date stands behind the version.
    parts.truncate(parts.iter().position(|part| *part >= DATES).unwrap_or(parts.len()));
    (!parts.is_empty()).then_some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use codebutler_testbed::place::InstallPlace;
    use codebutler_testbed::stack::manifests;

    fn fitting(offered: &[&str]) -> Option<String> {
        let offered: Vec<String> = offered.iter().map(|id| (*id).to_owned()).collect();
        fit_model(&offered).map(str::to_owned)
    }

    #[test]
    fn each_providers_newest_model_of_a_family_that_can_work_is_taken() {
        for (offered, model) in [
            (
                &[
                    "claude-opus-4-5-20251101",
                    "claude-sonnet-4-20250514",
                    "claude-sonnet-4-5-20250929",
                    "claude-haiku-4-5",
                ][..],
                "claude-sonnet-4-5-20250929",
            ),
            (&["claude-sonnet-4-5-20250929", "claude-sonnet-5"], "claude-sonnet-5"),
            (
                &[
                    "gpt-4o",
                    "gpt-5",
                    "gpt-5.5",
                    "gpt-5.5-mini",
                    "gpt-5-2025-08-07",
                    "gpt-image-1",
                    "o3",
                ],
                "gpt-5.5",
            ),
            (
                &[
                    "models/gemini-2.5-flash",
                    "models/gemini-2.5-pro",
                    "models/gemini-3.1-flash-lite",
                    "models/gemini-10.0-flash",
                    "models/embedding-001",
                ],
                "models/gemini-10.0-flash",
            ),
        ] {
            assert_eq!(fitting(offered).as_deref(), Some(model), "{offered:?}");
        }
        assert_eq!(fitting(&["llama3", "qwen3-coder"]), None);
    }

    #[test]
    fn a_provider_that_shows_no_list_gets_a_model_of_the_roles_that_is_its_own() {
        let roles = manifests::seed_roles(&InstallPlace::usual(), |_| None).unwrap();
        let model = vendor_model("api.anthropic.com", &roles).unwrap();
        assert!(model.starts_with("claude-"), "{model}");
        for host in ["api.openai.com", "generativelanguage.googleapis.com"] {
            assert!(vendor_model(host, &roles).is_some(), "{host}");
        }
        assert_eq!(vendor_model("llm.acme.dev", &roles), None);
    }
}
