//! Files at the top of a repository that say what a set-up installs.

/// Files that pin it: a change of one asks for another set-up.
pub const PINS: [&str; 16] = [
    "package-lock.json",
    "npm-shrinkwrap.json",
    "pnpm-lock.yaml",
    "yarn.lock",
    "bun.lock",
    "bun.lockb",
    "uv.lock",
    "poetry.lock",
    "Pipfile.lock",
    "requirements.txt",
    "requirements-dev.txt",
    "Gemfile.lock",
    "composer.lock",
    "Podfile.lock",
    "Cargo.lock",
    "go.sum",
];

/// Files that choose the command besides those, where the Repo names none.
pub const CHOOSING: [&str; 3] = ["package.json", "pyproject.toml", ".yarnrc.yml"];
