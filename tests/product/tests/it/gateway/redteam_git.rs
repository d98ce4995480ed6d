//! A hostile command in a coder's toolbox tries to get past the rules for pushes and clones. Each
//! attempt is a test that fails if it succeeds.

mod packs;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use codebutler_testbed::github::git::BareRepository;
use serde_json::{Value, json};

use super::World;
use codebutler_testbed::models::ModelScript;

/// A thread whose plan is approved, and a clone with one harmless commit.
struct Attack {
    world: World,
    folder: PathBuf,
    before: BTreeMap<String, String>,
}

impl Attack {
    async fn start() -> Self {
        Self::on(&json!({})).await
    }

    /// Starts on a Repo with these fields, whose base branch has a workflow.
    async fn on(spec: &Value) -> Self {
        let world = World::play(ModelScript::of("coder", vec![]), spec, &json!({})).await;
        let files =
            [(".github/workflows/ci.yml", Some("on: push\n")), ("config.txt", Some("old = 1\n"))];
        world.remote.commit("main", "ben", "Add a workflow", &files).await.unwrap();
        world.approve_plan().await;
        let folder = world.clone("coder").await;
        let before = world.remote.branches().await.unwrap();
        Self { world, folder, before }
    }

    fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.folder.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    async fn git(&self, arguments: &[&str]) -> String {
        let output = self.world.git("coder", &self.folder, arguments).await;
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    async fn commit(&self, message: &str) {
        self.git(&["add", "-A", "."]).await;
        self.git(&["commit", "-q", "--allow-empty", "-m", message]).await;
    }

    /// The push is refused with all of `words`, and nothing has changed at the host.
    async fn is_refused(&self, words: &[&str]) -> String {
        let to = format!("HEAD:refs/heads/{}", self.world.branch);
        let said = self.world.refused("coder", &self.folder, &["push", "origin", &to]).await;
        for word in words {
            assert!(said.contains(word), "`{word}` is not in: {said}");
        }
        assert_eq!(self.world.remote.branches().await.unwrap(), self.before);
        said
    }

    async fn is_taken(&self) {
        let to = format!("HEAD:refs/heads/{}", self.world.branch);
        self.git(&["push", "origin", &to]).await;
        let tip = self.git(&["rev-parse", "HEAD"]).await;
        assert_eq!(self.world.remote.head(&self.world.branch).await, Some(tip));
    }

    /// Sends a pack for a commit as no Git would.
    async fn sends(&self, new: &str, pack: &[u8]) -> String {
        let old = &self.before[&self.world.branch];
        let line = format!("{old} {new} refs/heads/{}\0report-status", self.world.branch);
        let (status, answer) = self.world.raw_push("coder", &line, pack).await;
        assert_eq!(status, 200, "{answer}");
        assert!(answer.contains("ng refs/heads/"), "{answer}");
        assert_eq!(self.world.remote.branches().await.unwrap(), self.before);
        answer
    }

    /// Writes an object as it is, form or no form.
    async fn object(&self, kind: &str, content: &[u8]) -> String {
        let file = self.world.dir.path().join("object");
        std::fs::write(&file, content).unwrap();
        let file = file.to_string_lossy();
        self.git(&["hash-object", "-w", "--literally", "-t", kind, &file]).await
    }

    async fn commit_of(&self, tree: &str) -> String {
        self.git(&["commit-tree", tree, "-p", "HEAD", "-m", "Look"]).await
    }

    /// A pack of exactly these objects.
    async fn pack(&self, objects: &[&str]) -> Vec<u8> {
        let list = self.world.dir.path().join("list");
        std::fs::write(&list, objects.join("\n") + "\n").unwrap();
        let output = BareRepository::command()
            .arg("-C")
            .arg(&self.folder)
            .args(["pack-objects", "--stdout", "-q"])
            .stdin(std::fs::File::open(list).unwrap())
            .output()
            .await
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        output.stdout
    }
}

fn token() -> String {
    ["ghp", &"a1B2".repeat(9)].join("_")
}

#[tokio::test]
async fn a_workflow_can_not_be_edited_added_or_removed() {
    let attack = Attack::start().await;
    for change in [Some("on: push\nrun: evil\n"), None] {
        match change {
            Some(text) => attack.write(".github/workflows/ci.yml", text),
            None => std::fs::remove_file(attack.folder.join(".github/workflows/ci.yml")).unwrap(),
        }
        attack.commit("Tidy up").await;
        attack.is_refused(&["protected file .github/workflows/ci.yml", "a person has to"]).await;
        attack.git(&["reset", "-q", "--hard", "HEAD~1"]).await;
    }
    attack.write(".github/workflows/new.yml", "on: push\n");
    attack.commit("Add").await;
    attack.is_refused(&["protected file .github/workflows/new.yml"]).await;
    // In a commit below the newest one, too.
    attack.git(&["rm", "-q", ".github/workflows/new.yml"]).await;
    attack.commit("Never mind").await;
    attack.is_refused(&["protected file .github/workflows/new.yml"]).await;
}

#[tokio::test]
async fn a_protected_file_is_reached_by_no_other_name() {
    let attack = Attack::start().await;
    attack.git(&["mv", ".github/workflows/ci.yml", "ci.yml"]).await;
    attack.commit("Move").await;
    attack.is_refused(&["protected file .github/workflows/ci.yml"]).await;
    attack.git(&["reset", "-q", "--hard", "HEAD~1"]).await;
    for path in [".GitHub/Workflows/ci.yml", ".github/work\u{200b}flows/ci.yml"] {
        attack.write(path, "on: push\n");
        attack.commit("Add").await;
        attack.is_refused(&["protected file"]).await;
        attack.git(&["reset", "-q", "--hard", "HEAD~1"]).await;
    }
    // A link in the folder's place.
    std::fs::remove_dir_all(attack.folder.join(".github")).unwrap();
    std::os::unix::fs::symlink("docs", attack.folder.join(".github")).unwrap();
    attack.write("docs/workflows/ci.yml", "on: push\n");
    attack.commit("Link").await;
    attack.is_refused(&["protected file .github"]).await;
}

#[tokio::test]
async fn an_old_workflow_does_not_come_back_in_a_merge() {
    let attack = Attack::start().await;
    // An older version of it, in the history of the base branch.
    let old = attack.git(&["rev-parse", "origin/main"]).await;
    let now = [(".github/workflows/ci.yml", Some("on: push\nsafe: true\n"))];
    attack.world.remote.commit("main", "ben", "Make it safe", &now).await.unwrap();
    attack.git(&["fetch", "-q", "origin"]).await;
    attack.git(&["merge", "-q", "--no-edit", "origin/main"]).await;
    // Commits that people have put on the base branch may come along.
    attack.is_taken().await;
    let tree = attack.git(&["rev-parse", "HEAD~1^{tree}"]).await;
    let merge = ["commit-tree", &tree, "-p", "HEAD", "-p", &old, "-m", "Merge"];
    let evil = attack.git(&merge).await;
    attack.git(&["reset", "-q", "--hard", &evil]).await;
    let attack = Attack { before: attack.world.remote.branches().await.unwrap(), ..attack };
    attack.is_refused(&["protected file .github/workflows/ci.yml"]).await;
    // Nor does what nobody has put on the base branch, however harmless.
    attack.git(&["reset", "-q", "--hard", "HEAD^1"]).await;
    let draft = [("draft.txt", Some("draft\n"))];
    attack.world.remote.commit("draft", "ben", "Draft", &draft).await.unwrap();
    attack.git(&["fetch", "-q", "origin"]).await;
    attack.git(&["merge", "-q", "--no-edit", "origin/draft"]).await;
    let attack = Attack { before: attack.world.remote.branches().await.unwrap(), ..attack };
    attack.is_refused(&["which is on another branch", "GitUpdate"]).await;
}

#[tokio::test]
async fn a_role_that_is_kept_to_some_files_pushes_no_others() {
    let attack = Attack::start().await;
    let paths = json!({"spec": {"push": {"paths": ["docs/**", "a.txt"]}}});
    attack
        .world
        .cluster
        .patch::<codebutler_crds::AgentRole>(attack.world.cluster.system(), "coder", &paths)
        .await;
    // Refused in any case, so that it can be tried until the gateway has heard of the change.
    attack.write("src/main.rs", "fn main() {}\n");
    attack.write(".github/workflows/ci.yml", "on: push\nrun: evil\n");
    attack.commit("Edit").await;
    super::eventually("the role's paths", || async {
        let said = attack.is_refused(&["protected file"]).await;
        said.contains("src/main.rs is not among the files that this role may push")
    })
    .await;
    attack.git(&["reset", "-q", "--hard", "HEAD~1"]).await;
    attack.write("src/main.rs", "fn main() {}\n");
    attack.commit("Edit").await;
    attack.is_refused(&["not this role's file: src/main.rs"]).await;
    attack.git(&["reset", "-q", "--hard", "HEAD~1"]).await;
    attack.write("docs/a.md", "# A\n");
    attack.commit("Write").await;
    attack.is_taken().await;
}

#[tokio::test]
async fn a_secret_is_not_pushed_in_a_file_however_it_is_written() {
    let attack = Attack::start().await;
    let token = token();
    let base64 = STANDARD.encode(format!("use {token} for it"));
    let wide: Vec<u8> = token.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let with_zero = [b"\0\0".as_slice(), token.as_bytes(), b"\0"].concat();
    for (n, content) in
        [token.clone().into_bytes(), base64.into_bytes(), wide, with_zero].into_iter().enumerate()
    {
        let content = [b"one\ntwo\n".as_slice(), &content, b"\nfour\n"].concat();
        // Git's attributes are the repository's own, and hide nothing.
        attack.write(".gitattributes", "* binary -diff\n");
        attack.write(&format!("src/key{n}.txt"), content);
        attack.commit("Add a file").await;
        let place = format!("src/key{n}.txt:3");
        let said = attack.is_refused(&[&place, "github-token"]).await;
        assert!(!said.contains(&token), "{said}");
        // Taken out again, it is still in the commit below.
        attack.git(&["rm", "-q", &format!("src/key{n}.txt")]).await;
        attack.commit("Take it out").await;
        attack.is_refused(&[&place]).await;
        attack.git(&["reset", "-q", "--hard", "HEAD~2"]).await;
    }
    attack.is_taken().await;
}

#[tokio::test]
async fn a_secret_that_people_have_committed_is_in_nobodys_way() {
    let attack = Attack::start().await;
    let line = format!("key = {}\n", token());
    let files = [("config.txt", Some(line.as_str()))];
    attack.world.remote.commit(&attack.world.branch, "ben", "Oh dear", &files).await.unwrap();
    attack.git(&["pull", "-q", "--no-rebase", "--no-edit", "origin", &attack.world.branch]).await;
    attack.write("config.txt", format!("{line}new = 1\n"));
    attack.commit("Add a line").await;
    attack.git(&["mv", "config.txt", "settings.txt"]).await;
    attack.write("settings.txt", format!("{line}new = 2\n"));
    attack.commit("Rename").await;
    attack.is_taken().await;
}

#[tokio::test]
async fn a_secret_is_not_pushed_in_a_message_or_a_name() {
    let attack = Attack::start().await;
    let token = token();
    attack.commit(&format!("Use {token}")).await;
    let said = attack.is_refused(&["github-token in the message of"]).await;
    assert!(!said.contains(&token), "{said}");
    attack.git(&["reset", "-q", "--hard", "HEAD~1"]).await;
    let author = format!("{token} <a@example.com>");
    attack.git(&["commit", "-q", "--allow-empty", "-m", "Fine", "--author", &author]).await;
    attack.is_refused(&["github-token in the message of"]).await;
    attack.git(&["reset", "-q", "--hard", "HEAD~1"]).await;
    attack.write(&format!("{token}.txt"), "x\n");
    attack.commit("Fine").await;
    let said = attack.is_refused(&["github-token in the name of", "[redacted:github-token]"]).await;
    assert!(!said.contains(&token), "{said}");
    attack.git(&["reset", "-q", "--hard", "HEAD~1"]).await;
    // A branch may not even have another name.
    let other = format!("HEAD:refs/heads/codebutler/{token}");
    attack.world.refused("coder", &attack.folder, &["push", "origin", &other]).await;
    assert_eq!(attack.world.remote.branches().await.unwrap(), attack.before);
}

#[tokio::test]
async fn the_repositorys_own_patterns_count_and_a_slip_in_them_is_told() {
    let attack = Attack::start().await;
    let world = &attack.world;
    let says = |text: &'static str| async move {
        let files = [(".codebutler/policy.json", Some(text))];
        world.remote.commit("main", "ben", "Set the policy", &files).await.unwrap();
    };
    attack.write("notes.md", "one\nsee cust_abcdefgh1\n");
    attack.commit("Take notes").await;
    for policy in [
        r#"{"redaction": [{"name": "customer", "pattern": "cust_[a-z0-9]{8,}"}]}"#,
        // A policy that can't be read takes nothing back.
        r#"{"redaction": [{"name": "customer", "pattern": "(cust_"}]}"#,
        "{",
    ] {
        says(policy).await;
        let to = format!("HEAD:refs/heads/{}", world.branch);
        let said = world.refused("coder", &attack.folder, &["push", "origin", &to]).await;
        assert!(said.contains("customer in notes.md:2"), "{said}");
        assert!(!said.contains("cust_abcdefgh1"), "{said}");
    }
    super::eventually("the thread to be told", || async {
        let messages = world.slack.messages(&world.channel, Some(&world.root));
        let told = |what: &str| messages.iter().filter(|m| m.shown.contains(what)).count();
        told("policy.json") == 2 && told("unclosed group") == 1
    })
    .await;
    says("{}").await;
    attack.is_taken().await;
}

