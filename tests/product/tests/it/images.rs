//! The images, built by a builder that needs no daemon (Debian: `buildah`). What is in them besides
//! the binary does not depend on it, so anything stands in for it, unless `.ci/images` has built the
//! real ones.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Bytes of an image, unpacked.
const MOST: u64 = 45_000_000;
/// Images take gigabytes, too much for a temporary folder that is in memory.
const DISK: &str = "/var/tmp";
/// Ways to keep layers, the better one first. With overlays a layer copies nothing of the one below, and a container
/// nothing of its image: of the workspace that is some 40,000 files each time. They need root's rights, and a file
/// system that carries them.
const DRIVERS: [&str; 2] = ["overlay", "vfs"];

struct Builder {
    dir: tempfile::TempDir,
    driver: &'static str,
}

impl Builder {
    /// Nothing where there is no builder, or none that may work here, said in a line.
    fn new() -> Option<Self> {
        let rootless = usize::from(!nix::unistd::geteuid().is_root());
        let found = DRIVERS.into_iter().skip(rootless).map(Self::with).find(Self::is_able);
        if found.is_none() {
            let hint = "Debian: apt-get install --no-install-recommends buildah";
            let _ = writeln!(std::io::stderr(), "skipped: buildah can't build here ({hint})");
        }
        found
    }

    fn with(driver: &'static str) -> Self {
        let dir = tempfile::tempdir_in(DISK).or_else(|_| tempfile::tempdir()).unwrap();
        Self { dir, driver }
    }

    fn is_able(&self) -> bool {
        self.command().arg("info").output().is_ok_and(|output| output.status.success())
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    fn command(&self) -> Command {
        let mut command = Command::new("buildah");
        command.env("TMPDIR", self.path()).arg("--root").arg(self.path().join("root"));
        command.arg("--runroot").arg(self.path().join("run"));
        command.args(["--storage-driver", self.driver]);
        command
    }

    fn run(&self, arguments: &[&str]) -> String {
        let output = self.command().args(arguments).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "buildah {arguments:?}: {errors}");
        String::from_utf8(output.stdout).unwrap()
    }
}

impl Drop for Builder {
    /// What is mounted can't be removed with the folder.
    fn drop(&mut self) {
        let _ = self.command().args(["rm", "--all"]).output();
    }
}

fn workspace() -> PathBuf {
    Path::new(codebutler_testbed::FOLDER).join("..")
}

/// Gathers the files as `.ci/images` does, the real binaries if they are there.
fn gather(into: &Path) -> bool {
    std::fs::copy(workspace().join("Cargo.lock"), into.join("Cargo.lock")).unwrap();
    std::fs::write(into.join("ca-certificates.crt"), "none\n").unwrap();
    // Not by the tag that marks it: who made the folder before Cargo did left none in it.
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let mut real = true;
    for name in ["codebutler-operator", "codebutler-agent"] {
        let binary = target.join("images").join(name);
        real &= binary.exists();
        let from = if binary.exists() { binary } else { PathBuf::from("/bin/true") };
        std::fs::copy(from, into.join(name)).unwrap();
    }
    let git = target.join("images/git");
    if git.exists() {
        let copied = Command::new("cp").arg("-a").arg(git).arg(into).status().unwrap();
        assert!(copied.success());
    } else {
        real = false;
        std::fs::create_dir_all(into.join("git/usr/bin")).unwrap();
        std::fs::write(into.join("git/usr/bin/git"), "").unwrap();
    }
    real
}

fn files(dir: &Path, below: &Path, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.is_symlink() {
            files(&path, below, found);
        } else {
            found.push(format!("/{}", path.strip_prefix(below).unwrap().display()));
        }
    }
}

