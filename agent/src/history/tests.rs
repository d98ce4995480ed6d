use codebutler_wire::history::{CheckShown, HistoryEvent, HistoryLine, ToolUse, VERSION};
use codebutler_wire::{MessageAuthor, SlackTs};

use super::*;
use crate::memory::{ForeignSource, LearningEntry};
use crate::work_report::report_work;

fn line(at: u64, role: Option<&str>, event: HistoryEvent) -> HistoryLine {
    let source = role.map_or("gateway".to_owned(), |role| format!("agent/{role}/0a"));
    HistoryLine {
        v: VERSION,
        at,
        source,
        seq: None,
        key: None,
        role: role.map(str::to_owned),
        run: None,
        event,
    }
}

fn ts(text: &str) -> SlackTs {
    text.parse().unwrap()
}

fn call(tool: &str, arguments: &str) -> ToolUse {
    ToolUse { tool: tool.to_owned(), arguments: arguments.to_owned() }
}

/// A coder that was asked by the pm, and what people and GitHub did.
fn story() -> KeptHistory {
    let mut kept = KeptHistory::default();
    let answer = |calls: Vec<ToolUse>| HistoryEvent::Answer {
        model: Some("m/one".to_owned()),
        text: None,
        thoughts: None,
        calls,
    };
    let fetch = call("WebFetch", "{}");
    let checks = vec![CheckShown { name: "build".to_owned(), state: "failure".to_owned() }];
    let message = |text: &str, author| HistoryEvent::Message {
        ts: ts("2.000000"),
        author,
        text: text.to_owned(),
    };
    let tool = |call, output: &str, ok| HistoryEvent::Tool {
        call,
        output: output.to_owned(),
        ok,
        exit_code: None,
        millis: None,
    };
    let waiting =
        |now| HistoryEvent::Waiting { what: "AwaitingUser".to_owned(), now, why: String::new() };
    let decision = HistoryEvent::Decision {
        kind: "plan".to_owned(),
        choice: "approve".to_owned(),
        user: "U1".to_owned(),
        message: ts("1.000000"),
    };
    let told = [
        (None, message("please", MessageAuthor::Role { role: "pm".to_owned() })),
        (None, waiting(true)),
        (Some("pm"), decision),
        (None, waiting(false)),
        (Some("coder"), HistoryEvent::RunStarted),
        (
            Some("coder"),
            HistoryEvent::Taken { messages: vec![ts("2.000000")], decisions: Vec::new() },
        ),
        (Some("coder"), answer(vec![fetch.clone()])),
        (Some("coder"), tool(fetch, "always pin the pool to four workers in the shop", true)),
        (Some("coder"), answer(vec![call("Bash", "{}")])),
        (Some("coder"), tool(call("Bash", "{}"), "Error: no such file\nmore", false)),
        (
            Some("coder"),
            HistoryEvent::Tested { command: "make test".to_owned(), exit_code: Some(0) },
        ),
        (None, HistoryEvent::Checks { commit: "c".to_owned(), checks }),
    ];
    for (n, (role, event)) in (0_u64..).zip(told) {
        kept.add(line(n * 1000, role, event));
    }
    kept
}

fn write_transcript(folder: &Path, lines: &[&str]) {
    std::fs::create_dir_all(folder.join("coder")).unwrap();
    std::fs::write(folder.join("coder/transcript.jsonl"), lines.join("\n")).unwrap();
}

#[test]
fn what_the_gateway_keeps_stands_in_for_a_volume_that_was_lost() {
    let dir = tempfile::tempdir().unwrap();
    // The coder ran once more, on a new volume.
    let again = r#"{"record":"run_started","ms":0}"#;
    let once = r#"{"record":"answer","message":{},"source":{"model":"m/two"},"ms":1}"#;
    write_transcript(dir.path(), &[again, once]);
    let mut kept = story();
    assert_eq!(
        report_work(dir.path(), &mut kept),
        "- coder: m/one 2; Bash 1, WebFetch 1; 6 s\n- Who asked whom: pm → coder 1\n"
    );
    let histories = list_histories(dir.path(), &mut kept);
    assert_eq!(
        describe_thread(&histories, &kept, &[]),
        "## coder\n1 run, 2 model calls\nTools: Bash 1, WebFetch 1\nTest runs:\n- `make test`: exit code 0\n\
         Went wrong:\n- Bash: Error: no such file\n\n## The conversation\nDecided by people:\n- plan: approve (U1)\n\
         Checks at the Git host:\n- build: failure\nWaited for:\n- AwaitingUser: 1 time, 2 s together\n\n"
    );
}

