//! Transcripts that are cut, damaged, or of an earlier version.

use super::*;

fn records() -> Vec<TranscriptRecord> {
    vec![
        TranscriptRecord::RunStarted { run: "r1".into(), at: 1, brief: false },
        TranscriptRecord::Flawed {
            flaw: ReplyFlaw::CutOff { tokens: Some(7) },
            message: AssistantMessage {
                content: Some("one ñ two".into()),
                ..AssistantMessage::default()
            },
            usage: None,
        },
        TranscriptRecord::Flawed {
            flaw: ReplyFlaw::Refused { said: "no \"never\"".into() },
            message: AssistantMessage::default(),
            usage: None,
        },
        TranscriptRecord::Overflowed { shown: 9, window: None },
        TranscriptRecord::Learned { quirk: ModelQuirk::Bridge },
        TranscriptRecord::Facts { text: "- Plan: none".into() },
        TranscriptRecord::Answer {
            message: AssistantMessage {
                content: Some("three".into()),
                ..AssistantMessage::default()
            },
            usage: None,
            source: Some(AnswerSource {
                model: "m".into(),
                by: Some("n".into()),
                shown: Some(5),
                ..AnswerSource::default()
            }),
        },
        TranscriptRecord::Unreadable { why: "ñ \n \"quoted\"".into() },
        TranscriptRecord::Intent { call: 0, key: "k".into(), consent: None },
    ]
}

#[test]
fn a_line_torn_at_any_byte_is_removed_and_the_rest_kept() {
    let dir = tempfile::tempdir().unwrap();
    let mut transcript = OpenTranscript::open(dir.path(), "pm").unwrap();
    for record in records() {
        transcript.append(&record).unwrap();
    }
    drop(transcript);
    let path = dir.path().join("pm/transcript.jsonl");
    let whole = fs::read(&path).unwrap();
    let last = whole[..whole.len() - 1].iter().rposition(|b| *b == b'\n').unwrap() + 1;
    for cut in last..whole.len() {
        for tail in [&b""[..], &b"\0\0"[..], &b"\0\n"[..]] {
            let mut torn = whole[..cut].to_vec();
            if cut > last || tail.is_empty() {
                torn.extend_from_slice(tail);
            }
            fs::write(&path, &torn).unwrap();
            let mut transcript = OpenTranscript::open(dir.path(), "pm").unwrap();
            assert_eq!(fs::read(&path).unwrap(), &whole[..last], "cut at {cut}");
            transcript.append(records().last().unwrap()).unwrap();
            let (kept, _) = parse_records(&fs::read(&path).unwrap()).unwrap();
            assert_eq!(kept, records(), "cut at {cut}");
        }
    }
}

#[test]
fn a_transcript_cut_at_any_byte_goes_on_with_its_whole_lines() {
    let dir = tempfile::tempdir().unwrap();
    let mut transcript = OpenTranscript::open(dir.path(), "pm").unwrap();
    for record in records() {
        transcript.append(&record).unwrap();
    }
    drop(transcript);
    let path = dir.path().join("pm/transcript.jsonl");
    let whole = fs::read(&path).unwrap();
    let next = TranscriptRecord::Unreadable { why: "later".into() };
    for cut in 0..=whole.len() {
        fs::write(&path, &whole[..cut]).unwrap();
        let mut transcript = OpenTranscript::open(dir.path(), "pm").unwrap();
        let lines = whole[..cut].split(|byte| *byte == b'\n').count() - 1;
        let mut expected = TranscriptState::default();
        for record in &records()[..lines] {
            expected.apply(record);
        }
        assert_eq!(transcript.state().chat(), expected.chat(), "cut at {cut}");
        let next_of = |state: &TranscriptState| state.run().map(state::OpenRun::next);
        assert_eq!(next_of(transcript.state()), next_of(&expected), "cut at {cut}");
        assert_eq!(transcript.state().is_new(), lines == 0, "cut at {cut}");
        transcript.append(&next).unwrap();
        drop(transcript);
        let (kept, good) = parse_records(&fs::read(&path).unwrap()).unwrap();
        assert_eq!(kept[..lines], records()[..lines], "cut at {cut}");
        assert_eq!((kept.len(), kept.last()), (lines + 1, Some(&next)), "cut at {cut}");
        assert_eq!(good, fs::read(&path).unwrap().len());
    }
}

#[test]
fn a_transcript_of_an_earlier_version_is_read() {
    let lines = concat!(
        r#"{"record":"run_started","run":"r","at":1}"#,
        "\n",
        r#"{"record":"answer","message":{"content":"hi","reasoning":{"reasoning":"hm"}}}"#,
        "\n"
    );
    let (records, good) = parse_records(lines.as_bytes()).unwrap();
    assert_eq!((records.len(), good), (2, lines.len()));
    let mut state = TranscriptState::default();
    for record in &records {
        state.apply(record);
    }
    assert_eq!(state.run().unwrap().next(), state::NextStep::Post("hi".into()));
}

/// After a rollback an earlier version reads the transcript: a record that it does not know would stop its role for good.
#[test]
fn an_earlier_version_can_read_that_pictures_were_refused() {
    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(tag = "record", rename_all = "snake_case")]
    enum EarlierRecord {
        Blind,
    }
    let some = TranscriptRecord::Blind { newest: vec![1], why: "too large".into() };
    let line = serde_json::to_value(&some).unwrap();
    assert_eq!(EarlierRecord::deserialize(&line).unwrap(), EarlierRecord::Blind);
    assert_eq!(TranscriptRecord::deserialize(&line).unwrap(), some);
    let all = TranscriptRecord::Blind { newest: vec![], why: String::new() };
    let line = serde_json::json!({"record": "blind"});
    assert_eq!(serde_json::to_value(&all).unwrap(), line);
    assert_eq!(TranscriptRecord::deserialize(&line).unwrap(), all);
}

#[test]
fn damage_in_the_middle_stops_everything() {
    let dir = tempfile::tempdir().unwrap();
    let mut transcript = OpenTranscript::open(dir.path(), "pm").unwrap();
    for record in records() {
        transcript.append(&record).unwrap();
    }
    let path = dir.path().join("pm/transcript.jsonl");
    let mut text = fs::read(&path).unwrap();
    text[3] = b'#';
    fs::write(&path, &text).unwrap();
    let error = OpenTranscript::open(dir.path(), "pm").unwrap_err();
    assert!(matches!(error, TranscriptError::Damaged { line: 1, .. }), "{error}");
    assert_eq!(fs::read(&path).unwrap(), text);
}