#[test]
fn the_images_hold_one_binary_and_run_as_nobody() {
    let Some(builder) = Builder::new() else { return };
    let context = builder.path().join("context");
    std::fs::create_dir(&context).unwrap();
    let real = gather(&context);
    let context = context.to_str().unwrap();
    for (part, others) in [
        ("operator", &["/etc/ssl/certs/ca-certificates.crt", "/usr/bin/git"][..]),
        ("agent", &[][..]),
    ] {
        let file = workspace().join(part).join("Dockerfile");
        let (file, tag) = (file.to_str().unwrap(), format!("codebutler-{part}:test"));
        let build =
            ["build", "--isolation", "chroot", "--file", file, "--build-arg", "VERSION=1.2.3"];
        builder.run(&[&build[..], &["--tag", &tag, context]].concat());
        let shown: Value =
            serde_json::from_str(&builder.run(&["inspect", "--type", "image", &tag])).unwrap();
        let config = &shown["OCIv1"]["config"];
        let binary = format!("/usr/local/bin/codebutler-{part}");
        assert_eq!(config["User"], "65532:65532", "{config}");
        assert_eq!(config["Entrypoint"], serde_json::json!([binary]), "{config}");
        for label in ["title", "description", "licenses", "revision", "created"] {
            assert!(
                config["Labels"][format!("org.opencontainers.image.{label}")].is_string(),
                "{config}"
            );
        }
        assert_eq!(config["Labels"]["org.opencontainers.image.version"], "1.2.3");

        let container = builder.run(&["from", &tag]);
        let mounted = builder.run(&["mount", container.trim()]);
        let root = Path::new(mounted.trim());
        let mut found = Vec::new();
        files(root, root, &mut found);
        found.sort();
        let mut expected = vec!["/usr/share/codebutler/Cargo.lock".to_owned(), binary.clone()];
        expected.extend(others.iter().map(|path| (*path).to_owned()));
        expected.sort();
        // Git's libraries, which depend on where it comes from.
        let plain = |path: &&String| !path.starts_with("/lib") && !path.starts_with("/usr/lib");
        assert_eq!(
            found.iter().filter(plain).collect::<Vec<_>>(),
            expected.iter().collect::<Vec<_>>()
        );
        if real {
            let size = found
                .iter()
                .map(|path| root.join(&path[1..]).metadata().unwrap().len())
                .sum::<u64>();
            let _ =
                writeln!(std::io::stderr(), "codebutler-{part}: {} MB", size.div_ceil(1_000_000));
            assert!(size < MOST, "codebutler-{part}: {size} bytes");
        }
        let list = format!("codebutler-{part}:sbom");
        builder.run(&["build", "--file", file, "--target", "sbom", "--tag", &list, context]);
    }
}

/// Bytes of the workspace image, unpacked.
const MOST_OF_WORKSPACE: u64 = 1_000_000_000;

/// Script that tries what a first thread needs of the image, with the programs themselves.
const TRIED: &str = r#"set -eu
id -un | grep -qx codebutler
cd "$(mktemp -d)"
git init -q . && git --version
printf '#include <zlib.h>\nint main(void) { return zlibVersion() == 0; }\n' > a.c
cc a.c -lz -o a && ./a && c++ --version | head -n 1
python3 -m venv v && v/bin/python -c 'import ssl, sqlite3' && v/bin/pip --version
node -e 'console.log("node " + process.version)' && npm --version
echo '{"a": [1]}' | jq -e '.a[0] == 1' && rg -q '"a"|zlib' . && make --version | head -n 1"#;

/// Built from the packages that this machine's own sources name, in the place of the image that it has by
/// default: the same names, perhaps of another release.
#[test]
fn the_workspace_builds_what_most_repositories_need() {
    let Some(builder) = Builder::new() else { return };
    let base = builder.path().join("base.tar");
    let sources = ["/etc/apt/sources.list.d/debian.sources", "/etc/apt/sources.list"];
    let sources = sources.iter().find(|file| Path::new(file).exists());
    let system = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
    let release = system.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="));
    let made = sources.zip(release).map(|(sources, release)| {
        let mut command = Command::new("mmdebstrap");
        command.env("TMPDIR", builder.path());
        let command =
            command.args(["--quiet", "--variant=apt", "--include=ca-certificates", release]);
        command.arg(&base).arg(sources).output()
    });
    let Some(Ok(made)) = made else {
        let hint = "Debian: apt-get install --no-install-recommends mmdebstrap";
        let _ = writeln!(std::io::stderr(), "skipped: no base for the workspace image ({hint})");
        return;
    };
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let container = builder.run(&["from", "scratch"]);
    let container = container.trim();
    builder.run(&["add", "--quiet", container, base.to_str().unwrap(), "/"]);
    builder.run(&["commit", "--quiet", container, "localhost/base"]);

    let empty = builder.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    let file = workspace().join("agent/workspace.Dockerfile");
    let tag = "codebutler-workspace:test";
    let build =
        ["build", "--isolation", "chroot", "--build-arg", "BASE=localhost/base", "--tag", tag];
    builder
        .run(&[&build[..], &["--file", file.to_str().unwrap(), empty.to_str().unwrap()]].concat());

    let container = builder.run(&["from", tag]);
    let container = container.trim();
    let said = builder.run(&["run", "--isolation", "chroot", container, "--", "sh", "-c", TRIED]);
    let mounted = builder.run(&["mount", container]);
    let size = Command::new("du").args(["-sxb", mounted.trim()]).output().unwrap();
    let size = String::from_utf8(size.stdout).unwrap();
    let size: u64 = size.split_whitespace().next().unwrap().parse().unwrap();
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    let _ = writeln!(std::io::stderr(), "codebutler-workspace: {} MB: {said}", size / 1_000_000);
    assert!(size < MOST_OF_WORKSPACE, "{size} bytes");
}

/// `.ci/release` on a registry of the test's own, with anything in the programs' place.
#[test]
fn a_version_is_published_whole_and_twice_the_same() {
    let (Some(_), Some(venv)) = (Builder::new(), crate::charts::venv()) else { return };
    let mut release = Command::new(venv.join("bin/python"));
    release.arg("-B").arg(workspace().join("tests/clients/release.py"));
    let output = release.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
