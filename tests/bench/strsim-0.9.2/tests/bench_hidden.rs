extern crate strsim;

use strsim::{generic_jaro, generic_jaro_winkler, jaro, jaro_winkler};

#[test]
fn one_equal_letter() {
    assert_eq!(jaro("a", "a"), 1.0);
    assert_eq!(jaro("ß", "ß"), 1.0);
}

#[test]
fn one_equal_letter_winkler() {
    assert_eq!(jaro_winkler("z", "z"), 1.0);
    assert_eq!(jaro_winkler("é", "é"), 1.0);
}

#[test]
fn one_equal_element() {
    assert_eq!(generic_jaro(&[7], &[7]), 1.0);
    assert_eq!(generic_jaro_winkler(&[7], &[7]), 1.0);
}

#[test]
fn one_other_letter() {
    assert_eq!(jaro("a", "b"), 0.0);
    assert_eq!(generic_jaro(&[1], &[2]), 0.0);
}

#[test]
fn empty() {
    assert_eq!(jaro("", ""), 1.0);
    assert_eq!(jaro("a", ""), 0.0);
    assert_eq!(jaro("", "a"), 0.0);
}

#[test]
fn one_against_many() {
    assert_eq!(jaro("a", "bcd"), 0.0);
    assert!(jaro("a", "abc") > 0.0);
}

#[test]
fn longer_words() {
    assert!((jaro("martha", "marhta") - 0.944).abs() < 0.001);
    assert!((jaro_winkler("dixon", "dicksonx") - 0.813).abs() < 0.001);
}
