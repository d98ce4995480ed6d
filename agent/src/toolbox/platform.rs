//! The command that prepares a worktree, chosen by the files at its top. Pure.
//!
//! Rust, Go and the JVM need nothing: their first build fetches what it needs.

use serde_json::Value;

/// Patterns of files that set-ups make in the worktree, and no commit should hold.
pub(super) const MADE: [&str; 5] =
    ["node_modules/", ".venv/", "*.egg-info/", "vendor/bundle/", "Pods/"];

/// One way to prepare a worktree, or several joined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FoundPlatform {
    /// Command line for the shell.
    pub command: String,
    pub from: Vec<&'static str>,
    /// Programs that the image has to have.
    pub programs: Vec<&'static str>,
}

fn found_platform(
    command: impl Into<String>,
    from: &'static str,
    program: &'static str,
) -> FoundPlatform {
    FoundPlatform { command: command.into(), from: vec![from], programs: vec![program] }
}

/// Combines the set-ups of all platforms that the files at the top ask for; none if there is none. `file` is the
/// content of a file at the top, if it is there.
pub(super) fn find_platform(file: &dyn Fn(&str) -> Option<Vec<u8>>) -> Option<FoundPlatform> {
    [node_platform, python_platform, ruby_platform, php_platform, ios_platform]
        .iter()
        .filter_map(|platform| platform(file))
        .reduce(|a, b| FoundPlatform {
            command: format!("{} && {}", a.command, b.command),
            from: [a.from, b.from].concat(),
            programs: [a.programs, b.programs].concat(),
        })
}

type PlatformFiles<'a> = &'a dyn Fn(&str) -> Option<Vec<u8>>;

fn node_platform(file: PlatformFiles<'_>) -> Option<FoundPlatform> {
    let manifest = file("package.json")?;
    let has = |name: &str| file(name).is_some();
    if has("pnpm-lock.yaml") {
        return Some(found_platform("pnpm install --frozen-lockfile", "pnpm-lock.yaml", "pnpm"));
    }
    if has("yarn.lock") {
        // From version 2 on Yarn has a file of settings, and another name for the same flag.
        let flag = if has(".yarnrc.yml") { "--immutable" } else { "--frozen-lockfile" };
        return Some(found_platform(format!("yarn install {flag}"), "yarn.lock", "yarn"));
    }
    for lock in ["bun.lock", "bun.lockb"] {
        if has(lock) {
            return Some(found_platform("bun install --frozen-lockfile", lock, "bun"));
        }
    }
    for lock in ["package-lock.json", "npm-shrinkwrap.json"] {
        if has(lock) {
            return Some(found_platform("npm ci", lock, "npm"));
        }
    }
    let manifest: Value = serde_json::from_slice(&manifest).ok()?;
    let wants = |key: &str| match &manifest[key] {
        Value::Object(map) => !map.is_empty(),
        Value::Array(list) => !list.is_empty(),
        _ => false,
    };
    let any = ["dependencies", "devDependencies", "optionalDependencies", "workspaces"];
    // No lock file is made where the team has none.
    any.iter()
        .any(|key| wants(key))
        .then(|| found_platform("npm install --no-package-lock", "package.json", "npm"))
}

fn python_platform(file: PlatformFiles<'_>) -> Option<FoundPlatform> {
    const VENV: &str = "python3 -m venv .venv && .venv/bin/python -m pip install";
    let has = |name: &str| file(name).is_some();
    if has("uv.lock") {
        return Some(found_platform("uv sync --frozen", "uv.lock", "uv"));
    }
    if has("poetry.lock") {
        let command = "POETRY_VIRTUALENVS_IN_PROJECT=1 poetry install --no-interaction";
        return Some(found_platform(command, "poetry.lock", "poetry"));
    }
    if has("Pipfile.lock") {
        let command = "PIPENV_VENV_IN_PROJECT=1 pipenv sync --dev";
        return Some(found_platform(command, "Pipfile.lock", "pipenv"));
    }
    if has("requirements.txt") {
        let dev = if has("requirements-dev.txt") { " -r requirements-dev.txt" } else { "" };
        let command = format!("{VENV} -r requirements.txt{dev}");
        return Some(found_platform(command, "requirements.txt", "python3"));
    }
    let project = String::from_utf8(file("pyproject.toml")?).ok()?;
    let table = |name: &str| project.lines().any(|line| line.trim() == name);
    (table("[project]") || table("[build-system]"))
        .then(|| found_platform(format!("{VENV} -e ."), "pyproject.toml", "python3"))
}

