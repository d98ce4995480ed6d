//! Hostile bytes for what reads a stream of a provider's.

use codebutler_fuzz::{corpus_lines, fuzz_corpus};

use crate::collect::StreamedAnswer;
use crate::sse::EventTap;

const SSE: &str = include_str!("../../../../tests/corpus/sse.txt");

#[test]
fn streams_of_any_kind_say_the_same_in_pieces() {
    fuzz_corpus("SSE", &corpus_lines(SSE), |bytes| {
        let told = |pieces: &mut dyn Iterator<Item = &[u8]>| {
            let mut tap = EventTap::default();
            pieces.for_each(|piece| tap.pass(piece));
            tap.end();
            (tap.bill(), tap.id, tap.done, tap.images)
        };
        let whole = told(&mut std::iter::once(bytes));
        assert_eq!(told(&mut bytes.chunks(1)), whole);
        let (head, tail) = bytes.split_at(bytes.len() / 2);
        assert_eq!(told(&mut [head, tail].into_iter()), whole);
        let collected = |pieces: &mut dyn Iterator<Item = &[u8]>| {
            let mut answer = StreamedAnswer::default();
            pieces.for_each(|piece| answer.take(piece));
            answer.into_whole()
        };
        let whole = collected(&mut std::iter::once(bytes));
        assert_eq!(collected(&mut bytes.chunks(1)), whole);
        assert_eq!(collected(&mut [head, tail].into_iter()), whole);
    });
}
