//! The official server for PostgreSQL beside a real database, which it reaches through the gateway alone.

use std::io::Write as _;
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use codebutler_crds::names::ANNOTATION_HOSTS;
use codebutler_testbed::models::ScriptStep;
use nix::unistd::User;
use serde_json::{Value, json};

use super::images::{node_command, node_image, skip};
use super::{coder, reading, with_servers};
use crate::support::{Setup, Team, needs_process_kubelet};

const PACKAGES: &[&str] = &["@modelcontextprotocol/server-postgres@0.6.2"];
const IMAGE: &str = "acme/postgres:1";
const PASSWORD: &str = "pass-phrase-of-the-reader";
/// Statements of the schema, one a line.
const SCHEMA: &str = "\
CREATE TABLE prices (item text PRIMARY KEY, cents bigint, since date)
INSERT INTO prices VALUES ('tea', 98765, '2026-03-01'), ('milk', 120, '2026-04-01')
CREATE ROLE reader LOGIN
GRANT SELECT ON prices TO reader
";
/// Does what `socat` does in the page's example, where this machine has none: a listener whose connections go through
/// the pod's relay.
const RELAY: &str = r#"
const net = require("node:net");
const target = process.argv[2];
net.createServer((client) => {
  const way = net.connect(8417, "127.0.0.1", () => way.write(`CONNECT ${target} HTTP/1.1\r\nHost: ${target}\r\n\r\n`));
  let head = Buffer.alloc(0);
  way.on("data", function read(piece) {
    head = Buffer.concat([head, piece]);
    const end = head.indexOf("\r\n\r\n");
    if (end < 0) return;
    way.off("data", read);
    client.write(head.subarray(end + 4));
    client.pipe(way).pipe(client);
  });
  for (const side of [client, way]) side.on("error", () => { client.destroy(); way.destroy(); });
}).listen(5432, "127.0.0.1");
"#;

/// A database that ends with the test.
struct PostgresServer {
    child: Child,
    port: u16,
    _dir: tempfile::TempDir,
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        // Its own children end with it then.
        let pid = nix::unistd::Pid::from_raw(self.child.id().cast_signed());
        let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT);
        let _ = self.child.wait();
    }
}

impl PostgresServer {
    /// Starts one with the schema; none where the machine has no PostgreSQL, said in a line.
    fn start() -> Option<Self> {
        let Some(programs) = find_programs() else {
            skip(
                "there is no PostgreSQL (Debian: apt-get install --no-install-recommends postgresql)",
            );
            return None;
        };
        let dir = tempfile::tempdir().unwrap();
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let data = dir.path().join("data");
        std::fs::create_dir(&data).unwrap();
        let user = server_user(&data);
        let run = |program: &str| {
            let mut command = Command::new(programs.join(program));
            command.current_dir(dir.path()).arg("-D").arg(&data).stdout(Stdio::null());
            if let Some((uid, gid)) = user {
                command.uid(uid).gid(gid);
            }
            command
        };
        let mut init = run("initdb");
        let init = init.args(["-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "-N"]);
        let made = init.output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let mut single = run("postgres");
        // Of its own accord this mode does without `-D` in front.
        let mut filling = Command::new(single.get_program());
        filling.arg("--single").args(single.get_args()).arg("postgres");
        filling.current_dir(dir.path()).stdin(Stdio::piped()).stdout(Stdio::null());
        if let Some((uid, gid)) = user {
            filling.uid(uid).gid(gid);
        }
        let mut filling = filling.spawn().unwrap();
        filling.stdin.take().unwrap().write_all(SCHEMA.as_bytes()).unwrap();
        assert!(filling.wait().unwrap().success());
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let serving = single.args(["-p", &port.to_string(), "-c", "listen_addresses=127.0.0.1"]);
        let serving = serving.args(["-c", "unix_socket_directories=", "-c", "fsync=off"]);
        let child = serving.stderr(Stdio::null()).spawn().unwrap();
        let server = Self { child, port, _dir: dir };
        let begun = Instant::now();
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(begun.elapsed() < Duration::from_secs(30), "PostgreSQL does not listen");
            std::thread::sleep(Duration::from_millis(50));
        }
        Some(server)
    }
}

/// The newest that Debian has installed.
fn find_programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?.flatten();
    let number = |path: &PathBuf| path.file_name()?.to_str()?.parse::<u32>().ok();
    let newest = versions.map(|entry| entry.path()).max_by_key(number)?.join("bin");
    newest.join("initdb").exists().then_some(newest)
}

