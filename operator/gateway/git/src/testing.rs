//! A repository that tests make commits in, and a Repo of it.

use std::io::Write as _;
use std::process::{Command, Stdio};

use codebutler_crds::Repo;
use serde_json::json;

use super::command::GitRepository;

/// A Repo of the namespace `team`, with the required fields alone.
pub(crate) fn repo(name: &str) -> Repo {
    let repo = json!({
        "metadata": {"namespace": "team", "name": name},
        "spec": {
            "git": {"url": format!("https://git.example.org/o/{name}"), "credentials": {"name": "git"}},
            "slack": {"channel": "C0123ABCD", "credentials": {"name": "slack"}},
            "model": {"credentials": {"name": "model"}},
            "roles": ["pm"],
        },
    });
    serde_json::from_value(repo).unwrap()
}

pub(crate) struct TestRepository {
    dir: tempfile::TempDir,
}

impl TestRepository {
    pub(crate) fn new() -> Self {
        let shop = Self { dir: tempfile::tempdir().unwrap() };
        shop.run(&["init", "--quiet", "--bare", "-b", "main"], "");
        shop
    }

    pub(crate) fn git(&self) -> GitRepository {
        GitRepository::at(self.dir.path().join("copy.git"))
    }

    pub(crate) fn run(&self, arguments: &[&str], input: &str) -> String {
        let mut child = Command::new("git")
            .args(arguments)
            .env("GIT_DIR", self.dir.path().join("copy.git"))
            .env("GIT_INDEX_FILE", self.dir.path().join("index"))
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .envs([("GIT_AUTHOR_NAME", "A"), ("GIT_AUTHOR_EMAIL", "a@example.com")])
            .envs([("GIT_COMMITTER_NAME", "A"), ("GIT_COMMITTER_EMAIL", "a@example.com")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let done = child.wait_with_output().unwrap();
        assert!(done.status.success(), "{arguments:?}");
        String::from_utf8(done.stdout).unwrap().trim().to_owned()
    }

    /// A commit with the first parent's files, and these.
    pub(crate) fn commit(&self, parents: &[&str], files: &[(&str, &str)]) -> String {
        match parents.first() {
            Some(first) => self.run(&["read-tree", first], ""),
            None => self.run(&["read-tree", "--empty"], ""),
        };
        for (path, text) in files {
            let blob = self.run(&["hash-object", "-w", "--stdin"], text);
            self.run(
                &["update-index", "--add", "--cacheinfo", &format!("100644,{blob},{path}")],
                "",
            );
        }
        let tree = self.run(&["write-tree"], "");
        let mut arguments = vec!["commit-tree", &tree, "-m", "Change"];
        arguments.extend(parents.iter().flat_map(|parent| ["-p", *parent]));
        self.run(&arguments, "")
    }

    /// A commit with its parent's files, and links that say this.
    pub(crate) fn link(&self, parent: &str, links: &[(&str, &str)]) -> String {
        let entry = |(path, target): &(&str, &str)| {
            let blob = self.run(&["hash-object", "-w", "--stdin"], target);
            format!("120000,{blob},{path}")
        };
        self.put(parent, &links.iter().map(entry).collect::<Vec<_>>())
    }

    /// A commit with its parent's files, and a submodule.
    pub(crate) fn module(&self, parent: &str, path: &str) -> String {
        self.put(parent, &[format!("160000,{parent},{path}")])
    }

    fn put(&self, parent: &str, entries: &[String]) -> String {
        self.run(&["read-tree", parent], "");
        for entry in entries {
            self.run(&["update-index", "--add", "--cacheinfo", entry], "");
        }
        let tree = self.run(&["write-tree"], "");
        self.run(&["commit-tree", &tree, "-m", "Put", "-p", parent], "")
    }

    /// Git's count of loose objects.
    pub(crate) fn objects(&self) -> String {
        self.run(&["count-objects"], "")
    }

    /// Number of entries in the folder that holds the copy.
    pub(crate) fn beside(&self) -> usize {
        std::fs::read_dir(self.dir.path()).unwrap().count()
    }
}
