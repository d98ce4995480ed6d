//! The environment of commands: what the container was given, without what the platform adds, and with
//! caches and build folders that stay out of the worktree.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::protocol::CommitAuthor;

/// Where tools put what they build and download, under the thread's `build/`.
const BUILD_FOLDERS: [(&str, &str); 7] = [
    ("CARGO_TARGET_DIR", "target"),
    ("XDG_CACHE_HOME", "cache"),
    ("GOCACHE", "cache/go-build"),
    ("GRADLE_USER_HOME", "gradle"),
    ("BUNDLE_PATH", "bundle"),
    ("npm_config_cache", "cache/npm"),
    ("PYTHONPYCACHEPREFIX", "cache/python"),
];

/// What the shell that starts the toolbox says of itself.
const SHELLS_OWN: [&str; 4] = ["PWD", "OLDPWD", "SHLVL", "_"];

#[derive(Clone, Debug)]
pub(super) struct CommandEnvironment {
    variables: Vec<(OsString, OsString)>,
    home: PathBuf,
    tmp: PathBuf,
    build: PathBuf,
}

impl CommandEnvironment {
    /// From this process' own environment, which the pod's author configured and which holds no
    /// secret.
    pub(super) fn inherit(work: &Path, build: &Path) -> Self {
        Self::from(std::env::vars_os(), work, build)
    }

    fn from(given: impl Iterator<Item = (OsString, OsString)>, work: &Path, build: &Path) -> Self {
        let platform = |name: &str| {
            name.starts_with("KUBERNETES_")
                || name.starts_with("CODEBUTLER_")
                || name == "RUST_LOG"
                || name.starts_with("LD_")
                || SHELLS_OWN.contains(&name)
        };
        let mut variables: Vec<_> =
            given.filter(|(name, _)| !platform(&name.to_string_lossy())).collect();
        let mut or = |name: &str, value: OsString| -> PathBuf {
            if let Some((_, given)) = variables.iter().find(|(known, _)| known == name) {
                return given.into();
            }
            variables.push((name.into(), value.clone()));
            value.into()
        };
        let home = or("HOME", work.join("home").into());
        let tmp = or("TMPDIR", "/tmp".into());
        or("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".into());
        or("LANG", "C.UTF-8".into());
        // What a killed command had printed is worth more than the time that its buffer saves.
        or("PYTHONUNBUFFERED", "1".into());
        // Build outputs stay out of the worktree, and roles of one thread share them.
        let build = build.to_owned();
        for (name, folder) in BUILD_FOLDERS {
            or(name, build.join(folder).into());
        }
        variables.retain(|(name, _)| name != "TERM");
        variables.push(("TERM".into(), "dumb".into()));
        Self { variables, home, tmp, build }
    }

    /// With the only way out: most tools take a proxy from the environment, each from its own names.
    /// What the image's author set stays.
    pub(super) fn with_proxy(&self, proxy: &str) -> Self {
        let mut with = self.clone();
        if proxy.is_empty() {
            return with;
        }
        let local = "localhost,127.0.0.1,::1";
        for (name, value) in [
            ("HTTP_PROXY", proxy),
            ("HTTPS_PROXY", proxy),
            ("ALL_PROXY", proxy),
            ("NO_PROXY", local),
            ("http_proxy", proxy),
            ("https_proxy", proxy),
            ("all_proxy", proxy),
            ("no_proxy", local),
            ("npm_config_proxy", proxy),
            ("npm_config_https_proxy", proxy),
            ("npm_config_noproxy", local),
            ("CARGO_HTTP_PROXY", proxy),
            ("PIP_PROXY", proxy),
            ("PIP_DISABLE_PIP_VERSION_CHECK", "1"),
            ("NODE_USE_ENV_PROXY", "1"),
        ] {
            if !with.variables.iter().any(|(known, _)| known == name) {
                with.variables.push((name.into(), value.into()));
            }
        }
        with
    }

    /// With an identity for `git` on the command line, which must not ask for anything either.
    pub(super) fn with_author(&self, author: &CommitAuthor) -> Self {
        let mut with = self.clone();
        for (name, value) in [
            ("GIT_AUTHOR_NAME", author.name.as_str()),
            ("GIT_AUTHOR_EMAIL", &author.email),
            ("GIT_COMMITTER_NAME", &author.name),
            ("GIT_COMMITTER_EMAIL", &author.email),
            ("GIT_EDITOR", "true"),
            ("GIT_TERMINAL_PROMPT", "0"),
        ] {
            with.variables.retain(|(known, _)| known != name);
            with.variables.push((name.into(), value.into()));
        }
        with.set_git_config();
        with
    }

