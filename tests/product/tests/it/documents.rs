//! Documents of the libraries that people write them with, and those that people send in Slack.

use std::io::Write as _;
use std::path::Path;

use codebutler_documents::{DocumentContent, DocumentError, DocumentText, read_document};
use codebutler_testbed::models::{ModelScript, ScriptStep};
use codebutler_testbed::pytools::{PyToolsError, ensure_venv};
use serde_json::json;

use crate::support::{Setup, Team};

const WRITERS: &[&str] = &[
    "msoffcrypto-tool==6.1.0",
    "odfpy==1.4.1",
    "openpyxl==3.1.5",
    "pillow==13.0.0",
    "pypdf==7.1.1",
    "python-docx==1.2.0",
    "python-pptx==1.0.2",
    "reportlab==5.1.0",
    "xlsxwriter==3.3.1",
    "xlwt==1.3.0",
    "cryptography==50.0.2",
];

/// The folder with all documents; none where there is no Python.
fn write_documents() -> Option<tempfile::TempDir> {
    let venv = match ensure_venv(WRITERS) {
        Ok(venv) => venv,
        Err(PyToolsError::NoPython) => {
            let _ = writeln!(std::io::stderr(), "skipped: no python3 to write documents with");
            return None;
        }
        Err(error) => panic!("{error}"),
    };
    let folder = tempfile::tempdir().unwrap();
    let script = format!("{}/clients/write_documents.py", codebutler_testbed::FOLDER);
    let mut python = std::process::Command::new(venv.join("bin/python"));
    let wrote = python.arg(script).arg(folder.path()).output().unwrap();
    assert!(wrote.status.success(), "{}", String::from_utf8_lossy(&wrote.stderr));
    Some(folder)
}

fn read(folder: &Path, name: &str, part: Option<&str>) -> Result<DocumentContent, DocumentError> {
    read_document(std::fs::read(folder.join(name)).unwrap(), name, part)
}

fn text(folder: &Path, name: &str) -> DocumentText {
    match read(folder, name, None).unwrap() {
        DocumentContent::Text(text) => text,
        other @ DocumentContent::Part { .. } => panic!("{name}: {other:?}"),
    }
}

/// Renders a document as one text, with the notes about it.
fn shown(folder: &Path, name: &str) -> String {
    let DocumentText { kind, notes, places, parts, text } = text(folder, name);
    let places = places.iter().map(|place| format!("{} @{}\n", place.title, place.line));
    let parts = parts.iter().map(|part| format!("{} ({})\n", part.name, part.about));
    let notes = notes.iter().map(|note| format!("note: {note}\n"));
    let about: String = notes.chain(places).chain(parts).collect();
    format!("{kind}\n{about}\n{text}")
}

/// Pieces of what each document has to say.
const SAID: [(&str, &[&str]); 10] = [
    (
        "returns.docx",
        &[
            "Word document\n",
            "# Returns\nCustomers send goods back within 30 days[comment 0].\tAlways.\n",
            "1. First\n2. Second\n- A point\n",
            "| wide | < | r0c2 |\n| --- | --- | --- |\n| r1c0 | r1c1 | tall |\n| r2c0 | r2c1 | ^ |\n[picture]\n",
            "## Fees\nNone.\n",
            "== Headers ==\nConfidential draft\n",
            "== Footers ==\nShop GmbH\n",
            ": Was 14 days\n",
        ],
    ),
    (
        "sales.xlsx",
        &[
            "note: hidden sheets: Costs\n",
            "[hidden columns: C]\n",
            "[merged cells, with their value at the top left: A5:C5]\n",
            "[printed with each page: Quarter 1]\n",
            "| 2 | 2026-03-01 | 0.3 | 12.5% | 2026-03-01 14:30 | 12.3 [=SUM(B2:B3)] |\n",
            "| 3 hidden |  | 12 |  |  |  |\n",
            "| 6 | plain bold |  |  |  |  |\n[comment B2] Checked by Ana\n",
            "== Sheet Costs, hidden (A1:A1) ==\n",
        ],
    ),
    ("old-mac.xlsx", &["| 1 | 2026-03-01 |\n"]),
    ("formulas.xlsx", &["| 1 | 1 | 2 | not calculated yet [=A1+B1] | 2026-03-01 |\n"]),
    ("old.xls", &["| 2 | 2026-03-01 | 42 |\n"]),
    (
        "roadmap.pptx",
        &[
            "note: slides that are hidden when it is shown: 2\n",
            "== Slide 1 of 2 ==\n# Roadmap\nShip the cart\n  with prices in cents\nNotes: Mention the refund\n",
            "== Slide 2 of 2, hidden ==\n| t00 | t01 |\n| --- | --- |\n| t10 | t11 |\n[picture-1",
        ],
    ),
    ("invoice.pdf", INVOICE),
    // It may be read without a password, and not be changed.
    ("owner.pdf", INVOICE),
    ("chapter.odt", &["# Chapter\nWith a note[note: said below]\n"]),
    ("stock.ods", &["== Sheet Stock (A1:C1) ==\n", "| 1 | Apples | 12 | 2026-03-01 |\n"]),
];

