//! Log filters from before the operator was several crates.

/// The one crate that there was.
const FORMER: &str = "codebutler_operator";
const GATEWAY: [&str; 6] = [
    "codebutler_gateway",
    "codebutler_gateway_core",
    "codebutler_git",
    "codebutler_mcp_servers",
    "codebutler_models",
    "codebutler_slack",
];

/// A filter whose directives for modules of `codebutler_operator` hold for the crates that these are now.
pub(crate) fn translate_filter(filter: &str) -> String {
    let directives = filter.split(',').flat_map(|directive| match directive.trim() {
        former if former.starts_with(FORMER) => translate_directive(former),
        other => vec![other.to_owned()],
    });
    directives.collect::<Vec<_>>().join(",")
}

fn translate_directive(directive: &str) -> Vec<String> {
    let end = directive.find(['=', '[']).unwrap_or(directive.len());
    let (target, rest) = directive.split_at(end);
    let path: Vec<&str> = target[FORMER.len()..].split("::").skip(1).collect();
    let crates: Vec<String> = match path.as_slice() {
        // A target is a prefix: all crates of CodeButler.
        [] => vec!["codebutler".to_owned()],
        ["controller", below @ ..] => vec![join_path("codebutler_controller", below)],
        ["gateway"] => GATEWAY.map(str::to_owned).to_vec(),
        ["gateway", "git", below @ ..] => vec![join_path("codebutler_git", below)],
        ["gateway", "mcp", below @ ..] => vec![join_path("codebutler_mcp_servers", below)],
        ["gateway", "models", below @ ..] => vec![join_path("codebutler_models", below)],
        ["gateway", "slack", below @ ..] => vec![join_path("codebutler_slack", below)],
        ["gateway", below @ ..] => GATEWAY.iter().map(|name| join_path(name, below)).collect(),
        below => vec![join_path("codebutler_runtime", below)],
    };
    crates.into_iter().map(|name| format!("{name}{rest}")).collect()
}

fn join_path(name: &str, below: &[&str]) -> String {
    [&[name], below].concat().join("::")
}

#[cfg(test)]
mod tests {
    use super::translate_filter;

    #[test]
    fn a_filter_from_before_selects_what_it_did() {
        for (before, now) in [
            ("info", "info"),
            ("hyper=warn,codebutler_operator=debug,info", "hyper=warn,codebutler=debug,info"),
            ("codebutler_operator::controller=debug", "codebutler_controller=debug"),
            ("codebutler_operator::gateway::slack::post=trace", "codebutler_slack::post=trace"),
            ("codebutler_operator::gateway::git[push]=debug", "codebutler_git[push]=debug"),
            ("codebutler_operator::lease", "codebutler_runtime::lease"),
            ("", ""),
        ] {
            assert_eq!(translate_filter(before), now);
        }
        let all = translate_filter("codebutler_operator::gateway=debug,info");
        assert!(all.contains("codebutler_slack=debug,") && all.ends_with(",info"), "{all}");
        let moved = translate_filter("codebutler_operator::gateway::budget=debug");
        assert!(moved.contains("codebutler_models::budget=debug"), "{moved}");
    }
}
