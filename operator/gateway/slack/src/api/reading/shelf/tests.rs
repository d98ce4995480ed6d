use serde_json::json;

use super::*;

fn ts(n: u32) -> SlackTs {
    format!("{n}.000000").parse().unwrap()
}

fn message(n: u32) -> StoredMessage {
    serde_json::from_value(json!({"ts": ts(n), "user": "U1", "text": n.to_string()})).unwrap()
}

fn place() -> SlackThread {
    SlackThread { channel: "C01".to_owned(), ts: ts(100) }
}

fn wanted(after: Option<u32>, marks: &[u32]) -> WantedReading {
    WantedReading {
        after: after.map(ts),
        marks: marks.iter().copied().map(ts).collect(),
        ..WantedReading::default()
    }
}

/// A shelf, and a Slack that knows these messages.
struct Lab {
    shelf: ConversationShelf,
    slack: Vec<u32>,
    epoch: u64,
    now: Instant,
    reads: usize,
}

impl Lab {
    fn new(slack: &[u32]) -> Self {
        let shelf = ConversationShelf::default();
        Self { shelf, slack: slack.to_vec(), epoch: 0, now: Instant::now(), reads: 0 }
    }

    /// The messages that a caller gets.
    fn read(&mut self, wanted: &WantedReading) -> Vec<u32> {
        let answer = self.shelf.look(&place(), wanted, (self.epoch, self.now));
        let reading = match answer {
            ShelfAnswer::Kept(kept) => kept,
            ShelfAnswer::Read(order) => {
                self.reads += 1;
                let mut known = self.slack.clone();
                known.sort_unstable();
                known.retain(|n| order.after.as_ref().is_none_or(|after| ts(*n) > *after));
                let known = known.into_iter().map(message).collect();
                self.shelf.put(&place(), wanted, order, known)
            }
        };
        let number = |m: &StoredMessage| u32::try_from(m.ts.parts().0).unwrap();
        reading.after(wanted.after.as_ref()).iter().map(number).collect()
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
    }
}

#[tokio::test]
async fn without_news_nothing_is_read_again() {
    let mut lab = Lab::new(&[100, 200, 300]);
    for _ in 0..500 {
        assert_eq!(lab.read(&wanted(Some(150), &[100, 200, 300])), [200, 300]);
        // A role that knows more of it.
        assert_eq!(lab.read(&wanted(Some(250), &[300])), [300]);
        lab.pass(Duration::from_secs(2));
    }
    assert_eq!(lab.reads, 1);
    // One that begins has all of it, and so has everybody else from then on.
    assert_eq!(lab.read(&wanted(None, &[300])), [100, 200, 300]);
    assert_eq!(lab.read(&wanted(Some(150), &[300])), [200, 300]);
    assert_eq!(lab.reads, 2);
}

#[tokio::test]
async fn what_is_read_from_before_the_first_message_is_all_of_it() {
    let mut lab = Lab::new(&[100, 200]);
    // A role that has read nothing yet starts before the first message.
    assert_eq!(lab.read(&wanted(Some(1), &[100])), [100, 200]);
    assert_eq!(lab.read(&wanted(None, &[200])), [100, 200]);
    assert_eq!(lab.reads, 1);
}

#[tokio::test]
async fn each_message_costs_one_read_and_comes_once() {
    let mut lab = Lab::new(&[100]);
    lab.read(&wanted(None, &[100]));
    for n in [400, 401, 402] {
        lab.slack.push(n);
        for _ in 0..5 {
            assert_eq!(lab.read(&wanted(None, &[100, n])).last(), Some(&n));
        }
    }
    assert_eq!(lab.read(&wanted(None, &[402])), [100, 400, 401, 402]);
    assert_eq!(lab.reads, 4);
}

#[tokio::test]
async fn a_message_that_appears_late_or_out_of_order_is_found() {
    let mut lab = Lab::new(&[100, 1000]);
    lab.read(&wanted(None, &[100, 1000]));
    // Long before the newest one, and no mark moves for it.
    lab.slack.push(500);
    lab.shelf.hear(&ts(500));
    assert_eq!(lab.read(&wanted(None, &[1000])), [100, 500, 1000]);
    // By another replica, as the Thread says.
    lab.slack.push(600);
    assert_eq!(lab.read(&wanted(None, &[600, 1000])), [100, 500, 600, 1000]);
    // The event comes before the history has it.
    lab.read(&wanted(None, &[1001]));
    lab.slack.push(1001);
    assert_eq!(lab.read(&wanted(None, &[1001])).last(), Some(&1000));
    lab.pass(SOON);
    assert_eq!(lab.read(&wanted(None, &[1001])).last(), Some(&1001));
}

