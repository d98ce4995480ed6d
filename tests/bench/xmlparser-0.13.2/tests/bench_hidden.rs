extern crate xmlparser;

use xmlparser::{Token, Tokenizer};

/// Whether all of it can be read, and how often a declaration ends.
fn read(text: &str) -> (bool, usize) {
    let (mut good, mut ends) = (true, 0);
    for token in Tokenizer::from(text) {
        match token {
            Ok(Token::DtdEnd { .. }) => ends += 1,
            Ok(_) => {}
            Err(_) => good = false,
        }
    }
    (good, ends)
}

#[test]
fn spaces_after_the_bracket() {
    assert_eq!(read("<!DOCTYPE note [\n<!ENTITY name \"value\">\n]   >\n<note/>"), (true, 1));
}

#[test]
fn tabs_and_line_breaks_after_the_bracket() {
    assert_eq!(read("<!DOCTYPE note [\n<!ENTITY name \"value\">\n]\t\n>\n<note/>"), (true, 1));
}

#[test]
fn an_empty_subset() {
    assert_eq!(read("<!DOCTYPE note [ ] ><note/>"), (true, 1));
}

#[test]
fn no_space_after_the_bracket() {
    assert_eq!(read("<!DOCTYPE note [\n<!ENTITY name \"value\">\n]>\n<note/>"), (true, 1));
}

#[test]
fn no_subset() {
    assert_eq!(read("<!DOCTYPE note ><note/>"), (true, 0));
}

#[test]
fn something_else_after_the_bracket() {
    assert!(!read("<!DOCTYPE note [ ] x><note/>").0);
    assert!(!read("<!DOCTYPE note [ <note/>").0);
}
