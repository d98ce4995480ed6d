//! What a new repository starts with is complete and valid.

use std::collections::BTreeSet;
use std::path::Path;

use codebutler_crds::AgentRole;
use codebutler_crds::role::TOOLS;

fn seed(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../seeds").join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn role(name: &str) -> AgentRole {
    serde_saphyr::from_str(&seed(&format!("roles/{name}.yaml"))).unwrap()
}

#[test]
fn six_roles_have_a_manifest_and_a_prompt() {
    for name in ["pm", "researcher", "artist", "coder", "reviewer", "lead"] {
        let role = role(name);
        assert_eq!(role.metadata.name.as_deref(), Some(name));
        assert_eq!(role.spec.role, name);
        assert!(!role.spec.description.is_empty());
        let icon = &role.spec.display.icon;
        assert!(icon.starts_with(':') && icon.ends_with(':'), "{icon}");
        let tools = &role.spec.tools.allow;
        assert!(tools.iter().all(|t| TOOLS.contains(&t.as_str())), "{tools:?}");
        assert_eq!(tools.iter().collect::<BTreeSet<_>>().len(), tools.len());
        assert!(tools.iter().any(|t| t == "SendMessage"));
        let prompt = seed(&format!("prompts/{name}.md"));
        // A prompt speaks of no tool that its role lacks.
        for tool in TOOLS.iter().filter(|t| !tools.iter().any(|own| own == *t)) {
            let named = prompt.split(|c: char| !c.is_ascii_alphanumeric()).any(|w| w == *tool);
            assert!(!named, "{name}.md speaks of {tool}");
        }
    }
    assert!(seed("global.md").contains("## Architecture"));
    assert!(seed("workflows.md").contains("## bugfix"));
}

#[test]
fn only_the_coder_changes_anything() {
    for name in ["pm", "researcher", "artist", "reviewer", "lead"] {
        let role = role(name);
        assert!(role.spec.push.is_none());
        for tool in ["Write", "Edit", "Bash", "GitCommit", "GitPush", "GHCreatePR"] {
            assert!(!role.spec.tools.allow.iter().any(|t| t == tool), "{name} has {tool}");
        }
    }
    assert!(role("coder").spec.push.is_some_and(|p| p.needs_approved_plan));
    assert!(!role("coder").spec.tools.allow.iter().any(|t| t == "CloseThread"));
}