#[tokio::test]
async fn what_is_gone_is_looked_for_a_bounded_number_of_times() {
    let mut lab = Lab::new(&[100]);
    for _ in 0..10_000 {
        assert_eq!(lab.read(&wanted(None, &[100, 200])), [100]);
        lab.pass(Duration::from_millis(100));
    }
    assert!((5..=16).contains(&lab.reads), "{}", lab.reads);
    // While somebody else looks for other things.
    let reads = lab.reads;
    lab.slack.push(300);
    lab.read(&wanted(None, &[300]));
    lab.read(&wanted(None, &[200, 300]));
    assert_eq!(lab.reads, reads + 1);
}

#[tokio::test]
async fn an_edit_drops_what_was_read_also_while_it_is_read() {
    let mut lab = Lab::new(&[100, 200]);
    lab.read(&wanted(None, &[200]));
    let edited = |n| WantedReading { edited: Some(ts(n)), ..wanted(None, &[200]) };
    lab.slack.retain(|n| *n != 200);
    assert_eq!(lab.read(&edited(250)), [100]);
    assert_eq!(lab.read(&edited(250)), [100]);
    assert_eq!(lab.reads, 2);
    // The history may lag behind the event.
    lab.pass(LAG);
    lab.read(&edited(250));
    lab.read(&edited(250));
    assert_eq!(lab.reads, 3);

    let ShelfAnswer::Read(order) = lab.shelf.look(&place(), &edited(260), (0, lab.now)) else {
        panic!("known already")
    };
    let old = vec![message(100)];
    assert!(matches!(lab.shelf.look(&place(), &edited(270), (0, lab.now)), ShelfAnswer::Read(_)));
    lab.shelf.put(&place(), &edited(260), order, old);
    lab.slack = vec![100, 200];
    assert_eq!(lab.read(&edited(270)), [100, 200]);
}

#[tokio::test]
async fn after_a_gap_everything_is_read_anew() {
    let mut lab = Lab::new(&[100, 200]);
    lab.read(&wanted(None, &[200]));
    lab.slack = vec![100];
    lab.epoch += 1;
    assert_eq!(lab.read(&wanted(None, &[])), [100]);
    assert_eq!(lab.reads, 2);
    // Or where somebody must not miss what another process did.
    lab.pass(Duration::from_secs(1));
    let fresh = WantedReading { since: Some(lab.now), ..wanted(None, &[]) };
    lab.read(&fresh);
    lab.read(&fresh);
    assert_eq!(lab.reads, 3);
}

#[tokio::test]
async fn own_words_count_for_those_who_ask_for_them() {
    let mut lab = Lab::new(&[100, 200]);
    lab.read(&wanted(None, &[200]));
    lab.slack.push(300);
    lab.shelf.post(&ts(300));
    assert_eq!(lab.read(&wanted(None, &[200])), [100, 200]);
    let all = WantedReading { own: true, ..wanted(None, &[200]) };
    assert_eq!(lab.read(&all), [100, 200, 300]);
    assert_eq!(lab.reads, 2);
}

#[tokio::test]
async fn of_a_long_conversation_the_newest_part_is_kept() {
    let numbers: Vec<u32> = (100..3000).collect();
    let mut lab = Lab::new(&numbers);
    let all = lab.read(&wanted(None, &[2999]));
    assert_eq!(all.len(), numbers.len());
    let big = "x".repeat(4096);
    lab.epoch += 1;
    let answer = lab.shelf.look(&place(), &wanted(None, &[2999]), (lab.epoch, lab.now));
    let ShelfAnswer::Read(order) = answer else { panic!("kept") };
    let told: Vec<StoredMessage> =
        numbers.iter().map(|n| StoredMessage { text: Some(big.clone()), ..message(*n) }).collect();
    let whole = lab.shelf.put(&place(), &wanted(None, &[2999]), order, told);
    assert_eq!(whole.after(None).len(), numbers.len());
    assert!(lab.shelf.size() <= LARGEST && lab.shelf.size() > LARGEST / 2);
    let reads = lab.reads;
    assert_eq!(lab.read(&wanted(Some(2990), &[2999])).len(), 9);
    assert_eq!(lab.reads, reads);
    assert_eq!(lab.read(&wanted(None, &[2999])).len(), numbers.len());
    assert_eq!(lab.reads, reads + 1);
}

#[test]
fn a_role_need_not_read_its_own_words() {
    let status: ThreadStatus = serde_json::from_value(json!({
        "unmarked": [ts(5)], "edited": ts(9),
        "roles": {
            "pm": {"inbox": ts(6), "said": ts(8)},
            "coder": {"inbox": ts(8), "said": ts(7)},
        },
    }))
    .unwrap();
    let of =
        |reader| WantedReading::of(&status, None, reader).marks.into_iter().collect::<Vec<_>>();
    assert_eq!(of(None), [ts(5), ts(6), ts(7), ts(8)]);
    assert_eq!(of(Some("pm")), [ts(5), ts(6), ts(7)]);
    assert_eq!(of(Some("coder")), [ts(5), ts(6), ts(8)]);
}
