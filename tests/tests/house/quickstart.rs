//! The quick starts as far as they go without a cluster: what they say on a machine that lacks a tool, and what
//! they run.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Programs that every machine has.
const USUAL: [&str; 17] = [
    "bash", "cat", "cc", "chmod", "cp", "dirname", "git", "grep", "install", "ldd", "ls", "mkdir",
    "mktemp", "rm", "sed", "sort", "strip",
];
/// Programs that build images, with the answers that they should give.
const LINUX: (&str, &str) = ("uname", "echo Linux");
const CARGO: (&str, &str) = ("cargo", "");
const RUST: (&str, &str) = ("rustc", "echo 'rustc 1.99.0 (abc 2026-10-01)'");

/// A machine with these programs alone, beside those that every machine has.
struct Machine {
    dir: tempfile::TempDir,
}

impl Machine {
    fn with(programs: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let bin = dir.path().join("bin");
        fs::create_dir(&bin).unwrap();
        for program in USUAL {
            let found = ["/usr/bin", "/bin"].map(|dir| Path::new(dir).join(program));
            if let Some(found) = found.iter().find(|path| path.exists()) {
                symlink(found, bin.join(program)).unwrap();
            }
        }
        let log = dir.path().join("log");
        fs::write(&log, "").unwrap();
        for (program, script) in programs {
            let text =
                format!("#!/bin/bash\necho \"{program} $*\" >> {}\n{script}\n", log.display());
            fs::write(bin.join(program), text).unwrap();
            fs::set_permissions(bin.join(program), Permissions::from_mode(0o755)).unwrap();
        }
        Self { dir }
    }

    fn run(&self, line: &[&str], environment: &[(&str, &str)]) -> Output {
        let mut command = Command::new(self.dir.path().join("bin/bash"));
        command.args(line).current_dir(top()).env_clear().env("PATH", self.dir.path().join("bin"));
        command.envs(environment.iter().copied()).output().unwrap()
    }

    /// Command lines with which these programs were called.
    fn asked(&self) -> Vec<String> {
        let log = fs::read_to_string(self.dir.path().join("log")).unwrap();
        log.lines().map(str::to_owned).collect()
    }
}

fn top() -> PathBuf {
    Path::new(codebutler_testbed::FOLDER).join("..")
}

fn script(name: &str) -> String {
    format!("charts/examples/quickstart/{name}.sh")
}