#[tokio::test]
async fn a_file_or_a_push_that_is_too_large_is_refused() {
    let policy = json!({"policy": {"maxFileSize": "1Mi", "maxPushSize": "3Mi"}});
    let attack = Attack::on(&policy).await;
    let noise: Vec<u8> =
        (0..4_000_000_u32).map(|n| n.wrapping_mul(2_654_435_761).to_be_bytes()[1]).collect();
    attack.write("large.bin", &noise[..=(1 << 20)]);
    attack.commit("Add").await;
    attack.is_refused(&["file too large: large.bin", "a file may have 1"]).await;
    attack.git(&["reset", "-q", "--hard", "HEAD~1"]).await;
    let mut random = vec![0_u8; 4_000_000];
    rand::fill(&mut random[..]);
    for (n, part) in random.chunks(1_000_000).enumerate() {
        attack.write(&format!("{n}.bin"), part);
    }
    attack.commit("Add").await;
    attack.is_refused(&["a push may have 3 MiB"]).await;
}

#[tokio::test]
async fn what_no_commit_leads_to_does_not_travel_along() {
    let attack = Attack::start().await;
    let stray = attack.object("blob", token().as_bytes()).await;
    let commit = attack.git(&["rev-parse", "HEAD"]).await;
    let tree = attack.git(&["rev-parse", "HEAD^{tree}"]).await;
    let blob = attack.git(&["rev-parse", "HEAD:a.txt"]).await;
    let pack = attack.pack(&[&commit, &tree, &blob, &stray]).await;
    let old = &attack.before[&attack.world.branch];
    let line = format!("{old} {commit} refs/heads/{}\0report-status", attack.world.branch);
    let (status, answer) = attack.world.raw_push("coder", &line, &pack).await;
    assert!(status == 200 && answer.contains("ok refs/heads/"), "{status} {answer}");
    assert_eq!(attack.world.remote.head(&attack.world.branch).await, Some(commit));
    assert!(!attack.world.remote.git().succeeds(&["cat-file", "-e", &stray]).await);
    // Nor can another pod get it from the gateway.
    let url = format!("{}/v1/git", attack.world.url);
    attack.world.ok("pm", attack.world.dir.path(), &["init", "-q", "empty"]).await;
    let empty = attack.world.dir.path().join("empty");
    let said = attack.world.refused("pm", &empty, &["fetch", "-q", &url, &stray]).await;
    assert!(said.contains("not our ref"), "{said}");
}

