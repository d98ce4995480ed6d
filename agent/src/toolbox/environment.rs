//! The environment of commands: what the container was given, without what the platform adds, and with
//! caches and build folders that stay out of the worktree.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::image_folders::ImageFolders;
use super::jvm;
use super::protocol::CommitAuthor;

/// Folders for build outputs and downloads of tools, by variable, under the thread's `build/`. An image may name
/// other folders, which count where commands may write to them.
const BUILD_FOLDERS: [(&str, &str); 8] = [
    ("CARGO_TARGET_DIR", "target"),
    (CARGO_HOME, "cargo"),
    ("XDG_CACHE_HOME", "cache"),
    ("GOCACHE", "cache/go-build"),
    (GOPATH, "go"),
    ("GRADLE_USER_HOME", "gradle"),
    ("npm_config_cache", "cache/npm"),
    ("PYTHONPYCACHEPREFIX", "cache/python"),
];
const CARGO_HOME: &str = "CARGO_HOME";
const GOPATH: &str = "GOPATH";
const GOMODCACHE: &str = "GOMODCACHE";
const RUSTUP_HOME: &str = "RUSTUP_HOME";
/// Folders that replace those of an image which no command may write to. Where the image names none, the tool's
/// folder lies in one of the above.
const MOVED_FOLDERS: [(&str, &str); 11] = [
    (GOMODCACHE, "go/pkg/mod"),
    ("NPM_CONFIG_CACHE", "cache/npm"),
    ("YARN_CACHE_FOLDER", "cache/yarn"),
    ("COREPACK_HOME", "cache/corepack"),
    ("PIP_CACHE_DIR", "cache/pip"),
    ("UV_CACHE_DIR", "cache/uv"),
    ("POETRY_CACHE_DIR", "cache/pypoetry"),
    ("COMPOSER_CACHE_DIR", "cache/composer"),
    ("DENO_DIR", "cache/deno"),
    ("PUB_CACHE", "cache/pub"),
    ("NUGET_PACKAGES", "nuget"),
];
/// An image has its own gems here, so it stays where it is.
const BUNDLE_PATH: (&str, &str) = ("BUNDLE_PATH", "bundle");
/// Variables of the shell that starts the toolbox.
const SHELLS_OWN: [&str; 4] = ["PWD", "OLDPWD", "SHLVL", "_"];

#[derive(Clone, Debug)]
pub(super) struct CommandEnvironment {
    variables: Vec<(OsString, OsString)>,
    home: PathBuf,
    tmp: PathBuf,
    build: PathBuf,
    /// The image's own folders, where commands have others.
    image: ImageFolders,
}

impl CommandEnvironment {
    /// From this process' own environment, which the pod's author configured and which holds no
    /// secret. Commands may write to `writable` besides what is this environment's own.
    pub(super) fn inherit(work: &Path, build: &Path, writable: &[PathBuf]) -> Self {
        Self::from(std::env::vars_os(), work, build, writable)
    }

    fn from(
        given: impl Iterator<Item = (OsString, OsString)>,
        work: &Path,
        build: &Path,
        writable: &[PathBuf],
    ) -> Self {
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
        // Output is unbuffered, since what a killed command had printed is worth more than the time that a buffer
        // saves.
        or("PYTHONUNBUFFERED", "1".into());
        // Build outputs stay out of the worktree, and roles of one thread share them.
        let build = build.to_owned();
        for (name, folder) in BUILD_FOLDERS.into_iter().chain([BUNDLE_PATH]) {
            or(name, build.join(folder).into());
        }
        variables.retain(|(name, _)| name != "TERM");
        variables.push(("TERM".into(), "dumb".into()));
        let mut all = Self { variables, home, tmp, build, image: ImageFolders::default() };
        // Maven has no variable of its own for it.
        let repository = format!("-Dmaven.repo.local={}", all.build.join("maven").display());
        all.add_option("MAVEN_OPTS", "maven.repo.local", &repository);
        all.move_folders(writable);
        all.find_installed();
        all
    }

    fn value(&self, name: &str) -> Option<&OsString> {
        self.variables.iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }

    fn set(&mut self, name: &str, value: OsString) {
        self.variables.retain(|(known, _)| known != name);
        self.variables.push((name.into(), value));
    }

    /// Adds to options of a program, unless the image's author has set this one.
    fn add_option(&mut self, name: &str, known: &str, option: &str) {
        let mut all = self.value(name).cloned().unwrap_or_default();
        if all.to_string_lossy().contains(known) {
            return;
        }
        if !all.is_empty() {
            all.push(" ");
        }
        all.push(option);
        self.set(name, all);
    }

