//! The list of families as a page for users: `charts/codebutler/METRICS.md`.

use super::catalog::{self, CatalogEntry};

const HEAD: &str = "\
# Metrics

Both processes serve `/metrics` in the OpenMetrics format on port 8080 (`--metrics-address`). `codebutler-operator metrics` prints this page.

- `repo` is `namespace/name` of the Repo, `role` the role's name, `model` one of the role's models, `server` a name in `spec.mcpServers`. No label
  ever holds a Thread, a user or a message, so the number of series depends on Repos, roles, models, servers and teams alone.
- What the controller reads off objects (Threads, slots, budgets, conditions) is shown by its acting replica only: sums over replicas are
  right. Counters count what one process did since it began; use `increase` and `rate`.
- Money is exact on the objects (`.status.cost`); here it is a floating-point number.
";

pub fn render_markdown() -> String {
    let part = |name: &str, entries: &[CatalogEntry]| {
        let rows: String = entries.iter().map(metric_row).collect();
        format!(
            "\n## {name}\n\n| name | type | unit | labels | meaning |\n|---|---|---|---|---|\n{rows}"
        )
    };
    let gateway = part("Gateway", catalog::gateway::ALL);
    format!("{HEAD}{gateway}{}", part("Controller", catalog::controller::ALL))
}

fn metric_row(entry: &CatalogEntry) -> String {
    let (name, kind, help) = (entry.full_name(), entry.kind.name(), entry.help);
    let labels: Vec<String> = entry.labels.iter().map(|label| format!("`{label}`")).collect();
    let (unit, labels) = (entry.unit.unwrap_or_default(), labels.join(", "));
    format!("| `{name}` | {kind} | {unit} | {labels} | {help} |\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_in_the_chart_is_this_one() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../charts/codebutler/METRICS.md");
        let page = std::fs::read_to_string(path).unwrap_or_default();
        let remedy = "cargo run -p codebutler-operator -- metrics > charts/codebutler/METRICS.md";
        assert!(
            page == render_markdown(),
            "charts/codebutler/METRICS.md is not up to date: {remedy}"
        );
    }

    #[test]
    fn names_follow_the_conventions() {
        let all = || catalog::gateway::ALL.iter().chain(catalog::controller::ALL);
        for entry in all() {
            let plain = |c: char| c.is_ascii_lowercase() || c == '_';
            assert!(entry.name.chars().all(plain), "{entry:?}");
            assert!(!entry.help.ends_with('.') && !entry.help.contains('|'), "{entry:?}");
            let twins = all().filter(|other| other.name == entry.name).count();
            assert_eq!(twins, 1, "{entry:?}");
            for label in entry.labels {
                assert!(!["thread", "user", "channel", "ts", "pod"].contains(label), "{entry:?}");
            }
        }
    }
}