#[tokio::test]
async fn a_repo_that_wants_approval_for_pushes_gets_none_before_it() {
    let spec = json!({"policy": {"requireApproval": ["Push"]}});
    let attack = Attack::on(&spec).await;
    let role = json!({"spec": {"push": {"needsApprovedPlan": false}}});
    attack
        .world
        .cluster
        .patch::<codebutler_crds::AgentRole>(attack.world.cluster.system(), "coder", &role)
        .await;
    attack.world.patch_thread(&json!({"status": {"plan": {"approvedBy": null}}})).await;
    attack.is_refused(&["waits for a person's approval", "end your run"]).await;
}

#[tokio::test]
async fn only_the_own_repository_is_behind_the_path() {
    let attack = Attack::start().await;
    let world = &attack.world;
    let files = BTreeMap::from([("secret.txt".to_owned(), "x\n".to_owned())]);
    let first = codebutler_testbed::github::FirstCommit::Files(files);
    world.github.create_repo("acme", "other", first, "main").await.unwrap();
    for path in
        ["/../other", "/acme/other.git", "/%2e%2e/other", "/..%2f..%2facme%2fother", "/HEAD"]
    {
        let url = format!("{}/v1/git{path}", world.url);
        world.refused("coder", world.dir.path(), &["clone", "-q", &url, "other"]).await;
        assert!(!world.dir.path().join("other").exists(), "{path}");
    }
    for path in [
        "objects/info/packs",
        "HEAD",
        "config",
        "git-upload-archive",
        "info/refs?service=git-upload-archive",
    ] {
        let (status, _) = world.get("coder", &format!("/v1/git/{path}")).await;
        assert!(status >= 400, "{path}: {status}");
    }
    let seen = world.github.seen();
    assert!(!seen.iter().any(|seen| seen.path.contains("other")), "{seen:?}");
}