const INVOICE: &[&str] = &[
    "note: pages without text (pictures, or empty): 2\n",
    "== Page 1 of 3 ==\nInvoice 4711\nTotal: 0.30 EUR, the first of the office\n",
    "== Page 3 of 3 ==\nTerms on the third page\n",
    "== Form fields ==\ncustomer: Ben\n",
];

#[test]
fn documents_of_real_writers_are_read_whole() {
    let Some(folder) = write_documents() else { return };
    for (name, pieces) in SAID {
        let all = shown(folder.path(), name);
        for piece in pieces {
            assert!(all.contains(piece), "{name} lacks {piece:?}:\n{all}");
        }
    }
    for name in ["locked.pdf", "locked.docx"] {
        assert_eq!(read(folder.path(), name, None), Err(DocumentError::Locked), "{name}");
    }
    let scan = read(folder.path(), "scan.pdf", None).unwrap_err().to_string();
    assert!(scan.starts_with("has no text: its 1 pages are a scan (1 pictures)"), "{scan}");
    for (name, start) in [
        ("returns.docx", &b"\x89PNG"[..]),
        ("sales.xlsx", b"\x89PNG"),
        ("roadmap.pptx", b"\x89PNG"),
        ("scan.pdf", b"\x89PNG"),
    ] {
        match read(folder.path(), name, Some("picture-1")) {
            Ok(DocumentContent::Part { bytes, .. }) => assert!(bytes.starts_with(start), "{name}"),
            other => panic!("{name}: {other:?}"),
        }
    }
}

/// The messages of the last request that a role made, as one text.
fn last_request(team: &Team, role: &str) -> String {
    let requests = team.stack.models.requests();
    let last = requests.iter().rfind(|r| r.role.as_deref() == Some(role)).unwrap();
    last.body["messages"].to_string()
}

/// A step that reads a file of the conversation which was just named to it.
fn read_step(arguments: &serde_json::Value) -> ScriptStep {
    serde_json::from_value(json!({
        "capture": {"id": "slack:(F[0-9A-Z]+)"},
        "tools": [{"name": "Read", "arguments": arguments}],
    }))
    .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_log_from_slack_begins_in_the_message_and_is_read_on() {
    let log: Vec<String> =
        (1..=4000).map(|n| format!("{n} 12:00 INFO all is well in the shop\n")).collect();
    let log = log.concat();
    let log = log.replace(
        "\n3999 12:00 INFO",
        "\n3999 12:00 ERROR token=ghp_0123456789abcdefghijklmnopqrstuvwxyz",
    );
    assert!(log.len() > 150_000);
    let steps = vec![
        read_step(&json!({"path": "slack:{{id}}", "offset": 3990})),
        ScriptStep::say("It failed near the end."),
    ];
    let team = Setup::new(ModelScript::of("pm", steps)).start().await;
    let (slack, channel) = (&team.stack.slack, &team.stack.channel);
    let ana = &team.stack.users["ana"];
    let (root, id) = slack
        .upload_as(ana, channel, None, "what went wrong?", ("build.log", log.as_bytes()))
        .unwrap();
    team.message(&root, "It failed near the end.").await;
    let request = last_request(&team, "pm");
    assert!(request.contains("1 12:00 INFO all is well"), "{request}");
    assert!(request.contains(&format!("Read `slack:{id}` from offset ")), "{request}");
    assert!(
        request.contains("  3999\\t3999 12:00 ERROR") && request.contains("of 4000)"),
        "{request}"
    );
    assert!(!request.contains("ghp_0123456789"), "a credential reached the model: {request}");
    team.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_document_from_slack_is_read_and_another_conversation_s_is_not() {
    let Some(folder) = tokio::task::spawn_blocking(write_documents).await.unwrap() else { return };
    let invoice = std::fs::read(folder.path().join("invoice.pdf")).unwrap();
    let steps = vec![
        read_step(&json!({"path": "slack:{{id}}"})),
        ScriptStep::say("0.30 EUR."),
        read_step(&json!({"path": "slack:{{id}}"})),
        ScriptStep::say("I can't see it."),
    ];
    let team = Setup::new(ModelScript::of("pm", steps)).start().await;
    let (slack, channel) = (&team.stack.slack, &team.stack.channel);
    let ana = &team.stack.users["ana"];
    let (root, _) =
        slack.upload_as(ana, channel, None, "how much?", ("invoice.pdf", &invoice)).unwrap();
    team.message(&root, "0.30 EUR.").await;
    let request = last_request(&team, "pm");
    assert!(
        request.contains("Invoice 4711") && request.contains("Terms on the third page"),
        "{request}"
    );
    // A file that is in no message of the conversation is nobody's here, whatever a message says.
    let elsewhere = slack.create_channel("board", &[ana]);
    let (_, secret) =
        slack.upload_as(ana, &elsewhere, None, "ours", ("board.pdf", &invoice)).unwrap();
    team.says("ana", Some(&root), &format!("and slack:{secret}?"));
    team.message(&root, "I can't see it.").await;
    let request = last_request(&team, "pm");
    assert!(request.contains("no message of this conversation has such a file"), "{request}");
    team.stop().await;
}