fn said(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// True for a command of kind or k3d that changes something.
fn makes_cluster(line: &str) -> bool {
    let only_asks =
        ["kind version -q", "kind get clusters", "k3d cluster get codebutler"].contains(&line);
    !only_asks && ["kind", "k3d"].iter().any(|tool| line.starts_with(tool))
}

#[test]
fn a_tool_that_is_missing_is_named_with_the_way_to_it_before_anything_changes() {
    for (name, tools) in [
        ("kind", &["docker", "cargo", "kind", "kubectl", "helm"][..]),
        ("k3d", &["docker", "cargo", "k3d", "kubectl", "helm"]),
    ] {
        let output = Machine::with(&[LINUX]).run(&[&script(name)], &[]);
        let complaint = said(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{complaint}");
        for tool in tools {
            assert!(complaint.contains(&format!("{tool} is missing: ")), "{tool}: {complaint}");
        }
        assert!(complaint.contains("cargo demo"), "a way without Docker: {complaint}");
    }
    let rest = [LINUX, CARGO, RUST, ("kind", ""), ("kubectl", ""), ("helm", "")];
    let asleep = Machine::with(&[&rest[..], &[("docker", "exit 1")]].concat());
    let output = asleep.run(&[&script("kind")], &[]);
    let complaint = said(&output.stderr);
    assert!(complaint.contains("docker does not answer: start it"), "{complaint}");
    let asked = asleep.asked();
    assert!(!asked.iter().any(|line| makes_cluster(line)), "{asked:?}");
}

#[test]
fn a_machine_that_can_t_build_the_images_is_told_before_anything_changes() {
    let tools = [("docker", ""), ("kind", ""), ("k3d", ""), ("kubectl", ""), ("helm", "")];
    let mac = ("uname", "echo Darwin");
    let old = ("rustc", "echo 'rustc 1.80.1 (abc 2024-08-06)'");
    for (name, arguments) in [("kind", &[][..]), ("k3d", &[]), ("cluster", &["r.example/x"])] {
        for (machine, part) in [
            ([mac, CARGO, RUST], "this is Darwin, and the images' programs are built on Linux"),
            ([LINUX, CARGO, old], "Rust is 1.80.1, and 1."),
        ] {
            let machine = Machine::with(&[&tools[..], &machine].concat());
            let script = script(name);
            let line: Vec<&str> = [&*script].into_iter().chain(arguments.iter().copied()).collect();
            let output = machine.run(&line, &[]);
            let complaint = said(&output.stderr);
            assert_eq!(output.status.code(), Some(1), "{name}: {complaint}");
            assert!(complaint.contains(part), "{name}: {complaint}");
            let asked = machine.asked();
            let changes = |line: &String| {
                ["kind create", "k3d cluster create", "helm"]
                    .iter()
                    .any(|one| line.starts_with(one))
            };
            assert!(!asked.iter().any(changes), "{name}: {asked:?}");
        }
    }
}

#[test]
fn what_the_build_needs_besides_rust_is_asked_for_before_a_cluster_is_made() {
    let tools = [("docker", ""), ("kind", ""), ("kubectl", ""), ("helm", "")];
    let machine = Machine::with(&[&tools[..], &[LINUX, CARGO, RUST]].concat());
    fs::remove_file(machine.dir.path().join("bin/cc")).unwrap();
    let output = machine.run(&[&script("kind")], &[]);
    let complaint = said(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{complaint}");
    assert!(complaint.starts_with("cc is missing: "), "{complaint}");
    assert!(!machine.asked().iter().any(|line| makes_cluster(line)), "{complaint}");
}

#[test]
fn a_tool_that_would_make_no_fit_cluster_is_told_before_anything_changes() {
    let tools = [LINUX, CARGO, RUST, ("kubectl", ""), ("helm", "")];
    let old = [("docker", ""), ("kind", "[ \"$*\" != 'version -q' ] || echo 0.23.0")];
    let podman = [("podman", ""), ("k3d", "")];
    let names_socket = [("DOCKER_HOST", "unix:///run/user/1000/podman/podman.sock")];
    for (name, machine, part) in [
        ("kind", &old, "kind is 0.23.0, and 0.24.0 is needed: older ones enforce no NetworkPolicy"),
        ("k3d", &podman, "k3d needs Docker, or Podman's socket: systemctl --user"),
    ] {
        let machine = Machine::with(&[&tools[..], &machine[..]].concat());
        let output = machine.run(&[&script(name)], &[]);
        let complaint = said(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{name}: {complaint}");
        assert!(complaint.starts_with(part), "{name}: {complaint}");
        assert!(!machine.asked().iter().any(|line| makes_cluster(line)), "{:?}", machine.asked());
    }
    let machine = Machine::with(&[&tools[..], &podman[..]].concat());
    let output = machine.run(&[&script("k3d"), "--dry-run"], &names_socket);
    assert_eq!(said(&output.stderr), "", "{}", said(&output.stdout));
}

#[test]
fn images_are_not_built_for_minutes_where_a_part_is_missing() {
    let nowhere = [("SSL_CERT_FILE", "/nonexistent/authorities.crt")];
    let machine = Machine::with(&[("docker", ""), CARGO, RUST]);
    let output = machine.run(&[".ci/images", "r.example/x/"], &nowhere);
    let complaint = said(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{complaint}");
    assert!(complaint.contains("/nonexistent/authorities.crt: install"), "{complaint}");
    fs::remove_file(machine.dir.path().join("bin/git")).unwrap();
    let output = machine.run(&[".ci/images", "r.example/x/"], &[("SSL_CERT_FILE", "Cargo.lock")]);
    assert!(said(&output.stderr).starts_with("git is missing"), "{}", said(&output.stderr));
    assert!(!machine.asked().iter().any(|line| line.starts_with("cargo")), "{:?}", machine.asked());
}

#[test]
fn podman_builds_where_docker_sleeps() {
    let machine = Machine::with(&[
        LINUX,
        CARGO,
        RUST,
        ("docker", "exit 1"),
        ("podman", ""),
        ("kind", "exit 3"),
        ("kubectl", ""),
        ("helm", ""),
    ]);
    let output = machine.run(&[&script("kind")], &[]);
    assert!(!said(&output.stderr).contains("docker does not answer"), "{}", said(&output.stderr));
    let asked = machine.asked();
    let made =
        "kind create cluster --name codebutler --config charts/examples/quickstart/kind.yaml";
    assert!(asked.iter().any(|line| line == made), "{asked:?}");
}

#[test]
fn a_cluster_of_one_node_is_told_before_the_images_are_built() {
    for (nodes, fits) in
        [("codebutler-control-plane", false), ("codebutler-control-plane codebutler-worker", true)]
    {
        let kind = format!(
            "[ \"$*\" != 'get clusters' ] || echo codebutler\n[ \"$1 $2\" != 'get nodes' ] || printf '%s\\n' {nodes}"
        );
        let tools = [
            LINUX,
            CARGO,
            RUST,
            ("docker", ""),
            ("kind", &*kind),
            ("helm", ""),
            ("kubectl", "exit 3"),
        ];
        let machine = Machine::with(&tools);
        let output = machine.run(&[&script("kind")], &[]);
        let complaint = said(&output.stderr);
        assert_eq!(complaint.contains("has one node"), !fits, "{nodes}: {complaint}");
        let asked = machine.asked();
        assert!(!asked.iter().any(|line| line.starts_with("kind create")), "{asked:?}");
    }
}

#[test]
fn the_tool_that_builds_the_images_pushes_them() {
    let both = [("docker", ""), ("podman", ""), ("buildah", "")];
    for (tools, environment, builder) in [
        (&both[..], &[][..], "docker"),
        (&both[1..], &[], "podman"),
        (&both[2..], &[], "buildah"),
        (&both[..], &[("IMAGE_BUILDER", "podman")], "podman"),
    ] {
        let machine = Machine::with(&[&[LINUX, CARGO, RUST][..], tools].concat());
        let output = machine.run(&[&script("cluster"), "--dry-run", "r.example/x"], environment);
        let shown = said(&output.stdout);
        let line = format!("+ {builder} push r.example/x/codebutler-operator:0.1.0");
        assert!(shown.contains(&line), "{line}: {shown}");
        let complaint = said(&output.stderr);
        assert!(!complaint.contains("docker is missing"), "{builder}: {complaint}");
    }
}

#[test]
fn kubectl_asks_the_plugin_for_completions() {
    let machine = Machine::with(&[("kubectl-codebutler", "printf 'threads\\tLists\\n:4\\n'")]);
    // As kubectl calls it: by its name, from the PATH.
    let program = top().join("operator/kubectl/kubectl_complete-codebutler");
    let output = machine.run(&["-c", &format!("{} th", program.display())], &[]);
    assert_eq!(said(&output.stdout), "threads\tLists\n:4\n", "{}", said(&output.stderr));
    assert_eq!(machine.asked(), ["kubectl-codebutler __complete th"]);
}

#[test]
fn a_registry_or_a_tool_that_can_t_be_meant_gets_a_sentence() {
    let machine = Machine::with(&[]);
    for (line, part) in [
        (vec![script("cluster")], "cluster.sh registry.example.com/team"),
        (vec![script("cluster"), "https://r.example".into()], "as HOST/PATH"),
        (vec![script("gitops"), "jenkins".into()], "gitops.sh flux REGISTRY"),
        (vec![script("gitops"), "flux".into(), "oci://r.example/x".into()], "without a scheme"),
        (
            vec![".ci/images".into(), "--load".into(), "minikube".into()],
            "into kind or k3d, not minikube",
        ),
    ] {
        let line: Vec<&str> = line.iter().map(String::as_str).collect();
        let output = machine.run(&line, &[]);
        let complaint = said(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{line:?}: {complaint}");
        assert!(complaint.contains(part), "{line:?}: {complaint}");
    }
    let away = Machine::with(&[("kubectl", "echo 'connection refused' >&2; exit 1"), ("helm", "")]);
    let output = away.run(&[&script("cluster"), "r.example/x"], &[("IMAGES", "there")]);
    let complaint = said(&output.stderr);
    assert!(complaint.contains("kubectl reaches no cluster: connection refused"), "{complaint}");
    assert!(!away.asked().iter().any(|asked| asked.starts_with("helm")), "{:?}", away.asked());
}

#[test]
fn a_cluster_that_can_t_have_it_is_told_before_the_images_are_built() {
    for (answers, part) in [
        (
            "[ \"$1\" != version ] || echo 'Server Version: v1.29.4-eks-1'",
            "the cluster's Kubernetes is 1.29.4, and 1.30.0 is needed: upgrade it",
        ),
        (
            "[ \"$1\" != auth ] || { echo no; exit 1; }",
            "you may not create definitions in this cluster: have an administrator run this",
        ),
    ] {
        let tools = [LINUX, CARGO, RUST, ("docker", ""), ("helm", ""), ("kubectl", answers)];
        let machine = Machine::with(&tools);
        let output = machine.run(&[&script("cluster"), "r.example/x"], &[]);
        let complaint = said(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{complaint}");
        assert!(complaint.starts_with(part), "{complaint}");
        let asked = machine.asked();
        assert!(!asked.iter().any(|line| line.starts_with("docker build")), "{asked:?}");
        assert!(!asked.iter().any(|line| line.starts_with("helm")), "{asked:?}");
    }
}

#[test]
fn a_machine_without_room_is_told_before_anything_changes() {
    let usual = [LINUX, CARGO, RUST, ("docker", ""), ("kubectl", ""), ("helm", "")];
    let small = ("free", "echo '       total used free'; echo 'Mem:   3936 2900 100 20 900 812'");
    let full = ("df", "echo head; echo '/dev/vda 90000 85000 5000 95% /'");
    let none = [("kind", "exit 1"), ("k3d", "exit 1")];
    for name in ["kind", "k3d"] {
        let machine = Machine::with(&[&usual[..], &none, &[small, full]].concat());
        let output = machine.run(&[&script(name)], &[]);
        let complaint = said(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{name}: {complaint}");
        for part in ["812 MB of memory are free", "5000 MB of disk are free in /"] {
            assert!(complaint.contains(part), "{name}: {complaint}");
        }
        assert!(!machine.asked().iter().any(|line| makes_cluster(line)), "{:?}", machine.asked());
    }
    // A cluster of that name is there: what it takes was free before.
    let there =
        [("kind", "[ \"$*\" != 'get clusters' ] || echo codebutler"), ("kubectl", "exit 1")];
    let machine = Machine::with(&[&usual[..], &there, &[small, full]].concat());
    let output = machine.run(&[&script("kind")], &[]);
    assert!(!said(&output.stderr).contains("are free"), "{}", said(&output.stderr));
}

#[test]
fn nodes_that_can_take_no_role_are_told_before_anything_is_installed() {
    let of = |nodes: &str, environment: &[(&str, &str)]| {
        let answers = format!("case \"$*\" in 'get nodes'*) printf '{nodes}' ;; esac");
        let machine = Machine::with(&[("kubectl", &*answers), ("helm", "")]);
        let given: Vec<_> = environment.iter().copied().chain([("IMAGES", "there")]).collect();
        let output = machine.run(&[&script("cluster"), "r.example/x"], &given);
        let installs = machine.asked().iter().any(|line| line.starts_with("helm"));
        assert_eq!(installs, output.status.success(), "{}", said(&output.stderr));
        (installs, said(&output.stderr))
    };
    let small = "|940m|456Mi|7Gi\\n";
    let (installs, complaint) = of(small, &[]);
    assert!(!installs && complaint.starts_with("no node can take a role"), "{complaint}");
    for part in
        ["576 MiB of memory", "940m of processor, 456 MiB of memory, 7168 MiB", "SMALL_NODES"]
    {
        assert!(complaint.contains(part), "{complaint}");
    }
    for nodes in [
        // What is written in another way, or not at all, is no reason.
        "",
        "|2|1.5Gi|\\n",
        "|1930m|3977740Ki|18242267924\\n",
        &format!("{small}|4|16Gi|100Gi\\n"),
    ] {
        assert!(of(nodes, &[]).0, "{nodes}");
    }
    assert!(!of(&format!("{small}true|4|16Gi|100Gi\\n"), &[]).0, "a node that takes no pods");
    assert!(!of("|4|16Gi|500Mi\\n", &[]).0, "a node without a disk to speak of");
    assert!(of(small, &[("SMALL_NODES", "yes")]).0);
}

#[test]
fn a_cluster_without_a_default_storage_class_is_told_before_the_images_are_built() {
    let of = |classes: &str, claim: i32, more: &[&str]| {
        let answers = format!(
            "case \"$*\" in 'get storageclass'*) echo '{classes}' ;; *'get pvc'*) exit {claim} ;; esac"
        );
        let machine = Machine::with(&[("kubectl", &*answers), ("helm", "")]);
        let script = script("cluster");
        let line: Vec<&str> =
            [&*script, "r.example/x"].into_iter().chain(more.iter().copied()).collect();
        let output = machine.run(&line, &[("IMAGES", "there")]);
        let installs = machine.asked().iter().any(|line| line.starts_with("helm"));
        assert_eq!(installs, output.status.success(), "{}", said(&output.stderr));
        (installs, said(&output.stderr))
    };
    let (installs, complaint) = of("classes: false  ", 1, &[]);
    assert!(
        !installs && complaint.starts_with("the cluster has no default Storage"),
        "{complaint}"
    );
    assert!(complaint.contains("history.persistence.storageClass=NAME"), "{complaint}");
    assert!(!of("classes: ", 1, &[]).0, "there is no class at all");
    assert!(of("classes: false true ", 1, &[]).0);
    assert!(of("classes: ", 0, &[]).0, "the claim is there already");
    assert!(of("", 1, &[]).0, "nobody knows");
    assert!(of("classes: ", 1, &["--set", "history.persistence.storageClass=slow"]).0);
}

#[test]
fn scripts_and_plugin_ask_of_nodes_what_the_controller_asks() {
    let read = |path: &str| fs::read_to_string(top().join(path)).unwrap();
    let sizes = read("operator/controller/src/thread/size.rs");
    let figure = |container: &str, name: &str| -> u64 {
        let (_, own) = sizes.split_once(&format!("const {container}: Self")).unwrap();
        let (_, value) = own.split_once(&format!(" {name}: \"")).unwrap();
        let (value, _) = value.split_once('"').unwrap();
        match value.strip_suffix("Gi") {
            Some(gibibytes) => gibibytes.parse::<u64>().unwrap() * 1024,
            None => value.trim_end_matches(['M', 'i', 'm']).parse().unwrap(),
        }
    };
    let pod = |name: &str| figure("TOOLBOX", name) + figure("AGENT", name);
    let (cpu, memory, disk) = (pod("cpu"), pod("memory"), pod("disk"));
    let script = format!("pod_cpu={cpu} pod_memory={memory} pod_disk={disk}\n");
    assert!(read("charts/examples/quickstart/lib.sh").contains(&script), "{script}");
    let plugin =
        format!("(\"cpu\", {cpu}), (\"memory\", {memory}), (\"ephemeral-storage\", {disk})");
    assert!(read("operator/kubectl/src/nodes.rs").contains(&plugin), "{plugin}");
}

#[test]
fn the_commands_are_shown_without_being_run() {
    for (name, cluster) in [
        ("kind", "kind create cluster --name codebutler"),
        ("k3d", "k3d cluster create codebutler"),
    ] {
        let machine = Machine::with(&[]);
        let output = machine.run(&[&script(name), "--dry-run"], &[]);
        let shown = said(&output.stdout);
        assert!(output.status.success(), "{shown}");
        for part in [
            cluster,
            &format!(".ci/images --load {name} --cluster codebutler localhost/ 0.1.0"),
            "helm upgrade --install codebutler-crds charts/codebutler-crds",
            "--set images.registry=localhost",
        ] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
    }
}

#[test]
fn images_are_loaded_into_a_cluster_without_a_registry() {
    let programs = tempfile::tempdir().unwrap();
    for name in ["codebutler-operator", "codebutler-agent"] {
        fs::copy("/bin/true", programs.path().join(name)).unwrap();
    }
    let binaries = programs.path().to_str().unwrap();
    for (load, command) in [("kind", "kind load image-archive "), ("k3d", "k3d image import ")] {
        // Writes an archive, as `docker save` does.
        let saves = "[ \"$1\" != save ] || echo archive > \"$3\"";
        let machine = Machine::with(&[("docker", saves), (load, "[ -s \"$3\" ]")]);
        let line = [".ci/images", "--load", load, "--cluster", "try"];
        let output = machine.run(&line, &[("BINARIES", binaries), ("SSL_CERT_FILE", "Cargo.lock")]);
        assert!(output.status.success(), "{}", said(&output.stderr));
        let asked = machine.asked();
        let loaded =
            asked.iter().filter(|line| line.starts_with(command) && line.ends_with(" try"));
        assert_eq!(loaded.count(), 3, "{asked:?}");
        for name in ["operator", "agent", "workspace"] {
            let image = format!("localhost/codebutler-{name}:0.1.0");
            let archived =
                asked.iter().filter(|l| l.starts_with("docker save") && l.ends_with(&image));
            assert_eq!(archived.count(), 1, "{image}: {asked:?}");
        }
        assert!(!asked.iter().any(|line| line.contains(" push ")), "{asked:?}");
    }
}

#[test]
fn gitops_manifests_take_the_charts_from_the_registry_and_version_that_were_named() {
    for tool in ["flux", "argocd"] {
        let output =
            Machine::with(&[]).run(&[&script("gitops"), tool, "r.example/x", "2.0.1"], &[]);
        assert!(output.status.success(), "{}", said(&output.stderr));
        let text = said(&output.stdout);
        let objects: Vec<serde_json::Value> = serde_saphyr::from_multiple(&text).unwrap();
        let from: Vec<_> = objects
            .iter()
            .filter_map(|object| match &object["spec"] {
                spec if spec.get("url").is_some() => Some((&spec["url"], &spec["ref"]["tag"])),
                spec if spec.get("source").is_some() => {
                    Some((&spec["source"]["repoURL"], &spec["source"]["targetRevision"]))
                }
                _ => None,
            })
            .collect();
        assert_eq!(from.len(), 2, "{text}");
        for (url, version) in from {
            assert!(url.as_str().unwrap().contains("r.example/x/charts"), "{url}");
            assert_eq!(version, "2.0.1");
        }
        assert!(text.contains("images: {registry: r.example/x}"), "{text}");
        assert!(said(&output.stderr).starts_with("Next: commit this"), "{tool}");
    }
}