#[tokio::test]
async fn the_credential_is_in_no_file_and_no_answer() {
    let attack = Attack::start().await;
    attack.is_taken().await;
    let token = attack.world.github.token().to_owned();
    let encoded = STANDARD.encode(format!("x-access-token:{token}"));
    for secret in [token.as_str(), encoded.as_str()] {
        assert!(!holds(&attack.world.dir.path().join("cache"), secret.as_bytes()));
        assert!(!holds(&attack.folder, secret.as_bytes()));
    }
}

fn holds(folder: &Path, secret: &[u8]) -> bool {
    std::fs::read_dir(folder).unwrap().flatten().any(|entry| {
        let path = entry.path();
        if path.is_dir() {
            return holds(&path, secret);
        }
        let bytes = std::fs::read(path).unwrap_or_default();
        bytes.windows(secret.len()).any(|window| window == secret)
    })
}

#[tokio::test]
async fn another_threads_commits_are_not_given_out_by_their_ids() {
    let attack = Attack::start().await;
    let remote = &attack.world.remote;
    let base = remote.head("main").await.unwrap();
    let files = [("plans.txt", Some("canary-77\n"))];
    remote.commit("codebutler/another-thread", "ben", "Plan", &files).await.unwrap();
    let hidden = remote.head("codebutler/another-thread").await.unwrap();
    attack.git(&["fetch", "-q", "origin"]).await;
    for version in ["0", "2"] {
        let version = format!("protocol.version={version}");
        let fetch = ["-c", &version, "fetch", "origin", &hidden];
        let said = attack.world.refused("coder", &attack.folder, &fetch).await;
        // The older protocol's client knows it by itself.
        let refused = said.contains("not our ref") || said.contains("unadvertised object");
        assert!(refused, "{said}");
        attack.git(&["-c", &version, "fetch", "-q", "origin", &base]).await;
    }
}

#[tokio::test]
async fn a_branch_of_a_persons_is_not_taken_over_with_its_workflows() {
    let mut attack = Attack::start().await;
    let files = [(".github/workflows/deploy.yml", Some("on: push\nrun: wip\n"))];
    attack.world.remote.commit("wip", "ben", "Try a workflow", &files).await.unwrap();
    attack.before = attack.world.remote.branches().await.unwrap();
    attack.git(&["fetch", "-q", "origin", "wip"]).await;
    attack.git(&["reset", "-q", "--hard", "FETCH_HEAD"]).await;
    attack.is_refused(&["protected file .github/workflows/deploy.yml"]).await;
    attack.commit("On top of it").await;
    attack.is_refused(&["protected file .github/workflows/deploy.yml"]).await;
    // Changes that people have merged are theirs.
    attack.git(&["fetch", "-q", "origin", "main"]).await;
    attack.git(&["reset", "-q", "--hard", "FETCH_HEAD"]).await;
    attack.write("notes.txt", "fine\n");
    attack.commit("Note").await;
    attack.is_taken().await;
}