fn ruby_platform(file: PlatformFiles<'_>) -> Option<FoundPlatform> {
    file("Gemfile")?;
    Some(match file("Gemfile.lock") {
        Some(_) => found_platform("BUNDLE_FROZEN=true bundle install", "Gemfile.lock", "bundle"),
        None => found_platform("bundle install", "Gemfile", "bundle"),
    })
}

fn php_platform(file: PlatformFiles<'_>) -> Option<FoundPlatform> {
    file("composer.lock")?;
    Some(found_platform("composer install --no-interaction", "composer.lock", "composer"))
}

fn ios_platform(file: PlatformFiles<'_>) -> Option<FoundPlatform> {
    file("Podfile")?;
    Some(found_platform("pod install", "Podfile", "pod"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(files: &[(&str, &str)]) -> String {
        let file = |name: &str| {
            let found = files.iter().find(|(known, _)| *known == name);
            found.map(|(_, text)| text.as_bytes().to_vec())
        };
        find_platform(&file)
            .map_or_else(|| "nothing".to_owned(), |f| format!("{} <- {:?}", f.command, f.from))
    }

    #[test]
    fn the_lock_file_says_which_package_manager() {
        let manifest = ("package.json", r#"{"dependencies": {"left-pad": "1"}}"#);
        let with = |lock: &'static str| of(&[manifest, (lock, "")]);
        insta::assert_snapshot!(
            [
                with("package-lock.json"),
                with("pnpm-lock.yaml"),
                with("yarn.lock"),
                of(&[manifest, ("yarn.lock", ""), (".yarnrc.yml", "")]),
                with("bun.lockb"),
                of(&[manifest]),
                of(&[("package.json", r#"{"scripts": {"test": "node x.js"}}"#)]),
                of(&[("package.json", "no json")]),
            ]
            .join("\n"),
            @r#"
        npm ci <- ["package-lock.json"]
        pnpm install --frozen-lockfile <- ["pnpm-lock.yaml"]
        yarn install --frozen-lockfile <- ["yarn.lock"]
        yarn install --immutable <- ["yarn.lock"]
        bun install --frozen-lockfile <- ["bun.lockb"]
        npm install --no-package-lock <- ["package.json"]
        nothing
        nothing
        "#
        );
    }

    #[test]
    fn other_platforms_and_mixtures() {
        insta::assert_snapshot!(
            [
                of(&[("Cargo.toml", ""), ("Cargo.lock", "")]),
                of(&[("go.mod", ""), ("go.sum", "")]),
                of(&[("pom.xml", ""), ("build.gradle", "")]),
                of(&[("uv.lock", ""), ("pyproject.toml", "[project]")]),
                of(&[("poetry.lock", "")]),
                of(&[("requirements.txt", ""), ("requirements-dev.txt", "")]),
                of(&[("pyproject.toml", "[project]\nname = \"x\"")]),
                of(&[("pyproject.toml", "[tool.ruff]\n")]),
                of(&[("Gemfile", ""), ("Gemfile.lock", "")]),
                of(&[("requirements.txt", ""), ("package.json", "{}"), ("package-lock.json", "")]),
            ]
            .join("\n"),
            @r#"
        nothing
        nothing
        nothing
        uv sync --frozen <- ["uv.lock"]
        POETRY_VIRTUALENVS_IN_PROJECT=1 poetry install --no-interaction <- ["poetry.lock"]
        python3 -m venv .venv && .venv/bin/python -m pip install -r requirements.txt -r requirements-dev.txt <- ["requirements.txt"]
        python3 -m venv .venv && .venv/bin/python -m pip install -e . <- ["pyproject.toml"]
        nothing
        BUNDLE_FROZEN=true bundle install <- ["Gemfile.lock"]
        npm ci && python3 -m venv .venv && .venv/bin/python -m pip install -r requirements.txt <- ["package-lock.json", "requirements.txt"]
        "#
        );
    }
}
