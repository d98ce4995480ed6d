//! Hostile bytes for what masks secrets.

use codebutler_crds::policy::RedactionRule;
use codebutler_fuzz::fuzz_corpus;

use crate::redact::SecretRedactor;

const REDACTION: &str = include_str!("../../../../tests/corpus/redaction.txt");

#[test]
fn texts_of_any_kind_are_masked_in_whole_characters() {
    let corpus: Vec<Vec<u8>> = REDACTION
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.replace(['¦', '⟦', '⟧'], "").replace('␤', "\n").into_bytes())
        .collect();
    let rule = RedactionRule { name: "own".to_owned(), pattern: r"cust_\w+".to_owned() };
    let (redactor, _) = SecretRedactor::new(&[rule]);
    fuzz_corpus("redaction", &corpus, |bytes| {
        let text = String::from_utf8_lossy(bytes);
        let found = redactor.find(&text);
        let mut end = 0;
        for finding in &found {
            assert!(finding.range.start >= end && finding.range.end > finding.range.start);
            assert!(text.get(finding.range.clone()).is_some(), "in the middle of a character");
            end = finding.range.end;
        }
        let masked = redactor.mask(&text);
        assert_eq!(masked == text, found.is_empty());
    });
}