    /// Puts programs of `cargo install` and `go install` on the PATH, behind all that the image has.
    fn find_installed(&mut self) {
        let path = self.value("PATH").cloned().unwrap_or_default();
        let mut folders: Vec<_> = std::env::split_paths(&path).collect();
        for name in [CARGO_HOME, GOPATH] {
            let first = self.value(name).and_then(|value| std::env::split_paths(value).next());
            let programs = first.map(|folder| folder.join("bin"));
            folders.extend(programs.filter(|programs| !folders.contains(programs)));
        }
        if let Ok(path) = std::env::join_paths(folders) {
            self.set("PATH", path);
        }
    }

    /// Official images name folders that belong to the image, such as `/usr/local/cargo` and `/go`, where no command
    /// may write: every download would fail. What is found by `PATH` stays the image's.
    fn move_folders(&mut self, writable: &[PathBuf]) {
        let own = self.folders();
        let may_write = |path: &Path| {
            !path.is_absolute() || own.iter().chain(writable).any(|folder| path.starts_with(folder))
        };
        for (name, folder) in BUILD_FOLDERS.into_iter().chain(MOVED_FOLDERS) {
            let Some((_, value)) = self.variables.iter_mut().find(|(known, _)| known == name)
            else {
                continue;
            };
            // A GOPATH may have several folders: Go writes to the first.
            let given = std::env::split_paths(value).next().unwrap_or_default();
            if may_write(&given) {
                continue;
            }
            *value = self.build.join(folder).into();
            match name {
                CARGO_HOME => self.image.cargo = Some(given),
                GOPATH => self.image.modules = Some(given.join("pkg/mod")),
                GOMODCACHE => self.image.modules = Some(given),
                _ => {}
            }
        }
        if self
            .value(GOMODCACHE)
            .is_some_and(|modules| !Path::new(modules).starts_with(&self.build))
        {
            self.image.modules = None;
        }
        let rustup = self.value(RUSTUP_HOME).map(PathBuf::from);
        self.image.rustup = rustup.filter(|home| !may_write(home));
    }

    /// The image's own folders, in whose place commands have others.
    pub(super) fn image(&self) -> &ImageFolders {
        &self.image
    }

    /// Makes toolchains of the image known where others can be added, which a `rust-toolchain.toml` may ask for. Where
    /// that can't be done, those of the image are all that there is.
    pub(super) fn link_toolchains(&mut self) {
        match self.image.link_toolchains(&self.build) {
            Ok(Some(home)) => self.set(RUSTUP_HOME, home.into()),
            Ok(None) => {}
            Err(error) => tracing::warn!(%error, "toolchains_link_failed"),
        }
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
        // The JVM knows none of these names.
        if let Some(options) = jvm::proxy_options(proxy) {
            for name in jvm::OPTIONS {
                with.add_option(name, "proxyHost", &options);
            }
            with.add_option(jvm::MAVEN, jvm::MAVEN_READS, jvm::MAVEN_READS_PROXY);
        }
        with
    }

    /// Adds an identity for `git` on the command line, which must not ask for anything either.
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

    /// Adds the programs of the worktree's own Python (`.venv`), if it has one.
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

    /// Folder for build outputs.
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

