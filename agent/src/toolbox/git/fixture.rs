//! A bare remote with one commit on `main` and on the thread's branch, and a volume to work in.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{BaseCommit, GitSite, ToldHooks};
use crate::toolbox::protocol::{CommitAuthor, ToolboxHello};

pub(crate) struct GitFixture {
    pub dir: tempfile::TempDir,
    pub place: GitSite,
}

impl GitFixture {
    pub(crate) fn new() -> Self {
        super::init_libgit();
        let dir = tempfile::tempdir().unwrap();
        let work = dir.path().join("work");
        fs::create_dir_all(&work).unwrap();
        let remote = dir.path().join("remote.git");
        let hello = ToolboxHello {
            relay_url: format!("file://{}", remote.display()),
            proxy: String::new(),
            branch: "codebutler/t".to_owned(),
            base_branch: "main".to_owned(),
            sparse: Vec::new(),
            author: CommitAuthor {
                name: "CodeButler Coder".into(),
                email: "coder@codebutler.invalid".into(),
            },
            role: "coder".to_owned(),
        };
        let (base, hooks) = (BaseCommit::default(), ToldHooks::default());
        let fixture = Self { dir, place: GitSite { work, hello, base, hooks } };
        fixture.git(
            fixture.dir.path(),
            &["init", "-q", "--bare", "--template=", "-b", "main", "remote.git"],
        );
        fixture.git(fixture.dir.path(), &["clone", "-q", "--template=", "remote.git", "seed"]);
        let seed = fixture.seed();
        fixture.git(&seed, &["checkout", "-q", "-b", "main"]);
        fs::write(seed.join("README"), "hello\n").unwrap();
        fs::write(seed.join(".gitignore"), "target/\n").unwrap();
        fixture.git(&seed, &["add", "."]);
        fixture.git(&seed, &["commit", "-q", "-m", "First"]);
        fixture.git(&seed, &["push", "-q", "origin", "main", "main:codebutler/t"]);
        fixture.git(&seed, &["checkout", "-q", "-b", "codebutler/t"]);
        fixture
    }

    fn seed(&self) -> PathBuf {
        self.dir.path().join("seed")
    }

    /// Files that are merged into the base branch, as nobody here has fetched yet.
    pub(crate) fn merge(&self, files: &[(&str, &str)]) {
        let seed = self.seed();
        self.git(&seed, &["checkout", "-q", "main"]);
        for (path, text) in files {
            let path = seed.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        self.git(&seed, &["add", "."]);
        self.git(&seed, &["commit", "-q", "-m", "Merged"]);
        self.git(&seed, &["push", "-q", "origin", "main"]);
        self.git(&seed, &["checkout", "-q", "codebutler/t"]);
    }

    /// Someone else pushes to the thread's branch.
    pub(crate) fn commit_elsewhere(&self, path: &str, content: impl AsRef<[u8]>) {
        let seed = self.seed();
        self.git(&seed, &["pull", "-q", "--rebase", "origin", "codebutler/t"]);
        let path = seed.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
        self.git(&seed, &["add", "-f", "."]);
        self.git(&seed, &["commit", "-q", "-m", "Elsewhere"]);
        self.git(&seed, &["push", "-q", "origin", "HEAD:codebutler/t"]);
    }

    pub(crate) fn file(&self, path: &str) -> String {
        fs::read_to_string(self.place.tree().join(path)).unwrap()
    }

    pub(crate) fn write(&self, path: &str, content: &str) {
        let path = self.place.tree().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    pub(crate) fn remote_tip(&self) -> String {
        self.git(&self.dir.path().join("remote.git"), &["rev-parse", "codebutler/t"])
    }

    #[allow(clippy::unused_self)]
    pub(crate) fn git(&self, dir: &Path, args: &[&str]) -> String {
        let out = Command::new("git")
            .args(["-c", "user.name=Someone", "-c", "user.email=someone@example.org"])
            .args(args)
            .current_dir(dir)
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_SYSTEM", "/dev/null")
            .output()
            .unwrap();
        assert!(out.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).unwrap().trim().to_owned()
    }
}
