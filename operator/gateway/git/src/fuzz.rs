//! Hostile bytes for what reads a pack protocol.

use codebutler_fuzz::{corpus_lines, fuzz_corpus};

use crate::{host, pktline, push};

const PKTLINE: &str = include_str!("../../../../tests/corpus/pktline.txt");
const HOST: &str = include_str!("../../../../tests/corpus/git-host.txt");

#[test]
fn packets_of_any_kind_are_read_or_refused() {
    fuzz_corpus("pkt-line", &corpus_lines(PKTLINE), |bytes| {
        let mut rest = bytes;
        while let Ok(Some((packet, taken))) = pktline::read_packet(rest) {
            assert!((4..=pktline::MAX_PACKET).contains(&taken) && taken <= rest.len());
            if let pktline::PktLine::Data(payload) = packet {
                assert_eq!(payload.len() + 4, taken);
            }
            rest = &rest[taken..];
        }
    });
}

#[test]
fn pushes_of_any_kind_are_read_or_refused() {
    fuzz_corpus("push", &corpus_lines(PKTLINE), |bytes| {
        if let Ok(Some((push, used))) = push::parse_push(bytes) {
            assert!(used <= bytes.len() && used <= push::MAX_COMMANDS);
            assert!(
                push.commands.iter().all(|c| push::is_object(&c.old) && push::is_object(&c.new))
            );
            // A complete command list parses the same whatever bytes follow it.
            assert_eq!(push::parse_push(&bytes[..used]), Ok(Some((push, used))));
        }
    });
}

#[test]
fn answers_of_a_git_host_of_any_kind_are_read_or_refused() {
    fuzz_corpus("Git host", &corpus_lines(HOST), host::fuzz_talk);
}