    /// Settings of `git` on the command line, behind those that the image's author set in the same way: an
    /// index that is split or sparse can't be read by the Git tools.
    fn set_git_config(&mut self) {
        let is_count = |name: &OsString| name == "GIT_CONFIG_COUNT";
        let given = self.variables.iter().find(|(name, _)| is_count(name));
        let given = given.and_then(|(_, count)| count.to_str()?.parse::<usize>().ok());
        let first = given.unwrap_or_default();
        self.variables.retain(|(name, _)| !is_count(name));
        for (place, setting) in (first..).zip(["core.splitIndex", "index.sparse"]) {
            self.variables.push((format!("GIT_CONFIG_KEY_{place}").into(), setting.into()));
            self.variables.push((format!("GIT_CONFIG_VALUE_{place}").into(), "false".into()));
        }
        self.variables.push(("GIT_CONFIG_COUNT".into(), (first + 2).to_string().into()));
    }

    /// With the programs of the worktree's own Python, if it was given one.
    pub(super) fn with_venv(&self, tree: &Path) -> Self {
        let mut with = self.clone();
        let venv = tree.join(".venv");
        let programs = venv.join("bin");
        if !programs.join("python").exists() {
            return with;
        }
        for (name, value) in &mut with.variables {
            if name == "PATH" {
                let rest = std::env::split_paths(value).collect::<Vec<_>>();
                let all = std::iter::once(programs.clone()).chain(rest);
                *value = std::env::join_paths(all).unwrap_or_else(|_| value.clone());
            }
        }
        with.variables.push(("VIRTUAL_ENV".into(), venv.into()));
        with
    }

    /// Where builds put what they make.
    pub(super) fn build(&self) -> &Path {
        &self.build
    }

    /// Folders that commands expect to exist, and may write to.
    pub(super) fn folders(&self) -> [PathBuf; 3] {
        [self.home.clone(), self.tmp.clone(), self.build.clone()]
    }

    pub(super) fn variables(&self) -> impl Iterator<Item = (&OsString, &OsString)> {
        self.variables.iter().map(|(name, value)| (name, value))
    }

    /// Where a program is, by PATH.
    pub(super) fn program(&self, name: &str) -> Option<PathBuf> {
        let (_, path) = self.variables.iter().find(|(known, _)| known == "PATH")?;
        std::env::split_paths(path).map(|folder| folder.join(name)).find(|path| path.is_file())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_git_come_behind_those_that_the_image_has() {
        let given =
            [("GIT_CONFIG_COUNT", "1"), ("GIT_CONFIG_KEY_0", "a.b"), ("GIT_CONFIG_VALUE_0", "c")];
        let given = given.into_iter().map(|(name, value)| (name.into(), value.into()));
        let env = CommandEnvironment::from(given, Path::new("/work"), Path::new("/work/build"));
        let author = CommitAuthor { name: "A".into(), email: "a@example.org".into() };
        let with = env.with_author(&author).with_author(&author);
        let value = |name: &str| {
            let found = with.variables.iter().filter(|(known, _)| known == name);
            found.map(|(_, value)| value.to_string_lossy().into_owned()).collect::<Vec<_>>()
        };
        assert_eq!(
            (value("GIT_CONFIG_KEY_0"), value("GIT_CONFIG_KEY_1")),
            (vec!["a.b".into()], vec!["core.splitIndex".into()])
        );
        assert_eq!(
            (value("GIT_CONFIG_KEY_2"), value("GIT_CONFIG_VALUE_2")),
            (vec!["index.sparse".into()], vec!["false".into()])
        );
    }

    #[test]
    fn the_environment_is_the_containers_without_the_platforms() {
        let given = [
            ("PATH", "/opt/go/bin"),
            ("GOFLAGS", "-mod=mod"),
            ("KUBERNETES_SERVICE_HOST", "10.0.0.1"),
            ("CODEBUTLER_LOG", "debug"),
            ("TERM", "xterm"),
            ("PWD", "/work"),
            ("SHLVL", "1"),
            ("_", "/opt/codebutler/codebutler-agent"),
        ];
        let given = given.into_iter().map(|(name, value)| (name.into(), value.into()));
        let env = CommandEnvironment::from(given, Path::new("/work"), Path::new("/work/build"));
        let mut shown: Vec<String> = env
            .variables
            .iter()
            .map(|(name, value)| format!("{}={}", name.display(), value.display()))
            .collect();
        shown.sort();
        insta::assert_snapshot!(shown.join("\n"), @r"
        BUNDLE_PATH=/work/build/bundle
        CARGO_TARGET_DIR=/work/build/target
        GOCACHE=/work/build/cache/go-build
        GOFLAGS=-mod=mod
        GRADLE_USER_HOME=/work/build/gradle
        HOME=/work/home
        LANG=C.UTF-8
        PATH=/opt/go/bin
        PYTHONPYCACHEPREFIX=/work/build/cache/python
        PYTHONUNBUFFERED=1
        TERM=dumb
        TMPDIR=/tmp
        XDG_CACHE_HOME=/work/build/cache
        npm_config_cache=/work/build/cache/npm
        ");
    }
}
