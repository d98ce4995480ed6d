use super::*;

fn message(n: usize, text: &str, addressed: bool) -> ThreadMessage {
    ThreadMessage {
        ts: format!("{}.000000", n + 1).parse().unwrap(),
        author: MessageAuthor::User { id: "U1".into() },
        text: text.into(),
        addressed,
        pictures: vec![],
    }
}

/// Words of which each is a message of the chat, the last `open` of them not answered.
fn heard(texts: &[String], open: usize) -> KeptWords {
    let mut words = KeptWords::default();
    for (n, text) in texts.iter().enumerate() {
        if n + open == texts.len() {
            words.end_run(RunOutcome::Idle);
        }
        words.hear(&[message(n, text, true)], n, true);
    }
    if open == 0 {
        words.end_run(RunOutcome::Idle);
    }
    words
}

#[test]
fn everything_stays_as_it_was_said_where_there_is_room() {
    let texts: Vec<String> = (0..40).map(|n| format!("line {n}\nand more")).collect();
    let mut words = heard(&texts, 2);
    words.post("I look tomorrow.", 3, PostKind::Said);
    let told = words.tell(39, 40_000);
    for (n, text) in texts[..39].iter().enumerate() {
        let whole = show_message(&message(n, text, true));
        assert!(told.contains(&whole), "{n}: {told}");
    }
    assert!(!told.contains("line 39") && !told.contains("left out"), "{told}");
    assert!(told.contains("You have not answered yet: message 39.000000."), "{told}");
    assert!(told.contains("> I look tomorrow."), "{told}");
    assert_eq!(heard(&texts, 0).tell(0, 40_000), "", "all of it is in the chat");
}

#[test]
fn the_task_what_is_open_rules_and_the_newest_stand_in_any_room() {
    let mut texts: Vec<String> =
        (0..300).map(|n| format!("chatter {n} {}", "word ".repeat(n % 90))).collect();
    texts[0] = format!("TASK-ALPHA {}", "detail ".repeat(3_000));
    texts[1] = "Please never touch RULE-BETA.".to_owned();
    texts[150] = "From now on you must keep RULE-DELTA.".to_owned();
    texts[298] = format!("OPEN-ONE {}", "x".repeat(50_000));
    texts[299] = "OPEN-TWO what about it?".to_owned();
    for room in [2_000, 4_000, 8_000, 30_000, 200_000] {
        let told = heard(&texts, 2).tell(300, room);
        assert!(told.len() <= room, "{room}: {}", told.len());
        for part in ["TASK-ALPHA", "OPEN-ONE", "OPEN-TWO", "not answered yet"] {
            assert!(told.contains(part), "{room} {part}: {told}");
        }
        if room >= 4_000 {
            assert!(told.contains("RULE-BETA") && told.contains("RULE-DELTA"), "{room}: {told}");
            assert!(told.contains("In part: ReadConversation"), "{told}");
        }
        assert!(room > 100_000 || told.contains("messages are left out"), "{room}");
        let heads = told.match_indices("[message ").map(|(at, _)| at);
        let order: Vec<SlackTs> =
            heads.map(|at| told[at + 9..].split(' ').next().unwrap().parse().unwrap()).collect();
        assert!(order.is_sorted(), "oldest first: {order:?}");
    }
}

#[test]
fn no_number_and_no_length_of_messages_takes_more_than_the_room() {
    for (count, length) in [(1, 2_000_000), (2_000, 10), (300, 5_000), (50, 0)] {
        for open in [0, 1, count] {
            let text = |n: usize| format!("{n} {}", "ñ\n".repeat(length / 3));
            let texts: Vec<String> = (0..count).map(text).collect();
            let mut words = heard(&texts, open);
            for n in 0..30 {
                words.post(&"promise ".repeat(200), n, PostKind::Said);
            }
            words.post(&"plan ".repeat(5_000), 1, PostKind::Plan);
            words.go_by(&"skill ".repeat(5_000), 1);
            for room in [1_600, 9_000, 150_000] {
                let told = words.tell(count, room).len();
                assert!(told <= room, "{count} of {length}, {open} open: {told} of {room}");
            }
        }
    }
}

#[test]
fn what_is_folded_once_is_told_again_and_again() {
    let texts: Vec<String> = (0..6).map(|n| format!("words {n}")).collect();
    let mut words = heard(&texts, 6);
    words.fold(4);
    // The chat is: the summary, words 4, words 5.
    assert!(words.tell(1, 9_000).contains("words 3") && !words.tell(1, 9_000).contains("words 4"));
    words.fold(2);
    let told = words.tell(1, 9_000);
    assert!(told.contains("words 0") && told.contains("words 4") && !told.contains("words 5"));
    words.end_run(RunOutcome::Waiting);
    assert_eq!(words.open().count(), 6, "who waits has not answered");
    words.end_run(RunOutcome::Idle);
    assert_eq!(words.open().count(), 0);
}