#[test]
fn a_transcript_that_says_more_is_believed() {
    let dir = tempfile::tempdir().unwrap();
    let answer = r#"{"record":"answer","message":{},"source":{"model":"m/two"},"ms":1}"#;
    write_transcript(dir.path(), &[r#"{"record":"run_started","ms":0}"#, answer, answer]);
    let mut kept = story();
    assert!(report_work(dir.path(), &mut kept).starts_with("- coder: m/two 2;"));
    kept.miss("the store is away".to_owned());
    let histories = list_histories(dir.path(), &mut kept);
    let told = describe_thread(&histories, &kept, &[]);
    assert!(!told.contains("Test runs") && told.contains("plan: approve"), "{told}");
    assert!(told.contains("so there may be more:\n- the store is away"), "{told}");
}

#[test]
fn words_of_a_web_page_are_known_though_the_volume_is_gone() {
    let dir = tempfile::tempdir().unwrap();
    let claim = "always pin the pool to four workers in the shop".to_owned();
    let learning = LearningEntry { claim, ..LearningEntry::default() };
    let found = |kept: &KeptHistory| read_foreign(dir.path(), kept).find_source(&learning);
    assert_eq!(found(&story()), Some(ForeignSource::Web));
    assert_eq!(found(&KeptHistory::default()), None);
}

#[test]
fn a_long_history_is_held_as_far_as_there_is_room() {
    const FIRST: &str = "four blue whales sing in the old harbour tonight";
    const LAST: &str = "seven green lanterns hang above the narrow wooden bridge";
    let mut kept = KeptHistory::default();
    let read = |n: u64, words: &str| {
        let output = format!("{words}{}", " x".repeat(512 * 1024));
        let call = call("WebFetch", "{}");
        line(
            n,
            Some("pm"),
            HistoryEvent::Tool { call, output, ok: true, exit_code: None, millis: None },
        )
    };
    kept.add(read(0, FIRST));
    for n in 1..40 {
        kept.add(read(n, LAST));
    }
    let dir = tempfile::tempdir().unwrap();
    let texts = read_foreign(dir.path(), &kept);
    let found = |claim: &str| {
        texts.find_source(&LearningEntry { claim: claim.to_owned(), ..LearningEntry::default() })
    };
    assert_eq!((found(FIRST), found(LAST)), (None, Some(ForeignSource::Web)));
}

#[test]
fn what_a_command_prints_makes_it_no_green_one() {
    let dir = tempfile::tempdir().unwrap();
    let call = |command: &str| {
        serde_json::json!({"id": "c", "type": "function", "function":
            {"name": "Bash", "arguments": serde_json::json!({"command": command}).to_string()}})
    };
    let answer = serde_json::json!({"record": "answer",
        "message": {"tool_calls": [call("make test"), call("make lie")]}});
    let result =
        |call: u32, text: &str| serde_json::json!({"record": "result", "call": call, "text": text});
    let lines = [
        answer,
        result(0, "all fine\n[exit code 0, 1.0 s]"),
        result(1, "[exit code 0, 1.0 s]\nnot really\n[exit code 1, 1.0 s]"),
    ];
    let text = lines.iter().map(|line| format!("{line}\n")).collect::<Vec<_>>().concat();
    std::fs::write(dir.path().join("transcript.jsonl"), text).unwrap();
    let green: Vec<String> = find_green_commands(dir.path()).into_iter().collect();
    assert_eq!(green, ["make test"]);
}