/// PostgreSQL refuses to run as root: whom it runs as then, with the folder in its hands.
fn server_user(data: &Path) -> Option<(u32, u32)> {
    if std::fs::metadata(data).unwrap().uid() != 0 {
        return None;
    }
    let named = |name: &str| User::from_name(name).ok().flatten();
    let user = named("postgres").or_else(|| named("nobody")).unwrap();
    let (uid, gid) = (user.uid.as_raw(), user.gid.as_raw());
    std::os::unix::fs::chown(data, Some(uid), Some(gid)).unwrap();
    Some((uid, gid))
}

fn query(sql: &str) -> (&'static str, Value) {
    ("mcp__postgres__query", json!({ "sql": sql }))
}

fn script() -> Vec<ScriptStep> {
    let mut asking = ScriptStep::default();
    for sql in [
        "SELECT item, cents FROM prices ORDER BY cents",
        "SELECT 1 AS one; SELECT 2 AS two",
        "INSERT INTO prices VALUES ('rum', 900, now())",
        "SELECT nonsense FROM prices",
    ] {
        let (tool, arguments) = query(sql);
        asking = asking.and_tool(tool, arguments);
    }
    let listing = ScriptStep::tool("ListResources", json!({"server": "postgres"}));
    vec![asking, listing, ScriptStep::say("Done.")]
}

impl Team {
    async fn database_secret(&self, hosts: Option<&str>) {
        let annotations = hosts.map(|hosts| json!({ANNOTATION_HOSTS: hosts}));
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"namespace": self.stack.place.team, "name": "shop-db", "annotations": annotations},
            "stringData": {"url": format!("postgresql://reader:{PASSWORD}@127.0.0.1:5432/postgres")},
        });
        self.stack.cluster.apply_yaml(&secret.to_string()).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_queries_a_real_database_through_the_gateway() {
    if needs_process_kubelet("the server's image has packages of this machine") {
        return;
    }
    let Some(mut image) = node_image(PACKAGES).await else { return };
    let Some(database) = tokio::task::spawn_blocking(PostgresServer::start).await.unwrap() else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let relay = dir.path().join("relay.js");
    std::fs::write(&relay, RELAY).unwrap();
    image.binds.push((relay, "/srv/relay.js".to_owned()));
    let host = format!("127.0.0.1:{}", database.port);
    let program = node_command("@modelcontextprotocol/server-postgres/dist/index.js").join(" ");
    let shell = format!("node /srv/relay.js {host} & exec {program} \"$DATABASE_URL\"");
    let server = reading(json!({
        "name": "postgres", "image": IMAGE, "command": ["sh", "-c", shell],
        "env": [{"name": "DATABASE_URL", "secret": {"name": "shop-db", "key": "url"}}, {"name": "TZ", "value": "UTC"}],
        "egress": [host],
    }));
    let setup = Setup::new(coder(script())).image(IMAGE, image);
    let team = with_servers(setup, vec![server]).start().await;
    team.servers_are("False", "Secret `shop-db` does not exist").await;
    team.database_secret(None).await;
    team.servers_are("False", "has no annotation `codebutler.dev/hosts`: add it").await;
    team.database_secret(Some(&host)).await;
    team.servers_are("Unknown", "`postgres`: not started yet; starts on first use").await;
    assert!(team.server_pods().await.is_empty());

    let root = team.servers_wake().await;
    let shown = team.coder_works(&root).await;
    assert!(shown.contains("milk") && shown.contains("98765"), "{shown}");
    assert!(shown.contains("cannot execute INSERT in a read-only transaction"), "{shown}");
    assert!(shown.contains("does not exist"), "a wrong column is named: {shown}");
    assert!(shown.contains("/prices/schema"), "the table is a resource: {shown}");
    assert!(!shown.contains(PASSWORD), "{shown}");
    // The answer to two statements has an item that the protocol does not know: the session goes on.
    team.calls_are_counted(&root, &[("postgres", 4)]).await;
    team.servers_are("True", "has 1 tool, ready since").await;
    team.stop().await;
    drop(database);
}