    /// Path of a program that is in the image, by PATH.
    pub(super) fn program(&self, name: impl AsRef<OsStr>) -> Option<PathBuf> {
        let path = self.value("PATH")?;
        let of_image =
            std::env::split_paths(path).filter(|folder| !folder.starts_with(&self.build));
        of_image.map(|folder| folder.join(name.as_ref())).find(|path| path.is_file())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(given: &[(&str, &str)], writable: &[&str]) -> CommandEnvironment {
        let given = given.iter().map(|(name, value)| (name.into(), value.into()));
        let writable: Vec<PathBuf> = writable.iter().map(PathBuf::from).collect();
        let (work, build) = (Path::new("/work"), Path::new("/work/build"));
        CommandEnvironment::from(given, work, build, &writable)
    }

    fn value(env: &CommandEnvironment, name: &str) -> String {
        let mut found = env.variables.iter().filter(|(known, _)| known == name);
        let one = found.next().map(|(_, value)| value.to_string_lossy().into_owned());
        assert!(found.next().is_none(), "{name} is there twice");
        one.unwrap_or_default()
    }

    #[test]
    fn folders_of_an_image_that_commands_may_not_write_to_are_replaced() {
        let rust = [
            ("CARGO_HOME", "/usr/local/cargo"),
            ("RUSTUP_HOME", "/usr/local/rustup"),
            ("PATH", "/usr/local/cargo/bin:/usr/bin"),
        ];
        let env = environment(&rust, &["/work/tree"]);
        assert_eq!(value(&env, "CARGO_HOME"), "/work/build/cargo");
        assert_eq!(value(&env, "RUSTUP_HOME"), "/usr/local/rustup");
        assert_eq!(
            value(&env, "PATH"),
            "/usr/local/cargo/bin:/usr/bin:/work/build/cargo/bin:/work/build/go/bin",
            "what commands install is found after what the image has"
        );

        let go = environment(&[("GOPATH", "/go:/opt/go"), ("GOMODCACHE", "/mod")], &[]);
        assert_eq!(value(&go, "GOPATH"), "/work/build/go");
        assert_eq!(value(&go, "GOMODCACHE"), "/work/build/go/pkg/mod");
        let others =
            environment(&[("PIP_CACHE_DIR", "/root/.pip"), ("NPM_CONFIG_CACHE", "/n")], &[]);
        assert_eq!(value(&others, "PIP_CACHE_DIR"), "/work/build/cache/pip");
        assert_eq!(value(&others, "NPM_CONFIG_CACHE"), "/work/build/cache/npm");

        // A volume of the AgentRole's, and the worktree.
        let given = [("CARGO_HOME", "/cache/cargo"), ("GOPATH", "/work/tree/go")];
        let kept = environment(&given, &["/work/tree", "/cache"]);
        assert_eq!(value(&kept, "CARGO_HOME"), "/cache/cargo");
        assert_eq!(value(&kept, "GOPATH"), "/work/tree/go");
        assert_eq!(value(&environment(&[("GOFLAGS", "/x")], &[]), "GOFLAGS"), "/x");
    }

    #[test]
    fn options_of_the_jvm_are_added_to_those_of_the_image() {
        let proxy = "http://127.0.0.1:8475";
        let options = "-Dhttp.proxyHost=127.0.0.1 -Dhttp.proxyPort=8475 -Dhttps.proxyHost=127.0.0.1 \
                       -Dhttps.proxyPort=8475";
        let env = environment(&[("MAVEN_OPTS", "-Xmx1g")], &[]).with_proxy(proxy);
        assert_eq!(
            value(&env, "MAVEN_OPTS"),
            format!(
                "-Xmx1g -Dmaven.repo.local=/work/build/maven {options} {}",
                jvm::MAVEN_READS_PROXY
            )
        );
        assert_eq!(value(&env, "GRADLE_OPTS"), options);
        let own = environment(&[("GRADLE_OPTS", "-Dhttp.proxyHost=proxy.example")], &[]);
        assert_eq!(value(&own.with_proxy(proxy), "GRADLE_OPTS"), "-Dhttp.proxyHost=proxy.example");
        assert_eq!(value(&own, "MAVEN_OPTS"), "-Dmaven.repo.local=/work/build/maven");
    }

    #[test]
    fn settings_of_git_come_behind_those_that_the_image_has() {
        let given =
            [("GIT_CONFIG_COUNT", "1"), ("GIT_CONFIG_KEY_0", "a.b"), ("GIT_CONFIG_VALUE_0", "c")];
        let given = given.into_iter().map(|(name, value)| (name.into(), value.into()));
        let env =
            CommandEnvironment::from(given, Path::new("/work"), Path::new("/work/build"), &[]);
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
        let env =
            CommandEnvironment::from(given, Path::new("/work"), Path::new("/work/build"), &[]);
        let mut shown: Vec<String> = env
            .variables
            .iter()
            .map(|(name, value)| format!("{}={}", name.display(), value.display()))
            .collect();
        shown.sort();
        insta::assert_snapshot!(shown.join("\n"), @r"
        BUNDLE_PATH=/work/build/bundle
        CARGO_HOME=/work/build/cargo
        CARGO_TARGET_DIR=/work/build/target
        GOCACHE=/work/build/cache/go-build
        GOFLAGS=-mod=mod
        GOPATH=/work/build/go
        GRADLE_USER_HOME=/work/build/gradle
        HOME=/work/home
        LANG=C.UTF-8
        MAVEN_OPTS=-Dmaven.repo.local=/work/build/maven
        PATH=/opt/go/bin:/work/build/cargo/bin:/work/build/go/bin
        PYTHONPYCACHEPREFIX=/work/build/cache/python
        PYTHONUNBUFFERED=1
        TERM=dumb
        TMPDIR=/tmp
        XDG_CACHE_HOME=/work/build/cache
        npm_config_cache=/work/build/cache/npm
        ");
    }
}
