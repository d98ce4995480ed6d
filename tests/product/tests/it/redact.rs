//! Redaction against the kept corpus.

use codebutler_gateway_core::redact::SecretRedactor;
use codebutler_testbed::corpus;

#[test]
fn the_corpus_has_no_miss_and_no_false_alarm() {
    let entries = corpus::redaction_corpus().unwrap();
    let secrets = entries.iter().filter(|entry| entry.is_secret()).count();
    assert!(secrets >= 150 && entries.len() - secrets >= 150, "{secrets} of {}", entries.len());
    let (redactor, _) = SecretRedactor::new(&[]);
    let wrong: Vec<String> = entries
        .iter()
        .filter(|entry| redactor.mask(&entry.text) != entry.masked)
        .map(|e| format!("line {}:\n  {}\n  {}", e.line, redactor.mask(&e.text), e.masked))
        .collect();
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), entries.len(), wrong.join("\n"));
}

#[test]
fn secrets_are_found_in_the_middle_of_other_text() {
    let (redactor, _) = SecretRedactor::new(&[]);
    let prose = "The total is wrong because prices are floats; see src/cart.rs:14.\n".repeat(40);
    for entry in corpus::redaction_corpus().unwrap().iter().filter(|entry| entry.is_secret()) {
        let text = format!("{prose}{}\n{prose}", entry.text);
        let masked = format!("{prose}{}\n{prose}", entry.masked);
        assert_eq!(redactor.mask(&text), masked, "line {}", entry.line);
    }
}
